//! What a load counts: requests and latencies by direction, second by second.

use std::mem::discriminant;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use volume::{OpenError, VolumeErrorKind};

use super::spread::Spread;
use super::verifier::WrongData;
use crate::last_error::LastError;

/// Longest latency that the histograms tell apart, in nanoseconds: 100 s.
const LONGEST_NANOS: u64 = 100_000_000_000;

/// The shortest interval at the end of a load that stands by itself.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(500);

/// Requests of one direction.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Requests that succeeded.
    pub completed: u64,
    /// Nanoseconds from the start, in an open loop from the intended start, to completion.
    pub latency: Histogram<u64>,
}

impl Tally {
    fn new() -> Result<Self, OpenError> {
        let latency = Histogram::new_with_max(LONGEST_NANOS, 3)
            .map_err(|error| OpenError::new(format!("the latency histogram cannot be made: {error}")))?;
        Ok(Self { completed: 0, latency })
    }
}

/// About a second of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadInterval {
    /// Its end, since counting began.
    pub end: Duration,
    /// Requests that completed in it.
    pub completed: u64,
    /// Their mean latency.
    pub latency: Duration,
}

/// A request of a load that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// It was a read.
    pub is_read: bool,
    /// The number of its volume, from 0.
    pub volume: usize,
    /// Its first byte.
    pub at: u64,
    /// What was wrong.
    pub kind: VolumeErrorKind,
    /// What the load's volumes last met on the way to them.
    pub last_error: LastError,
}

/// What ended a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadEnd {
    /// Its time was over.
    #[default]
    Runtime,
    /// A request failed.
    Error,
    /// The caller asked.
    Stopped,
}

/// What came of a load.
#[derive(Debug, Clone)]
pub struct LoadResult {
    /// Reads.
    pub read: Tally,
    /// Writes.
    pub write: Tally,
    /// Requests that failed.
    pub errors: u64,
    /// How many of them were of which kind.
    pub errors_by_kind: Vec<(VolumeErrorKind, u64)>,
    /// The first failure.
    pub first_error: Option<LoadError>,
    /// What ended the load.
    pub end: LoadEnd,
    /// Requests of an open loop that should have started but never could.
    pub missed: u64,
    /// The first counted moment; `UNIX_EPOCH` when nothing was counted.
    pub started: SystemTime,
    /// From the first counted moment to the last.
    pub elapsed: Duration,
    /// Processor time of the whole process, user and system, in that time.
    pub cpu: Duration,
    /// The seconds one by one.
    pub intervals: Vec<LoadInterval>,
    /// The most processor time that a turn of the event loop took, from the opening to the end.
    pub longest_turn: Duration,
    /// Turns of more than a millisecond of processor time.
    pub stalls: u64,
    /// Where the requests went that succeeded, by volume.
    pub spread: Vec<Spread>,
    /// Reads beside the load that returned what was written, where the plan asks for them.
    pub verified: u64,
    /// The first of those that did not.
    pub wrong: Option<WrongData>,
    /// Bytes that were copied on their way because they were not in memory that the volumes reach; `None` if they reach all memory alike.
    pub copied: Option<u64>,
}

impl LoadResult {
    /// Requests that succeeded, both directions.
    pub fn completed(&self) -> u64 {
        self.read.completed + self.write.completed
    }

    /// Latencies of both directions together.
    pub fn latency(&self) -> Histogram<u64> {
        let mut both = self.read.latency.clone();
        // Both were made with the same bounds.
        let _same_bounds = both.add(&self.write.latency);
        both
    }
}

/// The counting itself.
#[derive(Debug)]
pub(super) struct Counter {
    pub(super) result: LoadResult,
    cpu_before: Option<Duration>,
    since: Duration,
    completed: u64,
    latency: Duration,
}

impl Counter {
    pub(super) fn new() -> Result<Self, OpenError> {
        let result = LoadResult {
            read: Tally::new()?,
            write: Tally::new()?,
            errors: 0,
            errors_by_kind: Vec::new(),
            first_error: None,
            end: LoadEnd::Runtime,
            missed: 0,
            started: SystemTime::UNIX_EPOCH,
            elapsed: Duration::ZERO,
            cpu: Duration::ZERO,
            intervals: Vec::new(),
            longest_turn: Duration::ZERO,
            stalls: 0,
            spread: Vec::new(),
            verified: 0,
            copied: None,
            wrong: None,
        };
        Ok(Self { result, cpu_before: None, since: Duration::ZERO, completed: 0, latency: Duration::ZERO })
    }

    /// A request failed; what `first` says is kept of the first one.
    pub(super) fn fail(&mut self, kind: VolumeErrorKind, first: impl FnOnce() -> LoadError) {
        self.result.errors += 1;
        let same = |(other, _): &&mut (VolumeErrorKind, u64)| discriminant(other) == discriminant(&kind);
        match self.result.errors_by_kind.iter_mut().find(same) {
            Some((_, count)) => *count += 1,
            None => self.result.errors_by_kind.push((kind, 1)),
        }
        self.result.first_error.get_or_insert_with(first);
    }

    /// A request succeeded.
    pub(super) fn record(&mut self, is_read: bool, latency: Duration) {
        let tally = if is_read { &mut self.result.read } else { &mut self.result.write };
        tally.completed += 1;
        tally.latency.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(LONGEST_NANOS));
        self.completed += 1;
        self.latency += latency;
    }

    /// Closes the running interval when it has lasted a second.
    pub(super) fn advance(&mut self, elapsed: Duration) {
        self.result.elapsed = elapsed;
        if self.cpu_before.is_none() {
            self.cpu_before = Some(cpu_time());
            let now = SystemTime::now();
            self.result.started = now.checked_sub(elapsed).unwrap_or(now);
        }
        if elapsed.saturating_sub(self.since) >= Duration::from_secs(1) {
            self.close_interval(elapsed);
        }
    }

    /// Closes the running interval; one that is too short to say something becomes part of the interval before.
    pub(super) fn finish(&mut self) {
        let elapsed = self.result.elapsed;
        self.result.cpu = cpu_time().saturating_sub(self.cpu_before.unwrap_or_default());
        if elapsed.saturating_sub(self.since) < SHORTEST_INTERVAL
            && let Some(before) = self.result.intervals.pop()
        {
            self.completed += before.completed;
            self.latency += before.latency * factor(before.completed);
        }
        self.close_interval(elapsed);
    }

    fn close_interval(&mut self, end: Duration) {
        let latency = self.latency / factor(self.completed.max(1));
        let interval = LoadInterval { end, completed: self.completed, latency };
        self.result.intervals.push(interval);
        (self.since, self.completed, self.latency) = (end, 0, Duration::ZERO);
    }
}

/// The requests of an interval as a factor of durations: 2³² are more than a second can have.
fn factor(requests: u64) -> u32 {
    wire::saturate::<u32>(requests)
}

/// Processor time of this process so far.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}
