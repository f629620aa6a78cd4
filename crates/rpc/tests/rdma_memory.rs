//! RPC-over-RDMA request by request: what is read and written, what a hostile peer hears, and whose memory is whose (RFC 8166).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;
mod memory_pair;
mod suite;

use buf::{Account, Buf, Pool, SharedBuf};
use common::{Input, LARGEST, Operation, Outcome, Peer, config, encode, expected, procedure};
use memory_pair::{Done, MemoryPair, join};
use proptest::prelude::*;
use protocol::{CloseReason, Instant};
use rpc::rdma::{Body, Chunks, Header, PrivateMessage, RdmaConnection, RdmaError, ReadSegment, Role};
use rpc::violation::Violation;
use rpc::xdr::{Reader, Writer};
use rpc::{CallError, Config};
use suite::{compound, many, name};
use verbs::{Consumer, PrivateData, QueuePair, RegionMemory, RemoteRegion, SetupAnswer, WorkId, WorkRequest};

type Rdma = RdmaConnection<Peer, MemoryPair>;

const NOW: Instant = Instant::ZERO;

fn end(role: Role, pair: MemoryPair, config: Config) -> Rdma {
    RdmaConnection::new(Peer::default(), pair, config, role, Account::new(&Pool::new(8 << 20)))
}

/// A client and a server that are connected.
fn both() -> [Rdma; 2] {
    let [near, far] = join(Rdma::private_data());
    let mut both = [end(Role::Client, near, config()), end(Role::Server, far, config())];
    run(&mut both);
    assert!(both.iter().all(Consumer::is_established));
    both
}

/// Carries on what both ends do, as far as it goes.
fn run(both: &mut [Rdma; 2]) {
    let mut quiet = 0;
    while quiet < 3 {
        let moved = both[0].queue_pair_ref().clone().step();
        quiet = if moved { 0 } else { quiet + 1 };
        for end in both.iter_mut() {
            end.handle_progress(NOW);
        }
    }
}

/// The lengths of what was done: of messages none.
fn lengths(log: &[Done]) -> Vec<Option<usize>> {
    let length = |done: &Done| match done {
        Done::Sent(_) => None,
        Done::Written(length) | Done::Read(length) => Some(*length),
    };
    log.iter().map(length).collect()
}

#[test]
fn payloads_travel_apart_and_whole() {
    let mut both = both();
    both[0].handle_input(NOW, compound(1, &many()));
    run(&mut both);
    let mut store = Peer::default().store;
    let wanted = vec![(1, expected(&mut store, &many()))];
    assert!(both[0].parts().upper.outcomes() == wanted && both[1].parts().upper.store == store);
    // Two writes are read, two reads are written, and one message goes each way.
    let log = [0, 1].map(|side: usize| both[side].queue_pair_ref().log());
    assert_eq!(lengths(&log[0]), [None]);
    assert_eq!(lengths(&log[1]), [Some(100_001), Some(3), Some(70_000), Some(3), None]);
    assert_eq!(both[1].parts().upper.asked, [100_001, 3], "straight into the upper layer's memory");
    assert_eq!(both[0].queue_pair_ref().regions(), 0, "all memory is the client's own again");
    // Golden: the message of the call, with its chunks.
    let Done::Sent(message) = &log[0][0] else { panic!("a message") };
    let mut reader = Reader::new(message);
    let header = Header::decode(&mut reader).unwrap();
    let Body::Message(chunks) = header.body else { panic!("{header:?}") };
    let reads: Vec<(u32, u32)> =
        chunks.reads.iter().map(|read| (read.position, read.target.length)).collect();
    // Behind the call's ten words: a count, a kind, an offset, a length; behind the data a word, a name, four reads, and the same again.
    let second = 60 + 100_004 + 4 + 4 + 12 + 4 * 16 + 16;
    assert_eq!(reads, [(60, 100_001), (second, 3)]);
    let writes: Vec<u32> = chunks.writes.iter().map(|segments| segments[0].length).collect();
    assert_eq!((writes, chunks.reply), (vec![70_000, 512, 1, 3], None));
    assert_eq!((header.xid, header.credits, reader.remaining()), (100, 8, 40 + 4 + 3 * 20 + 16 + 4 * 16));
    // And of the reply: what was written of each chunk.
    let Done::Sent(message) = &log[1][4] else { panic!("a message") };
    let header = Header::decode(&mut Reader::new(message)).unwrap();
    let Body::Message(chunks) = header.body else { panic!("{header:?}") };
    let writes: Vec<u32> = chunks.writes.iter().map(|segments| segments[0].length).collect();
    assert_eq!((writes, chunks.reads.len(), header.credits), (vec![70_000, 0, 0, 3], 0, 8));
}

