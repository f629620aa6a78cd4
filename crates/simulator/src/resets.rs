//! Trials of resets: sessions of both protocols write to one slow disk through a server of several cores, and reset each other.
//!
//! The checker is told what was promised. Once a task management function is answered, no task that it affects changes the disk any more
//! (RFC 7143 §4.2.3.3, §11.5): of the session that asked all that it had sent before, of others all that was at the disk before. Once
//! CSTS.RDY is 0 or CSTS.SHST says that the shutdown is complete, no command of the controller does (NVMe Base §3.5, §3.6). The other
//! sessions hear of a reset by a unit attention (SAM-5 §6.3), and nobody is left without an answer. ABORT TASK is answered once its
//! task has ended at the disk. Over RoCE they are played by the same PDUs ([`crate::dialects`]). [`PlantedBug`] has the bugs that it must find.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::{Answer, Core, ListenerRole, Member, Message};
use host::CoreIndex;
use iscsi::pdu::{Function, FunctionResponse};
use nvme::subsystem::{Reply, Request};
use protocol::Instant;
use volume::{Ram, Volume};

use crate::dice::{Dice, Odds};
use crate::disk::SECTOR;
use crate::failure::TrialFailure;
use crate::fencing::{acknowledge_early, marks};
use crate::forsaken::Forsaken;
use crate::interlude::Interlude;
use crate::lock;
use crate::mail::MessageHook;
use crate::network_conditions::NetworkConditions;
pub use crate::nexus::Carrier;
use crate::nexus::{BLOCKS, Controller, DisabledBy, Session};
use crate::serving::{Serving, serve};
use crate::slow::{Effect, SlowDisk, Watch};
use crate::sockets::DatagramFaults;
use crate::trial::delay_over;
use crate::world::World;
/// The longest that the disk takes for a request: longer than everything else, so that resets find requests there.
const SLOWEST: Duration = Duration::from_millis(80);
/// Buffers of each core, in bytes.
const POOL: usize = 16 << 20;
/// Steps of the world between two resets.
const STEPS: std::ops::RangeInclusive<usize> = 20..=150;
/// How long an answer may take: CAP.TO and the time of a task management function are longer, and no request here takes that long.
const ANSWER: Duration = Duration::from_secs(5);
/// The same where a set-up may have lost messages, each of which comes again a second later.
const ROCE_ANSWER: Duration = Duration::from_secs(20);

/// A bug of the server's cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
    /// None.
    None,
    /// A reset of task sets is answered before the tasks of other sessions have ended.
    EarlyAnswer,
    /// A task counts as ended once it was told to end, while the disk still has its request.
    EarlyEnd,
    /// A controller is said to be reset or shut down before the requests of its I/O queues have ended.
    EarlyQuiet,
}

/// What a trial is about.
pub struct Scenario {
    /// What is spoken on port 1, iSCSI, and on port 2, NVMe/TCP.
    pub listeners: fn(&dyn Volume) -> Vec<ListenerRole>,
    /// Sessions, and controllers.
    pub nexuses: (u8, u8),
    /// Cores of the server.
    pub cores: CoreIndex,
    /// What carries them.
    pub carrier: Carrier,
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scenario")
            .field("nexuses", &self.nexuses)
            .field("cores", &self.cores)
            .field("carrier", &self.carrier)
            .finish_non_exhaustive()
    }
}

/// What was promised, and what came of it.
#[derive(Default)]
struct Promises {
    /// Nexuses of which nothing takes effect any more.
    dead: BTreeSet<u64>,
    /// The last write of a session that one of its own functions has ended.
    ended: BTreeMap<u64, u64>,
    /// Writes of sessions that were aborted one by one.
    aborted: BTreeSet<(u64, u64)>,
    /// Of all sessions, what was at the disk before this has ended.
    before: Instant,
    /// By what.
    by: String,
    broken: Option<String>,
}

/// Marks of sessions are below this, those of controllers above.
const CONTROLLERS: u64 = 1 << 32;

