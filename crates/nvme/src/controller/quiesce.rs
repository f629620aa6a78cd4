//! Who waits until a queue, or all I/O queues of a controller, have no request at a volume any more (NVMe Base §3.5, §3.6, §6.4).

use alloc::vec::Vec;

use protocol::Instant;

/// Whom an I/O queue tells that none of its requests is with a volume any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiter {
    /// The group, for the controller.
    Group,
    /// The host: the Disconnect command in this slot.
    Disconnect { slot: u16 },
}

/// The quiescence of one queue: as an I/O queue it may be ending, as an admin queue it may hold commands until the I/O queues have ended.
#[derive(Debug, Default)]
pub(super) struct Quiesce {
    waiter: Option<Waiter>,
    /// Slots of the Property Set commands that wait for the I/O queues.
    commands: Vec<u16>,
    /// Until when they wait.
    due: Option<Instant>,
}

impl Quiesce {
    /// The queue ends, and tells `waiter`, whoever waited before.
    pub(super) fn begin(&mut self, waiter: Waiter) {
        self.waiter = Some(waiter);
    }

    /// True from then on until the waiter was told.
    #[inline]
    pub(super) fn is_under_way(&self) -> bool {
        self.waiter.is_some()
    }

    /// Whom to tell, now that no request is with a volume any more.
    pub(super) fn end(&mut self) -> Option<Waiter> {
        self.waiter.take()
    }

    /// Keeps a command until the I/O queues have ended, at the latest until `due`.
    pub(super) fn hold(&mut self, slot: u16, due: Instant) {
        self.commands.push(slot);
        self.due = Some(due);
    }

    /// When the commands that are kept are answered at the latest.
    #[inline]
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The commands that were kept, which are answered now.
    pub(super) fn release(&mut self) -> Vec<u16> {
        self.due = None;
        core::mem::take(&mut self.commands)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_waiter_is_told_once() {
        let mut quiesce = Quiesce::default();
        assert!(!quiesce.is_under_way() && quiesce.end().is_none());
        quiesce.begin(Waiter::Disconnect { slot: 4 });
        quiesce.begin(Waiter::Group);
        assert!(quiesce.is_under_way());
        assert_eq!(quiesce.end(), Some(Waiter::Group));
        assert!(!quiesce.is_under_way() && quiesce.end().is_none());
    }

    #[test]
    fn commands_are_kept_until_they_are_released_together() {
        let mut quiesce = Quiesce::default();
        quiesce.hold(1, Instant::from_nanos(5));
        quiesce.hold(2, Instant::from_nanos(9));
        assert_eq!(quiesce.due(), Some(Instant::from_nanos(9)));
        assert_eq!(quiesce.release(), [1, 2]);
        assert_eq!((quiesce.due(), quiesce.release()), (None, Vec::new()));
    }
}
