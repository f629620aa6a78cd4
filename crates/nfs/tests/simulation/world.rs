//! The server in parts, and everything that passes between them: each waits until the seed has it arrive.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use buf::{BufList, Pool};
use filesystem::{
    Completion, CoreId, Credentials, FileHandle, FileSystem, FileSystemQueue, Memory, MemoryOptions, Name,
    Operation, Outcome, QueueContext, Request, Stability, Tag, Time, WccData, WriteVerifier,
};
use nfs::server::exports::{Exports, FileKey, Place};
use nfs::server::{Action, Input, NfsServer, ServerConfig, ServerIdentity};
use nfs::state::Server;
use nfs::state::grace::Phase;
use nfs::state::messages::{Call, Notice, Reply, Request as ToGroup};
use nfs::state::ranges::LockMode;
use nfs::state::stable::{StableChange, StableRecord};
use nfs::v4::{ClientId, Modes};
use protocol::pair::Half;
use protocol::{Connection, Ended, Group, Instant};
use rpc::Config;
use rpc::record::Fragment;
use rpc::tcp::TcpConnection;

use crate::bug::{self, Bug};
use crate::client::Client;
use crate::common::{ADDRESS, FS, export_of, open_grant};
use crate::content::{BLOCK, BLOCKS};
use crate::holding::{FILES, Standing, WRITE};
use crate::scene::{Handles, Scene};
use crate::seen::Seen;

const CLIENTS: usize = 3;
/// Bytes of memory of one server's life.
const POOL: usize = 64 << 20;
/// So many rounds a world gets to come to rest.
const ROUNDS: usize = 4000;

/// From a connection to the group.
enum Upward {
    Request(ToGroup<FileKey>),
    /// The connection is gone, and no request of it is under way any more.
    Leave,
}

/// One connection, with its queue of the file system, and all that is on its way.
struct Peer {
    half: Half<TcpConnection<NfsServer>>,
    queue: Box<dyn FileSystemQueue>,
    client: usize,
    cut: bool,
    left: bool,
    arriving: VecDeque<Vec<u8>>,
    sent: VecDeque<Vec<u8>>,
    upward: VecDeque<Upward>,
    downward: VecDeque<Reply<FileKey>>,
    requests: Vec<Request>,
    done: Vec<Completion>,
}

/// What can happen next.
#[derive(Debug, Clone, Copy)]
enum Event {
    Arrive(usize),
    Hear(usize),
    Up(usize),
    Down(usize),
    CarryOut(usize),
    Complete(usize),
    Record,
    Release,
    Think(usize),
    Transmit(usize),
}

pub struct World {
    scene: Scene,
    clients: Vec<Client>,
    memory: Memory,
    exports: Arc<Exports>,
    group: Server<usize, FileKey>,
    peers: BTreeMap<usize, Peer>,
    last_peer: usize,
    pool: Pool,
    boot: u32,
    /// What is on stable storage, and what is to be changed there.
    stable: BTreeMap<ClientId, StableRecord>,
    changes: VecDeque<StableChange>,
    releases: VecDeque<filesystem::OpenId>,
    /// The server's own queue.
    queue: Box<dyn FileSystemQueue>,
    /// The files, as the file system knows them.
    files: Vec<FileHandle>,
    /// How often what may be carried out once was.
    once: BTreeMap<String, usize>,
    verifier: WriteVerifier,
    /// Why the server has closed a connection, which it has no reason to.
    closed: Option<String>,
}

fn queue_of(memory: &Memory, pool: &Pool) -> Box<dyn FileSystemQueue> {
    memory.open_queue(&QueueContext::new(CoreId(0), Waker::noop().clone(), pool.clone())).unwrap()
}

/// Carries out a request of the server's own, or a client's.
fn carry_out(queue: &mut dyn FileSystemQueue, now: Instant, request: Request) -> Completion {
    queue.submit(now, request).unwrap();
    let mut done = Vec::new();
    queue.poll(now, &mut done);
    done.pop().unwrap()
}

fn own(operation: Operation) -> Request {
    Request { tag: Tag(0), credentials: Arc::new(Credentials::of(0, 0)), operation }
}

