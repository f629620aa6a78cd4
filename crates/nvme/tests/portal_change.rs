//! Another portal in place of a connection's own, case by case: raw queues of controllers whose subsystem changes, goes, or is closed to their host.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;
mod portal_rig;

use std::sync::Arc;
use std::time::Duration;

use buf::Pool;
use common::{NQN, host_identity, namespace, subsystem};
use nvme::allocation::{GetLbaStatus, TRACKED_ALLOCATED};
use nvme::controller::{AllowedHost, Hosts, Input, Namespace, Portal, Reservations};
use nvme::features;
use nvme::limits::{REPORT_TIME, REUSE_TIME, WITHDRAW_TIME};
use nvme::sgl::SglDescriptor;
use nvme::sqe::{ALL_NAMESPACES, SubmissionQueueEntry};
use nvme::status::Status;
use nvme::subsystem::{ConnectError, Reply};
use portal_rig::{
    ADMIN, DISCOVERY_EVENT, FLUSH, IO, LARGE, NAMESPACE_EVENT, READ, Rig, SMALL, Seen, WRITE, command, done,
    event, id, transfer,
};
use protocol::{CloseReason, Connection as _};
use volume::reservation::{Registrant, Registration, ReservationType, View};
use volume::{Epoch, VolumeErrorKind};

const GONE: CloseReason = CloseReason::Withdrawn("the subsystem is not served any more");
const CLOSED: CloseReason = CloseReason::Withdrawn("this host may not use the subsystem any more");
const INVALID: Status = Status::INVALID_NAMESPACE.dnr();
const ABORTED: Status = Status::ABORT_REQUESTED;

/// What changes of what is served.
type Alteration = fn(&mut Portal);

/// The portal of these namespaces.
fn with(namespaces: Vec<Namespace>) -> Portal {
    let mut portal = common::portal();
    subsystem(&mut portal).namespaces = namespaces;
    portal
}

/// Only these namespaces remain.
fn keep(portal: &mut Portal, nsids: &[u32]) {
    subsystem(portal).namespaces.retain(|namespace| nsids.contains(&namespace.nsid));
}

fn remove_subsystem(portal: &mut Portal) {
    portal.subsystems.clear();
}

fn close_subsystem(portal: &mut Portal) {
    subsystem(portal).hosts = Hosts::Listed(vec!["nqn.other".into()]);
}

/// Adds another subsystem, which these hosts may use.
fn add_subsystem(portal: &mut Portal, hosts: Hosts) {
    let mut other = (*common::portal().subsystems[0]).clone();
    (other.nqn, other.hosts) = ("nqn.2026-11.org.linerate:other".into(), hosts);
    portal.subsystems.push(Arc::new(other));
}

#[test]
fn a_subsystem_that_is_the_same_sees_nothing() {
    let mut rig = Rig::new(common::portal());
    rig.send(IO, &[transfer(READ, 1, 70, SMALL)]);
    let deadlines = [ADMIN, IO].map(|queue| rig.queues[queue].connection.poll_timeout());
    rig.alter(|portal| add_subsystem(portal, Hosts::Any));
    rig.alter(|portal| portal.referrals = vec!["192.0.2.1:8009".parse().unwrap()]);
    // Made anew, with nothing else in it.
    rig.alter(|portal| portal.subsystems = vec![Arc::new((*portal.subsystems[0]).clone())]);
    assert_eq!((rig.take_seen(), rig.cancelled), (Vec::new(), 0));
    assert_eq!(deadlines, [ADMIN, IO].map(|queue| rig.queues[queue].connection.poll_timeout()));
    assert_eq!((rig.changed(), rig.active()), (Vec::new(), vec![1, 3]));
    assert_eq!(rig.complete(Ok(())), id(0));
    assert_eq!(rig.take_seen(), [(IO, Seen::Data { cid: 70 })]);
}

