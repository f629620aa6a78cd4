//! What all queues of a cache share: the directory, locks, commits and counts, and what each step of a request does to them.
//!
//! The rules that keep data through a crash are here and in [`crate::commit`]:
//!
//! * After an end that was not in order, only what the map has as dirty is believed. So a clean copy needs no care: neither its insertion nor its removal writes the map.
//! * A page becomes dirty in memory once its data is on the fast volume, and dirty in the map only by a commit that has flushed the fast volume before.
//! * A slot whose pages the map may have as dirty is not given to another line ([`crate::directory`]).
//! * A page that is dirty is given up, in memory and so in the map, only once the capacity volume durably has that content or a newer one. Otherwise a capacity volume that
//!   loses what no flush has covered would answer what it had before the dirty page, which may have been flushed.
//! * When the fast volume has failed, nothing is written to the capacity volume that a dirty page there hides: should it come back, it must not bring older data.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use protocol::Instant;
use volume::{Allocation, CacheMode, CacheState, CacheStatus, Extent, VolumeErrorKind};

use crate::admission::Touched;
use crate::commit::{Commits, Need};
use crate::directory::{Directory, SlotId};
use crate::layout::Layout;
use crate::limits::TOLD_RANGES;
use crate::numbers::ByNumber;
use crate::options::Options;
use crate::page_set::PageSet;
use crate::plan::{Part, Piece, Pieces, lines, pages_of, parts};
use crate::range_locks::{Grant, LockMode, RangeLocks, Ticket};
use crate::superblock::Superblock;

/// How far detaching is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detach {
    No,
    /// What is dirty is written back before, or stays.
    Wanted {
        keeps_dirty: bool,
    },
    /// The two volumes are left, as far as they are caches themselves.
    Below,
    Done,
}

impl Detach {
    /// It was asked for, and is not done here.
    pub(crate) fn is_wanted(self) -> bool {
        matches!(self, Self::Wanted { .. })
    }
}

/// Writing back in the background: one queue does it at a time.
#[derive(Debug, Default)]
pub(crate) struct WriteBack {
    pub(crate) by: Option<u64>,
    /// Lines below this one come in the next round.
    pub(crate) cursor: u64,
    /// Not before this, as something failed.
    pub(crate) not_before: Option<Instant>,
    /// What failed.
    pub(crate) error: Option<String>,
}

/// What was counted since the cache was opened.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) insertions: u64,
    pub(crate) bypassed: u64,
    pub(crate) evictions: u64,
    pub(crate) written_back: u64,
}

/// A queue of the cache, as others see it.
#[derive(Debug)]
struct QueueEntry {
    id: u64,
    waker: Waker,
    grants: Vec<Ticket>,
    /// A flush of the capacity volume has failed that nobody asked for by a flush of this queue: its next one tells it.
    untold: Option<VolumeErrorKind>,
}

/// Which way a part of a write goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// To the fast volume; it becomes dirty.
    Back(SlotId),
    /// To the capacity volume, and to a slot that it lies in or is to lie in.
    Through(Option<SlotId>),
}

/// A part of a write and its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WritePart {
    pub(crate) part: Part,
    pub(crate) way: Route,
}

/// How the pieces of a write have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) fast: bool,
    /// The fast volume was reached in one way all the while.
    pub(crate) fast_stayed: bool,
    pub(crate) capacity: bool,
}

/// What a change still waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Waits {
    /// Dirty pages whose place it takes: they are given up after a flush of the capacity volume.
    pub(crate) flush: bool,
    /// It is durable only by a commit.
    pub(crate) commit: bool,
}

/// Whether a write or a read belongs to a stream that goes past the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    No,
    Passes,
}

/// Pages that are being put into a slot after they were read.
#[derive(Debug, Clone, Copy, Default)]
struct Insertion {
    /// Nothing else is written there meanwhile.
    pages: PageSet,
    /// Those that nobody has written on the capacity volume meanwhile.
    sound: PageSet,
}