#[test]
fn what_fits_into_a_message_goes_in_it() {
    let mut both = both();
    let small = [
        Operation::Write { offset: 7, data: vec![1; 999], behind: 3 },
        Operation::Read { offset: 0, count: 1000 },
    ];
    both[0].handle_input(NOW, compound(1, &small));
    run(&mut both);
    assert_eq!(both[0].parts().upper.outcomes(), [(1, expected(&mut Peer::default().store, &small))]);
    for end in &both {
        assert_eq!(lengths(&end.queue_pair_ref().log()), [None]);
    }
}

/// A call and a reply that are longer than a message: in a chunk at position zero, and in the memory for the reply.
#[test]
fn long_calls_and_replies() {
    let mut both = both();
    let mut long: Vec<Operation> = (0..14).map(|_| name(&"n".repeat(400))).collect();
    long.extend(many().into_iter().take(1));
    long.push(Operation::Read { offset: 0, count: 5001 });
    long.truncate(16);
    let mut longer = long.clone();
    longer[13] = Operation::Read { offset: 1, count: 6 };
    let all: Vec<Operation> = (0..16).map(|_| name(&"m".repeat(400))).collect();
    let mut store = Peer::default().store;
    for (tag, operations) in [(1, &long), (2, &longer), (3, &all)] {
        both[0].handle_input(NOW, compound(tag, operations));
        run(&mut both);
        let outcomes = both[0].parts().upper.outcomes();
        let (_, outcome) = outcomes.last().unwrap();
        assert!(*outcome == expected(&mut store, operations), "{tag}");
    }
    assert_eq!((both[0].queue_pair_ref().regions(), both[1].parts().upper.garbage), (0, 0));
    // The last: the message is read, and the reply is written.
    let done = both[1].queue_pair_ref().log();
    let message = 40 + 4 + 16 * (8 + 400);
    assert_eq!(lengths(&done)[done.len() - 3..], [Some(message), Some(message - 40 + 24), None]);
}

/// Calls with payloads beyond the regions that there are wait for each other.
#[test]
fn many_calls_wait_for_regions_and_credits() {
    let mut both = both();
    for tag in 0..8 {
        both[0].handle_input(NOW, compound(tag, &many()));
    }
    run(&mut both);
    assert_eq!(both[0].parts().upper.outcomes().len(), 8);
    assert_eq!(both[0].queue_pair_ref().regions(), 0);
}

/// What a client that is told so uses until its server has said how many calls it takes: one (RFC 8166 §3.3.1).
#[test]
fn the_first_call_goes_alone() {
    let mut both = both();
    both[1].parts().upper.holds = true;
    for tag in 0..4 {
        both[0].handle_input(NOW, compound(tag, &[name("x")]));
    }
    run(&mut both);
    assert_eq!(both[1].parts().upper.waiting.len(), 1);
    both[1].handle_input(NOW, Input::Answer);
    run(&mut both);
    assert_eq!(both[1].parts().upper.waiting.len(), 3);
}

#[test]
fn a_server_that_says_nothing_of_itself_gets_no_more_than_1024_bytes() {
    let [near, mut far] = join(Rdma::private_data());
    let mut client = end(Role::Client, near, config());
    for _ in 0..4 {
        far.post(WorkId(0), WorkRequest::Receive { into: Buf::zeroed(1024) }).unwrap();
    }
    verbs::ManagedQueuePair::handle_answer(&mut far, NOW, SetupAnswer::Accept(PrivateData::NONE));
    client.handle_input(NOW, compound(1, &[Operation::Write { offset: 0, data: vec![1; 980], behind: 0 }]));
    while far.step() {
        client.handle_progress(NOW);
    }
    let message = far.received().pop().unwrap();
    let header = Header::decode(&mut Reader::new(&message)).unwrap();
    assert!(matches!(header.body, Body::Message(Chunks { reads, .. }) if reads.len() == 1));
}

