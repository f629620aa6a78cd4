//! What can go wrong with a request, independent of any protocol.

use core::fmt;

/// The closed list of failures. Each protocol maps it to its own statuses in one `match`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VolumeErrorKind {
    /// The extent reaches beyond the volume's end.
    OutOfRange,
    /// The medium could not read or write the data.
    Media,
    /// Protection information did not match.
    Protection,
    /// A thin volume's pool, or a file system, is full.
    NoSpace,
    /// The volume is write-protected.
    ReadOnly,
    /// Memory or extent is not aligned as [`Limits`](crate::Limits) asks, or longer than it allows.
    Misaligned,
    /// The volume does not do this operation; see [`Features`](crate::Features).
    Unsupported,
    /// A comparison failed.
    Miscompare {
        /// The first differing byte, counted from the start of the request's extent, which is no longer than [`buf::LARGEST`].
        offset: u32,
    },
    /// [`VolumeQueue::cancel`](crate::VolumeQueue::cancel) was called in time.
    Cancelled,
    /// The volume did not answer in its time limit; whether the request took effect is not known.
    TimedOut,
    /// There is no path to the volume; whether the request took effect is not known.
    Unreachable,
    /// The volume has too much to do; the request was not carried out, and may be made again a little later.
    Busy,
    /// A reservation held by somebody else forbids it.
    ReservationConflict,
    /// The volume is being closed.
    ShuttingDown,
}

impl fmt::Display for VolumeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::OutOfRange => "the extent reaches beyond the end of the volume",
            Self::Media => "the medium could not read or write the data",
            Self::Protection => "the protection information does not match",
            Self::NoSpace => "no space is left behind the volume",
            Self::ReadOnly => "the volume is write-protected",
            Self::Misaligned => "the request is not aligned, or too long, for the volume",
            Self::Unsupported => "the volume does not support the operation",
            Self::Miscompare { offset } => {
                return write!(f, "the data differs at byte {offset} of the extent");
            }
            Self::Cancelled => "the request was cancelled",
            Self::TimedOut => "the volume did not answer in time",
            Self::Unreachable => "there is no path to the volume",
            Self::Busy => "the volume is busy",
            Self::ReservationConflict => "a reservation of another host forbids it",
            Self::ShuttingDown => "the volume is being closed",
        };
        f.write_str(text)
    }
}

impl core::error::Error for VolumeErrorKind {}

impl VolumeErrorKind {
    /// All of them; a comparison that fails does so at the first byte.
    pub const ALL: [Self; 14] = [
        Self::OutOfRange,
        Self::Media,
        Self::Protection,
        Self::NoSpace,
        Self::ReadOnly,
        Self::Misaligned,
        Self::Unsupported,
        Self::Miscompare { offset: 0 },
        Self::Cancelled,
        Self::TimedOut,
        Self::Unreachable,
        Self::Busy,
        Self::ReservationConflict,
        Self::ShuttingDown,
    ];
}

#[cfg(test)]
mod tests {
    use super::VolumeErrorKind::{self, *};

    #[test]
    fn all_are_all() {
        for (index, kind) in VolumeErrorKind::ALL.into_iter().enumerate() {
            // A kind that is new has to be put here, and then into the list.
            let place = match kind {
                OutOfRange => 0,
                Media => 1,
                Protection => 2,
                NoSpace => 3,
                ReadOnly => 4,
                Misaligned => 5,
                Unsupported => 6,
                Miscompare { .. } => 7,
                Cancelled => 8,
                TimedOut => 9,
                Unreachable => 10,
                Busy => 11,
                ReservationConflict => 12,
                ShuttingDown => 13,
            };
            assert_eq!(place, index, "{kind:?}");
        }
    }
}
