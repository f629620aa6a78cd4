//! Every refusal, violation and failure of a connection reaches the journal once, with peer, name and reason.

mod common;

use std::sync::Arc;

use common::{Server, command, ram};
use host::{Event, Kind, Level};
use nvme::sqe::SubmissionQueueEntry;
use volume::VolumeErrorKind;
use volume::filter::{Fail, FailRate};

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

/// The event of a failure, and how much it matters; none for what is no failure of the volume's.
#[expect(clippy::panic, reason = "tests")]
fn expected(kind: VolumeErrorKind) -> Option<(Kind, Level)> {
    use VolumeErrorKind::{
        Busy, Cancelled, Media, Misaligned, Miscompare, NoSpace, OutOfRange, Protection, ReadOnly,
        ReservationConflict, ShuttingDown, TimedOut, Unreachable, Unsupported,
    };
    match kind {
        Media | Protection | TimedOut | Unreachable => Some((Kind::Io, Level::Error)),
        NoSpace => Some((Kind::NoSpace, Level::Error)),
        OutOfRange | ReadOnly | Misaligned | Unsupported | Busy | ShuttingDown => {
            Some((Kind::Io, Level::Debug))
        }
        ReservationConflict => Some((Kind::Conflict, Level::Debug)),
        Miscompare { .. } | Cancelled => None,
        _ => panic!("{kind:?} is new: what does the journal tell of it?"),
    }
}

/// Completions of both protocols' connections pass the same place, where they are told.
#[test]
fn each_kind_of_failure_of_a_volume_is_told_once_with_peer_and_volume() {
    for kind in VolumeErrorKind::ALL {
        let mut server = Server::of(Arc::new(Fail::new(ram(), FailRate::EveryNth(1), kind)), 64 << 20);
        server.journal.take();
        server.send(1, command(SubmissionQueueEntry::new(0, 1), 7));
        let events = server.journal.take();
        let told: Vec<(Kind, Level)> = events.iter().map(|event| (event.kind, event.level)).collect();
        assert_eq!(told, Vec::from_iter(expected(kind)), "{kind:?}: {events:?}");
        for event in events {
            assert!(event.peer.is_some());
            if kind == VolumeErrorKind::ReservationConflict {
                assert!(event.initiator.is_some(), "told where the names are known: {event:?}");
            } else {
                assert_eq!(
                    (event.reason.as_ref(), event.volume.as_deref()),
                    (kind.to_string().as_str(), Some("disk"))
                );
            }
        }
    }
}
