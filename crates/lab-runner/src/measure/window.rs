//! The measured window: everything counted between two moments.
//!
//! A thread of its own samples sides, processors and the link ten times a second from [`Window::open`] on. The window may
//! then be from there to [`Window::close`], or, because a load tool says only afterwards when its own window was, between
//! any two moments in between ([`Window::close_over`]): counters are interpolated between the samples around them.

use std::collections::BTreeMap;
use std::mem;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};

use crate::measure::cgroup::Method;
use crate::measure::cpu::{self, Machine, account, contended, percent};
use crate::measure::device::{self, Counters, Devices};
use crate::measure::kernel::KernelThreads;
use crate::measure::limits::{
    EDGE_SECONDS, INTERVAL_SECONDS, LOOK_AT_KERNEL_EVERY, LOOK_EVERY, SAMPLE_EVERY, SAMPLE_TREES_EVERY,
    SAMPLES, SHORTEST_INTERVAL,
};
use crate::measure::network::{self, Probe};
use crate::measure::side::{Sides, Spent};
use crate::measure::threads::{Busiest, Census};
use crate::measure::throttle::Throttling;
use crate::measure::tree;
use lab_model::result::{Cpu, CpuShare, Flag, Interval, Network, Node};

/// All counters at one moment.
#[derive(Debug, Clone)]
struct Sample {
    /// Seconds since the window was opened.
    at: f64,
    spent: Spent,
    machine: Machine,
    network: Option<Network>,
    nodes: Vec<Node>,
    devices: Devices,
}

impl Sample {
    /// The counters at a moment between this one and `later`, as if they had grown evenly.
    fn toward(&self, later: &Self, at: f64) -> Self {
        let length = later.at - self.at;
        let share = if length > 0.0 { ((at - self.at) / length).clamp(0.0, 1.0) } else { 0.0 };
        let between = |from: f64, to: f64| from + (to - from) * share;
        let time = |from: CpuShare, to: CpuShare| CpuShare {
            user: between(from.user, to.user),
            system: between(from.system, to.system),
        };
        let spent =
            self.spent.iter().filter_map(|(name, from)| Some((*name, time(*from, *later.spent.get(name)?))));
        let nodes = self.nodes.iter().zip(&later.nodes).map(|(from, to)| Node {
            host: time(from.host, to.host),
            adapter: time(from.adapter, to.adapter),
            target: time(from.target, to.target),
            network: network::toward(from.network, to.network, share),
        });
        let devices = self
            .devices
            .iter()
            .filter_map(|(name, from)| Some((name.clone(), from.toward(*later.devices.get(name)?, share))));
        Self {
            at,
            spent: spent.collect(),
            devices: devices.collect(),
            machine: self.machine.toward(&later.machine, share),
            network: self.network.zip(later.network).map(|(from, to)| network::toward(from, to, share)),
            nodes: nodes.collect(),
        }
    }

    /// What each node spent and sent since an earlier moment.
    fn nodes_since(&self, earlier: &Self) -> Vec<Node> {
        let all = self.nodes.iter().zip(&earlier.nodes).map(|(last, first)| Node {
            host: tree::less(last.host, first.host),
            adapter: tree::less(last.adapter, first.adapter),
            target: tree::less(last.target, first.target),
            network: network::since(last.network, first.network),
        });
        all.collect()
    }
}

/// What changes slowly or costs more to read.
#[derive(Debug, Clone)]
struct Look {
    at: f64,
    threads: Census,
    throttling: Throttling,
}

/// The kernel's threads at one moment.
#[derive(Debug, Clone)]
struct KernelLook {
    at: f64,
    threads: KernelThreads,
}

/// What is sampled beside sides and processors.
#[derive(Debug, Default)]
pub struct Watched {
    /// The link, where there is one with counters.
    pub link: Option<Probe>,
    /// Block devices, as `/sys/class/block` names them.
    pub devices: Vec<String>,
}

