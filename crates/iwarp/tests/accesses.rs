//! Memory: what a peer says, whatever it says, touches only what it may, held against a model that knows only what was registered.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod rig;

use std::collections::HashMap;

use buf::{Account, Pool};
use iwarp::Role;
use iwarp::mpa::Offer;
use proptest::prelude::*;
use protocol::{Connection as _, Ended, Instant};
use rig::{
    Access, Chunks, End, Joined, Message, OFFER, SEND, Victim, WRITE, Wanted, config, fpdu, list,
    read_request, sink, source,
};
use verbs::{
    EndReason, PrivateData, QueuePair as _, QueuePairState, RegionMemory, RemoteRegion, STag, SetupAnswer,
    WorkDone, WorkId, WorkMemory, WorkRequest,
};

/// A tag that was given out, on this connection or on another, or a number that was not.
#[derive(Debug, Clone)]
enum Tag {
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
        tag: Tag,
        offset: u64,
        bytes: u8,
        fill: u8,
    },
    Read {
        tag: Tag,
        offset: u64,
        bytes: u8,
    },
    SendInvalidate(Tag),
    /// Any ULPDU, as its bytes come.
    Noise(Vec<u8>),
}

fn tag() -> impl Strategy<Value = Tag> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        150 => index().prop_map(Tag::Fit),
        1 => index().prop_map(Tag::Known),
        1 => index().prop_map(Tag::Foreign),
        1 => any::<u32>().prop_map(Tag::Forged),
        1 => (0..0x1000_u32).prop_map(Tag::Forged),
    ]
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![200 => 0..80_u64, 1 => 0..400_u64, 1 => any::<u64>(), 1 => (u64::MAX - 300)..=u64::MAX]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (any::<bool>(), 200..400_u16).prop_map(|(is_sink, bytes)| Act::Register { is_sink, bytes }),
        2 => any::<prop::sample::Index>().prop_map(Act::Invalidate),
        30 => (tag(), offset(), 0..130_u8, 1..=255_u8)
            .prop_map(|(tag, offset, bytes, fill)| Act::Write { tag, offset, bytes, fill }),
        15 => (tag(), offset(), 0..130_u8).prop_map(|(tag, offset, bytes)| Act::Read { tag, offset, bytes }),
        2 => tag().prop_map(Act::SendInvalidate),
        1 => prop::collection::vec(any::<u8>(), 0..80).prop_map(Act::Noise),
    ]
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
    fn part(&mut self, is_write: bool, offset: u64, bytes: u8) -> Option<&mut [u8]> {
        let end = offset.checked_add(bytes.into())?;
        let range = usize::try_from(offset).ok()?..usize::try_from(end).ok()?;
        let is_allowed = self.is_valid && self.is_sink == is_write;
        self.bytes.get_mut(range).filter(|_| is_allowed)
    }
}

/// One responder, and the model of its memory.
struct World {
    victim: Victim,
    models: HashMap<STag, Model>,
    tags: Vec<STag>,
    foreign: Vec<STag>,
    sequences: [u32; 2],
}

impl World {
    fn new() -> Self {
        let mut other = Victim::new(false, |_| {});
        // Tags that this connection may give out too, and some that it cannot.
        let foreign = (0..8).map(|_| other.end.register(sink(400)).stag).collect();
        let (models, tags) = (HashMap::new(), Vec::new());
        let victim = Victim::new(false, |_| {});
        let mut world = Self { victim, models, tags, foreign, sequences: [1, 1] };
        world.register(true, 300);
        world.register(false, 301);
        world
    }

    fn named(&self, tag: &Tag, fits: impl Fn(&Model) -> bool) -> STag {
        let fit = |stag: &&STag| self.models.get(*stag).is_some_and(|model| model.is_valid && fits(model));
        let fit: Vec<STag> = self.tags.iter().filter(fit).copied().collect();
        match tag {
            Tag::Fit(index) if !fit.is_empty() => *index.get(&fit),
            Tag::Known(index) if !self.tags.is_empty() => *index.get(&self.tags),
            Tag::Fit(_) | Tag::Known(_) => STag(0),
            Tag::Foreign(index) => *index.get(&self.foreign),
            Tag::Forged(number) => STag(*number),
        }
    }

