//! Which commands of a queue are to end, and who waits for the outcome (NVMe Base §5.1.1).

use alloc::vec::Vec;

/// Aborts that wait for the end of a command of this queue.
#[derive(Debug, Default)]
pub(super) struct AbortTable {
    pending: Vec<PendingAbort>,
    /// The command is still in the stream, where it waits for memory.
    unread: Option<UnreadAbort>,
}

/// A command that is to end.
#[derive(Debug, Clone, Copy)]
struct PendingAbort {
    slot: u16,
    /// Tag of the Abort that waits for the outcome, if there is one.
    abort: Option<u16>,
}

/// A command that is to end as soon as it is read.
#[derive(Debug, Clone, Copy)]
struct UnreadAbort {
    cid: u16,
    /// Tag of the Abort that waits for the outcome.
    abort: u16,
}

impl AbortTable {
    /// True when no command with a slot is to end.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// True when the command of this slot is to end.
    pub(super) fn is_pending_for(&self, slot: u16) -> bool {
        self.pending.iter().any(|pending| pending.slot == slot)
    }

    /// The command of this slot is to end, and the Abort waits for that.
    pub(super) fn add(&mut self, slot: u16, abort: Option<u16>) {
        self.pending.push(PendingAbort { slot, abort });
    }

    /// The command with this identifier is to end when it is read.
    pub(super) fn add_unread(&mut self, cid: u16, abort: u16) {
        self.unread = Some(UnreadAbort { cid, abort });
    }

    /// The Abort of this command, which has now been read.
    pub(super) fn take_unread(&mut self, cid: u16) -> Option<u16> {
        self.unread.take_if(|unread| unread.cid == cid).map(|unread| unread.abort)
    }

    /// Forgets a command, which has ended: the Aborts that waited for it, in order.
    pub(super) fn take(&mut self, slot: u16) -> Vec<u16> {
        self.pending
            .extract_if(.., |pending| pending.slot == slot)
            .filter_map(|pending| pending.abort)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_abort_of_a_command_is_answered_once_when_it_has_ended() {
        let mut table = AbortTable::default();
        for (slot, abort) in [(1, Some(10)), (2, Some(11)), (1, None), (1, Some(12))] {
            table.add(slot, abort);
        }
        assert!(table.is_pending_for(1) && table.is_pending_for(2) && !table.is_pending_for(3));
        assert_eq!(table.take(1), [10, 12]);
        assert!(!table.is_pending_for(1) && table.take(1).is_empty());
        assert_eq!(table.take(2), [11]);
        assert!(table.is_empty());
    }

    #[test]
    fn a_command_in_the_stream_is_known_by_its_identifier_until_it_is_read() {
        let mut table = AbortTable::default();
        table.add_unread(7, 10);
        assert!(table.is_empty(), "it has no slot");
        assert_eq!(table.take_unread(8), None);
        assert_eq!(table.take_unread(7), Some(10));
        assert_eq!(table.take_unread(7), None);
    }
}
