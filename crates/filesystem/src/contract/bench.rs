//! Drives one queue: submits, waits, and sees that every request completes exactly once. It works in a directory of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant as Clock};

use buf::{Buf, SharedBuf};
use protocol::{Instant, SeededEntropy};

use super::finding::{Finding, see};
use super::options::Options;
use crate::{
    Attributes, Completion, CoreId, CreateHow, Created, Credentials, Failure, FileErrorKind, FileHandle,
    FileSystem, FileSystemQueue, Name, NewObject, Object, OpenAccess, OpenId, Operation, Outcome,
    QueueContext, QueueFull, Removal, Request, SetAttributes, Stability, Tag, Target,
};

pub(super) type Answer = Result<Outcome, Failure>;

/// Remembers that it was woken, and wakes the thread.
struct Bell {
    rung: AtomicBool,
    thread: Thread,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// How long the thread sleeps at most before it looks whether a request is lost.
const NAP: Duration = Duration::from_millis(5);

/// One queue of the file system under test, and what is under way in it.
pub(super) struct Bench<'a> {
    pub(super) system: &'a Arc<dyn FileSystem>,
    pub(super) options: &'a Options,
    pub(super) entropy: SeededEntropy,
    /// In whose name requests are made.
    pub(super) caller: Arc<Credentials>,
    /// The directory of the check.
    pub(super) folder: FileHandle,
    queue: Box<dyn FileSystemQueue>,
    begun: Clock,
    under_way: BTreeMap<Tag, Option<Answer>>,
    last: u64,
    done: Vec<Completion>,
    bell: Arc<Bell>,
    /// The queue has been polled in vain since it was last given something to do, and has named no deadline.
    waits_for_bell: bool,
}

/// A name that the checks use.
pub(super) fn name(text: &str) -> Name {
    Name::known(text)
}

impl<'a> Bench<'a> {
    /// With a directory of this name in the root.
    pub(super) fn open(
        system: &'a Arc<dyn FileSystem>,
        options: &'a Options,
        folder: &str,
    ) -> Result<Self, Finding> {
        let mut bench = Self::on(system, options, system.root())?;
        bench.folder = match bench.make(folder, NewObject::Directory)? {
            Ok(created) => created.object.handle,
            Err(kind) => {
                return Err(Finding::Failed { request: format!("making {folder} in the root"), kind });
            }
        };
        Ok(bench)
    }

    fn on(
        system: &'a Arc<dyn FileSystem>,
        options: &'a Options,
        folder: FileHandle,
    ) -> Result<Self, Finding> {
        let bell = Arc::new(Bell { rung: AtomicBool::new(false), thread: thread::current() });
        let waker = Waker::from(Arc::clone(&bell));
        let queue = system.open_queue(&QueueContext::without_pool(CoreId(0), waker))?;
        Ok(Self {
            system,
            options,
            entropy: SeededEntropy::new(options.seed),
            caller: Arc::new(options.caller.clone()),
            folder,
            queue,
            begun: Clock::now(),
            under_way: BTreeMap::new(),
            last: 0,
            done: Vec::new(),
            bell,
            waits_for_bell: false,
        })
    }

    /// Another queue of the same file system, in the same directory.
    pub(super) fn another(&self) -> Result<Self, Finding> {
        Self::on(self.system, self.options, self.folder)
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.begun.elapsed()
    }

    /// Submits, or gives back what the queue has no room for.
    pub(super) fn submit(&mut self, operation: Operation) -> Result<Tag, Operation> {
        self.last += 1;
        let tag = Tag(self.last);
        let request = Request { tag, credentials: Arc::clone(&self.caller), operation };
        match self.queue.submit(self.now(), request) {
            Ok(()) => {
                self.under_way.insert(tag, None);
                self.waits_for_bell = false;
                Ok(tag)
            }
            Err(QueueFull(request)) => Err(request.operation),
        }
    }

