//! How one load is spread over several volumes.
//!
//! The publications give jobs and depth for the whole host; a program that opens one volume at a time needs a share for
//! each. Every program of the lab spreads alike, so that arms differ in the program and not in the load: I/Os under way
//! are `numjobs` × `iodepth` in all, but at least one for each volume.

use anyhow::{Result, bail};

use super::settings::Settings;
use crate::arm::Endpoint;

/// What one volume gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    /// fio's jobs.
    pub(super) jobs: u64,
    /// I/Os under way for each job.
    pub(super) depth: u64,
}

/// Shares of `volumes` volumes.
pub(super) fn shares(jobs: u64, depth: u64, volumes: u64) -> Vec<Share> {
    let portion = |whole: u64, index: u64| whole / volumes + u64::from(index < whole % volumes);
    let share = |index| {
        if jobs >= volumes {
            Share { jobs: portion(jobs, index), depth }
        } else {
            Share { jobs: 1, depth: portion(jobs.saturating_mul(depth), index).max(1) }
        }
    };
    (0..volumes).map(share).collect()
}

/// Shares of the endpoints by the settings `numjobs` and `iodepth`.
pub(super) fn over(settings: Settings<'_>, endpoints: &[Endpoint]) -> Result<Vec<Share>> {
    if endpoints.is_empty() {
        bail!("there is nothing to put load on: the arm gave no volume");
    }
    let (jobs, depth) = (settings.count("numjobs", 1)?, settings.count("iodepth", 1)?);
    Ok(shares(jobs, depth, endpoints.len() as u64))
}

/// I/Os under way in all.
pub(super) fn total(shares: &[Share]) -> u64 {
    shares.iter().map(|share| share.jobs.saturating_mul(share.depth)).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_volume_gets_jobs_and_depth_as_they_stand() {
        assert_eq!(shares(16, 32, 1), [Share { jobs: 16, depth: 32 }]);
    }

    #[test]
    fn more_volumes_than_jobs_share_the_depth() {
        let depths: Vec<u64> = shares(1, 10, 4).iter().map(|share| share.depth).collect();
        assert_eq!(depths, [3, 3, 2, 2]);
        assert_eq!(shares(1, 1, 3), [Share { jobs: 1, depth: 1 }; 3]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_volume_idles(jobs in 1..64_u64, depth in 1..256_u64, volumes in 1..64_u64) {
            let all = shares(jobs, depth, volumes);
            prop_assert_eq!(total(&all), (jobs * depth).max(volumes));
            let each: Vec<u64> = all.iter().map(|share| share.jobs * share.depth).collect();
            let (least, most) = (each.iter().min().unwrap(), each.iter().max().unwrap());
            prop_assert!(*least >= 1 && most - least <= depth);
        }
    }
}