impl Promises {
    fn see(&mut self, effect: &Effect<'_>) {
        let mut mark = [0; 16];
        effect.data.part(0, 16).copy_to(&mut mark);
        let (nexus, serial) = marks(&mark);
        let of_session = nexus < CONTROLLERS;
        let ended = self.ended.get(&nexus).is_some_and(|last| serial <= *last);
        let ended = ended || self.aborted.contains(&(nexus, serial));
        if self.dead.contains(&nexus) || ended || (of_session && effect.submitted < self.before) {
            let (by, start, now, submitted) = (&self.by, effect.extent.start, effect.now, effect.submitted);
            let what = format!(
                "{by} had been answered, and write {serial} of nexus {nexus:#x} to block {start}, at the disk since {submitted:?}, takes \
                 effect at {now:?}: nothing that it ended may (RFC 7143 §4.2.3.3, NVMe Base §3.5)"
            );
            self.broken.get_or_insert(what);
        }
    }
}

struct Trial {
    seed: u64,
    world: World<Core>,
    dice: Dice,
    sessions: Vec<Session>,
    controllers: Vec<Controller>,
    promises: Arc<Mutex<Promises>>,
    marks: u64,
    carrier: Carrier,
    interlude: Interlude,
}

/// Runs one trial with so many resets. The error says which promise was broken.
pub fn resets(seed: u64, count: usize, scenario: &Scenario, bug: PlantedBug) -> Result<(), TrialFailure> {
    let mut trial = Trial::new(seed, scenario, bug)?;
    for number in 0..count {
        let told = |failure: TrialFailure| failure.at(format_args!("reset {number}"));
        for _ in 0..trial.dice.within(STEPS) {
            trial.step().map_err(told)?;
        }
        trial.reset().map_err(told)?;
    }
    trial.pass(2 * SLOWEST)
}