    pub(super) fn cancel(&mut self, tag: Tag) {
        self.queue.cancel(tag);
        self.waits_for_bell = false;
    }

    /// Polls once.
    pub(super) fn poll(&mut self) -> Result<usize, Finding> {
        let now = self.now();
        let mut done = std::mem::take(&mut self.done);
        let rung = self.bell.rung.swap(false, Ordering::SeqCst);
        self.queue.poll(now, &mut done);
        let count = done.len();
        if count > 0 && self.waits_for_bell && !rung && !self.bell.rung.load(Ordering::SeqCst) {
            // The waker may be woken a moment after the completion is there.
            thread::sleep(NAP);
            if !self.bell.rung.load(Ordering::SeqCst) {
                return Err(Finding::Unanswered(
                    "a completion came, and the queue had woken nobody".to_owned(),
                ));
            }
        }
        self.waits_for_bell = count == 0 && self.queue.poll_timeout().is_none();
        for Completion { tag, result } in done.drain(..) {
            match self.under_way.get_mut(&tag) {
                Some(answer @ None) => *answer = Some(result),
                _ => return Err(Finding::Queue(format!("{tag:?} completed, and was not under way"))),
            }
        }
        self.done = done;
        Ok(count)
    }

    /// Waits for one request.
    pub(super) fn wait(&mut self, tag: Tag) -> Result<Answer, Finding> {
        let begun = Clock::now();
        loop {
            if self.under_way.get(&tag).is_some_and(Option::is_some)
                && let Some(answer) = self.under_way.remove(&tag).flatten()
            {
                return Ok(answer);
            }
            if self.poll()? == 0 {
                if begun.elapsed() > Duration::from_millis(self.options.patience.into()) {
                    return Err(Finding::Unanswered(format!("{tag:?} does not complete")));
                }
                thread::park_timeout(NAP);
            }
        }
    }

    /// Does one thing after the other.
    pub(super) fn run(&mut self, operation: Operation) -> Result<Result<Outcome, FileErrorKind>, Finding> {
        let tag = self.submit(operation).map_err(|_| Finding::Queue("an idle queue is full".to_owned()))?;
        Ok(self.wait(tag)?.map_err(|failure| failure.kind))
    }

    /// Does what must succeed.
    pub(super) fn must(&mut self, operation: Operation) -> Result<Outcome, Finding> {
        let request = format!("{operation:?}");
        self.run(operation)?.map_err(|kind| Finding::Failed { request, kind })
    }

    /// Does what must fail, and how.
    pub(super) fn must_fail(&mut self, operation: Operation, kinds: &[FileErrorKind]) -> Result<(), Finding> {
        let request = format!("{operation:?}");
        match self.run(operation)? {
            Err(kind) if kinds.contains(&kind) => Ok(()),
            other => Err(Finding::Answer(format!(
                "{request} must fail with one of {kinds:?}, and came to {other:?}"
            ))),
        }
    }

    /// Does things in another's name.
    pub(super) fn as_caller<R>(&mut self, caller: &Credentials, act: impl FnOnce(&mut Self) -> R) -> R {
        let own = std::mem::replace(&mut self.caller, Arc::new(caller.clone()));
        let result = act(self);
        self.caller = own;
        result
    }

    /// Makes something in the check's directory.
    pub(super) fn make(
        &mut self,
        called: &str,
        object: NewObject,
    ) -> Result<Result<Created, FileErrorKind>, Finding> {
        let mode = if object == NewObject::Directory { 0o755 } else { 0o644 };
        let operation = Operation::Make {
            directory: self.folder,
            name: name(called),
            object: Box::new(object),
            attributes: Box::new(SetAttributes::mode(mode)),
        };
        Ok(match self.run(operation)? {
            Ok(Outcome::Created(created)) => Ok(*created),
            Ok(other) => return Err(Finding::Answer(format!("making {called} answers {other:?}"))),
            Err(kind) => Err(kind),
        })
    }

