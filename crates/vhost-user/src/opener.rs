//! Opens `vhost-user:SOCKET`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use host::Dialer;
use names::{Source, VolumeUrl};
use volume::{OpenError, OpenStage, Opener, Openers, PreparedOpen, Ready};

use crate::control::Control;
use crate::limits::RECONNECT;
use crate::session::Session;
use crate::shared::{Shared, Wishes};
use crate::sys::{MemoryListener, SharedMemory};
use crate::volume::VhostUserVolume;

/// Opens volumes that are vhost-user devices of this machine.
#[derive(Clone)]
pub struct VhostUserOpener {
    /// Memory that devices reach where it is, if it comes from here.
    pub memory: SharedMemory,
    /// Has cores watch descriptors.
    pub dialer: Arc<dyn Dialer>,
}

impl fmt::Debug for VhostUserOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VhostUserOpener")
    }
}

impl Opener for VhostUserOpener {
    fn schemes(&self) -> &'static [&'static str] {
        &["vhost-user"]
    }

    fn prepare(&self, url: &VolumeUrl, _openers: &Openers) -> Result<Box<dyn PreparedOpen>, OpenError> {
        let Source::VhostUser(device) = &url.source else {
            return Err(OpenError::new("it is no vhost-user device").at(OpenStage::Scheme));
        };
        let path = PathBuf::from(&device.path);
        let unreachable = |error: std::io::Error| {
            OpenError::new(format!("{}: {error}: check that the device's process listens there", device.path))
                .at(OpenStage::Connection)
                .because(error)
        };
        let session = Session::begin(&path, device.ring).map_err(unreachable)?;
        let reconnect = device.reconnect.map_or(RECONNECT, |span| span.0);
        let wishes = Wishes {
            path,
            ring: device.ring,
            reconnect,
            memory: self.memory.clone(),
            dialer: Arc::clone(&self.dialer),
        };
        let shared = Arc::new(Shared::of(&session, wishes)?);
        self.memory.listen(&(Arc::clone(&shared) as Arc<dyn MemoryListener>));
        let control = Control::begin(&shared, session)
            .map_err(|error| OpenError::new(format!("no thread can be started: {error}")))?;
        Ok(Box::new(Ready::new(Arc::new(VhostUserVolume { shared, _control: control }))))
    }
}
