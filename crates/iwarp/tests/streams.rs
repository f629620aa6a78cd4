//! Traffic both ways, in chunks of any size: everything arrives as it was sent, or, where a bit changes on the way and there are CRCs, is not told.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod rig;

use buf::Buf;
use iwarp::mpa::Offer;
use proptest::prelude::*;
use protocol::pair;
use rig::{Chunks, Flip, Joined, OFFER, list, sink, source};
use verbs::{
    QueuePair as _, QueuePairState, RegionMemory, RemoteRegion, WorkDone, WorkId, WorkMemory, WorkRequest,
};

/// Bytes of each region and receive.
const MEMORY: usize = 9000;

/// What one end asks for.
#[derive(Debug, Clone, Copy)]
enum Act {
    Send(u16),
    Write { offset: u16, length: u16 },
    Read { offset: u16, length: u16 },
}

fn act() -> impl Strategy<Value = (bool, Act)> {
    let length = || prop_oneof![Just(0), 1..40_u16, 1400..1500_u16, 0..4500_u16];
    let act = prop_oneof![
        length().prop_map(Act::Send),
        (0..4500_u16, length()).prop_map(|(offset, length)| Act::Write { offset, length }),
        (0..4500_u16, length()).prop_map(|(offset, length)| Act::Read { offset, length }),
    ];
    (any::<bool>(), act)
}

/// One end, and what the model knows of it.
struct Half {
    /// What the peer writes to and reads.
    sink: RemoteRegion,
    source: RemoteRegion,
    /// What the peer has written, by the model.
    written: Vec<u8>,
    /// Seeds and lengths of the messages that are to come.
    coming: Vec<(u64, u16)>,
    received: usize,
}

/// What is read of an end.
fn readable(at: usize) -> Vec<u8> {
    pair::aperiodic(MEMORY, 1000 + u64::try_from(at).unwrap())
}

struct Traffic {
    joined: Joined,
    halves: Vec<Half>,
}

impl Traffic {
    fn new(offers: [Offer; 2], chunks: Chunks) -> Self {
        let mut joined = Joined::open(offers, chunks);
        let halves = (0..2).map(|at| {
            let end = &mut joined.ends[at];
            let (sink, source) = (end.register(sink(MEMORY)), end.register(source(&readable(at))));
            for _ in 0..16 {
                end.post_receive(5, MEMORY);
            }
            Half { sink, source, written: vec![0; MEMORY], coming: Vec::new(), received: 0 }
        });
        let halves = halves.collect();
        Self { joined, halves }
    }

    /// Posts one request of `from`; what it is goes into its number, so that its completion can be judged.
    fn post(&mut self, from: usize, seed: u64, act: Act) {
        let peer = &mut self.halves[1 - from];
        let request = match act {
            Act::Send(length) => {
                peer.coming.push((seed, length));
                WorkRequest::Send { data: list(&pair::aperiodic(length.into(), seed)), invalidate: None }
            }
            Act::Write { offset, length } => {
                let data = pair::aperiodic(length.into(), seed);
                peer.written[offset.into()..usize::from(offset + length)].copy_from_slice(&data);
                let to = RemoteRegion { offset: offset.into(), length: length.into(), ..peer.sink };
                WorkRequest::Write { data: list(&data), to }
            }
            Act::Read { offset, length } => {
                let from = RemoteRegion { offset: offset.into(), length: length.into(), ..peer.source };
                WorkRequest::Read { into: Buf::zeroed(length.into()), from }
            }
        };
        let offset = if let Act::Read { offset, .. } = act { u64::from(offset) } else { 0 };
        // A queue that is full, or a queue pair that has ended, takes nothing: the test posts less than that.
        self.joined.ends[from].post(offset << 8, request);
    }

    /// Looks at what has completed: none of it is wrong.
    fn judge(&mut self) {
        for at in 0..2 {
            for done in self.joined.ends[at].done() {
                match (done.result, done.memory) {
                    (Ok(WorkDone::Received { length, .. }), WorkMemory::Buf(buf)) => {
                        let half = &mut self.halves[at];
                        let (seed, sent) = half.coming[half.received];
                        half.received += 1;
                        assert_eq!(length, usize::from(sent));
                        assert_eq!(buf[..length], pair::aperiodic(length, seed));
                    }
                    (Ok(WorkDone::Read), WorkMemory::Buf(buf)) => {
                        let WorkId(id) = done.id;
                        let offset = usize::try_from(id >> 8).unwrap();
                        assert_eq!(buf[..], readable(1 - at)[offset..offset + buf.len()]);
                    }
                    _ => {}
                }
            }
        }
    }

    fn is_open(&self) -> bool {
        self.joined.ends.iter().all(|end| end.connection.state() == QueuePairState::Open)
    }

    /// Everything has come, and each region is as the model has it.
    fn judge_end(&mut self) {
        for at in 0..2 {
            let half = &self.halves[at];
            assert_eq!(half.received, half.coming.len());
            let end = &mut self.joined.ends[at];
            end.post(9, WorkRequest::Invalidate { stag: half.sink.stag });
            let memory = end.done().pop().map(|done| done.memory);
            let Some(WorkMemory::Region(RegionMemory::Sink(buf))) = memory else { panic!("{memory:?}") };
            assert_eq!(buf[..], half.written);
        }
    }
}

fn offers(bits: u8) -> [Offer; 2] {
    let bit = |at: u8| bits & (1 << at) != 0;
    [Offer { markers: bit(0), crc: bit(1), ..OFFER }, Offer { markers: bit(2), crc: bit(1), ..OFFER }]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn everything_arrives_as_it_was_sent(
        bits in 0..8_u8,
        chunks in any::<u64>(),
        acts in prop::collection::vec(act(), 1..15),
    ) {
        let mut traffic = Traffic::new(offers(bits), Chunks::random(chunks));
        for (seed, (is_near, act)) in (0..).zip(acts) {
            traffic.post(usize::from(is_near), seed, act);
            if seed % 4 == 3 {
                traffic.joined.carry(0);
                traffic.judge();
            }
        }
        traffic.joined.run();
        traffic.judge();
        prop_assert!(traffic.is_open());
        traffic.judge_end();
    }

    /// What completes is right, whatever bit changes; and a change never passes unseen.
    #[test]
    fn with_crcs_nothing_wrong_is_told(
        markers in 0..4_u8,
        chunks in any::<u64>(),
        flip in (0..2_usize, 0..5000_usize, 0..8_u8),
        acts in prop::collection::vec(act(), 4..15),
    ) {
        let bits = (markers & 1) | 2 | ((markers & 2) << 1);
        let mut traffic = Traffic::new(offers(bits), Chunks::random(chunks));
        for (seed, (is_near, act)) in (0..).zip(acts) {
            traffic.post(usize::from(is_near), seed, act);
        }
        let (from, behind, bit) = flip;
        traffic.joined.flip = Some(Flip { from, behind, bit });
        traffic.joined.run();
        traffic.judge();
        let is_unharmed = traffic.joined.flip.is_some();
        if is_unharmed {
            traffic.judge_end();
        }
        // A length that grew waits for bytes that do not come: that a peer falls silent is for consumers to see.
        prop_assert!(!is_unharmed || traffic.is_open());
    }
}
