//! What went wrong with a volume, in SCSI's words, and back: one `match` each way.

use volume::VolumeErrorKind;

use crate::sense::{Additional, Check, SenseKey};

/// How a failed request ends its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// With sense data.
    Check(Check),
    /// RESERVATION CONFLICT.
    Conflict,
    /// TASK ABORTED.
    Aborted,
    /// BUSY.
    Busy,
}

/// What a command does to the medium: its errors have sense data of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediumAccess {
    Reading,
    Writing,
}

/// The end of a command whose request failed.
pub(crate) fn failure(kind: VolumeErrorKind, access: MediumAccess) -> Failure {
    use SenseKey::{AbortedCommand, DataProtect, HardwareError, MediumError, Miscompare};
    let check = match kind {
        VolumeErrorKind::OutOfRange => Check::illegal(Additional::OUT_OF_RANGE),
        VolumeErrorKind::Media if access == MediumAccess::Writing => {
            Check::new(MediumError, Additional::WRITE_ERROR)
        }
        VolumeErrorKind::Media => Check::new(MediumError, Additional::READ_ERROR),
        VolumeErrorKind::Protection => Check::new(AbortedCommand, Additional::GUARD_CHECK),
        VolumeErrorKind::NoSpace => Check::new(DataProtect, Additional::NO_SPACE),
        VolumeErrorKind::ReadOnly => Check::new(DataProtect, Additional::WRITE_PROTECTED),
        VolumeErrorKind::Misaligned => Check::illegal(Additional::INVALID_CDB_FIELD),
        VolumeErrorKind::Unsupported => Check::illegal(Additional::INVALID_OPCODE),
        VolumeErrorKind::Miscompare { offset } => {
            Check { information: Some(offset.into()), ..Check::new(Miscompare, Additional::MISCOMPARE) }
        }
        VolumeErrorKind::TimedOut | VolumeErrorKind::Unreachable => {
            Check::new(AbortedCommand, Additional::COMMUNICATION_FAILURE)
        }
        VolumeErrorKind::ReservationConflict => return Failure::Conflict,
        VolumeErrorKind::Cancelled => return Failure::Aborted,
        VolumeErrorKind::Busy | VolumeErrorKind::ShuttingDown => return Failure::Busy,
        _ => Check::new(HardwareError, Additional::INTERNAL_FAILURE),
    };
    Failure::Check(check)
}

/// What an initiator makes of sense data.
pub fn volume_error(key: SenseKey, code: Additional, information: Option<u64>) -> VolumeErrorKind {
    match (key, code) {
        (SenseKey::IllegalRequest, Additional::OUT_OF_RANGE) => VolumeErrorKind::OutOfRange,
        (SenseKey::IllegalRequest, Additional::INVALID_OPCODE) => VolumeErrorKind::Unsupported,
        (SenseKey::IllegalRequest, _) => VolumeErrorKind::Misaligned,
        (SenseKey::DataProtect, Additional::NO_SPACE) => VolumeErrorKind::NoSpace,
        (SenseKey::DataProtect, _) => VolumeErrorKind::ReadOnly,
        (SenseKey::Miscompare, _) => {
            let offset = information.map_or(0, wire::saturate::<u32>);
            VolumeErrorKind::Miscompare { offset }
        }
        (SenseKey::AbortedCommand, Additional::GUARD_CHECK) => VolumeErrorKind::Protection,
        (SenseKey::AbortedCommand, Additional::COMMUNICATION_FAILURE) | (SenseKey::NotReady, _) => {
            VolumeErrorKind::Unreachable
        }
        (SenseKey::AbortedCommand, _) => VolumeErrorKind::Cancelled,
        _ => VolumeErrorKind::Media,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SPC-4 annex F: what a target of any make may say, and what its user is told.
    #[test]
    fn sense_data_becomes_the_kind_of_error_that_it_tells_of() {
        let cases = [
            ((SenseKey::IllegalRequest, Additional::OUT_OF_RANGE), VolumeErrorKind::OutOfRange),
            ((SenseKey::IllegalRequest, Additional::INVALID_OPCODE), VolumeErrorKind::Unsupported),
            ((SenseKey::IllegalRequest, Additional::INVALID_CDB_FIELD), VolumeErrorKind::Misaligned),
            ((SenseKey::IllegalRequest, Additional::INVALID_PARAMETER), VolumeErrorKind::Misaligned),
            ((SenseKey::DataProtect, Additional::NO_SPACE), VolumeErrorKind::NoSpace),
            ((SenseKey::DataProtect, Additional::WRITE_PROTECTED), VolumeErrorKind::ReadOnly),
            ((SenseKey::Miscompare, Additional::MISCOMPARE), VolumeErrorKind::Miscompare { offset: 7 }),
            ((SenseKey::AbortedCommand, Additional::GUARD_CHECK), VolumeErrorKind::Protection),
            ((SenseKey::AbortedCommand, Additional::COMMUNICATION_FAILURE), VolumeErrorKind::Unreachable),
            ((SenseKey::AbortedCommand, Additional::COMMANDS_CLEARED), VolumeErrorKind::Cancelled),
            ((SenseKey::NotReady, Additional::NONE), VolumeErrorKind::Unreachable),
            ((SenseKey::MediumError, Additional::READ_ERROR), VolumeErrorKind::Media),
            ((SenseKey::HardwareError, Additional::INTERNAL_FAILURE), VolumeErrorKind::Media),
        ];
        for ((key, code), kind) in cases {
            assert_eq!(volume_error(key, code, Some(7)), kind, "{key:?}, {code:?}");
        }
    }
}