/// A server, and a client that says what it likes.
struct Hostile {
    server: Rdma,
    raw: MemoryPair,
}

impl Hostile {
    fn new(config: Config) -> Self {
        let message = PrivateMessage { remote_invalidation: true, send: 4096, receive: 4096 };
        let [mut raw, far] = join(message.encode());
        for _ in 0..16 {
            raw.post(WorkId(0), WorkRequest::Receive { into: Buf::zeroed(4096) }).unwrap();
        }
        let mut server = end(Role::Server, far, config);
        server.handle_progress(NOW);
        Self { server, raw }
    }

    fn run(&mut self) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        let mut quiet = 0;
        while quiet < 3 {
            quiet = if self.raw.step() { 0 } else { quiet + 1 };
            self.server.handle_progress(NOW);
            messages.extend(self.raw.received());
        }
        messages
    }

    /// Sends a message; what comes back.
    fn answers(&mut self, message: &[u8]) -> Vec<Vec<u8>> {
        self.raw.send(message);
        self.run()
    }

    /// The same for a message that has one answer.
    fn answer(&mut self, message: &[u8]) -> Header {
        let answers = self.answers(message);
        assert_eq!(answers.len(), 1);
        Header::decode(&mut Reader::new(&answers[0])).unwrap()
    }
}

fn message(xid: u32, body: Body, rpc: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.put(&Header { xid, credits: 4, body });
    [writer.finish().bytes(), rpc].concat()
}

/// A call as an RPC message, payloads in it.
fn rpc(xid: u32, operations: &[Operation]) -> Vec<u8> {
    let words = [xid, 0, 2, common::PROGRAM, 3, 1, 0, 0, 0, 0];
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    [words, encode(Writer::new(), operations).into_list().into_one().to_vec()].concat()
}

fn source(raw: &MemoryPair, bytes: &[u8]) -> RemoteRegion {
    raw.register(RegionMemory::Source(SharedBuf::from(bytes.to_vec()).into()))
}

fn write(data: Vec<u8>) -> Operation {
    Operation::Write { offset: 0, data, behind: 5 }
}

