//! Memory of messages on their way out, which is used again once nobody sends it any more, so that none is allocated per message.

use alloc::collections::VecDeque;

use buf::{Buf, BufList, SharedBuf};

/// Messages of one connection: none is longer than its inline threshold.
#[derive(Debug, Default)]
pub(super) struct SendMemory {
    /// Those that have gone out, the oldest first: whoever sent them may have them still.
    free: VecDeque<SharedBuf>,
    /// How many there are in all.
    made: usize,
    /// Bytes of each.
    size: usize,
}

impl SendMemory {
    /// Messages of at most so many bytes from now on.
    pub(super) fn set_size(&mut self, size: usize) {
        if size != self.size {
            (self.size, self.made) = (size, 0);
            self.free.clear();
        }
    }

    /// A message of these parts, `length` bytes in all and no more than its size.
    pub(super) fn fill<'a>(&mut self, length: usize, parts: impl Iterator<Item = &'a [u8]>) -> BufList {
        let mut memory = self.take(length);
        memory.set_len(length);
        let mut at = 0;
        for part in parts {
            let end = part.len().saturating_add(at);
            if let Some(place) = memory.get_mut(at..end) {
                place.copy_from_slice(part);
            }
            at = end;
        }
        debug_assert_eq!(at, length, "the parts are as long as was said");
        memory.freeze().into()
    }

    fn take(&mut self, length: usize) -> Buf {
        match self.free.pop_front().map(SharedBuf::try_unfreeze) {
            Some(Ok(memory)) if memory.capacity() >= length => return memory,
            Some(Err(still_sent)) => self.free.push_back(still_sent),
            _ => {}
        }
        self.made = self.made.saturating_add(1);
        Buf::zeroed(self.size.max(length))
    }

    /// A message was sent.
    pub(super) fn take_back(&mut self, message: BufList) {
        self.free.extend(message.into_pieces().next());
    }

    /// Bytes of all of them.
    pub(super) fn held(&self) -> usize {
        self.made.saturating_mul(self.size)
    }
}
