//! The content of a file in memory: pages, holes, and what a crash would bring back.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use buf::BufList;
use protocol::Entropy;

use crate::SeekWhat;
use crate::limits::PAGE_BYTES;

type Bytes = Arc<[u8; PAGE_BYTES]>;

const PAGE: u64 = PAGE_BYTES as u64;

/// What a file held when everything in it was durable, as far as it has changed since.
#[derive(Debug, Clone, Default)]
struct Durable {
    size: u64,
    /// Pages that have changed, as they were; `None` for holes.
    pages: BTreeMap<u64, Option<Bytes>>,
    /// Those of them that are no holes.
    mapped: u64,
}

/// A file's content.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    size: u64,
    /// Pages that are no holes. Bytes beyond the size are zeros.
    pages: BTreeMap<u64, Bytes>,
    /// What a crash brings back, if anything is not durable.
    durable: Option<Durable>,
}

/// A part of one page.
struct Piece {
    page: u64,
    start: usize,
    len: usize,
}

/// The parts of pages that a range consists of.
fn pieces(offset: u64, count: u64) -> impl Iterator<Item = Piece> {
    let end = offset.saturating_add(count);
    let mut at = offset;
    std::iter::from_fn(move || {
        let start = at % PAGE;
        let len = (PAGE - start).min(end.saturating_sub(at));
        let piece = Piece { page: at / PAGE, start: wire::index(start), len: wire::index(len) };
        at += len;
        (len > 0).then_some(piece)
    })
}

fn part(bytes: &mut Bytes, start: usize, len: usize) -> &mut [u8] {
    Arc::make_mut(bytes).get_mut(start..start + len).unwrap_or_default()
}

impl Content {
    /// Bytes.
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of pages that are there, what a crash would bring back not counted.
    pub(super) fn mapped(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }

    /// Bytes of memory that it takes.
    pub(super) fn held(&self) -> u64 {
        let kept = self.durable.as_ref().map_or(0, |durable| durable.mapped);
        self.mapped() + kept * PAGE
    }

    /// Bytes of memory at most that changing a range may take beside what is held.
    pub(super) fn needed(&self, offset: u64, count: u64) -> u64 {
        if count == 0 {
            return 0;
        }
        let pages = (offset.saturating_add(count) - 1) / PAGE - offset / PAGE + 1;
        let first = offset / PAGE;
        let mapped = self.pages.range(first..first.saturating_add(pages)).count() as u64;
        // A page that is there is kept once more, one that is not is made.
        let kept =
            self.durable.as_ref().map_or(0, |durable| durable.pages.range(first..first + pages).count());
        (pages - mapped + mapped.saturating_sub(kept as u64)).saturating_mul(PAGE)
    }

