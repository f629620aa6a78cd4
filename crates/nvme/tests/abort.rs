//! Abort in every state of the command that it names (NVMe Base §5.1.1): raw queues of one controller and its group.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;

use std::collections::VecDeque;
use std::sync::Arc;

use buf::Pool;
use nvme::allocation::{GetLbaStatus, TRACKED_ALLOCATED};
use nvme::controller::{Action, Connection, Input};
use nvme::fabrics::{Connect, ConnectData, Property, PropertySize};
use nvme::limits::{ABANDONED, ABORTS, MEMORY_RETRY, QUIESCE_TIME};
use nvme::pdu::{C2hData, CapsuleCmd, CapsuleResp, Digests, H2cData, IcReq, R2t, flags};
use nvme::sgl::SglDescriptor;
use nvme::sqe::{ALL_NAMESPACES, SubmissionQueueEntry};
use nvme::status::Status;
use nvme::subsystem::{Reply, Subsystems};
use protocol::pair::Half;
use protocol::{CloseReason, Connection as _, Ended, Group as _, GroupMessage, Instant};
use volume::{
    Allocation, Completion, Extent, Operation, Outcome, Request, Submission, Tag, VolumeErrorKind, VolumeId,
};
use zerocopy::{FromBytes, IntoBytes};

const NOW: Instant = Instant::ZERO;
const FLUSH: u8 = 0;
const WRITE: u8 = 1;
const READ: u8 = 2;
const LARGE: u32 = 65536;
/// Room for what connections hold besides data.
const TABLES: usize = 48 << 10;
const SMALL: u32 = 4096;
const ABORTED: Status = Status::ABORT_REQUESTED;

/// What a host receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Done { cid: u16, status: Status, result: u64 },
    R2t { cid: u16, ttag: u16 },
    Data { cid: u16 },
}

/// What the command's own queue says of an aborted command.
const fn aborted(cid: u16) -> (usize, Seen) {
    (1, Seen::Done { cid, status: ABORTED, result: 0 })
}

/// What the admin queue says of an Abort: `bit` is Immediate Abort Not Performed.
const fn answer(cid: u16, bit: u64) -> (usize, Seen) {
    (0, Seen::Done { cid, status: Status::SUCCESS, result: bit })
}

const fn good(queue: usize, cid: u16) -> (usize, Seen) {
    (queue, Seen::Done { cid, status: Status::SUCCESS, result: 0 })
}

/// A controller's admin queue (0) and its I/O queues, with a group and a volume that keeps what it is given.
struct Rig {
    group: Subsystems<usize>,
    pool: Pool,
    queues: Vec<Half<Connection>>,
    held: VecDeque<(usize, VolumeId, Request)>,
    cancelled: Vec<(usize, Tag)>,
    seen: Vec<(usize, Seen)>,
    digest: bool,
}

impl Rig {
    fn new(io_queues: u16) -> Self {
        Self::with(io_queues, Pool::new(16 << 20), false)
    }

    /// Room for one large buffer, beside the little that Connect needs.
    fn starved() -> Self {
        Self::with(1, Pool::new(LARGE as usize + TABLES), false)
    }

    fn with(io_queues: u16, pool: Pool, digest: bool) -> Self {
        let (group, queues) = (Subsystems::new(), Vec::new());
        let (held, cancelled, seen) = (VecDeque::new(), Vec::new(), Vec::new());
        let mut rig = Self { group, pool, queues, held, cancelled, seen, digest };
        rig.connect(0);
        rig.send(0, &[command(Property::set(0x14, 0x0046_0001), 1)]);
        (1..=io_queues).for_each(|qid| rig.connect(qid));
        rig.seen.clear();
        rig
    }

