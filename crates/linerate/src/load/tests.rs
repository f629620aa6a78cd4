//! What a load asks of its volumes, however many there are.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use volume::{Features, Geometry, Limits, Null, Outcome, QueueContext, QueueFull};

use super::*;

const LANES: usize = 1000;

thread_local! {
    /// Queues that were polled on this thread, and those with an answer to give.
    static POLLS: Cell<usize> = const { Cell::new(0) };
    static WAITING: RefCell<VecDeque<(usize, Waker)>> = RefCell::default();
    /// The volumes that were asked, by their numbers, in this order.
    static ASKED: RefCell<Vec<usize>> = RefCell::default();
}

/// A volume with a number, whose answers are there only once the test has woken its queue.
#[derive(Debug)]
struct Patient(Null, usize);

fn patient(number: usize) -> Arc<dyn Volume> {
    Arc::new(Patient(Null::new(1 << 20, 512).unwrap(), number))
}

/// Wakes a queue that was asked: the first, or the first of that volume.
fn wake(number: Option<usize>) {
    let (_, waker) = WAITING.with_borrow_mut(|waiting| {
        let at = waiting.iter().position(|(of, _)| number.is_none_or(|number| number == *of));
        waiting.remove(at.unwrap()).unwrap()
    });
    waker.wake();
}

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
    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let waker = context.waker.clone();
        Ok(Box::new(PatientQueue { number: self.1, waker, taken: Vec::new(), was_polled: false }))
    }
}

struct PatientQueue {
    number: usize,
    waker: Waker,
    taken: Vec<Tag>,
    /// It was polled in vain, so that it has to wake somebody.
    was_polled: bool,
}

impl VolumeQueue for PatientQueue {
    fn submit(&mut self, _: Instant, request: Request) -> Result<(), QueueFull> {
        self.taken.push(request.tag);
        self.was_polled = false;
        WAITING.with_borrow_mut(|waiting| waiting.push_back((self.number, self.waker.clone())));
        ASKED.with_borrow_mut(|asked| asked.push(self.number));
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

/// Nobody listens, and nobody asks it to stop.
fn control() -> LoadControl {
    LoadControl { progress: Arc::new(|_, _| {}), stop: Stop::new() }
}

#[test]
fn a_thousand_quiet_volumes_are_not_asked_in_every_turn() {
    let volumes: Vec<_> = (0..LANES).map(patient).collect();
    let plan = LoadPlan { block: 512, depth: 4, ..LoadPlan::default() };
    let mut load = Load::new(&volumes, plan, control(), Waker::noop()).unwrap();
    let mut now = Instant::ZERO;
    assert!(load.poll(now).is_none());
    let at_first = POLLS.take();
    for _ in 0..LANES {
        wake(None);
        now = now + Duration::from_micros(1);
        assert!(load.poll(now).is_none());
    }
    assert!(at_first >= LANES, "each may have something to do at the beginning");
    // The one that answered, once more because it did, and the one that was given the next request.
    assert_eq!(POLLS.get(), 3 * LANES);
    assert_eq!(load.counter.result.completed(), LANES as u64);
}

/// A closed loop over two volumes, of which only the first answers, this many times: whom it asked.
fn asked(depth: usize, answers: usize) -> Vec<usize> {
    let volumes = [patient(0), patient(1)];
    let plan = LoadPlan { block: 512, depth, ..LoadPlan::default() };
    let mut load = Load::new(&volumes, plan, control(), Waker::noop()).unwrap();
    let mut now = Instant::ZERO;
    assert!(load.poll(now).is_none());
    for _ in 0..answers {
        wake(Some(0));
        now = now + Duration::from_micros(1);
        assert!(load.poll(now).is_none());
    }
    WAITING.take();
    ASKED.take()
}

#[test]
fn a_closed_loop_asks_again_whoever_has_answered() {
    let asked = asked(6, 2);
    assert_eq!(asked.iter().filter(|number| **number == 1).count(), 3, "{asked:?}");
    assert!(asked.len() > 6 && asked[6..].iter().all(|number| *number == 0), "{asked:?}");
}

#[test]
fn a_closed_loop_of_fewer_requests_than_volumes_asks_each_in_turn() {
    assert_eq!(asked(1, 1), [0, 1]);
}

#[test]
fn a_deep_load_begins_part_by_part() {
    let plan = LoadPlan { block: 512, depth: 5000, ..LoadPlan::default() };
    let mut load = Load::new(&[patient(0)], plan, control(), Waker::noop()).unwrap();
    for under_way in [2048, 4096, 5000, 5000] {
        assert!(load.poll(Instant::ZERO).is_none());
        assert_eq!(ASKED.with_borrow(Vec::len), under_way);
        let goes_on = load.poll_timeout() == Some(Instant::ZERO);
        assert_eq!(goes_on, under_way < 5000, "{under_way}");
    }
}

/// A volume that never answers, whatever becomes of its connection, does not keep a load for ever.
#[test]
fn a_load_whose_requests_are_never_answered_ends_with_an_error() {
    let plan = LoadPlan { block: 512, depth: 3, runtime: Duration::from_secs(2), ..LoadPlan::default() };
    let mut load = Load::new(&[patient(0)], plan, control(), Waker::noop()).unwrap();
    let (mut now, mut steps) = (Instant::ZERO, 0);
    let result = loop {
        if let Some(result) = load.poll(now) {
            break result;
        }
        now = load.poll_timeout().unwrap().max(now + Duration::from_millis(1));
        steps += 1;
        assert!(steps < 1000, "it goes on at {now:?}");
    };
    assert!(now <= Instant::ZERO + plan.ramp + plan.runtime + UNANSWERED + Duration::from_secs(1));
    assert_eq!((result.end, result.errors, result.completed()), (LoadEnd::Error, 3, 0));
}

#[test]
fn a_load_has_limits() {
    let refusal = |plan: LoadPlan| plan.check().unwrap_err().to_string();
    assert!(refusal(LoadPlan { depth: MOST_DEPTH + 1, ..LoadPlan::default() }).contains("queue depth"));
    let vast = LoadPlan { depth: MOST_DEPTH, block: 1 << 20, ..LoadPlan::default() };
    assert!(refusal(vast).contains("under way"));
}

/// A volume in memory that answers reads with zeros while more than one request is under way: under load only.
#[derive(Debug)]
struct ForgetfulUnderLoad(Arc<dyn Volume>);

impl Volume for ForgetfulUnderLoad {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn limits(&self) -> Limits {
        self.0.limits()
    }
    fn features(&self) -> Features {
        self.0.features()
    }
    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        Ok(Box::new(ForgetfulQueue { queue: self.0.open_queue(context)?, under_way: 0 }))
    }
}

struct ForgetfulQueue {
    queue: Box<dyn VolumeQueue>,
    under_way: usize,
}

impl VolumeQueue for ForgetfulQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        self.under_way += 1;
        self.queue.submit(now, request)
    }
    fn cancel(&mut self, _: Tag) {}
    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        let before = done.len();
        self.queue.poll(now, done);
        let loaded = self.under_way > 1;
        self.under_way -= done.len() - before;
        for completion in done.iter_mut().skip(before).filter(|_| loaded) {
            if let Ok(Outcome::Data(data)) = &mut completion.result {
                *data = BufList::from(SharedBuf::from(vec![0; data.len()]));
            }
        }
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.queue.poll_timeout()
    }
}

