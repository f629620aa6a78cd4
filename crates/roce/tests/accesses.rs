//! Memory: what a peer says, whatever it says, touches only what it may, held against a model that knows only what was registered (IBTA §9.7.4.1, §10.6).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod rig;

use std::collections::HashMap;

use proptest::prelude::*;
use rig::victim::{FIRST, Said, Victim, message, packet};
use rig::{done, post, post_receive, register, sink, source};
use roce::header::Memory;
use roce::opcode::Opcode;
use roce::packet::Extended;
use roce::syndrome::{Credits, Nak, Syndrome};
use verbs::{
    QueuePair as _, QueuePairState, RegionMemory, RemoteRegion, STag, WorkId, WorkMemory, WorkRequest,
};
use wire::big_endian::{U32, U64};

const MTU: usize = 256;
const ALLOWED: Option<Syndrome> = Some(Syndrome::Ack(Credits::UNLIMITED));
const REFUSED: Option<Syndrome> = Some(Syndrome::Nak(Nak::RemoteAccess));

/// A key that was given out, on this connection or on another, or a number that was not.
#[derive(Debug, Clone)]
enum Key {
    /// Of a region for this kind of access.
    Fit(prop::sample::Index),
    Known(prop::sample::Index),
    Foreign(prop::sample::Index),
    Forged(u32),
}

/// What the owner and its peer do.
#[derive(Debug, Clone)]
enum Act {
    Register {
        is_sink: bool,
        bytes: u16,
    },
    Invalidate(prop::sample::Index),
    Write {
        key: Key,
        offset: u64,
        bytes: u16,
        fill: u8,
    },
    /// A write in two packets, between which the owner may end the region.
    LongWrite {
        key: Key,
        offset: u64,
        rest: u8,
        fill: u8,
        is_ended: bool,
    },
    Read {
        key: Key,
        offset: u64,
        bytes: u16,
    },
    SendInvalidate(Key),
    /// A packet that has come before comes again.
    Again(prop::sample::Index),
    /// Any bytes behind a first header, whose number is about the one that is due.
    Noise(u8, u32, Vec<u8>),
}

fn key() -> impl Strategy<Value = Key> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        150 => index().prop_map(Key::Fit),
        1 => index().prop_map(Key::Known),
        1 => index().prop_map(Key::Foreign),
        1 => any::<u32>().prop_map(Key::Forged),
        1 => (0..0x1000_u32).prop_map(Key::Forged),
    ]
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![200 => 0..30_u64, 1 => 0..400_u64, 1 => any::<u64>(), 1 => (u64::MAX - 300)..=u64::MAX]
}

fn act() -> impl Strategy<Value = Act> {
    let index = any::<prop::sample::Index>;
    let long = (key(), offset(), 1..20_u8, 1..=255_u8, prop::bool::weighted(0.02));
    prop_oneof![
        6 => (any::<bool>(), 310..400_u16).prop_map(|(is_sink, bytes)| Act::Register { is_sink, bytes }),
        2 => index().prop_map(Act::Invalidate),
        20 => (key(), offset(), 0..=256_u16, 1..=255_u8)
            .prop_map(|(key, offset, bytes, fill)| Act::Write { key, offset, bytes, fill }),
        10 => long.prop_map(|(key, offset, rest, fill, is_ended)| {
            Act::LongWrite { key, offset, rest, fill, is_ended }
        }),
        15 => (key(), offset(), 0..=256_u16).prop_map(|(key, offset, bytes)| Act::Read { key, offset, bytes }),
        2 => key().prop_map(Act::SendInvalidate),
        10 => index().prop_map(Act::Again),
        1 => (any::<u8>(), 0..6_u32, prop::collection::vec(any::<u8>(), 0..80))
            .prop_map(|(opcode, number, bytes)| Act::Noise(opcode, number, bytes)),
    ]
}

/// What happens between the packets of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    RegionEnds,
}

/// What the model knows of a region.
#[derive(Debug)]
struct Model {
    bytes: Vec<u8>,
    is_sink: bool,
    is_valid: bool,
}

impl Model {
    /// The bytes of an access that is allowed.
    fn part(&mut self, is_write: bool, offset: u64, bytes: usize) -> Option<&mut [u8]> {
        let start = usize::try_from(offset).ok()?;
        let range = start..start.checked_add(bytes)?;
        let is_allowed = self.is_valid && self.is_sink == is_write;
        self.bytes.get_mut(range).filter(|_| is_allowed)
    }
}

/// One responder, and the model of its memory.
struct World {
    victim: Victim,
    models: HashMap<STag, Model>,
    keys: Vec<STag>,
    foreign: Vec<STag>,
    /// The number that is due.
    sequence: u32,
    said: Vec<Said>,
}

