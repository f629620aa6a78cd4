//! A client as the standard wants one: it keeps to its slots, sends again what was not answered, comes back, reclaims, and writes again what was lost.

use std::collections::{BTreeMap, VecDeque};

use nfs::limits::{GRACE, LEASE};
use nfs::v4::operation::OpNumber;
use nfs::v4::{ClientId, SessionId, Stateid, Status};
use protocol::Instant;

use crate::bug::Bug;
use crate::common::{Caller, CompoundCall, Op, Results, op};
use crate::content::{BLOCK, BLOCKS, Block, Verifier};
use crate::holding::{FILES, Holding, Lock, RANGES, READ, Standing, WRITE};
use crate::scene::{Handles, Scene};

/// Slots of a session.
const SLOTS: usize = 4;
/// Opens that a client has at a time, beside that of its own file.
const HOLDINGS: usize = 3;
/// DELAYs in a row with which a client that makes a session begins anew, as after its own restart.
const PATIENCE: usize = 20;
const BOTH: u32 = READ | WRITE;

/// What a call is for.
#[derive(Debug, Clone)]
enum What {
    Identify,
    CreateSession,
    Renew,
    Write { block: usize, value: u64, stability: u32 },
    Read { block: usize },
    Commit { blocks: Vec<(usize, u64)> },
    Make { name: String },
    Rename { from: String, to: String },
    Remove { name: String },
    Open { number: u64 },
    Close { number: u64 },
    Lock { number: u64, lock: Lock },
    Unlock { number: u64 },
    Put { number: Option<u64> },
    Reclaim { number: u64 },
    ReclaimLock { number: u64 },
    ReclaimComplete,
}

/// A call that has no answer yet.
pub struct Call {
    record: Vec<u8>,
    slot: Option<usize>,
    what: What,
    first_sent: Instant,
    /// On which connection it was sent last.
    pub peer: Option<usize>,
    /// It is to be sent, or sent again.
    pub waits: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Lost,
    Identifying,
    Creating { id: ClientId, delays: usize },
    Recovering,
    Ready,
}

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    sequence: u32,
    call: Option<u32>,
}

pub struct Client {
    pub index: usize,
    pub incarnation: u8,
    /// Until then it does nothing and hears nothing.
    pub frozen: Instant,
    /// Its connections.
    pub peers: [Option<usize>; 2],
    pub calls: BTreeMap<u32, Call>,
    pub blocks: Vec<Block>,
    pub holdings: Vec<Holding>,
    handles: Handles,
    stage: Stage,
    id: Option<ClientId>,
    session: Option<SessionId>,
    /// How many crashes there had been when the session began.
    born: usize,
    slots: [Place; SLOTS],
    /// When it sent what was last answered in its session.
    renewed: Instant,
    /// It has not said that it reclaims no more; since when it could.
    recovers: Option<Instant>,
    /// When what is being answered was asked.
    asked: Instant,
    recover: VecDeque<u64>,
    names: Vec<String>,
    /// Numbers under which calls were sent again, and their first.
    again: BTreeMap<u32, u32>,
    /// What calls were answered that were carried out.
    answers: BTreeMap<u32, Vec<u8>>,
    /// Opens of an earlier life, which end when the next begins.
    earlier: Vec<u64>,
}

fn verifier_of(results: &mut Results) -> Verifier {
    results.get::<[u8; 8]>()
}

impl Client {
    pub fn new(index: usize, handles: Handles) -> Self {
        Self {
            index,
            incarnation: 1,
            frozen: Instant::ZERO,
            peers: [None; 2],
            calls: BTreeMap::new(),
            blocks: vec![Block::default(); BLOCKS],
            holdings: Vec::new(),
            handles,
            stage: Stage::Lost,
            id: None,
            session: None,
            born: 0,
            slots: [Place::default(); SLOTS],
            renewed: Instant::ZERO,
            recovers: None,
            asked: Instant::ZERO,
            recover: VecDeque::new(),
            names: Vec::new(),
            again: BTreeMap::new(),
            answers: BTreeMap::new(),
            earlier: Vec::new(),
        }
    }

