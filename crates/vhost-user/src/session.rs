//! What front end and device agree on when they meet (vhost-user, *Multiple queue support*, *Memory access*, *Inflight I/O tracking*).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use names::RingLayout;
use virtio::block::{CONFIG, DeviceConfig, FeatureBits};
use virtio::queue::{Features, Layout};
use zerocopy::IntoBytes;

use crate::channel::Channel;
use crate::limits::{QUEUE_SIZE, QUEUES};
use crate::sys::Span;
use crate::message::{
    ConfigHead, Inflight, Region, Request, VringAddress, VringState, protocol,
};

/// What this side uses if the device has it.
const WANTED: FeatureBits = FeatureBits(
    FeatureBits::SIZE_MAX.0
        | FeatureBits::SEG_MAX.0
        | FeatureBits::READ_ONLY.0
        | FeatureBits::BLOCK_SIZE.0
        | FeatureBits::FLUSH.0
        | FeatureBits::MULTI_QUEUE.0
        | FeatureBits::DISCARD.0
        | FeatureBits::WRITE_ZEROES.0
        | FeatureBits::EVENT_INDEX.0
        | FeatureBits::PROTOCOL_FEATURES.0
        | FeatureBits::VERSION_1.0,
);

/// Where a fresh queue begins, as the device is told: a packed queue's number also has the wrap counters.
const SPLIT_BASE: u32 = 0;
const PACKED_BASE: u32 = 0x8000_8000;

/// A device that is there, and what it can do.
#[derive(Debug)]
pub(crate) struct Session {
    channel: Channel,
    pub(crate) features: FeatureBits,
    pub(crate) config: DeviceConfig,
    /// Queues that it has.
    pub(crate) queues: u16,
    /// Regions of memory that it takes.
    pub(crate) regions: usize,
    tracks: bool,
}

/// Memory in which the device keeps track of what it has under way: this side only keeps it.
#[derive(Debug)]
pub(crate) struct InflightMemory {
    inflight: Inflight,
    file: OwnedFd,
}

/// A queue as the device is told of it.
#[derive(Debug)]
pub(crate) struct VringSetup<'a> {
    pub(crate) index: u16,
    pub(crate) layout: Layout,
    /// Where its descriptors, the driver's part and the device's part are.
    pub(crate) addresses: [u64; 3],
    /// The next buffer, if it is not a fresh queue.
    pub(crate) base: Option<u32>,
    pub(crate) kick: &'a OwnedFd,
    pub(crate) call: &'a OwnedFd,
}

/// A stretch of this process' memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) address: u64,
    pub(crate) len: u64,
}

impl Stretch {
    /// All of a span.
    pub(crate) fn of(span: &Span) -> Self {
        Self { address: wire::widen(span.address), len: wire::widen(span.len) }
    }

    /// Descriptors name memory by the address that it has in this process.
    fn region(self) -> Region {
        Region { padding: 0, guest: self.address, size: self.len, user: self.address, offset: 0 }
    }
}

fn lacks(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, what.to_owned())
}

impl Session {
    /// Meets the device behind a socket.
    pub(crate) fn begin(path: &Path, ring: Option<RingLayout>) -> io::Result<Self> {
        let mut channel = Channel::connect(path)?;
        let offered = FeatureBits(channel.ask_number(Request::GetFeatures)?);
        if !offered.has(FeatureBits::VERSION_1 | FeatureBits::PROTOCOL_FEATURES) {
            return Err(lacks("it is no device of VIRTIO 1 with protocol features"));
        }
        let spoken = channel.ask_number(Request::GetProtocolFeatures)?;
        let needed = protocol::CONFIG | protocol::CONFIGURE_MEM_SLOTS | protocol::REPLY_ACK;
        if spoken & needed != needed {
            return Err(lacks(
                "the device cannot tell its configuration, take memory region by region, or acknowledge requests (CONFIG, CONFIGURE_MEM_SLOTS, REPLY_ACK)",
            ));
        }
        let chosen = spoken & (needed | protocol::MQ | protocol::INFLIGHT_SHMFD);
        channel.tell(Request::SetProtocolFeatures, &chosen, None)?;
        channel.acknowledges = true;
        channel.tell(Request::SetOwner, &[0_u8; 0], None)?;
        let queues = if chosen & protocol::MQ == 0 { 1 } else { channel.ask_number(Request::GetQueueNum)? };
        let regions = channel.ask_number(Request::GetMaxMemSlots)?;
        let config = read_config(&channel)?;
        if ring == Some(RingLayout::Packed) && !offered.has(FeatureBits::PACKED) {
            return Err(lacks("the device has no packed rings: leave ring=packed out"));
        }
        let packed = if ring == Some(RingLayout::Split) { FeatureBits(0) } else { FeatureBits::PACKED };
        let features = offered.common(WANTED | packed);
        channel.tell(Request::SetFeatures, &features.0, None)?;
        Ok(Self {
            channel,
            features,
            config,
            queues: wire::saturate::<u16>(queues).min(QUEUES),
            regions: wire::index(regions),
            tracks: chosen & protocol::INFLIGHT_SHMFD != 0,
        })
    }

