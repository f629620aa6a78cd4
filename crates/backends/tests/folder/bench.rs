//! A folder that is served, and requests one after the other.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::Thread;

use backends::{Folder, FolderMode};
use buf::{Buf, SharedBuf};
use filesystem::{
    CoreId, CreateHow, Credentials, FileErrorKind, FileHandle, FileSystem, FileSystemQueue, Name, NewObject,
    Object, Operation, Outcome, QueueContext, Removal, Request, SetAttributes, Stability, Tag,
};
use host::VolumeState;
use protocol::{Instant, SeededEntropy};
use reactor::SystemTree;

use crate::poor_tree::PoorTree;

/// Serves a folder, with what was kept of it, as whoever runs the tests may: as root by the kernel's handles, otherwise by the table of places.
pub(crate) fn serve(path: &Path, state: &VolumeState, seed: u64) -> Result<Folder, filesystem::OpenError> {
    let tree = Arc::new(SystemTree::open(path).unwrap());
    Folder::open(tree, FolderMode::ReadWrite, state, &mut SeededEntropy::new(seed))
}

/// Serves a folder as a server that is not root.
pub(crate) fn serve_as_user(path: &Path, state: &VolumeState, seed: u64) -> Folder {
    let tree = Arc::new(PoorTree::new(SystemTree::open(path).unwrap(), false));
    Folder::open(tree, FolderMode::ReadWrite, state, &mut SeededEntropy::new(seed)).unwrap()
}

struct Bell(Thread, AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::SeqCst);
        self.0.unpark();
    }
}

pub(crate) struct Bench {
    pub(crate) root: FileHandle,
    pub(crate) system: Arc<dyn FileSystem>,
    /// In whose name requests are made.
    pub(crate) caller: Credentials,
    queue: Box<dyn FileSystemQueue>,
    /// The clock.
    pub(crate) now: Instant,
}

pub(crate) type Answer<R> = Result<R, FileErrorKind>;

pub(crate) fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

impl Bench {
    pub(crate) fn new(folder: Folder) -> Self {
        let bell = Arc::new(Bell(std::thread::current(), AtomicBool::new(false)));
        let system: Arc<dyn FileSystem> = Arc::new(folder);
        let queue = system.open_queue(&QueueContext::without_pool(CoreId(0), Waker::from(bell))).unwrap();
        Self { root: system.root(), system, caller: Credentials::of(0, 0), queue, now: Instant::ZERO }
    }

    pub(crate) fn serving(path: &Path) -> Self {
        Self::new(serve(path, &VolumeState::ephemeral(), 1).unwrap())
    }

    pub(crate) fn run(&mut self, operation: Operation) -> Answer<Outcome> {
        let now = self.now;
        let request = Request { tag: Tag(1), credentials: Arc::new(self.caller.clone()), operation };
        self.queue.submit(now, request).unwrap();
        let mut done = Vec::new();
        loop {
            self.queue.poll(now, &mut done);
            if let Some(completion) = done.pop() {
                return completion.outcome();
            }
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
    }

    pub(crate) fn lookup(&mut self, directory: FileHandle, text: &str) -> Answer<Object> {
        match self.run(Operation::Lookup { directory, name: name(text) })? {
            Outcome::Found(object) => Ok(*object),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn make(
        &mut self,
        directory: FileHandle,
        text: &str,
        object: NewObject,
    ) -> Answer<FileHandle> {
        let (object, attributes) = (Box::new(object), Box::new(SetAttributes::mode(0o755)));
        match self.run(Operation::Make { directory, name: name(text), object, attributes })? {
            Outcome::Created(created) => Ok(created.object.handle),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn create(&mut self, directory: FileHandle, text: &str) -> Answer<FileHandle> {
        let how = Box::new(CreateHow::Guarded(SetAttributes::mode(0o644)));
        match self.run(Operation::Create { directory, name: name(text), how, open: None })? {
            Outcome::Created(created) => Ok(created.object.handle),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn write(&mut self, file: FileHandle, offset: u64, bytes: &[u8]) -> Answer<()> {
        let data = SharedBuf::from(bytes.to_vec()).into();
        self.run(Operation::Write { file: file.into(), offset, data, stability: Stability::Unstable })
            .map(drop)
    }

    pub(crate) fn read(&mut self, file: FileHandle, offset: u64, len: usize) -> Answer<Vec<u8>> {
        match self.run(Operation::Read { file: file.into(), offset, into: Buf::zeroed(len) })? {
            Outcome::Data { data, .. } => Ok(data.into_one().to_vec()),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn rename(&mut self, directory: FileHandle, from: &str, to: &str) -> Answer<()> {
        let (from, to) = (name(from), name(to));
        self.run(Operation::Rename { from_directory: directory, from, to_directory: directory, to }).map(drop)
    }

    pub(crate) fn remove(&mut self, directory: FileHandle, text: &str) -> Answer<()> {
        self.run(Operation::Remove { directory, name: name(text), removal: Removal::Any }).map(drop)
    }
}
