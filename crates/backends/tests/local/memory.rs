//! Files in memory behind the host's traits: operations end in a seeded order, and what direct I/O forbids is an error.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use host::{
    BlockDone, BlockFile, BlockInfo, BlockKind, BlockOperation, BlockQueue, BlockRequest, IoError, OpenMode,
    OpenOptions, Storage,
};
use protocol::{Entropy, SeededEntropy};

const INVALID: IoError = IoError(22);
const NOT_SUPPORTED: IoError = IoError(95);
/// What the file system allocates at a time.
const UNIT: u64 = 4096;
/// Operations that a queue has room for.
const ROOM: usize = 6;

/// What a file is made to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nature {
    pub(crate) info: BlockInfo,
    /// Zeroing and releasing are claimed, but turn out not to work.
    pub(crate) zero_fails: bool,
}

pub(crate) const FILE: Nature = Nature {
    info: BlockInfo {
        kind: BlockKind::File,
        size: 0,
        alignment: 1,
        logical_block: 512,
        physical_block: 4096,
        can_discard: true,
        can_zero: true,
        page_cache: true,
    },
    zero_fails: false,
};

/// A file in memory.
#[derive(Debug)]
pub(crate) struct MemoryFile {
    nature: Nature,
    content: Arc<Mutex<Content>>,
    seed: Mutex<u64>,
}

#[derive(Debug)]
pub(crate) struct Content {
    bytes: Vec<u8>,
    mapped: Vec<bool>,
    /// Writes since the last flush that were not durable.
    pub(crate) volatile: usize,
    /// The error that every operation from now on ends with.
    pub(crate) broken: Option<IoError>,
    /// The error that the next operation of a kind ends with, and no other: the system tells it once.
    pub(crate) told_once: Option<(Kind, IoError)>,
    /// Operations carried out, in order.
    pub(crate) carried_out: Vec<Kind>,
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    DurableWrite,
    Flush,
    Discard,
    Zero,
    Seek,
}

impl Kind {
    fn of(operation: &BlockOperation) -> Self {
        match operation {
            BlockOperation::Read { .. } => Self::Read,
            BlockOperation::Write { durable: false, .. } => Self::Write,
            BlockOperation::Write { durable: true, .. } => Self::DurableWrite,
            BlockOperation::Flush => Self::Flush,
            BlockOperation::Discard { .. } => Self::Discard,
            BlockOperation::Zero { .. } => Self::Zero,
            BlockOperation::Seek { .. } => Self::Seek,
        }
    }
}

impl MemoryFile {
    pub(crate) fn new(size: u64, nature: Nature) -> Self {
        let mut nature = nature;
        nature.info.size = size;
        let mapped = vec![false; usize::try_from(size.div_ceil(UNIT)).unwrap()];
        let bytes = vec![0; usize::try_from(size).unwrap()];
        let (told_once, carried_out) = (None, Vec::new());
        let content = Content { bytes, mapped, volatile: 0, broken: None, told_once, carried_out };
        Self { nature, content: Arc::new(Mutex::new(content)), seed: Mutex::new(11) }
    }

    /// Cuts it, or makes it longer.
    pub(crate) fn truncate(&self, size: u64) {
        let mut content = self.content();
        content.bytes.resize(usize::try_from(size).unwrap(), 0);
        content.mapped.resize(usize::try_from(size.div_ceil(UNIT)).unwrap(), false);
    }

    pub(crate) fn content(&self) -> std::sync::MutexGuard<'_, Content> {
        self.content.lock().unwrap()
    }
}

impl BlockFile for MemoryFile {
    fn info(&self) -> BlockInfo {
        let size = u64::try_from(self.content().bytes.len()).unwrap();
        BlockInfo { size, ..self.nature.info }
    }

    fn open_queue(&self, waker: Waker) -> Result<Box<dyn BlockQueue>, IoError> {
        let mut seed = self.seed.lock().unwrap();
        *seed += 1;
        Ok(Box::new(MemoryQueue {
            nature: self.nature,
            content: Arc::clone(&self.content),
            pending: Vec::new(),
            entropy: SeededEntropy::new(*seed),
            waker,
        }))
    }
}

struct MemoryQueue {
    nature: Nature,
    content: Arc<Mutex<Content>>,
    pending: Vec<BlockRequest>,
    entropy: SeededEntropy,
    waker: Waker,
}

impl MemoryQueue {
    fn is_aligned(&self, offset: u64, pieces: &[&[u8]]) -> bool {
        let alignment = self.nature.info.alignment as usize;
        offset.is_multiple_of(alignment as u64)
            && pieces.iter().all(|piece| {
                piece.as_ptr().addr().is_multiple_of(alignment) && piece.len().is_multiple_of(alignment)
            })
    }