    fn connect(&mut self, qid: u16) {
        let portal = Arc::new(common::portal());
        let mut half = Half::new(Connection::new(portal, self.pool.clone(), NOW));
        half.receive(NOW, IcReq::new(Digests { header: false, data: self.digest }, 0).as_bytes());
        half.transmit(NOW);
        self.queues.push(half);
        let cntlid = if qid == 0 { 0xffff } else { 1 };
        let data = ConnectData::new(&common::host_identity(), cntlid, common::NQN);
        let pdu = self.capsule(command(Connect::entry(qid, 31, 0), 1), data.as_bytes());
        self.bytes(qid.into(), &pdu);
    }

    fn capsule(&self, mut entry: SubmissionQueueEntry, data: &[u8]) -> Vec<u8> {
        let mut pdu = CapsuleCmd::new(entry);
        if data.is_empty() {
            return pdu.as_bytes().to_vec();
        }
        entry.dptr = SglDescriptor::in_capsule(data.len() as u32);
        pdu.entry = entry;
        pdu.header.pdo = 72;
        self.with_data((pdu.as_mut_bytes(), 72), data)
    }

    /// A PDU with its data, and the data's digest if that was agreed.
    fn with_data(&self, (header, hlen): (&mut [u8], usize), data: &[u8]) -> Vec<u8> {
        let digest = if self.digest { wire::crc32c(data).to_le_bytes().to_vec() } else { Vec::new() };
        header[1] |= u8::from(self.digest) * flags::DDGST;
        header[4..8].copy_from_slice(&((hlen + data.len() + digest.len()) as u32).to_le_bytes());
        [header, data, &digest].concat()
    }

    fn h2c(&self, (cid, ttag): (u16, u16), (offset, length): (u32, u32), last: bool) -> Vec<u8> {
        let mut pdu = H2cData::new(cid, ttag, offset, length);
        pdu.header.flags = u8::from(last) * flags::LAST;
        pdu.header.pdo = 24;
        self.with_data((pdu.as_mut_bytes(), 24), &vec![7; length as usize])
    }

    fn bytes(&mut self, queue: usize, bytes: &[u8]) {
        self.queues[queue].receive(NOW, bytes);
        self.run();
    }

    fn send(&mut self, queue: usize, entries: &[SubmissionQueueEntry]) {
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| self.capsule(*entry, &[])).collect();
        self.bytes(queue, &bytes);
    }

    /// Aborts `cid` of queue `qid` by a command that is called `own`.
    fn abort(&mut self, own: u16, (qid, cid): (u16, u16)) {
        self.send(0, &[abort(own, (qid, cid))]);
    }

    /// A write that waits for its data; its transfer tag.
    fn write(&mut self, cid: u16) -> u16 {
        self.send(1, &[transfer(WRITE, cid, LARGE)]);
        match self.take_seen()[..] {
            [(1, Seen::R2t { cid: asked, ttag })] if asked == cid => ttag,
            ref other => panic!("{other:?}"),
        }
    }

    fn input(&mut self, queue: usize, input: Input) {
        self.queues[queue].connection.handle_input(NOW, input);
        self.run();
    }

    /// Ends the oldest request that the volume has.
    fn complete(&mut self, how: Result<(), VolumeErrorKind>) {
        let (queue, _, request) = self.held.pop_front().unwrap();
        let result = how.map(|()| match request.operation {
            Operation::Read { into, .. } => Outcome::Data(into.freeze().into()),
            Operation::QueryAllocation { extent } => {
                let half = Extent::new(extent.start, extent.blocks.div_ceil(2));
                Outcome::Allocation(Allocation { extent: half, mapped: true })
            }
            _ => Outcome::Done,
        });
        self.input(
            queue,
            Input::Completion(Completion { tag: request.tag, result: result.map_err(VolumeErrorKind::into) }),
        );
    }

    /// Lets everything happen, one action at a time; what is sent is seen in the order in which it was queued.
    fn run(&mut self) {
        while self.step() {}
    }

    fn step(&mut self) -> bool {
        for queue in 0..self.queues.len() {
            self.queues[queue].receive(NOW, &[]);
            let bytes = self.queues[queue].transmit(NOW);
            self.seen.extend(parse(&bytes).into_iter().map(|seen| (queue, seen)));
            match self.queues[queue].connection.poll_action() {
                None => continue,
                Some(Action::Submit(Submission { volume, request, .. })) => {
                    self.held.push_back((queue, volume, request));
                }
                Some(Action::Cancel { tag, .. }) => self.cancelled.push((queue, tag)),
                Some(Action::Reserve { .. }) => panic!("nothing is reserved here"),
                Some(Action::Group(request)) => self.group.handle_message(NOW, queue, request),
            }
            return true;
        }
        let Some(GroupMessage { to, message: reply }) = self.group.poll_message() else { return false };
        self.queues[to].connection.handle_input(NOW, Input::Group(reply));
        true
    }

    fn take_seen(&mut self) -> Vec<(usize, Seen)> {
        std::mem::take(&mut self.seen)
    }

    /// Requires that no large buffer is missing from a starved rig's pool.
    fn all_memory_is_back(&self) {
        assert!(self.pool.take(LARGE as usize).is_some(), "the only large buffer is still in use");
    }
}

