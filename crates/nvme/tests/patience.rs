//! How long a host waits for a controller that takes a connection and then is silent, in each step of opening; and what it says of one that breaks
//! the protocol.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::time::Duration;

use common::{Bench, admin, io};
use nvme::host::{self, Action, Failure};
use nvme::pdu::{Digests, IcResp, PduType};
use nvme::violation::Violation;
use protocol::{Connection as _, Instant};
use zerocopy::IntoBytes;

/// Passes what both ends send, one after the other, until so many sends of the controller have come.
fn opened(config: host::Config, answers: usize) -> host::Connection {
    let mut bench = Bench::new();
    let near = host::Connection::new(config, Instant::ZERO);
    let far = nvme::controller::Connection::new(bench.portal.clone(), bench.pool.clone(), Instant::ZERO);
    let mut pair = protocol::pair::Pair::new(near, far);
    for _ in 0..answers {
        let asked = pair.near.transmit(Instant::ZERO);
        pair.far.receive(Instant::ZERO, &asked);
        bench.links.push(common::Link { pair, events: Vec::new() });
        bench.act(0);
        pair = bench.links.remove(0).pair;
        let answer = pair.far.transmit(Instant::ZERO);
        pair.near.receive(Instant::ZERO, &answer);
    }
    let _sent = pair.near.transmit(Instant::ZERO);
    pair.near.connection
}

#[test]
fn no_step_of_opening_takes_longer_than_a_command_may() {
    // ICReq, Connect, and the commands of the set-up.
    for answers in 0..10 {
        let mut config = admin(1);
        config.command_time = Duration::from_secs(2);
        let mut connection = opened(config, answers);
        let due = connection.poll_timeout().unwrap();
        assert_eq!(due, Instant::ZERO + Duration::from_secs(2), "after {answers} answers");
        connection.handle_timeout(due);
        let failed = std::iter::from_fn(|| connection.poll_action()).find_map(|action| match action {
            Action::Failed(failure) => Some(failure),
            _ => None,
        });
        assert!(matches!(failed, Some(Failure::TimedOut(_))), "after {answers} answers: {failed:?}");
    }
}

#[test]
fn a_violation_of_the_controller_is_named() {
    let mut bench = Bench::new();
    let remote = bench.session(1, 1, (false, false));
    for config in [admin(1), io(2, &remote)] {
        let link = bench.connect(config);
        bench.links[link].events.clear();
        let near = &mut bench.links[link].pair.near;
        near.receive(Instant::ZERO, IcResp::new(Digests::NONE, 8192).as_bytes());
        let failed = std::iter::from_fn(|| near.connection.poll_action()).find_map(|action| match action {
            Action::Failed(failure) => Some(failure),
            _ => None,
        });
        let failure = failed.unwrap();
        assert_eq!(failure, Failure::Violation(Violation::OutOfSequence(PduType::IC_RESP)));
        assert_eq!(failure.to_string(), "the controller broke the protocol: a PDU out of sequence");
    }
}
