//! Which lines get into the cache: those that are touched a second time within a window. What is read once, such as a scan, pushes nothing out.
//!
//! Two Bloom filters remember what was touched: one that fills, and the one before it. When the first has seen as many lines as the cache has slots, the older one
//! is forgotten. So a line counts as touched for one to two windows. A false answer lets a line in too early, no more.

/// Bits for each line of a window; with two bits set for each, one in about seventy strangers is taken for known when a filter is full.
const BITS: u64 = 16;

/// How lines are admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Admission {
    /// With the second touch.
    #[default]
    Second,
    /// With the first.
    Always,
}

/// Remembers what was touched.
#[derive(Debug)]
pub(crate) struct Touched {
    admission: Admission,
    newer: Vec<u64>,
    older: Vec<u64>,
    /// Lines that were put into the newer filter, and how many make a window.
    seen: u64,
    window: u64,
}

impl Touched {
    /// For a cache of `slots` lines: four bytes for each.
    pub(crate) fn new(admission: Admission, slots: u32) -> Self {
        let window = u64::from(slots).max(64);
        let words = if admission == Admission::Always { 0 } else { (window * BITS).div_ceil(64) };
        let filter = vec![0; wire::index(words)];
        Self { admission, older: filter.clone(), newer: filter, seen: 0, window }
    }

    /// Notes that a line is touched; true if it is to get in.
    pub(crate) fn touch(&mut self, line: u64) -> bool {
        if self.admission == Admission::Always {
            return true;
        }
        let places = places(line, self.newer.len());
        if has(&self.newer, places) {
            return true;
        }
        let known = has(&self.older, places);
        if self.seen == self.window {
            core::mem::swap(&mut self.newer, &mut self.older);
            self.newer.fill(0);
            self.seen = 0;
        }
        self.seen += 1;
        for (word, bit) in places {
            if let Some(word) = self.newer.get_mut(word) {
                *word |= bit;
            }
        }
        known
    }
}

/// The two bits of a line in a filter of so many words.
fn places(line: u64, words: usize) -> [(usize, u64); 2] {
    let bits = (wire::widen(words) * 64).max(1);
    [mix(line), mix(line ^ 0xa5a5_a5a5_a5a5_a5a5)].map(|number| {
        let place = number % bits;
        (wire::index(place / 64), 1_u64.rotate_left(wire::bounded(place % 64)))
    })
}

fn has(filter: &[u64], places: [(usize, u64); 2]) -> bool {
    places.iter().all(|(word, bit)| filter.get(*word).is_some_and(|word| word & bit != 0))
}

/// Spreads numbers that are near each other: SplitMix64's last step.
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_gets_hardly_anything_in_and_what_comes_back_gets_in() {
        let mut touched = Touched::new(Admission::Second, 1000);
        let scanned = (0..100_000).filter(|line| touched.touch(*line)).count();
        assert!(scanned < 5_000, "{scanned} of a scan's 100,000 lines got in");
        assert!(!touched.touch(1 << 40) && touched.touch(1 << 40));
    }

    #[test]
    fn a_line_is_forgotten_after_two_windows() {
        let mut touched = Touched::new(Admission::Second, 1000);
        touched.touch(7);
        for line in 1_000_000..1_002_100 {
            touched.touch(line);
        }
        assert!(!touched.touch(7));
    }

    #[test]
    fn all_get_in_where_that_is_wished() {
        assert!(Touched::new(Admission::Always, 1000).touch(7));
    }
}
