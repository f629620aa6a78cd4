//! Raw queues of one host while what is served changes: volumes keep what they are given, and everything that is sent is seen.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use buf::Pool;
use nvme::controller::{Action, Connection, Input, Portal};
use nvme::fabrics::{Connect, ConnectData, Property};
use nvme::features;
use nvme::identify::{Identify, SIZE, cns};
use nvme::log::{GetLogPage, lid};
use nvme::pdu::{CapsuleCmd, CapsuleResp, Digests, H2cData, IcReq, R2t, flags};
use nvme::sgl::SglDescriptor;
use nvme::sqe::SubmissionQueueEntry;
use nvme::status::Status;
use nvme::subsystem::Subsystems;
use protocol::pair::Half;
use protocol::{CloseReason, Connection as _, Group as _, GroupMessage, Instant};
use volume::{Completion, Epoch, Operation, Outcome, Request, Submission, VolumeErrorKind, VolumeId};
use zerocopy::{FromBytes, IntoBytes};

use super::common::{NQN, host_identity};

pub const FLUSH: u8 = 0;
pub const WRITE: u8 = 1;
pub const READ: u8 = 2;
pub const SMALL: u32 = 4096;
pub const LARGE: u32 = 65536;
/// Room for what connections hold besides data.
pub const TABLES: usize = 48 << 10;
pub const ADMIN: usize = 0;
pub const IO: usize = 1;
/// The result of an event: a namespace, or the discovery log page, has changed.
pub const NAMESPACE_EVENT: u64 = 0x0004_0002;
pub const DISCOVERY_EVENT: u64 = 0x0070_f002;

/// What a host receives on a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    Done { cid: u16, status: Status, result: u64 },
    R2t { cid: u16, ttag: u16 },
    Data { cid: u16 },
}

pub const fn done(queue: usize, cid: u16, status: Status) -> (usize, Seen) {
    (queue, Seen::Done { cid, status, result: 0 })
}

pub const fn event(cid: u16, result: u64) -> (usize, Seen) {
    (ADMIN, Seen::Done { cid, status: Status::SUCCESS, result })
}

/// Queues of one host, with a group and volumes that keep what they are given.
pub struct Rig {
    pub portal: Arc<Portal>,
    pub pool: Pool,
    pub now: Instant,
    pub group: Subsystems<usize>,
    pub queues: Vec<Half<Connection>>,
    pub held: VecDeque<(usize, VolumeId, Epoch, Request)>,
    pub cancelled: usize,
    pub seen: Vec<(usize, Seen)>,
    /// The data that came last.
    pub data: Vec<u8>,
    /// What the group says is kept back.
    pub deaf: bool,
}

impl Rig {
    /// An admin queue that wants to hear of namespaces, and one I/O queue.
    pub fn new(portal: Portal) -> Self {
        Self::with_pool(portal, Pool::new(16 << 20))
    }

    /// The same with room for one large buffer, beside the little that else is needed.
    pub fn starved(portal: Portal) -> Self {
        Self::with_pool(portal, Pool::new(LARGE as usize + TABLES))
    }

    fn with_pool(portal: Portal, pool: Pool) -> Self {
        let mut rig = Self::unconnected(portal, pool);
        rig.connect(NQN, 0);
        rig.enable(1 << 8);
        rig.connect(NQN, 1);
        rig.seen.clear();
        rig
    }

    /// A discovery controller with an event request, number 90.
    pub fn discovery(portal: Portal, wanted: u32) -> Self {
        let mut rig = Self::unconnected(portal, Pool::new(16 << 20));
        rig.connect(nvme::DISCOVERY_NQN, 0);
        rig.enable(wanted);
        rig
    }

    pub fn unconnected(portal: Portal, pool: Pool) -> Self {
        Self {
            portal: Arc::new(portal),
            pool,
            now: Instant::ZERO,
            group: Subsystems::new(),
            queues: Vec::new(),
            held: VecDeque::new(),
            cancelled: 0,
            seen: Vec::new(),
            data: Vec::new(),
            deaf: false,
        }
    }

    /// Enables the controller, and requests events of this kind.
    pub fn enable(&mut self, wanted: u32) {
        self.send(ADMIN, &[command(Property::set(0x14, 0x0046_0001), 1)]);
        let configuration = features::set(features::fid::ASYNC_EVENTS, wanted);
        self.send(ADMIN, &[command(configuration, 2)]);
        self.request_event(90);
        self.seen.clear();
    }