    fn caller(&self) -> Caller {
        Caller::User(1000 + u32::try_from(self.index).unwrap())
    }

    /// Where its own file stands among all.
    pub fn own_file(&self) -> usize {
        FILES + self.index
    }

    /// The sequence ID that it used last in a slot of its session.
    pub fn sequence_of(&self, session: SessionId, slot: u32) -> Option<u32> {
        let place = self.slots.get(usize::try_from(slot).ok()?)?;
        (self.session == Some(session)).then_some(place.sequence)
    }

    /// What it knows to be its own now.
    pub fn believes(&self, holding: &Holding, now: Instant) -> bool {
        let until = holding.frozen.unwrap_or(self.lasts());
        holding.standing == Standing::Held && now < until
    }

    /// How long what it has stands, as far as it knows: a lease, but no longer than any grace while it has not said that it reclaims no more.
    fn lasts(&self) -> Instant {
        self.recovers.map_or(self.renewed + LEASE, |since| (self.renewed + LEASE).min(since + GRACE))
    }

    fn holding(&mut self, number: u64) -> Option<&mut Holding> {
        self.holdings.iter_mut().find(|holding| holding.number == number)
    }

    fn own(&self) -> Option<&Holding> {
        let own = self.own_file();
        self.holdings.iter().find(|one| one.file == own && one.standing == Standing::Held && !one.busy)
    }

    fn call(&mut self, scene: &mut Scene, slot: Option<usize>, what: What, operations: &[Op]) {
        scene.xid += 1;
        let mut call = CompoundCall::new();
        if let Some(slot) = slot {
            let place = &mut self.slots[slot];
            place.sequence += 1;
            place.call = Some(scene.xid);
            let highest = u32::try_from(SLOTS - 1).unwrap();
            let number = u32::try_from(slot).unwrap();
            let caches = !matches!(what, What::Read { .. } | What::Renew);
            let Op(write) = op::sequence(self.session.unwrap(), place.sequence, number, highest, caches);
            call.add(&write);
        }
        for Op(write) in operations {
            call.add(write);
        }
        let record = call.record(scene.xid, self.caller());
        let call = Call { record, slot, what, first_sent: scene.now, peer: None, waits: true };
        self.calls.insert(scene.xid, call);
    }

    /// Its own machine starts again: what it had is the server's affair.
    pub fn restart(&mut self) {
        self.incarnation = self.incarnation.wrapping_add(1);
        self.earlier.extend(self.holdings.drain(..).map(|holding| holding.number));
        self.calls.clear();
        self.recover.clear();
        self.names.clear();
        (self.stage, self.id, self.session) = (Stage::Lost, None, None);
        self.slots = [Place::default(); SLOTS];
        for block in &mut self.blocks {
            block.busy = false;
            block.doubt();
        }
    }

    /// The session is gone, and with it what its requests came to.
    fn lose_session(&mut self) {
        (self.stage, self.session) = (Stage::Lost, None);
        self.slots = [Place::default(); SLOTS];
        for call in std::mem::take(&mut self.calls).into_values() {
            self.forget(call.what);
        }
    }

    /// The server does not know its session: it has started again, or a lease is over.
    fn expelled(&mut self, scene: &Scene) -> Result<Option<u64>, String> {
        if self.born == scene.crashes && scene.now < self.lasts() {
            return Err(format!("client {}: its session ended within its lease", self.index));
        }
        self.lose_session();
        Ok(None)
    }

    /// Nobody knows what this came to.
    fn forget(&mut self, what: What) {
        match what {
            What::Write { block, .. } => {
                self.blocks[block].busy = false;
                self.blocks[block].doubt();
            }
            What::Read { block } => self.blocks[block].busy = false,
            What::Make { name } | What::Remove { name } => self.names.retain(|one| *one != name),
            What::Rename { from, to } => self.names.retain(|one| *one != from && *one != to),
            What::Open { number } | What::Close { number } => self.drop_holding(number),
            What::Lock { number, .. } | What::Unlock { number } => {
                if let Some(holding) = self.holding(number) {
                    holding.busy = false;
                }
            }
            _ => {}
        }
    }

