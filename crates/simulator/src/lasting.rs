//! Trials of a volume that stays open while its server dies, freezes, loses power and comes back.
//!
//! The client never opens the volume again: whatever happens, its one queue must answer every request, within the bound that
//! docs/volume-contract.md gives, and no answer may be wrong. A server that dies is started again after a while on the same disk; what the
//! disk was doing is done, unless the power was cut. A server that freezes leaves everything that was sent to it in its
//! socket buffers, and carries it out when it thaws: ghosts of what the client has long sent again. Of a server with several cores one
//! stands still, also while the others stop, and the client has as many queues.

use std::ops::RangeInclusive;
use std::time::Duration;

use engine::{ControlEvent, Core, Message, Transport};
use host::Service as _;
use volume::VolumeQueue;

use crate::careless::{Bug, Careless};
use crate::damage::{self, Damage, Speech};
use crate::dice::{Dice, Odds};
use crate::disk::{CrashDisk, DiskOptions, PlantedBug, SECTOR};
use crate::failure::TrialFailure;
use crate::keeper::Keeper;
use crate::ladder::Ladder;
use crate::marks::Marks;
use crate::network_conditions::NetworkConditions;
use crate::sockets::DatagramFaults;
use crate::trial::{Scenario, WORLD_STEPS, connect, start_server, step};
use crate::workload::Workload;
use crate::world::{Frozen, World};

/// Sectors that the workload uses; the ladder has the one after them.
const SECTORS: usize = 23;
/// Steps of the workload between two faults.
const STEPS: RangeInclusive<usize> = 5..=60;
/// How long a server may be away or frozen: longer than any bound after which its silence is noticed.
const ABSENCE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(20);
/// How long one of several cores may stand still while its server stops, and how long a server may have been stopping when it dies.
const STANDSTILL: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(15);
const TORN: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(5);
/// How often a stream is reset while nothing else happens.
const CALM_CUTS: Odds = Odds(5);
/// The clock's longest step during an absence.
const STRIDE: Duration = Duration::from_millis(20);
/// How long a server may take to stop: longer than it waits for logouts; and, where peers may be out of reach and nobody tells, for last packets and
/// for answers to four disconnects.
const STOP: Duration = Duration::from_secs(10);
const STOP_OVER_DATAGRAMS: Duration = Duration::from_secs(15);
/// How long requests may take at most, with the scenarios' options: 2 × 30 s + 2 × 30 s + 15 s.
const BOUND: Duration = Duration::from_secs(135);

/// Sectors of a trial whose network damages what it carries, and the longest request: requests of all sizes at which an end takes another
/// way, up to data that the server asks for.
const DAMAGED_SECTORS: usize = 95;
const LONGEST_DAMAGED: usize = 72;
/// Steps of the client before anything happens where nothing may fail: a queue's very first connection has less time than those that follow.
const CLEAR_STEPS: usize = 60;
/// How often a PDU is damaged.
const FLIPS: Odds = Odds(15);

/// How a trial differs from others.
struct Variant {
    bug: Bug,
    /// How often a stream is reset.
    cuts: Odds,
    sectors: usize,
    /// The longest request, in sectors; the usual one if absent.
    longest: Option<usize>,
    /// The longest chunk that travels, at most, in bytes.
    chunk: usize,
}

impl Variant {
    fn usual(bug: Bug) -> Self {
        Self { bug, cuts: Odds(1), sectors: SECTORS, longest: None, chunk: 4096 }
    }
}

/// What happens to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Its process ends.
    Death,
    /// Its machine loses power.
    PowerCut,
    /// It does nothing for a while.
    Freeze,
    /// It stops in good order.
    Stop,
    /// It stops in good order, and its machine loses power before it is started again.
    Reboot,
}

/// Runs one trial in which nothing happens to the server: only streams are reset, more often than ever. Its mark says that
/// it is the same, so not even a flush may fail; the error says what did.
pub fn calm(seed: u64, steps: usize, scenario: &Scenario) -> Result<(), TrialFailure> {
    let mut trial = Trial::varied(seed, scenario, &Variant { cuts: CALM_CUTS, ..Variant::usual(Bug::None) })?;
    trial.strict = true;
    for _ in 0..steps {
        trial.work(true)?;
    }
    trial.settle()
}

