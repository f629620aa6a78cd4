//! A mirror in a seeded world: legs that die, are cut off, slow or lose power, owners that crash between any two steps, queues that are dropped, owners that take over
//! from each other. Whatever happens: no acknowledged write is lost, no read sees anything else, legs are equal once everything is well, and never do two owners write.

mod disk;
mod model;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::Duration;

use buf::{Buf, Pool};
use protocol::{Entropy, Instant, SeededEntropy};
use volume::{
    Completion, CoreId, Durability, Extent, LeaveMode, Operation, Outcome, PathState, PreparedOpen,
    QueueContext, Ready, Request, Tag, Volume, VolumeErrorKind, VolumeQueue,
};

use crate::fencer::Need;
use crate::limits::{ABANDONED, LEAVE};
use crate::opening::{Child, PreparedMirror};
use crate::options::Options;
use crate::planted::{Fault, plant};
use disk::Disk;
use model::Model;

const MIB: u64 = 1 << 20;
/// Regions that are written, and blocks in each of them.
const REGIONS: u64 = 6;
const BLOCKS: u64 = 6;
const REGION: u64 = 2048;

/// What a run is like.
#[derive(Debug, Clone, Copy)]
struct Setting {
    legs: usize,
    copies: Option<u64>,
    spares: usize,
}

/// What is under way in a queue.
#[derive(Debug)]
enum Asked {
    Write {
        blocks: Vec<u64>,
        stamp: u64,
    },
    Read {
        blocks: Vec<u64>,
        possible: Vec<Vec<u64>>,
        since: u64,
    },
    Flush,
    /// It was submitted after the mirror was taken over: it must fail, unless it reads.
    TooLate {
        reads: bool,
    },
}

struct Queue {
    queue: Box<dyn VolumeQueue>,
    asked: BTreeMap<u64, Asked>,
}

struct Owner {
    number: u8,
    mirror: Arc<dyn Volume>,
    queues: Vec<Queue>,
    /// The first queue attends the mirror, and gets no requests.
    attended: bool,
}

struct World {
    setting: Setting,
    now: Instant,
    entropy: SeededEntropy,
    disks: Vec<Disk>,
    model: Model,
    owners: u8,
    stamp: u64,
    tag: u64,
    pool: Pool,
    /// Some queue wants to be polled.
    bell: Arc<Bell>,
    /// Legs that are opened later are prepared when this says so.
    reopens: Option<Reopens>,
    /// A leg that fails when the next owner has its reservation, and has not read anything yet.
    fails_once_taken: Option<usize>,
    log: Vec<String>,
}

/// Remembers that it was woken.
#[derive(Debug, Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Verdict = Result<(), String>;

fn content(block: u64, stamp: u64) -> Vec<u8> {
    if stamp == 0 {
        return vec![0; 512];
    }
    let mut bytes = Vec::with_capacity(512);
    while bytes.len() < 512 {
        bytes.extend_from_slice(&block.to_le_bytes());
        bytes.extend_from_slice(&stamp.to_le_bytes());
    }
    bytes
}

fn stamp_in(block: u64, bytes: &[u8]) -> Result<u64, String> {
    let stamp = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
    if bytes == content(block, stamp) { Ok(stamp) } else { Err(format!("block {block} holds garbage")) }
}

impl World {
    fn new(setting: Setting, seed: u64) -> Self {
        // Room for slabs, whole.
        let size = (2 + 8) * MIB;
        let disks =
            (0..setting.legs).map(|leg| Disk::new(size, seed * 31 + leg as u64, leg % 2 == 1)).collect();
        Self {
            setting,
            now: Instant::from_nanos(1_000_000_000),
            entropy: SeededEntropy::new(seed),
            disks,
            model: Model::default(),
            owners: 0,
            stamp: 0,
            tag: 0,
            pool: Pool::new(64 << 20),
            bell: Arc::default(),
            reopens: None,
            fails_once_taken: None,
            log: Vec::new(),
        }
    }

    fn context(&self) -> QueueContext {
        QueueContext::new(CoreId(0), Waker::from(Arc::clone(&self.bell)), self.pool.clone())
    }

    fn dice(&mut self, sides: u64) -> u64 {
        self.entropy.number() % sides
    }

    fn note(&mut self, what: impl Into<String>) {
        self.log.push(format!("{:?} {}", self.now, what.into()));
    }

