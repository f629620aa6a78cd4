//! What connections have on loan: stateids, and anonymous access to files (docs/decisions/0036-nfs.md).
//!
//! A loan lets its holder judge READ and WRITE by itself. Before the group takes back what the loan says, it recalls it, and waits until the
//! holder has given it back.
//!
//! Messages cross: a holder may give back what it has while an answer that lends it again is on its way. So each lending counts, and whoever gives back says how
//! many of them it had heard of; what is left is still lent.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::v4::{Modes, StateidOther};

/// What can be lent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loan<F> {
    /// A stateid.
    Stateid(StateidOther),
    /// Access to a file without an open.
    Anonymous(F, Modes),
}

/// Where a loan stands at one holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Lent,
    Recalled,
}

/// A loan at one holder.
#[derive(Debug)]
struct Lending {
    standing: Standing,
    /// How often it was lent, and has not come back.
    times: u32,
}

/// All loans. `M` names a connection.
#[derive(Debug)]
pub struct Loans<M, F> {
    by_loan: BTreeMap<Loan<F>, BTreeMap<M, Lending>>,
    by_holder: BTreeMap<M, BTreeSet<Loan<F>>>,
}

impl<M: Copy + Ord, F: Clone + Ord> Loans<M, F> {
    /// None.
    pub fn new() -> Self {
        Self { by_loan: BTreeMap::new(), by_holder: BTreeMap::new() }
    }

    /// Lends, perhaps again.
    pub fn lend(&mut self, loan: Loan<F>, to: M) {
        self.by_holder.entry(to).or_default().insert(loan.clone());
        let holders = self.by_loan.entry(loan).or_default();
        let lending = holders.entry(to).or_insert(Lending { standing: Standing::Lent, times: 0 });
        lending.times = lending.times.saturating_add(1);
    }

    /// It came back, as often as its holder had heard of it. If it was lent once more meanwhile, its holder is to be asked once more.
    pub fn give_back(&mut self, loan: &Loan<F>, from: M, times: u32) {
        if let Some(holders) = self.by_loan.get_mut(loan) {
            if let Some(lending) = holders.get_mut(&from) {
                lending.times = lending.times.saturating_sub(times);
                lending.standing = Standing::Lent;
                if lending.times > 0 {
                    return;
                }
            }
            holders.remove(&from);
            if holders.is_empty() {
                self.by_loan.remove(loan);
            }
        }
        if let Some(mine) = self.by_holder.get_mut(&from) {
            mine.remove(loan);
            if mine.is_empty() {
                self.by_holder.remove(&from);
            }
        }
    }

    /// True if somebody has it, other than `except`.
    pub fn is_lent(&self, loan: &Loan<F>, except: Option<M>) -> bool {
        self.by_loan.get(loan).is_some_and(|holders| holders.keys().any(|holder| Some(*holder) != except))
    }

    /// Asks it back from everybody but `except`, and says from whom it was not asked back before.
    pub fn recall(&mut self, loan: &Loan<F>, except: Option<M>) -> Vec<M> {
        let holders = self.by_loan.get_mut(loan).into_iter().flatten();
        let holders = holders.filter(|(holder, _)| Some(**holder) != except);
        let news = holders.filter(|(_, lending)| lending.standing == Standing::Lent);
        news.map(|(holder, lending)| {
            lending.standing = Standing::Recalled;
            *holder
        })
        .collect()
    }

    /// True while it is asked back from anybody: it is lent to nobody meanwhile.
    pub fn is_recalled(&self, loan: &Loan<F>) -> bool {
        self.by_loan
            .get(loan)
            .is_some_and(|holders| holders.values().any(|lending| lending.standing == Standing::Recalled))
    }

    /// A connection is gone, after all its requests have ended.
    pub fn forget(&mut self, holder: M) {
        for loan in self.by_holder.remove(&holder).unwrap_or_default() {
            self.give_back(&loan, holder, u32::MAX);
        }
    }

    /// How many files and stateids are lent.
    pub fn len(&self) -> usize {
        self.by_loan.len()
    }

    /// True if nothing is lent.
    pub fn is_empty(&self) -> bool {
        self.by_loan.is_empty()
    }
}

impl<M: Copy + Ord, F: Clone + Ord> Default for Loans<M, F> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stateid(number: u8) -> Loan<char> {
        Loan::Stateid(StateidOther([number; 12]))
    }

    #[test]
    fn a_recall_asks_each_holder_once() {
        let mut loans = Loans::new();
        loans.lend(stateid(1), 'a');
        loans.lend(stateid(1), 'b');
        loans.lend(stateid(2), 'a');
        assert!(!loans.is_recalled(&stateid(1)));
        assert_eq!(loans.recall(&stateid(1), Some('a')), ['b']);
        assert_eq!(loans.recall(&stateid(1), None), ['a']);
        assert!(loans.recall(&stateid(1), None).is_empty() && loans.is_recalled(&stateid(1)));
        assert!(!loans.is_recalled(&stateid(2)));
        loans.give_back(&stateid(1), 'a', 1);
        assert!(loans.is_lent(&stateid(1), None) && !loans.is_lent(&stateid(1), Some('b')));
        loans.give_back(&stateid(1), 'b', 1);
        assert!(!loans.is_lent(&stateid(1), None) && !loans.is_recalled(&stateid(1)));
    }

    /// An answer that lends again crosses what comes back: the holder has it still.
    #[test]
    fn what_is_lent_again_meanwhile_is_still_lent() {
        let mut loans = Loans::new();
        loans.lend(stateid(1), 'a');
        assert_eq!(loans.recall(&stateid(1), None), ['a']);
        // Lending again does not undo a recall.
        loans.lend(stateid(1), 'a');
        assert!(loans.is_recalled(&stateid(1)));
        loans.give_back(&stateid(1), 'a', 1);
        assert!(loans.is_lent(&stateid(1), None) && !loans.is_recalled(&stateid(1)));
        assert_eq!(loans.recall(&stateid(1), None), ['a']);
        loans.give_back(&stateid(1), 'a', 1);
        assert!(loans.is_empty() && loans.by_holder.is_empty());
    }

    #[test]
    fn whoever_leaves_has_nothing_any_more() {
        let mut loans = Loans::new();
        loans.lend(stateid(1), 'a');
        loans.lend(Loan::Anonymous('f', Modes::READ), 'a');
        loans.lend(stateid(1), 'b');
        loans.forget('a');
        assert_eq!((loans.len(), loans.is_lent(&stateid(1), None)), (1, true));
        loans.forget('b');
        assert!(loans.is_empty() && loans.by_holder.is_empty());
    }
}
