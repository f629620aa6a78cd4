//! Memory that other processes can map: a source of arenas, each the whole of a file that has no name (`memfd_create`).
//!
//! Whoever is given an arena's file finds each buffer of it in place, without a copy. Pages of the file come with their first use. Its length is sealed, so that nobody who has it can
//! take memory away that this process uses.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use buf::{Foreign, MemorySource};

use super::mapping::{Mapping, sealed_file};

/// A stretch of this process' memory that is the whole of a file.
#[derive(Debug, Clone)]
pub struct Span {
    /// Names it. No other one of this process ever has the same, also not at the same place.
    pub id: u64,
    /// Where it begins.
    pub address: usize,
    /// Bytes.
    pub len: usize,
    /// The file.
    pub file: Arc<OwnedFd>,
}

/// Hears of memory that comes and goes, on whatever thread that happens.
pub trait MemoryListener: Send + Sync {
    /// This memory is there from now on.
    fn added(&self, span: &Span);

    /// It is about to go: when this returns, something else may have its place.
    fn removed(&self, span: &Span);
}

/// A source of memory for pools that other processes can map. Clones are the same source.
///
/// Whoever has an arena's file may read and write all buffers in it at any time: it is for processes that are trusted as much as this one.
#[derive(Clone, Default)]
pub struct SharedMemory(Arc<Registry>);

#[derive(Default)]
struct Registry {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    spans: BTreeMap<u64, Span>,
    listeners: Vec<Weak<dyn MemoryListener>>,
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedMemory").field(&self.0.lock().spans.len()).finish()
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Those who still listen.
    fn listeners(&mut self) -> Vec<Arc<dyn MemoryListener>> {
        self.listeners.retain(|listener| listener.strong_count() > 0);
        self.listeners.iter().filter_map(Weak::upgrade).collect()
    }
}

impl SharedMemory {
    /// The source that all pools of this process share which want such memory.
    pub fn of_process() -> Self {
        static ONE: OnceLock<SharedMemory> = OnceLock::new();
        ONE.get_or_init(Self::default).clone()
    }

    /// Has `listener` hear of what there is and of what comes and goes, for as long as it lives.
    pub fn listen(&self, listener: &Arc<dyn MemoryListener>) {
        let mut state = self.0.lock();
        state.listeners.push(Arc::downgrade(listener));
        // Under the lock, so that nothing comes or goes between.
        state.spans.values().for_each(|span| listener.added(span));
    }

    /// Does something that must not happen to memory that has gone; false if it has.
    pub(crate) fn while_there(&self, id: u64, act: impl FnOnce()) -> bool {
        let state = self.0.lock();
        let is_there = state.spans.contains_key(&id);
        if is_there {
            act();
        }
        is_there
    }

    fn map_new(&self, len: usize) -> io::Result<SharedArena> {
        let (file, len) = sealed_file(len)?;
        let mapping = Mapping::new(&file, 0, len)?;
        let mut state = self.0.lock();
        state.next += 1;
        let span = Span { id: state.next, address: mapping.base.addr().get(), len, file: Arc::new(file) };
        state.spans.insert(span.id, span.clone());
        for listener in state.listeners() {
            listener.added(&span);
        }
        Ok(SharedArena { mapping, id: span.id, registry: Arc::clone(&self.0) })
    }
}

impl MemorySource for SharedMemory {
    fn obtain(&self, len: usize) -> Option<Box<dyn Foreign>> {
        Some(Box::new(self.map_new(len).ok()?))
    }
}

/// An arena, until it is dropped.
struct SharedArena {
    mapping: Mapping,
    id: u64,
    registry: Arc<Registry>,
}

impl Foreign for SharedArena {
    fn memory(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is as long, of a file that stays as long, whose bytes are zeros at first; this owner alone has it here.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.base.as_ptr(), self.mapping.len) }
    }
}

