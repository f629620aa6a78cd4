//! Byte-range locks: lock stateids, and who has which bytes (RFC 8881 §9.1, §18.10–§18.12).
//!
//! An owner has one lock stateid for a file. It belongs to an open, with which it ends.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt::Debug;

use super::opens::{StateOwner, next_seqid};
use super::ranges::{ByteRange, LockMode, LockedRange, Ranges};
use crate::limits::{LOCK_COST, RANGE_COST};
use crate::v4::{ClientId, Stateid, StateidOther};

/// What one lock stateid stands for.
#[derive(Debug, Clone)]
pub struct LockState<F> {
    /// Whose.
    pub owner: StateOwner,
    /// Which file.
    pub file: F,
    /// The open that it belongs to.
    pub open: StateidOther,
    /// The newest seqid.
    pub seqid: u32,
}

/// A lock that stands in the way (`LOCK4denied`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// Which bytes, and how.
    pub locked: LockedRange,
    /// Whose.
    pub owner: StateOwner,
}

/// All locks.
#[derive(Debug)]
pub struct Locks<F> {
    states: BTreeMap<StateidOther, LockState<F>>,
    files: BTreeMap<F, BTreeMap<StateOwner, Held>>,
}

/// What an owner has of a file.
#[derive(Debug)]
struct Held {
    stateid: StateidOther,
    ranges: Ranges,
}

impl<F: Ord + Clone + Debug> Locks<F> {
    /// None.
    pub fn new() -> Self {
        Self { states: BTreeMap::new(), files: BTreeMap::new() }
    }

    /// What that stateid stands for.
    pub fn get(&self, other: StateidOther) -> Option<&LockState<F>> {
        self.states.get(&other)
    }

    /// Which stateid this owner has for this file.
    pub fn find(&self, owner: &StateOwner, file: &F) -> Option<StateidOther> {
        Some(self.files.get(file)?.get(owner)?.stateid)
    }

    /// The lock stateids of an open.
    pub fn of_open(&self, open: StateidOther, file: &F) -> Vec<StateidOther> {
        let held = self.files.get(file).into_iter().flat_map(BTreeMap::values);
        let states =
            held.filter(|held| self.states.get(&held.stateid).is_some_and(|state| state.open == open));
        states.map(|held| held.stateid).collect()
    }

    /// Somebody else's lock that stands in the way.
    pub fn conflict(&self, owner: &StateOwner, file: &F, wanted: LockedRange) -> Option<Denied> {
        let others = self.files.get(file)?.iter().filter(|(other, _)| *other != owner);
        let mut found = others.filter_map(|(other, held)| {
            let locked = held.ranges.conflict(wanted.range, wanted.mode)?;
            Some(Denied { locked, owner: other.clone() })
        });
        found.next()
    }

    /// Begins a lock stateid, for an owner that has none for the file.
    pub fn begin(&mut self, state: LockState<F>, fresh: StateidOther) {
        let held = Held { stateid: fresh, ranges: Ranges::default() };
        self.files.entry(state.file.clone()).or_default().insert(state.owner.clone(), held);
        self.states.insert(fresh, state);
    }

    /// Locks or, without a mode, unlocks; the caller has looked for a [`Locks::conflict`]. Gives the stateid, one seqid on.
    pub fn change(
        &mut self,
        other: StateidOther,
        range: ByteRange,
        mode: Option<LockMode>,
    ) -> Option<Stateid> {
        let state = self.states.get_mut(&other)?;
        let held = self.files.get_mut(&state.file)?.get_mut(&state.owner)?;
        match mode {
            Some(mode) => held.ranges.lock(range, mode),
            None => held.ranges.unlock(range),
        }
        state.seqid = next_seqid(state.seqid);
        Some(Stateid { seqid: state.seqid, other })
    }

    /// The ranges of a lock stateid.
    pub fn ranges(&self, other: StateidOther) -> Option<&Ranges> {
        let state = self.states.get(&other)?;
        Some(&self.files.get(&state.file)?.get(&state.owner)?.ranges)
    }

    /// Bytes that a lock stateid counts for, with its ranges.
    pub fn bytes(&self, other: StateidOther) -> usize {
        let Some(state) = self.states.get(&other) else { return 0 };
        let ranges = self.ranges(other).map_or(0, Ranges::len);
        LOCK_COST.saturating_add(state.owner.owner.len()).saturating_add(ranges.saturating_mul(RANGE_COST))
    }

    /// Ends a lock stateid, with whatever it has locked.
    pub fn remove(&mut self, other: StateidOther) -> Option<LockState<F>> {
        let state = self.states.remove(&other)?;
        if let Some(owners) = self.files.get_mut(&state.file) {
            owners.remove(&state.owner);
            if owners.is_empty() {
                self.files.remove(&state.file);
            }
        }
        Some(state)
    }

    /// True if a client has locked bytes of the file.
    pub fn client_has(&self, client: ClientId, file: &F) -> bool {
        self.files.get(file).is_some_and(|owners| {
            owners.iter().any(|(owner, held)| owner.client == client && !held.ranges.is_empty())
        })
    }

    /// How many stateids there are.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }
}

impl<F: Ord + Clone + Debug> Default for Locks<F> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn owner(client: u64) -> StateOwner {
        StateOwner { client: ClientId(client), owner: vec![1] }
    }

    fn other(number: u8) -> StateidOther {
        StateidOther([number; 12])
    }

    fn state(client: u64, open: u8) -> LockState<char> {
        LockState { owner: owner(client), file: 'f', open: other(open), seqid: 0 }
    }

    fn locked(first: u64, last: u64, mode: LockMode) -> LockedRange {
        LockedRange { range: ByteRange { first, last }, mode }
    }

    #[test]
    fn a_conflict_names_the_owner_and_the_bytes() {
        let mut locks = Locks::new();
        locks.begin(state(1, 100), other(1));
        locks.begin(state(2, 101), other(2));
        let bytes = ByteRange { first: 10, last: 19 };
        let stateid = locks.change(other(1), bytes, Some(LockMode::Read)).unwrap();
        assert_eq!(stateid, Stateid { seqid: 1, other: other(1) });
        let wanted = locked(0, 10, LockMode::Write);
        let denied = Denied { locked: locked(10, 19, LockMode::Read), owner: owner(1) };
        assert_eq!(locks.conflict(&owner(2), &'f', wanted), Some(denied));
        assert_eq!(locks.conflict(&owner(1), &'f', wanted), None);
        assert_eq!(locks.conflict(&owner(2), &'g', wanted), None);
        assert_eq!(locks.conflict(&owner(2), &'f', locked(0, 10, LockMode::Read)), None);
        locks.change(other(1), bytes, None);
        assert_eq!(locks.conflict(&owner(2), &'f', wanted), None);
    }

    #[test]
    fn stateids_of_an_open_and_their_end() {
        let mut locks = Locks::new();
        locks.begin(state(1, 100), other(1));
        locks.begin(state(2, 101), other(2));
        assert_eq!(locks.of_open(other(100), &'f'), [other(1)]);
        assert_eq!(locks.find(&owner(2), &'f'), Some(other(2)));
        locks.change(other(2), ByteRange { first: 0, last: 0 }, Some(LockMode::Write));
        assert!(locks.client_has(ClientId(2), &'f') && !locks.client_has(ClientId(1), &'f'));
        assert_eq!(locks.bytes(other(2)), LOCK_COST + 1 + RANGE_COST);
        assert!(locks.remove(other(1)).is_some() && locks.remove(other(2)).is_some());
        assert!(locks.is_empty() && locks.files.is_empty());
    }
}
