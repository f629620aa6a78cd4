//! Both roles over a byte stream.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;
mod suite;

use common::{Access, Input, Operation, Peer, call, config, encode, expected, procedure};
use proptest::prelude::*;
use protocol::pair::{Half, Pair};
use protocol::{CloseReason, Connection, Instant};
use rpc::message::{AuthSysToSend, Procedure};
use rpc::record::Fragment;
use rpc::tcp::TcpConnection;
use rpc::violation::Violation;
use rpc::xdr::{Error, Writer};
use rpc::{CallError, Config, Credential};
use suite::{Transport, compound, many, name};

struct Tcp;

impl Transport for Tcp {
    type Near = TcpConnection<Peer>;
    type Far = TcpConnection<Peer>;

    fn join(&self, near: (Peer, Config), far: (Peer, Config)) -> Pair<Self::Near, Self::Far> {
        Pair::new(TcpConnection::new(near.0, near.1), TcpConnection::new(far.0, far.1))
    }
}

#[test]
fn calls_are_answered() {
    suite::calls_are_answered(&Tcp);
}

#[test]
fn answers_come_in_any_order() {
    suite::answers_come_in_any_order(&Tcp);
}

#[test]
fn calls_go_both_ways() {
    suite::calls_go_both_ways(&Tcp, &many());
}

#[test]
fn what_is_not_there_is_refused() {
    suite::what_is_not_there_is_refused(&Tcp);
}

#[test]
fn calls_under_way_are_bounded() {
    suite::calls_under_way_are_bounded(&Tcp);
}

#[test]
fn a_call_waits_for_memory() {
    suite::a_call_waits_for_memory(&Tcp);
}

#[test]
fn unanswered_calls_are_sent_again() {
    suite::unanswered_calls_are_sent_again(&Tcp);
}

#[test]
fn a_call_without_reply_closes_the_connection() {
    suite::a_call_without_reply_closes_the_connection(&Tcp);
}

#[test]
fn any_calls() {
    suite::any_calls(&Tcp);
}

/// A call of procedure 1 as a message.
fn message(xid: u32, operations: &[Operation]) -> Vec<u8> {
    header(xid, [0, 2, common::PROGRAM, 3, 1], &encode(Writer::new(), operations).into_list().into_one())
}

/// A message of these words behind its number, without credentials, and bytes behind.
fn header(xid: u32, words: [u32; 5], behind: &[u8]) -> Vec<u8> {
    let words = [&[xid][..], &words, &[0, 0, 0, 0]].concat();
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    [&words, behind].concat()
}

fn record(message: &[u8]) -> Vec<u8> {
    [&Fragment::whole(message.len()).encode(), message].concat()
}

/// A record in fragments that end at these places.
fn fragments(message: &[u8], mut ends: Vec<usize>) -> Vec<u8> {
    ends.sort_unstable();
    let (mut bytes, mut from) = (Vec::new(), 0);
    for end in ends {
        let length = u32::try_from(end - from).unwrap();
        bytes.extend_from_slice(&Fragment { length, is_last: false }.encode());
        bytes.extend_from_slice(&message[from..end]);
        from = end;
    }
    bytes.extend(record(&message[from..]));
    bytes
}

fn server() -> Half<TcpConnection<Peer>> {
    Half::new(TcpConnection::new(Peer::default(), config()))
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect()
}

/// Golden: a null call of RFC 5531, byte by byte, and its reply.
#[test]
fn a_golden_null_call() {
    let mut server = server();
    let call = [0x8000_0028, 0x1122_3344, 0, 2, common::PROGRAM, 3, 0, 0, 0, 0, 0_u32];
    let bytes: Vec<u8> = call.iter().flat_map(|word| word.to_be_bytes()).collect();
    server.receive(Instant::ZERO, &bytes);
    let reply = words(&server.transmit(Instant::ZERO));
    assert_eq!(reply, [0x8000_0018, 0x1122_3344, 1, 0, 0, 0, 0]);
    let mut client = TcpConnection::new(Peer::default(), Config { first_xid: 0x1122_3344, ..config() });
    let input = Input::Call { tag: 0, procedure: procedure(0), operations: Vec::new() };
    client.handle_input(Instant::ZERO, input);
    assert_eq!(Half::new(client).transmit(Instant::ZERO), bytes);
}

