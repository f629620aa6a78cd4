//! Who holds how much of a pool, and who may have more: arithmetic without memory.
//!
//! Three rules keep one holder from taking what others need:
//! * A *reserve* is open to those who hold little. Half of it is divided among the accounts that there are, half among as many as there may be, so
//!   that a newcomer has something at once, whatever others hold (its *floor*).
//! * Above the floor an account may hold as much as it leaves free, so that ever more holders leave ever less to each, but never nothing to the next. Its
//!   first buffer, and up to an equal share of all, it may hold even where that is more than it leaves.
//! * Whoever was refused within these bounds waits in line. Others pass it by a limited number of times; then memory gathers for the first in line.

use std::collections::VecDeque;

use crate::limits::{ACCOUNTS, PASSED_BY, RESERVED};
use crate::memory::LARGEST;

/// Names an account of a pool.
pub(crate) type AccountId = u32;
/// Memory that no account answers for.
pub(crate) const NOBODY: AccountId = AccountId::MAX;

#[derive(Debug, Clone, Copy)]
struct Entry {
    held: usize,
    /// What of that is not in buffers.
    charged: usize,
    open: bool,
}

/// A pool's accounts.
#[derive(Debug)]
pub(crate) struct Ledger {
    limit: usize,
    /// What accounts may hold together above their floors.
    common: usize,
    used: usize,
    entries: Vec<Entry>,
    free: Vec<AccountId>,
    open: usize,
    /// What each account may hold at any time; what it may hold of the reserve's other half; and its equal share of `common`.
    least: usize,
    floor: usize,
    share: usize,
    waiting: VecDeque<AccountId>,
    /// What all may hold together for an account within its share to have more unasked: `common`, or nothing while somebody waits.
    unasked: usize,
    passed: u32,
}

impl Ledger {
    pub(crate) fn new(limit: usize) -> Self {
        // A pool that holds few of the largest buffers keeps room for one.
        let reserve = (limit / RESERVED).min(limit.saturating_sub(LARGEST));
        let mut ledger = Self {
            limit,
            common: limit - reserve,
            used: 0,
            entries: Vec::new(),
            free: Vec::new(),
            open: 0,
            least: reserve / 2 / ACCOUNTS,
            floor: 0,
            share: 0,
            waiting: VecDeque::new(),
            unasked: limit - reserve,
            passed: 0,
        };
        ledger.divide();
        ledger
    }

    fn divide(&mut self) {
        let among = self.open.max(1);
        self.floor = self.reserve() / 2 / among;
        self.share = self.common / among;
    }

    fn reserve(&self) -> usize {
        self.limit - self.common
    }

    /// Opens an account.
    pub(crate) fn open(&mut self) -> AccountId {
        let entry = Entry { held: 0, charged: 0, open: true };
        let id = if let Some(id) = self.free.pop() {
            self.entries[id as usize] = entry;
            id
        } else {
            self.entries.push(entry);
            AccountId::try_from(self.entries.len() - 1).unwrap_or(NOBODY)
        };
        self.open += 1;
        self.divide();
        id
    }

    /// Closes an account. Its number is used again once everything has come back.
    pub(crate) fn close(&mut self, id: AccountId) {
        self.withdraw(id);
        let Some(entry) = self.entries.get_mut(id as usize) else { return };
        entry.open = false;
        if entry.held == 0 {
            self.free.push(id);
        }
        self.open -= 1;
        self.divide();
    }

    /// Bytes in use, by accounts and nobody.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Bytes that an account holds.
    pub(crate) fn held(&self, id: AccountId) -> usize {
        self.entries.get(id as usize).map_or(0, |entry| entry.held)
    }

    /// True when an account holds more than its floor, and what accounts may hold above theirs is used up.
    pub(crate) fn is_over(&self, id: AccountId) -> bool {
        self.used >= self.common && self.held(id) > self.floor
    }

    /// True while an account waits in line.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes an account out of the line.
    pub(crate) fn withdraw(&mut self, id: AccountId) {
        if let Some(at) = self.waiting.iter().position(|waiting| *waiting == id) {
            self.waiting.remove(at);
            if at == 0 {
                self.passed = 0;
            }
            if self.waiting.is_empty() {
                self.unasked = self.common;
            }
        }
    }

    /// Counts `bytes` more for an account in the usual case: it stays within its equal share, others leave the reserve alone, and nobody
    /// waits. False says nothing: [`Ledger::admit`] knows the other cases, and agrees on this one.
    #[inline]
    pub(crate) fn admit_unasked(&mut self, id: AccountId, bytes: usize) -> bool {
        let used = self.used.saturating_add(bytes);
        let Some(entry) = self.entries.get_mut(id as usize) else { return false };
        let held = entry.held.saturating_add(bytes);
        let plain = used <= self.unasked && held <= self.share;
        if plain {
            (entry.held, self.used) = (held, used);
        }
        plain
    }

    /// Counts `bytes` more that no account answers for, if they are within the limit.
    #[inline]
    pub(crate) fn admit_unowned(&mut self, bytes: usize) -> bool {
        let used = self.used.saturating_add(bytes);
        let fits = used <= self.limit;
        if fits {
            self.used = used;
        }
        fits
    }