    /// The socket, for whoever waits until the device leaves.
    pub(crate) fn socket(&self) -> std::os::fd::BorrowedFd<'_> {
        self.channel.socket()
    }

    /// The device's process, if the system can tell: readable once it has ended.
    pub(crate) fn process(&self) -> Option<OwnedFd> {
        let peer = rustix::net::sockopt::socket_peercred(self.channel.socket()).ok()?;
        rustix::process::pidfd_open(peer.pid, rustix::process::PidfdFlags::empty()).ok()
    }

    /// Whether nobody else can be at work: the device of before has ended, or this is its next connection.
    pub(crate) fn is_of(&self, process: Option<&OwnedFd>) -> bool {
        let Some(process) = process else { return true };
        has_ended(process) || self.process().is_some_and(|own| is_same(process, &own))
    }

    /// What was agreed on for queues.
    pub(crate) fn queue_features(&self) -> Features {
        Features { event_index: self.features.has(FeatureBits::EVENT_INDEX), indirect: false }
    }

    /// How queues lie in memory.
    pub(crate) fn layout(&self) -> Option<Layout> {
        Layout::new(QUEUE_SIZE, self.features.has(FeatureBits::PACKED))
    }

    /// Memory for what is under way: a device's own, or that of the one before. Nothing where the device keeps no track.
    pub(crate) fn track(&self, kept: Option<InflightMemory>) -> io::Result<Option<InflightMemory>> {
        if !self.tracks {
            return Ok(None);
        }
        let memory = match kept {
            Some(memory) => memory,
            None => {
                let asked =
                    Inflight { size: 0, offset: 0, queues: self.queues, queue_size: QUEUE_SIZE, padding: 0 };
                let (inflight, file) = self.channel.exchange(Request::GetInflightFd, &asked)?;
                let file = file.ok_or_else(|| lacks("the device keeps track of requests and gives no memory for that"))?;
                InflightMemory { inflight, file }
            }
        };
        self.channel.tell(Request::SetInflightFd, &memory.inflight, Some(memory.file.as_fd()))?;
        Ok(Some(memory))
    }

    /// The device has this memory from now on.
    pub(crate) fn add(&self, stretch: Stretch, file: &OwnedFd) -> io::Result<()> {
        self.channel.tell(Request::AddMemReg, &stretch.region(), Some(file.as_fd()))
    }

    /// It has it no longer.
    pub(crate) fn remove(&self, stretch: Stretch) -> io::Result<()> {
        self.channel.tell(Request::RemMemReg, &stretch.region(), None)
    }

    /// The device serves a queue from now on.
    pub(crate) fn start(&self, setup: &VringSetup<'_>) -> io::Result<()> {
        let index = u32::from(setup.index);
        let state = |number| VringState { index, number };
        let fresh = if matches!(setup.layout, Layout::Packed(_)) { PACKED_BASE } else { SPLIT_BASE };
        self.channel.tell(Request::SetVringNum, &state(u32::from(setup.layout.size())), None)?;
        self.channel.tell(Request::SetVringBase, &state(setup.base.unwrap_or(fresh)), None)?;
        let [table, available, used] = setup.addresses;
        let address = VringAddress { index, flags: 0, table, used, available, log: 0 };
        self.channel.tell(Request::SetVringAddr, &address, None)?;
        let number = u64::from(setup.index);
        self.channel.tell(Request::SetVringCall, &number, Some(setup.call.as_fd()))?;
        self.channel.tell(Request::SetVringKick, &number, Some(setup.kick.as_fd()))?;
        self.channel.tell(Request::SetVringEnable, &state(1), None)
    }

    /// The device serves a queue no longer, and what it had under way has ended.
    pub(crate) fn stop(&self, index: u16) -> io::Result<()> {
        let state = VringState { index: u32::from(index), number: 0 };
        self.channel.exchange(Request::GetVringBase, &state).map(drop)
    }
}

/// The device's configuration, as much as there is of it.
fn read_config(channel: &Channel) -> io::Result<DeviceConfig> {
    let head = ConfigHead { offset: 0, size: wire::bounded(CONFIG), flags: 0 };
    let asked = [head.as_bytes(), &[0; CONFIG]].concat();
    let answer = channel.ask(Request::GetConfig, &asked, None)?;
    let bytes = answer.payload.get(size_of::<ConfigHead>()..).filter(|bytes| !bytes.is_empty());
    Ok(DeviceConfig::of(bytes.ok_or_else(|| lacks("the device tells no configuration"))?))
}

/// Whether a process has ended.
fn has_ended(process: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Whether both stand for the same process, as the kernel numbers it.
fn is_same(one: &OwnedFd, other: &OwnedFd) -> bool {
    let pid = |process: &OwnedFd| {
        let path = format!("/proc/self/fdinfo/{}", std::os::fd::AsRawFd::as_raw_fd(process));
        let text = std::fs::read_to_string(path).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Pid:").map(|pid| pid.trim().to_owned()))
    };
    pid(one).is_some_and(|one| pid(other) == Some(one))
}
