//! The controller's queue over the fabric of messages and regions.

use std::collections::VecDeque;
use std::sync::Arc;

use buf::{Buf, BufList, Pool};
use nvme::controller::{
    Action, Admission, Backlog, ControllerQueue, FabricTransport, GetData, Input, Integrity, Portal,
    Response, Withdrawal,
};
use nvme::cqe::CompletionQueueEntry;
use nvme::log::TransportType;
use nvme::sgl::{KeyedBlock, SglSupport};
use nvme::sqe::SubmissionQueueEntry;
use protocol::{CloseReason, Ended, Instant, Placement, Transmit, Unsent};
use volume::VolumeId;
use zerocopy::{FromBytes, IntoBytes};

use super::Regions;

/// Why a connection ends whose pull never ends.
pub const STALLED: &str = "the host's memory does not answer";
/// Pulls that are under way at a time, as an adapter bounds them; others wait.
const PULLS: usize = 2;

/// A response that waits to be sent.
struct Waiting {
    completion: CompletionQueueEntry,
    /// The command's memory at the host, whose key goes back with the response.
    block: Option<KeyedBlock>,
    data: Option<BufList>,
}

/// A pull: a command's data on its way from the host.
struct Pull {
    slot: u16,
    block: KeyedBlock,
    /// Where it goes, once it has begun.
    into: Option<Buf>,
}

/// What the controller's queue asks of the fabric.
struct Transport {
    regions: Regions,
    responses: VecDeque<Waiting>,
    unsent: Unsent,
    /// Pulls that wait, and those that have begun.
    pulls: VecDeque<Pull>,
    begun: VecDeque<Pull>,
}

impl FabricTransport for Transport {
    const TRANSPORT: TransportType = TransportType::Tcp;
    const SGLS: SglSupport =
        SglSupport { transport: false, keyed: true, offsets: true, in_capsule: u32::MAX };
    const UNSENT_SIZE: usize = size_of::<Waiting>();
    const DAMAGED: &'static str = "memory that cannot be read";
    const STALLED: &'static str = STALLED;

    fn send_response(&mut self, response: Response) {
        let Response { block, completion, data, .. } = response;
        self.unsent.add(data.as_ref().map_or(0, BufList::unpooled));
        self.responses.push_back(Waiting { completion, block, data });
    }

    fn get_data(&mut self, get: GetData<'_>) {
        let block = get.command.keyed_block().unwrap();
        assert_eq!(get.length, block.length);
        self.pulls.push_back(Pull { slot: get.slot, block, into: None });
    }

    fn withdraw(&mut self, slot: u16) -> Withdrawal {
        let waiting = self.pulls.len();
        self.pulls.retain(|pull| pull.slot != slot);
        if self.pulls.len() < waiting {
            Withdrawal::Unsent
        } else if self.begun.iter().any(|pull| pull.slot == slot) {
            Withdrawal::Arriving
        } else {
            Withdrawal::Passing
        }
    }

    fn backlog(&self) -> Backlog {
        Backlog {
            count: self.responses.len() + self.pulls.len(),
            unpooled: self.unsent.bytes(),
            tables: self.responses.capacity() * size_of::<Waiting>()
                + self.pulls.capacity() * size_of::<Pull>(),
        }
    }
}

/// The controller's end of one connection.
pub struct MemoryController {
    queue: ControllerQueue<Transport>,
    now: Instant,
}

impl MemoryController {
    pub fn new(regions: Regions, portal: Arc<Portal>, pool: Pool, now: Instant) -> Self {
        let (responses, pulls, begun) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        let transport = Transport { regions, responses, unsent: Unsent::default(), pulls, begun };
        Self { queue: ControllerQueue::new(transport, portal, pool, now), now }
    }

    pub fn uses(&self, volume: VolumeId) -> bool {
        self.queue.uses(volume)
    }

    /// Pulls that have begun, and those that wait.
    pub fn pulls(&mut self) -> (usize, usize) {
        let transport = self.queue.transport();
        (transport.begun.len(), transport.pulls.len())
    }