#[test]
fn who_is_not_connected_yet_finds_what_is_served_now() {
    let mut rig = Rig::unconnected(with(vec![namespace(1, 0, 512)]), Pool::new(16 << 20));
    let queue = rig.accept();
    assert!(!rig.uses(queue, 0));
    rig.alter(|portal| subsystem(portal).namespaces.push(namespace(3, 1, 4096)));
    rig.ask(queue, NQN, 0);
    rig.enable(0);
    assert_eq!((rig.changed(), rig.active()), (Vec::new(), vec![1, 3]));
    let no_subsystem = ConnectError::data(nvme::fabrics::field::SUBNQN);
    let not_allowed = ConnectError::plain(Status::CONNECT_HOST);
    let cases: [(Alteration, ConnectError); 2] =
        [(remove_subsystem, no_subsystem), (close_subsystem, not_allowed)];
    for (alteration, error) in cases {
        let mut rig = Rig::unconnected(common::portal(), Pool::new(16 << 20));
        let queue = rig.accept();
        rig.alter(alteration);
        rig.ask(queue, NQN, 0);
        let answer = rig.answer();
        assert_eq!(answer, (error.status, error.result.into()));
        assert!(answer.0.is_final(), "the host would try again");
        assert_eq!(rig.close(queue), Some(CloseReason::Refused(error.describe())));
    }
}

#[test]
fn a_connect_under_way_is_refused_or_finds_what_is_served_now() {
    let cases: [(Alteration, Option<&str>); 3] = [
        (|portal| keep(portal, &[3]), None),
        (remove_subsystem, Some("there is no such subsystem")),
        (close_subsystem, Some("this host may not use the subsystem")),
    ];
    for (alteration, refused) in cases {
        for qid in [0, 1] {
            let mut rig = Rig::unconnected(common::portal(), Pool::new(16 << 20));
            if qid == 1 {
                rig.connect(NQN, 0);
                rig.enable(0);
            }
            rig.deaf = true;
            let queue = rig.connect(NQN, qid);
            assert!(rig.take_seen().is_empty() && rig.uses(queue, 0));
            rig.alter(alteration);
            let early = rig.take_seen();
            rig.deaf = false;
            rig.run();
            if let Some(text) = refused {
                assert!(matches!(early[..], [(_, Seen::Done { cid: 1, status, .. })] if status.is_final()));
                assert_eq!(rig.take_seen(), [], "the Connect was answered twice");
                assert_eq!(rig.close(queue), Some(CloseReason::Refused(text)));
                let notice = rig.queues[queue].connection.poll_notice();
                assert!(notice.is_none(), "{notice:?}: it was never connected");
                continue;
            }
            assert_eq!(early, []);
            assert_eq!(rig.answer().0, Status::SUCCESS);
            assert_eq!([0, 1].map(|volume| rig.uses(queue, volume)), [false, true]);
            if qid == 1 {
                assert_eq!(rig.transfer(READ, 1, 70), Some(INVALID));
            } else {
                rig.enable(0);
                assert_eq!((rig.changed(), rig.active()), (Vec::new(), vec![3]));
            }
        }
    }
}

#[test]
fn a_change_of_the_discovery_log_is_reported_once_to_who_wants_it() {
    let mut rig = Rig::discovery(common::portal(), 1 << 31);
    assert_eq!(rig.discovery_log(), [1, 4]);
    rig.alter(|portal| add_subsystem(portal, Hosts::Any));
    assert_eq!(rig.take_seen(), [event(90, DISCOVERY_EVENT)]);
    rig.request_event(91);
    rig.alter(|portal| portal.referrals = vec!["192.0.2.1:8009".parse().unwrap()]);
    assert_eq!(rig.take_seen(), [], "the host has not read the page yet");
    assert_eq!(rig.discovery_log(), [3, 7]);
    rig.alter(remove_subsystem);
    assert_eq!(rig.take_seen(), [event(91, DISCOVERY_EVENT)]);
    assert_eq!(rig.discovery_log(), [4, 3]);

    let mut rig = Rig::discovery(common::portal(), 0);
    rig.alter(remove_subsystem);
    assert_eq!(rig.take_seen(), [], "nobody asked for it");
    assert_eq!(rig.discovery_log(), [2, 2]);
}

