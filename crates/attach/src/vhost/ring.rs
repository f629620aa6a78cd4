//! One queue of a front end, as the core that serves it has it: buffers become requests of the volume, what came of them is given back.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use buf::{Account, Buf, BufList, Pool};
use host::Polled;
use protocol::Instant;
use vhost_user::SharedArea;
use virtio::block::Status;
use virtio::either::AnyDevice;
use virtio::inflight::Tracker;
use virtio::queue::Position;
use virtio::{Chain, DeviceQueue, Segment, Violation};
use volume::{Completion, Durability, Extent, Operation, Outcome, QueueFull, Request, Tag, VolumeQueue};

use super::guest::{GuestMemory, Space, total};
use super::limits::{PIECES_PER_ENTRY, SPARE_CHAINS, TURN_REQUESTS};
use super::request::{Decoded, ID, Shape, Wish};

/// What a front end did wrong: its queue is served no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It broke a rule of its queue.
    Violation(Violation),
    /// It took memory away that it had lent.
    Cut,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Violation(violation) => violation.fmt(f),
            Self::Cut => f.write_str("memory was taken away that had been lent"),
        }
    }
}

/// The queue itself, which the core looks at while it is awake.
pub(crate) struct Available {
    queue: RefCell<AnyDevice<SharedArea>>,
    waker: Waker,
    /// Buffers would be taken. While none would, they are no reason to be awake: what makes room for them is.
    is_open: Cell<bool>,
}

impl Polled for Available {
    fn has_news(&self) -> bool {
        let has_available = self.is_open.get() && self.queue.borrow().has_available();
        if has_available {
            self.waker.wake_by_ref();
        }
        has_available
    }

    fn begin_sleep(&self) -> bool {
        let has_available = self.is_open.get() && self.queue.borrow_mut().await_available();
        if has_available {
            self.waker.wake_by_ref();
        }
        has_available
    }

    fn end_sleep(&self) {
        self.queue.borrow_mut().ignore_available();
    }
}

/// What a ring is started with.
pub(crate) struct RingPlan {
    /// Which of the process' volumes it is of.
    pub(crate) volume: usize,
    /// Entries of the queue.
    pub(crate) size: u16,
    pub(crate) queue: AnyDevice<SharedArea>,
    pub(crate) tracker: Option<Tracker<SharedArea>>,
    /// What an earlier device has left under way, in order.
    pub(crate) left: Vec<Chain>,
    pub(crate) memory: Arc<GuestMemory>,
    pub(crate) shape: Shape,
    pub(crate) durability: Durability,
    pub(crate) call: Option<OwnedFd>,
    pub(crate) error: Option<OwnedFd>,
}

/// A request under way.
struct Job {
    chain: Chain,
    wish: Wish,
    /// Bytes that are done, of those that it has.
    done: usize,
    len: usize,
}

/// The queue.
pub(crate) struct Ring {
    /// Entries of the queue: as many requests are under way at most.
    size: usize,
    available: Rc<Available>,
    tracker: Option<Tracker<SharedArea>>,
    memory: Arc<GuestMemory>,
    shape: Shape,
    durability: Durability,
    call: Option<OwnedFd>,
    error: Option<OwnedFd>,
    /// Its share of the core's memory for data: however much its front end asks for at a time, other queues have theirs.
    account: Account,
    jobs: Vec<Option<Job>>,
    free: Vec<usize>,
    /// Jobs that wait for memory or for room in the volume's queue, in order.
    waiting: Vec<usize>,
    /// Chains that are used again.
    chains: Vec<Chain>,
    /// Pieces of memory in all requests under way.
    pieces: usize,
    has_used: bool,
    takes_more: bool,
    fault: Option<Fault>,
}

/// How a ring asks its volume.
pub(crate) struct Asking<'a> {
    pub(crate) queue: &'a mut dyn VolumeQueue,
    /// What stands before a job's number in its tag.
    pub(crate) tag: u64,
}

