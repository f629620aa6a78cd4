//! What the virtual machine's monitor asks of the device: memory, queues, features (vhost-user protocol of QEMU's
//! documentation).

use std::fs::File;
use std::sync::Arc;

use linerate::Disk;
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{
    Error, GpuBackend, Result, VhostUserBackendReqHandlerMut, VhostUserProtocolFeatures,
    VhostUserVirtioFeatures,
};
use virtio_queue::{Queue, QueueT};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

use super::limits::{QUEUE_SIZE, QUEUES, REGIONS};
use super::request::{self, DeviceConfig, feature};
use super::ring::{Parts, Ring};

/// A queue, as the monitor has described it so far.
struct Slot {
    /// The queue while no thread serves it.
    queue: Option<Queue>,
    kick: Option<File>,
    call: Option<File>,
    enabled: bool,
    ring: Option<Ring>,
}

/// A piece of guest memory, in the monitor's own addresses.
#[derive(Clone, Copy)]
struct Window {
    monitor: u64,
    size: u64,
    guest: u64,
}

/// The device.
pub(crate) struct Device {
    disk: Disk,
    read_only: bool,
    acknowledged: u64,
    windows: Vec<Window>,
    guest: Option<Arc<GuestMemoryMmap>>,
    slots: Vec<Slot>,
}

fn internal<E>(_: E) -> Error {
    Error::BackendInternalError
}

impl Device {
    pub(crate) fn new(disk: Disk, read_only: bool) -> Self {
        let slot = || Slot { queue: None, kick: None, call: None, enabled: false, ring: None };
        let slots = (0..QUEUES).map(|_| slot()).collect();
        Self { disk, read_only, acknowledged: 0, windows: Vec::new(), guest: None, slots }
    }

    /// Lets what is under way end, and forgets what the monitor has said.
    pub(crate) fn stop(&mut self) {
        for slot in &mut self.slots {
            slot.halt();
        }
        *self = Self::new(self.disk.clone(), self.read_only);
    }

    fn slot(&mut self, index: impl TryInto<usize>) -> Result<&mut Slot> {
        let index = index.try_into().map_err(|_| Error::InvalidParam)?;
        self.slots.get_mut(index).ok_or(Error::InvalidParam)
    }

    /// The guest's address of a monitor's one.
    fn translate(&self, address: u64) -> Result<GuestAddress> {
        let inside = |window: &&Window| address >= window.monitor && address - window.monitor < window.size;
        let window = self.windows.iter().find(inside).ok_or(Error::InvalidParam)?;
        Ok(GuestAddress(address - window.monitor + window.guest))
    }

    /// Begins to serve a queue of which everything is known.
    fn start_if_complete(&mut self, index: usize) -> Result<()> {
        let needs_enable = self.acknowledged & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() != 0;
        let event_index = self.acknowledged & feature::EVENT_INDEX != 0;
        let durability = request::durability(self.acknowledged);
        let (guest, disk, read_only) = (self.guest.clone(), self.disk.clone(), self.read_only);
        let slot = self.slot(index)?;
        if slot.ring.is_some() || (needs_enable && !slot.enabled) {
            return Ok(());
        }
        let (Some(guest), Some(kick)) = (guest, slot.kick.take()) else { return Ok(()) };
        let Some(mut queue) = slot.queue.take() else { return Ok(()) };
        queue.set_event_idx(event_index);
        queue.set_ready(true);
        if !queue.is_valid(&*guest) {
            return Err(Error::InvalidParam);
        }
        let parts = Parts { queue, guest, kick, call: slot.call.take(), disk, read_only, durability };
        slot.ring = Some(Ring::start(parts).map_err(Error::ReqHandlerError)?);
        Ok(())
    }
}