impl World {
    fn new() -> Self {
        let mut other = Victim::responder();
        // Keys that this connection may give out too, and some that it cannot.
        let foreign = (0..8).map(|_| register(other.connection(), sink(400)).stag).collect();
        let (models, keys, said) = (HashMap::new(), Vec::new(), Vec::new());
        let mut world = Self { victim: Victim::responder(), models, keys, foreign, sequence: FIRST, said };
        world.register(true, 320);
        world.register(false, 321);
        world
    }

    fn named(&self, key: &Key, fits: impl Fn(&Model) -> bool) -> STag {
        let fit = |stag: &&STag| self.models.get(*stag).is_some_and(|model| model.is_valid && fits(model));
        let fit: Vec<STag> = self.keys.iter().filter(fit).copied().collect();
        match key {
            Key::Fit(index) if !fit.is_empty() => *index.get(&fit),
            Key::Known(index) if !self.keys.is_empty() => *index.get(&self.keys),
            Key::Fit(_) | Key::Known(_) => STag(0),
            Key::Foreign(index) => *index.get(&self.foreign),
            Key::Forged(number) => STag(*number),
        }
    }

    fn register(&mut self, is_sink: bool, length: u16) {
        if self.models.len() == 8 {
            return;
        }
        let bytes = vec![if is_sink { 0 } else { length.to_le_bytes()[0] | 1 }; length.into()];
        let memory = if is_sink { sink(length.into()) } else { source(&bytes) };
        let stag = register(self.victim.connection(), memory).stag;
        assert!(self.models.insert(stag, Model { bytes, is_sink, is_valid: true }).is_none());
        self.keys.push(stag);
    }

    /// The owner takes a region's memory, which is as the model has it.
    fn take(&mut self, stag: STag) {
        let Some(model) = self.models.remove(&stag) else { return };
        post(self.victim.connection(), 7, WorkRequest::Invalidate { stag });
        let done = done(self.victim.connection()).into_iter().find(|done| done.id == WorkId(7));
        match done.map(|done| done.memory) {
            Some(WorkMemory::Region(RegionMemory::Sink(buf))) => assert_eq!(buf[..], model.bytes),
            Some(WorkMemory::Region(RegionMemory::Source(list))) => {
                assert_eq!(list.into_one()[..], model.bytes);
            }
            other => panic!("{other:?}"),
        }
    }

    fn access(&self, opcode: Opcode, to: RemoteRegion, payload: Vec<u8>) -> Said {
        let RemoteRegion { stag, offset, length } = to;
        let memory = Memory { address: U64::new(offset), key: U32::new(stag.0), length: U32::new(length) };
        let extended = Extended::Memory(memory);
        Said { extended, payload, asks: true, ..packet(opcode, self.sequence) }
    }

    /// Says the packet that is due; what is answered.
    fn tell(&mut self, said: Said) -> Vec<Said> {
        let answers = self.victim.tell(&said);
        self.said.push(said);
        self.sequence += 1;
        answers
    }

    /// Says a packet that is acknowledged or refused.
    fn judge(&mut self, said: &Said, is_allowed: bool) {
        let answers = self.tell(said.clone());
        let [answer] = &answers[..] else { panic!("one answer to {said:?}, not {answers:?}") };
        assert_eq!(answer.syndrome(), if is_allowed { ALLOWED } else { REFUSED }, "{said:?}");
        assert_eq!(self.is_open(), is_allowed, "{said:?}");
    }

    fn write(&mut self, key: &Key, offset: u64, data: &[u8]) {
        let stag = self.named(key, |model| model.is_sink);
        let part = self.models.get_mut(&stag).and_then(|model| model.part(true, offset, data.len()));
        let is_allowed = part.is_some() || data.is_empty();
        if let Some(part) = part {
            part.copy_from_slice(data);
        }
        let to = RemoteRegion { stag, offset, length: u32::try_from(data.len()).unwrap() };
        self.judge(&self.access(Opcode::WRITE_ONLY, to, data.to_vec()), is_allowed);
    }

