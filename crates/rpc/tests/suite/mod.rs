//! What holds over every transport: a client and a server joined without a network.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use proptest::prelude::*;
use protocol::Connection;
use protocol::pair::Pair;
use rpc::message::{AcceptStat, Procedure, ReplyStatus, VersionRange};
use rpc::{CallError, Config};

use super::common::{Access, Input, LARGEST, Operation, Peer, expected, procedure};

/// Something that carries calls.
pub trait Transport {
    type Near: Access;
    type Far: Access;
    /// Joins a client and a server that are connected.
    fn join(&self, near: (Peer, Config), far: (Peer, Config)) -> Pair<Self::Near, Self::Far>;
}

pub fn join<T: Transport>(transport: &T) -> Pair<T::Near, T::Far> {
    transport.join((Peer::default(), super::common::config()), (Peer::default(), super::common::config()))
}

fn tell<C: Access, D: Access>(pair: &mut Pair<C, D>, input: Input) {
    pair.near.connection.handle_input(pair.now, input);
}

pub fn compound(tag: u64, operations: &[Operation]) -> Input {
    Input::Call { tag, procedure: procedure(1), operations: operations.to_vec() }
}

pub fn name(name: &str) -> Operation {
    Operation::Name(name.into())
}

/// Operations whose payloads are small, large, empty, and not there.
pub fn many() -> Vec<Operation> {
    vec![
        Operation::Write { offset: 5, data: vec![7; 100_001], behind: 9 },
        name("between"),
        Operation::Read { offset: 3, count: 70_000 },
        Operation::Read { offset: 1 << 40, count: 512 },
        Operation::Read { offset: 8, count: 0 },
        Operation::Read { offset: 9, count: 3 },
        Operation::Write { offset: 0, data: vec![8; 3], behind: 1 },
        Operation::Write { offset: 0, data: vec![], behind: 2 },
    ]
}

pub fn calls_are_answered<T: Transport>(transport: &T) {
    for chunk in [usize::MAX, 1000, 7, 1] {
        let mut pair = join(transport);
        pair.chunk = chunk;
        tell(&mut pair, Input::Call { tag: 1, procedure: procedure(0), operations: Vec::new() });
        tell(&mut pair, compound(2, &many()));
        tell(&mut pair, compound(3, &[]));
        pair.exchange();
        let mut store = Peer::default().store;
        let wanted = vec![(1, vec![]), (2, expected(&mut store, &many())), (3, vec![])];
        let near = pair.near.connection.peer();
        assert!(near.outcomes() == wanted, "chunks of {chunk}");
        // The failed read's memory, and that of the empty one.
        let unused = near.replies.iter().map(|reply| reply.unused.len()).sum::<usize>();
        assert_eq!(unused, 2);
        assert!(pair.far.connection.peer().store == store);
        assert_eq!(pair.near.connection.channel().calls_under_way(), 0);
        assert_eq!(pair.far.connection.channel().calls_received(), 0);
        assert!(pair.near.connection.poll_close().is_none() && pair.far.connection.poll_close().is_none());
    }
}

/// Answers come in any order, and each belongs to its call.
pub fn answers_come_in_any_order<T: Transport>(transport: &T) {
    let mut pair = join(transport);
    pair.far.connection.peer().holds = true;
    for tag in 0..8 {
        tell(&mut pair, compound(tag, &[name(&format!("call {tag}"))]));
    }
    pair.exchange();
    let mut answers = 0;
    while let far = pair.far.connection.peer()
        && !far.waiting.is_empty()
    {
        let turn = answers % far.waiting.len();
        far.waiting.rotate_left(turn);
        answers += 1;
        pair.far.connection.handle_input(pair.now, Input::Answer);
        pair.exchange();
    }
    let outcomes = pair.near.connection.peer().outcomes();
    assert_eq!(outcomes.len(), 8);
    for (tag, outcome) in outcomes {
        assert_eq!(outcome, expected(&mut [], &[name(&format!("call {tag}"))]));
    }
}

