//! A world of one NFS server and several clients that one seed decides: the server's own code, a clock, connections, a file system and stable storage
//! that do what the seed says (docs/decisions/0036-nfs.md).
//!
//! At each step one of all things happens that can: a record arrives on either side, a message between a connection and the group, the file system
//! begins or ends a request, a change of stable storage becomes durable, a client does something. Little time passes at each.
//!
//! # Fault model
//! * A connection may be cut at any time. What its client has sent arrives or not, up to some record; what is under way at the server goes on, and the
//!   server notices later. The client sends again what has no answer, over whatever connection it then has.
//! * The server may die at any time. Nothing of it remains but what the file system and stable storage had durable; of the changes that were asked of
//!   stable storage and not yet told, the first ones may have happened. It starts again as the next server.
//! * A client may be away for longer than its lease, or start again with another verifier.
//! * Requests of the file system are begun and end in any order. A message between a connection and the group overtakes none before it, and takes less
//!   than [`LONGEST`].
#![allow(dead_code, unreachable_pub, missing_docs, missing_debug_implementations, reason = "this is a test")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a single history is told")]

mod acting;
mod client;
mod disk;
mod ledger;
pub mod planted;
mod serving;
mod work;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use filesystem::{Memory, Operation, Outcome, Request, Tag};
use nfs::limits::LEASE;
use nfs::server::Input;
use nfs::state::stable::{StableChange, StableRecord};
use nfs::v4::ClientId;
use protocol::{Entropy, Group, Instant, SeededEntropy};

use client::{Client, Issued};
use ledger::Ledger;
use planted::{Bug, Planted};
use serving::Serving;

/// Files that clients share, and the places in each that are written to.
const FILES: usize = 2;
const PAGES: u64 = 4;
/// Clients, and slots of each.
const CLIENTS: usize = 3;
const WORKERS: usize = 3;
/// Steps with faults, and those at most in which everything has to come to rest afterwards.
const STEPS: usize = 12_000;
const REST: usize = 60_000;
/// How long a message or a request of the file system may be on its way.
pub const LONGEST: Duration = Duration::from_secs(5);

/// Throws that a seed decides.
pub struct Dice(SeededEntropy);

impl Dice {
    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.number() % limit.max(1)
    }

    /// A place in something of this length.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap()
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Something that can happen.
#[derive(Debug, Clone, Copy)]
enum Step {
    Act(usize),
    Call(usize),
    Reply(usize),
    ToGroup(usize),
    FromGroup(usize),
    Begin(usize),
    End(usize),
    Durable,
    Release(usize),
    Timeout,
    Notice(usize),
    Leave(usize),
    Start,
}

/// A world.
pub struct World {
    dice: Dice,
    now: Instant,
    planted: Planted,
    pub ledger: Ledger,
    memory: Memory,
    stable: BTreeMap<ClientId, StableRecord>,
    serving: Option<Serving>,
    boot: u32,
    clients: Vec<Client>,
    /// Whose link is whose.
    owners: BTreeMap<usize, usize>,
    issued: BTreeMap<u32, Rc<Issued>>,
    root: Vec<u8>,
    files: Vec<Vec<u8>>,
    last_link: usize,
    last_xid: u32,
    last_number: u64,
    /// The server dies at the next step.
    dies_soon: bool,
    /// No faults any more, and nothing new begins.
    resting: bool,
}

/// Plays the history of a seed, with a bug or without.
///
/// # Errors
/// What went wrong.
pub fn play(seed: u64, bug: Option<Bug>) -> Result<BTreeMap<&'static str, u64>, String> {
    let mut world = World::new(seed, bug);
    world.run();
    match world.ledger.failure {
        None => Ok(world.ledger.seen),
        Some(failure) => Err(failure),
    }
}

