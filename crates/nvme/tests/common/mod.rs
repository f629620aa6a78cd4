//! The bench of the tests: hosts and controllers joined by pairs, one group, and a disk in memory.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of the bench")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

use std::sync::Arc;

use buf::{Buf, BufList, Pool, SharedBuf};
use nvme::controller::{self, Hosts, Namespace, Portal, QueueLimits, Subsystem};
use nvme::fabrics::HostIdentity;
use nvme::host::{self, Config, Queue, RemoteNamespace};
use nvme::subsystem::Subsystems;
use protocol::pair::{Mishap, Pair};
use protocol::{Connection as _, Ended, Group as _, GroupMessage, Instant};
use volume::reservation::{Command, CommandError, Registrant, Reservations, View};
use volume::{
    Allocation, Completion, Durability, Extent, Features, Geometry, Limits, Operation, Outcome, Request,
    Submission, Tag, VolumeErrorKind, VolumeId,
};

pub const NQN: &str = "nqn.2026-11.org.linerate:disk";
pub const BLOCKS: u64 = 8192;

pub fn namespace(nsid: u32, volume: u16, block_size: u32) -> Namespace {
    Namespace {
        incarnation: Some([0xe1; 16]),
        nsid,
        volume: VolumeId::new(volume, 0),
        geometry: Geometry { blocks: BLOCKS, block_size, physical_block_size: 4096 },
        limits: Limits::default(),
        features: Features::all() - Features::READ_ONLY,
        nguid: [u8::try_from(nsid).unwrap(); 16],
        eui64: None,
        uuid: [7; 16],
    }
}

pub fn portal() -> Portal {
    Portal {
        subsystems: vec![Arc::new(Subsystem {
            nqn: NQN.into(),
            serial: "1".into(),
            model: "Linerate".into(),
            firmware: "0.1".into(),
            hosts: Hosts::Any,
            namespaces: vec![namespace(1, 0, 512), namespace(3, 1, 4096)],
            limits: QueueLimits::default(),
        })],
        advertised: vec!["127.0.0.1:4420".parse().unwrap(), "[::1]:4420".parse().unwrap()],
        referrals: Vec::new(),
        generation: 1,
        log: nvme::controller::DiscoveryLog::default(),
        require_digests: false,
    }
}

/// The portal's only subsystem, to be changed.
pub fn subsystem(portal: &mut Portal) -> &mut Subsystem {
    Arc::make_mut(&mut portal.subsystems[0])
}

pub fn host_identity() -> HostIdentity {
    HostIdentity { identifier: [5; 16], nqn: "nqn.2014-08.org.nvmexpress:uuid:host".into() }
}

pub fn config(queue: Queue) -> Config {
    let subnqn = if matches!(queue, Queue::Discovery) { nvme::DISCOVERY_NQN } else { NQN };
    Config {
        host: host_identity(),
        subnqn: subnqn.into(),
        header_digest: false,
        data_digest: false,
        depth: 64,
        command_time: nvme::limits::COMMAND_TIME,
        queue,
    }
}

pub fn admin(nsid: u32) -> Config {
    config(Queue::Admin { nsid, queues: 4, kato: 10_000 })
}

pub fn io(qid: u16, remote: &RemoteNamespace) -> Config {
    config(Queue::Io { qid, remote: remote.clone() })
}

/// A transport, for both roles.
pub trait Fabric {
    type Host: protocol::Connection<Input = host::Input, Action = host::Action>;
    type Controller: protocol::Connection<Input = controller::Input, Action = controller::Action>;

    fn host(&self, config: Config, now: Instant) -> Self::Host;
    fn controller(&self, portal: Arc<Portal>, pool: Pool, now: Instant) -> Self::Controller;
}

#[derive(Default)]
pub struct Tcp;

impl Fabric for Tcp {
    type Host = host::Connection;
    type Controller = controller::Connection;

    fn host(&self, config: Config, now: Instant) -> host::Connection {
        host::Connection::new(config, now)
    }

    fn controller(&self, portal: Arc<Portal>, pool: Pool, now: Instant) -> controller::Connection {
        controller::Connection::new(portal, pool, now)
    }
}

pub struct Link<F: Fabric = Tcp> {
    pub pair: Pair<F::Host, F::Controller>,
    pub events: Vec<host::Action>,
}

impl<F: Fabric> Link<F> {
    pub fn submit(&mut self, tag: u64, operation: Operation) {
        let request = Request { tag: Tag(tag), operation };
        let now = self.pair.now;
        self.pair.near.connection.handle_input(now, host::Input::Submit(request));
    }