    /// Counts `bytes` more for an account, if it may have them.
    pub(crate) fn admit(&mut self, id: AccountId, bytes: usize) -> bool {
        let used = self.used.saturating_add(bytes);
        let Some(entry) = self.entries.get(id as usize) else { return self.admit_unowned(bytes) };
        let first = entry.held == entry.charged;
        let held = entry.held.saturating_add(bytes);
        let modest = self.is_modest(held, used);
        if !modest && !self.has_turn(id, (first, held), used) {
            return false;
        }
        if modest && !self.waiting.is_empty() {
            self.withdraw(id);
        }
        self.count(id, bytes);
        true
    }

    /// Counts `bytes` more for an account if they are within its floor, and leaves its place in line to what waits there.
    pub(crate) fn admit_aside(&mut self, id: AccountId, bytes: usize) -> bool {
        let (held, used) = (self.held(id).saturating_add(bytes), self.used.saturating_add(bytes));
        let modest = self.is_modest(held, used);
        if modest {
            self.count(id, bytes);
        }
        modest
    }

    /// Whether an account that holds so much is within its floor, when so much is in use.
    fn is_modest(&self, held: usize, used: usize) -> bool {
        held <= self.least && used <= self.limit
            || held <= self.floor && used <= self.limit - self.reserve() / 2
    }

    /// Whether an account may go above its floor. If only others stand in its way it waits in line.
    fn has_turn(&mut self, id: AccountId, (first, held): (bool, usize), used: usize) -> bool {
        let within = first || held <= self.share;
        let fits = used <= self.common;
        let left = self.common.saturating_sub(used);
        if !within && (!fits || (held > left && self.open > 1)) {
            return false;
        }
        let next = self.waiting.front().copied();
        let turn = match next {
            None => true,
            Some(next) => next == id || (held <= self.share && self.passed < PASSED_BY),
        };
        if fits && turn {
            if next.is_some_and(|next| next != id) {
                self.passed += 1;
            }
            if next.is_some() {
                self.withdraw(id);
            }
            return true;
        }
        if within && !self.waiting.contains(&id) {
            self.waiting.push_back(id);
            self.unasked = 0;
        }
        false
    }

    /// Counts `bytes` more, whatever the bounds say.
    pub(crate) fn count(&mut self, id: AccountId, bytes: usize) {
        self.used = self.used.saturating_add(bytes);
        if let Some(entry) = self.entries.get_mut(id as usize) {
            entry.held = entry.held.saturating_add(bytes);
        }
    }

    /// So many of the bytes that an account holds are in no buffer.
    pub(crate) fn set_charged(&mut self, id: AccountId, bytes: usize) {
        if let Some(entry) = self.entries.get_mut(id as usize) {
            entry.charged = bytes;
        }
    }

    /// Counts `bytes` less.
    #[inline]
    pub(crate) fn give_back(&mut self, id: AccountId, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
        let Some(entry) = self.entries.get_mut(id as usize) else { return };
        entry.held = entry.held.saturating_sub(bytes);
        if entry.held == 0 && !entry.open {
            self.free_number(id);
        }
    }

