//! A network that loses, doubles, delays, reorders and damages datagrams, by seed, against a model of what both sides' memory holds.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod rig;

use std::collections::VecDeque;

use buf::Buf;
use protocol::{Entropy, SeededEntropy};
use rig::{CONFIG, Faults, World, done, list, post, register, sink, source};
use roce::Config;
use roce::mtu::Mtu;
use verbs::{
    QueuePair, QueuePairState, RegionMemory, RemoteRegion, STag, WorkCompletion, WorkDone, WorkId,
    WorkMemory, WorkRequest,
};

/// Bytes of each region.
const REGION: usize = 20_000;
/// Requests of each side.
const REQUESTS: usize = 40;

/// One side: what it has asked for, and what its peer's memory must hold.
struct Model {
    entropy: SeededEntropy,
    /// The peer's regions.
    sink: RemoteRegion,
    source: RemoteRegion,
    /// What has been written to the peer's sink, and what its source holds.
    written: Vec<u8>,
    held: Vec<u8>,
    /// What has been sent, and what each request is to come to, in order.
    messages: VecDeque<Vec<u8>>,
    posted: VecDeque<(WorkId, Expected)>,
    asked: usize,
    next: u64,
}

enum Expected {
    Sent,
    Written,
    Read { start: usize, length: usize },
}

impl Model {
    fn number(&mut self, below: usize) -> usize {
        usize::try_from(self.entropy.number() % (below as u64)).unwrap()
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.entropy.fill(&mut bytes);
        bytes
    }

    /// A part of a region, of which none is too likely.
    fn part(&mut self) -> (usize, usize) {
        let length = match self.number(4) {
            0 => self.number(4),
            1 => 1024 * (1 + self.number(8)),
            _ => self.number(9000),
        };
        (self.number(REGION - length), length)
    }

    fn request(&mut self) -> (WorkRequest, Expected) {
        let (start, length) = self.part();
        let within = |region: RemoteRegion| RemoteRegion {
            offset: region.offset + start as u64,
            length: u32::try_from(length).unwrap(),
            ..region
        };
        match self.number(3) {
            0 => {
                let bytes = self.bytes(length);
                self.messages.push_back(bytes.clone());
                (WorkRequest::Send { data: list(&bytes), invalidate: None }, Expected::Sent)
            }
            1 => {
                let bytes = self.bytes(length);
                self.written[start..start + length].copy_from_slice(&bytes);
                (WorkRequest::Write { data: list(&bytes), to: within(self.sink) }, Expected::Written)
            }
            _ => {
                let into = Buf::zeroed(length);
                let request = WorkRequest::Read { into, from: within(self.source) };
                (request, Expected::Read { start, length })
            }
        }
    }

    /// Asks for as much as is taken.
    fn ask(&mut self, queue_pair: &mut dyn QueuePair) {
        while self.asked < REQUESTS && self.posted.len() < queue_pair.limits().sends {
            let (request, expected) = self.request();
            let id = WorkId(self.next);
            queue_pair.post(id, request).map_err(|refused| refused.reason).unwrap();
            self.posted.push_back((id, expected));
            (self.next, self.asked) = (self.next + 1, self.asked + 1);
        }
    }

    fn completed(&mut self, done: WorkCompletion) {
        let (id, expected) = self.posted.pop_front().unwrap();
        assert_eq!(done.id, id, "completions keep the order of posting");
        match (expected, done.result.unwrap(), done.memory) {
            (Expected::Sent, WorkDone::Sent, _) | (Expected::Written, WorkDone::Written, _) => {}
            (Expected::Read { start, length }, WorkDone::Read, WorkMemory::Buf(buf)) => {
                assert!(buf[..length] == self.held[start..start + length], "other bytes are read");
            }
            (_, other, _) => panic!("a request comes to {other:?}"),
        }
    }
}

/// Receives, apart from all other requests.
const RECEIVE: u64 = 1 << 40;

