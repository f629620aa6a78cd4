//! The set-up: what Linux' siw says and must hear, revisions, readiness, rejections, and patience.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod rig;

use std::time::Duration;

use iwarp::Role;
use iwarp::limits::{REPLY_TIME, REQUEST_TIME, RTR_TIME};
use iwarp::mpa::{Offer, Revision, Rtr, RtrKinds};
use protocol::{CloseReason, Connection as _, Ended, Instant};
use rig::{Chunks, End, Joined, OFFER, SEND, Victim, config, connection, initiator, list, responder};
use verbs::{
    EndReason, PrivateData, QueuePair as _, QueuePairState, SetupAnswer, SetupEvent, WorkDone, WorkError,
    WorkRequest,
};

const KEY_REQUEST: &[u8] = b"MPA ID Req Frame";
const KEY_REPLY: &[u8] = b"MPA ID Rep Frame";

fn private(bytes: &[u8]) -> PrivateData {
    PrivateData::new(bytes).unwrap()
}

fn frame(key: &[u8], rest: &[u8]) -> Vec<u8> {
    [key, rest].concat()
}

/// A responder that hears a request and accepts: its reply.
fn reply_to(offer: Offer, request: &[u8]) -> (End, Vec<u8>) {
    let mut end = End::new(responder(offer));
    for byte in request {
        end.receive(Instant::ZERO, &[*byte]);
    }
    end.connection.handle_input(Instant::ZERO, SetupAnswer::Accept(PrivateData::NONE));
    let reply = end.transmit(Instant::ZERO);
    (end, reply)
}

/// What `nvmet` on siw answers to NVMe/RDMA's admin queue, but for its private data.
#[test]
fn the_answer_to_siw_is_that_of_siw() {
    let offer = Offer { ird: 128, ord: 128, ..OFFER };
    let admin = [&[0x10, 2, 0, 0x24, 0, 0x80, 0, 0, 0, 0, 0, 0, 0x20, 0, 0x1f, 0][..], &[0; 24]].concat();
    let (mut end, reply) = reply_to(offer, &frame(KEY_REQUEST, &admin));
    assert_eq!(reply, frame(KEY_REPLY, &[0x10, 2, 0, 4, 0, 0, 0, 0x80]));
    let heard = private(&admin[8..]);
    assert_eq!(end.actions, [SetupEvent::Requested(heard)]);
    assert!(!end.connection.is_established(), "before the first FPDU has come");
    end.receive(Instant::ZERO, &rig::fpdu(&[], false));
    assert!(end.connection.is_established());
    let (_, reply) = reply_to(offer, &frame(KEY_REQUEST, &[0x50, 2, 0, 4, 0x80, 0x80, 0xc0, 1]));
    assert_eq!(reply, frame(KEY_REPLY, &[0x50, 2, 0, 4, 0x80, 1, 0x80, 0x80]), "peer to peer, with CRCs");
    let (_, reply) = reply_to(offer, &frame(KEY_REQUEST, &[0, 1, 0, 0]));
    assert_eq!(reply, frame(KEY_REPLY, &[0, 1, 0, 0]), "revision 1");
    let (_, reply) = reply_to(offer, &frame(KEY_REQUEST, &[0, 2, 0, 0]));
    assert_eq!(reply, frame(KEY_REPLY, &[0, 2, 0, 0]), "revision 2 without the enhanced part");
}

/// The first FPDUs of NVMe/RDMA and iSER on siw: a Send of 64 bytes, and one of 512.
#[test]
fn the_first_messages_of_siw_are_received() {
    for (bytes, ulpdu) in [(64, 82), (512, 530)] {
        let mut victim = Victim::new(false, |end| end.post_receive(1, bytes));
        let message = rig::Message { payload: &vec![7; bytes], ..SEND }.ulpdu();
        assert_eq!(message.len(), ulpdu);
        assert!(victim.tell(&message).is_empty());
        let done = victim.end.done();
        assert_eq!(done[0].result, Ok(WorkDone::Received { length: bytes, invalidated: None }));
    }
}