impl World {
    pub fn new(seed: u64, bug: Bug) -> Self {
        let options = MemoryOptions { root_mode: 0o777, seed: seed + 1, ..MemoryOptions::default() };
        let memory = Memory::new(options);
        let export = || export_of(&memory, 1, &["data"], open_grant());
        let exports = Arc::new(Exports::new(vec![export()], Time { seconds: 1, nanos: 0 }).unwrap());
        let pool = Pool::new(POOL);
        let mut queue = queue_of(&memory, &pool);
        let mut files = Vec::new();
        for number in 0..FILES + CLIENTS {
            let how = filesystem::CreateHow::Unchecked(filesystem::SetAttributes {
                mode: Some(0o666),
                size: Some(BLOCK * u64::try_from(BLOCKS).unwrap()),
                ..filesystem::SetAttributes::default()
            });
            let create = Operation::Create {
                directory: memory.root(),
                name: Name::new(format!("file {number}").as_bytes()).unwrap(),
                how: Box::new(how),
                open: None,
            };
            let Ok(Outcome::Created(created)) = carry_out(&mut *queue, Instant::ZERO, own(create)).outcome()
            else {
                panic!("no file")
            };
            files.push(created.object.handle);
        }
        let records: &[StableRecord] = &[];
        let mut world = Self {
            scene: Scene::new(seed, bug),
            clients: Vec::new(),
            group: Server::new(Instant::ZERO, 1, records),
            exports,
            peers: BTreeMap::new(),
            last_peer: 0,
            pool,
            boot: 1,
            stable: BTreeMap::new(),
            changes: VecDeque::new(),
            releases: VecDeque::new(),
            queue,
            files,
            once: BTreeMap::new(),
            verifier: WriteVerifier([0; 8]),
            closed: None,
            memory,
        };
        world.verifier = world.write_verifier();
        let handles = world.handles();
        world.clients = (0..CLIENTS).map(|index| Client::new(index, handles.clone())).collect();
        world
    }

    /// The handles of what is served, as clients see them.
    fn handles(&self) -> Handles {
        let handle = |handle| self.exports.handle(Place::File { export: 0, handle });
        let files = self.files.iter().map(|file| handle(*file)).collect();
        Handles { directory: handle(self.memory.root()), files }
    }

    fn write_verifier(&mut self) -> WriteVerifier {
        let commit = Operation::Commit { file: self.files[0].into(), offset: 0, count: 0 };
        match carry_out(&mut *self.queue, self.scene.now, own(commit)).outcome() {
            Ok(Outcome::Committed { verifier, .. }) => verifier,
            other => panic!("{other:?}"),
        }
    }

    /// Runs a trial: faults among so many steps, then rest, and a last crash.
    pub fn run(mut self, steps: usize) -> Result<Seen, String> {
        for step in 0..steps {
            let fine = self.step().and_then(|()| self.closed.take().map_or(Ok(()), Err));
            fine.map_err(|what| format!("step {step}: {what}"))?;
        }
        self.come_to_rest()?;
        self.crash()?;
        for at in 0..CLIENTS {
            for block in 0..BLOCKS {
                let (value, promised) = (self.value(at, block), &self.clients[at].blocks[block]);
                if value != promised.durable {
                    return Err(format!("client {at}, block {block}: {value}, where {promised:?} is lost"));
                }
            }
        }
        Ok(self.scene.seen)
    }

    fn step(&mut self) -> Result<(), String> {
        match self.scene.dice.below(1000) {
            0 => self.crash(),
            1..=8 => {
                self.cut_some();
                Ok(())
            }
            9..=11 => {
                let at = self.scene.dice.below(CLIENTS);
                let span = Duration::from_secs(u64::try_from(self.scene.dice.below(250)).unwrap());
                self.clients[at].frozen = self.scene.now + span;
                Ok(())
            }
            12 => {
                let at = self.scene.dice.below(CLIENTS);
                self.clients[at].restart();
                self.cut_all(at);
                Ok(())
            }
            13..=17 => {
                self.send_again();
                Ok(())
            }
            18..=19 => {
                let span = Duration::from_secs(u64::try_from(5 + self.scene.dice.below(60)).unwrap());
                self.pass(span);
                Ok(())
            }
            20..=60 => {
                let span = Duration::from_millis(u64::try_from(self.scene.dice.below(1500)).unwrap());
                self.pass(span);
                Ok(())
            }
            _ => {
                let events = self.events();
                if events.is_empty() {
                    self.pass(Duration::from_secs(1));
                    return Ok(());
                }
                let event = self.scene.dice.pick(&events);
                self.happen(event)
            }
        }
    }