/// A call whose write's data, at byte 60, is in these regions; its padding is nowhere.
fn reduced(xid: u32, data: &[u8], targets: &[RemoteRegion]) -> Vec<u8> {
    let whole = rpc(xid, &[write(data.to_vec())]);
    let behind = 60 + data.len().next_multiple_of(4);
    let reads = targets.iter().map(|target| ReadSegment { position: 60, target: *target }).collect();
    let body = Body::Message(Chunks { reads, ..Chunks::default() });
    message(xid, body, &[&whole[..60], &whole[behind..]].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// However a client cuts a payload, or a whole message, into segments, the same is read.
    #[test]
    fn any_segments(
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        length in 1_usize..3000,
        is_long in any::<bool>(),
        padded in any::<bool>(),
    ) {
        let mut hostile = Hostile::new(config());
        let data = protocol::pair::aperiodic(length, 7);
        let mut bytes = if is_long { rpc(9, &[write(data.clone())]) } else { data.clone() };
        if padded && !is_long {
            bytes.resize(length.next_multiple_of(4), 0);
        }
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let targets: Vec<RemoteRegion> =
            places.windows(2).map(|ends| source(&hostile.raw, &bytes[ends[0]..ends[1]])).collect();
        let call = if is_long {
            let reads = targets.iter().map(|target| ReadSegment { position: 0, target: *target }).collect();
            message(9, Body::NoMessage(Chunks { reads, ..Chunks::default() }), &[])
        } else {
            reduced(9, &data, &targets)
        };
        let answers = hostile.answers(&call);
        prop_assert_eq!(answers.len(), 1);
        let peer = hostile.server.parts().upper;
        prop_assert_eq!((peer.calls, peer.garbage), (1, 0));
        prop_assert!(peer.store[..length] == data);
    }

    /// What is no payload of the upper layer's may be in a chunk too, such as the target of a symbolic link (RFC 8267): it is read into the message, between what stands
    /// in front of it and behind.
    #[test]
    fn a_chunk_of_what_is_no_payload(
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
        length in 1_usize..255,
        padded in any::<bool>(),
        data in 1_usize..3000,
    ) {
        let mut hostile = Hostile::new(config());
        let long = "n".repeat(length);
        let operations = [name("front"), name(&long), write(protocol::pair::aperiodic(data, 7)), name("back")];
        let whole = rpc(9, &operations);
        // Behind the call's ten words: a count, a kind and a name of twelve bytes, a kind and a length; behind the name a kind, an offset and a length.
        let first = 40 + 4 + 4 + 12 + 8;
        let behind = first + length.next_multiple_of(4);
        let second = behind + 16;
        let after = second + data.next_multiple_of(4);
        let end = if padded { behind } else { first + length };
        let mut places: Vec<usize> = cuts.iter().map(|cut| first + cut.index(end - first)).collect();
        places.extend([first, end]);
        places.sort_unstable();
        let segment = |from: usize, to: usize, position: usize| {
            ReadSegment { position: u32::try_from(position).unwrap(), target: source(&hostile.raw, &whole[from..to]) }
        };
        let mut reads: Vec<ReadSegment> =
            places.windows(2).map(|ends| segment(ends[0], ends[1], first)).collect();
        reads.push(segment(second, second + data, second));
        let rest = [&whole[..first], &whole[behind..second], &whole[after..]].concat();
        let call = message(9, Body::Message(Chunks { reads, ..Chunks::default() }), &rest);
        let answers = hostile.answers(&call);
        let mut store = Peer::default().store;
        let _ = expected(&mut store, &operations);
        let peer = hostile.server.parts().upper;
        prop_assert_eq!((answers.len(), peer.calls, peer.garbage), (1, 1, 0));
        prop_assert!(peer.store == store);
        prop_assert!(answers[0].windows(length).any(|part| part == long.as_bytes()), "the names are answered");
    }

    /// No words make a server panic, or hold more than its bounds.
    #[test]
    fn any_words(
        messages in proptest::collection::vec(proptest::collection::vec(prop_oneof![0_u32..5, any::<u32>()], 0..40), 1..6),
        begins in any::<bool>(),
    ) {
        let mut hostile = Hostile::new(config());
        for words in messages {
            let words = if begins { [&[9, 1, 1][..], &words].concat() } else { words };
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            if hostile.raw.post(WorkId(9), WorkRequest::Send { data: SharedBuf::from(bytes).into(), invalidate: None }).is_ok() {
                hostile.run();
            }
        }
        prop_assert!(hostile.server.held() < 64 << 10, "{}", hostile.server.held());
    }
}

#[test]
fn headers_that_cannot_be_handled_are_answered() {
    let chunk = Body::Error(RdmaError::Chunk);
    let versions = Body::Error(RdmaError::Version { low: 1, high: 1 });
    let mut hostile = Hostile::new(config());
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    // Another version, unknown types, a list that does not end.
    assert_eq!(hostile.answer(&words(&[9, 2, 1, 0, 0, 0, 0])).body, versions);
    for kind in [2, 3, 5] {
        assert_eq!(hostile.answer(&words(&[9, 1, 1, kind, 0, 0, 0])).body, chunk);
    }
    assert_eq!(hostile.answer(&words(&[9, 1, 1, 0, 1, 0])).body, chunk);
    // Too short to be answered; a reply and an error to no call.
    assert!(hostile.answers(&words(&[9])).is_empty());
    assert!(hostile.answers(&message(9, chunk.clone(), &[])).is_empty());
    let empty = || Body::Message(Chunks::default());
    assert!(hostile.answers(&message(9, empty(), &words(&[9, 1, 0, 0, 0, 0]))).is_empty());
    // The number of another call; an RPC message that is too short.
    assert_eq!(hostile.answer(&message(9, empty(), &rpc(8, &[]))).body, chunk);
    assert!(hostile.answers(&message(9, empty(), &words(&[9]))).is_empty());
    // A message in memory that is a reply, or longer than any record.
    let reply = source(&hostile.raw, &words(&[9, 1, 0, 0, 0, 0]));
    let long = |target: RemoteRegion| {
        let reads = vec![ReadSegment { position: 0, target }];
        message(9, Body::NoMessage(Chunks { reads, ..Chunks::default() }), &[])
    };
    assert_eq!(hostile.answer(&long(reply)).body, chunk);
    let huge = RemoteRegion { length: u32::MAX, ..reply };
    assert_eq!(hostile.answer(&long(huge)).body, chunk);
    // None of that has ended the connection, or has taken a receive.
    for xid in 0..20 {
        let answer = hostile.answer(&message(xid, empty(), &rpc(xid, &[name("still here")])));
        assert_eq!((answer.xid, answer.credits), (xid, 4));
    }
    assert_eq!(hostile.server.parts().upper.calls, 20);
}

#[test]
fn chunks_that_do_not_fit_are_answered() {
    let mut hostile = Hostile::new(config());
    let data = vec![3; 1000];
    // A read chunk that is shorter than its data, or longer than its padding allows: no arguments.
    for length in [999, 1004] {
        let target = source(&hostile.raw, &vec![0; length]);
        let answers = hostile.answers(&reduced(9, &data, &[target]));
        assert_eq!(answers[0][answers[0].len() - 4..], [0, 0, 0, 4], "GARBAGE_ARGS");
    }
    assert_eq!(hostile.server.parts().upper.garbage, 2);
    // Results that are longer than their chunk, or than a message without memory for the reply.
    let read = |count: u32| rpc(9, &[Operation::Read { offset: 0, count }]);
    let sink = |raw: &MemoryPair, length: usize| raw.register(RegionMemory::Sink(Buf::zeroed(length)));
    let target = sink(&hostile.raw, 999);
    let chunks = Chunks { writes: vec![vec![target]], ..Chunks::default() };
    let chunk = Body::Error(RdmaError::Chunk);
    assert_eq!(hostile.answer(&message(9, Body::Message(chunks), &read(1000))).body, chunk);
    assert_eq!(hostile.answer(&message(9, Body::Message(Chunks::default()), &read(5000))).body, chunk);
    let short = sink(&hostile.raw, 4000);
    let chunks = Chunks { reply: Some(vec![short]), ..Chunks::default() };
    assert_eq!(hostile.answer(&message(9, Body::Message(chunks), &read(5000))).body, chunk);
    // In segments, as far as they are needed.
    let segments: Vec<RemoteRegion> = [400, 0, 500, 300].map(|length| sink(&hostile.raw, length)).into();
    let chunks = Chunks { writes: vec![segments.clone()], ..Chunks::default() };
    let Body::Message(answer) = hostile.answer(&message(9, Body::Message(chunks), &read(1000))).body else {
        panic!("a message")
    };
    assert_eq!(answer.writes[0].iter().map(|segment| segment.length).collect::<Vec<_>>(), [400, 0, 500, 100]);
    let store = Peer::default().store;
    let RegionMemory::Sink(third) = hostile.raw.release(segments[2]) else { panic!("a sink") };
    assert_eq!(third[..], store[400..900]);
    // A reply of two segments.
    let segments: Vec<RemoteRegion> = [3000, 3000].map(|length| sink(&hostile.raw, length)).into();
    let chunks = Chunks { reply: Some(segments), ..Chunks::default() };
    let Body::NoMessage(answer) = hostile.answer(&message(9, Body::Message(chunks), &read(5000))).body else {
        panic!("no message")
    };
    let written: Vec<u32> = answer.reply.unwrap().iter().map(|segment| segment.length).collect();
    assert_eq!(written, [3000, 24 + 4 + 4 + 4 + 4 + 5000 - 3000]);
}

#[test]
fn a_client_beyond_its_credits_is_closed() {
    let mut hostile = Hostile::new(Config { calls_received: 3, ..config() });
    hostile.server.parts().upper.holds = true;
    for xid in 0..3 {
        hostile.answers(&message(xid, Body::Message(Chunks::default()), &rpc(xid, &[])));
    }
    // The same call again is dropped.
    hostile.answers(&message(2, Body::Message(Chunks::default()), &rpc(2, &[])));
    assert_eq!((hostile.server.parts().upper.waiting.len(), hostile.server.close_reason()), (3, None));
    hostile.answers(&message(3, Body::Message(Chunks::default()), &rpc(3, &[])));
    assert_eq!(hostile.server.parts().upper.waiting.len(), 3);
    // It stays unread while no call is taken, and ends the connection where it is not.
    hostile.server.handle_input(NOW, Input::Answer);
    assert_eq!(hostile.run().len(), 1);
    assert_eq!(hostile.server.parts().upper.waiting.len(), 3);
}

/// A client whose memory cannot be read, or written to, is told by the provider.
#[test]
fn memory_that_is_not_there_ends_the_connection() {
    let mut hostile = Hostile::new(config());
    let nowhere = RemoteRegion { stag: verbs::STag(0x7777), offset: 0, length: 1000 };
    hostile.answers(&reduced(9, &[1; 1000], &[nowhere]));
    assert!(hostile.server.close_reason().is_some());
    hostile.server.handle_ended(NOW);
    assert_eq!(hostile.server.parts().upper.calls, 0);
}

/// A client, and a server that says what it likes.
struct Misled {
    client: Rdma,
    raw: MemoryPair,
}

impl Misled {
    fn new() -> Self {
        let [near, mut raw] = join(Rdma::private_data());
        for _ in 0..16 {
            raw.post(WorkId(0), WorkRequest::Receive { into: Buf::zeroed(4096) }).unwrap();
        }
        let mut client = end(Role::Client, near, config());
        let message = PrivateMessage { remote_invalidation: false, send: 4096, receive: 4096 };
        verbs::ManagedQueuePair::handle_answer(&mut raw, NOW, SetupAnswer::Accept(message.encode()));
        client.handle_progress(NOW);
        Self { client, raw }
    }

    fn run(&mut self) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        let mut quiet = 0;
        while quiet < 3 {
            quiet = if self.raw.step() { 0 } else { quiet + 1 };
            self.client.handle_progress(NOW);
            messages.extend(self.raw.received());
        }
        messages
    }

    /// Asks for 8,000 bytes and for 5; the chunks that the client names.
    fn ask(&mut self) -> Chunks {
        let reads = [Operation::Read { offset: 0, count: 8000 }, Operation::Read { offset: 0, count: 5 }];
        self.client.handle_input(NOW, compound(1, &reads));
        let message = self.run().pop().unwrap();
        match Header::decode(&mut Reader::new(&message)).unwrap().body {
            Body::Message(chunks) => chunks,
            other => panic!("{other:?}"),
        }
    }

    /// Answers with these results and chunks; what the client makes of it.
    fn outcome(&mut self, chunks: Chunks, results: &[u32]) -> Result<Vec<Outcome>, CallError> {
        let words = [&[100, 1, 0, 0, 0, 0][..], results].concat();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        self.raw.send(&message(100, Body::Message(chunks), &bytes));
        self.run();
        self.taken()
    }

    fn taken(&mut self) -> Result<Vec<Outcome>, CallError> {
        assert_eq!(self.raw.regions(), 0);
        assert_eq!(self.client.queue_pair_ref().regions(), 0, "all memory is back");
        let mut replies = std::mem::take(&mut self.client.parts().upper.replies);
        assert_eq!(replies.len(), 1);
        let reply = replies.remove(0);
        let with_data = reply
            .results
            .outcomes
            .iter()
            .filter(|outcome| matches!(outcome, Outcome::Read(data) if !data.is_empty()));
        assert_eq!(reply.unused.len() + with_data.count(), 2, "no memory is lost");
        reply.outcome.map(|()| reply.results.outcomes)
    }
}

