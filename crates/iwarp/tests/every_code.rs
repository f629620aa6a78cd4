//! Every error code of RFC 5040 §4.8, RFC 5041 §7.1, RFC 5044 §8 and RFC 6581 §11: what a peer of either role says to be answered with it, or why nobody is.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod rig;

use protocol::{CloseReason, Connection as _, Instant};
use rig::{
    Access, Chunks, End, Joined, Message, OFFER, SEND, WRITE, Wanted, fpdu, read_request, sink, source,
};
use verbs::{EndReason, QueuePair as _, QueuePairState, RegionMemory, RemoteRegion, WorkMemory, WorkRequest};

/// Bytes of each region.
const MEMORY: usize = 100;

/// An end in the open, what it has lent to its peer and what it has not.
struct Victim {
    end: End,
    /// Memory to be written to, and memory to be read.
    sink: RemoteRegion,
    source: RemoteRegion,
    /// The same, which have ended.
    ended: [RemoteRegion; 2],
    /// Memory of another connection, to be written to and to be read.
    foreign: [RemoteRegion; 2],
    /// The number that comes next in the queues of messages and of RDMA Reads.
    next: u32,
    next_read: u32,
}

/// Which end of a connection hears what its peer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hearer {
    Initiator,
    Responder,
}

impl Victim {
    fn new(hearer: Hearer) -> Self {
        let joined = Joined::open([OFFER, OFFER], Chunks::Of(usize::MAX));
        let mut other = Joined::open([OFFER, OFFER], Chunks::Of(usize::MAX));
        // A region of the same number is there for the other connection, and further ones are for it alone.
        let foreign: Vec<RemoteRegion> = (0..8)
            .map(|at| other.far().register(if at % 2 == 0 { sink(MEMORY) } else { source(&[6; MEMORY]) }))
            .collect();
        let [near, far] = joined.ends;
        let mut end = if hearer == Hearer::Initiator { near } else { far };
        let ended = [end.register(sink(MEMORY)), end.register(source(&[7; MEMORY]))];
        for region in ended {
            end.post(8, WorkRequest::Invalidate { stag: region.stag });
        }
        let (sink, source) = (end.register(sink(MEMORY)), end.register(source(&[5; MEMORY])));
        end.post_receive(1, 64);
        end.done();
        let foreign = [foreign[6], foreign[7]];
        Self { end, sink, source, ended, foreign, next: 1, next_read: 1 }
    }

    fn send(&self) -> Message<'static> {
        Message { sequence: self.next, ..SEND }
    }

    fn write(to: RemoteRegion) -> Vec<u8> {
        Access { stag: to.stag.0, offset: to.offset, ..WRITE }.ulpdu()
    }

    fn read(&self, from: RemoteRegion) -> Vec<u8> {
        let payload = read_request(Wanted { stag: from.stag.0, offset: from.offset, length: 16 });
        Message { control: [0x41, 0x41], queue: 1, sequence: self.next_read, payload: &payload, ..SEND }
            .ulpdu()
    }

    /// What it answers.
    fn tell(&mut self, ulpdu: &[u8]) -> Vec<u8> {
        self.end.receive(Instant::ZERO, &fpdu(ulpdu, false));
        self.end.transmit(Instant::ZERO)
    }

    /// The memory that its peer was to write to.
    fn memory(&mut self) -> Vec<u8> {
        self.end.post(9, WorkRequest::Invalidate { stag: self.sink.stag });
        match self.end.done().pop().map(|done| done.memory) {
            Some(WorkMemory::Region(RegionMemory::Sink(buf))) => buf.to_vec(),
            other => panic!("{other:?}"),
        }
    }
}