fn model(world: &mut World, side: usize, seed: u64) -> Model {
    let mut entropy = SeededEntropy::new(seed);
    let mut held = vec![0; REGION];
    entropy.fill(&mut held);
    let peer = world.end(1 - side);
    for _ in 0..8 {
        post(peer, RECEIVE, WorkRequest::Receive { into: Buf::zeroed(10_000) });
    }
    let sink = register(peer, sink(REGION));
    let source = register(peer, source(&held));
    Model {
        entropy,
        sink,
        source,
        written: vec![0; REGION],
        held,
        messages: VecDeque::new(),
        posted: VecDeque::new(),
        asked: 0,
        next: 0,
    }
}

/// Lets both sides ask at once until all is done, and compares with the models.
fn converse(world: &mut World, seed: u64) {
    let mut models = [model(world, 0, seed ^ 0x55), model(world, 1, seed ^ 0xaa)];
    let mut steps = 0;
    while models
        .iter()
        .any(|model| model.asked < REQUESTS || !model.posted.is_empty() || !model.messages.is_empty())
    {
        for side in 0..2 {
            models[side].ask(world.end(side));
            for done in done(world.end(side)) {
                if done.id.0 < RECEIVE {
                    models[side].completed(done);
                    continue;
                }
                let (Ok(WorkDone::Received { length, .. }), WorkMemory::Buf(into)) =
                    (done.result, done.memory)
                else {
                    panic!("a receive comes to {:?}", done.result);
                };
                let expected = models[1 - side].messages.pop_front().unwrap();
                assert!(into[..length] == expected, "a message arrives with other bytes");
                post(world.end(side), RECEIVE, WorkRequest::Receive { into });
            }
            assert_eq!(world.end(side).state(), QueuePairState::Open);
        }
        world.step_once();
        steps += 1;
        assert!(steps < 1_000_000, "it does not come to an end");
    }
    for (side, model) in models.iter().enumerate() {
        untouched_but_written(world, 1 - side, model);
    }
}

fn untouched_but_written(world: &mut World, side: usize, model: &Model) {
    for (stag, expected) in [(model.sink.stag, &model.written), (model.source.stag, &model.held)] {
        let bytes = release(world, side, stag);
        assert!(bytes == *expected, "a region holds other bytes than the model");
    }
}

fn release(world: &mut World, side: usize, stag: STag) -> Vec<u8> {
    post(world.end(side), 1, WorkRequest::Invalidate { stag });
    for _ in 0..100_000 {
        for done in done(world.end(side)) {
            match done.memory {
                WorkMemory::Region(RegionMemory::Sink(buf)) => return buf.to_vec(),
                WorkMemory::Region(RegionMemory::Source(list)) => return list.into_one().to_vec(),
                _ => {}
            }
        }
        world.step_once();
    }
    panic!("a region does not come back");
}

fn world(seed: u64, faults: Faults, numbers: Vec<u32>) -> World {
    let mtu = [Mtu::Bytes256, Mtu::Bytes1024, Mtu::Bytes4096][usize::try_from(seed % 3).unwrap()];
    let reads = u8::try_from(1 + seed % 5).unwrap();
    let config = Config { mtu, reads_served: reads, reads_sent: reads, ..CONFIG };
    let mut world = World::with_numbers([config, config], seed.is_multiple_of(2), seed, numbers);
    world.faults = faults;
    world.connect();
    world
}

fn seeds(faults: Faults) {
    let mut struck = 0;
    for seed in 0..60 {
        let mut world = world(seed, faults, Vec::new());
        converse(&mut world, seed);
        struck += world.struck;
    }
    assert!(struck > 500, "the network is too good: {struck} faults");
}

#[test]
fn losses_are_made_good() {
    seeds(Faults { lost: 30, ..Faults::default() });
}

#[test]
fn doubled_datagrams_change_nothing() {
    seeds(Faults { doubled: 200, ..Faults::default() });
}

#[test]
fn late_datagrams_change_nothing() {
    seeds(Faults { late: 50, ..Faults::default() });
}

#[test]
fn damaged_datagrams_are_lost_ones() {
    seeds(Faults { damaged: 30, ..Faults::default() });
}

#[test]
fn all_at_once_and_numbers_that_begin_anew() {
    let faults = Faults { lost: 20, doubled: 50, late: 50, damaged: 20 };
    for seed in 0..60 {
        let begin = 0x00ff_ffff - u32::try_from(seed).unwrap();
        converse(&mut world(seed, faults, vec![200, begin]), seed);
    }
}
