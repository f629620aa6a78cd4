//! A queue pair as both roles use it: receives that are posted and come back as messages, messages that are built and sent, and buffers for both.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use buf::{Buf, BufList, SharedBuf};
use protocol::Instant;
use verbs::{
    ManagedQueuePair, QueuePairState, STag, WorkCompletion, WorkDone, WorkError, WorkId, WorkMemory,
    WorkRequest,
};

use super::header::{Invalidation, IserHeader};
use super::message::Message;
use crate::datamover::TaskHandle;
use crate::limits::{BHS, ISER_HEADER, KEPT_MESSAGES, LOGIN_RECEIVES, RDMA_SEGMENT, SHORT_MESSAGE};
use crate::pdu::{Bhs, padding};

/// Bytes before the data of a message.
pub(super) const HEADERS: usize = ISER_HEADER + BHS;
/// Bytes of a buffer for a short message.
pub(super) const SHORT: usize = HEADERS + SHORT_MESSAGE;
/// Bytes of a receive that takes any PDU of a login, and any with a data segment as long as the default.
pub(super) const LONG: usize = HEADERS + RDMA_SEGMENT as usize;

/// What a work request was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A message of the peer's.
    Receive,
    /// A message in a buffer that is used again.
    Send,
    /// Data of a command to the peer's memory.
    Write,
    /// Data of a command from the peer's memory.
    Read(Owner),
    /// Memory of a command for the peer.
    Register(Owner),
    /// The end of that.
    Invalidate(Owner),
}

/// The command that a work request belongs to: a later one of the same task is another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) task: TaskHandle,
    pub(super) generation: u32,
}

impl Purpose {
    fn id(self) -> WorkId {
        let nobody = Owner { task: TaskHandle(0), generation: 0 };
        let (kind, owner) = match self {
            Self::Receive => (0, nobody),
            Self::Send => (1, nobody),
            Self::Write => (2, nobody),
            Self::Read(owner) => (3, owner),
            Self::Register(owner) => (4, owner),
            Self::Invalidate(owner) => (5, owner),
        };
        let [high, low] = owner.task.0.to_be_bytes();
        let [a, b, c, d] = owner.generation.to_be_bytes();
        WorkId(u64::from_be_bytes([0, kind, high, low, a, b, c, d]))
    }

    fn of(id: WorkId) -> Self {
        let [_, kind, high, low, a, b, c, d] = id.0.to_be_bytes();
        let task = TaskHandle(u16::from_be_bytes([high, low]));
        let owner = Owner { task, generation: u32::from_be_bytes([a, b, c, d]) };
        match kind {
            0 => Self::Receive,
            1 => Self::Send,
            2 => Self::Write,
            3 => Self::Read(owner),
            4 => Self::Register(owner),
            _ => Self::Invalidate(owner),
        }
    }
}

/// A PDU to send.
#[derive(Debug)]
pub(super) struct Outbound<'a> {
    pub(super) iser: IserHeader,
    /// The header, with its numbers and its length.
    pub(super) header: &'a Bhs,
    /// The data segment, or what of it is not in pieces.
    pub(super) data: &'a [u8],
    /// The data segment.
    pub(super) pieces: &'a [SharedBuf],
    /// A region of the peer's that ends with it.
    pub(super) invalidate: Option<STag>,
}

/// What has completed, that only a role knows what to do with.
#[derive(Debug)]
pub(super) struct Completed {
    pub(super) purpose: Purpose,
    pub(super) result: Result<WorkDone, WorkError>,
    pub(super) memory: WorkMemory,
}

/// What is to be known of requests that only their completions tell of: what is new since that was asked last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// Nothing.
    Pending,
    /// The first was posted, or one has completed, and others are under way.
    GoesOn,
    /// None is under way.
    Done,
}

/// A queue pair and what is posted to it.
#[derive(Debug)]
pub(super) struct Channel<Q> {
    pub(super) queue_pair: Q,
    /// What the peer has said of Send with Invalidate.
    pub(super) invalidation: Invalidation,
    /// Messages that have come, in order.
    pub(super) inbox: VecDeque<Message>,
    /// Completions that wait, the newest first.
    done: Vec<WorkCompletion>,
    /// Requests other than receives that are under way.
    under_way: usize,
    /// The first of them was posted, or one has completed, since that was asked.
    has_moved: bool,
    /// The peer has sent something since that was asked.
    has_heard: bool,
    /// Receives that are posted, or whose messages wait.
    receives: usize,
    /// How many there are to be, and of how many bytes.
    wanted: usize,
    size: usize,
    /// Bytes in receives.
    receive_bytes: usize,
    /// Buffers for messages, the shorter ones first.
    kept: Vec<Kept>,
    /// Bytes in buffers of messages that are longer.
    odd_bytes: usize,
}

