//! Every error that a peer can cause ends in the Terminate that its standard prescribes, with the header that was the reason, and touches nothing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod rig;

use buf::Buf;
use iwarp::Role;
use iwarp::limits;
use iwarp::mpa::Offer;
use protocol::{CloseReason, Connection as _, Ended, Instant};
use rig::{
    Access, Chunks, End, Joined, Message, OFFER, SEND, Victim, WRITE, Wanted, fpdu, list, read_request, sink,
    source,
};
use verbs::{
    EndReason, PrivateData, QueuePair as _, QueuePairState, RegionMemory, RemoteRegion, STag, SetupAnswer,
    WorkDone, WorkError, WorkMemory, WorkRequest,
};

/// Layer and type of an error, and its code.
#[derive(Clone, Copy)]
struct Error(u8, u8);

/// Headers that go with it.
const NONE: u8 = 0;
const DDP: u8 = 0xc0;
const DDP_AND_RDMAP: u8 = 0xe0;

/// The Terminate that answers a ULPDU: with so many bytes of its header.
fn terminate(error: Error, parts: u8, ulpdu: &[u8]) -> Vec<u8> {
    let tagged = ulpdu.first().is_some_and(|byte| byte & 0x80 != 0);
    let headers = match parts {
        NONE => 0,
        DDP if tagged => 14,
        DDP => 18,
        _ => 46,
    };
    let mut payload = vec![error.0, error.1, parts, 0];
    if headers > 0 {
        payload.extend(u16::try_from(ulpdu.len()).unwrap().to_be_bytes());
        payload.extend_from_slice(&ulpdu[..headers]);
    }
    Message { control: [0x41, 0x47], queue: 2, payload: &payload, ..SEND }.ulpdu()
}

/// The last message of a connection is this, and it has ended.
#[track_caller]
fn assert_terminated(victim: &mut Victim, answer: &[u8], expected: &[u8]) {
    assert_eq!(answer, fpdu(expected, false));
    let connection = &mut victim.end.connection;
    assert!(matches!(connection.state(), QueuePairState::Ended(EndReason::Violation(_))));
    assert!(matches!(connection.poll_close(), Some(CloseReason::Violation(_))));
    // Whatever comes now is nobody's, and nothing more is said.
    let more = victim.tell(&SEND.ulpdu());
    assert!(more.is_empty());
    let local = |done| matches!(done, WorkDone::Registered(_) | WorkDone::Invalidated);
    assert!(victim.end.done().iter().all(|done| done.result.is_err() || done.result.is_ok_and(local)));
}

/// A responder with a receive of 64 bytes, a region to be written to and one to be read, of 100 bytes each.
fn victim() -> (Victim, [RemoteRegion; 2]) {
    let mut victim = Victim::new(false, |end| end.post_receive(1, 64));
    let regions = [victim.end.register(sink(100)), victim.end.register(source(&[5; 100]))];
    (victim, regions)
}

/// Memory of a region that nothing has been written to.
#[track_caller]
fn assert_untouched(victim: &mut Victim, region: RemoteRegion) {
    victim.end.post(99, WorkRequest::Invalidate { stag: region.stag });
    let memory = victim.end.done().pop().map(|done| done.memory);
    let Some(WorkMemory::Region(RegionMemory::Sink(buf))) = memory else { panic!("{memory:?}") };
    assert!(buf.iter().all(|byte| *byte == 0));
}

#[track_caller]
fn a_send_is_refused(message: &Message<'_>, error: Error) {
    let (mut victim, _) = victim();
    let ulpdu = message.ulpdu();
    let answer = victim.tell(&ulpdu);
    assert_terminated(&mut victim, &answer, &terminate(error, DDP, &ulpdu));
}

#[track_caller]
fn a_write_is_refused(access: impl FnOnce([RemoteRegion; 2]) -> Access<'static>, error: Error) {
    let (mut victim, regions) = victim();
    let ulpdu = access(regions).ulpdu();
    let answer = victim.tell(&ulpdu);
    assert_terminated(&mut victim, &answer, &terminate(error, DDP, &ulpdu));
    assert_untouched(&mut victim, regions[0]);
}

