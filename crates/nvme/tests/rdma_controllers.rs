//! Controllers over RDMA that break the rules: the host ends the connection, answers every request, and has its memory back.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;
mod rdma_fabric;

use buf::{Buf, BufList, Pool, SharedBuf};
use common::{Bench, Fabric as _, admin, io};
use iwarp::{Connection, Role};
use nvme::cqe::CompletionQueueEntry;
use nvme::host::{Action, Failure, Input, RemoteNamespace};
use nvme::limits::COMMAND_TIME;
use nvme::rdma::{AcceptReply, ConnectRequest, RejectReply, RejectStatus};
use nvme::sqe::SubmissionQueueEntry;
use nvme::status::Status;
use protocol::pair::{Pair, aperiodic};
use protocol::{CloseReason, Connection as _, Ended, Instant};
use rdma_fabric::{Host, Iwarp};
use verbs::{
    EndReason, PrivateData, QueueLimits, QueuePair as _, QueuePairState, RemoteRegion, STag, SetupAnswer,
    SetupEvent, WorkCompletion, WorkDone, WorkId, WorkMemory, WorkRequest,
};
use volume::{Durability, Extent, Operation, Outcome, Request, Tag, VolumeErrorKind};
use zerocopy::{FromBytes, IntoBytes};

const LARGE: usize = 65_536;

/// A namespace as a host knows it.
fn remote() -> RemoteNamespace {
    let mut remote = Bench::new().session(1, 1, (false, false));
    remote.in_capsule = 4096;
    remote
}

/// A host, and a controller's queue pair without a controller.
struct Rig {
    pair: Pair<Host, Connection>,
    done: Vec<WorkCompletion>,
}

impl Rig {
    /// An I/O queue's host that has asked for a connection.
    fn asking(config: nvme::host::Config) -> (Self, PrivateData) {
        let host = Iwarp::default().host(config, Instant::ZERO);
        let needs = QueueLimits { sends: 256, receives: 256, regions: 4, longest: 1 << 20 };
        let mut far = Iwarp::default().pair(Role::Responder, needs, &Pool::new(1 << 20));
        for _ in 0..256 {
            far.post(WorkId(0), WorkRequest::Receive { into: Buf::zeroed(8192) }).unwrap();
        }
        let mut rig = Self { pair: Pair::new(host, far), done: Vec::new() };
        rig.pair.exchange();
        let Some(SetupEvent::Requested(said)) = rig.pair.far.connection.poll_action() else { panic!() };
        (rig, said)
    }

    fn answer(&mut self, answer: SetupAnswer) {
        self.pair.far.connection.handle_input(Instant::ZERO, answer);
        self.pair.exchange();
    }

    /// An I/O queue that is ready, of a controller with so many receives.
    fn ready(receives: u16) -> Self {
        let (mut rig, _) = Self::asking(io(1, &remote()));
        rig.answer(SetupAnswer::Accept(AcceptReply::new(receives).encode()));
        let (connect, data) = rig.commands().remove(0);
        assert!(
            Rig::key(&connect).is_some() && data.is_empty(),
            "a Fabrics command has no data in its capsule"
        );
        rig.respond(connect.cid.get(), Status::SUCCESS, Rig::key(&connect));
        assert!(matches!(rig.events().as_slice(), [Action::QueueReady]));
        rig
    }

