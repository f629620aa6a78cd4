//! Opens a cache on a core: its two volumes, then what the fast one holds. A blank one is formatted; a cache of another volume, and anything else, is refused.
//!
//! The superblock says that the cache is in use before the volume exists. It says so until the cache is detached: whoever finds it so believes only what the map has
//! as dirty.

use std::collections::VecDeque;
use std::sync::Arc;

use buf::{Buf, BufList};
use protocol::Instant;
use volume::{
    CacheMode, Completion, Durability, Extent, Features, OpenError, Opened, Opening, Operation, Outcome,
    QueueContext, QueueFull, Request, Tag, Volume, VolumeQueue,
};

use crate::directory::{Directory, SlotId};
use crate::layout::Layout;
use crate::limits::{NAME, OPEN_TRANSFER};
use crate::map_block::{self, Entry, Place};
use crate::options::Options;
use crate::page_set::PageSet;
use crate::shared::Shared;
use crate::state::State;
use crate::superblock::{Found, Superblock};
use crate::volume::Cache;

/// What is opened in place of a child that is open already, for tests and programs that have volumes in hand.
enum Child {
    Opening(Box<dyn Opening>),
    Open(Arc<dyn Volume>),
    /// It has failed, and that was told.
    Failed,
}

impl Child {
    fn poll(&mut self, now: Instant, role: &str) -> Result<Option<Arc<dyn Volume>>, OpenError> {
        match self {
            Self::Open(volume) => Ok(Some(Arc::clone(volume))),
            Self::Failed => Ok(None),
            Self::Opening(opening) => match opening.poll(now) {
                None => Ok(None),
                Some(Ok(volume)) => {
                    *self = Self::Open(Arc::clone(&volume));
                    Ok(Some(volume))
                }
                Some(Err(error)) => {
                    *self = Self::Failed;
                    Err(OpenError::new(format!("the {role} volume of the cache: {error}"))
                        .at(error.stage())
                        .because(error))
                }
            },
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Opening(opening) => opening.poll_timeout(),
            Self::Open(_) | Self::Failed => None,
        }
    }
}

/// A cache that is being opened.
pub(crate) struct CacheOpening {
    fast: Child,
    capacity: Child,
    options: Options,
    /// The number of a cache that is formatted.
    cache: u64,
    context: QueueContext,
    stage: Stage,
}

enum Stage {
    Children,
    Loading(Box<Loading>),
    Over,
}

impl CacheOpening {
    /// Opens the two volumes, and then a cache of them. `cache` is a random number.
    pub(crate) fn new(
        fast: Box<dyn Opening>,
        capacity: Box<dyn Opening>,
        options: Options,
        cache: u64,
        context: QueueContext,
    ) -> Self {
        Self {
            fast: Child::Opening(fast),
            capacity: Child::Opening(capacity),
            options,
            cache,
            context,
            stage: Stage::Children,
        }
    }

    fn advance(&mut self, now: Instant) -> Result<Option<Cache>, OpenError> {
        if matches!(self.stage, Stage::Children) {
            let (fast, capacity) = (self.fast.poll(now, "fast")?, self.capacity.poll(now, "capacity")?);
            let (Some(fast), Some(capacity)) = (fast, capacity) else { return Ok(None) };
            let loading = Loading::new(fast, capacity, self.options, self.cache, &self.context)?;
            self.stage = Stage::Loading(Box::new(loading));
        }
        match &mut self.stage {
            Stage::Loading(loading) => loading.poll(now),
            Stage::Children | Stage::Over => Ok(None),
        }
    }
}

impl Opening for CacheOpening {
    fn poll(&mut self, now: Instant) -> Option<Opened> {
        let opened = match self.advance(now) {
            Ok(None) => return None,
            Ok(Some(cache)) => Ok(Arc::new(cache) as Arc<dyn Volume>),
            Err(error) => Err(error),
        };
        self.stage = Stage::Over;
        Some(opened)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Children => {
                [self.fast.poll_timeout(), self.capacity.poll_timeout()].into_iter().flatten().min()
            }
            Stage::Loading(loading) => loading.queue.poll_timeout(),
            Stage::Over => None,
        }
    }
}

/// What is done to the fast volume, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    ReadSuperblock { second: bool },
    ReadMap { first: u32 },
    WriteMap { first: u32 },
    FlushMap,
    WriteSuperblock,
    FlushSuperblock,
}