impl World {
    fn new(seed: u64, bug: Option<Bug>) -> Self {
        let memory = disk::make(seed, FILES, usize::try_from(PAGES * work::PAGE).unwrap());
        let mut world = Self {
            dice: Dice(SeededEntropy::new(seed)),
            now: Instant::ZERO,
            planted: Planted::new(bug),
            ledger: Ledger::default(),
            serving: None,
            stable: BTreeMap::new(),
            boot: 0,
            clients: (0..CLIENTS).map(|number| Client::new(format!("client {number}"), WORKERS)).collect(),
            owners: BTreeMap::new(),
            issued: BTreeMap::new(),
            root: Vec::new(),
            files: Vec::new(),
            last_link: 0,
            last_xid: 0,
            last_number: 0,
            dies_soon: false,
            resting: false,
            memory,
        };
        world.ledger.is_told = std::env::var_os("LINERATE_SEED").is_some();
        (world.root, world.files) = acting::handles(&world.memory, FILES);
        world
    }

    fn run(&mut self) {
        for _ in 0..STEPS {
            self.fault();
            self.step();
            if self.ledger.failure.is_some() {
                return;
            }
        }
        self.resting = true;
        for client in &mut self.clients {
            client.frozen = Instant::ZERO;
        }
        for _ in 0..REST {
            if self.serving.is_some() && self.clients.iter().all(Client::is_at_rest) {
                break;
            }
            self.step();
            if self.ledger.failure.is_some() {
                return;
            }
        }
        let stuck = self.clients.iter().position(|client| !client.is_at_rest());
        if let Some(stuck) = stuck {
            let what = self.describe(stuck);
            self.ledger.fail(|| format!("client {stuck} never comes to rest: {what}"));
        }
        self.kill();
    }

    /// Something goes wrong now and then.
    fn fault(&mut self) {
        // Also right after a promise.
        if std::mem::take(&mut self.dies_soon) || self.dice.once_in(4000) {
            self.kill();
        }
        if self.dice.once_in(60) {
            let links: Vec<usize> = self.owners.keys().copied().collect();
            if !links.is_empty() {
                let link = links[self.dice.index(links.len())];
                self.cut(link);
            }
        }
        if self.dice.once_in(700) {
            let client = self.dice.index(CLIENTS);
            // Often for about a lease: that is where it is decided who has what.
            let span =
                if self.dice.once_in(2) { 90 + self.dice.below(20) } else { 40 + self.dice.below(240) };
            self.ledger.tell(self.now, || format!("client {client} is away for {span} s"));
            self.clients[client].frozen = self.now + Duration::from_secs(span);
            self.ledger.see("absences");
        }
        if self.dice.once_in(2500) {
            let client = self.dice.index(CLIENTS);
            self.restart_client(client);
        }
    }

    /// A client's end of a connection is gone.
    fn cut(&mut self, link: usize) {
        let Some(owner) = self.owners.remove(&link) else { return };
        self.ledger.tell(self.now, || format!("client {owner} loses connection {link}"));
        self.clients[owner].lose_link(link);
        let at = self.serving.as_mut().and_then(|serving| serving.links.get_mut(&link));
        if let Some(at) = at {
            at.is_cut = true;
            at.replies.clear();
            let kept = self.dice.index(at.calls.len() + 1);
            at.calls.truncate(kept);
        }
    }

    fn restart_client(&mut self, client: usize) {
        for link in self.clients[client].links.clone() {
            self.cut(link);
        }
        self.ledger.see("client restarts");
        self.ledger.tell(self.now, || format!("client {client} starts again"));
        self.ledger.forget(client);
        self.clients[client].restart();
    }

    /// The server dies, with the machine that it runs on.
    fn kill(&mut self) {
        let Some(serving) = self.serving.take() else { return };
        self.ledger.see("crashes");
        self.ledger.tell(self.now, || "the server dies".to_owned());
        let happened = self.dice.index(serving.changes.len() + 1);
        for change in serving.changes.iter().take(happened) {
            self.apply(change);
        }
        for link in self.owners.keys().copied().collect::<Vec<_>>() {
            self.cut(link);
        }
        self.memory.crash(&mut self.dice.0);
        self.planted.stopped();
        self.ledger.crash();
        let when = format!("after crash {}", self.boot);
        self.ledger.check_data(&self.memory, FILES, PAGES, &when);
    }