    /// Everything of a closed account has come back.
    #[cold]
    fn free_number(&mut self, id: AccountId) {
        self.free.push(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 64 << 20;

    /// Takes pieces for an account until it is refused, and says how much it holds then.
    fn fill(ledger: &mut Ledger, id: AccountId, piece: usize) -> usize {
        while ledger.admit(id, piece) {}
        ledger.held(id)
    }

    #[test]
    fn holders_without_end_leave_each_newcomer_its_floor_at_once() {
        for piece in [512, 4096, 256 << 10, 8 << 20] {
            let mut ledger = Ledger::new(LIMIT);
            let mut good = Vec::new();
            for _ in 1..ACCOUNTS / 2 {
                good.push(ledger.open());
                let bad = ledger.open();
                fill(&mut ledger, bad, piece);
                assert!(ledger.used() <= LIMIT, "{} bytes of {LIMIT} with pieces of {piece}", ledger.used());
            }
            for id in good {
                let floor = LIMIT / RESERVED / 2 / ACCOUNTS;
                assert!(ledger.admit(id, floor), "account {id} found no floor beside pieces of {piece}");
            }
            assert!(ledger.used() <= LIMIT);
        }
    }

    #[test]
    fn one_holder_leaves_as_much_as_it_takes_and_a_lone_one_takes_all_but_the_reserve() {
        let mut ledger = Ledger::new(LIMIT);
        let one = ledger.open();
        assert_eq!(fill(&mut ledger, one, 1 << 20), LIMIT - LIMIT / RESERVED);
        ledger.give_back(one, LIMIT - LIMIT / RESERVED);
        let other = ledger.open();
        let common = LIMIT - LIMIT / RESERVED;
        assert_eq!(fill(&mut ledger, one, 1 << 20), common / 2);
        assert_eq!(fill(&mut ledger, other, 1 << 20), common / 2);
    }

    #[test]
    fn memory_gathers_for_the_first_in_line_although_others_keep_asking() {
        let mut ledger = Ledger::new(LIMIT);
        let (big, small) = (ledger.open(), ledger.open());
        let piece = 1 << 20;
        let crowd: Vec<_> = (0..6).map(|_| ledger.open()).collect();
        fill(&mut ledger, small, piece);
        for id in &crowd {
            fill(&mut ledger, *id, piece);
        }
        assert!(!ledger.admit(big, LARGEST), "there was room for it at once");
        assert!(ledger.is_wanted());
        // Everybody gives one piece back and asks for it again, over and over.
        let mut rounds = 0;
        while !ledger.admit(big, LARGEST) {
            rounds += 1;
            assert!(rounds < 1000, "others pass it by for ever");
            for id in crowd.iter().chain([&small]) {
                if ledger.held(*id) >= piece {
                    ledger.give_back(*id, piece);
                }
                let _again = ledger.admit(*id, piece);
            }
        }
        assert_eq!(ledger.held(big), LARGEST);
    }

    #[test]
    fn what_is_within_the_floor_passes_without_a_place_in_line() {
        let mut ledger = Ledger::new(LIMIT);
        let (hoarder, one, two) = (ledger.open(), ledger.open(), ledger.open());
        ledger.count(hoarder, LIMIT - LIMIT / RESERVED);
        assert!(!ledger.admit(one, LARGEST) && !ledger.admit(two, LARGEST));
        let before = ledger.waiting.clone();
        assert!(ledger.admit_aside(one, 4096));
        assert_eq!((ledger.held(one), &ledger.waiting), (4096, &before), "its place is the large one's");
        while ledger.admit_aside(one, 4096) {}
        assert!(ledger.held(one) <= ledger.floor && ledger.used() <= LIMIT);
        assert_eq!(ledger.waiting, before, "who is refused aside does not line up twice");
    }

    #[test]
    fn who_waits_for_its_own_share_delays_nobody() {
        let mut ledger = Ledger::new(LIMIT);
        let (greedy, other) = (ledger.open(), ledger.open());
        fill(&mut ledger, greedy, 1 << 20);
        assert!(!ledger.admit(greedy, 1 << 20));
        assert!(!ledger.is_wanted());
        assert!(ledger.admit(other, LARGEST));
    }

    /// The same things happen to two ledgers, one of which is never asked for the usual case: they agree on every answer, and on who holds and waits
    /// for what.
    #[test]
    fn the_usual_case_is_admitted_as_if_it_had_been_looked_at() {
        let (mut whole, mut quick) = (Ledger::new(LIMIT), Ledger::new(LIMIT));
        for _ in 0..5 {
            assert_eq!(whole.open(), quick.open());
        }
        let (mut number, mut usual, mut waited) = (7_u64, 0, 0);
        for step in 0..200_000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let [id, size, what] =
                [60, 40, 20].map(|shift| usize::try_from(number >> shift & 0xffff).unwrap());
            let (id, bytes) = (AccountId::try_from(id % 4).unwrap(), 512 << (size % 15));
            // The last account holds most of the memory half of the time, so that others wait.
            for ledger in [&mut whole, &mut quick] {
                match step % 2000 {
                    0 => ledger.count(4, LIMIT / 8 * 7),
                    1000 => ledger.give_back(4, LIMIT / 8 * 7),
                    _ => {}
                }
            }
            match what % 64 {
                0..34 => {
                    let asked = quick.admit_unasked(id, bytes);
                    usual += usize::from(asked);
                    assert_eq!(asked || quick.admit(id, bytes), whole.admit(id, bytes), "step {step}");
                }
                34..63 => {
                    let bytes = bytes.min(whole.held(id));
                    for ledger in [&mut whole, &mut quick] {
                        ledger.give_back(id, bytes);
                    }
                }
                _ => {
                    for ledger in [&mut whole, &mut quick] {
                        ledger.withdraw(id);
                    }
                }
            }
            waited += usize::from(whole.is_wanted());
            let state = |ledger: &Ledger| {
                (
                    ledger.used,
                    (0..5).map(|id| ledger.held(id)).collect::<Vec<_>>(),
                    ledger.waiting.clone(),
                    ledger.passed,
                )
            };
            assert_eq!(state(&whole), state(&quick), "step {step}");
        }
        assert!(usual > 5_000 && waited > 5_000, "{usual} usual cases, {waited} steps with somebody in line");
    }

    #[test]
    fn a_closed_account_leaves_the_line_and_its_number_waits_for_its_memory() {
        let mut ledger = Ledger::new(LIMIT);
        let (one, two) = (ledger.open(), ledger.open());
        ledger.count(one, LIMIT);
        assert!(!ledger.admit(two, LARGEST));
        assert!(ledger.is_wanted());
        ledger.close(two);
        assert!(!ledger.is_wanted());
        ledger.close(one);
        assert_eq!(ledger.open(), two, "its memory is still out");
        ledger.give_back(one, LIMIT);
        assert_eq!(ledger.open(), one);
        assert_eq!((ledger.used(), ledger.held(one)), (0, 0));
    }
}
