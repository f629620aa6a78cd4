//! Both roles over iSER, on queue pairs of software iWARP.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test file uses its own part")]

use std::sync::Arc;

use buf::{Account, Pool};
use iscsi::datamover::iser::{self, Invalidation, initiator_needs, private_data, target_needs};
use iscsi::initiator::Config;
use iscsi::target::Portal;
use iwarp::Role;
use iwarp::mpa::{Offer, Revision, RtrKinds};
use protocol::{Instant, SeededEntropy};
use verbs::QueueLimits;

use super::{Bench, blocks, resources};

pub const OFFER: Offer =
    Offer { revision: Revision::Two, markers: false, crc: true, rtr: RtrKinds::ALL, ird: 16, ord: 16 };

/// A queue pair of software iWARP that holds so much.
pub fn queue_pair(role: Role, queues: QueueLimits, offer: Offer) -> iwarp::Connection {
    let config = iwarp::Config { role, offer, queues, mss: 1448, solicited: false };
    iwarp::Connection::new(Instant::ZERO, config, Account::new(&Pool::new(1 << 20)))
}

pub type Near = iser::InitiatorConnection<iwarp::Connection>;
pub type Far = iser::TargetConnection<iwarp::Connection>;
pub type IserBench = Bench<Near, Far>;

pub fn near(config: Config, invalidation: Invalidation) -> Near {
    let queue_pair = queue_pair(Role::Initiator(private_data(invalidation)), initiator_needs(), OFFER);
    let entropy = Box::new(SeededEntropy::new(2));
    iser::InitiatorConnection::new(Instant::ZERO, config, Pool::new(64 << 20), entropy, queue_pair)
}

pub fn far(portal: Portal, pool: &Pool) -> Far {
    let queue_pair = queue_pair(Role::Responder, target_needs(portal.queue_depth), OFFER);
    iser::TargetConnection::new(Instant::ZERO, Arc::new(portal), resources(pool), queue_pair)
}

/// Both ends, which have exchanged nothing yet.
pub fn bench(config: Config, portal: Portal, pool: &Pool) -> IserBench {
    let blocks = blocks(&portal);
    Bench::of(near(config, Invalidation::Used), far(portal, pool), blocks)
}

/// Logged in and probed.
pub fn ready(config: Config, portal: Portal) -> IserBench {
    let mut bench = bench(config, portal, &Pool::new(256 << 20));
    bench.log_in();
    bench
}
