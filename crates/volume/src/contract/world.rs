//! Time and waiting, as whoever drives a queue sees them.

use std::fmt;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use protocol::Instant;

/// The clock of one thread, and how it waits. A test that must turn an event loop to make progress does so in
/// [`idle`](Self::idle).
pub trait World {
    /// The time now.
    fn now(&mut self) -> Instant;
    /// Waits a moment: until the waker was woken, `deadline` has come, or a short while has passed.
    fn idle(&mut self, deadline: Option<Instant>);
    /// What a queue wakes when it has something.
    fn waker(&self) -> Waker;
}

/// How long a thread waits at most before it looks again.
const NAP: Duration = Duration::from_millis(1);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn this_thread() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

/// A clock that jumps to the next deadline.
pub struct FakeWorld {
    now: Instant,
    waker: Waker,
    fruitless: u32,
}

/// Rounds without a deadline after which a fake world lets other threads have the processor.
const FRUITLESS: u32 = 16;

impl FakeWorld {
    /// The world of the calling thread, at the beginning of time.
    pub fn new() -> Self {
        Self { now: Instant::ZERO, waker: this_thread(), fruitless: 0 }
    }
}

impl Default for FakeWorld {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FakeWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeWorld").field("now", &self.now).finish_non_exhaustive()
    }
}

impl World for FakeWorld {
    fn now(&mut self) -> Instant {
        self.now
    }

    fn idle(&mut self, deadline: Option<Instant>) {
        if let Some(deadline) = deadline.filter(|deadline| *deadline > self.now) {
            self.now = deadline;
            self.fruitless = 0;
            return;
        }
        self.now = self.now + NAP;
        self.fruitless += 1;
        if self.fruitless > FRUITLESS {
            thread::park_timeout(NAP);
        }
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

/// The system's clock; waiting is waiting.
pub struct RealWorld {
    start: std::time::Instant,
    waker: Waker,
}

impl RealWorld {
    /// The world of the calling thread.
    pub fn new() -> Self {
        Self { start: std::time::Instant::now(), waker: this_thread() }
    }
}

impl Default for RealWorld {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RealWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealWorld").field("start", &self.start).finish_non_exhaustive()
    }
}

impl World for RealWorld {
    fn now(&mut self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    fn idle(&mut self, deadline: Option<Instant>) {
        let until = deadline.map_or(NAP, |deadline| deadline.since(self.now()));
        thread::park_timeout(until.min(NAP));
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}
