//! Two more sections of the same fio, by which it shows what it does.
//!
//! `verified` runs beside the load: five blocks of 4 KiB a second are written to the end of a volume, and read back and compared four writes
//! later, so that a volume which loses data only under load is found. `offsets` runs when the load is over, with the load's own options, and
//! logs where each of its first I/Os goes: the measured load itself logs nothing of the kind, and the log is bounded. Both are groups of
//! their own and take no part in the load's figures.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::super::assignment::Assignment;
use super::super::raw;
use super::super::sample::{self, LOOKED_AT, VERIFIED, VERIFIED_BYTES, astray, corrupt};
use super::super::settings::{OFFSETS, Settings};
use super::super::spread::{self, Share};
use super::log::files;
use super::output::{Job, Output};
use super::sections::{divide, option};
use super::{OFFSETS_SECTION, VERIFIED_SECTION};
use crate::arm::Endpoint;
use lab_model::offsets::Order;
use lab_model::result::Flag;
use lab_model::statistics::number::real;

/// Volumes of a load that are looked at; more would only be more of the same.
const MOST_VOLUMES: usize = 4;
/// I/Os whose offsets are logged, over all jobs; at least [`LEAST_EACH`] of each.
const MOST_IOS: u64 = 4096;
const LEAST_EACH: u64 = 64;
/// How long they may take.
const MILLIS: u64 = 250;
/// Parts that a volume is counted in.
const PARTS: usize = 64;
/// What fio ends a job with whose data is wrong: `EILSEQ`.
const WRONG_DATA: i64 = 84;

/// A volume's options in both sections: where it is, and what the load does there.
pub(super) struct Section<'a> {
    pub(super) place: Vec<String>,
    /// The load's own options.
    pub(super) load: &'a [String],
    pub(super) size: Option<String>,
    pub(super) share: Share,
}

/// The section that writes and verifies beside the load.
pub(super) fn verified(assignment: &Assignment<'_>, endpoint: &Endpoint, place: &[String]) -> Vec<String> {
    let settings = Settings(assignment.settings);
    let Some(from) = sample::verified_from(settings, endpoint) else { return Vec::new() };
    let mut all = vec![option("name", VERIFIED_SECTION), option("direct", settings.text("direct", "1"))];
    all.extend(place.iter().cloned());
    all.extend([option("offset", &from.to_string()), option("size", &VERIFIED_BYTES.to_string())]);
    let fixed = [
        "--new_group=1",
        "--rw=randwrite",
        "--bs=4k",
        "--iodepth=1",
        "--rate_iops=5,5",
        "--verify=crc32c",
        "--verify_backlog=4",
        "--verify_fatal=1",
        "--verify_state_save=0",
    ];
    all.extend(fixed.map(str::to_owned));
    all
}

/// Whether a volume is looked at.
pub(super) fn looks_at(volume: usize) -> bool {
    volume < MOST_VOLUMES
}

/// The section that logs where the load's I/Os go; the first of them waits until the load is over.
pub(super) fn offsets(volume: usize, section: &Section<'_>, jobs: u64, block: u64) -> Vec<String> {
    let each = (MOST_IOS / jobs.max(1)).max(LEAST_EACH);
    let mut all = vec![option("name", OFFSETS_SECTION), "--new_group=1".to_owned()];
    all.extend((volume == 0).then(|| "--stonewall".to_owned()));
    all.extend(section.place.iter().cloned());
    all.extend(section.load.iter().cloned());
    all.extend(section.size.iter().cloned());
    all.extend([
        option("iodepth", &section.share.depth.to_string()),
        option("numjobs", &section.share.jobs.to_string()),
        option("runtime", &format!("{MILLIS}ms")),
        // Of a region that is smaller, fio begins anew: a job that ended there would look as if it had been about to go on.
        option("io_size", &each.saturating_mul(block).to_string()),
        option("write_lat_log", &log_name(volume)),
    ]);
    let fixed = [
        "--ramp_time=0",
        "--time_based=0",
        "--log_avg_msec=0",
        "--log_offset=1",
        "--disable_clat=1",
        "--disable_slat=1",
    ];
    all.extend(fixed.map(str::to_owned));
    all
}

