//! The memory that a front end has lent: what descriptors mean by their addresses.

use std::fs::File;
use std::io;
use std::sync::Arc;

use vhost_user::SharedArea;
use virtio::{AddressSpace, Area, Segment};

/// A region, by both of its addresses.
#[derive(Debug, Clone)]
struct Region {
    /// As descriptors have it.
    guest: u64,
    /// As the front end itself has it, by which it tells where queues are.
    user: u64,
    area: SharedArea,
}

/// All regions, in the order of descriptors' addresses. It never changes: a new set takes its place.
#[derive(Debug, Clone, Default)]
pub(crate) struct GuestMemory(Vec<Region>);

/// Where a region is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) guest: u64,
    pub(crate) user: u64,
    pub(crate) len: u64,
    /// Where it begins in its file.
    pub(crate) offset: u64,
}

fn overlap(one: (u64, u64), other: (u64, u64)) -> bool {
    one.0 < other.0.saturating_add(other.1) && other.0 < one.0.saturating_add(one.1)
}

impl GuestMemory {
    /// The same with one more region.
    pub(crate) fn with(&self, place: Place, file: &File) -> io::Result<Self> {
        let fits =
            place.guest.checked_add(place.len).is_some() && place.user.checked_add(place.len).is_some();
        let taken = self
            .0
            .iter()
            .any(|region| overlap((region.guest, wire::widen(region.area.len())), (place.guest, place.len)));
        if place.len == 0 || !fits || taken {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let len = usize::try_from(place.len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // A file may have its region anywhere; a mapping begins at a page.
        let page = wire::widen(rustix::param::page_size());
        let skipped = place.offset % page;
        let before = wire::index(skipped);
        let whole = len.checked_add(before).ok_or(io::ErrorKind::OutOfMemory)?;
        let area = SharedArea::borrow(file, place.offset - skipped, whole)?.part(before, len);
        let area = area.ok_or(io::ErrorKind::InvalidInput)?;
        let mut regions = self.0.clone();
        let at = regions.partition_point(|region| region.guest < place.guest);
        regions.insert(at, Region { guest: place.guest, user: place.user, area });
        Ok(Self(regions))
    }

    /// The same without a region.
    pub(crate) fn without(&self, place: Place) -> Option<Self> {
        let same = |region: &Region| {
            (region.guest, region.user, wire::widen(region.area.len()))
                == (place.guest, place.user, place.len)
        };
        let at = self.0.iter().position(same)?;
        let mut regions = self.0.clone();
        regions.remove(at);
        Some(Self(regions))
    }

    /// Whether the front end has taken some of it away.
    pub(crate) fn was_cut(&self) -> bool {
        self.0.iter().any(|region| region.area.was_cut())
    }

    /// Regions that there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The bytes from an address of the front end's own on.
    pub(crate) fn of_user(&self, address: u64, len: usize) -> Option<SharedArea> {
        self.0.iter().find_map(|region| {
            let at = usize::try_from(address.checked_sub(region.user)?).ok()?;
            region.area.part(at, len)
        })
    }

    /// The region that has all bytes of a segment, and where they begin in it.
    fn find(&self, segment: Segment) -> Option<(&SharedArea, usize)> {
        let len = wire::index(u64::from(segment.len));
        let behind = self.0.partition_point(|region| region.guest <= segment.address);
        let region = self.0.get(behind.checked_sub(1)?)?;
        let at = usize::try_from(segment.address - region.guest).ok()?;
        (at.checked_add(len)? <= region.area.len()).then_some((&region.area, at))
    }

    /// Whether all of these bytes are there.
    pub(crate) fn has_all(&self, segments: &[Segment]) -> bool {
        segments.iter().all(|segment| self.find(*segment).is_some())
    }

    /// Copies from segments, one behind the other, into as many bytes; false if they have fewer, or are not there.
    pub(crate) fn read(&self, segments: &[Segment], mut into: &mut [u8]) -> bool {
        for segment in segments {
            let Some((area, at)) = self.find(*segment) else { return false };
            let count = wire::index(u64::from(segment.len)).min(into.len());
            let (part, rest) = into.split_at_mut(count);
            area.read(at, part);
            into = rest;
        }
        into.is_empty()
    }

    /// Copies bytes into segments from `skipped` bytes on, one behind the other; false if they do not fit.
    pub(crate) fn write(&self, segments: &[Segment], skipped: usize, mut bytes: &[u8]) -> bool {
        let mut skipped = skipped;
        for segment in segments {
            let len = wire::index(u64::from(segment.len));
            if skipped >= len {
                skipped -= len;
                continue;
            }
            let Some((area, at)) = self.find(*segment) else { return false };
            let (part, rest) = bytes.split_at((len - skipped).min(bytes.len()));
            area.write(at + skipped, part);
            (bytes, skipped) = (rest, 0);
            if bytes.is_empty() {
                return true;
            }
        }
        bytes.is_empty()
    }
}

/// Shared by the threads that serve queues: areas are found by the addresses of descriptors.
#[derive(Debug, Clone)]
pub(crate) struct Space(pub(crate) Arc<GuestMemory>);

impl AddressSpace for Space {
    type Area = SharedArea;

    fn area(&self, address: u64, len: usize) -> Option<SharedArea> {
        let segment = Segment { address, len: u32::try_from(len).ok()?, is_written: false };
        let (area, at) = self.0.find(segment)?;
        area.part(at, len)
    }
}

/// Bytes of segments together.
pub(crate) fn total(segments: &[Segment]) -> usize {
    segments.iter().map(|segment| wire::index(u64::from(segment.len))).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> GuestMemory {
        let file = SharedArea::create(8192).unwrap().file;
        let file = File::from(file);
        let place = |guest, offset| Place { guest, user: guest + 0x10_0000, len: 4096, offset };
        GuestMemory::default()
            .with(place(0x1000, 0), &file)
            .unwrap()
            .with(place(0x4000, 4096), &file)
            .unwrap()
    }

    fn segment(address: u64, len: u32) -> Segment {
        Segment { address, len, is_written: true }
    }

    #[test]
    fn bytes_are_scattered_and_gathered() {
        let memory = memory();
        let segments = [segment(0x1ffe, 2), segment(0x4000, 3), segment(0x1000, 5)];
        assert!(memory.write(&segments, 1, &[1, 2, 3, 4, 5]));
        let mut back = [9; 10];
        assert!(memory.read(&segments, &mut back));
        assert_eq!(back, [0, 1, 2, 3, 4, 5, 0, 0, 0, 0]);
        assert!(!memory.write(&segments, 6, &[0; 5]), "there is room for four");
        assert!(!memory.read(&segments, &mut [0; 11]));
        assert!(memory.write(&segments, 10, &[]));
        assert_eq!(total(&segments), 10);
    }

    #[test]
    fn what_lies_outside_is_not_there() {
        let memory = memory();
        for outside in [segment(0xfff, 1), segment(0x1fff, 2), segment(0x2000, 1), segment(u64::MAX, 4)] {
            assert!(!memory.has_all(&[outside]), "{outside:?}");
            assert!(!memory.read(&[outside], &mut [0; 1]) && !memory.write(&[outside], 0, &[1]));
            assert!(Space(Arc::new(memory.clone())).area(outside.address, 1).is_none() || outside.len > 1);
        }
        assert!(memory.of_user(0x10_1000, 4096).is_some() && memory.of_user(0x10_1000, 4097).is_none());
    }

    #[test]
    fn regions_come_and_go_and_never_overlap() {
        let memory = memory();
        let file = SharedArea::create(4096).unwrap().file;
        let file = File::from(file);
        let place = Place { guest: 0x1fff, user: 0, len: 4096, offset: 0 };
        for bad in [place, Place { len: 0, ..place }, Place { guest: u64::MAX, ..place }] {
            assert!(memory.with(bad, &file).is_err());
        }
        let first = Place { guest: 0x1000, user: 0x10_1000, len: 4096, offset: 0 };
        assert!(memory.without(Place { len: 1, ..first }).is_none());
        let less = memory.without(first).unwrap();
        assert_eq!((less.len(), less.with(place, &file).unwrap().len()), (1, 2));
    }
}