    fn drop_holding(&mut self, number: u64) {
        self.holdings.retain(|holding| holding.number != number);
        self.earlier.push(number);
    }

    /// It has come back, and claims what it likes.
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// Nothing is under way, and everything that it wrote is safe.
    pub fn is_settled(&self) -> bool {
        self.stage == Stage::Ready && self.calls.is_empty() && self.blocks.iter().all(Block::is_settled)
    }

    /// Does something, if it can.
    pub fn think(&mut self, scene: &mut Scene) {
        match self.stage {
            Stage::Lost => {
                self.stage = Stage::Identifying;
                let owner = format!("client {}", self.index);
                let exchange = op::exchange_id(owner.as_bytes(), self.incarnation, 0);
                self.call(scene, None, What::Identify, &[exchange]);
            }
            Stage::Ready => {
                let free: Vec<usize> = (0..SLOTS).filter(|slot| self.slots[*slot].call.is_none()).collect();
                if !free.is_empty() {
                    let slot = scene.dice.pick(&free);
                    self.work(scene, slot);
                }
            }
            Stage::Identifying | Stage::Creating { .. } | Stage::Recovering => {}
        }
    }

    fn work(&mut self, scene: &mut Scene, slot: usize) {
        let doubtful: Vec<usize> =
            (0..BLOCKS).filter(|at| self.blocks[*at].doubtful && !self.blocks[*at].busy).collect();
        if scene.calm {
            if let Some(block) = doubtful.first() {
                self.write(scene, slot, *block);
            } else if self.blocks.iter().any(|block| block.unstable.is_some()) {
                self.commit(scene, slot);
            } else {
                self.call(scene, Some(slot), What::Renew, &[]);
            }
            return;
        }
        match scene.dice.below(24) {
            0..=5 => {
                let block = scene.dice.below(BLOCKS);
                self.write(scene, slot, block);
            }
            6..=7 => self.read(scene, slot),
            8..=9 => self.commit(scene, slot),
            10..=12 => self.change_names(scene, slot),
            13..=15 => self.open(scene, slot),
            16..=17 => self.close(scene, slot),
            18..=19 => self.lock(scene, slot),
            20..=22 => self.put(scene, slot),
            _ => self.call(scene, Some(slot), What::Renew, &[]),
        }
    }

    fn open_own(&mut self, scene: &mut Scene, slot: usize) {
        let own = self.own_file();
        if !self.holdings.iter().any(|holding| holding.file == own) {
            self.open_file(scene, slot, own, BOTH, WRITE);
        }
    }

    fn write(&mut self, scene: &mut Scene, slot: usize, at: usize) {
        let Some(stateid) = self.own().map(|own| own.stateid) else { return self.open_own(scene, slot) };
        if self.blocks[at].busy {
            return;
        }
        let (value, stability) = (scene.number(), u32::try_from(scene.dice.below(3)).unwrap());
        let block = &mut self.blocks[at];
        scene.seen.written_again += usize::from(block.doubtful);
        block.busy = true;
        block.maybe.push(value);
        let operations = [
            op::putfh(&self.handles.files[self.own_file()]),
            op::write_as(stateid, offset(at), stability, &value.to_be_bytes()),
        ];
        self.call(scene, Some(slot), What::Write { block: at, value, stability }, &operations);
    }

    fn read(&mut self, scene: &mut Scene, slot: usize) {
        let at = scene.dice.below(BLOCKS);
        let Some(stateid) = self.own().map(|own| own.stateid) else { return };
        if !std::mem::replace(&mut self.blocks[at].busy, true) {
            let file = &self.handles.files[self.own_file()];
            let operations = [op::putfh(file), op::read(stateid, offset(at), 8)];
            self.call(scene, Some(slot), What::Read { block: at }, &operations);
        }
    }

    fn commit(&mut self, scene: &mut Scene, slot: usize) {
        let blocks = self.blocks.iter().enumerate();
        let blocks = blocks.filter_map(|(at, block)| block.unstable.map(|(value, _)| (at, value)));
        let what = What::Commit { blocks: blocks.collect() };
        let operations = [op::putfh(&self.handles.files[self.own_file()]), op::commit(0, 0)];
        self.call(scene, Some(slot), what, &operations);
    }

