//! Initiators and hosts over software RDMA that are hostile: real ones, which open the volume and ask for much, behind streams or sockets that do something that a server must bear.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use buf::{Buf, BufList, SharedBuf};
use engine::Core;
use engine::remote::{self, Access, ClientContext, RemoteOpening};
use host::{DatagramEndpoint, Dialer, Endpoint, EndpointId, IoError, Path, SlotField};
use protocol::Instant;
use volume::{CoreId, Durability, Extent, Operation, QueueContext, Request, Tag, Volume, VolumeQueue};

use crate::client_machine::ClientMachine;
use crate::dice::Dice;
use crate::hostility::{Honesty, Hostility, Patience};
use crate::lock;
use crate::world::{World, WorldDialer};

/// Requests of an attacker at a time, and bytes of each.
const DEPTH: usize = 16;
const LENGTH: usize = 256 << 10;
/// Heap that an attacker has: its requests and their copies on the way, what it receives into, and what waits in its stream.
pub(crate) const OWN: usize = 3 * DEPTH * LENGTH + (8 << 20);
/// What passes before a connection is hostile: while it is made, or among requests.
const PATIENT: Patience = Patience { early: 0..=8, late: 9..=200 };
/// How long an attacker stays, and how long it stays away.
const STAY: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(20);
const AWAY: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(2);
/// How long an attacker waits before it asks for more.
const STROKE: std::ops::RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_millis(500);
/// What an attacker writes.
pub(crate) const WRITTEN: u8 = 0xa5;

/// Dials for ends that turn hostile.
struct VillainDialer {
    disguise: Box<dyn Disguise>,
    /// Each time that it comes it is on another one, with sockets of its own.
    machine: Mutex<ClientMachine>,
    dice: Mutex<Dice>,
    dialled: Mutex<Vec<EndpointId>>,
}

/// Puts something before an end that turns hostile.
trait Disguise: Send + Sync {
    fn stream(&self, inner: Box<dyn Endpoint>, dice: &mut Dice) -> Box<dyn Endpoint>;
    fn socket(&self, inner: Box<dyn DatagramEndpoint>, dice: &mut Dice) -> Box<dyn DatagramEndpoint>;
}

impl<E: Hostility> Disguise for E {
    fn stream(&self, inner: Box<dyn Endpoint>, dice: &mut Dice) -> Box<dyn Endpoint> {
        // What is spoken matters to ends that speak it themselves; over RDMA none does.
        let honesty = Honesty { is_iscsi: false, lasts: PATIENT.lasts(dice) };
        self.before(inner, honesty, dice.fork())
    }

    fn socket(&self, inner: Box<dyn DatagramEndpoint>, dice: &mut Dice) -> Box<dyn DatagramEndpoint> {
        E::before_socket(vec![*self], inner, PATIENT, dice.fork())
    }
}

impl VillainDialer {
    fn machine(&self) -> ClientMachine {
        *lock(&self.machine)
    }
}

impl Dialer for VillainDialer {
    fn dial(&self, peer: SocketAddr, inner: Box<dyn Endpoint>) -> EndpointId {
        let villain = self.disguise.stream(inner, &mut lock(&self.dice));
        let name = WorldDialer.dial(peer, villain);
        lock(&self.dialled).push(name);
        name
    }

    fn path_to(&self, peer: SocketAddr) -> Result<Path, IoError> {
        self.machine().path_to(peer)
    }

    fn open_socket(
        &self,
        address: SocketAddr,
        slot: SlotField,
        inner: Box<dyn DatagramEndpoint>,
    ) -> EndpointId {
        let villain = self.disguise.socket(inner, &mut lock(&self.dice));
        let name = self.machine().open_socket(address, slot, villain);
        lock(&self.dialled).push(name);
        name
    }

    fn wake(&self, endpoint: EndpointId) {
        WorldDialer.wake(endpoint);
    }

    fn waker(&self, endpoint: EndpointId) -> Waker {
        WorldDialer.waker(endpoint)
    }
}

/// A volume that an attacker has opened.
struct Opened {
    _volume: Arc<dyn Volume>,
    queue: Box<dyn VolumeQueue>,
    under_way: usize,
    /// When it asks for more.
    next: Instant,
}

