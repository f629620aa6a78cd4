//! What all cores share of a device: its shape, whether it is there, and the orders for the thread that speaks with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use host::Dialer;
use names::RingLayout;
use virtio::block::{FeatureBits, SECTOR};
use virtio::either::Layout;
use virtio::queue::Features as QueueFeatures;
use volume::{Features, Geometry, Limits, Listeners, OpenError};

use crate::limits::{DEPTH, LARGEST};
use crate::orders::{Order, Orders};
use crate::regions::Regions;
use crate::session::Session;
use crate::sys::{MemoryListener, SharedMemory, Span};
use crate::vring::VringParts;

/// What is known of the device, and what its thread tells the cores.
pub(crate) struct Shared {
    pub(crate) path: PathBuf,
    pub(crate) ring: Option<RingLayout>,
    pub(crate) geometry: Geometry,
    pub(crate) limits: Limits,
    pub(crate) features: Features,
    bits: FeatureBits,
    may_unmap: bool,
    pub(crate) queues: u16,
    pub(crate) layout: Layout,
    pub(crate) queue_features: QueueFeatures,
    pub(crate) reconnect: Duration,
    pub(crate) memory: SharedMemory,
    pub(crate) dialer: Arc<dyn Dialer>,
    pub(crate) orders: Arc<Orders>,
    pub(crate) regions: Regions,
    /// How often a device was met.
    meetings: AtomicU64,
    is_lost: AtomicBool,
    tracks: AtomicBool,
    pub(crate) path_changes: AtomicU64,
    pub(crate) listeners: Listeners,
    last_error: Mutex<Option<String>>,
    pub(crate) copied: AtomicU64,
    taken: Mutex<BTreeSet<u16>>,
    /// The memory of queues, by their numbers. It stays when they go: a device need not let go of memory that a queue once lay in.
    vrings: Mutex<BTreeMap<u16, VringParts>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryListener for Shared {
    fn added(&self, span: &Span) {
        self.orders.give(Order::Add(span.clone()));
    }

    fn removed(&self, span: &Span) {
        // At once: its place may be another's when this returns.
        self.regions.remove(span);
        self.orders.give(Order::Remove(span.clone()));
    }
}

/// How the volume is to be used.
pub(crate) struct Wishes {
    pub(crate) path: PathBuf,
    pub(crate) ring: Option<RingLayout>,
    pub(crate) reconnect: Duration,
    pub(crate) memory: SharedMemory,
    pub(crate) dialer: Arc<dyn Dialer>,
}

impl Shared {
    /// Of a device that has been met.
    pub(crate) fn of(session: &Session, wishes: Wishes) -> Result<Self, OpenError> {
        let Wishes { path, ring, reconnect, memory, dialer } = wishes;
        let config = &session.config;
        let bits = session.features;
        let block = if bits.has(FeatureBits::BLOCK_SIZE) { config.block_size.get() } else { 512 };
        let size = config.capacity.get().checked_mul(SECTOR);
        let size = size
            .ok_or_else(|| OpenError::new("the device says that it has more bytes than there are numbers"))?;
        let geometry = Geometry::of(size, block)?;
        let layout = session.layout().ok_or_else(|| OpenError::new("there is no queue of this length"))?;
        Ok(Self {
            path,
            ring,
            geometry,
            limits: limits(session, block),
            features: features(bits),
            bits,
            may_unmap: config.zeroes_may_unmap == 1,
            queues: session.queues,
            layout,
            queue_features: session.queue_features(),
            reconnect,
            memory,
            dialer,
            orders: Arc::new(
                Orders::new().map_err(|error| OpenError::new(format!("no descriptor is left: {error}")))?,
            ),
            regions: Regions::default(),
            meetings: AtomicU64::new(1),
            is_lost: AtomicBool::new(false),
            tracks: AtomicBool::new(false),
            path_changes: AtomicU64::new(0),
            listeners: Listeners::default(),
            last_error: Mutex::default(),
            copied: AtomicU64::new(0),
            taken: Mutex::default(),
            vrings: Mutex::default(),
        })
    }

    /// Whether another device has the same shape, so that requests may go to it.
    pub(crate) fn is_matched_by(&self, session: &Session) -> bool {
        let same_size = session.config.capacity.get().checked_mul(SECTOR) == Some(self.geometry.bytes());
        same_size && session.features.has(self.bits) && session.queues >= self.queues
    }