#[test]
fn what_the_discovery_log_does_not_show_is_not_reported() {
    let secret = || Hosts::Listed(vec!["nqn.other".into()]);
    let mut portal = common::portal();
    add_subsystem(&mut portal, secret());
    // This host has a page of its own.
    let mut rig = Rig::discovery(portal, 1 << 31);
    assert_eq!(rig.discovery_log(), [1, 4]);
    rig.alter(|portal| keep(portal, &[3]));
    rig.alter(|portal| drop(portal.subsystems.pop()));
    rig.alter(|portal| add_subsystem(portal, secret()));
    assert_eq!(rig.take_seen(), []);
    assert_eq!(rig.discovery_log(), [4, 4]);
    rig.alter(|portal| Arc::make_mut(&mut portal.subsystems[1]).hosts = Hosts::Any);
    assert_eq!(rig.take_seen(), [event(90, DISCOVERY_EVENT)]);
    assert_eq!(rig.discovery_log(), [5, 6], "the page of before is not shown any more");
}

#[test]
fn namespaces_that_are_otherwise_are_reported_by_one_event() {
    let mut rig = Rig::new(with(vec![namespace(1, 0, 512), namespace(3, 1, 4096), namespace(6, 4, 512)]));
    rig.alter(|portal| {
        keep(portal, &[3, 6]);
        let namespaces = &mut subsystem(portal).namespaces;
        namespaces[0].geometry.blocks = 16;
        namespaces.insert(1, namespace(5, 3, 512));
    });
    assert_eq!(rig.take_seen(), [event(90, NAMESPACE_EVENT)]);
    rig.request_event(91);
    rig.alter(|portal| subsystem(portal).namespaces.push(namespace(7, 5, 512)));
    assert_eq!(rig.take_seen(), [], "the host has not read the list yet");
    assert_eq!(rig.changed(), [1, 3, 5, 7], "gone, another size, new, and new; 6 is as it was");
    assert_eq!(rig.active(), [3, 5, 6, 7]);
    assert_eq!(rig.transfer(READ, 1, 70), Some(INVALID));
    assert_eq!(rig.transfer(READ, 5, 71), None);
    assert_eq!(rig.at_volumes(), [id(3)]);
    let mut beyond = transfer(READ, 3, 72, SMALL).with(10, 16);
    beyond.dptr = SglDescriptor::transport(SMALL);
    rig.send(IO, &[beyond]);
    assert_eq!(rig.take_seen(), [done(IO, 72, Status::LBA_OUT_OF_RANGE.dnr())]);
    rig.alter(|portal| keep(portal, &[3, 5, 6]));
    assert_eq!(rig.take_seen(), [event(91, NAMESPACE_EVENT)]);
    assert_eq!(rig.changed(), [7]);
}

#[test]
fn a_host_is_told_only_of_what_it_may_use() {
    let listed = |nsids: &[u32]| {
        let nqn = host_identity().nqn.to_string();
        Hosts::Listed(vec![AllowedHost { nqn, namespaces: Some(nsids.to_vec()) }])
    };
    let mut portal = with(vec![namespace(1, 0, 512), namespace(3, 1, 4096), namespace(5, 2, 512)]);
    subsystem(&mut portal).hosts = listed(&[3]);
    let mut rig = Rig::new(portal);
    rig.alter(|portal| keep(portal, &[3, 5]));
    assert_eq!((rig.take_seen(), rig.changed()), (Vec::new(), Vec::new()), "1 was never there");
    rig.alter(|portal| subsystem(portal).hosts = listed(&[3, 5]));
    assert_eq!((rig.take_seen(), rig.changed()), (vec![event(90, NAMESPACE_EVENT)], vec![5]));
    rig.alter(|portal| subsystem(portal).hosts = listed(&[5]));
    assert_eq!((rig.changed(), rig.active()), (vec![3], vec![5]));
    assert_eq!([3, 5].map(|nsid| rig.transfer(READ, nsid, 70 + nsid as u16)), [Some(INVALID), None]);
}