#[test]
fn a_credential_reaches_the_server() {
    let mut pair = suite::join(&Tcp);
    let mut call = call(None, 1, procedure(0), &[]);
    call.credential = Credential::Sys(AuthSysToSend::new("host", 1234, 5, &[6]).into());
    pair.near.connection.channel().call(Instant::ZERO, call).unwrap();
    pair.exchange();
    assert_eq!(pair.far.connection.peer().credentials, [1234]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Wherever a record is cut into fragments, and the stream into pieces, the same is read.
    #[test]
    fn arbitrary_fragments_and_pieces_give_the_same(
        ends in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let message = message(5, &many());
        let mut bytes = fragments(&message, ends.iter().map(|end| end.index(message.len())).collect());
        bytes.extend(record(&message_of_names()));
        let mut server = server();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        for ends in cuts.windows(2) {
            server.receive(Instant::ZERO, &bytes[ends[0]..ends[1]]);
        }
        let mut store = Peer::default().store;
        expected(&mut store, &many());
        let peer = server.connection.peer();
        prop_assert_eq!((peer.calls, peer.garbage, server.staged()), (2, 0, 0));
        prop_assert!(server.connection.peer().store == store);
    }

    /// No bytes make a connection panic, or hold more than its bounds.
    #[test]
    fn any_bytes_in_records(
        messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..8),
        begin in 0_usize..=40,
        chunk in 1_usize..100,
    ) {
        let mut server = server();
        for bytes in messages {
            let valid = message(7, &many());
            let stream = record(&[&valid[..begin], &bytes].concat());
            for chunk in stream.chunks(chunk) {
                server.receive(Instant::ZERO, chunk);
            }
            server.transmit(Instant::ZERO);
        }
        prop_assert!(server.connection.held() < 64 << 10);
    }
}

fn message_of_names() -> Vec<u8> {
    message(6, &[name("a"), name("b")])
}

/// The only thing that is collected is an item that the pieces of the stream have cut.
#[test]
fn a_payload_is_placed_and_not_collected() {
    let mut server = server();
    let data = vec![5; 300_000];
    let message = message(5, &[Operation::Write { offset: 0, data: data.clone(), behind: 0 }]);
    let bytes = record(&message);
    let used = server.connection.handle_bytes(Instant::ZERO, &bytes);
    let before_data = 4 + 40 + 4 + 4 + 8 + 4;
    assert_eq!(used, before_data, "the data is left to the transport");
    let placement = server.connection.take_placement().unwrap();
    assert_eq!((placement.start, placement.len), (0, data.len()));
    assert!(server.connection.held() < 16 << 10);
    assert_eq!(server.connection.peer().asked, [data.len()]);
}