    /// Opens the mirror for a new owner.
    fn open(&mut self, takeover: bool) -> Result<Owner, String> {
        // Legs know each opening by a name of its own, whatever host it is on.
        self.owners += 1;
        let number = self.owners;
        let known_as = u16::from(number) << 8;
        let child = |(leg, disk): (usize, &Disk)| Child {
            prepared: if disk.lock().cut {
                Err(volume::OpenError::new("it is cut off"))
            } else {
                Ok(Box::new(Ready::new(disk.seen_by(known_as))) as Box<dyn PreparedOpen>)
            },
            url: format!("leg{leg}"),
            local: leg % 2 == 0,
            need: Need::Reservation,
        };
        let children: Vec<_> = self.disks.iter().enumerate().map(child).collect();
        let seed = self.entropy.number();
        let options = Options {
            copies: self.setting.copies,
            slab: MIB,
            spares: self.setting.spares,
            prefer: None,
            rate: 64 * MIB,
            timeout: Duration::from_secs(1),
            degraded: false,
            takeover,
            unfenced: false,
            overwrite: false,
        };
        let reopen = Arc::new(Again {
            disks: self.disks.clone(),
            known_as: AtomicU16::new(known_as),
            waiting: self.reopens.clone(),
        });
        let prepared = Box::new(PreparedMirror {
            children,
            options,
            owner: format!("owner {number}"),
            entropy: Arc::new(move || Box::new(SeededEntropy::new(seed))),
            reopen: Some(reopen),
        });
        let mut opening = prepared.begin(&self.context());
        for _ in 0..10_000 {
            if let Some(leg) = self.fails_once_taken.filter(|leg| self.disks[*leg].lock().is_reserved()) {
                self.disks[leg].lock().cut = true;
            }
            if let Some(opened) = opening.poll(self.now) {
                let mirror = opened.map_err(|error| error.to_string())?;
                let mut owner = Owner { number, mirror, queues: Vec::new(), attended: false };
                (0..2).for_each(|_| self.add_queue(&mut owner));
                return Ok(owner);
            }
            let next = opening.poll_timeout().unwrap_or(self.now);
            self.now = next.max(self.now + Duration::from_micros(20));
        }
        Err("it is never opened".to_owned())
    }

    fn add_queue(&mut self, owner: &mut Owner) {
        let queue = owner.mirror.open_queue(&self.context()).unwrap();
        owner.queues.push(Queue { queue, asked: BTreeMap::new() });
    }

    /// Somebody attends the mirror from now on.
    fn attend(&self, owner: &mut Owner) -> Verdict {
        let queue = owner.mirror.leave_control().and_then(|control| control.attend(&self.context()));
        let queue = queue.ok_or("it needs to be attended")?.map_err(|error| error.to_string())?;
        owner.queues.insert(0, Queue { queue, asked: BTreeMap::new() });
        owner.attended = true;
        Ok(())
    }

    /// Polls all queues at this time, and sees what they say.
    fn poll(&mut self, owner: &mut Owner) -> Verdict {
        for queue in &mut owner.queues {
            let mut done = Vec::new();
            queue.queue.poll(self.now, &mut done);
            for Completion { tag, result } in done {
                let asked = queue.asked.remove(&tag.0).ok_or("a completion of nothing")?;
                match asked {
                    Asked::Write { blocks, stamp } => {
                        for block in blocks {
                            match result {
                                Ok(_) => self.model.acknowledged(block, stamp, self.now),
                                Err(_) => self.model.ended(block, stamp, self.now),
                            }
                        }
                    }
                    Asked::Read { blocks, possible, since } => {
                        let Ok(Outcome::Data(data)) = result else { continue };
                        let data = data.into_one();
                        for ((block, bytes), possible) in blocks.iter().zip(data.chunks(512)).zip(&possible) {
                            let stamp = stamp_in(*block, bytes)?;
                            if !possible.contains(&stamp) && stamp <= since {
                                return Err(format!(
                                    "block {block} was read as {stamp}, and may be {possible:?}"
                                ));
                            }
                        }
                    }
                    // Over iSCSI it may still read what is old by now.
                    Asked::TooLate { reads: false } if result.is_ok() => {
                        return Err(format!("owner {} was served although it was taken over", owner.number));
                    }
                    Asked::TooLate { .. } | Asked::Flush => {}
                }
            }
        }
        Ok(())
    }

    fn submit(&mut self, owner: &mut Owner) {
        self.submit_as(owner, true);
    }

    /// Submits something, to be served or refused.
    fn submit_as(&mut self, owner: &mut Owner, served: bool) {
        let region = self.dice(REGIONS);
        let first = self.dice(BLOCKS);
        let count = 1 + self.dice(BLOCKS - first);
        let blocks: Vec<u64> = (first..first + count).map(|block| region * REGION + block).collect();
        let extent = Extent::new(blocks[0], count);
        let (kind, index) = (self.dice(10), self.dice(owner.queues.len() as u64));
        let queue = &mut owner.queues[usize::try_from(index).unwrap()];
        let (operation, asked) = match kind {
            0..5 => {
                self.stamp += 1;
                let stamp = self.stamp;
                let bytes: Vec<u8> = blocks.iter().flat_map(|block| content(*block, stamp)).collect();
                if served {
                    for block in &blocks {
                        self.model.begin(*block, stamp, self.now);
                    }
                }
                let data = Buf::from(bytes).freeze().into();
                let durability = if kind == 0 { Durability::Durable } else { Durability::Cached };
                (Operation::Write { extent, data, durability }, Asked::Write { blocks, stamp })
            }
            5..9 => {
                let possible = blocks.iter().map(|block| self.model.possible(*block)).collect();
                let into = Buf::zeroed(512 * blocks.len());
                (Operation::Read { extent, into }, Asked::Read { blocks, possible, since: self.stamp })
            }
            _ => (Operation::Flush, Asked::Flush),
        };
        self.tag += 1;
        let request = Request { tag: Tag(self.tag), operation };
        if queue.queue.submit(self.now, request).is_ok() {
            let reads = matches!(asked, Asked::Read { .. });
            queue.asked.insert(self.tag, if served { asked } else { Asked::TooLate { reads } });
        } else if let Asked::Write { blocks, stamp } = asked
            && served
        {
            for block in &blocks {
                self.model.ended(*block, stamp, self.now);
            }
        }
    }