/// Two seconds of a verifying load at a depth, on a clock of the test's own.
fn verified(volume: Arc<dyn Volume>, depth: usize) -> LoadResult {
    let rate = (depth == 0).then_some(1);
    let plan = LoadPlan {
        block: 512,
        depth: depth.max(1),
        runtime: Duration::from_secs(2),
        verify: true,
        rate,
        ..LoadPlan::default()
    };
    let mut load = Load::new(&[volume], plan, control(), Waker::noop()).unwrap();
    let mut now = Instant::ZERO;
    loop {
        if let Some(result) = load.poll(now) {
            return result;
        }
        now = now + Duration::from_millis(1);
    }
}

#[test]
fn a_volume_that_loses_data_only_under_load_is_found() {
    let memory = || -> Arc<dyn Volume> { Arc::new(volume::Ram::new(1 << 20, 512).unwrap()) };
    let sound = verified(memory(), 8);
    assert_eq!((sound.wrong, sound.errors), (None, 0));
    assert!((8..=11).contains(&sound.verified), "{}", sound.verified);
    let idle = verified(Arc::new(ForgetfulUnderLoad(memory())), 0);
    assert!(idle.wrong.is_none() && idle.verified > 7, "{idle:?}");
    let lost = verified(Arc::new(ForgetfulUnderLoad(memory())), 8);
    let wrong = lost.wrong.unwrap();
    assert!(wrong.reads > 7 && wrong.volume == 0, "{wrong:?}");
    assert!(wrong.at >= (1 << 20) - VERIFY_BYTES, "{wrong:?}");
}

#[test]
fn a_load_leaves_what_is_verified_alone_and_tells_where_it_went() {
    let volume: Arc<dyn Volume> = Arc::new(volume::Ram::new(1 << 20, 512).unwrap());
    let result = verified(volume, 8);
    let [spread] = result.spread.as_slice() else { panic!("{:?}", result.spread) };
    assert_eq!(spread.bytes, (1 << 20) - VERIFY_BYTES);
    assert_eq!(spread.ios.iter().sum::<u64>(), result.completed());
    assert!(spread.ios.iter().all(|count| *count > 0), "{spread:?}");
}