#[test]
fn violations_have_their_answers() {
    let answer = |message: &[u8]| {
        let mut server = server();
        server.receive(Instant::ZERO, &record(message));
        let good = message_of_names();
        server.receive(Instant::ZERO, &record(&good));
        let close = server.connection.poll_close();
        (words(&server.transmit(Instant::ZERO)), close, server.connection.peer().calls)
    };
    let named = [0x8000_0034, 6, 1, 0, 0, 0, 0, 2, 3, 1, 0x6100_0000, 3, 1, 0x6200_0000];
    let with = |reply: &[u32]| (([reply, &named].concat()), None, 1);
    let close = |violation: Violation| (vec![], Some(CloseReason::Violation(violation.describe())), 0);
    let ok = [0, 2, common::PROGRAM, 3, 1];
    let words_of = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    // Another version of RPC, a long credential, a long verifier, a credential that is none.
    assert_eq!(answer(&header(9, [0, 3, 1, 1, 1], &[])), with(&[0x8000_0018, 9, 1, 1, 0, 2, 2]));
    assert_eq!(answer(&words_of(&[9, 0, 2, 1, 1, 1, 0, 404])), with(&[0x8000_0014, 9, 1, 1, 1, 1]));
    assert_eq!(answer(&words_of(&[9, 0, 2, 1, 1, 1, 0, 0, 0, 404])), with(&[0x8000_0014, 9, 1, 1, 1, 3]));
    let bad = words_of(&[9, 0, 2, common::PROGRAM, 3, 1, 1, 4, 0, 0, 0]);
    assert_eq!(answer(&bad), with(&[0x8000_0014, 9, 1, 1, 1, 1]));
    // Arguments that are none, that end too early, that have data beyond the record.
    let garbage = with(&[0x8000_0018, 9, 1, 0, 0, 0, 4]);
    assert_eq!(answer(&header(9, ok, &words_of(&[1, 77]))), garbage);
    assert_eq!(answer(&header(9, ok, &words_of(&[2, 3, 0]))), garbage);
    assert_eq!(answer(&header(9, ok, &words_of(&[1, 2, 0, 0, 1000, 7]))), garbage);
    assert_eq!(answer(&header(9, ok, &words_of(&[1, 2, 0, 0, u32::MAX, 7]))), garbage);
    // A reply to no call is dropped.
    assert_eq!(answer(&words_of(&[100, 1, 0, 0, 0, 0])), with(&[]));
    // What is no message closes.
    assert_eq!(answer(&words_of(&[9, 2, 0])), close(Violation::MessageType));
    assert_eq!(answer(&words_of(&[9, 0, 2, 1, 1])), close(Violation::HeaderTruncated));
    assert_eq!(answer(&[]), close(Violation::HeaderTruncated));
    assert_eq!(answer(&words_of(&[9, 1, 2])), close(Violation::ReplyStatus));
    assert_eq!(answer(&words_of(&[9, 0, 2, 1, 1, 1, 0, 1, 1, 0, 0])), close(Violation::HeaderPadding));
    let mut server = server();
    server.receive(Instant::ZERO, &Fragment::whole(config().longest_record + 1).encode());
    let too_long = CloseReason::Violation(Violation::RecordTooLong.describe());
    assert_eq!(server.connection.poll_close(), Some(too_long));
}

#[test]
fn a_call_that_comes_twice_while_it_is_under_way_is_carried_out_once() {
    let mut server = server();
    server.connection.peer().holds = true;
    for _ in 0..3 {
        server.receive(Instant::ZERO, &record(&message_of_names()));
    }
    assert_eq!(server.connection.peer().waiting.len(), 1);
    server.connection.handle_input(Instant::ZERO, Input::Answer);
    assert_eq!(words(&server.transmit(Instant::ZERO)).first(), Some(&(0x8000_0034)));
    // Afterwards it is a call like any other: what was carried out before is the upper layer's to know.
    server.receive(Instant::ZERO, &record(&message_of_names()));
    assert_eq!(server.connection.peer().waiting.len(), 1);
}

