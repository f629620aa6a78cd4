//! Initiators and hosts on queue pairs of any shape, and those of software iWARP as endpoints of a world: each asks for a few things, knows what it has written, and is cut
//! off at any byte or leaves in good order. `random_datagram_clients` has those of RoCE.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use buf::{Buf, BufList, SharedBuf};
use host::Endpoint;
use nvme::host::RemoteNamespace;
use protocol::{CloseReason, Connection, Ended, Instant, Placement, Transmit};
use verbs::{Consumer, ManagedQueuePair};
use volume::{Completion, Durability, Extent, Operation, Outcome, Request, Tag};

use crate::dice::Dice;
use crate::failure::TrialFailure;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 512;
/// Requests of a client at a time.
const DEPTH: usize = 4;
/// Bytes of one send, and its pieces.
const BUDGET: usize = 16 << 10;
const PIECES: usize = 16;

/// Bytes of a send that holds data.
const LONG: usize = 4096;

/// What happens to what an end sends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mishap {
    /// The stream ends behind so many bytes.
    pub(crate) cut: usize,
    /// Bits of long sends change.
    pub(crate) flips: bool,
}

/// What a connection says to its client.
pub(crate) enum Heard {
    /// It takes requests.
    Ready,
    /// It is an admin queue of this namespace.
    Namespace(Box<RemoteNamespace>),
    Completed(Completion),
    /// It is of no use.
    Failed,
    Nothing,
}

/// A role's words.
pub(crate) trait ClientConsumer: Consumer {
    fn submit(request: Request) -> Self::Input;
    fn leave() -> Self::Input;
    fn hear(action: Self::Action) -> Heard;
}

impl<Q: ManagedQueuePair> ClientConsumer for iscsi::datamover::iser::InitiatorConnection<Q> {
    fn submit(request: Request) -> Self::Input {
        iscsi::initiator::Input::Submit(request)
    }

    fn leave() -> Self::Input {
        iscsi::initiator::Input::Logout
    }

    fn hear(action: Self::Action) -> Heard {
        match action {
            iscsi::initiator::Action::Ready(_) => Heard::Ready,
            iscsi::initiator::Action::Complete(completion) => Heard::Completed(completion),
            iscsi::initiator::Action::Failed { .. } => Heard::Failed,
            _ => Heard::Nothing,
        }
    }
}

impl<Q: ManagedQueuePair> ClientConsumer for nvme::rdma::HostConnection<Q> {
    fn submit(request: Request) -> Self::Input {
        nvme::host::Input::Submit(request)
    }

    fn leave() -> Self::Input {
        nvme::host::Input::Disconnect
    }

    fn hear(action: Self::Action) -> Heard {
        match action {
            nvme::host::Action::Ready(namespace) => Heard::Namespace(namespace),
            nvme::host::Action::QueueReady => Heard::Ready,
            nvme::host::Action::Complete(completion) => Heard::Completed(completion),
            nvme::host::Action::Failed(_) => Heard::Failed,
            _ => Heard::Nothing,
        }
    }
}

/// A request that has not ended.
struct Asked {
    extent: Extent,
    /// What a write brings.
    written: Option<Vec<u8>>,
}

/// Whether a client goes in good order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// Not before it is told to.
    NotYet,
    /// When it has nothing more to ask.
    WhenDone,
    /// It has said that it goes.
    Said,
}

/// Who uses a connection, and what is known of its own part of the disk.
pub(crate) struct Client {
    dice: Dice,
    /// The first block of its part.
    start: u64,
    /// What the blocks hold; what a write that failed may have left, where one did.
    blocks: Vec<Vec<Vec<u8>>>,
    under_way: BTreeMap<u64, Asked>,
    /// Requests that it still makes.
    left: usize,
    serial: u64,
    /// Its connection takes requests.
    is_ready: bool,
    leaving: Leaving,
    pub(crate) namespace: Option<RemoteNamespace>,
    pub(crate) ended: bool,
    /// Requests that succeeded.
    pub(crate) succeeded: usize,
    pub(crate) failure: Option<TrialFailure>,
}

