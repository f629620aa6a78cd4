//! What front end and device agree on when they meet (vhost-user, *Multiple queue support*, *Memory access*, *Inflight I/O tracking*).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use names::RingLayout;
use virtio::block::{CONFIG, DeviceConfig, FeatureBits};
use virtio::either::Layout;
use virtio::queue::Features;
use zerocopy::IntoBytes;

use crate::channel::Channel;
use crate::limits::{LARGEST_REGION, QUEUE_SIZE, QUEUES};
use crate::message::{ConfigHead, Inflight, Region, Request, VringAddress, VringState, protocol};
use crate::sys::Span;

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

impl InflightMemory {
    /// A queue begins anew: nothing of it is under way.
    pub(crate) fn forget(&self, queue: u16) -> io::Result<()> {
        let Inflight { size, offset, queues, .. } = self.inflight;
        let stride = size / u64::from(queues.max(1));
        let zeros = vec![0; wire::index(stride.min(LARGEST_REGION))];
        let begin = stride.checked_mul(u64::from(queue)).and_then(|at| at.checked_add(offset));
        let begin = begin.ok_or_else(|| lacks("the device's memory for what is under way has no end"))?;
        let mut written = 0;
        while written < zeros.len() {
            let rest = zeros.get(written..).unwrap_or_default();
            match rustix::io::pwrite(&self.file, rest, begin + wire::widen(written))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => written += count,
            }
        }
        Ok(())
    }
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
        Layout::agreed(QUEUE_SIZE, self.features)
    }

    /// Memory for what is under way: a device's own, or that of the one before. Nothing where the device keeps no track.
    pub(crate) fn track(&self, kept: Option<InflightMemory>) -> io::Result<Option<InflightMemory>> {
        if !self.tracks {
            return Ok(None);
        }
        let memory = if let Some(memory) = kept {
            memory
        } else {
            let asked =
                Inflight { size: 0, offset: 0, queues: self.queues, queue_size: QUEUE_SIZE, padding: 0 };
            let (inflight, file) = self.channel.exchange(Request::GetInflightFd, &asked)?;
            let file =
                file.ok_or_else(|| lacks("the device keeps track of requests and gives no memory for that"))?;
            InflightMemory { inflight, file }
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

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;
    use crate::message::HEADER;

    /// A device that answers requests by their numbers, and ends when it has none for one.
    fn device(stream: &mut UnixStream, answers: &[(u32, Vec<u8>)]) -> io::Result<()> {
        loop {
            let mut head = [0; HEADER];
            stream.read_exact(&mut head)?;
            let number = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let (request, flags, size) = (number(0), number(4), number(8));
            let mut payload = vec![0; usize::try_from(size).unwrap()];
            stream.read_exact(&mut payload)?;
            let answer =
                answers.iter().find(|(known, _)| *known == request).map(|(_, answer)| answer.clone());
            let answer = match answer {
                Some(answer) => answer,
                // It consents to all that it is told.
                None if flags & 8 != 0 => 0_u64.to_ne_bytes().to_vec(),
                None if matches!(request, 2 | 3 | 16) => continue,
                None => return Ok(()),
            };
            let size = u32::try_from(answer.len()).unwrap();
            let head = [request.to_ne_bytes(), 5_u32.to_ne_bytes(), size.to_ne_bytes()].concat();
            stream.write_all(&[head, answer].concat())?;
        }
    }

    /// What meeting such a device comes to. It is there until the session is dropped.
    fn met(answers: &[(u32, Vec<u8>)], ring: Option<RingLayout>) -> Result<Session, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        let listener = UnixListener::bind(&path).unwrap();
        let answers = answers.to_vec();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // The other side leaves when it has seen enough.
            let _over = device(&mut stream, &answers);
        });
        Session::begin(&path, ring).map_err(|error| error.to_string())
    }

    /// A device as it should be, with these features beside those that each has.
    pub(crate) fn met_with(features: FeatureBits, ring: Option<RingLayout>) -> Result<Session, String> {
        let all =
            features | FeatureBits::VERSION_1 | FeatureBits::PROTOCOL_FEATURES | FeatureBits::BLOCK_SIZE;
        met(&with(&[(1, number(all.0))]), ring)
    }

    fn number(number: u64) -> Vec<u8> {
        number.to_ne_bytes().to_vec()
    }

    /// A device as it should be, with these answers in place of its own.
    fn with(other: &[(u32, Vec<u8>)]) -> Vec<(u32, Vec<u8>)> {
        let features = FeatureBits::VERSION_1 | FeatureBits::PROTOCOL_FEATURES | FeatureBits::BLOCK_SIZE;
        let config = DeviceConfig { capacity: 2048.into(), block_size: 512.into(), ..DeviceConfig::zeroed() };
        let head = ConfigHead { offset: 0, size: wire::bounded(CONFIG), flags: 0 };
        let own = [
            (1, number(features.0)),
            (
                15,
                number(protocol::CONFIG | protocol::CONFIGURE_MEM_SLOTS | protocol::REPLY_ACK | protocol::MQ),
            ),
            (17, number(3)),
            (24, [head.as_bytes(), config.as_bytes()].concat()),
            (36, number(8)),
        ];
        other.iter().cloned().chain(own).collect()
    }

    #[test]
    fn a_device_as_it_should_be_is_met() {
        let session = met(&with(&[]), None).unwrap();
        assert_eq!((session.queues, session.regions, session.config.capacity.get()), (3, 8, 2048));
        assert!(session.track(None).unwrap().is_none(), "it keeps no track");
    }

    #[test]
    fn a_device_that_cannot_be_used_is_refused_in_words() {
        let none = FeatureBits::PROTOCOL_FEATURES;
        let cases = [
            ((1, number(none.0)), None, "no device of VIRTIO 1"),
            ((15, number(protocol::CONFIG)), None, "CONFIGURE_MEM_SLOTS"),
            ((1, vec![1, 2, 3]), None, "another length"),
            ((24, Vec::new()), None, "tells no configuration"),
            ((36, vec![0; 5000]), None, "something else than it was asked"),
            ((2, number(1)), None, "refuses SetFeatures"),
            ((99, Vec::new()), Some(RingLayout::Packed), "leave ring=packed out"),
        ];
        for (answer, ring, wanted) in cases {
            let error = met(&with(std::slice::from_ref(&answer)), ring).map(drop).unwrap_err();
            assert!(error.contains(wanted), "{answer:?}: {error}");
        }
    }

    #[test]
    fn a_device_that_says_more_than_there_can_be_is_bounded() {
        let session = met(&with(&[(17, number(u64::MAX)), (36, number(u64::MAX))]), None).unwrap();
        assert_eq!(session.queues, QUEUES);
        assert!(met(&[], None).is_err(), "it leaves at once");
    }
}
