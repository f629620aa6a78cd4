//! What memory a task needs, and the room that is kept for its later pieces.
//!
//! A command gets its memory when it needs it: a read before it goes to the volume, a write before its data is asked for.

use buf::{Account, Buf, LARGEST};

/// The buffers that a task needs, one after the other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BufferNeed {
    /// Bytes of the next.
    pub(super) length: u32,
    /// Bytes of all of them together.
    whole: usize,
    /// Bytes for which room is kept, for those after the first; `None` before the first.
    kept: Option<usize>,
}

impl BufferNeed {
    /// One buffer, of `length` bytes.
    pub(super) fn one(length: u32) -> Self {
        Self { length, whole: length as usize, kept: None }
    }

    /// The next of several buffers that have `whole` bytes together.
    pub(super) fn piece(&mut self, length: u32, whole: u64) {
        (self.length, self.whole) = (length, wire::index(whole));
    }

    /// A buffer for the next piece. A task in several pieces begins only when all of them have room, or many could wait for each other's.
    pub(super) fn take(&mut self, account: &mut Account) -> Option<Buf> {
        let length = (self.length as usize).min(LARGEST);
        match &mut self.kept {
            Some(kept) if *kept > 0 => {
                let buf = account.take_charged(length, *kept)?;
                *kept = kept.saturating_sub(length);
                Some(buf)
            }
            Some(_) => account.take(length),
            None => {
                let rest = self.whole.saturating_sub(length);
                if rest > 0 && !account.charge(rest) {
                    return None;
                }
                let buf = account.take(length);
                if buf.is_some() {
                    self.kept = Some(rest);
                } else {
                    account.release(rest);
                }
                buf
            }
        }
    }

    /// The only buffer that this task needs, if the account may have it at any time.
    pub(super) fn take_from_floor(&mut self, account: &mut Account) -> Option<Buf> {
        let length = self.length as usize;
        if length > LARGEST || self.kept.is_some() || self.whole > length {
            return None;
        }
        let buf = account.take_within_floor(length)?;
        self.kept = Some(0);
        Some(buf)
    }

    /// Gives up the room that is kept.
    #[inline]
    pub(super) fn release(&mut self, account: &mut Account) {
        if let Some(kept) = self.kept.take() {
            account.release(kept);
        }
    }
}