    /// Nobody will hear of what is under way there.
    fn leave(&mut self, queue: &Queue, until: Instant) {
        for asked in queue.asked.values() {
            if let Asked::Write { blocks, stamp } = asked {
                for block in blocks {
                    self.model.ended(*block, *stamp, until);
                }
            }
        }
    }

    /// The owner's process ends with commands under way at its legs; another one begins, once it may.
    fn crash(&mut self, owner: Owner) -> Result<Owner, String> {
        self.note("crash");
        let Owner { mirror, queues, .. } = owner;
        for queue in &queues {
            self.leave(queue, self.now);
        }
        drop(queues);
        drop(mirror);
        match self.open(true) {
            Ok(owner) => Ok(owner),
            Err(why) => {
                self.note(format!("refused: {why}"));
                self.heal();
                self.open(true)
            }
        }
    }

    /// The owner ends in good order, with nothing under way but what queues that are gone have left. False if that took longer than it may.
    fn leave_in_order(&mut self, mut owner: Owner) -> Result<bool, String> {
        self.note("leave");
        if !owner.attended {
            owner.queues.clear();
            self.add_queue(&mut owner);
        }
        owner.queues.truncate(1);
        let control = owner.mirror.leave_control().ok_or("a mirror is left in order")?;
        control.leave(LeaveMode::Configured);
        let begun = self.now;
        while !control.has_left() {
            if self.now > begun + LEAVE + Duration::from_secs(1) {
                return Ok(false);
            }
            let mut nobody = Vec::new();
            owner.queues[0].queue.poll(self.now, &mut nobody);
            self.next_moment(&owner);
        }
        Ok(true)
    }

    /// What legs still have registered by anybody.
    fn registrations(&self) -> Vec<usize> {
        self.disks.iter().map(|disk| disk.lock().registrations()).collect()
    }

    fn heal(&mut self) {
        for disk in &self.disks {
            let mut platter = disk.lock();
            (platter.cut, platter.slow) = (false, false);
            platter.bad.clear();
        }
    }

    /// A leg is cut off, and once that is on record loses what was not durable there. (Power that is back before anybody noticed is a second failure.)
    fn lose_power(&mut self, owner: &mut Owner, leg: usize) -> Verdict {
        for _ in 0..50 {
            if owner.mirror.path() != PathState::Optimized {
                self.pass(owner, Duration::from_secs(3))?;
                if self.disks[leg].lock().cut {
                    self.note(format!("power lost {leg}"));
                    self.disks[leg].lose_power();
                }
                return Ok(());
            }
            self.submit(owner);
            self.pass(owner, Duration::from_millis(20))?;
        }
        Ok(())
    }

    fn harm(&mut self, owner: &mut Owner) -> Verdict {
        let count = self.disks.len() as u64;
        let leg = usize::try_from(self.dice(count)).unwrap();
        match self.dice(5) {
            4 => {
                let block = self.dice(REGIONS) * REGION + self.dice(BLOCKS);
                if self.disks.iter().all(|disk| disk.lock().bad.is_empty()) {
                    self.disks[leg].lock().bad.insert(block);
                    self.note(format!("block {block} of {leg} is bad"));
                }
            }
            0 => {
                let others_well = self.disks.iter().all(|disk| !disk.lock().cut && !disk.lock().slow);
                let well = others_well && owner.mirror.path() == PathState::Optimized;
                self.disks[leg].lock().cut = true;
                self.note(format!("cut {leg}"));
                if well && self.dice(2) == 0 {
                    self.lose_power(owner, leg)?;
                }
            }
            1 => {
                self.disks[leg].lock().slow = true;
                self.note(format!("slow {leg}"));
            }
            _ => {
                self.note("heal");
                self.heal();
            }
        }
        Ok(())
    }

    /// Another host takes over while the first one has commands under way at its legs, and goes on.
    fn take_over(&mut self, mut old: Owner) -> Result<Owner, String> {
        self.heal();
        self.note("takeover");
        for _ in 0..self.dice(6) {
            self.submit(&mut old);
            self.now = self.now + Duration::from_micros(300);
            self.poll(&mut old)?;
        }
        let mut new = match self.open(true) {
            Ok(new) => new,
            Err(why) => return Err(format!("a takeover was refused: {why}")),
        };
        // What the old one has under way has taken effect by now, or never does.
        for queue in &old.queues {
            self.leave(queue, self.now);
        }
        self.now = self.now + Duration::from_micros(1);
        for round in 0..20 {
            self.submit_as(&mut old, false);
            self.submit(&mut new);
            self.now = self.now + Duration::from_millis(1);
            self.poll(&mut new)?;
            self.poll(&mut old)?;
            if round == 5 {
                self.add_queue(&mut old);
            }
        }
        drop(old);
        Ok(new)
    }

