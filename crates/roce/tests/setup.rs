//! Connection management: both roles, what is lost on the way, and what a peer must not do (IBTA chapter 12).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod rig;

use std::time::Duration;

use protocol::{CloseReason, Instant};
use rig::victim::{FIRST, NAME, PEER, Victim, acknowledge, granted, management, message, request};
use rig::{CONFIG, Faults, Host, World, far_address, near_address, post_receive, send};
use roce::endpoint::{Arrival, NoConnection, Target};
use roce::header::U24;
use roce::limits::{
    ANSWERS, DECISION_TIME, DISCONNECT_ATTEMPTS, MANAGEMENT_ATTEMPTS, QUEUE_PAIRS, REJECT_PRIVATE_DATA,
    REPLY_PRIVATE_DATA, REQUEST_PRIVATE_DATA, SERVICE_TIME,
};
use roce::management::{Content, Message, Names, Reason, Rejected, Reply};
use roce::mtu::Mtu;
use roce::opcode::Opcode;
use roce::syndrome::{Credits, Syndrome};
use roce::{Config, Connection};
use verbs::{
    EndReason, ManagedQueuePair as _, PrivateData, QueuePair as _, QueuePairState, SetupAnswer, SetupEvent,
};

fn names(receiver: u32) -> Names {
    Names { sender: NAME, receiver }
}

fn said(transaction: u64, receiver: u32, content: Content) -> Message {
    Message { transaction, names: names(receiver), content }
}

/// A host that has been asked for a connection, and its name for it.
fn asked(answer: Option<SetupAnswer>) -> (Victim, Vec<Message>) {
    let mut victim = Victim::host(CONFIG);
    victim.host.answer = answer;
    let messages = victim.tell_manager(&request(Mtu::Bytes1024));
    (victim, messages)
}

const ACCEPT: Option<SetupAnswer> = Some(SetupAnswer::Accept(PrivateData::NONE));

#[test]
fn both_hear_each_others_words() {
    let mut world = World::new([CONFIG, CONFIG], false, 1);
    world.hosts[1].answer = Some(SetupAnswer::Accept(PrivateData::new(b"welcome").unwrap()));
    let now = world.now;
    world.hosts[0].connect(now, far_address(false).ip(), b"let me in");
    world.run();
    let padded = |words: &[u8], length: usize| {
        let mut bytes = words.to_vec();
        bytes.resize(length, 0);
        PrivateData::received(&bytes)
    };
    let requested = SetupEvent::Requested(padded(b"let me in", REQUEST_PRIVATE_DATA));
    let far = [&requested, &SetupEvent::Established(PrivateData::NONE)];
    assert_eq!(world.hosts[1].heard(), far);
    let established = SetupEvent::Established(padded(b"welcome", REPLY_PRIVATE_DATA));
    assert_eq!(world.hosts[0].heard(), [&established]);
    assert!(world.hosts.iter_mut().all(|host| host.one().is_connected()));
}

#[test]
fn a_consumer_rejects() {
    let mut world = World::new([CONFIG, CONFIG], false, 1);
    world.hosts[1].answer = Some(SetupAnswer::Reject(PrivateData::new(b"no").unwrap()));
    let now = world.now;
    world.hosts[0].connect(now, far_address(false).ip(), b"");
    world.run();
    let [SetupEvent::Rejected(words)] = world.hosts[0].heard()[..] else { panic!("a rejection") };
    assert_eq!((&words.bytes()[..2], words.bytes().len()), (b"no".as_slice(), REJECT_PRIVATE_DATA));
    for (host, why) in world.hosts.iter_mut().zip([EndReason::ByPeer, EndReason::ByUs]) {
        assert_eq!(host.one().state(), QueuePairState::Ended(why));
        assert!(host.one().is_finished());
        host.forget_finished();
        assert!(host.endpoint.is_empty());
    }
}

#[test]
fn connections_come_and_go_over_a_network_that_fails() {
    for seed in 0..100 {
        let mut world = World::new([CONFIG, CONFIG], seed % 2 == 0, seed);
        world.faults = Faults { lost: 150, doubled: 150, late: 150, damaged: 50 };
        world.connect();
        world.end(usize::try_from(seed % 2).unwrap()).disconnect();
        world.run();
        for host in &mut world.hosts {
            assert!(host.connections.values().all(Connection::is_finished), "seed {seed}");
        }
    }
}

