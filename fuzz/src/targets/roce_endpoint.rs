//! A RoCE endpoint with one connection: what a peer says to its queue pair and to its manager, with right sums, so that the fuzzer gets past them.

use std::net::SocketAddr;
use std::time::Duration;

use buf::{Account, Buf, BufList, Pool, SharedBuf};
use protocol::{Entropy, Instant};
use roce::endpoint::{Arrival, Incoming, Target};
use roce::header::{BaseTransportHeader, Datagram, U24};
use roce::icrc::{Addresses, Path};
use roce::management::{Content, Message, Names, QUEUE_KEY, Reply, Request, Terms};
use roce::mtu::Mtu;
use roce::opcode::Opcode;
use roce::packet::{Extended, PORT, Packet};
use roce::psn::Psn;
use roce::train::Train;
use roce::{Config, Connection, Endpoint};
use verbs::{
    ManagedQueuePair, PrivateData, QueueLimits, QueuePair, RegionMemory, RemoteRegion, STag, SetupAnswer,
    SetupEvent, WorkCompletion, WorkDone, WorkId, WorkMemory, WorkRequest,
};
use wire::{Reader, Writer};

/// What is registered for reading holds nothing else, whatever a peer does.
const SOURCE: u8 = 0xa5;
/// Bytes of each region and receive.
const MEMORY: usize = 600;
/// The memory of the peer's that is read and written.
const REMOTE: RemoteRegion = RemoteRegion { stag: STag(0x101), offset: 0, length: 600 };
/// Both ends' queue pair and first number.
const NUMBER: u32 = 0x100;
const OURS: [u8; 4] = [10, 0, 0, 1];
const THEIRS: [u8; 4] = [10, 0, 0, 2];
/// Packets that one turn may send: a fuzzer finds it if it does not end.
const PACKETS: usize = 10_000;

const CONFIG: Config = Config {
    queues: QueueLimits { sends: 8, receives: 8, regions: 4, longest: 1 << 20 },
    mtu: Mtu::Bytes256,
    reads_served: 2,
    reads_sent: 2,
};

/// Always the same numbers.
struct Fixed;

impl Entropy for Fixed {
    fn fill(&mut self, bytes: &mut [u8]) {
        for (byte, value) in bytes.iter_mut().zip(NUMBER.to_le_bytes().into_iter().cycle()) {
            *byte = value;
        }
    }
}

fn address(octets: [u8; 4]) -> SocketAddr {
    SocketAddr::from((octets, PORT))
}

/// A packet with the sum that its way from `from` demands.
fn summed(from: [u8; 4], packet: &[u8]) -> Vec<u8> {
    let to = if from == OURS { THEIRS } else { OURS };
    let addresses = Addresses::V4 { source: from, destination: to };
    let path = Path { addresses, source_port: PORT, destination_port: PORT };
    [packet, &path.icrc(0, packet)].concat()
}

/// A message to a manager, as its packet without a sum.
fn wrapped(message: &[u8]) -> Vec<u8> {
    let header = BaseTransportHeader::new(Opcode::DATAGRAM, U24::new(1), U24::new(0));
    let extended = Extended::Datagram(Datagram::new(QUEUE_KEY, U24::new(1)));
    let mut bytes = vec![0; 20 + message.len().next_multiple_of(4)];
    let packet = Packet { header, extended, payload: message };
    let _ = packet.encode(&mut Writer::new(&mut bytes));
    bytes
}

fn terms() -> Terms {
    Terms {
        queue_pair: U24::new(NUMBER),
        sequence: Psn::new(NUMBER),
        reads_served: 2,
        reads_sent: 2,
        not_ready_retries: 7,
    }
}

fn message(receiver: u32, content: Content) -> Vec<u8> {
    let names = Names { sender: NUMBER, receiver };
    wrapped(&Message { transaction: 1, names, content }.encode())
}

/// One end: an endpoint, its connection, and what its consumer posted and did not get back.
struct End {
    own: [u8; 4],
    pool: Pool,
    endpoint: Endpoint,
    connection: Option<Connection>,
    train: Train,
    now: Instant,
    posted: u64,
    done: u64,
}

