//! A front end's memory and its side of a queue, by which it does what it likes.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use vhost_user::SharedArea;
use virtio::either::{AnyDevice, AnyDriver, Layout};
use virtio::queue::{Features, Position};
use virtio::{Area, DriverQueue, Segment};
use volume::{Durability, Volume};

use super::core::Core;
use crate::vhost::guest::{GuestMemory, Place};
use crate::vhost::request::Shape;
use crate::vhost::ring::RingPlan;
use crate::vhost::service::RingId;

/// Where the device has the memory, and where the front end itself has it.
pub(super) const GUEST: u64 = 0x10_0000;
const USER: u64 = 0x7000_0000;
/// Bytes of memory behind the queue.
pub(super) const DATA: usize = 2 << 20;
/// Areas of a queue begin at multiples of this many bytes.
const PAGE: usize = 4096;
const FEATURES: Features = Features { event_index: true, indirect: true };

/// A front end with one queue.
pub(super) struct Front {
    pub(super) driver: AnyDriver<SharedArea>,
    pub(super) memory: SharedArea,
    lent: Arc<GuestMemory>,
    layout: Layout,
    shape: Shape,
    pub(super) ring: RingId,
    kicks: bool,
}

impl Front {
    /// One whose queue is served.
    pub(super) fn new(core: &mut Core, volume: &dyn Volume, layout: Layout) -> Self {
        let ring_len: usize = layout.lens().map(|len| len.next_multiple_of(PAGE)).iter().sum();
        let created = SharedArea::create(ring_len + DATA).unwrap();
        let (area, file) = (created.area, created.file);
        let place = Place { guest: GUEST, user: USER, len: wire::widen(area.len()), offset: 0 };
        let lent = Arc::new(GuestMemory::default().with(place, &File::from(file)).unwrap());
        let shape = Shape { geometry: volume.geometry(), limits: volume.limits(), read_only: false };
        let driver = AnyDriver::new(layout, areas(layout, |at, len| area.part(at, len)), FEATURES).unwrap();
        let mut front = Self { driver, memory: area, lent, layout, shape, ring: RingId(0), kicks: false };
        front.ring = core.start(front.plan(), event());
        front
    }

    /// How the core is to serve it.
    fn plan(&self) -> RingPlan {
        let fresh = Position { next: 0, used: 0, next_wrap: true, used_wrap: true };
        let position = if matches!(self.layout, Layout::Packed(_)) { fresh } else { Position::default() };
        let areas = areas(self.layout, |at, len| self.lent.of_user(USER + wire::widen(at), len));
        RingPlan {
            volume: 0,
            size: self.layout.size(),
            queue: AnyDevice::new(self.layout, areas, FEATURES, position).unwrap(),
            tracker: None,
            left: Vec::new(),
            memory: Arc::clone(&self.lent),
            shape: self.shape,
            durability: Durability::Cached,
            call: None,
            error: None,
        }
    }

    /// Begins anew: an empty queue, served as another ring.
    pub(super) fn begin_anew(&mut self, core: &mut Core) {
        core.stop(self.ring);
        self.memory.write(0, &vec![0; self.ring_len()]);
        self.driver =
            AnyDriver::new(self.layout, areas(self.layout, |at, len| self.memory.part(at, len)), FEATURES)
                .unwrap();
        self.ring = core.start(self.plan(), event());
    }

    /// Bytes in front of the data.
    pub(super) fn ring_len(&self) -> usize {
        self.memory.len() - DATA
    }

    /// A piece of memory behind the queue.
    pub(super) fn segment(&self, at: usize, len: u32, is_written: bool) -> Segment {
        Segment { address: GUEST + wire::widen(self.ring_len() + at), len, is_written }
    }

    /// Lets the device see what was added, and notifies it if it wants that.
    pub(super) fn publish(&mut self) {
        self.kicks |= self.driver.publish();
    }

    /// Whether it has notified the device.
    pub(super) fn take_kick(&mut self) -> bool {
        std::mem::take(&mut self.kicks)
    }
}

fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).unwrap()
}

fn areas(layout: Layout, part: impl Fn(usize, usize) -> Option<SharedArea>) -> [SharedArea; 3] {
    let mut at = 0;
    layout.lens().map(|len| {
        let area = part(at, len).unwrap();
        at += len.next_multiple_of(PAGE);
        area
    })
}