/// Buffers of one size for messages, which are used again.
#[derive(Debug)]
struct Kept {
    size: usize,
    /// Those whose messages are sent. The transport may still hold the newest of them.
    sent: VecDeque<SharedBuf>,
    /// How many there are.
    count: usize,
}

impl Kept {
    const fn new(size: usize) -> Self {
        Self { size, sent: VecDeque::new(), count: 0 }
    }

    fn take(&mut self, length: usize) -> Buf {
        let mut buf = match self.sent.pop_front().map(SharedBuf::try_unfreeze) {
            Some(Ok(buf)) => buf,
            Some(Err(held)) => {
                self.sent.push_front(held);
                self.make()
            }
            None => self.make(),
        };
        buf.set_len(length);
        buf
    }

    fn make(&mut self) -> Buf {
        self.count = self.count.saturating_add(1);
        Buf::zeroed(self.size)
    }

    fn give_back(&mut self, list: BufList) {
        match list.into_pieces().next() {
            Some(piece) if self.sent.len() < KEPT_MESSAGES => self.sent.push_back(piece),
            _ => self.count = self.count.saturating_sub(1),
        }
    }
}

impl<Q: ManagedQueuePair> Channel<Q> {
    /// The channel of a connection that just began, with receives for its login. Buffers of these sizes are used again, the least first; a longer message has one
    /// of its own, which counts as data until it is sent.
    pub(super) fn new(queue_pair: Q, kept: &[usize]) -> Self {
        let mut channel = Self {
            queue_pair,
            invalidation: Invalidation::NotUsed,
            inbox: VecDeque::new(),
            done: Vec::new(),
            under_way: 0,
            has_moved: false,
            has_heard: false,
            receives: 0,
            wanted: LOGIN_RECEIVES,
            size: LONG,
            receive_bytes: 0,
            kept: kept.iter().copied().map(Kept::new).collect(),
            odd_bytes: 0,
        };
        channel.post_receives();
        channel
    }

    /// From now on there are to be so many receives, of this many bytes.
    pub(super) fn want_receives(&mut self, count: usize, size: usize) {
        (self.wanted, self.size) = (count.min(self.queue_pair.limits().receives), size);
        self.post_receives();
    }

    fn post_receives(&mut self) {
        while self.receives < self.wanted && self.is_open() {
            let into = Buf::zeroed(self.size);
            self.receives = self.receives.saturating_add(1);
            self.receive_bytes = self.receive_bytes.saturating_add(self.size);
            self.post_receive(into);
        }
    }

    fn post_receive(&mut self, mut into: Buf) {
        into.set_len(into.capacity());
        let bytes = into.capacity();
        let refused = self.queue_pair.post(Purpose::Receive.id(), WorkRequest::Receive { into });
        if refused.is_err() {
            self.forget_receive(bytes);
        }
    }

    fn forget_receive(&mut self, bytes: usize) {
        self.receives = self.receives.saturating_sub(1);
        self.receive_bytes = self.receive_bytes.saturating_sub(bytes);
    }

    /// A message is done with: its buffer takes another one, if it has the right size.
    pub(super) fn recycle(&mut self, message: Message) {
        let bytes = message.buf.capacity();
        if bytes == self.size && self.receives <= self.wanted && self.is_open() {
            return self.post_receive(message.buf);
        }
        self.forget_receive(bytes);
        self.post_receives();
    }

    /// True until it ends.
    pub(super) fn is_open(&self) -> bool {
        self.queue_pair.state() == QueuePairState::Open
    }

    /// True while no request other than a receive is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// How the peer has taken what was sent, since that was asked last.
    pub(super) fn take_delivery(&mut self) -> Delivery {
        let has_moved = core::mem::take(&mut self.has_moved);
        match self.under_way {
            0 => Delivery::Done,
            _ if has_moved => Delivery::GoesOn,
            _ => Delivery::Pending,
        }
    }

    /// Whether the peer has sent anything, since that was asked last.
    pub(super) fn take_heard(&mut self) -> bool {
        core::mem::take(&mut self.has_heard)
    }

    /// True when another request other than a receive may be posted.
    pub(super) fn has_room(&self) -> bool {
        self.is_open() && self.under_way < self.queue_pair.limits().sends
    }

    /// True when the end of a region may be posted: as long as there is room, or once the queue pair has ended.
    pub(super) fn has_room_to_end(&self) -> bool {
        !self.is_open() || self.has_room()
    }

