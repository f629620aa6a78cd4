//! One core's data side of a served folder.
//!
//! Reads and writes of files that the core knows to be open to the caller go to the core's ring. Everything else blocks, and is done on a file thread; from
//! what was opened there the core learns. What a core knows is forgotten as soon as the generation moves: when names, modes or opens have changed.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use filesystem::{
    Attributes, Completion, Credentials, Failure, FileHandle, FileSystemQueue, OpenAccess, OpenId, Operation,
    Outcome, QueueFull, Request, Stability, Tag, Target, WccData, shape,
};
use host::{BlockOperation, BlockRequest, TreeDone, TreeQueue, WriteSync};
use protocol::Instant;

use super::data::write_failed;
use super::error::kind_of;
use super::job::{Ended, EndedJobs, Job, Learned};
use super::limits::{CORE_CALLERS, CORE_FILES, PERMISSION_AGE};
use super::shared::{Data, Opened, Shared};

/// A caller that may use a file.
struct Judged {
    caller: Arc<Credentials>,
    data: Data,
    at: Instant,
}

/// What the core may do by itself.
#[derive(Default)]
struct Known {
    files: HashMap<FileHandle, Vec<Judged>>,
    opens: HashMap<OpenId, Opened>,
    generation: u64,
}

/// What an operation on the ring is.
enum What {
    Read { offset: u64, asked: usize },
    Write { stability: Stability, bytes: usize },
}

/// An operation on the ring. Its file stays open until it has ended.
struct Active {
    tag: Tag,
    data: Data,
    what: What,
}

/// The attributes of a file after all that has ended on it by now.
struct Seen {
    descriptor: Arc<OwnedFd>,
    attributes: Option<Attributes>,
}

pub(super) struct FolderQueue {
    shared: Arc<Shared>,
    ring: Box<dyn TreeQueue>,
    jobs: Arc<EndedJobs>,
    known: Known,
    active: Vec<Option<Active>>,
    free: Vec<usize>,
    /// Jobs that have not ended.
    blocking: usize,
    ready: Vec<Completion>,
    ended: Vec<Ended>,
    done: Vec<TreeDone>,
}

impl FolderQueue {
    pub(super) fn new(shared: Arc<Shared>, ring: Box<dyn TreeQueue>, jobs: EndedJobs) -> Self {
        Self {
            shared,
            ring,
            jobs: Arc::new(jobs),
            known: Known::default(),
            active: Vec::new(),
            free: Vec::new(),
            blocking: 0,
            ready: Vec::new(),
            ended: Vec::new(),
            done: Vec::new(),
        }
    }

    fn occupied(&self) -> usize {
        self.active.len() - self.free.len() + self.blocking + self.ready.len()
    }

    /// Forgets what may not hold any more. Closing files may block.
    fn follow(&mut self) {
        let generation = self.shared.generation();
        if self.known.generation != generation || self.known.files.len() + self.known.opens.len() > CORE_FILES
        {
            let old = std::mem::replace(&mut self.known, Known { generation, ..Known::default() });
            if !(old.files.is_empty() && old.opens.is_empty()) {
                self.shared.tree.start(Box::new(move || drop(old)));
            }
        }
    }

    /// The data of a target, if the core knows that the caller may use it so.
    fn known(&self, now: Instant, target: &Target, caller: &Credentials, access: OpenAccess) -> Option<Data> {
        if let Some(open) = target.open {
            let opened = self.known.opens.get(&open)?;
            let fits = opened.handle == target.file && opened.data.access.contains(access);
            return fits.then(|| opened.data.clone());
        }
        let judged = self.known.files.get(&target.file)?.iter().find(|judged| {
            let fresh = now.since(judged.at) < PERMISSION_AGE;
            fresh && judged.data.access.contains(access) && *judged.caller == *caller
        })?;
        Some(judged.data.clone())
    }

    fn learn(&mut self, learned: Learned) {
        let Learned { target, caller, opened, judged, generation } = learned;
        if generation != self.known.generation {
            return;
        }
        if let Some(open) = target.open {
            self.known.opens.insert(open, opened);
            return;
        }
        let callers = self.known.files.entry(target.file).or_default();
        callers.retain(|known| !(known.caller == caller && opened.data.access.contains(known.data.access)));
        callers.truncate(CORE_CALLERS - 1);
        callers.push(Judged { caller, data: opened.data, at: judged });
    }

