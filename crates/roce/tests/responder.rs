//! What a responder answers, packet by packet: to the next one, to an old one, to one that comes too early, and to each violation (IBTA §9.7.4, §9.7.5, §9.9.3).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod rig;

use rig::victim::{FIRST, Said, Victim, access, acknowledge, brief, message, packet};
use rig::{done, post, post_receive, register, sink, source};
use roce::header::Memory;
use roce::limits::LONGEST;
use roce::opcode::Opcode;
use roce::packet::Extended;
use roce::syndrome::{Credits, Nak, Syndrome, Timer};
use verbs::{
    EndReason, QueuePair as _, QueuePairState, RegionMemory, STag, WorkDone, WorkError, WorkMemory,
    WorkRequest,
};
use wire::big_endian::{U32, U64};

const ACK: Syndrome = Syndrome::Ack(Credits::UNLIMITED);
const MTU: usize = 256;

fn asking(said: Said) -> Said {
    Said { asks: true, ..said }
}

fn writing(opcode: Opcode, memory: [u32; 3], payload: &[u8]) -> Said {
    Said { payload: payload.to_vec(), ..access(opcode, FIRST, memory) }
}

/// The only answer.
fn answer(said: &[Said]) -> (Option<Syndrome>, u32) {
    let [one] = said else { panic!("one answer, not {said:?}") };
    assert_eq!(one.opcode, Opcode::ACKNOWLEDGE);
    (one.syndrome(), one.sequence)
}

#[test]
fn a_message_is_acknowledged_when_it_asks() {
    let mut victim = Victim::responder();
    post_receive(victim.connection(), 1, 600);
    assert_eq!(victim.tell(&message(Opcode::SEND_FIRST, FIRST, &[1; MTU])), []);
    assert_eq!(victim.tell(&message(Opcode::SEND_MIDDLE, FIRST + 1, &[2; MTU])), []);
    let said = victim.tell(&asking(message(Opcode::SEND_LAST, FIRST + 2, &[3; 5])));
    assert_eq!(answer(&said), (Some(ACK), FIRST + 2));
    let Extended::Acknowledge(header) = said[0].extended else { panic!() };
    assert_eq!(header.message.get(), 1, "one message has come");
    let done = done(victim.connection());
    assert_eq!(done[0].result, Ok(WorkDone::Received { length: 2 * MTU + 5, invalidated: None }));
    let WorkMemory::Buf(buf) = &done[0].memory else { panic!() };
    assert_eq!((buf[0], buf[MTU], buf[2 * MTU + 4], buf[2 * MTU + 5]), (1, 2, 3, 0));
}

#[test]
fn a_burst_is_acknowledged_once() {
    let mut victim = Victim::responder();
    for at in 0..5 {
        post_receive(victim.connection(), at, 8);
    }
    for at in 0..5 {
        victim.tell_silently(&asking(message(Opcode::SEND_ONLY, FIRST + at, &[1; 8])));
    }
    assert_eq!(answer(&victim.hear()), (Some(ACK), FIRST + 4));
}

#[test]
fn what_comes_again_is_acknowledged_again_and_changes_nothing() {
    let mut victim = Victim::responder();
    post_receive(victim.connection(), 1, 8);
    post_receive(victim.connection(), 2, 8);
    let send = message(Opcode::SEND_ONLY, FIRST, &[7; 8]);
    assert_eq!(victim.tell(&send), []);
    assert_eq!(done(victim.connection()).len(), 1);
    for _ in 0..2 {
        assert_eq!(answer(&victim.tell(&send)), (Some(ACK), FIRST));
        assert!(done(victim.connection()).is_empty(), "a message is told twice");
    }
}

#[test]
fn an_old_write_does_not_touch_a_region_that_has_its_key() {
    let mut victim = Victim::responder();
    let region = register(victim.connection(), sink(8));
    let write = writing(Opcode::WRITE_ONLY, [region.stag.0, 0, 8], &[7; 8]);
    assert_eq!(victim.tell(&asking(write.clone())).len(), 1);
    let take = |victim: &mut Victim, stag: STag| {
        post(victim.connection(), 5, WorkRequest::Invalidate { stag });
        let WorkMemory::Region(RegionMemory::Sink(buf)) = done(victim.connection()).remove(0).memory else {
            panic!("a sink")
        };
        buf.to_vec()
    };
    assert_eq!(take(&mut victim, region.stag), [7; 8]);
    // Until the same key comes again: every slot is used 256 times.
    let mut again = register(victim.connection(), sink(8));
    for _ in 0..8 * 256 {
        if again.stag == region.stag {
            break;
        }
        take(&mut victim, again.stag);
        again = register(victim.connection(), sink(8));
    }
    assert_eq!(again.stag, region.stag, "the key comes again");
    assert_eq!(answer(&victim.tell(&write)), (Some(ACK), FIRST));
    assert_eq!(take(&mut victim, again.stag), [0; 8], "an old write has touched a region's next use");
}

