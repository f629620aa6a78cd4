//! The adapters of this machine, as engines reach them.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::{AdapterError, AdapterPair, AdapterPort, Adapters, ListenerId, OpenedPair, PairWish};

use crate::inbox::Channels;
use crate::pair::Pair;
use crate::port::Port;
use crate::sys::{ChannelError, CmId, EventChannel};

/// A port that listens, before a core has it.
#[derive(Debug)]
pub struct BoundPort {
    listener: CmId,
    events: Arc<EventChannel>,
}

impl BoundPort {
    /// Listens at an address; port 0 takes a free one, which [`local`](Self::local) returns.
    ///
    /// # Errors
    /// The libraries are missing, or the kernel has no connection management, no adapter at the address, or another listener there.
    pub fn bind(address: SocketAddr) -> Result<Self, AdapterError> {
        let events = open_channel()?;
        let listener = CmId::new(&events).and_then(|listener| {
            listener.listen(address)?;
            Ok(listener)
        });
        match listener {
            Ok(listener) => Ok(Self { listener, events }),
            Err(error) => Err(AdapterError(format!("{error}; {}", remedy(&error)))),
        }
    }

    /// Where it listens.
    pub fn local(&self) -> SocketAddr {
        self.listener.local()
    }
}

/// What helps where nothing can listen.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "choose another port, or end the program or the kernel's target that has it"
        }
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::NotFound => {
            "no RDMA adapter has this address: `rdma link` shows those that there are"
        }
        _ => "check that an RDMA adapter has this address (`rdma link`)",
    }
}

fn open_channel() -> Result<Arc<EventChannel>, AdapterError> {
    EventChannel::new().map_err(|error| match error {
        ChannelError::Load(error) => AdapterError(error.to_string()),
        ChannelError::System(error) => AdapterError(format!(
            "the kernel has no connection management for RDMA: {error}; load its module (modprobe rdma_ucm)"
        )),
    })
}

/// The adapters of this machine. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct SystemAdapters {
    /// Ports that no core has taken yet.
    bound: Arc<Mutex<HashMap<ListenerId, BoundPort>>>,
}

impl SystemAdapters {
    fn bound(&self) -> MutexGuard<'_, HashMap<ListenerId, BoundPort>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a port for the core that will ask for its listener's.
    pub fn offer(&self, listener: ListenerId, port: BoundPort) {
        self.bound().insert(listener, port);
    }

    /// A listener is not to be served: its port, if no core has it, is closed.
    pub fn withdraw(&self, listener: ListenerId) {
        self.bound().remove(&listener);
    }
}

impl Adapters for SystemAdapters {
    fn take_port(&self, listener: ListenerId) -> Option<Box<dyn AdapterPort>> {
        let BoundPort { listener, events } = self.bound().remove(&listener)?;
        let channels = Channels::new(events).ok()?;
        Some(Box::new(Port::new(channels, Some(listener))))
    }

    fn connect(&self, wish: PairWish) -> Result<OpenedPair, AdapterError> {
        let channels = Channels::new(open_channel()?).map_err(|error| {
            AdapterError(format!("there is no descriptor for an RDMA connection: {error}"))
        })?;
        let pair = AdapterPair::new(Pair::connect(&channels, wish)?);
        Ok(OpenedPair { port: Box::new(Port::new(channels, None)), pair })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        // A machine with an adapter at its loopback address listens.
        let Err(error) = BoundPort::bind("127.0.0.1:0".parse().unwrap()) else { return };
        let words = error.to_string();
        let named = ["packages", "rdma_ucm", "rdma link"].iter().any(|remedy| words.contains(remedy));
        assert!(named, "{words}");
    }
}