    /// Starts an operation on the ring.
    fn start(&mut self, active: Active, operation: BlockOperation) {
        let descriptor = Arc::clone(&active.data.descriptor);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.active.push(None);
            self.active.len() - 1
        });
        if let Some(place) = self.active.get_mut(slot) {
            *place = Some(active);
        }
        let request = BlockRequest { tag: slot as u64, operation };
        if let Err(BlockRequest { operation, .. }) = self.ring.submit(&descriptor, request) {
            // The ring takes more than this queue does; if it does not, nothing has happened.
            let memory = if let BlockOperation::Read { into, .. } = operation { Some(into) } else { None };
            if let Some(active) = self.take(slot) {
                let failure = Failure { kind: filesystem::FileErrorKind::Delay, memory };
                self.ready.push(Completion { tag: active.tag, result: Err(failure) });
            }
        }
    }

    fn take(&mut self, slot: usize) -> Option<Active> {
        let active = self.active.get_mut(slot)?.take()?;
        self.free.push(slot);
        Some(active)
    }

    /// Does a request that was checked.
    fn begin(&mut self, now: Instant, request: Request) {
        let Request { tag, credentials: caller, operation } = request;
        match operation {
            Operation::Read { file, offset, into } => {
                if let Some(data) = self.known(now, &file, &caller, OpenAccess::READ) {
                    let what = What::Read { offset, asked: into.len() };
                    return self.start(Active { tag, data, what }, BlockOperation::Read { offset, into });
                }
                self.block(
                    now,
                    Request { tag, credentials: caller, operation: Operation::Read { file, offset, into } },
                );
            }
            Operation::Write { file, offset, data: bytes, stability } if stability < Stability::FileSync => {
                if let Some(data) = self.known(now, &file, &caller, OpenAccess::WRITE) {
                    let what = What::Write { stability, bytes: bytes.len() };
                    let durable = stability == Stability::DataSync;
                    return self.start(
                        Active { tag, data, what },
                        BlockOperation::Write { offset, data: bytes, durable },
                    );
                }
                let operation = Operation::Write { file, offset, data: bytes, stability };
                self.block(now, Request { tag, credentials: caller, operation });
            }
            operation => self.block(now, Request { tag, credentials: caller, operation }),
        }
    }

    /// Has a request done on a thread that may block.
    fn block(&mut self, now: Instant, request: Request) {
        let Request { tag, credentials: caller, operation } = request;
        let (shared, ended) = (Arc::clone(&self.shared), Arc::clone(&self.jobs));
        let job = Job { shared, ended, tag, caller, operation, now };
        self.blocking += 1;
        self.shared.tree.start(Box::new(move || job.run()));
    }

    /// What an operation on the ring came to. The attributes are of a file that is open: asking for them reads no medium. They are asked for once for what
    /// `seen` has, as all of that had ended before.
    fn conclude(&self, active: &Active, done: TreeDone, seen: &mut Option<Seen>) -> Result<Outcome, Failure> {
        let (shared, counters) = (&self.shared, &self.shared.counters);
        let mut stat = || match seen {
            Some(seen) if Arc::ptr_eq(&seen.descriptor, &active.data.descriptor) => seen.attributes,
            _ => {
                let descriptor = Arc::clone(&active.data.descriptor);
                let stat = shared.tree.stat(&descriptor);
                let attributes = stat.ok().map(|stat| shared.attributes(&stat));
                *seen = Some(Seen { descriptor, attributes });
                attributes
            }
        };
        match (&active.what, done.result) {
            (What::Read { .. }, Err(error)) => {
                let memory = done.data.and_then(|data| data.try_unfreeze().ok());
                Err(Failure { kind: kind_of(error), memory })
            }
            (What::Read { offset, asked }, Ok(())) => {
                let (data, attributes) = (done.data.unwrap_or_else(|| Vec::new().into()), stat());
                counters.bytes_read.fetch_add(data.len() as u64, Ordering::Relaxed);
                let end = offset.saturating_add(data.len() as u64);
                let eof = data.len() < *asked || attributes.is_some_and(|attributes| end >= attributes.size);
                Ok(Outcome::Data { data: data.into(), eof, attributes })
            }
            (What::Write { stability, .. }, Err(error)) => {
                let durable =
                    if *stability == Stability::Unstable { WriteSync::None } else { WriteSync::Data };
                Err(write_failed(shared, &active.data, error, durable).into())
            }
            (What::Write { stability, bytes }, Ok(())) => {
                counters.bytes_written.fetch_add(*bytes as u64, Ordering::Relaxed);
                let file = WccData { before: None, after: stat() };
                Ok(Outcome::Written { stability: *stability, verifier: shared.verifier(), file })
            }
        }
    }
}

impl FileSystemQueue for FolderQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        if self.occupied() >= self.shared.limits.depth as usize {
            return Err(QueueFull(request));
        }
        if let Err(kind) = shape::check(&request.operation, &self.shared.limits, self.shared.features) {
            self.ready.push(request.failed(kind));
            return Ok(());
        }
        self.follow();
        self.begin(now, request);
        Ok(())
    }

    fn cancel(&mut self, _tag: Tag) {
        // What is under way in the system cannot be taken back; it ends soon enough.
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<Completion>) {
        let first = done.len();
        done.append(&mut self.ready);
        let mut ended = std::mem::take(&mut self.ended);
        self.jobs.swap(&mut ended);
        self.blocking = self.blocking.saturating_sub(ended.len());
        for Ended { completion, learned } in ended.drain(..) {
            if let Some(learned) = learned {
                self.learn(learned);
            }
            done.push(completion);
        }
        self.ended = ended;
        let mut moved = std::mem::take(&mut self.done);
        self.ring.poll(&mut moved);
        let mut seen = None;
        for one in moved.drain(..) {
            if let Some(active) = self.take(wire::index(one.tag)) {
                let result = self.conclude(&active, one, &mut seen);
                done.push(Completion { tag: active.tag, result });
            }
        }
        self.done = moved;
        let fresh = done.get(first..).unwrap_or_default();
        let failed = fresh.iter().filter(|completion| completion.result.is_err()).count();
        self.shared.counters.requests.fetch_add(fresh.len() as u64, Ordering::Relaxed);
        self.shared.counters.failed.fetch_add(failed as u64, Ordering::Relaxed);
    }
}
