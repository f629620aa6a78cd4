//! The requests that a queue has under way: what each is, and where the header that the device reads and the status that it writes lie.

use buf::{Buf, BufList};
use virtio::block::{HEADER, Header, Kind, RANGE, Range, Status};
use virtio::{Area, Segment};
use volume::Tag;
use zerocopy::IntoBytes;

use crate::limits::DEPTH;
use crate::sys::SharedArea;

/// Bytes of a slot: a header, a range, and the status in a line of the cache that the device writes.
const SLOT: usize = 128;
const RANGE_AT: usize = HEADER;
const STATUS_AT: usize = 64;
/// What no device writes: a status that is not there yet.
const NO_STATUS: u8 = 0xff;

/// Bytes of the area of all slots.
pub(crate) const LEN: usize = SLOT * DEPTH as usize;

/// What a request is about. Its memory is the device's until it is used.
#[derive(Debug)]
pub(crate) enum Held {
    /// Memory of the submitter's that the device fills.
    Read(Buf),
    /// The submitter's memory, and the memory that the device fills in its place.
    CopiedRead(Buf, Buf),
    /// Data that the device reads, the submitter's or a copy.
    Write(BufList),
    /// Nothing.
    Nothing,
}

/// One request.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) tag: Tag,
    pub(crate) kind: Kind,
    pub(crate) sector: u64,
    /// For a discard or write zeroes.
    pub(crate) range: Option<Range>,
    /// A flush follows, so that what was written is durable.
    pub(crate) then_flush: bool,
    pub(crate) held: Held,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Slots {
    area: SharedArea,
    all: Vec<Option<Slot>>,
    free: Vec<u16>,
}

impl Slots {
    /// Nothing is under way. `area` has [`LEN`] bytes.
    pub(crate) fn new(area: SharedArea) -> Self {
        Self { area, all: (0..DEPTH).map(|_| None).collect(), free: (0..DEPTH).rev().collect() }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    pub(crate) fn under_way(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Takes a request in; `None` when there is no room, which [`is_full`](Self::is_full) tells before.
    pub(crate) fn insert(&mut self, slot: Slot) -> Option<u16> {
        let number = self.free.pop()?;
        if let Some(place) = self.all.get_mut(usize::from(number)) {
            *place = Some(slot);
        }
        Some(number)
    }

    pub(crate) fn get(&self, number: u16) -> Option<&Slot> {
        self.all.get(usize::from(number))?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: u16) -> Option<&mut Slot> {
        self.all.get_mut(usize::from(number))?.as_mut()
    }

    /// Takes a request out.
    pub(crate) fn remove(&mut self, number: u16) -> Option<Slot> {
        let slot = self.all.get_mut(usize::from(number))?.take()?;
        self.free.push(number);
        Some(slot)
    }

    /// The numbers of those that are under way.
    pub(crate) fn numbers(&self) -> Vec<u16> {
        let taken = self.all.iter().zip(0..).filter(|(slot, _)| slot.is_some());
        taken.map(|(_, number)| number).collect()
    }

    fn place(number: u16) -> usize {
        usize::from(number) * SLOT
    }

    fn segment(&self, at: usize, len: usize, is_written: bool) -> Segment {
        Segment { address: wire::widen(self.area.address() + at), len: wire::bounded(len), is_written }
    }

    /// Describes a request: its header, its data, its status.
    pub(crate) fn describe(&self, number: u16, pieces: &mut Vec<Segment>) {
        pieces.clear();
        let Some(slot) = self.get(number) else { return };
        let place = Self::place(number);
        self.area.write(place, Header::new(slot.kind, slot.sector).as_bytes());
        self.area.write(place + STATUS_AT, &[NO_STATUS]);
        pieces.push(self.segment(place, HEADER, false));
        if let Some(range) = &slot.range {
            self.area.write(place + RANGE_AT, range.as_bytes());
            pieces.push(self.segment(place + RANGE_AT, RANGE, false));
        }
        match &slot.held {
            Held::Read(into) | Held::CopiedRead(_, into) => pieces.push(segment_of(into, true)),
            Held::Write(data) => pieces.extend(data.pieces().iter().map(|piece| segment_of(piece, false))),
            Held::Nothing => {}
        }
        pieces.push(self.segment(place + STATUS_AT, 1, true));
    }

    /// What the device says that a request came to.
    pub(crate) fn status(&self, number: u16) -> Status {
        let mut status = [NO_STATUS];
        self.area.read(Self::place(number) + STATUS_AT, &mut status);
        Status::of(status[0])
    }
}

/// Memory as the device is told of it: by the address that it has here.
fn segment_of(bytes: &[u8], is_written: bool) -> Segment {
    Segment { address: wire::widen(bytes.as_ptr().addr()), len: wire::bounded(bytes.len()), is_written }
}