    fn carry_out(&self, request: BlockRequest) -> BlockDone {
        let mut content = self.content.lock().unwrap();
        let mut done = BlockDone { tag: request.tag, result: Ok(()), data: None, run: None };
        let kind = Kind::of(&request.operation);
        content.carried_out.push(kind);
        let once = content.told_once.take_if(|(told, _)| *told == kind);
        if let Some(error) = content.broken.or(once.map(|(_, error)| error)) {
            done.result = Err(error);
            if let BlockOperation::Read { into, .. } = request.operation {
                done.data = Some(into.freeze());
            }
            return done;
        }
        match request.operation {
            BlockOperation::Read { offset, mut into } => {
                if self.is_aligned(offset, &[&into]) {
                    let from = usize::try_from(offset).unwrap();
                    let len = into.len();
                    into.copy_from_slice(&content.bytes[from..from + len]);
                } else {
                    done.result = Err(INVALID);
                }
                done.data = Some(into.freeze());
            }
            BlockOperation::Write { offset, data, durable } => {
                let pieces: Vec<&[u8]> = data.pieces().iter().map(|piece| &piece[..]).collect();
                if self.is_aligned(offset, &pieces) {
                    let from = usize::try_from(offset).unwrap();
                    data.copy_to(&mut content.bytes[from..from + data.len()]);
                    content.map(offset, data.len() as u64, true);
                    content.volatile += usize::from(!durable);
                } else {
                    done.result = Err(INVALID);
                }
            }
            BlockOperation::Flush => content.volatile = 0,
            BlockOperation::Discard { .. } | BlockOperation::Zero { .. } if self.nature.zero_fails => {
                done.result = Err(NOT_SUPPORTED);
            }
            BlockOperation::Discard { offset, len } => {
                content.zero(offset, len, true);
                content.volatile += 1;
            }
            BlockOperation::Zero { offset, len } => {
                content.zero(offset, len, false);
                content.volatile += 1;
            }
            BlockOperation::Seek { offset } => done.run = Some(content.run(offset)),
        }
        done
    }
}

impl Content {
    fn map(&mut self, offset: u64, len: u64, mapped: bool) {
        let first = usize::try_from(offset / UNIT).unwrap();
        let end = usize::try_from((offset + len).div_ceil(UNIT)).unwrap();
        self.mapped[first..end].fill(mapped);
    }

    fn zero(&mut self, offset: u64, len: u64, release: bool) {
        let from = usize::try_from(offset).unwrap();
        self.bytes[from..from + usize::try_from(len).unwrap()].fill(0);
        let (first, end) = (offset.div_ceil(UNIT) * UNIT, (offset + len) / UNIT * UNIT);
        if release && first < end {
            self.map(first, end - first, false);
        }
    }

    fn run(&self, offset: u64) -> (u64, bool) {
        let first = usize::try_from(offset / UNIT).unwrap();
        let mapped = self.mapped[first];
        let units = self.mapped[first..].iter().take_while(|unit| **unit == mapped).count() as u64;
        let end = ((offset / UNIT + units) * UNIT).min(self.bytes.len() as u64);
        (end - offset, mapped)
    }
}

impl BlockQueue for MemoryQueue {
    fn submit(&mut self, request: BlockRequest) -> Result<(), BlockRequest> {
        if self.pending.len() >= ROOM {
            return Err(request);
        }
        let flushes = |request: &BlockRequest| matches!(request.operation, BlockOperation::Flush);
        let asked_twice = flushes(&request) && self.pending.iter().any(flushes);
        assert!(
            !asked_twice,
            "a queue flushes while it flushes: the system tells one of the two that data is lost"
        );
        self.pending.push(request);
        self.waker.wake_by_ref();
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<BlockDone>) {
        let most = self.pending.len() as u64;
        let ending = if most == 0 { 0 } else { self.entropy.number() % (most + 1) };
        for _ in 0..ending {
            let index = self.entropy.number() % self.pending.len() as u64;
            let request = self.pending.swap_remove(usize::try_from(index).unwrap());
            done.push(self.carry_out(request));
        }
        if !self.pending.is_empty() {
            self.waker.wake_by_ref();
        }
    }
}

/// Folders and files, by path.
#[derive(Debug, Default)]
pub(crate) struct MemoryStorage {
    pub(crate) files: Mutex<HashMap<String, Arc<MemoryFile>>>,
    /// How each file was opened.
    pub(crate) opened: Mutex<Vec<OpenOptions>>,
}

impl Storage for MemoryStorage {
    fn open(&self, path: &str, options: OpenOptions) -> Result<Arc<dyn BlockFile>, IoError> {
        self.opened.lock().unwrap().push(options);
        let mut files = self.files.lock().unwrap();
        if let Some(file) = files.get(path) {
            return Ok(Arc::<MemoryFile>::clone(file));
        }
        let size = options.size.filter(|_| options.mode == OpenMode::ReadWrite).ok_or(IoError(2))?;
        let mut nature = FILE;
        (nature.info.alignment, nature.info.page_cache) =
            if options.direct { (4096, false) } else { (1, true) };
        let file = Arc::new(MemoryFile::new(size, nature));
        files.insert(path.to_owned(), Arc::clone(&file));
        Ok(file)
    }
}
