//! What one holder has of a pool: its buffers, and bytes that it keeps outside of buffers.

use core::fmt;

use crate::ledger::{AccountId, NOBODY, Standing, Unpooled};
use crate::owned::Buf;
use crate::pool::Pool;

/// One connection's share of a pool. Buffers taken through it count for it until their last holder lets go, wherever
/// that is: at a volume, or in a send that the peer does not read. Bytes in other memory are charged by hand.
///
/// Only the pool's thread may use it; it may be dropped anywhere.
pub struct Account {
    pool: Pool,
    id: AccountId,
    /// What it answers for outside of buffers.
    outside: Unpooled,
    /// What of its data is there although it might not have it: a part of what was forced.
    overdrawn: usize,
    /// It was refused, and may wait in line.
    refused: bool,
}

/// What a holder has outside of buffers by its own reckoning, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outside {
    /// Data, such as answers that wait to be sent.
    pub data: usize,
    /// Tables as far as [`Account::charge_standing`] did not grant them: the first part of each, which a holder has in any case.
    pub tables: usize,
}

impl Account {
    /// An account of `pool`, on the pool's thread.
    pub fn new(pool: &Pool) -> Self {
        let (id, outside) = (pool.open_account(), Unpooled::default());
        Self { id, pool: pool.clone(), outside, overdrawn: 0, refused: false }
    }

    /// An account without a share, for a part of something that has an account of its own: what it counts is in use, and leaves what others may have alone.
    pub fn apart(pool: &Pool) -> Self {
        Self { id: NOBODY, pool: pool.clone(), outside: Unpooled::default(), overdrawn: 0, refused: false }
    }

    /// A buffer of `len` bytes, at most [`LARGEST`](crate::LARGEST), or `None` when there is none, or others are to have it: wait until
    /// [`Pool::returns`] has moved.
    ///
    /// # Panics
    /// As [`Pool::take`].
    pub fn take(&mut self, len: usize) -> Option<Buf> {
        let buf = self.pool.take_for(self.id, len);
        self.refused |= buf.is_none();
        buf
    }

    /// A buffer for what is behind something of this account that waits in line, and fits beside it: within the floor, which an account
    /// may hold whatever others do. The place in line stays.
    pub fn take_within_floor(&mut self, len: usize) -> Option<Buf> {
        self.pool.take_within_floor(self.id, len)
    }

    /// Bytes that are left of the floor: [`Account::take_within_floor`] gives no more, and none while this is zero.
    pub fn floor_left(&self) -> usize {
        self.pool.floor_left(self.id)
    }

    /// A buffer of `len` bytes in place of as many that were charged, of `charged` for this purpose: nobody is asked again.
    pub fn take_charged(&mut self, len: usize, charged: usize) -> Option<Buf> {
        let part = len.min(charged).min(self.outside.data);
        self.take_off(Unpooled { data: part, ..Unpooled::default() });
        let buf = self.pool.take_at_once(self.id, len);
        if buf.is_none() {
            self.pool.recount(self.id, part);
            self.outside.data = self.outside.data.saturating_add(part);
            self.note();
        }
        self.refused |= buf.is_none();
        buf
    }

    /// Counts `bytes` of other memory, if this account may have them.
    #[must_use]
    pub fn charge(&mut self, bytes: usize) -> bool {
        let charged = self.pool.charge(self.id, bytes);
        if charged {
            self.outside.data = self.outside.data.saturating_add(bytes);
            self.note();
        }
        self.refused |= !charged;
        charged
    }

    /// Counts `bytes` of a table that grows and stays for as long as the account does, as [`Account::charge_standing`] does.
    #[must_use]
    pub fn charge_table(&mut self, bytes: usize) -> bool {
        self.charge_standing(Standing { tables: bytes, receives: 0 })
    }

    /// Counts memory that stays for as long as the account does, if so much is free: all of it or nothing. It leaves the account's floor alone; whoever is
    /// refused does not wait in line.
    #[must_use]
    pub fn charge_standing(&mut self, more: Standing) -> bool {
        let charged = self.pool.charge_standing(self.id, more);
        if charged {
            self.outside.tables = self.outside.tables.saturating_add(more.tables);
            self.outside.receives = self.outside.receives.saturating_add(more.receives);
            self.note();
        }
        charged
    }