/// Reads or formats the fast volume.
pub(crate) struct Loading {
    fast: Arc<dyn Volume>,
    capacity: Arc<dyn Volume>,
    options: Options,
    cache: u64,
    queue: Box<dyn VolumeQueue>,
    step: Step,
    asked: bool,
    waiting: VecDeque<Request>,
    first: Found,
    /// The fast volume's path before anything was read.
    path: u64,
    /// What is known once the superblocks are.
    known: Option<Known>,
    #[cfg(test)]
    pub(crate) planted: crate::planted::Planted,
}

struct Known {
    layout: Layout,
    superblock: Superblock,
    directory: Directory,
}

/// The tag of the one request under way.
const TAG: Tag = Tag(0);

impl Loading {
    pub(crate) fn new(
        fast: Arc<dyn Volume>,
        capacity: Arc<dyn Volume>,
        options: Options,
        cache: u64,
        context: &QueueContext,
    ) -> Result<Self, OpenError> {
        if fast.features().contains(Features::READ_ONLY) {
            return Err(OpenError::new(
                "the fast volume of a cache must be writable: take readonly+ away from it, or take another",
            ));
        }
        if options.mode == CacheMode::Back && capacity.features().contains(Features::READ_ONLY) {
            return Err(OpenError::new(
                "the capacity volume cannot be written, so that nothing can be written back to it: take mode=back away, or readonly+",
            ));
        }
        let path = fast.changes().path;
        let queue = fast.open_queue(context)?;
        Ok(Self {
            fast,
            capacity,
            options,
            cache,
            queue,
            step: Step::ReadSuperblock { second: false },
            asked: false,
            waiting: VecDeque::new(),
            first: Found::Blank,
            path,
            known: None,
            #[cfg(test)]
            planted: crate::planted::Planted::default(),
        })
    }

    /// The cache, once everything is done.
    pub(crate) fn poll(&mut self, now: Instant) -> Result<Option<Cache>, OpenError> {
        let mut done = Vec::new();
        loop {
            if !self.asked {
                self.ask()?;
            }
            while let Some(request) = self.waiting.pop_front() {
                if let Err(QueueFull(request)) = self.queue.submit(now, request) {
                    self.waiting.push_front(request);
                    break;
                }
            }
            self.queue.poll(now, &mut done);
            let Some(Completion { result, .. }) = done.pop() else { return Ok(None) };
            self.asked = false;
            let outcome = result.map_err(|failure| {
                OpenError::new(format!(
                    "the fast volume of the cache fails while the cache is opened: {}; check it, or use the capacity volume by itself",
                    failure.kind
                ))
            })?;
            let data = match outcome {
                Outcome::Data(data) => data,
                _ => BufList::new(),
            };
            if let Some(next) = self.landed(&data)? {
                self.step = next;
                continue;
            }
            return self.finish().map(Some);
        }
    }

    fn block(&self) -> u64 {
        u64::from(self.fast.geometry().block_size)
    }

    /// Blocks of the map that are read or written in one piece from `first`.
    fn run(&self, first: u32) -> u32 {
        let blocks = self.known.as_ref().map_or(0, |known| known.layout.map_blocks);
        let bytes = OPEN_TRANSFER.min(u64::from(self.fast.limits().max_transfer));
        wire::bounded::<u32>((bytes / self.block()).max(1)).min(blocks.saturating_sub(first))
    }

    fn ask(&mut self) -> Result<(), OpenError> {
        let block = wire::index(self.block());
        let read = |start, blocks: u32| {
            let into = Buf::zeroed(wire::index(u64::from(blocks)) * block);
            Operation::Read { extent: Extent::new(start, u64::from(blocks)), into }
        };
        let write = |start, bytes: Vec<u8>, durability| {
            let extent = Extent::new(start, wire::widen(bytes.len() / block));
            Operation::Write { extent, data: Buf::from(bytes).freeze().into(), durability }
        };
        let lost = || OpenError::new("the cache lost its place while it was opened: open it again");
        let operation = match self.step {
            Step::ReadSuperblock { second: false } => read(0, 1),
            Step::ReadSuperblock { second: true } => read(crate::layout::SUPERBLOCK_SPACE / self.block(), 1),
            Step::ReadMap { first } => {
                let layout = self.known.as_ref().ok_or_else(lost)?.layout;
                read(layout.map_block(first), self.run(first))
            }
            Step::WriteMap { first } => {
                let known = self.known.as_ref().ok_or_else(lost)?;
                let mut bytes = Vec::new();
                for index in first..first + self.run(first) {
                    let entries = known.layout.slots_of(index).map(|_| Entry::EMPTY);
                    let place = Place { cache: known.superblock.cache, index };
                    bytes.extend(map_block::encode(place, 0, entries, block));
                }
                write(known.layout.map_block(first), bytes, Durability::Cached)
            }
            Step::WriteSuperblock => {
                let known = self.known.as_ref().ok_or_else(lost)?;
                let second = !known.superblock.sequence.is_multiple_of(2);
                write(known.layout.superblock(second), known.superblock.encode(block), Durability::Durable)
            }
            Step::FlushMap | Step::FlushSuperblock => Operation::Flush,
        };
        self.waiting.push_back(Request { tag: TAG, operation });
        self.asked = true;
        Ok(())
    }

