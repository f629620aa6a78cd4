//! Sparse pages behind a lock each.
//!
//! Cores that touch different pages share no lock. A request that lies in one page is atomic by that page's lock.
//! One that spans pages goes through them one by one, which keeps every block whole; it also holds `spanning` for
//! reading, so that the rare compare-and-write over several pages can keep all such requests out.

use std::fmt;
use std::ops::Range;
use std::sync::{OnceLock, PoisonError};

use buf::{Buf, BufList};

use super::lender::Lender;
use super::page::{PAGE, Page};
use super::sync::{AtomicU64, Ordering, RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::VolumeErrorKind;

/// Pages in a directory, which is allocated when the first of them is touched: 64 MiB of the volume.
const DIRECTORY: usize = 1024;
/// The most directories: 8 PiB of volume, 2 MiB of memory for each TiB.
const MOST_DIRECTORIES: u64 = 1 << 27;

/// What looking at a page costs, and giving one back, in bytes that could have been copied meanwhile.
const GLANCE: usize = 128;
const RELEASE: usize = 8 << 10;
/// What each byte costs that is written to a new page, besides its copying: the system finds and clears memory for it, 4 KiB at a time.
const NEW: usize = 3;

/// What becomes of pages that are zeroed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WholePages {
    /// They are given back.
    Release,
    /// They stay.
    Keep,
}

/// What zeroing has done.
pub(super) struct Zeroed {
    /// Where it has stopped.
    pub(super) stopped: u64,
    /// Bytes that could have been copied meanwhile.
    pub(super) cost: usize,
}

type Lock = RwLock<Page>;

/// All pages of a volume.
pub(super) struct Pages {
    directories: Box<[OnceLock<Box<[Lock]>>]>,
    spanning: RwLock<()>,
    allocated: AtomicU64,
    copied: AtomicU64,
}

/// A part of a request that lies in one page.
#[derive(Debug, Clone, Copy)]
struct Part {
    page: usize,
    /// Where it begins in the page.
    start: usize,
    len: usize,
    /// Where it begins in the request.
    done: usize,
}

impl Part {
    const fn end(self) -> usize {
        self.start + self.len
    }

    const fn is_whole(self) -> bool {
        self.len == PAGE
    }
}

/// Cuts a request at the borders of pages.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let start = usize::try_from(at % PAGE as u64).unwrap_or_default();
        let page = wire::index(at / PAGE as u64);
        let part = Part { page, start, len: (PAGE - start).min(len - done), done };
        done += part.len;
        Some(part)
    })
}

fn spans(offset: u64, len: usize) -> bool {
    parts(offset, len).nth(1).is_some()
}

fn shared(lock: &Lock) -> RwLockReadGuard<'_, Page> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn unique(lock: &Lock) -> RwLockWriteGuard<'_, Page> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages")
            .field("allocated", &self.allocated())
            .field("copied", &self.copied())
            .finish_non_exhaustive()
    }
}

impl Pages {
    /// Pages for `size` bytes, or `None` if that is more than can be kept track of.
    pub(super) fn new(size: u64) -> Option<Self> {
        let count = size.div_ceil((PAGE * DIRECTORY) as u64);
        let count = usize::try_from(count).ok().filter(|_| count <= MOST_DIRECTORIES)?;
        let directories = std::iter::repeat_with(OnceLock::new).take(count).collect();
        let [allocated, copied] = [const { AtomicU64::new(0) }; 2];
        Some(Self { directories, spanning: RwLock::new(()), allocated, copied })
    }

