//! The simulator's own numbers, with unit and reason.

use std::time::Duration;

use engine::Transport;

/// Operations that one queue of a crash disk holds: few, so that being full is met often.
pub const DISK_DEPTH: usize = 32;

/// Versions of one piece that the checker keeps before it drops those that can no longer be met.
pub const VERSIONS: usize = 24;

/// The longest request that needs no more memory than a connection has at any time, in bytes: a page of a database.
pub const SMALL: usize = 8192;

/// How long a request of at most [`SMALL`] bytes may take beside hostile peers, if its client asks for no more at a time: the
/// disk's 5 ms, six chunks of 500 µs on the network, and two of the clock's steps of 20 ms.
pub const SMALL_WAIT: Duration = Duration::from_millis(50);

/// The same over datagrams, where hostile peers fill the sockets that others share: what is lost is sent again after 100 ms, 200 ms and 400 ms (`roce::limits::ACKNOWLEDGE_TIME`).
pub const SMALL_DATAGRAMS_WAIT: Duration = Duration::from_millis(750);

/// The same if its client asks for more, too, three requests at a time: each may keep an iSCSI session's stream for a second (`MEMORY_WAIT_TIME`) with data
/// that comes unasked, before the target answers BUSY; half a second is for the disk, the network and what is tried again.
pub const SMALL_BEHIND_WAIT: Duration = Duration::from_millis(3500);

/// How long any request may take beside hostile peers: after 10 s (`SCARCE_SEND_TIME` of both protocols) whoever holds memory that others
/// wait for has lost it, a second later the watch over memory has seen it; the rest is for the disk and the network.
pub const LARGE_WAIT: Duration = Duration::from_secs(12);

/// How long any request may take at least where several cores take their turns by the dice: 50 of the clock's steps, of which a core has four in ten; a request needs a few.
pub const TURNS_WAIT: Duration = Duration::from_secs(1);

/// How long the opening of a volume on a hostile server may take: as long as a host waits for the answers of an admin queue (`ADMIN_TIME`), which
/// is longer than a login and the questions to a logical unit.
pub const OPENING: Duration = Duration::from_secs(80);

/// How long a discovery at a hostile server may take: `DISCOVERY_TIME` of NVMe/TCP, the longer one of both protocols, and as long as its controller may
/// take to become ready.
pub const DISCOVERING: Duration = Duration::from_secs(140);

/// How long a request of at most [`SMALL`] bytes may take beside hostile peers.
pub(crate) fn small_wait_over(transport: Transport) -> Duration {
    if matches!(transport, Transport::Roce { .. }) { SMALL_DATAGRAMS_WAIT } else { SMALL_WAIT }
}
