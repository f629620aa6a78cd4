//! Virtqueues whose other side does what it likes with the memory that both share.

use std::collections::BTreeMap;

use virtio::either::{AnyDevice, AnyDriver, Layout};
use virtio::inflight::{PackedTracker, ResumedPacked, ResumedSplit, SplitTracker, Tracker, region_len};
use virtio::packed::PackedDevice;
use virtio::queue::{Features, Position};
use virtio::split::{SplitAreas, SplitDevice};
use virtio::{Area, Chain, DeviceQueue, DriverQueue, LocalArea, Segment, limits};
use wire::Reader;

/// Entries of a queue, at most: few, so that rounds end and rings wrap.
const MOST_ENTRIES: u16 = 16;
/// Bytes of the memory beside the queue, where indirect tables may lie.
const MEMORY: usize = 4096;
/// Steps of one input.
const MOST_STEPS: usize = 512;

/// The memory that both sides share, and what they have agreed on.
struct Ground {
    layout: Layout,
    features: Features,
    areas: [LocalArea; 3],
    memory: LocalArea,
}

impl Ground {
    /// By two bytes: the layout with its features, and the size.
    fn of(reader: &mut Reader<'_>) -> Option<Self> {
        let (bits, size) = (reader.u8().ok()?, u16::from(reader.u8().ok()?) % MOST_ENTRIES + 1);
        let is_packed = bits & 1 != 0;
        let layout = if is_packed { Layout::packed(size)? } else { Layout::split(size.next_power_of_two())? };
        let features = Features { event_index: bits & 2 != 0, indirect: bits & 4 != 0 };
        let areas = layout.lens().map(LocalArea::new);
        Some(Self { layout, features, areas, memory: LocalArea::new(MEMORY) })
    }

    /// The other side writes: which area, where, how much, and the bytes.
    fn disturb(&self, reader: &mut Reader<'_>) -> Option<()> {
        let which = usize::from(reader.u8().ok()?) % 4;
        let at = usize::from(reader.u16_le().ok()?);
        let count = usize::from(reader.u8().ok()?) % 33;
        let bytes = reader.take(count.min(reader.remaining())).ok()?;
        let area = self.areas.get(which).unwrap_or(&self.memory);
        area.write(at % area.len().max(1), bytes);
        Some(())
    }
}

/// The device's side, with or without a region in which it keeps track, which the driver may disturb before it begins.
///
/// # Panics
/// A buffer has more pieces than are looked at, or the queue panics.
pub fn device(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let _over = serve(&mut reader);
}

fn serve(reader: &mut Reader<'_>) -> Option<()> {
    let ground = Ground::of(reader)?;
    let keeps_track = reader.u8().ok()? & 1 != 0;
    let region = LocalArea::new(region_len(ground.layout));
    if keeps_track {
        let count = usize::from(reader.u8().ok()?);
        region.write(0, reader.take(count.min(reader.remaining())).ok()?);
    }
    let (mut queue, mut tracker, mut taken) = begin(&ground, keeps_track.then_some(region))?;
    for _ in 0..MOST_STEPS {
        match reader.u8().ok()? % 8 {
            0..=2 => ground.disturb(reader)?,
            3 | 4 => {
                let mut chain = Chain::default();
                if queue.next_available(&ground.memory, &mut chain).ok()? {
                    assert!(chain.pieces() <= limits::SEGMENTS, "{} pieces", chain.pieces());
                    if let Some(tracker) = &mut tracker {
                        tracker.taken(&mut chain);
                    }
                    taken.push(chain);
                }
            }
            5 => {
                let Some(chain) = taken.pop() else { continue };
                if let Some(tracker) = &mut tracker {
                    tracker.returning(chain.key());
                }
                queue.add_used(chain.key(), u32::from(reader.u8().ok()?));
                let position = queue.position();
                if let Some(tracker) = &mut tracker {
                    tracker.publishing(position);
                }
                queue.publish();
                if let Some(tracker) = &mut tracker {
                    tracker.published(position);
                }
            }
            6 => drop(queue.await_available()),
            _ => queue.ignore_available(),
        }
    }
    Some(())
}

type Begun = (AnyDevice<LocalArea>, Option<Tracker<LocalArea>>, Vec<Chain>);

