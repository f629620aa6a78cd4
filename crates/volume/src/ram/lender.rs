//! Whether a read lends the volume's pages or copies them: what one queue keeps for that.
//!
//! Lending saves a copy of what is read, and costs a copy of a whole page when that is written before the answer has
//! been sent. Whoever sees that pages had to be copied lends nothing for a while, so that traffic that reads and writes
//! the same pages at the same time costs at most a little more than if nothing was ever lent.

use buf::{Buf, Loans, SharedBuf};

use super::page::PAGE;

/// The shortest read that is lent, in bytes: to count the holders of a page costs as much as to copy less
/// (docs/decisions/0007-lent-pages.md).
const SHORTEST: usize = 2 << 10;
/// Reads shorter than a page that may be under way at a time, lent: each may keep a page, or two, that was written since, and
/// the pool, which counts what was asked for, would bound that far too late.
const SHORT: usize = 1024;
/// Bytes of reads that are copied for each page that had to be.
const WARY: usize = 4 * PAGE;

/// Decides for one queue.
#[derive(Debug)]
pub(super) struct Lender {
    /// What stands for holes. A queue has its own, as the count of holders is then never shared with another core; it is
    /// never written, so that the system has one page for all of it.
    pub(super) zeros: SharedBuf,
    /// Pages that had been copied when this last looked.
    seen: u64,
    /// The short reads that are lent.
    loans: Loans,
    /// Bytes that are still to be copied before anything is lent again.
    wary: usize,
}

impl Lender {
    pub(super) fn new() -> Self {
        Self { zeros: Buf::zeroed(PAGE).freeze(), seen: 0, loans: Loans::default(), wary: 0 }
    }

    /// Whether to lend for a read of `len` bytes, of a volume that has copied `copied` pages because they were lent.
    pub(super) fn lends(&mut self, len: usize, copied: u64) -> bool {
        if len < SHORTEST {
            return false;
        }
        let more = copied.wrapping_sub(std::mem::replace(&mut self.seen, copied));
        self.wary = self.wary.saturating_add(wire::index(more).saturating_mul(WARY));
        let lends = self.wary == 0 && (len >= PAGE || self.loans.out() < SHORT);
        self.wary = self.wary.saturating_sub(len);
        lends
    }

    /// What a read of `len` bytes is counted among while it is lent.
    pub(super) fn loans(&self, len: usize) -> Option<&Loans> {
        (len < PAGE).then_some(&self.loans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_had_to_be_copied_stops_lending_for_a_while() {
        let mut lender = Lender::new();
        assert!(!lender.lends(SHORTEST - 1, 0) && lender.lends(SHORTEST, 0));
        let copied = (0..10).filter(|_| !lender.lends(PAGE, 1)).count();
        assert_eq!(copied, WARY / PAGE);
        assert!(!lender.lends(PAGE, 3));
        assert_eq!((0..20).filter(|_| !lender.lends(PAGE, 3)).count(), 2 * WARY / PAGE - 1);
    }

    #[test]
    fn so_many_short_reads_are_lent_at_a_time_and_any_number_of_long_ones() {
        let mut lender = Lender::new();
        let lend = |lender: &Lender, len| Buf::zeroed(len).lend(lender.zeros.slice(..len), lender.loans(len));
        let mut held: Vec<_> = (0..SHORT).map(|_| lend(&lender, SHORTEST)).collect();
        assert!(!lender.lends(SHORTEST, 0) && !lender.lends(PAGE - 1, 0) && lender.lends(PAGE, 0));
        held.push(lend(&lender, PAGE));
        held.drain(..1);
        assert!(lender.lends(SHORTEST, 0));
    }
}