    /// Submits a write of one block.
    fn write(&mut self, owner: &mut Owner, block: u64) {
        self.stamp += 1;
        self.tag += 1;
        let (stamp, tag) = (self.stamp, self.tag);
        self.model.begin(block, stamp, self.now);
        let data = Buf::from(content(block, stamp)).freeze().into();
        let operation =
            Operation::Write { extent: Extent::new(block, 1), data, durability: Durability::Cached };
        let queue = &mut owner.queues[0];
        queue.queue.submit(self.now, Request { tag: Tag(tag), operation }).unwrap();
        queue.asked.insert(tag, Asked::Write { blocks: vec![block], stamp });
    }

    /// Goes to the next moment at which something may happen.
    fn next_moment(&mut self, owner: &Owner) {
        let deadlines = owner.queues.iter().filter_map(|queue| queue.queue.poll_timeout());
        let soon = self.now + Duration::from_micros(20);
        self.now = deadlines.min().unwrap_or(soon).max(soon);
    }

    /// Lets everything get well, and sees that nothing is lost and all legs are equal.
    fn settle(&mut self, owner: &mut Owner) -> Verdict {
        self.heal();
        self.pass(owner, Duration::from_mins(5))?;
        if owner.queues.iter().any(|queue| !queue.asked.is_empty()) {
            return Err(format!("requests never ended: {:?}", owner.mirror));
        }
        if owner.mirror.path() != PathState::Optimized {
            return Err(format!("the mirror is not well again: {:?}", owner.mirror));
        }
        self.check(owner)
    }

    fn step(&mut self, mut owner: Owner) -> Result<Owner, String> {
        match self.dice(100) {
            0..45 => self.submit(&mut owner),
            45..90 => {
                let nanos = self.dice(1_500_000);
                self.now = self.now + Duration::from_nanos(nanos);
            }
            90..93 => self.harm(&mut owner)?,
            93..95 => {
                let span = Duration::from_millis(self.dice(9_000));
                self.pass(&mut owner, span)?;
            }
            95 | 96 => owner = self.crash(owner)?,
            97 => {
                let index = usize::try_from(self.dice(owner.queues.len() as u64)).unwrap();
                let queue = owner.queues.remove(index);
                self.note("a queue is dropped");
                self.leave(&queue, self.now + ABANDONED);
                drop(queue);
                self.add_queue(&mut owner);
            }
            98 if self.dice(4) == 0 => owner = self.take_over(owner)?,
            _ => {}
        }
        self.poll(&mut owner)?;
        Ok(owner)
    }

    /// Lets time pass, from one deadline to the next.
    fn pass(&mut self, owner: &mut Owner, span: Duration) -> Verdict {
        let until = self.now + span;
        while self.now < until {
            self.bell.0.store(false, Ordering::Relaxed);
            self.poll(owner)?;
            if self.bell.0.load(Ordering::Relaxed) {
                self.now = self.now + Duration::from_micros(20);
                continue;
            }
            let deadlines = owner.queues.iter().filter_map(|queue| queue.queue.poll_timeout());
            let next = deadlines.min().unwrap_or(until);
            self.now = next.max(self.now + Duration::from_micros(50)).min(until);
        }
        self.poll(owner)
    }

    fn run(&mut self, steps: usize) -> Verdict {
        let mut owner = self.open(false)?;
        for _ in 0..steps {
            owner = self.step(owner)?;
        }
        self.note("the end");
        self.settle(&mut owner)
    }

    fn check(&mut self, owner: &mut Owner) -> Verdict {
        for region in 0..REGIONS {
            for block in region * REGION..region * REGION + BLOCKS {
                let possible = vec![self.model.possible(block)];
                self.tag += 1;
                let operation = Operation::Read { extent: Extent::new(block, 1), into: Buf::zeroed(512) };
                let queue = &mut owner.queues[0];
                queue.queue.submit(self.now, Request { tag: Tag(self.tag), operation }).unwrap();
                queue
                    .asked
                    .insert(self.tag, Asked::Read { blocks: vec![block], possible, since: self.stamp });
            }
            self.pass(owner, Duration::from_secs(1))?;
        }
        self.check_legs(owner)
    }

