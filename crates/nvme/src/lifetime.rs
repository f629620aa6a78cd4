//! Until when a controller lives (NVMe Base §3.9): known to all of its connections, on whatever core.
//!
//! The keep alive timer belongs to the admin connection. But a process that was stopped for a while, and goes on, finds
//! bytes in its sockets before any timer has been looked at. The host may have given the controller up meanwhile, and
//! have sent its commands again elsewhere: the old ones must not be carried out any more, whichever queue they are on. So
//! every connection looks here before it takes bytes.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use protocol::Instant;

/// The end of a controller's life, unless its host is heard of again.
#[derive(Debug, Clone)]
pub struct Lifetime(Arc<AtomicU64>);

impl Lifetime {
    /// A life without an end.
    pub fn new() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }

    /// It ends then, or never.
    pub fn set_end(&self, end: Option<Instant>) {
        self.0.store(end.map_or(u64::MAX, Instant::as_nanos), Ordering::Release);
    }

    /// When it ends, or never.
    pub fn end(&self) -> Option<Instant> {
        let end = self.0.load(Ordering::Acquire);
        (end != u64::MAX).then(|| Instant::from_nanos(end))
    }

    /// True once it has ended.
    pub fn is_over(&self, now: Instant) -> bool {
        self.0.load(Ordering::Acquire) <= now.as_nanos()
    }
}

impl Default for Lifetime {
    fn default() -> Self {
        Self::new()
    }
}

/// Two are the same if what ends one ends the other.
impl PartialEq for Lifetime {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Lifetime {}
