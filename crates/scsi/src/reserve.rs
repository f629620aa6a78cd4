//! PERSISTENT RESERVE IN and OUT (SPC-4 §6.15, §6.16) in the words of [`volume::reservation`].

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write as _;

use volume::reservation::{Command, CommandError, Registrant, Registration, ReservationType, View};
use wire::Reader;

use crate::builder::Block;
use crate::cdb::Cdb;
use crate::page::Page;
use crate::sense::{Additional, Check};

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
    let reader = Cdb(list);
    if list.len() < OUT_LENGTH as usize {
        return Err(Check::illegal(Additional::PARAMETER_LIST_LENGTH));
    }
    // SPEC_I_PT, ALL_TG_PT and APTPL are not among the reported capabilities.
    if reader.bit(20, 3) || reader.bit(20, 2) || reader.bit(20, 0) {
        return Err(Check::parameter(20));
    }
    let (key, new_key) = (reader.u64(0), reader.u64(8));
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
        page.u64(registration.key).u32(0).u8(u8::from(holds)).u8(kind).u32(0);
        let (port, transport) = transport_id(&registration.registrant);
        page.u16(port).u32(u32::try_from(transport.len()).unwrap_or(0)).put(&transport);
    }
    page.length_u32(4).take()
}

/// The relative port and the TransportID (SPC-4 §7.6.4): iSCSI's with the initiator port's name; hosts of other
/// protocols appear under theirs, as a name with the same shape.
fn transport_id(registrant: &Registrant) -> (u16, Vec<u8>) {
    const ISCSI_PORT_FORMAT: u8 = 0x45;
    const ISCSI_DEVICE_FORMAT: u8 = 0x05;
    let (format, port, name) = match registrant {
        Registrant::Nexus { initiator_port, relative_port, .. } => {
            (ISCSI_PORT_FORMAT, *relative_port, initiator_port)
        }
        Registrant::Host { nqn, .. } => (ISCSI_DEVICE_FORMAT, 0, nqn),
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
    let mut cdb = [0; 16];
    cdb[0] = 0x5f;
    cdb[1] = action;
    cdb[2] = kind.map_or(0, kind_to_wire);
    cdb[5..9].copy_from_slice(&OUT_LENGTH.to_be_bytes());
    let mut list = [0; RESERVE_LIST];
    list[..8].copy_from_slice(&key.to_be_bytes());
    list[8..16].copy_from_slice(&new_key.to_be_bytes());
    list[20] = u8::from(persist == Some(true));
    ReserveOut { cdb, list }
}

/// An initiator's PERSISTENT RESERVE IN: READ FULL STATUS.
pub fn reserve_in(allocation: u16) -> Block {
    let mut cdb = [0; 16];
    cdb[0] = 0x5e;
    cdb[1] = 3;
    cdb[7..9].copy_from_slice(&allocation.to_be_bytes());
    cdb
}

/// What READ FULL STATUS data says, as far as its bytes reach; `None` if it is none. The target ports of the registrants are not in
/// it by name.
pub fn read_full_status(data: &[u8]) -> Option<View> {
    let mut reader = Reader::new(data);
    let mut view = View { generation: reader.u32_be().ok()?, ..View::default() };
    let length = usize::try_from(reader.u32_be().ok()?).ok()?;
    let mut list = Reader::new(reader.rest().get(..length).unwrap_or(reader.rest()));
    while let Some((registration, held)) = full_status_descriptor(&mut list) {
        if let Some(kind) = held {
            let holder = (!kind.is_all()).then(|| registration.registrant.clone());
            view.reservation = Some((kind, holder));
        }
        view.registrations.push(registration);
    }
    Some(view)
}

/// A registration, and the reservation's type if it holds it.
fn full_status_descriptor(list: &mut Reader<'_>) -> Option<(Registration, Option<ReservationType>)> {
    let key = list.u64_be().ok()?;
    list.skip(4).ok()?;
    let [flags, kind] = list.array().ok()?;
    list.skip(4).ok()?;
    let relative_port = list.u16_be().ok()?;
    let length = usize::try_from(list.u32_be().ok()?).ok()?;
    let initiator_port = Arc::from(port_name(list.take(length).ok()?));
    let registrant = Registrant::Nexus { initiator_port, target_port: Arc::from(""), relative_port };
    let held = (flags & 1 != 0).then(|| kind_from_wire(kind & 0x0f)).flatten();
    Some((Registration { registrant, key }, held))
}

/// The name in a TransportID: iSCSI's is text, others are written as their bytes.
fn port_name(transport: &[u8]) -> String {
    const ISCSI: u8 = 5;
    match transport {
        [format, _, _, _, name @ ..] if format & 0x0f == ISCSI => {
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            String::from_utf8_lossy(name.get(..end).unwrap_or_default()).into_owned()
        }
        other => other.iter().fold(String::new(), |mut text, byte| {
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
