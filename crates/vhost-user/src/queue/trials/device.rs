//! A device, and in front of it what the thread that speaks with it does.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use host::{Dialer, Endpoint, EndpointId, WatchEndpoint};
use names::RingLayout;
use protocol::{Entropy, SeededEntropy};
use virtio::block::{FeatureBits, HEADER, Header, Kind, SECTOR, Status};
use virtio::either::{AnyDevice, Layout};
use virtio::queue::Position;
use virtio::{AddressSpace, Area, Chain, DeviceQueue, Segment};
use zerocopy::FromBytes;

use super::below;
use crate::orders::Order;
use crate::session;
use crate::shared::{Shared, Wishes};
use crate::sys::{MemoryListener, SharedArea, SharedMemory, Span};
use crate::vring::VringParts;

/// How long requests wait for another device.
pub(super) const RECONNECT: Duration = Duration::from_millis(500);
/// Bytes of the device: as many as [`session::tests`] has devices say.
pub(super) const BYTES: usize = 1 << 20;

/// A world in which nothing but memory is shared with anybody.
pub(super) struct Nothing;

impl Dialer for Nothing {
    fn dial(&self, _peer: std::net::SocketAddr, _endpoint: Box<dyn Endpoint>) -> EndpointId {
        unreachable!("nobody dials")
    }

    fn watch(&self, _descriptor: OwnedFd, _endpoint: Box<dyn WatchEndpoint>) -> EndpointId {
        EndpointId(0)
    }

    fn wake(&self, _endpoint: EndpointId) {}

    fn waker(&self, _endpoint: EndpointId) -> Waker {
        Waker::noop().clone()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Character {
    /// It does what it is asked, in any order.
    Honest,
    /// It does so too, and is replaced by another one now and then, which knows nothing of what was under way.
    Replaced,
    /// It lies about what came of requests, writes anything into the queue, and leaves.
    Hostile,
}

/// The memory that the device has, by the front end's addresses.
#[derive(Default)]
struct Lent(BTreeMap<u64, SharedArea>);

impl Lent {
    fn read(&self, segments: &[Segment]) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        for segment in segments {
            let len = wire::index(u64::from(segment.len));
            let mut bytes = vec![0; len];
            self.area(segment.address, len)?.read(0, &mut bytes);
            all.extend(bytes);
        }
        Some(all)
    }

    fn write(&self, segments: &[Segment], mut bytes: &[u8]) -> bool {
        for segment in segments {
            let (part, rest) = bytes.split_at(bytes.len().min(wire::index(u64::from(segment.len))));
            let Some(area) = self.area(segment.address, part.len()) else { return false };
            area.write(0, part);
            bytes = rest;
        }
        bytes.is_empty()
    }
}

impl AddressSpace for Lent {
    type Area = SharedArea;

    fn area(&self, address: u64, len: usize) -> Option<SharedArea> {
        let (start, area) = self.0.range(..=address).next_back()?;
        area.part(wire::index(address - start), len)
    }
}

/// The device's side of the queue, while there is a device.
struct Ring {
    parts: VringParts,
    queue: AnyDevice<SharedArea>,
    taken: Vec<Chain>,
}

pub(super) struct Device {
    pub(super) shared: Arc<Shared>,
    character: Character,
    disk: Vec<u8>,
    spans: BTreeMap<u64, Span>,
    lent: Lent,
    ring: Option<Ring>,
    is_here: bool,
    /// The queue that it served when it left.
    left_bell: Option<VringParts>,
    /// It has written into the queue what nobody can make sense of: nothing that comes from it means anything, until another device is there.
    pub(super) is_wild: Rc<Cell<bool>>,
    /// Sectors that no flush has made durable since they were written.
    pub(super) volatile: Rc<RefCell<BTreeSet<u64>>>,
}

fn area_of(file: &OwnedFd, len: usize) -> SharedArea {
    SharedArea::borrow(file, 0, len).unwrap()
}

impl Device {
    pub(super) fn new(character: Character, is_packed: bool) -> Self {
        let memory = SharedMemory::default();
        let ring = if is_packed { RingLayout::Packed } else { RingLayout::Split };
        let features = FeatureBits::FLUSH | FeatureBits::EVENT_INDEX | FeatureBits::PACKED;
        let session = session::tests::met_with(features, Some(ring)).unwrap();
        let wishes = Wishes {
            path: PathBuf::from("device"),
            ring: Some(ring),
            reconnect: RECONNECT,
            memory: memory.clone(),
            dialer: Arc::new(Nothing),
        };
        let shared = Arc::new(Shared::of(&session, wishes).unwrap());
        memory.listen(&(Arc::clone(&shared) as Arc<dyn MemoryListener>));
        Self {
            shared,
            character,
            disk: vec![0; BYTES],
            spans: BTreeMap::new(),
            lent: Lent::default(),
            ring: None,
            is_here: true,
            left_bell: None,
            is_wild: Rc::default(),
            volatile: Rc::default(),
        }
    }