    fn come_to_rest(&mut self) -> Result<(), String> {
        self.scene.calm = true;
        for client in &mut self.clients {
            client.frozen = Instant::ZERO;
        }
        for _ in 0..ROUNDS {
            for _ in 0..200 {
                if self.clients.iter().all(Client::is_settled) {
                    return Ok(());
                }
                let mut events = self.events();
                if events.iter().any(|event| !matches!(event, Event::Think(_))) {
                    events.retain(|event| !matches!(event, Event::Think(_)) || self.scene.dice.happens(100));
                }
                if events.is_empty() {
                    break;
                }
                let event = self.scene.dice.pick(&events);
                self.happen(event)?;
            }
            self.pass(Duration::from_secs(1));
        }
        Err("the world does not come to rest".into())
    }

    /// Everything that can happen next.
    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (at, peer) in &self.peers {
            let awake = self.clients[peer.client].frozen <= self.scene.now;
            let possible = [
                (!peer.cut && !peer.arriving.is_empty(), Event::Arrive(*at)),
                (!peer.cut && awake && !peer.sent.is_empty(), Event::Hear(*at)),
                (!peer.upward.is_empty(), Event::Up(*at)),
                (!peer.downward.is_empty(), Event::Down(*at)),
                (!peer.requests.is_empty(), Event::CarryOut(*at)),
                (!peer.done.is_empty(), Event::Complete(*at)),
            ];
            events.extend(possible.into_iter().filter(|(can, _)| *can).map(|(_, event)| event));
        }
        if !self.changes.is_empty() {
            events.push(Event::Record);
        }
        if !self.releases.is_empty() {
            events.push(Event::Release);
        }
        for client in self.clients.iter().filter(|client| client.frozen <= self.scene.now) {
            events.push(Event::Think(client.index));
            if client.calls.values().any(|call| call.waits) {
                events.extend([Event::Transmit(client.index); 3]);
            }
        }
        events
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Arrive(at) => self.arrive(at),
            Event::Hear(at) => return self.hear(at),
            Event::Up(at) => self.up(at),
            Event::Down(at) => self.down(at),
            Event::CarryOut(at) => return self.carry_out_some(at),
            Event::Complete(at) => {
                let peer = self.peers.get_mut(&at).unwrap();
                let done = peer.done.swap_remove(self.scene.dice.below(peer.done.len()));
                self.input(at, Input::File(done));
            }
            Event::Record => self.record(),
            Event::Release => {
                let open = self.releases.pop_front().unwrap();
                carry_out(&mut *self.queue, self.scene.now, own(Operation::Close { open }))
                    .outcome()
                    .map_err(|kind| format!("an open cannot be closed: {kind:?}"))?;
            }
            Event::Think(at) => self.clients[at].think(&mut self.scene),
            Event::Transmit(at) => self.transmit(at),
        }
        Ok(())
    }

    /// A connection of this client, made if there is none.
    fn connection(&mut self, client: usize) -> usize {
        // Mostly the first: what is lent stays there for some time.
        let place = usize::from(self.scene.dice.happens(100));
        if let Some(peer) = self.clients[client].peers[place] {
            return peer;
        }
        let identity = ServerIdentity { owner: b"owner".to_vec(), scope: b"scope".to_vec() };
        let config = ServerConfig { exports: Arc::clone(&self.exports), client: ADDRESS, identity };
        let upper = NfsServer::new(config, &self.pool);
        let peer = Peer {
            half: Half::new(TcpConnection::new(upper, Config::new(1))),
            queue: queue_of(&self.memory, &self.pool),
            client,
            cut: false,
            left: false,
            arriving: VecDeque::new(),
            sent: VecDeque::new(),
            upward: VecDeque::new(),
            downward: VecDeque::new(),
            requests: Vec::new(),
            done: Vec::new(),
        };
        self.last_peer += 1;
        self.peers.insert(self.last_peer, peer);
        self.clients[client].peers[place] = Some(self.last_peer);
        self.last_peer
    }

    fn transmit(&mut self, client: usize) {
        let waiting = self.clients[client].calls.iter().filter(|(_, call)| call.waits).map(|(xid, _)| *xid);
        let waiting: Vec<u32> = waiting.collect();
        let xid = self.scene.dice.pick(&waiting);
        self.send(client, xid);
    }

    fn send(&mut self, client: usize, xid: u32) {
        let peer = self.connection(client);
        let record = self.clients[client].record(&mut self.scene, xid, peer);
        let header = Fragment { length: record.len().try_into().unwrap(), is_last: true };
        let bytes = [&header.encode(), record.as_slice()].concat();
        self.peers.get_mut(&peer).unwrap().arriving.push_back(bytes);
    }

    /// A client sends a request once more without need.
    fn send_again(&mut self) {
        let at = self.scene.dice.below(CLIENTS);
        let calls = self.clients[at].calls.iter().filter(|(_, call)| !call.waits).map(|(xid, _)| *xid);
        let calls: Vec<u32> = calls.collect();
        if !calls.is_empty() && self.clients[at].frozen <= self.scene.now {
            let xid = self.scene.dice.pick(&calls);
            self.scene.seen.sent_again += 1;
            self.send(at, xid);
        }
    }

    fn arrive(&mut self, at: usize) {
        let peer = self.peers.get_mut(&at).unwrap();
        let bytes = peer.arriving.pop_front().unwrap();
        peer.half.receive(self.scene.now, &bytes);
        self.drain(at);
    }

    fn input(&mut self, at: usize, input: Input) {
        self.peers.get_mut(&at).unwrap().half.connection.handle_input(self.scene.now, input);
        self.drain(at);
    }

    /// Takes what a connection has to send, to every side.
    fn drain(&mut self, at: usize) {
        let peer = self.peers.get_mut(&at).unwrap();
        while let Some(action) = peer.half.connection.poll_action() {
            match action {
                Action::Submit(filesystem, request) => {
                    assert_eq!(filesystem, FS);
                    peer.requests.push(request);
                }
                Action::Group(request) => peer.upward.push_back(Upward::Request(request)),
            }
        }
        let bytes = peer.half.transmit(self.scene.now);
        let mut rest = bytes.as_slice();
        while let Some((word, behind)) = rest.split_first_chunk::<4>() {
            let (record, behind) = behind.split_at((u32::from_be_bytes(*word) & 0x7fff_ffff) as usize);
            peer.sent.push_back(record.to_vec());
            rest = behind;
        }
        if let Some(reason) = peer.half.connection.poll_close() {
            self.closed.get_or_insert(format!(
                "the server closes a connection of client {}: {reason:?}",
                peer.client
            ));
        }
        if peer.cut && !peer.left && peer.half.connection.upper().under_way() == 0 {
            peer.left = true;
            peer.upward.push_back(Upward::Leave);
        }
    }

    /// A client hears an answer.
    fn hear(&mut self, at: usize) -> Result<(), String> {
        let peer = self.peers.get_mut(&at).unwrap();
        let record = peer.sent.pop_front().unwrap();
        let client = peer.client;
        let given = self.clients[client].receive(&mut self.scene, record)?;
        given.map_or(Ok(()), |number| self.judge(client, number))
    }

    /// Whether what was given conflicts with what others know to have; who does not know so any more has lost it.
    fn judge(&mut self, client: usize, number: u64) -> Result<(), String> {
        let now = self.scene.now;
        let given = self.clients[client].holdings.iter().find(|holding| holding.number == number);
        let Some(given) = given.filter(|given| self.clients[client].believes(given, now)).cloned() else {
            return Ok(());
        };
        for other in 0..CLIENTS {
            for at in 0..self.clients[other].holdings.len() {
                let holding = &self.clients[other].holdings[at];
                let Some(how) = holding.conflict(&given) else { continue };
                if self.clients[other].believes(holding, now) {
                    return Err(format!(
                        "{how}: client {client} got {given:?}, client {other} has {holding:?}"
                    ));
                }
                if holding.standing == Standing::Held {
                    self.scene.seen.tainted += 1;
                    self.clients[other].holdings[at].tainted = Some(now);
                }
            }
        }
        Ok(())
    }

    /// The group hears a connection.
    fn up(&mut self, at: usize) {
        let Some(Upward::Request(request)) = self.peers.get_mut(&at).unwrap().upward.pop_front() else {
            self.peers.remove(&at);
            self.group.handle_leave(self.scene.now, at);
            return self.drain_group();
        };
        if let Some(request) = self.spoil(at, request) {
            self.group.handle_message(self.scene.now, at, request);
        }
        self.drain_group();
    }

    /// What a planted bug makes of a message.
    fn spoil(&mut self, at: usize, mut request: ToGroup<FileKey>) -> Option<ToGroup<FileKey>> {
        let client = &self.clients[self.peers[&at].client];
        match (&mut request, self.scene.bug) {
            (ToGroup::Notice(Notice::ReturnSlot(session, slot, contents)), Bug::SlotForgets) => {
                if let Some(sequence) = client.sequence_of(*session, *slot) {
                    *contents = bug::before(sequence);
                }
            }
            (ToGroup::Notice(Notice::SlotBusy(session, slot)), Bug::BusySlotIsHandedOver) => {
                if let Some(sequence) = client.sequence_of(*session, *slot) {
                    let contents = bug::before(sequence);
                    return Some(ToGroup::Notice(Notice::ReturnSlot(*session, *slot, contents)));
                }
            }
            (ToGroup::Notice(Notice::Renew(_)), Bug::LeaseIsNotRenewed) => return None,
            (ToGroup::Call { call: Call::Open(open), .. }, Bug::SharesAreNotJudged) => {
                open.share.deny = Modes::NONE;
            }
            (ToGroup::Call { call: Call::Lock(lock), .. }, Bug::LocksAreNotJudged) => {
                lock.mode = LockMode::Read;
            }
            _ => {}
        }
        Some(request)
    }

    /// A connection hears the group.
    fn down(&mut self, at: usize) {
        let reply = self.peers.get_mut(&at).unwrap().downward.pop_front().unwrap();
        match &reply {
            Reply::Recall(loan) => {
                self.scene.seen.recalls += 1;
                if self.scene.bug == Bug::LoanIsNotRecalled {
                    let back = ToGroup::Notice(Notice::GiveBack(loan.clone(), u32::MAX));
                    self.peers.get_mut(&at).unwrap().upward.push_back(Upward::Request(back));
                    return;
                }
            }
            Reply::RecallSlot(..) => self.scene.seen.recalled_slots += 1,
            _ => {}
        }
        self.input(at, Input::Group(reply));
    }

    /// Takes what the group has to say, to every side.
    fn drain_group(&mut self) {
        loop {
            while let Some(message) = self.group.poll_message() {
                if let Some(peer) = self.peers.get_mut(&message.to) {
                    peer.downward.push_back(message.message);
                }
            }
            while let Some(release) = self.group.poll_release() {
                self.releases.push_back(release.open);
            }
            let Some(change) = self.group.poll_stable() else { return };
            match (&change, self.scene.bug) {
                (StableChange::Keep(_), Bug::RecordIsNotDurable)
                | (StableChange::Drop(_), Bug::RecordStays) => {
                    self.group.handle_stable(self.scene.now, change.client(), Ok(()));
                    if self.scene.bug == Bug::RecordIsNotDurable {
                        self.changes.push_back(change);
                    }
                }
                _ => self.changes.push_back(change),
            }
        }
    }

    fn apply(&mut self, change: StableChange) {
        match change {
            StableChange::Keep(record) => drop(self.stable.insert(record.client, record)),
            StableChange::Drop(client) => drop(self.stable.remove(&client)),
        }
    }

    /// The next record is changed, or that fails, and nobody knows what is there.
    fn record(&mut self) {
        let change = self.changes.pop_front().unwrap();
        let client = change.client();
        let is_told = self.scene.bug == Bug::RecordIsNotDurable && matches!(change, StableChange::Keep(_));
        if is_told && self.scene.dice.happens(980) {
            return self.changes.push_back(change);
        }
        let fails = !self.scene.calm && !is_told && self.scene.dice.happens(50);
        if !fails || self.scene.dice.coin() {
            self.apply(change);
        }
        self.scene.seen.failed_records += usize::from(fails);
        if !is_told {
            self.group.handle_stable(self.scene.now, client, if fails { Err(()) } else { Ok(()) });
        }
        self.drain_group();
    }

    /// The file system carries a request out, any of those that it has.
    fn carry_out_some(&mut self, at: usize) -> Result<(), String> {
        let peer = self.peers.get_mut(&at).unwrap();
        let mut request = peer.requests.swap_remove(self.scene.dice.below(peer.requests.len()));
        let client = peer.client;
        self.inspect(client, &request)?;
        let tag = request.tag;
        let mut was_durable = false;
        match (&mut request.operation, self.scene.bug) {
            (Operation::Commit { .. }, Bug::CommitIsNotDone) => {
                let outcome = Outcome::Committed {
                    verifier: self.write_verifier(),
                    file: WccData { before: None, after: None },
                };
                self.peers.get_mut(&at).unwrap().done.push(Completion { tag, result: Ok(outcome) });
                return Ok(());
            }
            (Operation::Write { stability, .. }, Bug::DurableIsCached) => {
                was_durable = *stability != Stability::Unstable;
                *stability = Stability::Unstable;
            }
            _ => {}
        }
        let peer = self.peers.get_mut(&at).unwrap();
        let mut done = carry_out(&mut *peer.queue, self.scene.now, request);
        match &mut done.result {
            Ok(Outcome::Written { stability, verifier, .. }) => {
                if was_durable {
                    *stability = Stability::FileSync;
                }
                if self.scene.bug == Bug::VerifierIsKept {
                    *verifier = self.verifier;
                }
            }
            Ok(Outcome::Committed { verifier, .. }) if self.scene.bug == Bug::VerifierIsKept => {
                *verifier = self.verifier;
            }
            _ => {}
        }
        peer.done.push(done);
        Ok(())
    }

    /// Whether a request may be carried out now.
    fn inspect(&mut self, client: usize, request: &Request) -> Result<(), String> {
        let once = match &request.operation {
            Operation::Make { name, .. } => format!("make {name}"),
            Operation::Remove { name, .. } => format!("remove {name}"),
            Operation::Rename { to, .. } => format!("rename to {to}"),
            Operation::Write { data, .. } => return self.inspect_write(client, &bytes(data)),
            _ => return Ok(()),
        };
        self.scene.seen.once += 1;
        let count = self.once.entry(once.clone()).or_default();
        *count += 1;
        if *count > 1 { Err(format!("client {client}: {once} is carried out twice")) } else { Ok(()) }
    }

    fn inspect_write(&self, client: usize, data: &[u8]) -> Result<(), String> {
        let value = u64::from_be_bytes(data.try_into().unwrap());
        let Some((by, file)) = self.scene.puts.get(&value).copied() else { return Ok(()) };
        if by.is_some_and(|number| self.scene.ended.contains(&number)) {
            return Err(format!("client {client}: a write after the end of its open was answered"));
        }
        for other in &self.clients {
            for holding in other.holdings.iter().filter(|holding| holding.file == file) {
                let denies = by != Some(holding.number) && holding.deny & WRITE != 0;
                if denies && other.believes(holding, self.scene.now) {
                    return Err(format!(
                        "client {client}: a write after client {} has got {holding:?}",
                        other.index
                    ));
                }
                if by == Some(holding.number) && holding.tainted.is_some() {
                    return Err(format!(
                        "client {client}: a write after another has got what {holding:?} had"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Time passes. Messages within the server are faster than that.
    fn pass(&mut self, span: Duration) {
        loop {
            let ups: Vec<usize> =
                self.peers.iter().filter(|(_, peer)| !peer.upward.is_empty()).map(|(at, _)| *at).collect();
            for at in &ups {
                self.up(*at);
            }
            let downs = self.peers.iter().filter(|(_, peer)| !peer.downward.is_empty()).map(|(at, _)| *at);
            let downs: Vec<usize> = downs.collect();
            for at in &downs {
                self.down(*at);
            }
            if ups.is_empty() && downs.is_empty() {
                break;
            }
        }
        self.scene.now = self.scene.now + span;
        if self.group.poll_timeout().is_some_and(|due| due <= self.scene.now) {
            self.group.handle_timeout(self.scene.now);
        }
        if self.scene.bug == Bug::GraceEndsEarly
            && self.group.phase() == Phase::Running
            && self.clients.iter().any(Client::is_ready)
        {
            self.group.handle_timeout(self.scene.now + nfs::limits::LEASE);
        }
        self.drain_group();
    }

    fn cut(&mut self, at: usize) {
        let Some(peer) = self.peers.get_mut(&at).filter(|peer| !peer.cut) else { return };
        peer.cut = true;
        peer.half.end(self.scene.now, Ended::ByPeer);
        self.scene.seen.cuts += 1;
        let client = peer.client;
        self.drain(at);
        self.disconnect(client, at);
    }

    fn disconnect(&mut self, client: usize, at: usize) {
        let client = &mut self.clients[client];
        for place in client.peers.iter_mut().filter(|place| **place == Some(at)) {
            *place = None;
        }
        for call in client.calls.values_mut().filter(|call| call.peer == Some(at)) {
            (call.peer, call.waits) = (None, true);
        }
    }

    fn cut_some(&mut self) {
        let all: Vec<usize> = self.peers.keys().copied().collect();
        if !all.is_empty() {
            let at = self.scene.dice.pick(&all);
            self.cut(at);
        }
    }

    fn cut_all(&mut self, client: usize) {
        for at in self.clients[client].peers.into_iter().flatten() {
            self.cut(at);
        }
    }

    /// The machine of the server loses its power, and starts again.
    fn crash(&mut self) -> Result<(), String> {
        self.scene.crashes += 1;
        self.scene.restarted = self.scene.now;
        self.scene.seen.crashes += 1;
        for (at, peer) in std::mem::take(&mut self.peers) {
            self.disconnect(peer.client, at);
            let mut peer = peer;
            for request in std::mem::take(&mut peer.requests) {
                // What was under way is done or not.
                if self.scene.dice.coin() {
                    self.inspect(peer.client, &request)?;
                    drop(carry_out(&mut *peer.queue, self.scene.now, request));
                }
            }
        }
        while let Some(change) = self.changes.pop_front() {
            if self.scene.dice.coin() {
                self.changes.clear();
            } else {
                self.apply(change);
            }
        }
        self.releases.clear();
        self.memory.crash(self.scene.dice.entropy());
        self.boot += 1;
        let records: Vec<StableRecord> = self.stable.values().cloned().collect();
        let known: &[StableRecord] = if self.scene.bug == Bug::GraceIsSkipped { &[] } else { &records };
        self.group = Server::new(self.scene.now, self.boot, known);
        for at in 0..CLIENTS {
            for block in 0..BLOCKS {
                let (value, promised) = (self.value(at, block), &self.clients[at].blocks[block]);
                if !promised.may_hold(value) {
                    return Err(format!("client {at}, block {block}: {value}, where {promised:?} is lost"));
                }
            }
        }
        Ok(())
    }

    /// What a block of a client's file holds.
    fn value(&mut self, client: usize, block: usize) -> u64 {
        let file = self.files[self.clients[client].own_file()].into();
        let offset = u64::try_from(block).unwrap() * BLOCK;
        let read = Operation::Read { file, offset, into: buf::Buf::zeroed(8) };
        match carry_out(&mut *self.queue, self.scene.now, own(read)).outcome() {
            Ok(Outcome::Data { data, .. }) => u64::from_be_bytes(bytes(&data).try_into().unwrap()),
            other => panic!("{other:?}"),
        }
    }
}

fn bytes(data: &BufList) -> Vec<u8> {
    data.pieces().iter().flat_map(|piece| piece.iter().copied()).collect()
}