    /// All members that hold a block hold the same.
    fn check_legs(&self, owner: &Owner) -> Verdict {
        let status = format!("{:?}", owner.mirror);
        if self.setting.copies.is_some() {
            return Ok(());
        }
        let spare = |leg: &usize| status.matches("state: ").count() > 0 && Self::is_spare(&status, *leg);
        let legs: Vec<_> = (0..self.disks.len()).filter(|leg| !spare(leg)).collect();
        for region in 0..REGIONS {
            for block in region * REGION..region * REGION + BLOCKS {
                let first = self.disks[legs[0]].content(block);
                for leg in &legs[1..] {
                    if self.disks[*leg].content(block) != first {
                        return Err(format!("legs {} and {leg} differ in block {block}", legs[0]));
                    }
                }
            }
        }
        Ok(())
    }

    fn is_spare(status: &str, leg: usize) -> bool {
        let own = status.split("LegStatus").nth(leg + 1).unwrap_or_default();
        own.contains("state: Spare")
    }
}

type Then = Box<dyn FnOnce(crate::shared::Prepared) + Send>;

/// Legs that are being prepared, and take their time.
#[derive(Clone, Default)]
struct Reopens(Arc<Mutex<Vec<(crate::shared::Prepared, Then)>>>);

impl std::fmt::Debug for Reopens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reopens")
    }
}

/// Opens legs that were cut off, each time as another host.
#[derive(Debug)]
struct Again {
    disks: Vec<Disk>,
    /// As what it was known to them last.
    known_as: AtomicU16,
    /// Those that are prepared when the world says so; without it all are at once.
    waiting: Option<Reopens>,
}

impl Again {
    fn prepare(&self, leg: usize) -> crate::shared::Prepared {
        let disk = &self.disks[leg];
        if disk.lock().cut {
            return Err(volume::OpenError::new("it is still cut off"));
        }
        let known_as = self.known_as.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Box::new(Ready::new(disk.seen_by(known_as))))
    }
}

impl crate::shared::Reopen for Again {
    fn begin(&self, leg: usize, then: Then) {
        let prepared = self.prepare(leg);
        match &self.waiting {
            Some(Reopens(waiting)) => waiting.lock().unwrap().push((prepared, then)),
            None => then(prepared),
        }
    }
}

const STEPS: usize = 250;

fn run(setting: Setting, seed: u64) -> Verdict {
    let mut world = World::new(setting, seed);
    world.run(STEPS).map_err(|why| {
        let tail = world.log.iter().rev().take(40).rev().cloned().collect::<Vec<_>>().join("\n  ");
        format!("{setting:?}, seed {seed}: {why}\n  {tail}")
    })
}

const PAIR: Setting = Setting { legs: 2, copies: None, spares: 0 };
const THREE: Setting = Setting { legs: 3, copies: None, spares: 0 };
const SLABS: Setting = Setting { legs: 4, copies: Some(3), spares: 0 };
const SPARE: Setting = Setting { legs: 3, copies: None, spares: 1 };

/// Seeds of each setting: `MIRROR_SEEDS` says how many if these are not enough.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    0..std::env::var("MIRROR_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn run_all(setting: Setting) {
    for seed in seeds(60) {
        if let Err(why) = run(setting, seed) {
            panic!("{why}");
        }
    }
}

#[test]
fn two_legs_lose_nothing() {
    run_all(PAIR);
}

#[test]
fn three_legs_lose_nothing() {
    run_all(THREE);
}

#[test]
fn slabs_lose_nothing() {
    run_all(SLABS);
}

#[test]
fn a_mirror_with_a_spare_loses_nothing() {
    run_all(SPARE);
}

fn found(fault: Fault) -> Option<String> {
    let mut runs = seeds(60).flat_map(|seed| [PAIR, THREE].map(|setting| (setting, seed)));
    runs.find_map(|(setting, seed)| {
        plant(Some(fault));
        let verdict = run(setting, seed);
        plant(None);
        verdict.err()
    })
}

/// What else happens to the write whose owner crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    Nothing,
    /// A leg is cut off before it: the record that it is out comes before the acknowledgement.
    Cut,
    /// A leg is slow: the write is done on the others alone, and the leg is put out for being late.
    Slow,
}

/// Writes a block to a mirror that is well and clean, and has the owner crash once so many moments have passed at which something happened. How many those were.
///
/// The steps of a write: its dirty bit is sent to each leg, and answered; the data is sent to each leg, and answered; where a leg fails, the record is sent to each leg
/// that remains, and answered; the acknowledgement. Whatever the crash leaves at the legs takes effect later, or is aborted by the next owner.
fn write_and_crash(seed: u64, harm: Harm, moments: usize) -> Result<usize, String> {
    let mut world = World::new(PAIR, seed);
    let mut owner = world.open(false)?;
    let block = REGION + 3;
    world.write(&mut owner, block);
    // The bit is cleared, so that each step is taken.
    world.pass(&mut owner, Duration::from_secs(30))?;
    match harm {
        Harm::Nothing => {}
        Harm::Cut => world.disks[1].lock().cut = true,
        Harm::Slow => world.disks[1].lock().slow = true,
    }
    world.write(&mut owner, block);
    let mut passed = 0;
    while passed < moments && owner.queues.iter().any(|queue| !queue.asked.is_empty()) {
        world.poll(&mut owner)?;
        world.next_moment(&owner);
        passed += 1;
    }
    let mut owner = world.crash(owner)?;
    // What the next owner writes there stays.
    if seed.is_multiple_of(2) {
        world.write(&mut owner, block);
    }
    world.settle(&mut owner)?;
    Ok(passed)
}