    /// What can be done once: names that are never used again.
    fn change_names(&mut self, scene: &mut Scene, slot: usize) {
        let root = self.handles.directory.clone();
        if self.names.is_empty() || (self.names.len() < 3 && scene.dice.coin()) {
            let name = format!("made {}", scene.number());
            let operations = [op::putfh(&root), op::create(2, &name)];
            return self.call(scene, Some(slot), What::Make { name }, &operations);
        }
        let at = scene.dice.below(self.names.len());
        let name = self.names.remove(at);
        if scene.dice.coin() {
            let to = format!("moved {}", scene.number());
            let operations = [op::putfh(&root), op::savefh(), op::rename(&name, &to)];
            self.call(scene, Some(slot), What::Rename { from: name, to }, &operations);
        } else {
            let operations = [op::putfh(&root), op::remove(&name)];
            self.call(scene, Some(slot), What::Remove { name }, &operations);
        }
    }

    fn open(&mut self, scene: &mut Scene, slot: usize) {
        if self.holdings.len() > HOLDINGS {
            return;
        }
        let file = scene.dice.below(FILES);
        let access = scene.dice.pick(&[READ, WRITE, BOTH, BOTH]);
        let deny = scene.dice.pick(&[0, 0, 0, READ, WRITE, BOTH]);
        self.open_file(scene, slot, file, access, deny);
    }

    fn open_file(&mut self, scene: &mut Scene, slot: usize, file: usize, access: u32, deny: u32) {
        let holding = Holding {
            number: scene.number(),
            file,
            access,
            deny,
            stateid: Stateid::INVALID,
            standing: Standing::Opening,
            lock: None,
            locker: None,
            busy: false,
            frozen: None,
            tainted: None,
        };
        let (number, owner) = (holding.number, holding.owner());
        self.holdings.push(holding);
        let operations = [
            op::putfh(&self.handles.files[file]),
            op::open(&owner, access, deny, op::How::NoCreate, op::Claim::Fh),
        ];
        self.call(scene, Some(slot), What::Open { number }, &operations);
    }

    /// One of its opens of shared files that can be worked with.
    fn some_holding(&self, scene: &mut Scene, fits: impl Fn(&Holding) -> bool) -> Option<Holding> {
        let fits = |one: &&Holding| {
            one.file < FILES
                && one.standing == Standing::Held
                && !one.busy
                && one.frozen.is_none()
                && fits(one)
        };
        let all: Vec<&Holding> = self.holdings.iter().filter(fits).collect();
        if all.is_empty() { None } else { Some(scene.dice.pick(&all).clone()) }
    }

    fn close(&mut self, scene: &mut Scene, slot: usize) {
        let Some(Holding { number, file, stateid, .. }) = self.some_holding(scene, |_| true) else { return };
        if let Some(holding) = self.holding(number) {
            holding.standing = Standing::Closing;
        }
        let operations = [op::putfh(&self.handles.files[file]), op::close(stateid)];
        self.call(scene, Some(slot), What::Close { number }, &operations);
    }

    fn lock(&mut self, scene: &mut Scene, slot: usize) {
        let Some(found) = self.some_holding(scene, |one| one.access == BOTH) else { return };
        let (number, file) = (found.number, op::putfh(&self.handles.files[found.file]));
        let holding = self.holding(number).unwrap();
        holding.busy = true;
        if let Some((Lock { range, .. }, locker)) = holding.lock.take().zip(found.locker) {
            let (first, length) = RANGES[range];
            let operations = [file, op::locku(locker, first, length)];
            return self.call(scene, Some(slot), What::Unlock { number }, &operations);
        }
        let lock = Lock { range: scene.dice.below(RANGES.len()), kind: scene.dice.pick(&[READ, WRITE]) };
        let (first, length) = RANGES[lock.range];
        let request = match found.locker {
            Some(locker) => op::lock(lock.kind, first, length, locker),
            None => op::lock_new(lock.kind, first, length, found.stateid, &found.owner()),
        };
        self.call(scene, Some(slot), What::Lock { number, lock }, &[file, request]);
    }

