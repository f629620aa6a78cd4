//! Both sides of a split queue on the same memory.

use alloc::vec::Vec;

use super::layout::Descriptor;
use super::*;
use crate::area::{Area, LocalArea};
use crate::chain::{Chain, Segment};
use crate::queue::{DeviceQueue, DriverQueue, Features, Used};
use crate::violation::Violation;

const BOTH: Features = Features { event_index: true, indirect: true };

fn areas(layout: SplitLayout) -> SplitAreas<LocalArea> {
    SplitAreas {
        table: LocalArea::new(layout.table_len()),
        available: LocalArea::new(layout.available_len()),
        used: LocalArea::new(layout.used_len()),
    }
}

struct Pair {
    areas: SplitAreas<LocalArea>,
    driver: SplitDriver<LocalArea>,
    device: SplitDevice<LocalArea>,
    memory: LocalArea,
    chain: Chain,
}

impl Pair {
    fn new(size: u16, features: Features) -> Self {
        let layout = SplitLayout::new(size).unwrap();
        let areas = areas(layout);
        Self {
            driver: SplitDriver::new(layout, areas.clone(), features).unwrap(),
            device: SplitDevice::new(layout, areas.clone(), features, 0).unwrap(),
            areas,
            memory: LocalArea::new(1 << 16),
            chain: Chain::default(),
        }
    }

    fn take(&mut self) -> Result<bool, Violation> {
        self.device.next_available(&self.memory, &mut self.chain)
    }

    /// Writes a descriptor into the table, as a hostile driver may, and makes it available as number `index`.
    fn plant(&mut self, index: u16, head: u16, descriptors: &[(u16, Descriptor)]) {
        for (at, descriptor) in descriptors {
            descriptor.write(&self.areas.table, usize::from(*at));
        }
        self.areas.available.store(4 + usize::from(index) * 2, head);
        self.areas.available.store(2, index + 1);
    }
}

fn piece(address: u64, len: u32, is_written: bool) -> Segment {
    Segment { address, len, is_written }
}

fn descriptor(flags: u16, next: u16) -> Descriptor {
    Descriptor { address: 64, len: 16, flags, next }
}

#[test]
fn a_short_area_is_no_queue() {
    let layout = SplitLayout::new(8).unwrap();
    for at in 0..3 {
        let mut short = areas(layout);
        let area = [&mut short.table, &mut short.available, &mut short.used][at].clone();
        let less = area.part(0, area.len() - 1).unwrap();
        *[&mut short.table, &mut short.available, &mut short.used][at] = less;
        assert!(SplitDriver::new(layout, short.clone(), BOTH).is_none(), "{at}");
        assert!(SplitDevice::new(layout, short, BOTH, 0).is_none(), "{at}");
    }
}

#[test]
fn a_buffer_goes_there_and_back() {
    let mut pair = Pair::new(4, BOTH);
    let pieces = [piece(0, 16, false), piece(512, 4096, true), piece(16, 1, true)];
    let id = pair.driver.add(&pieces).unwrap();
    assert_eq!((pair.driver.room(), pair.take()), (1, Ok(false)), "it is not published");
    assert!(pair.driver.publish(), "the device waits for the first one");
    assert_eq!(pair.take(), Ok(true));
    assert_eq!((pair.chain.to_read(), pair.chain.to_write()), (&pieces[..1], &pieces[1..]));
    pair.device.add_used(pair.chain.key(), 4097);
    assert_eq!(pair.driver.next_used(), Ok(None), "it is not published");
    assert!(pair.device.publish());
    assert_eq!(pair.driver.next_used(), Ok(Some(Used { id, written: 4097 })));
    assert_eq!((pair.driver.next_used(), pair.driver.room()), (Ok(None), 4));
}

#[test]
fn what_does_not_fit_is_not_added() {
    let mut pair = Pair::new(4, BOTH);
    assert!(pair.driver.add(&[]).is_none());
    assert!(pair.driver.add(&[piece(0, 1, false); 5]).is_none());
    assert!(pair.driver.add(&[piece(0, 1, false); 3]).is_some());
    assert!(pair.driver.add(&[piece(0, 1, false); 2]).is_none());
    assert!(pair.driver.add(&[piece(0, 1, false); 1]).is_some());
}

#[test]
fn notifications_come_where_they_are_waited_for() {
    for features in [BOTH, Features { event_index: false, ..BOTH }] {
        let mut pair = Pair::new(8, features);
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
    }
}

#[test]
fn an_indirect_table_is_walked() {
    let mut pair = Pair::new(4, BOTH);
    let table = pair.memory.part(1024, 48).unwrap();
    descriptor(1, 2).write(&table, 0);
    descriptor(2, 0).write(&table, 2);
    let indirect = Descriptor { address: 1024, len: 48, flags: 4, next: 0 };
    pair.plant(0, 3, &[(3, indirect)]);
    assert_eq!(pair.take(), Ok(true));
    assert_eq!((pair.chain.to_read().len(), pair.chain.to_write().len(), pair.chain.id), (1, 1, 3));
}