#[test]
fn commands_to_a_namespace_that_is_gone_end_once_and_others_go_on() {
    let mut rig = Rig::new(common::portal());
    rig.send(IO, &[transfer(READ, 1, 70, SMALL), transfer(READ, 3, 71, SMALL)]);
    rig.send(IO, &[transfer(READ, 1, 72, SMALL), transfer(READ, 1, 73, SMALL)]);
    // The host has asked for the end of one of them already.
    let abort = SubmissionQueueEntry::new(8, 0).with(10, 73 << 16 | 1);
    rig.send(ADMIN, &[command(abort, 5)]);
    rig.alter(|portal| keep(portal, &[3]));
    rig.alter(|portal| subsystem(portal).namespaces.push(namespace(5, 3, 512)));
    assert_eq!(rig.cancelled, 3, "each is cancelled once, and only those");
    assert_eq!(rig.take_seen(), [event(90, NAMESPACE_EVENT)]);
    assert!(rig.uses(IO, 0), "a request is still there");
    rig.complete(Err(VolumeErrorKind::Cancelled));
    assert_eq!(rig.take_seen(), [done(IO, 70, ABORTED.dnr())]);
    rig.complete(Ok(()));
    assert_eq!(rig.take_seen(), [(IO, Seen::Data { cid: 71 })]);
    rig.complete(Err(VolumeErrorKind::Unreachable));
    assert_eq!(rig.take_seen(), [done(IO, 72, Status::NAMESPACE_NOT_READY.dnr())], "another may come there");
    rig.complete(Err(VolumeErrorKind::Cancelled));
    assert_eq!(rig.take_seen(), [done(IO, 73, ABORTED.dnr()), done(ADMIN, 5, Status::SUCCESS)]);
    assert!(!rig.uses(IO, 0) && rig.uses(IO, 1));
    assert_eq!([FLUSH, READ, WRITE].map(|opcode| rig.transfer(opcode, 1, 75)), [Some(INVALID); 3]);
}

#[test]
fn a_refused_request_of_a_namespace_that_is_gone_is_not_made_again() {
    let mut rig = Rig::new(common::portal());
    rig.send(IO, &[transfer(READ, 1, 70, SMALL), transfer(READ, 3, 71, SMALL)]);
    rig.alter(|portal| keep(portal, &[3]));
    rig.take_seen();
    for _ in 0..2 {
        let (queue, _, _, request) = rig.held.pop_front().unwrap();
        rig.queues[queue].connection.handle_input(rig.now, Input::StaleEpoch(request.into()));
    }
    rig.run();
    assert_eq!(rig.take_seen(), [done(IO, 70, ABORTED.dnr())]);
    assert_eq!(rig.at_volumes(), [id(1)], "the other is judged again");
}

#[test]
fn data_that_was_asked_for_is_passed_over_and_all_memory_comes_back() {
    let mut rig = Rig::starved(common::portal());
    rig.send(IO, &[transfer(WRITE, 1, 70, LARGE), transfer(WRITE, 1, 71, LARGE)]);
    rig.send(IO, &[transfer(READ, 3, 72, LARGE)]);
    let [(IO, Seen::R2t { cid: 70, ttag })] = rig.take_seen()[..] else { panic!("no R2T") };
    rig.alter(|portal| keep(portal, &[3]));
    let ended = [done(IO, 71, ABORTED.dnr()), done(IO, 70, ABORTED.dnr()), event(90, NAMESPACE_EVENT)];
    let seen = rig.take_seen();
    assert!(seen.len() == 3 && ended.iter().all(|each| seen.contains(each)), "{seen:?}");
    assert_eq!(rig.at_volumes(), [id(1)], "what waited behind them has the memory");
    rig.send_data(70, ttag);
    assert_eq!((rig.at_volumes(), rig.take_seen()), (vec![id(1)], Vec::new()));
    rig.complete(Ok(()));
    assert_eq!(rig.take_seen(), [(IO, Seen::Data { cid: 72 })]);
    rig.data.clear();
    assert!(rig.pool.take(LARGE as usize).is_some(), "the only large buffer is still in use");
    assert!(!rig.uses(IO, 0));
}

#[test]
fn a_write_under_way_finds_its_namespace_in_another_place() {
    let mut rig = Rig::new(with(vec![namespace(1, 0, 512), namespace(3, 1, 4096), namespace(5, 2, 512)]));
    rig.send(IO, &[transfer(WRITE, 3, 70, LARGE)]);
    let [(IO, Seen::R2t { ttag, .. })] = rig.take_seen()[..] else { panic!("no R2T") };
    rig.alter(|portal| keep(portal, &[3, 5]));
    rig.send_data(70, ttag);
    assert_eq!(rig.at_volumes(), [id(1)]);
}

