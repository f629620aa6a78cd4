//! A fabric without a stream under the queues of both roles: capsules are messages, and data is in regions of the host's memory, which the controller
//! reaches by their keys, as it does over RDMA. It pulls the data of a write, pushes that of a read, and invalidates the key with the response. There
//! is no PDU, no R2T and no digest.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

mod controller_end;
mod host_end;
mod regions;

use std::sync::Arc;

use buf::Pool;
pub use controller_end::{MemoryController, STALLED};
pub use host_end::{FOREIGN, MemoryHost};
use nvme::controller::Portal;
use nvme::host::Config;
use protocol::Instant;
pub use regions::{Moved, Regions};

use super::common::Fabric;

/// The fabric: what all connections share is the memory of their hosts.
#[derive(Default)]
pub struct Memory {
    pub regions: Regions,
}

impl Fabric for Memory {
    type Host = MemoryHost;
    type Controller = MemoryController;

    fn host(&self, config: Config, now: Instant) -> MemoryHost {
        MemoryHost::new(self.regions.clone(), config, now)
    }

    fn controller(&self, portal: Arc<Portal>, pool: Pool, now: Instant) -> MemoryController {
        MemoryController::new(self.regions.clone(), portal, pool, now)
    }
}

/// Bytes of a capsule that stand before its data: it is found by its offset.
pub const PADDING: usize = 24;