    /// Bytes in receives, and in buffers that are used again.
    pub(super) fn table_bytes(&self) -> usize {
        let kept = self.kept.iter().map(|kept| kept.count.saturating_mul(kept.size));
        kept.fold(self.receive_bytes, usize::saturating_add)
    }

    /// Bytes in buffers of unusual messages that are under way.
    pub(super) fn odd_bytes(&self) -> usize {
        self.odd_bytes
    }

    /// Posts a request other than a receive; gives it back if it is not taken.
    pub(super) fn post(&mut self, purpose: Purpose, request: WorkRequest) -> Result<(), WorkRequest> {
        if !self.has_room() && !matches!(request, WorkRequest::Invalidate { .. }) {
            return Err(request);
        }
        match self.queue_pair.post(purpose.id(), request) {
            Ok(()) => {
                self.has_moved |= self.is_idle();
                self.under_way = self.under_way.saturating_add(1);
                Ok(())
            }
            Err(refused) => Err(refused.request),
        }
    }

    /// Sends a PDU; there must be room. What cannot be sent any more is dropped: the queue pair has ended.
    pub(super) fn send(&mut self, pdu: &Outbound<'_>) {
        let pieces: usize = pdu.pieces.iter().map(|piece| piece.len()).sum();
        let length = pieces.saturating_add(pdu.data.len());
        let length = HEADERS.saturating_add(length).saturating_add(padding(length));
        let mut buf = self.take_buf(length);
        let mut writer = wire::Writer::new(&mut buf);
        // The buffer has room for all of it.
        let headers = writer.put(&pdu.iser.to_bytes()).and_then(|()| writer.put(pdu.header));
        let written = headers.and_then(|()| writer.put(pdu.data));
        let written = written.and_then(|()| pdu.pieces.iter().try_for_each(|piece| writer.put(piece)));
        debug_assert!(written.is_ok(), "the buffer was taken for it");
        let written = writer.written();
        if let Some(rest) = buf.get_mut(written..) {
            rest.fill(0);
        }
        let invalidate = pdu.invalidate.filter(|_| self.invalidation == Invalidation::Used);
        let request = WorkRequest::Send { data: BufList::from(buf.freeze()), invalidate };
        if let Err(request) = self.post(Purpose::Send, request) {
            self.keep(request.into_memory());
        }
    }

    fn take_buf(&mut self, length: usize) -> Buf {
        if let Some(kept) = self.kept.iter_mut().find(|kept| length <= kept.size) {
            return kept.take(length);
        }
        self.odd_bytes = self.odd_bytes.saturating_add(length);
        Buf::zeroed(length)
    }

    /// Takes the buffer of a message back.
    fn keep(&mut self, memory: WorkMemory) {
        let WorkMemory::List(list) = memory else { return };
        let length = list.len();
        match self.kept.iter_mut().find(|kept| length <= kept.size) {
            Some(kept) => kept.give_back(list),
            None => self.odd_bytes = self.odd_bytes.saturating_sub(length),
        }
    }

    /// Fetches completions, and takes what is the channel's own: the first that is a role's, or nothing. `any` becomes true if there were some.
    pub(super) fn next_completed(&mut self, now: Instant, any: &mut bool) -> Option<Completed> {
        if self.done.is_empty() {
            self.queue_pair.poll(now, &mut self.done);
            self.done.reverse();
        }
        while let Some(WorkCompletion { id, result, memory }) = self.done.pop() {
            *any = true;
            let purpose = Purpose::of(id);
            if purpose == Purpose::Receive {
                self.received(result, memory);
                continue;
            }
            self.under_way = self.under_way.saturating_sub(1);
            self.has_moved = true;
            self.has_heard |= matches!(purpose, Purpose::Read(_)) && result.is_ok();
            if purpose != Purpose::Send {
                return Some(Completed { purpose, result, memory });
            }
            self.keep(memory);
        }
        None
    }

    fn received(&mut self, result: Result<WorkDone, WorkError>, memory: WorkMemory) {
        match (result, memory) {
            (Ok(WorkDone::Received { length, invalidated }), WorkMemory::Buf(buf)) => {
                self.has_heard = true;
                self.inbox.push_back(Message { buf, length, invalidated });
            }
            (_, WorkMemory::Buf(buf)) => self.forget_receive(buf.capacity()),
            _ => self.forget_receive(self.size),
        }
    }

    /// Nothing of what has come matters any more.
    pub(super) fn clear_inbox(&mut self) {
        while let Some(message) = self.inbox.pop_front() {
            self.forget_receive(message.buf.capacity());
        }
    }
}
