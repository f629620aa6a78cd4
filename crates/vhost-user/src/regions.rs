//! Which of this process' memory the device has.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::sys::Span;

/// The memory that the device has: bytes by where they begin.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    known: Mutex<BTreeMap<usize, usize>>,
    /// Moves with each change.
    changes: AtomicU64,
}

/// A core's copy, which costs one look at a number as long as nothing changes.
#[derive(Debug, Default)]
pub(crate) struct KnownRegions {
    /// Where each begins and ends, in order.
    known: Vec<(usize, usize)>,
    changes: u64,
}

impl Regions {
    fn change(&self, change: impl FnOnce(&mut BTreeMap<usize, usize>)) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut known);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// The device has this from now on.
    pub(crate) fn add(&self, span: &Span) {
        self.change(|known| {
            known.insert(span.address, span.len);
        });
    }

    /// It is about to go.
    pub(crate) fn remove(&self, span: &Span) {
        self.change(|known| {
            known.remove(&span.address);
        });
    }

    /// There is no device.
    pub(crate) fn clear(&self) {
        self.change(BTreeMap::clear);
    }
}

impl KnownRegions {
    /// Follows what has changed.
    #[inline]
    pub(crate) fn follow(&mut self, regions: &Regions) {
        let changes = regions.changes.load(Ordering::Acquire);
        if changes != self.changes {
            self.changes = changes;
            let known = regions.known.lock().unwrap_or_else(PoisonError::into_inner);
            self.known.clear();
            self.known.extend(known.iter().map(|(start, len)| (*start, start + len)));
        }
    }

    /// Whether the device has all of these bytes, in one piece.
    #[inline]
    pub(crate) fn has(&self, bytes: &[u8]) -> bool {
        let start = bytes.as_ptr().addr();
        let next = self.known.partition_point(|(begins, _)| *begins <= start);
        let before = next.checked_sub(1).and_then(|at| self.known.get(at));
        before.is_some_and(|(_, end)| start + bytes.len() <= *end)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sys::{Created, SharedArea};

    #[test]
    fn bytes_are_known_where_all_of_them_are() {
        let Created { area, file } = SharedArea::create(4096).unwrap();
        let bytes = vec![0_u8; 300];
        let at = bytes.as_ptr().addr();
        let span = Span { id: 1, address: at + 100, len: 100, file: Arc::new(file) };
        let (regions, mut known) = (Regions::default(), KnownRegions::default());
        regions.add(&span);
        assert!(!known.has(&bytes[100..101]), "it has not looked");
        known.follow(&regions);
        assert!(known.has(&bytes[100..200]) && known.has(&bytes[199..200]));
        assert!(!known.has(&bytes[99..150]) && !known.has(&bytes[150..201]) && !known.has(&bytes[200..201]));
        regions.add(&Span { id: 2, address: at + 200, len: 50, file: Arc::clone(&span.file) });
        known.follow(&regions);
        assert!(known.has(&bytes[200..250]) && !known.has(&bytes[150..250]), "not in one piece");
        regions.remove(&span);
        known.follow(&regions);
        assert!(!known.has(&bytes[100..101]) && known.has(&bytes[200..201]));
        regions.clear();
        known.follow(&regions);
        assert!(!known.has(&bytes[200..201]));
        drop(area);
    }
}