    pub fn request_event(&mut self, cid: u16) {
        self.send(ADMIN, &[command(SubmissionQueueEntry::new(0x0c, 0), cid)]);
    }

    /// A transport connection, whose number comes back.
    pub fn accept(&mut self) -> usize {
        let mut half = Half::new(Connection::new(Arc::clone(&self.portal), self.pool.clone(), self.now));
        half.receive(self.now, IcReq::new(Digests::NONE, 0).as_bytes());
        half.transmit(self.now);
        self.queues.push(half);
        self.queues.len() - 1
    }

    /// Sends the Connect of a queue, as command 1.
    pub fn ask(&mut self, queue: usize, subnqn: &str, qid: u16) {
        let cntlid = if qid == 0 { 0xffff } else { 1 };
        let data = ConnectData::new(&host_identity(), cntlid, subnqn);
        let mut entry = command(Connect::entry(qid, 31, 0), 1);
        entry.dptr = SglDescriptor::in_capsule(data.as_bytes().len() as u32);
        let mut pdu = CapsuleCmd::new(entry);
        pdu.header.pdo = 72;
        pdu.header.plen.set(72 + data.as_bytes().len() as u32);
        self.bytes(queue, &[pdu.as_bytes(), data.as_bytes()].concat());
    }

    pub fn connect(&mut self, subnqn: &str, qid: u16) -> usize {
        let queue = self.accept();
        self.ask(queue, subnqn, qid);
        queue
    }

    pub fn bytes(&mut self, queue: usize, bytes: &[u8]) {
        self.queues[queue].receive(self.now, bytes);
        self.run();
    }

    pub fn send(&mut self, queue: usize, entries: &[SubmissionQueueEntry]) {
        let bytes: Vec<u8> =
            entries.iter().flat_map(|entry| CapsuleCmd::new(*entry).as_bytes().to_vec()).collect();
        self.bytes(queue, &bytes);
    }

    /// All of the data of a write.
    pub fn send_data(&mut self, cid: u16, ttag: u16) {
        let mut pdu = H2cData::new(cid, ttag, 0, LARGE);
        pdu.header.flags = flags::LAST;
        pdu.header.pdo = 24;
        pdu.header.plen.set(24 + LARGE);
        self.bytes(IO, &[pdu.as_bytes(), &vec![7; LARGE as usize]].concat());
    }

    /// The portal is this from now on.
    pub fn change(&mut self, portal: Portal) {
        self.portal = Arc::new(portal);
        for queue in &mut self.queues {
            queue.connection.handle_input(self.now, Input::PortalChanged(Arc::clone(&self.portal)));
        }
        self.run();
    }

    /// The portal is what it was, but for this.
    pub fn alter(&mut self, change: impl FnOnce(&mut Portal)) {
        let mut portal = (*self.portal).clone();
        portal.generation += 1;
        change(&mut portal);
        self.change(portal.with_log());
    }

