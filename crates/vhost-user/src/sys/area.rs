//! Memory that another process changes while this one uses it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering};

use virtio::Area;

use super::copy::{LONG, copy_long};
use super::cut::Guard;
use super::mapping::{Mapping, sealed_file};

/// Bytes of the numbers that larger pieces are copied by.
const WORD: usize = size_of::<u64>();

/// A stretch of a mapped file. Clones and parts are the same memory, which is mapped for as long as one of them is there.
#[derive(Debug, Clone)]
pub struct SharedArea {
    mapping: Arc<Mapping>,
    /// Its lender may take it away.
    guard: Option<Arc<Guard>>,
    start: usize,
    len: usize,
}

/// Memory that was made to be shared.
#[derive(Debug)]
pub struct Created {
    /// It.
    pub area: SharedArea,
    /// The file that another process maps.
    pub file: OwnedFd,
}

impl SharedArea {
    /// Memory of zeros, and the file that another process maps to have it too.
    ///
    /// # Errors
    /// The system has no memory or no descriptor left.
    pub fn create(len: usize) -> io::Result<Created> {
        let (file, len) = sealed_file(len)?;
        Ok(Created { area: Self::map(&file, 0, len)?, file })
    }

    /// `len` bytes of a file from `offset` on, a multiple of the page size. The file has them, and cannot be made shorter.
    fn map(file: impl AsFd, offset: u64, len: usize) -> io::Result<Self> {
        let mapping = Mapping::new(file, offset, len)?;
        Ok(Self { mapping: Arc::new(mapping), guard: None, start: 0, len })
    }

    /// The same of a file of somebody else's, who may make it shorter at any time: it is zeros then, and [`was_cut`](Self::was_cut).
    ///
    /// # Errors
    /// It cannot be mapped.
    pub fn borrow(file: impl AsFd, offset: u64, len: usize) -> io::Result<Self> {
        let area = Self::map(file, offset, len)?;
        let guard = Guard::new(area.mapping.base.expose_provenance().get(), area.mapping.len)?;
        Ok(Self { guard: Some(Arc::new(guard)), ..area })
    }

    /// Whether its lender has taken some of it away.
    pub fn was_cut(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.was_cut())
    }

    /// A part of it; `None` unless it has all those bytes.
    pub fn part(&self, at: usize, len: usize) -> Option<Self> {
        let end = at.checked_add(len)?;
        (end <= self.len).then(|| Self {
            mapping: Arc::clone(&self.mapping),
            guard: self.guard.clone(),
            start: self.start + at,
            len,
        })
    }

    /// Where the process has it.
    pub fn address(&self) -> usize {
        self.mapping.base.addr().get() + self.start
    }

    /// How many of `len` bytes from `at` on are there.
    fn within(&self, at: usize, len: usize) -> usize {
        self.len.saturating_sub(at).min(len)
    }

    /// Where the byte at `at` is, which is at most at the end.
    fn place(&self, at: usize) -> *mut u8 {
        debug_assert!(at <= self.len);
        // SAFETY: a part lies within its mapping.
        unsafe { self.mapping.base.as_ptr().add(self.start + at) }
    }

    fn byte(&self, at: usize) -> &AtomicU8 {
        debug_assert!(at < self.len);
        // SAFETY: callers stay below `len`, and a part lies within its mapping; atomics may be used on memory that others change.
        unsafe { AtomicU8::from_ptr(self.mapping.base.as_ptr().add(self.start + at)) }
    }

    /// The word at `at`, which is aligned.
    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at + WORD <= self.len && (self.start + at).is_multiple_of(WORD));
        // SAFETY: as above, with all of its bytes; mappings begin at a page, so that the place is aligned.
        unsafe { AtomicU64::from_ptr(self.mapping.base.as_ptr().add(self.start + at).cast()) }
    }

    /// The two bytes at `at`, if they are there and aligned.
    fn pair(&self, at: usize) -> Option<&AtomicU16> {
        let fits = self.within(at, 2) == 2 && (self.start + at).is_multiple_of(2);
        // SAFETY: as above.
        fits.then(|| unsafe { AtomicU16::from_ptr(self.mapping.base.as_ptr().add(self.start + at).cast()) })
    }

    /// Bytes before the first word at or behind `at`.
    fn before_word(&self, at: usize) -> usize {
        (self.start + at).next_multiple_of(WORD) - (self.start + at)
    }
}

