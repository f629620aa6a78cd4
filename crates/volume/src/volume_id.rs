//! What served volumes are called within a process.

use core::fmt;

/// Names a served volume within one process: a slot of the tables that the cores keep, and which use of that slot it is. Connections speak of volumes by
/// it; the engine knows which queue it means on each core.
///
/// A slot serves another volume once the first is gone. A request that still carries the old name then reaches no queue, whatever its epoch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeId(u32);

impl VolumeId {
    /// No volume.
    pub const NONE: Self = Self(u32::MAX);

    /// The volume in `slot`, in its use number `generation`.
    pub const fn new(slot: u16, generation: u16) -> Self {
        Self((generation as u32) << u16::BITS | slot as u32)
    }

    /// Its place in tables.
    pub const fn slot(self) -> usize {
        (self.0 & u16::MAX as u32) as usize
    }

    /// How often the slot was used before, modulo 65,536.
    pub const fn generation(self) -> u16 {
        (self.0 >> u16::BITS) as u16
    }
}

impl fmt::Debug for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.generation() {
            0 => write!(f, "VolumeId({})", self.slot()),
            generation => write!(f, "VolumeId({}.{generation})", self.slot()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_and_generation_are_kept_apart() {
        let id = VolumeId::new(u16::MAX, 3);
        assert_eq!((id.slot(), id.generation()), (65_535, 3));
        assert_ne!(VolumeId::new(7, 1), VolumeId::new(7, 2));
        assert_eq!(
            format!("{:?} {:?}", VolumeId::new(7, 0), VolumeId::new(7, 2)),
            "VolumeId(7) VolumeId(7.2)"
        );
    }
}
