//! Another portal in place of a connection's own, case by case: raw queues of controllers whose subsystem changes, goes, or is closed to their host.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use buf::Pool;
use common::{NQN, host_identity, namespace, subsystem};
use nvme::allocation::{GetLbaStatus, TRACKED_ALLOCATED};
use nvme::controller::{Action, AllowedHost, Connection, Hosts, Input, Namespace, Portal, Reservations};
use nvme::fabrics::{Connect, ConnectData, Property};
use nvme::features;
use nvme::identify::{Identify, SIZE, cns};
use nvme::limits::{REPORT_TIME, REUSE_TIME, WITHDRAW_TIME};
use nvme::log::{GetLogPage, lid};
use nvme::pdu::{CapsuleCmd, CapsuleResp, H2cData, IcReq, R2t, flags};
use nvme::sgl::SglDescriptor;
use nvme::sqe::{ALL_NAMESPACES, SubmissionQueueEntry};
use nvme::status::Status;
use nvme::subsystem::{ConnectError, Reply, Subsystems};
use protocol::pair::Half;
use protocol::{CloseReason, Connection as _, Group as _, Instant};
use volume::reservation::{Registrant, Registration, ReservationType, View};
use volume::{Completion, Epoch, Operation, Outcome, Request, VolumeErrorKind, VolumeId};
use zerocopy::{FromBytes, IntoBytes};

const FLUSH: u8 = 0;
const WRITE: u8 = 1;
const READ: u8 = 2;
const SMALL: u32 = 4096;
const LARGE: u32 = 65536;
/// Room for what connections hold besides data.
const TABLES: usize = 48 << 10;
const ADMIN: usize = 0;
const IO: usize = 1;
/// The result of an event: a namespace, or the discovery log page, has changed.
const NAMESPACE_EVENT: u64 = 0x0004_0002;
const DISCOVERY_EVENT: u64 = 0x0070_f002;
const GONE: CloseReason = CloseReason::Withdrawn("the subsystem is not served any more");
const CLOSED: CloseReason = CloseReason::Withdrawn("this host may not use the subsystem any more");
const INVALID: Status = Status::INVALID_NAMESPACE.dnr();
const ABORTED: Status = Status::ABORT_REQUESTED;

/// What a host receives on a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Done { cid: u16, status: Status, result: u64 },
    R2t { cid: u16, ttag: u16 },
    Data { cid: u16 },
}

const fn done(queue: usize, cid: u16, status: Status) -> (usize, Seen) {
    (queue, Seen::Done { cid, status, result: 0 })
}

const fn event(cid: u16, result: u64) -> (usize, Seen) {
    (ADMIN, Seen::Done { cid, status: Status::SUCCESS, result })
}

/// Queues of one host, with a group and volumes that keep what they are given.
struct Rig {
    portal: Arc<Portal>,
    pool: Pool,
    now: Instant,
    group: Subsystems<usize>,
    queues: Vec<Half<Connection>>,
    held: VecDeque<(usize, VolumeId, Epoch, Request)>,
    cancelled: usize,
    seen: Vec<(usize, Seen)>,
    /// The data that came last.
    data: Vec<u8>,
    /// What the group says is kept back.
    deaf: bool,
}

impl Rig {
    /// An admin queue that wants to hear of namespaces, and one I/O queue.
    fn new(portal: Portal) -> Self {
        Self::with_pool(portal, Pool::new(16 << 20))
    }

