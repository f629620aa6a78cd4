//! Both sides of a packed queue on the same memory.

use alloc::vec::Vec;

use super::layout::{Descriptor, Place, flag, set_flags};
use super::*;
use crate::area::LocalArea;
use crate::chain::{Chain, Segment};
use crate::queue::{DeviceQueue, DriverQueue, Features, Position, Used};
use crate::violation::Violation;

const BOTH: Features = Features { event_index: true, indirect: true };
const BEGINNING: Position = Position { next: 0, used: 0, next_wrap: true, used_wrap: true };

struct Pair {
    ring: LocalArea,
    driver: PackedDriver<LocalArea>,
    device: PackedDevice<LocalArea>,
    areas: [LocalArea; 3],
    memory: LocalArea,
    chain: Chain,
}

impl Pair {
    fn new(size: u16, features: Features) -> Self {
        let layout = PackedLayout::new(size).unwrap();
        let areas = layout.lens().map(LocalArea::new);
        Self {
            ring: areas[0].clone(),
            driver: PackedDriver::new(layout, areas.clone(), features).unwrap(),
            device: PackedDevice::new(layout, areas.clone(), features, BEGINNING).unwrap(),
            areas,
            memory: LocalArea::new(1 << 16),
            chain: Chain::default(),
        }
    }

    fn take(&mut self) -> Result<bool, Violation> {
        self.device.next_available(&self.memory, &mut self.chain)
    }

    /// Writes a descriptor of the first round into the ring, as a hostile side may.
    fn plant(&mut self, at: u16, descriptor: Descriptor, flags: u16) {
        descriptor.write(&self.ring, at);
        set_flags(&self.ring, at, flags);
    }
}

fn piece(address: u64, len: u32, is_written: bool) -> Segment {
    Segment { address, len, is_written }
}

fn descriptor(address: u64, len: u32) -> Descriptor {
    Descriptor { address, len, id: 0, flags: 0 }
}

#[test]
fn sizes_and_places_that_cannot_be_are_refused() {
    assert!(PackedLayout::new(0).is_none() && PackedLayout::new(32_769).is_none());
    let layout = PackedLayout::new(3).unwrap();
    let areas = || layout.lens().map(LocalArea::new);
    for at in 0..3 {
        let mut short = areas();
        short[at] = LocalArea::new(layout.lens()[at] - 1);
        assert!(PackedDriver::new(layout, short.clone(), BOTH).is_none(), "{at}");
        assert!(PackedDevice::new(layout, short, BOTH, BEGINNING).is_none(), "{at}");
    }
    assert!(PackedDevice::new(layout, areas(), BOTH, Position { next: 3, ..BEGINNING }).is_none());
    assert!(PackedDevice::new(layout, areas(), BOTH, Position { used: 3, ..BEGINNING }).is_none());
}

#[test]
fn buffers_go_there_and_back_over_many_rounds() {
    // A size that is no power of two, so that buffers lie across the end.
    let mut pair = Pair::new(7, BOTH);
    for round in 0..50_u32 {
        let pieces = [piece(0, 16, false), piece(512, 4096, true), piece(16, 1, true)];
        let ids = [pair.driver.add(&pieces).unwrap(), pair.driver.add(&pieces[..2]).unwrap()];
        assert!(pair.driver.add(&pieces).is_none(), "two are free");
        let mut keys = Vec::new();
        for id in ids {
            assert_eq!((pair.take(), pair.chain.id), (Ok(true), id));
            keys.push(pair.chain.key());
        }
        assert_eq!(pair.take(), Ok(false));
        // In another order than they came.
        for key in keys.into_iter().rev() {
            pair.device.add_used(key, round);
        }
        assert_eq!(pair.driver.next_used(), Ok(None), "it is not published");
        pair.device.publish();
        assert_eq!(pair.driver.next_used(), Ok(Some(Used { id: ids[1], written: round })));
        assert_eq!(pair.driver.next_used(), Ok(Some(Used { id: ids[0], written: round })));
        assert_eq!((pair.driver.next_used(), pair.driver.room()), (Ok(None), 7));
    }
}