#[track_caller]
fn a_read_is_refused(wanted: impl FnOnce([RemoteRegion; 2]) -> Wanted, error: Error) {
    let (mut victim, regions) = victim();
    let payload = read_request(wanted(regions));
    let ulpdu = Message { control: [0x41, 0x41], queue: 1, payload: &payload, ..SEND }.ulpdu();
    let answer = victim.tell(&ulpdu);
    assert_terminated(&mut victim, &answer, &terminate(error, DDP_AND_RDMAP, &ulpdu));
}

#[test]
fn a_crc_that_does_not_match() {
    let mut victim = Victim::new(true, |end| end.post_receive(1, 64));
    let mut bytes = fpdu(&SEND.ulpdu(), true);
    bytes[30] ^= 1;
    let answer = victim.tell_bytes(&bytes);
    assert_eq!(answer, fpdu(&terminate(Error(0x20, 2), NONE, &[]), true));
    assert_eq!(victim.end.done()[0].result, Err(WorkError::Flushed), "the message is told to nobody");
    assert_eq!(victim.end.actions.len(), 1, "nor does it show that the initiator is ready");
}

#[test]
fn a_marker_that_points_elsewhere() {
    let mut joined = Joined::open([OFFER, Offer { markers: true, ..OFFER }], Chunks::Of(usize::MAX));
    joined.far().post_receive(1, 2000);
    joined.near().post(1, WorkRequest::Send { data: list(&[1; 1000]), invalidate: None });
    let mut bytes = joined.near().transmit(Instant::ZERO);
    // The write that showed readiness took 4 for a marker and 20.
    assert_eq!(bytes[512 - 24..512 - 20], [0, 0, 0x01, 0xe8]);
    bytes[512 - 24 + 3] = 0xec;
    joined.far().receive(Instant::ZERO, &bytes);
    let answer = joined.far().transmit(Instant::ZERO);
    assert_eq!(answer, fpdu(&terminate(Error(0x20, 3), NONE, &[]), false));
}

#[test]
fn a_write_to_a_tag_that_does_not_exist() {
    a_write_is_refused(|_| WRITE, Error(0x11, 0));
    a_write_is_refused(|[sink, _]| Access { stag: sink.stag.0 ^ 1, ..WRITE }, Error(0x11, 0));
    // The tags that reads of ours go to are for their responses.
    a_write_is_refused(|_| Access { stag: 0x8000_0001, ..WRITE }, Error(0x11, 0));
}

#[test]
fn a_write_to_a_region_of_another_connection() {
    let (_other, [theirs, _]) = victim();
    let mut victim = Victim::new(false, |_| {});
    let ulpdu = Access { stag: theirs.stag.0, ..WRITE }.ulpdu();
    let answer = victim.tell(&ulpdu);
    assert_terminated(&mut victim, &answer, &terminate(Error(0x11, 0), DDP, &ulpdu));
}

#[test]
fn a_write_to_a_region_that_has_ended() {
    let (mut victim, [sink, _]) = victim();
    victim.end.post(9, WorkRequest::Invalidate { stag: sink.stag });
    assert_eq!(victim.end.done().pop().map(|done| done.result), Some(Ok(WorkDone::Invalidated)));
    let ulpdu = Access { stag: sink.stag.0, ..WRITE }.ulpdu();
    let answer = victim.tell(&ulpdu);
    assert_terminated(&mut victim, &answer, &terminate(Error(0x11, 0), DDP, &ulpdu));
}

#[test]
fn a_write_outside_of_its_region() {
    a_write_is_refused(|[sink, _]| Access { stag: sink.stag.0, offset: 85, ..WRITE }, Error(0x11, 1));
    a_write_is_refused(|[sink, _]| Access { stag: sink.stag.0, offset: 1 << 32, ..WRITE }, Error(0x11, 1));
}