    fn events(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.pair.near.connection.poll_action()).collect()
    }

    /// The commands that have come, with the data of their capsules.
    fn commands(&mut self) -> Vec<(SubmissionQueueEntry, Vec<u8>)> {
        self.pair.exchange();
        self.pair.far.connection.poll(Instant::ZERO, &mut self.done);
        let mut commands = Vec::new();
        for WorkCompletion { result, memory, .. } in self.done.drain(..) {
            if let (Ok(WorkDone::Received { length, .. }), WorkMemory::Buf(buf)) = (result, memory) {
                let (entry, data) = SubmissionQueueEntry::read_from_prefix(&buf[..length]).unwrap();
                commands.push((entry, data.to_vec()));
            }
        }
        commands
    }

    fn key(entry: &SubmissionQueueEntry) -> Option<STag> {
        entry
            .dptr
            .data_pointer()
            .and_then(nvme::sgl::DataPointer::keyed_block)
            .filter(|block| block.length != 0)
            .map(|block| STag(block.key))
    }

    fn post(&mut self, request: WorkRequest) {
        self.pair.far.connection.post(WorkId(2), request).unwrap();
        self.pair.exchange();
    }

    fn send(&mut self, bytes: &[u8], invalidate: Option<STag>) {
        self.post(WorkRequest::Send { data: list(bytes), invalidate });
    }

    fn respond(&mut self, cid: u16, status: Status, invalidate: Option<STag>) {
        self.send(CompletionQueueEntry::new(cid, 0, status).as_bytes(), invalidate);
    }

    fn submit(&mut self, tag: u64, operation: Operation) {
        let request = Request { tag: Tag(tag), operation };
        self.pair.near.connection.handle_input(Instant::ZERO, Input::Submit(request));
    }

    fn read(&mut self, tag: u64) {
        let extent = Extent::new(0, LARGE as u64 / 512);
        self.submit(tag, Operation::Read { extent, into: Buf::zeroed(LARGE) });
    }

    fn write(&mut self, tag: u64, bytes: &[u8]) {
        let extent = Extent::new(0, bytes.len() as u64 / 512);
        self.submit(tag, Operation::Write { extent, data: list(bytes), durability: Durability::Cached });
    }

    /// The memory that the controller may use for a command.
    fn region(entry: &SubmissionQueueEntry) -> RemoteRegion {
        let block = entry.dptr.data_pointer().and_then(nvme::sgl::DataPointer::keyed_block).unwrap();
        RemoteRegion { stag: STag(block.key), offset: block.address, length: block.length as u32 }
    }

    /// Checks that the host has closed for this reason and told of it, and that the reads of these tags have failed and have their memory.
    fn ended(&mut self, text: Option<&str>, reads: &[u64]) {
        let (mut failed, mut given_back) = (0, Vec::new());
        for event in self.events() {
            match event {
                Action::Failed(Failure::Lost(words)) => {
                    failed += 1;
                    assert!(text.is_none_or(|text| text == words), "{words}");
                }
                Action::Complete(completion) => {
                    let failure = completion.result.unwrap_err();
                    assert_eq!(failure.kind, VolumeErrorKind::Unreachable);
                    assert_eq!(failure.memory.as_ref().map(|memory| memory.len()), Some(LARGE));
                    given_back.push(completion.tag.0);
                }
                other => panic!("{other:?}"),
            }
        }
        given_back.sort_unstable();
        assert_eq!((failed, given_back.as_slice()), (1, reads));
        let close = self.pair.near.connection.poll_close();
        assert!(matches!(close, Some(CloseReason::Violation(_) | CloseReason::Finished)), "{close:?}");
        self.read(99);
        let refused = self.events();
        assert!(matches!(refused.as_slice(), [Action::Complete(refused)] if refused.result.is_err()));
    }
}

fn list(bytes: &[u8]) -> BufList {
    BufList::from(SharedBuf::from(bytes.to_vec()))
}

#[test]
fn a_host_says_which_queue_it_wants() {
    let (_, said) = Rig::asking(admin(1));
    assert_eq!(ConnectRequest::decode(said.bytes()), Ok(ConnectRequest::new(0, 0, 32)));
    let remote = remote();
    let (_, said) = Rig::asking(io(3, &remote));
    assert_eq!(ConnectRequest::decode(said.bytes()), Ok(ConnectRequest::new(3, remote.cntlid, 65)));
}

#[test]
fn an_accept_that_says_nothing_is_a_violation() {
    let text = "the controller accepts the connection without saying how";
    for private_data in [&[][..], &[0; 31], &[0; 32], &[1; 32]] {
        let (mut rig, _) = Rig::asking(io(1, &remote()));
        rig.answer(SetupAnswer::Accept(PrivateData::new(private_data).unwrap()));
        rig.ended(Some(text), &[]);
        assert_eq!(rig.pair.near.connection.poll_close(), Some(CloseReason::Violation(text)));
    }
}

#[test]
fn a_reject_is_told_in_its_own_words() {
    for status in 0..=10 {
        let (mut rig, _) = Rig::asking(io(1, &remote()));
        let status = RejectStatus(status);
        rig.answer(SetupAnswer::Reject(RejectReply::new(status).encode()));
        let expected = match status {
            RejectStatus::NO_RESOURCES => Failure::Lost(status.describe()),
            _ => Failure::Unusable(status.describe()),
        };
        let events = rig.events();
        assert!(matches!(events.as_slice(), [Action::Failed(failure)] if *failure == expected), "{events:?}");
        let close = rig.pair.near.connection.poll_close();
        assert_eq!(close, Some(CloseReason::Refused(status.describe())));
    }
    let (mut rig, _) = Rig::asking(io(1, &remote()));
    rig.answer(SetupAnswer::Reject(PrivateData::NONE));
    assert!(matches!(rig.events().as_slice(), [Action::Failed(Failure::Unusable(_))]));
}

