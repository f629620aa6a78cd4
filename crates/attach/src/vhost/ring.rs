//! One queue of a front end, as the core that serves it has it: buffers become requests of the volume, what came of them is given back.

use std::cell::RefCell;
use std::fmt;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use buf::{Buf, BufList, Pool};
use host::Polled;
use protocol::Instant;
use vhost_user::SharedArea;
use virtio::block::Status;
use virtio::inflight::Tracker;
use virtio::queue::{AnyDevice, Position};
use virtio::{Chain, DeviceQueue, Segment, Violation};
use volume::{Completion, Durability, Extent, Operation, Outcome, QueueFull, Request, Tag, VolumeQueue};

use super::guest::{GuestMemory, Space, total};
use super::limits::TURN_REQUESTS;
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
}

impl Polled for Available {
    fn has_news(&self) -> bool {
        let has_available = self.queue.borrow().has_available();
        if has_available {
            self.waker.wake_by_ref();
        }
        has_available
    }

    fn begin_sleep(&self) -> bool {
        let has_available = self.queue.borrow_mut().await_available();
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
    pub(crate) queue: AnyDevice<SharedArea>,
    pub(crate) tracker: Option<Tracker<SharedArea>>,
    /// What an earlier device has left under way, in order.
    pub(crate) left: Vec<Chain>,
    pub(crate) memory: Arc<GuestMemory>,
    pub(crate) shape: Shape,
    pub(crate) durability: Durability,
    pub(crate) call: Option<OwnedFd>,
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
    available: Rc<Available>,
    tracker: Option<Tracker<SharedArea>>,
    memory: Arc<GuestMemory>,
    shape: Shape,
    durability: Durability,
    call: Option<OwnedFd>,
    jobs: Vec<Option<Job>>,
    free: Vec<usize>,
    /// Jobs that wait for memory or for room in the volume's queue, in order.
    waiting: Vec<usize>,
    /// Chains that are used again.
    chains: Vec<Chain>,
    has_used: bool,
    takes_more: bool,
    fault: Option<Fault>,
}

/// What the rings of a core ask the volume through.
pub(crate) struct Volumes<'a> {
    pub(crate) queue: &'a mut dyn VolumeQueue,
    pub(crate) pool: &'a Pool,
    /// What stands before a job's number in its tag.
    pub(crate) tag: u64,
}

impl Ring {
    pub(crate) fn new(plan: RingPlan, waker: &Waker) -> Self {
        let RingPlan { queue, tracker, left, memory, shape, durability, call } = plan;
        let mut ring = Self {
            available: Rc::new(Available { queue: RefCell::new(queue), waker: waker.clone() }),
            tracker,
            memory,
            shape,
            durability,
            call,
            jobs: Vec::new(),
            free: Vec::new(),
            waiting: Vec::new(),
            chains: Vec::new(),
            has_used: false,
            takes_more: true,
            fault: None,
        };
        for chain in left {
            let begun = ring.begin(chain);
            ring.waiting.extend(begun);
        }
        ring
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
    pub(crate) fn take(&mut self, now: Instant, volumes: &mut Volumes<'_>) -> bool {
        if self.takes_more && self.memory.was_cut() {
            (self.takes_more, self.fault) = (false, Some(Fault::Cut));
        }
        self.ask_waiting(now, volumes);
        let space = Space(Arc::clone(&self.memory));
        for _ in 0..TURN_REQUESTS {
            if !self.takes_more || !self.waiting.is_empty() {
                return false;
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
                    (self.takes_more, self.fault) = (false, Some(Fault::Violation(violation)));
                    return false;
                }
            }
            if let Some(tracker) = &mut self.tracker {
                tracker.taken(&mut chain);
            }
            let number = self.begin(chain);
            if let Some(number) = number {
                self.ask(now, number, volumes);
            }
        }
        self.takes_more && self.available.queue.borrow().has_available()
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
    fn ask_waiting(&mut self, now: Instant, volumes: &mut Volumes<'_>) {
        let waiting = std::mem::take(&mut self.waiting);
        for number in waiting {
            self.ask(now, number, volumes);
        }
    }

    /// Asks the volume for the next part of a job; it waits if there is no room or no memory.
    fn ask(&mut self, now: Instant, number: usize, volumes: &mut Volumes<'_>) {
        let Some(job) = self.jobs.get(number).and_then(Option::as_ref) else { return };
        let Some(operation) = self.operation(job, volumes.pool) else { return self.waiting.push(number) };
        let request = Request { tag: Tag(volumes.tag | wire::widen(number)), operation };
        if let Err(QueueFull(_)) = volumes.queue.submit(now, request) {
            self.waiting.push(number);
        }
    }

    /// What is left of an extent, as much as the volume takes at a time.
    fn next_part(&self, job: &Job, extent: Extent) -> (Extent, usize) {
        let block = wire::index(u64::from(self.shape.geometry.block_size));
        let most = wire::index(u64::from(self.shape.limits.max_transfer)).min(buf::LARGEST);
        let len = (job.len - job.done).min(most / block * block);
        let blocks = |bytes: usize| wire::widen(bytes / block);
        (Extent::new(extent.start + blocks(job.done), blocks(len)), len)
    }

    /// The next request of a job; `None` when there is no memory.
    fn operation(&self, job: &Job, pool: &Pool) -> Option<Operation> {
        let durability = self.durability;
        Some(match job.wish {
            Wish::Read(extent) => {
                let (extent, len) = self.next_part(job, extent);
                Operation::Read { extent, into: pool.take(len)? }
            }
            Wish::Write(extent) => {
                let (extent, len) = self.next_part(job, extent);
                let mut data = pool.take(len)?;
                let skipped = virtio::block::HEADER + job.done;
                fill(&self.memory, job.chain.to_read(), skipped, &mut data);
                Operation::Write { extent, data: BufList::from(data.freeze()), durability }
            }
            Wish::Discard(extent) => Operation::Discard { extent },
            Wish::WriteZeroes(extent, may_unmap) => Operation::WriteZeroes { extent, durability, may_unmap },
            _ => Operation::Flush,
        })
    }

    /// The volume has done what it was asked for a job.
    pub(crate) fn complete(&mut self, now: Instant, number: usize, completion: Completion, volumes: &mut Volumes<'_>) {
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
                Wish::Write(extent) => Some(self.next_part(&job, extent).1),
                _ => Some(0),
            },
            Err(_) => None,
        };
        job.done += moved.unwrap_or(0);
        if moved.is_some() && job.done < job.len {
            if let Some(place) = self.jobs.get_mut(number) {
                *place = Some(job);
            }
            return self.ask(now, number, volumes);
        }
        self.free.push(number);
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
        self.chains.push(chain);
    }

    /// Lets the front end see what was given back, and notifies it if it wants that.
    pub(crate) fn publish(&mut self) {
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
            // It cannot fail: a count that is full has notified already.
            let _told = rustix::io::write(call, &1_u64.to_ne_bytes());
        }
    }
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
        let part = Segment { address: segment.address + u64::from(cut), len: wire::saturate(count), ..*segment };
        let Some(place) = into.get_mut(at..at + count) else { return };
        memory.read(&[part], place);
        (at, skipped) = (at + count, 0);
    }
}
