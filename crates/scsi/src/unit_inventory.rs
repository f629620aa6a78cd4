//! The logical units that a nexus sees, and what it knows of each (SAM-5 §4.6.4).
//!
//! The inventory may change while the nexus is there. A task names its unit by the place that the unit has here, which stays the same as long as the
//! unit is there. Places of units that are gone are filled again, under another number: a task never finds another unit than its own.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use volume::reservation::{Access, View};
use volume::{Epoch, Geometry, VolumeId};

use crate::device::{LogicalUnit, TargetDevice};
use crate::limits;
use crate::lun::decode_lun;
use crate::mode::ModeState;
use crate::sense::Additional;

/// Where a nexus has a logical unit, from when it first sees the unit until the unit is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitPlace {
    index: u32,
    number: u32,
}

impl UnitPlace {
    /// The place of no unit.
    pub(crate) const NONE: Self = Self { index: u32::MAX, number: 0 };
}

/// What the nexus knows of one logical unit.
#[derive(Debug)]
pub(crate) struct UnitState {
    lun: u16,
    pub(crate) volume: VolumeId,
    /// How many units had been seen before this one, in any place.
    number: u32,
    /// Where the device has it.
    index: usize,
    attentions: VecDeque<Additional>,
    pub(crate) view: Arc<View>,
    pub(crate) access: Access,
    /// The volume's, of which `access` is what this nexus may do.
    pub(crate) epoch: Epoch,
    pub(crate) mode: ModeState,
}

impl UnitState {
    /// The oldest unit attention, which is no longer pending then.
    pub(crate) fn take_attention(&mut self) -> Option<Additional> {
        self.attentions.pop_front()
    }

    /// Makes a unit attention pending, unless it is or too many are.
    pub(crate) fn attention(&mut self, code: Additional) {
        if !self.attentions.contains(&code) && self.attentions.len() < limits::PENDING_ATTENTIONS {
            self.attentions.push_back(code);
        }
    }
}

/// A logical unit with everything that a command of it may look at.
pub(crate) struct Shown<'a> {
    pub(crate) device: &'a TargetDevice,
    pub(crate) unit: &'a LogicalUnit,
    pub(crate) state: &'a mut UnitState,
}

/// The logical units of one target device, as one nexus sees them.
#[derive(Debug)]
pub(crate) struct UnitInventory {
    device: Arc<TargetDevice>,
    /// Never more than the device has had units at a time.
    places: Vec<Option<UnitState>>,
    /// Units that have been seen.
    seen: u32,
}

impl UnitInventory {
    /// The units of a device, with a unit attention for the power-on on each (SAM-5 §6.2).
    pub(crate) fn new(device: Arc<TargetDevice>) -> Self {
        let mut inventory = Self { device, places: Vec::new(), seen: 0 };
        inventory.add((0..inventory.device.units.len()).collect());
        inventory
    }

    /// The device.
    pub(crate) fn device(&self) -> &TargetDevice {
        &self.device
    }

    /// Where the unit is that eight LUN bytes name.
    pub(crate) fn find(&self, lun: [u8; 8]) -> Option<UnitPlace> {
        let lun = decode_lun(lun)?;
        let places = (0..).zip(&self.places);
        let mut shown = places.filter_map(|(index, place)| Some((index, place.as_ref()?)));
        let (index, state) = shown.find(|(_, state)| state.lun == lun)?;
        Some(UnitPlace { index, number: state.number })
    }

    /// The unit that eight LUN bytes name, and where it is.
    #[inline]
    pub(crate) fn find_shown(&mut self, lun: [u8; 8]) -> Option<(UnitPlace, Shown<'_>)> {
        let lun = decode_lun(lun)?;
        let places = (0..).zip(&mut self.places);
        let mut shown = places.filter_map(|(index, place)| Some((index, place.as_mut()?)));
        let (index, state) = shown.find(|(_, state)| state.lun == lun)?;
        let unit = self.device.units.get(state.index)?;
        Some((UnitPlace { index, number: state.number }, Shown { device: &self.device, unit, state }))
    }

    /// What is known of the unit in a place, if it is still there.
    #[inline]
    pub(crate) fn state(&self, place: UnitPlace) -> Option<&UnitState> {
        let state = self.places.get(place.index as usize)?.as_ref()?;
        (state.number == place.number).then_some(state)
    }