/// Calls go both ways over one connection (RFC 8881 §2.10.3.1), also while others are under way.
pub fn calls_go_both_ways<T: Transport>(transport: &T, operations: &[Operation]) {
    let mut pair = join(transport);
    pair.far.connection.peer().holds = true;
    tell(&mut pair, compound(1, &many()));
    pair.exchange();
    pair.far.connection.handle_input(pair.now, compound(7, operations));
    pair.exchange();
    let wanted = expected(&mut Peer::default().store, operations);
    assert_eq!(pair.far.connection.peer().outcomes(), [(7, wanted)]);
    assert!(pair.near.connection.peer().replies.is_empty());
    pair.far.connection.handle_input(pair.now, Input::Answer);
    pair.exchange();
    assert_eq!(pair.near.connection.peer().outcomes().len(), 1);
}

/// What a server does not have is refused, each in its way, and the next call is answered.
pub fn what_is_not_there_is_refused<T: Transport>(transport: &T) {
    let refused = |to: Procedure| {
        let mut pair = join(transport);
        tell(&mut pair, Input::Call { tag: 1, procedure: to, operations: many() });
        tell(&mut pair, compound(2, &[name("next")]));
        pair.exchange();
        let replies = &pair.near.connection.peer().replies;
        let of = |tag: u64| replies.iter().find(|reply| reply.results.tag == tag).unwrap();
        assert_eq!(of(2).outcome, Ok(()));
        // Memory that was named comes back.
        assert_eq!(of(1).unused.len(), 4);
        match of(1).outcome {
            Err(CallError::Refused(ReplyStatus::Accepted(stat))) => stat,
            ref other => panic!("{other:?}"),
        }
    };
    let to = procedure(1);
    assert_eq!(refused(Procedure { program: 1, ..to }), AcceptStat::ProgramUnavailable);
    let mismatch = AcceptStat::ProgramMismatch(VersionRange { low: 2, high: 3 });
    assert_eq!(refused(Procedure { version: 4, ..to }), mismatch);
    assert_eq!(refused(Procedure { procedure: 2, ..to }), AcceptStat::ProcedureUnavailable);
}

/// A server takes no more calls at a time than it says, whatever its client sends; the rest is answered later.
pub fn calls_under_way_are_bounded<T: Transport>(transport: &T) {
    let client = Config { calls_sent: 20, ..super::common::config() };
    let server = Config { calls_received: 3, ..super::common::config() };
    let mut pair = transport.join((Peer::default(), client), (Peer::default(), server));
    pair.far.connection.peer().holds = true;
    for tag in 0..21 {
        tell(&mut pair, compound(tag, &[name("x")]));
    }
    assert!(pair.near.connection.poll_action().is_some(), "no room for the last");
    pair.exchange();
    for answered in 1..=20 {
        let far = pair.far.connection.peer();
        assert!(!far.waiting.is_empty() && far.waiting.len() <= 3, "{} wait", far.waiting.len());
        pair.far.connection.handle_input(pair.now, Input::Answer);
        pair.exchange();
        // What is staged goes on once there is room.
        let now = pair.now;
        pair.far.receive(now, &[]);
        pair.exchange();
        assert_eq!(pair.near.connection.peer().replies.len(), answered);
    }
}

/// A call whose payload finds no memory waits, and goes on once there is some.
pub fn a_call_waits_for_memory<T: Transport>(transport: &T) {
    let pool = buf::Pool::new(LARGEST);
    let server = Peer { pool: Some(pool.clone()), ..Peer::default() };
    let client = Peer::default();
    let config = super::common::config;
    let mut pair = transport.join((client, config()), (server, config()));
    let taken = pool.take(LARGEST / 2 + 1).unwrap();
    let write = Operation::Write { offset: 0, data: vec![1; LARGEST / 2], behind: 4 };
    tell(&mut pair, compound(1, std::slice::from_ref(&write)));
    pair.exchange();
    assert!(pair.near.connection.peer().replies.is_empty());
    assert!(pair.far.connection.awaits_memory());
    let now = pair.now;
    pair.far.connection.handle_memory(now);
    pair.exchange();
    assert!(pair.far.connection.awaits_memory(), "told in vain");
    drop(taken);
    pair.far.connection.handle_memory(now);
    pair.far.receive(now, &[]);
    pair.exchange();
    assert!(!pair.far.connection.awaits_memory());
    assert_eq!(pair.near.connection.peer().outcomes(), [(1, expected(&mut Peer::default().store, &[write]))]);
}