#[test]
fn digests_are_none_of_rdma() {
    let mut config = io(1, &remote());
    config.data_digest = true;
    let mut host = Iwarp::default().host(config, Instant::ZERO);
    assert!(matches!(host.poll_action(), Some(Action::Failed(Failure::Unusable(_)))));
    assert!(host.poll_close().is_some());
}

#[test]
fn no_more_commands_are_under_way_than_the_controller_has_receives() {
    let mut rig = Rig::ready(3);
    for tag in 0..10 {
        rig.read(tag);
    }
    let mut open = rig.commands();
    assert_eq!(open.len(), 3);
    for answered in 1..=10 {
        let (entry, _) = open.remove(0);
        rig.respond(entry.cid.get(), Status::SUCCESS, None);
        let more = rig.commands();
        assert_eq!(more.len(), usize::from(answered <= 7), "{answered}");
        open.extend(more);
    }
    assert_eq!(rig.events().len(), 10);
}

#[test]
fn data_goes_in_the_capsule_up_to_its_size_and_by_key_beyond() {
    let mut rig = Rig::ready(64);
    for (length, in_capsule) in
        [(512, true), (3584, true), (4096, true), (4608, false), (8192, false), (LARGE, false)]
    {
        let bytes = aperiodic(length, 1);
        rig.write(1, &bytes);
        let (entry, data) = rig.commands().remove(0);
        if in_capsule {
            assert_eq!((entry.dptr.identifier, data), (0x01, bytes));
        } else {
            let from = Rig::region(&entry);
            assert_eq!((entry.dptr.identifier, data.len()), (0x4f, 0));
            rig.post(WorkRequest::Read { into: Buf::zeroed(length), from });
            rig.pair.far.connection.poll(Instant::ZERO, &mut rig.done);
            let read = rig.done.drain(..).find_map(|done| match (done.result, done.memory) {
                (Ok(WorkDone::Read), WorkMemory::Buf(buf)) => Some(buf.to_vec()),
                _ => None,
            });
            assert_eq!(read, Some(bytes));
        }
        rig.respond(entry.cid.get(), Status::SUCCESS, Rig::key(&entry));
        let events = rig.events();
        assert!(matches!(events.as_slice(), [Action::Complete(done)] if done.result.is_ok()), "{events:?}");
    }
    // A command without data has a keyed descriptor of no memory.
    rig.submit(2, Operation::Flush);
    let (entry, _) = rig.commands().remove(0);
    assert_eq!(entry.dptr.as_bytes(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40]);
}

#[test]
fn a_response_of_another_length_is_a_violation() {
    let text = "a response capsule of other than 16 bytes";
    for length in [0, 1, 15] {
        let mut rig = Rig::ready(64);
        rig.read(1);
        rig.read(2);
        rig.commands();
        rig.send(&vec![0; length], None);
        rig.ended(Some(text), &[1, 2]);
    }
    // A longer one has no room in the host's receive.
    let mut rig = Rig::ready(64);
    rig.read(1);
    rig.commands();
    rig.send(&[0; 17], None);
    rig.ended(None, &[1]);
}

#[test]
fn a_response_to_no_command_is_a_violation() {
    for cid in [0, 63, 64, 65, u16::MAX] {
        let mut rig = Rig::ready(64);
        rig.read(1);
        let (entry, _) = rig.commands().remove(0);
        if entry.cid.get() != cid {
            rig.respond(cid, Status::SUCCESS, None);
            rig.ended(Some("a response to no command"), &[1]);
        }
    }
}

#[test]
fn a_second_response_is_a_violation() {
    for invalidate in [true, false] {
        let mut rig = Rig::ready(64);
        rig.read(1);
        rig.read(2);
        let (entry, _) = rig.commands().remove(0);
        let response = CompletionQueueEntry::new(entry.cid.get(), 0, Status::SUCCESS);
        let key = Rig::key(&entry).filter(|_| invalidate);
        // Both come together: the memory is on its way back when the second one is looked at.
        let far = &mut rig.pair.far.connection;
        for invalidate in [key, None] {
            let data = list(response.as_bytes());
            far.post(WorkId(2), WorkRequest::Send { data, invalidate }).unwrap();
        }
        rig.pair.exchange();
        let events = rig.events();
        let answered = events.iter().filter(|event| matches!(event, Action::Complete(_))).count();
        let lost = events.iter().filter(|event| matches!(event, Action::Failed(Failure::Lost(_)))).count();
        assert_eq!((answered, lost), (2, 1), "each request is answered once: {events:?}");
        let text = "a response to no command";
        assert_eq!(rig.pair.near.connection.poll_close(), Some(CloseReason::Violation(text)));
    }
}

