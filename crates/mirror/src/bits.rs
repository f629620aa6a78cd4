//! A set of regions: one bit each.

/// Which of a fixed number of regions are in the set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bits {
    words: Vec<u64>,
    len: u64,
    count: u64,
}

const WORD: u64 = u64::BITS as u64;

fn place(region: u64) -> (usize, u64) {
    (wire::index(region / WORD), 1 << (region % WORD))
}

impl Bits {
    /// The empty set of `len` possible regions.
    pub(crate) fn new(len: u64) -> Self {
        Self { words: vec![0; wire::index(len.div_ceil(WORD))], len, count: 0 }
    }

    /// All `len` regions.
    pub(crate) fn full(len: u64) -> Self {
        let mut bits = Self::new(len);
        (0..len).for_each(|region| bits.insert(region));
        bits
    }

    pub(crate) fn contains(&self, region: u64) -> bool {
        let (word, bit) = place(region);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Adds a region; one beyond the end is passed over.
    pub(crate) fn insert(&mut self, region: u64) {
        let (word, bit) = place(region);
        if region < self.len
            && let Some(word) = self.words.get_mut(word)
            && *word & bit == 0
        {
            *word |= bit;
            self.count += 1;
        }
    }

    pub(crate) fn remove(&mut self, region: u64) {
        let (word, bit) = place(region);
        if let Some(word) = self.words.get_mut(word)
            && *word & bit != 0
        {
            *word &= !bit;
            self.count = self.count.saturating_sub(1);
        }
    }

    /// Keeps only these regions.
    pub(crate) fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        let gone: Vec<u64> = self.iter().filter(|region| !keep(*region)).collect();
        for region in gone {
            self.remove(region);
        }
    }

    pub(crate) fn unite(&mut self, other: &Self) {
        other.iter().for_each(|region| self.insert(region));
    }

    /// How many regions are in the set.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The regions of the set from the first on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        (0..).zip(&self.words).flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = u64::from(rest.trailing_zeros());
                (rest != 0).then(|| {
                    rest &= rest - 1;
                    index * WORD + bit
                })
            })
        })
    }

    /// The first region of the set.
    pub(crate) fn first(&self) -> Option<u64> {
        if self.count == 0 { None } else { self.iter().next() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_come_and_go_and_are_counted_once() {
        let mut bits = Bits::new(130);
        for region in [129, 0, 64, 64, 130, 5000] {
            bits.insert(region);
        }
        assert_eq!((bits.iter().collect::<Vec<_>>(), bits.count()), (vec![0, 64, 129], 3));
        bits.remove(0);
        bits.remove(0);
        assert_eq!((bits.first(), bits.count(), bits.contains(0)), (Some(64), 2, false));
        bits.unite(&Bits::full(3));
        bits.retain(|region| region != 1);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 2, 64, 129]);
        assert_eq!(Bits::full(130).count(), 130);
    }
}
