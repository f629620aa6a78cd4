//! Memory that the peer may use: steering tags, bounds and rights.

use alloc::vec::Vec;

use buf::{Buf, BufList};

/// A steering tag: names a region to the peer that may use it (RFC 5040 §1.1; an R_Key in InfiniBand's words).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct STag(pub u32);

impl STag {
    /// The index of its slot, and the key that says which use of the slot it is (RFC 5040 §1.1: 24 bits and 8).
    fn parts(self) -> (usize, u8) {
        let [high, middle, low, key] = self.0.to_be_bytes();
        let index = [high, middle, low].iter().fold(0, |index, byte| (index << 8) | usize::from(*byte));
        (index, key)
    }
}

/// A part of a peer's region, as its owner advertises it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteRegion {
    /// Which region.
    pub stag: STag,
    /// The tagged offset of the first byte: an address of the owner's choice.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

/// The memory of a region. Its kind says what the peer may do.
#[derive(Debug)]
pub enum RegionMemory {
    /// The peer may write to it.
    Sink(Buf),
    /// The peer may read it.
    Source(BufList),
}

impl RegionMemory {
    /// Bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Sink(buf) => buf.len(),
            Self::Source(list) => list.len(),
        }
    }

    /// True when there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Why a peer's access is refused; RFC 5040 §4.8 has a Terminate code for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegionError {
    /// There is no such region, or no longer.
    #[error("the steering tag is not valid")]
    InvalidStag,
    /// Part of the access lies outside of the region.
    #[error("the access is outside of the bounds of the region")]
    Bounds,
    /// The region is not for writing, or not for reading.
    #[error("the region does not allow the access")]
    AccessRights,
}

/// A table has no room for another region; the memory comes back.
#[derive(Debug)]
pub struct TableFull(pub RegionMemory);

/// Bits of the key, below the index.
const KEY_BITS: u32 = 8;

#[derive(Debug)]
enum Slot {
    Vacant,
    /// The peer may use it.
    Valid(RegionMemory),
    /// A part of it is being written to, outside of the table.
    Lent {
        valid: bool,
    },
    /// The peer has invalidated it; its memory waits for its owner.
    Invalidated(RegionMemory),
}

/// The regions of one queue pair. No tag of it means anything to another one.
///
/// Tagged offsets begin at zero. A slot's next use has another key, so that a tag of the past is found out; after 256 uses of one slot it comes again,
/// and slots are used in turn.
#[derive(Debug)]
pub struct RegionTable {
    slots: Vec<(u8, Slot)>,
    /// Where the search for a vacant slot begins.
    next: usize,
    used: usize,
    limit: usize,
}

impl RegionTable {
    /// A table of at most `limit` regions, at most 65,536.
    pub fn new(limit: usize) -> Self {
        Self { slots: Vec::new(), next: 0, used: 0, limit: limit.min(1 << 16) }
    }