#[test]
fn a_write_beyond_the_largest_offset() {
    let offset = u64::MAX - 14;
    a_write_is_refused(|[sink, _]| Access { stag: sink.stag.0, offset, ..WRITE }, Error(0x11, 3));
}

#[test]
fn a_write_to_memory_that_is_not_for_writing() {
    a_write_is_refused(|[_, source]| Access { stag: source.stag.0, ..WRITE }, Error(0x01, 2));
}

#[test]
fn other_versions_of_ddp_and_rdmap() {
    let own = |[sink, _]: [RemoteRegion; 2]| Access { stag: sink.stag.0, ..WRITE };
    a_write_is_refused(|regions| Access { control: [0xc2, 0x40], ..own(regions) }, Error(0x11, 4));
    a_write_is_refused(|regions| Access { control: [0xc1, 0x00], ..own(regions) }, Error(0x02, 5));
    a_send_is_refused(&Message { control: [0x40, 0x43], ..SEND }, Error(0x12, 6));
    a_send_is_refused(&Message { control: [0x41, 0x83], ..SEND }, Error(0x02, 5));
}

#[test]
fn a_queue_that_does_not_exist() {
    a_send_is_refused(&Message { queue: 3, ..SEND }, Error(0x12, 1));
    a_send_is_refused(&Message { queue: u32::MAX, ..SEND }, Error(0x12, 1));
}

#[test]
fn a_message_without_a_receive() {
    let (mut victim, _) = victim();
    assert!(victim.tell(&SEND.ulpdu()).is_empty());
    victim.end.done();
    let ulpdu = Message { sequence: 2, ..SEND }.ulpdu();
    let answer = victim.tell(&ulpdu);
    assert_terminated(&mut victim, &answer, &terminate(Error(0x12, 2), DDP, &ulpdu));
}

#[test]
fn messages_and_segments_out_of_sequence() {
    a_send_is_refused(&Message { sequence: 0, ..SEND }, Error(0x12, 3));
    a_send_is_refused(&Message { sequence: 2, ..SEND }, Error(0x12, 3));
    a_send_is_refused(&Message { offset: 32, ..SEND }, Error(0x12, 4));
    let (mut victim, _) = victim();
    assert!(victim.tell(&Message { control: [0x01, 0x43], ..SEND }.ulpdu()).is_empty());
    let ulpdu = Message { offset: 33, payload: &[1; 8], ..SEND }.ulpdu();
    let answer = victim.tell(&ulpdu);
    assert_terminated(&mut victim, &answer, &terminate(Error(0x12, 4), DDP, &ulpdu));
}

#[test]
fn a_message_that_is_too_long() {
    let (mut victim, _) = victim();
    assert!(victim.tell(&Message { control: [0x01, 0x43], payload: &[1; 60], ..SEND }.ulpdu()).is_empty());
    let ulpdu = Message { offset: 60, payload: &[1; 5], ..SEND }.ulpdu();
    let answer = victim.tell(&ulpdu);
    assert_eq!(answer, fpdu(&terminate(Error(0x12, 5), DDP, &ulpdu), false));
    assert_eq!(victim.end.done()[0].result, Err(WorkError::MessageTooLong));
}

#[test]
fn reads_that_are_not_allowed() {
    let wanted = |region: RemoteRegion| Wanted { stag: region.stag.0, offset: 0, length: 100 };
    a_read_is_refused(|[_, source]| Wanted { stag: source.stag.0 ^ 1, ..wanted(source) }, Error(0x01, 0));
    a_read_is_refused(|[_, source]| Wanted { offset: 1, ..wanted(source) }, Error(0x01, 1));
    a_read_is_refused(|[sink, _]| wanted(sink), Error(0x01, 2));
    a_read_is_refused(|[_, source]| Wanted { offset: u64::MAX - 1, ..wanted(source) }, Error(0x01, 4));
}

