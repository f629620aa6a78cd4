//! What changes while a connection lives: the size of a volume.

use alloc::sync::Arc;
use alloc::vec::Vec;

use volume::{Geometry, VolumeId};

use super::{Connection, Joining, State};
use crate::controller::admin::{Admin, Event};

impl Connection {
    /// A volume has another size. Whoever is not connected yet finds it in the portal.
    pub(super) fn handle_resize(&mut self, volume: VolumeId, geometry: Geometry) {
        match &mut self.state {
            State::Io(namespaces) => {
                for namespace in namespaces.iter_mut().filter(|namespace| namespace.volume == volume) {
                    namespace.geometry = geometry;
                }
            }
            State::Admin(admin) => {
                resize_namespaces(admin, volume, geometry);
                self.after_admin();
            }
            State::Connecting(_, joining) => match &mut **joining {
                Joining::Admin(admin) => Arc::make_mut(&mut admin.portal).resize(volume, geometry),
                Joining::Io { .. } => Arc::make_mut(&mut self.portal).resize(volume, geometry),
            },
            State::ExpectIcReq | State::ExpectConnect => {
                Arc::make_mut(&mut self.portal).resize(volume, geometry);
            }
        }
    }
}

/// Tells the host of those of its namespaces that have changed.
fn resize_namespaces(admin: &mut Admin, volume: VolumeId, geometry: Geometry) {
    let namespaces = admin.subsystem().into_iter().flat_map(|subsystem| &subsystem.namespaces);
    let of_volume = namespaces.filter(|namespace| namespace.volume == volume);
    let changed: Vec<u32> = of_volume.map(|namespace| namespace.nsid).collect();
    if changed.is_empty() {
        return;
    }
    Arc::make_mut(&mut admin.portal).resize(volume, geometry);
    for nsid in changed {
        admin.changed.add(nsid);
    }
    admin.notify(Event::Namespaces);
}