impl Ring {
    pub(crate) fn new(plan: RingPlan, waker: &Waker, pool: &Pool) -> Option<Self> {
        let RingPlan { volume: _, size, queue, tracker, left, memory, shape, durability, call, error } = plan;
        let size = usize::from(size);
        let mut account = Account::new(pool);
        let tables = size * (size_of::<Job>() + PIECES_PER_ENTRY * size_of::<Segment>());
        if !account.charge_table(tables) {
            return None;
        }
        let mut ring = Self {
            size,
            available: Rc::new(Available {
                queue: RefCell::new(queue),
                waker: waker.clone(),
                is_open: Cell::new(true),
            }),
            tracker,
            memory,
            shape,
            durability,
            call,
            error,
            account,
            jobs: Vec::new(),
            free: Vec::new(),
            waiting: Vec::new(),
            chains: Vec::new(),
            pieces: 0,
            has_used: false,
            takes_more: true,
            fault: None,
        };
        for chain in left {
            let begun = ring.begin(chain);
            ring.waiting.extend(begun);
        }
        Some(ring)
    }

    /// What the core looks at.
    pub(crate) fn available(&self) -> Rc<dyn Polled> {
        Rc::clone(&self.available) as Rc<dyn Polled>
    }

    /// Notifies the front end this way from now on.
    pub(crate) fn set_call(&mut self, call: Option<OwnedFd>) {
        self.call = call;
    }

    /// Other memory is lent from now on. What is under way keeps what it has.
    pub(crate) fn set_memory(&mut self, memory: Arc<GuestMemory>) {
        self.memory = memory;
    }

    /// Takes no more buffers.
    pub(crate) fn stop(&mut self) {
        self.takes_more = false;
    }

