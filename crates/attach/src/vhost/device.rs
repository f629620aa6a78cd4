//! What a front end asks of the device: memory, queues, features (vhost-user protocol of QEMU's documentation). It is asked on a thread of the front end's socket; queues are served on
//! the cores.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use host::{CoreIndex, Postbox};
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{
    Error, GpuBackend, Result, VhostUserBackendReqHandlerMut, VhostUserProtocolFeatures,
};
use vhost_user::SharedArea;
use virtio::block::FeatureBits;
use virtio::either::{AnyDevice, Layout};
use virtio::inflight::{PackedTracker, ResumedPacked, ResumedSplit, SplitTracker, Tracker, region_len};
use virtio::packed::PackedDevice;
use virtio::queue::{Features as QueueFeatures, Position};
use virtio::split::{SplitAreas, SplitDevice};
use virtio::{Area, Chain};
use volume::Volume;

use super::guest::{GuestMemory, Place, Space};
use super::limits::{CORE_TIME, QUEUE_SIZE, QUEUES, REGIONS};
use super::request::{Shape, configuration, durability, features};
use super::ring::RingPlan;
use super::service::{Message, RingId};
use crate::limits::GRACE;

/// Where a fresh packed queue stands.
const FRESH: Position = Position { next: 0, used: 0, next_wrap: true, used_wrap: true };

/// A queue, as the front end has described it so far.
#[derive(Default)]
struct Slot {
    size: u16,
    /// Where its areas are, in the front end's own addresses: descriptors, driver, device.
    addresses: Option<[u64; 3]>,
    base: u32,
    kick: Option<OwnedFd>,
    call: Option<OwnedFd>,
    /// Tells the front end that its queue is served no longer.
    error: Option<OwnedFd>,
    is_enabled: bool,
    /// Which ring it is, while a core serves it.
    ring: Option<RingId>,
}

/// Memory in which what is under way outlives this process.
struct Inflight {
    area: SharedArea,
    /// Bytes of a queue's region.
    stride: usize,
}

/// What all front ends of a process share.
#[derive(Clone)]
pub(crate) struct Exported {
    pub(crate) volume: Arc<dyn Volume>,
    /// Which of the process' volumes it is.
    pub(crate) number: usize,
    pub(crate) read_only: bool,
    pub(crate) postbox: Arc<dyn Postbox<Message>>,
    pub(crate) rings: Arc<AtomicU32>,
}

/// The device, as one front end has it.
pub(crate) struct Device {
    exported: Exported,
    taken: FeatureBits,
    memory: Arc<GuestMemory>,
    inflight: Option<Inflight>,
    slots: Vec<Slot>,
}

fn internal<E>(_: E) -> Error {
    Error::BackendInternalError
}

fn refused<T>(what: Option<T>) -> Result<T> {
    what.ok_or(Error::InvalidParam)
}

fn failed(error: io::Error) -> Error {
    Error::ReqHandlerError(error)
}

/// Waits for a core's answer.
fn heard<T>(answer: &Receiver<T>) -> Result<T> {
    answer.recv_timeout(CORE_TIME).map_err(internal)
}

/// Where a queue stands, as one number. A packed one's has the wrap counters as well (vhost-user, *vring state description*).
fn number_of(position: Position, is_packed: bool) -> u32 {
    if !is_packed {
        return u32::from(position.next);
    }
    let half = |index: u16, wrap: bool| u32::from(index) | u32::from(wrap) << 15;
    half(position.next, position.next_wrap) | half(position.used, position.used_wrap) << 16
}

/// Where a packed queue stands by such a number.
fn position_of(number: u32) -> Position {
    let half = |bits: u32| (wire::saturate::<u16>(bits & 0x7fff), bits & 0x8000 != 0);
    let ((next, next_wrap), (used, used_wrap)) = (half(number), half(number >> 16));
    Position { next, used, next_wrap, used_wrap }
}

impl Device {
    pub(crate) fn new(exported: Exported) -> Self {
        let slots = (0..QUEUES).map(|_| Slot::default()).collect();
        Self { exported, taken: FeatureBits(0), memory: Arc::default(), inflight: None, slots }
    }

    /// Lets what is under way end, and forgets what the front end has said.
    pub(crate) fn stop(&mut self) {
        for index in 0..self.slots.len() {
            // A core that does not answer is ending itself.
            let _position = self.halt(index);
        }
        *self = Self::new(self.exported.clone());
    }