    pub fn write(&mut self, tag: u64, start: u64, bytes: Vec<u8>) {
        let extent = Extent::new(start, bytes.len() as u64 / 512);
        let data = BufList::from(SharedBuf::from(bytes));
        self.submit(tag, Operation::Write { extent, data, durability: Durability::Durable });
    }

    pub fn read(&mut self, tag: u64, start: u64, length: usize) {
        let extent = Extent::new(start, length as u64 / 512);
        self.submit(tag, Operation::Read { extent, into: Buf::zeroed(length) });
    }

    /// What has completed since the last call, by tag.
    pub fn completions(&mut self) -> Vec<(u64, Result<Vec<u8>, VolumeErrorKind>)> {
        let mut done = Vec::new();
        for event in self.events.extract_if(.., |event| matches!(event, host::Action::Complete(_))) {
            if let host::Action::Complete(completion) = event {
                let tag = completion.tag.0;
                let result = completion.outcome().map(|outcome| match outcome {
                    Outcome::Data(data) => data.into_one().to_vec(),
                    _ => Vec::new(),
                });
                done.push((tag, result));
            }
        }
        done.sort_by_key(|(tag, _)| *tag);
        done
    }
}

pub struct Bench<F: Fabric = Tcp> {
    pub fabric: F,
    pub group: Subsystems<usize>,
    pub portal: Arc<Portal>,
    pub pool: Pool,
    pub disks: Vec<Vec<u8>>,
    pub links: Vec<Link<F>>,
    /// Requests are kept here instead of being carried out.
    pub held: Option<Vec<(usize, VolumeId, Request)>>,
    pub flushes: usize,
    pub chunk: usize,
    /// What happens to the streams of the next connection: the host's, and the controller's.
    pub mishaps: [Option<Mishap>; 2],
    /// Each volume's reservations.
    pub reservations: [Reservations; 2],
    /// Requests that were to be cancelled: link, volume and tag.
    pub cancelled: Vec<(usize, VolumeId, Tag)>,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(portal())
    }

    pub fn with(portal: Portal) -> Self {
        Self::over(Tcp, portal)
    }
}

impl<F: Fabric> Bench<F> {
    /// A bench whose connections are over this fabric.
    pub fn over(fabric: F, portal: Portal) -> Self {
        Self {
            fabric,
            group: Subsystems::new(),
            portal: Arc::new(portal),
            pool: Pool::new(256 << 20),
            disks: vec![vec![0; (BLOCKS * 512) as usize], vec![0; (BLOCKS * 4096) as usize]],
            links: Vec::new(),
            held: None,
            flushes: 0,
            chunk: usize::MAX,
            mishaps: [None; 2],
            reservations: Default::default(),
            cancelled: Vec::new(),
        }
    }

    pub fn connect(&mut self, config: Config) -> usize {
        let near = self.fabric.host(config, Instant::ZERO);
        let far = self.fabric.controller(Arc::clone(&self.portal), self.pool.clone(), Instant::ZERO);
        let mut pair = Pair::new(near, far);
        pair.chunk = self.chunk;
        [pair.near.mishap, pair.far.mishap] = std::mem::take(&mut self.mishaps);
        self.links.push(Link { pair, events: Vec::new() });
        self.run();
        self.links.len() - 1
    }

    /// An admin connection and `queues` I/O connections of namespace `nsid`; the first link is the admin's.
    pub fn session(&mut self, nsid: u32, queues: u16, digests: (bool, bool)) -> RemoteNamespace {
        self.session_of(&host_identity(), (nsid, queues), digests)
    }

    /// The same for another host; the admin link is the last one before the queues'.
    pub fn session_of(
        &mut self,
        host: &HostIdentity,
        (nsid, queues): (u32, u16),
        digests: (bool, bool),
    ) -> RemoteNamespace {
        let with = |mut config: Config| {
            (config.header_digest, config.data_digest) = digests;
            config.host = host.clone();
            config
        };
        let link = self.connect(with(admin(nsid)));
        let remote = match self.links[link].events.remove(0) {
            host::Action::Ready(remote) => *remote,
            other => panic!("{other:?}"),
        };
        for qid in 1..=queues {
            let link = self.connect(with(io(qid, &remote)));
            assert!(matches!(self.links[link].events.remove(0), host::Action::QueueReady));
        }
        remote
    }

    /// Moves everything until nothing moves.
    pub fn run(&mut self) {
        loop {
            let mut moved = 0;
            for index in 0..self.links.len() {
                moved += self.links[index].pair.exchange();
                moved += self.act(index);
                let link = &mut self.links[index];
                while let Some(action) = link.pair.near.connection.poll_action() {
                    link.events.push(action);
                    moved += 1;
                }
            }
            if moved == 0 {
                return;
            }
        }
    }