    /// Counts `bytes` of data that is there already: as [`Account::charge`] does if the account may have it, by force otherwise. Whoever uses this takes
    /// no more while [`Account::overdrawn`] is more than a little.
    #[inline]
    pub fn charge_present(&mut self, bytes: usize) {
        if bytes > 0 {
            self.charge_some(bytes);
        }
    }

    #[inline(never)]
    fn charge_some(&mut self, bytes: usize) {
        if self.pool.charge_present(self.id, bytes) {
            self.outside.data = self.outside.data.saturating_add(bytes);
            self.note();
        } else {
            self.count(bytes);
            self.overdrawn = self.overdrawn.saturating_add(bytes);
        }
    }

    /// Counts `bytes` of other memory that are there already and no data, such as the first part of a table, whatever the limit says. They come on top of what the others' floors need: whoever uses this
    /// sees to it that they are few.
    #[inline]
    pub fn count(&mut self, bytes: usize) {
        if bytes > 0 {
            self.force(bytes);
        }
    }

    #[inline(never)]
    fn force(&mut self, bytes: usize) {
        self.pool.force(self.id, bytes);
        self.outside.forced = self.outside.forced.saturating_add(bytes);
        self.note();
    }

    /// Of the memory that was counted, `bytes` are free again.
    pub fn uncount(&mut self, bytes: usize) {
        debug_assert!(
            bytes + self.overdrawn <= self.outside.forced,
            "{bytes} bytes of {:?}, of which {} are data, are no longer counted",
            self.outside,
            self.overdrawn
        );
        if bytes > 0 {
            self.take_off(Unpooled { forced: bytes, ..Unpooled::default() });
        }
    }

    /// Counts what a holder has outside of buffers: `held` now, of which `counted` is counted already. To be called where they differ, which is rare.
    #[cold]
    pub fn recount(&mut self, counted: &mut Outside, held: Outside) {
        self.release(counted.data.saturating_sub(held.data));
        self.charge_present(held.data.saturating_sub(counted.data));
        self.count(held.tables.saturating_sub(counted.tables));
        self.uncount(counted.tables.saturating_sub(held.tables));
        *counted = held;
    }

    /// Bytes of data for which there was no room.
    pub fn overdrawn(&self) -> usize {
        self.overdrawn
    }

    /// The memory of `bytes` of data that were charged is free again: what was overdrawn first.
    #[inline]
    pub fn release(&mut self, bytes: usize) {
        debug_assert!(
            bytes <= self.outside.data + self.overdrawn,
            "{bytes} bytes of {:?}, of which {} were overdrawn, are released",
            self.outside,
            self.overdrawn
        );
        if bytes > 0 {
            self.release_some(bytes);
        }
    }

    #[inline(never)]
    fn release_some(&mut self, bytes: usize) {
        let forced = bytes.min(self.overdrawn);
        self.overdrawn = self.overdrawn.saturating_sub(forced);
        let data = bytes.saturating_sub(forced).min(self.outside.data);
        self.take_off(Unpooled { data, forced, ..Unpooled::default() });
    }

    fn take_off(&mut self, less: Unpooled) {
        self.outside.data = self.outside.data.saturating_sub(less.data);
        self.outside.forced = self.outside.forced.saturating_sub(less.forced);
        self.note();
        self.pool.uncount(self.id, less);
    }

    fn note(&mut self) {
        self.pool.set_charged(self.id, self.outside.sum());
    }

    /// Nothing is wanted any more of what was refused: the account does not wait in line.
    #[inline]
    pub fn stop_waiting(&mut self) {
        if self.refused {
            self.refused = false;
            self.pool.withdraw(self.id);
        }
    }

    /// True when others are to have what comes back first: this account holds more than its floor, and the pool's common part is used up.
    pub fn is_over(&self) -> bool {
        self.pool.is_over(self.id)
    }

    /// Bytes in buffers and other memory.
    pub fn held(&self) -> usize {
        self.pool.held(self.id)
    }

    /// Moves whenever memory comes back to the pool, or it is somebody else's turn to have some.
    pub fn returns(&self) -> u64 {
        self.pool.returns()
    }