/// Runs one trial in which the server is stopped in good order, so many times. Nothing is lost, so not even a flush may fail; the error says what did.
pub fn stopped(seed: u64, stops: usize, scenario: &Scenario) -> Result<(), TrialFailure> {
    let mut trial = Trial::new(seed, scenario, Bug::None)?;
    trial.warm_up()?;
    trial.strict = true;
    for number in 0..stops {
        let fault = if trial.dice.coin() { Fault::Stop } else { Fault::Reboot };
        let told = |failure: TrialFailure| failure.at(format_args!("stop {number}, {fault:?}"));
        for _ in 0..trial.dice.within(STEPS) {
            trial.work(true).map_err(told)?;
        }
        trial.suffer(fault).map_err(told)?;
    }
    trial.settle()
}

/// Runs one trial over a network that flips bits. Digests find each of them: what is read and stored stays right, and every request ends. The
/// error says what was wrong; without one, how often a PDU was damaged.
pub fn damaged(
    seed: u64,
    steps: usize,
    scenario: &Scenario,
    bug: damage::PlantedBug,
) -> Result<u64, TrialFailure> {
    let variant = Variant {
        sectors: DAMAGED_SECTORS,
        longest: Some(LONGEST_DAMAGED),
        chunk: 1 << 16,
        ..Variant::usual(Bug::None)
    };
    let mut trial = Trial::varied(seed, scenario, &variant)?;
    let speech = if scenario.compares() { Speech::Iscsi } else { Speech::Nvme };
    let dice = trial.dice.fork();
    trial.warm_up()?;
    trial.strict = true;
    trial.world.damage = Some(Damage::new(speech, FLIPS, bug, dice));
    trial.world.set_idle(STRIDE);
    for _ in 0..steps {
        trial.work(true)?;
    }
    let done = trial.world.damage.as_mut().map_or(0, |damage| {
        damage.flips = Odds::NEVER;
        damage.done
    });
    trial.settle().map(|()| done)
}

/// Runs one trial over a network that does so to datagrams, and nothing else happens: nothing may fail. The error says what was wrong; without one, how many
/// datagrams were struck.
pub fn lossy(
    seed: u64,
    steps: usize,
    scenario: &Scenario,
    faults: DatagramFaults,
) -> Result<u64, TrialFailure> {
    let variant = Variant {
        cuts: Odds::NEVER,
        sectors: DAMAGED_SECTORS,
        longest: Some(LONGEST_DAMAGED),
        ..Variant::usual(Bug::None)
    };
    let mut trial = Trial::varied(seed, scenario, &variant)?;
    trial.warm_up()?;
    trial.strict = true;
    trial.world.set_datagram_faults(faults);
    for _ in 0..steps {
        trial.work(true)?;
    }
    trial.settle().map(|()| trial.world.struck_datagrams())
}

/// A trial under way.
struct Trial<'a> {
    scenario: &'a Scenario,
    world: World<Core>,
    disk: CrashDisk,
    keeper: Keeper,
    dice: Dice,
    workload: Workload,
    ladder: Option<Ladder>,
    queue: Box<dyn VolumeQueue>,
    /// No request but a compare-and-write may fail.
    strict: bool,
}

/// Runs one trial with so many faults. The error says what was wrong.
pub fn lasting(seed: u64, faults: usize, scenario: &Scenario, bug: Bug) -> Result<(), TrialFailure> {
    let mut trial = Trial::new(seed, scenario, bug)?;
    for number in 0..faults {
        let faults = [Fault::Death, Fault::PowerCut, Fault::Freeze, Fault::Stop, Fault::Reboot];
        let fault = faults[trial.dice.index(faults.len())];
        let told = |failure: TrialFailure| failure.at(format_args!("fault {number}, {fault:?}"));
        for _ in 0..trial.dice.within(STEPS) {
            trial.work(true).map_err(told)?;
        }
        trial.suffer(fault).map_err(told)?;
    }
    trial.settle()
}

