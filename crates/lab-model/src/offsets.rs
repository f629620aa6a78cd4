//! Whether a load went where it was sent: all over the region that was asked for, and not to a small part that a cache holds.
//!
//! What is known of a load is where its I/Os began: how many in each of some equal parts of the region, and sometimes how many different
//! places. A fair load's counts are bounded by Bernstein's inequality, and the number of places that it touches by McDiarmid's, both over all
//! comparisons together: less than one fair load in a thousand million passes a bound, however few or many I/Os were seen. Neither bound assumes a
//! normal distribution, and both hold for places drawn without repetition too (W. Hoeffding, 1963, §6).

use crate::statistics::number::real;

/// How often a fair load may be called unfair.
const MISTAKES: f64 = 1e-9;
/// Comparisons at most: 64 parts, and their halvings to 2.
const COMPARISONS: f64 = 126.0;
/// Fewer I/Os say nothing.
pub const LEAST_IOS: u64 = 64;

/// In which order places are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Each place as likely as any other.
    Random,
    /// One after the other from the region's beginning, again and again.
    Sequential,
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its length from the volume's beginning.
    pub bytes: u64,
    /// Bytes of an I/O.
    pub block: u64,
    /// In which order.
    pub order: Order,
    /// I/Os under way at a time, which may be cut off at either end of what was seen.
    pub under_way: u64,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// I/Os that began in each of as many equal parts of the region; a power of two of them.
    pub ios: Vec<u64>,
    /// Different places among them, where they are known one by one.
    pub places: Option<u64>,
    /// I/Os that began behind the region.
    pub outside: u64,
}

impl Region {
    /// Places for an I/O.
    const fn places(self) -> u64 {
        match self.bytes.checked_div(self.block) {
            Some(places) => places,
            None => 0,
        }
    }

    /// Places that begin in a part.
    fn places_of(self, part: &Part) -> f64 {
        let begin = |number: usize| (u128::from(self.places()) * number as u128).div_ceil(part.of as u128);
        real(u64::try_from(begin(part.number + 1) - begin(part.number)).unwrap_or(u64::MAX))
    }

    /// Sorts places by the part in which they begin.
    pub fn seen(self, offsets: &[u64], parts: usize) -> Seen {
        let mut ios = vec![0; parts];
        let mut outside = 0;
        for offset in offsets {
            let part = u128::from(offset / self.block.max(1)) * parts as u128;
            let part =
                part.checked_div(u128::from(self.places())).and_then(|part| usize::try_from(part).ok());
            match part.and_then(|part| ios.get_mut(part)) {
                Some(count) => *count += 1,
                None => outside += 1,
            }
        }
        let mut places: Vec<u64> = offsets.iter().map(|offset| offset / self.block.max(1)).collect();
        places.sort_unstable();
        places.dedup();
        Seen { ios, places: Some(places.len() as u64), outside }
    }

    /// Why what was seen is not what was asked for, in words; `None` for a fair load, and for too few I/Os to tell.
    pub fn doubt(self, seen: &Seen) -> Option<String> {
        let ios: u64 = seen.ios.iter().sum::<u64>() + seen.outside;
        if ios < LEAST_IOS || self.places() < 2 {
            return None;
        }
        if seen.outside > 0 {
            return Some(format!("{}: {} of {ios} I/Os began behind it", self.asked(), seen.outside));
        }
        self.crowd(ios, &seen.ios).or_else(|| self.few_places(ios, seen.places?))
    }

    fn asked(self) -> String {
        let order = match self.order {
            Order::Random => "at random",
            Order::Sequential => "in order",
        };
        format!("I/Os {order} over {} bytes were asked for", self.bytes)
    }

