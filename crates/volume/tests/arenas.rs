//! A volume on a device that knows memory by what was registered with it: its queue reaches the pool's arenas through [`QueueContext`].
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use buf::{
    ArenaId, ArenaObserver, ArenaOffset, ArenaSpan, ArenaWatch, Buf, BufList, LARGEST, Pool, SharedBuf,
};
use protocol::Instant;
use volume::{
    Completion, CoreId, Durability, Extent, Failure, Features, Geometry, Limits, OpenError, Operation,
    Outcome, QueueContext, QueueFull, Request, Tag, Volume, VolumeErrorKind, VolumeQueue,
};

/// Where a region of the device's is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Region {
    address: usize,
    len: usize,
}

impl From<ArenaSpan> for Region {
    fn from(arena: ArenaSpan) -> Self {
        Self { address: arena.base.addr().get(), len: arena.len }
    }
}

/// What the device knows, and has done.
#[derive(Debug, Default)]
struct Device {
    regions: BTreeMap<ArenaId, Region>,
    /// Registrations so far.
    registrations: usize,
    /// Where it has moved data from or to.
    moved: Vec<usize>,
}

impl Device {
    /// Moves data that is named by its place in a region; false if there is no such region.
    fn move_data(&mut self, place: Option<ArenaOffset>, len: usize) -> bool {
        let found = place.and_then(|place| self.regions.get(&place.arena).map(|region| (place, region)));
        let address = found
            .filter(|(place, region)| place.offset + len <= region.len)
            .map(|(place, region)| region.address + place.offset);
        self.moved.extend(address);
        address.is_some()
    }
}

/// Registers what a queue's pool has.
struct Registrar(Arc<Mutex<Device>>);

impl ArenaObserver for Registrar {
    fn added(&self, arena: ArenaSpan) {
        let mut device = self.0.lock().unwrap();
        device.registrations += 1;
        assert_eq!(device.regions.insert(arena.id, arena.into()), None, "it is registered twice");
    }

    fn removed(&self, arena: ArenaSpan) {
        let region = self.0.lock().unwrap().regions.remove(&arena.id);
        assert_eq!(region, Some(arena.into()), "it was registered so");
    }
}

/// A volume on the device. Its blocks are nowhere: what counts is where data is moved from and to.
#[derive(Debug)]
struct DeviceVolume {
    geometry: Geometry,
    device: Arc<Mutex<Device>>,
}

impl Volume for DeviceVolume {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn limits(&self) -> Limits {
        Limits::default()
    }

    fn features(&self) -> Features {
        Features::empty()
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let registrar: Rc<dyn ArenaObserver> = Rc::new(Registrar(Arc::clone(&self.device)));
        let watch = context.pool.watch_arenas(&registrar);
        Ok(Box::new(DeviceQueue { device: Arc::clone(&self.device), done: Vec::new(), _watch: watch }))
    }
}

struct DeviceQueue {
    device: Arc<Mutex<Device>>,
    done: Vec<Completion>,
    _watch: ArenaWatch,
}

impl DeviceQueue {
    fn carry_out(&self, operation: Operation) -> Result<Outcome, Failure> {
        let mut device = self.device.lock().unwrap();
        match operation {
            Operation::Read { into, .. } if device.move_data(into.location(), into.len()) => {
                Ok(Outcome::Data(into.freeze().into()))
            }
            Operation::Write { data, .. } => {
                let moved = data.pieces().iter().all(|piece| device.move_data(piece.location(), piece.len()));
                if moved { Ok(Outcome::Done) } else { Err(VolumeErrorKind::Unsupported.into()) }
            }
            operation => Err(Failure::of(operation, VolumeErrorKind::Unsupported)),
        }
    }
}

impl VolumeQueue for DeviceQueue {
    fn submit(&mut self, _now: Instant, request: Request) -> Result<(), QueueFull> {
        let result = self.carry_out(request.operation);
        self.done.push(Completion { tag: request.tag, result });
        Ok(())
    }

    fn cancel(&mut self, _tag: Tag) {}

    fn poll(&mut self, _now: Instant, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }
}

fn opened(pool: &Pool) -> (Arc<Mutex<Device>>, Box<dyn VolumeQueue>) {
    let device = Arc::default();
    let volume = DeviceVolume { geometry: Geometry::of(1 << 30, 512).unwrap(), device: Arc::clone(&device) };
    let context = QueueContext::new(CoreId(0), Waker::noop().clone(), pool.clone());
    (device, volume.open_queue(&context).unwrap())
}

/// The outcome of one operation.
fn ask(queue: &mut dyn VolumeQueue, operation: Operation) -> Result<Outcome, VolumeErrorKind> {
    queue.submit(Instant::ZERO, Request { tag: Tag(1), operation }).unwrap();
    let mut done = Vec::new();
    queue.poll(Instant::ZERO, &mut done);
    done.pop().unwrap().result.map_err(Into::into)
}

fn read(into: Buf) -> Operation {
    Operation::Read { extent: Extent::new(0, into.len() as u64 / 512), into }
}

fn write(data: BufList) -> Operation {
    let extent = Extent::new(0, data.len() as u64 / 512);
    Operation::Write { extent, data, durability: Durability::Cached }
}

#[test]
fn a_queue_registers_the_pools_arenas_when_it_opens_and_those_that_come_later() {
    let pool = Pool::new(64 << 20);
    let early = pool.take(4096).unwrap();
    let (device, mut queue) = opened(&pool);
    assert_eq!(device.lock().unwrap().registrations, 1);
    let address = early.as_ptr().addr();
    let Ok(Outcome::Data(data)) = ask(&mut *queue, read(early)) else { panic!("the region is known") };
    assert_eq!(device.lock().unwrap().moved, [address]);
    // Larger buffers come from arenas that the pool does not have yet.
    let mut pieces = data;
    for len in [1 << 20, LARGEST, 512] {
        let piece = pool.take(len).unwrap().freeze();
        pieces.push(piece.slice(..len / 2));
        pieces.push(piece.slice(len / 2..));
    }
    let addresses: Vec<_> = pieces.pieces().iter().map(|piece| piece.as_ptr().addr()).collect();
    assert!(matches!(ask(&mut *queue, write(pieces)), Ok(Outcome::Done)));
    assert_eq!(device.lock().unwrap().moved[1..], addresses);
    assert_eq!(device.lock().unwrap().registrations, 3);
    for _ in 0..100 {
        let buffers = [4096, 1 << 20, LARGEST].map(|len| pool.take(len).unwrap());
        assert!(buffers.into_iter().all(|buffer| ask(&mut *queue, read(buffer)).is_ok()));
    }
    assert_eq!(device.lock().unwrap().registrations, 3, "each of them once");
    assert!(ask(&mut *queue, write(SharedBuf::from(vec![0; 512]).into())).is_err(), "memory of no pool");
}

#[test]
fn a_queue_forgets_arenas_that_the_pool_gives_back() {
    let pool = Pool::new(16 << 20);
    let (device, mut queue) = opened(&pool);
    drop((0..14).map(|_| pool.take(1 << 20).unwrap()).collect::<Vec<_>>());
    let before = device.lock().unwrap().regions.len();
    assert!(ask(&mut *queue, read(pool.take(LARGEST).unwrap())).is_ok());
    let device = device.lock().unwrap();
    assert!(device.regions.len() < before && device.registrations == before + 1);
    assert_eq!(device.regions.values().map(|region| region.len).sum::<usize>(), 16 << 20);
}
