//! The simulator's own numbers, with unit and reason.

use std::time::Duration;

/// Operations that one queue of a crash disk holds: few, so that being full is met often.
pub const DISK_DEPTH: usize = 32;

/// Versions of one piece that the checker keeps before it drops those that can no longer be met.
pub const VERSIONS: usize = 24;

/// How long a request may take beside hostile peers, if its client asks for at most 8 KiB at a time, which every connection has at any time: the
/// disk's 5 ms, six chunks of 500 µs on the network, and two of the clock's steps of 20 ms.
pub const SMALL_WAIT: Duration = Duration::from_millis(50);

/// How long any request may take beside hostile peers: after 10 s (`SCARCE_SEND_TIME` of both protocols) whoever holds memory that others
/// wait for has lost it, a second later the watch over memory has seen it; the rest is for the disk and the network.
pub const LARGE_WAIT: Duration = Duration::from_secs(12);

/// The same at least where several cores take their turns by the dice: 50 of the clock's steps, of which a core has four in ten; a request needs a few.
pub const TURNS_WAIT: Duration = Duration::from_secs(1);
