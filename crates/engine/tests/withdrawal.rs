//! How connections and requests end when what they use is not served any more.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use common::{ControllerQueue, DELAY, LARGE, READ, Server, command, portal, ram, transfer};
use engine::{
    Catalogue, ControlEvent, Departure, Generation, ListenerRole, Message, NamedVolume, ServedVolume,
};
use nvme::controller::Portal;
use nvme::reservation::{ReservationCommand, encode};
use nvme::sqe::SubmissionQueueEntry;
use nvme::status::Status;
use protocol::CloseReason;
use volume::filter::Delay;
use volume::reservation::Command;
use volume::{
    Changes, Features, Geometry, Limits, Listeners, OpenError, QueueContext, Volume, VolumeId, VolumeQueue,
};

const DISK: VolumeId = VolumeId::new(0, 0);

fn slow() -> Arc<dyn Volume> {
    Arc::new(Delay::new(ram(), DELAY))
}

/// What the server of a test begins with.
fn first(volume: Arc<dyn Volume>) -> Catalogue {
    let role = ListenerRole::Nvme(Arc::new(portal(&*volume)));
    Catalogue::first([NamedVolume { name: "disk".into(), volume }], vec![role])
}

/// The next catalogue: without the disk, though portals still show it, so that connections hear nothing.
fn without_disk(catalogue: &Catalogue) -> Catalogue {
    Catalogue { generation: Generation(2), volumes: Vec::new(), ..catalogue.clone() }
}

const APPLIED: ControlEvent = ControlEvent::Applied(Generation(2));

#[test]
fn a_volume_is_served_until_its_users_have_left_and_retired_then() {
    let catalogue = first(ram());
    let mut server = Server::serving(&catalogue);
    assert_eq!(server.propose(without_disk(&catalogue)), [APPLIED], "two queues are connected");
    server.wait(Duration::from_millis(4900));
    server.send(1, transfer(READ, 7));
    assert_eq!(server.received(1).len(), 24 + LARGE as usize, "data, whose end is its completion");
    server.hang_up(1);
    assert_eq!(server.observed(), [], "core 0 has the admin queue");
    server.hang_up(0);
    server.wait(Duration::from_millis(50));
    assert_eq!(server.observed(), [ControlEvent::Retired { id: DISK, secured: true, forced: 0 }]);
}

#[test]
fn who_stays_too_long_is_closed_and_requests_under_way_are_cancelled_and_counted() {
    let catalogue = first(slow());
    let mut server = Server::serving(&catalogue);
    let other = server.join(0, 6);
    server.send(1, transfer(READ, 7));
    server.send(other + 1, transfer(READ, 7));
    server.send(other + 1, transfer(READ, 8));
    server.propose(without_disk(&catalogue));
    server.wait(Duration::from_millis(4999));
    assert_eq!([0, 1, other, other + 1].map(|stream| server.is_closed(stream)), [false; 4]);
    server.wait(Duration::from_millis(1));
    for stream in (0..4).rev() {
        let reason = server.close_reason(stream);
        assert!(matches!(reason, Some(CloseReason::Withdrawn(_))), "{reason:?}");
        assert_eq!(server.observed(), []);
        server.close(stream);
    }
    server.wait(DELAY);
    assert_eq!(server.observed(), [ControlEvent::Retired { id: DISK, secured: true, forced: 3 }]);
}

#[test]
fn reservations_of_a_withdrawn_volume_do_not_change_any_more() {
    let catalogue = first(ram());
    let mut server = Server::serving(&catalogue);
    let register = |new_key| encode(1, &Command::Register { key: Some(0), new_key, persist: None });
    let ReservationCommand { entry, data: keys } = register(1);
    server.send_with(1, command(entry, 9), &keys);
    assert_eq!(server.completions(1), [(9, Status::SUCCESS, 0)]);
    server.propose(without_disk(&catalogue));
    let ReservationCommand { entry, data: keys } = register(2);
    server.send_with(1, command(entry, 9), &keys);
    assert_eq!(server.completions(1), [(9, Status::INVALID_FIELD.dnr(), 0)]);
}