/// A connection that ends gives every call back that was not answered, to be sent again under its number.
pub fn unanswered_calls_are_sent_again<T: Transport>(transport: &T) {
    let mut pair = join(transport);
    pair.far.connection.peer().holds = true;
    for tag in 0..3 {
        tell(&mut pair, compound(tag, &[Operation::Write { offset: tag, data: vec![3; 2000], behind: 0 }]));
    }
    pair.exchange();
    let mut unanswered = super::common::end(&mut pair.near.connection);
    assert_eq!(unanswered.len(), 3);
    unanswered.sort_by_key(|unanswered| unanswered.xid);
    assert_eq!(unanswered.iter().map(|call| call.xid).collect::<Vec<_>>(), [100, 101, 102]);
    let mut second = join(transport);
    for call in unanswered {
        tell(&mut second, Input::Again(Box::new(call)));
    }
    tell(&mut second, compound(9, &[name("new")]));
    second.exchange();
    let peer = second.near.connection.peer();
    let mut numbers: Vec<u32> = peer.replies.iter().map(|reply| reply.xid).collect();
    numbers.sort_unstable();
    assert_eq!((peer.outcomes().len(), numbers), (4, vec![100, 101, 102, 103]));
}

/// A call without a reply closes its connection in time.
pub fn a_call_without_reply_closes_the_connection<T: Transport>(transport: &T) {
    let mut pair = join(transport);
    pair.far.connection.peer().holds = true;
    tell(&mut pair, compound(1, &[name("a")]));
    pair.exchange();
    pair.now = pair.near.connection.poll_timeout().unwrap();
    pair.near.connection.handle_timeout(pair.now);
    let close = pair.near.connection.poll_close();
    assert_eq!(close, Some(protocol::CloseReason::TimedOut("RPC: a call was not answered")));
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let offset = 0_u64..1000;
    let operation = prop_oneof![
        (offset.clone(), 0_u32..5000).prop_map(|(offset, count)| Operation::Read { offset, count }),
        Just(Operation::Read { offset: 1 << 33, count: 100 }),
        (offset, proptest::collection::vec(any::<u8>(), 0..5000), any::<u32>())
            .prop_map(|(offset, data, behind)| Operation::Write { offset, data, behind }),
        "[a-z]{0,200}".prop_map(Operation::Name),
    ];
    proptest::collection::vec(operation, 0..9)
}

/// Any calls, in chunks of any size, give what they should.
pub fn any_calls<T: Transport>(transport: &T) {
    let run = |calls: Vec<Vec<Operation>>, chunk: usize| {
        let mut pair = join(transport);
        pair.chunk = chunk;
        let mut store = Peer::default().store;
        let mut wanted = Vec::new();
        for (tag, operations) in (0..).zip(&calls) {
            tell(&mut pair, compound(tag, operations));
            pair.exchange();
            wanted.push((tag, expected(&mut store, operations)));
        }
        assert!(pair.near.connection.peer().outcomes() == wanted);
        assert!(pair.far.connection.peer().store == store);
    };
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(24));
    let input = (proptest::collection::vec(operations(), 1..5), prop_oneof![1_usize..50, Just(usize::MAX)]);
    runner
        .run(&input, |(calls, chunk)| {
            run(calls, chunk);
            Ok(())
        })
        .unwrap();
}
