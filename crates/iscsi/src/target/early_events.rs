//! What happens on volumes while an initiator logs in: its nexus, which does not exist yet, begins with it.
//!
//! Who holds reservations, how large a unit is, and which epoch it is must be known then; nothing else that happened before concerns a nexus.

use alloc::vec::Vec;
use core::mem::discriminant;

use scsi::{DeviceServer, NexusEvent};
use volume::{Epoch, VolumeId};

/// The newest of each volume.
#[derive(Debug, Default)]
pub(super) struct EarlyEvents {
    events: Vec<(VolumeId, NexusEvent)>,
    epochs: Vec<(VolumeId, Epoch)>,
}

impl EarlyEvents {
    /// A volume's epoch has moved.
    pub(super) fn set_epoch(&mut self, volume: VolumeId, epoch: Epoch) {
        self.epochs.retain(|(known, _)| *known != volume);
        self.epochs.push((volume, epoch));
    }

    /// Something has happened on a volume.
    pub(super) fn keep(&mut self, volume: VolumeId, event: NexusEvent) {
        let lasting = matches!(event, NexusEvent::Reservations { .. } | NexusEvent::CapacityChanged(_));
        if lasting {
            let kind = discriminant(&event);
            self.events.retain(|(at, earlier)| (*at, discriminant(earlier)) != (volume, kind));
            self.events.push((volume, event));
        }
    }

    /// The nexus begins.
    pub(super) fn tell(self, server: &mut DeviceServer) {
        for (volume, event) in self.events {
            server.handle_event(volume, event);
        }
        for (volume, epoch) in self.epochs {
            server.set_epoch(volume, epoch);
        }
    }
}

#[cfg(test)]
mod tests {
    use volume::Geometry;

    use super::*;

    #[test]
    fn only_the_newest_of_what_lasts_is_kept() {
        let mut early = EarlyEvents::default();
        let (one, other) = (VolumeId::new(1, 0), VolumeId::new(2, 0));
        let size = |blocks| {
            NexusEvent::CapacityChanged(Geometry { blocks, block_size: 512, physical_block_size: 512 })
        };
        for (volume, event) in
            [(one, size(1)), (other, size(2)), (one, NexusEvent::LogicalUnitReset), (one, size(3))]
        {
            early.keep(volume, event);
        }
        early.set_epoch(one, Epoch(1));
        early.set_epoch(one, Epoch(2));
        let kept: Vec<VolumeId> = early.events.iter().map(|(volume, _)| *volume).collect();
        assert_eq!(kept, [other, one]);
        assert!(matches!(early.events[1].1, NexusEvent::CapacityChanged(Geometry { blocks: 3, .. })));
        assert_eq!(early.epochs, [(one, Epoch(2))]);
    }
}
