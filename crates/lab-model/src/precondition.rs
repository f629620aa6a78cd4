//! When a drive is ready to be measured: the rules of SNIA's Solid State Storage Performance Test Specification (PTS).
//!
//! A new or purged solid-state drive is faster than it will ever be again, and what it does depends on what was written to it. PTS purges it,
//! writes twice its capacity in order by blocks of 128 KiB whatever the test (workload-independent preconditioning), and then runs the
//! test's own load in rounds until five of them in a row are steady: none more than a fifth of their mean from any other, and a line
//! fitted to them that rises or falls by a tenth of it at most. After 25 rounds without that, the drive has no steady state.

use serde::{Deserialize, Serialize};

use crate::result::Coordinate;
use crate::statistics::number::real_length;

/// Rounds that have to be steady together.
pub const WINDOW: usize = 5;
/// How far the greatest of them may be from the least, as a share of their mean.
const EXCURSION: f64 = 0.20;
/// How far a line fitted to them may rise or fall, as a share of their mean.
const SLOPE: f64 = 0.10;
/// Rounds at most.
pub const MOST_ROUNDS: usize = 25;
/// How often the whole drive is written first.
pub const CAPACITIES: u64 = 2;

/// What was done to the drives of an arm before it was measured at a point. `run.json` has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preconditioned {
    /// The arm's key.
    pub arm: String,
    /// Axis and value, in the order of the sweep.
    pub point: Vec<Coordinate>,
    /// How the drives were purged, in the site's words.
    pub purged: String,
    /// I/Os per second of each round.
    pub rounds: Vec<f64>,
    /// Why the last rounds are not steady; absent when they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsteady: Option<String>,
}

/// The rounds of a load, and whether the last ones are steady.
#[derive(Debug, Clone, PartialEq)]
pub struct Rounds {
    /// I/Os per second of each.
    pub iops: Vec<f64>,
    /// Why the last ones are not steady.
    pub unsteady: Option<String>,
}

/// Runs rounds, which tell their I/Os per second, until the last [`WINDOW`] are steady or there were [`MOST_ROUNDS`].
///
/// # Errors
/// Those of a round.
pub fn until_steady<E>(mut round: impl FnMut(usize) -> Result<f64, E>) -> Result<Rounds, E> {
    let mut rounds = Rounds { iops: Vec::new(), unsteady: None };
    for number in 1..=MOST_ROUNDS {
        rounds.iops.push(round(number)?);
        rounds.unsteady = unsteady(&rounds.iops);
        if rounds.unsteady.is_none() {
            break;
        }
    }
    Ok(rounds)
}

/// Why the last [`WINDOW`] rounds are not steady, in words; `None` when they are.
pub fn unsteady(rounds: &[f64]) -> Option<String> {
    let Some(window) = rounds.len().checked_sub(WINDOW).and_then(|begin| rounds.get(begin..)) else {
        return Some(format!("{} rounds, and {WINDOW} have to be steady", rounds.len()));
    };
    let count = real_length(WINDOW);
    let mean = window.iter().sum::<f64>() / count;
    if mean <= 0.0 {
        return Some("nothing was done in the last rounds".to_owned());
    }
    let (lowest, highest) = window
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(lowest, highest), one| (lowest.min(*one), highest.max(*one)));
    let excursion = (highest - lowest) / mean;
    let middle = (count - 1.0) / 2.0;
    let places = (0..WINDOW).map(|place| real_length(place) - middle);
    let (product, square) = places.zip(window).fold((0.0, 0.0), |(product, square), (place, one)| {
        (product + place * (one - mean), square + place * place)
    });
    let slope = product / square * (count - 1.0) / mean;
    let words = |what: &str, seen: f64, most: f64| {
        format!(
            "after {} rounds the last {WINDOW} {what} by {:.0} % of their mean, and {:.0} % is the most",
            rounds.len(),
            seen * 100.0,
            most * 100.0
        )
    };
    if excursion > EXCURSION {
        Some(words("differ", excursion, EXCURSION))
    } else if slope.abs() > SLOPE {
        Some(words(if slope > 0.0 { "rise" } else { "fall" }, slope.abs(), SLOPE))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of a made-up drive.
    fn of(drive: impl Fn(f64) -> f64) -> Rounds {
        until_steady(|number| Ok::<_, ()>(drive(real_length(number)))).unwrap()
    }

    #[test]
    fn a_drive_that_slows_down_is_steady_when_it_has_settled() {
        let rounds = of(|number| 100_000.0 + 300_000.0 * (-number / 2.0).exp());
        assert_eq!((rounds.iops.len(), rounds.unsteady), (11, None));
        assert_eq!(
            of(|_| 5000.0).iops.len(),
            WINDOW,
            "a drive that is steady at once still takes five rounds"
        );
    }

    #[test]
    fn a_drive_that_never_settles_is_told_after_the_last_round() {
        let rounds = of(|number| if number % 2.0 > 0.5 { 1000.0 } else { 1300.0 });
        assert_eq!(rounds.iops.len(), MOST_ROUNDS);
        assert_eq!(
            rounds.unsteady.unwrap(),
            "after 25 rounds the last 5 differ by 27 % of their mean, and 20 % is the most"
        );
    }

    #[test]
    fn excursion_and_slope_have_their_bounds() {
        assert_eq!(unsteady(&[1000.0, 900.0, 1099.0, 1000.0, 1000.0]), None, "19.9 % between two");
        assert!(unsteady(&[1000.0, 900.0, 1101.0, 1000.0, 1000.0]).unwrap().contains("differ by 20 %"));
        assert_eq!(unsteady(&[1050.0, 1025.0, 1000.0, 976.0, 951.0]), None, "9.9 % down");
        let words = unsteady(&[1060.0, 1030.0, 1000.0, 970.0, 940.0]).unwrap();
        assert_eq!(words, "after 5 rounds the last 5 fall by 12 % of their mean, and 10 % is the most");
        assert!(unsteady(&[1.0; 4]).unwrap().contains("4 rounds"));
        assert!(unsteady(&[0.0; 5]).is_some());
    }

    #[test]
    fn only_the_last_rounds_count() {
        assert_eq!(unsteady(&[9.0, 900.0, 1000.0, 1010.0, 990.0, 1000.0, 1000.0]), None);
    }

    #[test]
    fn a_round_that_fails_ends_it() {
        assert_eq!(until_steady(|number| if number == 3 { Err("gone") } else { Ok(1.0) }), Err("gone"));
    }
}