fn lengths_of(chunks: &Chunks, lengths: [u32; 2]) -> Chunks {
    let writes = chunks.writes.iter().zip(lengths);
    let writes = writes.map(|(segments, length)| vec![RemoteRegion { length, ..segments[0] }]).collect();
    Chunks { writes, ..Chunks::default() }
}

#[test]
fn replies_are_read_from_where_they_are() {
    let zeros = |length| Outcome::Read(vec![0; length]);
    let ask = || {
        let mut misled = Misled::new();
        let chunks = misled.ask();
        assert_eq!((chunks.writes.len(), chunks.reads.len(), &chunks.reply), (2, 0, &None));
        (misled, chunks)
    };
    // All apart; the second in the message, with its padding.
    let (mut misled, chunks) = ask();
    let apart = misled.outcome(lengths_of(&chunks, [8000, 5]), &[2, 1, 0, 8000, 1, 0, 5]);
    assert_eq!(apart, Ok(vec![zeros(8000), zeros(5)]));
    let (mut misled, chunks) = ask();
    let inline = misled.outcome(lengths_of(&chunks, [8000, 0]), &[2, 1, 0, 8000, 1, 0, 5, 0, 0]);
    assert_eq!(inline, Ok(vec![zeros(8000), zeros(5)]));
    // The first has failed; its chunk is empty, and the second's is not.
    let (mut misled, chunks) = ask();
    let failed = misled.outcome(lengths_of(&chunks, [0, 5]), &[2, 1, 13, 1, 0, 5]);
    assert_eq!(failed, Ok(vec![Outcome::ReadFailed(13), zeros(5)]));
}

