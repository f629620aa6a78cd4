//! Trials, one seed each: a file volume on a crash disk, by itself or behind a whole server and a network.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use backends::FileVolume;
use engine::incarnation::Mark;
use engine::remote::{self, Access};
use engine::{Catalogue, Core, EngineConfig, ListenerRole, Message, NamedVolume, Transport};
use host::{CoreIndex, OpenMode, Service, World as HostWorld};
use names::RdmaTransport;
use protocol::Instant;
use volume::{CoreId, OpenError, QueueContext, Volume, VolumeQueue};

use crate::client_machine::ClientMachine;
use crate::dice::{Dice, Odds};
use crate::disk::{CrashDisk, DiskOptions, PlantedBug, SECTOR};
use crate::failure::TrialFailure;
use crate::keeper::Keeper;
use crate::mail::{Mail, Sender};
use crate::marks::Marks;
use crate::network_conditions::NetworkConditions;
use crate::sockets::DatagramFaults;
use crate::spread::Spread;
use crate::workload::Workload;
use crate::world::{World, WorldDialer};

/// Sectors of the disk: few, so that requests meet.
const SECTORS: usize = 24;
/// Steps between two cuts.
const STEPS: std::ops::RangeInclusive<usize> = 5..=60;

/// Cuts the power of a busy volume `cuts` times. The error says what was lost.
pub fn crash(seed: u64, cuts: usize, bug: PlantedBug, errors: Odds) -> Result<(), TrialFailure> {
    let mut dice = Dice::new(seed);
    let options = DiskOptions { sectors: SECTORS, errors, write_back: None, bug };
    let disk = CrashDisk::new(options, dice.fork());
    let mut workload = Workload::new(SECTORS, SECTOR, dice.fork());
    for cut in 0..cuts {
        let mut queue = open(&disk)?;
        let told = |violation| TrialFailure::Content(violation).at(format_args!("cut {cut}"));
        while !workload.check_after_cut(&mut *queue, &mut || Instant::ZERO).map_err(told)? {}
        for _ in 0..dice.within(STEPS) {
            workload.step(&mut *queue).map_err(told)?;
        }
        disk.cut();
        workload.cut();
    }
    Ok(())
}

fn open(disk: &CrashDisk) -> Result<Box<dyn VolumeQueue>, OpenError> {
    let volume = FileVolume::new(Arc::new(disk.clone()), OpenMode::ReadWrite, None)?;
    volume.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone()))
}

/// Buffers of the server, in bytes.
const SERVER_POOL: usize = 8 << 20;
/// Steps of the world within which a volume opens: long, because a network that takes clients out of reach lets time pass.
pub(crate) const PATIENCE: usize = 60_000;
/// Steps of the world for each step of the workload.
pub(crate) const WORLD_STEPS: usize = 4;

/// What the server of a trial serves, and how a client reaches it.
#[derive(Clone)]
pub struct Scenario {
    /// What is spoken, given the volume that is served and the server's incarnation mark.
    pub listener: fn(&dyn Volume, Option<[u8; 16]>) -> Option<ListenerRole>,
    /// How a client opens it.
    pub access: Access,
    /// What servers say of their incarnation.
    pub marks: Marks,
    /// Cores of the server, and queues of the client.
    pub cores: CoreIndex,
}

impl Scenario {
    /// True if the protocol has compare-and-write at this end.
    pub fn compares(&self) -> bool {
        matches!(self.access, Access::Iscsi { .. })
    }

    /// What carries the protocol.
    pub(crate) fn transport(&self) -> Transport {
        transport_of(&self.access)
    }
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scenario").field("access", &self.access).finish_non_exhaustive()
    }
}

/// What carries the protocol: what a client that enters so means to use.
pub(crate) fn transport_of(access: &Access) -> Transport {
    let rdma = match access {
        Access::Iscsi { url, .. } => url.options.rdma,
        Access::Nvme { url } => url.options.rdma,
        Access::Nfs { .. } => None,
    };
    match rdma.map(|rdma| rdma.transport) {
        None => Transport::Tcp,
        Some(RdmaTransport::Roce { udp_port }) => {
            Transport::Roce { socket: SocketAddr::from((Ipv4Addr::LOCALHOST, udp_port)), service: 1 }
        }
        Some(RdmaTransport::Iwarp) => Transport::Iwarp { crc: false },
        // The simulator's contexts have none, and refuse to open such a volume.
        Some(RdmaTransport::Adapter) => Transport::Adapter,
    }
}

/// How long what is sent travels beside hostile peers. Datagrams do not overtake each other there: each that does costs its connection a timeout, which would hide what the
/// peers do.
pub(crate) fn delay_over(transport: Transport) -> std::ops::RangeInclusive<Duration> {
    let longest = Duration::from_micros(500);
    let shortest =
        if matches!(transport, Transport::Roce { .. }) { longest } else { Duration::from_micros(20) };
    shortest..=longest
}

/// Has all of a catalogue's listeners carried so. Over datagrams they share a socket, and their services are the ports from 1.
pub(crate) fn carry(catalogue: &mut Catalogue, transport: Transport) {
    for (port, listening) in (1..).zip(&mut catalogue.listeners) {
        listening.transport = match transport {
            Transport::Roce { socket, .. } => Transport::Roce { socket, service: port },
            other => other,
        };
    }
}

/// Binds the socket of a server that has just started, if its transport has one.
pub(crate) fn bind<S: Service>(world: &mut World<S>, transport: Transport) {
    if let Transport::Roce { socket, .. } = transport {
        world.bind(socket);
    }
}

