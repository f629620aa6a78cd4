//! iWARP connections: what a peer says from its first byte on, and ULPDUs that are framed for it, so that the fuzzer gets past lengths and CRCs.

use buf::{Account, Buf, BufList, Pool, SharedBuf};
use iwarp::mpa::{Offer, Revision, RtrKinds};
use iwarp::{Config, Connection, Role};
use protocol::pair::Half;
use protocol::{Connection as _, Ended, Instant};
use verbs::{
    PrivateData, QueueLimits, QueuePair, RegionMemory, RemoteRegion, STag, SetupAnswer, SetupEvent,
    WorkCompletion, WorkDone, WorkId, WorkMemory, WorkRequest,
};
use wire::{Reader, crc32c};

/// What is registered for reading holds nothing else, whatever a peer does.
const SOURCE: u8 = 0xa5;
/// Bytes of each region and receive.
const MEMORY: usize = 600;
/// The read of ours that a peer answers.
const READ: RemoteRegion = RemoteRegion { stag: STag(7), offset: 0, length: 600 };

/// A connection by the bits of a byte: role, revision, markers, CRCs.
fn connection(pool: &Pool, bits: u8) -> Connection {
    let bit = |at: u8| bits & (1 << at) != 0;
    let role = if bit(0) { Role::Initiator(PrivateData::NONE) } else { Role::Responder };
    let revision = if bit(1) { Revision::One } else { Revision::Two };
    let rtr = if bit(4) { RtrKinds::default() } else { RtrKinds::ALL };
    let offer = Offer { revision, markers: bit(2), crc: bit(3), rtr, ird: 4, ord: 4 };
    let queues = QueueLimits { sends: 8, receives: 8, regions: 4, longest: 1 << 20 };
    let config = Config { role, offer, queues, mss: 1448, solicited: bit(5) };
    Connection::new(Instant::ZERO, config, Account::new(pool))
}

/// What the consumer posted and did not get back.
#[derive(Default)]
struct Consumer {
    posted: u64,
    done: u64,
}

impl Consumer {
    fn post(&mut self, half: &mut Half<Connection>, request: WorkRequest) {
        self.posted += u64::from(half.connection.post(WorkId(self.posted), request).is_ok());
    }

    /// A region of each kind, receives, a read, a write and a message.
    fn begin(&mut self, half: &mut Half<Connection>) {
        let bytes = || BufList::from(SharedBuf::from(vec![SOURCE; MEMORY]));
        let memory = [RegionMemory::Sink(Buf::zeroed(MEMORY)), RegionMemory::Source(bytes())];
        for memory in memory {
            self.post(half, WorkRequest::Register { memory });
        }
        for _ in 0..3 {
            self.post(half, WorkRequest::Receive { into: Buf::zeroed(MEMORY) });
        }
        self.post(half, WorkRequest::Read { into: Buf::zeroed(MEMORY), from: READ });
        self.post(half, WorkRequest::Write { data: bytes(), to: READ });
        self.post(half, WorkRequest::Send { data: bytes(), invalidate: Some(STag(9)) });
    }

    /// Answers whatever is asked, and posts again what a message took.
    fn serve(&mut self, half: &mut Half<Connection>) {
        while let Some(action) = half.connection.poll_action() {
            if matches!(action, SetupEvent::Requested(_)) {
                half.connection.handle_input(Instant::ZERO, SetupAnswer::Accept(PrivateData::NONE));
            }
        }
        let mut done = Vec::new();
        half.connection.poll(Instant::ZERO, &mut done);
        for WorkCompletion { result, memory, .. } in done {
            self.done += 1;
            if let (Ok(WorkDone::Received { length, .. }), WorkMemory::Buf(into)) = (result, memory) {
                assert!(length <= into.len(), "a message is longer than its buffer");
                self.post(half, WorkRequest::Receive { into });
            }
        }
    }

