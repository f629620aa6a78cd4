//! How many connections the process can hold: a limit derived from the descriptor limit.

use host::{Event, Journal, Kind};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are not connections: volumes, rings, wake-ups, logs, and those of a moment.
const RESERVED: u64 = 64;
/// The most connections unless the configuration says otherwise.
const USUAL: u64 = 4096;

/// Raises the soft descriptor limit to the hard one, and answers how many connections fit: the wanted number, or
/// what the limit leaves beside `volumes` volumes. The log is told when these are fewer.
pub(crate) fn connections(wanted: Option<usize>, volumes: usize, log: &dyn Journal) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // A refusal leaves the soft limit, which is then what counts.
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let wanted = wanted.map_or(USUAL, |wanted| wanted as u64);
    let room = room(current, volumes as u64);
    if room < wanted {
        let text = format!(
            "the descriptor limit allows {room} connections, fewer than the {wanted} wanted: raise it with ulimit -n"
        );
        log.record(Event::new(Kind::Configuration, text));
    }
    wire::index(room.min(wanted))
}

fn room(descriptors: Option<u64>, volumes: u64) -> u64 {
    descriptors.map_or(u64::MAX, |all| all.saturating_sub(RESERVED + volumes).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_the_descriptors() {
        assert_eq!(room(Some(1024), 10), 950);
        assert_eq!(room(Some(10), 10), 1);
        assert_eq!(room(None, 10), u64::MAX);
    }
}
