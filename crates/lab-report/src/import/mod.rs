//! Other tools' logs as results: labelled as imported, never as measured here.
//!
//! Each format has a module that turns a file's text into results; [`read`] opens, bounds and numbers them, and
//! [`into_run`] makes a run directory of them, which reports and comparisons read like any other. An importer keeps what a
//! tool says and adds nothing: what a tool does not tell is absent, and what has no place of its own stands in `extra`.
//! Nothing that stands in a file makes an importer panic; an error names the file and the line.

mod blank;
mod diskspd;
mod folder;
mod html;
mod iometer;
mod iperf;
mod jetstress;
pub mod limits;
mod number;
mod perfmon;
mod sar;
mod source;
mod table;
mod vmfleet;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Result, bail};

pub use folder::into_run;
use source::Source;

use lab_model::result::PointResult;

/// Whose log a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// DiskSpd, as text or with `-Rxml`.
    Diskspd,
    /// VMFleet's `result.tsv`.
    Vmfleet,
    /// Iometer's results as comma separated values.
    Iometer,
    /// Jetstress's performance report, HTML or XHTML.
    Jetstress,
    /// A Perfmon log as `relog -f csv` or `typeperf` write it.
    Perfmon,
    /// `iperf3 -J`, or iperf 2 as text or with `-y C`.
    Iperf,
    /// sysstat: `sadf -j`, `sadf -d`, `sadf`, or `sar`'s text.
    Sar,
}

impl Kind {
    /// Every kind, by name.
    pub const ALL: [Self; 7] =
        [Self::Diskspd, Self::Vmfleet, Self::Iometer, Self::Jetstress, Self::Perfmon, Self::Iperf, Self::Sar];

    /// As it is called on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Diskspd => "diskspd",
            Self::Vmfleet => "vmfleet",
            Self::Iometer => "iometer",
            Self::Jetstress => "jetstress",
            Self::Perfmon => "perfmon",
            Self::Iperf => "iperf",
            Self::Sar => "sar",
        }
    }

    fn parse(self, source: &Source) -> Result<Vec<PointResult>> {
        match self {
            Self::Diskspd => diskspd::read(source),
            Self::Vmfleet => vmfleet::read(source),
            Self::Iometer => iometer::read(source),
            Self::Jetstress => jetstress::read(source),
            Self::Perfmon => perfmon::read(source),
            Self::Iperf => iperf::read(source),
            Self::Sar => sar::read(source),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            anyhow::anyhow!("'{name}' is no log that can be imported; say one of {}", names.join(", "))
        })
    }
}

/// Every result of a tool's file, in its order. A point that occurs again is a further repetition.
pub fn read(kind: Kind, path: &Path) -> Result<Vec<PointResult>> {
    results(kind, &Source::open(path)?)
}

fn results(kind: Kind, source: &Source) -> Result<Vec<PointResult>> {
    let mut all = kind.parse(source)?;
    if all.len() > limits::MOST_POINTS {
        bail!("{}: {} results, more than {}; split the file", source.name, all.len(), limits::MOST_POINTS);
    }
    let mut seen: BTreeMap<(String, String), u32> = BTreeMap::new();
    for result in &mut all {
        let times = seen.entry((result.arm.clone(), result.point_name())).or_insert(0);
        *times += 1;
        result.repetition = *times;
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
