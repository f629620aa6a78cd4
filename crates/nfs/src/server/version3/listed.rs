//! A listing under way, and how much it may tell.

use alloc::boxed::Box;

use filesystem::{ENTRY_OBJECT_BYTES, Object};

use crate::limits::LISTING;
use crate::v3::Status;
use crate::v3::procedure::{Entries, List};

/// Bytes of the results beside the entries: attributes, verifier, the end of the list, and eof.
const RESULT: usize = 104;
/// Bytes that `.` and `..` take each; READDIRPLUS tells what they lead to, too.
const DOT: usize = 28;
/// The cookie behind `.`, and behind `..`.
pub(super) const SELF: u64 = 1;
pub(super) const PARENT: u64 = 2;

/// A listing under way.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) list: List,
    /// The directory above; nothing at the top, and where the caller may not look for it.
    pub(super) parent: Option<Box<Object>>,
    /// Nothing is above.
    pub(super) at_top: bool,
}

impl Listing {
    /// Whether it begins before what the file system lists.
    pub(super) fn has_dots(&self) -> bool {
        self.list.cookie < PARENT
    }

    pub(super) fn with_objects(&self) -> bool {
        self.list.entries != Entries::Names
    }

    /// Bytes for entries, `.` and `..` not counted.
    pub(super) fn room(&self) -> Result<usize, Status> {
        let dot = if self.with_objects() { DOT + ENTRY_OBJECT_BYTES } else { DOT };
        let dots = match self.list.cookie {
            0 => 2 * dot,
            SELF => dot,
            _ => 0,
        };
        let most = wire::index(self.list.count.min(LISTING).into());
        most.checked_sub(RESULT).and_then(|room| room.checked_sub(dots)).ok_or(Status::TOOSMALL)
    }
}