    /// Fills `into` from `offset`, and says how many bytes there were.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let len = wire::index(self.size.saturating_sub(offset).min(into.len() as u64));
        let mut rest = into.get_mut(..len).unwrap_or_default();
        for Piece { page, start, len } in pieces(offset, len as u64) {
            let (here, after) = rest.split_at_mut(len);
            match self.pages.get(&page).and_then(|bytes| bytes.get(start..start + len)) {
                Some(bytes) => here.copy_from_slice(bytes),
                None => here.fill(0),
            }
            rest = after;
        }
        len
    }

    /// Remembers how a page is while it is durable.
    fn keep(&mut self, page: u64) {
        let (size, before) = (self.size, self.pages.get(&page).cloned());
        let durable = self.durable.get_or_insert_with(|| Durable { size, ..Durable::default() });
        if let Entry::Vacant(place) = durable.pages.entry(page) {
            durable.mapped += u64::from(before.is_some());
            place.insert(before);
        }
    }

    /// Writes, not durably.
    pub(super) fn write(&mut self, offset: u64, data: &BufList) {
        let mut done = 0;
        for Piece { page, start, len } in pieces(offset, data.len() as u64) {
            self.keep(page);
            let target = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            let mut rest = part(target, start, len);
            let from = data.part(done, rest.len());
            done += from.len();
            for piece in from.pieces() {
                let (to, behind) = rest.split_at_mut(piece.len().min(rest.len()));
                to.copy_from_slice(piece.get(..to.len()).unwrap_or_default());
                rest = behind;
            }
        }
        if !data.is_empty() {
            self.size = self.size.max(offset + data.len() as u64);
        }
    }

    /// Makes everything durable.
    pub(super) fn commit(&mut self) {
        self.durable = None;
    }

    /// Cuts the file, or lets it grow by a hole. That is durable; unstable data before the new end stays unstable.
    pub(super) fn resize(&mut self, size: u64) {
        cut(&mut self.pages, size);
        self.size = size;
        if let Some(durable) = &mut self.durable {
            drop(durable.pages.split_off(&size.div_ceil(PAGE)));
            if let Some(Some(last)) = durable.pages.get_mut(&(size / PAGE)) {
                clear_tail(last, size);
            }
            durable.mapped = durable.pages.values().flatten().count() as u64;
            durable.size = size;
        }
    }

    /// Maps the range, which grows the file if it reaches beyond its end. It is durable with everything else of the file.
    pub(super) fn allocate(&mut self, offset: u64, count: u64) {
        for Piece { page, .. } in pieces(offset, count) {
            self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES]));
        }
        self.size = self.size.max(offset + count);
        self.commit();
    }

    /// Makes the range zeros, and holes of whole pages. It is durable with everything else of the file.
    pub(super) fn deallocate(&mut self, offset: u64, count: u64) {
        let count = count.min(self.size.saturating_sub(offset));
        let end = offset + count;
        let (first, last) = (offset.div_ceil(PAGE), end / PAGE);
        // What reaches over the end of the file in its last page is zeros anyway.
        let last = if end == self.size { end.div_ceil(PAGE) } else { last };
        if first < last {
            let holes: Vec<u64> = self.pages.range(first..last).map(|(page, _)| *page).collect();
            for page in holes {
                self.pages.remove(&page);
            }
        }
        let edges = if first < last {
            [(offset, first * PAGE - offset), (last * PAGE, end.saturating_sub(last * PAGE))]
        } else {
            [(offset, count), (end, 0)]
        };
        for (from, len) in edges {
            for Piece { page, start, len } in pieces(from, len) {
                if let Some(bytes) = self.pages.get_mut(&page) {
                    part(bytes, start, len).fill(0);
                }
            }
        }
        self.commit();
    }

    /// Finds data or a hole from `offset`, which is before the end; `None` if there is no data up to the end.
    pub(super) fn seek(&self, offset: u64, what: SeekWhat) -> Option<u64> {
        let first = offset / PAGE;
        match what {
            SeekWhat::Data => {
                let page = self.pages.range(first..).next().map(|(page, _)| page * PAGE)?;
                (page < self.size).then(|| page.max(offset))
            }
            SeekWhat::Hole => {
                let mut page = first;
                while self.pages.contains_key(&page) {
                    page += 1;
                }
                Some((page * PAGE).max(offset).min(self.size))
            }
        }
    }

    /// What is not durable is lost, or not, page by page. True if something may be.
    pub(super) fn crash(&mut self, entropy: &mut dyn Entropy) -> bool {
        let Some(durable) = self.durable.take() else { return false };
        for (page, bytes) in durable.pages {
            if entropy.number() & 1 == 0 {
                continue;
            }
            match bytes {
                Some(bytes) => drop(self.pages.insert(page, bytes)),
                None => drop(self.pages.remove(&page)),
            }
        }
        if entropy.number() & 1 == 1 {
            cut(&mut self.pages, durable.size);
            self.size = durable.size;
        }
        cut(&mut self.pages, self.size);
        true
    }
}

/// Drops everything beyond `size`.
fn cut(pages: &mut BTreeMap<u64, Bytes>, size: u64) {
    drop(pages.split_off(&size.div_ceil(PAGE)));
    if let Some(last) = pages.get_mut(&(size / PAGE)) {
        clear_tail(last, size);
    }
}

