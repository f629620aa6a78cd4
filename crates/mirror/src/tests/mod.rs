//! A mirror in a seeded world: legs that die, are cut off, slow or lose power, owners that crash between any two steps, queues that are dropped, owners that take over
//! from each other. Whatever happens: no acknowledged write is lost, no read sees anything else, legs are equal once everything is well, and never do two owners write.

mod disk;
mod model;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use buf::{Buf, Pool};
use protocol::{Entropy, Instant, SeededEntropy};
use volume::{
    Completion, CoreId, Durability, Extent, Operation, Outcome, PathState, PreparedOpen, QueueContext, Ready,
    Request, Tag, Volume, VolumeErrorKind, VolumeQueue,
};

use crate::fencer::Need;
use crate::limits::ABANDONED;
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
        let child = |(leg, disk): (usize, &Disk)| Child {
            prepared: if disk.lock().cut {
                Err(volume::OpenError::new("it is cut off"))
            } else {
                Ok(Box::new(Ready::new(disk.seen_by(number))) as Box<dyn PreparedOpen>)
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
        let reopen = Arc::new(Again { disks: self.disks.clone(), number });
        let prepared = Box::new(PreparedMirror {
            children,
            options,
            owner: format!("owner {number}"),
            entropy: Arc::new(move || Box::new(SeededEntropy::new(seed))),
            reopen: Some(reopen),
        });
        let mut opening = prepared.begin(&self.context());
        for _ in 0..10_000 {
            if let Some(opened) = opening.poll(self.now) {
                let mirror = opened.map_err(|error| error.to_string())?;
                let mut owner = Owner { number, mirror, queues: Vec::new() };
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

/// Opens legs that were cut off.
#[derive(Debug)]
struct Again {
    disks: Vec<Disk>,
    number: u8,
}

impl crate::shared::Reopen for Again {
    fn begin(&self, leg: usize, then: Box<dyn FnOnce(crate::shared::Prepared) + Send>) {
        let disk = &self.disks[leg];
        then(if disk.lock().cut {
            Err(volume::OpenError::new("it is still cut off"))
        } else {
            Ok(Box::new(Ready::new(disk.seen_by(self.number))))
        });
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
    assert!(refused.contains("takeover=1") && refused.contains("qn.2026-11.x:1"), "{refused}");
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
