//! A core's queue: requests become descriptors, and what the device has used becomes completions.
//!
//! The ring is this core's alone, whatever happens to the device: a device that keeps track of what it has under way goes on with it when it comes back, and for one that does not
//! the queue makes a new ring, and asks for everything again. Either is right: reads and writes can be done twice.

#[cfg(test)]
mod trials;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use buf::{Buf, BufList, Pool};
use host::Polled;
use protocol::Instant;
use virtio::block::{Kind, Range, SECTOR, Space, Status};
use virtio::either::AnyDriver;
use virtio::{DriverQueue, Segment};
use volume::{
    Allocation, Completion, Durability, Extent, Failure, Operation, Outcome, QueueContext, QueueFull,
    Request, Tag, VolumeErrorKind, VolumeQueue, shape,
};

use crate::doorbell::Doorbell;
use crate::limits::{BOUNCE, PIECES};
use crate::orders::Order;
use crate::regions::KnownRegions;
use crate::shared::Shared;
use crate::slots::{Held, Slot, Slots};
use crate::sys::SharedArea;
use crate::vring::VringParts;

/// The driver's side of the ring, which the core looks at while it is awake.
struct Ring {
    driver: RefCell<AnyDriver<SharedArea>>,
    waker: Waker,
}

impl Polled for Ring {
    fn has_news(&self) -> bool {
        let has_used = self.driver.borrow().has_used();
        if has_used {
            self.waker.wake_by_ref();
        }
        has_used
    }

    fn begin_sleep(&self) -> bool {
        let has_used = self.driver.borrow_mut().await_used();
        if has_used {
            self.waker.wake_by_ref();
        }
        has_used
    }

    fn end_sleep(&self) {
        self.driver.borrow_mut().ignore_used();
    }
}

/// The queue.
pub(crate) struct Queue {
    shared: Arc<Shared>,
    index: u16,
    parts: VringParts,
    ring: Rc<Ring>,
    /// By what the ring calls buffers: whose slot it is.
    owners: Vec<u16>,
    slots: Slots,
    /// Memory that the device has, for data that it does not reach where it is.
    copies: Pool,
    regions: KnownRegions,
    /// Which meeting with a device the ring is of.
    meeting: u64,
    pieces: Vec<Segment>,
    done: Vec<Completion>,
    /// What ended though the device may still use its memory.
    abandoned: Vec<Held>,
    /// Since when there is no device.
    lost_since: Option<Instant>,
    /// The core looks at the ring by itself. Otherwise the device notifies it each time.
    is_polled: bool,
    doorbell: Doorbell,
}

impl Queue {
    /// A queue in a ring of its own. The device hears of it from its thread.
    pub(crate) fn open(shared: &Arc<Shared>, index: u16, context: &QueueContext) -> std::io::Result<Self> {
        let parts = shared.vring(index)?;
        let doorbell = Doorbell::watch(&shared.dialer, &parts.call, context)?;
        let copies = Pool::with_source(BOUNCE, Arc::new(shared.memory.clone()));
        let driver = parts.driver(shared.queue_features).ok_or(std::io::ErrorKind::InvalidInput)?;
        let ring = Rc::new(Ring { driver: RefCell::new(driver), waker: context.waker.clone() });
        let is_polled = shared.dialer.poll_memory(&(Rc::clone(&ring) as Rc<dyn Polled>));
        let slots = parts.slots().ok_or(std::io::ErrorKind::InvalidInput)?;
        let meeting = shared.meeting();
        shared.orders.give(Order::Start(parts.clone()));
        Ok(Self {
            shared: Arc::clone(shared),
            index,
            ring,
            owners: vec![0; usize::from(shared.layout.size())],
            slots: Slots::new(slots),
            parts,
            copies,
            regions: KnownRegions::default(),
            meeting,
            pieces: Vec::new(),
            done: Vec::new(),
            abandoned: Vec::new(),
            lost_since: None,
            is_polled,
            doorbell,
        })
    }

    /// Memory for a read: the submitter's own where the device reaches it. `Err` gives it back when there is none for a copy.
    fn memory_for(&mut self, into: Buf) -> Result<Held, Buf> {
        if self.regions.has(&into) {
            return Ok(Held::Read(into));
        }
        match self.copy_room(into.len()) {
            Some(copy) => {
                self.shared.count_copied(into.len());
                Ok(Held::CopiedRead(into, copy))
            }
            None => Err(into),
        }
    }

    /// Data for a write: the submitter's own where the device reaches all of it, else a copy.
    fn data_of(&mut self, data: &BufList) -> Option<BufList> {
        let pieces = data.pieces();
        if pieces.len() <= PIECES && pieces.iter().all(|piece| self.regions.has(piece)) {
            return Some(data.clone());
        }
        let mut copy = self.copy_room(data.len())?;
        data.copy_to(&mut copy);
        self.shared.count_copied(data.len());
        Some(copy.freeze().into())
    }

    /// Memory for a copy, once the device has it.
    fn copy_room(&mut self, len: usize) -> Option<Buf> {
        let copy = self.copies.take(len)?;
        // The pool may have let go of some, and have other memory in its place.
        self.regions.follow(&self.shared.regions);
        self.regions.has(&copy).then_some(copy)
    }