/// A window that is being measured.
#[derive(Debug)]
pub struct Window {
    sides: Sides,
    /// When it was opened, seconds since 1970.
    epoch: f64,
    sampler: Arc<Mutex<Sampler>>,
    stop: Sender<()>,
    thread: JoinHandle<Result<()>>,
}

impl Window {
    /// Begins to sample the sides, and the link if there is one with counters.
    pub fn open(sides: &Sides, link: Option<Probe>) -> Result<Self> {
        Self::open_with(sides, Watched { link, devices: Vec::new() })
    }

    /// Begins to sample the sides and whatever else is to be watched.
    pub fn open_with(sides: &Sides, watched: Watched) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let epoch = now();
        let mut sampler =
            Sampler { sides: sides.clone(), watched, began: Instant::now(), record: Record::default() };
        // The first samples are taken here, so that what cannot be counted fails before anything is measured.
        sampler.sample()?;
        sampler.look()?;
        sampler.look_at_kernel()?;
        let mut clock = Clock::new(sides.method());
        let sampler = Arc::new(Mutex::new(sampler));
        let shared = Arc::clone(&sampler);
        let thread = thread::Builder::new()
            .name("lab-window".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(clock.every) == Err(RecvTimeoutError::Timeout) {
                    clock.tick(&mut lock(&shared))?;
                }
                Ok(())
            })
            .context("cannot start the thread that samples processors")?;
        Ok(Self { sides: sides.clone(), epoch, sampler, stop, thread })
    }

    /// When it was opened, seconds since 1970.
    pub const fn opened(&self) -> f64 {
        self.epoch
    }

    /// Ends it: what was counted from its opening to now.
    pub fn close(self) -> Result<Counted> {
        let record = self.end()?;
        let end = record.end();
        self.count(record, 0.0, end)
    }

    /// Ends it: what was counted between two moments after its opening, in seconds since 1970.
    pub fn close_over(self, from: f64, to: f64) -> Result<Counted> {
        let record = self.end()?;
        let end = record.end();
        let (from, to) = (from - self.epoch, to - self.epoch);
        ensure!(
            from < to && from >= -EDGE_SECONDS && to <= end + EDGE_SECONDS,
            "the window from {from:.2} s to {to:.2} s was not sampled: samples are from 0 s to {end:.2} s; open it before the load starts and close it after its end"
        );
        self.count(record, from.max(0.0), to.min(end))
    }

    /// Takes the last samples on the caller's thread: the sampling thread may wake up late on a busy machine.
    fn end(&self) -> Result<Record> {
        let mut sampler = lock(&self.sampler);
        sampler.sample()?;
        sampler.look()?;
        sampler.look_at_kernel()?;
        Ok(mem::take(&mut sampler.record))
    }

    fn count(self, record: Record, from: f64, to: f64) -> Result<Counted> {
        drop(self.stop);
        self.thread.join().map_err(|_| anyhow!("the thread that samples processors failed"))??;
        let mut counted = record.count(from, to).context("the window has no samples")?;
        counted.from = self.epoch + from;
        self.sides.method().name().clone_into(&mut counted.cpu.method);
        counted.memory = self.sides.memory()?;
        counted.bound = record.bound;
        Ok(counted)
    }
}

/// A panic elsewhere leaves samples that are still right.
fn lock(sampler: &Mutex<Sampler>) -> MutexGuard<'_, Sampler> {
    sampler.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// What a window showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// When it began, seconds since 1970.
    pub from: f64,
    /// Its length.
    pub seconds: f64,
    /// Processor time, as a result holds it.
    pub cpu: Cpu,
    /// Most resident memory by side, bytes, since the sides' processes started; a side that no look met is left out.
    pub memory: BTreeMap<String, u64>,
    /// What crossed the link, if its counters were asked for.
    pub network: Option<Network>,
    /// The nodes, where the hosts are a cluster's.
    #[serde(default)]
    pub nodes: Vec<Node>,
    /// Per cent of the time that each device which was asked for was busy.
    pub devices: BTreeMap<String, f64>,
    /// What the watched devices did by direction, by the names of a result's further figures; empty where none is watched.
    #[serde(default)]
    pub volume: BTreeMap<String, f64>,
    /// Seconds of the kernel's threads, which no side accounts for, by the names of a result's further figures:
    /// `kernel_loop_seconds`. They are part of what is foreign; those that work off packets make no window contended.
    #[serde(default)]
    pub kernel: BTreeMap<String, f64>,
    /// The machine's processors.
    pub machine: Machine,
    /// The window second by second; the last one may be shorter or longer by half of it.
    pub intervals: Vec<Second>,
    /// The busiest thread of each side.
    pub busiest: Vec<Busiest>,
    /// Processors to which all processes of a side are bound, by side; those that may run anywhere are missing.
    #[serde(deserialize_with = "super::side::by_name")]
    pub bound: BTreeMap<&'static str, Vec<usize>>,
    /// Contended, throttled.
    pub flags: Vec<Flag>,
}