#[test]
fn who_ends_without_saying_whether_it_uses_the_volume_does_not() {
    let catalogue = first(ram());
    let mut server = Server::serving(&catalogue);
    server.post(Message::Propose(Arc::new(without_disk(&catalogue))));
    for core in [0, 0, 1, 0, 0, 1, 0, 0, 1] {
        server.step(core);
    }
    // Both cores have asked, and no connection has had its turn.
    server.hang_up(1);
    server.hang_up(0);
    let retired = ControlEvent::Retired { id: DISK, secured: true, forced: 0 };
    assert_eq!(server.observed(), [APPLIED, retired]);
}

#[test]
fn who_does_not_use_the_volume_stays() {
    let disk = ram();
    let mut catalogue = first(Arc::clone(&disk));
    let other = ServedVolume { id: VolumeId::new(1, 0), name: "other".into(), volume: ram() };
    catalogue.volumes.push(other);
    let mut server = Server::serving(&catalogue);
    let mut next = without_disk(&catalogue);
    next.volumes = vec![catalogue.volumes[0].clone()];
    let retired = ControlEvent::Retired { id: VolumeId::new(1, 0), secured: true, forced: 0 };
    assert_eq!(server.propose(next), [APPLIED, retired]);
    server.wait(Duration::from_mins(1));
    assert!(!server.is_closed(0) && !server.is_closed(1));
}

fn shows(portal: Portal) -> ListenerRole {
    ListenerRole::Nvme(Arc::new(portal))
}

/// Connects a host over a stream that was accepted before the catalogue was replaced.
fn connects_after(change: impl Fn(&mut Catalogue)) -> Status {
    let catalogue = first(ram());
    let mut server = Server::serving(&catalogue);
    let stream = server.knock(1);
    let mut next = Catalogue { generation: Generation(2), ..catalogue.clone() };
    change(&mut next);
    assert_eq!(server.propose(next), [APPLIED]);
    server.introduce(stream, ControllerQueue::ADMIN, 6);
    server.completions(stream)[0].1
}

#[test]
fn a_connection_finds_the_portal_that_has_come_since_it_was_accepted() {
    assert_eq!(connects_after(|_| ()), Status::SUCCESS);
    let emptied = |catalogue: &mut Catalogue| {
        let portal = Portal { subsystems: Vec::new(), ..portal(&*catalogue.volumes[0].volume) };
        catalogue.listeners[0].role = shows(portal);
    };
    assert_ne!(connects_after(emptied), Status::SUCCESS);
    assert_ne!(connects_after(|catalogue| catalogue.listeners.clear()), Status::SUCCESS, "nothing is there");
}

/// A volume that grows when the test says.
#[derive(Debug)]
struct Elastic {
    inner: Arc<dyn Volume>,
    blocks: Mutex<(u64, u64)>,
    listeners: Listeners,
}

impl Elastic {
    fn grow(&self, blocks: u64) {
        let mut size = self.blocks.lock().unwrap();
        *size = (blocks, size.1 + 1);
        self.listeners.wake();
    }
}

impl Volume for Elastic {
    fn geometry(&self) -> Geometry {
        Geometry { blocks: self.blocks.lock().unwrap().0, ..self.inner.geometry() }
    }
    fn limits(&self) -> Limits {
        self.inner.limits()
    }
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn changes(&self) -> Changes {
        Changes { resized: self.blocks.lock().unwrap().1, ..Changes::default() }
    }
    fn listen(&self, waker: Waker) {
        self.listeners.add(waker);
    }
    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        self.inner.open_queue(context)
    }
}

/// Reads the last block of so many, and says what came of it.
fn read_last(server: &mut Server, stream: usize, blocks: u64) -> Status {
    let mut entry = SubmissionQueueEntry::new(READ, 1).with_quad(10, blocks - 1);
    entry.dptr = nvme::sgl::SglDescriptor::transport(512);
    server.send(stream, command(entry, 9));
    match server.received(stream) {
        data if data.len() > 24 => Status::SUCCESS,
        bytes => {
            use zerocopy::FromBytes;
            nvme::pdu::CapsuleResp::read_from_bytes(&bytes).unwrap().entry.status()
        }
    }
}