/// How far an attacker is.
enum Stage {
    /// It comes then.
    Away(Instant),
    /// It opens the volume.
    Opening(RemoteOpening),
    /// It uses it.
    Using(Opened),
}

/// One attacker, which comes again and again.
pub(crate) struct RdmaAttacker {
    address: SocketAddr,
    access: Access,
    context: ClientContext,
    dialer: Arc<VillainDialer>,
    /// Blocks that it reads and writes.
    extent: Extent,
    stage: Stage,
    /// When it goes.
    until: Instant,
    serial: u64,
    dice: Dice,
}

impl RdmaAttacker {
    /// One that comes to a port in this way, and wants these blocks.
    pub(crate) fn new<E: Hostility>(
        evil: E,
        (port, access): (u16, Access),
        extent: Extent,
        mut dice: Dice,
    ) -> Self {
        let dialer = Arc::new(VillainDialer {
            disguise: Box::new(evil),
            machine: Mutex::new(ClientMachine::new()),
            dice: Mutex::new(dice.fork()),
            dialled: Mutex::default(),
        });
        let seeds = AtomicU64::new(dice.below(u64::MAX));
        let context = ClientContext {
            dialer: Arc::clone(&dialer) as Arc<dyn Dialer>,
            adapters: Arc::new(host::NoAdapters),
            waker: Waker::noop().clone(),
            entropy: Arc::new(move || Box::new(Dice::new(seeds.fetch_add(1, Ordering::Relaxed)))),
        };
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            access,
            context,
            dialer,
            extent,
            stage: Stage::Away(Instant::ZERO),
            until: Instant::ZERO,
            serial: 0,
            dice,
        }
    }

    /// Does what is due.
    pub(crate) fn act(&mut self, now: Instant) {
        let stage = std::mem::replace(&mut self.stage, Stage::Away(now));
        self.stage = match stage {
            Stage::Away(due) if due > now => Stage::Away(due),
            Stage::Away(_) => {
                self.until = now + self.dice.span(&STAY);
                *lock(&self.dialer.machine) = ClientMachine::new();
                Stage::Opening(remote::open(self.address, self.access.clone(), &self.context))
            }
            _ if self.until <= now => Stage::Away(now + self.dice.span(&AWAY)),
            Stage::Opening(mut opening) => match opening.poll() {
                None => Stage::Opening(opening),
                Some(opened) => self.opened(now, opened.ok()),
            },
            Stage::Using(mut opened) => {
                self.ask(now, &mut opened);
                Stage::Using(opened)
            }
        };
    }

    fn opened(&mut self, now: Instant, volume: Option<Arc<dyn Volume>>) -> Stage {
        let context = QueueContext::without_pool(CoreId(0), Waker::noop().clone());
        match volume.and_then(|volume| Some((volume.open_queue(&context).ok()?, volume))) {
            Some((queue, volume)) => Stage::Using(Opened { _volume: volume, queue, under_way: 0, next: now }),
            None => Stage::Away(now + self.dice.span(&AWAY)),
        }
    }

    fn ask(&mut self, now: Instant, opened: &mut Opened) {
        let mut done = Vec::new();
        opened.queue.poll(now, &mut done);
        opened.under_way = opened.under_way.saturating_sub(done.len());
        if opened.next > now {
            return;
        }
        opened.next = now + self.dice.span(&STROKE);
        while opened.under_way < DEPTH {
            let length = [512, 8192, LENGTH, LENGTH][self.dice.index(4)];
            let blocks = wire::widen(length / 512);
            let start = self.extent.start + self.dice.below(self.extent.blocks - blocks + 1);
            let extent = Extent::new(start, blocks);
            let operation = if self.dice.coin() {
                Operation::Read { extent, into: Buf::zeroed(length) }
            } else {
                let data = BufList::from(SharedBuf::from(vec![WRITTEN; length]));
                Operation::Write { extent, data, durability: Durability::Cached }
            };
            self.serial += 1;
            if opened.queue.submit(now, Request { tag: Tag(self.serial), operation }).is_err() {
                return;
            }
            opened.under_way += 1;
        }
    }

    /// It is gone, and so are all its streams.
    pub(crate) fn retreat(mut self, world: &mut World<Core>) {
        self.stage = Stage::Away(Instant::ZERO);
        lock(&self.dialer.dialled).drain(..).for_each(|name| world.reset(name));
    }
}