    fn slot(&mut self, index: impl TryInto<usize>) -> Result<&mut Slot> {
        let index = refused(index.try_into().ok())?;
        refused(self.slots.get_mut(index))
    }

    fn is_packed(&self) -> bool {
        self.taken.has(FeatureBits::PACKED)
    }

    /// The core of a ring.
    fn core_of(&self, ring: RingId) -> CoreIndex {
        let cores = u32::from(self.exported.postbox.cores().max(1));
        wire::saturate(ring.0 % cores)
    }

    fn post(&self, ring: RingId, message: Message) {
        self.exported.postbox.post(self.core_of(ring), message);
    }

    /// Begins to serve a queue of which everything is known.
    fn start_if_complete(&mut self, index: usize) -> Result<()> {
        let needs_enable = self.taken.has(FeatureBits::PROTOCOL_FEATURES);
        let slot = refused(self.slots.get(index))?;
        let is_ready = slot.kick.is_some() && slot.addresses.is_some() && slot.size > 0;
        if slot.ring.is_some() || !is_ready || (needs_enable && !slot.is_enabled) {
            return Ok(());
        }
        let plan = self.plan(index)?;
        let ring = RingId(self.exported.rings.fetch_add(1, Ordering::Relaxed) % (u32::MAX - 1));
        let slot = self.slot(index)?;
        let Some(kick) = slot.kick.take() else { return Ok(()) };
        slot.ring = Some(ring);
        let (done, answer) = mpsc::channel();
        self.post(ring, Message::Start { ring, plan: Box::new(plan), kick, done });
        let started = heard(&answer);
        if started.is_err() {
            // Nobody waits for where it stands.
            self.post(ring, Message::Stop { ring, done: mpsc::channel().0 });
            self.slot(index)?.ring = None;
        }
        started
    }

    /// A queue as it is to be served, with what an earlier device has left under way.
    fn plan(&mut self, index: usize) -> Result<RingPlan> {
        let (memory, taken) = (Arc::clone(&self.memory), self.taken);
        let queue_features = QueueFeatures {
            event_index: self.taken.has(FeatureBits::EVENT_INDEX),
            indirect: self.taken.has(FeatureBits::INDIRECT),
        };
        let region = self.region(index)?;
        let slot = refused(self.slots.get_mut(index))?;
        let layout = refused(Layout::agreed(slot.size, taken))?;
        let addresses = refused(slot.addresses)?;
        let [table, driver, device] = [0, 1, 2].map(|at| memory.of_user(addresses[at], layout.lens()[at]));
        let areas = [refused(table)?, refused(driver)?, refused(device)?];
        let space = Space(Arc::clone(&memory));
        let mut left = Vec::new();
        let (queue, tracker) = match layout {
            Layout::Split(layout) => {
                let [table, available, used] = areas;
                let (tracker, heads, next) = match region {
                    None => (None, Vec::new(), wire::saturate(slot.base & 0xffff)),
                    Some(region) => {
                        let index = used.load(2);
                        let resumed = SplitTracker::begin(region, layout.size(), index);
                        let ResumedSplit { tracker, heads } = refused(resumed)?;
                        let next = index.wrapping_add(wire::saturate(heads.len()));
                        (Some(Tracker::Split(tracker)), heads, next)
                    }
                };
                let areas = SplitAreas { table, available, used };
                let queue = refused(SplitDevice::new(layout, areas, queue_features, next))?;
                for head in heads {
                    let mut chain = Chain::default();
                    queue.take_again(head, &space, &mut chain).map_err(internal)?;
                    left.push(chain);
                }
                (AnyDevice::Split(Box::new(queue)), tracker)
            }
            Layout::Packed(layout) => {
                let fresh = if slot.base == 0 { FRESH } else { position_of(slot.base) };
                let looks = PackedDevice::new(layout, areas.clone(), queue_features, fresh);
                let looks = refused(looks)?;
                let (tracker, position, again) = match region {
                    None => (None, fresh, Vec::new()),
                    Some(region) => {
                        let resumed = PackedTracker::begin(region, layout.size(), fresh, &looks);
                        let ResumedPacked { tracker, position, left: again } = refused(resumed)?;
                        (Some(Tracker::Packed(tracker)), position, again)
                    }
                };
                let queue = refused(PackedDevice::new(layout, areas, queue_features, position))?;
                for one in again {
                    let mut chain = Chain::default();
                    queue.take_again(&one, &space, &mut chain).map_err(internal)?;
                    left.push(chain);
                }
                (AnyDevice::Packed(Box::new(queue)), tracker)
            }
        };
        let volume = &self.exported.volume;
        let shape = Shape {
            geometry: volume.geometry(),
            limits: volume.limits(),
            read_only: self.exported.read_only,
        };
        let copy = |descriptor: &Option<OwnedFd>| {
            descriptor.as_ref().map(OwnedFd::try_clone).transpose().map_err(failed)
        };
        let (call, error) = (copy(&slot.call)?, copy(&slot.error)?);
        let durability = durability(self.taken);
        Ok(RingPlan {
            volume: self.exported.number,
            size: slot.size,
            queue,
            tracker,
            left,
            memory,
            shape,
            durability,
            call,
            error,
        })
    }

