//! What a requester sends, packet by packet: again from the oldest that is missing, from the middle of a read, after a wait, and no more (IBTA §9.7.2 to §9.7.6).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod rig;

use std::time::Duration;

use buf::Buf;
use rig::victim::{OWN_FIRST, Said, Victim, acknowledge, brief, response, terms};
use rig::{done, list, post, send};
use roce::limits::{RETRIES, WINDOW};
use roce::management::Terms;
use roce::opcode::Opcode;
use roce::packet::Extended;
use roce::syndrome::{Credits, Nak, Syndrome, Timer};
use verbs::{
    EndReason, QueuePair as _, QueuePairState, RemoteRegion, STag, WorkDone, WorkError, WorkMemory,
    WorkRequest,
};

const ACK: Syndrome = Syndrome::Ack(Credits::UNLIMITED);
const MISSING: Syndrome = Syndrome::Nak(Nak::Sequence);
const MTU: usize = 256;
const REGION: RemoteRegion = RemoteRegion { stag: STag(0x501), offset: 0x1000, length: 600 };

fn read(victim: &mut Victim, id: u64, from: RemoteRegion) {
    let into = Buf::zeroed(from.length as usize);
    post(victim.connection(), id, WorkRequest::Read { into, from });
}

fn write(victim: &mut Victim, id: u64, bytes: &[u8]) {
    post(victim.connection(), id, WorkRequest::Write { data: list(bytes), to: REGION });
}

/// What a read or write names: key, address and length.
fn memory(said: &Said) -> [u64; 3] {
    let Extended::Memory(memory) = said.extended else { panic!("no memory in {said:?}") };
    [u64::from(memory.key.get()), memory.address.get(), u64::from(memory.length.get())]
}

fn ids(victim: &mut Victim) -> Vec<u64> {
    done(victim.connection()).into_iter().map(|done| done.id.0).collect()
}

#[test]
fn requests_are_cut_into_packets() {
    let mut victim = Victim::initiator(4);
    let bytes: Vec<u8> = (0..=255).cycle().take(600).collect();
    send(victim.connection(), 1, &bytes);
    write(&mut victim, 2, &bytes);
    read(&mut victim, 3, REGION);
    send(victim.connection(), 4, &[]);
    let said = victim.hear();
    let expected = [
        (Opcode::SEND_FIRST, OWN_FIRST),
        (Opcode::SEND_MIDDLE, OWN_FIRST + 1),
        (Opcode::SEND_LAST, OWN_FIRST + 2),
        (Opcode::WRITE_FIRST, OWN_FIRST + 3),
        (Opcode::WRITE_MIDDLE, OWN_FIRST + 4),
        (Opcode::WRITE_LAST, OWN_FIRST + 5),
        (Opcode::READ_REQUEST, OWN_FIRST + 6),
        // The response has three numbers.
        (Opcode::SEND_ONLY, OWN_FIRST + 9),
    ];
    assert_eq!(brief(&said), expected);
    let asks: Vec<bool> = said.iter().map(|said| said.asks).collect();
    assert_eq!(asks, [false, false, true, false, false, true, false, true]);
    let payload: Vec<u8> = said[..3].iter().flat_map(|said| said.payload.clone()).collect();
    assert_eq!(payload, bytes);
    assert_eq!((memory(&said[3]), memory(&said[6])), ([0x501, 0x1000, 600], [0x501, 0x1000, 600]));
}

#[test]
fn one_acknowledgement_completes_all_before_it() {
    let mut victim = Victim::initiator(4);
    for id in 0..3 {
        send(victim.connection(), id, &[1; 8]);
    }
    victim.hear();
    victim.tell(&acknowledge(OWN_FIRST + 1, ACK));
    assert_eq!(ids(&mut victim), [0, 1]);
    victim.tell(&acknowledge(OWN_FIRST, ACK));
    assert_eq!(ids(&mut victim), [] as [u64; 0], "an old acknowledgement");
    victim.tell(&acknowledge(OWN_FIRST + 3, ACK));
    assert_eq!(ids(&mut victim), [] as [u64; 0], "of what was not sent");
    victim.tell(&acknowledge(OWN_FIRST + 2, ACK));
    assert_eq!(ids(&mut victim), [2]);
    assert_eq!(victim.host.deadline(), None, "nothing is awaited");
}