#[test]
fn a_server_that_misleads_fails_its_call_alone() {
    let fails = |lengths: [u32; 2], results: &[u32]| {
        let mut misled = Misled::new();
        let chunks = misled.ask();
        let outcome = misled.outcome(lengths_of(&chunks, lengths), results);
        assert!(matches!(outcome, Err(CallError::Undecodable(_))), "{outcome:?}");
        assert_eq!(misled.client.close_reason(), None);
        misled.client.handle_input(NOW, compound(2, &[]));
        assert_eq!(misled.run().len(), 1, "the next call goes");
    };
    // More or less written than the results say; nothing where there should be something; more than was asked for.
    fails([8000, 4], &[2, 1, 0, 8000, 1, 0, 5]);
    fails([7999, 5], &[2, 1, 0, 8000, 1, 0, 5]);
    fails([8000, 0], &[2, 1, 0, 8000, 1, 0, 5]);
    fails([u32::MAX, 5], &[2, 1, 0, 8000, 1, 0, 5]);
    fails([8000, 6], &[2, 1, 0, 8000, 1, 0, 6]);
    fails([8000, 5], &[2, 1, 0, 8000]);
}

#[test]
fn errors_and_foreign_replies() {
    // An error answers the call.
    let mut misled = Misled::new();
    misled.ask();
    misled.raw.send(&message(100, Body::Error(RdmaError::Chunk), &[]));
    misled.run();
    assert_eq!(misled.taken(), Err(CallError::Chunks));
    // A reply to no call, and one before its call was sent, are dropped; so is a second one.
    let mut misled = Misled::new();
    misled.ask();
    misled.raw.send(&message(77, Body::Error(RdmaError::Chunk), &[]));
    misled.run();
    assert!(misled.client.parts().upper.replies.is_empty());
    for _ in 0..2 {
        misled.raw.send(&message(100, Body::Error(RdmaError::Chunk), &[]));
    }
    misled.run();
    assert_eq!(misled.taken(), Err(CallError::Chunks));
    // A reply that says it is another's, in its message, or in memory that was not named.
    let mut misled = Misled::new();
    misled.ask();
    let other: Vec<u8> = [101_u32, 1, 0, 0, 0, 0, 0].iter().flat_map(|word| word.to_be_bytes()).collect();
    misled.raw.send(&message(100, Body::Message(Chunks::default()), &other));
    misled.run();
    assert!(matches!(misled.taken(), Err(CallError::Undecodable(_))));
    let mut misled = Misled::new();
    misled.ask();
    let nowhere = RemoteRegion { stag: verbs::STag(1), offset: 0, length: 400 };
    let reply = Body::NoMessage(Chunks { reply: Some(vec![nowhere]), ..Chunks::default() });
    misled.raw.send(&message(100, reply, &[]));
    misled.run();
    assert!(matches!(misled.taken(), Err(CallError::Undecodable(_))));
}