/// One second or so of a window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Its end, seconds since the window began.
    pub at: f64,
    /// What the machine's processors did.
    pub machine: Machine,
    /// I/Os per second of the watched devices; 0 where none is watched.
    pub device_iops: f64,
    /// Bytes per second of the watched devices.
    pub device_bytes_per_second: f64,
}

impl Counted {
    /// Devices per cent of the machine at a moment of the window, in seconds since it began.
    pub fn percent_at(&self, at: f64) -> Option<f64> {
        self.second_at(at).map(|second| second.machine.all.percent())
    }

    fn second_at(&self, at: f64) -> Option<&Second> {
        // The rounding of a tool's times must not shift an interval into the next.
        self.intervals.iter().find(|second| at <= second.at + EDGE_SECONDS)
    }

    /// Writes the machine's busy per cent into a tool's own intervals, and into a database's what its volume did: it counts
    /// transactions, not I/Os.
    pub fn fill(&self, intervals: &mut [Interval]) {
        for interval in intervals {
            let Some(second) = self.second_at(interval.at) else { continue };
            interval.cpu_percent = Some(second.machine.all.percent());
            if interval.transactions.is_some() && !self.devices.is_empty() {
                (interval.iops, interval.bytes_per_second) =
                    (second.device_iops, second.device_bytes_per_second);
            }
        }
    }
}

/// All that was sampled.
#[derive(Debug, Default)]
struct Record {
    samples: Vec<Sample>,
    looks: Vec<Look>,
    kernel: Vec<KernelLook>,
    bound: BTreeMap<&'static str, Vec<usize>>,
}

impl Record {
    /// Seconds from the window's opening to the last sample.
    fn end(&self) -> f64 {
        self.samples.last().map_or(0.0, |sample| sample.at)
    }

    /// Counters at a moment.
    fn at(&self, at: f64) -> Option<Sample> {
        let next = self.samples.partition_point(|sample| sample.at <= at);
        let before = self.samples.get(next.saturating_sub(1))?;
        Some(before.toward(self.samples.get(next).unwrap_or(before), at))
    }

    /// What happened from one moment to another.
    fn count(&self, from: f64, to: f64) -> Option<Counted> {
        let (first, last) = (self.at(from)?, self.at(to)?);
        let machine = last.machine.since(&first.machine);
        let spent: Spent = last
            .spent
            .iter()
            .map(|(name, now)| (*name, tree::less(*now, first.spent.get(name).copied().unwrap_or_default())))
            .collect();
        let busy = |(name, now): (&String, &Counters)| {
            let before = first.devices.get(name).copied().unwrap_or(*now);
            (name.clone(), percent(now.busy - before.busy, to - from))
        };
        let intervals = self.intervals(from, to)?;
        let interrupts = cpu::interrupt_time();
        let mut cpu = account(&machine, &spent, interrupts);
        cpu.machine_percent = range(&intervals, machine.all.percent());
        let threads = self.kernel(from, to).unwrap_or_default();
        let mut flags = contended(&cpu, &machine, cpu::foreign_packets(&threads, interrupts));
        let (busiest, throttled) = self.looked(from, to, &machine).unwrap_or_default();
        flags.extend(throttled);
        Some(Counted {
            from,
            seconds: to - from,
            cpu,
            memory: BTreeMap::new(),
            network: last.network.zip(first.network).map(|(last, first)| network::since(last, first)),
            nodes: last.nodes_since(&first),
            devices: last.devices.iter().map(busy).collect(),
            volume: device::directions(&first.devices, &last.devices, to - from),
            kernel: threads,
            machine,
            intervals,
            busiest,
            bound: BTreeMap::new(),
            flags,
        })
    }

