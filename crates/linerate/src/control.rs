//! What a caller keeps in hand of a job that runs: how far it is, and the wish that it stop.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use crate::limits;

/// Asks a job to stop, from any thread. Clones are handles to the same wish.
#[derive(Clone, Default)]
pub struct Stop(Arc<Wish>);

#[derive(Default)]
struct Wish {
    set: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Stop {
    /// Nobody has asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks. The job finishes what is under way, flushes, and says how far it came.
    pub fn set(&self) {
        self.0.set.store(true, Ordering::SeqCst);
        if let Some(waker) = &*self.0.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake_by_ref();
        }
    }

    /// True once somebody has asked.
    pub fn is_set(&self) -> bool {
        self.0.set.load(Ordering::SeqCst)
    }

    /// Wakes `waker` when somebody asks.
    pub(crate) fn listen(&self, waker: &Waker) {
        *self.0.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&self.is_set()).finish()
    }
}

/// Hears of bytes done, and of bytes in all if that is known.
pub type Meter = Arc<dyn Fn(u64, Option<u64>) + Send + Sync>;

/// What a caller keeps in hand of a job.
#[derive(Clone)]
pub struct Control {
    /// Hears how far it is, on the calling thread.
    pub meter: Meter,
    /// Asks it to stop.
    pub stop: Stop,
}

impl Default for Control {
    /// Nobody listens, and nobody asks.
    fn default() -> Self {
        Self { meter: Arc::new(|_, _| {}), stop: Stop::new() }
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("stop", &self.stop).finish_non_exhaustive()
    }
}

/// How much of a job goes on side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Connections to each volume, at least 1.
    pub connections: usize,
    /// Chunks of up to 1 MiB under way at a time, from 1 to [`MOST_CHUNKS`](Effort::MOST_CHUNKS).
    pub chunks: usize,
}

impl Effort {
    /// The most chunks at a time: memory is four times as much at worst.
    pub const MOST_CHUNKS: usize = limits::MOST_CHUNKS;
    /// The most connections to a volume.
    pub const MOST_CONNECTIONS: usize = limits::MOST_CONNECTIONS;
}

impl Default for Effort {
    fn default() -> Self {
        Self { connections: 1, chunks: limits::CHUNKS }
    }
}