    /// A write of two packets, between which the region may end.
    fn long_write(&mut self, key: &Key, meanwhile: Meanwhile, offset: u64, data: &[u8]) {
        let stag = self.named(key, |model| model.is_sink);
        let (front, back) = data.split_at(MTU);
        // All of it must be open before any of it is written.
        let part = self.models.get_mut(&stag).and_then(|model| model.part(true, offset, data.len()));
        let is_allowed = part.is_some();
        if let Some(part) = part {
            part[..MTU].copy_from_slice(front);
        }
        let to = RemoteRegion { stag, offset, length: u32::try_from(data.len()).unwrap() };
        self.judge(&self.access(Opcode::WRITE_FIRST, to, front.to_vec()), is_allowed);
        if !is_allowed {
            return;
        }
        if meanwhile == Meanwhile::RegionEnds {
            self.take(stag);
        }
        let part = self.models.get_mut(&stag).and_then(|model| model.part(true, offset, data.len()));
        let is_open = part.is_some();
        if let Some(part) = part {
            part[MTU..].copy_from_slice(back);
        }
        let last = Said { asks: true, ..message(Opcode::WRITE_LAST, self.sequence, back) };
        self.judge(&last, is_open);
    }

    fn read(&mut self, key: &Key, offset: u64, bytes: u16) {
        let stag = self.named(key, |model| !model.is_sink);
        let part = self.models.get_mut(&stag).and_then(|model| model.part(false, offset, bytes.into()));
        let expected = if bytes == 0 { Some(Vec::new()) } else { part.map(|part| part.to_vec()) };
        let from = RemoteRegion { stag, offset, length: bytes.into() };
        let said = Said { asks: false, ..self.access(Opcode::READ_REQUEST, from, Vec::new()) };
        let Some(expected) = expected else { return self.judge(&said, false) };
        let answers = self.tell(said);
        let [answer] = &answers[..] else { panic!("one response, not {answers:?}") };
        assert_eq!(answer.opcode, Opcode::READ_RESPONSE_ONLY);
        assert_eq!(answer.payload, expected);
    }

    fn send_invalidate(&mut self, key: &Key) {
        let stag = self.named(key, |_| true);
        post_receive(self.victim.connection(), 3, 64);
        let model = self.models.get_mut(&stag).filter(|model| model.is_valid);
        let is_allowed = model.is_some();
        if let Some(model) = model {
            model.is_valid = false;
        }
        let extended = Extended::Invalidate(U32::new(stag.0));
        let said = packet(Opcode::SEND_ONLY_INVALIDATE, self.sequence);
        self.judge(&Said { extended, asks: true, ..said }, is_allowed);
    }

    /// An old packet changes nothing, and is given nothing but what may be read now.
    fn again(&mut self, index: prop::sample::Index) {
        if self.said.is_empty() {
            return;
        }
        let said = index.get(&self.said).clone();
        let answers = self.victim.tell(&said);
        assert!(self.is_open(), "{said:?} again ends the connection");
        let (Opcode::READ_REQUEST, Extended::Memory(memory)) = (said.opcode, said.extended) else { return };
        let length = usize::try_from(memory.length.get()).unwrap();
        let model = self.models.get_mut(&STag(memory.key.get()));
        let part = model.and_then(|model| model.part(false, memory.address.get(), length));
        let given = answers.iter().find(|answer| answer.opcode == Opcode::READ_RESPONSE_ONLY);
        let given = given.map(|answer| answer.payload.clone()).filter(|payload| !payload.is_empty());
        assert_eq!(given, part.filter(|_| length > 0).map(|part| part.to_vec()));
    }

    /// Does it; false if nothing can be said of what comes next.
    fn act(&mut self, act: &Act) -> bool {
        match act {
            Act::Register { is_sink, bytes } => self.register(*is_sink, *bytes),
            Act::Invalidate(index) if !self.keys.is_empty() => self.take(*index.get(&self.keys)),
            Act::Invalidate(_) => {}
            Act::Write { key, offset, bytes, fill } => {
                self.write(key, *offset, &vec![*fill; (*bytes).into()]);
            }
            Act::LongWrite { key, offset, rest, fill, is_ended } => {
                let data = vec![*fill; MTU + usize::from(*rest)];
                let meanwhile = if *is_ended { Meanwhile::RegionEnds } else { Meanwhile::Nothing };
                self.long_write(key, meanwhile, *offset, &data);
            }
            Act::Read { key, offset, bytes } => self.read(key, *offset, *bytes),
            Act::SendInvalidate(key) => self.send_invalidate(key),
            Act::Again(index) => self.again(*index),
            Act::Noise(opcode, number, bytes) => {
                self.victim.tell_bytes(Opcode(*opcode), self.sequence - 3 + number, bytes);
                self.victim.hear();
                return false;
            }
        }
        self.is_open()
    }

    fn is_open(&mut self) -> bool {
        self.victim.connection().state() == QueuePairState::Open
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn no_access_touches_what_it_may_not(acts in prop::collection::vec(act(), 1..120)) {
        let mut world = World::new();
        for act in &acts {
            if !world.act(act) {
                break;
            }
        }
        for stag in world.keys.clone() {
            world.take(stag);
        }
    }
}