impl End {
    fn new(own: [u8; 4]) -> Self {
        let pool = Pool::new(8 << 20);
        let endpoint = Endpoint::new(address(own), Account::new(&pool), Box::new(Fixed));
        let train = Train::default();
        Self { own, pool, endpoint, connection: None, train, now: Instant::ZERO, posted: 0, done: 0 }
    }

    fn peer(&self) -> [u8; 4] {
        if self.own == OURS { THEIRS } else { OURS }
    }

    fn connect(&mut self) {
        let address = address(self.peer());
        let target = Target { address, port: 4420, config: CONFIG, private_data: PrivateData::NONE };
        self.connection = self.endpoint.connect(self.now, target, Account::new(&self.pool)).ok();
        self.begin();
    }

    fn post(&mut self, request: WorkRequest) {
        if let Some(connection) = &mut self.connection {
            self.posted += u64::from(connection.post(WorkId(self.posted), request).is_ok());
        }
    }

    /// A region of each kind, receives, a read, a write and messages.
    fn begin(&mut self) {
        let bytes = || BufList::from(SharedBuf::from(vec![SOURCE; MEMORY]));
        for memory in [RegionMemory::Sink(Buf::zeroed(MEMORY)), RegionMemory::Source(bytes())] {
            self.post(WorkRequest::Register { memory });
        }
        for _ in 0..3 {
            self.post(WorkRequest::Receive { into: Buf::zeroed(MEMORY) });
        }
        self.post(WorkRequest::Read { into: Buf::zeroed(MEMORY), from: REMOTE });
        self.post(WorkRequest::Write { data: bytes(), to: RemoteRegion { stag: STag(1), ..REMOTE } });
        self.post(WorkRequest::Send { data: bytes(), invalidate: Some(STag(1)) });
        self.post(WorkRequest::Send { data: bytes(), invalidate: None });
    }

    fn receive(&mut self, datagram: &[u8]) {
        let mut is_new = false;
        match (self.endpoint.handle_datagram(address(self.peer()), datagram), &mut self.connection) {
            (Arrival::Packet(id, packet), Some(connection)) if connection.id() == id => {
                connection.handle_packet(self.now, packet);
            }
            (Arrival::Packet(id, _), connection) => {
                assert_eq!(connection.as_ref().map(Connection::id), Some(id), "a packet for nobody");
            }
            (Arrival::Request(request), None) => {
                let incoming = Incoming { request, config: CONFIG };
                let account = Account::new(&self.pool);
                self.connection = self.endpoint.accept(self.now, incoming, account).ok();
                is_new = true;
            }
            (Arrival::Request(request), Some(_)) => self.endpoint.refuse(&request),
            (Arrival::Nothing | Arrival::Elsewhere(_) | Arrival::Withdrawn(_), _) => {}
        }
        if is_new {
            self.begin();
        }
        self.serve();
    }

    /// Answers whatever is asked, and posts again what a message took.
    fn serve(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        while let Some(event) = connection.poll_event() {
            if matches!(event, SetupEvent::Requested(_)) {
                connection.handle_answer(self.now, SetupAnswer::Accept(PrivateData::NONE));
            }
        }
        let mut done = Vec::new();
        connection.poll(self.now, &mut done);
        for WorkCompletion { result, memory, .. } in done {
            self.done += 1;
            if let (Ok(WorkDone::Received { length, .. }), WorkMemory::Buf(into)) = (result, memory) {
                assert!(length <= into.len(), "a message is longer than its buffer");
                self.post(WorkRequest::Receive { into });
            }
        }
    }

    fn transmit(&mut self) -> Vec<Vec<u8>> {
        let mut sent = Vec::new();
        loop {
            self.train.clear();
            self.endpoint.poll_transmit(&mut self.train);
            if let Some(connection) = self.connection.as_mut().filter(|_| self.train.is_empty()) {
                connection.poll_transmit(self.now, &mut self.train);
            }
            if self.train.is_empty() {
                return sent;
            }
            sent.extend(self.train.packets().map(<[u8]>::to_vec));
            assert!(sent.len() < PACKETS, "there is always something to send");
        }
    }