impl Slot {
    /// The queue, while no thread serves it.
    fn queue(&mut self) -> Result<&mut Queue> {
        if self.ring.is_some() {
            return Err(Error::InvalidOperation("the queue is running"));
        }
        if self.queue.is_none() {
            self.queue = Some(Queue::new(QUEUE_SIZE).map_err(internal)?);
        }
        self.queue.as_mut().ok_or(Error::BackendInternalError)
    }

    /// Ends the service of the queue, and keeps where it stood.
    fn halt(&mut self) {
        if let Some(ring) = self.ring.take() {
            self.queue = ring.stop();
        }
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
        let own = request::features(self.disk.features(), self.read_only);
        Ok(own | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        self.acknowledged = features;
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
        let (mut windows, mut mapped) = (Vec::new(), Vec::new());
        for (region, file) in regions.iter().zip(files) {
            let size = usize::try_from(region.memory_size).map_err(internal)?;
            let place = FileOffset::new(file, region.mmap_offset);
            let mapping = MmapRegion::from_file(place, size).map_err(internal)?;
            let guest = region.guest_phys_addr;
            mapped.push(GuestRegionMmap::new(mapping, GuestAddress(guest)).ok_or(Error::InvalidParam)?);
            windows.push(Window { monitor: region.user_addr, size: region.memory_size, guest });
        }
        self.guest = Some(Arc::new(GuestMemoryMmap::from_regions(mapped).map_err(internal)?));
        self.windows = windows;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let size = u16::try_from(num).map_err(|_| Error::InvalidParam)?;
        self.slot(index)?.queue()?.try_set_size(size).map_err(|_| Error::InvalidParam)
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
        let [descriptor, used, available] =
            [self.translate(descriptor)?, self.translate(used)?, self.translate(available)?];
        let guest = self.guest.clone().ok_or(Error::InvalidParam)?;
        let queue = self.slot(index)?.queue()?;
        queue.try_set_desc_table_address(descriptor).map_err(|_| Error::InvalidParam)?;
        queue.try_set_used_ring_address(used).map_err(|_| Error::InvalidParam)?;
        queue.try_set_avail_ring_address(available).map_err(|_| Error::InvalidParam)?;
        // What was answered before the monitor reconnected is not answered again.
        let used = queue.used_idx(&*guest, std::sync::atomic::Ordering::Relaxed).map_err(internal)?;
        queue.set_next_used(used.0);
        Ok(())
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        self.slot(index)?.queue()?.set_next_avail(base);
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let slot = self.slot(index)?;
        slot.halt();
        slot.kick = None;
        let queue = slot.queue()?;
        queue.set_ready(false);
        Ok(VhostUserVringState::new(index, u32::from(queue.next_avail())))
    }

    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        self.slot(index)?.kick = fd;
        self.start_if_complete(usize::from(index))
    }

    fn set_vring_call(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let slot = self.slot(index)?;
        match &slot.ring {
            Some(ring) => ring.set_call(fd),
            None => slot.call = fd,
        }
        Ok(())
    }

    fn set_vring_err(&mut self, _index: u8, _fd: Option<File>) -> Result<()> {
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(u64::from(QUEUES))
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        let slot = self.slot(index)?;
        slot.enabled = enable;
        let index = usize::try_from(index).map_err(internal)?;
        if enable { self.start_if_complete(index) } else { Ok(()) }
    }

    fn get_config(&mut self, offset: u32, size: u32, _flags: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let config = DeviceConfig::of(self.disk.geometry(), self.disk.features(), QUEUES);
        Ok(config.part(offset, size))
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

    fn get_inflight_fd(&mut self, _inflight: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn set_inflight_fd(&mut self, _inflight: &VhostUserInflight, _file: File) -> Result<()> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn add_mem_region(
        &mut self,
        _region: &VhostUserSingleMemoryRegion,
        _fd: File,
        _postcopy_listening: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn remove_mem_region(&mut self, _region: &VhostUserSingleMemoryRegion) -> Result<()> {
        Err(Error::InvalidOperation("not offered"))
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
