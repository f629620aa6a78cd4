//! Queue pairs of software iWARP for the connections of this process: what they offer, what they hold, and how long their FPDUs are.

use std::net::SocketAddr;

use buf::{Account, Pool};
use iwarp::mpa::{Offer, Revision, RtrKinds};
use iwarp::{Config, Role};
use protocol::Instant;
use verbs::{PrivateData, QueueLimits};

use crate::limits::{INITIATOR_READS, MSS, MSS_LOCAL, TARGET_READS};

/// The initiator's end of a queue pair.
#[derive(Debug)]
pub(crate) struct InitiatorEnd {
    /// What its peer is told with the request to connect.
    pub(crate) words: PrivateData,
    pub(crate) queues: QueueLimits,
}

/// How a TCP stream is to carry RDMA.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IwarpLink {
    /// FPDUs are to have CRCs. They have them too if the peer says so.
    pub(crate) crc: bool,
    /// Bytes of a TCP segment.
    pub(crate) mss: usize,
}

impl IwarpLink {
    /// The queue pair of a connection that was accepted, and counts its tables in `pool`. The share of the pool is that of the connection above it.
    pub(crate) fn responder(self, now: Instant, queues: QueueLimits, pool: &Pool) -> iwarp::Connection {
        // Targets and controllers read their peers' memory, and have none to be read.
        let offer = Offer { rtr: RtrKinds::ALL, ird: 1, ord: TARGET_READS, ..self.offer() };
        iwarp::Connection::new(now, self.config(Role::Responder, offer, queues), Account::apart(pool))
    }

    /// The queue pair of a connection that was made.
    pub(crate) fn initiator(self, now: Instant, initiator: InitiatorEnd, pool: &Pool) -> iwarp::Connection {
        let InitiatorEnd { words, queues } = initiator;
        // Initiators and hosts send first in any case: nothing else has to show that they are ready.
        let offer = Offer { ird: INITIATOR_READS, ord: 1, ..self.offer() };
        iwarp::Connection::new(now, self.config(Role::Initiator(words), offer, queues), Account::apart(pool))
    }

    fn offer(self) -> Offer {
        let rtr = RtrKinds::default();
        Offer { revision: Revision::Two, markers: false, crc: self.crc, rtr, ird: 0, ord: 0 }
    }

    fn config(self, role: Role, offer: Offer, queues: QueueLimits) -> Config {
        Config { role, offer, queues, mss: self.mss, solicited: false }
    }
}

/// Bytes of a TCP segment to a peer there, perhaps on this machine: FPDUs are to fit into the segments of that way (RFC 5044 §5.1).
pub(crate) fn segment_size(peer: SocketAddr, local: Option<SocketAddr>) -> usize {
    let is_here = peer.ip().to_canonical().is_loopback() || local.map(|local| local.ip()) == Some(peer.ip());
    if is_here { MSS_LOCAL } else { MSS }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a connection may hold does not depend on what carries it.
    #[test]
    fn a_queue_pair_takes_no_share_of_the_pool() {
        let pool = Pool::new(64 << 20);
        let connection = Account::new(&pool);
        let floor = connection.floor_left();
        let link = IwarpLink { crc: false, mss: MSS };
        let queues = QueueLimits { sends: 4, receives: 4, regions: 4, longest: 1 << 20 };
        let initiator =
            link.initiator(Instant::ZERO, InitiatorEnd { words: PrivateData::NONE, queues }, &pool);
        let responder = link.responder(Instant::ZERO, queues, &pool);
        assert_eq!(connection.floor_left(), floor);
        assert!(pool.used() > 0, "the table of the reads that it serves counts");
        drop((initiator, responder));
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn fpdus_are_as_long_as_the_way_allows() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (peer, local, expected) in [
            ("127.0.0.1:7", None, MSS_LOCAL),
            ("[::ffff:127.0.0.1]:7", None, MSS_LOCAL),
            ("[::1]:7", Some("[::1]:3260"), MSS_LOCAL),
            ("192.0.2.1:7", Some("192.0.2.1:3260"), MSS_LOCAL),
            ("192.0.2.1:7", Some("192.0.2.2:3260"), MSS),
            ("192.0.2.1:7", None, MSS),
        ] {
            assert_eq!(segment_size(at(peer), local.map(at)), expected, "{peer} {local:?}");
        }
    }
}