    /// Writes a shared file, by an open or by none.
    fn put(&mut self, scene: &mut Scene, slot: usize) {
        let found =
            self.some_holding(scene, |one| one.access & WRITE != 0).filter(|_| scene.dice.happens(800));
        let (number, file, stateid) = match found {
            Some(found) => (Some(found.number), found.file, found.stateid),
            None => (None, scene.dice.below(FILES), Stateid::ANONYMOUS),
        };
        let value = scene.number();
        scene.puts.insert(value, (number, file));
        let write = op::write_as(stateid, 0, 0, &value.to_be_bytes());
        let operations = [op::putfh(&self.handles.files[file]), write];
        self.call(scene, Some(slot), What::Put { number }, &operations);
    }

    /// The next thing to be reclaimed.
    fn go_on_recovering(&mut self, scene: &mut Scene) {
        self.stage = Stage::Recovering;
        while let Some(number) = self.recover.front().copied() {
            let Some(holding) = self.holding(number) else {
                self.recover.pop_front();
                continue;
            };
            let (owner, access, deny) = (holding.owner(), holding.access, holding.deny);
            let file = holding.file;
            let operations = [
                op::putfh(&self.handles.files[file]),
                op::open(&owner, access, deny, op::How::NoCreate, op::Claim::Previous),
            ];
            return self.call(scene, Some(0), What::Reclaim { number }, &operations);
        }
        self.call(scene, Some(0), What::ReclaimComplete, &[op::reclaim_complete(false)]);
    }

    fn reclaim_lock(&mut self, scene: &mut Scene, number: u64) {
        let Some(holding) = self.holding(number) else { return };
        let Some(lock) = holding.lock else { return };
        let (first, length) = RANGES[lock.range];
        let (file, owner, stateid) = (holding.file, holding.owner(), holding.stateid);
        let operations = [
            op::putfh(&self.handles.files[file]),
            op::lock_reclaim(lock.kind, first, length, stateid, &owner),
        ];
        self.call(scene, Some(0), What::ReclaimLock { number }, &operations);
    }

    /// The record of a call, to be sent on a connection. Each time it has another number, as one connection may still have it.
    pub fn record(&mut self, scene: &mut Scene, xid: u32, peer: usize) -> Vec<u8> {
        scene.xid += 1;
        self.again.insert(scene.xid, xid);
        let call = self.calls.get_mut(&xid).unwrap();
        (call.peer, call.waits) = (Some(peer), false);
        [&scene.xid.to_be_bytes(), &call.record[4..]].concat()
    }

    /// A reply comes. What it is wrong with, if anything.
    pub fn receive(&mut self, scene: &mut Scene, record: Vec<u8>) -> Result<Option<u64>, String> {
        let xid = u32::from_be_bytes(record[..4].try_into().unwrap());
        let xid = self.again.get(&xid).copied().unwrap_or(xid);
        let body = record[4..].to_vec();
        let mut results = Results::new(record);
        let Some(Call { slot, .. }) = self.calls.get(&xid) else {
            return self.heard_again(scene, xid, &body, results);
        };
        let Some(slot) = *slot else { return self.established(scene, xid, results).map(|()| None) };
        match results.next(OpNumber::SEQUENCE) {
            Status::OK => {}
            Status::DELAY => {
                scene.seen.busy += 1;
                let call = self.calls.get_mut(&xid).unwrap();
                (call.peer, call.waits) = (None, true);
                return Ok(None);
            }
            Status::BADSESSION => return self.expelled(scene),
            Status::RETRY_UNCACHED_REP => {
                let call = self.calls.remove(&xid).unwrap();
                self.slots[slot].call = None;
                if !matches!(call.what, What::Read { .. } | What::Renew) {
                    return Err(format!("client {}: {:?} was not cached", self.index, call.what));
                }
                self.forget(call.what);
                return Ok(None);
            }
            other => {
                let what = &self.calls[&xid].what;
                return Err(format!("client {}: {what:?} is answered {other} by SEQUENCE", self.index));
            }
        }
        results.get::<[u8; 16]>();
        for _ in 0..5 {
            results.get::<u32>();
        }
        if results.status == Status::EXPIRED {
            // The client was removed while its request was under way.
            return self.expelled(scene);
        }
        let call = self.calls.remove(&xid).unwrap();
        self.slots[slot].call = None;
        self.renewed = self.renewed.max(call.first_sent);
        self.answers.insert(xid, body);
        let status = results.status;
        self.asked = call.first_sent;
        self.answered(scene, call.what.clone(), &mut results)
            .map_err(|what| format!("client {}: {:?}, answered {status}: {what}", self.index, call.what))
    }