    fn intervals(&self, from: f64, to: f64) -> Option<Vec<Second>> {
        let mut intervals = Vec::new();
        let mut before = self.at(from)?;
        while before.at < to {
            let next = before.at + INTERVAL_SECONDS;
            let end = self.at(if to - next < SHORTEST_INTERVAL { to } else { next })?;
            let length = (end.at - before.at).max(f64::EPSILON);
            let (ios, bytes) = device::traffic(&before.devices, &end.devices);
            intervals.push(Second {
                at: end.at - from,
                machine: end.machine.since(&before.machine),
                device_iops: ios / length,
                device_bytes_per_second: bytes / length,
            });
            before = end;
        }
        Some(intervals)
    }

    /// What the kernel's threads spent, between the looks nearest to the window's edges and as if evenly.
    fn kernel(&self, from: f64, to: f64) -> Option<BTreeMap<String, f64>> {
        let nearest = |at: f64| {
            self.kernel.iter().min_by(|one, other| (one.at - at).abs().total_cmp(&(other.at - at).abs()))
        };
        let (first, last) = match (nearest(from)?, nearest(to)?) {
            (first, last) if last.at > first.at => (first, last),
            _ => (self.kernel.first()?, self.kernel.last()?),
        };
        let length = last.at - first.at;
        let share = if length > 0.0 { (to - from) / length } else { 0.0 };
        let spent = last.threads.since(&first.threads).into_iter();
        Some(spent.map(|(kind, seconds)| (format!("kernel_{kind}_seconds"), seconds * share)).collect())
    }

    /// What slowed the machine, by the looks nearest to the window's edges, and the busiest threads, by those inside it:
    /// a load's threads may be gone right after its end.
    fn looked(&self, from: f64, to: f64, machine: &Machine) -> Option<(Vec<Busiest>, Vec<Flag>)> {
        let nearest = |at: f64| {
            self.looks.iter().min_by(|one, other| (one.at - at).abs().total_cmp(&(other.at - at).abs()))
        };
        let (first, last) = (nearest(from)?, nearest(to)?);
        let inside = || self.looks.iter().filter(|look| (from..=to).contains(&look.at));
        let throttling = inside().fold(last.throttling.clone(), |all, look| all.fastest(&look.throttling));
        let (early, late) = match (inside().next(), inside().next_back()) {
            (Some(early), Some(late)) if late.at > early.at => (early, late),
            _ => (first, last),
        };
        let busiest = late.threads.busiest(&early.threads, late.at - early.at);
        Some((busiest, throttling.flags(&first.throttling, machine)))
    }
}

/// Drops every second sample.
fn thin<T>(list: &mut Vec<T>) {
    let mut keep = false;
    list.retain(|_| {
        keep = !keep;
        keep
    });
}

/// Least, mean and most of the window's seconds.
fn range(intervals: &[Second], mean: f64) -> (f64, f64, f64) {
    let percents = || intervals.iter().map(|second| second.machine.all.percent()).chain([mean]);
    (percents().fold(f64::INFINITY, f64::min), mean, percents().fold(0.0, f64::max))
}

/// When the thread looks at what.
#[derive(Debug)]
struct Clock {
    every: Duration,
    looked: Instant,
    looked_at_kernel: Instant,
    /// Time until the next look: short at first, so that a short load is seen too.
    look: Duration,
}

impl Clock {
    fn new(method: Method) -> Self {
        let every = if method == Method::ProcessTree { SAMPLE_TREES_EVERY } else { SAMPLE_EVERY };
        let now = Instant::now();
        Self { every, looked: now, looked_at_kernel: now, look: SAMPLE_EVERY }
    }