/// A device, with what an earlier one has left if there is a region.
fn begin(ground: &Ground, region: Option<LocalArea>) -> Option<Begun> {
    let (layout, features) = (ground.layout, ground.features);
    let fresh = Position { next_wrap: true, used_wrap: true, ..Position::default() };
    let Some(region) = region else {
        return Some((AnyDevice::new(layout, ground.areas.clone(), features, fresh)?, None, Vec::new()));
    };
    let mut taken = Vec::new();
    match layout {
        Layout::Split(layout) => {
            let [table, available, used] = ground.areas.clone();
            let ResumedSplit { tracker, heads } = SplitTracker::begin(region, layout.size(), used.load(2))?;
            assert!(heads.len() <= usize::from(layout.size()), "more are left than there can be");
            let queue = SplitDevice::new(layout, SplitAreas { table, available, used }, features, 0)?;
            for head in heads {
                let mut chain = Chain::default();
                queue.take_again(head, &ground.memory, &mut chain).ok()?;
                taken.push(chain);
            }
            Some((AnyDevice::Split(Box::new(queue)), Some(Tracker::Split(tracker)), taken))
        }
        Layout::Packed(layout) => {
            let looks = PackedDevice::new(layout, ground.areas.clone(), features, fresh)?;
            let ResumedPacked { tracker, position, left: again } =
                PackedTracker::begin(region, layout.size(), fresh, &looks)?;
            assert!(again.len() <= usize::from(layout.size()), "more are left than there can be");
            let queue = PackedDevice::new(layout, ground.areas.clone(), features, position)?;
            for left in again {
                let mut chain = Chain::default();
                queue.take_again(&left, &ground.memory, &mut chain).ok()?;
                taken.push(chain);
            }
            Some((AnyDevice::Packed(Box::new(queue)), Some(Tracker::Packed(tracker)), taken))
        }
    }
}

/// The driver's side: whatever a device does, each buffer is used once, and only one that it has.
///
/// # Panics
/// A buffer is used that the device did not have, or more bytes were written than it had room for.
pub fn driver(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let _over = ask(&mut reader);
}

fn ask(reader: &mut Reader<'_>) -> Option<()> {
    let ground = Ground::of(reader)?;
    let mut driver = AnyDriver::new(ground.layout, ground.areas.clone(), ground.features)?;
    let mut under_way = BTreeMap::new();
    for _ in 0..MOST_STEPS {
        match reader.u8().ok()? % 8 {
            0..=2 => ground.disturb(reader)?,
            3 | 4 => {
                let pieces = usize::from(reader.u8().ok()? % 4);
                let segments: Vec<Segment> =
                    (0..pieces).map(|at| Segment { address: 64, len: 16, is_written: at > 0 }).collect();
                let room = usize::from(driver.room());
                if let Some(id) = driver.add(&segments) {
                    assert!((1..=room).contains(&pieces), "{pieces} pieces found room in {room}");
                    let room = u32::try_from(pieces - 1).ok()? * 16;
                    assert!(under_way.insert(id, room).is_none(), "{id} is used for two buffers");
                }
            }
            5 => {
                if let Some(used) = driver.next_used().ok()? {
                    let room = under_way.remove(&used.id);
                    assert!(
                        room.is_some_and(|room| used.written <= room),
                        "{used:?}, for which there was {room:?}"
                    );
                }
            }
            6 => drop(driver.await_used()),
            _ => drop(driver.publish()),
        }
    }
    Some(())
}

/// What a driver does that means no harm: an input of [`device`].
pub fn device_script(bits: u8) -> Vec<u8> {
    let mut script = vec![bits, 7, bits >> 7];
    if bits >> 7 == 1 {
        script.push(0);
    }
    if bits & 1 == 0 {
        // A descriptor to read, one to write; the ring has the first, and its index is 1.
        script.extend(disturbance(0, 0, &descriptor(64, 16, 1, 1)));
        script.extend(disturbance(0, 16, &descriptor(128, 16, 2, 0)));
        script.extend(disturbance(1, 4, &[0, 0]));
        script.extend(disturbance(1, 2, &[1, 0]));
    } else {
        script.extend(disturbance(0, 16, &descriptor(128, 16, 3, 0x82)));
        script.extend(disturbance(0, 0, &descriptor(64, 16, 3, 0x81)));
    }
    script.extend([6, 3, 7, 5, 17]);
    script
}

/// What a device does that means no harm: an input of [`driver`]. It uses the first buffer.
pub fn driver_script(bits: u8) -> Vec<u8> {
    let mut script = vec![bits, 7, 3, 2, 7];
    if bits & 1 == 0 {
        script.extend(disturbance(2, 4, &[0, 0, 0, 0, 16, 0, 0, 0]));
        script.extend(disturbance(2, 2, &[1, 0]));
    } else {
        script.extend(disturbance(0, 0, &descriptor(0, 16, 0, 0x8080)));
    }
    script.extend([6, 5]);
    script
}

fn disturbance(area: u8, at: u16, bytes: &[u8]) -> Vec<u8> {
    let [low, high] = at.to_le_bytes();
    let head = [0, area, low, high, u8::try_from(bytes.len()).unwrap_or_default()];
    [head.as_slice(), bytes].concat()
}

/// As either layout has it: the last two numbers are flags and next, or id and flags.
fn descriptor(address: u64, len: u32, first: u16, second: u16) -> Vec<u8> {
    let mut bytes = address.to_le_bytes().to_vec();
    bytes.extend(len.to_le_bytes());
    bytes.extend(first.to_le_bytes());
    bytes.extend(second.to_le_bytes());
    bytes
}