#[test]
fn a_request_is_sent_again_and_given_up() {
    let mut victim = Victim::host(CONFIG);
    victim.host.connect(victim.now, far_address(false).ip(), b"");
    let first = victim.hear_manager();
    for _ in 1..MANAGEMENT_ATTEMPTS {
        victim.wait();
        assert_eq!(victim.hear_manager(), first);
    }
    victim.wait();
    let last = victim.hear_manager();
    assert!(matches!(last[0].content, Content::Reject(Rejected::Other, Reason::TIMEOUT, _)), "{last:?}");
    assert_eq!(victim.connection().state(), QueuePairState::Ended(EndReason::Lost));
    assert!(matches!(victim.connection().close_reason(), Some(CloseReason::TimedOut(_))));
    assert!(victim.connection().is_finished());
}

#[test]
fn a_peer_may_ask_for_patience_within_a_limit() {
    let mut victim = Victim::host(CONFIG);
    victim.host.connect(victim.now, far_address(false).ip(), b"");
    let own = victim.hear_manager()[0].names.sender;
    for (exponent, wait) in [(20, Duration::from_nanos(4096 << 20)), (31, SERVICE_TIME)] {
        // An MRA is one that only a peer sends: by hand.
        let mut bytes = said(9, own, Content::Ready).encode();
        (bytes[17], bytes[24 + 9]) = (0x11, exponent << 3);
        let header = roce::header::BaseTransportHeader::new(Opcode::DATAGRAM, U24::new(1), U24::new(0));
        let extended = roce::packet::Extended::Datagram(roce::header::Datagram::new(
            roce::management::QUEUE_KEY,
            U24::new(1),
        ));
        let packet = roce::packet::Packet { header, extended, payload: &bytes };
        let bytes = rig::victim::datagram(far_address(false), near_address(false), &packet);
        victim.host.receive(victim.now, far_address(false), &bytes);
        assert_eq!(victim.host.deadline().unwrap().since(victim.now), wait);
    }
}

#[test]
fn a_reply_that_is_lost_is_sent_again() {
    let (mut victim, first) = asked(ACCEPT);
    assert!(matches!(first[0].content, Content::Reply(_)));
    // The peer asks again, or the time is over.
    assert_eq!(victim.tell_manager(&request(Mtu::Bytes1024)), first);
    victim.wait();
    assert_eq!(victim.hear_manager(), first);
    assert_eq!(victim.host.connections.len(), 1, "it is one connection");
}

#[test]
fn readiness_that_is_lost_is_said_again_or_shown_by_a_packet() {
    let mut victim = Victim::initiator(4);
    let own = victim.connection().id().0;
    let reply = said(9, own, granted(4));
    let again = victim.tell_manager(&reply);
    assert_eq!(again[0].content, Content::Ready);
    assert_eq!(victim.host.events.len(), 1, "it is established once");

    let (mut victim, reply) = asked(ACCEPT);
    let Content::Reply(Reply { terms, .. }) = &reply[0].content else { panic!("a reply") };
    post_receive(victim.connection(), 1, 8);
    let mut packet = message(Opcode::SEND_ONLY, FIRST, &[1; 8]);
    packet.asks = true;
    victim.set_queue_pair(terms.queue_pair.get());
    assert_eq!(victim.tell(&packet)[0].syndrome(), Some(Syndrome::Ack(Credits::UNLIMITED)));
    assert!(victim.connection().is_connected());
}

#[test]
fn nothing_is_sent_before_the_peer_is_ready() {
    let (mut victim, reply) = asked(ACCEPT);
    send(victim.connection(), 1, &[1; 8]);
    assert_eq!(victim.hear(), []);
    victim.tell_manager(&said(9, reply[0].names.sender, Content::Ready));
    send(victim.connection(), 2, &[1; 8]);
    assert_eq!(victim.hear().len(), 1, "the first has gone with the answer");
}

#[test]
fn a_consumer_that_does_not_decide_has_rejected() {
    let (mut victim, messages) = asked(None);
    assert_eq!(messages, []);
    assert_eq!(victim.tell_manager(&request(Mtu::Bytes1024)), [], "a request again");
    assert_eq!(victim.host.deadline(), Some(Instant::ZERO + DECISION_TIME));
    victim.wait();
    let rejection = victim.hear_manager();
    assert!(matches!(rejection[0].content, Content::Reject(Rejected::Request, Reason::TIMEOUT, _)));
    assert!(victim.connection().is_finished());
}

