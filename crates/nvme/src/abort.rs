//! Abort (NVMe Base §5.1.1): the command's layout.

use wire::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

use crate::sqe::SubmissionQueueEntry;

/// An Abort as it is on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Abort {
    common: [u8; 40],
    /// The submission queue of the command that is to end.
    pub sqid: U16,
    /// Its identifier.
    pub cid: U16,
    reserved: [u8; 20],
}

const _: () = assert!(size_of::<Abort>() == 64);

impl Abort {
    /// The command's view of an entry.
    pub fn view(entry: &SubmissionQueueEntry) -> Self {
        transmute!(*entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opcode::admin::ABORT;

    #[test]
    fn golden_vector() {
        let view = Abort::view(&SubmissionQueueEntry::new(ABORT, 0).with(10, 0x1234_0005));
        assert_eq!((view.sqid.get(), view.cid.get()), (5, 0x1234));
    }
}