/// The region ends while its response is under way: nothing more of it is given.
#[test]
fn a_read_of_a_region_that_ends_meanwhile() {
    let (mut victim, [_, source]) = victim();
    let payload = read_request(Wanted { stag: source.stag.0, offset: 0, length: 100 });
    let ulpdu = Message { control: [0x41, 0x41], queue: 1, payload: &payload, ..SEND }.ulpdu();
    victim.end.receive(Instant::ZERO, &fpdu(&ulpdu, false));
    victim.end.post(9, WorkRequest::Invalidate { stag: source.stag });
    let answer = victim.end.transmit(Instant::ZERO);
    let expected = terminate(Error(0x01, 0), DDP_AND_RDMAP, &ulpdu);
    assert_terminated(&mut victim, &answer, &expected);
}

#[test]
fn more_reads_than_are_served() {
    let (mut victim, [_, source]) = victim();
    let payload = read_request(Wanted { stag: source.stag.0, offset: 0, length: 100 });
    let request = |sequence| Message { control: [0x41, 0x41], queue: 1, sequence, payload: &payload, ..SEND };
    // Four are served, as was agreed; none is answered, as the peer reads nothing.
    for sequence in 1..=4 {
        victim.end.receive(Instant::ZERO, &fpdu(&request(sequence).ulpdu(), false));
    }
    assert_eq!(victim.end.connection.state(), QueuePairState::Open);
    let ulpdu = request(5).ulpdu();
    let answer = victim.tell(&ulpdu);
    assert_terminated(&mut victim, &answer, &terminate(Error(0x12, 2), DDP_AND_RDMAP, &ulpdu));
}

#[test]
fn read_requests_of_another_form() {
    let (_, [_, source]) = victim();
    let payload = read_request(Wanted { stag: source.stag.0, offset: 0, length: 4 });
    let long = [&payload[..], &[0]].concat();
    let request = Message { control: [0x41, 0x41], queue: 1, payload: &payload, ..SEND };
    let cases = [
        (Message { sequence: 2, ..request.clone() }, Error(0x12, 3), DDP_AND_RDMAP),
        (Message { offset: 1, ..request.clone() }, Error(0x12, 4), DDP_AND_RDMAP),
        (Message { control: [0x01, 0x41], ..request.clone() }, Error(0x12, 5), DDP_AND_RDMAP),
        (Message { payload: &long, ..request.clone() }, Error(0x12, 5), DDP_AND_RDMAP),
        (Message { payload: &payload[..27], ..request.clone() }, Error(0x02, 0xff), DDP),
        (Message { payload: &[], ..request }, Error(0x02, 0xff), DDP),
    ];
    for (message, error, parts) in cases {
        let (mut victim, _) = victim();
        let ulpdu = message.ulpdu();
        let answer = victim.tell(&ulpdu);
        assert_terminated(&mut victim, &answer, &terminate(error, parts, &ulpdu));
    }
}

#[test]
fn a_tag_to_be_invalidated_that_does_not_exist() {
    for control in [[0x41, 0x44], [0x41, 0x46]] {
        a_send_is_refused(&Message { control, invalidate: 0x1234, ..SEND }, Error(0x01, 9));
    }
}

#[test]
fn kinds_of_messages_that_do_not_belong_here() {
    // On another queue, tagged that is untagged, untagged that is tagged, RFC 7306's, and a response to nothing.
    a_send_is_refused(&Message { queue: 1, ..SEND }, Error(0x02, 6));
    a_send_is_refused(&Message { queue: 2, ..SEND }, Error(0x02, 6));
    a_send_is_refused(&Message { control: [0x41, 0x40], ..SEND }, Error(0x02, 6));
    for opcode in 8..16 {
        a_send_is_refused(&Message { control: [0x41, 0x40 | opcode], ..SEND }, Error(0x02, 6));
    }
    for opcode in [1, 3, 7, 10] {
        a_write_is_refused(|_| Access { control: [0xc1, 0x40 | opcode], ..WRITE }, Error(0x02, 6));
    }
    a_write_is_refused(|_| Access { control: [0xc1, 0x42], ..WRITE }, Error(0x02, 6));
    // A message that goes on as another kind.
    let (mut victim, _) = victim();
    assert!(victim.tell(&Message { control: [0x01, 0x43], ..SEND }.ulpdu()).is_empty());
    let ulpdu = Message { control: [0x41, 0x45], offset: 32, payload: &[1], ..SEND }.ulpdu();
    let answer = victim.tell(&ulpdu);
    assert_terminated(&mut victim, &answer, &terminate(Error(0x02, 6), DDP, &ulpdu));
}