#[test]
fn what_is_too_long_for_a_message_is_not_cut() {
    let long = |length: usize| PrivateData::new(&vec![1; length]).unwrap();
    for (answer, fits) in [
        (SetupAnswer::Accept(long(REPLY_PRIVATE_DATA)), true),
        (SetupAnswer::Accept(long(REPLY_PRIVATE_DATA + 1)), false),
        (SetupAnswer::Reject(long(REJECT_PRIVATE_DATA + 1)), false),
    ] {
        let (mut victim, messages) = asked(Some(answer));
        assert_eq!(matches!(messages[0].content, Content::Reply(_)), fits);
        assert_eq!(matches!(victim.connection().close_reason(), Some(CloseReason::Limit(_))), !fits);
    }
    let mut host = Host::new(near_address(false), CONFIG, Vec::new());
    let private_data = long(REQUEST_PRIVATE_DATA + 1);
    let target = Target { address: far_address(false), port: 1, config: CONFIG, private_data };
    let account = buf::Account::new(&buf::Pool::new(1 << 20));
    let refused = host.endpoint.connect(Instant::ZERO, target, account).err();
    assert_eq!(refused, Some(NoConnection::PrivateDataTooLong));
}

#[test]
fn requests_that_cannot_be_granted_are_rejected() {
    let mut other_port = request(Mtu::Bytes1024);
    let Content::Request(wanted) = &mut other_port.content else { panic!("a request") };
    wanted.port = 99;
    let cases = [(other_port, Reason::SERVICE), (request(Mtu::Bytes4096), Reason::MTU)];
    for (request, reason) in cases {
        let mut victim = Victim::host(CONFIG);
        let rejection = victim.tell_manager(&request);
        assert!(
            matches!(&rejection[0].content, Content::Reject(Rejected::Request, why, _) if *why == reason)
        );
        assert_eq!(rejection[0].names, Names { sender: 0, receiver: NAME });
        assert_eq!(rejection[0].transaction, 9);
        assert!(victim.host.endpoint.is_empty());
    }
}

#[test]
fn a_wish_to_end_is_answered_as_often_as_it_comes() {
    let (mut victim, reply) = asked(ACCEPT);
    let own = reply[0].names.sender;
    victim.tell_manager(&said(9, own, Content::Ready));
    let Content::Reply(Reply { terms, .. }) = &reply[0].content else { panic!("a reply") };
    let other = said(11, own, Content::Disconnect(U24::new(terms.queue_pair.get() + 1)));
    assert_eq!(victim.tell_manager(&other), [], "of another queue pair");
    let wish = said(12, own, Content::Disconnect(terms.queue_pair));
    for _ in 0..3 {
        let answer = victim.tell_manager(&wish);
        assert_eq!((answer[0].transaction, &answer[0].content), (12, &Content::Disconnected));
        assert_eq!(answer[0].names, Names { sender: own, receiver: NAME });
        victim.host.forget_finished();
    }
    assert!(victim.host.endpoint.is_empty());
}

#[test]
fn an_end_that_nobody_answers_ends_nevertheless() {
    let mut victim = Victim::initiator(4);
    victim.connection().disconnect();
    for _ in 0..DISCONNECT_ATTEMPTS {
        let wish = victim.hear_manager();
        assert_eq!(wish[0].content, Content::Disconnect(U24::new(PEER)));
        assert!(!victim.connection().is_finished());
        victim.wait();
    }
    assert!(victim.connection().is_finished());
}