#[test]
fn a_crash_at_any_step_of_a_write_leaves_one_of_its_two_contents_on_all_legs() {
    for harm in [Harm::Nothing, Harm::Cut, Harm::Slow] {
        for seed in seeds(6) {
            let all = write_and_crash(seed, harm, usize::MAX).unwrap();
            assert!(all >= 4, "bits and data on two legs take longer than {all} moments");
            for moments in 0..all {
                let verdict = write_and_crash(seed, harm, moments);
                assert!(verdict.is_ok(), "{harm:?}, seed {seed}, after {moments} of {all}: {verdict:?}");
            }
        }
    }
}

/// A leg calls durable what it then loses with its power, while the owner runs on.
fn lie(seed: u64) -> Verdict {
    let mut world = World::new(PAIR, seed);
    let mut owner = world.open(false)?;
    world.pass(&mut owner, Duration::from_secs(10))?;
    world.disks[1].lock().lies = true;
    for _ in 0..40 {
        world.submit(&mut owner);
        world.pass(&mut owner, Duration::from_millis(20))?;
    }
    // Their bits are cleared behind a flush.
    world.pass(&mut owner, Duration::from_secs(30))?;
    world.disks[1].lock().cut = true;
    while owner.mirror.path() == PathState::Optimized {
        world.submit(&mut owner);
        world.pass(&mut owner, Duration::from_millis(20))?;
    }
    world.pass(&mut owner, Duration::from_secs(3))?;
    world.disks[1].lose_power();
    world.settle(&mut owner)
}

#[test]
fn a_leg_that_has_lost_what_it_called_durable_is_copied_whole() {
    for seed in seeds(20) {
        lie(seed).unwrap();
    }
    plant(Some(Fault::TrustedLiar));
    let verdicts: Vec<Verdict> = seeds(20).map(lie).collect();
    plant(None);
    assert!(verdicts.iter().any(Result::is_err), "a leg that lies was trusted, and nobody noticed");
}

/// An owner that has written ends in good order, and another one opens the mirror without a takeover and goes on.
fn hand_over(setting: Setting, seed: u64) -> Verdict {
    let mut world = World::new(setting, seed);
    let mut owner = world.open(false)?;
    for _ in 0..4 {
        for _ in 0..60 {
            owner = match world.dice(3) {
                0 => {
                    let nanos = world.dice(1_500_000);
                    world.now = world.now + Duration::from_nanos(nanos);
                    owner
                }
                1 if world.dice(40) == 0 => {
                    world.harm(&mut owner)?;
                    owner
                }
                _ => {
                    world.submit(&mut owner);
                    owner
                }
            };
            world.poll(&mut owner)?;
        }
        world.settle(&mut owner)?;
        if !world.leave_in_order(owner)? {
            return Err("it is never left".to_owned());
        }
        if world.registrations().iter().any(|count| *count > 0) {
            return Err(format!("reservations are left: {:?}", world.registrations()));
        }
        owner = world.open(false)?;
        if owner.mirror.path() != PathState::Optimized {
            return Err(format!("it was not left clean: {:?}", owner.mirror));
        }
    }
    world.settle(&mut owner)
}

#[test]
fn whoever_is_left_in_order_is_followed_without_a_takeover() {
    for setting in [PAIR, THREE, SLABS, SPARE] {
        for seed in seeds(10) {
            hand_over(setting, seed).unwrap_or_else(|why| panic!("{setting:?}, seed {seed}: {why}"));
        }
    }
}

/// A world with a mirror that was well and has no owner.
fn left_well(setting: Setting, seed: u64) -> Result<World, String> {
    let mut world = World::new(setting, seed);
    let mut owner = world.open(false)?;
    world.settle(&mut owner)?;
    if world.leave_in_order(owner)? { Ok(world) } else { Err("it is never left".to_owned()) }
}

/// A leg that was not there is being opened by one queue when another one attends the mirror.
fn return_to_another_keeper(seed: u64) -> Verdict {
    let mut world = left_well(THREE, seed)?;
    let reopens = Reopens::default();
    world.reopens = Some(reopens.clone());
    world.disks[2].lock().cut = true;
    let mut owner = world.open(false)?;
    world.disks[2].lock().cut = false;
    world.poll(&mut owner)?;
    world.attend(&mut owner)?;
    world.poll(&mut owner)?;
    let waiting = std::mem::take(&mut *reopens.0.lock().unwrap());
    if waiting.is_empty() {
        return Err("nobody looks for the leg".to_owned());
    }
    for (prepared, then) in waiting {
        then(prepared);
    }
    for _ in 0..40 {
        world.submit(&mut owner);
        world.pass(&mut owner, Duration::from_millis(5))?;
    }
    world.settle(&mut owner)
}

