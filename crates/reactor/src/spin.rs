//! Whether a core spins before it sleeps: it does while that pays.

use std::time::Duration;

use crate::driver::Woken;
use crate::limits::SPIN_PENALTY;

/// Decides before each sleep whether the core spins first, by what earlier spins have brought.
#[derive(Debug)]
pub(crate) struct Spin {
    span: Duration,
    misses: u32,
    penalty: u32,
}

impl Spin {
    /// A core that spins for `span` before it sleeps.
    pub(crate) fn new(span: Duration) -> Self {
        Self { span, misses: 0, penalty: 0 }
    }

    /// How long the core may spin before its next sleep.
    pub(crate) fn allowed(&self) -> Duration {
        if self.penalty == 0 { self.span } else { Duration::ZERO }
    }

    /// Each spin in vain doubles the number of sleeps that follow without one.
    pub(crate) fn learn(&mut self, woken: Woken, span: Duration) {
        match woken {
            Woken::SpunInVain => {
                self.misses = (self.misses + 1).min(SPIN_PENALTY.ilog2());
                self.penalty = 2_u32.pow(self.misses);
            }
            Woken::Slept => self.penalty = self.penalty.saturating_sub(1),
            Woken::Awake if !span.is_zero() => self.misses = 0,
            Woken::Awake => {}
        }
    }
}
