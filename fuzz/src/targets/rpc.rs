//! RPC: what a peer says over a byte stream to an end that serves and calls, and headers of RPC-over-RDMA.

use std::collections::VecDeque;

use ::rpc::message::{CallHeader, Procedure, ReplyStatus, Service, dispatch};
use ::rpc::rdma::{Header, PrivateMessage};
use ::rpc::record::Fragment;
use ::rpc::tcp::TcpConnection;
use ::rpc::xdr::{Decoder, Error, Reader, Step, Writer};
use ::rpc::{Body, Call, CallId, Channel, Config, Credential, Memory, ReceivedReply, UpperLayer};
use buf::{Buf, Pool};
use protocol::pair::Half;
use protocol::{Ended, Instant};

/// The program that is served and called.
const PROGRAM: u32 = 400_100;
/// Calls of ours that the peer answers.
const CALLS: u32 = 4;
/// Bytes of each memory that a call names.
const MEMORY: usize = 64;
/// What a connection may hold beside payloads, in bytes.
const MOST_HELD: usize = 256 << 10;

/// Numbers, names and data, each behind its kind, as many as a word says.
#[derive(Debug, Default)]
struct Items {
    left: Option<usize>,
    /// Bytes of payloads that are to come.
    announced: usize,
    placed: usize,
}

impl Decoder for Items {
    fn step(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
        assert_eq!(self.announced, self.placed, "a payload comes before what is behind it");
        let Some(left) = self.left else {
            self.left = Some(reader.length(100)?);
            return Ok(Step::Next);
        };
        if left == 0 {
            return Ok(Step::End);
        }
        let step = match reader.u32()? {
            1 => reader.array::<u64>(50).map(|_| Step::Next)?,
            2 => reader.string(300).map(|_| Step::Next)?,
            3 => Step::Payload(reader.length(1 << 20)?),
            4 => Step::NoPayload,
            other => return Err(Error::NotInEnumeration(other)),
        };
        if let Step::Payload(length) = step {
            self.announced += length;
        }
        self.left = Some(left - 1);
        Ok(step)
    }
}

impl Body for Items {
    fn payload(&mut self, piece: Buf) {
        self.placed += piece.len();
    }
}

struct Peer {
    pool: Pool,
    /// Memory of calls that came back.
    back: usize,
    calls: VecDeque<CallId>,
}

impl UpperLayer for Peer {
    type Input = ();
    type Action = ();
    type Arguments = Items;
    type Results = Items;

    fn begin_call(&mut self, header: &CallHeader<'_>) -> Result<Items, ReplyStatus> {
        let services = [Service { program: PROGRAM, version: 1, procedures: 2, to: () }];
        dispatch(&services, header.procedure).map_err(ReplyStatus::Accepted)?;
        header.auth_sys()?;
        Ok(Items::default())
    }

    fn memory(&mut self, length: usize) -> Option<Buf> {
        self.pool.take(length)
    }

    fn call(&mut self, _: Instant, channel: &mut Channel<Items>, id: CallId, _: Items) {
        // Every second call waits for the one behind it.
        self.calls.push_back(id);
        if self.calls.len() == 2 {
            for id in self.calls.drain(..) {
                let mut writer = channel.writer();
                writer.u32(0);
                channel.reply(id, writer.finish());
            }
        }
    }

    fn reply(&mut self, _: Instant, _: &mut Channel<Items>, reply: ReceivedReply<Items>) {
        self.back += reply.unused.len();
    }

    fn handle_input(&mut self, _: Instant, _: &mut Channel<Items>, (): ()) {}

    fn poll_action(&mut self) -> Option<()> {
        None
    }

    fn handle_ended(&mut self, _: Instant, channel: &mut Channel<Items>) {
        self.back += channel.take_unanswered().map(|unanswered| unanswered.call.memory.len()).sum::<usize>();
    }
}

/// A connection that has called its peer.
fn connection() -> Half<TcpConnection<Peer>> {
    let config = Config { longest_item: 4096, calls_received: 8, calls_sent: 8, ..Config::new(0) };
    let peer = Peer { pool: Pool::new(8 << 20), back: 0, calls: VecDeque::new() };
    let mut half = Half::new(TcpConnection::new(peer, config));
    for _ in 0..CALLS {
        let mut memory = Memory::new();
        memory.push(Buf::zeroed(MEMORY));
        memory.push(Buf::zeroed(MEMORY));
        let call = Call {
            procedure: Procedure { program: PROGRAM, version: 1, procedure: 1 },
            credential: Credential::None,
            arguments: Writer::new().finish(),
            results: Items::default(),
            memory,
            results_limit: 100,
        };
        let sent = half.connection.parts().channel.call(Instant::ZERO, call);
        assert!(sent.is_ok(), "there is room for a few calls");
    }
    half.transmit(Instant::ZERO);
    half
}

fn end(half: &mut Half<TcpConnection<Peer>>) {
    assert!(half.connection.held() < MOST_HELD, "{} bytes", half.connection.held());
    half.end(Instant::ZERO, Ended::ByPeer);
    let most = 2 * CALLS as usize;
    assert!(half.connection.parts().upper.back <= most, "no memory comes back twice");
}

/// What a peer says, as its bytes come.
pub fn stream(bytes: &[u8]) {
    let mut half = connection();
    for chunk in super::chunks(bytes) {
        half.receive(Instant::ZERO, chunk);
        half.transmit(Instant::ZERO);
    }
    end(&mut half);
}

/// Messages, each behind two bytes of length, as records: the fuzzer need not find out how they are marked.
pub fn records(bytes: &[u8]) {
    let mut half = connection();
    let mut reader = wire::Reader::new(bytes);
    while let Ok(length) = reader.u16_le() {
        let message = reader.take(usize::from(length).min(reader.remaining())).unwrap_or_default();
        half.receive(Instant::ZERO, &Fragment::whole(message.len()).encode());
        half.receive(Instant::ZERO, message);
        half.transmit(Instant::ZERO);
    }
    end(&mut half);
}

/// Headers of RPC-over-RDMA are decoded or refused, and encoded as they came; so is what is said at set-up.
pub fn rdma_headers(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    if let Ok(header) = Header::decode(&mut reader) {
        let mut writer = Writer::new();
        writer.put(&header);
        same(writer.finish().bytes(), bytes.get(..bytes.len() - reader.remaining()).unwrap_or_default());
    }
    let said = PrivateMessage::decode(bytes).encode();
    same(PrivateMessage::decode(said.bytes()).encode().bytes(), said.bytes());
}

fn same(encoded: &[u8], came: &[u8]) {
    assert_eq!(encoded, came, "what was decoded is encoded as it came");
}

/// Messages that are worth beginning from: a call with data in it, a reply with data, and one that is refused.
pub fn messages() -> Vec<Vec<u8>> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let items = [4, 3, 5, 0x0102_0304, 0x0500_0000, 2, 3, 0x6162_6300, 1, 1, 0, 7, 3, 0];
    let call = [&[9, 0, 2, PROGRAM, 1, 1, 1, 24, 0, 1, 0x6800_0000, 5, 6, 0, 0, 0][..], &items].concat();
    let reply = [&[0, 1, 0, 0, 0, 0][..], &items].concat();
    let failed = [&[1, 1, 0, 0, 0, 0][..], &[2, 4, 3, 4, 0x0102_0304]].concat();
    vec![
        words(&call),
        words(&reply),
        words(&failed),
        words(&[2, 1, 1, 1, 5]),
        words(&[3, 1, 0, 0, 0, 2, 1, 4]),
    ]
}