impl Client {
    /// One of a part of the disk that holds zeroes, which makes so many requests.
    pub(crate) fn new(part: Extent, requests: usize, dice: Dice) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self {
            dice,
            start: part.start,
            blocks: vec![vec![vec![0; BLOCK]]; wire::index(part.blocks)],
            under_way: BTreeMap::new(),
            left: requests,
            serial: 0,
            is_ready: false,
            leaving: Leaving::WhenDone,
            namespace: None,
            ended: false,
            succeeded: 0,
            failure: None,
        }))
    }

    /// It stays until it is told to leave.
    pub(crate) fn stay(&mut self) {
        self.leaving = Leaving::NotYet;
    }

    /// Passes words on, between it and its connection.
    pub(crate) fn talk<C: ClientConsumer>(&mut self, now: Instant, connection: &mut C) {
        loop {
            while let Some(action) = Consumer::poll_action(connection) {
                match C::hear(action) {
                    Heard::Ready => self.is_ready = true,
                    Heard::Namespace(namespace) => {
                        (self.is_ready, self.namespace) = (true, Some(*namespace));
                    }
                    Heard::Completed(completion) => self.completed(completion),
                    Heard::Failed => self.is_ready = false,
                    Heard::Nothing => {}
                }
            }
            let Some(request) = self.ask().filter(|_| !self.ended) else { break };
            Consumer::handle_input(connection, now, C::submit(request));
        }
        let is_done = self.left == 0 && self.under_way.is_empty();
        if self.is_ready && self.leaving == Leaving::WhenDone && is_done && !self.ended {
            self.leaving = Leaving::Said;
            Consumer::handle_input(connection, now, C::leave());
        }
    }

    /// It leaves; false if it was told so before.
    pub(crate) fn leave(&mut self) -> bool {
        let stayed = self.leaving == Leaving::NotYet;
        if stayed {
            self.leaving = Leaving::WhenDone;
        }
        stayed
    }

    /// The next request, if there is to be one now.
    fn ask(&mut self) -> Option<Request> {
        if !self.is_ready || self.left == 0 || self.under_way.len() >= DEPTH {
            return None;
        }
        let blocks = [1, 2, 8, 16, 17, self.blocks.len()][self.dice.index(6)];
        let at = self.dice.index(self.blocks.len() - blocks + 1);
        let extent = Extent::new(self.start + wire::widen(at), wire::widen(blocks));
        let end = |extent: Extent| extent.start + extent.blocks;
        let meets = |other: &Asked| other.extent.start < end(extent) && extent.start < end(other.extent);
        let writes = self.dice.coin();
        if self.under_way.values().any(|other| meets(other) && (writes || other.written.is_some())) {
            return None;
        }
        self.left -= 1;
        self.serial += 1;
        let length = blocks * BLOCK;
        let written = writes.then(|| protocol::pair::aperiodic(length, self.dice.below(u64::MAX)));
        let operation = match &written {
            Some(bytes) => {
                let data = BufList::from(SharedBuf::from(bytes.clone()));
                Operation::Write { extent, data, durability: Durability::Cached }
            }
            None => Operation::Read { extent, into: Buf::zeroed(length) },
        };
        self.under_way.insert(self.serial, Asked { extent, written });
        Some(Request { tag: Tag(self.serial), operation })
    }

    fn completed(&mut self, completion: Completion) {
        let Some(asked) = self.under_way.remove(&completion.tag.0) else {
            return self.fail(format!("{:?} ends twice", completion.tag));
        };
        let at = wire::index(asked.extent.start - self.start);
        let blocks = &mut self.blocks[at..at + wire::index(asked.extent.blocks)];
        match (completion.result, asked.written) {
            (Ok(Outcome::Data(data)), None) => {
                let bytes = data.into_one();
                let is_right = bytes.len() == blocks.len() * BLOCK
                    && bytes
                        .chunks(BLOCK)
                        .zip(&*blocks)
                        .all(|(block, may)| may.iter().any(|one| one == block));
                if !is_right {
                    return self.fail(format!("a read of {:?} finds what was not written", asked.extent));
                }
                for (block, bytes) in blocks.iter_mut().zip(bytes.chunks(BLOCK)) {
                    *block = vec![bytes.to_vec()];
                }
            }
            (Ok(_), Some(written)) => {
                for (block, bytes) in blocks.iter_mut().zip(written.chunks(BLOCK)) {
                    *block = vec![bytes.to_vec()];
                }
            }
            (Err(_), Some(written)) => {
                for (block, bytes) in blocks.iter_mut().zip(written.chunks(BLOCK)) {
                    block.push(bytes.to_vec());
                }
                return;
            }
            (Err(_), None) => return,
            (Ok(other), None) => return self.fail(format!("a read ends as {other:?}")),
        }
        self.succeeded += 1;
    }

    fn fail(&mut self, what: String) {
        self.failure.get_or_insert(TrialFailure::Broken(what));
    }

    /// Everything has ended, and its part of the disk is as it must be.
    pub(crate) fn check(&mut self, disk: &[u8]) -> Result<(), TrialFailure> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if !self.under_way.is_empty() {
            let count = self.under_way.len();
            return Err(TrialFailure::Broken(format!(
                "{count} requests of a connection that is gone never end"
            )));
        }
        let from = wire::index(self.start) * BLOCK;
        let held = disk[from..].chunks(BLOCK).zip(&self.blocks);
        if held.into_iter().all(|(block, may)| may.iter().any(|one| one == block)) {
            return Ok(());
        }
        Err(TrialFailure::Broken(format!("the disk holds what was not written behind block {}", self.start)))
    }
}