    fn start(&mut self) {
        self.boot += 1;
        self.ledger.tell(self.now, || format!("start {} of the server", self.boot));
        let records: Vec<StableRecord> = self.stable.values().cloned().collect();
        let mut serving = Serving::new(self.now, &self.memory, self.boot, &records);
        if self.planted.is(Bug::ShortGrace) {
            serving.group.handle_timeout(self.now + LEASE);
        }
        self.serving = Some(serving);
        self.drain_group();
    }

    fn apply(&mut self, change: &StableChange) {
        self.ledger.tell(self.now, || format!("stable: {change:?}"));
        match change {
            StableChange::Keep(record) => self.stable.insert(record.client, record.clone()),
            StableChange::Drop(client) => self.stable.remove(client),
        };
    }

    /// One thing happens.
    fn step(&mut self) {
        let late = self.now.as_nanos().saturating_sub(protocol::nanos(LONGEST));
        let steps = self.possible(Some(Instant::from_nanos(late)));
        // What has been on its way for long enough goes before anything else, and time waits for it.
        let steps = if steps.is_empty() {
            self.now = self.now + Duration::from_millis(self.dice.below(300));
            self.possible(None)
        } else {
            steps
        };
        if !steps.is_empty() {
            let step = steps[self.dice.index(steps.len())];
            self.happen(step);
        }
        self.drain_group();
    }

    /// What can happen; or only what has been possible since before `late`.
    fn possible(&self, late: Option<Instant>) -> Vec<Step> {
        let mut steps = Vec::new();
        let is_due = |since: Instant| late.is_none_or(|late| since < late);
        if late.is_none() {
            let awake = self.clients.iter().enumerate().filter(|(_, client)| client.frozen <= self.now);
            steps.extend(awake.flat_map(|(number, _)| [Step::Act(number); 2]));
        }
        let Some(serving) = &self.serving else {
            return if late.is_none() { [steps, vec![Step::Start]].concat() } else { steps };
        };
        for (number, link) in &serving.links {
            if late.is_none() {
                steps.extend(self.possible_of(*number, link));
            }
            steps.extend(link.to_group.front().filter(|(at, _)| is_due(*at)).map(|_| Step::ToGroup(*number)));
            steps.extend(
                link.from_group.front().filter(|(at, _)| is_due(*at)).map(|_| Step::FromGroup(*number)),
            );
        }
        let begun = serving.waiting.iter().enumerate().filter(|(_, (at, ..))| is_due(*at));
        steps.extend(begun.map(|(at, _)| Step::Begin(at)));
        let done = serving.done.iter().enumerate().filter(|(_, (at, ..))| is_due(*at));
        steps.extend(done.map(|(at, _)| Step::End(at)));
        steps.extend(self.timeout_is_due(late).then_some(Step::Timeout));
        if late.is_none() {
            steps.extend((!serving.changes.is_empty()).then_some(Step::Durable));
            steps.extend((0..serving.releases.len()).map(Step::Release));
        }
        steps
    }

    fn timeout_is_due(&self, late: Option<Instant>) -> bool {
        let due = self.serving.as_ref().and_then(|serving| serving.group.poll_timeout());
        due.is_some_and(|due| due <= late.unwrap_or(self.now))
    }

    fn possible_of(&self, number: usize, link: &serving::Link) -> Vec<Step> {
        let mut steps = Vec::new();
        let hears = self.owners.get(&number).is_some_and(|owner| self.clients[*owner].frozen <= self.now);
        steps.extend((!link.calls.is_empty() && !link.has_ended).then_some(Step::Call(number)));
        steps.extend((!link.replies.is_empty() && hears).then_some(Step::Reply(number)));
        steps.extend((link.is_cut && !link.has_ended).then_some(Step::Notice(number)));
        let leaves = self.serving.as_ref().is_some_and(|serving| serving.may_leave(number));
        steps.extend(leaves.then_some(Step::Leave(number)));
        steps
    }

