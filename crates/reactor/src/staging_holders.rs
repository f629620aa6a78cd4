//! Which connections have a staging area while they wait for bytes, and when those that stay quiet lose it.

use protocol::Instant;

use crate::limits;

/// The slots of connections that have a staging area. Each knows its place here, so that it leaves without a search.
#[derive(Debug, Default)]
pub(crate) struct StagingHolders {
    slots: Vec<u32>,
    /// When areas are to be taken back from those that are quiet.
    sweep_at: Option<Instant>,
}

/// A holder that has another place since one has left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) slot: u32,
    pub(crate) place: usize,
}

impl StagingHolders {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Adds a connection: its place.
    pub(crate) fn add(&mut self, slot: u32) -> usize {
        self.slots.push(slot);
        self.slots.len() - 1
    }

    /// Removes the one in a place; the one that has the place now, if any.
    pub(crate) fn remove(&mut self, place: usize) -> Option<Moved> {
        self.slots.swap_remove(place);
        self.slots.get(place).map(|slot| Moved { slot: *slot, place })
    }

    /// All.
    pub(crate) fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// One waits with its area from now on: it is looked at in a while, unless a look is due already.
    pub(crate) fn watch(&mut self, now: Instant) {
        self.sweep_at.get_or_insert(now + limits::QUIET);
    }

    /// Areas are being taken back: true if it is time.
    pub(crate) fn take_sweep(&mut self, now: Instant) -> bool {
        self.sweep_at.take_if(|at| *at <= now).is_some()
    }

    /// When it is.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.sweep_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_leaves_makes_the_last_take_its_place() {
        let mut holders = StagingHolders::default();
        assert_eq!([7, 8, 9].map(|slot| holders.add(slot)), [0, 1, 2]);
        assert_eq!(holders.remove(0), Some(Moved { slot: 9, place: 0 }));
        assert_eq!(holders.remove(1), None, "it was the last");
        assert_eq!((holders.slots(), holders.len()), (&[9][..], 1));
    }

    #[test]
    fn a_sweep_is_due_a_while_after_the_first_began_to_wait() {
        let mut holders = StagingHolders::default();
        let at = |nanos| Instant::from_nanos(nanos);
        assert!(!holders.take_sweep(at(u64::MAX)), "nobody waits");
        holders.watch(at(5));
        holders.watch(at(6));
        let due = at(5) + limits::QUIET;
        assert_eq!(holders.poll_timeout(), Some(due));
        assert!(!holders.take_sweep(at(5)));
        assert!(holders.take_sweep(due));
        assert_eq!(holders.poll_timeout(), None);
    }
}
