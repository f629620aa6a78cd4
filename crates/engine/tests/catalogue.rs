//! What a running server serves changes on all cores, or on none.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Server, portal, ram};
use engine::{Catalogue, ControlEvent, Generation, ListenerRole, NamedVolume, ProposalError, ServedVolume};
use volume::{
    CoreId, Features, Geometry, Limits, OpenError, QueueContext, QueueFull, Request, Tag, Volume, VolumeId,
    VolumeQueue,
};

/// A volume that opens queues on the first cores only, and counts those that are open.
#[derive(Debug)]
struct Picky {
    inner: Arc<dyn Volume>,
    cores: u16,
    open: Arc<AtomicUsize>,
}

struct Counted(Box<dyn VolumeQueue>, Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

impl VolumeQueue for Counted {
    fn submit(&mut self, now: protocol::Instant, request: Request) -> Result<(), QueueFull> {
        self.0.submit(now, request)
    }
    fn cancel(&mut self, tag: Tag) {
        self.0.cancel(tag);
    }
    fn poll(&mut self, now: protocol::Instant, done: &mut Vec<volume::Completion>) {
        self.0.poll(now, done);
    }
}

impl Volume for Picky {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn limits(&self) -> Limits {
        self.inner.limits()
    }
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        if context.core >= CoreId(self.cores) {
            return Err(OpenError::new("it has no queue for this core"));
        }
        self.open.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Counted(self.inner.open_queue(context)?, Arc::clone(&self.open))))
    }
}

/// The server's first catalogue, and the same with another volume beside the disk, on these cores.
fn catalogues(cores: u16) -> ([Catalogue; 2], Arc<AtomicUsize>) {
    let disk = ram();
    let role = ListenerRole::Nvme(Arc::new(portal(&*disk)));
    let first = Catalogue::first([NamedVolume { name: "disk".into(), volume: disk }], vec![role]);
    let open = Arc::new(AtomicUsize::new(0));
    let volume = Arc::new(Picky { inner: ram(), cores, open: Arc::clone(&open) });
    let mut second = Catalogue { generation: Generation(2), ..first.clone() };
    second.volumes.push(ServedVolume { id: VolumeId::new(1, 0), name: "other".into(), volume });
    ([first, second], open)
}

#[test]
fn a_volume_comes_and_goes_on_all_cores() {
    let mut server = Server::of(ram(), 64 << 20);
    let ([first, second], open) = catalogues(2);
    assert_eq!(server.propose(second.clone()), [ControlEvent::Applied(Generation(2))]);
    assert_eq!(open.load(Ordering::SeqCst), 2, "a queue on each core");
    assert_eq!(
        server.propose(second),
        [ControlEvent::Rejected(Generation(2), ProposalError::Outdated(Generation(2)))]
    );
    let retired = ControlEvent::Retired { id: VolumeId::new(1, 0), secured: true, forced: 0 };
    let third = Catalogue { generation: Generation(3), ..first };
    assert_eq!(server.propose(third), [ControlEvent::Applied(Generation(3)), retired]);
    assert_eq!(open.load(Ordering::SeqCst), 0, "its queues are gone, flushed");
}

#[test]
fn a_volume_that_one_core_cannot_open_comes_to_no_core() {
    let mut server = Server::of(ram(), 64 << 20);
    let ([_, second], open) = catalogues(1);
    let error = OpenError::new("it has no queue for this core");
    let refused =
        ControlEvent::Rejected(Generation(2), ProposalError::Volume { volume: "other".into(), error });
    assert_eq!(server.propose(second), [refused]);
    assert_eq!(open.load(Ordering::SeqCst), 0, "what the other core had opened is closed");
    let ([_, second], open) = catalogues(2);
    assert_eq!(server.propose(second), [ControlEvent::Applied(Generation(2))], "its place is free");
    assert_eq!(open.load(Ordering::SeqCst), 2);
}

#[test]
fn a_place_is_used_again_by_another_volume() {
    let mut server = Server::of(ram(), 64 << 20);
    let ([first, second], _) = catalogues(2);
    server.propose(second.clone());
    server.propose(Catalogue { generation: Generation(3), ..first.clone() });
    let mut next = Catalogue { generation: Generation(4), ..second };
    next.volumes[1].id = VolumeId::new(1, 1);
    assert_eq!(server.propose(next), [ControlEvent::Applied(Generation(4))]);
    // The newer one is not taken for the older.
    let retired = ControlEvent::Retired { id: VolumeId::new(1, 1), secured: true, forced: 0 };
    let last = Catalogue { generation: Generation(5), ..first };
    assert_eq!(server.propose(last), [ControlEvent::Applied(Generation(5)), retired]);
}

#[test]
fn a_server_that_stops_retires_its_volumes_once_nobody_is_connected_and_ends_on_all_cores() {
    let mut server = Server::of(ram(), 64 << 20);
    let ([_, second], _) = catalogues(2);
    server.propose(second.clone());
    server.stop();
    assert_eq!(server.observed(), [], "two hosts' queues are connected");
    let late = Catalogue { generation: Generation(3), ..second };
    assert_eq!(server.propose(late), [ControlEvent::Rejected(Generation(3), ProposalError::Stopping)]);
    server.hang_up(0);
    assert_eq!(server.observed(), []);
    server.hang_up(0);
    let mut retired = server.observed();
    retired.sort_by_key(|event| format!("{event:?}"));
    let of = |slot| ControlEvent::Retired { id: VolumeId::new(slot, 0), secured: true, forced: 0 };
    assert_eq!(retired, [of(0), of(1)]);
    assert!(server.are_finished());
}