    fn happen(&mut self, step: Step) {
        match step {
            Step::Act(client) => self.act(client),
            Step::Start => self.start(),
            Step::Reply(link) => self.deliver(link),
            step => self.happen_inside(step),
        }
    }

    /// Something happens in the server.
    fn happen_inside(&mut self, step: Step) {
        let Some(serving) = self.serving.as_mut() else { return };
        let (now, planted) = (self.now, &mut self.planted);
        let (link, replies) = match step {
            Step::Call(link) => (link, serving.arrive(now, link, planted)),
            Step::ToGroup(link) => {
                let message = serving.links.get_mut(&link).and_then(|at| at.to_group.pop_front());
                if let Some((_, message)) = message {
                    serving.group.handle_message(now, link, message);
                }
                return;
            }
            Step::FromGroup(link) => {
                let message = serving.links.get_mut(&link).and_then(|at| at.from_group.pop_front());
                let Some((_, message)) = message else { return };
                (link, serving.input(now, link, Input::Group(message), planted))
            }
            Step::Begin(at) => return self.begin(at),
            Step::End(at) => {
                let (_, link, completion) = serving.done.swap_remove(at);
                (link, serving.input(now, link, Input::File(completion), planted))
            }
            Step::Durable => return self.make_durable(),
            Step::Release(at) => {
                let release = serving.releases.swap_remove(at);
                let operation = Operation::Close { open: release.open };
                let credentials = std::sync::Arc::new(filesystem::Credentials::of(0, 0));
                serving.releasing.submit(now, Request { tag: Tag(0), credentials, operation }).unwrap();
                serving.releasing.poll(now, &mut Vec::new());
                return;
            }
            Step::Timeout => return serving.group.handle_timeout(now),
            Step::Notice(link) => return serving.notice(now, link, planted),
            Step::Leave(link) => {
                serving.links.remove(&link);
                return serving.group.handle_leave(now, link);
            }
            Step::Act(_) | Step::Reply(_) | Step::Start => return,
        };
        for record in replies {
            self.emit(link, record);
        }
    }

    /// The file system carries a request out.
    fn begin(&mut self, at: usize) {
        let Some(serving) = self.serving.as_mut() else { return };
        let (_, link, request) = serving.waiting.swap_remove(at);
        let Some(queue) = serving.links.get_mut(&link).map(|link| &mut link.queue) else { return };
        self.ledger.submitted(&request.operation);
        let write = match &request.operation {
            Operation::Write { data, .. } => Some(disk::number(&data.clone().into_one())),
            _ => None,
        };
        let request = self.planted.weakened(request);
        queue.submit(self.now, request).unwrap();
        let mut done = Vec::new();
        queue.poll(self.now, &mut done);
        for completion in done {
            if let (Some(number), Ok(Outcome::Written { .. })) = (write, &completion.result) {
                self.ledger.written(self.now, number);
            }
            let told = self.planted.completed(link, completion);
            serving.done.extend(told.map(|completion| (self.now, link, completion)));
        }
    }

    /// The first change that was asked of stable storage happens, or fails.
    fn make_durable(&mut self) {
        let Some(change) = self.serving.as_mut().and_then(|serving| serving.changes.pop_front()) else {
            return;
        };
        let fails = self.dice.once_in(12);
        let lies = match change {
            StableChange::Keep(_) => self.planted.is(Bug::RecordNotDurable),
            StableChange::Drop(_) => self.planted.is(Bug::RecordNotRemoved),
        };
        // One that fails may have happened.
        if !lies && (!fails || self.dice.once_in(2)) {
            self.apply(&change);
        }
        let result = if fails && !lies { Err(()) } else { Ok(()) };
        if let Some(serving) = &mut self.serving {
            serving.group.handle_stable(self.now, change.client(), result);
        }
    }

    fn drain_group(&mut self) {
        if let Some(serving) = &mut self.serving {
            serving.drain_group(self.now, &mut self.planted);
        }
    }
}