    pub(super) fn character(&self) -> Character {
        self.character
    }

    /// Does what the queue wants of the thread that speaks with the device.
    pub(super) fn carry_out_orders(&mut self) {
        for order in self.shared.orders.take() {
            match order {
                Order::Start(parts) if self.is_here => self.start(parts),
                Order::Add(span) => {
                    let id = span.id;
                    self.spans.insert(id, span);
                    self.lend(id);
                }
                Order::Remove(span) => {
                    self.spans.remove(&span.id);
                    self.lent.0.remove(&wire::widen(span.address));
                }
                Order::Distrust { .. } => {
                    assert!(self.character == Character::Hostile, "a device is trusted that breaks no rule");
                    self.leave();
                }
                Order::Start(_) | Order::Stop { .. } | Order::End => {}
            }
        }
    }

    fn lend(&mut self, id: u64) {
        let Some(span) = self.spans.get(&id).filter(|_| self.is_here) else { return };
        self.lent.0.insert(wire::widen(span.address), area_of(&span.file, span.len));
        self.shared.regions.add(span);
        if let Some(ring) = &self.ring {
            ring.parts.call();
        }
    }

    fn start(&mut self, parts: VringParts) {
        let (stretch, setup) = (parts.stretch(), parts.setup());
        let memory = area_of(&parts.file, wire::index(stretch.len));
        self.lent.0.insert(stretch.address, memory);
        let areas = setup.addresses.into_iter().zip(setup.layout.lens());
        let areas: Vec<SharedArea> = areas.map(|(at, len)| self.lent.area(at, len).unwrap()).collect();
        let fresh = Position { next: 0, used: 0, next_wrap: true, used_wrap: true };
        let position = if matches!(setup.layout, Layout::Packed(_)) { fresh } else { Position::default() };
        let queue =
            AnyDevice::new(setup.layout, areas.try_into().unwrap(), self.shared.queue_features, position)
                .unwrap();
        parts.call();
        self.ring = Some(Ring { parts, queue, taken: Vec::new() });
    }

    /// It is gone.
    fn leave(&mut self) {
        self.is_here = false;
        self.lent.0.clear();
        self.shared.regions.clear();
        self.shared.lose("it has left");
        if let Some(ring) = self.ring.take() {
            ring.parts.call();
            self.left_bell = Some(ring.parts);
        }
    }

    pub(super) fn leave_for_good(&mut self) {
        self.carry_out_orders();
        self.leave();
    }

    /// Another one takes its place.
    fn come(&mut self) {
        self.is_here = true;
        self.is_wild.set(false);
        self.shared.meet();
        let ids: Vec<u64> = self.spans.keys().copied().collect();
        for id in ids {
            self.lend(id);
        }
        // The queue makes its ring anew, and says so.
        if let Some(parts) = self.left_bell.take() {
            parts.call();
        }
    }

    pub(super) fn act(&mut self, dice: &mut SeededEntropy) {
        if !self.is_here {
            if below(dice, 12) == 0 {
                self.come();
            }
            return;
        }
        let is_hostile = self.character == Character::Hostile;
        if self.character != Character::Honest && below(dice, 60) == 0 {
            return self.leave();
        }
        self.take();
        self.give_back(dice);
        if is_hostile && below(dice, 40) == 0 {
            self.scribble(dice);
        }
        let Some(ring) = &mut self.ring else { return };
        if ring.queue.publish() {
            ring.parts.call();
        }
        // It sees what is made available without being told.
        ring.queue.ignore_available();
    }

