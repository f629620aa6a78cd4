//! Seeded numbers for resampling and for the order of runs: the same seed gives the same report and the same plan.
//!
//! SplitMix64: a counter through a mixing function. It is no secret and needs to be none; it must be reproducible on
//! every machine and independent of any library's version.

/// Step of the counter: 2^64 divided by the golden ratio, made odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of numbers.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The stream of a part of what `seed` decides: block 3 has its own numbers whether block 2 was drawn or not.
    pub fn part(seed: u64, part: u64) -> Self {
        let mut outer = Self::new(seed);
        let mut inner = Self::new(outer.draw() ^ part);
        Self::new(inner.draw())
    }

    /// The next 64 bits.
    pub const fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Evenly from 0 to `bound - 1`; 0 for a bound of 0. The bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.draw()) * bound as u128;
        usize::try_from(wide >> 64).unwrap_or_default()
    }

    /// Evenly at or above 0 and below 1.
    pub fn unit(&mut self) -> f64 {
        super::number::real(self.draw() >> 11) / 9_007_199_254_740_992.0
    }

    /// Every order equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // First numbers of SplitMix64 for the seed 1234567, as its authors' reference gives them.
        let mut random = Random::new(1_234_567);
        assert_eq!([random.draw(), random.draw()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_everything() {
        let mut random = Random::new(1);
        let mut seen = [0_u32; 7];
        for _ in 0..7_000 {
            seen[random.below(7)] += 1;
        }
        assert!(seen.iter().all(|&count| (850..1150).contains(&count)), "{seen:?}");
        assert_eq!(random.below(0), 0);
        assert!((0..1000).map(|_| random.unit()).all(|unit| (0.0..1.0).contains(&unit)));
    }

    #[test]
    fn parts_differ() {
        assert_ne!(Random::part(1, 0).draw(), Random::part(1, 1).draw());
        assert_eq!(Random::part(1, 1).draw(), Random::part(1, 1).draw());
    }
}