impl<'a> Trial<'a> {
    fn new(seed: u64, scenario: &'a Scenario, bug: Bug) -> Result<Self, TrialFailure> {
        Self::varied(seed, scenario, &Variant::usual(bug))
    }

    fn varied(seed: u64, scenario: &'a Scenario, variant: &Variant) -> Result<Self, TrialFailure> {
        let mut dice = Dice::new(seed);
        let sectors = variant.sectors;
        let options = DiskOptions {
            sectors: sectors + 1,
            errors: Odds::NEVER,
            write_back: None,
            bug: PlantedBug::None,
        };
        let disk = CrashDisk::new(options, dice.fork());
        let conditions = NetworkConditions {
            delay: Duration::ZERO..=Duration::from_micros(500),
            longest: dice.within(1..=variant.chunk),
            cuts: variant.cuts,
        };
        let mut world = World::new(conditions, dice.fork());
        world.set_datagram_faults(DatagramFaults::USUAL);
        let mut keeper = Keeper::new(scenario.marks, dice.fork());
        start_server(&mut world, &disk, (scenario, keeper.begin()?))?;
        let mut workload = Workload::new(sectors, SECTOR, dice.fork());
        if let Some(longest) = variant.longest {
            workload = workload.with_longest(longest);
        }
        if matches!(scenario.transport(), Transport::Roce { .. }) {
            workload = workload.with_late_answers();
        }
        let queue: Box<dyn VolumeQueue> =
            Box::new(Careless::new(connect(&mut world, scenario)?, variant.bug));
        let ladder = scenario.compares().then(|| Ladder::new(sectors, SECTOR));
        Ok(Self { scenario, world, disk, keeper, dice, workload, ladder, queue, strict: false })
    }

    fn warm_up(&mut self) -> Result<(), TrialFailure> {
        (0..CLEAR_STEPS).try_for_each(|_| self.work(true))?;
        // Streams may be reset again and again, and several cores take their turns by the dice: each queue is to have had its first connection.
        while self.workload.under_way() > 0 {
            self.work(false)?;
        }
        Ok(())
    }

    /// A step of the client and a few of the world; `more` lets it ask for something new.
    fn work(&mut self, more: bool) -> Result<(), TrialFailure> {
        self.reap()?;
        if more {
            self.workload.ask(&mut *self.queue);
            if let Some(ladder) = &mut self.ladder {
                ladder.climb(self.world.now(), &mut *self.queue);
            }
        }
        (0..WORLD_STEPS).for_each(|_| self.world.step());
        Ok(())
    }

    /// Takes what has ended.
    fn reap(&mut self) -> Result<(), TrialFailure> {
        let now = self.world.now();
        self.workload.now = now;
        let mut done = Vec::new();
        self.queue.poll(now, &mut done);
        for completion in done {
            let others = match &mut self.ladder {
                Some(ladder) => ladder.take(completion)?,
                None => Some(completion),
            };
            if let Some(completion) = others {
                if self.strict && completion.result.is_err() {
                    return Err(TrialFailure::Broken(format!(
                        "{completion:?} though the server lived all the while"
                    )));
                }
                self.workload.take(completion)?;
            }
        }
        Ok(())
    }

    /// Lets time pass; the client goes on meanwhile.
    fn pass(&mut self, span: Duration) -> Result<(), TrialFailure> {
        let end = self.world.now() + span;
        self.world.set_idle(STRIDE);
        while self.world.now() < end {
            let more = self.dice.happens(Odds(50));
            self.work(more)?;
        }
        self.world.set_idle(Duration::from_millis(1));
        Ok(())
    }

    fn suffer(&mut self, fault: Fault) -> Result<(), TrialFailure> {
        let absence = self.dice.span(&ABSENCE);
        match fault {
            Fault::Freeze => {
                let frozen = self.some_core();
                self.world.freeze(frozen);
                self.pass(absence)?;
                self.world.freeze(Frozen::Nothing);
                return Ok(());
            }
            Fault::Death => {
                self.begin_to_stop()?;
                self.world.end_server();
                self.disk.outlive();
                self.keeper.ended();
            }
            Fault::PowerCut => {
                self.begin_to_stop()?;
                self.world.end_server();
                self.cut_power()?;
            }
            Fault::Stop | Fault::Reboot => {
                self.stop()?;
                self.world.end_server();
                self.disk.outlive();
                self.keeper.ended();
                if fault == Fault::Reboot {
                    self.cut_power()?;
                }
            }
        }
        self.pass(absence)?;
        start_server(&mut self.world, &self.disk, (self.scenario, self.keeper.begin()?))
    }