    /// Makes a directory in the check's directory.
    pub(super) fn directory(&mut self, called: &str) -> Result<FileHandle, Finding> {
        let made = self.make(called, NewObject::Directory)?;
        made.map(|created| created.object.handle)
            .map_err(|kind| Finding::Failed { request: format!("making the directory {called}"), kind })
    }

    /// Creates a file.
    pub(super) fn create(
        &mut self,
        called: &str,
        how: CreateHow,
        open: Option<OpenAccess>,
    ) -> Result<Created, Finding> {
        let operation =
            Operation::Create { directory: self.folder, name: name(called), how: Box::new(how), open };
        match self.must(operation)? {
            Outcome::Created(created) => Ok(*created),
            other => Err(Finding::Answer(format!("creating {called} answers {other:?}"))),
        }
    }

    /// A new file.
    pub(super) fn file(&mut self, called: &str) -> Result<FileHandle, Finding> {
        let how = CreateHow::Guarded(SetAttributes::mode(0o644));
        Ok(self.create(called, how, None)?.object.handle)
    }

    /// Looks a name up in the check's directory.
    pub(super) fn lookup(&mut self, called: &str) -> Result<Result<Object, FileErrorKind>, Finding> {
        let directory = self.folder;
        Ok(match self.run(Operation::Lookup { directory, name: name(called) })? {
            Ok(Outcome::Found(object)) => Ok(*object),
            Ok(other) => return Err(Finding::Answer(format!("a lookup answers {other:?}"))),
            Err(kind) => Err(kind),
        })
    }

    /// Looks up what must be there.
    pub(super) fn find(&mut self, called: &str) -> Result<Object, Finding> {
        self.lookup(called)?
            .map_err(|kind| Finding::Failed { request: format!("the lookup of {called}"), kind })
    }

    pub(super) fn attributes(&mut self, object: impl Into<Target>) -> Result<Attributes, Finding> {
        match self.must(Operation::GetAttributes { object: object.into() })? {
            Outcome::Attributes(attributes) => Ok(*attributes),
            other => Err(Finding::Answer(format!("attributes are {other:?}"))),
        }
    }

    pub(super) fn write(
        &mut self,
        file: impl Into<Target>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Finding> {
        let data = SharedBuf::from(bytes.to_vec()).into();
        let written =
            self.must(Operation::Write { file: file.into(), offset, data, stability: Stability::Unstable })?;
        see(matches!(written, Outcome::Written { .. }), || format!("a write answers {written:?}"))
    }

    pub(super) fn read(
        &mut self,
        file: impl Into<Target>,
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>, Finding> {
        match self.must(Operation::Read { file: file.into(), offset, into: Buf::zeroed(len) })? {
            Outcome::Data { data, .. } => Ok(data.into_one().to_vec()),
            other => Err(Finding::Answer(format!("a read answers {other:?}"))),
        }
    }

    pub(super) fn removal(&self, called: &str, removal: Removal) -> Operation {
        Operation::Remove { directory: self.folder, name: name(called), removal }
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> Operation {
        let folder = self.folder;
        Operation::Rename { from_directory: folder, from: name(from), to_directory: folder, to: name(to) }
    }

    pub(super) fn set(
        &mut self,
        object: impl Into<Target>,
        attributes: SetAttributes,
    ) -> Result<(), Finding> {
        self.must(Operation::SetAttributes { object: object.into(), guard: None, attributes }).map(drop)
    }

    pub(super) fn open_file(&mut self, file: FileHandle, access: OpenAccess) -> Result<OpenId, Finding> {
        match self.must(Operation::Open { file, access })? {
            Outcome::Opened { open, .. } => Ok(open),
            other => Err(Finding::Answer(format!("an open answers {other:?}"))),
        }
    }

    /// Sees that nothing is left and nothing more comes.
    pub(super) fn end(mut self) -> Result<(), Finding> {
        self.poll()?;
        see(self.under_way.is_empty(), || format!("{} requests are left", self.under_way.len()))
    }
}
