//! Queue pairs of software RoCEv2 for the connections of this process: what they are made with, and how long their packets are.

use roce::Config;
use roce::mtu::Mtu;
use verbs::QueueLimits;

use crate::limits::{ROCE_INITIATOR_READS, ROCE_TARGET_READS};

/// Bytes in front of a packet's payload and behind it: IPv6, UDP, the base header, the longest extended one, and the sum.
const AROUND_PAYLOAD: usize = 40 + 8 + 12 + 20 + 4;

/// How packets are to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoceLink {
    mtu: Mtu,
}

impl RoceLink {
    /// To peers that say how long packets may be.
    pub(crate) const RESPONDER: Self = Self { mtu: Mtu::Bytes4096 };

    /// On a way that carries datagrams of so many bytes.
    pub(crate) fn over(path: usize) -> Self {
        let payload = path.saturating_sub(AROUND_PAYLOAD);
        let fits = |mtu: &Mtu| mtu.bytes() <= payload;
        let mtus = [Mtu::Bytes4096, Mtu::Bytes2048, Mtu::Bytes1024, Mtu::Bytes512];
        Self { mtu: mtus.into_iter().find(fits).unwrap_or(Mtu::Bytes256) }
    }

    /// The queue pair of a connection that a peer wants. Targets and controllers read their peers' memory, and have none to be read.
    pub(crate) fn responder(self, queues: QueueLimits) -> Config {
        Config { queues, mtu: self.mtu, reads_served: 1, reads_sent: ROCE_TARGET_READS }
    }

    /// The queue pair of a connection that this side wants.
    pub(crate) fn initiator(self, queues: QueueLimits) -> Config {
        Config { queues, mtu: self.mtu, reads_served: ROCE_INITIATOR_READS, reads_sent: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_fit_into_what_the_way_carries() {
        for (path, expected) in [
            (65_536, Mtu::Bytes4096),
            (9000, Mtu::Bytes4096),
            (4180, Mtu::Bytes4096),
            (4179, Mtu::Bytes2048),
            (1500, Mtu::Bytes1024),
            (1280, Mtu::Bytes1024),
            (0, Mtu::Bytes256),
        ] {
            assert_eq!(RoceLink::over(path).mtu, expected, "{path}");
        }
    }
}
