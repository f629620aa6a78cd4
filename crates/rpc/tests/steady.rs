//! No heap allocation per call in the steady state over TCP, at either end, and one placement for each payload.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../verbs/tests/common/counting_allocator.rs"]
mod counting_allocator;

use buf::{Buf, BufList, Pool, SharedBuf};
use protocol::{Connection, Instant, Transmit};
use rpc::message::{CallHeader, Procedure, ReplyStatus};
use rpc::tcp::TcpConnection;
use rpc::xdr::{Decoder, Error, Reader, Step};
use rpc::{Body, Call, CallId, Channel, Config, Credential, Memory, ReceivedReply, UpperLayer};

/// Bytes of each payload.
const DATA: usize = 4096;

/// A body that is one payload.
#[derive(Debug, Default)]
struct Data {
    piece: Option<Buf>,
    is_announced: bool,
}

impl Decoder for Data {
    fn step(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
        if self.is_announced {
            return Ok(Step::End);
        }
        let length = reader.length(DATA)?;
        self.is_announced = true;
        Ok(Step::Payload(length))
    }
}

impl Body for Data {
    fn payload(&mut self, piece: Buf) {
        self.piece = Some(piece);
    }
}

/// Echoes data, or calls with it.
struct Echo {
    pool: Pool,
    /// Memory for the next call's results.
    memory: Option<Buf>,
    echoed: Option<Buf>,
}

impl UpperLayer for Echo {
    type Input = SharedBuf;
    type Action = ();
    type Arguments = Data;
    type Results = Data;

    fn begin_call(&mut self, _: &CallHeader<'_>) -> Result<Data, ReplyStatus> {
        Ok(Data::default())
    }

    fn memory(&mut self, length: usize) -> Option<Buf> {
        self.pool.take(length)
    }

    fn call(&mut self, _: Instant, channel: &mut Channel<Data>, id: CallId, arguments: Data) {
        let mut writer = channel.writer();
        writer.payload(arguments.piece.map_or_else(BufList::new, |piece| piece.freeze().into()));
        channel.reply(id, writer.finish());
    }

    fn reply(&mut self, _: Instant, _: &mut Channel<Data>, reply: ReceivedReply<Data>) {
        self.echoed = reply.results.piece;
    }

    fn handle_input(&mut self, now: Instant, channel: &mut Channel<Data>, data: SharedBuf) {
        let mut writer = channel.writer();
        writer.payload(data.into());
        let call = Call {
            procedure: Procedure { program: 1, version: 1, procedure: 1 },
            credential: Credential::None,
            arguments: writer.finish(),
            results: Data::default(),
            memory: self.memory.take().map_or_else(Memory::new, Memory::from),
            results_limit: 4,
        };
        assert!(channel.call(now, call).is_ok());
    }

    fn poll_action(&mut self) -> Option<()> {
        None
    }

    fn handle_ended(&mut self, _: Instant, _: &mut Channel<Data>) {}
}

/// What carries bytes without allocating.
struct Wire {
    send: Transmit,
    bytes: Vec<u8>,
}

impl Wire {
    /// Moves what one end sends into the other; how many payloads were placed.
    fn carry(&mut self, from: &mut TcpConnection<Echo>, to: &mut TcpConnection<Echo>) -> usize {
        self.send.clear();
        self.bytes.clear();
        from.poll_transmit(Instant::ZERO, &mut self.send);
        for segment in self.send.segments() {
            self.bytes.extend_from_slice(self.send.bytes(segment));
        }
        from.handle_transmitted(Instant::ZERO, self.send.len());
        let (mut used, mut placed) = (0, 0);
        while used < self.bytes.len() {
            if let Some(mut placement) = to.take_placement() {
                let end = placement.start + placement.len;
                placement.buf[placement.start..end].copy_from_slice(&self.bytes[used..used + placement.len]);
                (used, placed) = (used + placement.len, placed + 1);
                to.handle_placed(Instant::ZERO, placement);
            } else {
                used += to.handle_bytes(Instant::ZERO, &self.bytes[used..]);
            }
        }
        self.send.clear();
        placed
    }
}

#[test]
fn a_call_and_its_reply_allocate_nothing() {
    let end = || {
        let echo = Echo { pool: Pool::new(1 << 20), memory: None, echoed: None };
        TcpConnection::new(echo, Config::new(1))
    };
    let (mut client, mut server) = (end(), end());
    let mut wire = Wire { send: Transmit::new(1 << 20, 64), bytes: Vec::with_capacity(1 << 16) };
    let data = SharedBuf::from(protocol::pair::aperiodic(DATA, 3));
    let mut memory = Some(Buf::zeroed(DATA));
    let mut before = 0;
    for round in 0..100 {
        if round == 20 {
            before = counting_allocator::count();
        }
        client.parts().upper.memory = memory.take();
        client.handle_input(Instant::ZERO, data.clone());
        let placed = [wire.carry(&mut client, &mut server), wire.carry(&mut server, &mut client)];
        assert_eq!(placed, [1, 1]);
        memory = client.parts().upper.echoed.take();
        assert!(memory.as_deref() == Some(&data[..]), "round {round}");
    }
    assert_eq!(counting_allocator::count() - before, 0, "allocations in 80 calls and replies");
}