fn command(mut entry: SubmissionQueueEntry, cid: u16) -> SubmissionQueueEntry {
    entry.cid.set(cid);
    entry
}

fn abort(own: u16, (qid, cid): (u16, u16)) -> SubmissionQueueEntry {
    command(SubmissionQueueEntry::new(8, 0).with(10, u32::from(cid) << 16 | u32::from(qid)), own)
}

fn transfer(opcode: u8, cid: u16, length: u32) -> SubmissionQueueEntry {
    let mut entry = SubmissionQueueEntry::new(opcode, 1).with(12, length / 512 - 1);
    entry.dptr = SglDescriptor::transport(length);
    command(entry, cid)
}

/// The PDUs that a controller has sent.
fn parse(mut bytes: &[u8]) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some(kind) = bytes.first() {
        let length = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        let (pdu, rest) = bytes.split_at(length);
        bytes = rest;
        match kind {
            1 => {}
            5 => {
                let entry = CapsuleResp::read_from_bytes(pdu).unwrap().entry;
                let (cid, status, result) = (entry.cid.get(), entry.status(), entry.result());
                seen.push(Seen::Done { cid, status, result });
            }
            7 => seen.push(Seen::Data { cid: C2hData::read_from_prefix(pdu).unwrap().0.cccid.get() }),
            9 => {
                let r2t = R2t::read_from_prefix(pdu).unwrap().0;
                seen.push(Seen::R2t { cid: r2t.cccid.get(), ttag: r2t.ttag.get() });
            }
            other => panic!("a PDU of type {other}"),
        }
    }
    seen
}

#[test]
fn a_command_with_its_volume_is_cancelled_there_and_answered_first() {
    let mut rig = Rig::new(2);
    rig.send(1, &[transfer(READ, 70, SMALL)]);
    rig.send(2, &[transfer(READ, 70, SMALL)]);
    rig.abort(5, (1, 70));
    let (queue, _, request) = rig.held.front().unwrap();
    assert_eq!(rig.cancelled, [(*queue, request.tag)], "only the command of the queue that was named");
    assert_eq!(rig.take_seen(), [], "the volume still has it");
    rig.complete(Err(VolumeErrorKind::Cancelled));
    assert_eq!(rig.take_seen(), [aborted(70), answer(5, 0)]);
    rig.complete(Ok(()));
    assert_eq!(rig.take_seen(), [(2, Seen::Data { cid: 70 })], "the other was left alone");
}

#[test]
fn a_command_that_ends_otherwise_was_not_aborted() {
    let mut rig = Rig::new(1);
    rig.send(1, &[transfer(READ, 70, SMALL), transfer(READ, 71, SMALL)]);
    rig.abort(5, (1, 70));
    rig.abort(6, (1, 71));
    rig.complete(Ok(()));
    assert_eq!(rig.take_seen(), [(1, Seen::Data { cid: 70 }), answer(5, 1)]);
    rig.complete(Err(VolumeErrorKind::Media));
    let failed = Seen::Done { cid: 71, status: Status::UNRECOVERED_READ, result: 0 };
    assert_eq!(rig.take_seen(), [(1, failed), answer(6, 1)]);
}