    /// Everything comes to its end, and what was for reading is as it was.
    fn end(&mut self, half: &mut Half<Connection>) {
        half.end(Instant::ZERO, Ended::ByPeer);
        self.serve(half);
        assert_eq!(self.done, self.posted, "all that was posted completes");
        // The first two tags that a table gives out.
        for stag in [STag(0x001), STag(0x101)] {
            self.post(half, WorkRequest::Invalidate { stag });
        }
        let mut done = Vec::new();
        half.connection.poll(Instant::ZERO, &mut done);
        for completion in done {
            if let WorkMemory::Region(RegionMemory::Source(list)) = completion.memory {
                assert!(
                    list.into_one().iter().all(|byte| *byte == SOURCE),
                    "memory for reading was written to"
                );
            }
        }
    }
}

/// A byte that picks the connection, and what its peer says, as its bytes come.
pub fn conversation(bytes: &[u8]) {
    let (bits, rest) = bytes.split_first().map_or((0, bytes), |(bits, rest)| (*bits, rest));
    let pool = Pool::new(8 << 20);
    let (mut half, mut consumer) = (Half::new(connection(&pool, bits)), Consumer::default());
    consumer.begin(&mut half);
    half.transmit(Instant::ZERO);
    for chunk in super::chunks(rest) {
        half.receive(Instant::ZERO, chunk);
        consumer.serve(&mut half);
        half.transmit(Instant::ZERO);
    }
    consumer.end(&mut half);
}

/// The peer's frame for a connection: plain, or peer to peer with four reads each way.
fn frame(bits: u8) -> Vec<u8> {
    let key = if bits & 1 != 0 { b"MPA ID Rep Frame" } else { b"MPA ID Req Frame" };
    let rest: &[u8] = if bits & 2 != 0 { &[0, 1, 0, 0] } else { &[0x10, 2, 0, 4, 0xc0, 4, 0xc0, 4] };
    [key.as_slice(), rest].concat()
}

/// A byte that picks the connection, and ULPDUs, each behind two bytes of length.
pub fn ulpdus(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    // Markers are left to the other target.
    let bits = reader.u8().unwrap_or_default() & !(1 << 2);
    let pool = Pool::new(8 << 20);
    let (mut half, mut consumer) = (Half::new(connection(&pool, bits)), Consumer::default());
    consumer.begin(&mut half);
    half.transmit(Instant::ZERO);
    half.receive(Instant::ZERO, &frame(bits));
    consumer.serve(&mut half);
    half.transmit(Instant::ZERO);
    while let Ok(length) = reader.u16_le() {
        let ulpdu = reader.take(usize::from(length).min(reader.remaining())).unwrap_or_default();
        let mut fpdu = u16::try_from(ulpdu.len()).unwrap_or_default().to_be_bytes().to_vec();
        fpdu.extend_from_slice(ulpdu);
        fpdu.resize(fpdu.len().next_multiple_of(4), 0);
        fpdu.extend(crc32c(&fpdu).to_le_bytes());
        half.receive(Instant::ZERO, &fpdu);
        consumer.serve(&mut half);
        half.transmit(Instant::ZERO);
    }
    consumer.end(&mut half);
}

/// What one of two connections says to the other: [`conversation`]'s input for the other, whose choices are `bits`.
pub fn said(bits: u8) -> Vec<u8> {
    let pool = Pool::new(8 << 20);
    let mut ends = [bits ^ 1, bits].map(|bits| (Half::new(connection(&pool, bits)), Consumer::default()));
    for (half, consumer) in &mut ends {
        consumer.begin(half);
    }
    let (mut said, [(near, ours), (far, theirs)]) = (vec![bits, 0], &mut ends);
    for _ in 0..8 {
        let out = near.transmit(Instant::ZERO);
        far.receive(Instant::ZERO, &out);
        theirs.serve(far);
        let back = far.transmit(Instant::ZERO);
        near.receive(Instant::ZERO, &back);
        ours.serve(near);
        said.extend(out);
    }
    said
}
