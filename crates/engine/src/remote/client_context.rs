//! What connections to other machines use of the world.

use std::sync::Arc;
use std::task::Waker;

use host::{Adapters, Dialer};

use crate::config::EntropySource;

/// What opening may use of the world.
#[derive(Clone)]
pub struct ClientContext {
    /// Connects.
    pub dialer: Arc<dyn Dialer>,
    /// Queue pairs in hardware.
    pub adapters: Arc<dyn Adapters>,
    /// Woken when something has become known.
    pub waker: Waker,
    /// Randomness.
    pub entropy: EntropySource,
}

#[cfg(test)]
impl ClientContext {
    /// A world in which every attempt to connect fails at once.
    pub(super) fn without_network() -> Self {
        use std::net::SocketAddr;

        use host::Endpoint;

        struct NoNetwork;
        impl Dialer for NoNetwork {
            fn dial(&self, _peer: SocketAddr, mut endpoint: Box<dyn Endpoint>) -> host::EndpointId {
                endpoint.handle_ended(protocol::Instant::ZERO, protocol::Ended::Failed(111));
                host::EndpointId(0)
            }
            fn wake(&self, _endpoint: host::EndpointId) {}
            fn waker(&self, _endpoint: host::EndpointId) -> Waker {
                Waker::noop().clone()
            }
        }
        let entropy: EntropySource = Arc::new(|| Box::new(protocol::SeededEntropy::new(1)));
        Self {
            dialer: Arc::new(NoNetwork),
            adapters: Arc::new(host::NoAdapters),
            waker: Waker::noop().clone(),
            entropy,
        }
    }
}

impl std::fmt::Debug for ClientContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientContext").finish_non_exhaustive()
    }
}