/// What all queues share, under one lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) layout: Layout,
    pub(crate) options: Options,
    pub(crate) superblock: Superblock,
    pub(crate) directory: Directory,
    pub(crate) commits: Commits,
    locks: RangeLocks,
    touched: Touched,
    inserting: ByNumber<SlotId, Insertion>,
    /// Pages that are being written back and were not written since.
    writing_back: ByNumber<SlotId, PageSet>,
    queues: Vec<QueueEntry>,
    last_queue: u64,
    /// A failed flush that no queue is left to tell of.
    untold_left: Option<VolumeErrorKind>,
    /// Writes of all kinds that the capacity volume has completed, and how many of those a flush has covered.
    pub(crate) capacity_done: u64,
    pub(crate) capacity_flushed: u64,
    /// The last of them that somebody asked for: others are written again if they are lost.
    asked_done: u64,
    /// Flushes of the capacity volume that have failed: what was under way at one may be lost, though a later one succeeds in another queue.
    pub(crate) flush_failures: u64,
    /// A commit that takes pages out of the map which the capacity volume has newer data of.
    superseded: Option<Need>,
    /// Why the fast volume is not used any more.
    failed: Option<VolumeErrorKind>,
    /// The fast volume has certainly lost nothing up to this state of its path.
    pub(crate) trusted_path: u64,
    /// How often it has lost copies: what was planned before means nothing.
    pub(crate) fast_losses: u64,
    pub(crate) path_changes: u64,
    pub(crate) write_back: WriteBack,
    pub(crate) detach: Detach,
    /// Insertions and writes under way: what detaching waits for.
    pub(crate) changing: usize,
    pub(crate) counts: Counts,
    pub(crate) last_request: Instant,
    #[cfg(test)]
    pub(crate) planted: crate::planted::Planted,
}

impl State {
    pub(crate) fn new(
        layout: Layout,
        options: Options,
        superblock: Superblock,
        directory: Directory,
    ) -> Self {
        Self {
            layout,
            options,
            superblock,
            directory,
            commits: Commits::new(layout.map_blocks),
            locks: RangeLocks::default(),
            touched: Touched::new(options.admission, layout.slots),
            inserting: ByNumber::default(),
            writing_back: ByNumber::default(),
            queues: Vec::new(),
            last_queue: 0,
            untold_left: None,
            // Nobody knows what was written before.
            capacity_done: 1,
            capacity_flushed: 0,
            asked_done: 1,
            flush_failures: 0,
            superseded: None,
            failed: None,
            trusted_path: 0,
            fast_losses: 0,
            path_changes: 0,
            write_back: WriteBack::default(),
            detach: Detach::No,
            changing: 0,
            counts: Counts::default(),
            last_request: Instant::ZERO,
            #[cfg(test)]
            planted: crate::planted::Planted::default(),
        }
    }

    /// One more queue.
    pub(crate) fn add_queue(&mut self, waker: Waker) -> u64 {
        self.last_queue += 1;
        let untold = self.untold_left.take();
        self.queues.push(QueueEntry { id: self.last_queue, waker, grants: Vec::new(), untold });
        self.last_queue
    }

    /// A queue is gone. What it has not told of is told by all others, some of which may have come since, or else by the next one.
    pub(crate) fn remove_queue(&mut self, id: u64) {
        let untold = self.take_untold(id);
        self.queues.retain(|queue| queue.id != id);
        let Some(kind) = untold else { return };
        if self.queues.is_empty() {
            self.untold_left = Some(kind);
        }
        for queue in &mut self.queues {
            queue.untold.get_or_insert(kind);
        }
    }

    /// Wakes all queues: something has ended that any of them may wait for.
    pub(crate) fn wake_queues(&self) {
        self.queues.iter().for_each(|queue| queue.waker.wake_by_ref());
    }

    /// The tickets of a queue that were granted since it asked last.
    pub(crate) fn take_grants(&mut self, id: u64) -> Vec<Ticket> {
        let queue = self.queues.iter_mut().find(|queue| queue.id == id);
        queue.map(|queue| core::mem::take(&mut queue.grants)).unwrap_or_default()
    }