#[test]
fn what_is_not_there_is_not_aborted() {
    let mut rig = Rig::new(1);
    rig.send(1, &[transfer(READ, 70, SMALL)]);
    rig.complete(Ok(()));
    rig.take_seen();
    let absent = [(1, 70), (1, 999), (2, 70), (0xffff, 0), (0, 999), (0, 5)];
    for (qid, cid) in absent {
        rig.abort(5, (qid, cid));
        assert_eq!(rig.take_seen(), [answer(5, 1)], "command {cid} of queue {qid}");
    }
    assert_eq!(rig.cancelled, []);
}

#[test]
fn two_aborts_of_one_command_cancel_it_once_and_are_both_answered() {
    let mut rig = Rig::new(1);
    rig.send(1, &[transfer(READ, 70, SMALL)]);
    rig.abort(5, (1, 70));
    rig.abort(6, (1, 70));
    assert_eq!(rig.cancelled.len(), 1);
    rig.complete(Err(VolumeErrorKind::Cancelled));
    assert_eq!(rig.take_seen(), [aborted(70), answer(5, 0), answer(6, 0)]);
}

#[test]
fn of_a_command_with_several_requests_the_rest_is_left_undone() {
    let mut rig = Rig::new(1);
    let mut everything = SubmissionQueueEntry::new(FLUSH, 1);
    everything.nsid.set(ALL_NAMESPACES);
    rig.send(1, &[command(everything, 70)]);
    rig.abort(5, (1, 70));
    rig.complete(Ok(()));
    assert_eq!(rig.take_seen(), [aborted(70), answer(5, 0)], "one of two namespaces was flushed");
    assert!(rig.held.is_empty());
    rig.send(1, &[command(everything, 70)]);
    rig.complete(Ok(()));
    rig.abort(5, (1, 70));
    rig.complete(Ok(()));
    assert_eq!(rig.take_seen(), [good(1, 70), answer(5, 1)], "it had come to its last");
}

/// Get LBA Status is carried by the admin queue, on which its Abort comes too, and asks its volume run by run.
#[test]
fn a_query_of_allocation_ends_with_the_run_that_is_asked_for() {
    let status = GetLbaStatus { start: 0, length: 24, blocks: None, action: TRACKED_ALLOCATED };
    let mut query = status.encode(1);
    query.dptr = SglDescriptor::transport(24);
    let mut rig = Rig::new(1);
    for how in [Err(VolumeErrorKind::Cancelled), Ok(())] {
        rig.send(0, &[command(query, 70)]);
        rig.abort(5, (0, 70));
        let (queue, _, request) = rig.held.front().unwrap();
        assert!(matches!(request.operation, Operation::QueryAllocation { .. }), "{:?}", request.operation);
        assert_eq!(std::mem::take(&mut rig.cancelled), [(*queue, request.tag)]);
        assert_eq!(rig.take_seen(), [], "the volume still has it");
        rig.complete(how);
        let aborted = Seen::Done { cid: 70, status: ABORTED, result: 0 };
        assert_eq!(rig.take_seen(), [(0, aborted), answer(5, 0)], "{how:?}");
        assert!(rig.held.is_empty(), "the next run is not asked for");
    }
    rig.send(0, &[command(query, 70)]);
    rig.complete(Ok(()));
    assert_eq!(rig.held.len(), 1, "one that goes on asks for it");
    while !rig.held.is_empty() {
        rig.complete(Ok(()));
    }
    assert_eq!(rig.take_seen(), [(0, Seen::Data { cid: 70 })]);
    rig.abort(5, (0, 70));
    assert_eq!(rig.take_seen(), [answer(5, 1)], "it is over");
}

