//! PERSISTENT RESERVE IN and OUT (SPC-4 §6.15, §6.16) in the words of [`volume::reservation`].

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write as _;

use volume::reservation::{Command, CommandError, Registrant, Registration, ReservationType, View};
use wire::Reader;
use wire::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

use crate::builder::Block;
use crate::cdb::Cdb;
use crate::page::Page;
use crate::sense::{Additional, Check};

/// The CDB of a PERSISTENT RESERVE OUT.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct OutCdb {
    opcode: u8,
    /// SERVICE ACTION (bits 4:0).
    action: u8,
    /// SCOPE (bits 7:4) and TYPE (bits 3:0).
    scope_and_type: u8,
    reserved: [u8; 2],
    length: U32,
    control: u8,
    /// What a CDB of this length does not have.
    rest: [u8; 6],
}

/// The CDB of a PERSISTENT RESERVE IN.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct InCdb {
    opcode: u8,
    action: u8,
    reserved: [u8; 5],
    allocation: U16,
    control: u8,
    rest: [u8; 6],
}

const _: () = assert!(size_of::<OutCdb>() == 16 && size_of::<InCdb>() == 16);

/// The parameter list of every PERSISTENT RESERVE OUT but REGISTER AND MOVE's.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct OutList {
    key: U64,
    /// SERVICE ACTION RESERVATION KEY.
    action_key: U64,
    obsolete: [u8; 4],
    /// SPEC_I_PT (bit 3), ALL_TG_PT (bit 2) and APTPL (bit 0).
    flags: u8,
    reserved: [u8; 3],
}

const _: () = assert!(size_of::<OutList>() == RESERVE_LIST);

impl OutList {
    const SPEC_I_PT: u8 = 1 << 3;
    const ALL_TG_PT: u8 = 1 << 2;
    const APTPL: u8 = 1 << 0;

    /// True when it asks for what is not among the reported capabilities.
    fn asks_for_more(&self) -> bool {
        self.flags & (Self::SPEC_I_PT | Self::ALL_TG_PT | Self::APTPL) != 0
    }

    /// The flags of a registration that survives a loss of power, or does not.
    const fn persistence(persist: bool) -> u8 {
        if persist { Self::APTPL } else { 0 }
    }
}

/// The front of a full status descriptor (SPC-4 §6.15.5), before the TransportID.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FullStatus {
    key: U64,
    reserved8: [u8; 4],
    /// ALL_TG_PT (bit 1) and R_HOLDER (bit 0).
    flags: u8,
    /// SCOPE (bits 7:4) and TYPE (bits 3:0).
    scope_and_type: u8,
    reserved14: [u8; 4],
    relative_port: U16,
    /// Bytes of the TransportID.
    additional_length: U32,
}

const _: () = assert!(size_of::<FullStatus>() == 24);

impl FullStatus {
    const R_HOLDER: u8 = 1 << 0;

    /// The reservation's type, if the registrant holds it.
    fn held(&self) -> Option<ReservationType> {
        if self.flags & Self::R_HOLDER == 0 { None } else { kind_from_wire(type_of(self.scope_and_type)) }
    }
}

/// TYPE of a byte that says scope and type.
const fn type_of(scope_and_type: u8) -> u8 {
    scope_and_type & 0x0f
}

/// A TransportID (SPC-4 §7.6.4), before the name in it.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct TransportId {
    /// TPID FORMAT (bits 7:6) and PROTOCOL IDENTIFIER (bits 3:0).
    format: u8,
    reserved: u8,
    additional_length: U16,
}

const _: () = assert!(size_of::<TransportId>() == 4);

impl TransportId {
    /// An iSCSI initiator port.
    const ISCSI_PORT: u8 = 0x45;
    /// An iSCSI initiator device.
    const ISCSI_DEVICE: u8 = 0x05;

    /// True when what follows is an iSCSI name.
    fn is_iscsi(self) -> bool {
        self.format & 0x0f == Self::ISCSI_DEVICE
    }
}

/// The length of every PERSISTENT RESERVE OUT parameter list but REGISTER AND MOVE's.
pub(crate) const OUT_LENGTH: u32 = 24;
/// The same as the size of a list.
pub const RESERVE_LIST: usize = 24;
/// Scope: the logical unit.
const LU_SCOPE: u8 = 0;

/// What the CDB of a PERSISTENT RESERVE OUT says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutParameters {
    pub(crate) action: u8,
    pub(crate) kind: u8,
}

