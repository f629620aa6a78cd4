//! PERSISTENT RESERVE IN and OUT (SPC-4 §6.15, §6.16) in the words of [`volume::reservation`].

use alloc::vec::Vec;

use volume::reservation::{Command, Refused, Registrant, ReservationType, View};

use crate::cdb::Cdb;
use crate::page::Page;
use crate::sense::{Additional, Check};

/// The length of every PERSISTENT RESERVE OUT parameter list but REGISTER AND MOVE's.
pub(crate) const OUT_LENGTH: u32 = 24;
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
    if list.len() < usize::try_from(OUT_LENGTH).unwrap_or(usize::MAX) {
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
pub(crate) fn refusal(refused: Refused) -> Option<Check> {
    match refused {
        Refused::Conflict => None,
        Refused::WrongType => Some(Check::illegal(Additional::INVALID_RELEASE)),
        Refused::Invalid => Some(Check::parameter(8)),
        Refused::Full => Some(Check::illegal(Additional::NO_REGISTRATIONS)),
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