/// Only the side that has connected names memory (RFC 8167).
#[test]
fn calls_back_name_no_memory() {
    let mut both = both();
    both[1].handle_input(NOW, compound(1, &[name("fits")]));
    both[1].handle_input(NOW, compound(2, &[Operation::Write { offset: 0, data: vec![0; 5100], behind: 0 }]));
    run(&mut both);
    let replies = &both[1].parts().upper.replies;
    let of = |tag: u64| replies.iter().find(|reply| reply.results.tag == tag).unwrap().outcome;
    assert_eq!((of(1), of(2)), (Ok(()), Err(CallError::Chunks)));
    let mut misled = Misled::new();
    let target = source(&misled.raw, &[0; 1000]);
    misled.raw.send(&reduced(9, &[0; 1000], &[target]));
    let answer = misled.run().pop().unwrap();
    assert_eq!(Header::decode(&mut Reader::new(&answer)).unwrap().body, Body::Error(RdmaError::Chunk));
}

/// Whenever a connection ends, every call comes back with all its memory.
#[test]
fn the_end_gives_all_memory_back() {
    for steps in 0..40 {
        let mut both = both();
        both[1].parts().upper.holds = steps % 2 == 1;
        for tag in 0..3 {
            both[0].handle_input(NOW, compound(tag, &many()));
        }
        for _ in 0..steps {
            both[0].queue_pair_ref().clone().step();
            for end in &mut both {
                end.handle_progress(NOW);
            }
        }
        both[0].handle_ended(NOW);
        let peer = both[0].parts().upper;
        let (unanswered, answered) = (std::mem::take(&mut peer.unanswered), peer.replies.len());
        assert_eq!(unanswered.len() + answered, 3, "after {steps} steps");
        for unanswered in unanswered {
            assert_eq!(unanswered.call.memory.len(), 4, "after {steps} steps");
        }
        assert_eq!(both[0].queue_pair_ref().regions(), 0);
    }
}

