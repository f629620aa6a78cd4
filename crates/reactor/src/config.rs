//! What may be set when a cluster is built.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::congestion::Congestion;
use crate::limits;

/// Which mechanism of the kernel moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Driver {
    /// io_uring where the kernel allows it, else epoll.
    #[default]
    Auto,
    /// io_uring or nothing.
    Uring,
    /// epoll for sockets and a few threads for files, as inside containers that block io_uring.
    Epoll,
}

/// How the cores work. The default is right for most machines.
#[derive(Debug, Clone)]
pub struct Config {
    /// Mechanism.
    pub driver: Driver,
    /// How long a core that expects an answer looks for it before it sleeps; zero never does.
    pub spin: Duration,
    /// TCP congestion control of every socket.
    pub congestion: Congestion,
    /// Bytes of a staging area; at least what every endpoint asks for.
    pub staging: usize,
    /// Staging areas per core; of the connections that receive at the same moment, more than that have smaller ones.
    pub staging_areas: usize,
    /// Bytes that a turn moves in each direction, about, so that none keeps the core for long.
    pub turn_budget: usize,
    /// Bytes of one send, about.
    pub send_budget: usize,
    /// The same while other connections have something to do too, so that none waits long for one that has much to send.
    pub send_share: usize,
    /// Accepted streams per core; more are closed at once.
    pub max_connections: usize,
    /// Bind each spawned core's thread to a processor of its own, where there are enough.
    pub pin: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            driver: Driver::Auto,
            spin: if spinning_pays() { limits::SPIN } else { Duration::ZERO },
            congestion: Congestion::default(),
            staging: limits::STAGING,
            staging_areas: limits::STAGING_AREAS,
            turn_budget: limits::TURN_BUDGET,
            send_budget: limits::SEND_BUDGET,
            send_share: limits::SEND_SHARE,
            max_connections: limits::CONNECTIONS,
            pin: false,
        }
    }
}

/// True where a peer can make progress on another processor while this process looks out for its answer. A process that
/// is bound to one processor of several may spin; one whose quota is less than two processors would burn its share.
fn spinning_pays() -> bool {
    let bound = rustix::thread::sched_getaffinity(None).map_or(0, |set| set.count() as usize);
    let usable = thread::available_parallelism().map_or(1, usize::from);
    let short_of_quota = usable < 2 && bound > usable;
    online_processors() > 1 && !short_of_quota
}

/// Processors that the machine runs; one when the system does not say.
fn online_processors() -> usize {
    fs::read_to_string("/sys/devices/system/cpu/online").map_or(1, |ranges| count_ranges(ranges.trim()))
}

/// How many numbers a list of ranges such as `0-3,6` names.
fn count_ranges(ranges: &str) -> usize {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    ranges.split(',').filter_map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_processors_are_counted() {
        let cases = [("0", 1), ("0-1", 2), ("0-3,6", 5), ("0,2,4-7", 6), ("", 0), ("3-1", 0)];
        for (ranges, count) in cases {
            assert_eq!(count_ranges(ranges), count, "{ranges}");
        }
    }
}