    /// Where a queue keeps track of what is under way.
    fn region(&self, index: usize) -> Result<Option<SharedArea>> {
        let Some(inflight) = &self.inflight else { return Ok(None) };
        refused(inflight.area.part(index * inflight.stride, inflight.stride)).map(Some)
    }

    /// Ends the service of a queue, and keeps where it stood.
    fn halt(&mut self, index: usize) -> Result<u32> {
        let is_packed = self.is_packed();
        let slot = self.slot(index)?;
        let Some(ring) = slot.ring.take() else { return Ok(slot.base) };
        let (done, answer) = mpsc::channel();
        self.post(ring, Message::Stop { ring, done });
        // Requests under way end first, however slow the volume is.
        let position = answer.recv_timeout(GRACE).map_err(internal)?;
        let slot = self.slot(index)?;
        slot.base = number_of(position, is_packed);
        Ok(slot.base)
    }

    /// Tells every core that serves a queue of this front end, and waits until it has heard.
    fn tell_rings(&self, message: impl Fn(RingId, Sender<()>) -> Message) -> Result<()> {
        let rings: Vec<RingId> = self.slots.iter().filter_map(|slot| slot.ring).collect();
        let (done, answer) = mpsc::channel();
        for ring in &rings {
            self.post(*ring, message(*ring, done.clone()));
        }
        rings.iter().try_for_each(|_| heard(&answer))
    }

    /// From now on this memory is lent.
    fn lend(&mut self, memory: GuestMemory) -> Result<()> {
        self.memory = Arc::new(memory);
        let memory = Arc::clone(&self.memory);
        self.tell_rings(|ring, done| Message::Memory { ring, memory: Arc::clone(&memory), done })
    }
}

fn place_of(region: &VhostUserMemoryRegion) -> Place {
    Place {
        guest: region.guest_phys_addr,
        user: region.user_addr,
        len: region.memory_size,
        offset: region.mmap_offset,
    }
}