    /// The unit in a place, if it is still there.
    #[inline]
    pub(crate) fn get(&mut self, place: UnitPlace) -> Option<Shown<'_>> {
        let state = self.places.get_mut(place.index as usize)?.as_mut()?;
        let unit = self.device.units.get(state.index)?;
        (state.number == place.number).then_some(Shown { device: &self.device, unit, state })
    }

    /// What is known of each unit.
    pub(crate) fn states(&self) -> impl Iterator<Item = &UnitState> {
        self.places.iter().flatten()
    }

    /// What is known of each unit, to change it.
    pub(crate) fn states_mut(&mut self) -> impl Iterator<Item = &mut UnitState> {
        self.places.iter_mut().flatten()
    }

    /// The volume has this size from now on.
    pub(crate) fn resize(&mut self, volume: VolumeId, geometry: Geometry) {
        if self.states().any(|state| state.volume == volume) {
            Arc::make_mut(&mut self.device).resize(volume, geometry);
        }
    }

    /// Shows the units of another state of the device. Those with the number and volume of before stay where they are, with all that is known of
    /// them. Gives the places of those that are gone. If any has come or gone, all that are there have it reported (SPC-4 §6.33).
    pub(crate) fn replace(&mut self, device: Arc<TargetDevice>) -> Vec<UnitPlace> {
        let before = core::mem::replace(&mut self.device, device);
        let (units, mut removed) = (&self.device.units, Vec::new());
        let mut is_known = alloc::vec![false; units.len()];
        for (index, place) in (0..).zip(&mut self.places) {
            let Some(state) = place else { continue };
            let found = units.binary_search_by_key(&state.lun, |unit| unit.lun).ok();
            let same = found.and_then(|at| units.get(at).zip(is_known.get_mut(at)).map(|unit| (at, unit)));
            if let Some((at, (unit, known))) = same.filter(|(_, (unit, _))| unit.volume == state.volume) {
                if before.units.get(state.index).is_some_and(|old| old.geometry != unit.geometry) {
                    state.attention(Additional::CAPACITY_CHANGED);
                }
                (state.index, *known) = (at, true);
            } else {
                removed.push(UnitPlace { index, number: state.number });
                *place = None;
            }
        }
        let new: Vec<usize> = (0..).zip(is_known).filter(|(_, known)| !known).map(|(at, _)| at).collect();
        let is_same = removed.is_empty() && new.is_empty();
        self.add(new);
        if !is_same {
            self.states_mut().for_each(|state| state.attention(Additional::REPORTED_LUNS_CHANGED));
        }
        removed
    }

    /// The initiator knows the inventory as it is: no unit has a change of it to report any more (SPC-4 §6.33).
    pub(crate) fn was_reported(&mut self) {
        self.states_mut()
            .for_each(|state| state.attentions.retain(|code| *code != Additional::REPORTED_LUNS_CHANGED));
    }

    /// Sees units of the device for the first time: in empty places, and in new ones behind them. Leaves no empty place at the end.
    fn add(&mut self, new: Vec<usize>) {
        let empty: Vec<usize> =
            (0..).zip(&self.places).filter(|(_, place)| place.is_none()).map(|(index, _)| index).collect();
        let mut empty = empty.into_iter();
        for index in new {
            let Some(unit) = self.device.units.get(index) else { continue };
            let state = UnitState {
                lun: unit.lun,
                volume: unit.volume,
                number: self.seen,
                index,
                attentions: VecDeque::from([Additional::POWER_ON]),
                view: Arc::default(),
                access: Access::FULL,
                epoch: Epoch::default(),
                mode: ModeState::default(),
            };
            self.seen = self.seen.wrapping_add(1);
            match empty.next().and_then(|place| self.places.get_mut(place)) {
                Some(place) => *place = Some(state),
                None => self.places.push(Some(state)),
            }
        }
        let used = self.places.iter().rposition(Option::is_some).map_or(0, |last| last.saturating_add(1));
        self.places.truncate(used);
    }
}

#[cfg(test)]
mod tests {
    use volume::{Features, Limits};

    use super::*;
    use crate::device::UnitIdentity;

    fn device(units: &[(u16, u16)]) -> Arc<TargetDevice> {
        let identity = UnitIdentity {
            vendor: "V".into(),
            product: "P".into(),
            revision: "1".into(),
            serial: "1".into(),
            naa: [0; 8],
            uuid: [0; 16],
            incarnation: None,
        };
        let unit = |&(lun, slot): &(u16, u16)| LogicalUnit {
            lun,
            volume: VolumeId::new(slot, 0),
            geometry: Geometry { blocks: 8, block_size: 512, physical_block_size: 512 },
            limits: Limits::default(),
            features: Features::empty(),
            identity: identity.clone(),
        };
        Arc::new(TargetDevice {
            port_name: "p".into(),
            device_name: "d".into(),
            relative_port: 1,
            port_group: 1,
            units: units.iter().map(unit).collect(),
        })
    }

    /// Changes by seed: units that stay keep their places, places that were given up find nothing again, and there are never more places
    /// than there were units.
    #[test]
    fn places_are_stable_and_bounded_whatever_comes_and_goes() {
        for seed in 0..200_u64 {
            let mut state = seed;
            let mut next = |bound: u64| {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let word = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                (word ^ word >> 27) % bound
            };
            let mut inventory = UnitInventory::new(device(&[(0, 0)]));
            let (mut most, mut gone, mut shown) = (1, Vec::new(), Vec::from([(0, 0)]));
            for step in 0..50 {
                let place = |inventory: &UnitInventory, lun| inventory.find(crate::encode_lun(lun));
                let known: Vec<_> =
                    shown.iter().map(|&(lun, slot)| ((lun, slot), place(&inventory, lun).unwrap())).collect();
                let luns = (0..9_u16).filter(|_| next(2) == 0).collect::<Vec<_>>();
                shown = luns.iter().map(|lun| (*lun, u16::try_from(next(2)).unwrap() * 100 + *lun)).collect();
                let removed = inventory.replace(device(&shown));
                most = most.max(shown.len());
                for (unit, before) in known {
                    let stays = shown.contains(&unit);
                    assert_eq!(removed.contains(&before), !stays, "seed {seed}, step {step}: {unit:?}");
                    let now = inventory.get(before).map(|shown| (shown.unit.lun, shown.unit.volume.slot()));
                    let expected = stays.then_some((unit.0, usize::from(unit.1)));
                    assert_eq!(now, expected, "seed {seed}, step {step}: the place of {unit:?}");
                }
                gone.extend(removed);
                assert!(
                    gone.iter().all(|place| inventory.state(*place).is_none()),
                    "seed {seed}, step {step}"
                );
                let luns: Vec<u16> = shown.iter().map(|(lun, _)| *lun).collect();
                let mut found: Vec<u16> = inventory.states().map(|state| state.lun).collect();
                found.sort_unstable();
                assert_eq!(found, luns, "seed {seed}, step {step}");
                assert!(inventory.places.len() <= most, "seed {seed}, step {step}");
            }
            inventory.replace(device(&[]));
            assert!(inventory.places.is_empty(), "nothing is kept of units that are gone");
        }
    }
}