/// How a code comes to be sent.
enum Coverage {
    /// The peer says this.
    Said(fn(&Victim) -> Vec<u8>),
    /// That needs more than one segment: this test of `violations.rs` or `setup.rs` has it.
    Tested(&'static str),
    /// It never is, for this reason.
    Never(&'static str),
}

use Coverage::{Never, Said, Tested};

/// Layer and type, code, and the standard's words.
type Code = (u8, u8, &'static str, Coverage);

const RDMAP: &[Code] = &[
    (0x00, 0x00, "local catastrophic error", Never("a peer cannot cause it")),
    (
        0x01,
        0x00,
        "remote protection: invalid STag",
        Said(|victim| {
            victim.read(RemoteRegion { stag: verbs::STag(victim.source.stag.0 ^ 0x4000), ..victim.source })
        }),
    ),
    (
        0x01,
        0x01,
        "remote protection: base or bounds",
        Said(|victim| victim.read(RemoteRegion { offset: victim.source.offset + 85, ..victim.source })),
    ),
    (0x01, 0x02, "remote protection: access rights", Said(|victim| victim.read(victim.sink))),
    (
        0x01,
        0x03,
        "remote protection: STag of another stream",
        Never("each connection has tags of its own, so that another's is invalid"),
    ),
    (
        0x01,
        0x04,
        "remote protection: TO wrap",
        Said(|victim| victim.read(RemoteRegion { offset: u64::MAX - 3, ..victim.source })),
    ),
    (
        0x01,
        0x09,
        "remote protection: STag cannot be invalidated",
        Said(|victim| {
            Message { control: [0x41, 0x44], invalidate: victim.ended[0].stag.0, ..victim.send() }.ulpdu()
        }),
    ),
    (0x01, 0xff, "remote protection: unspecified", Never("each error of this kind has a code")),
    (
        0x02,
        0x05,
        "remote operation: invalid RDMAP version",
        Said(|victim| Message { control: [0x41, 0x83], ..victim.send() }.ulpdu()),
    ),
    (
        0x02,
        0x06,
        "remote operation: unexpected opcode",
        Said(|victim| Message { control: [0x41, 0x4a], ..victim.send() }.ulpdu()),
    ),
    (0x02, 0x07, "remote operation: catastrophic, one stream", Never("a peer cannot cause it")),
    (0x02, 0x08, "remote operation: catastrophic, all streams", Never("a peer cannot cause it")),
    (
        0x02,
        0x09,
        "remote operation: STag cannot be invalidated",
        Never("it is told as an error of protection, as RFC 5040 §5.3 has it"),
    ),
    (0x02, 0xff, "remote operation: unspecified", Said(|_| vec![0x41, 0x43, 0])),
];

const DDP: &[Code] = &[
    (0x10, 0x00, "local catastrophic error", Never("a peer cannot cause it")),
    (0x11, 0x00, "tagged: invalid STag", Said(|victim| Victim::write(victim.ended[0]))),
    (
        0x11,
        0x01,
        "tagged: base or bounds",
        Said(|victim| Victim::write(RemoteRegion { offset: victim.sink.offset + 85, ..victim.sink })),
    ),
    (
        0x11,
        0x02,
        "tagged: STag of another stream",
        Never("each connection has tags of its own, so that another's is invalid"),
    ),
    (
        0x11,
        0x03,
        "tagged: TO wrap",
        Said(|victim| Victim::write(RemoteRegion { offset: u64::MAX - 3, ..victim.sink })),
    ),
    (
        0x11,
        0x04,
        "tagged: invalid DDP version",
        Said(|victim| {
            Access { control: [0xc2, 0x40], stag: victim.sink.stag.0, offset: victim.sink.offset, ..WRITE }
                .ulpdu()
        }),
    ),
    (
        0x12,
        0x01,
        "untagged: invalid queue number",
        Said(|victim| Message { queue: 3, ..victim.send() }.ulpdu()),
    ),
    (0x12, 0x02, "untagged: no buffer", Tested("a_message_without_a_receive")),
    (
        0x12,
        0x03,
        "untagged: invalid MSN",
        Said(|victim| Message { sequence: victim.next + 1, ..victim.send() }.ulpdu()),
    ),
    (0x12, 0x04, "untagged: invalid MO", Said(|victim| Message { offset: 8, ..victim.send() }.ulpdu())),
    (
        0x12,
        0x05,
        "untagged: message too long",
        Said(|victim| Message { payload: &[1; 65], ..victim.send() }.ulpdu()),
    ),
    (
        0x12,
        0x06,
        "untagged: invalid DDP version",
        Said(|victim| Message { control: [0x42, 0x43], ..victim.send() }.ulpdu()),
    ),
];

const MPA: &[Code] = &[
    (0x20, 0x01, "TCP connection lost", Never("there is nobody left to be told")),
    (0x20, 0x02, "CRC does not match", Tested("a_crc_that_does_not_match")),
    (0x20, 0x03, "marker and length do not match", Tested("a_marker_that_points_elsewhere")),
    (
        0x20,
        0x04,
        "invalid MPA request or reply",
        Tested("frames_that_are_none_close_the_connection_without_an_answer"),
    ),
    (0x20, 0x05, "local catastrophic error", Never("a peer cannot cause it")),
    (
        0x20,
        0x06,
        "insufficient IRD",
        Tested("a_responder_that_wants_more_reads_than_are_served_is_terminated"),
    ),
    (
        0x20,
        0x07,
        "no matching RTR option",
        Tested("a_responder_without_a_common_way_to_show_readiness_is_terminated"),
    ),
];

/// The Terminate that answers a segment: its error, and that nothing else is said.
fn error_of(answer: &[u8]) -> Option<(u8, u8)> {
    let [high, low, ddp, rdmap, rest @ ..] = answer else { return None };
    let whole = (2 + usize::from(u16::from_be_bytes([*high, *low]))).next_multiple_of(4) + 4;
    let is_alone = answer.len() == whole && [*ddp, *rdmap] == [0x41, 0x47];
    is_alone.then(|| (rest[16], rest[17]))
}

#[test]
fn every_code_is_the_answer_to_something_or_there_is_a_reason() {
    let tests = [include_str!("violations.rs"), include_str!("setup.rs")].concat();
    for (layer_and_type, code, words, way) in [RDMAP, DDP, MPA].into_iter().flatten() {
        match way {
            Said(say) => {
                for hearer in [Hearer::Initiator, Hearer::Responder] {
                    let mut victim = Victim::new(hearer);
                    let ulpdu = say(&victim);
                    let answer = victim.tell(&ulpdu);
                    assert_eq!(error_of(&answer), Some((*layer_and_type, *code)), "{words}: {hearer:?}");
                    let connection = &victim.end.connection;
                    assert!(matches!(connection.state(), QueuePairState::Ended(EndReason::Violation(_))));
                    assert!(matches!(connection.poll_close(), Some(CloseReason::Violation(_))));
                    assert!(victim.tell(&victim.send().ulpdu()).is_empty(), "{words}: nothing follows it");
                    assert_eq!(victim.memory(), [0; MEMORY], "{words}: nothing is touched");
                }
            }
            Tested(name) => assert!(tests.contains(&format!("fn {name}()")), "{words}: {name}"),
            Never(reason) => assert!(!reason.is_empty()),
        }
    }
}

/// Whoever names memory of another connection, or memory that has ended, hears that there is none, whatever it wants of it.
#[test]
fn memory_of_others_and_of_the_past_is_none() {
    for hearer in [Hearer::Initiator, Hearer::Responder] {
        for at in 0..4 {
            let victim = Victim::new(hearer);
            let region = [victim.foreign, victim.ended].concat()[at];
            let invalidate =
                Message { control: [0x41, 0x46], invalidate: region.stag.0, ..victim.send() }.ulpdu();
            for (said, error) in [
                (Victim::write(region), (0x11, 0)),
                (victim.read(region), (0x01, 0)),
                (invalidate, (0x01, 9)),
            ] {
                let mut victim = Victim::new(hearer);
                let answer = victim.tell(&said);
                assert_eq!(error_of(&answer), Some(error), "{hearer:?} {region:?}");
                assert_eq!(victim.memory(), [0; MEMORY]);
            }
        }
    }
}

/// The other version of a tagged segment, a response and an RDMA Read Request that were not asked for or are none, at either end.
#[test]
fn versions_are_looked_at_before_all_else() {
    for hearer in [Hearer::Initiator, Hearer::Responder] {
        for (said, error) in [
            (vec![0xc2; 14], (0x11, 4)),
            (vec![0x42; 18], (0x12, 6)),
            ([&[0xc1, 0x82][..], &[0; 12]].concat(), (0x02, 5)),
            ([&[0x41, 0x07][..], &[0; 16]].concat(), (0x02, 5)),
        ] {
            let mut victim = Victim::new(hearer);
            let answer = victim.tell(&said);
            assert_eq!(error_of(&answer), Some(error), "{hearer:?} {said:x?}");
        }
    }
}

/// An initiator that shows readiness by an RDMA Read needs a peer that serves one.
#[test]
fn a_responder_that_serves_no_read_cannot_be_shown_readiness_by_one() {
    let rtr = iwarp::mpa::RtrKinds::only(iwarp::mpa::Rtr::Read);
    let mut end = End::new(rig::initiator(iwarp::mpa::Offer { rtr, ..OFFER }));
    end.transmit(Instant::ZERO);
    end.receive(Instant::ZERO, &[&b"MPA ID Rep Frame"[..], &[0x10, 2, 0, 4, 0x80, 0, 0x40, 1]].concat());
    assert_eq!(error_of(&end.transmit(Instant::ZERO)), Some((0x20, 6)));
}