#[test]
fn a_packet_that_is_missing_is_told_once() {
    let mut victim = Victim::responder();
    for at in 0..4 {
        post_receive(victim.connection(), at, 8);
    }
    let send = |at: u32| asking(message(Opcode::SEND_ONLY, FIRST + at, &[1; 8]));
    assert_eq!(victim.tell(&send(0)).len(), 1);
    assert_eq!(answer(&victim.tell(&send(2))), (Some(Syndrome::Nak(Nak::Sequence)), FIRST + 1));
    assert_eq!(victim.tell(&send(3)), [], "it is told already");
    assert_eq!(done(victim.connection()).len(), 1, "nothing is told that came too early");
    assert_eq!(answer(&victim.tell(&send(1))), (Some(ACK), FIRST + 1), "not of what came too early");
    assert_eq!(answer(&victim.tell(&send(3))), (Some(Syndrome::Nak(Nak::Sequence)), FIRST + 2));
    assert_eq!(answer(&victim.tell(&send(2))), (Some(ACK), FIRST + 2));
    assert_eq!(done(victim.connection()).len(), 2);
}

#[test]
fn a_message_without_a_receive_waits_for_one() {
    let mut victim = Victim::responder();
    let not_ready = Syndrome::ReceiverNotReady(Timer::TURN);
    let send = asking(message(Opcode::SEND_ONLY, FIRST, &[1; 8]));
    for _ in 0..3 {
        assert_eq!(answer(&victim.tell(&send)), (Some(not_ready), FIRST));
        assert_eq!(victim.tell(&asking(message(Opcode::SEND_ONLY, FIRST + 1, &[1; 8]))), []);
    }
    post_receive(victim.connection(), 1, 8);
    assert_eq!(answer(&victim.tell(&send)), (Some(ACK), FIRST));
    assert_eq!(done(victim.connection()).len(), 1);
}

#[test]
fn a_read_is_answered_in_packets_before_what_comes_behind_it_is_acknowledged() {
    let mut victim = Victim::responder();
    let bytes: Vec<u8> = (0..=255).cycle().take(700).collect();
    let region = register(victim.connection(), source(&bytes));
    post_receive(victim.connection(), 1, 8);
    victim.tell_silently(&access(Opcode::READ_REQUEST, FIRST, [region.stag.0, 50, 600]));
    victim.tell_silently(&asking(message(Opcode::SEND_ONLY, FIRST + 3, &[1; 8])));
    let said = victim.hear();
    let expected = [
        (Opcode::READ_RESPONSE_FIRST, FIRST),
        (Opcode::READ_RESPONSE_MIDDLE, FIRST + 1),
        (Opcode::READ_RESPONSE_LAST, FIRST + 2),
        (Opcode::ACKNOWLEDGE, FIRST + 3),
    ];
    assert_eq!(brief(&said), expected);
    let payload: Vec<u8> = said.iter().flat_map(|said| said.payload.clone()).collect();
    assert_eq!(payload, bytes[50..650]);
}

#[test]
fn a_read_of_nothing_is_answered_by_nothing() {
    let mut victim = Victim::responder();
    let said = victim.tell(&access(Opcode::READ_REQUEST, FIRST, [0xdead, 50, 0]));
    assert_eq!(brief(&said), [(Opcode::READ_RESPONSE_ONLY, FIRST)]);
    assert!(said[0].payload.is_empty());
}

#[test]
fn a_read_is_served_again_from_the_middle_while_its_region_is_valid() {
    let mut victim = Victim::responder();
    let bytes: Vec<u8> = (0..=255).cycle().take(700).collect();
    let region = register(victim.connection(), source(&bytes));
    assert_eq!(victim.tell(&access(Opcode::READ_REQUEST, FIRST, [region.stag.0, 0, 700])).len(), 3);
    let rest = access(Opcode::READ_REQUEST, FIRST + 1, [region.stag.0, 256, 444]);
    for _ in 0..2 {
        let said = victim.tell(&rest);
        let expected = [(Opcode::READ_RESPONSE_FIRST, FIRST + 1), (Opcode::READ_RESPONSE_LAST, FIRST + 2)];
        assert_eq!(brief(&said), expected);
        let payload: Vec<u8> = said.iter().flat_map(|said| said.payload.clone()).collect();
        assert_eq!(payload, bytes[256..]);
    }
    // What reaches beyond the packets of the past, or into a region that is no more, is not answered.
    assert_eq!(victim.tell(&access(Opcode::READ_REQUEST, FIRST + 2, [region.stag.0, 0, 700])), []);
    assert_eq!(victim.tell(&access(Opcode::READ_REQUEST, FIRST + 1, [region.stag.0, 600, 444])), []);
    post(victim.connection(), 1, WorkRequest::Invalidate { stag: region.stag });
    assert_eq!(victim.tell(&rest), []);
    assert_eq!(victim.connection().state(), QueuePairState::Open);
}

