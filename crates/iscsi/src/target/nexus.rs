//! The I_T nexus of a session: the initiator's view of the target's logical units, and what happens on volumes before it exists.
//!
//! | state | what happens on a volume |
//! |---|---|
//! | `Awaited` | is kept as far as it lasts, and told when the nexus opens |
//! | `Open` | is told to its device server |
//! | `Never` | concerns nobody: the login has failed, or the session is for discovery |

use alloc::boxed::Box;

use scsi::{DeviceServer, NexusEvent};
use volume::{Epoch, VolumeId};

use super::early_events::EarlyEvents;

/// What a connection knows of its nexus.
#[derive(Debug)]
enum State {
    Awaited(EarlyEvents),
    Open(Box<DeviceServer>),
    Never,
}

/// A connection's nexus.
#[derive(Debug)]
pub(super) struct Nexus {
    state: State,
}

impl Nexus {
    /// Before the login has ended.
    pub(super) fn awaited() -> Self {
        Self { state: State::Awaited(EarlyEvents::default()) }
    }

    /// The session begins, and this is its view.
    pub(super) fn open(&mut self, mut server: DeviceServer) {
        if let State::Awaited(early) = core::mem::replace(&mut self.state, State::Never) {
            early.tell(&mut server);
        }
        self.state = State::Open(Box::new(server));
    }

    /// No nexus begins any more. One that is open stays.
    pub(super) fn give_up(&mut self) {
        if matches!(self.state, State::Awaited(_)) {
            self.state = State::Never;
        }
    }

    /// True for a session that has one.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Its view of the logical units, if it is open.
    #[inline]
    pub(super) fn server(&self) -> Option<&DeviceServer> {
        match &self.state {
            State::Open(server) => Some(server),
            State::Awaited(_) | State::Never => None,
        }
    }

    /// Its view of the logical units, if it is open.
    #[inline]
    pub(super) fn server_mut(&mut self) -> Option<&mut DeviceServer> {
        match &mut self.state {
            State::Open(server) => Some(server),
            State::Awaited(_) | State::Never => None,
        }
    }

    /// A volume's epoch has moved.
    pub(super) fn set_epoch(&mut self, volume: VolumeId, epoch: Epoch) {
        match &mut self.state {
            State::Awaited(early) => early.set_epoch(volume, epoch),
            State::Open(server) => server.set_epoch(volume, epoch),
            State::Never => {}
        }
    }

    /// Something has happened on a volume through another nexus.
    pub(super) fn handle_event(&mut self, volume: VolumeId, event: NexusEvent) {
        match &mut self.state {
            State::Awaited(early) => early.keep(volume, event),
            State::Open(server) => server.handle_event(volume, event),
            State::Never => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec;

    use scsi::{LogicalUnit, TargetDevice, UnitIdentity};
    use volume::reservation::Registrant;
    use volume::{Features, Geometry, Limits};

    use super::*;

    const DISK: VolumeId = VolumeId::new(1, 0);

    fn geometry(blocks: u64) -> Geometry {
        Geometry { blocks, block_size: 512, physical_block_size: 512 }
    }

    /// The view of one disk of eight blocks.
    fn server() -> DeviceServer {
        let identity = UnitIdentity {
            vendor: "LINERATE".into(),
            product: "DISK".into(),
            revision: "1".into(),
            serial: "0001".into(),
            naa: [0x30, 0, 0, 0, 0, 0, 0, 1],
            uuid: [7; 16],
            incarnation: None,
        };
        let unit = LogicalUnit {
            lun: 0,
            volume: DISK,
            geometry: geometry(8),
            limits: Limits::default(),
            features: Features::empty(),
            identity,
        };
        let device = TargetDevice {
            port_name: "iqn.2026-11.org.example:t,t,0x0001".into(),
            device_name: "iqn.2026-11.org.example:t".into(),
            relative_port: 1,
            port_group: 1,
            units: vec![unit],
        };
        let (initiator_port, target_port) = ("i".into(), "t".into());
        DeviceServer::new(
            Arc::new(device),
            Registrant::Nexus { initiator_port, target_port, relative_port: 1 },
        )
    }

    fn blocks(nexus: &Nexus) -> Option<u64> {
        Some(nexus.server()?.device().units.first()?.geometry.blocks)
    }

    #[test]
    fn what_happened_before_it_opened_is_told_and_so_is_what_happens_then() {
        let mut nexus = Nexus::awaited();
        nexus.handle_event(DISK, NexusEvent::CapacityChanged(geometry(16)));
        assert_eq!((nexus.is_open(), blocks(&nexus)), (false, None));
        nexus.open(server());
        assert_eq!((nexus.is_open(), blocks(&nexus)), (true, Some(16)));
        nexus.handle_event(DISK, NexusEvent::CapacityChanged(geometry(32)));
        nexus.give_up();
        assert_eq!(blocks(&nexus), Some(32), "one that is open stays");
    }

    #[test]
    fn what_was_kept_is_gone_once_none_begins() {
        let mut nexus = Nexus::awaited();
        nexus.handle_event(DISK, NexusEvent::CapacityChanged(geometry(16)));
        nexus.give_up();
        nexus.handle_event(DISK, NexusEvent::CapacityChanged(geometry(32)));
        assert!(nexus.server_mut().is_none());
        nexus.open(server());
        assert_eq!(blocks(&nexus), Some(8));
    }
}