    /// A capsule from the front of `bytes`, if it is there whole and the queue takes it: its length.
    fn handle_capsule(&mut self, bytes: &[u8]) -> usize {
        let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return 0 };
        let length = u32::from_le_bytes(*length) as usize;
        let Ok((entry, rest)) = SubmissionQueueEntry::read_from_prefix(rest) else { return 0 };
        let Some(data) = rest.get(..length) else { return 0 };
        if !self.queue.has_room() {
            return 0;
        }
        if self.queue.is_connecting() {
            self.queue.end(CloseReason::Violation("a command before the queue was connected"));
            return 0;
        }
        match self.queue.handle_submission(self.now, &entry, length) {
            Admission::Withheld => return 0,
            Admission::Taken => {}
            Admission::Receives { slot, offset } => {
                let length = self.queue.transfer(slot).unwrap().length;
                self.place(slot, &data[offset..offset + length]);
            }
        }
        4 + 64 + length
    }

    /// The data of a slot's command is there.
    fn place(&mut self, slot: u16, data: &[u8]) {
        let mut buf = self.queue.take_buffer(slot).unwrap();
        buf.copy_from_slice(data);
        self.queue.return_buffer(slot, buf, data.len());
        self.queue.handle_data(self.now, slot, Integrity::Intact);
    }

    /// Begins and ends pulls, as far as they go.
    pub fn pump(&mut self) {
        loop {
            while self.queue.transport().begun.len() < PULLS
                && let Some(mut pull) = self.queue.transport().pulls.pop_front()
            {
                pull.into = self.queue.take_buffer(pull.slot);
                assert!(pull.into.is_some(), "memory was promised");
                self.queue.transport().begun.push_back(pull);
            }
            if self.queue.transport().regions.is_stalled() {
                break;
            }
            let Some(pull) = self.queue.transport().begun.pop_front() else { break };
            let Pull { slot, block, into } = pull;
            let mut into = into.unwrap();
            into.copy_from_slice(&self.queue.transport().regions.pull(block));
            self.queue.return_buffer(slot, into, block.length);
            self.queue.handle_data(self.now, slot, Integrity::Intact);
        }
        self.queue.end_turn();
    }
}

impl protocol::Connection for MemoryController {
    type Input = Input;
    type Action = Action;

    const STAGING: usize = 1 << 16;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.now = now;
        if !self.queue.begin_turn(now) {
            return bytes.len();
        }
        let mut used = 0;
        loop {
            if self.queue.poll_close().is_some() {
                return bytes.len();
            }
            match self.handle_capsule(&bytes[used..]) {
                0 if self.queue.poll_close().is_none() => break,
                length => used += length,
            }
        }
        self.pump();
        used
    }

    fn take_placement(&mut self) -> Option<Placement> {
        None
    }

    fn handle_placed(&mut self, _now: Instant, _placement: Placement) {}

    fn handle_input(&mut self, now: Instant, input: Input) {
        self.now = now;
        self.queue.handle_input(now, input);
        self.pump();
    }

    fn handle_transmitted(&mut self, now: Instant, _bytes: usize) {
        self.now = now;
        self.queue.transport().unsent.sent();
        self.queue.handle_sent(now);
        self.pump();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.queue.handle_timeout(now);
        self.pump();
    }

    fn handle_memory(&mut self, now: Instant) {
        self.now = now;
        self.queue.handle_memory(now);
        self.pump();
    }

    fn handle_ended(&mut self, now: Instant, _how: Ended) {
        let transport = self.queue.transport();
        transport.responses.clear();
        transport.unsent.drop_waiting();
        transport.unsent.sent();
        self.queue.handle_ended(now);
    }

    fn poll_transmit(&mut self, _now: Instant, send: &mut Transmit) {
        while !send.is_full() {
            let transport = self.queue.transport();
            let Some(Waiting { completion, block, data }) = transport.responses.pop_front() else { break };
            if let Some(data) = data {
                transport.unsent.leave(data.unpooled());
                transport.regions.push(block.unwrap(), data.into_one().to_vec());
            }
            send.put(completion.as_bytes());
            let key = block.filter(|block| block.invalidate).map_or(0, |block| block.key);
            send.put(&key.to_le_bytes());
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.queue.poll_action()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.queue.poll_timeout()
    }

    fn wants_bytes(&mut self) -> bool {
        self.queue.takes_submissions()
    }

    fn is_established(&self) -> bool {
        self.queue.is_established()
    }

    fn awaits_memory(&self) -> bool {
        self.queue.awaits_memory()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.queue.poll_close()
    }
}
