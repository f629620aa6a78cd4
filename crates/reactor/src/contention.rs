//! Whether the connections of a core share it at the moment: those that do send less at a time.

use crate::limits::SHARED_TURNS;

/// Whether a connection has its core for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// No other connection has had anything to do lately.
    Alone,
    /// Others have.
    Shared,
}

/// Observes which connections have something to do.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    /// Turns for which the core still counts as shared.
    shared_turns: u32,
    /// The last connection that had something to do, by its slot.
    latest: Option<u32>,
}

impl Contention {
    /// The connections with something to do in this turn, by their slots: more than one, or another than before, share the core.
    pub(crate) fn observe(&mut self, slots: &[u32]) {
        let Some(last) = slots.last() else { return };
        let other = self.latest.replace(*last) != Some(*last);
        let alone = self.shared_turns.saturating_sub(1);
        self.shared_turns = if other || slots.len() > 1 { SHARED_TURNS } else { alone };
    }

    /// What that comes to.
    pub(crate) fn sharing(&self) -> Sharing {
        if self.shared_turns > 0 { Sharing::Shared } else { Sharing::Alone }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many turns after which the core is not shared any more, with only this connection busy.
    fn turns_until_alone(contention: &mut Contention, slot: u32) -> u32 {
        let busy = |_: &u32| {
            contention.observe(&[slot]);
            contention.sharing() == Sharing::Shared
        };
        (1..=2 * SHARED_TURNS).take_while(busy).count().try_into().unwrap()
    }

    #[test]
    fn a_core_is_shared_for_some_turns_after_another_connection_was_busy() {
        let mut contention = Contention::default();
        assert_eq!(contention.sharing(), Sharing::Alone);
        contention.observe(&[1, 2]);
        assert_eq!(contention.sharing(), Sharing::Shared, "two in one turn");
        assert_eq!(turns_until_alone(&mut contention, 2), SHARED_TURNS - 1);
        contention.observe(&[]);
        assert_eq!(contention.sharing(), Sharing::Alone, "no connection is busy, and nothing changes");
        contention.observe(&[3]);
        assert_eq!(contention.sharing(), Sharing::Shared, "another than before");
        assert_eq!(turns_until_alone(&mut contention, 3), SHARED_TURNS - 1);
    }
}