/// What is under way is to complete in time.
#[test]
fn a_peer_that_does_not_let_its_memory_be_read_is_closed() {
    let mut hostile = Hostile::new(config());
    let target = source(&hostile.raw, &[1; 1000]);
    hostile.raw.send(&reduced(9, &[1; 1000], &[target]));
    hostile.raw.step();
    hostile.server.handle_progress(NOW);
    let due = hostile.server.next_deadline().unwrap();
    hostile.server.handle_deadline(due);
    assert!(matches!(hostile.server.close_reason(), Some(CloseReason::TimedOut(_))));
}

#[test]
fn a_server_without_memory_for_receives_refuses() {
    let [near, far] = join(Rdma::private_data());
    let mut client = end(Role::Client, near, config());
    let account = Account::new(&Pool::new(4096));
    let mut server = RdmaConnection::new(Peer::default(), far, config(), Role::Server, account);
    server.handle_progress(NOW);
    client.handle_progress(NOW);
    assert!(matches!(server.close_reason(), Some(CloseReason::Limit(_))));
    assert!(matches!(client.close_reason(), Some(CloseReason::Refused(_))));
}

#[test]
fn a_violation_of_rpc_is_answered_over_rdma_too() {
    let mut hostile = Hostile::new(config());
    let words = [9, 0, 3, 1, 1, 1, 0, 0, 0, 0_u32];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let answers = hostile.answers(&message(9, Body::Message(Chunks::default()), &bytes));
    let expected = [9, 1, 1, 0, 2, 2_u32];
    let expected: Vec<u8> = expected.iter().flat_map(|word| word.to_be_bytes()).collect();
    assert_eq!(answers[0][28..], expected);
    let truncated = message(9, Body::Message(Chunks::default()), &rpc(9, &[])[..36]);
    hostile.answers(&truncated);
    let close = CloseReason::Violation(Violation::HeaderTruncated.describe());
    assert_eq!(hostile.server.close_reason(), Some(close));
    assert!(LARGEST > 0 && procedure(0).procedure == 0);
}
