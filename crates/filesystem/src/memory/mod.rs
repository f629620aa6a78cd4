//! A file system in memory, bounded in bytes and objects: for tests and simulation, and for what need not outlive the process.
//!
//! It has the semantics of a disk that loses its power. [`Memory::crash`] takes, page by page, what was written and neither committed nor written durably;
//! operations on names and attributes are durable when they are answered. Everything is behind one lock, which is held for one operation at a time.

mod attributes;
mod content;
mod data;
mod inode;
mod namespace;
mod options;
mod queue;
mod state;

use std::sync::{Arc, Mutex};

use protocol::Entropy;

use crate::limits::{DEPTH, FILE_SIZE, LINK_BYTES, LINKS, NAME_BYTES, TRANSFER};
use crate::{
    Features, FileHandle, FileSystem, FileSystemQueue, Identity, Limits, OpenError, QueueContext, Statistics,
    Time,
};
pub use options::MemoryOptions;
use queue::MemoryQueue;
use state::{ROOT, State, lock};

/// The file system.
#[derive(Debug)]
pub struct Memory {
    root: FileHandle,
    state: Arc<Mutex<State>>,
}

impl Memory {
    /// An empty one.
    pub fn new(options: MemoryOptions) -> Self {
        let state = State::new(options);
        // The root is there from the beginning.
        let root = state.handle_of(ROOT).unwrap_or_else(|_| FileHandle::from([0; 16]));
        Self { root, state: Arc::new(Mutex::new(state)) }
    }

    /// The machine loses its power and comes back: everything is closed, and what is not durable is lost or not, as `entropy` has it. Queues
    /// go on, as those of the next process.
    pub fn crash(&self, entropy: &mut dyn Entropy) {
        lock(&self.state).crash(entropy);
    }
}

impl FileSystem for Memory {
    fn identity(&self) -> Identity {
        Identity { place: "memory".to_owned(), fsid: lock(&self.state).fsid() }
    }

    fn limits(&self) -> Limits {
        Limits {
            depth: DEPTH,
            max_read: TRANSFER,
            max_write: TRANSFER,
            max_name: wire::saturate(NAME_BYTES),
            max_link_text: wire::saturate(LINK_BYTES),
            max_links: LINKS,
            max_file_size: FILE_SIZE,
            time_delta: Time { seconds: 0, nanos: 1 },
        }
    }

    fn features(&self) -> Features {
        Features::all() - Features::READ_ONLY - Features::PERSISTENT_HANDLES
    }

    fn statistics(&self) -> Statistics {
        lock(&self.state).statistics
    }

    fn root(&self) -> FileHandle {
        self.root
    }

    fn open_queue(&self, _context: &QueueContext) -> Result<Box<dyn FileSystemQueue>, OpenError> {
        Ok(Box::new(MemoryQueue::new(Arc::clone(&self.state), self.limits(), self.features())))
    }
}