    fn register(&mut self, is_sink: bool, length: u16) {
        if self.models.len() == 8 {
            return;
        }
        let bytes = vec![if is_sink { 0 } else { length.to_le_bytes()[0] | 1 }; length.into()];
        let memory = if is_sink { sink(length.into()) } else { source(&bytes) };
        let stag = self.victim.end.register(memory).stag;
        assert!(self.models.insert(stag, Model { bytes, is_sink, is_valid: true }).is_none());
        self.tags.push(stag);
    }

    /// The owner takes a region's memory, which is as the model has it.
    fn take(&mut self, stag: STag) {
        let Some(model) = self.models.remove(&stag) else { return };
        self.victim.end.post(7, WorkRequest::Invalidate { stag });
        let memory =
            self.victim.end.done().into_iter().find(|done| done.id == WorkId(7)).map(|done| done.memory);
        match memory {
            Some(WorkMemory::Region(RegionMemory::Sink(buf))) => assert_eq!(buf[..], model.bytes),
            Some(WorkMemory::Region(RegionMemory::Source(list))) => {
                assert_eq!(list.into_one()[..], model.bytes);
            }
            other => panic!("{other:?}"),
        }
    }

    /// What the peer says: whether the model allows it, and the answer.
    fn act(&mut self, act: &Act) -> Option<(bool, Vec<u8>)> {
        let said = match act {
            Act::Register { is_sink, bytes } => {
                self.register(*is_sink, *bytes);
                return None;
            }
            Act::Invalidate(index) => {
                if !self.tags.is_empty() {
                    self.take(*index.get(&self.tags));
                }
                return None;
            }
            Act::Write { tag, offset, bytes, fill } => {
                let stag = self.named(tag, |model| model.is_sink);
                let payload = vec![*fill; (*bytes).into()];
                let part = self.models.get_mut(&stag).and_then(|model| model.part(true, *offset, *bytes));
                let is_allowed = part.is_some() || *bytes == 0;
                if let Some(part) = part {
                    part.fill(*fill);
                }
                let ulpdu = Access { stag: stag.0, offset: *offset, payload: &payload, ..WRITE }.ulpdu();
                (is_allowed, self.victim.tell(&ulpdu))
            }
            Act::Read { tag, offset, bytes } => {
                let stag = self.named(tag, |model| !model.is_sink);
                let part = self.models.get_mut(&stag).and_then(|model| model.part(false, *offset, *bytes));
                let expected = part.map(|part| part.to_vec());
                let payload = read_request(Wanted { stag: stag.0, offset: *offset, length: (*bytes).into() });
                let message = Message {
                    control: [0x41, 0x41],
                    queue: 1,
                    sequence: self.sequences[1],
                    payload: &payload,
                    ..SEND
                };
                self.sequences[1] += 1;
                let answer = self.victim.tell(&message.ulpdu());
                let expected = if *bytes == 0 { Some(Vec::new()) } else { expected };
                if let Some(expected) = &expected {
                    let response =
                        Access { control: [0xc1, 0x42], stag: 0x0102_0304, offset: 0x50, payload: expected };
                    assert_eq!(answer, fpdu(&response.ulpdu(), false));
                    return Some((true, Vec::new()));
                }
                (false, answer)
            }
            Act::SendInvalidate(tag) => {
                let stag = self.named(tag, |_| true);
                self.victim.end.post_receive(3, 64);
                let message = Message {
                    control: [0x41, 0x44],
                    invalidate: stag.0,
                    sequence: self.sequences[0],
                    ..SEND
                };
                self.sequences[0] += 1;
                let model = self.models.get_mut(&stag).filter(|model| model.is_valid);
                let is_allowed = model.is_some();
                if let Some(model) = model {
                    model.is_valid = false;
                }
                (is_allowed, self.victim.tell(&message.ulpdu()))
            }
            Act::Noise(bytes) => {
                self.victim.tell(bytes);
                return None;
            }
        };
        Some(said)
    }

