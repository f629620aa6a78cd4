//! What changes while a queue lives: the size of a volume.

use alloc::sync::Arc;

use volume::{Geometry, VolumeId};

use super::{ControllerQueue, Joining, State};
use crate::controller::fabric_transport::FabricTransport;

impl<T: FabricTransport> ControllerQueue<T> {
    /// A volume has another size. Whoever is not connected yet finds it in the portal.
    pub(super) fn handle_resize(&mut self, volume: VolumeId, geometry: Geometry) {
        match &mut self.state {
            State::Io(namespaces) => {
                for namespace in namespaces.iter_mut().filter(|namespace| namespace.volume == volume) {
                    namespace.geometry = geometry;
                }
            }
            State::Admin(admin) => {
                admin.resize(volume, geometry);
                self.after_admin();
            }
            State::Connecting(_, joining) => match &mut **joining {
                Joining::Admin(admin) => {
                    admin.service.resize(volume, geometry);
                }
                Joining::Io(subsystem) => Arc::make_mut(subsystem).resize(volume, geometry),
            },
            State::ExpectConnect => {
                Arc::make_mut(&mut self.portal).resize(volume, geometry);
            }
        }
    }
}