#[test]
fn private_data_goes_both_ways() {
    for revision in [Revision::One, Revision::Two] {
        let offer = Offer { revision, ..OFFER };
        let near = connection(config(Role::Initiator(private(b"may I")), offer));
        let mut joined = Joined::new(near, responder(OFFER));
        joined.chunks = Chunks::Of(3);
        joined.run();
        assert_eq!(joined.far().actions, [SetupEvent::Requested(private(b"may I"))]);
        joined.far().connection.handle_input(Instant::ZERO, SetupAnswer::Accept(private(b"you may")));
        joined.run();
        assert_eq!(joined.near().actions, [SetupEvent::Established(private(b"you may"))]);
    }
}

#[test]
fn a_rejection_is_told_with_its_reason() {
    let mut joined = Joined::new(initiator(OFFER), responder(OFFER));
    joined.near().post_receive(1, 10);
    joined.near().post(2, WorkRequest::Send { data: list(b"x"), invalidate: None });
    joined.run();
    joined.far().connection.handle_input(Instant::ZERO, SetupAnswer::Reject(private(b"full")));
    joined.run();
    assert_eq!(joined.near().actions, [SetupEvent::Rejected(private(b"full"))]);
    let ended = [EndReason::ByPeer, EndReason::ByUs].map(QueuePairState::Ended);
    assert_eq!([joined.near().connection.state(), joined.far().connection.state()], ended);
    assert!(matches!(joined.near().connection.poll_close(), Some(CloseReason::Refused(_))));
    let flushed = joined.near().done();
    assert!(flushed.len() == 2 && flushed.iter().all(|done| done.result == Err(WorkError::Flushed)));
    // Too late to think again.
    joined.far().connection.handle_input(Instant::ZERO, SetupAnswer::Accept(PrivateData::NONE));
    assert!(joined.far().transmit(Instant::ZERO).is_empty());
}

/// The ways to show readiness, byte for byte; what is posted goes out behind.
#[test]
fn each_way_to_show_readiness_opens_the_other_end() {
    let kinds: [(Rtr, Vec<u8>); 3] = [
        (Rtr::Write, rig::fpdu(&rig::Access { payload: &[], ..rig::WRITE }.ulpdu(), false)),
        (Rtr::ZeroLength, rig::fpdu(&[], false)),
        (Rtr::Read, {
            let mut ulpdu = rig::Message { control: [0x41, 0x41], queue: 1, payload: &[], ..SEND }.ulpdu();
            ulpdu.extend(0x8000_0001_u32.to_be_bytes());
            ulpdu.extend([0; 24]);
            rig::fpdu(&ulpdu, false)
        }),
    ];
    for (rtr, expected) in kinds {
        // Reads are wanted by none: the one that shows readiness goes all the same.
        let near = Offer { rtr: RtrKinds::only(rtr), ird: 0, ord: 0, ..OFFER };
        let mut joined = Joined::new(initiator(near), responder(Offer { ird: 0, ord: 0, ..OFFER }));
        joined.near().post(1, WorkRequest::Send { data: list(b"x"), invalidate: None });
        joined.near().post_receive(2, 9);
        joined.far().post_receive(3, 9);
        joined.far().post(4, WorkRequest::Send { data: list(b"y"), invalidate: None });
        let request = joined.near().transmit(Instant::ZERO);
        joined.far().receive(Instant::ZERO, &request);
        joined.far().connection.handle_input(Instant::ZERO, SetupAnswer::Accept(PrivateData::NONE));
        let reply = joined.far().transmit(Instant::ZERO);
        joined.near().receive(Instant::ZERO, &reply);
        let sent = joined.near().transmit(Instant::ZERO);
        assert_eq!(sent[..expected.len()], expected, "{rtr:?}");
        assert!(joined.far().transmit(Instant::ZERO).is_empty(), "the responder waits");
        joined.far().receive(Instant::ZERO, &sent[..expected.len()]);
        assert!(joined.far().connection.is_established());
        joined.far().receive(Instant::ZERO, &sent[expected.len()..]);
        joined.run();
        for (at, ids) in [(0, [1, 2]), (1, [4, 3])] {
            let mut done: Vec<u64> = joined.ends[at].done().iter().map(|done| done.id.0).collect();
            done.sort_unstable();
            let mut ids = ids;
            ids.sort_unstable();
            assert_eq!(done, ids, "{rtr:?}: the read that shows readiness completes to nobody");
        }
    }
}

