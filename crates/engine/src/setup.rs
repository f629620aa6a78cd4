//! What a process serves: volumes, listeners and limits, the same for all of its cores.

use std::fmt;
use std::sync::Arc;

use host::Journal;
use protocol::Entropy;
use volume::{Geometry, Volume, VolumeId};

use crate::limits::ConnectionLimits;

/// Makes a source of randomness for a connection.
pub type EntropySource = Arc<dyn Fn() -> Box<dyn Entropy> + Send + Sync>;

/// What is spoken on a listening socket.
#[derive(Debug, Clone)]
pub enum ListenerRole {
    /// iSCSI, as a target.
    Iscsi(Arc<iscsi::target::Portal>),
    /// NVMe/TCP, as a controller.
    Nvme(Arc<nvme::controller::Portal>),
}

impl ListenerRole {
    /// A volume has this size from now on, for connections that come later.
    pub(crate) fn resize(&mut self, volume: VolumeId, geometry: Geometry) {
        match self {
            Self::Iscsi(portal) => Arc::make_mut(portal).resize(volume, geometry),
            Self::Nvme(portal) => Arc::make_mut(portal).resize(volume, geometry),
        }
    }
}

/// Everything that a core needs to know to serve.
#[derive(Clone)]
pub struct Setup {
    /// The exported volumes; a [`volume::VolumeId`] is an index into this list.
    pub volumes: Vec<Arc<dyn Volume>>,
    /// What is spoken on each listener, in the listeners' order.
    pub listeners: Vec<ListenerRole>,
    /// How many connections are served.
    pub limits: ConnectionLimits,
    /// The most memory for data buffers on each core, in bytes.
    pub pool_limit: usize,
    /// Where connections get their randomness.
    pub entropy: EntropySource,
    /// Where events are told.
    pub journal: Arc<dyn Journal>,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("volumes", &self.volumes)
            .field("listeners", &self.listeners)
            .field("limits", &self.limits)
            .field("pool_limit", &self.pool_limit)
            .finish_non_exhaustive()
    }
}
