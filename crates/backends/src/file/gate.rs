//! Keeps a compare-and-write alone on its volume, across cores, at next to no cost while there is none.
//!
//! Every queue counts its own requests under way in a cell that only it writes. A compare-and-write closes the gate,
//! waits until all counts are zero, and opens the gate when it is done; meanwhile queues hold new requests back. An
//! ordinary request pays one load; a full fence is needed only when a queue goes from idle to busy or back: a
//! queue that is busy is seen by whoever closes the gate, and drains before anything happens.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The gate of one volume.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// The member that has closed the gate; zero when it is open.
    closed_by: AtomicU64,
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    list: Vec<Arc<Cell>>,
    last: u64,
}

/// What a queue shows to the others, on a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Cell {
    name: u64,
    under_way: AtomicU32,
    waker: Waker,
}

/// A queue's place at the gate. Dropping it leaves, and opens the gate if this queue had closed it.
#[derive(Debug)]
pub(super) struct Pass {
    gate: Arc<Gate>,
    cell: Arc<Cell>,
}

impl Gate {
    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_all(&self) {
        self.members().list.iter().for_each(|cell| cell.waker.wake_by_ref());
    }
}

impl Pass {
    /// Joins a gate; `waker` is woken when it may be worth trying again.
    pub(super) fn new(gate: &Arc<Gate>, waker: Waker) -> Self {
        let mut members = gate.members();
        members.last += 1;
        let cell = Arc::new(Cell { name: members.last, under_way: AtomicU32::new(0), waker });
        members.list.push(Arc::clone(&cell));
        drop(members);
        Self { gate: Arc::clone(gate), cell }
    }

    /// Counts an ordinary request in, unless the gate is closed.
    pub(super) fn enter(&self) -> bool {
        if self.gate.closed_by.load(Ordering::Relaxed) != 0 {
            return false;
        }
        let before = self.cell.under_way.load(Ordering::Relaxed);
        self.cell.under_way.store(before + 1, Ordering::Relaxed);
        if before > 0 {
            return true;
        }
        fence(Ordering::SeqCst);
        if self.gate.closed_by.load(Ordering::Relaxed) == 0 {
            return true;
        }
        self.leave();
        false
    }

    /// Counts an ordinary request out.
    pub(super) fn leave(&self) {
        let before = self.cell.under_way.load(Ordering::Relaxed);
        self.cell.under_way.store(before.saturating_sub(1), Ordering::Release);
        if before > 1 {
            return;
        }
        fence(Ordering::SeqCst);
        let closed_by = self.gate.closed_by.load(Ordering::Relaxed);
        if closed_by != 0 {
            let members = self.gate.members();
            members
                .list
                .iter()
                .filter(|cell| cell.name == closed_by)
                .for_each(|cell| cell.waker.wake_by_ref());
        }
    }

    /// Closes the gate for this queue, unless another has.
    pub(super) fn close(&self) -> bool {
        let closed =
            self.gate.closed_by.compare_exchange(0, self.cell.name, Ordering::SeqCst, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        closed.is_ok()
    }

    /// True once nothing is under way behind the closed gate.
    pub(super) fn is_quiet(&self) -> bool {
        self.gate.members().list.iter().all(|cell| cell.under_way.load(Ordering::Acquire) == 0)
    }

    /// Opens the gate that this queue has closed, and lets all others try again.
    pub(super) fn open(&self) {
        let opened =
            self.gate.closed_by.compare_exchange(self.cell.name, 0, Ordering::SeqCst, Ordering::Relaxed);
        if opened.is_ok() {
            self.gate.wake_all();
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.members().list.retain(|cell| cell.name != self.cell.name);
        self.open();
        // Somebody may have waited for the requests that went with this queue.
        if self.gate.closed_by.load(Ordering::SeqCst) != 0 {
            self.gate.wake_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_gate_waits_for_who_is_inside_and_holds_back_who_is_not() {
        let gate = Arc::new(Gate::default());
        let (one, two) = (Pass::new(&gate, Waker::noop().clone()), Pass::new(&gate, Waker::noop().clone()));
        assert!(one.enter() && one.enter());
        assert!(two.close() && !one.close() && !two.is_quiet());
        assert!(!one.enter() && !two.enter());
        one.leave();
        assert!(!two.is_quiet());
        one.leave();
        assert!(two.is_quiet());
        one.open();
        assert!(!one.enter(), "only who closed the gate opens it");
        two.open();
        assert!(one.enter());
    }

    #[test]
    fn a_queue_that_goes_opens_the_gate() {
        let gate = Arc::new(Gate::default());
        let (one, two) = (Pass::new(&gate, Waker::noop().clone()), Pass::new(&gate, Waker::noop().clone()));
        assert!(one.close());
        drop(one);
        assert!(two.enter());
    }

    #[test]
    fn nobody_is_inside_while_somebody_is_alone() {
        let gate = Arc::new(Gate::default());
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for number in 0..4 {
                let pass = Pass::new(&gate, Waker::noop().clone());
                let inside = &inside;
                scope.spawn(move || {
                    for round in 0..20_000 {
                        if (round + number) % 7 == 0 && pass.close() {
                            while !pass.is_quiet() {
                                std::thread::yield_now();
                            }
                            assert_eq!(inside.load(Ordering::SeqCst), 0);
                            pass.open();
                        } else if pass.enter() {
                            inside.fetch_add(1, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            pass.leave();
                        }
                    }
                });
            }
        });
    }
}