    pub(crate) fn has_flush(&self) -> bool {
        self.bits.has(FeatureBits::FLUSH)
    }

    pub(crate) fn has_discard(&self) -> bool {
        self.bits.has(FeatureBits::DISCARD)
    }

    pub(crate) fn has_zeroes(&self) -> bool {
        self.bits.has(FeatureBits::WRITE_ZEROES)
    }

    pub(crate) fn may_unmap(&self) -> bool {
        self.may_unmap
    }

    pub(crate) fn meeting(&self) -> u64 {
        self.meetings.load(Ordering::Acquire)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    pub(crate) fn tracks(&self) -> bool {
        self.tracks.load(Ordering::Acquire)
    }

    /// Data was copied because the device does not have its memory.
    pub(crate) fn count_copied(&self, bytes: usize) {
        self.copied.fetch_add(wire::widen(bytes), Ordering::Relaxed);
    }

    /// The device keeps track of what it has under way, or does not.
    pub(crate) fn set_tracks(&self, tracks: bool) {
        self.tracks.store(tracks, Ordering::Release);
    }

    /// The device is gone, because of that.
    pub(crate) fn lose(&self, why: &str) {
        *lock(&self.last_error) = Some(why.to_owned());
        if !self.is_lost.swap(true, Ordering::AcqRel) {
            self.tell();
        }
    }

    /// There is a device again.
    pub(crate) fn meet(&self) {
        self.meetings.fetch_add(1, Ordering::AcqRel);
        if self.is_lost.swap(false, Ordering::AcqRel) {
            self.tell();
        }
    }

    /// What was wrong with an attempt to reach it.
    pub(crate) fn note(&self, why: String) {
        *lock(&self.last_error) = Some(why);
    }

    /// What was wrong last.
    pub(crate) fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }

    fn tell(&self) {
        self.path_changes.fetch_add(1, Ordering::AcqRel);
        self.listeners.wake();
    }

    /// A queue that nobody has.
    pub(crate) fn take_index(&self) -> Option<u16> {
        let mut taken = lock(&self.taken);
        let free = (0..self.queues).find(|index| !taken.contains(index))?;
        taken.insert(free);
        Some(free)
    }

    /// The memory of a queue that nobody has, as fresh memory.
    pub(crate) fn vring(&self, index: u16) -> std::io::Result<VringParts> {
        let mut vrings = lock(&self.vrings);
        if let Some(parts) = vrings.get(&index) {
            parts.clear();
            return parts.with_own_events();
        }
        let parts = VringParts::new(index, self.layout)?;
        vrings.insert(index, parts.clone());
        Ok(parts)
    }

    /// The device has let go of a queue.
    pub(crate) fn give_back(&self, index: u16) {
        lock(&self.taken).remove(&index);
    }
}

fn limits(session: &Session, block: u32) -> Limits {
    let (bits, config) = (session.features, &session.config);
    let most = |sectors: u32| u64::from(sectors) * SECTOR / u64::from(block);
    let discard = bits.has(FeatureBits::DISCARD).then(|| most(config.max_discard_sectors.get()));
    let zeroes = bits.has(FeatureBits::WRITE_ZEROES).then(|| most(config.max_zeroes_sectors.get()));
    // QEMU's device offers the field, and says 0 there for no limit.
    let longest = Some(config.size_max.get()).filter(|most| bits.has(FeatureBits::SIZE_MAX) && *most > 0);
    let longest = longest.unwrap_or(LARGEST);
    Limits {
        max_transfer: longest.clamp(block, LARGEST) / block * block,
        depth: u32::from(DEPTH),
        discard_granularity: (config.discard_alignment.get() / (block / 512)).max(1),
        max_discard: discard.into_iter().chain(zeroes).min().unwrap_or(u64::MAX).max(1),
        ..Limits::default()
    }
}

/// A discard may do nothing, as VIRTIO promises no zeros for it.
fn features(bits: FeatureBits) -> Features {
    let has = |bit, feature| if bits.has(bit) { feature } else { Features::empty() };
    has(FeatureBits::FLUSH, Features::VOLATILE_CACHE)
        | has(FeatureBits::WRITE_ZEROES, Features::WRITE_ZEROES)
        | has(FeatureBits::READ_ONLY, Features::READ_ONLY)
}