#[test]
fn it_goes_back_to_the_packet_that_is_missing() {
    let mut victim = Victim::initiator(4);
    for id in 0..4 {
        send(victim.connection(), id, &[1; 8]);
    }
    victim.hear();
    let said = victim.tell(&acknowledge(OWN_FIRST + 2, MISSING));
    assert_eq!(brief(&said), [(Opcode::SEND_ONLY, OWN_FIRST + 2), (Opcode::SEND_ONLY, OWN_FIRST + 3)]);
    assert_eq!(ids(&mut victim), [0, 1], "what is before it has come");
    assert_eq!(victim.tell(&acknowledge(OWN_FIRST + 2, MISSING)), [], "once, not for every packet behind it");
    victim.tell(&acknowledge(OWN_FIRST + 3, ACK));
    assert_eq!(ids(&mut victim), [2, 3]);
}

#[test]
fn it_goes_back_into_the_middle_of_a_message() {
    let mut victim = Victim::initiator(4);
    write(&mut victim, 1, &[1; 600]);
    victim.hear();
    let said = victim.tell(&acknowledge(OWN_FIRST + 1, MISSING));
    assert_eq!(brief(&said), [(Opcode::WRITE_MIDDLE, OWN_FIRST + 1), (Opcode::WRITE_LAST, OWN_FIRST + 2)]);
}

#[test]
fn it_sends_again_when_nothing_comes_and_gives_up() {
    let mut victim = Victim::initiator(4);
    send(victim.connection(), 1, &[1; 8]);
    victim.hear();
    for _ in 0..RETRIES {
        victim.wait();
        assert_eq!(brief(&victim.hear()), [(Opcode::SEND_ONLY, OWN_FIRST)]);
    }
    victim.wait();
    assert_eq!(victim.connection().state(), QueuePairState::Ended(EndReason::Lost));
    assert_eq!(done(victim.connection())[0].result, Err(WorkError::Flushed));
}

#[test]
fn what_comes_begins_the_attempts_anew() {
    let mut victim = Victim::initiator(4);
    for id in 0..14 {
        send(victim.connection(), id, &[1; 8]);
    }
    victim.hear();
    for at in 0..10 {
        victim.wait();
        victim.hear();
        victim.tell(&acknowledge(OWN_FIRST + at, ACK));
    }
    assert_eq!(victim.connection().state(), QueuePairState::Open);
}

#[test]
fn it_waits_for_a_receive_and_sends_again() {
    let mut victim = Victim::initiator(4);
    for id in 0..2 {
        send(victim.connection(), id, &[1; 8]);
    }
    victim.hear();
    for _ in 0..20 {
        let before = victim.now;
        assert_eq!(victim.tell(&acknowledge(OWN_FIRST, Syndrome::ReceiverNotReady(Timer::TURN))), []);
        victim.wait();
        assert_eq!(victim.now.since(before), Duration::from_micros(640));
        let expected = [(Opcode::SEND_ONLY, OWN_FIRST), (Opcode::SEND_ONLY, OWN_FIRST + 1)];
        assert_eq!(brief(&victim.hear()), expected);
    }
    victim.tell(&acknowledge(OWN_FIRST + 1, ACK));
    assert_eq!(ids(&mut victim), [0, 1]);
}

#[test]
fn it_waits_for_a_receive_as_often_as_its_peer_wants() {
    let mut victim = Victim::initiator_on(Terms { not_ready_retries: 3, ..terms(4) });
    send(victim.connection(), 1, &[1; 8]);
    victim.hear();
    let not_ready = acknowledge(OWN_FIRST, Syndrome::ReceiverNotReady(Timer::TURN));
    for _ in 0..3 {
        victim.tell(&not_ready);
        victim.wait();
        assert_eq!(brief(&victim.hear()), [(Opcode::SEND_ONLY, OWN_FIRST)]);
    }
    victim.tell(&not_ready);
    assert_eq!(victim.connection().state(), QueuePairState::Ended(EndReason::Lost));
    assert_eq!(done(victim.connection())[0].result, Err(WorkError::Flushed));
}

#[test]
fn answers_that_say_nothing_known_are_passed_over() {
    // A reserved kind, and a refusal that is none.
    for syndrome in [0x40, 0x5f, 0x64, 0x7f, 0xff] {
        let mut victim = Victim::initiator(4);
        send(victim.connection(), 1, &[1; 8]);
        victim.hear();
        victim.tell_bytes(Opcode::ACKNOWLEDGE, OWN_FIRST, &[syndrome, 0, 0, 0]);
        assert_eq!(victim.hear(), [], "{syndrome:#x}");
        assert_eq!(victim.connection().state(), QueuePairState::Open, "{syndrome:#x}");
        assert!(done(victim.connection()).is_empty(), "{syndrome:#x}");
    }
}

