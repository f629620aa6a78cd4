//! A device that ends between any two of its writes, and the one that comes after it.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;

use super::format::{ENTRIES_AT, VERSION, VERSION_AT};
use super::*;
use crate::area::{AddressSpace, LocalArea};
use crate::chain::Segment;
use crate::either::{AnyDevice, AnyDriver};
use crate::packed::PackedDevice;
use crate::queue::{DeviceQueue, DriverQueue, Features};
use crate::split::{SplitAreas, SplitDevice};

const FEATURES: Features = Features { event_index: true, indirect: true };
const BEGINNING: Position = Position { next: 0, used: 0, next_wrap: true, used_wrap: true };

/// Shared memory as a process has it that ends after so many writes.
#[derive(Debug, Clone)]
struct Mortal {
    area: LocalArea,
    writes: Rc<Cell<usize>>,
}

impl Mortal {
    fn lives(&self) -> bool {
        let left = self.writes.get();
        self.writes.set(left.saturating_sub(1));
        left > 0
    }
}

impl Area for Mortal {
    fn len(&self) -> usize {
        self.area.len()
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        self.area.read(at, into);
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        if self.lives() {
            self.area.write(at, bytes);
        }
    }

    fn load(&self, at: usize) -> u16 {
        self.area.load(at)
    }

    fn store(&self, at: usize, number: u16) {
        if self.lives() {
            self.area.store(at, number);
        }
    }
}

impl AddressSpace for Mortal {
    type Area = Self;

    fn area(&self, address: u64, len: usize) -> Option<Self> {
        Some(Self { area: self.area.area(address, len)?, writes: Rc::clone(&self.writes) })
    }
}

/// The memory of a queue, of its region and of what its buffers are.
struct Shared {
    layout: Layout,
    areas: [LocalArea; 3],
    region: LocalArea,
    memory: LocalArea,
}

/// A device with its tracker, and what it has under way.
struct Device {
    queue: AnyDevice<Mortal>,
    tracker: Tracker<Mortal>,
    memory: Mortal,
    held: Vec<ChainKey>,
}

impl Shared {
    fn new(layout: Layout) -> Self {
        Self {
            layout,
            areas: layout.lens().map(LocalArea::new),
            region: LocalArea::new(region_len(layout)),
            memory: LocalArea::new(4096),
        }
    }

    /// A device that ends after so many writes. It has what an earlier one left under way.
    fn device(&self, writes: usize) -> Device {
        let writes = Rc::new(Cell::new(writes));
        let mortal = |area: &LocalArea| Mortal { area: area.clone(), writes: Rc::clone(&writes) };
        let areas = self.areas.each_ref().map(mortal);
        let (region, memory) = (mortal(&self.region), mortal(&self.memory));
        let mut chain = Chain::default();
        let mut held = Vec::new();
        match self.layout {
            Layout::Split(layout) => {
                let [table, available, used] = areas;
                let index = used.load(2);
                let ResumedSplit { tracker, heads: left } =
                    SplitTracker::begin(region, layout.size(), index).unwrap();
                let next = index.wrapping_add(u16::try_from(left.len()).unwrap());
                let areas = SplitAreas { table, available, used };
                let device = SplitDevice::new(layout, areas, FEATURES, next).unwrap();
                for head in left {
                    device.take_again(head, &memory, &mut chain).unwrap();
                    held.push(chain.key());
                }
                let (queue, tracker) = (AnyDevice::Split(device.into()), Tracker::Split(tracker));
                Device { queue, tracker, memory, held }
            }
            Layout::Packed(layout) => {
                let looks = PackedDevice::new(layout, areas.clone(), FEATURES, BEGINNING).unwrap();
                let resumed = PackedTracker::begin(region, layout.size(), BEGINNING, &looks);
                let ResumedPacked { tracker, position, left } = resumed.unwrap();
                let device = PackedDevice::new(layout, areas, FEATURES, position).unwrap();
                for one in left {
                    device.take_again(&one, &memory, &mut chain).unwrap();
                    held.push(chain.key());
                }
                let (queue, tracker) = (AnyDevice::Packed(device.into()), Tracker::Packed(tracker));
                Device { queue, tracker, memory, held }
            }
        }
    }
}

impl Device {
    /// Takes what there is, and gives all but the last of what it has back, the newest first.
    fn turn(&mut self, keep: usize) {
        let mut chain = Chain::default();
        while self.queue.next_available(&self.memory, &mut chain).unwrap() {
            self.tracker.taken(&mut chain);
            self.held.push(chain.key());
        }
        for _ in keep..self.held.len() {
            let key = self.held.pop().unwrap();
            self.tracker.returning(key);
            self.queue.add_used(key, 0);
        }
        self.tracker.publishing(self.queue.position());
        self.queue.publish();
        self.tracker.published(self.queue.position());
    }
}