    pub fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        for queue in &mut self.queues {
            queue.connection.handle_timeout(self.now);
        }
        self.run();
    }

    /// Ends the oldest request that a volume has, and names the volume.
    pub fn complete(&mut self, how: Result<(), VolumeErrorKind>) -> VolumeId {
        let (queue, volume, _, request) = self.held.pop_front().unwrap();
        let result = how.map(|()| match request.operation {
            Operation::Read { into, .. } => Outcome::Data(into.freeze().into()),
            _ => Outcome::Done,
        });
        let completion = Completion { tag: request.tag, result: result.map_err(VolumeErrorKind::into) };
        self.queues[queue].connection.handle_input(self.now, Input::Completion(completion));
        self.run();
        volume
    }

    /// The volumes that have a request.
    pub fn at_volumes(&self) -> Vec<VolumeId> {
        self.held.iter().map(|(_, volume, ..)| *volume).collect()
    }

    pub fn run(&mut self) {
        while self.step() {}
    }

    fn step(&mut self) -> bool {
        for queue in 0..self.queues.len() {
            self.queues[queue].receive(self.now, &[]);
            let bytes = self.queues[queue].transmit(self.now);
            self.parse(queue, &bytes);
            match self.queues[queue].connection.poll_action() {
                None => continue,
                Some(Action::Submit(Submission { volume, epoch, request })) => {
                    self.held.push_back((queue, volume, epoch, request));
                }
                Some(Action::Cancel { .. }) => self.cancelled += 1,
                Some(Action::Reserve { .. }) => panic!("nothing is reserved here"),
                Some(Action::Group(request)) => self.group.handle_message(self.now, queue, request),
            }
            return true;
        }
        if self.deaf {
            return false;
        }
        let Some(GroupMessage { to, message: reply }) = self.group.poll_message() else { return false };
        self.queues[to].connection.handle_input(self.now, Input::Group(reply));
        true
    }

    fn parse(&mut self, queue: usize, mut bytes: &[u8]) {
        while let Some(kind) = bytes.first() {
            let length = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
            let (pdu, rest) = bytes.split_at(length);
            bytes = rest;
            let cid = u16::from_le_bytes(pdu[8..10].try_into().unwrap());
            self.seen.push((
                queue,
                match kind {
                    5 => {
                        let entry = CapsuleResp::read_from_bytes(pdu).unwrap().entry;
                        let (cid, status, result) = (entry.cid.get(), entry.status(), entry.result());
                        Seen::Done { cid, status, result }
                    }
                    7 => {
                        self.data = pdu[usize::from(pdu[3])..].to_vec();
                        Seen::Data { cid }
                    }
                    9 => Seen::R2t { cid, ttag: R2t::read_from_prefix(pdu).unwrap().0.ttag.get() },
                    other => panic!("a PDU of type {other}"),
                },
            ));
        }
    }

    pub fn take_seen(&mut self) -> Vec<(usize, Seen)> {
        std::mem::take(&mut self.seen)
    }

    /// The only completion that has come: its status and result.
    pub fn answer(&mut self) -> (Status, u64) {
        match self.take_seen()[..] {
            [(_, Seen::Done { status, result, .. })] => (status, result),
            [(_, Seen::Data { .. })] => (Status::SUCCESS, 0),
            ref other => panic!("{other:?}"),
        }
    }

    /// A data structure of the admin queue, which comes whole.
    pub fn read(&mut self, mut entry: SubmissionQueueEntry, length: u32) -> Vec<u8> {
        entry.dptr = SglDescriptor::transport(length);
        self.send(ADMIN, &[command(entry, 80)]);
        assert_eq!(self.answer().0, Status::SUCCESS);
        std::mem::take(&mut self.data)
    }

    /// The changed namespace list, which is empty afterwards.
    pub fn changed(&mut self) -> Vec<u32> {
        let page = self.read(GetLogPage::entry(lid::CHANGED_NAMESPACES, 0, SIZE as u32), SIZE as u32);
        identifiers(&page)
    }

    /// The identifiers of the namespaces that the host may use.
    pub fn active(&mut self) -> Vec<u32> {
        let list = Identify { cns: cns::NAMESPACE_LIST, cntid: 0, csi: 0 };
        identifiers(&self.read(list.encode(0), SIZE as u32))
    }

    /// GENCTR and NUMREC.
    pub fn discovery_log(&mut self) -> [u64; 2] {
        let page = self.read(GetLogPage::entry(lid::DISCOVERY, 0, 1024), 1024);
        [0, 8].map(|at| u64::from_le_bytes(page[at..at + 8].try_into().unwrap()))
    }

    /// Makes one transfer and says how it was answered at once, if it was.
    pub fn transfer(&mut self, opcode: u8, nsid: u32, cid: u16) -> Option<Status> {
        self.send(IO, &[transfer(opcode, nsid, cid, SMALL)]);
        match self.take_seen()[..] {
            [] | [(IO, Seen::R2t { .. })] => None,
            [(IO, Seen::Done { status, .. })] => Some(status),
            ref other => panic!("{other:?}"),
        }
    }

    pub fn close(&self, queue: usize) -> Option<CloseReason> {
        self.queues[queue].connection.poll_close()
    }

    pub fn uses(&self, queue: usize, volume: u16) -> bool {
        self.queues[queue].connection.uses(id(volume))
    }
}

pub fn id(slot: u16) -> VolumeId {
    VolumeId::new(slot, 0)
}

fn identifiers(page: &[u8]) -> Vec<u32> {
    let all = page.chunks_exact(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()));
    all.take_while(|nsid| *nsid != 0).collect()
}

pub fn command(mut entry: SubmissionQueueEntry, cid: u16) -> SubmissionQueueEntry {
    entry.cid.set(cid);
    entry
}

pub fn transfer(opcode: u8, nsid: u32, cid: u16, length: u32) -> SubmissionQueueEntry {
    // Namespace 3 has blocks of 4 KiB.
    let block = if nsid == 3 { 4096 } else { 512 };
    let mut entry = SubmissionQueueEntry::new(opcode, nsid).with(12, length / block - 1);
    entry.dptr = SglDescriptor::transport(length);
    command(entry, cid)
}