#[test]
fn a_leg_that_returns_is_opened_by_one_queue_whoever_is_the_keeper() {
    for seed in seeds(20) {
        return_to_another_keeper(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

/// A leg fails behind its reservation while the mirror is opened, and is opened anew when it is back.
fn fail_once_taken(takeover: bool, seed: u64) -> Verdict {
    let mut world = left_well(THREE, seed)?;
    world.fails_once_taken = Some(2);
    let mut owner = world.open(takeover)?;
    world.fails_once_taken = None;
    if owner.mirror.path() == PathState::Optimized {
        return Err("the leg did not fail".to_owned());
    }
    for _ in 0..40 {
        world.submit(&mut owner);
        world.pass(&mut owner, Duration::from_millis(5))?;
    }
    world.settle(&mut owner)
}

#[test]
fn a_leg_that_fails_behind_its_reservation_takes_part_when_it_is_back() {
    for seed in seeds(20) {
        for takeover in [false, true] {
            fail_once_taken(takeover, seed)
                .unwrap_or_else(|why| panic!("takeover {takeover}, seed {seed}: {why}"));
        }
    }
}

/// An owner ends in good order in the middle of a copy, again and again, until all is copied.
fn leave_while_copying(seed: u64) -> Verdict {
    let mut world = World::new(THREE, seed);
    let mut owner = world.open(false)?;
    let (mut endings, mut cut) = (0, true);
    while endings < 12 || cut {
        world.attend(&mut owner)?;
        let blocks = world.dice(BLOCKS);
        for block in 0..blocks {
            let queue = owner.queues.remove(0);
            world.write(&mut owner, block);
            owner.queues.insert(0, queue);
        }
        while owner.queues.iter().any(|queue| !queue.asked.is_empty()) {
            world.poll(&mut owner)?;
            world.next_moment(&owner);
        }
        let until = world.now + Duration::from_micros(world.dice(100_000));
        while world.now < until {
            world.poll(&mut owner)?;
            world.next_moment(&owner);
        }
        cut = owner.mirror.path() != PathState::Optimized;
        if !world.leave_in_order(owner)? {
            return Err("it is never left".to_owned());
        }
        if world.registrations().iter().any(|count| *count > 0) {
            return Err(format!("ending {endings}: reservations are left: {:?}", world.registrations()));
        }
        owner = world.open(false)?;
        endings += 1;
        if endings > 2000 {
            return Err(format!("it is never copied: {:?}", owner.mirror));
        }
    }
    world.settle(&mut owner)
}

#[test]
fn an_attended_mirror_is_left_in_the_middle_of_a_copy() {
    for seed in seeds(3) {
        leave_while_copying(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

/// An owner ends in good order while what a dropped queue has left behind may still take effect. Whoever may go on does, and writes the same blocks.
fn leave_with_late_writes(seed: u64) -> Result<bool, String> {
    let mut world = World::new(PAIR, seed);
    let mut owner = world.open(false)?;
    world.pass(&mut owner, Duration::from_secs(10))?;
    // Their bits are set, so that the next ones are at the legs at once.
    (0..BLOCKS).for_each(|block| world.write(&mut owner, block));
    world.pass(&mut owner, Duration::from_secs(1))?;
    (0..BLOCKS).for_each(|block| world.write(&mut owner, block));
    world.poll(&mut owner)?;
    let queue = owner.queues.remove(0);
    world.leave(&queue, world.now + ABANDONED);
    drop(queue);
    if !world.leave_in_order(owner)? {
        return Err("it is never left".to_owned());
    }
    let followed = world.open(false);
    let free = followed.is_ok();
    let mut owner = match followed {
        Ok(owner) => owner,
        Err(_) => world.open(true)?,
    };
    // What the old owner left has taken effect by the model once it is preempted; whoever was let in freely relies on that.
    for block in 0..BLOCKS {
        world.model.settled(block, world.now);
    }
    (0..BLOCKS).for_each(|block| world.write(&mut owner, block));
    world.pass(&mut owner, ABANDONED)?;
    world.settle(&mut owner)?;
    Ok(free)
}

#[test]
fn a_write_that_is_not_settled_keeps_the_reservation() {
    for seed in seeds(20) {
        assert_eq!(leave_with_late_writes(seed), Ok(false), "seed {seed}");
    }
    plant(Some(Fault::EarlyRelease));
    let verdicts: Vec<_> = seeds(20).map(leave_with_late_writes).collect();
    plant(None);
    assert!(verdicts.iter().any(Result::is_err), "a late write passed the release, and nobody noticed");
}

#[test]
fn a_leg_that_hangs_holds_nobody_up_and_keeps_its_reservation() {
    let mut world = World::new(THREE, 3);
    let mut owner = world.open(false).unwrap();
    world.pass(&mut owner, Duration::from_secs(20)).unwrap();
    world.disks[1].lock().hangs = true;
    assert!(world.leave_in_order(owner).unwrap());
    let left = world.registrations();
    assert!(left[1] > 0 && left[0] == 0 && left[2] == 0, "{left:?}");
    world.disks[1].lock().hangs = false;
    assert!(world.open(false).err().unwrap().contains("takeover=1"));
}

#[test]
fn an_opening_that_is_refused_leaves_nothing_behind() {
    for seed in seeds(20) {
        let mut world = World::new(THREE, seed);
        let owner = world.open(false).unwrap();
        let before = world.registrations();
        // Legs answer in any order: some have taken its registration when another one refuses it.
        world.open(false).err().unwrap();
        assert_eq!(world.registrations(), before, "seed {seed}");
        drop(owner);
    }
    // Nor does one that finds too few legs.
    let mut world = World::new(PAIR, 1);
    let mut owner = world.open(false).unwrap();
    world.pass(&mut owner, Duration::from_secs(20)).unwrap();
    assert!(world.leave_in_order(owner).unwrap());
    world.disks[1].lock().cut = true;
    let refused = world.open(false).err().unwrap();
    assert!(refused.contains("leg 2 was in sync"), "{refused}");
    assert_eq!(world.registrations(), [0, 0]);
    world.disks[1].lock().cut = false;
    world.open(false).unwrap();
}

#[test]
fn an_opening_whose_record_may_still_come_keeps_that_leg() {
    for seed in seeds(20) {
        let mut world = left_well(PAIR, seed).unwrap();
        world.disks[1].lock().loses_write = true;
        let refused = world.open(false).err().unwrap();
        assert!(refused.contains("leg 2 failed while the opening was recorded"), "{refused}");
        assert_eq!(world.registrations(), [0, 1], "seed {seed}");
        world.open(true).unwrap();
    }
}

#[test]
fn a_takeover_that_is_refused_keeps_what_it_took() {
    for seed in seeds(20) {
        let mut world = World::new(PAIR, seed);
        let mut old = world.open(false).unwrap();
        world.pass(&mut old, Duration::from_secs(20)).unwrap();
        world.disks[1].lock().cut = true;
        let refused = world.open(true).err().unwrap();
        assert!(refused.contains("leg 2 was in sync"), "{refused}");
        world.disks[1].lock().cut = false;
        for _ in 0..20 {
            world.submit_as(&mut old, false);
            world.pass(&mut old, Duration::from_millis(5)).unwrap();
        }
        assert!(world.open(false).err().unwrap().contains("takeover=1"), "seed {seed}");
        world.open(true).unwrap();
    }
}

#[test]
fn a_crash_leaves_the_reservation() {
    let mut world = World::new(PAIR, 5);
    let mut owner = world.open(false).unwrap();
    world.pass(&mut owner, Duration::from_secs(20)).unwrap();
    drop(owner);
    assert!(world.registrations().iter().all(|count| *count > 0));
    assert!(world.open(false).err().unwrap().contains("takeover=1"));
    world.open(true).unwrap();
}

#[test]
fn whoever_was_taken_over_gives_nothing_back_and_is_left_at_once() {
    let mut world = World::new(PAIR, 6);
    let mut old = world.open(false).unwrap();
    world.pass(&mut old, Duration::from_secs(20)).unwrap();
    let mut new = world.open(true).unwrap();
    let before = world.registrations();
    assert!(world.leave_in_order(old).unwrap());
    assert_eq!(world.registrations(), before);
    world.write(&mut new, 1);
    world.settle(&mut new).unwrap();
}

#[test]
fn planted_mistakes_are_found() {
    for fault in [
        Fault::EarlyAcknowledgement,
        Fault::SkippedBit,
        Fault::StaleLeg,
        Fault::PreemptionWithoutAbort,
        Fault::SharedAccess,
    ] {
        assert!(found(fault).is_some(), "{fault:?} was not found");
    }
}

#[test]
fn a_conflict_is_an_error_of_its_own() {
    let mut world = World::new(PAIR, 1);
    let mut old = world.open(false).unwrap();
    // Whichever leg answers first names the owner as it knows it, by its host or by its initiator port.
    let refused = world.open(false).err().unwrap();
    assert!(refused.contains("takeover=1") && refused.contains("qn.2026-11.x:256"), "{refused}");
    let _new = world.open(true).unwrap();
    let queue = &mut old.queues[0].queue;
    let extent = Extent::new(0, 1);
    let data = Buf::zeroed(512).freeze().into();
    let write = Operation::Write { extent, data, durability: Durability::Cached };
    let read = Operation::Read { extent, into: Buf::zeroed(512) };
    for (tag, operation) in [(1, write), (2, read), (3, Operation::Flush)] {
        queue.submit(world.now, Request { tag: Tag(tag), operation }).unwrap();
        let mut done = Vec::new();
        for _ in 0..2000 {
            world.now = world.now + Duration::from_millis(1);
            queue.poll(world.now, &mut done);
        }
        assert_eq!(done.pop().unwrap().error(), Some(VolumeErrorKind::ReservationConflict), "request {tag}");
    }
    assert_eq!(old.mirror.path(), PathState::Inaccessible);
    assert!(old.mirror.last_error().unwrap().contains("another host"));
}