    pub fn act(&mut self, index: usize) -> usize {
        let mut count = 0;
        let pair = &mut self.links[index].pair;
        pair.far.connection.handle_memory(pair.now);
        while let Some(action) = self.links[index].pair.far.connection.poll_action() {
            count += 1;
            match action {
                controller::Action::Submit(Submission { volume, request, .. }) => match &mut self.held {
                    Some(held) => held.push((index, volume, request)),
                    None => self.complete(index, volume, request),
                },
                controller::Action::Cancel { volume, tag } => self.cancelled.push((index, volume, tag)),
                controller::Action::Reserve { tag, volume, registrant, command } => {
                    let result = self.reserve(volume, &registrant, &command).map(drop);
                    self.input(index, controller::Input::Reserved { tag, result });
                }
                controller::Action::Group(request) => {
                    self.group.handle_message(Instant::ZERO, index, request);
                    while let Some(GroupMessage { to, message: reply }) = self.group.poll_message() {
                        self.input(to, controller::Input::Group(reply));
                    }
                }
            }
        }
        count
    }

    /// Changes a volume's reservations and tells every connection.
    pub fn reserve(
        &mut self,
        volume: VolumeId,
        registrant: &Registrant,
        command: &Command,
    ) -> Result<Arc<View>, CommandError> {
        let change = self.reservations[volume.slot()].apply(registrant, command)?;
        let told = controller::Reservations {
            view: Arc::clone(&change.view),
            notices: change.notices.into(),
            aborted: change.aborted.into(),
        };
        for index in 0..self.links.len() {
            let (epoch, reservations) = (volume::Epoch::default(), Some(told.clone()));
            self.input(index, controller::Input::Fence { volume, epoch, reservations });
        }
        Ok(change.view)
    }

    pub fn input(&mut self, index: usize, input: controller::Input) {
        let pair = &mut self.links[index].pair;
        pair.far.connection.handle_input(pair.now, input);
    }

    pub fn release(&mut self) {
        for (index, volume, request) in self.held.take().unwrap_or_default() {
            self.complete(index, volume, request);
        }
    }

    pub fn complete(&mut self, index: usize, volume: VolumeId, request: Request) {
        let size = if volume.slot() == 0 { 512 } else { 4096 };
        let disk = &mut self.disks[volume.slot()];
        let range =
            |extent: Extent| (extent.start * size) as usize..((extent.start + extent.blocks) * size) as usize;
        let result = match request.operation {
            Operation::Read { extent, mut into } => {
                into.copy_from_slice(&disk[range(extent)]);
                Ok(Outcome::Data(into.freeze().into()))
            }
            Operation::Write { extent, data, .. } => {
                assert_eq!(data.copy_to(&mut disk[range(extent)]), data.len());
                Ok(Outcome::Done)
            }
            Operation::Compare { extent, data } => {
                let mut expected = vec![0; data.len()];
                data.copy_to(&mut expected);
                let differs = expected.iter().zip(&disk[range(extent)]).position(|(one, two)| one != two);
                differs.map_or(Ok(Outcome::Done), |at| Err(VolumeErrorKind::Miscompare { offset: at as u32 }))
            }
            Operation::Discard { extent } | Operation::WriteZeroes { extent, .. } => {
                disk[range(extent)].fill(0);
                Ok(Outcome::Done)
            }
            // A block is allocated when it holds anything.
            Operation::QueryAllocation { extent } => {
                let mut blocks =
                    disk[range(extent)].chunks(size as usize).map(|block| block != vec![0; block.len()]);
                let mapped = blocks.next().unwrap();
                let same = blocks.take_while(|other| *other == mapped).count() as u64 + 1;
                Ok(Outcome::Allocation(Allocation { extent: Extent::new(extent.start, same), mapped }))
            }
            Operation::Flush => {
                self.flushes += 1;
                Ok(Outcome::Done)
            }
            _ => Ok(Outcome::Done),
        };
        let completion = Completion { tag: request.tag, result: result.map_err(VolumeErrorKind::into) };
        self.input(index, controller::Input::Completion(completion));
    }

    pub fn end(&mut self, index: usize) {
        let pair = &mut self.links[index].pair;
        pair.far.end(pair.now, Ended::ByPeer);
        pair.near.end(pair.now, Ended::ByPeer);
        self.group.handle_leave(Instant::ZERO, index);
        while let Some(GroupMessage { to, message: reply }) = self.group.poll_message() {
            self.input(to, controller::Input::Group(reply));
        }
        self.run();
    }
}