/// A connection and its client.
pub(crate) struct ClientEnd<C> {
    connection: C,
    client: Rc<RefCell<Client>>,
    mishap: Mishap,
    send: Transmit,
    out: Vec<u8>,
}

impl<C> ClientEnd<C> {
    /// Of this connection.
    pub(crate) fn new(connection: C, client: &Rc<RefCell<Client>>, mishap: Mishap) -> Self {
        let send = Transmit::new(BUDGET, PIECES);
        Self { connection, client: Rc::clone(client), mishap, send, out: Vec::new() }
    }
}

impl<C: ClientConsumer + Connection> Endpoint for ClientEnd<C> {
    fn staging(&self) -> usize {
        C::STAGING
    }

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.connection.handle_bytes(now, bytes)
    }

    fn take_placement(&mut self) -> Option<Placement> {
        self.connection.take_placement()
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        self.connection.handle_placed(now, placement);
    }

    fn handle_transmitted(&mut self, _now: Instant, _bytes: usize) {}

    fn handle_timeout(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
    }

    fn handle_connected(&mut self, _now: Instant, _local: SocketAddr, _peer: SocketAddr) {}

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        Connection::handle_ended(&mut self.connection, now, how);
        let mut client = self.client.borrow_mut();
        client.ended = true;
        client.talk(now, &mut self.connection);
    }

    fn turn(&mut self, now: Instant) {
        self.client.borrow_mut().talk(now, &mut self.connection);
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.send.clear();
        self.connection.poll_transmit(now, &mut self.send);
        for segment in self.send.segments() {
            self.out.extend_from_slice(self.send.bytes(segment));
        }
        if !self.send.is_empty() {
            self.connection.handle_transmitted(now, self.send.len());
            self.send.clear();
        }
        let count = self.out.len().min(self.mishap.cut);
        let middle = count / 2;
        if let Some(byte) = self.out.get_mut(middle).filter(|_| self.mishap.flips && count > LONG) {
            *byte ^= 1;
        }
        send.put(&self.out[..count]);
        self.mishap.cut -= count;
        self.out.clear();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    fn wants_bytes(&mut self) -> bool {
        self.connection.wants_bytes()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        (self.mishap.cut == 0).then_some(CloseReason::Finished).or_else(|| self.connection.poll_close())
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn expects_work(&self) -> bool {
        false
    }
}