impl VhostUserBackendReqHandlerMut for Device {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.stop();
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        self.stop();
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(features(self.exported.volume.features(), self.exported.read_only).0)
    }

    fn set_features(&mut self, bits: u64) -> Result<()> {
        let offered = features(self.exported.volume.features(), self.exported.read_only);
        let taken = FeatureBits(bits);
        if !offered.has(taken) {
            return Err(Error::InvalidParam);
        }
        if taken != self.taken && self.slots.iter().any(|slot| slot.ring.is_some()) {
            return Err(Error::InvalidOperation("queues are running"));
        }
        self.taken = taken;
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy_listening: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        if regions.len() > REGIONS || regions.len() != files.len() {
            return Err(Error::InvalidParam);
        }
        let mut memory = GuestMemory::default();
        for (region, file) in regions.iter().zip(&files) {
            memory = memory.with(place_of(region), file).map_err(failed)?;
        }
        self.lend(memory)?;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let size = refused(u16::try_from(num).ok().filter(|size| (1..=QUEUE_SIZE).contains(size)))?;
        self.slot(index)?.size = size;
        Ok(())
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        let slot = self.slot(index)?;
        if slot.ring.is_some() {
            return Err(Error::InvalidOperation("the queue is running"));
        }
        slot.addresses = Some([descriptor, available, used]);
        Ok(())
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.slot(index)?.base = base;
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let place = refused(usize::try_from(index).ok())?;
        let base = self.halt(place)?;
        self.slot(place)?.kick = None;
        Ok(VhostUserVringState::new(index, base))
    }

    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        self.slot(index)?.kick = fd.map(OwnedFd::from);
        self.start_if_complete(usize::from(index))
    }

    fn set_vring_call(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let call = fd.map(OwnedFd::from);
        let copy = call.as_ref().map(OwnedFd::try_clone).transpose().map_err(failed)?;
        let slot = self.slot(index)?;
        slot.call = call;
        let Some(ring) = slot.ring else { return Ok(()) };
        let (done, answer) = mpsc::channel();
        self.post(ring, Message::Call { ring, call: copy, done });
        heard(&answer)
    }

    fn set_vring_err(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        self.slot(index)?.error = fd.map(OwnedFd::from);
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(u64::from(QUEUES))
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.slot(index)?.is_enabled = enable;
        let index = refused(usize::try_from(index).ok())?;
        if enable { self.start_if_complete(index) } else { self.halt(index).map(drop) }
    }

    fn get_config(&mut self, offset: u32, size: u32, _flags: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let volume = &self.exported.volume;
        let config = configuration(volume.geometry(), &volume.limits(), volume.features(), QUEUES);
        let mut part = vec![0; wire::index(u64::from(size))];
        config.part(wire::index(u64::from(offset)), &mut part);
        Ok(part)
    }

    fn set_config(&mut self, _offset: u32, _bytes: &[u8], _flags: VhostUserConfigFlags) -> Result<()> {
        Err(Error::InvalidOperation("the configuration is read-only"))
    }

    fn set_gpu_socket(&mut self, _backend: GpuBackend) -> Result<()> {
        Err(Error::InvalidOperation("this is a block device"))
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        Err(Error::InvalidOperation("this is a block device"))
    }

    fn get_inflight_fd(&mut self, asked: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let VhostUserInflight { num_queues, queue_size, .. } = *asked;
        if !(1..=QUEUES).contains(&num_queues) || !(1..=QUEUE_SIZE).contains(&queue_size) {
            return Err(Error::InvalidParam);
        }
        // How long queues will be is told later, and QEMU 10 asks for 128 descriptors and then makes queues of 1,024; which of the two layouts they will have, too: a packed
        // one's region is the longer.
        let stride = region_len(refused(Layout::packed(QUEUE_SIZE))?);
        let file = SharedArea::create(stride * usize::from(num_queues)).map_err(failed)?.file;
        let size = wire::widen(stride * usize::from(num_queues));
        Ok((VhostUserInflight::new(size, 0, num_queues, queue_size), File::from(file)))
    }

    fn set_inflight_fd(&mut self, inflight: &VhostUserInflight, file: File) -> Result<()> {
        let VhostUserInflight { mmap_size, mmap_offset, num_queues, queue_size } = *inflight;
        let len = refused(usize::try_from(mmap_size).ok())?;
        let queues = usize::from(num_queues);
        let least = region_len(refused(Layout::agreed(queue_size, self.taken))?);
        if !(1..=usize::from(QUEUES)).contains(&queues) || len / queues < least {
            return Err(Error::InvalidParam);
        }
        let size = file.metadata().map_err(failed)?.len();
        if size < mmap_offset.saturating_add(mmap_size) {
            return Err(Error::InvalidParam);
        }
        let area = SharedArea::borrow(&file, mmap_offset, len).map_err(failed)?;
        self.inflight = Some(Inflight { area, stride: len / queues });
        Ok(())
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(REGIONS as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _postcopy_listening: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        if self.memory.len() >= REGIONS {
            return Err(Error::InvalidParam);
        }
        let memory = self.memory.with(place_of(region), &file).map_err(failed)?;
        self.lend(memory)?;
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        let memory = refused(self.memory.without(place_of(region)))?;
        self.lend(memory)
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _fd: File,
    ) -> Result<Option<File>> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        Err(Error::InvalidOperation("not offered"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_queue_stands_is_one_number() {
        let position = Position { next: 5, used: 3, next_wrap: true, used_wrap: false };
        assert_eq!(number_of(position, true), 0x0003_8005);
        assert_eq!(position_of(0x0003_8005), position);
        assert_eq!(number_of(position, false), 5);
        assert_eq!(number_of(FRESH, true), 0x8000_8000);
    }
}