/// Service actions of PERSISTENT RESERVE OUT.
pub(crate) mod out {
    pub(crate) const REGISTER: u8 = 0;
    pub(crate) const RESERVE: u8 = 1;
    pub(crate) const RELEASE: u8 = 2;
    pub(crate) const CLEAR: u8 = 3;
    pub(crate) const PREEMPT: u8 = 4;
    pub(crate) const PREEMPT_AND_ABORT: u8 = 5;
    pub(crate) const REGISTER_AND_IGNORE: u8 = 6;
}

fn kind_from_wire(kind: u8) -> Option<ReservationType> {
    Some(match kind {
        1 => ReservationType::WriteExclusive,
        3 => ReservationType::ExclusiveAccess,
        5 => ReservationType::WriteExclusiveRegistrants,
        6 => ReservationType::ExclusiveAccessRegistrants,
        7 => ReservationType::WriteExclusiveAll,
        8 => ReservationType::ExclusiveAccessAll,
        _ => return None,
    })
}

fn kind_to_wire(kind: ReservationType) -> u8 {
    match kind {
        ReservationType::WriteExclusive => 1,
        ReservationType::ExclusiveAccess => 3,
        ReservationType::WriteExclusiveRegistrants => 5,
        ReservationType::ExclusiveAccessRegistrants => 6,
        ReservationType::WriteExclusiveAll => 7,
        ReservationType::ExclusiveAccessAll => 8,
    }
}

/// Reads the CDB of a PERSISTENT RESERVE OUT.
pub(crate) fn out_parameters(cdb: Cdb<'_>) -> Result<OutParameters, Check> {
    let parameters = OutParameters { action: cdb.bits(1, 4, 0), kind: cdb.bits(2, 3, 0) };
    let typed =
        matches!(parameters.action, out::RESERVE | out::RELEASE | out::PREEMPT | out::PREEMPT_AND_ABORT);
    if typed && (cdb.bits(2, 7, 4) != LU_SCOPE || kind_from_wire(parameters.kind).is_none()) {
        return Err(Check::cdb_field(2));
    }
    if cdb.u32(5) != OUT_LENGTH {
        return Err(Check::illegal(Additional::PARAMETER_LIST_LENGTH));
    }
    Ok(parameters)
}

/// The command that CDB and parameter list ask for together.
pub(crate) fn out_command(parameters: OutParameters, list: &[u8]) -> Result<Command, Check> {
    let Ok((list, _)) = OutList::ref_from_prefix(list) else {
        return Err(Check::illegal(Additional::PARAMETER_LIST_LENGTH));
    };
    if list.asks_for_more() {
        return Err(Check::parameter(20));
    }
    let (key, new_key) = (list.key.get(), list.action_key.get());
    let kind = kind_from_wire(parameters.kind).ok_or(Check::cdb_field(2));
    Ok(match parameters.action {
        out::REGISTER => Command::Register { key: Some(key), new_key, persist: Some(false) },
        out::REGISTER_AND_IGNORE => Command::Register { key: None, new_key, persist: Some(false) },
        out::RESERVE => Command::Reserve { key, kind: kind? },
        out::RELEASE => Command::Release { key, kind: kind? },
        out::CLEAR => Command::Clear { key },
        out::PREEMPT => Command::Preempt { key, victim: new_key, kind: kind?, abort: false },
        out::PREEMPT_AND_ABORT => Command::Preempt { key, victim: new_key, kind: kind?, abort: true },
        _ => return Err(Check::cdb_field(1)),
    })
}

/// The check condition of a refusal; `None` for a reservation conflict.
pub(crate) fn refusal(refused: CommandError) -> Option<Check> {
    match refused {
        CommandError::Conflict => None,
        CommandError::WrongType => Some(Check::illegal(Additional::INVALID_RELEASE)),
        CommandError::Invalid => Some(Check::parameter(8)),
        CommandError::Full => Some(Check::illegal(Additional::NO_REGISTRATIONS)),
    }
}

/// READ KEYS data.
pub(crate) fn keys(view: &View) -> Vec<u8> {
    let mut page = Page::new();
    page.u32(view.generation).u32(0);
    for registration in &view.registrations {
        page.u64(registration.key);
    }
    page.length_u32(4).take()
}

/// READ RESERVATION data.
pub(crate) fn reservation(view: &View) -> Vec<u8> {
    let mut page = Page::new();
    page.u32(view.generation).u32(0);
    if let Some((kind, holder)) = &view.reservation {
        let key = holder.as_ref().and_then(|holder| view.key_of(holder)).unwrap_or(0);
        page.u64(key).u32(0).u8(0).u8(kind_to_wire(*kind)).u16(0);
    }
    page.length_u32(4).take()
}

