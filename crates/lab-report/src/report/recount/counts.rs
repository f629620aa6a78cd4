//! What a tool's raw output counts, and where a result says something else.

use lab_model::result::{Direction, PointResult};

/// Figures that two readers round differently differ by less than this share.
const ROUNDING: f64 = 1e-6;

/// What one file says, or several of one tool.
#[derive(Debug, Clone)]
pub(super) struct Counted {
    /// The file's name, or the first one's.
    pub(super) file: String,
    pub(super) both: Both,
    pub(super) database: Option<Database>,
}

/// What pgbench counts instead of I/Os.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Database {
    pub(super) transactions: f64,
    pub(super) per_second: f64,
    pub(super) failed: f64,
    /// Nanoseconds of a transaction; absent for the sum of several hosts.
    pub(super) mean: Option<f64>,
}

/// Both directions of a tool's output.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Both {
    pub(super) read: Counts,
    pub(super) write: Counts,
}

/// What a tool counted in a direction; all of it is zero where it did nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) ios: f64,
    pub(super) bytes: f64,
    pub(super) iops: f64,
    pub(super) bytes_per_second: f64,
    /// Nanoseconds; absent for the sum of several hosts, whose means are weighted by what their histograms hold.
    pub(super) mean: Option<f64>,
}

/// A figure that is not the same on both sides.
pub(super) struct Difference {
    pub(super) what: &'static str,
    pub(super) counted: f64,
    pub(super) said: f64,
}

impl Counts {
    pub(super) fn said(direction: Option<&Direction>) -> Self {
        let Some(direction) = direction else { return Self::default() };
        let real = lab_model::statistics::number::real;
        Self {
            ios: real(direction.ios),
            bytes: real(direction.bytes),
            iops: direction.iops,
            bytes_per_second: direction.bytes_per_second,
            mean: direction.latency.as_ref().map(|latency| latency.mean),
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            ios: self.ios + other.ios,
            bytes: self.bytes + other.bytes,
            iops: self.iops + other.iops,
            bytes_per_second: self.bytes_per_second + other.bytes_per_second,
            mean: None,
        }
    }

    /// The first figure of which a result says something else.
    pub(super) fn difference(&self, said: &Self) -> Option<Difference> {
        let all = [
            ("I/Os", Some(self.ios), Some(said.ios)),
            ("bytes", Some(self.bytes), Some(said.bytes)),
            ("IOPS", Some(self.iops), Some(said.iops)),
            ("bytes a second", Some(self.bytes_per_second), Some(said.bytes_per_second)),
            ("ns of mean latency", self.mean, said.mean),
        ];
        first_difference(&all)
    }
}

/// The first of some figures that differs: its name, what was counted and what a result says.
fn first_difference(all: &[(&'static str, Option<f64>, Option<f64>)]) -> Option<Difference> {
    all.iter().find_map(|&(what, counted, said)| {
        let (counted, said) = counted.zip(said)?;
        let differs = (counted - said).abs() > ROUNDING * counted.abs().max(said.abs());
        differs.then_some(Difference { what, counted, said })
    })
}

impl Database {
    /// The first figure of which a result says something else; a figure that it lacks is one.
    pub(super) fn difference(self, said: &PointResult) -> Option<Difference> {
        let extra = |name: &str| Some(said.extra.get(name).copied().unwrap_or_default());
        let mean = said.load.transactions.as_ref().map(|latency| latency.mean);
        first_difference(&[
            ("transactions", Some(self.transactions), extra("transactions")),
            ("transactions a second", Some(self.per_second), extra("transactions_per_second")),
            (
                "failed transactions",
                Some(self.failed),
                Some(lab_model::statistics::number::real(said.load.errors)),
            ),
            ("ns of mean transaction", self.mean, mean),
        ])
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            transactions: self.transactions + other.transactions,
            per_second: self.per_second + other.per_second,
            failed: self.failed + other.failed,
            mean: None,
        }
    }
}

impl Counted {
    /// What two hosts counted together, under the first one's name.
    pub(super) fn add(&mut self, other: &Self) {
        self.both = self.both.and(other.both);
        self.database = match (self.database, other.database) {
            (Some(one), Some(other)) => Some(one.and(other)),
            (one, other) => one.or(other),
        };
    }
}

impl Both {
    pub(super) fn and(self, other: Self) -> Self {
        Self { read: self.read.and(other.read), write: self.write.and(other.write) }
    }
}