#[test]
fn others_can_neither_end_nor_feed_a_connection() {
    let mut victim = Victim::initiator(4);
    let own = victim.connection().id().0;
    send(victim.connection(), 1, &[1; 8]);
    victim.hear();
    let mut stranger = far_address(false);
    stranger.set_ip("10.0.0.3".parse().unwrap());
    let wish = said(12, own, Content::Disconnect(U24::new(own)));
    let bytes = management(stranger, near_address(false), &wish);
    victim.host.receive(victim.now, stranger, &bytes);
    let answers = victim.host.transmit(victim.now);
    assert_eq!(answers[0].0, stranger.ip(), "whoever asks is told that there is no such connection of his");
    let other_name = Message { names: Names { sender: NAME + 1, receiver: own }, ..wish };
    assert_eq!(victim.tell_manager(&other_name), []);
    assert_eq!(victim.connection().state(), QueuePairState::Open);
    let acknowledgement = acknowledge(rig::victim::OWN_FIRST, Syndrome::Ack(Credits::UNLIMITED));
    victim.tell_from(stranger, &acknowledgement);
    assert!(rig::done(victim.connection()).is_empty(), "a stranger acknowledges");
    // A packet for a queue pair that there is none of.
    victim.set_queue_pair(own + 1);
    victim.tell(&acknowledgement);
    assert!(rig::done(victim.connection()).is_empty());
    victim.set_queue_pair(own);
    victim.tell(&acknowledgement);
    assert_eq!(rig::done(victim.connection()).len(), 1, "the peer does");
}

#[test]
fn answers_to_strangers_are_bounded() {
    let mut host = Host::new(near_address(false), CONFIG, Vec::new());
    for name in 0..200 {
        let wish = said(name, 0x00ab_cdef, Content::Disconnect(U24::new(1)));
        let bytes = management(far_address(false), near_address(false), &wish);
        host.receive(Instant::ZERO, far_address(false), &bytes);
    }
    assert_eq!(host.transmit(Instant::ZERO).len(), ANSWERS);
}

#[test]
fn a_reply_for_a_connection_that_was_given_up_is_rejected() {
    let mut world = World::new([CONFIG, CONFIG], false, 1);
    let [near, far] = &mut world.hosts;
    let id = near.connect(Instant::ZERO, far_address(false).ip(), b"");
    for (_, bytes) in near.transmit(Instant::ZERO) {
        far.receive(Instant::ZERO, near_address(false), &bytes);
    }
    // Its rejection is lost.
    near.endpoint.forget(id);
    near.connections.remove(&id);
    world.run();
    assert!(world.hosts[1].one().is_finished(), "it does not repeat its reply");
    assert!(world.now < Instant::ZERO + Duration::from_millis(1), "nor waits for anything");
}

#[test]
fn an_endpoint_has_as_many_queue_pairs_as_its_limit_and_memory_allow() {
    let few = Config { reads_served: 1, ..CONFIG };
    let full = |pool: &buf::Pool, memory: &buf::Pool| {
        let entropy = Box::new(protocol::SeededEntropy::new(1));
        let mut endpoint = roce::Endpoint::new(near_address(false), buf::Account::new(pool), entropy);
        let mut kept = Vec::new();
        loop {
            let address = far_address(false);
            let target = Target { address, port: 1, config: few, private_data: PrivateData::NONE };
            match endpoint.connect(Instant::ZERO, target, buf::Account::new(memory)) {
                Ok(connection) => kept.push(connection),
                Err(why) => {
                    assert_eq!(why, NoConnection::Full);
                    break;
                }
            }
        }
        // One that goes makes room for one.
        endpoint.forget(kept[0].id());
        let address = far_address(false);
        let target = Target { address, port: 1, config: few, private_data: PrivateData::NONE };
        assert!(endpoint.connect(Instant::ZERO, target, buf::Account::new(memory)).is_ok());
        kept.len()
    };
    let memory = buf::Pool::new(64 << 20);
    assert_eq!(full(&buf::Pool::new(64 << 20), &memory), QUEUE_PAIRS);
    assert!(full(&buf::Pool::new(100_000), &memory) < 1000);
}

#[test]
fn what_is_damaged_or_foreign_is_nobodys() {
    let mut host = Host::new(near_address(false), CONFIG, Vec::new());
    let good = management(far_address(false), near_address(false), &request(Mtu::Bytes1024));
    let mut other_class = request(Mtu::Bytes1024).encode().to_vec();
    other_class[1] = 3;
    for length in 0..good.len() {
        let arrival = host.endpoint.handle_datagram(far_address(false), &good[..length]);
        assert!(matches!(arrival, Arrival::Nothing), "{length} bytes");
    }
    assert!(Message::decode(&other_class).is_err());
    let v6 = rig::near_address(true);
    assert!(matches!(host.endpoint.handle_datagram(v6, &good), Arrival::Nothing));
    assert!(matches!(host.endpoint.handle_datagram(far_address(false), &good), Arrival::Request(_)));
}