/// A server that sends more data than was asked for, or no results at all, fails the call alone.
#[test]
fn replies_that_do_not_fit_fail_their_call() {
    let run = |results: &[u32]| {
        let mut client = Half::new(TcpConnection::new(Peer::default(), config()));
        let read = Operation::Read { offset: 0, count: 8 };
        client.connection.handle_input(Instant::ZERO, compound(1, &[read]));
        client.connection.handle_input(Instant::ZERO, compound(2, &[]));
        client.transmit(Instant::ZERO);
        let reply = |xid: u32, results: &[u32]| {
            let words = [&[xid, 1, 0, 0, 0, 0][..], results].concat();
            record(&words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>())
        };
        client.receive(Instant::ZERO, &reply(100, results));
        client.receive(Instant::ZERO, &reply(101, &[0]));
        assert_eq!(client.connection.peer().outcomes(), [(2, vec![])]);
        let replies = &client.connection.peer().replies;
        let failed = replies.iter().find(|reply| reply.results.tag == 1).unwrap();
        assert_eq!(failed.unused.len(), 1, "its memory is back");
        match failed.outcome {
            Err(CallError::Undecodable(error)) => error,
            ref other => panic!("{other:?}"),
        }
    };
    assert_eq!(run(&[1, 1, 0, 9, 1, 2, 3]), Error::TooLong { length: 9, maximum: 8 });
    assert_eq!(run(&[]), Error::Truncated { missing: 4 });
    assert_eq!(run(&[1, 1, 0, 8, 1]), Error::Truncated { missing: 4 });
    assert_eq!(run(&[99]), Error::TooLong { length: 99, maximum: 16 });
}

/// A reply to a call that has not been sent is none.
#[test]
fn a_reply_before_its_call_is_dropped() {
    let mut client = Half::new(TcpConnection::new(Peer::default(), config()));
    client.connection.handle_input(Instant::ZERO, compound(1, &[]));
    let words = [0x8000_001c, 100, 1, 0, 0, 0, 0, 0_u32];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    client.receive(Instant::ZERO, &bytes);
    assert!(client.connection.peer().replies.is_empty());
    client.transmit(Instant::ZERO);
    client.receive(Instant::ZERO, &bytes);
    assert_eq!(client.connection.peer().outcomes().len(), 1);
}

/// A peer that reads nothing makes a server hold no more than its bound, and is closed in time.
#[test]
fn a_peer_that_reads_nothing_is_bounded_and_closed() {
    let mut server = server();
    let long = "n".repeat(250);
    let operations: Vec<Operation> = (0..16).map(|_| name(&long)).collect();
    let mut xid = 0;
    while server.connection.wants_bytes() {
        xid += 1;
        server.receive(Instant::ZERO, &record(&message(xid, &operations)));
        assert!(xid <= 8, "no more than its calls");
    }
    assert_eq!(xid, 8);
    assert!(server.connection.held() < 128 << 10, "{}", server.connection.held());
    let mut send = protocol::Transmit::new(1000, 8);
    server.connection.poll_transmit(Instant::ZERO, &mut send);
    let due = server.connection.poll_timeout().unwrap();
    server.connection.handle_timeout(due);
    let close = server.connection.poll_close();
    assert_eq!(close, Some(CloseReason::TimedOut("RPC: the peer does not read what is sent to it")));
}

/// A peer that stops in the middle of a payload does not keep its memory for ever.
#[test]
fn a_payload_that_does_not_come_closes_the_connection() {
    let mut server = server();
    let message = message(5, &[Operation::Write { offset: 0, data: vec![1; 5000], behind: 0 }]);
    let bytes = record(&message);
    server.receive(Instant::ZERO, &bytes[..1000]);
    let due = server.connection.poll_timeout().unwrap();
    server.connection.handle_timeout(due);
    assert!(matches!(server.connection.poll_close(), Some(CloseReason::TimedOut(_))));
    // One that comes in time does not.
    let mut server = self::server();
    server.receive(Instant::ZERO, &bytes[..1000]);
    server.receive(Instant::ZERO, &bytes[1000..]);
    assert_eq!((server.connection.poll_timeout(), server.connection.peer().calls), (None, 1));
}

#[test]
fn procedures_are_named_in_full() {
    let mut client = TcpConnection::new(Peer::default(), config());
    let to = Procedure { program: 1, version: 2, procedure: 0 };
    client.handle_input(Instant::ZERO, Input::Call { tag: 0, procedure: to, operations: Vec::new() });
    assert_eq!(words(&Half::new(client).transmit(Instant::ZERO))[3..7], [2, 1, 2, 0]);
}