    /// Whether something waits for a request to end: for memory, for room in the volume's queue, or to be taken off the queue.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty() || (self.takes_more && self.available.queue.borrow().has_available())
    }

    /// Requests under way.
    pub(crate) fn under_way(&self) -> usize {
        self.jobs.len() - self.free.len()
    }

    /// Where it stands.
    pub(crate) fn position(&self) -> Position {
        self.available.queue.borrow().position()
    }

    /// What the front end did wrong; told once.
    pub(crate) fn take_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }

    /// Takes buffers off the queue and asks the volume; true if there are more than a turn's.
    pub(crate) fn take(&mut self, now: Instant, asking: &mut Asking<'_>) -> bool {
        if self.takes_more && self.memory.was_cut() {
            self.fail(Fault::Cut);
        }
        self.ask_waiting(now, asking);
        let space = Space(Arc::clone(&self.memory));
        for _ in 0..TURN_REQUESTS {
            if !self.takes_more || !self.waiting.is_empty() || self.is_full() {
                return false;
            }
            // What a tracker has free must be nobody's before the driver sees it.
            if self.tracker.is_some() {
                self.publish();
            }
            let mut chain = self.chains.pop().unwrap_or_default();
            let taken = self.available.queue.borrow_mut().next_available(&space, &mut chain);
            match taken {
                Ok(true) => {}
                Ok(false) => {
                    self.chains.push(chain);
                    return false;
                }
                Err(violation) => {
                    self.fail(Fault::Violation(violation));
                    return false;
                }
            }
            if let Some(tracker) = &mut self.tracker {
                tracker.taken(&mut chain);
            }
            let number = self.begin(chain);
            if let Some(number) = number {
                self.ask(now, number, asking);
            }
        }
        self.takes_more && !self.is_full() && self.available.queue.borrow().has_available()
    }

    /// Takes no more buffers, because of what the front end did, and tells it so.
    fn fail(&mut self, fault: Fault) {
        (self.takes_more, self.fault) = (false, Some(fault));
        if let Some(error) = &self.error {
            notify(error);
        }
    }

    /// Whether as much is under way as may be.
    fn is_full(&self) -> bool {
        self.under_way() >= self.size || (self.pieces >= self.size * PIECES_PER_ENTRY && self.under_way() > 0)
    }

    /// Begins a request; nothing for one that is over at once.
    fn begin(&mut self, chain: Chain) -> Option<usize> {
        let Some(Decoded { wish, len }) = self.shape.decode(&self.memory, &chain) else {
            // Nobody can be told what came of it.
            self.give_back(chain, 0);
            return None;
        };
        match wish {
            Wish::Failed => self.end(chain, Status::Failed, 0),
            Wish::Unsupported => self.end(chain, Status::Unsupported, 0),
            Wish::GetId => {
                let mut id = [0; 20];
                id.iter_mut().zip(ID).for_each(|(place, byte)| *place = *byte);
                let told = id.get(..len.min(id.len())).unwrap_or_default();
                self.memory.write(chain.to_write(), 0, told);
                self.end(chain, Status::Ok, told.len());
            }
            Wish::Read(extent) | Wish::Write(extent) if extent.blocks == 0 => self.end(chain, Status::Ok, 0),
            _ => {
                self.pieces += chain.pieces();
                let job = Job { chain, wish, done: 0, len };
                let number = self.free.pop().unwrap_or_else(|| {
                    self.jobs.push(None);
                    self.jobs.len() - 1
                });
                if let Some(place) = self.jobs.get_mut(number) {
                    *place = Some(job);
                }
                return Some(number);
            }
        }
        None
    }

    /// Asks again for what had to wait, in order.
    fn ask_waiting(&mut self, now: Instant, asking: &mut Asking<'_>) {
        if self.waiting.is_empty() {
            return;
        }
        for number in std::mem::take(&mut self.waiting) {
            // In order: what comes later does not take the memory that an earlier one waits for.
            if self.waiting.is_empty() {
                self.ask(now, number, asking);
            } else {
                self.waiting.push(number);
            }
        }
        if self.waiting.is_empty() {
            self.account.stop_waiting();
        }
    }

    /// Asks the volume for the next part of a job; it waits if there is no room or no memory.
    fn ask(&mut self, now: Instant, number: usize, asking: &mut Asking<'_>) {
        let Some(job) = self.jobs.get(number).and_then(Option::as_ref) else { return };
        let (asked, account) = (
            Asked { shape: &self.shape, memory: &self.memory, durability: self.durability },
            &mut self.account,
        );
        let Some(operation) = asked.operation(job, account) else { return self.waiting.push(number) };
        let request = Request { tag: Tag(asking.tag | wire::widen(number)), operation };
        if let Err(QueueFull(_)) = asking.queue.submit(now, request) {
            self.waiting.push(number);
        }
    }

    /// The volume has done what it was asked for a job.
    pub(crate) fn complete(
        &mut self,
        now: Instant,
        number: usize,
        completion: Completion,
        asking: &mut Asking<'_>,
    ) {
        let Some(mut job) = self.jobs.get_mut(number).and_then(Option::take) else { return };
        let moved = match completion.outcome() {
            Ok(Outcome::Data(data)) => {
                let mut at = job.done;
                let fits = data.pieces().iter().all(|piece| {
                    let fits = self.memory.write(job.chain.to_write(), at, piece);
                    at += piece.len();
                    fits
                });
                fits.then_some(data.len())
            }
            Ok(_) => match job.wish {
                Wish::Write(extent) => Some(next_part(&self.shape, &job, extent).1),
                _ => Some(0),
            },
            Err(_) => None,
        };
        job.done += moved.unwrap_or(0);
        if moved.is_some() && job.done < job.len {
            if let Some(place) = self.jobs.get_mut(number) {
                *place = Some(job);
            }
            return self.ask(now, number, asking);
        }
        self.free.push(number);
        self.pieces -= job.chain.pieces();
        let (status, written) = match (moved, job.wish) {
            (None, _) => (Status::Failed, 0),
            (Some(_), Wish::Read(_)) => (Status::Ok, job.len),
            (Some(_), _) => (Status::Ok, 0),
        };
        self.end(job.chain, status, written);
    }

    /// Answers a request, of which so many bytes were written.
    fn end(&mut self, chain: Chain, status: Status, written: usize) {
        let last = total(chain.to_write()).saturating_sub(1);
        self.memory.write(chain.to_write(), last, &[status.byte()]);
        self.give_back(chain, written + 1);
    }

    fn give_back(&mut self, chain: Chain, written: usize) {
        let key = chain.key();
        if let Some(tracker) = &mut self.tracker {
            tracker.returning(key);
        }
        self.available.queue.borrow_mut().add_used(key, wire::saturate(written));
        self.has_used = true;
        if self.chains.len() < SPARE_CHAINS {
            self.chains.push(chain);
        }
    }

    /// The turn is over: lets the front end see what was given back, and notifies it if it wants that.
    pub(crate) fn publish(&mut self) {
        self.available.is_open.set(self.takes_more && self.waiting.is_empty() && !self.is_full());
        if !std::mem::take(&mut self.has_used) {
            return;
        }
        let mut queue = self.available.queue.borrow_mut();
        let position = queue.position();
        if let Some(tracker) = &mut self.tracker {
            tracker.publishing(position);
        }
        let wants_call = queue.publish();
        if let Some(tracker) = &mut self.tracker {
            tracker.published(position);
        }
        if let Some(call) = self.call.as_ref().filter(|_| wants_call) {
            notify(call);
        }
    }
}