    fn tick(&mut self, sampler: &mut Sampler) -> Result<()> {
        sampler.sample()?;
        if self.looked.elapsed() >= self.look {
            self.looked = Instant::now();
            self.look = LOOK_EVERY.min(2 * self.look);
            sampler.look()?;
        }
        if self.looked_at_kernel.elapsed() >= LOOK_AT_KERNEL_EVERY {
            self.looked_at_kernel = Instant::now();
            sampler.look_at_kernel()?;
        }
        if sampler.record.samples.len() >= SAMPLES {
            thin(&mut sampler.record.samples);
            self.every *= 2;
        }
        Ok(())
    }
}

/// What takes samples: the thread while the window lasts, the caller at its ends.
#[derive(Debug)]
struct Sampler {
    sides: Sides,
    watched: Watched,
    began: Instant,
    record: Record,
}

impl Sampler {
    fn sample(&mut self) -> Result<()> {
        let at = self.began.elapsed().as_secs_f64();
        let (spent, machine) = (self.sides.usage()?, Machine::read()?);
        let network = self.watched.link.as_mut().map(Probe::read).transpose()?;
        let mut nodes = self.sides.usage_of_nodes()?;
        let ends = self.watched.link.as_mut().map(Probe::read_nodes).transpose()?.unwrap_or_default();
        for (node, network) in nodes.iter_mut().zip(ends) {
            node.network = network;
        }
        let devices = device::read(&self.watched.devices)?;
        self.record.samples.push(Sample { at, spent, machine, network, nodes, devices });
        Ok(())
    }

    fn look_at_kernel(&mut self) -> Result<()> {
        let at = self.began.elapsed().as_secs_f64();
        self.record.kernel.push(KernelLook { at, threads: KernelThreads::read()? });
        if self.record.kernel.len() >= SAMPLES {
            thin(&mut self.record.kernel);
        }
        Ok(())
    }