    /// How many regions there are, invalidated ones included.
    pub fn len(&self) -> usize {
        self.used
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Registers memory.
    ///
    /// # Errors
    /// The table is full; the memory comes back.
    pub fn register(&mut self, memory: RegionMemory) -> Result<RemoteRegion, TableFull> {
        let Ok(length) = u32::try_from(memory.len()) else { return Err(TableFull(memory)) };
        let Some(index) = self.vacancy() else { return Err(TableFull(memory)) };
        let Some((key, slot)) = self.slots.get_mut(index) else { return Err(TableFull(memory)) };
        *key = key.wrapping_add(1);
        *slot = Slot::Valid(memory);
        (self.used, self.next) = (self.used.saturating_add(1), index.saturating_add(1));
        // The limit keeps an index within 16 bits.
        let index = u32::try_from(index).unwrap_or_default();
        let stag = STag((index << KEY_BITS) | u32::from(*key));
        Ok(RemoteRegion { stag, offset: 0, length })
    }

    fn vacancy(&mut self) -> Option<usize> {
        if self.slots.len() < self.limit {
            self.slots.push((0, Slot::Vacant));
            return Some(self.slots.len().saturating_sub(1));
        }
        let after = self.next..self.slots.len();
        let found = after.chain(0..self.next.min(self.slots.len()));
        let mut vacant = found.filter(|at| matches!(self.slots.get(*at), Some((_, Slot::Vacant))));
        vacant.next()
    }

    fn slot(&mut self, stag: STag) -> Option<&mut Slot> {
        let (index, key) = stag.parts();
        let (own, slot) = self.slots.get_mut(index)?;
        (*own == key).then_some(slot)
    }

    fn find(&self, stag: STag) -> Option<&Slot> {
        let (index, key) = stag.parts();
        let (own, slot) = self.slots.get(index)?;
        (*own == key).then_some(slot)
    }

    /// The memory for `length` bytes that the peer writes at a tagged offset: lent until [`RegionTable::give_back`]. Until then the region takes no
    /// other access, and does not end.
    ///
    /// # Errors
    /// The peer may not do that; nothing has changed.
    pub fn lend(&mut self, region: RemoteRegion) -> Result<Buf, RegionError> {
        let slot = self.slot(region.stag).ok_or(RegionError::InvalidStag)?;
        match slot {
            Slot::Valid(RegionMemory::Source(_)) => return Err(RegionError::AccessRights),
            Slot::Valid(memory) if !contains(memory.len(), region) => return Err(RegionError::Bounds),
            Slot::Valid(_) => {}
            _ => return Err(RegionError::InvalidStag),
        }
        match core::mem::replace(slot, Slot::Lent { valid: true }) {
            Slot::Valid(RegionMemory::Sink(buf)) => Ok(buf),
            other => {
                *slot = other;
                Err(RegionError::InvalidStag)
            }
        }
    }

    /// Takes back what was lent of a region.
    pub fn give_back(&mut self, stag: STag, buf: Buf) {
        if let Some(slot) = self.slot(stag)
            && let Slot::Lent { valid } = *slot
        {
            let memory = RegionMemory::Sink(buf);
            *slot = if valid { Slot::Valid(memory) } else { Slot::Invalidated(memory) };
        }
    }

    /// What the peer reads.
    ///
    /// # Errors
    /// The peer may not do that.
    pub fn read(&self, region: RemoteRegion) -> Result<BufList, RegionError> {
        match self.find(region.stag) {
            Some(Slot::Valid(RegionMemory::Sink(_))) => Err(RegionError::AccessRights),
            Some(Slot::Valid(RegionMemory::Source(list))) if contains(list.len(), region) => {
                let start = usize::try_from(region.offset).map_err(|_| RegionError::Bounds)?;
                Ok(list.part(start, region.length as usize))
            }
            Some(Slot::Valid(_)) => Err(RegionError::Bounds),
            _ => Err(RegionError::InvalidStag),
        }
    }

    /// The peer invalidates a region: it takes no access any more, and keeps its memory for its owner.
    ///
    /// # Errors
    /// There is no such region, or no longer.
    pub fn invalidate(&mut self, stag: STag) -> Result<(), RegionError> {
        let slot = self.slot(stag).ok_or(RegionError::InvalidStag)?;
        match slot {
            Slot::Lent { valid } if *valid => *valid = false,
            Slot::Valid(_) => {
                if let Slot::Valid(memory) = core::mem::replace(slot, Slot::Vacant) {
                    *slot = Slot::Invalidated(memory);
                }
            }
            _ => return Err(RegionError::InvalidStag),
        }
        Ok(())
    }

    /// The owner ends a region: gives its memory, or nothing while a part of it is lent, or if there is none.
    pub fn release(&mut self, stag: STag) -> Option<RegionMemory> {
        let slot = self.slot(stag)?;
        if let Slot::Lent { valid } = slot {
            *valid = false;
            return None;
        }
        match core::mem::replace(slot, Slot::Vacant) {
            Slot::Valid(memory) | Slot::Invalidated(memory) => {
                self.used = self.used.saturating_sub(1);
                Some(memory)
            }
            Slot::Vacant | Slot::Lent { .. } => None,
        }
    }

    /// True while there is a region of that tag, valid or not.
    pub fn holds(&self, stag: STag) -> bool {
        self.find(stag).is_some_and(|slot| !matches!(slot, Slot::Vacant))
    }
}

/// Whether a part lies within a region of `len` bytes.
fn contains(len: usize, part: RemoteRegion) -> bool {
    let end = part.offset.checked_add(u64::from(part.length));
    end.is_some_and(|end| usize::try_from(end).is_ok_and(|end| end <= len))
}