/// REPORT CAPABILITIES data: no CRH, SIP_C, ATP_C or PTPL_C; all six types (TMV).
pub(crate) fn capabilities() -> Vec<u8> {
    Page::new().u16(8).u8(0).u8(0x80).u8(0xea).u8(0x01).u16(0).take()
}

/// READ FULL STATUS data.
pub(crate) fn full_status(view: &View) -> Vec<u8> {
    let mut page = Page::new();
    page.u32(view.generation).u32(0);
    for registration in &view.registrations {
        let holds = view.holds(&registration.registrant);
        let kind = view.reservation.as_ref().filter(|_| holds).map_or(0, |(kind, _)| kind_to_wire(*kind));
        let (port, transport) = transport_id(&registration.registrant);
        let status = FullStatus {
            key: U64::new(registration.key),
            reserved8: [0; 4],
            flags: if holds { FullStatus::R_HOLDER } else { 0 },
            scope_and_type: kind,
            reserved14: [0; 4],
            relative_port: U16::new(port),
            additional_length: U32::new(wire::bounded::<u32>(transport.len())),
        };
        page.put(status.as_bytes()).put(&transport);
    }
    page.length_u32(4).take()
}

/// The relative port and the TransportID (SPC-4 §7.6.4): iSCSI's with the initiator port's name; hosts of other
/// protocols appear under theirs, as a name with the same shape.
fn transport_id(registrant: &Registrant) -> (u16, Vec<u8>) {
    let (format, port, name) = match registrant {
        Registrant::Nexus { initiator_port, relative_port, .. } => {
            (TransportId::ISCSI_PORT, *relative_port, initiator_port)
        }
        Registrant::Host { nqn, .. } => (TransportId::ISCSI_DEVICE, 0, nqn),
    };
    let mut page = Page::new();
    page.u8(format).u8(0).u16(0).put(name.as_bytes()).u8(0);
    let padded = page.len().next_multiple_of(4);
    (port, page.pad_to(padded).length_u16(2).take())
}

/// A PERSISTENT RESERVE OUT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReserveOut {
    /// The command descriptor block.
    pub cdb: Block,
    /// The parameter list.
    pub list: [u8; RESERVE_LIST],
}

/// An initiator's PERSISTENT RESERVE OUT for a change.
pub fn reserve_out(change: &Command) -> ReserveOut {
    let (action, kind, key, new_key, persist) = match *change {
        Command::Register { key: Some(key), new_key, persist } => {
            (out::REGISTER, None, key, new_key, persist)
        }
        Command::Register { key: None, new_key, persist } => {
            (out::REGISTER_AND_IGNORE, None, 0, new_key, persist)
        }
        Command::Reserve { key, kind } => (out::RESERVE, Some(kind), key, 0, None),
        Command::Release { key, kind } => (out::RELEASE, Some(kind), key, 0, None),
        Command::Clear { key } => (out::CLEAR, None, key, 0, None),
        Command::Preempt { key, victim, kind, abort } => {
            let action = if abort { out::PREEMPT_AND_ABORT } else { out::PREEMPT };
            (action, Some(kind), key, victim, None)
        }
    };
    let cdb = OutCdb {
        opcode: 0x5f,
        action,
        scope_and_type: kind.map_or(0, kind_to_wire),
        reserved: [0; 2],
        length: U32::new(OUT_LENGTH),
        control: 0,
        rest: [0; 6],
    };
    let list = OutList {
        key: U64::new(key),
        action_key: U64::new(new_key),
        obsolete: [0; 4],
        flags: OutList::persistence(persist == Some(true)),
        reserved: [0; 3],
    };
    ReserveOut { cdb: transmute!(cdb), list: transmute!(list) }
}

/// The service action READ FULL STATUS of PERSISTENT RESERVE IN.
const READ_FULL_STATUS: u8 = 3;

/// An initiator's PERSISTENT RESERVE IN: READ FULL STATUS.
pub fn reserve_in(allocation: u16) -> Block {
    transmute!(InCdb {
        opcode: 0x5e,
        action: READ_FULL_STATUS,
        reserved: [0; 5],
        allocation: U16::new(allocation),
        control: 0,
        rest: [0; 6],
    })
}

/// What READ FULL STATUS data says, as far as its bytes reach; `None` if it is none. The target ports of the registrants are not in
/// it by name.
pub fn read_full_status(data: &[u8]) -> Option<View> {
    let mut reader = Reader::new(data);
    let mut view = View { generation: reader.u32_be().ok()?, ..View::default() };
    let length = usize::try_from(reader.u32_be().ok()?).ok()?;
    let mut list = Reader::new(reader.rest().get(..length).unwrap_or(reader.rest()));
    while let Some(ReportedRegistration { registration, held }) = full_status_descriptor(&mut list) {
        if let Some(kind) = held {
            let holder = (!kind.is_all()).then(|| registration.registrant.clone());
            view.reservation = Some((kind, holder));
        }
        view.registrations.push(registration);
    }
    Some(view)
}

