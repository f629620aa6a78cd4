//! RDMA under a controller's queue: the responses that wait to be sent, and the data that is to be read from the host.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use buf::{Buf, BufList};
use verbs::{QueuePair, RemoteRegion, STag, WorkRequest};
use zerocopy::IntoBytes;

use super::capsules::Capsules;
use super::work::Work;
use crate::controller::{Backlog, FabricTransport, GetData, Response, Withdrawal};
use crate::cqe::CompletionQueueEntry;
use crate::limits::RDMA_IN_CAPSULE;
use crate::log::TransportType;
use crate::sgl::{KeyedBlock, SglSupport};
use crate::width::to_field;

/// A response that waits to be sent, behind its data.
#[derive(Debug)]
struct Waiting {
    completion: CompletionQueueEntry,
    /// The command's memory at the host.
    block: Option<KeyedBlock>,
    data: Option<BufList>,
}

/// Data of a command that is to be read from the host.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pull {
    pub(super) slot: u16,
    block: KeyedBlock,
}

/// The queue pair's send queue at the controller, as the queue has filled it.
#[derive(Debug, Default)]
pub(super) struct ControllerTransport {
    responses: VecDeque<Waiting>,
    /// Reads that wait, and the slots of those that are under way.
    pulls: VecDeque<Pull>,
    reading: Vec<u16>,
    capsules: Capsules,
    /// Bytes of data in memory of no pool, until it has gone out.
    unpooled: usize,
    /// Requests that are under way.
    under_way: usize,
}

impl FabricTransport for ControllerTransport {
    const TRANSPORT: TransportType = TransportType::Rdma;
    const SGLS: SglSupport =
        SglSupport { transport: false, keyed: true, offsets: true, in_capsule: RDMA_IN_CAPSULE };
    const UNSENT_SIZE: usize = size_of::<Waiting>();
    const DAMAGED: &'static str = "data that was damaged on its way";
    const STALLED: &'static str = "the host does not answer RDMA Reads";

    #[inline]
    fn send_response(&mut self, response: Response) {
        let Response { block, completion, data, .. } = response;
        self.unpooled = self.unpooled.saturating_add(data.as_ref().map_or(0, BufList::unpooled));
        self.responses.push_back(Waiting { completion, block, data });
    }

    #[inline]
    fn get_data(&mut self, get: GetData<'_>) {
        if let Some(block) = get.command.keyed_block() {
            self.pulls.push_back(Pull { slot: get.slot, block });
        }
    }

    /// A read that has begun cannot be held up: the provider has its memory.
    fn withdraw(&mut self, slot: u16) -> Withdrawal {
        let position = self.pulls.iter().position(|pull| pull.slot == slot);
        if position.and_then(|at| self.pulls.remove(at)).is_some() {
            Withdrawal::Unsent
        } else if self.reading.contains(&slot) {
            Withdrawal::Arriving
        } else {
            Withdrawal::Passing
        }
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        // What is allocated cannot overflow.
        let queues = self.responses.capacity().wrapping_mul(size_of::<Waiting>());
        let pulls = self.pulls.capacity().wrapping_mul(size_of::<Pull>());
        let capsules = self.capsules.size(RESPONSE);
        Backlog {
            count: self.responses.len().saturating_add(self.pulls.len()),
            unpooled: self.unpooled,
            tables: queues.wrapping_add(pulls).wrapping_add(capsules),
        }
    }
}

/// Bytes of a response capsule (§3.3.1).
const RESPONSE: usize = size_of::<CompletionQueueEntry>();

impl ControllerTransport {
    /// Nothing of what waits is sent or read any more.
    pub(super) fn clear(&mut self) {
        for waiting in self.responses.drain(..) {
            let unpooled = waiting.data.as_ref().map_or(0, BufList::unpooled);
            self.unpooled = self.unpooled.saturating_sub(unpooled);
        }
        self.pulls.clear();
    }

    /// True when everything that was asked for has gone out.
    pub(super) fn is_idle(&self) -> bool {
        self.responses.is_empty() && self.under_way == 0
    }

    /// The next read that may begin.
    #[inline]
    pub(super) fn next_pull(&mut self, pair: &impl QueuePair) -> Option<Pull> {
        let limits = pair.limits();
        let room = self.reading.len() < limits.reads && self.under_way < limits.sends;
        if room { self.pulls.pop_front() } else { None }
    }

    /// Begins a read into memory that the command has; gives that back when there is no read any more.
    pub(super) fn read(&mut self, pair: &mut impl QueuePair, pull: Pull, into: Buf) {
        let Pull { slot, block } = pull;
        let request = WorkRequest::Read { into, from: region(block, block.length) };
        // It is refused when the queue pair has ended, and with it the command.
        if pair.post(Work::Read(slot).id(), request).is_ok() {
            self.reading.push(slot);
            self.under_way = self.under_way.saturating_add(1);
        }
    }

    /// A read has ended.
    pub(super) fn read_done(&mut self, slot: u16) {
        self.reading.retain(|reading| *reading != slot);
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Data has gone out.
    pub(super) fn written(&mut self, data: &BufList) {
        self.unpooled = self.unpooled.saturating_sub(data.unpooled());
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// A response has gone out; its capsule is free.
    pub(super) fn sent(&mut self, data: BufList) {
        self.under_way = self.under_way.saturating_sub(1);
        self.capsules.take_back(data);
    }

    /// Sends the next response behind its data, if there is one and there is room: true if it was posted.
    #[inline]
    pub(super) fn send_next(&mut self, pair: &mut impl QueuePair) -> bool {
        let limits = pair.limits();
        let room = limits.sends.saturating_sub(self.under_way);
        let wanted = self.responses.front().map(|waiting| 1 + usize::from(waiting.data.is_some()));
        // A queue pair that takes but one request at a time sends nothing with data.
        if wanted.is_none_or(|wanted| wanted > room) {
            return false;
        }
        let Some(Waiting { completion, block, data }) = self.responses.pop_front() else { return false };
        if let (Some(data), Some(block)) = (data, block)
            && !data.is_empty()
        {
            let to = region(block, data.len());
            if pair.post(Work::Write.id(), WorkRequest::Write { data, to }).is_err() {
                return false;
            }
            self.under_way = self.under_way.saturating_add(1);
        }
        let invalidate = block.filter(|block| block.invalidate && limits.remote_invalidation);
        let request = WorkRequest::Send {
            data: self.capsules.fill(completion.as_bytes(), BufList::new()),
            invalidate: invalidate.map(|block| STag(block.key)),
        };
        let posted = pair.post(Work::Send.id(), request).is_ok();
        self.under_way = self.under_way.saturating_add(usize::from(posted));
        posted
    }
}

/// The first bytes of what a descriptor names.
fn region(block: KeyedBlock, length: usize) -> RemoteRegion {
    RemoteRegion { stag: STag(block.key), offset: block.address, length: to_field(length) }
}