fn pieces(count: usize) -> Vec<Segment> {
    vec![Segment { address: 0, len: 8, is_written: false }; count]
}

/// Adds buffers of one to three descriptors while there is room, and takes what was used.
fn drive(driver: &mut AnyDriver<LocalArea>, under_way: &mut BTreeMap<u16, usize>, seed: &mut usize) {
    while let Some(used) = driver.next_used().unwrap() {
        assert!(under_way.remove(&used.id).is_some(), "{} was used and is not under way", used.id);
    }
    loop {
        let count = *seed % 3 + 1;
        let Some(id) = driver.add(&pieces(count)) else { break };
        assert!(under_way.insert(id, count).is_none());
        *seed += 1;
    }
    driver.publish();
}

fn whoever_comes_after_serves_each_buffer_once(layout: Layout) {
    // As many writes as a device makes that lives.
    for writes in 0..160 {
        let shared = Shared::new(layout);
        let mut driver = AnyDriver::new(layout, shared.areas.clone(), FEATURES).unwrap();
        let (mut under_way, mut seed) = (BTreeMap::new(), writes);
        // One that ends early, one that ends while it takes over, and one that lives.
        for lives in [40 + writes, writes, usize::MAX] {
            let mut device = shared.device(lives);
            for keep in [2, 0, 1] {
                drive(&mut driver, &mut under_way, &mut seed);
                device.turn(keep);
            }
        }
        let mut last = shared.device(usize::MAX);
        last.turn(0);
        while let Some(used) = driver.next_used().unwrap() {
            assert!(under_way.remove(&used.id).is_some(), "{writes}");
        }
        assert!(under_way.is_empty(), "after {writes} writes {under_way:?} is left under way for ever");
        assert_eq!(driver.room(), layout.size());
    }
}

#[test]
fn a_split_queue_outlives_its_device() {
    whoever_comes_after_serves_each_buffer_once(Layout::split(8).unwrap());
}

#[test]
fn a_packed_queue_outlives_its_device() {
    for size in [7, 8] {
        whoever_comes_after_serves_each_buffer_once(Layout::packed(size).unwrap());
    }
}

#[test]
fn buffers_are_served_again_in_their_order() {
    let layout = Layout::split(8).unwrap();
    let shared = Shared::new(layout);
    let mut driver = AnyDriver::new(layout, shared.areas.clone(), FEATURES).unwrap();
    let mut device = shared.device(usize::MAX);
    let ids: Vec<u16> = (0..5).map(|_| driver.add(&pieces(1)).unwrap()).collect();
    driver.publish();
    device.turn(5);
    let again = shared.device(usize::MAX);
    assert_eq!(again.held.iter().map(|key| key.id).collect::<Vec<_>>(), ids);
}

fn packed_device() -> PackedDevice<LocalArea> {
    let layout = crate::packed::PackedLayout::new(8).unwrap();
    PackedDevice::new(layout, layout.lens().map(LocalArea::new), FEATURES, BEGINNING).unwrap()
}

#[test]
fn a_region_of_another_queue_is_refused() {
    let region = LocalArea::new(4096);
    assert!(SplitTracker::begin(region.clone(), 8, 0).is_some());
    assert!(SplitTracker::begin(region.clone(), 16, 0).is_none(), "it has another size");
    assert!(SplitTracker::begin(LocalArea::new(8), 8, 0).is_none(), "it is too short");
    region.store(VERSION_AT, 2);
    assert!(SplitTracker::begin(region, 8, 0).is_none(), "it has another version");
    let (region, device) = (LocalArea::new(4096), packed_device());
    assert!(PackedTracker::begin(region.clone(), 8, BEGINNING, &device).is_some());
    assert!(PackedTracker::begin(region, 16, BEGINNING, &device).is_none());
}

#[test]
fn a_region_of_any_bytes_is_survived() {
    for byte in [1, 7, 0xff] {
        let region = LocalArea::new(region_len(Layout::packed(8).unwrap()));
        region.write(0, &vec![byte; region.len()]);
        region.store(VERSION_AT, VERSION);
        region.store(ENTRIES_AT, 8);
        let _ = SplitTracker::begin(region.clone(), 8, 3);
        let _ = PackedTracker::begin(region, 8, BEGINNING, &packed_device());
    }
}