    /// True while some account of the pool waits for memory that others hold.
    pub fn is_wanted(&self) -> bool {
        self.pool.is_wanted()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.pool.close_account(self.id, self.outside);
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("id", &self.id)
            .field("outside", &self.outside)
            .field("overdrawn", &self.overdrawn)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 64 << 20;

    #[test]
    fn a_buffer_counts_until_its_last_holder_lets_go_on_whatever_thread() {
        let pool = Pool::new(LIMIT);
        let mut account = Account::new(&pool);
        let shared = account.take(5000).unwrap().freeze();
        let other = shared.clone();
        drop(shared);
        assert_eq!((account.held(), pool.used()), (8192, 8192));
        std::thread::spawn(move || drop(other)).join().unwrap();
        assert_eq!(account.take(512).map(|buf| buf.len()), Some(512));
        assert_eq!((account.held(), pool.used()), (0, 0));
    }

    #[test]
    fn charges_and_buffers_share_the_limit_and_idle_buffers_make_room() {
        let pool = Pool::new(LIMIT);
        let mut account = Account::new(&pool);
        drop(account.take(8 << 20).unwrap());
        assert!(account.charge(52 << 20));
        assert!(pool.usage().allocated <= LIMIT, "{:?}", pool.usage());
        assert!(account.take(8 << 20).is_none(), "beyond what one may hold");
        let returns = account.returns();
        account.release(52 << 20);
        assert_ne!(account.returns(), returns, "whoever waits is to look again");
        assert!(account.take(8 << 20).is_some());
    }

    #[test]
    fn what_is_apart_counts_and_takes_no_share() {
        let pool = Pool::new(LIMIT);
        let account = Account::new(&pool);
        let floor = account.floor_left();
        let mut apart = Account::apart(&pool);
        assert!(apart.charge_table(10_000));
        apart.count(500);
        assert_eq!((account.floor_left(), pool.used()), (floor, 10_500));
        apart.uncount(500);
        std::thread::spawn(move || drop(apart)).join().unwrap();
        assert_eq!((Account::new(&pool).held(), pool.used()), (0, 0));
    }

    #[test]
    fn what_an_account_charged_ends_with_it_on_any_thread() {
        let pool = Pool::new(LIMIT);
        let mut account = Account::new(&pool);
        account.count(LIMIT);
        assert!(Account::new(&pool).take(8 << 20).is_none());
        std::thread::spawn(move || drop(account)).join().unwrap();
        let mut next = Account::new(&pool);
        assert!(next.take(8 << 20).is_some());
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn what_was_counted_stays_counted_while_data_comes_and_goes() {
        let pool = Pool::new(LIMIT);
        let mut account = Account::new(&pool);
        account.charge_present(700);
        account.count(1000);
        account.release(700);
        assert_eq!((account.outside.data, account.outside.forced, account.overdrawn()), (0, 1000, 0));
        // Without room, data is overdrawn, and what is released first is that.
        let mut other = Account::new(&pool);
        other.count(LIMIT);
        account.charge_present(3000);
        account.charge_present(LIMIT);
        assert_eq!((account.outside.data, account.overdrawn()), (3000, LIMIT));
        account.release(LIMIT + 1000);
        assert_eq!((account.outside.data, account.outside.forced, account.overdrawn()), (2000, 1000, 0));
        account.uncount(1000);
        account.release(2000);
        assert_eq!(account.held(), 0);
    }

    #[test]
    fn a_turn_that_comes_without_a_return_is_told() {
        let pool = Pool::new(LIMIT);
        let mut accounts = [(); 3].map(|()| Account::new(&pool));
        let [hog, first, second] = &mut accounts;
        hog.count(LIMIT);
        assert!(first.take(8 << 20).is_none());
        hog.uncount(LIMIT);
        assert!(!second.charge(20 << 20), "others are first in line");
        let returns = second.returns();
        let taken = first.take(8 << 20);
        assert!(taken.is_some());
        assert_ne!(second.returns(), returns, "it is its turn now, though nothing has come back");
        assert!(second.charge(20 << 20));
    }

    #[test]
    fn who_no_longer_asks_leaves_the_line() {
        let pool = Pool::new(LIMIT);
        let (mut one, mut two) = (Account::new(&pool), Account::new(&pool));
        one.count(LIMIT);
        assert!(two.take(8 << 20).is_none());
        assert!(one.is_wanted());
        two.stop_waiting();
        assert!(!one.is_wanted());
    }
}