    /// What comes after a step; `None` when all is done.
    fn landed(&mut self, data: &BufList) -> Result<Option<Step>, OpenError> {
        let bytes = data.clone().into_one();
        Ok(Some(match self.step {
            Step::ReadSuperblock { second: false } => {
                self.first = Superblock::decode(&bytes);
                Step::ReadSuperblock { second: true }
            }
            Step::ReadSuperblock { second: true } => {
                let second = Superblock::decode(&bytes);
                self.recognise(second)?
            }
            Step::ReadMap { first } => {
                self.load(first, &bytes)?;
                self.next_of_map(first).map_or_else(|| self.begin_use(), |first| Step::ReadMap { first })
            }
            Step::WriteMap { first } => {
                self.next_of_map(first).map_or(Step::FlushMap, |first| Step::WriteMap { first })
            }
            Step::FlushMap => self.begin_use(),
            Step::WriteSuperblock => Step::FlushSuperblock,
            Step::FlushSuperblock => return Ok(None),
        }))
    }

    fn next_of_map(&self, first: u32) -> Option<u32> {
        let next = first + self.run(first);
        self.known.as_ref().is_some_and(|known| next < known.layout.map_blocks).then_some(next)
    }

    /// Both superblocks are read: a blank volume is formatted, a cache of this capacity volume is loaded.
    fn recognise(&mut self, second: Found) -> Result<Step, OpenError> {
        let first = core::mem::replace(&mut self.first, Found::Blank);
        let damaged =
            [&first, &second].into_iter().any(|found| matches!(found, Found::Damaged | Found::Foreign));
        let mut superblock = match (first, second) {
            (Found::Version(version), _) | (_, Found::Version(version)) => {
                return Err(OpenError::new(format!(
                    "the fast volume holds a cache of layout {version}, which a later program has made: open it with that one"
                )));
            }
            (Found::Superblock(one), Found::Superblock(two)) => {
                if one.sequence > two.sequence {
                    one
                } else {
                    two
                }
            }
            (Found::Superblock(one), _) | (_, Found::Superblock(one)) => one,
            (Found::Blank, Found::Blank) => return self.format(),
            (Found::Damaged, _) | (_, Found::Damaged) => {
                return Err(OpenError::new(
                    "the superblocks of the cache on the fast volume are damaged: if it was used with mode=back, what was not written back is lost; write \
                     zeros over its first 8 KiB to begin anew",
                ));
            }
            (Found::Foreign, _) | (_, Found::Foreign) => {
                return Err(OpenError::new(
                    "the fast volume holds something that is no cache, and is not overwritten: take another, or write zeros over its first 8 KiB if it is not needed",
                ));
            }
        };
        // The one that is damaged may have been the later one.
        superblock.clean &= !damaged;
        #[cfg(test)]
        if self.planted == crate::planted::Planted::TrustsCleanCopies {
            superblock.clean = true;
        }
        self.check(&superblock)?;
        let layout = Layout::new(self.fast.geometry(), self.capacity.geometry(), u64::from(superblock.line))?;
        if (layout.page, layout.slots, layout.ways) != (superblock.page, superblock.slots, superblock.ways) {
            return Err(OpenError::new(format!(
                "the cache was made for a fast volume of {} lines, and this one has room for {}: give it the size and the block size that it had",
                superblock.slots, layout.slots
            )));
        }
        let directory = Directory::new(layout.slots, layout.ways);
        self.known = Some(Known { layout, superblock, directory });
        Ok(Step::ReadMap { first: 0 })
    }

