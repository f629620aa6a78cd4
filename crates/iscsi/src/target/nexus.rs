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
