//! Connections that never log in: they have a part of the places, and the oldest gives way to whoever comes.

mod common;

use common::Server;
use engine::ConnectionLimits;

/// The part of the places that those without a login may have: one in so many (`NEWCOMERS`).
const PART: usize = 2;

#[test]
fn who_does_not_log_in_gives_way_to_whoever_comes_and_who_did_stays() {
    let most = ConnectionLimits::default().per_core / PART;
    let mut server = Server::new(16 << 20);
    let silent: Vec<_> = (0..most + 3).map(|_| server.knock(1)).collect();
    let gone = silent.iter().filter(|stream| server.is_closed(**stream)).count();
    assert_eq!(gone, 3, "{most} of {} may wait for a login", silent.len());
    assert!(silent[..3].iter().all(|stream| server.is_closed(*stream)), "the oldest");
    assert!(!server.is_closed(0) && !server.is_closed(1), "who has logged in");
    assert_eq!(server.join(1, 9), silent.len() + 2, "and whoever means to log in can");
}