#[test]
fn a_region_may_end_before_a_read_is_served_again() {
    let mut victim = Victim::responder();
    let region = register(victim.connection(), source(&[7; 100]));
    post_receive(victim.connection(), 1, 8);
    let read = access(Opcode::READ_REQUEST, FIRST, [region.stag.0, 0, 100]);
    assert_eq!(brief(&victim.tell(&read)), [(Opcode::READ_RESPONSE_ONLY, FIRST)]);
    // The peer took its timer's end for a loss, has the response meanwhile, and goes on: both packets are here before anything is sent.
    victim.tell_silently(&read);
    let extended = Extended::Invalidate(U32::new(region.stag.0));
    let end = Said { extended, ..asking(message(Opcode::SEND_ONLY_INVALIDATE, FIRST + 1, &[1; 8])) };
    assert_eq!(answer(&victim.tell(&end)), (Some(ACK), FIRST + 1));
    assert_eq!(victim.connection().state(), QueuePairState::Open);
}

#[test]
fn a_message_ends_a_region() {
    let mut victim = Victim::responder();
    let region = register(victim.connection(), sink(8));
    post_receive(victim.connection(), 1, 8);
    let extended = Extended::Invalidate(U32::new(region.stag.0));
    let send = Said { extended, ..asking(message(Opcode::SEND_ONLY_INVALIDATE, FIRST, &[1; 8])) };
    assert_eq!(victim.tell(&send).len(), 1);
    let invalidated = Some(region.stag);
    assert_eq!(done(victim.connection())[0].result, Ok(WorkDone::Received { length: 8, invalidated }));
}

/// What a peer does, and what it hears.
struct Case {
    name: &'static str,
    packets: Vec<Said>,
    nak: Nak,
}

fn case(name: &'static str, packets: Vec<Said>, nak: Nak) -> Case {
    Case { name, packets, nak }
}

/// Packets that are not where they belong, or not as long as they should be.
fn disorders() -> Vec<Case> {
    let first = || message(Opcode::SEND_FIRST, FIRST, &[1; MTU]);
    let cases = vec![
        ("a middle without a first", vec![message(Opcode::SEND_MIDDLE, FIRST, &[1; MTU])]),
        ("a last without a first", vec![message(Opcode::SEND_LAST, FIRST, &[1; 5])]),
        ("a write's middle", vec![message(Opcode::WRITE_MIDDLE, FIRST, &[1; MTU])]),
        ("a write's last", vec![message(Opcode::WRITE_LAST, FIRST, &[1; 5])]),
        ("a write inside of a message", vec![first(), message(Opcode::WRITE_LAST, FIRST + 1, &[1; 5])]),
        ("a read inside of a message", vec![first(), access(Opcode::READ_REQUEST, FIRST + 1, [0, 0, 0])]),
        ("a message inside of a message", vec![first(), message(Opcode::SEND_ONLY, FIRST + 1, &[1; 5])]),
        ("a first that is not full", vec![message(Opcode::SEND_FIRST, FIRST, &[1; MTU - 4])]),
        ("an only that is too full", vec![message(Opcode::SEND_ONLY, FIRST, &[1; MTU + 4])]),
        ("a last without bytes", vec![first(), packet(Opcode::SEND_LAST, FIRST + 1)]),
        (TOO_LONG, vec![first(), message(Opcode::SEND_LAST, FIRST + 1, &[1; 45])]),
        ("immediate data", vec![immediate()]),
        ("an atomic operation", vec![message(Opcode::COMPARE_SWAP, FIRST, &[1; 28])]),
        ("a reserved operation", vec![packet(Opcode(0x1c), FIRST)]),
        ("another operation inside of a message", vec![first(), message(Opcode::FETCH_ADD, FIRST + 1, &[1; 28])]),
    ];
    cases.into_iter().map(|(name, packets)| case(name, packets, Nak::InvalidRequest)).collect()
}