    pub(super) fn allocated(&self) -> u64 {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Pages that had to be copied before they were written, because they were lent.
    pub(super) fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// The lock of a page, if any page near it was ever written.
    fn existing(&self, page: usize) -> Option<&Lock> {
        self.directories.get(page / DIRECTORY)?.get()?.get(page % DIRECTORY)
    }

    fn page(&self, page: usize) -> Option<&Lock> {
        let directory = self.directories.get(page / DIRECTORY)?;
        let empty = || std::iter::repeat_with(|| RwLock::new(Page::Hole)).take(DIRECTORY).collect();
        directory.get_or_init(empty).get(page % DIRECTORY)
    }

    /// Held by every request that spans pages, while it goes through them.
    fn enter(&self, offset: u64, len: usize) -> Option<RwLockReadGuard<'_, ()>> {
        spans(offset, len).then(|| self.spanning.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn read(&self, offset: u64, into: &mut [u8]) {
        let _entered = self.enter(offset, into.len());
        for part in parts(offset, into.len()) {
            let target = &mut into[part.done..part.done + part.len];
            let page = self.existing(part.page).map(shared);
            match page.as_deref().and_then(Page::bytes) {
                Some(bytes) => target.copy_from_slice(&bytes[part.start..part.end()]),
                None => target.fill(0),
            }
        }
    }

    /// What `into` could be filled with, lent by `lender`: the pages as they are now, and its zeros for holes. The last piece
    /// holds `into`.
    pub(super) fn lend(&self, offset: u64, into: Buf, lender: &Lender) -> BufList {
        let len = into.len();
        let _entered = self.enter(offset, len);
        let (mut list, mut keeper) = (BufList::new(), Some(into));
        for part in parts(offset, len) {
            let page = self.existing(part.page).map(unique);
            let lent = page.and_then(|mut page| page.lend(part.start..part.end()));
            let piece = lent.unwrap_or_else(|| lender.zeros.slice(part.start..part.end()));
            list.push(match keeper.take_if(|_| part.done + part.len == len) {
                Some(keeper) => keeper.lend(piece, lender.loans(len)),
                None => piece,
            });
        }
        list
    }

    /// Writes, and answers what that cost besides copying the data, in bytes that could have been copied meanwhile: for new pages, and for those that had
    /// to be copied because they were lent.
    pub(super) fn write(&self, offset: u64, data: &BufList) -> usize {
        let _entered = self.enter(offset, data.len());
        let (mut source, mut cost) = (Source::new(data), 0);
        for part in parts(offset, data.len()) {
            let Some(page) = self.page(part.page) else { continue };
            cost += self.change(&mut unique(page), part, |bytes| source.copy_to(bytes));
        }
        cost
    }

    /// Lets `act` change a part of a locked page, which is allocated if it was a hole. Answers like [`Self::write`].
    fn change(&self, page: &mut Page, part: Part, act: impl FnOnce(&mut [u8])) -> usize {
        if page.allocate() {
            self.allocated.fetch_add(PAGE as u64, Ordering::Relaxed);
            return NEW * part.len + self.change_existing(page, part, act);
        }
        self.change_existing(page, part, act)
    }

    /// The same for a page that has memory.
    fn change_existing(&self, page: &mut Page, part: Part, act: impl FnOnce(&mut [u8])) -> usize {
        if !page.change(|bytes| act(&mut bytes[part.start..part.end()])) {
            return 0;
        }
        self.copied.fetch_add(1, Ordering::Relaxed);
        PAGE
    }

    /// Makes the first bytes of the range read as zeros, to its end or until that has cost about as much as copying `budget` bytes; whole
    /// pages are given back if `pages` allows it.
    pub(super) fn zero(&self, range: Range<u64>, pages: WholePages, budget: usize) -> Zeroed {
        let (mut stopped, mut cost) = (range.start, 0);
        while stopped < range.end && cost < budget {
            let step = self.stride(stopped).min(range.end - stopped);
            cost += self.zero_one(stopped, usize::try_from(step).unwrap_or_default(), pages);
            stopped += step;
        }
        Zeroed { stopped, cost }
    }

    /// Zeroes what lies in one page, or nothing in a directory that was never touched.
    fn zero_one(&self, offset: u64, len: usize, pages: WholePages) -> usize {
        let Some(part) = parts(offset, len).next() else { return GLANCE };
        let Some(mut page) = self.existing(part.page).map(unique) else { return GLANCE };
        if part.is_whole() && pages == WholePages::Release {
            let had = !std::mem::take(&mut *page).is_hole();
            self.allocated.fetch_sub(if had { PAGE as u64 } else { 0 }, Ordering::Relaxed);
            return if had { RELEASE } else { GLANCE };
        }
        if page.is_hole() {
            return GLANCE;
        }
        GLANCE + part.len + self.change_existing(&mut page, part, |bytes| bytes.fill(0))
    }

    pub(super) fn compare(&self, offset: u64, data: &BufList) -> Result<(), VolumeErrorKind> {
        let _entered = self.enter(offset, data.len());
        let mut source = Source::new(data);
        for part in parts(offset, data.len()) {
            let page = self.existing(part.page).map(shared);
            source.compare(page.as_deref().and_then(Page::bytes), part)?;
        }
        Ok(())
    }

    /// Compares, writes if that is equal, and answers like [`Self::write`].
    pub(super) fn compare_and_write(
        &self,
        offset: u64,
        compare: &BufList,
        write: &BufList,
    ) -> Result<usize, VolumeErrorKind> {
        let spans = spans(offset, write.len());
        let _alone = spans.then(|| self.spanning.write().unwrap_or_else(PoisonError::into_inner));
        let locks = parts(offset, write.len());
        let mut pages: Vec<_> =
            locks.filter_map(|part| Some((part, unique(self.page(part.page)?)))).collect();
        let mut source = Source::new(compare);
        for (part, page) in &pages {
            source.compare(page.bytes(), *part)?;
        }
        let mut source = Source::new(write);
        let change = |(part, page): &mut (Part, RwLockWriteGuard<'_, Page>)| {
            self.change(page, *part, |bytes| source.copy_to(bytes))
        };
        Ok(pages.iter_mut().map(change).sum())
    }

    /// How many bytes from `offset`, of `len` at most, are alike, and whether there are pages behind them.
    pub(super) fn run(&self, offset: u64, len: u64) -> (u64, bool) {
        let mapped = |at: u64| {
            let page = wire::index(at / PAGE as u64);
            self.existing(page).is_some_and(|page| !shared(page).is_hole())
        };
        let first = mapped(offset);
        let end = offset.saturating_add(len);
        let mut at = offset;
        while at < end && mapped(at) == first {
            at = at.saturating_add(self.stride(at));
        }
        (at.min(end) - offset, first)
    }

    /// How far from `at` the next page is that can differ.
    fn stride(&self, at: u64) -> u64 {
        let directory = wire::index(at / (PAGE * DIRECTORY) as u64);
        let untouched = self.directories.get(directory).is_none_or(|directory| directory.get().is_none());
        let alike = if untouched { PAGE * DIRECTORY } else { PAGE } as u64;
        alike - at % alike
    }
}

/// Goes through the pieces of a list in step with the parts of a request.
struct Source<'a> {
    pieces: std::slice::Iter<'a, buf::SharedBuf>,
    rest: &'a [u8],
}

impl<'a> Source<'a> {
    fn new(data: &'a BufList) -> Self {
        Self { pieces: data.pieces().iter(), rest: &[] }
    }

