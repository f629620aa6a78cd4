//! A queue pair at a device, with a completion queue of its own: requests in, completions out, and the memory of each in between.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::rc::Rc;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use verbs::RemoteRegion;

use super::abi;
use super::connection::{CmId, check};
use super::device::{Device, error_of};
use super::library::Functions;
use super::memory::{Bounce, ProtectionDomain, Registration};
use crate::limits::COMPLETIONS_AT_ONCE;

/// Where completion queues of a device say that they have something.
#[derive(Debug)]
pub(crate) struct CompletionChannel {
    functions: &'static Functions,
    raw: NonNull<abi::CompletionChannel>,
}

impl CompletionChannel {
    /// A channel whose events are never waited for.
    pub(crate) fn new(device: &Device) -> io::Result<Rc<Self>> {
        let functions = device.functions;
        // SAFETY: the device is open.
        let raw = unsafe { (functions.ibv_create_comp_channel)(device.context.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        let channel = Self { functions, raw };
        let flags = fcntl_getfl(channel.as_fd())?;
        fcntl_setfl(channel.as_fd(), flags | OFlags::NONBLOCK)?;
        Ok(Rc::new(channel))
    }

    /// The name of the next completion queue that has something.
    pub(crate) fn next_event(&self) -> Option<usize> {
        let (mut queue, mut name) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the channel is valid, and both places are there.
        let result =
            unsafe { (self.functions.ibv_get_cq_event)(self.raw.as_ptr(), &raw mut queue, &raw mut name) };
        if result != 0 {
            return None;
        }
        // SAFETY: the event is of a queue that is there: destroying one takes its events along, and it waits for those that were given out.
        unsafe { (self.functions.ibv_ack_cq_events)(queue, 1) };
        Some(name.addr())
    }
}

impl AsFd for CompletionChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is there until `drop`, and its descriptor as long.
        unsafe { BorrowedFd::borrow_raw((*self.raw.as_ptr()).fd) }
    }
}

impl Drop for CompletionChannel {
    fn drop(&mut self) {
        // SAFETY: every completion queue holds the channel, so none is left.
        unsafe { (self.functions.ibv_destroy_comp_channel)(self.raw.as_ptr()) };
    }
}

/// Memory that a request has.
#[derive(Debug)]
pub(crate) enum Held {
    /// A bounce buffer.
    Bounce(Bounce),
    /// Registered for it alone.
    Registered(Registration),
}

impl Held {
    /// As the device knows it: `length` bytes of it.
    fn element(&self, length: u32) -> Option<abi::ScatterGather> {
        let (addr, lkey, size) = match self {
            Self::Bounce(bounce) => (bounce.start(), bounce.local_key(), bounce.size()),
            Self::Registered(memory) => (memory.start(), memory.local_key(), memory.len()),
        };
        let fits = usize::try_from(length).is_ok_and(|length| length <= size);
        (fits && length > 0).then_some(abi::ScatterGather { addr, length, lkey })
    }
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Sends a message, which perhaps invalidates a region of the peer's.
    Send {
        /// The region's key.
        invalidate: Option<u32>,
    },
    /// Writes to the peer's memory.
    Write(RemoteRegion),
    /// Reads the peer's memory.
    Read(RemoteRegion),
    /// Receives a message.
    Receive,
}

/// A request with its memory.
#[derive(Debug)]
pub(crate) struct Request {
    /// What its completion calls it.
    pub(crate) name: u64,
    pub(crate) operation: Operation,
    pub(crate) held: Held,
    /// Bytes of the memory that count.
    pub(crate) length: u32,
}

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    /// It does not fit into the memory.
    TooLong,
    /// The queue pair ended first.
    Flushed,
    /// The peer refuses the access.
    RemoteAccess,
    /// The peer refuses the request otherwise.
    RemoteRefused,
    /// The peer does not answer.
    NoAnswer,
    /// This side's device cannot carry it out.
    FailedHere,
    /// This side's device failed; the number is its own.
    Failed(i32),
}

impl Outcome {
    /// Of `enum ibv_wc_status`.
    fn of(status: c_int) -> Self {
        match status {
            0 => Self::Success,
            // `rdma_rxe` calls it an error of its own (2) that a message does not fit.
            1 => Self::TooLong,
            2 => Self::FailedHere,
            5 => Self::Flushed,
            9 | 11 => Self::RemoteRefused,
            10 => Self::RemoteAccess,
            12 | 13 | 20 => Self::NoAnswer,
            other => Self::Failed(other),
        }
    }
}

/// A request that has ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) name: u64,
    pub(crate) outcome: Outcome,
    /// Bytes that a message has brought.
    pub(crate) length: usize,
    /// The key that it has invalidated here.
    pub(crate) invalidated: Option<u32>,
    pub(crate) held: Held,
}

