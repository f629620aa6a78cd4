//! Who holds how much of a pool, and who may have more: arithmetic without memory.
//!
//! Four rules keep one holder from taking what others need:
//! * A *reserve* is open to those who hold little. Half of it is divided among the accounts that there are, half among as many as there may be, so
//!   that a newcomer has something at once, whatever others hold (its *floor*).
//! * Above the floor an account may hold as much as it leaves free, so that ever more holders leave ever less to each, but never nothing to the next. Its
//!   first buffer, and up to an equal share of all, it may hold even where that is more than it leaves.
//! * Whoever was refused within these bounds waits in line. Others pass it by a limited number of times; then memory gathers for the first in line.
//!   What the same account gets meanwhile that is smaller leaves it its place.
//! * The reserve is for data. *Tables*, which stay for as long as their holder does, grow only from what is free above it, and together to a bounded part of
//!   the pool; what is there anyway, *forced*, takes from there too, so that neither keeps anybody from its floor. *Receives*, posted for as long as their
//!   holder is there, are like tables, with a part of their own, of which nobody gets more than half of what is left at a time.
//!
//! Whoever was refused need not ask again whenever anything comes back: `chances` moves when so little is in use that one of them could have it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::limits::{ACCOUNTS, PASSED_BY, RECEIVES, RESERVED, TABLES};
use crate::memory::LARGEST;

/// Names an account of a pool.
pub(crate) type AccountId = u32;
/// Memory that no account answers for.
pub(crate) const NOBODY: AccountId = AccountId::MAX;

/// Bytes that an account answers for besides buffers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unpooled {
    /// Data, as a buffer's would be.
    pub(crate) data: usize,
    /// What stays for as long as the account.
    pub(crate) tables: usize,
    /// Receives, which stay as long too.
    pub(crate) receives: usize,
    /// What is there whatever the bounds say.
    pub(crate) forced: usize,
}

impl Unpooled {
    pub(crate) fn sum(self) -> usize {
        self.data.saturating_add(self.unreserved())
    }

    /// What leaves the floor alone.
    fn unreserved(self) -> usize {
        self.tables.saturating_add(self.receives).saturating_add(self.forced)
    }
}

/// What an account comes to hold besides data, for as long as it is there, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// Tables that grow.
    pub tables: usize,
    /// Memory of receives that are posted.
    pub receives: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    held: usize,
    /// What of that is not in buffers.
    charged: usize,
    /// What of that is in tables or receives or was forced, and leaves the floor alone.
    unreserved: usize,
    open: bool,
    /// Its place in line, and the most that it was refused since it has it.
    ticket: Option<u64>,
    wants: usize,
}