#[test]
fn a_flush_of_all_leaves_no_namespace_out() {
    let all = || with(vec![namespace(1, 0, 512), namespace(3, 1, 4096), namespace(5, 2, 512)]);
    let everything = command(SubmissionQueueEntry::new(FLUSH, ALL_NAMESPACES), 70);
    let mut rig = Rig::new(all());
    rig.send(IO, &[everything]);
    rig.complete(Ok(()));
    rig.alter(|portal| keep(portal, &[3, 5]));
    rig.take_seen();
    assert_eq!([rig.complete(Ok(())), rig.complete(Ok(()))], [id(1), id(2)]);
    assert_eq!(rig.take_seen(), [done(IO, 70, Status::SUCCESS)]);

    // The one that goes is just being flushed: the host may try again.
    for how in [Ok(()), Err(VolumeErrorKind::Cancelled)] {
        let mut rig = Rig::new(all());
        rig.send(IO, &[everything]);
        rig.complete(Ok(()));
        rig.alter(|portal| keep(portal, &[1, 5]));
        rig.take_seen();
        assert_eq!((rig.complete(how), rig.cancelled), (id(1), 1));
        assert_eq!(rig.take_seen(), [done(IO, 70, ABORTED)]);
    }
}

#[test]
fn what_is_known_of_volumes_holds_for_namespaces_that_stay_and_for_new_ones() {
    let mut rig = Rig::new(common::portal());
    let other = Registrant::Host { identifier: [9; 16], nqn: "nqn.other".into() };
    let view = View {
        registrations: vec![Registration { registrant: other.clone(), key: 1 }],
        reservation: Some((ReservationType::WriteExclusive, Some(other))),
        ..View::default()
    };
    let (notices, aborted) = (Arc::new([]), Arc::new([]));
    let reservations = Some(Reservations { view: view.into(), notices, aborted });
    for (volume, epoch) in [(id(1), Epoch(7)), (id(5), Epoch(2))] {
        let fence = Input::Fence { volume, epoch, reservations: reservations.clone() };
        rig.queues[IO].connection.handle_input(rig.now, fence);
    }
    rig.alter(|portal| {
        keep(portal, &[3]);
        subsystem(portal).namespaces.insert(0, namespace(2, 4, 512));
        subsystem(portal).namespaces.push(namespace(5, 5, 512));
    });
    rig.take_seen();
    for nsid in [3, 5] {
        assert_eq!(rig.transfer(WRITE, nsid, 70), Some(Status::RESERVATION_CONFLICT.dnr()));
    }
    assert_eq!([3, 5, 2].map(|nsid| rig.transfer(READ, nsid, 71 + nsid as u16)), [None; 3]);
    let judged: Vec<_> = rig.held.iter().map(|(_, volume, epoch, _)| (*volume, *epoch)).collect();
    assert_eq!(judged, [(id(1), Epoch(7)), (id(5), Epoch(2)), (id(4), Epoch(0))]);
}

/// The host's commands to the volume of before may still be on their way.
#[test]
fn another_volume_does_not_get_the_commands_of_the_one_before() {
    let mut rig = Rig::starved(common::portal());
    rig.send(IO, &[transfer(WRITE, 1, 70, LARGE), transfer(READ, 1, 71, LARGE)]);
    let [(IO, Seen::R2t { cid: 70, ttag })] = rig.take_seen()[..] else { panic!("no R2T") };
    rig.alter(|portal| subsystem(portal).namespaces[0].volume = id(4));
    let seen = rig.take_seen();
    assert!(seen.contains(&done(IO, 70, ABORTED.dnr())) && seen.contains(&done(IO, 71, ABORTED.dnr())));
    rig.send_data(70, ttag);
    assert_eq!((rig.changed(), rig.active()), (vec![1], vec![3]), "first it is gone");
    rig.request_event(91);
    assert_eq!(rig.transfer(READ, 1, 72), Some(INVALID));
    // What changes meanwhile does not bring it back.
    rig.alter(|portal| subsystem(portal).limits.depth = 64);
    rig.pass(REUSE_TIME.saturating_sub(Duration::from_millis(1)));
    assert_eq!(rig.transfer(READ, 1, 72), Some(INVALID));
    assert_eq!(rig.at_volumes(), []);
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.take_seen(), [], "the host is told once every queue has it");
    assert_eq!((rig.transfer(READ, 1, 72), rig.at_volumes()), (None, vec![id(4)]));
    rig.pass(REPORT_TIME.saturating_sub(REUSE_TIME));
    assert_eq!(rig.take_seen(), [event(91, NAMESPACE_EVENT)]);
    assert_eq!((rig.changed(), rig.active()), (vec![1], vec![1, 3]));
    rig.pass(REPORT_TIME);
    assert_eq!((rig.take_seen(), rig.close(ADMIN), rig.close(IO)), (Vec::new(), None, None));
}