#[test]
fn a_hostile_driver_breaks_its_queue_and_nothing_else() {
    let table = |len: u32| Descriptor { address: 1024, len, flags: 4, next: 0 };
    let cases: Vec<(Vec<(u16, Descriptor)>, Violation)> = alloc::vec![
        (alloc::vec![(0, descriptor(1, 9))], Violation::NoSuchDescriptor),
        (alloc::vec![(0, descriptor(1, 1)), (1, descriptor(1, 0))], Violation::EndlessChain),
        (alloc::vec![(0, descriptor(3, 1)), (1, descriptor(0, 0))], Violation::OutOfOrder),
        (alloc::vec![(0, table(0))], Violation::BadIndirectTable),
        (alloc::vec![(0, table(17))], Violation::BadIndirectTable),
        (alloc::vec![(0, Descriptor { address: u64::MAX, ..table(16) })], Violation::BadIndirectTable),
        (alloc::vec![(0, Descriptor { flags: 5, ..table(16) })], Violation::BadIndirectTable),
    ];
    for (planted, violation) in cases {
        let mut pair = Pair::new(8, BOTH);
        pair.plant(0, 0, &planted);
        assert_eq!(pair.take(), Err(violation), "{planted:?}");
    }
    let mut pair = Pair::new(8, Features { indirect: false, ..BOTH });
    pair.plant(0, 0, &[(0, table(16))]);
    assert_eq!(pair.take(), Err(Violation::BadIndirectTable), "not agreed on");
    let mut pair = Pair::new(8, BOTH);
    pair.areas.available.store(2, 9);
    assert_eq!(pair.take(), Err(Violation::TooManyAvailable));
    pair.plant(0, 8, &[]);
    assert_eq!(pair.take(), Err(Violation::NoSuchDescriptor));
}

#[test]
fn tables_that_lead_astray_are_found() {
    let cases = [
        ([descriptor(1, 5), descriptor(0, 0)], Violation::NoSuchDescriptor),
        ([descriptor(1, 1), descriptor(1, 0)], Violation::EndlessChain),
        ([descriptor(4, 0), descriptor(0, 0)], Violation::BadIndirectTable),
        ([descriptor(3, 1), descriptor(0, 0)], Violation::OutOfOrder),
    ];
    for (entries, violation) in cases {
        let mut pair = Pair::new(8, BOTH);
        let table = pair.memory.part(1024, 32).unwrap();
        entries.iter().enumerate().for_each(|(at, entry)| entry.write(&table, at));
        pair.plant(0, 0, &[(0, Descriptor { address: 1024, len: 32, flags: 4, next: 0 })]);
        assert_eq!(pair.take(), Err(violation));
    }
    let mut pair = Pair::new(8, BOTH);
    let entries = u16::try_from(crate::limits::SEGMENTS).unwrap() + 1;
    let table = pair.memory.part(1024, usize::from(entries) * 16).unwrap();
    (0..entries).for_each(|at| descriptor(1, at + 1).write(&table, usize::from(at)));
    pair.plant(0, 0, &[(0, Descriptor { address: 1024, len: u32::from(entries) * 16, flags: 4, next: 0 })]);
    assert_eq!(pair.take(), Err(Violation::TooManySegments));
}

#[test]
fn a_hostile_device_breaks_its_queue_and_nothing_else() {
    let cases = [
        (2, 1_u64, 1_u64, Violation::TooManyUsed),
        (1, 7, 1, Violation::NotOffered),
        (1, 0x1_0000, 1, Violation::NotOffered),
        (1, 1, 1, Violation::NotOffered),
        (1, 0, 17, Violation::TooMuchWritten),
    ];
    for (index, id, written, violation) in cases {
        let mut pair = Pair::new(4, BOTH);
        assert_eq!(pair.driver.add(&[piece(0, 16, false), piece(0, 16, true)]), Some(0));
        pair.areas.used.write(4, &u64::to_le_bytes((written << 32) | id));
        pair.areas.used.store(2, index);
        assert_eq!(pair.driver.next_used(), Err(violation), "{index} {id} {written}");
    }
}

#[test]
fn what_the_device_does_to_the_table_changes_nothing_for_the_driver() {
    let mut pair = Pair::new(8, BOTH);
    let first = pair.driver.add(&[piece(0, 16, false), piece(0, 16, true)]).unwrap();
    pair.areas.table.write(0, &[0xff; 128]);
    pair.areas.used.write(4, &[0, 0, 0, 0, 0, 0, 0, 0]);
    pair.areas.used.store(2, 1);
    assert_eq!(pair.driver.next_used(), Ok(Some(Used { id: first, written: 0 })));
    let ids: Vec<u16> = (0..8).map(|_| pair.driver.add(&[piece(0, 1, false)]).unwrap()).collect();
    let mut sorted = ids;
    sorted.sort_unstable();
    assert_eq!(sorted, (0..8).collect::<Vec<u16>>(), "each descriptor once");
}

#[test]
fn a_device_that_comes_later_goes_on_behind_what_was_used() {
    let mut pair = Pair::new(4, BOTH);
    for _ in 0..3 {
        pair.driver.add(&[piece(0, 1, true)]).unwrap();
    }
    pair.driver.publish();
    pair.take().unwrap();
    pair.device.add_used(pair.chain.key(), 1);
    pair.device.publish();
    let layout = SplitLayout::new(4).unwrap();
    let mut later = SplitDevice::new(layout, pair.areas.clone(), BOTH, pair.device.position().next).unwrap();
    let mut left = 0;
    while later.next_available(&pair.memory, &mut pair.chain).unwrap() {
        later.add_used(pair.chain.key(), 0);
        left += 1;
    }
    later.publish();
    assert_eq!(left, 2);
    assert_eq!(core::iter::from_fn(|| pair.driver.next_used().unwrap()).count(), 3);
}