    /// The same with room for one large buffer, beside the little that else is needed.
    fn starved(portal: Portal) -> Self {
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
    fn discovery(portal: Portal, wanted: u32) -> Self {
        let mut rig = Self::unconnected(portal, Pool::new(16 << 20));
        rig.connect(nvme::DISCOVERY_NQN, 0);
        rig.enable(wanted);
        rig
    }

    fn unconnected(portal: Portal, pool: Pool) -> Self {
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
    fn enable(&mut self, wanted: u32) {
        self.send(ADMIN, &[command(Property::set(0x14, 0x0046_0001), 1)]);
        let configuration = features::set(features::fid::ASYNC_EVENTS, wanted);
        self.send(ADMIN, &[command(configuration, 2)]);
        self.request_event(90);
        self.seen.clear();
    }

    fn request_event(&mut self, cid: u16) {
        self.send(ADMIN, &[command(SubmissionQueueEntry::new(0x0c, 0), cid)]);
    }

    /// A transport connection, whose number comes back.
    fn accept(&mut self) -> usize {
        let mut half = Half::new(Connection::new(Arc::clone(&self.portal), self.pool.clone(), self.now));
        half.receive(self.now, IcReq::new(false, false, 0).as_bytes());
        half.transmit(self.now);
        self.queues.push(half);
        self.queues.len() - 1
    }

    /// Sends the Connect of a queue, as command 1.
    fn ask(&mut self, queue: usize, subnqn: &str, qid: u16) {
        let cntlid = if qid == 0 { 0xffff } else { 1 };
        let data = ConnectData::new(&host_identity(), cntlid, subnqn);
        let mut entry = command(Connect::entry(qid, 31, 0), 1);
        entry.dptr = SglDescriptor::in_capsule(data.as_bytes().len() as u32);
        let mut pdu = CapsuleCmd::new(entry);
        pdu.header.pdo = 72;
        pdu.header.plen.set(72 + data.as_bytes().len() as u32);
        self.bytes(queue, &[pdu.as_bytes(), data.as_bytes()].concat());
    }

    fn connect(&mut self, subnqn: &str, qid: u16) -> usize {
        let queue = self.accept();
        self.ask(queue, subnqn, qid);
        queue
    }

    fn bytes(&mut self, queue: usize, bytes: &[u8]) {
        self.queues[queue].receive(self.now, bytes);
        self.run();
    }

    fn send(&mut self, queue: usize, entries: &[SubmissionQueueEntry]) {
        let bytes: Vec<u8> =
            entries.iter().flat_map(|entry| CapsuleCmd::new(*entry).as_bytes().to_vec()).collect();
        self.bytes(queue, &bytes);
    }

    /// All of the data of a write.
    fn send_data(&mut self, cid: u16, ttag: u16) {
        let mut pdu = H2cData::new(cid, ttag, 0, LARGE);
        pdu.header.flags = flags::LAST;
        pdu.header.pdo = 24;
        pdu.header.plen.set(24 + LARGE);
        self.bytes(IO, &[pdu.as_bytes(), &vec![7; LARGE as usize]].concat());
    }

    /// The portal is this from now on.
    fn change(&mut self, portal: Portal) {
        self.portal = Arc::new(portal);
        for queue in &mut self.queues {
            queue.connection.handle_input(self.now, Input::PortalChanged(Arc::clone(&self.portal)));
        }
        self.run();
    }

    /// The portal is what it was, but for this.
    fn alter(&mut self, change: impl FnOnce(&mut Portal)) {
        let mut portal = (*self.portal).clone();
        portal.generation += 1;
        change(&mut portal);
        self.change(portal.with_log());
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        for queue in &mut self.queues {
            queue.connection.handle_timeout(self.now);
        }
        self.run();
    }

    /// Ends the oldest request that a volume has, and names the volume.
    fn complete(&mut self, how: Result<(), VolumeErrorKind>) -> VolumeId {
        let (queue, volume, _, request) = self.held.pop_front().unwrap();
        let result = how.map(|()| match request.operation {
            Operation::Read { into, .. } => Outcome::Data(into.freeze().into()),
            _ => Outcome::Done,
        });
        let completion = Completion { tag: request.tag, result };
        self.queues[queue].connection.handle_input(self.now, Input::Completion(completion));
        self.run();
        volume
    }

    /// The volumes that have a request.
    fn at_volumes(&self) -> Vec<VolumeId> {
        self.held.iter().map(|(_, volume, ..)| *volume).collect()
    }

    fn run(&mut self) {
        while self.step() {}
    }

    fn step(&mut self) -> bool {
        for queue in 0..self.queues.len() {
            self.queues[queue].receive(self.now, &[]);
            let bytes = self.queues[queue].transmit(self.now);
            self.parse(queue, &bytes);
            match self.queues[queue].connection.poll_action() {
                None => continue,
                Some(Action::Submit { volume, epoch, request }) => {
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
        let Some((to, reply)) = self.group.poll_message() else { return false };
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

    fn take_seen(&mut self) -> Vec<(usize, Seen)> {
        std::mem::take(&mut self.seen)
    }

    /// The only completion that has come: its status and result.
    fn answer(&mut self) -> (Status, u64) {
        match self.take_seen()[..] {
            [(_, Seen::Done { status, result, .. })] => (status, result),
            [(_, Seen::Data { .. })] => (Status::SUCCESS, 0),
            ref other => panic!("{other:?}"),
        }
    }

    /// A data structure of the admin queue, which comes whole.
    fn read(&mut self, mut entry: SubmissionQueueEntry, length: u32) -> Vec<u8> {
        entry.dptr = SglDescriptor::transport(length);
        self.send(ADMIN, &[command(entry, 80)]);
        assert_eq!(self.answer().0, Status::SUCCESS);
        std::mem::take(&mut self.data)
    }

    /// The changed namespace list, which is empty afterwards.
    fn changed(&mut self) -> Vec<u32> {
        let page = self.read(GetLogPage::entry(lid::CHANGED_NAMESPACES, 0, SIZE as u32), SIZE as u32);
        identifiers(&page)
    }

    /// The identifiers of the namespaces that the host may use.
    fn active(&mut self) -> Vec<u32> {
        let list = Identify { cns: cns::NAMESPACE_LIST, cntid: 0, csi: 0 };
        identifiers(&self.read(list.encode(0), SIZE as u32))
    }

    /// GENCTR and NUMREC.
    fn discovery_log(&mut self) -> [u64; 2] {
        let page = self.read(GetLogPage::entry(lid::DISCOVERY, 0, 1024), 1024);
        [0, 8].map(|at| u64::from_le_bytes(page[at..at + 8].try_into().unwrap()))
    }

    /// Makes one transfer and says how it was answered at once, if it was.
    fn transfer(&mut self, opcode: u8, nsid: u32, cid: u16) -> Option<Status> {
        self.send(IO, &[transfer(opcode, nsid, cid, SMALL)]);
        match self.take_seen()[..] {
            [] | [(IO, Seen::R2t { .. })] => None,
            [(IO, Seen::Done { status, .. })] => Some(status),
            ref other => panic!("{other:?}"),
        }
    }

    fn close(&self, queue: usize) -> Option<CloseReason> {
        self.queues[queue].connection.poll_close()
    }

    fn uses(&self, queue: usize, volume: u16) -> bool {
        self.queues[queue].connection.uses(id(volume))
    }
}

fn id(slot: u16) -> VolumeId {
    VolumeId::new(slot, 0)
}

fn identifiers(page: &[u8]) -> Vec<u32> {
    let all = page.chunks_exact(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()));
    all.take_while(|nsid| *nsid != 0).collect()
}

fn command(mut entry: SubmissionQueueEntry, cid: u16) -> SubmissionQueueEntry {
    entry.cid.set(cid);
    entry
}

fn transfer(opcode: u8, nsid: u32, cid: u16, length: u32) -> SubmissionQueueEntry {
    // Namespace 3 has blocks of 4 KiB.
    let block = if nsid == 3 { 4096 } else { 512 };
    let mut entry = SubmissionQueueEntry::new(opcode, nsid).with(12, length / block - 1);
    entry.dptr = SglDescriptor::transport(length);
    command(entry, cid)
}

/// The portal of these namespaces.
fn with(namespaces: Vec<Namespace>) -> Portal {
    let mut portal = common::portal();
    subsystem(&mut portal).namespaces = namespaces;
    portal
}

/// Only these namespaces remain.
fn keep(portal: &mut Portal, nsids: &[u32]) {
    subsystem(portal).namespaces.retain(|namespace| nsids.contains(&namespace.nsid));
}

fn remove_subsystem(portal: &mut Portal) {
    portal.subsystems.clear();
}

fn close_subsystem(portal: &mut Portal) {
    subsystem(portal).hosts = Hosts::Listed(vec!["nqn.other".into()]);
}

/// Adds another subsystem, which these hosts may use.
fn add_subsystem(portal: &mut Portal, hosts: Hosts) {
    let mut other = (*common::portal().subsystems[0]).clone();
    (other.nqn, other.hosts) = ("nqn.2026-11.org.linerate:other".into(), hosts);
    portal.subsystems.push(Arc::new(other));
}

#[test]
fn a_subsystem_that_is_the_same_sees_nothing() {
    let mut rig = Rig::new(common::portal());
    rig.send(IO, &[transfer(READ, 1, 70, SMALL)]);
    let deadlines = [ADMIN, IO].map(|queue| rig.queues[queue].connection.poll_timeout());
    rig.alter(|portal| add_subsystem(portal, Hosts::Any));
    rig.alter(|portal| portal.referrals = vec!["192.0.2.1:8009".parse().unwrap()]);
    // Made anew, with nothing else in it.
    rig.alter(|portal| portal.subsystems = vec![Arc::new((*portal.subsystems[0]).clone())]);
    assert_eq!((rig.take_seen(), rig.cancelled), (Vec::new(), 0));
    assert_eq!(deadlines, [ADMIN, IO].map(|queue| rig.queues[queue].connection.poll_timeout()));
    assert_eq!((rig.changed(), rig.active()), (Vec::new(), vec![1, 3]));
    assert_eq!(rig.complete(Ok(())), id(0));
    assert_eq!(rig.take_seen(), [(IO, Seen::Data { cid: 70 })]);
}

#[test]
fn who_is_not_connected_yet_finds_what_is_served_now() {
    let mut rig = Rig::unconnected(with(vec![namespace(1, 0, 512)]), Pool::new(16 << 20));
    let queue = rig.accept();
    assert!(!rig.uses(queue, 0));
    rig.alter(|portal| subsystem(portal).namespaces.push(namespace(3, 1, 4096)));
    rig.ask(queue, NQN, 0);
    rig.enable(0);
    assert_eq!((rig.changed(), rig.active()), (Vec::new(), vec![1, 3]));
    let no_subsystem = ConnectError::data(nvme::fabrics::field::SUBNQN);
    let not_allowed = ConnectError::plain(Status::CONNECT_HOST);
    type Alteration = fn(&mut Portal);
    let cases: [(Alteration, ConnectError); 2] =
        [(remove_subsystem, no_subsystem), (close_subsystem, not_allowed)];
    for (alteration, error) in cases {
        let mut rig = Rig::unconnected(common::portal(), Pool::new(16 << 20));
        let queue = rig.accept();
        rig.alter(alteration);
        rig.ask(queue, NQN, 0);
        let answer = rig.answer();
        assert_eq!(answer, (error.status, error.result.into()));
        assert!(answer.0.is_final(), "the host would try again");
        assert_eq!(rig.close(queue), Some(CloseReason::Refused(error.describe())));
    }
}

#[test]
fn a_connect_under_way_is_refused_or_finds_what_is_served_now() {
    type Alteration = fn(&mut Portal);
    let cases: [(Alteration, Option<&str>); 3] = [
        (|portal| keep(portal, &[3]), None),
        (remove_subsystem, Some("there is no such subsystem")),
        (close_subsystem, Some("this host may not use the subsystem")),
    ];
    for (alteration, refused) in cases {
        for qid in [0, 1] {
            let mut rig = Rig::unconnected(common::portal(), Pool::new(16 << 20));
            if qid == 1 {
                rig.connect(NQN, 0);
                rig.enable(0);
            }
            rig.deaf = true;
            let queue = rig.connect(NQN, qid);
            assert!(rig.take_seen().is_empty() && rig.uses(queue, 0));
            rig.alter(alteration);
            let early = rig.take_seen();
            rig.deaf = false;
            rig.run();
            if let Some(text) = refused {
                assert!(matches!(early[..], [(_, Seen::Done { cid: 1, status, .. })] if status.is_final()));
                assert_eq!(rig.take_seen(), [], "the Connect was answered twice");
                assert_eq!(rig.close(queue), Some(CloseReason::Refused(text)));
                continue;
            }
            assert_eq!(early, []);
            assert_eq!(rig.answer().0, Status::SUCCESS);
            assert_eq!([0, 1].map(|volume| rig.uses(queue, volume)), [false, true]);
            if qid == 1 {
                assert_eq!(rig.transfer(READ, 1, 70), Some(INVALID));
            } else {
                rig.enable(0);
                assert_eq!((rig.changed(), rig.active()), (Vec::new(), vec![3]));
            }
        }
    }
}

#[test]
fn a_change_of_the_discovery_log_is_reported_once_to_who_wants_it() {
    let mut rig = Rig::discovery(common::portal(), 1 << 31);
    assert_eq!(rig.discovery_log(), [1, 4]);
    rig.alter(|portal| add_subsystem(portal, Hosts::Any));
    assert_eq!(rig.take_seen(), [event(90, DISCOVERY_EVENT)]);
    rig.request_event(91);
    rig.alter(|portal| portal.referrals = vec!["192.0.2.1:8009".parse().unwrap()]);
    assert_eq!(rig.take_seen(), [], "the host has not read the page yet");
    assert_eq!(rig.discovery_log(), [3, 7]);
    rig.alter(remove_subsystem);
    assert_eq!(rig.take_seen(), [event(91, DISCOVERY_EVENT)]);
    assert_eq!(rig.discovery_log(), [4, 3]);

    let mut rig = Rig::discovery(common::portal(), 0);
    rig.alter(remove_subsystem);
    assert_eq!(rig.take_seen(), [], "nobody asked for it");
    assert_eq!(rig.discovery_log(), [2, 2]);
}

#[test]
fn what_the_discovery_log_does_not_show_is_not_reported() {
    let secret = || Hosts::Listed(vec!["nqn.other".into()]);
    let mut portal = common::portal();
    add_subsystem(&mut portal, secret());
    // This host has a page of its own.
    let mut rig = Rig::discovery(portal, 1 << 31);
    assert_eq!(rig.discovery_log(), [1, 4]);
    rig.alter(|portal| keep(portal, &[3]));
    rig.alter(|portal| drop(portal.subsystems.pop()));
    rig.alter(|portal| add_subsystem(portal, secret()));
    assert_eq!(rig.take_seen(), []);
    assert_eq!(rig.discovery_log(), [4, 4]);
    rig.alter(|portal| Arc::make_mut(&mut portal.subsystems[1]).hosts = Hosts::Any);
    assert_eq!(rig.take_seen(), [event(90, DISCOVERY_EVENT)]);
    assert_eq!(rig.discovery_log(), [5, 6], "the page of before is not shown any more");
}

#[test]
fn namespaces_that_are_otherwise_are_reported_by_one_event() {
    let mut rig = Rig::new(with(vec![namespace(1, 0, 512), namespace(3, 1, 4096), namespace(6, 4, 512)]));
    rig.alter(|portal| {
        keep(portal, &[3, 6]);
        let namespaces = &mut subsystem(portal).namespaces;
        namespaces[0].geometry.blocks = 16;
        namespaces.insert(1, namespace(5, 3, 512));
    });
    assert_eq!(rig.take_seen(), [event(90, NAMESPACE_EVENT)]);
    rig.request_event(91);
    rig.alter(|portal| subsystem(portal).namespaces.push(namespace(7, 5, 512)));
    assert_eq!(rig.take_seen(), [], "the host has not read the list yet");
    assert_eq!(rig.changed(), [1, 3, 5, 7], "gone, another size, new, and new; 6 is as it was");
    assert_eq!(rig.active(), [3, 5, 6, 7]);
    assert_eq!(rig.transfer(READ, 1, 70), Some(INVALID));
    assert_eq!(rig.transfer(READ, 5, 71), None);
    assert_eq!(rig.at_volumes(), [id(3)]);
    let mut beyond = transfer(READ, 3, 72, SMALL).with(10, 16);
    beyond.dptr = SglDescriptor::transport(SMALL);
    rig.send(IO, &[beyond]);
    assert_eq!(rig.take_seen(), [done(IO, 72, Status::LBA_OUT_OF_RANGE.dnr())]);
    rig.alter(|portal| keep(portal, &[3, 5, 6]));
    assert_eq!(rig.take_seen(), [event(91, NAMESPACE_EVENT)]);
    assert_eq!(rig.changed(), [7]);
}

#[test]
fn a_host_is_told_only_of_what_it_may_use() {
    let listed = |nsids: &[u32]| {
        let nqn = host_identity().nqn.to_string();
        Hosts::Listed(vec![AllowedHost { nqn, namespaces: Some(nsids.to_vec()) }])
    };
    let mut portal = with(vec![namespace(1, 0, 512), namespace(3, 1, 4096), namespace(5, 2, 512)]);
    subsystem(&mut portal).hosts = listed(&[3]);
    let mut rig = Rig::new(portal);
    rig.alter(|portal| keep(portal, &[3, 5]));
    assert_eq!((rig.take_seen(), rig.changed()), (Vec::new(), Vec::new()), "1 was never there");
    rig.alter(|portal| subsystem(portal).hosts = listed(&[3, 5]));
    assert_eq!((rig.take_seen(), rig.changed()), (vec![event(90, NAMESPACE_EVENT)], vec![5]));
    rig.alter(|portal| subsystem(portal).hosts = listed(&[5]));
    assert_eq!((rig.changed(), rig.active()), (vec![3], vec![5]));
    assert_eq!([3, 5].map(|nsid| rig.transfer(READ, nsid, 70 + nsid as u16)), [Some(INVALID), None]);
}

#[test]
fn commands_to_a_namespace_that_is_gone_end_once_and_others_go_on() {
    let mut rig = Rig::new(common::portal());
    rig.send(IO, &[transfer(READ, 1, 70, SMALL), transfer(READ, 3, 71, SMALL)]);
    rig.send(IO, &[transfer(READ, 1, 72, SMALL), transfer(READ, 1, 73, SMALL)]);
    // The host has asked for the end of one of them already.
    let abort = SubmissionQueueEntry::new(8, 0).with(10, 73 << 16 | 1);
    rig.send(ADMIN, &[command(abort, 5)]);
    rig.alter(|portal| keep(portal, &[3]));
    rig.alter(|portal| subsystem(portal).namespaces.push(namespace(5, 3, 512)));
    assert_eq!(rig.cancelled, 3, "each is cancelled once, and only those");
    assert_eq!(rig.take_seen(), [event(90, NAMESPACE_EVENT)]);
    assert!(rig.uses(IO, 0), "a request is still there");
    rig.complete(Err(VolumeErrorKind::Cancelled));
    assert_eq!(rig.take_seen(), [done(IO, 70, ABORTED.dnr())]);
    rig.complete(Ok(()));
    assert_eq!(rig.take_seen(), [(IO, Seen::Data { cid: 71 })]);
    rig.complete(Err(VolumeErrorKind::Unreachable));
    assert_eq!(rig.take_seen(), [done(IO, 72, Status::NAMESPACE_NOT_READY.dnr())], "another may come there");
    rig.complete(Err(VolumeErrorKind::Cancelled));
    assert_eq!(rig.take_seen(), [done(IO, 73, ABORTED.dnr()), done(ADMIN, 5, Status::SUCCESS)]);
    assert!(!rig.uses(IO, 0) && rig.uses(IO, 1));
    assert_eq!([FLUSH, READ, WRITE].map(|opcode| rig.transfer(opcode, 1, 75)), [Some(INVALID); 3]);
}

#[test]
fn a_refused_request_of_a_namespace_that_is_gone_is_not_made_again() {
    let mut rig = Rig::new(common::portal());
    rig.send(IO, &[transfer(READ, 1, 70, SMALL), transfer(READ, 3, 71, SMALL)]);
    rig.alter(|portal| keep(portal, &[3]));
    rig.take_seen();
    for _ in 0..2 {
        let (queue, _, _, request) = rig.held.pop_front().unwrap();
        rig.queues[queue].connection.handle_input(rig.now, Input::Refused(request.into()));
    }
    rig.run();
    assert_eq!(rig.take_seen(), [done(IO, 70, ABORTED.dnr())]);
    assert_eq!(rig.at_volumes(), [id(1)], "the other is judged again");
}

#[test]
fn data_that_was_asked_for_is_passed_over_and_all_memory_comes_back() {
    let mut rig = Rig::starved(common::portal());
    rig.send(IO, &[transfer(WRITE, 1, 70, LARGE), transfer(WRITE, 1, 71, LARGE)]);
    rig.send(IO, &[transfer(READ, 3, 72, LARGE)]);
    let [(IO, Seen::R2t { cid: 70, ttag })] = rig.take_seen()[..] else { panic!("no R2T") };
    rig.alter(|portal| keep(portal, &[3]));
    let ended = [done(IO, 71, ABORTED.dnr()), done(IO, 70, ABORTED.dnr()), event(90, NAMESPACE_EVENT)];
    let seen = rig.take_seen();
    assert!(seen.len() == 3 && ended.iter().all(|each| seen.contains(each)), "{seen:?}");
    assert_eq!(rig.at_volumes(), [id(1)], "what waited behind them has the memory");
    rig.send_data(70, ttag);
    assert_eq!((rig.at_volumes(), rig.take_seen()), (vec![id(1)], Vec::new()));
    rig.complete(Ok(()));
    assert_eq!(rig.take_seen(), [(IO, Seen::Data { cid: 72 })]);
    rig.data.clear();
    assert!(rig.pool.take(LARGE as usize).is_some(), "the only large buffer is still in use");
    assert!(!rig.uses(IO, 0));
}

#[test]
fn a_write_under_way_finds_its_namespace_in_another_place() {
    let mut rig = Rig::new(with(vec![namespace(1, 0, 512), namespace(3, 1, 4096), namespace(5, 2, 512)]));
    rig.send(IO, &[transfer(WRITE, 3, 70, LARGE)]);
    let [(IO, Seen::R2t { ttag, .. })] = rig.take_seen()[..] else { panic!("no R2T") };
    rig.alter(|portal| keep(portal, &[3, 5]));
    rig.send_data(70, ttag);
    assert_eq!(rig.at_volumes(), [id(1)]);
}

#[test]
fn a_flush_of_all_leaves_no_namespace_out() {
    let all = || with(vec![namespace(1, 0, 512), namespace(3, 1, 4096), namespace(5, 2, 512)]);
    let everything = command(SubmissionQueueEntry::new(FLUSH, ALL_NAMESPACES), 70);
    let mut rig = Rig::new(all());
    rig.send(IO, &[everything]);
    rig.complete(Ok(()));
    rig.alter(|portal| keep(portal, &[3, 5]));
    rig.take_seen();
    assert_eq!([rig.complete(Ok(())), rig.complete(Ok(()))], [id(1), id(2)]);
    assert_eq!(rig.take_seen(), [done(IO, 70, Status::SUCCESS)]);

    // The one that goes is just being flushed: the host may try again.
    for how in [Ok(()), Err(VolumeErrorKind::Cancelled)] {
        let mut rig = Rig::new(all());
        rig.send(IO, &[everything]);
        rig.complete(Ok(()));
        rig.alter(|portal| keep(portal, &[1, 5]));
        rig.take_seen();
        assert_eq!((rig.complete(how), rig.cancelled), (id(1), 1));
        assert_eq!(rig.take_seen(), [done(IO, 70, ABORTED)]);
    }
}

#[test]
fn namespaces_that_stay_keep_what_is_known_of_their_volumes() {
    let mut rig = Rig::new(common::portal());
    let other = Registrant::Host { identifier: [9; 16], nqn: "nqn.other".into() };
    let view = View {
        registrations: vec![Registration { registrant: other.clone(), key: 1 }],
        reservation: Some((ReservationType::WriteExclusive, Some(other))),
        ..View::default()
    };
    let (notices, aborted) = (Arc::new([]), Arc::new([]));
    let reservations = Some(Reservations { view: view.into(), notices, aborted });
    let fence = Input::Fence { volume: id(1), epoch: Epoch(7), reservations };
    rig.queues[IO].connection.handle_input(rig.now, fence);
    rig.alter(|portal| {
        keep(portal, &[3]);
        subsystem(portal).namespaces.insert(0, namespace(2, 4, 512));
    });
    rig.take_seen();
    assert_eq!(rig.transfer(WRITE, 3, 70), Some(Status::RESERVATION_CONFLICT.dnr()));
    assert_eq!([3, 2].map(|nsid| rig.transfer(READ, nsid, 71 + nsid as u16)), [None, None]);
    let judged: Vec<_> = rig.held.iter().map(|(_, volume, epoch, _)| (*volume, *epoch)).collect();
    assert_eq!(judged, [(id(1), Epoch(7)), (id(4), Epoch(0))]);
}

/// The host's commands to the volume of before may still be on their way.
#[test]
fn another_volume_does_not_get_the_commands_of_the_one_before() {
    let mut rig = Rig::starved(common::portal());
    rig.send(IO, &[transfer(WRITE, 1, 70, LARGE), transfer(READ, 1, 71, LARGE)]);
    let [(IO, Seen::R2t { cid: 70, ttag })] = rig.take_seen()[..] else { panic!("no R2T") };
    rig.alter(|portal| subsystem(portal).namespaces[0].volume = id(4));
    let seen = rig.take_seen();
    assert!(seen.contains(&done(IO, 70, ABORTED.dnr())) && seen.contains(&done(IO, 71, ABORTED.dnr())));
    rig.send_data(70, ttag);
    assert_eq!((rig.changed(), rig.active()), (vec![1], vec![3]), "first it is gone");
    rig.request_event(91);
    assert_eq!(rig.transfer(READ, 1, 72), Some(INVALID));
    // What changes meanwhile does not bring it back.
    rig.alter(|portal| subsystem(portal).limits.depth = 64);
    rig.pass(REUSE_TIME - Duration::from_millis(1));
    assert_eq!(rig.transfer(READ, 1, 72), Some(INVALID));
    assert_eq!(rig.at_volumes(), []);
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.take_seen(), [], "the host is told once every queue has it");
    assert_eq!((rig.transfer(READ, 1, 72), rig.at_volumes()), (None, vec![id(4)]));
    rig.pass(REPORT_TIME - REUSE_TIME);
    assert_eq!(rig.take_seen(), [event(91, NAMESPACE_EVENT)]);
    assert_eq!((rig.changed(), rig.active()), (vec![1], vec![1, 3]));
    rig.pass(REPORT_TIME);
    assert_eq!((rig.take_seen(), rig.close(ADMIN), rig.close(IO)), (Vec::new(), None, None));
}

#[test]
fn a_namespace_that_comes_back_at_once_is_another_one() {
    let mut rig = Rig::new(common::portal());
    rig.alter(|portal| keep(portal, &[3]));
    assert_eq!((rig.take_seen(), rig.changed()), (vec![event(90, NAMESPACE_EVENT)], vec![1]));
    rig.pass(Duration::from_secs(1));
    rig.alter(|portal| subsystem(portal).namespaces.insert(0, namespace(1, 4, 512)));
    assert_eq!((rig.transfer(READ, 1, 70), rig.active()), (Some(INVALID), vec![3]));
    rig.pass(REUSE_TIME - Duration::from_secs(1));
    assert_eq!((rig.transfer(READ, 1, 70), rig.at_volumes()), (None, vec![id(4)]));
}

/// What the host was told of the controller holds for the namespaces that it was told of.
#[test]
fn a_new_namespace_of_a_shorter_transfer_shortens_no_other() {
    let mut rig = Rig::new(common::portal());
    rig.alter(|portal| {
        let mut short = namespace(5, 2, 512);
        short.limits.max_transfer = 16 << 10;
        subsystem(portal).namespaces.push(short);
    });
    rig.take_seen();
    rig.send(IO, &[transfer(READ, 1, 70, LARGE), transfer(READ, 5, 71, LARGE)]);
    assert_eq!(rig.take_seen(), [done(IO, 71, Status::INVALID_FIELD.dnr())]);
    assert_eq!((rig.transfer(READ, 5, 72), rig.at_volumes()), (None, vec![id(0), id(2)]));
}

#[test]
fn a_query_about_a_namespace_that_is_gone_ends() {
    let mut rig = Rig::new(common::portal());
    let query = GetLbaStatus { start: 0, length: 4096, blocks: None, action: TRACKED_ALLOCATED };
    let mut entry = command(query.encode(1), 70);
    entry.dptr = SglDescriptor::transport(4096);
    rig.send(ADMIN, &[entry]);
    assert!(rig.uses(ADMIN, 0));
    rig.alter(|portal| keep(portal, &[3]));
    assert_eq!((rig.take_seen(), rig.cancelled), (vec![event(90, NAMESPACE_EVENT)], 1));
    assert!(rig.uses(ADMIN, 0), "it is still asked");
    rig.complete(Err(VolumeErrorKind::Cancelled));
    assert_eq!(rig.take_seen(), [done(ADMIN, 70, ABORTED.dnr())]);
    assert!(!rig.uses(ADMIN, 0));
}

#[test]
fn what_was_set_for_a_namespace_goes_with_it() {
    let mut rig = Rig::new(common::portal());
    let mut mask = features::set(features::fid::RESERVATION_MASK, 0b1110);
    mask.nsid.set(1);
    rig.send(ADMIN, &[command(mask, 5)]);
    assert_eq!(rig.answer(), (Status::SUCCESS, 0));
    rig.alter(|portal| keep(portal, &[3]));
    rig.alter(|portal| subsystem(portal).namespaces.insert(0, namespace(1, 4, 512)));
    rig.pass(REPORT_TIME);
    rig.take_seen();
    let mut get = mask;
    get.opcode = 0x0a;
    rig.send(ADMIN, &[command(get, 5)]);
    assert_eq!(rig.answer(), (Status::SUCCESS, 0));
}

#[test]
fn the_queues_of_a_subsystem_that_is_withdrawn_go_on_for_a_while() {
    type Alteration = fn(&mut Portal);
    let cases: [(Alteration, CloseReason); 2] = [(remove_subsystem, GONE), (close_subsystem, CLOSED)];
    for (alteration, reason) in cases {
        let mut rig = Rig::new(common::portal());
        rig.send(IO, &[transfer(READ, 1, 70, SMALL)]);
        rig.alter(alteration);
        assert_eq!((rig.take_seen(), rig.cancelled), (vec![event(90, NAMESPACE_EVENT)], 0));
        assert_eq!((rig.changed(), rig.active()), (vec![1, 3], vec![]));
        assert_eq!([ADMIN, IO].map(|queue| rig.uses(queue, 0)), [false, true]);
        rig.complete(Ok(()));
        assert_eq!(rig.take_seen(), [(IO, Seen::Data { cid: 70 })]);
        rig.pass(WITHDRAW_TIME - Duration::from_millis(1));
        // A command on the admin queue puts nothing off; another change does neither.
        assert_eq!(rig.active(), []);
        rig.alter(|portal| portal.require_digests = true);
        assert_eq!(rig.transfer(READ, 1, 71), None);
        rig.complete(Ok(()));
        assert_eq!(rig.take_seen(), [(IO, Seen::Data { cid: 71 })]);
        assert_eq!([ADMIN, IO].map(|queue| rig.close(queue)), [None; 2]);
        rig.pass(Duration::from_millis(1));
        assert_eq!([ADMIN, IO].map(|queue| rig.close(queue)), [Some(reason); 2]);
        assert!(!rig.uses(IO, 0));
        assert_eq!(rig.take_seen(), []);
    }
}

#[test]
fn a_subsystem_that_comes_back_is_there_for_who_connects_again() {
    let mut rig = Rig::new(common::portal());
    let before = Arc::clone(&rig.portal.subsystems[0]);
    rig.alter(remove_subsystem);
    rig.alter(|portal| portal.subsystems.push(before));
    rig.pass(WITHDRAW_TIME);
    assert_eq!([ADMIN, IO].map(|queue| rig.close(queue)), [Some(GONE); 2]);
    rig.take_seen();
    let queue = rig.connect(NQN, 0);
    assert_eq!(rig.answer().0, Status::SUCCESS);
    assert!(rig.uses(queue, 0));
}

#[test]
fn who_is_told_to_close_before_says_why() {
    let mut rig = Rig::new(common::portal());
    rig.alter(remove_subsystem);
    rig.queues[IO].connection.handle_input(rig.now, Input::Group(Reply::Close));
    assert_eq!(rig.close(IO), Some(GONE));
}

#[test]
fn a_controller_of_a_withdrawn_subsystem_is_still_to_be_kept_alive() {
    let mut rig = Rig::new(common::portal());
    let keep_alive = features::set(features::fid::KEEP_ALIVE, 1000);
    rig.send(ADMIN, &[command(keep_alive, 5)]);
    rig.alter(remove_subsystem);
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.close(ADMIN), Some(CloseReason::TimedOut("the keep alive timer expired")));

    // And one whose namespace is gone, until that is over and after it.
    for wait in [1, 4] {
        let mut rig = Rig::new(common::portal());
        rig.send(ADMIN, &[command(features::set(features::fid::KEEP_ALIVE, 5000), 5)]);
        rig.alter(|portal| keep(portal, &[3]));
        rig.pass(Duration::from_secs(wait));
        assert_eq!(rig.close(ADMIN), None);
        rig.pass(Duration::from_secs(7 - wait));
        assert_eq!(rig.close(ADMIN), Some(CloseReason::TimedOut("the keep alive timer expired")));
    }
}