#[test]
fn a_responder_does_not_send_first() {
    let near = Offer { rtr: RtrKinds::default(), ..OFFER };
    let mut joined = Joined::open([near, OFFER], Chunks::Of(usize::MAX));
    joined.far().post(1, WorkRequest::Send { data: list(b"y"), invalidate: None });
    joined.near().post_receive(2, 9);
    joined.run();
    assert!(joined.near().done().is_empty() && joined.far().connection.poll_timeout().is_none());
    joined.far().post_receive(3, 9);
    joined.near().post(4, WorkRequest::Send { data: list(b"x"), invalidate: None });
    joined.run();
    assert_eq!((joined.near().done().len(), joined.far().done().len()), (2, 2));
}

/// What the initiator of a request with an IRD of 4 says to a reply.
fn answer_to(offer: Offer, reply: &[u8]) -> (End, Vec<u8>) {
    let mut end = End::new(initiator(offer));
    end.transmit(Instant::ZERO);
    end.receive(Instant::ZERO, &frame(KEY_REPLY, reply));
    let answer = end.transmit(Instant::ZERO);
    (end, answer)
}

#[test]
fn a_responder_that_wants_more_reads_than_are_served_is_terminated() {
    let (end, answer) = answer_to(OFFER, &[0x10, 2, 0, 4, 0x80, 4, 0x80, 5]);
    let terminate = rig::Message { control: [0x41, 0x47], queue: 2, payload: &[0x20, 6, 0, 0], ..SEND };
    assert_eq!(answer, rig::fpdu(&terminate.ulpdu(), false));
    assert!(matches!(end.connection.poll_close(), Some(CloseReason::Violation(_))));
    // With CRCs the Terminate has one, too.
    let (_, answer) = answer_to(OFFER, &[0x50, 2, 0, 4, 0x80, 4, 0x80, 5]);
    assert_eq!(answer, rig::fpdu(&terminate.ulpdu(), true));
}

#[test]
fn a_responder_without_a_common_way_to_show_readiness_is_terminated() {
    let near = Offer { rtr: RtrKinds::only(Rtr::Read), ..OFFER };
    let (_, answer) = answer_to(near, &[0x10, 2, 0, 4, 0x80, 4, 0x80, 4]);
    let terminate = rig::Message { control: [0x41, 0x47], queue: 2, payload: &[0x20, 7, 0, 0], ..SEND };
    assert_eq!(answer, rig::fpdu(&terminate.ulpdu(), false));
    // The responder hears it.
    let far = Offer { rtr: RtrKinds::only(Rtr::Write), ..OFFER };
    let mut joined = Joined::open([near, far], Chunks::Of(usize::MAX));
    let why = EndReason::Terminated("the peer says: no matching RTR option");
    assert_eq!(joined.far().connection.state(), QueuePairState::Ended(why));
}