/// A pool's accounts.
#[derive(Debug, Clone)]
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
    /// The line, with the tickets of those that have left it: only a number that an account still has is a place.
    waiting: VecDeque<(AccountId, u64)>,
    /// How many wait, and the next number.
    lined: usize,
    tickets: u64,
    /// Bytes of tables, of receives and forced ones; and the latter two alone.
    unreserved: usize,
    receives: usize,
    forced: usize,
    /// Whoever was refused could have what it asked for once less than this is in use; zero if nobody is to be roused.
    rouse_below: usize,
    /// Somebody was refused because others are first in line.
    turned_away: bool,
    chances: u64,
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
            lined: 0,
            tickets: 0,
            unreserved: 0,
            receives: 0,
            forced: 0,
            rouse_below: 0,
            turned_away: false,
            chances: 0,
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
        let entry = Entry { held: 0, charged: 0, unreserved: 0, open: true, ticket: None, wants: 0 };
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
        // The others' shares have grown.
        self.rouse();
    }

    /// Bytes in use, by accounts and nobody.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Bytes that an account holds.
    pub(crate) fn held(&self, id: AccountId) -> usize {
        self.entries.get(id as usize).map_or(0, |entry| entry.held)
    }

    /// True when an account holds more data than its floor, and what accounts may hold above theirs is used up.
    pub(crate) fn is_over(&mut self, id: AccountId) -> bool {
        let over = self.used >= self.common && self.data(id) > self.floor;
        if over {
            self.rouse_below = self.rouse_below.max(self.common);
        }
        over
    }

    /// Bytes that an account holds besides its tables, its receives and what was forced.
    fn data(&self, id: AccountId) -> usize {
        self.entries.get(id as usize).map_or(0, |entry| entry.held.saturating_sub(entry.unreserved))
    }

    /// True while an account waits in line.
    pub(crate) fn is_wanted(&self) -> bool {
        self.lined > 0
    }

    /// Moves when somebody who was refused could have what it asked for.
    pub(crate) fn chances(&self) -> u64 {
        self.chances
    }

    #[cold]
    fn rouse(&mut self) {
        (self.rouse_below, self.turned_away) = (0, false);
        self.chances = self.chances.wrapping_add(1);
    }

    /// Puts an account that wants `bytes` at the end of the line, if it is not in it.
    fn line_up(&mut self, id: AccountId, bytes: usize) {
        let Some(entry) = self.entries.get_mut(id as usize) else { return };
        if entry.ticket.is_some() {
            entry.wants = entry.wants.max(bytes);
            return;
        }
        (entry.ticket, entry.wants) = (Some(self.tickets), bytes);
        // Those that have left are swept out before they are more than those that wait.
        if self.waiting.len() > 2 * self.lined + 16 {
            let entries = &self.entries;
            self.waiting.retain(|(id, ticket)| holds(entries, *id, *ticket));
        }
        self.waiting.push_back((id, self.tickets));
        self.tickets += 1;
        self.lined += 1;
        self.unasked = 0;
    }

    /// Who is first in line.
    fn first(&mut self) -> Option<AccountId> {
        while let Some((id, ticket)) = self.waiting.front().copied() {
            if holds(&self.entries, id, ticket) {
                return Some(id);
            }
            self.waiting.pop_front();
        }
        None
    }

    /// Takes an account out of the line.
    pub(crate) fn withdraw(&mut self, id: AccountId) {
        let Some(place) = self.entries.get(id as usize).and_then(|entry| entry.ticket) else { return };
        let first = self.first() == Some(id);
        if let Some(entry) = self.entries.get_mut(id as usize) {
            entry.ticket = None;
        }
        debug_assert!(self.waiting.iter().any(|(_, ticket)| *ticket == place));
        self.lined -= 1;
        if first {
            self.passed = 0;
        }
        if self.lined == 0 {
            self.waiting.clear();
            self.unasked = self.common;
        }
        if first && (self.lined > 0 || self.turned_away) {
            // It is somebody else's turn.
            self.rouse();
        }
    }

    /// An account was admitted, but blocks that are out leave no room in one piece: it is first in line from now on, until as much has come back, and whoever
    /// is above its floor waits meanwhile.
    pub(crate) fn line_up_first(&mut self, id: AccountId, bytes: usize) {
        self.line_up(id, bytes);
        let Some(place) = self.entries.get(id as usize).and_then(|entry| entry.ticket) else { return };
        self.waiting.retain(|waiting| *waiting != (id, place));
        self.waiting.push_front((id, place));
        self.passed = PASSED_BY;
    }

    /// Counts `bytes` less that were admitted, and for which there was no memory: whatever comes back next may make room for them.
    pub(crate) fn give_back_unplaced(&mut self, id: AccountId, bytes: usize) {
        self.give_back(id, bytes);
        self.rouse_below = usize::MAX;
    }

    /// Takes an account that has got `bytes` out of the line, unless its place is that of something larger.
    fn leave_line(&mut self, id: AccountId, bytes: usize) {
        if self.entries.get(id as usize).is_some_and(|entry| entry.wants <= bytes) {
            self.withdraw(id);
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
        let Some(entry) = self.entries.get(id as usize).copied() else { return self.admit_unowned(bytes) };
        let modest = self.is_modest(id, bytes);
        if !modest && !self.has_turn(id, entry, bytes) {
            self.await_floor(id, bytes);
            return false;
        }
        if modest && self.lined > 0 {
            self.leave_line(id, bytes);
        }
        self.add(id, bytes);
        true
    }

    /// Counts `bytes` more for an account if they are within its floor, and leaves its place in line to what waits there.
    pub(crate) fn admit_within_floor(&mut self, id: AccountId, bytes: usize) -> bool {
        let modest = self.is_modest(id, bytes);
        if modest {
            self.add(id, bytes);
        } else {
            self.await_floor(id, bytes);
        }
        modest
    }

    /// Counts more of what is held for as long as the account is there, if that much is free above the reserve, and tables and receives are not too many.
    pub(crate) fn admit_standing(&mut self, id: AccountId, more: Standing) -> bool {
        let Standing { tables, receives } = more;
        let bytes = tables.saturating_add(receives);
        let tables_after = self.unreserved.saturating_sub(self.receives).saturating_add(tables);
        let receives_left = (self.limit / RECEIVES).saturating_sub(self.receives);
        let fits = bytes == 0
            || self.used.saturating_add(bytes) <= self.common
                && (tables == 0 || tables_after <= self.limit / TABLES)
                && receives <= receives_left / 2;
        if fits {
            self.add(id, bytes);
            self.count_unreserved(id, bytes);
            self.receives = self.receives.saturating_add(receives);
        }
        fits
    }

    /// Bytes with which an account's data is within its least part, or its floor, and with how much in use besides what was forced it may have
    /// them.
    fn bounds(&self) -> [(usize, usize); 2] {
        [(self.least, self.limit), (self.floor, self.limit - self.reserve() / 2)]
    }

    /// Bytes of data that an account may have within its floor, if they are free.
    pub(crate) fn floor_left(&self, id: AccountId) -> usize {
        self.floor.max(self.least).saturating_sub(self.data(id))
    }

    /// Whether an account is within its floor with so much more.
    fn is_modest(&self, id: AccountId, bytes: usize) -> bool {
        let data = self.data(id).saturating_add(bytes);
        let used = self.used.saturating_sub(self.forced).saturating_add(bytes);
        self.bounds().iter().any(|(floor, limit)| data <= *floor && used <= *limit)
    }

    /// Rouses whoever was refused what is within its floor once there is room for it.
    fn await_floor(&mut self, id: AccountId, bytes: usize) {
        let data = self.data(id).saturating_add(bytes);
        for (floor, limit) in self.bounds() {
            if data <= floor {
                self.rouse_at(limit.saturating_add(self.forced).checked_sub(bytes));
            }
        }
    }

    /// Rouses whoever was refused once no more than so much is in use, if that ever helps.
    fn rouse_at(&mut self, used: Option<usize>) {
        self.rouse_below = self.rouse_below.max(used.map_or(0, |used| used + 1));
    }

    /// Whether an account may go above its floor. If only others stand in its way it waits in line.
    fn has_turn(&mut self, id: AccountId, entry: Entry, bytes: usize) -> bool {
        let used = self.used.saturating_add(bytes);
        let held = entry.held.saturating_add(bytes);
        let first = entry.held == entry.charged;
        let within = first || held <= self.share;
        let fits = used <= self.common;
        let left = self.common.saturating_sub(used);
        if !within && (!fits || (held > left && self.open > 1)) {
            let leaves = if self.open > 1 { held } else { 0 };
            self.rouse_at(self.common.checked_sub(bytes.saturating_add(leaves)));
            return false;
        }
        let next = if self.lined > 0 { self.first() } else { None };
        let turn = match next {
            None => true,
            Some(next) => next == id || (held <= self.share && self.passed < PASSED_BY),
        };
        if fits && turn {
            if next.is_some_and(|next| next != id) {
                self.passed += 1;
            }
            if next.is_some() {
                self.leave_line(id, bytes);
            }
            return true;
        }
        self.turned_away |= !turn;
        if turn {
            self.rouse_at(self.common.checked_sub(bytes));
        }
        if within {
            self.line_up(id, bytes);
        }
        false
    }

    fn add(&mut self, id: AccountId, bytes: usize) {
        self.used = self.used.saturating_add(bytes);
        if let Some(entry) = self.entries.get_mut(id as usize) {
            entry.held = entry.held.saturating_add(bytes);
        }
    }

    /// So much of what an account holds leaves its floor alone.
    fn count_unreserved(&mut self, id: AccountId, bytes: usize) {
        self.unreserved = self.unreserved.saturating_add(bytes);
        if let Some(entry) = self.entries.get_mut(id as usize) {
            entry.unreserved = entry.unreserved.saturating_add(bytes);
        }
    }

    /// Counts `bytes` of data more, whatever the bounds say.
    pub(crate) fn count(&mut self, id: AccountId, bytes: usize) {
        self.add(id, bytes);
    }

    /// Counts `bytes` more that are there anyway.
    pub(crate) fn force(&mut self, id: AccountId, bytes: usize) {
        self.add(id, bytes);
        self.count_unreserved(id, bytes);
        self.forced = self.forced.saturating_add(bytes);
    }

    /// Counts `less` of what is in no buffer as no longer there.
    pub(crate) fn give_back_unpooled(&mut self, id: AccountId, less: Unpooled) {
        self.forced = self.forced.saturating_sub(less.forced);
        self.receives = self.receives.saturating_sub(less.receives);
        let unreserved = less.unreserved();
        self.unreserved = self.unreserved.saturating_sub(unreserved);
        if let Some(entry) = self.entries.get_mut(id as usize) {
            entry.unreserved = entry.unreserved.saturating_sub(unreserved);
        }
        self.give_back(id, less.sum());
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
        if self.used < self.rouse_below {
            self.rouse();
        }
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

/// Whether an account still has this place in line.
fn holds(entries: &[Entry], id: AccountId, ticket: u64) -> bool {
    entries.get(id as usize).is_some_and(|entry| entry.ticket == Some(ticket))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 64 << 20;

    fn table(bytes: usize) -> Standing {
        Standing { tables: bytes, receives: 0 }
    }

    fn receives(bytes: usize) -> Standing {
        Standing { tables: 0, receives: bytes }
    }

    /// Who waits, in order.
    fn line(ledger: &Ledger) -> Vec<AccountId> {
        let live = ledger.waiting.iter().filter(|(id, ticket)| holds(&ledger.entries, *id, *ticket));
        live.map(|(id, _)| *id).collect()
    }

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
        let before = line(&ledger);
        assert!(ledger.admit_within_floor(one, 4096));
        assert_eq!((ledger.held(one), line(&ledger)), (4096, before.clone()), "its place is the large one's");
        while ledger.admit_within_floor(one, 4096) {}
        assert!(ledger.held(one) <= ledger.floor && ledger.used() <= LIMIT);
        assert_eq!(line(&ledger), before, "who is refused within the floor does not line up twice");
    }

    #[test]
    fn what_is_smaller_leaves_the_place_to_what_waits() {
        let mut ledger = Ledger::new(LIMIT);
        let (hoarder, one, two) = (ledger.open(), ledger.open(), ledger.open());
        ledger.count(hoarder, LIMIT - LIMIT / RESERVED);
        assert!(!ledger.admit(one, 4 << 20) && !ledger.admit(two, LARGEST));
        let both = line(&ledger);
        assert!(ledger.admit(one, 4096));
        assert_eq!(line(&ledger), both, "it is within the floor");
        ledger.give_back(hoarder, (2 << 20) + 4096);
        assert!(ledger.admit(one, 2 << 20));
        assert_eq!(line(&ledger), both, "it is the account's turn, and not all that it waits for");
        ledger.give_back(hoarder, 4 << 20);
        assert!(!ledger.admit(one, 5 << 20) && ledger.admit(one, 4 << 20));
        assert_eq!(line(&ledger), both, "it wants more since");
        ledger.give_back(hoarder, 5 << 20);
        assert!(ledger.admit(one, 5 << 20));
        assert_eq!(line(&ledger), [two]);
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
                    line(ledger),
                    ledger.passed,
                    ledger.chances,
                )
            };
            assert_eq!(state(&whole), state(&quick), "step {step}");
        }
        assert!(usual > 5_000 && waited > 5_000, "{usual} usual cases, {waited} steps with somebody in line");
    }

    /// Numbers by seed (SplitMix64).
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            usize::try_from((word ^ word >> 27) % bound as u64).unwrap()
        }
    }

    /// Accounts do what they like, with tables and with what is there anyway too: what was not forced stays within the limit, and whoever comes, or was there
    /// before, has its least part and its floor at once.
    #[test]
    fn whatever_was_counted_everybody_has_its_floor_at_once() {
        for seed in 0..20 {
            let mut numbers = Numbers(seed);
            let mut ledger = Ledger::new(LIMIT);
            let old = ledger.open();
            let crowd: Vec<_> = (0..100 + numbers.below(800)).map(|_| ledger.open()).collect();
            let mut forced = 0;
            for _ in 0..20_000 {
                let id = crowd[numbers.below(crowd.len())];
                let bytes = 512 << numbers.below(15);
                match numbers.below(9) {
                    0..3 => drop(ledger.admit(id, bytes)),
                    3 => {
                        let left = ledger.floor_left(id);
                        assert!(
                            !ledger.admit_within_floor(id, bytes) || bytes <= left,
                            "seed {seed}: the floor"
                        );
                    }
                    4 | 5 => drop(ledger.admit_standing(id, table(bytes))),
                    6 => {
                        ledger.force(id, bytes >> 6);
                        forced += bytes >> 6;
                    }
                    7 => drop(ledger.admit_standing(id, receives(bytes))),
                    _ => ledger.give_back(id, bytes.min(ledger.data(id))),
                }
                assert!(ledger.used() <= LIMIT + forced, "seed {seed}");
                let tables = ledger.unreserved - ledger.receives;
                assert!(tables <= LIMIT / TABLES + forced, "seed {seed}: tables");
                assert!(ledger.receives <= LIMIT / RECEIVES, "seed {seed}: receives");
            }
            assert!(forced > LIMIT / 8, "{forced} bytes were forced: more than the reserve");
            let new = ledger.open();
            for id in [old, new] {
                ledger.force(id, 10_000);
                assert!(ledger.admit(id, 4096), "seed {seed}: the least part beside {}", crowd.len());
                let rest = ledger.floor.saturating_sub(4096);
                assert!(ledger.admit(id, rest), "seed {seed}: the floor beside {}", crowd.len());
                ledger.give_back(id, ledger.data(id));
            }
            assert!(ledger.used() <= LIMIT + forced + 20_000, "seed {seed}");
        }
    }

    #[test]
    fn tables_take_a_part_of_what_is_free_and_nobodys_floor() {
        let mut ledger = Ledger::new(LIMIT);
        let ids: Vec<_> = (0..1000).map(|_| ledger.open()).collect();
        let grown = ids.iter().filter(|id| ledger.admit_standing(**id, table(50_000))).count();
        assert_eq!(grown, LIMIT / TABLES / 50_000);
        assert!(ledger.admit(ids[0], ledger.floor), "beside a table of its own");
        assert_eq!(ledger.held(ids[0]), 50_000 + ledger.floor);
        fill(&mut ledger, ids[1], LARGEST);
        let last = ids[999];
        assert!(ledger.used() <= LIMIT && !ledger.admit_standing(last, table(LIMIT)));
        assert!(!ledger.is_wanted(), "a table waits for nothing");
    }

    /// The first that come with many receives leave some to those who come later with few, and what they have takes from nobody's floor, nor from the tables' part.
    #[test]
    fn receives_take_a_part_of_what_is_free_and_leave_some_to_the_next() {
        let mut ledger = Ledger::new(LIMIT);
        let ids: Vec<_> = (0..100).map(|_| ledger.open()).collect();
        let mib = |mib: usize| receives(mib << 20);
        assert!(!ledger.admit_standing(ids[0], mib(17)), "more than half of what is left");
        for (id, bytes) in ids.iter().zip([16, 8, 4, 2, 1]) {
            assert!(ledger.admit_standing(*id, mib(bytes)) && !ledger.admit_standing(*id, mib(bytes)));
        }
        assert_eq!(ledger.floor_left(ids[0]), ledger.floor, "beside receives of its own");
        assert!(ledger.admit_standing(ids[5], Standing { tables: LIMIT / TABLES, receives: 4096 }));
        assert!(!ledger.admit_standing(ids[6], Standing { tables: 1, receives: 4096 }), "both or neither");
        assert!(ledger.admit(ids[6], LARGEST), "what is left of the common part");
        ledger.force(ids[7], LIMIT);
        assert!(ledger.admit_standing(ids[6], Standing::default()), "nothing is always there");
        ledger.give_back_unpooled(ids[7], Unpooled { forced: LIMIT, ..Unpooled::default() });
        let before = (ledger.used(), ledger.receives);
        ledger.give_back_unpooled(ids[0], Unpooled { receives: 16 << 20, ..Unpooled::default() });
        assert_eq!((ledger.used(), ledger.receives), (before.0 - (16 << 20), before.1 - (16 << 20)));
        assert!(ledger.admit_standing(ids[0], mib(8)));
    }

    /// Many wait for large pieces while one takes and returns small ones: nobody is roused for that.
    #[test]
    fn who_cannot_have_what_it_waits_for_is_not_roused() {
        let mut ledger = Ledger::new(LIMIT);
        let good = ledger.open();
        let crowd: Vec<_> = (0..100).map(|_| ledger.open()).collect();
        for id in &crowd {
            fill(&mut ledger, *id, 1 << 20);
        }
        assert!(ledger.is_wanted());
        let before = ledger.chances();
        for _ in 0..1000 {
            assert!(ledger.admit(good, 4096));
            ledger.give_back(good, 4096);
        }
        assert_eq!(ledger.chances(), before);
        let holder = crowd.iter().copied().find(|id| ledger.held(*id) > 0).unwrap();
        ledger.give_back(holder, 1 << 20);
        assert_ne!(ledger.chances(), before, "the first in line could have it");
    }

    /// Whoever is only asked again when `chances` moves is served as soon as whoever asks again each time something comes back.
    #[test]
    fn nobody_misses_a_chance() {
        for seed in 0..30 {
            let mut numbers = Numbers(seed);
            let mut ledger = Ledger::new(LIMIT);
            let ids: Vec<_> = (0..12).map(|_| ledger.open()).collect();
            let (mut wants, mut seen) = ([0; 12], 0);
            for step in 0..5_000 {
                let at = numbers.below(ids.len());
                let bytes = 4096 << numbers.below(12);
                if numbers.below(2) == 0 && wants[at] == 0 {
                    if !ledger.admit(ids[at], bytes) {
                        wants[at] = bytes;
                    }
                } else {
                    ledger.give_back(ids[at], bytes.min(ledger.data(ids[at])));
                    // Whoever gives back looks again by itself.
                    if wants[at] > 0 && ledger.admit(ids[at], wants[at]) {
                        wants[at] = 0;
                    }
                }
                while std::mem::replace(&mut seen, ledger.chances()) != ledger.chances() {
                    for (id, want) in ids.iter().zip(&mut wants).filter(|(_, want)| **want > 0) {
                        if ledger.admit(*id, *want) {
                            *want = 0;
                        }
                    }
                }
                for (id, want) in ids.iter().zip(&wants).filter(|(_, want)| **want > 0) {
                    assert!(
                        !ledger.clone().admit(*id, *want),
                        "seed {seed}, step {step}: account {id} with {} was not roused for {want}",
                        ledger.held(*id)
                    );
                }
            }
        }
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
