//! What was last reported of each volume: its epoch and its reservations. It comes before the queue is connected, too.

use alloc::sync::Arc;
use alloc::vec::Vec;

use volume::reservation::{Registrant, View};
use volume::{Epoch, VolumeId};

use super::command::VolumeRef;
use crate::status::Status;

/// The state of a volume.
#[derive(Debug)]
pub(super) struct VolumeState {
    pub(super) current: VolumeRef,
    pub(super) view: Arc<View>,
}

/// The states of all volumes that were reported.
#[derive(Debug, Default)]
pub(super) struct VolumeStates {
    list: Vec<VolumeState>,
}

impl VolumeStates {
    /// A volume has another epoch, and other reservations if `view` says so. Once a slot is reported in another use, its volume of before is gone.
    pub(super) fn record(&mut self, current: VolumeRef, view: Option<&Arc<View>>) {
        let slot = current.volume.slot();
        let Some(state) = self.list.iter_mut().find(|state| state.current.volume.slot() == slot) else {
            self.list.push(VolumeState { current, view: view.map(Arc::clone).unwrap_or_default() });
            return;
        };
        if view.is_some() || state.current.volume != current.volume {
            state.view = view.map(Arc::clone).unwrap_or_default();
        }
        state.current = current;
    }

    /// Whether a host may read a volume, and what says so.
    pub(super) fn judge_read(
        &self,
        volume: VolumeId,
        host: Option<&Registrant>,
    ) -> Result<VolumeRef, Status> {
        let Some(state) = self.find(volume) else { return Ok(VolumeRef { volume, epoch: Epoch::default() }) };
        let reads = host.is_none_or(|host| state.view.access(host).read);
        if reads { Ok(state.current) } else { Err(Status::RESERVATION_CONFLICT.dnr()) }
    }

    /// What is known of a volume.
    pub(super) fn find(&self, volume: VolumeId) -> Option<&VolumeState> {
        self.list.iter().find(|state| state.current.volume == volume)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_epoch_keeps_the_reservations_that_are_not_reported_again() {
        let mut states = VolumeStates::default();
        let at = |slot, epoch| VolumeRef { volume: VolumeId::new(slot, 0), epoch: Epoch(epoch) };
        let view = Arc::new(View { generation: 3, ..View::default() });
        states.record(at(0, 1), None);
        states.record(at(1, 1), Some(&view));
        states.record(at(0, 2), Some(&view));
        states.record(at(0, 5), None);
        let found = states.find(VolumeId::new(0, 0)).map(|state| (state.current, state.view.generation));
        assert_eq!(found, Some((at(0, 5), 3)));
        assert!(states.find(VolumeId::new(1, 0)).is_some_and(|state| state.current == at(1, 1)));
        assert!(states.find(VolumeId::new(0, 1)).is_none(), "another use of the slot is another volume");
    }

    #[test]
    fn another_use_of_a_slot_takes_the_place_of_the_one_before() {
        let mut states = VolumeStates::default();
        let at = |generation, epoch| VolumeRef { volume: VolumeId::new(7, generation), epoch: Epoch(epoch) };
        states.record(at(0, 4), Some(&Arc::new(View { generation: 3, ..View::default() })));
        states.record(at(1, 1), None);
        assert!(states.find(VolumeId::new(7, 0)).is_none() && states.list.len() == 1);
        let found = states.find(VolumeId::new(7, 1)).map(|state| (state.current, state.view.generation));
        assert_eq!(found, Some((at(1, 1), 0)), "the reservations were those of another volume");
    }
}