    fn is_open(&self) -> bool {
        self.victim.end.connection.state() == QueuePairState::Open
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn no_access_touches_what_it_may_not(acts in prop::collection::vec(act(), 1..120)) {
        let mut world = World::new();
        for act in &acts {
            // Noise can name a region by chance once in a long time: it is judged by what the memory is at the end.
            let said = world.act(act);
            if let Some((is_allowed, answer)) = said {
                prop_assert_eq!(world.is_open(), is_allowed, "{:?}", act);
                prop_assert_eq!(answer.is_empty(), is_allowed, "a Terminate, or nothing");
            }
            if !world.is_open() {
                break;
            }
        }
        for stag in world.tags.clone() {
            world.take(stag);
        }
    }
}

/// A region that its owner ends while a segment for it is coming waits for that segment, and no other gets in.
#[test]
fn a_region_ends_only_when_the_transport_has_none_of_it() {
    let mut victim = Victim::new(false, |_| {});
    let region = victim.end.register(sink(100));
    let write = |offset, payload: &'static [u8]| {
        fpdu(&Access { stag: region.stag.0, offset, payload, ..WRITE }.ulpdu(), false)
    };
    let bytes = write(0, &[1; 50]);
    victim.tell_bytes(&bytes[..40]);
    assert!(victim.end.has_memory_lent());
    victim.end.post(5, WorkRequest::Invalidate { stag: region.stag });
    victim.end.post(6, WorkRequest::Send { data: list(b"behind"), invalidate: None });
    assert!(victim.end.done().is_empty() && victim.end.transmit(Instant::ZERO).is_empty());
    victim.end.receive(Instant::ZERO, &bytes[40..]);
    let done = victim.end.done();
    let WorkMemory::Region(RegionMemory::Sink(buf)) = &done[0].memory else { panic!("{done:?}") };
    assert_eq!(buf[..], [[1; 50], [0; 50]].concat());
    assert!(!victim.end.transmit(Instant::ZERO).is_empty(), "what was posted behind goes on");
    assert_eq!(victim.tell_bytes(&write(50, &[2; 50]))[20..24], [0x11, 0, 0xc0, 0]);
}

/// A segment comes in pieces where markers are: a region that ends between two of them takes no byte more.
#[test]
fn a_region_that_ends_between_two_pieces_takes_no_more() {
    let mut joined = Joined::open([OFFER, Offer { markers: true, ..OFFER }], Chunks::Of(usize::MAX));
    let region = joined.far().register(sink(1000));
    joined.near().post(1, WorkRequest::Write { data: list(&[1; 1000]), to: region });
    let bytes = joined.near().transmit(Instant::ZERO);
    // 24 bytes of the stream have gone before; the marker is next, and has not come.
    joined.far().receive(Instant::ZERO, &bytes[..512 - 24]);
    assert!(!joined.far().has_memory_lent());
    joined.far().post(2, WorkRequest::Invalidate { stag: region.stag });
    let done = joined.far().done();
    let WorkMemory::Region(RegionMemory::Sink(buf)) = &done[0].memory else { panic!("{done:?}") };
    let placed = 512 - 24 - 16;
    assert_eq!(buf[..], [&vec![1; placed][..], &vec![0; 1000 - placed]].concat());
    joined.far().receive(Instant::ZERO, &bytes[512 - 24..]);
    assert_eq!(joined.far().transmit(Instant::ZERO)[20..24], [0x11, 0, 0xc0, 0]);
}