/// A whole server with its disk, behind a network that delays, cuts into chunks and resets; the client reconnects, and the
/// server loses power `cuts` times.
pub fn served(seed: u64, cuts: usize, scenario: &Scenario, bug: PlantedBug) -> Result<(), TrialFailure> {
    let mut dice = Dice::new(seed);
    let options = DiskOptions { sectors: SECTORS, errors: Odds::NEVER, write_back: None, bug };
    let disk = CrashDisk::new(options, dice.fork());
    let mut keeper = Keeper::new(scenario.marks, dice.fork());
    let conditions = NetworkConditions {
        delay: Duration::ZERO..=Duration::from_micros(500),
        longest: dice.within(1..=4096),
        cuts: Odds(2),
    };
    let mut world = World::new(conditions, dice.fork());
    world.set_datagram_faults(DatagramFaults::USUAL);
    let mut workload = Workload::new(SECTORS, SECTOR, dice.fork());
    for cut in 0..cuts {
        start_server(&mut world, &disk, (scenario, keeper.begin()?))?;
        let told = |violation| TrialFailure::Content(violation).at(format_args!("cut {cut}"));
        let mut queue = connect(&mut world, scenario)?;
        while !workload.check_after_cut(&mut *queue, &mut || step(&mut world)).map_err(told)? {
            queue = connect(&mut world, scenario)?;
        }
        for _ in 0..dice.within(STEPS) {
            workload.now = world.now();
            workload.step(&mut *queue).map_err(told)?;
            (0..WORLD_STEPS).for_each(|_| world.step());
        }
        world.end_server();
        disk.cut();
        keeper.cut();
        workload.cut();
        check_journal(&world).map_err(|failure| failure.at(format_args!("cut {cut}")))?;
    }
    Ok(())
}

/// Both ends are this project's own, so neither may find the other in breach of a standard, whatever the network does.
fn check_journal(world: &World<Core>) -> Result<(), TrialFailure> {
    let violation = |event: &host::Event| matches!(event.kind, host::Kind::Violation | host::Kind::Reject);
    match world.journal.take().into_iter().find(violation) {
        Some(event) => Err(TrialFailure::Broken(format!(
            "the server finds its own project's client in breach of the protocol: {event:?}"
        ))),
        None => Ok(()),
    }
}

/// Lets something happen, and says what the time is then.
pub(crate) fn step(world: &mut World<Core>) -> Instant {
    world.step();
    world.now()
}

/// Starts a server for the disk, which shows this mark.
pub(crate) fn start_server(
    world: &mut World<Core>,
    disk: &CrashDisk,
    (scenario, mark): (&Scenario, Option<Mark>),
) -> Result<(), TrialFailure> {
    let volume = FileVolume::new(Arc::new(disk.clone()), OpenMode::ReadWrite, None)?;
    let listener = (scenario.listener)(&volume, mark)
        .ok_or_else(|| TrialFailure::Broken("the scenario has no listener".to_owned()))?;
    let config = Arc::new(EngineConfig {
        pool_limit: SERVER_POOL,
        entropy: world.entropy(),
        adapters: Arc::new(host::NoAdapters),
        journal: Arc::clone(&world.journal) as Arc<dyn host::Journal>,
        observer: Arc::clone(&world.observed) as Arc<dyn engine::ControlObserver>,
        roce: Arc::default(),
    });
    let volume: Arc<dyn Volume> = Arc::new(volume);
    let mut catalogue = Catalogue::first([NamedVolume { name: "disk".into(), volume }], vec![listener]);
    carry(&mut catalogue, scenario.transport());
    let mail = Arc::new(Mail::<Message>::new(scenario.cores.into()));
    let core = |core| {
        let context = HostWorld {
            core,
            storage: Arc::new(disk.clone()),
            dialer: Arc::new(WorldDialer),
            postbox: Arc::new(Sender { mail: Arc::clone(&mail), from: core }),
            waker: Waker::noop().clone(),
        };
        Core::new(Arc::clone(&config), catalogue.clone(), context)
    };
    let cores = (0..scenario.cores).map(core).collect::<Result<_, _>>()?;
    world.start_server(cores, Arc::clone(&mail));
    bind(world, scenario.transport());
    Ok(())
}

/// Opens the volume and its queues, as often as it takes.
pub(crate) fn connect(
    world: &mut World<Core>,
    scenario: &Scenario,
) -> Result<Box<dyn VolumeQueue>, TrialFailure> {
    let context = remote::ClientContext {
        dialer: Arc::new(ClientMachine::new()),
        adapters: Arc::new(host::NoAdapters),
        waker: Waker::noop().clone(),
        entropy: world.entropy(),
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let mut opening = remote::open(address, scenario.access.clone(), &context);
    for _ in 0..PATIENCE {
        world.step();
        match opening.poll() {
            Some(Ok(volume)) => {
                let open = |core| {
                    volume.open_queue(&QueueContext::without_pool(CoreId(core), Waker::noop().clone()))
                };
                let queues: Result<Vec<_>, _> = (0..scenario.cores).map(open).collect();
                let mut queues = queues?;
                return Ok(if queues.len() > 1 { Box::new(Spread(queues)) } else { queues.remove(0) });
            }
            Some(Err(_)) => opening = remote::open(address, scenario.access.clone(), &context),
            None => {}
        }
    }
    Err(TrialFailure::Late(format!("the volume could not be opened in {PATIENCE} steps")))
}
