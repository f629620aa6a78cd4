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

/// The end of a command whose request failed; `writing` tells medium errors apart.
pub(crate) fn failure(kind: VolumeErrorKind, writing: bool) -> Failure {
    use SenseKey::{AbortedCommand, DataProtect, HardwareError, MediumError, Miscompare};
    let check = match kind {
        VolumeErrorKind::OutOfRange => Check::illegal(Additional::OUT_OF_RANGE),
        VolumeErrorKind::Media if writing => Check::new(MediumError, Additional::WRITE_ERROR),
        VolumeErrorKind::Media => Check::new(MediumError, Additional::READ_ERROR),
        VolumeErrorKind::Protection => Check::new(AbortedCommand, Additional::GUARD_CHECK),
        VolumeErrorKind::NoSpace => Check::new(DataProtect, Additional::NO_SPACE),
        VolumeErrorKind::ReadOnly => Check::new(DataProtect, Additional::WRITE_PROTECTED),
        VolumeErrorKind::Misaligned => Check::illegal(Additional::INVALID_CDB_FIELD),
        VolumeErrorKind::Unsupported => Check::illegal(Additional::INVALID_OPCODE),
        VolumeErrorKind::Miscompare { offset } => {
            Check { information: Some(offset), ..Check::new(Miscompare, Additional::MISCOMPARE) }
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
        (SenseKey::Miscompare, _) => VolumeErrorKind::Miscompare { offset: information.unwrap_or(0) },
        (SenseKey::AbortedCommand, Additional::GUARD_CHECK) => VolumeErrorKind::Protection,
        (SenseKey::AbortedCommand, Additional::COMMUNICATION_FAILURE) | (SenseKey::NotReady, _) => {
            VolumeErrorKind::Unreachable
        }
        (SenseKey::AbortedCommand, _) => VolumeErrorKind::Cancelled,
        _ => VolumeErrorKind::Media,
    }
}
