//! An initiator and a target joined by a pair, over a volume in memory: what every test of this folder stands on.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    unreachable_pub,
    missing_debug_implementations,
    missing_docs,
    reason = "each test file uses its own part"
)]

pub mod evil;
pub mod iser;
pub mod iser_raw;
pub mod memory_datamover;
pub mod plain_queue_pair;
pub mod raw;
pub mod roce;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use buf::{Buf, BufList, Pool, SharedBuf};
use iscsi::datamover::tcp;
use iscsi::initiator::{self, Config, Discovered, RemoteUnit};
use iscsi::keys::Tuning;
use iscsi::session::{Reply, Sessions};
use iscsi::target::{self, Access, Node, Portal, ResetResult, Resources};
use protocol::pair::{Pair, aperiodic};
use protocol::{Connection, Group, GroupMessage, SeededEntropy};
use scsi::{LogicalUnit, NexusEvent, TargetDevice, UnitIdentity};
use volume::{
    Allocation, Completion, Extent, Features, Geometry, Limits, Operation, Outcome, Request, Submission, Tag,
    VolumeErrorKind, VolumeId,
};

pub const BLOCK: usize = 512;
pub const TARGET: &str = "iqn.2026-11.org.linerate:disk";
pub const INITIATOR: &str = "iqn.2026-11.org.linerate:tester";
pub const ISID: [u8; 6] = [0x80, 0, 0, 0, 0, 1];

/// A volume in memory that carries out requests at once, unless it is told to hold them.
pub struct Memory {
    pub bytes: Vec<u8>,
    pub hold: bool,
    pub held: Vec<Request>,
    pub cancelled: Vec<Tag>,
    pub fail: Option<VolumeErrorKind>,
    spare: Vec<Completion>,
}

impl Memory {
    pub fn new(blocks: usize) -> Self {
        let bytes = vec![0; blocks * BLOCK];
        Self { bytes, hold: false, held: Vec::new(), cancelled: Vec::new(), fail: None, spare: Vec::new() }
    }

    fn range(extent: Extent) -> std::ops::Range<usize> {
        let start = usize::try_from(extent.start).unwrap() * BLOCK;
        start..start + usize::try_from(extent.blocks).unwrap() * BLOCK
    }

    pub fn carry_out(&mut self, request: Request) -> Completion {
        let result = match (self.fail, request.operation) {
            (Some(kind), _) => Err(kind),
            (None, Operation::Read { extent, mut into }) => {
                into.copy_from_slice(&self.bytes[Self::range(extent)]);
                Ok(Outcome::Data(into.freeze().into()))
            }
            (None, Operation::Write { extent, data, .. }) => {
                let copied = data.copy_to(&mut self.bytes[Self::range(extent)]);
                assert_eq!(copied, Self::range(extent).len());
                Ok(Outcome::Done)
            }
            (None, Operation::Flush | Operation::Verify { .. }) => Ok(Outcome::Done),
            (None, Operation::QueryAllocation { extent }) => {
                let half = Extent::new(extent.start, extent.blocks.div_ceil(2));
                Ok(Outcome::Allocation(Allocation { extent: half, mapped: true }))
            }
            (None, _) => Err(VolumeErrorKind::Unsupported),
        };
        Completion { tag: request.tag, result: result.map_err(VolumeErrorKind::into) }
    }
}

pub fn device(blocks: u64) -> Arc<TargetDevice> {
    let identity = UnitIdentity {
        vendor: "LINERATE".into(),
        product: "DISK".into(),
        revision: "1".into(),
        serial: "0001".into(),
        naa: [0x30, 0, 0, 0, 0, 0, 0, 1],
        uuid: [7; 16],
        incarnation: Some([0xe1; 16]),
    };
    let unit = LogicalUnit {
        lun: 0,
        volume: VolumeId::new(0, 0),
        geometry: Geometry { blocks, block_size: 512, physical_block_size: 4096 },
        limits: Limits::default(),
        features: Features::VOLATILE_CACHE,
        identity,
    };
    Arc::new(TargetDevice {
        port_name: format!("{TARGET},t,0x0001").into(),
        device_name: TARGET.into(),
        relative_port: 1,
        port_group: 1,
        units: vec![unit],
    })
}

pub fn portal(blocks: usize) -> Portal {
    let node = Node {
        name: TARGET.parse().unwrap(),
        alias: "a disk".into(),
        device: device(u64::try_from(blocks).unwrap()),
        portal_group: 1,
        access: Access::default(),
    };
    Portal::new(vec![node])
}

pub fn config() -> Config {
    Config::new(INITIATOR.parse().unwrap(), ISID, Some(TARGET.parse().unwrap()), 0)
}

