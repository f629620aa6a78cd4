//! Every refusal, misdeed and failure of a connection reaches the journal once, with peer, name and reason.

mod common;

use common::{Server, command};
use host::{Event, Kind, Level};
use nvme::sqe::SubmissionQueueEntry;

/// What was told of these kinds.
fn told(events: &[Event], kind: Kind) -> Vec<&Event> {
    events.iter().filter(|event| event.kind == kind).collect()
}

#[test]
fn a_login_names_host_and_subsystem_and_its_queues_are_for_whoever_looks_closer() {
    let server = Server::new(64 << 20);
    let events = server.journal.take();
    let logins = told(&events, Kind::Login);
    assert_eq!(logins.iter().map(|event| event.level).collect::<Vec<_>>(), [Level::Info, Level::Debug]);
    for event in logins {
        assert!(event.peer.is_some());
        assert_eq!(event.initiator.as_deref(), Some("nqn.2014-08.org.example:5"));
        assert_eq!(event.target.as_deref(), Some(common::NQN));
    }
}

#[test]
fn a_violation_is_told_once_with_its_reason() {
    let mut server = Server::new(64 << 20);
    server.journal.take();
    // A PDU of a type that does not exist.
    server.bytes(1, &[0xee, 0, 24, 0, 24, 0, 0, 0]);
    server.bytes(1, &[0; 16]);
    let events = server.journal.take();
    let [event] = told(&events, Kind::Violation)[..] else { panic!("{events:?}") };
    assert_eq!(event.reason, "a PDU of a type that does not belong here");
    assert_eq!((event.level, event.peer.is_some()), (Level::Warn, true));
    assert_eq!(event.initiator.as_deref(), Some("nqn.2014-08.org.example:5"));
}

#[test]
fn aborts_are_told() {
    let mut server = Server::new(64 << 20);
    server.journal.take();
    server.abort(9, 70);
    let events = server.journal.take();
    assert_eq!(told(&events, Kind::Management).len(), 1, "{events:?}");
}

#[test]
fn the_steady_state_tells_nothing() {
    let mut server = Server::new(64 << 20);
    server.journal.take();
    for cid in 0..8 {
        server.send(1, command(SubmissionQueueEntry::new(0, 1), cid));
    }
    assert!(server.journal.take().is_empty());
}