/// `offsets0_lat.5.log` is of volume 0.
fn log_name(volume: usize) -> String {
    format!("{OFFSETS_SECTION}{volume}")
}

/// What both sections showed.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) flags: Vec<Flag>,
    pub(super) extra: BTreeMap<String, f64>,
    /// When the load was over, milliseconds since 1970: when the first logged I/O ended.
    pub(super) over: Option<u64>,
}

/// Reads what they left.
pub(super) fn read(assignment: &Assignment<'_>, output: &Output) -> Result<Shown> {
    let mut shown = Shown::default();
    let settings = Settings(assignment.settings);
    let verified: Vec<&Job> = output.jobs.iter().filter(|job| job.jobname == VERIFIED_SECTION).collect();
    if !verified.is_empty() {
        let reads: u64 = verified.iter().map(|job| job.read.total_ios).sum();
        shown.extra.insert(VERIFIED.to_owned(), real(reads));
    }
    if verified.iter().any(|job| job.error == WRONG_DATA) {
        let said = raw::text(&assignment.folder.join("fio.stderr")).unwrap_or_default();
        let line = said.lines().find(|line| line.starts_with("verify:")).unwrap_or("fio found wrong data");
        shown.flags.push(corrupt(line));
    }
    if settings.get(OFFSETS).is_none() {
        return Ok(shown);
    }
    let (load, _) = divide(settings, assignment.endpoints);
    let shares = spread::over(settings, load)?;
    let mut looked_at = 0;
    for (volume, (endpoint, share)) in load.iter().zip(&shares).enumerate().filter(|(at, _)| looks_at(*at)) {
        let logs = logs(assignment, volume)?;
        shown.over = logs.iter().filter_map(|log| log.begun).chain(shown.over).min();
        let logs: Vec<Vec<u64>> = logs.into_iter().map(|log| log.offsets).collect();
        looked_at += logs.iter().map(|log| log.len() as u64).sum::<u64>();
        let Some(bytes) = sample::used(settings, endpoint) else { continue };
        let Some(region) = sample::region(settings, bytes, share.jobs.saturating_mul(share.depth)) else {
            continue;
        };
        let doubt = match region.order {
            // Each job has a sequence of its own.
            Order::Sequential => logs.iter().find_map(|log| region.doubt(&region.seen(log, PARTS))),
            Order::Random => region.doubt(&region.seen(&logs.concat(), PARTS)),
        };
        shown.flags.extend(doubt.map(|doubt| astray(volume, &doubt)));
    }
    shown.extra.insert(LOOKED_AT.to_owned(), real(looked_at));
    Ok(shown)
}

/// Where the I/Os of one job in one direction went.
#[derive(Debug, Default)]
struct Log {
    /// The moment of the first, milliseconds since 1970.
    begun: Option<u64>,
    offsets: Vec<u64>,
}

/// The logs of a volume, by job and direction.
fn logs(assignment: &Assignment<'_>, volume: usize) -> Result<Vec<Log>> {
    let mut all = Vec::new();
    for (_, path) in files(assignment.folder, &log_name(volume), "lat")? {
        let text = raw::text(&path)?;
        let mut directions: BTreeMap<u8, Log> = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let Entry { millis, direction, offset } = entry(line).with_context(|| {
                format!(
                    "{}: line {} is no entry of a fio log with offsets: {line:?}",
                    path.display(),
                    index + 1
                )
            })?;
            let log = directions.entry(direction).or_default();
            log.begun.get_or_insert(millis);
            log.offsets.push(offset);
        }
        all.extend(directions.into_values());
    }
    Ok(all)
}

/// `time, latency, direction, block size, offset, priority`.
struct Entry {
    millis: u64,
    direction: u8,
    offset: u64,
}

fn entry(line: &str) -> Option<Entry> {
    let mut fields = line.split(',').map(str::trim);
    let millis = fields.next()?.parse().ok()?;
    let direction = fields.nth(1)?.parse().ok()?;
    let offset = fields.nth(1)?.parse().ok()?;
    Some(Entry { millis, direction, offset })
}