    /// Sees that a cache is of this capacity volume, and is what was asked for.
    fn check(&self, superblock: &Superblock) -> Result<(), OpenError> {
        let geometry = self.capacity.geometry();
        let name = name_of(&*self.capacity);
        let other =
            !superblock.capacity_name.is_empty() && !name.is_empty() && superblock.capacity_name != name;
        if other || superblock.page != geometry.block_size || superblock.capacity_blocks > geometry.blocks {
            let told = |name: &str| {
                if name.is_empty() { "a volume without a name".to_owned() } else { name.to_owned() }
            };
            return Err(OpenError::new(format!(
                "the cache on the fast volume belongs to another capacity volume: to {} with {} blocks of {} bytes, and this is {} with {} of {}; \
                 open it with its own, or write zeros over the first 8 KiB of the fast volume to begin anew",
                told(&superblock.capacity_name),
                superblock.capacity_blocks,
                superblock.page,
                told(&name),
                geometry.blocks,
                geometry.block_size
            )));
        }
        match self.options.line {
            Some(line) if line != u64::from(superblock.line) => Err(OpenError::new(format!(
                "the cache has lines of {} bytes: leave line= out, or write zeros over the first 8 KiB of the fast volume to begin anew",
                superblock.line
            ))),
            _ => Ok(()),
        }
    }

    fn format(&mut self) -> Result<Step, OpenError> {
        let capacity = self.capacity.geometry();
        let layout = Layout::new(self.fast.geometry(), capacity, self.options.line_or_default())?;
        let superblock = Superblock {
            sequence: 0,
            cache: self.cache,
            line: layout.line,
            page: layout.page,
            slots: layout.slots,
            ways: layout.ways,
            capacity_blocks: capacity.blocks,
            capacity_name: name_of(&*self.capacity),
            clean: false,
            may_be_dirty: false,
        };
        let directory = Directory::new(layout.slots, layout.ways);
        self.known = Some(Known { layout, superblock, directory });
        Ok(Step::WriteMap { first: 0 })
    }

    /// Takes over a run of map blocks.
    fn load(&mut self, first: u32, bytes: &[u8]) -> Result<(), OpenError> {
        let block = wire::index(self.block());
        let Some(Known { layout, superblock, directory }) = &mut self.known else { return Ok(()) };
        let pages = PageSet::run(0, layout.pages());
        for (index, bytes) in (first..).zip(bytes.chunks(block)) {
            let slots = layout.slots_of(index);
            let place = Place { cache: superblock.cache, index };
            let damage = match map_block::decode(bytes, place, slots.len(), pages) {
                Ok(read) => {
                    let mut sound = true;
                    for (slot, entry) in slots.zip(read.entries) {
                        sound &= directory.load(SlotId(slot), believed(entry, superblock));
                    }
                    (!sound).then_some("it has lines where they cannot be")
                }
                Err(damage) => Some(damage.text()),
            };
            if let Some(damage) = damage.filter(|_| superblock.may_be_dirty) {
                return Err(OpenError::new(format!(
                    "block {} of the fast volume, of the cache's map, cannot be believed: {damage}. It may have had the only copy of what was written; restore it, \
                     or give that up: write zeros over the first 8 KiB of the fast volume to begin anew",
                    layout.map_block(index)
                )));
            }
        }
        Ok(())
    }

    /// The superblock is to say that the cache is in use.
    fn begin_use(&mut self) -> Step {
        if let Some(Known { superblock, directory, .. }) = &mut self.known {
            superblock.sequence += 1;
            superblock.clean = false;
            superblock.may_be_dirty = self.options.mode == CacheMode::Back || directory.dirty_pages() > 0;
            superblock.capacity_blocks = self.capacity.geometry().blocks;
        }
        Step::WriteSuperblock
    }

    fn finish(&mut self) -> Result<Cache, OpenError> {
        let Some(Known { layout, superblock, directory }) = self.known.take() else {
            return Err(OpenError::new("the cache lost its place while it was opened: open it again"));
        };
        let transfer = self.fast.limits().max_transfer.min(self.capacity.limits().max_transfer);
        if transfer < layout.line {
            return Err(OpenError::new(format!(
                "a line of {} bytes is longer than the {transfer} bytes that both volumes take at once: give a smaller line=",
                layout.line
            )));
        }
        let mut state = State::new(layout, self.options, superblock, directory);
        state.trusted_path = self.path;
        let shared = Shared::new(Arc::clone(&self.fast), Arc::clone(&self.capacity), state);
        Ok(Cache { shared: Arc::new(shared) })
    }
}

/// What of an entry holds: all of it if the cache was left in order, otherwise what is dirty.
fn believed(entry: Entry, superblock: &Superblock) -> Entry {
    if superblock.clean { entry } else { Entry { valid: entry.dirty, ..entry } }
}

/// What a volume says of itself, in a few words; empty if nothing.
fn name_of(volume: &dyn Volume) -> String {
    let Some(identity) = volume.identity() else { return String::new() };
    let named = identity.designators.first().map(|name| format!("{} {name}", name.kind()));
    let mut name = named.unwrap_or(identity.serial);
    while name.len() > NAME {
        name.pop();
    }
    name
}