    /// An answer to what was answered before.
    fn heard_again(
        &mut self,
        scene: &mut Scene,
        xid: u32,
        body: &[u8],
        mut results: Results,
    ) -> Result<Option<u64>, String> {
        let Some(first) = self.answers.get(&xid) else { return Ok(None) };
        if results.next(OpNumber::SEQUENCE) == Status::OK {
            scene.seen.replays += 1;
            if first != body {
                return Err(format!("client {}: a request has two answers", self.index));
            }
        }
        Ok(None)
    }

    /// EXCHANGE_ID, CREATE_SESSION.
    fn established(&mut self, scene: &mut Scene, xid: u32, mut results: Results) -> Result<(), String> {
        let status = results.status;
        if status == Status::DELAY {
            if let Stage::Creating { delays, .. } = &mut self.stage {
                *delays += 1;
                if *delays > PATIENCE {
                    self.restart();
                    return Ok(());
                }
            }
            let call = self.calls.get_mut(&xid).unwrap();
            (call.peer, call.waits) = (None, true);
            return Ok(());
        }
        let call = self.calls.remove(&xid).unwrap();
        match (self.stage, status) {
            (Stage::Identifying, Status::OK) => {
                results.ok(OpNumber::EXCHANGE_ID);
                let (id, sequence) = (ClientId(results.get::<u64>()), results.get::<u32>());
                self.stage = Stage::Creating { id, delays: 0 };
                let slots = u32::try_from(SLOTS).unwrap();
                self.call(scene, None, What::CreateSession, &[op::create_session(id, sequence, slots)]);
            }
            (Stage::Creating { id, .. }, Status::OK) => {
                results.ok(OpNumber::CREATE_SESSION);
                self.begin(scene, id, SessionId(results.get()), call.first_sent);
            }
            (Stage::Creating { .. }, Status::STALE_CLIENTID | Status::SEQ_MISORDERED) => {
                self.stage = Stage::Lost;
            }
            (stage, status) => return Err(format!("client {}: {status} in {stage:?}", self.index)),
        }
        Ok(())
    }

    /// There is a session.
    fn begin(&mut self, scene: &mut Scene, id: ClientId, session: SessionId, sent: Instant) {
        (self.session, self.born) = (Some(session), scene.crashes);
        if self.id != Some(id) {
            let until = self.lasts();
            self.recovers = Some(scene.restarted);
            let lost = self.holdings.extract_if(.., |holding| holding.standing != Standing::Held);
            self.earlier.extend(lost.map(|holding| holding.number));
            for holding in &mut self.holdings {
                holding.frozen.get_or_insert(until);
                (holding.locker, holding.busy) = (None, false);
            }
            // Whoever has another ID has nothing of the earlier one: the server has seen to that.
            scene.ended.extend(self.earlier.drain(..));
            scene.seen.identities += 1;
        } else if !self.earlier.is_empty() {
            // The server may hold opens for it of which it does not know.
            return self.restart();
        }
        (self.id, self.renewed) = (Some(id), sent);
        self.recover =
            self.holdings.iter().filter(|one| one.frozen.is_some()).map(|one| one.number).collect();
        self.go_on_recovering(scene);
    }