#[test]
fn a_volume_that_grows_between_two_cores_commits_has_its_size_on_both() {
    let catalogue = first(ram());
    let mut server = Server::serving(&catalogue);
    let elastic =
        Arc::new(Elastic { inner: ram(), blocks: Mutex::new((8, 0)), listeners: Listeners::default() });
    let id = VolumeId::new(1, 0);
    let mut next = Catalogue { generation: Generation(2), ..catalogue };
    let mut portal = portal(&*elastic);
    Arc::make_mut(&mut portal.subsystems[0]).namespaces[0].volume = id;
    next.listeners[0].role = shows(portal);
    next.volumes.push(ServedVolume { id, name: "elastic".into(), volume: Arc::clone(&elastic) as _ });
    server.post(Message::Propose(Arc::new(next)));
    for core in [0, 0, 1, 0] {
        server.step(core);
    }
    assert_eq!(server.observed(), [], "both cores have prepared it");
    server.step(1);
    elastic.grow(16);
    server.run();
    assert_eq!(server.observed(), [APPLIED]);
    for core in [0, 1] {
        let host = server.join(core, 6 + u8::try_from(core).unwrap());
        assert_eq!(read_last(&mut server, host + 1, 16), Status::SUCCESS, "on core {core}");
        assert_ne!(read_last(&mut server, host + 1, 17), Status::SUCCESS);
    }
}

const ASYNC_EVENT_REQUEST: u8 = 0x0c;
const SET_FEATURES: u8 = 0x09;
/// Asynchronous Event Configuration, and its bit for namespaces that come and go (NVMe Base §5.1.25.1.5).
const ASYNC_EVENTS: u32 = 0x0b;
const NAMESPACE_NOTICES: u32 = 1 << 8;

/// The next catalogue: with a second disk behind namespace 2.
fn with_second_disk(catalogue: &Catalogue) -> Catalogue {
    let (id, volume) = (VolumeId::new(1, 0), ram());
    let mut portal = portal(&*volume);
    let subsystem = Arc::make_mut(&mut portal.subsystems[0]);
    let mut second = subsystem.namespaces[0].clone();
    (second.nsid, second.volume) = (2, id);
    subsystem.namespaces.push(second);
    let mut next = Catalogue { generation: Generation(2), ..catalogue.clone() };
    next.listeners[0].role = shows(portal);
    next.volumes.push(ServedVolume { id, name: "second".into(), volume });
    next
}

#[test]
fn a_host_that_hears_of_a_namespace_on_one_core_finds_it_on_every_other() {
    for [first_core, other] in [[0, 1], [1, 0]] {
        let catalogue = first(ram());
        let mut server = Server::serving(&catalogue);
        // The admin queue is on core 0; of the two I/O queues that were there before, one is on each core.
        let second = server.join(0, 6) + 1;
        let configure =
            SubmissionQueueEntry::new(SET_FEATURES, 0).with(10, ASYNC_EVENTS).with(11, NAMESPACE_NOTICES);
        server.send(0, command(configure, 3));
        server.send(0, command(SubmissionQueueEntry::new(ASYNC_EVENT_REQUEST, 0), 4));
        assert_eq!(server.completions(0).len(), 1);
        server.post(Message::Propose(Arc::new(with_second_disk(&catalogue))));
        for core in [0, 1] {
            server.run_core(core);
        }
        // Both can serve it, and each in its turn does before the other.
        server.step(0);
        server.run_core(first_core);
        assert_eq!(server.completions(0), [], "core {other} does not serve it yet");
        for core in [other, 0] {
            server.run_core(core);
        }
        let [(4, Status::SUCCESS, _)] = server.completions(0)[..] else {
            panic!("the host has not heard of it")
        };
        for stream in [1, second] {
            let mut entry = SubmissionQueueEntry::new(READ, 2);
            entry.dptr = nvme::sgl::SglDescriptor::transport(512);
            server.send(stream, command(entry, 9));
            assert!(server.received(stream).len() > 24, "data, whose end is its completion");
        }
        assert_eq!(server.observed(), [APPLIED]);
    }
}

#[test]
fn connections_that_have_to_leave_are_counted_once_and_as_they_end() {
    let catalogue = first(ram());
    let mut server = Server::serving(&catalogue);
    let mut next = without_disk(&catalogue);
    let portal = Portal { subsystems: Vec::new(), ..portal(&*catalogue.volumes[0].volume) };
    next.listeners[0].role = shows(portal.clone());
    server.propose(next.clone());
    assert_eq!(server.departures(), [Departure::Asked; 2]);
    next.generation = Generation(3);
    next.listeners[0].role = shows(portal);
    server.propose(next);
    server.wait(Duration::from_secs(6));
    server.close(1);
    assert_eq!(server.departures(), [Departure::Forced], "it used the volume to the end");
    server.close(0);
    assert_eq!(server.departures(), [Departure::Ended]);
}