#[test]
fn the_key_of_another_command_is_not_to_be_invalidated() {
    let mut rig = Rig::ready(64);
    rig.read(1);
    rig.read(2);
    let commands = rig.commands();
    let foreign = Rig::key(&commands[1].0);
    rig.respond(commands[0].0.cid.get(), Status::SUCCESS, foreign);
    rig.ended(Some("a response that invalidates a key which is not its command's"), &[1, 2]);
    // Nor one by a command without memory.
    let mut rig = Rig::ready(64);
    rig.read(1);
    rig.submit(2, Operation::Flush);
    let commands = rig.commands();
    let foreign = Rig::key(&commands[0].0);
    rig.respond(commands[1].0.cid.get(), Status::SUCCESS, foreign);
    let text = "a response that invalidates a key which is not its command's";
    assert_eq!(rig.pair.near.connection.poll_close(), Some(CloseReason::Violation(text)));
}

/// Where a controller writes that may not.
#[derive(Debug, Clone, Copy)]
enum Access {
    UnknownKey,
    Beyond,
    Source,
    Answered,
    ReadSink,
}

#[test]
fn no_access_but_a_commands_own() {
    for access in [Access::UnknownKey, Access::Beyond, Access::Source, Access::Answered, Access::ReadSink] {
        let mut rig = Rig::ready(64);
        rig.read(1);
        rig.write(2, &vec![0x55; LARGE]);
        let commands = rig.commands();
        let [mut sink, source] = [0, 1].map(|at: usize| Rig::region(&commands[at].0));
        match access {
            Access::UnknownKey => sink.stag.0 ^= 1,
            Access::Beyond => sink.offset = 1,
            Access::Source => sink = source,
            Access::Answered => {
                rig.post(WorkRequest::Write { data: list(&vec![0x77; LARGE]), to: sink });
                rig.respond(commands[0].0.cid.get(), Status::SUCCESS, None);
                let done = rig.events();
                let [Action::Complete(done)] = done.as_slice() else { panic!("{done:?}") };
                let Ok(Outcome::Data(data)) = &done.result else { panic!("{done:?}") };
                assert_eq!(data.clone().into_one().to_vec(), vec![0x77; LARGE]);
            }
            Access::ReadSink => {}
        }
        match access {
            Access::ReadSink => rig.post(WorkRequest::Read { into: Buf::zeroed(LARGE), from: sink }),
            _ => rig.post(WorkRequest::Write { data: list(&vec![0x66; LARGE]), to: sink }),
        }
        let close = rig.pair.near.connection.poll_close();
        assert!(matches!(close, Some(CloseReason::Violation(_))), "{access:?}: {close:?}");
        let far = rig.pair.far.connection.state();
        assert!(matches!(far, QueuePairState::Ended(EndReason::Terminated(_))), "{access:?}: {far:?}");
        for event in rig.events() {
            if let Action::Complete(completion) = event {
                assert_eq!(completion.result.unwrap_err().kind, VolumeErrorKind::Unreachable);
            }
        }
    }
}

#[test]
fn a_failed_command_has_no_data_whatever_was_written() {
    let mut rig = Rig::ready(64);
    rig.read(1);
    let (entry, _) = rig.commands().remove(0);
    rig.post(WorkRequest::Write { data: list(&vec![0x77; LARGE]), to: Rig::region(&entry) });
    rig.respond(entry.cid.get(), Status::LBA_OUT_OF_RANGE, Rig::key(&entry));
    let events = rig.events();
    let [Action::Complete(completion)] = events.as_slice() else { panic!("{events:?}") };
    let failure = completion.result.as_ref().unwrap_err();
    assert_eq!(failure.kind, VolumeErrorKind::OutOfRange);
    assert!(failure.memory.is_some());
}

