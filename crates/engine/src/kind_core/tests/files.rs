//! A kind that is no volume: file systems in memory, with paths, handles and a commit, and nothing of blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host::{Kind, Level};
use protocol::Instant;
use volume::{CoreId, OpenError, QueueContext, Tag};

use crate::catalogue::ProposalError;
use crate::kind::{ServedKind, Tagged, Telling};
use crate::served_id::ServedId;

/// An open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handle(pub(super) usize);

/// What a file system can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    /// Opens the file of that path, which is made if there is none.
    Open(String),
    Read(Handle),
    Append(Handle, String),
    /// Makes what was appended over the same queue stable.
    Commit,
}

#[derive(Debug)]
pub(super) struct FileRequest {
    pub(super) tag: Tag,
    pub(super) call: Call,
}

/// What a call comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Opened(Handle),
    Content(String),
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileError {
    BadHandle,
    Full,
    Cancelled,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadHandle => "no such file is open",
            Self::Full => "the file system is full",
            Self::Cancelled => "the call was cancelled",
        })
    }
}

#[derive(Debug)]
pub(super) struct FileCompletion {
    pub(super) tag: Tag,
    pub(super) result: Result<Reply, FileError>,
}

impl Tagged for FileRequest {
    fn tag(&self) -> Tag {
        self.tag
    }

    fn set_tag(&mut self, tag: Tag) {
        self.tag = tag;
    }
}

impl Tagged for FileCompletion {
    fn tag(&self) -> Tag {
        self.tag
    }

    fn set_tag(&mut self, tag: Tag) {
        self.tag = tag;
    }
}

/// The files as all see them, and what of them is stable.
#[derive(Debug, Default)]
pub(super) struct Content {
    paths: Vec<String>,
    seen: BTreeMap<String, String>,
    pub(super) stable: BTreeMap<String, String>,
    /// Files with something appended over a core's queue that is not committed yet.
    appended: BTreeSet<(CoreId, String)>,
    /// Every commit that was carried out: on which core.
    pub(super) commits: Vec<CoreId>,
    /// Appends are refused from now on, by whoever judges calls.
    pub(super) frozen: bool,
    /// Nothing can be made stable any more.
    pub(super) full: bool,
    /// Queues that are open.
    pub(super) queues: usize,
}

/// A file system: the side that all cores share.
#[derive(Debug)]
pub(super) struct FileSystem {
    /// How long a call takes.
    pub(super) delay: Duration,
    /// Calls that a queue takes at a time.
    pub(super) depth: usize,
    /// Cores that can use it: those below this one.
    pub(super) cores: CoreId,
    pub(super) is_read_only: bool,
    pub(super) content: Mutex<Content>,
}

impl Default for FileSystem {
    fn default() -> Self {
        let (delay, depth, cores) = (Duration::ZERO, 64, CoreId(2));
        Self { delay, depth, cores, is_read_only: false, content: Mutex::default() }
    }
}

impl Content {
    pub(super) fn call(&mut self, core: CoreId, call: Call) -> Result<Reply, FileError> {
        match call {
            Call::Open(path) => {
                self.seen.entry(path.clone()).or_default();
                self.paths.push(path);
                Ok(Reply::Opened(Handle(self.paths.len() - 1)))
            }
            Call::Read(handle) => Ok(Reply::Content(self.seen[self.path(handle)?].clone())),
            Call::Append(handle, text) => {
                let path = self.path(handle)?.clone();
                self.seen.entry(path.clone()).or_default().push_str(&text);
                self.appended.insert((core, path));
                Ok(Reply::Done)
            }
            Call::Commit if self.full => Err(FileError::Full),
            Call::Commit => {
                self.commits.push(core);
                for (_, path) in self.appended.extract_if(.., |(by, _)| *by == core) {
                    self.stable.insert(path.clone(), self.seen[&path].clone());
                }
                Ok(Reply::Done)
            }
        }
    }

    fn path(&self, Handle(handle): Handle) -> Result<&String, FileError> {
        self.paths.get(handle).ok_or(FileError::BadHandle)
    }
}

/// One core's queue of a file system, whatever carries the calls out.
pub(super) trait FileQueue {
    fn submit(&mut self, now: Instant, request: FileRequest) -> Result<(), FileRequest>;
    fn cancel(&mut self, tag: Tag);
    fn poll(&mut self, now: Instant, done: &mut Vec<FileCompletion>);
    fn poll_timeout(&self) -> Option<Instant>;
}