/// All four kinds of Send, both ways: what they invalidate, and that none is lost.
#[test]
fn every_kind_of_send_is_sent_and_received() {
    for solicited in [false, true] {
        let near = config(Role::Initiator(PrivateData::NONE), OFFER);
        let near = rig::connection(iwarp::Config { solicited, ..near });
        let mut joined = Joined::new(near, rig::responder(OFFER));
        joined.run();
        joined.far().connection.handle_input(Instant::ZERO, SetupAnswer::Accept(PrivateData::NONE));
        joined.run();
        let region = joined.far().register(sink(10));
        for (id, invalidate, opcode) in [(1, None, 3), (2, Some(region.stag), 4)] {
            joined.far().post_receive(id, 10);
            joined.near().post(id, WorkRequest::Send { data: list(b"four"), invalidate });
            let bytes = joined.near().transmit(Instant::ZERO);
            let solicits = if solicited { 2 } else { 0 };
            assert_eq!(bytes[2..4], [0x41, 0x40 | (opcode + solicits)]);
            joined.far().receive(Instant::ZERO, &bytes);
            let done = joined.far().done().pop().map(|done| done.result);
            assert_eq!(done, Some(Ok(WorkDone::Received { length: 4, invalidated: invalidate })));
        }
    }
}

/// Reads wait for their turn: no more are under way than the peer serves, and none is forgotten.
#[test]
fn no_more_reads_are_under_way_than_the_peer_serves() {
    let near = Offer { ord: 9, ..OFFER };
    let mut joined = Joined::open([near, Offer { ird: 2, ..OFFER }], Chunks::Of(usize::MAX));
    assert_eq!(joined.near().connection.terms().map(|terms| terms.ord), Some(2));
    let region = joined.far().register(source(&[4; 100]));
    for id in 1..=5 {
        joined.near().post(id, WorkRequest::Read { into: buf::Buf::zeroed(100), from: region });
    }
    let requests = joined.near().transmit(Instant::ZERO);
    assert_eq!(requests.len(), 2 * 52);
    joined.far().receive(Instant::ZERO, &requests);
    joined.run();
    let done = joined.near().done();
    assert_eq!(done.iter().map(|done| done.id.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert!(done.iter().all(|done| done.result == Ok(WorkDone::Read)));
}

/// A long answer and a long message take turns, message by message.
#[test]
fn responses_and_messages_take_turns() {
    let mut joined = Joined::open([OFFER, OFFER], Chunks::Of(usize::MAX));
    let region = joined.far().register(source(&[4; 5000]));
    for id in 1..=3 {
        joined.near().post(id, WorkRequest::Read { into: buf::Buf::zeroed(5000), from: region });
        joined.near().post_receive(10 + id, 5000);
    }
    let requests = joined.near().transmit(Instant::ZERO);
    for id in 1..=3 {
        joined.far().post(id, WorkRequest::Send { data: list(&[1; 5000]), invalidate: None });
    }
    joined.far().receive(Instant::ZERO, &requests);
    let mut bytes = &joined.far().transmit(Instant::ZERO)[..];
    let mut kinds = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        kinds.push(rest[1] & 15);
        let whole = (2 + usize::from(u16::from_be_bytes(*length))).next_multiple_of(4) + 4;
        bytes = &bytes[whole..];
    }
    kinds.dedup();
    assert_eq!(kinds, [3, 2, 3, 2, 3, 2]);
}

/// What a transport that is gone dropped does not come back; all else does, and everything completes.
#[test]
fn everything_completes_when_the_transport_drops_memory() {
    for what in 0..3 {
        let mut joined = Joined::open([OFFER, OFFER], Chunks::Of(usize::MAX));
        let near = joined.near().register(sink(100));
        joined.near().post_receive(1, 100);
        joined.near().post_receive(2, 100);
        let from = RemoteRegion { stag: STag(7), offset: 0, length: 100 };
        joined.near().post(3, WorkRequest::Read { into: buf::Buf::zeroed(100), from });
        joined.near().transmit(Instant::ZERO);
        let ulpdu = match what {
            0 => SEND.ulpdu(),
            1 => Access { stag: near.stag.0, ..WRITE }.ulpdu(),
            _ => Access { control: [0xc1, 0x42], stag: 0x8000_0001, offset: 0, payload: &[1; 100] }.ulpdu(),
        };
        let mut end = joined.ends.into_iter().next().unwrap();
        end.receive(Instant::ZERO, &fpdu(&ulpdu, false)[..25]);
        assert!(end.has_memory_lent());
        end.connection.disconnect();
        let before: Vec<u64> = end.done().iter().map(|done| done.id.0).collect();
        assert_eq!(before, [&[3][..], &[1, 2, 3], &[1, 2]][what], "in order: what is behind waits");
        end.end(Instant::ZERO, Ended::ByUs);
        assert_eq!(before.len() + end.done().len(), 3);
        end.post(4, WorkRequest::Invalidate { stag: near.stag });
        let done = end.done().pop().unwrap();
        assert_eq!(done.result, Ok(WorkDone::Invalidated));
        assert_eq!(matches!(done.memory, WorkMemory::None), what == 1);
        assert_eq!(end.connection.state(), QueuePairState::Ended(EndReason::ByUs));
    }
}

/// A transport that gives memory back before it goes loses none.
#[test]
fn everything_comes_back_from_a_careful_transport() {
    let mut victim = Victim::new(false, |end| end.post_receive(1, 64));
    victim.tell_bytes(&fpdu(&SEND.ulpdu(), false)[..25]);
    victim.end.connection.disconnect();
    assert!(victim.end.done().is_empty());
    victim.end.give_back(Instant::ZERO);
    assert!(matches!(victim.end.done()[0].memory, WorkMemory::Buf(_)));
}

fn end_with(pool: &Pool, config: iwarp::Config) -> End {
    End::new(iwarp::Connection::new(Instant::ZERO, config, Account::new(pool)))
}

/// What a peer makes a connection hold is counted, and is all that it can make it hold.
#[test]
fn what_a_peer_makes_us_hold_is_counted() {
    let pool = Pool::new(64 << 20);
    let mut end = end_with(&pool, config(Role::Responder, Offer { ird: 100, ..OFFER }));
    assert_eq!(pool.used(), 0);
    let mut request = rig::siw_request();
    end.receive(Instant::ZERO, &request);
    let reads = pool.used();
    assert!(
        (100 * 46..100 * 200).contains(&reads),
        "{reads} bytes for a hundred reads, as the actions were taken"
    );
    end.connection.handle_input(Instant::ZERO, SetupAnswer::Accept(PrivateData::NONE));
    end.transmit(Instant::ZERO);
    let region = end.register(source(&vec![5; 1 << 16]));
    let payload = read_request(Wanted { stag: region.stag.0, offset: 0, length: 1 << 16 });
    for sequence in 1..=100 {
        let message = Message { control: [0x41, 0x41], queue: 1, sequence, payload: &payload, ..SEND };
        end.receive(Instant::ZERO, &fpdu(&message.ulpdu(), false));
    }
    assert_eq!((pool.used(), end.connection.state()), (reads, QueuePairState::Open));
    drop(end);
    assert_eq!(pool.used(), 0);
    // Private data counts until the consumer has it.
    let connection =
        iwarp::Connection::new(Instant::ZERO, config(Role::Responder, OFFER), Account::new(&pool));
    let mut connection = connection;
    request[22..24].copy_from_slice(&[0, 0]);
    connection.handle_bytes(Instant::ZERO, &request);
    let before = pool.used();
    assert!(connection.poll_action().is_some());
    assert_eq!(before - pool.used(), 32);
}

/// Where memory is scarce fewer reads are served, and the peer is told so; one always is.
#[test]
fn fewer_reads_are_served_where_memory_is_scarce() {
    let pool = Pool::new(64 << 10);
    let mut most = u16::MAX;
    for _ in 0..8 {
        let mut end = end_with(&pool, config(Role::Responder, Offer { ird: 1000, ..OFFER }));
        let request = [b"MPA ID Req Frame".as_slice(), &[0x10, 2, 0, 4, 0, 4, 0x03, 0xe8]].concat();
        end.receive(Instant::ZERO, &request);
        end.connection.handle_input(Instant::ZERO, SetupAnswer::Accept(PrivateData::NONE));
        let reply = end.transmit(Instant::ZERO);
        let told = u16::from_be_bytes([reply[20], reply[21]]);
        assert!((1..1000).contains(&told) && told <= most, "{told}");
        most = told;
        std::mem::forget(end);
    }
    assert_eq!(most, 1);
}
