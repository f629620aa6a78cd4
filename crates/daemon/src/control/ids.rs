//! Names for what is served: of volumes, which use slots of the cores' tables again, and of listeners, which are never used again.

use std::collections::VecDeque;

use host::ListenerId;
use volume::VolumeId;

/// The most volumes at a time: a core looks through its table of queues in words of 64 bits.
pub(super) const VOLUMES: u16 = 4096;

/// Gives names out.
#[derive(Debug, Default)]
pub(super) struct Ids {
    /// Slots that were never used begin here.
    unused: u16,
    /// Slots that are free again, the longest unused first, by the names of their next uses.
    free: VecDeque<VolumeId>,
    listeners: u32,
}

impl Ids {
    /// A name for a volume, or `None` if there are too many. A slot is used again before another one is begun, so that tables stay short.
    pub(super) fn volume(&mut self) -> Option<VolumeId> {
        if let Some(id) = self.free.pop_front() {
            return Some(id);
        }
        let slot = self.unused;
        (slot < VOLUMES).then(|| {
            self.unused += 1;
            VolumeId::new(slot, 0)
        })
    }

    /// No core has a queue of the volume of that name any more.
    pub(super) fn release(&mut self, id: VolumeId) {
        if let Ok(slot) = u16::try_from(id.slot()) {
            self.free.push_back(VolumeId::new(slot, id.generation().wrapping_add(1)));
        }
    }

    /// A name for a listener.
    pub(super) fn listener(&mut self) -> ListenerId {
        let id = ListenerId(self.listeners);
        self.listeners += 1;
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_used_again_under_another_name_the_longest_unused_first() {
        let mut ids = Ids::default();
        let [one, two] = [ids.volume().unwrap(), ids.volume().unwrap()];
        assert_eq!([one, two], [VolumeId::new(0, 0), VolumeId::new(1, 0)]);
        ids.release(two);
        ids.release(one);
        assert_eq!(ids.volume(), Some(VolumeId::new(1, 1)));
        assert_eq!(ids.volume(), Some(VolumeId::new(0, 1)));
        assert_eq!(ids.volume(), Some(VolumeId::new(2, 0)));
    }

    #[test]
    fn there_is_an_end_to_them() {
        let mut ids = Ids::default();
        let all: Vec<VolumeId> = std::iter::from_fn(|| ids.volume()).collect();
        assert_eq!(all.len(), usize::from(VOLUMES));
        ids.release(all[7]);
        assert_eq!(ids.volume(), Some(VolumeId::new(7, 1)));
        assert_eq!(ids.volume(), None);
    }
}
