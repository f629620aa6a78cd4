//! The slots of a session, at the client (RFC 8881 §2.10.6.1): each carries one COMPOUND at a time, under sequence IDs that count up, so that the server
//! carries out nothing twice.
//!
//! ```text
//!          take              answer
//!   Free ────────► Busy ───────────────► Free, with the next sequence ID if SEQUENCE was carried out
//!                   │
//!                   │ the connection is lost
//!                   ▼       answer to a retry, or to a bare SEQUENCE under the same sequence ID
//!               Unsettled ───────────────────────────────────────────────────────────────────► Free
//! ```

use alloc::vec;
use alloc::vec::Vec;

use super::subject::SlotUse;

/// Bits of the mask.
const MOST: u32 = 128;

/// The slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slots {
    /// The sequence ID that each was last used with.
    sequences: Vec<u32>,
    /// Those that carry something.
    busy: u128,
    /// How many are used from now on: the server may want fewer than it gave (sr_target_highest_slotid).
    limit: u32,
}

impl Slots {
    /// So many, at least one and at most 128, none of which was used.
    pub(super) fn new(count: u32) -> Self {
        let count = count.clamp(1, MOST);
        Self { sequences: vec![0; wire::index(count.into())], busy: 0, limit: count }
    }

    /// How many there are.
    fn len(&self) -> u32 {
        wire::bounded(self.sequences.len())
    }

    /// How many of them the server wants to be used, at least one.
    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// The lowest free one from `least` on, which is busy from now on.
    pub(super) fn take(&mut self, least: u32) -> Option<SlotUse> {
        let below = 1_u128.checked_shl(least).unwrap_or_default().wrapping_sub(1);
        let slot = (!(self.busy | below)).trailing_zeros();
        if slot >= self.limit {
            return None;
        }
        let sequence = self.sequences.get(wire::index(slot.into()))?.wrapping_add(1);
        self.busy |= bit(slot);
        Some(SlotUse { slot, sequence })
    }

    /// The COMPOUND of a slot was answered; `counted` if its SEQUENCE was carried out: only then the sequence ID is used up (RFC 8881 §2.10.6.1.1).
    pub(super) fn release(&mut self, of: SlotUse, counted: bool) {
        self.busy &= !bit(of.slot);
        if counted && let Some(sequence) = self.sequences.get_mut(wire::index(of.slot.into())) {
            *sequence = of.sequence;
        }
    }

    /// The highest that carries something.
    pub(super) fn highest(&self) -> u32 {
        MOST.saturating_sub(1).saturating_sub(self.busy.leading_zeros().min(MOST.saturating_sub(1)))
    }

    /// The server wants no higher one to be used than `target`.
    pub(super) fn set_target(&mut self, target: u32) {
        self.limit = target.saturating_add(1).min(self.len());
    }
}

fn bit(slot: u32) -> u128 {
    1_u128.checked_shl(slot).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_carries_one_thing_at_a_time_and_counts_what_was_carried_out() {
        let mut slots = Slots::new(2);
        let first = slots.take(0).unwrap();
        let second = slots.take(0).unwrap();
        assert_eq!((first, second), (SlotUse { slot: 0, sequence: 1 }, SlotUse { slot: 1, sequence: 1 }));
        assert_eq!((slots.take(0), slots.highest()), (None, 1));
        slots.release(first, true);
        assert_eq!(slots.take(0), Some(SlotUse { slot: 0, sequence: 2 }));
        slots.release(second, false);
        assert_eq!(slots.take(0), Some(SlotUse { slot: 1, sequence: 1 }), "it was not carried out");
    }

    #[test]
    fn the_first_may_be_kept_free() {
        let mut slots = Slots::new(3);
        let order: Vec<u32> = core::iter::from_fn(|| slots.take(1)).map(|of| of.slot).collect();
        assert_eq!(order, [1, 2]);
        assert_eq!(slots.take(0).unwrap().slot, 0);
        assert_eq!(Slots::new(1000).len(), 128);
        let mut all = Slots::new(128);
        assert_eq!(core::iter::from_fn(|| all.take(0)).count(), 128);
        assert_eq!(all.highest(), 127);
    }

    #[test]
    fn the_server_takes_slots_away_and_gives_them_back() {
        let mut slots = Slots::new(4);
        slots.set_target(0);
        assert_eq!((slots.limit(), slots.take(1)), (1, None));
        let only = slots.take(0).unwrap();
        assert_eq!(slots.take(0), None);
        slots.release(only, true);
        slots.set_target(u32::MAX);
        assert_eq!(core::iter::from_fn(|| slots.take(0)).count(), 4);
    }
}