#[test]
fn a_write_that_waits_for_data_ends_at_once_and_its_data_is_passed_over() {
    for digest in [false, true] {
        let mut rig = Rig::with(1, Pool::new(LARGE as usize + TABLES), digest);
        let ttag = rig.write(70);
        rig.abort(5, (1, 70));
        assert_eq!(rig.take_seen(), [aborted(70), answer(5, 0)]);
        rig.all_memory_is_back();
        let first = rig.h2c((70, ttag), (0, LARGE / 2), false);
        rig.bytes(1, &first);
        let again = rig.write(70);
        assert_ne!(again, ttag, "the old tag still names the old transfer");
        let pieces =
            [rig.h2c((70, ttag), (LARGE / 2, LARGE / 2), true), rig.h2c((70, again), (0, LARGE), true)];
        rig.bytes(1, &pieces.concat());
        assert_eq!(rig.held.len(), 1, "the new command's data is its own");
        rig.complete(Ok(()));
        assert_eq!(rig.take_seen(), [good(1, 70)]);
        let beyond = rig.h2c((70, ttag), (0, 512), false);
        rig.queues[1].receive(NOW, &beyond);
        let close = rig.queues[1].connection.poll_close();
        assert!(matches!(close, Some(CloseReason::Violation(_))), "the transfer is over, {close:?}");
    }
}

#[test]
fn data_of_an_aborted_write_must_still_obey_the_rules() {
    for (offset, length, last) in [(512, 512, false), (0, LARGE * 2, true), (0, 512, true), (0, LARGE, false)]
    {
        let mut rig = Rig::new(1);
        let ttag = rig.write(70);
        rig.abort(5, (1, 70));
        let wrong = rig.h2c((70, ttag), (offset, length), last);
        rig.queues[1].receive(NOW, &wrong);
        let close = rig.queues[1].connection.poll_close();
        assert!(matches!(close, Some(CloseReason::Violation(_))), "{offset} {length} {last}");
    }
}

#[test]
fn a_piece_of_data_that_is_just_coming_is_awaited() {
    for digest in [false, true] {
        let mut rig = Rig::with(1, Pool::new(LARGE as usize + TABLES), digest);
        let ttag = rig.write(70);
        let first = rig.h2c((70, ttag), (0, LARGE / 2), false);
        let (before, after) = first.split_at(1000);
        rig.bytes(1, before);
        rig.abort(5, (1, 70));
        assert_eq!(rig.take_seen(), []);
        rig.bytes(1, after);
        assert_eq!(rig.take_seen(), [aborted(70), answer(5, 0)]);
        rig.all_memory_is_back();
        let rest = rig.h2c((70, ttag), (LARGE / 2, LARGE / 2), true);
        rig.bytes(1, &rest);

        let whole = rig.capsule(transfer(WRITE, 71, SMALL), &[7; SMALL as usize]);
        let (before, after) = whole.split_at(1000);
        rig.bytes(1, before);
        rig.abort(5, (1, 71));
        assert_eq!(rig.take_seen(), []);
        rig.bytes(1, after);
        assert_eq!(rig.take_seen(), [aborted(71), answer(5, 0)]);
        assert!(rig.held.is_empty(), "nothing reached the volume");
    }
}

#[test]
fn an_r2t_that_was_not_sent_is_taken_back() {
    let mut rig = Rig::starved();
    let pdu = rig.capsule(transfer(WRITE, 70, LARGE), &[]);
    rig.queues[1].receive(NOW, &pdu);
    rig.input(1, Input::Group(Reply::Abort { cid: 70, tag: 0 }));
    assert_eq!(rig.take_seen(), [aborted(70)]);
    rig.all_memory_is_back();
}

#[test]
fn a_command_that_waits_for_memory_ends_and_its_successor_is_served() {
    let mut rig = Rig::starved();
    let reads = [70, 71, 72].map(|cid| transfer(READ, cid, LARGE));
    rig.send(1, &reads);
    rig.abort(5, (1, 71));
    assert_eq!(rig.take_seen(), [aborted(71), answer(5, 0)]);
    rig.complete(Ok(()));
    assert_eq!(rig.take_seen(), [(1, Seen::Data { cid: 70 })]);
    rig.queues[1].connection.handle_timeout(NOW + MEMORY_RETRY);
    rig.run();
    rig.complete(Ok(()));
    assert_eq!(rig.take_seen(), [(1, Seen::Data { cid: 72 })]);
    assert!(rig.held.is_empty());
    rig.all_memory_is_back();
}