#[test]
fn ulpdus_that_are_too_short() {
    for (ulpdu, least) in [(SEND.ulpdu(), 18), (WRITE.ulpdu(), 14)] {
        for length in 1..least {
            let (mut victim, _) = victim();
            let answer = victim.tell(&ulpdu[..length]);
            assert_terminated(&mut victim, &answer, &terminate(Error(0x02, 0xff), NONE, &[]));
        }
    }
}

/// An initiator whose reads a hand-made responder answers: a read of 100 bytes is under way.
fn reader() -> End {
    let mut joined = Joined::open([OFFER, OFFER], Chunks::Of(usize::MAX));
    let from = RemoteRegion { stag: STag(7), offset: 0, length: 100 };
    joined.near().post(1, WorkRequest::Read { into: Buf::zeroed(100), from });
    let request = joined.near().transmit(Instant::ZERO);
    assert_eq!(request.len(), 2 + 46 + 4);
    joined.ends.into_iter().next().unwrap()
}

const RESPONSE: Access<'static> =
    Access { control: [0xc1, 0x42], stag: 0x8000_0001, offset: 0, payload: &[3; 100] };

#[test]
fn responses_that_are_not_where_their_read_goes_on() {
    let cases = [
        (Access { stag: 0x8000_0002, ..RESPONSE }, Error(0x11, 0)),
        (Access { offset: 1, ..RESPONSE }, Error(0x11, 1)),
        (Access { payload: &[3; 99], ..RESPONSE }, Error(0x11, 1)),
        (Access { payload: &[3; 101], ..RESPONSE }, Error(0x11, 1)),
        (Access { offset: 1 << 63, ..RESPONSE }, Error(0x11, 1)),
        (Access { control: [0x81, 0x42], payload: &[3; 101], ..RESPONSE }, Error(0x11, 1)),
    ];
    for (response, error) in cases {
        let mut end = reader();
        let ulpdu = response.ulpdu();
        end.receive(Instant::ZERO, &fpdu(&ulpdu, false));
        assert_eq!(end.transmit(Instant::ZERO), fpdu(&terminate(error, DDP, &ulpdu), false), "{response:?}");
        let done = end.done();
        assert_eq!(done[0].result, Err(WorkError::Flushed));
        let WorkMemory::Buf(buf) = &done[0].memory else { panic!("{done:?}") };
        assert!(buf.iter().all(|byte| *byte == 0), "{response:?}");
    }
    // Rightly, and in two parts; another response is one too many.
    let mut end = reader();
    let first = Access { control: [0x81, 0x42], payload: &[1; 60], ..RESPONSE };
    end.receive(Instant::ZERO, &fpdu(&first.ulpdu(), false));
    end.receive(Instant::ZERO, &fpdu(&Access { offset: 60, payload: &[2; 40], ..RESPONSE }.ulpdu(), false));
    let done = end.done();
    assert_eq!(done[0].result, Ok(WorkDone::Read));
    let WorkMemory::Buf(buf) = &done[0].memory else { panic!("{done:?}") };
    assert_eq!(buf[..], [&[1; 60][..], &[2; 40]].concat());
    end.receive(Instant::ZERO, &fpdu(&RESPONSE.ulpdu(), false));
    assert_eq!(end.transmit(Instant::ZERO), fpdu(&terminate(Error(0x02, 6), DDP, &RESPONSE.ulpdu()), false));
}