/// Packets inside of a write that do not belong to it.
fn inside_of_a_write(sink: u32) -> Vec<Case> {
    let first = || writing(Opcode::WRITE_FIRST, [sink, 0, 300], &[0; MTU]);
    let next = |said: Said| vec![first(), Said { sequence: FIRST + 1, ..said }];
    let cases = [
        ("a message's middle inside of a write", next(message(Opcode::SEND_MIDDLE, FIRST, &[1; MTU]))),
        ("a message inside of a write", next(message(Opcode::SEND_ONLY, FIRST, &[1; 5]))),
        ("a write inside of a write", next(writing(Opcode::WRITE_ONLY, [sink, 0, 5], &[1; 5]))),
        ("a read inside of a write", next(access(Opcode::READ_REQUEST, FIRST, [sink, 0, 0]))),
        ("a write that goes on beyond its end", next(message(Opcode::WRITE_MIDDLE, FIRST, &[1; MTU]))),
        ("a write that ends before its end", next(message(Opcode::WRITE_LAST, FIRST, &[1; 43]))),
        ("a write that ends beyond its end", next(message(Opcode::WRITE_LAST, FIRST, &[1; 45]))),
    ];
    cases.into_iter().map(|(name, packets)| case(name, packets, Nak::InvalidRequest)).collect()
}

/// Accesses that say something else than they do, or too much.
fn lengths(sink: u32, source: u32) -> Vec<Case> {
    let too_long = u32::try_from(LONGEST).unwrap() + 1;
    let write = |length| writing(Opcode::WRITE_ONLY, [sink, 0, length], &[9; 16]);
    let first = |length| writing(Opcode::WRITE_FIRST, [sink, 0, length], &[9; MTU]);
    let cases = [
        ("more bytes than it says", write(8)),
        ("less bytes than it says", write(24)),
        ("a write that is over before its last packet", first(256)),
        ("a write that is longer than any", first(too_long)),
        ("a read that is too long", access(Opcode::READ_REQUEST, FIRST, [source, 0, too_long])),
    ];
    cases.map(|(name, packet)| case(name, vec![packet], Nak::InvalidRequest)).into()
}

/// Accesses to what is not open to them.
fn accesses(sink: u32, source: u32) -> Vec<Case> {
    let write = |memory| writing(Opcode::WRITE_ONLY, memory, &[9; 16]);
    let read = |memory| access(Opcode::READ_REQUEST, FIRST, memory);
    let write_far = |[key, length]: [u32; 2]| {
        let memory = Memory { address: U64::new(u64::MAX - 7), key: U32::new(key), length: U32::new(length) };
        Said { extended: Extended::Memory(memory), ..write([key, 0, length]) }
    };
    let none = 0x00ff_ff00;
    let cases = [
        ("a write to no region", write([none, 0, 16])),
        ("a write whose address wraps", write_far([sink, 16])),
        ("a write outside of its region", write([sink, 290, 16])),
        ("a write that ends outside", writing(Opcode::WRITE_FIRST, [sink, 0, 400], &[9; MTU])),
        ("a write to what is for reading", write([source, 0, 16])),
        ("a read of no region", read([none, 0, 1])),
        ("a read outside", read([source, 299, 2])),
        ("a read of what is for writing", read([sink, 0, 1])),
        ("a key that ends nothing", invalidating(none)),
    ];
    cases.map(|(name, packet)| case(name, vec![packet], Nak::RemoteAccess)).into()
}

const TOO_LONG: &str = "a message that is longer than its receive";

fn cases(sink: u32, source: u32) -> Vec<Case> {
    let all = [disorders(), inside_of_a_write(sink), lengths(sink, source), accesses(sink, source)];
    all.into_iter().flatten().collect()
}

fn immediate() -> Said {
    let extended = Extended::Immediate(U32::new(1));
    Said { extended, ..message(Opcode::SEND_ONLY_IMMEDIATE, FIRST, &[1; 8]) }
}

fn invalidating(key: u32) -> Said {
    let extended = Extended::Invalidate(U32::new(key));
    Said { extended, ..message(Opcode::SEND_ONLY_INVALIDATE, FIRST, &[1; 8]) }
}