#[test]
fn a_response_is_put_together_and_acknowledges_what_is_before_it() {
    let mut victim = Victim::initiator(4);
    send(victim.connection(), 1, &[1; 8]);
    read(&mut victim, 2, REGION);
    victim.hear();
    victim.tell(&response(Opcode::READ_RESPONSE_FIRST, OWN_FIRST + 1, &[1; MTU]));
    assert_eq!(ids(&mut victim), [1]);
    victim.tell(&response(Opcode::READ_RESPONSE_MIDDLE, OWN_FIRST + 2, &[2; MTU]));
    victim.tell(&response(Opcode::READ_RESPONSE_MIDDLE, OWN_FIRST + 2, &[9; MTU]));
    victim.tell(&response(Opcode::READ_RESPONSE_LAST, OWN_FIRST + 3, &[3; 88]));
    let done = done(victim.connection()).remove(0);
    assert_eq!(done.result, Ok(WorkDone::Read));
    let WorkMemory::Buf(buf) = done.memory else { panic!("a buffer") };
    assert_eq!(buf[..], [[1; MTU].as_slice(), &[2; MTU], &[3; 88]].concat());
}

#[test]
fn a_read_is_asked_for_again_from_its_middle() {
    for how in ["a gap in the response", "an acknowledgement of what is behind", "nothing comes"] {
        let mut victim = Victim::initiator(4);
        read(&mut victim, 1, REGION);
        send(victim.connection(), 2, &[1; 8]);
        victim.hear();
        victim.tell(&response(Opcode::READ_RESPONSE_FIRST, OWN_FIRST, &[1; MTU]));
        let said = match how {
            "a gap in the response" => {
                let said = victim.tell(&response(Opcode::READ_RESPONSE_LAST, OWN_FIRST + 2, &[3; 88]));
                let again = victim.tell(&response(Opcode::READ_RESPONSE_LAST, OWN_FIRST + 2, &[3; 88]));
                assert_eq!(again, [], "it is asked once");
                said
            }
            "nothing comes" => {
                victim.wait();
                victim.hear()
            }
            _ => victim.tell(&acknowledge(OWN_FIRST + 3, ACK)),
        };
        let expected = [(Opcode::READ_REQUEST, OWN_FIRST + 1), (Opcode::SEND_ONLY, OWN_FIRST + 3)];
        assert_eq!(brief(&said), expected, "{how}");
        assert_eq!(memory(&said[0]), [0x501, 0x1100, 344], "{how}");
        assert_eq!(ids(&mut victim), [] as [u64; 0], "{how}: nothing is over");
        victim.tell(&response(Opcode::READ_RESPONSE_FIRST, OWN_FIRST + 1, &[2; MTU]));
        victim.tell(&response(Opcode::READ_RESPONSE_LAST, OWN_FIRST + 2, &[3; 88]));
        victim.tell(&acknowledge(OWN_FIRST + 3, ACK));
        assert_eq!(ids(&mut victim), [1, 2], "{how}");
    }
}

#[test]
fn no_more_reads_are_under_way_than_the_peer_serves() {
    let mut victim = Victim::initiator(2);
    for id in 0..3 {
        read(&mut victim, id, RemoteRegion { length: 10, ..REGION });
    }
    send(victim.connection(), 3, &[1; 8]);
    assert_eq!(brief(&victim.hear()), [0, 1].map(|at| (Opcode::READ_REQUEST, OWN_FIRST + at)));
    let said = victim.tell(&response(Opcode::READ_RESPONSE_ONLY, OWN_FIRST, &[1; 10]));
    let expected = [(Opcode::READ_REQUEST, OWN_FIRST + 2), (Opcode::SEND_ONLY, OWN_FIRST + 3)];
    assert_eq!(brief(&said), expected);
}

#[test]
fn a_peer_that_serves_no_reads_ends_the_connection() {
    let mut victim = Victim::initiator(0);
    read(&mut victim, 1, REGION);
    assert!(matches!(victim.connection().state(), QueuePairState::Ended(EndReason::Terminated(_))));
    assert_eq!(done(victim.connection())[0].result, Err(WorkError::RemoteAccess));
}

#[test]
fn responses_that_are_not_due_end_the_connection() {
    let cases = [
        ("too short", Opcode::READ_RESPONSE_FIRST, MTU - 4),
        ("too long", Opcode::READ_RESPONSE_FIRST, MTU + 4),
        ("over too early", Opcode::READ_RESPONSE_LAST, MTU),
        ("over at once", Opcode::READ_RESPONSE_ONLY, 88),
    ];
    for (name, opcode, length) in cases {
        let mut victim = Victim::initiator(4);
        read(&mut victim, 1, REGION);
        victim.hear();
        victim.tell(&response(opcode, OWN_FIRST, &vec![1; length]));
        let state = victim.connection().state();
        assert!(matches!(state, QueuePairState::Ended(EndReason::Violation(_))), "{name}");
    }
    let mut victim = Victim::initiator(4);
    send(victim.connection(), 1, &[1; 8]);
    victim.hear();
    victim.tell(&response(Opcode::READ_RESPONSE_ONLY, OWN_FIRST, &[1; 8]));
    let state = victim.connection().state();
    assert!(matches!(state, QueuePairState::Ended(EndReason::Violation(_))), "nothing was read");
}