/// Counts an event descriptor up. A count that is full has notified already.
fn notify(event: &OwnedFd) {
    let _told = rustix::io::write(event, &1_u64.to_ne_bytes());
}

/// What a job's next request is made of.
struct Asked<'a> {
    shape: &'a Shape,
    memory: &'a GuestMemory,
    durability: Durability,
}

impl Asked<'_> {
    /// The next request of a job; `None` when there is no memory.
    fn operation(&self, job: &Job, account: &mut Account) -> Option<Operation> {
        let durability = self.durability;
        Some(match job.wish {
            Wish::Read(extent) => {
                let (extent, len) = next_part(self.shape, job, extent);
                Operation::Read { extent, into: account.take(len)? }
            }
            Wish::Write(extent) => {
                let (extent, len) = next_part(self.shape, job, extent);
                let mut data = account.take(len)?;
                let skipped = virtio::block::HEADER + job.done;
                fill(self.memory, job.chain.to_read(), skipped, &mut data);
                Operation::Write { extent, data: BufList::from(data.freeze()), durability }
            }
            Wish::Discard(extent) => Operation::Discard { extent },
            Wish::WriteZeroes(extent, may_unmap) => Operation::WriteZeroes { extent, durability, may_unmap },
            _ => Operation::Flush,
        })
    }
}

/// What is left of an extent, as much as the volume takes at a time.
fn next_part(shape: &Shape, job: &Job, extent: Extent) -> (Extent, usize) {
    let block = wire::index(u64::from(shape.geometry.block_size));
    let most = wire::index(u64::from(shape.limits.max_transfer)).min(buf::LARGEST);
    let len = (job.len - job.done).min(most / block * block);
    let blocks = |bytes: usize| wire::widen(bytes / block);
    (Extent::new(extent.start + blocks(job.done), blocks(len)), len)
}

/// Copies what lies behind so many bytes of segments. Bytes that are not there any more stay as they are: the front end took them away, and has what it asked for.
fn fill(memory: &GuestMemory, segments: &[Segment], skipped: usize, into: &mut Buf) {
    let mut skipped = skipped;
    let mut at = 0;
    for segment in segments {
        let len = wire::index(u64::from(segment.len));
        if skipped >= len {
            skipped -= len;
            continue;
        }
        let count = (len - skipped).min(into.len() - at);
        let cut: u32 = wire::saturate(skipped);
        let part =
            Segment { address: segment.address + u64::from(cut), len: wire::saturate(count), ..*segment };
        let Some(place) = into.get_mut(at..at + count) else { return };
        memory.read(&[part], place);
        (at, skipped) = (at + count, 0);
    }
}
