//! Memory of capsules on their way out. A capsule's memory is used again once nobody sends it any more, so that none is allocated per command.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use buf::{Buf, BufList, SharedBuf};

/// The capsules of one role: all have one size.
#[derive(Debug, Default)]
pub(super) struct Capsules {
    /// Those that have gone out, the oldest first: whoever sent them may have them still.
    free: VecDeque<SharedBuf>,
    /// Tables of capsules with data.
    tables: Vec<BufList>,
    /// How many there are in all.
    made: usize,
}

/// Bytes of what administers a capsule's memory, and its place.
const OVERHEAD: usize = 96;
/// Pieces of a capsule with data: itself, and the data, as it usually is.
const PIECES: usize = 2;

impl Capsules {
    /// A capsule of these bytes, with data behind.
    #[inline]
    pub(super) fn fill(&mut self, bytes: &[u8], data: BufList) -> BufList {
        let mut capsule = self.take(bytes.len());
        capsule.copy_from_slice(bytes);
        let capsule = capsule.freeze();
        if data.is_empty() {
            return capsule.into();
        }
        let mut list = self.tables.pop().unwrap_or_else(|| BufList::with_room(PIECES));
        list.push(capsule);
        list.append(data);
        list
    }

    fn take(&mut self, length: usize) -> Buf {
        let oldest = self.free.pop_front().map(SharedBuf::try_unfreeze);
        match oldest {
            Some(Ok(buf)) if buf.len() == length => return buf,
            Some(Err(still_sent)) => self.free.push_back(still_sent),
            _ => {}
        }
        self.made = self.made.saturating_add(1);
        Buf::zeroed(length)
    }

    /// A capsule was sent.
    #[inline]
    pub(super) fn take_back(&mut self, mut list: BufList) {
        let first = list.pieces().first().cloned();
        if list.pieces().len() > 1 {
            list.clear();
            self.tables.push(list);
        } else {
            drop(list);
        }
        self.free.extend(first);
    }

    /// Bytes of all of them, of capsules of `length` bytes.
    pub(super) fn size(&self, length: usize) -> usize {
        self.made.saturating_mul(length.saturating_add(OVERHEAD))
    }
}