pub fn resources(pool: &Pool) -> Resources {
    Resources {
        pool: pool.clone(),
        entropy: Box::new(SeededEntropy::new(1)),
        local: SocketAddr::from((Ipv4Addr::LOCALHOST, 3260)),
        peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 40000)),
    }
}

/// Both ends and everything around them.
pub struct Bench<I = tcp::InitiatorConnection, T = tcp::TargetConnection> {
    pub pair: Pair<I, T>,
    pub memory: Memory,
    pub sessions: Sessions<u8>,
    pub unit: Option<RemoteUnit>,
    pub done: Vec<Completion>,
    pub discovered: Option<Vec<Discovered>>,
    pub failed: Option<String>,
    pub events: usize,
    pub resized: Vec<Geometry>,
    pub moved: usize,
}

impl Bench {
    pub fn new(config: Config, portal: Portal) -> Self {
        Self::with_pool(config, portal, &Pool::new(256 << 20))
    }

    pub fn with_pool(config: Config, portal: Portal, pool: &Pool) -> Self {
        let (near, far, blocks) = ends(config, portal, pool);
        Self::of(near, far, blocks)
    }

    /// Logged in and probed.
    pub fn ready(config: Config, portal: Portal) -> Self {
        let mut bench = Self::new(config, portal);
        bench.log_in();
        bench
    }
}

/// Both ends over TCP, and the blocks of the portal's first unit.
pub fn ends(
    config: Config,
    portal: Portal,
    pool: &Pool,
) -> (tcp::InitiatorConnection, tcp::TargetConnection, u64) {
    let now = protocol::Instant::ZERO;
    let ours = Pool::new(64 << 20);
    let near = tcp::InitiatorConnection::new(now, config, ours, Box::new(SeededEntropy::new(2)));
    let blocks = blocks(&portal);
    let far = tcp::TargetConnection::new(now, Arc::new(portal), resources(pool));
    (near, far, blocks)
}

/// Blocks of a portal's first unit.
pub fn blocks(portal: &Portal) -> u64 {
    portal.nodes.first().map_or(0, |node| node.device.units[0].geometry.blocks)
}