/// Clears what the page in which a file of this size ends has beyond that.
fn clear_tail(last: &mut Bytes, size: u64) {
    let tail = wire::index(size % PAGE);
    part(last, tail, PAGE_BYTES - tail).fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use buf::SharedBuf;
    use protocol::SeededEntropy;

    fn data(byte: u8, len: usize) -> BufList {
        SharedBuf::from(vec![byte; len]).into()
    }

    fn all(content: &Content) -> Vec<u8> {
        let mut bytes = vec![0xee; wire::index(content.size())];
        assert_eq!(content.read(0, &mut bytes), bytes.len());
        bytes
    }

    #[test]
    fn a_crash_takes_only_what_was_not_durable() {
        let (mut old, mut new, mut mixed) = (0, 0, 0);
        for seed in 0..64 {
            let mut content = Content::default();
            content.write(0, &data(1, 3 * PAGE_BYTES));
            content.commit();
            assert!(!content.clone().crash(&mut SeededEntropy::new(seed)));
            content.write(100, &data(2, 2 * PAGE_BYTES));
            assert!(content.crash(&mut SeededEntropy::new(seed)));
            let bytes = all(&content);
            assert_eq!(bytes.len(), 3 * PAGE_BYTES);
            assert_eq!(bytes[..100], [1; 100]);
            match (bytes[100], bytes[PAGE_BYTES]) {
                (1, 1) => old += 1,
                (2, 2) => new += 1,
                _ => mixed += 1,
            }
        }
        assert!(old > 0 && new > 0 && mixed > 0, "{old} {new} {mixed}");
    }

    #[test]
    fn sizes_are_durable_and_what_was_cut_does_not_come_back() {
        for seed in 0..32 {
            let mut content = Content::default();
            content.write(0, &data(1, 2 * PAGE_BYTES));
            content.commit();
            content.write(0, &data(2, 2 * PAGE_BYTES));
            content.resize(10);
            content.resize(PAGE + 10);
            content.crash(&mut SeededEntropy::new(seed));
            let bytes = all(&content);
            assert_eq!(bytes.len(), PAGE_BYTES + 10);
            assert!(bytes[10..].iter().all(|byte| *byte == 0), "seed {seed}");
        }
    }

    #[test]
    fn holes_are_found_and_made() {
        let mut content = Content::default();
        content.write(2 * PAGE, &data(7, PAGE_BYTES));
        content.resize(8 * PAGE);
        assert_eq!(content.seek(5, SeekWhat::Data), Some(2 * PAGE));
        assert_eq!(content.seek(2 * PAGE + 9, SeekWhat::Hole), Some(3 * PAGE));
        assert_eq!(content.seek(3 * PAGE, SeekWhat::Data), None);
        content.allocate(0, PAGE);
        assert_eq!((content.seek(0, SeekWhat::Hole), content.mapped()), (Some(PAGE), 2 * PAGE));
        content.deallocate(2 * PAGE + 10, 100);
        assert_eq!(all(&content)[wire::index(2 * PAGE) + 9..][..3], [7, 0, 0]);
        content.deallocate(10, 8 * PAGE);
        assert_eq!((content.mapped(), content.size()), (PAGE, 8 * PAGE));
    }

    #[test]
    fn what_is_needed_bounds_what_is_taken() {
        let mut entropy = SeededEntropy::new(3);
        let mut content = Content::default();
        for _ in 0..500 {
            let offset = entropy.number() % (40 * PAGE);
            let len = wire::index(entropy.number() % (3 * PAGE)) + 1;
            let bound = content.held() + content.needed(offset, len as u64);
            content.write(offset, &data(1, len));
            assert!(content.held() <= bound);
            if entropy.number().is_multiple_of(7) {
                content.commit();
            }
            if entropy.number().is_multiple_of(9) {
                content.deallocate(offset, 2 * PAGE);
            }
        }
    }
}