impl Area for SharedArea {
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn read(&self, at: usize, into: &mut [u8]) {
        let there = self.within(at, into.len());
        let (into, beyond) = into.split_at_mut(there);
        beyond.fill(0);
        // SAFETY: so many bytes are there, and `into` is memory of this process alone.
        if there >= LONG && unsafe { copy_long(self.place(at), into.as_mut_ptr(), there) } {
            return;
        }
        let (first, rest) = into.split_at_mut(self.before_word(at).min(there));
        let mut place = at;
        for byte in first {
            *byte = self.byte(place).load(Ordering::Relaxed);
            place += 1;
        }
        let (words, last) = rest.as_chunks_mut::<WORD>();
        for word in words {
            *word = self.word(place).load(Ordering::Relaxed).to_ne_bytes();
            place += WORD;
        }
        for byte in last {
            *byte = self.byte(place).load(Ordering::Relaxed);
            place += 1;
        }
    }

    #[inline]
    fn write(&self, at: usize, bytes: &[u8]) {
        let there = self.within(at, bytes.len());
        let bytes = bytes.get(..there).unwrap_or_default();
        // SAFETY: as above, the other way.
        if there >= LONG && unsafe { copy_long(bytes.as_ptr(), self.place(at), there) } {
            return;
        }
        let (first, rest) = bytes.split_at(self.before_word(at).min(there));
        let mut place = at;
        for byte in first {
            self.byte(place).store(*byte, Ordering::Relaxed);
            place += 1;
        }
        let (words, last) = rest.as_chunks::<WORD>();
        for word in words {
            self.word(place).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
            place += WORD;
        }
        for byte in last {
            self.byte(place).store(*byte, Ordering::Relaxed);
            place += 1;
        }
    }

    #[inline]
    fn load(&self, at: usize) -> u16 {
        self.pair(at).map_or(0, |pair| u16::from_le(pair.load(Ordering::Acquire)))
    }

    #[inline]
    fn store(&self, at: usize, number: u16) {
        if let Some(pair) = self.pair(at) {
            pair.store(number.to_le(), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_are_the_same_memory() {
        let Created { area, file } = SharedArea::create(4096).unwrap();
        let other = SharedArea::map(&file, 0, 4096).unwrap();
        assert_ne!(area.address(), other.address());
        for (at, len) in [(0, 4096), (3, 1), (5, 20), (8, 16), (1, 7), (4090, 6), (1, 513), (3072, 1024)] {
            let bytes: Vec<u8> = (1..=len).map(|byte: usize| byte.to_le_bytes()[0]).collect();
            area.write(at, &bytes);
            let mut seen = vec![0; len];
            other.read(at, &mut seen);
            assert_eq!(seen, bytes, "{at} {len}");
        }
        other.store(10, 0x1234);
        assert_eq!(area.load(10), 0x1234);
    }

    #[test]
    fn what_lies_behind_the_end_is_zeros_and_stays() {
        let area = SharedArea::create(4096).unwrap().area;
        let part = area.part(100, 10).unwrap();
        part.write(8, &[1, 2, 3, 4]);
        part.store(10, 7);
        let mut seen = [9; 4];
        part.read(8, &mut seen);
        assert_eq!((seen, part.load(10), area.load(110)), ([1, 2, 0, 0], 0, 0));
        part.read(20, &mut seen);
        assert_eq!(seen, [0; 4]);
        assert!(part.part(5, 6).is_none() && part.part(usize::MAX, 2).is_none());
        assert!(area.part(0, 4097).is_none());
    }

    #[test]
    fn memory_that_is_taken_away_is_zeros_and_says_so() {
        let file = rustix::fs::memfd_create(c"lent", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 16_384).unwrap();
        let area = SharedArea::borrow(&file, 4096, 8192).unwrap();
        let other = SharedArea::borrow(&file, 0, 4096).unwrap();
        area.write(5000, &[7; 100]);
        rustix::fs::ftruncate(&file, 8192).unwrap();
        assert!(!area.was_cut(), "nobody has looked");
        for len in [100, 3000] {
            let mut seen = vec![9; len];
            area.read(5000, &mut seen);
            assert_eq!((seen, area.was_cut(), other.was_cut()), (vec![0; len], true, false));
        }
        area.write(5000, &[3]);
        assert_eq!(area.load(5000), 3);
        let part = area.part(0, 10).unwrap();
        assert!(part.was_cut());
    }

    #[test]
    fn the_file_cannot_be_cut() {
        let file = SharedArea::create(1).unwrap().file;
        assert!(rustix::fs::ftruncate(&file, 0).is_err());
    }
}