impl<I, T> Bench<I, T>
where
    I: Connection<Input = initiator::Input, Action = initiator::Action>,
    T: Connection<Input = target::Input, Action = target::Action>,
{
    /// Two ends, and a volume of so many blocks.
    pub fn of(near: I, far: T, blocks: u64) -> Self {
        Self {
            pair: Pair::new(near, far),
            memory: Memory::new(usize::try_from(blocks).unwrap()),
            sessions: Sessions::new(),
            unit: None,
            done: Vec::new(),
            discovered: None,
            failed: None,
            events: 0,
            resized: Vec::new(),
            moved: 0,
        }
    }

    /// Until the unit is probed.
    pub fn log_in(&mut self) {
        self.run();
        assert_eq!(self.failed, None);
        assert!(self.unit.is_some(), "the unit is known");
    }

    /// Writes and reads data of all sizes, from one block to more than a burst.
    pub fn check_integrity(&mut self, case: &str) {
        for blocks in [1, 3, 16, 17, 128, 500] {
            let bytes = aperiodic(blocks * BLOCK, 9);
            self.write(5, bytes.clone()).unwrap();
            assert_eq!(self.read(5, blocks).unwrap(), bytes, "{blocks} blocks, {case}");
            assert_eq!(self.memory.bytes[5 * BLOCK..][..bytes.len()], bytes);
        }
    }

    pub fn act_far(&mut self) -> bool {
        let (mut any, now) = (false, self.pair.now);
        self.pair.far.connection.handle_memory(now);
        while let Some(action) = self.pair.far.connection.poll_action() {
            any = true;
            match action {
                target::Action::Submit(Submission { request, .. }) if self.memory.hold => {
                    self.memory.held.push(request);
                }
                target::Action::Submit(Submission { request, .. }) => {
                    let completion = self.memory.carry_out(request);
                    self.memory.spare.push(completion);
                }
                target::Action::Cancel { tag, .. } => self.memory.cancelled.push(tag),
                target::Action::Group(request) => self.sessions.handle_message(now, 1, request),
                target::Action::Event { .. } => self.events += 1,
                target::Action::Reserve { .. } => {}
                target::Action::Reset { tag, .. } => {
                    self.events += 1;
                    self.pair
                        .far
                        .connection
                        .handle_input(now, target::Input::Reset { tag, result: ResetResult::Done });
                }
            }
        }
        while let Some(GroupMessage { to: member, message: reply }) = self.sessions.poll_message() {
            any = true;
            if member == 1 {
                self.pair.far.connection.handle_input(now, target::Input::Group(reply));
            }
        }
        while let Some(completion) = self.memory.spare.pop() {
            any = true;
            self.pair.far.connection.handle_input(now, target::Input::Completion(completion));
        }
        if any {
            self.pair.far.receive(now, &[]);
        }
        any
    }

    pub fn act_near(&mut self) -> bool {
        let mut any = false;
        while let Some(action) = self.pair.near.connection.poll_action() {
            any = true;
            match action {
                initiator::Action::Ready(unit) => self.unit = Some(*unit),
                initiator::Action::Resized(geometry) => self.resized.push(geometry),
                initiator::Action::Complete(completion) => self.done.push(completion),
                initiator::Action::Discovered(found) => self.discovered = Some(found),
                initiator::Action::Moved { address, .. } => panic!("our target sends nobody to {address}"),
                initiator::Action::Failed { reason } => self.failed = Some(reason),
            }
        }
        any
    }

    /// The target has ended the connection, which the initiator hears of.
    pub fn target_ends(&mut self) {
        self.pair.near.connection.handle_ended(self.pair.now, protocol::Ended::ByPeer);
        self.act_near();
    }

    /// Until nothing moves any more.
    pub fn run(&mut self) {
        loop {
            let moved = self.pair.exchange();
            if !self.react(moved) {
                return;
            }
        }
    }

    /// Lets each end say once what it has to say; false if nothing moved.
    pub fn step(&mut self) -> bool {
        let moved = self.pair.exchange_once();
        self.react(moved)
    }

    fn react(&mut self, moved: usize) -> bool {
        self.moved += moved;
        let acted = self.act_far() | self.act_near();
        moved != 0 || acted
    }

    /// Tells the target that its unit has so many blocks now.
    pub fn resize(&mut self, blocks: u64) {
        let geometry = Geometry { blocks, block_size: 512, physical_block_size: 4096 };
        let event = target::Input::Event {
            volume: VolumeId::new(0, 0),
            event: NexusEvent::CapacityChanged(geometry),
        };
        self.pair.far.connection.handle_input(self.pair.now, event);
    }

    pub fn submit(&mut self, tag: u64, operation: Operation) {
        let request = Request { tag: Tag(tag), operation };
        self.pair.near.connection.handle_input(self.pair.now, initiator::Input::Submit(request));
    }

    pub fn read(&mut self, start: u64, blocks: usize) -> Result<Vec<u8>, VolumeErrorKind> {
        let extent = Extent::new(start, blocks as u64);
        self.submit(900, Operation::Read { extent, into: Buf::zeroed(blocks * BLOCK) });
        self.run();
        let completion = self.done.pop().expect("a completion");
        assert_eq!(completion.tag, Tag(900));
        match completion.result? {
            Outcome::Data(data) => Ok(data.into_one().to_vec()),
            other => panic!("{other:?}"),
        }
    }

    pub fn write(&mut self, start: u64, bytes: Vec<u8>) -> Result<(), VolumeErrorKind> {
        let extent = Extent::new(start, (bytes.len() / BLOCK) as u64);
        let data = BufList::from(SharedBuf::from(bytes));
        self.submit(901, Operation::Write { extent, data, durability: volume::Durability::Cached });
        self.run();
        let completion = self.done.pop().expect("a completion");
        assert_eq!(completion.tag, Tag(901));
        completion.outcome().map(|_| ())
    }

    /// Ends what the volume held back.
    pub fn release(&mut self) {
        self.memory.hold = false;
        for request in std::mem::take(&mut self.memory.held) {
            let mut completion = self.memory.carry_out(request);
            if self.memory.cancelled.contains(&completion.tag) {
                completion.result = Err(VolumeErrorKind::Cancelled.into());
            }
            self.pair.far.connection.handle_input(self.pair.now, target::Input::Completion(completion));
        }
        self.run();
    }

    pub fn tell_group(&mut self, reply: Reply) {
        self.pair.far.connection.handle_input(self.pair.now, target::Input::Group(reply));
    }
}

/// What an initiator may want of bursts, in every combination.
pub fn burst_settings() -> Vec<Tuning> {
    let mut all = Vec::new();
    for immediate_data in [false, true] {
        for initial_r2t in [false, true] {
            for (first_burst, max_burst) in [(512, 512), (8192, 65_536), (65_536, 8192), (262_144, 1 << 20)] {
                for outstanding_r2t in [1, 4] {
                    all.push(Tuning {
                        immediate_data,
                        initial_r2t,
                        first_burst,
                        max_burst,
                        outstanding_r2t,
                        segment: 16_384,
                        ..Tuning::default()
                    });
                }
            }
        }
    }
    all
}