    /// At most `most` of the next bytes; none at the end.
    fn next(&mut self, most: usize) -> &'a [u8] {
        if self.rest.is_empty() {
            self.rest = self.pieces.next().map_or(&[], |piece| piece);
        }
        let (now, later) = self.rest.split_at(most.min(self.rest.len()));
        self.rest = later;
        now
    }

    fn copy_to(&mut self, mut target: &mut [u8]) {
        while !target.is_empty() {
            let bytes = self.next(target.len());
            if bytes.is_empty() {
                return;
            }
            let (now, later) = target.split_at_mut(bytes.len());
            now.copy_from_slice(bytes);
            target = later;
        }
    }

    fn compare(&mut self, page: Option<&[u8]>, part: Part) -> Result<(), VolumeErrorKind> {
        let mut done = 0;
        while done < part.len {
            let bytes = self.next(part.len - done);
            if bytes.is_empty() {
                break;
            }
            let from = part.start + done;
            let differs = match page {
                Some(page) => difference(&page[from..from + bytes.len()], bytes),
                None => bytes.iter().position(|byte| *byte != 0),
            };
            if let Some(at) = differs {
                return Err(VolumeErrorKind::Miscompare {
                    offset: wire::bounded::<u32>(part.done + done + at),
                });
            }
            done += bytes.len();
        }
        Ok(())
    }
}

/// The first byte in which two pieces of the same length differ.
fn difference(one: &[u8], two: &[u8]) -> Option<usize> {
    if one == two {
        return None;
    }
    one.iter().zip(two).position(|(one, two)| one != two)
}