    fn take(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        loop {
            let mut chain = Chain::default();
            match ring.queue.next_available(&self.lent, &mut chain) {
                Ok(true) => ring.taken.push(chain),
                Ok(false) => return,
                Err(violation) => {
                    assert!(self.is_wild.get(), "a driver breaks no rule: {violation}");
                    return;
                }
            }
        }
    }

    /// Ends some of what is under way, in any order.
    fn give_back(&mut self, dice: &mut SeededEntropy) {
        let is_hostile = self.character == Character::Hostile;
        let Some(ring) = &mut self.ring else { return };
        for _ in 0..below(dice, 1 + ring.taken.len()) {
            let chain = ring.taken.swap_remove(below(dice, ring.taken.len()));
            let written = serve(&mut self.disk, &self.volatile, &self.lent, &chain);
            let Some(written) = written else {
                assert!(self.is_wild.get(), "a driver describes requests as they should be");
                continue;
            };
            match below(dice, 30) {
                // The status goes with what is said of it, so that nothing is taken for done that was not.
                0 if is_hostile => {
                    let status = [1, 2, 3, 0x80, 0xff][below(dice, 5)];
                    let last = chain.to_write().last().copied();
                    assert!(last.is_some_and(|last| self.lent.write(&[last], &[status])));
                    ring.queue.add_used(chain.key(), written);
                }
                // Less than it was asked for, and what it says that it did not write it did not.
                1 if is_hostile => {
                    let said = below(dice, wire::index(u64::from(written)));
                    let rest = wire::index(u64::from(written)) - 1;
                    let data: Vec<u8> = self.lent.read(chain.to_write()).unwrap_or_default();
                    let data: Vec<u8> = data
                        .into_iter()
                        .take(rest)
                        .enumerate()
                        .map(|(at, byte)| if at < said { byte } else { !byte })
                        .collect();
                    assert!(self.lent.write(chain.to_write(), &data));
                    ring.queue.add_used(chain.key(), wire::saturate(said));
                }
                2 if is_hostile => ring.queue.add_used(chain.key(), u32::MAX),
                3 if is_hostile => {
                    // Twice.
                    ring.queue.add_used(chain.key(), written);
                    ring.queue.add_used(chain.key(), written);
                    self.is_wild.set(true);
                }
                // Never.
                4 if is_hostile => {}
                _ => ring.queue.add_used(chain.key(), written),
            }
        }
    }

    /// Writes anything into the queue.
    fn scribble(&mut self, dice: &mut SeededEntropy) {
        let Some(ring) = &self.ring else { return };
        let setup = ring.parts.setup();
        let which = below(dice, 3);
        let (address, len) = (setup.addresses[which], setup.layout.lens()[which]);
        for _ in 0..=below(dice, 6) {
            let mut bytes = [0; 8];
            dice.fill(&mut bytes);
            let at = below(dice, len.saturating_sub(8));
            if let Some(area) = self.lent.area(address + wire::widen(at), bytes.len().min(len)) {
                area.write(0, &bytes[..area.len()]);
            }
        }
        self.is_wild.set(true);
        ring.parts.call();
    }
}

/// Carries a request out; the bytes that it wrote, status included.
fn serve(disk: &mut [u8], volatile: &RefCell<BTreeSet<u64>>, lent: &Lent, chain: &Chain) -> Option<u32> {
    let told = lent.read(chain.to_read())?;
    let header = Header::read_from_bytes(told.get(..HEADER)?).ok()?;
    let (status, places) = chain.to_write().split_last()?;
    let room: usize = places.iter().map(|piece| wire::index(u64::from(piece.len))).sum();
    let data = &told[HEADER..];
    let start = wire::index(header.sector().checked_mul(SECTOR)?);
    let written = match Kind::of(header.kind())? {
        Kind::Read => {
            let bytes = disk.get(start..start.checked_add(room)?)?;
            lent.write(places, bytes).then_some(room)?
        }
        Kind::Write => {
            disk.get_mut(start..start.checked_add(data.len())?)?.copy_from_slice(data);
            let sectors = wire::widen(data.len()) / SECTOR;
            volatile.borrow_mut().extend(header.sector()..header.sector() + sectors);
            0
        }
        Kind::Flush => {
            volatile.borrow_mut().clear();
            0
        }
        _ => return None,
    };
    lent.write(&[*status], &[Status::Ok.byte()]).then_some(wire::saturate(written + 1))
}
