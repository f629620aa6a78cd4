//! Which commands of a queue are to end, and who waits for the outcome (NVMe Base §5.1.1).

use alloc::vec::Vec;

use crate::status::Status;

/// Aborts that wait for the end of a command of this queue.
#[derive(Debug, Default)]
pub(super) struct AbortTable {
    pending: Vec<PendingAbort>,
    /// The command was not taken yet: it waits for memory at the transport.
    unread: Option<UnreadAbort>,
}

/// What an Abort tells of an immediate abort (IANP).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImmediateAbort {
    /// The command has ended because of it.
    Performed,
    /// The command has ended otherwise, or there is none.
    NotPerformed,
}

impl ImmediateAbort {
    /// What a command's end says of it.
    pub(super) fn of(status: Status) -> Self {
        if status.code() == Status::ABORT_REQUESTED.code() { Self::Performed } else { Self::NotPerformed }
    }

    /// Dword 0 of the Abort's completion: bit 0 is set when it was not performed.
    pub(super) const fn result(self) -> u64 {
        match self {
            Self::Performed => 0,
            Self::NotPerformed => 1,
        }
    }
}

/// Why a command is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The host's Abort with this tag waits for the outcome.
    Aborted { tag: u16 },
    /// Its queue ends, or a preemption has named its host.
    Dropped,
    /// Its namespace is gone. Another one may come to have the identifier, which a command that is tried again would meet.
    Withdrawn,
}

/// A command that is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PendingAbort {
    slot: u16,
    ending: Ending,
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

    /// True when the command of this slot is to end because its namespace is gone.
    pub(super) fn is_withdrawn(&self, slot: u16) -> bool {
        self.pending.contains(&PendingAbort { slot, ending: Ending::Withdrawn })
    }

    /// The command of this slot is to end.
    pub(super) fn add(&mut self, slot: u16, ending: Ending) {
        self.pending.push(PendingAbort { slot, ending });
    }

    /// How a command ends of which nothing more is done.
    pub(super) fn status(&self, slot: u16) -> Status {
        self.judge(slot, Status::ABORT_REQUESTED)
    }

    /// How a command ends that has failed in this way.
    pub(super) fn judge(&self, slot: u16, status: Status) -> Status {
        if self.is_withdrawn(slot) { status.dnr() } else { status }
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
            .filter_map(|pending| match pending.ending {
                Ending::Aborted { tag } => Some(tag),
                Ending::Dropped | Ending::Withdrawn => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_abort_of_a_command_is_answered_once_when_it_has_ended() {
        let mut table = AbortTable::default();
        let aborted = |tag| Ending::Aborted { tag };
        for (slot, ending) in [(1, aborted(10)), (2, aborted(11)), (1, Ending::Dropped), (1, aborted(12))] {
            table.add(slot, ending);
        }
        assert!(table.is_pending_for(1) && table.is_pending_for(2) && !table.is_pending_for(3));
        assert_eq!(table.take(1), [10, 12]);
        assert!(!table.is_pending_for(1) && table.take(1).is_empty());
        assert_eq!(table.take(2), [11]);
        assert!(table.is_empty());
    }

    #[test]
    fn only_a_command_whose_namespace_is_gone_is_not_to_be_tried_again() {
        let mut table = AbortTable::default();
        let (aborted, busy) = (Status::ABORT_REQUESTED, Status::COMMAND_INTERRUPTED);
        table.add(1, Ending::Aborted { tag: 10 });
        table.add(2, Ending::Dropped);
        assert_eq!([1, 2, 3].map(|slot| table.status(slot)), [aborted; 3]);
        table.add(1, Ending::Withdrawn);
        assert_eq!([1, 2].map(|slot| table.judge(slot, busy)), [busy.dnr(), busy]);
        assert_eq!((table.status(1), table.take(1)), (aborted.dnr(), [10].into()));
        assert!(!table.is_withdrawn(1));
    }

    #[test]
    fn a_command_that_was_not_taken_is_known_by_its_identifier_until_it_is() {
        let mut table = AbortTable::default();
        table.add_unread(7, 10);
        assert!(table.is_empty(), "it has no slot");
        assert_eq!(table.take_unread(8), None);
        assert_eq!(table.take_unread(7), Some(10));
        assert_eq!(table.take_unread(7), None);
    }
}