#[test]
fn a_write_whose_memory_is_freed_lets_the_next_one_begin() {
    let mut rig = Rig::starved();
    rig.write(70);
    rig.send(1, &[transfer(WRITE, 71, LARGE)]);
    assert_eq!(rig.take_seen(), []);
    rig.abort(5, (1, 70));
    let seen = rig.take_seen();
    assert!(matches!(seen[..], [(1, _), (1, Seen::R2t { cid: 71, .. }), (0, _)]), "{seen:?}");
}

#[test]
fn a_command_that_waits_in_the_stream_for_memory_ends_when_it_is_read() {
    let mut rig = Rig::starved();
    rig.send(1, &[transfer(READ, 70, LARGE)]);
    let write = rig.capsule(transfer(WRITE, 71, SMALL), &[7; SMALL as usize]);
    let flush = rig.capsule(command(SubmissionQueueEntry::new(FLUSH, 1), 72), &[]);
    let _rest: Vec<_> = std::iter::from_fn(|| rig.pool.take(512)).collect();
    rig.bytes(1, &[write, flush].concat());
    assert!(!rig.queues[1].connection.wants_bytes(), "the pool is empty");
    rig.abort(5, (1, 71));
    assert_eq!(rig.take_seen(), [aborted(71), answer(5, 0)]);
    let behind = &rig.held.back().unwrap().2.operation;
    assert!(matches!(behind, Operation::Flush), "what came behind it goes on");
    assert_eq!(rig.held.len(), 2);
}

#[test]
fn an_asynchronous_event_request_is_aborted() {
    let mut rig = Rig::new(0);
    let request = |cid| command(SubmissionQueueEntry::new(0x0c, 0), cid);
    rig.send(0, &[request(20), request(21)]);
    rig.abort(5, (0, 20));
    let gone = (0, Seen::Done { cid: 20, status: ABORTED, result: 0 });
    assert_eq!(rig.take_seen(), [gone, answer(5, 0)]);
    // The namespace notice is wanted; the request that is left reports it.
    rig.send(0, &[command(SubmissionQueueEntry::new(9, 0).with(10, 0x0b).with(11, 1 << 8), 6)]);
    rig.take_seen();
    let geometry = common::portal().subsystems[0].namespaces[0].geometry;
    rig.input(0, Input::NamespaceChanged { volume: VolumeId::new(0, 0), geometry });
    assert_eq!(rig.take_seen(), [(0, Seen::Done { cid: 21, status: Status::SUCCESS, result: 0x0004_0002 })]);
}

#[test]
fn more_aborts_than_announced_are_refused_until_one_has_ended() {
    let mut rig = Rig::new(1);
    let reads: Vec<_> = (70..76).map(|cid| transfer(READ, cid, SMALL)).collect();
    rig.send(1, &reads);
    for own in 0..u16::from(ABORTS) {
        rig.abort(own, (1, 70 + own));
    }
    assert_eq!(rig.take_seen(), []);
    rig.abort(9, (1, 75));
    assert_eq!(rig.take_seen(), [(0, Seen::Done { cid: 9, status: Status::ABORT_LIMIT, result: 0 })]);
    rig.complete(Err(VolumeErrorKind::Cancelled));
    assert_eq!(rig.take_seen(), [aborted(70), answer(0, 0)]);
    rig.abort(9, (1, 75));
    assert_eq!(rig.take_seen(), []);
    assert_eq!(rig.cancelled.len(), usize::from(ABORTS) + 1);
}

