//! What connections to other machines use of the world.

use std::sync::Arc;
use std::task::Waker;

use host::Dialer;

use crate::config::EntropySource;

/// What opening may use of the world.
#[derive(Clone)]
pub struct Surroundings {
    /// Connects.
    pub dialer: Arc<dyn Dialer>,
    /// Woken when something has become known.
    pub waker: Waker,
    /// Randomness.
    pub entropy: EntropySource,
}

#[cfg(test)]
impl Surroundings {
    /// A world in which every attempt to connect fails at once.
    pub(super) fn nowhere() -> Self {
        use std::net::SocketAddr;

        use host::Endpoint;

        struct Nowhere;
        impl Dialer for Nowhere {
            fn dial(&self, _peer: SocketAddr, mut endpoint: Box<dyn Endpoint>) -> host::EndpointId {
                endpoint.handle_ended(protocol::Instant::ZERO, protocol::Ended::Failed(111));
                host::EndpointId(0)
            }
            fn nudge(&self, _endpoint: host::EndpointId) {}
            fn waker(&self, _endpoint: host::EndpointId) -> Waker {
                Waker::noop().clone()
            }
        }
        let entropy: EntropySource = Arc::new(|| Box::new(protocol::SeededEntropy::new(1)));
        Self { dialer: Arc::new(Nowhere), waker: Waker::noop().clone(), entropy }
    }
}

impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}