#[test]
fn a_connection_may_end_at_any_step_and_every_read_has_its_memory() {
    for step in 0..6 {
        let (mut rig, _) = Rig::asking(io(1, &remote()));
        let mut reads = Vec::new();
        if step > 0 {
            rig.answer(SetupAnswer::Accept(AcceptReply::new(64).encode()));
        }
        if step > 1 {
            let (connect, _) = rig.commands().remove(0);
            rig.respond(connect.cid.get(), Status::SUCCESS, None);
            assert!(matches!(rig.events().as_slice(), [Action::QueueReady]));
        }
        if step > 2 {
            rig.read(1);
            rig.read(2);
            reads = vec![1, 2];
        }
        if step > 3 {
            let (entry, _) = rig.commands().remove(0);
            if step > 4 {
                rig.post(WorkRequest::Write { data: list(&[1; 512]), to: Rig::region(&entry) });
            }
        }
        rig.pair.near.end(Instant::ZERO, Ended::ByPeer);
        rig.ended(None, &reads);
    }
}

#[test]
fn a_disconnect_in_good_order_ends_both() {
    let mut rig = Rig::ready(64);
    rig.pair.near.connection.handle_input(Instant::ZERO, Input::Disconnect);
    let (entry, _) = rig.commands().remove(0);
    rig.respond(entry.cid.get(), Status::SUCCESS, None);
    assert_eq!(rig.pair.near.connection.poll_close(), Some(CloseReason::Finished));
    assert!(rig.events().is_empty());
    // Nothing of it is left in the queue pair.
    let pair = rig.pair.near.connection.pair();
    assert_eq!(pair.state(), QueuePairState::Ended(EndReason::ByUs));
}

#[test]
fn commands_wait_for_regions() {
    let config = io(1, &remote());
    let mut needs = Host::needs(&config);
    needs.regions = 2;
    let pair =
        Iwarp::default().pair(Role::Initiator(Host::private_data(&config)), needs, &Pool::new(1 << 20));
    let (mut rig, _) = Rig::asking(config.clone());
    rig.pair.near = protocol::pair::Half::new(Host::new(pair, config, Instant::ZERO));
    let needs = QueueLimits { sends: 64, receives: 64, regions: 1, longest: 1 << 20 };
    let mut far = Iwarp::default().pair(Role::Responder, needs, &Pool::new(1 << 20));
    for _ in 0..64 {
        far.post(WorkId(0), WorkRequest::Receive { into: Buf::zeroed(8192) }).unwrap();
    }
    rig.pair.far = protocol::pair::Half::new(far);
    rig.pair.exchange();
    rig.pair.far.connection.poll_action().unwrap();
    rig.answer(SetupAnswer::Accept(AcceptReply::new(64).encode()));
    let (connect, _) = rig.commands().remove(0);
    rig.respond(connect.cid.get(), Status::SUCCESS, None);
    rig.events();
    for tag in 0..5 {
        rig.read(tag);
    }
    let mut answered = 0;
    while answered < 5 {
        let commands = rig.commands();
        assert!((1..=2).contains(&commands.len()), "{}", commands.len());
        for (entry, _) in commands {
            rig.respond(entry.cid.get(), Status::SUCCESS, None);
            answered += 1;
        }
    }
    assert_eq!(rig.events().len(), 5);
}

#[test]
fn a_host_that_gives_up_has_its_memory_back() {
    for abandons in [true, false] {
        let mut rig = Rig::ready(64);
        rig.read(1);
        rig.read(2);
        let (entry, _) = rig.commands().remove(0);
        let host = &mut rig.pair.near.connection;
        let kind = if abandons {
            host.handle_input(Instant::ZERO, Input::Abandon);
            VolumeErrorKind::Unreachable
        } else {
            host.handle_timeout(Instant::ZERO + COMMAND_TIME / 2);
            assert_eq!(host.poll_close(), None);
            host.handle_timeout(Instant::ZERO + COMMAND_TIME);
            VolumeErrorKind::TimedOut
        };
        assert!(rig.pair.near.connection.poll_close().is_some());
        let mut reads = 0;
        for event in rig.events() {
            if let Action::Complete(completion) = event {
                let failure = completion.result.unwrap_err();
                assert_eq!((failure.kind, failure.memory.map(|memory| memory.len())), (kind, Some(LARGE)));
                reads += 1;
            }
        }
        assert_eq!(reads, 2);
        // What the controller still does reaches nothing.
        rig.post(WorkRequest::Write { data: list(&[1; 512]), to: Rig::region(&entry) });
        rig.pair.near.end(Instant::ZERO, Ended::ByUs);
        assert!(rig.events().is_empty());
    }
}