#[test]
fn every_violation_has_its_refusal_and_touches_nothing() {
    let count = cases(0, 0).len();
    for at in 0..count {
        let mut victim = Victim::responder();
        let (sink_region, source_region) =
            (register(victim.connection(), sink(300)), register(victim.connection(), source(&[5; 300])));
        post_receive(victim.connection(), 1, 300);
        let Case { name, packets, nak } =
            cases(sink_region.stag.0, source_region.stag.0).into_iter().nth(at).unwrap();
        let (last, before) = packets.split_last().unwrap();
        for packet in before {
            assert_eq!(victim.tell(packet), [], "{name}");
        }
        let said = victim.tell(last);
        let refusal = (Some(Syndrome::Nak(nak)), last.sequence);
        assert_eq!(answer(&said), refusal, "{name}");
        let state = victim.connection().state();
        assert!(matches!(state, QueuePairState::Ended(EndReason::Violation(_))), "{name}: {state:?}");
        // The refusal may be lost: it is said again.
        assert_eq!(answer(&victim.tell(last)), refusal, "{name}, again");
        let results: Vec<_> = done(victim.connection()).into_iter().map(|done| done.result).collect();
        let expected = if name == TOO_LONG { WorkError::MessageTooLong } else { WorkError::Flushed };
        assert_eq!(results, [Err(expected)], "{name}");
        post(victim.connection(), 2, WorkRequest::Invalidate { stag: sink_region.stag });
        let WorkMemory::Region(RegionMemory::Sink(buf)) = done(victim.connection()).remove(0).memory else {
            panic!("{name}: a sink")
        };
        assert!(buf.iter().all(|byte| *byte == 0), "{name}: memory was touched");
    }
}

#[test]
fn more_reads_than_agreed_are_refused() {
    let mut victim = Victim::responder();
    let region = register(victim.connection(), source(&[5; 300]));
    for at in 0..4 {
        victim.tell_silently(&access(Opcode::READ_REQUEST, FIRST + at, [region.stag.0, 0, 1]));
    }
    assert_eq!(victim.connection().state(), QueuePairState::Open);
    victim.tell_silently(&access(Opcode::READ_REQUEST, FIRST + 4, [region.stag.0, 0, 1]));
    assert!(matches!(victim.connection().state(), QueuePairState::Ended(EndReason::Violation(_))));
    assert_eq!(answer(&victim.hear()), (Some(Syndrome::Nak(Nak::InvalidRequest)), FIRST + 4));
}

#[test]
fn where_no_reads_are_agreed_the_first_is_refused() {
    let mut victim = Victim::responder_with(0);
    let region = register(victim.connection(), source(&[5; 300]));
    let said = victim.tell(&access(Opcode::READ_REQUEST, FIRST, [region.stag.0, 0, 1]));
    assert_eq!(answer(&said), (Some(Syndrome::Nak(Nak::InvalidRequest)), FIRST));
    assert!(matches!(victim.connection().state(), QueuePairState::Ended(EndReason::Violation(_))));
}

#[test]
fn nothing_that_comes_early_is_looked_at() {
    let mut victim = Victim::responder();
    let none = 0x00ff_ff00;
    let early = [
        access(Opcode::READ_REQUEST, FIRST + 1, [none, 0, 8]),
        writing(Opcode::WRITE_ONLY, [none, 0, 16], &[9; 16]),
        message(Opcode::SEND_MIDDLE, FIRST + 1, &[1; 7]),
        message(Opcode::COMPARE_SWAP, FIRST + 1, &[1; 28]),
    ];
    for said in early {
        let said = Said { sequence: FIRST + 1, ..said };
        let heard = victim.tell(&said);
        assert!(heard.is_empty() || answer(&heard) == (Some(Syndrome::Nak(Nak::Sequence)), FIRST), "{heard:?}");
        assert_eq!(victim.connection().state(), QueuePairState::Open, "{said:?}");
    }
}

#[test]
fn a_region_that_ends_while_it_is_read_is_told() {
    let mut victim = Victim::responder();
    let region = register(victim.connection(), source(&[5; 300]));
    victim.tell_silently(&access(Opcode::READ_REQUEST, FIRST, [region.stag.0, 0, 300]));
    post(victim.connection(), 1, WorkRequest::Invalidate { stag: region.stag });
    assert_eq!(answer(&victim.hear()), (Some(Syndrome::Nak(Nak::RemoteAccess)), FIRST));
}

#[test]
fn acknowledgements_of_what_was_never_sent_are_passed_over() {
    let mut victim = Victim::responder();
    for sequence in [0, FIRST, rig::victim::OWN_FIRST, rig::victim::OWN_FIRST + 1] {
        for syndrome in [ACK, Syndrome::Nak(Nak::Sequence), Syndrome::Nak(Nak::RemoteAccess)] {
            assert_eq!(victim.tell(&acknowledge(sequence, syndrome)), []);
        }
    }
    assert_eq!(victim.connection().state(), QueuePairState::Open);
}
