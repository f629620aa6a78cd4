//! What sysstat says of a machine, whichever way it was written: samples by their time, and the result that they make.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use super::super::blank::{MILLISECOND, Machine, blank, rates};
use super::super::limits;
use super::super::number::ratio;
use super::super::source::{Source, seconds_only};
use lab_model::result::{Interval, PointResult};

const TOOL: &str = "sar";
/// Bytes of sysstat's blocks and sectors.
const SECTOR: f64 = 512.0;

/// Machines by name.
pub(super) type Hosts = BTreeMap<String, Host>;

/// What a file says of a machine.
#[derive(Debug, Default)]
pub(super) struct Host {
    pub(super) processors: u32,
    /// When the first interval began.
    pub(super) began: Option<Timestamp>,
    /// By the end of their intervals.
    pub(super) samples: Vec<Sample>,
    places: HashMap<Timestamp, usize>,
}

/// A second or so.
#[derive(Debug, Default, Clone)]
pub(super) struct Sample {
    at: Timestamp,
    user: Option<f64>,
    system: Option<f64>,
    idle: Option<f64>,
    disk: Disk,
    /// From `-b`.
    requests: Requests,
    /// Further sums by name.
    network: BTreeMap<&'static str, f64>,
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Disk {
    transfers: Option<f64>,
    read: f64,
    written: f64,
    /// Transfers × await, ms per s.
    waited: Option<f64>,
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Requests {
    reads: Option<f64>,
    writes: Option<f64>,
    read: f64,
    written: f64,
}

/// What a figure is of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of<'a> {
    /// All processors together.
    Processors,
    /// A disk.
    Disk(&'a str),
    /// A network interface.
    Interface(&'a str),
    /// All requests to disks (`-b`).
    Requests,
}

impl<'a> Of<'a> {
    /// By the title of the first column after the time, and what stands in it.
    pub(super) fn column(title: &str, item: &'a str) -> Option<Self> {
        match title {
            "CPU" if matches!(item, "all" | "-1") => Some(Self::Processors),
            "DEV" => Some(Self::Disk(item)),
            "IFACE" => Some(Self::Interface(item)),
            _ => None,
        }
    }
}

/// Whether a disk stands on others or on memory.
pub(super) fn stands_on_others(disk: &str) -> bool {
    ["dm-", "md", "loop", "ram", "zram", "sr", "drbd"].iter().any(|prefix| disk.starts_with(prefix))
}

impl Host {
    /// The sample that ends at a time. `None` when there are too many.
    pub(super) fn sample(&mut self, at: Timestamp) -> Option<&mut Sample> {
        let next = self.samples.len();
        let place = *self.places.entry(at).or_insert(next);
        if place == next {
            if next == limits::MOST_INTERVALS {
                return None;
            }
            self.samples.push(Sample { at, ..Sample::default() });
        }
        self.samples.get_mut(place)
    }

    pub(super) fn result(mut self, source: &Source) -> PointResult {
        self.samples.sort_by_key(|sample| sample.at);
        let mut result = blank(source, TOOL);
        let (Some(first), Some(last)) = (self.samples.first(), self.samples.last()) else { return result };
        let began = self.began.unwrap_or(first.at).min(first.at);
        let since = |at: Timestamp| at.duration_since(began).as_secs_f64();
        result.started = seconds_only(began);
        result.seconds = since(last.at);
        self.processors(&mut result);
        self.load(&mut result);
        self.further(&mut result);
        result.intervals = self
            .samples
            .iter()
            .map(|sample| Interval {
                at: since(sample.at),
                iops: sample.disk.transfers.unwrap_or(0.0),
                bytes_per_second: sample.disk.read + sample.disk.written,
                latency: sample
                    .disk
                    .transfers
                    .filter(|transfers| *transfers > 0.0)
                    .and_then(|transfers| Some(sample.disk.waited? / transfers * MILLISECOND)),
                cpu_percent: sample.idle.map(|idle| (100.0 - idle).max(0.0)),
                transactions: None,
            })
            .collect();
        result
    }

    /// The mean of what samples have; `None` when none has it.
    fn mean(&self, value: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.samples.iter().filter_map(value).collect();
        (!values.is_empty())
            .then(|| values.iter().sum::<f64>() / lab_model::statistics::number::real_length(values.len()))
    }

    fn processors(&self, result: &mut PointResult) {
        let busy: Vec<f64> = self
            .samples
            .iter()
            .filter_map(|sample| sample.idle)
            .map(|idle| (100.0 - idle).max(0.0))
            .collect();
        let Some(mean) = self.mean(|sample| sample.idle.map(|idle| (100.0 - idle).max(0.0))) else { return };
        let machine = Machine {
            processors: self.processors,
            busy: mean,
            user: self.mean(|sample| sample.user).unwrap_or(0.0),
            system: self.mean(|sample| sample.system).unwrap_or(0.0),
        };
        result.cpu = machine.cpu(result.seconds, format!("{TOOL}: the whole machine"));
        result.cpu.machine_percent =
            (busy.iter().copied().fold(mean, f64::min), mean, busy.iter().copied().fold(mean, f64::max));
    }

    fn load(&self, result: &mut PointResult) {
        let mean = |value: fn(&Requests) -> Option<f64>| self.mean(|sample| value(&sample.requests));
        if let Some(reads) = mean(|of| of.reads) {
            let bytes = mean(|of| of.reads.map(|_| of.read)).unwrap_or(0.0);
            result.load.read = rates(reads, bytes * SECTOR, result.seconds);
        }
        if let Some(writes) = mean(|of| of.writes) {
            let bytes = mean(|of| of.writes.map(|_| of.written)).unwrap_or(0.0);
            result.load.write = rates(writes, bytes * SECTOR, result.seconds);
        }
    }

    fn further(&self, result: &mut PointResult) {
        let disk =
            |value: fn(&Disk) -> f64| self.mean(|sample| sample.disk.transfers.map(|_| value(&sample.disk)));
        let transfers = disk(|of| of.transfers.unwrap_or(0.0));
        let waited = self.mean(|sample| sample.disk.waited);
        let waited = waited.zip(transfers).map(|(waited, rate)| ratio(waited, rate));
        let mut extra = vec![
            ("disk_transfers_per_second", transfers),
            ("disk_read_bytes_per_second", disk(|of| of.read)),
            ("disk_written_bytes_per_second", disk(|of| of.written)),
            ("disk_await_ms", waited),
        ];
        for name in ["network_received_bytes_per_second", "network_sent_bytes_per_second"] {
            extra.push((name, self.mean(|sample| sample.network.get(name).copied())));
        }
        let known = extra.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        result.extra.extend(known);
    }
}

impl Sample {
    /// Takes a figure by sysstat's own name, in whichever of its spellings; others are ignored.
    pub(super) fn take(&mut self, of: Of<'_>, name: &str, value: f64) {
        match of {
            Of::Processors => self.processor(name, value),
            Of::Requests => self.request(name, value),
            Of::Disk(disk) if !stands_on_others(disk) => self.disk(name, value),
            Of::Interface(interface) if interface != "lo" => self.interface(name, value),
            Of::Disk(_) | Of::Interface(_) => {}
        }
    }

    fn processor(&mut self, name: &str, value: f64) {
        let sum = match name.trim_start_matches('%') {
            "user" | "usr" | "nice" => &mut self.user,
            "system" | "sys" | "irq" | "soft" => &mut self.system,
            "idle" => &mut self.idle,
            _ => return,
        };
        *sum = Some(sum.unwrap_or(0.0) + value);
    }

    fn request(&mut self, name: &str, value: f64) {
        match name {
            "rtps" => self.requests.reads = Some(value),
            "wtps" => self.requests.writes = Some(value),
            "bread/s" | "bread" => self.requests.read = value,
            "bwrtn/s" | "bwrtn" => self.requests.written = value,
            _ => {}
        }
    }

    fn disk(&mut self, name: &str, value: f64) {
        let disk = &mut self.disk;
        match name {
            "tps" => disk.transfers = Some(disk.transfers.unwrap_or(0.0) + value),
            "rkB/s" | "rkB" => disk.read += value * 1024.0,
            "wkB/s" | "wkB" => disk.written += value * 1024.0,
            // Of versions that had no kilobytes.
            "rd_sec/s" => disk.read += value * SECTOR,
            "wr_sec/s" => disk.written += value * SECTOR,
            _ => {}
        }
    }

    /// A disk's mean wait, ms, weighed by its transfers.
    pub(super) fn wait(&mut self, disk: &str, transfers: f64, milliseconds: f64) {
        if !stands_on_others(disk) {
            self.disk.waited = Some(self.disk.waited.unwrap_or(0.0) + transfers * milliseconds);
        }
    }

    fn interface(&mut self, name: &str, value: f64) {
        let name = match name {
            "rxkB/s" | "rxkB" => "network_received_bytes_per_second",
            "txkB/s" | "txkB" => "network_sent_bytes_per_second",
            _ => return,
        };
        *self.network.entry(name).or_insert(0.0) += value * 1024.0;
    }
}

/// The error of a file with too many samples.
pub(super) fn too_many(source: &Source, line: usize) -> anyhow::Error {
    source.error(
        line,
        format_args!("more than {} samples; export a shorter time by -s and -e", limits::MOST_INTERVALS),
    )
}
