//! How many bytes of sessions, kept replies, opens and locks clients may make the server hold: each a floor that no other can take from it, and what all share beyond that.

use crate::limits::{CLIENT_BYTES, CLIENT_COST, CLIENT_FLOOR, CLIENTS, OPAQUE, SHARED_BYTES, STATE_BYTES};

const _: () = assert!(
    CLIENTS * (CLIENT_COST + OPAQUE + CLIENT_FLOOR) + SHARED_BYTES <= STATE_BYTES,
    "every record with its floor, and what is shared"
);

/// The bytes of all clients.
#[derive(Debug, Default)]
pub struct Budget {
    /// Those beyond their floors.
    shared: usize,
}

impl Budget {
    /// What a client holds has changed, in bytes.
    pub fn change(&mut self, before: usize, after: usize) {
        self.shared = self.shared.saturating_add(beyond(after)).saturating_sub(beyond(before));
    }

    /// How many bytes a client may still take that holds so many.
    pub fn room(&self, held: usize) -> usize {
        let own = CLIENT_BYTES.saturating_sub(held);
        let floor = CLIENT_FLOOR.saturating_sub(held);
        own.min(floor.saturating_add(SHARED_BYTES.saturating_sub(self.shared)))
    }

    /// True if a client that needs all that it may have does not get it.
    pub fn is_short(&self) -> bool {
        SHARED_BYTES.saturating_sub(self.shared) < CLIENT_BYTES
    }
}

/// The part of what a client holds that is above its floor.
pub fn beyond(held: usize) -> usize {
    held.saturating_sub(CLIENT_FLOOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_all_leaves_everybody_a_floor() {
        let mut budget = Budget::default();
        let greedy = SHARED_BYTES / beyond(CLIENT_BYTES);
        for _ in 0..greedy {
            assert_eq!(budget.room(0), CLIENT_BYTES);
            budget.change(0, CLIENT_BYTES);
        }
        assert!(budget.is_short());
        let left = budget.room(0);
        assert!((CLIENT_FLOOR..CLIENT_BYTES).contains(&left));
        budget.change(0, left);
        assert_eq!((budget.room(left), budget.room(0), budget.room(CLIENT_FLOOR)), (0, CLIENT_FLOOR, 0));
        // What stays below its floor takes nothing from anybody.
        budget.change(0, CLIENT_FLOOR);
        assert_eq!((budget.room(0), budget.room(CLIENT_FLOOR - 100)), (CLIENT_FLOOR, 100));
        budget.change(CLIENT_BYTES, 0);
        assert_eq!(budget.room(CLIENT_FLOOR), CLIENT_BYTES - CLIENT_FLOOR);
    }
}
