//! What a load asks of its volumes, however many there are.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use volume::{Features, Geometry, Limits, Null, Outcome, QueueFull};

use super::*;

const LANES: usize = 1000;

thread_local! {
    /// Queues that were polled on this thread, and those with an answer to give.
    static POLLS: Cell<usize> = const { Cell::new(0) };
    static WAITING: RefCell<VecDeque<Waker>> = RefCell::default();
}

/// A volume whose answers are there only once the test has woken its queue.
#[derive(Debug)]
struct Patient(Null);

impl Volume for Patient {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn limits(&self) -> Limits {
        self.0.limits()
    }
    fn features(&self) -> Features {
        self.0.features()
    }
    fn open_queue(&self, _: CoreId, waker: Waker) -> Result<Box<dyn VolumeQueue>, OpenError> {
        Ok(Box::new(PatientQueue { waker, taken: Vec::new(), was_polled: false }))
    }
}

struct PatientQueue {
    waker: Waker,
    taken: Vec<Tag>,
    /// It was polled in vain, so that it has to wake somebody.
    was_polled: bool,
}

impl VolumeQueue for PatientQueue {
    fn submit(&mut self, _: Instant, request: Request) -> Result<(), QueueFull> {
        self.taken.push(request.tag);
        self.was_polled = false;
        WAITING.with(|waiting| waiting.borrow_mut().push_back(self.waker.clone()));
        Ok(())
    }
    fn cancel(&mut self, _: Tag) {}
    fn poll(&mut self, _: Instant, done: &mut Vec<Completion>) {
        POLLS.set(POLLS.get() + 1);
        if std::mem::replace(&mut self.was_polled, !self.taken.is_empty()) {
            done.extend(self.taken.drain(..).map(|tag| Completion { tag, result: Ok(Outcome::Done) }));
        }
    }
}

#[test]
fn a_thousand_quiet_volumes_are_not_asked_in_every_turn() {
    let volumes: Vec<Arc<dyn Volume>> =
        (0..LANES).map(|_| Arc::new(Patient(Null::new(1 << 20, 512).unwrap())) as Arc<dyn Volume>).collect();
    let plan = LoadPlan { block: 512, depth: 4, ..LoadPlan::default() };
    let mut load = Load::new(&volumes, plan, Waker::noop(), Arc::new(|_, _| {})).unwrap();
    let mut now = Instant::ZERO;
    assert!(load.poll(now).is_none());
    let at_first = POLLS.take();
    for _ in 0..LANES {
        let waker = WAITING.with(|waiting| waiting.borrow_mut().pop_front()).unwrap();
        waker.wake();
        now = now + Duration::from_micros(1);
        assert!(load.poll(now).is_none());
    }
    assert!(at_first >= LANES, "each may have something to do at the beginning");
    // The one that answered, once more because it did, and the one that was given the next request.
    assert_eq!(POLLS.get(), 3 * LANES);
    assert_eq!(load.counter.result.completed(), LANES as u64);
}