#[test]
fn an_abort_at_a_queue_that_goes_away_is_answered() {
    let mut rig = Rig::new(2);
    rig.send(1, &[transfer(READ, 70, SMALL)]);
    rig.abort(5, (1, 70));
    rig.queues[1].end(NOW, Ended::ByPeer);
    rig.group.handle_leave(NOW, 1);
    rig.run();
    assert_eq!(rig.take_seen(), [answer(5, 1)], "nobody can tell any more");
    rig.complete(Err(VolumeErrorKind::Cancelled));
    rig.take_seen();
    rig.send(2, &[transfer(READ, 70, SMALL)]);
    rig.abort(6, (2, 70));
    rig.send(0, &[command(Property::set(0x14, 0), 7)]);
    assert_eq!(rig.take_seen(), [answer(6, 1)], "the controller is disabled");
    rig.complete(Err(VolumeErrorKind::Cancelled));
    assert_eq!(rig.take_seen(), [good(0, 7)], "and it is when the command has ended");
}

#[test]
fn a_host_that_owes_data_keeps_its_queue_and_at_last_must_send() {
    let mut rig = Rig::new(1);
    let tags: Vec<u16> = (0..ABANDONED)
        .map(|cid| {
            let ttag = rig.write(cid);
            rig.abort(500, (1, cid));
            assert_eq!(rig.take_seen(), [aborted(cid), answer(500, 0)]);
            ttag
        })
        .collect();
    let last = rig.write(ABANDONED);
    rig.abort(500, (1, ABANDONED));
    assert_eq!(rig.take_seen(), [], "one too many: its data has to come first");
    // A whole queue of other commands is taken all the same.
    let flushes: Vec<_> = (100..131).map(|cid| command(SubmissionQueueEntry::new(FLUSH, 1), cid)).collect();
    rig.send(1, &flushes);
    assert_eq!(rig.held.len(), flushes.len());
    let data = rig.h2c((ABANDONED, last), (0, LARGE), true);
    rig.bytes(1, &data);
    assert_eq!(rig.take_seen(), [aborted(ABANDONED), answer(500, 0)]);
    for (cid, ttag) in (0..).zip(tags) {
        let data = rig.h2c((cid, ttag), (0, LARGE), true);
        rig.bytes(1, &data);
    }
    assert_eq!(rig.queues[1].connection.poll_close(), None);
    assert_eq!(rig.held.len(), flushes.len(), "nothing of it reached the volume");
}

fn property(cid: u16, value: u32) -> SubmissionQueueEntry {
    command(Property::set(0x14, value), cid)
}

/// CSTS as the host reads it.
fn status(rig: &mut Rig) -> u64 {
    rig.take_seen();
    rig.send(0, &[command(Property::get(0x1c, PropertySize::Four), 90)]);
    match rig.take_seen()[..] {
        [(0, Seen::Done { cid: 90, status: Status::SUCCESS, result })] => result,
        ref other => panic!("{other:?}"),
    }
}

const ENABLED: u32 = 0x0046_0001;

#[test]
fn a_controller_is_not_unready_before_its_last_request_has_ended() {
    let mut rig = Rig::new(2);
    for (queue, cid) in [(1, 70), (2, 71)] {
        rig.send(queue, &[command(SubmissionQueueEntry::new(FLUSH, 1), cid)]);
    }
    rig.send(1, &[transfer(WRITE, 72, LARGE)]);
    rig.send(0, &[property(5, 0)]);
    assert_eq!(rig.cancelled.len(), 2, "what is at the volume ends soon");
    assert_eq!(status(&mut rig), 1, "NVMe Base §3.1.4.6: RDY, two requests are at the volume");
    rig.complete(Err(VolumeErrorKind::Cancelled));
    assert_eq!(status(&mut rig), 1, "one is");
    rig.complete(Ok(()));
    assert_eq!(rig.take_seen(), [good(0, 5)], "the answer waits for it too");
    assert_eq!(status(&mut rig), 0);
    rig.send(0, &[property(6, ENABLED)]);
    assert_eq!(status(&mut rig), 1, "and it begins anew");
    assert!(rig.held.is_empty(), "nothing of the old queues goes on");
}