/// A registration, and the reservation's type if it holds it.
struct ReportedRegistration {
    registration: Registration,
    held: Option<ReservationType>,
}

/// The next registration of a list, if it is there whole.
fn full_status_descriptor(list: &mut Reader<'_>) -> Option<ReportedRegistration> {
    let status = FullStatus::read_from_bytes(list.take(size_of::<FullStatus>()).ok()?).ok()?;
    let length = wire::index(status.additional_length.get().into());
    let initiator_port = Arc::from(port_name(list.take(length).ok()?));
    let relative_port = status.relative_port.get();
    let registrant = Registrant::Nexus { initiator_port, target_port: Arc::from(""), relative_port };
    let registration = Registration { registrant, key: status.key.get() };
    Some(ReportedRegistration { registration, held: status.held() })
}

/// The name in a TransportID: iSCSI's is text, others are written as their bytes.
fn port_name(transport: &[u8]) -> String {
    match TransportId::read_from_prefix(transport) {
        Ok((id, name)) if id.is_iscsi() => {
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            String::from_utf8_lossy(name.get(..end).unwrap_or_default()).into_owned()
        }
        _ => transport.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_go_round() {
        for wire in 0..16 {
            if let Some(kind) = kind_from_wire(wire) {
                assert_eq!(kind_to_wire(kind), wire);
            }
        }
    }

    #[test]
    fn what_an_initiator_asks_is_what_a_target_reads() {
        let mut all = alloc::vec![
            Command::Register { key: Some(0), new_key: 7, persist: Some(false) },
            Command::Register { key: None, new_key: 7, persist: Some(false) },
            Command::Clear { key: 0x0102 },
        ];
        for kind in ReservationType::ALL {
            all.push(Command::Reserve { key: 1, kind });
            all.push(Command::Release { key: 1, kind });
            all.push(Command::Preempt { key: 1, victim: 2, kind, abort: false });
            all.push(Command::Preempt { key: 1, victim: 2, kind, abort: true });
        }
        for wanted in all {
            let ReserveOut { cdb, list } = reserve_out(&wanted);
            let parameters = out_parameters(Cdb(&cdb)).unwrap();
            assert_eq!(out_command(parameters, &list), Ok(wanted));
        }
        let ReserveOut { cdb, list } =
            reserve_out(&Command::Register { key: None, new_key: 1, persist: Some(true) });
        assert_eq!((cdb[..9].to_vec(), list[20]), (alloc::vec![0x5f, 6, 0, 0, 0, 0, 0, 0, 24], 1));
        assert_eq!(reserve_in(0x1234)[..10], [0x5e, 3, 0, 0, 0, 0, 0, 0x12, 0x34, 0]);
    }

    #[test]
    fn full_status_is_read_as_far_as_it_reaches() {
        let nexus = |name: &str| Registrant::Nexus {
            initiator_port: name.into(),
            target_port: "".into(),
            relative_port: 1,
        };
        let (one, two) =
            (nexus("iqn.2026-11.org.example:one,i,0x1"), nexus("iqn.2026-11.org.example:two,i,0x2"));
        let mut view = View {
            generation: 9,
            registrations: alloc::vec![
                Registration { registrant: one, key: 1 },
                Registration { registrant: two.clone(), key: 2 },
            ],
            reservation: Some((ReservationType::ExclusiveAccess, Some(two))),
            persist: false,
        };
        assert_eq!(read_full_status(&full_status(&view)), Some(view.clone()));
        view.reservation = Some((ReservationType::WriteExclusiveAll, None));
        let data = full_status(&view);
        assert_eq!(read_full_status(&data), Some(view));
        assert_eq!(read_full_status(&data[..data.len() - 1]).unwrap().registrations.len(), 1);
        assert_eq!(read_full_status(&data[..7]), None);
        assert_eq!(port_name(&[0x06, 0xab]), "06ab", "SAS");
    }

    #[test]
    fn what_is_not_offered_is_refused() {
        let register = OutParameters { action: out::REGISTER, kind: 0 };
        for flags in [0x01, 0x04, 0x08] {
            let mut list = [0; 24];
            list[20] = flags;
            assert_eq!(out_command(register, &list), Err(Check::parameter(20)), "{flags:#x}");
        }
        assert!(out_command(register, &[0; 24]).is_ok());
        assert!(out_command(register, &[0; 23]).is_err());
    }
}