impl Trial {
    fn new(seed: u64, scenario: &Scenario, bug: PlantedBug) -> Result<Self, TrialFailure> {
        let mut dice = Dice::new(seed);
        let promises = Arc::new(Mutex::new(Promises::default()));
        let told = Arc::clone(&promises);
        let watch: Watch = Arc::new(Mutex::new(Box::new(move |effect: &Effect<'_>| lock(&told).see(effect))));
        let inner = Ram::new(BLOCKS * SECTOR as u64, 512)?;
        let disk: Arc<dyn Volume> = Arc::new(SlowDisk {
            inner: Arc::new(inner),
            slowest: SLOWEST,
            quick: Arc::default(),
            stubborn: dice.coin(),
            watch,
            dice: Mutex::new(dice.fork()),
        });
        let disk =
            if bug == PlantedBug::EarlyEnd { Arc::new(Forsaken(disk)) as Arc<dyn Volume> } else { disk };
        let transport = scenario.carrier.transport();
        let delay = match scenario.carrier {
            Carrier::Tcp => Duration::ZERO..=Duration::from_micros(500),
            Carrier::Roce => delay_over(transport),
        };
        let mut world =
            World::new(NetworkConditions { delay, longest: 1 << 16, cuts: Odds::NEVER }, dice.fork());
        world.loosen();
        world.set_datagram_faults(DatagramFaults::USUAL);
        let hook: Option<MessageHook<Message>> = match bug {
            PlantedBug::None | PlantedBug::EarlyEnd => None,
            PlantedBug::EarlyAnswer => Some(Box::new(acknowledge_early)),
            PlantedBug::EarlyQuiet => Some(Box::new(quiet_early)),
        };
        let listeners = (scenario.listeners)(&*disk);
        serve(&mut world, disk, Serving { listeners, transport, cores: scenario.cores, pool: POOL, hook })?;
        let (sessions, controllers) = (Vec::new(), Vec::new());
        let mut trial = Self {
            seed,
            world,
            dice,
            sessions,
            controllers,
            promises,
            marks: 0,
            carrier: scenario.carrier,
            interlude: Interlude::default(),
        };
        for number in 0..scenario.nexuses.0 {
            let mark = trial.mark();
            trial.sessions.push(Session::dial((trial.seed, mark), number + 1, scenario.carrier));
        }
        for number in 0..scenario.nexuses.1 {
            let mark = trial.mark() + CONTROLLERS;
            trial.controllers.push(Controller::dial((trial.seed, mark), number + 101, scenario.carrier));
        }
        trial.wait("all logins", Self::are_up)?;
        Ok(trial)
    }

    fn mark(&mut self) -> u64 {
        self.marks += 1;
        self.marks
    }

    fn are_up(&self) -> bool {
        self.sessions.iter().all(Session::is_up) && self.controllers.iter().all(Controller::is_up)
    }

    /// All write, the world goes on, and whoever was put out comes back.
    fn step(&mut self) -> Result<(), TrialFailure> {
        let now = self.world.now();
        for index in 0..self.sessions.len() {
            let session = &mut self.sessions[index];
            session.play(now, &mut self.dice, &mut self.world)?;
            if session.has_ended() {
                let mark = self.mark();
                let number = self.sessions[index].number();
                self.sessions[index] = Session::dial((self.seed, mark), number, self.carrier);
            }
        }
        for controller in &mut self.controllers {
            controller.play(now, &mut self.dice, &mut self.world)?;
        }
        self.interlude.step(&mut self.dice, &mut self.world);
        self.world.step();
        lock(&self.promises).broken.take().map_or(Ok(()), |what| Err(TrialFailure::Broken(what)))
    }

    fn pass(&mut self, span: Duration) -> Result<(), TrialFailure> {
        let end = self.world.now() + span;
        while self.world.now() < end {
            self.step()?;
        }
        Ok(())
    }

    fn wait(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) -> Result<(), TrialFailure> {
        let patience = if self.carrier == Carrier::Roce { ROCE_ANSWER } else { ANSWER };
        let end = self.world.now() + patience;
        while !done(self) {
            if self.world.now() > end {
                return Err(TrialFailure::Late(format!("{what} did not come within {patience:?}")));
            }
            self.step()?;
        }
        Ok(())
    }

    fn reset(&mut self) -> Result<(), TrialFailure> {
        let count = self.sessions.len() + self.controllers.len();
        let chosen = self.dice.index(count);
        match chosen.checked_sub(self.sessions.len()) {
            None if self.dice.coin() => self.abort(chosen),
            None => self.manage(chosen),
            Some(index) => self.disable(index),
        }
    }

    /// A session asks for a task management function.
    fn manage(&mut self, index: usize) -> Result<(), TrialFailure> {
        let functions = [
            Function::ABORT_TASK_SET,
            Function::CLEAR_TASK_SET,
            Function::LOGICAL_UNIT_RESET,
            Function::TARGET_WARM_RESET,
            Function::TARGET_COLD_RESET,
        ];
        let function = functions[self.dice.index(functions.len())];
        let what = format!("{} of session {index}", function.text());
        let began = self.world.now();
        let of_all = function != Function::ABORT_TASK_SET;
        let cold = function == Function::TARGET_COLD_RESET;
        let was: Vec<u64> = self.sessions.iter().map(Session::mark).collect();
        self.sessions.iter_mut().for_each(Session::forget_attention);
        let serial = self.sessions[index].manage(function, &mut self.world);
        let asker = was[index];
        self.wait(&what, |trial| {
            let session = &trial.sessions[index];
            session.mark() != asker || session.managed().is_some()
        })?;
        let answer = self.sessions[index].managed();
        if answer != Some(FunctionResponse::COMPLETE) && !cold {
            return Err(TrialFailure::Broken(format!(
                "{what} is answered {answer:?}, not that it is complete (RFC 7143 §11.6.1)"
            )));
        }
        {
            let mut promises = lock(&self.promises);
            promises.ended.insert(asker, serial);
            promises.by.clone_from(&what);
            if of_all {
                promises.before = began;
            }
        }
        self.wait(&format!("all logins after {what}"), Self::are_up)?;
        let attention = matches!(function, Function::LOGICAL_UNIT_RESET | Function::TARGET_WARM_RESET);
        self.probe(&what, attention.then_some((index, &was)))
    }

    /// A session asks for the end of one of its writes.
    fn abort(&mut self, index: usize) -> Result<(), TrialFailure> {
        let session = &mut self.sessions[index];
        let Some(serial) = session.abort(&mut self.dice, &mut self.world) else { return Ok(()) };
        let what = format!("{} of session {index}", Function::ABORT_TASK.text());
        self.wait(&what, |trial| trial.sessions[index].managed().is_some())?;
        // It may have ended by itself just before.
        let answers = [FunctionResponse::COMPLETE, FunctionResponse::NO_TASK];
        let session = &self.sessions[index];
        match session.managed() {
            Some(answer) if answers.contains(&answer) => {}
            other => {
                return Err(TrialFailure::Broken(format!("{what} is answered {other:?} (RFC 7143 §11.6.1)")));
            }
        }
        let mut promises = lock(&self.promises);
        promises.aborted.insert((session.mark(), serial));
        promises.by = what;
        Ok(())
    }

    /// Every session has an answer to a command; those that are there still have heard of a reset.
    fn probe(&mut self, what: &str, told: Option<(usize, &[u64])>) -> Result<(), TrialFailure> {
        for index in 0..self.sessions.len() {
            let mark = self.sessions[index].mark();
            let tag = self.sessions[index].ask(&mut self.world);
            let name = format!("after {what}, the answer to TEST UNIT READY of session {index}");
            self.wait(&name, |trial| {
                let session = &trial.sessions[index];
                session.mark() != mark || session.has_answered(tag)
            })?;
            let session = &self.sessions[index];
            if let Some((asker, was)) = told
                && asker != index
                && session.mark() == was[index]
                && !session.has_attention()
            {
                return Err(TrialFailure::Broken(format!(
                    "{what} has told session {index} nothing: SAM-5 §6.3 wants a unit attention"
                )));
            }
        }
        Ok(())
    }

    /// A host resets its controller, or shuts it down, and connects again.
    fn disable(&mut self, index: usize) -> Result<(), TrialFailure> {
        let way = if self.dice.coin() { DisabledBy::Shutdown } else { DisabledBy::Reset };
        let register = match way {
            DisabledBy::Shutdown => "CC.SHN",
            DisabledBy::Reset => "CC.EN = 0",
        };
        let what = format!("{register} of controller {index}");
        let dead = self.controllers[index].mark();
        self.controllers[index].disable(way, &mut self.world);
        self.wait(&what, |trial| trial.controllers[index].is_disabled())?;
        {
            let mut promises = lock(&self.promises);
            promises.dead.insert(dead);
            promises.by.clone_from(&what);
        }
        if self.dice.coin() {
            self.pass(SLOWEST)?;
        }
        self.controllers[index].hang_up(&mut self.world);
        let mark = self.mark() + CONTROLLERS;
        let number = self.controllers[index].number();
        self.controllers[index] = Controller::dial((self.seed, mark), number, self.carrier);
        self.wait(&format!("the controller after {what}"), |trial| trial.controllers[index].is_up())
    }
}

/// Each I/O queue that is told to close is said to be quiet at once.
fn quiet_early((from, to): (CoreIndex, CoreIndex), message: Message) -> Vec<(CoreIndex, Message)> {
    match message {
        Message::Deliver(endpoint, Answer::Subsystem(Reply::Close)) => {
            let member = Member { core: to, endpoint };
            let quiet = Message::Subsystem(member, Request::Quiesced);
            vec![(to, Message::Deliver(endpoint, Answer::Subsystem(Reply::Close))), (from, quiet)]
        }
        message => vec![(to, message)],
    }
}
