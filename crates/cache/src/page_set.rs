//! Sets of a line's pages. It is here, as everything else in the cache counts pages by them and nothing else needs to know bits.

use crate::limits::PAGES;

/// Some of the pages of a line. A page is a block of the capacity volume, the least that is read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PageSet(pub(crate) u128);

impl PageSet {
    /// No page.
    pub(crate) const NONE: Self = Self(0);

    /// `count` pages from `first`, as far as a line may have them.
    pub(crate) fn run(first: u32, count: u32) -> Self {
        let count = count.min(PAGES.saturating_sub(first));
        let low = u128::MAX.checked_shr(PAGES.saturating_sub(count)).unwrap_or(0);
        Self(low.checked_shl(first).unwrap_or(0))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Pages in the set.
    pub(crate) fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// True if all of `other` is in it.
    pub(crate) fn has_all(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// What is in both.
    pub(crate) fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in one of them.
    pub(crate) fn either(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is not in `other`.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Runs of neighbouring pages, in order: the first page and how many.
    pub(crate) fn runs(self) -> impl Iterator<Item = (u32, u32)> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let first = rest.trailing_zeros();
            let count = rest.checked_shr(first).unwrap_or(0).trailing_ones();
            rest &= !Self::run(first, count).0;
            Some((first, count))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn runs_reach_from_end_to_end() {
        assert_eq!(PageSet::run(0, PAGES).0, u128::MAX);
        assert_eq!(PageSet::run(127, 5).runs().collect::<Vec<_>>(), [(127, 1)]);
        assert_eq!((PageSet::run(128, 1), PageSet::run(3, 0)), (PageSet::NONE, PageSet::NONE));
    }

    proptest! {
        #[test]
        fn a_set_is_the_union_of_its_runs(bits: u128) {
            let set = PageSet(bits);
            let mut again = PageSet::NONE;
            for (first, count) in set.runs() {
                let run = PageSet::run(first, count);
                prop_assert!(again.both(run).is_empty());
                prop_assert_eq!(run.count(), count);
                again = again.either(run);
            }
            prop_assert_eq!(again, set);
        }
    }
}