/// A Terminate is not answered, and says what it says; the read that it names hears that it was refused.
#[test]
fn a_terminate_ends_the_queue_pair() {
    let request = [
        Message { control: [0x41, 0x41], queue: 1, payload: &[], ..SEND }.ulpdu(),
        read_request(Wanted { stag: 7, offset: 0, length: 100 }),
    ];
    let cases = [
        (terminate(Error(0x01, 2), DDP_AND_RDMAP, &request.concat()), WorkError::RemoteAccess),
        (terminate(Error(0x12, 2), DDP_AND_RDMAP, &request.concat()), WorkError::Flushed),
        (terminate(Error(0x11, 1), DDP, &WRITE.ulpdu()), WorkError::Flushed),
        (terminate(Error(0x20, 2), NONE, &[]), WorkError::Flushed),
        (terminate(Error(0xff, 0xff), NONE, &[]), WorkError::Flushed),
        (Message { control: [0x41, 0x47], queue: 2, payload: &[1, 2], ..SEND }.ulpdu(), WorkError::Flushed),
    ];
    for (ulpdu, expected) in cases {
        let mut end = reader();
        end.receive(Instant::ZERO, &fpdu(&ulpdu, false));
        assert!(end.transmit(Instant::ZERO).is_empty(), "it is not answered");
        assert!(matches!(end.connection.state(), QueuePairState::Ended(EndReason::Terminated(_))));
        assert!(end.connection.poll_close().is_some());
        assert_eq!(end.done()[0].result, Err(expected), "{ulpdu:?}");
    }
    let mut end = reader();
    let ulpdu = Message { control: [0x41, 0x47], queue: 2, payload: &[0; limits::TERMINATE + 1], ..SEND };
    end.receive(Instant::ZERO, &fpdu(&ulpdu.ulpdu(), false));
    assert!(matches!(end.connection.state(), QueuePairState::Ended(EndReason::Violation(_))));
}

/// The Terminate goes out between two FPDUs, and nothing behind it.
#[test]
fn nothing_follows_a_terminate() {
    let (mut victim, _) = victim();
    assert!(victim.tell(&[]).is_empty());
    victim.end.post(5, WorkRequest::Send { data: list(&[1; 4000]), invalidate: None });
    let ulpdu = Message { queue: 9, ..SEND }.ulpdu();
    let answer = victim.tell(&ulpdu);
    assert_eq!(answer, fpdu(&terminate(Error(0x12, 1), DDP, &ulpdu), false));
}

#[test]
fn a_stream_that_ends_within_an_fpdu_is_lost() {
    let bytes = fpdu(&SEND.ulpdu(), false);
    for (end_of, why) in
        [(0, EndReason::ByPeer), (1, EndReason::Lost), (30, EndReason::Lost), (56, EndReason::ByPeer)]
    {
        let (mut victim, _) = victim();
        victim.tell_bytes(&bytes[..end_of]);
        victim.end.end(Instant::ZERO, Ended::ByPeer);
        assert_eq!(victim.end.connection.state(), QueuePairState::Ended(why), "{end_of}");
    }
    let (mut victim, _) = victim();
    victim.end.end(Instant::ZERO, Ended::Failed(104));
    assert_eq!(victim.end.connection.state(), QueuePairState::Ended(EndReason::Lost));
}

/// A peer that serves no reads is not asked for any.
#[test]
fn a_read_of_a_peer_that_serves_none_fails() {
    let near = iwarp::Connection::new(
        Instant::ZERO,
        rig::config(Role::Initiator(PrivateData::NONE), OFFER),
        buf::Account::new(&buf::Pool::new(1 << 20)),
    );
    let mut joined = Joined::new(near, rig::responder(Offer { ird: 0, ..OFFER }));
    joined.run();
    joined.far().connection.handle_input(Instant::ZERO, SetupAnswer::Accept(PrivateData::NONE));
    joined.run();
    let from = RemoteRegion { stag: STag(7), offset: 0, length: 100 };
    joined.near().post(1, WorkRequest::Read { into: Buf::zeroed(100), from });
    let done = joined.near().done();
    assert_eq!(done[0].result, Err(WorkError::RemoteAccess));
    assert!(matches!(done[0].memory, WorkMemory::Buf(_)));
    assert!(matches!(joined.near().connection.state(), QueuePairState::Ended(EndReason::Terminated(_))));
}
