//! Counts the requests under way, and lets no more in once the file is being detached.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
struct State {
    inside: usize,
    closed: bool,
}

/// The gate.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    emptied: Condvar,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a request in, unless the gate is closed. The pass is dropped when the request is answered.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Pass> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        state.inside += 1;
        Some(Pass(Arc::clone(self)))
    }

    /// Lets nobody in any more, and waits for those inside, but no longer than `patience`. True when all are out.
    pub(crate) fn close(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut state = self.lock();
        state.closed = true;
        while state.inside > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.emptied.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// The right to be inside.
#[derive(Debug)]
pub(crate) struct Pass(Arc<Gate>);

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.lock().inside -= 1;
        self.0.emptied.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_gate_waits_for_those_inside() {
        let gate = Arc::new(Gate::default());
        let pass = gate.enter().unwrap();
        assert!(!gate.close(Duration::ZERO));
        assert!(gate.enter().is_none());
        std::thread::scope(|scope| {
            scope.spawn(|| drop(pass));
            assert!(gate.close(Duration::from_mins(1)));
        });
    }
}