    /// Locks an extent; true if at once.
    pub(crate) fn enter(&mut self, queue: u64, extent: Extent, mode: LockMode) -> (Ticket, bool) {
        let end = extent.start.saturating_add(extent.blocks);
        self.locks.enter(queue, extent.start..end, mode)
    }

    /// Unlocks, and tells those who have waited.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        let mut grants = Vec::new();
        self.locks.leave(ticket, &mut grants);
        for Grant { queue, ticket } in grants {
            if let Some(queue) = self.queues.iter_mut().find(|entry| entry.id == queue) {
                queue.grants.push(ticket);
                queue.waker.wake_by_ref();
            }
        }
    }

    /// True while the fast volume is used.
    pub(crate) fn is_working(&self) -> bool {
        self.failed.is_none()
    }

    /// The fast volume has failed: it is not used any more. True the first time.
    pub(crate) fn fail_fast(&mut self, kind: VolumeErrorKind) -> bool {
        if self.failed.is_some() {
            return false;
        }
        self.failed = Some(kind);
        self.path_changes += 1;
        self.wake_queues();
        true
    }

    /// The fast volume was reached in another way, and a flush says whether it has lost anything since. Where it has only copies they mean nothing any more, and it is used on;
    /// otherwise it is not. True if it is.
    pub(crate) fn handle_fast_checked(&mut self, path: u64, lost: bool) -> bool {
        if !self.is_working() {
            // Another flush has failed before, and this one need not any more.
            return false;
        }
        let only_copies = self.directory.dirty_pages() == 0 && self.commits.is_settled();
        if lost && !(only_copies && self.options.mode == CacheMode::Through) {
            return false;
        }
        if lost {
            self.fast_losses += 1;
            self.inserting.values_mut().for_each(|insertion| insertion.sound = PageSet::NONE);
            self.directory.drop_clean();
        }
        self.trusted_path = self.trusted_path.max(path);
        true
    }

    /// True if the fast volume has failed with data that only it had, or that it would hide from the capacity volume's newer data if it came back: no flush
    /// can succeed.
    pub(crate) fn has_lost(&self) -> bool {
        let hides = self.superseded.is_some_and(|need| !self.commits.meets(need));
        !self.is_working() && (self.directory.dirty_pages() > 0 || hides)
    }

    /// The pages of a line that only the fast volume has, or that it would bring back.
    fn held(&self, id: SlotId) -> PageSet {
        #[cfg(test)]
        if self.planted == crate::planted::Planted::WritesBelowDirty && !self.is_working() {
            return PageSet::NONE;
        }
        let slot = self.directory.slot(id);
        slot.dirty.either(slot.on_media)
    }

    /// Where a read finds its data, in a list that may have been another one; its slots are pinned, and added to `pins`.
    pub(crate) fn plan_read(
        &mut self,
        extent: Extent,
        pins: &mut Vec<SlotId>,
        list: Vec<Piece>,
    ) -> Result<Vec<Piece>, VolumeErrorKind> {
        let layout = self.layout;
        let mut pieces = Pieces::within(&layout, list);
        let found = |state: &Self, part: &Part| {
            let id = state.directory.find(part.line)?;
            Some((id, state.directory.slot(id)))
        };
        let hit = self.is_working()
            && parts(&layout, extent)
                .all(|part| found(self, &part).is_some_and(|(_, slot)| slot.valid.has_all(part.pages())));
        for part in parts(&layout, extent) {
            let slot = found(self, &part);
            let here = match slot {
                Some(_) if hit => part.pages(),
                Some((_, slot)) => slot.dirty.both(part.pages()),
                None => PageSet::NONE,
            };
            if let Some((id, _)) = slot.filter(|_| !here.is_empty()) {
                if !self.is_working() {
                    pins.drain(..).for_each(|pin| self.directory.unpin(pin));
                    return Err(VolumeErrorKind::Media);
                }
                self.directory.touch(id);
                self.directory.pin(id);
                pins.push(id);
                for (first, count) in here.runs() {
                    pieces.fast(id, first, count, part.before + u64::from(first - part.first));
                }
            }
            for (first, count) in part.pages().without(here).runs() {
                pieces.capacity(part.line, first, count, part.before + u64::from(first - part.first));
            }
        }
        if hit {
            self.counts.hits += 1;
        } else {
            self.counts.misses += 1;
        }
        Ok(pieces.list)
    }

    /// A slot for a line that is to come in.
    fn insert(&mut self, line: u64) -> Option<SlotId> {
        if self.detach != Detach::No {
            return None;
        }
        let (id, evicted) = self.directory.allocate(line)?;
        self.counts.insertions += 1;
        self.counts.evictions += u64::from(evicted);
        Some(id)
    }

    /// True if something is being put into one of these pages.
    fn is_inserting(&self, id: SlotId, pages: PageSet) -> bool {
        self.inserting.get(&id).is_some_and(|insertion| !insertion.pages.both(pages).is_empty())
    }

    /// What is being put into these pages is not what they are to hold any more. Says which of them that concerns.
    fn spoil(&mut self, id: SlotId, pages: PageSet) -> PageSet {
        let Some(insertion) = self.inserting.get_mut(&id) else { return PageSet::NONE };
        insertion.sound = insertion.sound.without(pages);
        insertion.pages.both(pages)
    }

    /// The same for all that lies in an extent which is about to be discarded or zeroed.
    pub(crate) fn spoil_all(&mut self, extent: Extent) {
        let ids: Vec<SlotId> = self.inserting.keys().copied().collect();
        for id in ids {
            self.spoil(id, pages_of(&self.layout, self.directory.line_of(id), extent));
        }
    }

    /// An insertion has ended, well or not: the pages may be read if they are still what they were.
    pub(crate) fn inserted(&mut self, id: SlotId, pages: PageSet, well: bool) {
        let Some(insertion) = self.inserting.get_mut(&id) else { return };
        let sound = insertion.sound.both(pages);
        insertion.pages = insertion.pages.without(pages);
        insertion.sound = insertion.sound.without(pages);
        if insertion.pages.is_empty() {
            self.inserting.remove(&id);
        }
        if well {
            self.directory.add_valid(id, sound);
        }
    }

    /// What of a line is to be written back now.
    pub(crate) fn begin_write_back(&mut self, line: u64, id: SlotId) -> PageSet {
        if !self.is_working() || self.directory.find(line) != Some(id) {
            return PageSet::NONE;
        }
        let pages = self.directory.slot(id).dirty;
        self.writing_back.insert(id, pages);
        pages
    }

    /// The capacity volume durably has what was read of a line for writing back, or not. What was written since stays dirty.
    pub(crate) fn end_write_back(&mut self, id: SlotId, well: bool) {
        let Some(pages) = self.writing_back.remove(&id).filter(|_| well) else { return };
        let hides = !self.directory.slot(id).on_media.both(pages).is_empty();
        if self.directory.clean(id, pages) {
            self.changed(id);
        }
        if hides {
            // Of what was written last the fast volume may have made nothing durable: its map would bring back what was there before.
            self.superseded = Some(self.commits.need());
        }
        self.counts.written_back += u64::from(pages.count()) * u64::from(self.layout.page);
        self.write_back.error = None;
    }

    /// Pages are being written, or were: what is written back is older.
    fn overtake_write_back(&mut self, id: SlotId, pages: PageSet) {
        if let Some(moving) = self.writing_back.get_mut(&id) {
            *moving = moving.without(pages);
        }
    }

    /// The slot that data of a part may be put into after it was read or written: the line's own, or a new one if the line is admitted.
    fn slot_for(&mut self, part: &Part, stream: Stream) -> Option<SlotId> {
        if !self.is_working() || self.detach != Detach::No {
            return None;
        }
        if let Some(id) = self.directory.find(part.line) {
            let free = self.held(id).both(part.pages()).is_empty() && !self.is_inserting(id, part.pages());
            return free.then_some(id);
        }
        if stream == Stream::Passes || !self.touched.touch(part.line) {
            return None;
        }
        self.insert(part.line)
    }

    /// What of an extent that was just read is to be put into the cache, and where: the slots are pinned.
    pub(crate) fn plan_insertion(&mut self, extent: Extent, stream: Stream) -> Vec<(Part, SlotId)> {
        let layout = self.layout;
        let mut list = Vec::new();
        for part in parts(&layout, extent) {
            if let Some(id) = self.slot_for(&part, stream)
                && !self.directory.slot(id).valid.has_all(part.pages())
            {
                self.directory.pin(id);
                let insertion = self.inserting.entry(id).or_default();
                insertion.pages = insertion.pages.either(part.pages());
                insertion.sound = insertion.sound.either(part.pages());
                list.push((part, id));
            }
        }
        list
    }

    /// Which way the parts of a write go; their slots are pinned.
    pub(crate) fn plan_write(
        &mut self,
        extent: Extent,
        stream: Stream,
    ) -> Result<Vec<WritePart>, VolumeErrorKind> {
        let layout = self.layout;
        if !self.is_working() && self.holds_any(extent) {
            return Err(VolumeErrorKind::Media);
        }
        let mut list = Vec::new();
        for part in parts(&layout, extent) {
            // What is being put into a slot just now must not be written there, too.
            let slot = self.directory.find(part.line);
            let inserting = slot.map_or(PageSet::NONE, |id| self.spoil(id, part.pages()));
            list.extend(part.within(inserting).map(|part| WritePart { part, way: Route::Through(None) }));
            for part in part.within(part.pages().without(inserting)) {
                let way = match self.options.mode {
                    _ if !self.is_working() => Route::Through(None),
                    CacheMode::Through => Route::Through(self.slot_for(&part, stream)),
                    CacheMode::Back => self.way_back(&part, stream),
                };
                if let Route::Back(id) | Route::Through(Some(id)) = way {
                    self.overtake_write_back(id, part.pages());
                    self.directory.touch(id);
                    self.directory.pin(id);
                }
                list.push(WritePart { part, way });
            }
        }
        Ok(list)
    }

    fn way_back(&mut self, part: &Part, stream: Stream) -> Route {
        let slot = match (self.directory.find(part.line), stream) {
            (Some(id), Stream::Passes) => Some(id).filter(|id| !self.held(*id).both(part.pages()).is_empty()),
            (None, Stream::Passes) => None,
            (Some(id), Stream::No) => Some(id),
            (None, Stream::No) => self.insert(part.line),
        };
        slot.map_or(Route::Through(None), Route::Back)
    }

    /// True if the fast volume has, or would bring back, pages of an extent.
    pub(crate) fn holds_any(&self, extent: Extent) -> bool {
        let found = self.directory.in_lines(lines(&self.layout, extent));
        found.iter().any(|(line, id)| !self.held(*id).both(pages_of(&self.layout, *line, extent)).is_empty())
    }

    /// Notes how a write has ended.
    pub(crate) fn written(&mut self, list: &[WritePart], how: Written) -> Waits {
        let mut waits = Waits::default();
        if list.iter().any(|part| matches!(part.way, Route::Through(_))) {
            self.count_asked();
        }
        for WritePart { part, way } in list {
            let pages = part.pages();
            match way {
                Route::Back(id) if how.fast && self.is_working() => {
                    self.overtake_write_back(*id, pages);
                    if self.directory.add_dirty(*id, pages) {
                        self.changed(*id);
                    }
                    waits.commit = true;
                }
                // What became of it is not known, and does not matter: the fast volume is not used any more.
                Route::Back(_) => {}
                Route::Through(Some(id)) if how.fast && how.fast_stayed && how.capacity => {
                    self.directory.add_valid(*id, pages);
                }
                Route::Through(_) => {
                    let Some(id) = self.directory.find(part.line) else { continue };
                    if how.capacity {
                        waits = self.replaced(id, pages, waits);
                    } else {
                        self.forget_clean(id, pages);
                    }
                }
            }
        }
        waits
    }

    /// The capacity volume has newer content of these pages, though not yet durably: what is dirty stays until it has.
    fn replaced(&mut self, id: SlotId, pages: PageSet, waits: Waits) -> Waits {
        self.forget_clean(id, pages);
        let slot = self.directory.slot(id);
        let dirty = !slot.dirty.both(pages).is_empty();
        #[cfg(test)]
        if self.planted == crate::planted::Planted::DropsBeforeFlush {
            return Waits { commit: waits.commit | self.supersede(id, pages), ..waits };
        }
        // What only the map has would bring back what the capacity volume durably has, or something newer.
        let hidden = slot.on_media.both(pages).without(slot.dirty);
        let commit = !hidden.is_empty() && self.supersede(id, hidden);
        Waits { flush: waits.flush | dirty, commit: waits.commit | commit }
    }

    /// The capacity volume durably has newer content of these pages. True if the map does not know yet.
    fn supersede(&mut self, id: SlotId, pages: PageSet) -> bool {
        let hides = !self.held(id).both(pages).is_empty();
        if self.directory.drop_pages(id, pages) {
            self.changed(id);
        }
        if hides {
            self.superseded = Some(self.commits.need());
        }
        hides
    }

    /// A flush has covered what took the place of dirty pages in an extent, of which `list` are the parts that were written if it was a write. True if the map does
    /// not know yet.
    pub(crate) fn supersede_all(&mut self, extent: Extent, list: Option<&[WritePart]>) -> bool {
        let mut needs_commit = false;
        if let Some(list) = list {
            for WritePart { part, .. } in list.iter().filter(|part| matches!(part.way, Route::Through(_))) {
                let Some(id) = self.directory.find(part.line) else { continue };
                let dirty = self.directory.slot(id).dirty.both(part.pages());
                needs_commit |= self.supersede(id, dirty);
            }
            return needs_commit;
        }
        for (line, id) in self.directory.in_lines(lines(&self.layout, extent)) {
            needs_commit |= self.supersede(id, pages_of(&self.layout, line, extent));
        }
        needs_commit
    }

    /// The clean copies of these pages mean nothing any more.
    fn forget_clean(&mut self, id: SlotId, pages: PageSet) {
        let clean = pages.without(self.directory.slot(id).dirty);
        self.directory.drop_pages(id, clean);
    }

    /// The queue of a write is gone. Its slots stay with their lines, and what was not dirty there is not written again.
    pub(crate) fn orphaned(&mut self, list: &[WritePart]) {
        self.count_asked();
        for WritePart { part, way } in list {
            let pages = part.pages();
            if let Some(id) = self.directory.find(part.line) {
                self.forget_clean(id, pages);
            }
            if let Route::Back(id) | Route::Through(Some(id)) = way {
                self.overtake_write_back(*id, pages);
                let blocked = self.inserting.entry(*id).or_default();
                blocked.pages = blocked.pages.either(pages.without(self.directory.slot(*id).dirty));
                self.directory.pin(*id);
            }
        }
    }

    /// The same for an insertion: what is blocked stays so.
    pub(crate) fn orphaned_insertion(&mut self, id: SlotId, pages: PageSet) {
        self.spoil(id, pages);
        self.directory.pin(id);
    }

    /// Notes how a discard or a write of zeros has ended. `drops_dirty` says that what was dirty there is to mean nothing any more.
    pub(crate) fn released(&mut self, extent: Extent, done: bool, drops_dirty: bool) -> Waits {
        self.count_asked();
        let mut waits = Waits::default();
        for (line, id) in self.directory.in_lines(lines(&self.layout, extent)) {
            let pages = pages_of(&self.layout, line, extent);
            if done && drops_dirty {
                waits = self.replaced(id, pages, waits);
            } else {
                self.forget_clean(id, pages);
            }
        }
        waits
    }

    /// The capacity volume has completed something that was asked for.
    fn count_asked(&mut self) {
        self.capacity_done += 1;
        self.asked_done = self.capacity_done;
    }

    /// A flush of the capacity volume has failed, and it may have lost what it had completed since the last good one. What was asked for is told to every queue by its next
    /// flush, but for `told`, where one has just failed. Clean copies may be of what is lost. What was to take the place of dirty pages fails, and those stay.
    pub(crate) fn capacity_flush_failed(&mut self, kind: VolumeErrorKind, told: Option<u64>) {
        #[cfg(test)]
        if self.planted == crate::planted::Planted::ForgetsFailedFlushes {
            return;
        }
        self.flush_failures += 1;
        if self.asked_done > self.capacity_flushed || self.changing > 0 {
            for queue in self.queues.iter_mut().filter(|queue| Some(queue.id) != told) {
                queue.untold = Some(kind);
            }
        }
        self.inserting.values_mut().for_each(|insertion| insertion.sound = PageSet::NONE);
        self.directory.drop_clean();
    }

    /// Why the next flush of a queue must fail, if it must.
    pub(crate) fn take_untold(&mut self, id: u64) -> Option<VolumeErrorKind> {
        self.queues.iter_mut().find(|queue| queue.id == id)?.untold.take()
    }

    /// What the map is to say of a slot has changed.
    pub(crate) fn changed(&mut self, id: SlotId) {
        self.commits.change(self.layout.map_block_of(id.0));
    }

    /// Where the blocks of an extent are to be verified: dirty ones on the fast volume, others on the capacity volume.
    pub(crate) fn plan_verify(
        &mut self,
        extent: Extent,
        pins: &mut Vec<SlotId>,
    ) -> Result<Vec<Piece>, VolumeErrorKind> {
        let layout = self.layout;
        let mut pieces = Pieces::new(&layout);
        for part in parts(&layout, extent) {
            let slot = self.directory.find(part.line);
            let dirty = slot.map_or(PageSet::NONE, |id| self.directory.slot(id).dirty.both(part.pages()));
            if let Some(id) = slot.filter(|_| !dirty.is_empty()) {
                if !self.is_working() {
                    pins.drain(..).for_each(|pin| self.directory.unpin(pin));
                    return Err(VolumeErrorKind::Media);
                }
                self.directory.pin(id);
                pins.push(id);
                dirty.runs().for_each(|(first, count)| pieces.fast(id, first, count, 0));
            }
            for (first, count) in part.pages().without(dirty).runs() {
                pieces.capacity(part.line, first, count, part.before + u64::from(first - part.first));
            }
        }
        Ok(pieces.list)
    }

    /// The run of blocks at the beginning of an extent that are all dirty, and so mapped, or all not.
    pub(crate) fn dirty_run(&self, extent: Extent) -> Allocation {
        let pages = u64::from(self.layout.pages());
        let end = extent.start.saturating_add(extent.blocks);
        let run = |until: u64, mapped| Allocation {
            extent: Extent::new(extent.start, until.min(end).saturating_sub(extent.start)),
            mapped,
        };
        let mut at = extent.start;
        for (line, id) in self.directory.dirty_from(extent.start / pages) {
            for (first, count) in self.directory.slot(id).dirty.runs() {
                let dirty = line * pages + u64::from(first)..line * pages + u64::from(first + count);
                if dirty.end <= at {
                    continue;
                }
                if dirty.start > at {
                    // A dirty run has ended, or what is not dirty ends here.
                    return if at > extent.start { run(at, true) } else { run(dirty.start, false) };
                }
                at = dirty.end;
                if at >= end {
                    return run(end, true);
                }
            }
        }
        if at > extent.start { run(at, true) } else { run(end, false) }
    }

    /// How the cache is.
    pub(crate) fn status(&self) -> CacheStatus {
        let state = match (self.failed, self.detach) {
            (Some(_), _) if self.has_lost() => CacheState::Lost,
            (Some(_), _) => CacheState::Off,
            (None, Detach::No) => CacheState::Working,
            (None, Detach::Wanted { .. } | Detach::Below) => CacheState::Detaching,
            (None, Detach::Done) => CacheState::Detached,
        };
        let Counts { hits, misses, insertions, bypassed, evictions, written_back } = self.counts;
        CacheStatus {
            mode: self.options.mode,
            state,
            lines: self.layout.slots,
            lines_in_use: self.directory.in_use(),
            line_bytes: self.layout.line,
            dirty_bytes: self.directory.dirty_pages() * u64::from(self.layout.page),
            hits,
            misses,
            insertions,
            bypassed,
            evictions,
            written_back,
        }
    }

    /// What is wrong, for people.
    pub(crate) fn last_error(&self) -> Option<String> {
        let Some(kind) = self.failed else { return self.write_back.error.clone() };
        if self.directory.dirty_pages() == 0 && !self.has_lost() {
            return Some(format!(
                "the fast volume of the cache has failed ({kind}): the cache is off, everything goes to the capacity volume, and nothing is lost; \
                 replace the fast volume and open the cache again"
            ));
        }
        if self.directory.dirty_pages() == 0 {
            return Some(format!(
                "the fast volume of the cache has failed ({kind}): the capacity volume has everything, but the fast one would bring older data back if it was used \
                 again, so that every flush fails; write zeros over its first 8 KiB, or never use it again, and open the capacity volume by itself or with another cache"
            ));
        }
        Some(format!(
            "the fast volume of the cache has failed ({kind}): it alone has {} bytes that were written, {}; reads and writes of them and every flush \
             fail, everything else goes on; if it can be reached again, open the cache again, and they are there; otherwise restore them from a copy",
            self.directory.dirty_pages() * u64::from(self.layout.page),
            self.lost_ranges()
        ))
    }

    fn lost_ranges(&self) -> String {
        let (pages, page) = (u64::from(self.layout.pages()), u64::from(self.layout.page));
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (line, id) in self.directory.dirty_from(0) {
            for (first, count) in self.directory.slot(id).dirty.runs() {
                let start = (line * pages + u64::from(first)) * page;
                let end = start + u64::from(count) * page;
                match ranges.last_mut() {
                    Some(last) if last.1 == start => last.1 = end,
                    _ => ranges.push((start, end)),
                }
            }
        }
        let told = ranges.iter().take(TOLD_RANGES).map(|(start, end)| format!("{start}-{}", end - 1));
        let told = told.collect::<Vec<_>>().join(", ");
        match ranges.len().saturating_sub(TOLD_RANGES) {
            0 => format!("at bytes {told}"),
            more => format!("at bytes {told}, and in {more} further ranges"),
        }
    }

    /// The pieces in which a write goes to the two volumes.
    pub(crate) fn write_pieces(&self, list: &[WritePart]) -> Vec<Piece> {
        let layout = self.layout;
        let mut pieces = Pieces::new(&layout);
        for WritePart { part, way } in list {
            if let Route::Through(_) = way {
                pieces.capacity(part.line, part.first, part.count, part.before);
            }
            if let Route::Back(id) | Route::Through(Some(id)) = way {
                pieces.fast(*id, part.first, part.count, part.before);
            }
        }
        pieces.list
    }
}

/// The state, shared.
#[derive(Debug)]
pub(crate) struct Locked(Mutex<State>);

impl Locked {
    pub(crate) fn new(state: State) -> Self {
        Self(Mutex::new(state))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Slots that a write has pinned.
pub(crate) fn pinned(list: &[WritePart]) -> impl Iterator<Item = SlotId> {
    list.iter().filter_map(|part| match part.way {
        Route::Back(id) | Route::Through(Some(id)) => Some(id),
        Route::Through(None) => None,
    })
}