#[test]
fn the_answer_to_a_reset_does_not_wait_for_ever() {
    let mut rig = Rig::new(1);
    rig.send(1, &[command(SubmissionQueueEntry::new(FLUSH, 1), 70)]);
    rig.send(0, &[property(5, 0)]);
    assert_eq!(rig.take_seen(), []);
    let due = rig.queues[0].connection.poll_timeout().unwrap();
    assert_eq!(due, NOW + QUIESCE_TIME);
    rig.queues[0].connection.handle_timeout(due);
    rig.run();
    assert_eq!(rig.take_seen(), [good(0, 5)]);
    assert_eq!(status(&mut rig), 1, "but it is not over");
    rig.complete(Ok(()));
    assert_eq!(status(&mut rig), 0);
}

#[test]
fn a_controller_that_is_enabled_while_it_resets_begins_once_that_is_over() {
    let mut rig = Rig::new(1);
    rig.send(1, &[command(SubmissionQueueEntry::new(FLUSH, 1), 70)]);
    rig.send(0, &[property(5, 0), property(6, ENABLED)]);
    rig.take_seen();
    let mut identify = SubmissionQueueEntry::new(6, 0).with(10, 1);
    identify.dptr = SglDescriptor::transport(4096);
    rig.send(0, &[command(identify, 7)]);
    let early = Seen::Done { cid: 7, status: Status::COMMAND_SEQUENCE.dnr(), result: 0 };
    assert_eq!(rig.take_seen(), [(0, early)]);
    rig.complete(Ok(()));
    assert_eq!(status(&mut rig), 1);
    rig.send(0, &[command(identify, 8)]);
    assert_eq!(rig.take_seen(), [(0, Seen::Data { cid: 8 })]);
}

#[test]
fn a_shutdown_is_complete_when_the_last_request_has_ended() {
    let mut rig = Rig::new(1);
    rig.send(1, &[command(SubmissionQueueEntry::new(FLUSH, ALL_NAMESPACES), 70)]);
    rig.send(0, &[property(5, ENABLED | 1 << 14)]);
    assert_eq!(status(&mut rig), 0b0101, "NVMe Base §3.6: SHST says under way");
    rig.complete(Ok(()));
    assert!(rig.held.is_empty(), "the flush does not go on to the next namespace");
    assert_eq!(status(&mut rig), 0b1001, "SHST says complete");
}

#[test]
fn a_queue_is_disconnected_when_its_commands_have_ended() {
    let mut rig = Rig::new(1);
    rig.send(1, &[command(SubmissionQueueEntry::new(FLUSH, 1), 70)]);
    let ttag = rig.write(71);
    let mut disconnect = SubmissionQueueEntry::new(0x7f, 0);
    disconnect.nsid.set(8);
    rig.send(1, &[command(disconnect, 72), command(SubmissionQueueEntry::new(FLUSH, 1), 73)]);
    let late = Seen::Done { cid: 73, status: Status::COMMAND_SEQUENCE.dnr(), result: 0 };
    assert_eq!(rig.take_seen(), [aborted(71), (1, late)], "NVMe Base §6.4: the flush is at the volume");
    assert_eq!(rig.queues[1].connection.poll_close(), None);
    let data = rig.h2c((71, ttag), (0, LARGE), true);
    rig.bytes(1, &data);
    rig.complete(Err(VolumeErrorKind::Cancelled));
    assert_eq!(rig.take_seen(), [aborted(70), good(1, 72)]);
    assert_eq!(rig.queues[1].connection.poll_close(), Some(CloseReason::Finished));
}

#[test]
fn of_a_queue_that_ended_nothing_goes_on() {
    let mut rig = Rig::new(1);
    rig.send(1, &[command(SubmissionQueueEntry::new(FLUSH, ALL_NAMESPACES), 70)]);
    rig.queues[1].end(NOW, Ended::ByPeer);
    rig.run();
    rig.complete(Ok(()));
    assert!(rig.held.is_empty(), "the next namespace is not flushed any more");
}