/// A request that the device has.
#[derive(Debug)]
struct Flight {
    name: u64,
    held: Held,
}

/// How many requests a queue pair takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Depth {
    pub(crate) sends: u32,
    pub(crate) receives: u32,
}

/// A queue pair. It has the memory of its requests until they have ended, or until the device has let go of the whole.
#[derive(Debug)]
pub(crate) struct QueuePair {
    id: Rc<CmId>,
    queue: NonNull<abi::CompletionQueue>,
    pair: NonNull<abi::QueuePair>,
    flights: Vec<Option<Flight>>,
    free: VecDeque<usize>,
    /// Held until the queue is gone.
    _channel: Rc<CompletionChannel>,
    /// Held until the queue pair is gone.
    _domain: Rc<ProtectionDomain>,
}

impl QueuePair {
    /// A queue pair for a connection whose device is known; `name` is what the channel calls its completions.
    pub(crate) fn new(
        id: CmId,
        domain: &Rc<ProtectionDomain>,
        channel: &Rc<CompletionChannel>,
        depth: Depth,
        name: usize,
    ) -> io::Result<Self> {
        let device = id.device().ok_or(io::ErrorKind::NotConnected)?;
        let functions = device.functions;
        let entries = c_int::try_from(depth.sends.saturating_add(depth.receives)).unwrap_or(c_int::MAX);
        let name = ptr::without_provenance_mut(name);
        // SAFETY: the device is open and the channel is its own, which the queue pair holds.
        let queue = unsafe {
            (functions.ibv_create_cq)(device.context.as_ptr(), entries, name, channel.raw.as_ptr(), 0)
        };
        let queue = NonNull::new(queue).ok_or_else(io::Error::last_os_error)?;
        let mut attributes = abi::QueuePairAttributes {
            qp_context: ptr::null_mut(),
            send_cq: queue.as_ptr(),
            recv_cq: queue.as_ptr(),
            srq: ptr::null_mut(),
            cap: abi::QueuePairCapacity {
                max_send_wr: depth.sends,
                max_recv_wr: depth.receives,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            qp_type: abi::QUEUE_PAIR_RC,
            sq_sig_all: 1,
        };
        // SAFETY: the identifier is valid and has no queue pair; the domain is of its device, and held; the attributes are read and corrected.
        let made = check(unsafe {
            (functions.rdma_create_qp)(id.raw.as_ptr(), domain.raw.as_ptr(), &raw mut attributes)
        });
        // SAFETY: the identifier is valid; the call above has set its queue pair, or left it null.
        let pair = NonNull::new(unsafe { (*id.raw.as_ptr()).qp });
        let Some(pair) = pair.filter(|_| made.is_ok()) else {
            // SAFETY: nothing uses the queue.
            unsafe { (functions.ibv_destroy_cq)(queue.as_ptr()) };
            made?;
            return Err(io::ErrorKind::InvalidData.into());
        };
        let count = usize::try_from(entries).unwrap_or_default();
        let pair = Self {
            id: Rc::new(id),
            queue,
            pair,
            flights: std::iter::repeat_with(|| None).take(count).collect(),
            free: (0..count).collect(),
            _channel: Rc::clone(channel),
            _domain: Rc::clone(domain),
        };
        pair.ask_for_event()?;
        Ok(pair)
    }

    /// The connection.
    pub(crate) fn id(&self) -> &CmId {
        &self.id
    }

    fn operations(&self) -> &abi::ContextOps {
        // SAFETY: the queue pair is there, and with it its device, whose functions never change.
        unsafe { &(*(*self.pair.as_ptr()).context).ops }
    }

    /// Has the channel tell of the next completion, once.
    pub(crate) fn ask_for_event(&self) -> io::Result<()> {
        let ask = self.operations().req_notify_cq.ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: the queue is valid.
        error_of(unsafe { ask(self.queue.as_ptr(), 0) })
    }

    /// Gives a request to the device, or back.
    pub(crate) fn post(&mut self, request: Request) -> Result<(), Request> {
        let Some(slot) = self.free.pop_front() else { return Err(request) };
        let mut element = request.held.element(request.length);
        let count = c_int::from(element.is_some());
        let list = element.as_mut().map_or(ptr::null_mut(), |element| &raw mut *element);
        let result = match request.operation {
            Operation::Receive => self.post_receive(slot, list, count),
            operation => self.post_send(slot, list, count, operation),
        };
        if result.is_err() {
            self.free.push_front(slot);
            return Err(request);
        }
        if let Some(flight) = self.flights.get_mut(slot) {
            *flight = Some(Flight { name: request.name, held: request.held });
        }
        Ok(())
    }

    fn post_receive(&self, slot: usize, list: *mut abi::ScatterGather, count: c_int) -> io::Result<()> {
        let post = self.operations().post_recv.ok_or(io::ErrorKind::Unsupported)?;
        let next = ptr::null_mut();
        let mut request = abi::ReceiveRequest { wr_id: slot as u64, next, sg_list: list, num_sge: count };
        let mut refused = ptr::null_mut();
        // SAFETY: the queue pair is valid. The request and its list are read before the call returns; the memory that they name belongs to a flight until the
        // device has let go of it.
        error_of(unsafe { post(self.pair.as_ptr(), &raw mut request, &raw mut refused) })
    }

    fn post_send(
        &self,
        slot: usize,
        list: *mut abi::ScatterGather,
        count: c_int,
        operation: Operation,
    ) -> io::Result<()> {
        let post = self.operations().post_send.ok_or(io::ErrorKind::Unsupported)?;
        let (opcode, region) = match operation {
            Operation::Send { invalidate: Some(_) } => (abi::WORK_SEND_WITH_INVALIDATE, None),
            Operation::Send { invalidate: None } | Operation::Receive => (abi::WORK_SEND, None),
            Operation::Write(region) => (abi::WORK_RDMA_WRITE, Some(region)),
            Operation::Read(region) => (abi::WORK_RDMA_READ, Some(region)),
        };
        let invalidate = match operation {
            Operation::Send { invalidate } => invalidate.unwrap_or_default(),
            _ => 0,
        };
        let mut request = abi::SendRequest {
            wr_id: slot as u64,
            next: ptr::null_mut(),
            sg_list: list,
            num_sge: count,
            opcode,
            send_flags: abi::SEND_SIGNALED,
            invalidate_rkey: invalidate,
            remote_addr: region.map_or(0, |region| region.offset),
            rkey: region.map_or(0, |region| region.stag.0),
            unused: [0; 9],
        };
        let mut refused = ptr::null_mut();
        // SAFETY: as for a receive.
        error_of(unsafe { post(self.pair.as_ptr(), &raw mut request, &raw mut refused) })
    }

    /// Takes what has ended.
    pub(crate) fn poll(&mut self, done: &mut Vec<Done>) {
        let Some(poll) = self.operations().poll_cq else { return };
        // SAFETY: the structures have numbers alone, for which zero is a value.
        let mut found: [abi::WorkCompletion; COMPLETIONS_AT_ONCE] = unsafe { mem::zeroed() };
        loop {
            let room = c_int::try_from(found.len()).unwrap_or_default();
            // SAFETY: the queue is valid, and there is room for so many completions.
            let count = unsafe { poll(self.queue.as_ptr(), room, found.as_mut_ptr()) };
            let count = usize::try_from(count).unwrap_or_default();
            done.extend(found.iter().take(count).filter_map(|completion| self.ended(completion)));
            if count < found.len() {
                return;
            }
        }
    }

    fn ended(&mut self, completion: &abi::WorkCompletion) -> Option<Done> {
        let slot = usize::try_from(completion.wr_id).ok()?;
        let Flight { name, held } = self.flights.get_mut(slot)?.take()?;
        self.free.push_back(slot);
        let invalidates = completion.wc_flags & abi::COMPLETION_WITH_INVALIDATE != 0;
        Some(Done {
            name,
            outcome: Outcome::of(completion.status),
            length: usize::try_from(completion.byte_len).unwrap_or_default(),
            invalidated: invalidates.then_some(completion.invalidated_rkey),
            held,
        })
    }

    /// Has the device let go of everything; what is left of the connection. Requests that have not ended by now never do, and their memory is free.
    pub(crate) fn end(self) -> Rc<CmId> {
        Rc::clone(&self.id)
    }

    /// True when the device has let go.
    fn destroy(&mut self) -> bool {
        let functions = self.id.functions();
        // SAFETY: the queue pair is valid, and is not used any more; no event of it was taken that was not acknowledged, so the call does not wait for one.
        if unsafe { (functions.ibv_destroy_qp)(self.pair.as_ptr()) } != 0 {
            return false;
        }
        // SAFETY: the identifier is valid; librdmacm takes a queue pair that is null for none.
        unsafe { (*self.id.raw.as_ptr()).qp = ptr::null_mut() };
        // SAFETY: no queue pair uses the queue, and every event of it that was taken is acknowledged.
        unsafe { (functions.ibv_destroy_cq)(self.queue.as_ptr()) };
        true
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        if !self.destroy() {
            // The device may go on to use this memory.
            mem::forget(mem::take(&mut self.flights));
        }
    }
}