    /// An answer to a request that was carried out. The open that it gives, if any.
    fn answered(
        &mut self,
        scene: &mut Scene,
        what: What,
        results: &mut Results,
    ) -> Result<Option<u64>, String> {
        match what {
            What::Identify | What::CreateSession | What::Renew => {}
            What::Write { .. } | What::Read { .. } | What::Commit { .. } => {
                self.data(scene, what, results)?;
            }
            What::Make { name } => {
                demand(results, &[Status::OK])?;
                self.names.push(name);
            }
            What::Rename { to, .. } => {
                demand(results, &[Status::OK])?;
                self.names.push(to);
            }
            What::Remove { .. } => demand(results, &[Status::OK])?,
            What::Put { number: None } => {
                demand(results, &[Status::OK, Status::LOCKED, Status::GRACE, Status::DELAY])?;
            }
            What::Put { number: Some(number) } => {
                let closes = self.holding(number).is_none_or(|holding| holding.standing != Standing::Held);
                if !closes {
                    demand(results, &[Status::OK, Status::DELAY])?;
                }
            }
            what => return self.state(scene, what, results),
        }
        Ok(None)
    }

    fn data(&mut self, scene: &mut Scene, what: What, results: &mut Results) -> Result<(), String> {
        match what {
            What::Write { block: at, value, stability } => {
                let block = &mut self.blocks[at];
                block.busy = false;
                if results.status != Status::OK {
                    // It was not begun.
                    block.maybe.retain(|one| *one != value);
                    return demand(results, &[Status::DELAY]);
                }
                results.ok(OpNumber::PUTFH).ok(OpNumber::WRITE);
                let (count, how) = (results.get::<u32>(), results.get::<u32>());
                let verifier = verifier_of(results);
                if count != 8 || how < stability {
                    return Err(format!("{count} bytes, stability {how}"));
                }
                (block.doubtful, block.last) = (false, Some((value, scene.crashes)));
                block.unstable = (how == 0).then_some((value, verifier));
                if how > 0 {
                    block.secure(value);
                }
                self.heed(scene, verifier);
            }
            What::Read { block: at } => {
                let block = &mut self.blocks[at];
                block.busy = false;
                if results.status != Status::OK {
                    return demand(results, &[Status::DELAY]);
                }
                results.ok(OpNumber::PUTFH).ok(OpNumber::READ);
                results.get::<bool>();
                let value = u64::from_be_bytes(results.opaque().try_into().map_err(|_| "cut short")?);
                let right = match block.last {
                    Some((last, crashes)) if crashes == scene.crashes => value == last,
                    _ => block.may_hold(value),
                };
                if !right {
                    return Err(format!("block {at}: {value} is read, where {block:?} is lost"));
                }
            }
            What::Commit { blocks } => {
                if results.status != Status::OK {
                    return demand(results, &[Status::DELAY]);
                }
                results.ok(OpNumber::PUTFH).ok(OpNumber::COMMIT);
                let verifier = verifier_of(results);
                self.heed(scene, verifier);
                for (at, value) in blocks {
                    let block = &mut self.blocks[at];
                    // What another verifier was seen for is not in there any more.
                    if block.unstable.is_some_and(|(newest, _)| newest == value) {
                        block.secure(value);
                        block.unstable = None;
                        scene.seen.committed += 1;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A verifier is told: what was written under another may be lost, and has to be written again (RFC 8881 §18.3.3).
    fn heed(&mut self, scene: &mut Scene, verifier: Verifier) {
        if scene.bug == Bug::ClientForgets {
            for block in &mut self.blocks {
                if let Some((_, under)) = &mut block.unstable {
                    *under = verifier;
                }
            }
        }
        for block in &mut self.blocks {
            if block.unstable.is_some_and(|(_, under)| under != verifier) {
                block.doubt();
                scene.seen.lost += 1;
            }
        }
    }

    fn state(&mut self, scene: &mut Scene, what: What, results: &mut Results) -> Result<Option<u64>, String> {
        let status = results.status;
        let is_ok = status == Status::OK;
        match what {
            What::Open { number } => {
                if !is_ok {
                    self.drop_holding(number);
                    scene.ended.insert(number);
                    scene.seen.denied += usize::from(status == Status::SHARE_DENIED);
                    demand(results, &[Status::SHARE_DENIED, Status::GRACE, Status::DELAY])?;
                    return Ok(None);
                }
                results.ok(OpNumber::PUTFH).ok(OpNumber::OPEN);
                let stateid = results.stateid();
                let holding = self.holding(number).ok_or("an unknown open")?;
                (holding.stateid, holding.standing) = (stateid, Standing::Held);
                scene.seen.granted += 1;
                return Ok(Some(number));
            }
            What::Close { number } => {
                demand(results, &[Status::OK, Status::DELAY])?;
                if is_ok {
                    self.holdings.retain(|holding| holding.number != number);
                    scene.ended.insert(number);
                } else if let Some(holding) = self.holding(number) {
                    holding.standing = Standing::Held;
                    // It is not known to be held: whoever closes has let go.
                    holding.lock = None;
                }
            }
            What::Lock { number, lock } => {
                demand(results, &[Status::OK, Status::DENIED, Status::GRACE, Status::DELAY])?;
                let holding = self.holding(number).ok_or("an unknown open")?;
                holding.busy = false;
                scene.seen.denied += usize::from(status == Status::DENIED);
                if is_ok {
                    results.ok(OpNumber::PUTFH).ok(OpNumber::LOCK);
                    (holding.lock, holding.locker) = (Some(lock), Some(results.stateid()));
                    scene.seen.locked += 1;
                    return Ok(Some(number));
                }
            }
            What::Unlock { number } => {
                demand(results, &[Status::OK, Status::DELAY])?;
                let holding = self.holding(number).ok_or("an unknown open")?;
                holding.busy = false;
                if is_ok {
                    results.ok(OpNumber::PUTFH).ok(OpNumber::LOCKU);
                    holding.locker = Some(results.stateid());
                }
            }
            what => return self.reclaimed(scene, &what, results),
        }
        Ok(None)
    }

    fn reclaimed(
        &mut self,
        scene: &mut Scene,
        what: &What,
        results: &mut Results,
    ) -> Result<Option<u64>, String> {
        let asked = self.asked;
        let refusals = [Status::NO_GRACE, Status::RECLAIM_CONFLICT, Status::RECLAIM_BAD];
        let status = results.status;
        let (again, refused) = (status == Status::DELAY, refusals.contains(&status));
        if status != Status::OK && !again && !refused && status != Status::COMPLETE_ALREADY {
            return Err("an answer that it may not have".into());
        }
        match what {
            What::Reclaim { .. } | What::ReclaimComplete if again => self.go_on_recovering(scene),
            What::ReclaimLock { number } if again => self.reclaim_lock(scene, *number),
            What::Reclaim { number } if refused => {
                let number = *number;
                self.holdings.retain(|holding| holding.number != number);
                scene.ended.insert(number);
                scene.seen.refused += 1;
                self.go_on_recovering(scene);
            }
            What::Reclaim { number } => {
                let number = *number;
                results.ok(OpNumber::PUTFH).ok(OpNumber::OPEN);
                let stateid = results.stateid();
                let holding = self.holding(number).ok_or("an unknown open")?;
                // An answer may have been on its way since before that.
                if holding.tainted.is_some_and(|when| asked > when) {
                    return Err("it reclaims what another has had meanwhile".into());
                }
                holding.stateid = stateid;
                scene.seen.reclaimed += 1;
                if holding.lock.is_some() {
                    self.reclaim_lock(scene, number);
                    return Ok(None);
                }
                holding.frozen = None;
                self.recover.pop_front();
                self.go_on_recovering(scene);
                return Ok(Some(number));
            }
            What::ReclaimLock { number } => {
                let number = *number;
                let holding = self.holding(number).ok_or("an unknown open")?;
                holding.frozen = None;
                if refused {
                    holding.lock = None;
                } else {
                    results.ok(OpNumber::PUTFH).ok(OpNumber::LOCK);
                    holding.locker = Some(results.stateid());
                }
                self.recover.pop_front();
                self.go_on_recovering(scene);
                return Ok(Some(number));
            }
            What::ReclaimComplete => (self.stage, self.recovers) = (Stage::Ready, None),
            _ => {}
        }
        Ok(None)
    }
}

fn offset(block: usize) -> u64 {
    u64::try_from(block).unwrap() * BLOCK
}

/// Fails on a status that is none of these.
fn demand(results: &Results, allowed: &[Status]) -> Result<(), String> {
    if allowed.contains(&results.status) { Ok(()) } else { Err("an answer that it may not have".into()) }
}