impl Drop for SharedArena {
    fn drop(&mut self) {
        // The place may be another's as soon as it is unmapped, which comes after this.
        let mut state = self.registry.lock();
        if let Some(span) = state.spans.remove(&self.id) {
            for listener in state.listeners() {
                listener.removed(&span);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use buf::{Pool, SharedBuf};

    /// Which spans there are.
    #[derive(Default)]
    struct Heard(Mutex<BTreeMap<u64, Span>>);

    impl MemoryListener for Heard {
        fn added(&self, span: &Span) {
            self.0.lock().unwrap().insert(span.id, span.clone());
        }

        fn removed(&self, span: &Span) {
            self.0.lock().unwrap().remove(&span.id).unwrap();
        }
    }

    impl Heard {
        /// The bytes of a buffer as another mapping of its memory's file has them.
        fn seen_elsewhere(&self, bytes: &SharedBuf) -> Vec<u8> {
            let at = bytes.as_ptr().addr();
            let spans = self.0.lock().unwrap();
            let span =
                spans.values().find(|span| (span.address..span.address + span.len).contains(&at)).unwrap();
            let other = Mapping::new(&span.file, 0, span.len).unwrap();
            assert_ne!(other.base.addr().get(), span.address);
            let places = at - span.address..at - span.address + bytes.len();
            // SAFETY: the mapping is as long as the span, and the buffer lies in that.
            places.map(|at| unsafe { other.base.add(at).read_volatile() }).collect()
        }
    }

    fn listened() -> (SharedMemory, Arc<Heard>) {
        let (source, heard) = (SharedMemory::default(), Arc::new(Heard::default()));
        source.listen(&(Arc::clone(&heard) as Arc<dyn MemoryListener>));
        (source, heard)
    }

    #[test]
    fn another_mapping_of_an_arenas_file_has_the_bytes_of_its_buffers() {
        let (source, heard) = listened();
        let pool = Pool::with_source(64 << 20, Arc::new(source));
        let lens = [600, 4096, 100_000, 1 << 20, buf::LARGEST];
        let buffers: Vec<_> = lens
            .into_iter()
            .zip(1_u8..)
            .map(|(len, mark)| {
                let mut buffer = pool.take(len).unwrap();
                assert_eq!(buffer.as_ptr().addr() % len.next_power_of_two().min(4096), 0);
                buffer.fill(mark);
                buffer[len - 1] = 0xee;
                buffer.freeze()
            })
            .collect();
        for (buffer, mark) in buffers.iter().zip(1_u8..) {
            let seen = heard.seen_elsewhere(buffer);
            assert_eq!((seen[0], seen[seen.len() - 1]), (mark, 0xee));
            assert!(seen == buffer[..]);
            let slice = buffer.slice(300..333);
            assert_eq!(heard.seen_elsewhere(&slice), slice[..]);
        }
    }

    #[test]
    fn an_arenas_file_goes_with_its_last_block_and_cannot_be_cut() {
        let (source, heard) = listened();
        let pool = Pool::with_source(1 << 20, Arc::new(source.clone()));
        let buffer = pool.take(4096).unwrap();
        let span = heard.0.lock().unwrap().values().next().unwrap().clone();
        assert!(rustix::fs::ftruncate(&span.file, 0).is_err(), "it would take memory away that is in use");
        drop(pool);
        assert!(source.while_there(span.id, || {}), "a block is out");
        drop(buffer);
        assert!(!source.while_there(span.id, || panic!("it has gone")));
        assert!(heard.0.lock().unwrap().is_empty());
        assert_eq!(Arc::strong_count(&span.file), 1, "nobody else has it");
    }

    #[test]
    fn whoever_comes_later_hears_of_what_there_is() {
        let source = SharedMemory::default();
        let pool = Pool::with_source(1 << 20, Arc::new(source.clone()));
        let _buffer = pool.take(4096).unwrap();
        let heard = Arc::new(Heard::default());
        source.listen(&(Arc::clone(&heard) as Arc<dyn MemoryListener>));
        assert_eq!(heard.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        assert!(SharedMemory::default().obtain(usize::MAX / 2 + 1).is_none());
    }
}
