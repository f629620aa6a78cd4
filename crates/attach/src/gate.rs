//! Counts the requests under way and the bytes that they hold, makes those beyond a limit wait, and lets no more in once the volume is being
//! detached.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How much may be inside at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) requests: usize,
    /// Bytes of data. One request alone may hold more.
    pub(crate) bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    inside: usize,
    bytes: usize,
    /// Those that wait for others to leave.
    waiting: usize,
    closed: bool,
}

/// The gate.
#[derive(Debug)]
pub(crate) struct Gate {
    room: Room,
    state: Mutex<State>,
    left: Condvar,
}

impl Gate {
    pub(crate) fn new(room: Room) -> Self {
        Self { room, state: Mutex::default(), left: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a request in once there is room for it, unless the gate is closed. The permit is dropped when the request is answered.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Permit> {
        let mut state = self.wait_while(|state| state.inside >= self.room.requests)?;
        state.inside += 1;
        Some(Permit { gate: Arc::clone(self), bytes: 0 })
    }

    /// Waits while there is no room; `None` once the gate is closed.
    fn wait_while(&self, full: impl Fn(&State) -> bool) -> Option<MutexGuard<'_, State>> {
        let mut state = self.lock();
        while !state.closed && full(&state) {
            state.waiting += 1;
            state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        (!state.closed).then_some(state)
    }

    /// Closes the gate: no request enters.
    pub(crate) fn shut(&self) {
        self.lock().closed = true;
        self.left.notify_all();
    }

    /// Closes the gate, and waits at most `timeout` for the requests inside. True when all are out.
    pub(crate) fn close(&self, timeout: Duration) -> bool {
        self.shut();
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        while state.inside > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state.waiting += 1;
            state = self.left.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
        true
    }

    /// Requests inside, and the bytes that they hold.
    #[cfg(test)]
    pub(crate) fn inside(&self) -> (usize, usize) {
        let state = self.lock();
        (state.inside, state.bytes)
    }
}

/// The right to be inside.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Arc<Gate>,
    bytes: usize,
}

impl Permit {
    /// Counts `bytes` of data for the request once there is room for them; false once the gate is closed.
    #[must_use]
    pub(crate) fn hold(&mut self, bytes: usize) -> bool {
        let most = self.gate.room.bytes;
        let full = |state: &State| state.bytes > 0 && state.bytes.saturating_add(bytes) > most;
        let Some(mut state) = self.gate.wait_while(full) else { return false };
        state.bytes = state.bytes.saturating_add(bytes);
        self.bytes = self.bytes.saturating_add(bytes);
        true
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.inside -= 1;
        state.bytes = state.bytes.saturating_sub(self.bytes);
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.gate.left.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn gate() -> Arc<Gate> {
        Arc::new(Gate::new(Room { requests: 2, bytes: 100 }))
    }

    #[test]
    fn a_closed_gate_waits_for_those_inside() {
        let gate = gate();
        let pass = gate.enter().unwrap();
        assert!(!gate.close(Duration::ZERO));
        assert!(gate.enter().is_none());
        std::thread::scope(|scope| {
            scope.spawn(|| drop(pass));
            assert!(gate.close(Duration::from_mins(1)));
        });
    }

    /// Does `act` on a thread of its own, waits until it waits, lets `make_room` happen, and says what came of it.
    fn blocked<T: Send>(gate: &Gate, act: impl FnOnce() -> T + Send, make_room: impl FnOnce()) -> T {
        std::thread::scope(|scope| {
            let (tell, told) = channel();
            scope.spawn(move || tell.send(act()).unwrap());
            while gate.lock().waiting == 0 {
                assert!(told.try_recv().is_err(), "it did not wait");
                std::thread::yield_now();
            }
            make_room();
            told.recv().unwrap()
        })
    }

    #[test]
    fn requests_beyond_the_limit_wait_for_others_to_leave() {
        let gate = gate();
        let (one, _two) = (gate.enter().unwrap(), gate.enter().unwrap());
        let third = blocked(&gate, || gate.enter(), || drop(one));
        assert!(third.is_some());
        assert_eq!(gate.inside().0, 2);
        assert!(blocked(&gate, || gate.enter(), || gate.shut()).is_none());
    }

    #[test]
    fn bytes_beyond_the_limit_wait_and_a_request_alone_may_have_more() {
        let gate = gate();
        let (mut one, mut two) = (gate.enter().unwrap(), gate.enter().unwrap());
        assert!(one.hold(1000), "it is alone");
        assert!(blocked(&gate, || two.hold(10), || drop(one)));
        assert_eq!(gate.inside(), (1, 10));
        let mut three = gate.enter().unwrap();
        assert!(three.hold(90), "there is room");
        assert!(!blocked(&gate, || three.hold(1), || gate.shut()));
    }
}