#[test]
fn frames_that_are_none_close_the_connection_without_an_answer() {
    let requests: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"MPA ID Rep Frame\0\x01\0\0",
        b"MPA ID Req Frame\0\x01\x02\x01",
        b"MPA ID Req Frame\x10\x02\0\x03\0\0\0",
        b"MPA ID Req Frame\0\x03\0\0",
        b"MPA ID Req Frame\0\0\0\0",
    ];
    for request in requests {
        let mut end = End::new(responder(OFFER));
        end.receive(Instant::ZERO, request);
        assert!(matches!(end.connection.poll_close(), Some(CloseReason::Violation(_))), "{request:?}");
        assert!(end.transmit(Instant::ZERO).is_empty() && end.actions.is_empty());
        assert!(matches!(end.connection.state(), QueuePairState::Ended(EndReason::Violation(_))));
    }
    let replies: [&[u8]; 4] =
        [&[0, 1, 0, 0], &[0, 2, 0, 0], &[0x10, 2, 0, 2, 0, 0], &[0x10, 3, 0, 4, 0, 0, 0, 0]];
    for reply in replies {
        let (end, answer) = answer_to(OFFER, reply);
        assert!(matches!(end.connection.poll_close(), Some(CloseReason::Violation(_))), "{reply:?}");
        assert!(answer.is_empty());
    }
}

#[test]
fn who_is_silent_is_not_waited_for() {
    let tick = Duration::from_nanos(1);
    // A responder whose peer says nothing, or half of it.
    for said in [&[][..], &rig::siw_request()[..30]] {
        let mut end = End::new(responder(OFFER));
        end.receive(Instant::ZERO, said);
        let deadline = end.connection.poll_timeout().unwrap();
        assert_eq!(deadline, Instant::ZERO + REQUEST_TIME);
        end.connection.handle_timeout(Instant::ZERO + Duration::from_millis(9_999));
        assert_eq!(end.connection.poll_close(), None, "merely early");
        end.connection.handle_timeout(deadline);
        assert!(matches!(end.connection.poll_close(), Some(CloseReason::TimedOut(_))));
    }
    // An initiator whose peer does not answer.
    let mut end = End::new(initiator(OFFER));
    assert_eq!(end.connection.poll_timeout(), None, "nothing is asked yet");
    end.transmit(Instant::ZERO + tick);
    let deadline = end.connection.poll_timeout().unwrap();
    assert_eq!(deadline, Instant::ZERO + tick + REPLY_TIME);
    end.post_receive(1, 10);
    end.connection.handle_timeout(deadline);
    assert!(matches!(end.connection.poll_close(), Some(CloseReason::TimedOut(_))));
    assert_eq!(end.connection.state(), QueuePairState::Ended(EndReason::Lost));
    assert_eq!(end.done().len(), 1);
    // A responder whose peer agreed to show readiness, and does not.
    let (mut end, _) = reply_to(OFFER, &frame(KEY_REQUEST, &[0x10, 2, 0, 4, 0x80, 4, 0x80, 4]));
    let deadline = end.connection.poll_timeout().unwrap();
    assert_eq!(deadline, Instant::ZERO + RTR_TIME);
    end.connection.handle_timeout(deadline);
    assert!(matches!(end.connection.poll_close(), Some(CloseReason::TimedOut(_))));
    assert!(end.transmit(Instant::ZERO).is_empty());
}

#[test]
fn while_a_consumer_decides_nothing_is_taken() {
    let mut end = End::new(responder(OFFER));
    end.receive(Instant::ZERO, &rig::siw_request());
    assert!(!end.connection.wants_bytes() && end.connection.poll_timeout().is_none());
    end.post_receive(1, 32);
    end.receive(Instant::ZERO, &rig::fpdu(&SEND.ulpdu(), false));
    assert!(end.done().is_empty());
    end.connection.handle_input(Instant::ZERO, SetupAnswer::Accept(PrivateData::NONE));
    end.transmit(Instant::ZERO);
    end.receive(Instant::ZERO, &[]);
    assert_eq!(end.done().len(), 1, "what came early was kept by the transport");
}

#[test]
fn a_peer_that_goes_while_it_is_set_up_ends_the_queue_pair() {
    let mut end = End::new(initiator(OFFER));
    end.post_receive(1, 10);
    end.transmit(Instant::ZERO);
    end.end(Instant::ZERO, Ended::ByPeer);
    assert_eq!(end.connection.state(), QueuePairState::Ended(EndReason::ByPeer));
    assert_eq!(end.done()[0].result, Err(WorkError::Flushed));
    assert_eq!(end.connection.poll_timeout(), None);
}