#[test]
fn a_namespace_that_comes_back_at_once_is_another_one() {
    let mut rig = Rig::new(common::portal());
    rig.alter(|portal| keep(portal, &[3]));
    assert_eq!((rig.take_seen(), rig.changed()), (vec![event(90, NAMESPACE_EVENT)], vec![1]));
    rig.pass(Duration::from_secs(1));
    rig.alter(|portal| subsystem(portal).namespaces.insert(0, namespace(1, 4, 512)));
    assert_eq!((rig.transfer(READ, 1, 70), rig.active()), (Some(INVALID), vec![3]));
    rig.pass(REUSE_TIME.saturating_sub(Duration::from_secs(1)));
    assert_eq!((rig.transfer(READ, 1, 70), rig.at_volumes()), (None, vec![id(4)]));
}

/// What the host was told of the controller holds for the namespaces that it was told of.
#[test]
fn a_new_namespace_of_a_shorter_transfer_shortens_no_other() {
    let mut rig = Rig::new(common::portal());
    rig.alter(|portal| {
        let mut short = namespace(5, 2, 512);
        short.limits.max_transfer = 16 << 10;
        subsystem(portal).namespaces.push(short);
    });
    rig.take_seen();
    rig.send(IO, &[transfer(READ, 1, 70, LARGE), transfer(READ, 5, 71, LARGE)]);
    assert_eq!(rig.take_seen(), [done(IO, 71, Status::INVALID_FIELD.dnr())]);
    assert_eq!((rig.transfer(READ, 5, 72), rig.at_volumes()), (None, vec![id(0), id(2)]));
}

#[test]
fn a_query_about_a_namespace_that_is_gone_ends() {
    let mut rig = Rig::new(common::portal());
    let query = GetLbaStatus { start: 0, length: 4096, blocks: None, action: TRACKED_ALLOCATED };
    let mut entry = command(query.encode(1), 70);
    entry.dptr = SglDescriptor::transport(4096);
    rig.send(ADMIN, &[entry]);
    assert!(rig.uses(ADMIN, 0));
    rig.alter(|portal| keep(portal, &[3]));
    assert_eq!((rig.take_seen(), rig.cancelled), (vec![event(90, NAMESPACE_EVENT)], 1));
    assert!(rig.uses(ADMIN, 0), "it is still asked");
    rig.complete(Err(VolumeErrorKind::Cancelled));
    assert_eq!(rig.take_seen(), [done(ADMIN, 70, ABORTED.dnr())]);
    assert!(!rig.uses(ADMIN, 0));
}

#[test]
fn what_was_set_for_a_namespace_goes_with_it() {
    let mut rig = Rig::new(common::portal());
    let mut mask = features::set(features::fid::RESERVATION_MASK, 0b1110);
    mask.nsid.set(1);
    rig.send(ADMIN, &[command(mask, 5)]);
    assert_eq!(rig.answer(), (Status::SUCCESS, 0));
    rig.alter(|portal| keep(portal, &[3]));
    rig.alter(|portal| subsystem(portal).namespaces.insert(0, namespace(1, 4, 512)));
    rig.pass(REPORT_TIME);
    rig.take_seen();
    let mut get = mask;
    get.opcode = 0x0a;
    rig.send(ADMIN, &[command(get, 5)]);
    assert_eq!(rig.answer(), (Status::SUCCESS, 0));
}