    /// The part with the most I/Os beyond what a fair load has there, or the one that has fewest.
    fn crowd(self, ios: u64, counts: &[u64]) -> Option<String> {
        let mut worst: Option<(f64, String)> = None;
        let mut counts = counts.to_vec();
        while counts.len() > 1 {
            for (number, count) in counts.iter().enumerate() {
                let part = Part { number, of: counts.len(), count: *count };
                let Some(bounds) = self.bounds(ios, &part) else { continue };
                let excess = (real(*count) - bounds.most).max(bounds.least - real(*count));
                if excess > 0.0 && worst.as_ref().is_none_or(|(other, _)| excess > *other) {
                    worst = Some((excess, self.sentence(ios, &part, &bounds)));
                }
            }
            counts = counts.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        worst.map(|(_, words)| words)
    }

    fn sentence(self, ios: u64, part: &Part, bounds: &Bounds) -> String {
        let each = self.bytes / part.of as u64;
        let (count, asked, at) = (part.count, self.asked(), each * part.number as u64);
        let bound = if real(count) > bounds.most {
            format!("at most {:.0}", bounds.most)
        } else {
            format!("at least {:.0}", bounds.least)
        };
        format!("{asked}: {count} of {ios} began in the {each} bytes from byte {at}, where {bound} do")
    }

    /// Between how many I/Os of a fair load begin in a part.
    fn bounds(self, ios: u64, part: &Part) -> Option<Bounds> {
        let (here, all) = (self.places_of(part), real(self.places()));
        if here < 1.0 {
            return None;
        }
        let (ios, slack) = (real(ios), real(self.under_way));
        Some(match self.order {
            Order::Random => {
                let share = here / all;
                let log = (2.0 * COMPARISONS / MISTAKES).ln();
                let variance = ios * share * (1.0 - share);
                let reach = log / 3.0 + ((log / 3.0).powi(2) + 2.0 * variance * log).sqrt() + slack;
                Bounds { least: ios * share - reach, most: ios * share + reach }
            }
            Order::Sequential => {
                let rounds = ios / all;
                Bounds { least: rounds.floor() * here - slack, most: rounds.ceil() * here + slack }
            }
        })
    }

    /// Fewer different places than a fair load touches.
    fn few_places(self, ios: u64, seen: u64) -> Option<String> {
        let (count, all, slack) = (real(ios), real(self.places()), real(self.under_way));
        let least = match self.order {
            Order::Random => {
                let expected = all * -(count * (-1.0 / all).ln_1p()).exp_m1();
                expected - (count * (1.0 / MISTAKES).ln() / 2.0).sqrt() - slack
            }
            Order::Sequential => count.min(all) - slack,
        };
        (real(seen) < least).then(|| {
            format!("{}: {ios} went to {seen} different places, and at least {least:.0} do", self.asked())
        })
    }
}

/// One of some equal parts of a region, and the I/Os that began there.
struct Part {
    number: usize,
    of: usize,
    count: u64,
}

/// Between which counts a fair load lies.
struct Bounds {
    least: f64,
    most: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::random::Random;

    const PARTS: usize = 64;
    const MIB: u64 = 1 << 20;

    const fn region(order: Order) -> Region {
        Region { bytes: 64 * MIB, block: 4096, order, under_way: 32 }
    }

    /// Offsets of `ios` I/Os at random over the first `bytes`.
    fn random(seed: u64, ios: usize, bytes: u64) -> Vec<u64> {
        let mut dice = Random::new(seed);
        let places = usize::try_from(bytes / 4096).unwrap();
        (0..ios).map(|_| dice.below(places) as u64 * 4096).collect()
    }

    fn sequential(ios: u64, bytes: u64) -> Vec<u64> {
        (0..ios).map(|number| number * 4096 % bytes).collect()
    }

    fn doubt(region: Region, offsets: &[u64]) -> Option<String> {
        region.doubt(&region.seen(offsets, PARTS))
    }

    #[test]
    fn a_region_that_a_cache_holds_is_found_and_named() {
        let words = doubt(region(Order::Random), &random(1, 2000, MIB)).unwrap();
        assert!(
            words.starts_with("I/Os at random over 67108864 bytes were asked for: 2000 of 2000 began in the"),
            "{words}"
        );
        let words = doubt(region(Order::Sequential), &sequential(2000, MIB)).unwrap();
        assert_eq!(
            words,
            "I/Os in order over 67108864 bytes were asked for: 2000 of 2000 began in the 1048576 bytes from byte 0, where at most 288 do"
        );
    }

    #[test]
    fn half_of_the_region_is_found_among_a_few_hundred() {
        for ios in [400, 4000] {
            assert!(doubt(region(Order::Random), &random(2, ios, 32 * MIB)).is_some(), "{ios}");
        }
    }

    #[test]
    fn a_few_places_all_over_the_region_are_found() {
        let mut dice = Random::new(3);
        let places: Vec<u64> = (0..4000).map(|_| dice.below(64) as u64 * MIB).collect();
        let words = doubt(region(Order::Random), &places).unwrap();
        assert!(words.contains("4000 went to 64 different places"), "{words}");
        // Sequential I/O that turns back within one part of a large volume.
        let large = Region { bytes: 1 << 40, ..region(Order::Sequential) };
        assert!(doubt(large, &sequential(2000, MIB)).unwrap().contains("256 different places"));
    }

    #[test]
    fn a_load_behind_the_region_is_found() {
        let mut offsets = random(4, 400, 64 * MIB);
        offsets.push(64 * MIB);
        assert!(doubt(region(Order::Random), &offsets).unwrap().ends_with("1 of 401 I/Os began behind it"));
    }

    #[test]
    fn a_fair_load_is_never_doubted() {
        for seed in 0..300 {
            for ios in [64, 300, 4096] {
                for bytes in [64 * MIB, 61 * 4096, 7 * 4096] {
                    let region = Region { bytes, ..region(Order::Random) };
                    let offsets = random(seed * 7 + 1, ios, bytes);
                    assert_eq!(doubt(region, &offsets), None, "{seed} {ios} {bytes}");
                }
            }
        }
        for ios in [64, 300, 20_000, 16_384 * 3 + 5] {
            assert_eq!(doubt(region(Order::Sequential), &sequential(ios, 64 * MIB)), None, "{ios}");
        }
    }

    #[test]
    fn too_few_say_nothing() {
        assert_eq!(doubt(region(Order::Random), &random(5, 63, 4096)), None);
    }
}
