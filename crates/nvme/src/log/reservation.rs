//! Reservation notification (LID 80h; NVMe Base §5.1.12.1.15): what happened to the host's registrations, oldest first.

use alloc::collections::VecDeque;

use volume::reservation::Notice;
use wire::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::limits::NOTIFICATIONS;

/// One page: one notification, or none if its type is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ReservationNotification {
    /// Counts the notifications of this controller from one; a gap says that some were lost.
    pub count: U64,
    /// What happened: 1 registration preempted, 2 reservation released, 3 reservation preempted; 0 nothing.
    pub kind: u8,
    /// Further pages that wait.
    pub available: u8,
    reserved10: U16,
    /// The namespace.
    pub nsid: U32,
    reserved16: [u8; 48],
}

const _: () = assert!(size_of::<ReservationNotification>() == 64);

/// The type of a notification, which is also the bit that masks it (Reservation Notification Mask, NVMe Base §5.1.25.1.31).
pub(crate) const fn kind(notice: Notice) -> u8 {
    match notice {
        Notice::Preempted => 1,
        Notice::Released => 2,
        Notice::Cleared => 3,
    }
}

/// The notifications of one controller that its host has not read yet.
#[derive(Debug, Default)]
pub struct Notifications {
    waiting: VecDeque<ReservationNotification>,
    count: u64,
}

impl Notifications {
    /// Something happened on a namespace.
    pub fn add(&mut self, nsid: u32, notice: Notice) {
        self.count = self.count.wrapping_add(1).max(1);
        if self.waiting.len() < NOTIFICATIONS {
            let mut page = ReservationNotification::new_zeroed();
            page.count.set(self.count);
            page.kind = kind(notice);
            page.nsid.set(nsid);
            self.waiting.push_back(page);
        }
    }

    /// The page as it reads now.
    pub fn page(&self) -> ReservationNotification {
        let Some(first) = self.waiting.front() else { return ReservationNotification::new_zeroed() };
        let further = self.waiting.len().saturating_sub(1);
        ReservationNotification { available: wire::saturate::<u8>(further), ..*first }
    }

    /// The host has read the page; answers whether there is another.
    pub fn take(&mut self) -> bool {
        self.waiting.pop_front();
        !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector() {
        let mut log = Notifications::default();
        assert_eq!(log.page().as_bytes(), [0; 64], "nothing has happened");
        log.add(3, Notice::Released);
        log.add(0x0102, Notice::Cleared);
        assert_eq!(log.page().as_bytes()[..16], [1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 3, 0, 0, 0]);
        assert!(log.take());
        assert_eq!(log.page().as_bytes()[..16], [2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2, 1, 0, 0]);
        assert!(!log.take());
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut log = Notifications::default();
        (0..NOTIFICATIONS + 5).for_each(|_| log.add(1, Notice::Preempted));
        assert_eq!(usize::from(log.page().available), NOTIFICATIONS - 1);
        for _ in 0..NOTIFICATIONS {
            log.take();
        }
        log.add(1, Notice::Preempted);
        assert_eq!(log.page().count.get(), NOTIFICATIONS as u64 + 6, "five are missing between the two");
    }
}
