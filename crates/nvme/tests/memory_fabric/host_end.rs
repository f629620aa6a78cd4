//! The host's queue over the fabric of messages and regions.

use std::collections::{BTreeMap, VecDeque};

use nvme::cqe::CompletionQueueEntry;
use nvme::host::{Action, CommandCapsule, Config, FabricTransport, Failure, HostQueue, Input};
use nvme::log::TransportType;
use nvme::sgl::SglDescriptor;
use nvme::sqe::SubmissionQueueEntry;
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};
use zerocopy::{FromBytes, IntoBytes};

use super::{PADDING, Regions};

/// The first identifier of commands that a test sends beside the host's own.
pub const FOREIGN: u16 = 0x8000;

/// What the host's queue asks of the fabric.
#[derive(Default)]
struct Transport {
    waiting: VecDeque<CommandCapsule>,
    /// The keys of commands that were sent.
    keys: BTreeMap<u16, u32>,
}

impl FabricTransport for Transport {
    const TRANSPORT: TransportType = TransportType::Tcp;

    fn send_command(&mut self, capsule: CommandCapsule) {
        self.waiting.push_back(capsule);
    }

    fn clear(&mut self) {
        self.waiting.clear();
    }
}

/// The host's end of one connection.
pub struct MemoryHost {
    queue: HostQueue<Transport>,
    regions: Regions,
    /// Every command that was sent.
    pub sent: Vec<SubmissionQueueEntry>,
    /// The ends of the commands that a test has sent.
    pub foreign_ends: Vec<CompletionQueueEntry>,
}

impl MemoryHost {
    pub fn new(regions: Regions, config: Config, now: Instant) -> Self {
        let mut queue = HostQueue::new(Transport::default(), config, now);
        queue.handle_ready(now);
        Self { queue, regions, sent: Vec::new(), foreign_ends: Vec::new() }
    }

    /// Sends a command beside the host's own.
    pub fn send_foreign(&mut self, entry: SubmissionQueueEntry) {
        assert!(entry.cid.get() >= FOREIGN);
        self.queue.transport().send_command(CommandCapsule::bare(entry));
    }

    /// Registers the memory of a command that has data which is not in its capsule, and names it in the command.
    fn register(&mut self, entry: &mut SubmissionQueueEntry) {
        let cid = entry.cid.get();
        let (memory, writable) = if let Some(target) = self.queue.target(cid) {
            (vec![0xee; target.length], true)
        } else if let Some(source) = self.queue.source(cid).filter(|source| !source.data.is_empty()) {
            (source.data.clone().into_one().to_vec(), false)
        } else {
            return;
        };
        let block = self.regions.register(memory, writable);
        entry.dptr = SglDescriptor::keyed(block).unwrap();
        assert!(self.queue.transport().keys.insert(cid, block.key).is_none());
    }

    fn handle_response(&mut self, now: Instant, completion: CompletionQueueEntry, key: u32) {
        let cid = completion.cid.get();
        if cid >= FOREIGN {
            return self.foreign_ends.push(completion);
        }
        let registered = self.queue.transport().keys.remove(&cid);
        assert_eq!(registered.unwrap_or(0), key, "the key of this command comes back with its end");
        if registered.is_some() {
            let memory = self.regions.invalidate(key);
            let success = completion.status().is_success();
            if let Some(target) = self.queue.target(cid).filter(|_| success) {
                target.buf.as_mut().unwrap().copy_from_slice(&memory);
                target.received = memory.len();
            } else if let Some(source) = self.queue.source(cid).filter(|_| success) {
                // The controller had all of it before it could say so.
                (source.asked, source.sent) = (memory.len(), memory.len());
            }
        }
        if self.queue.handle_completion(now, completion).is_err() {
            let text = "a response to no command";
            self.queue.fail(Failure::Lost(text), CloseReason::Violation(text));
        }
    }
}

impl protocol::Connection for MemoryHost {
    type Input = Input;
    type Action = Action;

    const STAGING: usize = 20;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let mut used = 0;
        while let Some((message, _)) = bytes[used..].split_first_chunk::<20>() {
            used += message.len();
            let (completion, key) = CompletionQueueEntry::read_from_prefix(message).unwrap();
            self.handle_response(now, completion, u32::from_le_bytes(key.try_into().unwrap()));
        }
        used
    }

    fn take_placement(&mut self) -> Option<Placement> {
        None
    }

    fn handle_placed(&mut self, _now: Instant, _placement: Placement) {}

    fn handle_input(&mut self, now: Instant, input: Input) {
        self.queue.handle_input(now, input);
    }

    fn handle_transmitted(&mut self, now: Instant, _bytes: usize) {
        self.queue.handle_sent(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.queue.handle_timeout(now);
    }

    fn handle_ended(&mut self, _now: Instant, _how: Ended) {
        self.queue.handle_ended();
    }

    fn poll_transmit(&mut self, _now: Instant, send: &mut Transmit) {
        while !send.is_full() {
            let Some(CommandCapsule { mut entry, data }) = self.queue.transport().waiting.pop_front() else {
                break;
            };
            if entry.cid.get() < FOREIGN {
                self.queue.mark_sent(entry.cid.get());
            }
            let mut capsule = Vec::new();
            if data.is_empty() {
                self.register(&mut entry);
            } else {
                // A capsule has no room for more than the longest data.
                let padding = if data.len() <= 4096 { PADDING } else { 0 };
                entry.dptr.address.set(padding as u64);
                capsule = vec![0xdd; padding];
                capsule.extend_from_slice(&data.into_one());
            }
            self.sent.push(entry);
            send.put(&u32::try_from(capsule.len()).unwrap().to_le_bytes());
            send.put(entry.as_bytes());
            send.put(&capsule);
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.queue.poll_action()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.queue.poll_timeout()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.queue.poll_close()
    }
}