/// Carries each call out once its time is over.
struct MemoryQueue {
    files: Arc<FileSystem>,
    core: CoreId,
    taken: Vec<(Instant, FileRequest)>,
    cancelled: Vec<Tag>,
}

impl FileQueue for MemoryQueue {
    fn submit(&mut self, now: Instant, request: FileRequest) -> Result<(), FileRequest> {
        if self.taken.len() >= self.files.depth {
            return Err(request);
        }
        self.taken.push((now + self.files.delay, request));
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        self.taken.retain(|(_, request)| {
            request.tag != tag || {
                self.cancelled.push(tag);
                false
            }
        });
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<FileCompletion>) {
        let cancelled = self.cancelled.drain(..);
        done.extend(cancelled.map(|tag| FileCompletion { tag, result: Err(FileError::Cancelled) }));
        let mut content = self.files.content.lock().unwrap();
        for (_, FileRequest { tag, call }) in self.taken.extract_if(.., |(due, _)| *due <= now) {
            done.push(FileCompletion { tag, result: content.call(self.core, call) });
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.taken.iter().map(|(due, _)| *due).min()
    }
}

impl Drop for MemoryQueue {
    fn drop(&mut self) {
        self.files.content.lock().unwrap().queues -= 1;
    }
}

/// What stands where no queue is.
struct NoFiles;

impl FileQueue for NoFiles {
    fn submit(&mut self, _: Instant, request: FileRequest) -> Result<(), FileRequest> {
        Err(request)
    }

    fn cancel(&mut self, _: Tag) {}

    fn poll(&mut self, _: Instant, _: &mut Vec<FileCompletion>) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// A file system that is served.
#[derive(Debug, Clone)]
pub(super) struct ServedFiles {
    pub(super) id: ServedId,
    pub(super) name: Arc<str>,
    pub(super) files: Arc<FileSystem>,
}

/// Files that are opened, read, appended to and committed.
#[derive(Debug)]
pub(super) struct FileKind;

impl ServedKind for FileKind {
    type Served = ServedFiles;
    type Queue = Box<dyn FileQueue>;
    type Request = FileRequest;
    type Completion = FileCompletion;
    type Error = FileError;

    const WITHDRAWN: &'static str = "a file system in use is not served any more";

    fn id(served: &ServedFiles) -> ServedId {
        served.id
    }

    fn name(served: &ServedFiles) -> &Arc<str> {
        &served.name
    }

    fn open(served: &ServedFiles, context: &QueueContext) -> Result<Self::Queue, OpenError> {
        if context.core >= served.files.cores {
            return Err(OpenError::new("it has no queue for this core"));
        }
        served.files.content.lock().unwrap().queues += 1;
        let (files, taken, cancelled) = (Arc::clone(&served.files), Vec::new(), Vec::new());
        Ok(Box::new(MemoryQueue { files, core: context.core, taken, cancelled }))
    }

    fn refusal(served: &ServedFiles, error: OpenError) -> ProposalError {
        ProposalError::Volume { volume: Arc::clone(&served.name), error }
    }

    fn no_queue() -> Self::Queue {
        Box::new(NoFiles)
    }

    fn last(served: &ServedFiles, tag: Tag) -> Option<FileRequest> {
        (!served.files.is_read_only).then_some(FileRequest { tag, call: Call::Commit })
    }

    fn submit(queue: &mut Self::Queue, now: Instant, request: FileRequest) -> Result<(), FileRequest> {
        queue.submit(now, request)
    }

    fn cancel(queue: &mut Self::Queue, tag: Tag) {
        queue.cancel(tag);
    }

    fn poll(queue: &mut Self::Queue, now: Instant, done: &mut Vec<FileCompletion>) {
        queue.poll(now, done);
    }

    fn poll_timeout(queue: &Self::Queue) -> Option<Instant> {
        queue.poll_timeout()
    }

    fn cancelled(request: FileRequest) -> FileCompletion {
        FileCompletion { tag: request.tag, result: Err(FileError::Cancelled) }
    }

    fn error(completion: &FileCompletion) -> Option<FileError> {
        completion.result.as_ref().err().copied()
    }

    fn telling(error: FileError) -> Option<Telling> {
        match error {
            FileError::Cancelled => None,
            FileError::BadHandle => Some(Telling { kind: Kind::Io, level: Level::Debug }),
            FileError::Full => Some(Telling { kind: Kind::NoSpace, level: Level::Error }),
        }
    }
}