#[test]
fn notifications_come_where_they_are_waited_for() {
    for features in [BOTH, Features { event_index: false, ..BOTH }] {
        let mut pair = Pair::new(5, features);
        for _ in 0..20 {
            pair.device.ignore_available();
            pair.driver.ignore_used();
            pair.driver.add(&[piece(0, 1, true)]).unwrap();
            assert!(!pair.driver.publish() && !pair.driver.publish());
            assert!(pair.device.await_available(), "one is there");
            assert_eq!(pair.take(), Ok(true));
            assert!(!pair.device.await_available());
            pair.device.add_used(pair.chain.key(), 0);
            assert!(!pair.device.publish());
            assert!(pair.driver.await_used(), "one is there");
            pair.driver.next_used().unwrap().unwrap();
            assert!(!pair.driver.await_used());
            pair.driver.add(&[piece(0, 1, true)]).unwrap();
            assert!(pair.driver.publish(), "the device waits for it");
            assert_eq!(pair.take(), Ok(true));
            pair.device.add_used(pair.chain.key(), 0);
            assert!(pair.device.publish(), "the driver waits for it");
            pair.driver.next_used().unwrap().unwrap();
        }
    }
}

#[test]
fn an_indirect_table_is_walked() {
    let mut pair = Pair::new(4, BOTH);
    let table = pair.memory.part(1024, 32).unwrap();
    descriptor(64, 16).write(&table, 0);
    descriptor(128, 512).write(&table, 1);
    set_flags(&table, 1, flag::WRITE);
    pair.plant(0, Descriptor { id: 9, ..descriptor(1024, 32) }, Place::START.available() | flag::INDIRECT);
    assert_eq!(pair.take(), Ok(true));
    assert_eq!(pair.chain.to_read(), [piece(64, 16, false)]);
    assert_eq!((pair.chain.to_write(), pair.chain.id), (&[piece(128, 512, true)][..], 9));
    pair.device.add_used(pair.chain.key(), 512);
    assert_eq!(pair.device.position().used, 1, "one descriptor of the ring");
}

#[test]
fn a_hostile_driver_breaks_its_queue_and_nothing_else() {
    let available = Place::START.available();
    let cases: &[(&[u16], Violation)] = &[
        (&[flag::NEXT; 4], Violation::EndlessChain),
        (&[flag::NEXT | flag::WRITE, 0], Violation::OutOfOrder),
        (&[flag::INDIRECT | flag::NEXT], Violation::BadIndirectTable),
        (&[flag::NEXT, flag::INDIRECT], Violation::BadIndirectTable),
    ];
    for (flags, violation) in cases {
        let mut pair = Pair::new(4, BOTH);
        for (at, flags) in (0..).zip(*flags) {
            pair.plant(at, descriptor(1024, 16), available | flags);
        }
        assert_eq!(pair.take(), Err(*violation), "{flags:?}");
    }
    for table in [descriptor(1024, 0), descriptor(1024, 17), descriptor(u64::MAX, 16)] {
        let mut pair = Pair::new(4, BOTH);
        pair.plant(0, table, available | flag::INDIRECT);
        assert_eq!(pair.take(), Err(Violation::BadIndirectTable), "{table:?}");
    }
    let mut pair = Pair::new(4, Features { indirect: false, ..BOTH });
    pair.plant(0, descriptor(1024, 16), available | flag::INDIRECT);
    assert_eq!(pair.take(), Err(Violation::BadIndirectTable), "not agreed on");
    let mut pair = Pair::new(4, BOTH);
    let len = u32::try_from(crate::limits::SEGMENTS + 1).unwrap() * 16;
    pair.plant(0, descriptor(1024, len), available | flag::INDIRECT);
    assert_eq!(pair.take(), Err(Violation::TooManySegments));
}

#[test]
fn a_hostile_device_breaks_its_queue_and_nothing_else() {
    let used = Place::START.used();
    for (id, written, violation) in
        [(4, 1, Violation::NotOffered), (1, 1, Violation::NotOffered), (0, 17, Violation::TooMuchWritten)]
    {
        let mut pair = Pair::new(4, BOTH);
        assert_eq!(pair.driver.add(&[piece(0, 16, true)]), Some(0));
        pair.plant(0, Descriptor { id, ..descriptor(0, written) }, used);
        assert_eq!(pair.driver.next_used(), Err(violation), "{id} {written}");
    }
    let mut pair = Pair::new(4, BOTH);
    pair.plant(0, descriptor(0, 0), used);
    assert_eq!(pair.driver.next_used(), Ok(None), "nothing is the device's");
}

#[test]
fn a_device_that_comes_later_goes_on_where_the_first_one_stood() {
    let mut pair = Pair::new(4, BOTH);
    let layout = PackedLayout::new(4).unwrap();
    for round in 0..9 {
        let id = pair.driver.add(&[piece(0, 1, true); 3]).unwrap();
        assert_eq!(pair.take(), Ok(true));
        pair.device.add_used(pair.chain.key(), 3);
        pair.device.publish();
        assert_eq!(pair.driver.next_used(), Ok(Some(Used { id, written: 3 })), "{round}");
        let position = pair.device.position();
        pair.device = PackedDevice::new(layout, pair.areas.clone(), BOTH, position).unwrap();
    }
}
