//! Both roles over software iWARP, as a fabric of the bench.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::sync::Arc;

use buf::{Account, Pool};
use iwarp::mpa::{Offer, Revision, RtrKinds};
use iwarp::{Connection, QueueLimits, Role};
use nvme::controller::Portal;
use nvme::host::Config;
use nvme::rdma::{ControllerConnection, HostConnection, QueuePairNeeds};
use protocol::Instant;

use super::common::Fabric;

pub type Controller = ControllerConnection<Connection>;
pub type Host = HostConnection<Connection>;

/// Software iWARP.
#[derive(Clone, Copy)]
pub struct Iwarp {
    pub crc: bool,
    /// RDMA Reads at a time.
    pub reads: u16,
}

impl Default for Iwarp {
    fn default() -> Self {
        Self { crc: false, reads: 4 }
    }
}

impl Iwarp {
    pub fn pair(self, role: Role, needs: QueuePairNeeds, pool: &Pool) -> Connection {
        let QueuePairNeeds { sends, receives, regions, longest } = needs;
        let offer = Offer {
            revision: Revision::Two,
            markers: false,
            crc: self.crc,
            rtr: RtrKinds::ALL,
            ird: self.reads,
            ord: self.reads,
        };
        let queues = QueueLimits { sends, receives, regions, longest };
        let config = iwarp::Config { role, offer, queues, mss: 1448, solicited: false };
        Connection::new(Instant::ZERO, config, Account::new(pool))
    }
}

impl Fabric for Iwarp {
    type Host = Host;
    type Controller = Controller;

    fn host(&self, config: Config, now: Instant) -> Host {
        let role = Role::Initiator(Host::private_data(&config));
        let pair = self.pair(role, Host::needs(&config), &Pool::new(1 << 20));
        Host::new(pair, config, now)
    }

    fn controller(&self, portal: Arc<Portal>, pool: Pool, now: Instant) -> Controller {
        let pair = self.pair(Role::Responder, Controller::needs(&portal), &pool);
        Controller::new(pair, portal, pool, now)
    }
}