    /// Sectors of blocks.
    fn sectors(&self, blocks: u64) -> u64 {
        blocks * (u64::from(self.shared.geometry.block_size) / SECTOR)
    }

    /// Takes a request that makes sense, and has something to do.
    fn begin(&mut self, tag: Tag, operation: Operation) -> Result<(), QueueFull> {
        let nothing =
            Slot { tag, kind: Kind::Flush, sector: 0, range: None, then_flush: false, held: Held::Nothing };
        let slot = match operation {
            Operation::Read { extent, into } => match self.memory_for(into) {
                Ok(held) => Slot { kind: Kind::Read, sector: self.sectors(extent.start), held, ..nothing },
                Err(into) => return Err(full(tag, Operation::Read { extent, into })),
            },
            Operation::Write { extent, data, durability } => match self.data_of(&data) {
                Some(data) => Slot {
                    kind: Kind::Write,
                    sector: self.sectors(extent.start),
                    then_flush: self.then_flush(durability),
                    held: Held::Write(data),
                    ..nothing
                },
                None => return Err(full(tag, Operation::Write { extent, data, durability })),
            },
            Operation::Discard { extent } if self.shared.has_discard() => {
                Slot { kind: Kind::Discard, range: Some(self.range(extent, Space::Stays)), ..nothing }
            }
            Operation::WriteZeroes { extent, durability, may_unmap } if self.shared.has_zeroes() => Slot {
                kind: Kind::WriteZeroes,
                range: Some(self.range(
                    extent,
                    if may_unmap && self.shared.may_unmap() { Space::MayGo } else { Space::Stays },
                )),
                then_flush: self.then_flush(durability),
                ..nothing
            },
            Operation::Flush if self.shared.has_flush() => nothing,
            Operation::Verify { extent } => match self.copy_room(self.bytes(extent)) {
                Some(copy) => Slot {
                    kind: Kind::Read,
                    sector: self.sectors(extent.start),
                    held: Held::CopiedRead(Buf::zeroed(0), copy),
                    ..nothing
                },
                None => return Err(full(tag, Operation::Verify { extent })),
            },
            // Without a cache there is nothing to flush; a discard that the device does not know may do nothing.
            Operation::Flush | Operation::Discard { .. } => {
                self.done.push(Completion { tag, result: Ok(Outcome::Done) });
                return Ok(());
            }
            other => {
                self.done.push(Request { tag, operation: other }.failed(VolumeErrorKind::Unsupported));
                return Ok(());
            }
        };
        if let Some(number) = self.slots.insert(slot) {
            self.offer(number);
        }
        Ok(())
    }

    fn bytes(&self, extent: Extent) -> usize {
        wire::index(self.shared.geometry.check(extent).unwrap_or(0))
    }

    fn then_flush(&self, durability: Durability) -> bool {
        durability == Durability::Durable && self.shared.has_flush()
    }

    fn range(&self, extent: Extent, space: Space) -> Range {
        Range::new(self.sectors(extent.start), wire::bounded(self.sectors(extent.blocks)), space)
    }

    /// Puts a request into the ring. There is room: the ring has more descriptors than all slots with one piece of data, and the few that have more wait in front of it.
    fn offer(&mut self, number: u16) {
        self.slots.describe(number, &mut self.pieces);
        if let Some(id) = self.ring.driver.borrow_mut().add(&self.pieces)
            && let Some(owner) = self.owners.get_mut(usize::from(id))
        {
            *owner = number;
        }
    }

    /// Whether a request with so many pieces finds room.
    fn has_room(&self, operation: &Operation) -> bool {
        let pieces = match operation {
            Operation::Write { data, .. } => data.pieces().len().min(PIECES),
            _ => 1,
        };
        !self.slots.is_full() && usize::from(self.ring.driver.borrow().room()) >= pieces + 2
    }

    /// Lets the device see what was put into the ring.
    fn publish(&self) {
        let wants_kick = self.ring.driver.borrow_mut().publish();
        if wants_kick {
            self.parts.kick();
        }
    }

    /// Takes what the device has used.
    fn take_used(&mut self) -> bool {
        let mut any = false;
        loop {
            let used = self.ring.driver.borrow_mut().next_used();
            match used {
                Ok(Some(used)) => {
                    any = true;
                    let owner = self.owners.get(usize::from(used.id)).copied();
                    if let Some(number) = owner {
                        self.ended(number, used.written);
                    }
                }
                Ok(None) => return any,
                Err(violation) => {
                    self.shared.orders.give(Order::Distrust { violation });
                    return any;
                }
            }
        }
    }

    /// The device is done with a request.
    fn ended(&mut self, number: u16, written: u32) {
        let status = self.slots.status(number);
        let Some(slot) = self.slots.get_mut(number) else { return };
        if status == Status::Ok && slot.then_flush {
            (slot.kind, slot.then_flush, slot.range) = (Kind::Flush, false, None);
            slot.sector = 0;
            slot.held = Held::Nothing;
            return self.offer(number);
        }
        if let Some(slot) = self.slots.remove(number) {
            let Slot { tag, held, .. } = slot;
            self.done.push(Completion { tag, result: outcome(status, held, written) });
        }
    }