    /// One of several cores, or all of one.
    fn some_core(&mut self) -> Frozen {
        let several = self.scenario.cores > 1;
        if several { Frozen::Core(self.dice.index(self.scenario.cores.into())) } else { Frozen::All }
    }

    /// One of several cores may stand still while the others stop; not all of them have finished when this ends.
    fn begin_to_stop(&mut self) -> Result<(), TrialFailure> {
        if self.scenario.cores == 1 || self.dice.coin() {
            return Ok(());
        }
        let (frozen, span) = (self.some_core(), self.dice.span(&TORN));
        self.world.tell_server(|| Message::Shutdown);
        self.world.freeze(frozen);
        self.pass(span)
    }

    fn cut_power(&mut self) -> Result<(), TrialFailure> {
        // What was acknowledged before is told before.
        self.reap()?;
        self.disk.cut();
        self.keeper.cut();
        self.workload.history.power_lost();
        Ok(())
    }

    /// Asks the server to stop, as SIGTERM does, and keeps the mark once it has secured what it had.
    fn stop(&mut self) -> Result<(), TrialFailure> {
        self.world.tell_server(|| Message::Shutdown);
        if self.scenario.cores > 1 {
            let (frozen, span) = (self.some_core(), self.dice.span(&STANDSTILL));
            self.world.freeze(frozen);
            self.stand_still(span)?;
            self.world.freeze(Frozen::Nothing);
        }
        self.world.set_idle(STRIDE);
        let over_datagrams = matches!(self.scenario.transport(), Transport::Roce { .. });
        let most = if over_datagrams { STOP_OVER_DATAGRAMS } else { STOP };
        let end = self.world.now() + most;
        while !self.counts_as_stopped() {
            if self.world.now() > end {
                return Err(TrialFailure::Late(format!("the server has not stopped within {most:?}")));
            }
            self.work(true)?;
        }
        self.world.set_idle(Duration::from_millis(1));
        let observed = self.world.observed.take();
        let secured = matches!(observed[..], [ControlEvent::Retired { secured: true, .. }]);
        if self.scenario.marks != Marks::Hasty && !secured {
            return Err(TrialFailure::Broken(format!("a server that stops in good order says {observed:?}")));
        }
        self.keeper.stopped()
    }

    fn counts_as_stopped(&self) -> bool {
        self.scenario.marks == Marks::Hasty || self.world.cores().iter().all(Core::is_finished)
    }

    /// Lets time pass while a core stands still, at most until the server counts as stopped.
    fn stand_still(&mut self, span: Duration) -> Result<(), TrialFailure> {
        let end = self.world.now() + span;
        self.world.set_idle(STRIDE);
        while self.world.now() < end && !self.counts_as_stopped() {
            let more = self.dice.happens(Odds(50));
            self.work(more)?;
        }
        Ok(())
    }

    /// Waits until every request has ended, and looks at everything once more.
    fn settle(&mut self) -> Result<(), TrialFailure> {
        let end = self.world.now() + BOUND;
        self.world.set_idle(STRIDE);
        while self.workload.under_way() > 0 || self.ladder.as_ref().is_some_and(Ladder::is_climbing) {
            if self.world.now() > end {
                return Err(TrialFailure::Late(format!(
                    "{} requests have not ended within {BOUND:?}",
                    self.workload.under_way()
                )));
            }
            self.work(false)?;
        }
        let end = self.world.now() + BOUND;
        let Self { world, workload, queue, .. } = self;
        while !workload.check_now(&mut **queue, &mut || step(world))? {
            if world.now() > end {
                return Err(TrialFailure::Late(format!("the volume cannot be read within {BOUND:?}")));
            }
        }
        Ok(())
    }
}