    /// Time passes.
    fn wait(&mut self, milliseconds: u64) {
        self.now = self.now + Duration::from_millis(milliseconds);
        if let Some(connection) = &mut self.connection {
            connection.handle_deadline(self.now);
        }
        self.serve();
    }

    /// Everything comes to its end, and what was for reading is as it was.
    fn end(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.disconnect();
        }
        self.serve();
        assert_eq!(self.done, self.posted, "all that was posted completes");
        // The first two tags that a table gives out.
        for stag in [STag(0x001), STag(0x101)] {
            self.post(WorkRequest::Invalidate { stag });
        }
        let mut done = Vec::new();
        if let Some(connection) = &mut self.connection {
            connection.poll(self.now, &mut done);
        }
        for completion in done {
            if let WorkMemory::Region(RegionMemory::Source(list)) = completion.memory {
                let is_whole = list.into_one().iter().all(|byte| *byte == SOURCE);
                assert!(is_whole, "memory for reading was written to");
            }
        }
    }
}

/// An end whose connection is established with a peer that says no more than that.
fn established(bits: u8) -> End {
    let mut end = End::new(OURS);
    if bits & 1 != 0 {
        end.connect();
        end.transmit();
        let reply = Reply { terms: terms(), adapter: 1, private_data: PrivateData::NONE };
        end.receive(&summed(THEIRS, &message(NUMBER, Content::Reply(reply))));
    } else {
        let request = Request {
            port: 4420,
            terms: terms(),
            mtu: Mtu::Bytes256,
            source: address(THEIRS).ip(),
            destination: address(OURS).ip(),
            source_port: 50_000,
            private_data: PrivateData::NONE,
        };
        end.receive(&summed(THEIRS, &message(0, Content::Request(request))));
        end.transmit();
        end.receive(&summed(THEIRS, &message(NUMBER, Content::Ready)));
    }
    end
}

/// A byte that picks the role and whether the connection is established, and what happens: a kind, two bytes of length or time, and bytes.
///
/// # Panics
/// A promise of the contract is broken.
pub fn conversation(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let bits = reader.u8().unwrap_or_default();
    let mut end = if bits & 2 == 0 { established(bits) } else { End::new(OURS) };
    if bits & 3 == 3 {
        end.connect();
    }
    end.transmit();
    while let (Ok(kind), Ok(length)) = (reader.u8(), reader.u16_le()) {
        if kind % 4 == 2 {
            end.wait(u64::from(length));
        } else {
            let said = reader.take(usize::from(length).min(reader.remaining())).unwrap_or_default();
            match kind % 4 {
                0 => end.receive(&summed(THEIRS, said)),
                1 => end.receive(&summed(THEIRS, &wrapped(said))),
                _ => end.receive(said),
            }
        }
        end.transmit();
    }
    end.end();
}

/// What one of two ends says to the other, from the beginning or once they are established: [`conversation`]'s input for the other, whose choices are `bits`.
pub fn said(bits: u8) -> Vec<u8> {
    let (mut near, mut far) = (End::new(THEIRS), End::new(OURS));
    let begins = if bits & 1 != 0 { &mut far } else { &mut near };
    begins.connect();
    let mut said = vec![bits];
    for turn in 0..12 {
        if turn == 9 {
            near.end();
        }
        for packet in near.transmit() {
            far.receive(&packet);
            let body = packet.get(..packet.len().saturating_sub(4)).unwrap_or_default();
            let is_message = body.first() == Some(&Opcode::DATAGRAM.0);
            // Set-up is done without the peer where the connection is established.
            if bits & 2 != 0 || !is_message || turn >= 9 {
                said.push(0);
                said.extend(u16::try_from(body.len()).unwrap_or_default().to_le_bytes());
                said.extend(body);
            }
        }
        for packet in far.transmit() {
            near.receive(&packet);
        }
    }
    said
}