#[test]
fn refusals_end_the_connection() {
    for (nak, second) in [
        (Nak::RemoteAccess, WorkError::RemoteAccess),
        (Nak::InvalidRequest, WorkError::Flushed),
        (Nak::RemoteOperational, WorkError::Flushed),
    ] {
        let mut victim = Victim::initiator(4);
        for id in 0..3 {
            write(&mut victim, id, &[1; 8]);
        }
        victim.hear();
        victim.tell(&acknowledge(OWN_FIRST + 1, Syndrome::Nak(nak)));
        let results: Vec<_> = done(victim.connection()).into_iter().map(|done| done.result).collect();
        assert_eq!(results, [Ok(WorkDone::Written), Err(second), Err(WorkError::Flushed)], "{nak:?}");
        assert!(matches!(victim.connection().state(), QueuePairState::Ended(EndReason::Terminated(_))));
    }
}

#[test]
fn no_more_packets_are_under_way_than_the_window_says() {
    let mut victim = Victim::initiator(4);
    send(victim.connection(), 1, &vec![1; 100 * MTU]);
    let window = WINDOW as usize;
    let said = victim.hear();
    assert_eq!(said.len(), window);
    let asks = said.iter().filter(|said| said.asks).count();
    assert_eq!(asks, 3, "an acknowledgement is asked for before the window ends");
    let said = victim.tell(&acknowledge(OWN_FIRST + 15, ACK));
    assert_eq!(said.len(), 16);
    assert_eq!(said[0].sequence, OWN_FIRST + WINDOW);
}

#[test]
fn a_long_read_is_asked_for_in_parts() {
    const PART: u32 = roce::limits::READ_PACKETS;
    const LENGTH: u32 = (2 * PART + 8) * 256;
    let mut victim = Victim::initiator(2);
    read(&mut victim, 1, RemoteRegion { length: LENGTH, ..REGION });
    // Two of three parts: the peer serves no more at a time.
    let said = victim.hear();
    let part = |at: u32, packets: u32| [0x501, 0x1000 + u64::from(at) * 256, u64::from(packets) * 256];
    let asked: Vec<_> = said.iter().map(|said| (said.sequence, memory(said))).collect();
    assert_eq!(asked, [(OWN_FIRST, part(0, PART)), (OWN_FIRST + PART, part(PART, PART))]);

    let packet = |at: u32| {
        let opcode = match at % PART {
            0 => Opcode::READ_RESPONSE_FIRST,
            last if last == PART - 1 || at == 2 * PART + 7 => Opcode::READ_RESPONSE_LAST,
            _ => Opcode::READ_RESPONSE_MIDDLE,
        };
        response(opcode, OWN_FIRST + at, &[u8::try_from(at).unwrap(); 256])
    };
    for at in 0..PART - 1 {
        assert_eq!(victim.tell(&packet(at)), [], "{at}");
    }
    // The end of a part makes room for the next one.
    let said = victim.tell(&packet(PART - 1));
    assert_eq!(
        (said.len(), said[0].sequence, memory(&said[0])),
        (1, OWN_FIRST + 2 * PART, part(2 * PART, 8))
    );
    // One that is lost is asked for again, with the rest of its part and the parts behind it.
    victim.tell(&packet(PART));
    let said = victim.tell(&packet(PART + 2));
    let asked: Vec<_> = said.iter().map(|said| (said.sequence, memory(said))).collect();
    let rest = (OWN_FIRST + PART + 1, part(PART + 1, PART - 1));
    assert_eq!(asked, [rest, (OWN_FIRST + 2 * PART, part(2 * PART, 8))]);
    for at in PART + 1..2 * PART + 8 {
        assert_eq!(victim.tell(&packet(at)), [], "{at}");
    }
    let [done] = &done(victim.connection())[..] else { panic!("one has completed") };
    let WorkMemory::Buf(buf) = &done.memory else { panic!("{done:?}") };
    assert!(buf.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at / 256));
}

#[test]
fn a_part_that_ends_early_breaks_a_rule() {
    let mut victim = Victim::initiator(2);
    read(&mut victim, 1, RemoteRegion { length: 40 * 256, ..REGION });
    victim.hear();
    victim.tell(&response(Opcode::READ_RESPONSE_ONLY, OWN_FIRST, &[1; 256]));
    let state = victim.connection().state();
    assert!(matches!(state, QueuePairState::Ended(EndReason::Violation(_))), "{state:?}");
}