#[test]
fn the_queues_of_a_subsystem_that_is_withdrawn_go_on_for_a_while() {
    let cases: [(Alteration, CloseReason); 2] = [(remove_subsystem, GONE), (close_subsystem, CLOSED)];
    for (alteration, reason) in cases {
        let mut rig = Rig::new(common::portal());
        rig.send(IO, &[transfer(READ, 1, 70, SMALL)]);
        rig.alter(alteration);
        assert_eq!((rig.take_seen(), rig.cancelled), (vec![event(90, NAMESPACE_EVENT)], 0));
        assert_eq!((rig.changed(), rig.active()), (vec![1, 3], vec![]));
        assert_eq!([ADMIN, IO].map(|queue| rig.uses(queue, 0)), [false, true]);
        rig.complete(Ok(()));
        assert_eq!(rig.take_seen(), [(IO, Seen::Data { cid: 70 })]);
        rig.pass(WITHDRAW_TIME.saturating_sub(Duration::from_millis(1)));
        // A command on the admin queue puts nothing off; another change does neither.
        assert_eq!(rig.active(), []);
        rig.alter(|portal| portal.require_digests = true);
        assert_eq!(rig.transfer(READ, 1, 71), None);
        rig.complete(Ok(()));
        assert_eq!(rig.take_seen(), [(IO, Seen::Data { cid: 71 })]);
        assert_eq!([ADMIN, IO].map(|queue| rig.close(queue)), [None; 2]);
        rig.pass(Duration::from_millis(1));
        assert_eq!([ADMIN, IO].map(|queue| rig.close(queue)), [Some(reason); 2]);
        assert!(!rig.uses(IO, 0));
        assert_eq!(rig.take_seen(), []);
    }
}

/// The volume takes no more requests of a queue that has ended, and refuses each that is made.
#[test]
fn a_queue_that_has_ended_makes_no_request_again() {
    let mut rig = Rig::new(common::portal());
    rig.send(IO, &[transfer(READ, 1, 70, SMALL)]);
    rig.alter(remove_subsystem);
    rig.pass(WITHDRAW_TIME);
    assert_eq!(rig.close(IO), Some(GONE));
    let (queue, _, _, request) = rig.held.pop_front().unwrap();
    rig.queues[queue].connection.handle_input(rig.now, Input::StaleEpoch(request.into()));
    rig.run();
    assert_eq!((rig.at_volumes(), rig.uses(IO, 0)), (vec![], false));
}

#[test]
fn a_subsystem_that_comes_back_is_there_for_who_connects_again() {
    let mut rig = Rig::new(common::portal());
    let before = Arc::clone(&rig.portal.subsystems[0]);
    rig.alter(remove_subsystem);
    rig.alter(|portal| portal.subsystems.push(before));
    rig.pass(WITHDRAW_TIME);
    assert_eq!([ADMIN, IO].map(|queue| rig.close(queue)), [Some(GONE); 2]);
    rig.take_seen();
    let queue = rig.connect(NQN, 0);
    assert_eq!(rig.answer().0, Status::SUCCESS);
    assert!(rig.uses(queue, 0));
}

#[test]
fn who_is_told_to_close_before_says_why() {
    let mut rig = Rig::new(common::portal());
    rig.alter(remove_subsystem);
    rig.queues[IO].connection.handle_input(rig.now, Input::Group(Reply::Close));
    assert_eq!(rig.close(IO), Some(GONE));
}

#[test]
fn a_controller_of_a_withdrawn_subsystem_is_still_to_be_kept_alive() {
    let mut rig = Rig::new(common::portal());
    let keep_alive = features::set(features::fid::KEEP_ALIVE, 1000);
    rig.send(ADMIN, &[command(keep_alive, 5)]);
    rig.alter(remove_subsystem);
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.close(ADMIN), Some(CloseReason::TimedOut("the keep alive timer expired")));

    // And one whose namespace is gone, until that is over and after it.
    for wait in [1, 4] {
        let mut rig = Rig::new(common::portal());
        rig.send(ADMIN, &[command(features::set(features::fid::KEEP_ALIVE, 5000), 5)]);
        rig.alter(|portal| keep(portal, &[3]));
        rig.pass(Duration::from_secs(wait));
        assert_eq!(rig.close(ADMIN), None);
        rig.pass(Duration::from_secs(7 - wait));
        assert_eq!(rig.close(ADMIN), Some(CloseReason::TimedOut("the keep alive timer expired")));
    }
}