    /// Looks whether there is another device, or none.
    fn follow_device(&mut self, now: Instant) {
        let meeting = self.shared.meeting();
        if meeting != self.meeting {
            self.meeting = meeting;
            // The one before is gone: nobody uses this memory any more.
            self.abandoned.clear();
            if !self.shared.tracks() {
                self.make_new_ring();
            }
        }
        self.lost_since = self.shared.is_lost().then(|| self.lost_since.unwrap_or(now));
        if self.has_given_up(now) {
            for number in self.slots.numbers() {
                if let Some(slot) = self.slots.remove(number) {
                    self.abandoned.push(slot.held);
                    self.done.push(Completion::failed(slot.tag, VolumeErrorKind::Unreachable));
                }
            }
        }
    }

    /// When requests wait no longer for a device that is gone.
    fn gives_up_at(&self) -> Option<Instant> {
        self.lost_since.map(|since| since + self.shared.reconnect)
    }

    fn has_given_up(&self, now: Instant) -> bool {
        self.gives_up_at().is_some_and(|deadline| deadline <= now)
    }

    /// A device that keeps no track has forgotten everything: a new ring with all that is under way.
    fn make_new_ring(&mut self) {
        self.parts.clear();
        let Some(driver) = self.parts.driver(self.shared.queue_features) else { return };
        *self.ring.driver.borrow_mut() = driver;
        for number in self.slots.numbers() {
            self.offer(number);
        }
        self.publish();
        self.shared.orders.give(Order::Start(self.parts.clone()));
    }
}

fn full(tag: Tag, operation: Operation) -> QueueFull {
    QueueFull(Request { tag, operation })
}

/// What a request came to. A read is whole only if the device wrote all of it, and its status.
fn outcome(status: Status, held: Held, written: u32) -> Result<Outcome, Failure> {
    let kind = match status {
        Status::Ok => None,
        Status::Failed => Some(VolumeErrorKind::Media),
        Status::Unsupported => Some(VolumeErrorKind::Unsupported),
    };
    let whole = |len: usize| wire::index(u64::from(written)) > len;
    match held {
        Held::Read(into) if kind.is_none() && whole(into.len()) => Ok(Outcome::Data(into.freeze().into())),
        Held::CopiedRead(mut into, copy) if kind.is_none() && whole(copy.len()) => {
            if into.is_empty() {
                return Ok(Outcome::Done);
            }
            into.copy_from_slice(&copy);
            Ok(Outcome::Data(into.freeze().into()))
        }
        Held::Read(into) | Held::CopiedRead(into, _) => {
            Err(Failure { kind: kind.unwrap_or(VolumeErrorKind::Media), memory: Some(into) })
        }
        Held::Write(_) | Held::Nothing => kind.map_or(Ok(Outcome::Done), |kind| Err(kind.into())),
    }
}

impl VolumeQueue for Queue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let Shared { geometry, limits, features, .. } = &*self.shared;
        if let Err(kind) = shape::check(&request.operation, *geometry, limits, *features) {
            self.done.push(request.failed(kind));
            return Ok(());
        }
        let is_empty = request.operation.extent().is_some_and(|extent| extent.blocks == 0);
        if is_empty || matches!(request.operation, Operation::QueryAllocation { .. }) {
            self.done.push(without_device(request));
            return Ok(());
        }
        if self.has_given_up(now) {
            self.done.push(request.failed(VolumeErrorKind::Unreachable));
            return Ok(());
        }
        if !self.has_room(&request.operation) {
            return Err(QueueFull(request));
        }
        self.regions.follow(&self.shared.regions);
        self.begin(request.tag, request.operation)
    }

    fn cancel(&mut self, _tag: Tag) {}

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.follow_device(now);
        self.publish();
        if self.take_used() {
            // A flush behind a durable write.
            self.publish();
        }
        if self.done.is_empty() && !self.is_polled && self.ring.begin_sleep() {
            self.take_used();
        }
        done.append(&mut self.done);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.slots.under_way() > 0 { self.gives_up_at() } else { None }
    }
}

/// The end of a request that no device is asked about.
fn without_device(request: Request) -> Completion {
    let Request { tag, operation } = request;
    let result = match operation {
        Operation::Read { into, .. } => Ok(Outcome::Data(into.freeze().into())),
        Operation::QueryAllocation { extent } => Ok(Outcome::Allocation(Allocation { extent, mapped: true })),
        _ => Ok(Outcome::Done),
    };
    Completion { tag, result }
}

impl Drop for Queue {
    /// The memory of what is under way is the device's until it has let go of the queue.
    fn drop(&mut self) {
        let mut held: Vec<Held> = std::mem::take(&mut self.abandoned);
        held.extend(
            self.slots.numbers().into_iter().filter_map(|number| Some(self.slots.remove(number)?.held)),
        );
        self.doorbell.close();
        self.shared.orders.give(Order::Stop { index: self.index, held });
    }
}