    fn look(&mut self) -> Result<()> {
        let at = self.began.elapsed().as_secs_f64();
        let threads = Census::read(&self.sides)?;
        self.record.looks.push(Look { at, threads, throttling: Throttling::read(&self.sides) });
        if self.record.looks.len() >= SAMPLES {
            thin(&mut self.record.looks);
        }
        let processors = Machine::read()?.each.len();
        for side in self.sides.iter() {
            if let Some(bound) = side.processors(processors)? {
                self.record.bound.insert(side.role().name(), bound);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::process::Stat;

    /// One processor that is busy for a share of each second, and a host that spends all of that but `foreign`.
    fn sample(at: f64, busy: f64, foreign: f64) -> Sample {
        let ticks = |seconds: f64| format!("{:.0}", seconds * 1e6);
        let line = format!("{} 0 0 {} 0 0 0 0", ticks(busy), ticks(at - busy));
        let machine = Machine::parse(&format!("cpu  {line}\ncpu0 {line}\n"), 1_000_000).unwrap();
        let spent = Spent::from([("host", CpuShare { user: busy - foreign, system: 0.0 })]);
        let network = Some(Network { sent: 1000, ..Network::default() });
        let node = CpuShare { user: busy / 4.0, system: 0.0 };
        Sample {
            at,
            spent,
            machine,
            network,
            nodes: vec![Node { host: node, ..Node::default() }; 2],
            devices: Devices::from([(
                "sdb".to_owned(),
                Counters { busy: busy / 2.0, ..Counters::default() },
            )]),
        }
    }

    /// Idle for a second, half busy for the next two, of which a tenth is foreign.
    fn record() -> Record {
        let samples = vec![sample(0.0, 0.0, 0.0), sample(1.0, 0.0, 0.0), sample(3.0, 1.0, 0.1)];
        Record { samples, ..Record::default() }
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-6
    }

    #[test]
    fn a_window_between_samples_is_interpolated() {
        let counted = record().count(1.5, 2.5).unwrap();
        assert!(near(counted.seconds, 1.0) && near(counted.cpu.host.user, 0.45), "{counted:?}");
        assert!(near(counted.cpu.foreign, 0.05) && near(counted.machine.all.percent(), 50.0), "{counted:?}");
        assert_eq!(counted.network, Some(Network::default()));
        assert!(counted.nodes.len() == 2 && near(counted.nodes[1].seconds(), 0.125), "{counted:?}");
        assert!(near(counted.devices["sdb"], 25.0), "{counted:?}");
        assert!(counted.flags.is_empty() && counted.busiest.is_empty(), "{counted:?}");
    }

    #[test]
    fn the_seconds_cover_the_window_and_tell_its_range() {
        let counted = record().count(0.0, 2.4).unwrap();
        let ends: Vec<f64> = counted.intervals.iter().map(|second| second.at).collect();
        assert!(ends.len() == 2 && near(ends[0], 1.0) && near(ends[1], 2.4), "{ends:?}");
        let (least, mean, most) = counted.cpu.machine_percent;
        assert!(near(least, 0.0) && near(mean, 100.0 * 0.7 / 2.4) && near(most, 50.0), "{counted:?}");
        assert_eq!(counted.percent_at(0.9), counted.percent_at(1.1));
        assert!(near(counted.percent_at(2.0).unwrap(), 50.0));
        assert_eq!(counted.percent_at(9.0), None);
        assert_eq!(record().count(0.0, 2.6).unwrap().intervals.len(), 3);
    }

    #[test]
    fn beyond_the_last_sample_nothing_happened() {
        let counted = record().count(2.0, 5.0).unwrap();
        assert!(
            near(counted.cpu.host.user, 0.45) && near(counted.intervals.last().unwrap().at, 3.0),
            "{counted:?}"
        );
        assert_eq!(Record::default().count(0.0, 1.0), None);
    }

    #[test]
    fn threads_that_are_gone_at_the_end_are_still_known() {
        let look = |at: f64, spent: Option<f64>| Look {
            at,
            threads: Census::of("host", spent),
            throttling: Throttling::default(),
        };
        let looks = vec![look(0.0, Some(0.0)), look(0.5, Some(0.5)), look(2.5, Some(2.3)), look(3.01, None)];
        let counted = Record { looks, ..record() }.count(0.4, 3.0).unwrap();
        assert!(counted.busiest.len() == 1 && near(counted.busiest[0].percent, 90.0), "{counted:?}");
    }

    #[test]
    fn a_loop_device_s_thread_belongs_to_no_side_and_is_named_with_its_size() {
        let look = |at: f64| {
            let own = CpuShare { user: 0.0, system: at / 4.0 };
            let stat = Stat {
                pid: 90,
                name: "loop0".to_owned(),
                parent: 2,
                started: 1,
                own,
                reaped: CpuShare::default(),
            };
            KernelLook { at, threads: KernelThreads::of(vec![stat]) }
        };
        let kernel = vec![look(0.0), look(1.0), look(3.0)];
        let counted = Record { kernel, ..record() }.count(1.0, 2.5).unwrap();
        assert_eq!(counted.kernel.len(), 1);
        assert!(near(counted.kernel["kernel_loop_seconds"], 1.5 / 4.0), "{:?}", counted.kernel);
        assert!(record().count(0.0, 1.0).unwrap().kernel.is_empty());
    }

    #[test]
    fn memory_stays_bounded() {
        let mut list: Vec<u32> = (0..7).collect();
        thin(&mut list);
        assert_eq!(list, [0, 2, 4, 6]);
    }

    #[test]
    fn a_window_that_was_not_sampled_is_refused() {
        let sides = Sides::with_method("w", &[], Method::ProcessTree).unwrap();
        let window = Window::open(&sides, None).unwrap();
        let before = window.opened() - 5.0;
        let error = window.close_over(before, before + 1.0).unwrap_err().to_string();
        assert!(error.contains("from -5.00 s to -4.00 s was not sampled"), "{error}");
    }
}
