//! Load on volumes: a closed loop keeps a fixed number of requests under way, an open loop starts them at a fixed rate.

mod pace;
mod plan;
mod spread;
mod tally;
#[cfg(test)]
mod tests;
mod verifier;

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use buf::{BufList, Pool, SharedBuf};
use protocol::{Entropy, Instant, SeededEntropy};
use reactor::Turns;
use volume::{
    Completion, CoreId, Durability, Extent, OpenError, Operation, PollList, Polled, QueueContext, Request,
    Tag, Volume, VolumeErrorKind, VolumeQueue,
};

use crate::control::Stop;
use crate::job::Job;
use crate::last_error::LastError;
use crate::memory::pool_for;
use pace::Pace;
pub use plan::{LoadPlan, MOST_DEPTH, Pattern};
pub use spread::{SPREAD_PARTS, Spread};
use tally::Counter;
pub use tally::{LoadEnd, LoadError, LoadInterval, LoadResult, Tally};
use verifier::{Ask, Finding, Verifier};
pub use verifier::{VERIFY_BYTES, WrongData};

/// Bytes of the requests that one turn starts, about: as many as a turn of the reactor moves at most. A deep load would else begin with one long turn.
const TURN_BUDGET: usize = 1 << 20;
/// How long an open loop that fell behind may go on after its end, to count what was due before it.
const CATCH_UP: Duration = Duration::from_secs(10);

/// How long a load waits after its end for requests that are not answered: longer than an initiator or a host takes to give one up, and the connection behind it. A
/// volume that comes back and asks again could do so for ever.
const UNANSWERED: Duration = Duration::from_mins(1);

/// Hears of the time since the start and the completed requests about once a second.
pub type Progress = Arc<dyn Fn(Duration, u64) + Send + Sync>;

/// What a caller keeps in hand of a load.
pub(crate) struct LoadControl {
    /// Hears how far it is.
    pub(crate) progress: Progress,
    /// Asks it to stop.
    pub(crate) stop: Stop,
}

/// A load under way.
pub(crate) struct Load {
    plan: LoadPlan,
    volumes: Vec<LoadedVolume>,
    next_volume: usize,
    /// Which volumes have something to say, so that a thousand quiet ones cost nothing.
    polls: PollList,
    wanted: Vec<usize>,
    pool: Pool,
    data: SharedBuf,
    dice: SeededEntropy,
    slots: Vec<Slot>,
    free: Vec<usize>,
    done: Vec<Completion>,
    clock: Option<Clock>,
    counter: Counter,
    stop: Stop,
    progress: Progress,
    next_progress: Instant,
    /// No volume took the last request: a completion comes first.
    blocked: bool,
    /// There is room for requests: a volume in memory has answered at once, or the turn had started enough.
    again: bool,
    /// Of the cores that it runs on, until what opening and the ramp took is forgotten.
    turns: Vec<Arc<Turns>>,
    /// Writes and compares beside the load, where the plan asks for it.
    verifier: Option<Verifier>,
    /// Volumes that prefer memory of their own.
    sharing: Vec<Arc<dyn Volume>>,
}

/// A volume and where its next request goes.
struct LoadedVolume {
    queue: Box<dyn VolumeQueue>,
    block_size: u64,
    offsets: Offsets,
    spread: Spread,
}

/// A request under way.
#[derive(Debug, Clone, Copy)]
struct Slot {
    counts_from: Instant,
    is_read: bool,
    /// Which volume was asked.
    volume: usize,
    /// Its first block.
    start: u64,
}

/// When things begin and end.
#[derive(Debug)]
struct Clock {
    counted_from: Instant,
    end: Instant,
    pace: Pace,
    over: bool,
    /// When it stops waiting for answers, once it is over.
    answer_deadline: Option<Instant>,
}

impl Clock {
    /// The moment from which the next request counts, if it is due.
    fn due(&self, now: Instant) -> Option<Instant> {
        self.pace.due(now).filter(|due| *due < self.end)
    }
}

impl Load {
    /// Opens a queue on each volume for the calling core.
    pub(crate) fn new(
        volumes: &[Arc<dyn Volume>],
        plan: LoadPlan,
        LoadControl { progress, stop }: LoadControl,
        waker: &Waker,
    ) -> Result<Self, OpenError> {
        plan.check()?;
        stop.listen(waker);
        let mut dice = SeededEntropy::new(plan.seed);
        let mut bytes = vec![0; plan.block];
        dice.fill(&mut bytes);
        let polls = PollList::new(volumes.len(), waker.clone());
        let geometries: Vec<_> = volumes.iter().map(|volume| volume.geometry()).collect();
        let loaded: Result<Vec<LoadedVolume>, OpenError> = (volumes.iter().enumerate())
            .map(|(index, volume)| LoadedVolume::open(volume.as_ref(), &plan, polls.waker(index)))
            .collect();
        let room = (plan.depth + 2) * plan.block.next_power_of_two().max(4096) * 2 + verified_memory(&plan);
        let pool = pool_for(volumes.iter().map(|volume| &**volume), room);
        Ok(Self {
            plan,
            volumes: loaded?,
            next_volume: 0,
            polls,
            wanted: Vec::with_capacity(volumes.len()),
            data: data_of(&pool, bytes),
            pool,
            dice,
            slots: vec![Slot { counts_from: Instant::ZERO, is_read: true, volume: 0, start: 0 }; plan.depth],
            free: (0..plan.depth).collect(),
            done: Vec::with_capacity(plan.depth),
            clock: None,
            counter: Counter::new()?,
            stop,
            progress,
            next_progress: Instant::ZERO,
            blocked: false,
            again: false,
            turns: Vec::new(),
            sharing: volumes.iter().filter(|volume| volume.copied().is_some()).cloned().collect(),
            verifier: plan.verify.then(|| Verifier::new(&geometries, plan.seed)),
        })
    }

    /// Lets these cores' turns count from the first on that comes after the ramp.
    pub(crate) fn on(self, turns: Vec<Arc<Turns>>) -> Self {
        Self { turns, ..self }
    }

    /// Starts what is due and has room; true when it stopped because that was enough for a turn.
    fn fill(&mut self, now: Instant) -> bool {
        let mut started = 0;
        while let Some(counts_from) = self.clock.as_ref().and_then(|clock| clock.due(now)) {
            if started >= TURN_BUDGET {
                return !self.free.is_empty();
            }
            let Some(slot) = self.free.pop() else { return false };
            let is_read = self.next_is_read();
            let asked = self.start(now, slot, is_read);
            self.blocked = asked.is_none();
            let Some((volume, start)) = asked else {
                self.free.push(slot);
                return false;
            };
            started += self.plan.block;
            self.slots[slot] = Slot { counts_from, is_read, volume, start };
            if let Some(clock) = &mut self.clock {
                clock.pace.advance();
            }
        }
        false
    }

    fn next_is_read(&mut self) -> bool {
        match self.plan.pattern.read_percent(self.plan.read_percent) {
            0 => false,
            100 => true,
            share => self.dice.number() % 100 < u64::from(share),
        }
    }

    /// The volume that a request is meant for. In a closed loop that is deep enough each volume keeps its share of the depth,
    /// as clients of their own would: requests that ended together are followed together. Else each is asked in turn.
    fn volume_of(&mut self, slot: usize) -> usize {
        let volumes = self.volumes.len();
        if self.plan.rate.is_none() && self.plan.depth >= volumes {
            return slot % volumes;
        }
        let volume = self.next_volume;
        self.next_volume = (volume + 1) % volumes;
        volume
    }

    /// Submits a request to the volume it is meant for, or to the next that takes it: which one, and at which block. `None` when
    /// no volume takes it.
    fn start(&mut self, now: Instant, slot: usize, is_read: bool) -> Option<(usize, u64)> {
        let first = self.volume_of(slot);
        for step in 0..self.volumes.len() {
            let volume = (first + step) % self.volumes.len();
            let extent = self.volumes[volume].offsets.peek(self.plan.pattern.random(), &mut self.dice);
            let operation = if is_read {
                let into = self.pool.take(self.plan.block)?;
                Operation::Read { extent, into }
            } else {
                let data = BufList::from(self.data.clone());
                Operation::Write { extent, data, durability: Durability::Cached }
            };
            let request = Request { tag: Tag(slot as u64), operation };
            if let Ok(()) = self.volumes[volume].queue.submit(now, request) {
                self.volumes[volume].offsets.advance();
                self.polls.mark(volume);
                return Some((volume, extent.start));
            }
        }
        None
    }

    /// Takes completions. In a closed loop those that come after the end are not counted: they would add time but no load.
    fn reap(&mut self, now: Instant, over: bool) {
        let counted = self.clock.as_ref().is_some_and(|clock| now >= clock.counted_from)
            && !(over && self.plan.rate.is_none());
        self.polls.take(now, &mut self.wanted);
        for volume in self.wanted.drain(..) {
            let (queue, before) = (&mut self.volumes[volume].queue, self.done.len());
            queue.poll(now, &mut self.done);
            let may_have_more = self.done.len() > before;
            self.polls.handle_polled(volume, Polled { may_have_more, timeout: queue.poll_timeout() });
        }
        let mut done = std::mem::take(&mut self.done);
        for completion in done.drain(..) {
            self.complete(now, &completion, counted);
        }
        self.done = done;
    }

    fn complete(&mut self, now: Instant, completion: &Completion, counted: bool) {
        let Ok(index) = usize::try_from(completion.tag.0) else { return };
        if index == self.plan.depth {
            return self.complete_verification(now, completion);
        }
        let Some(slot) = self.slots.get(index).copied() else { return };
        self.free.push(index);
        let in_window = self.clock.as_ref().is_some_and(|clock| slot.counts_from >= clock.counted_from);
        if counted && (in_window || self.plan.rate.is_none()) {
            match completion.error() {
                None => {
                    self.counter.record(slot.is_read, now.since(slot.counts_from));
                    let volume = &mut self.volumes[slot.volume];
                    volume.spread.record(slot.start * volume.block_size);
                }
                Some(kind) => self.failed(now, slot, kind),
            }
        }
    }

    /// Asks for what verifies, if it is due. Its tag is behind those of the slots.
    fn verify(&mut self, now: Instant) {
        let Some(verifier) = &mut self.verifier else { return };
        let Some(Ask { volume, operation }) = verifier.next(now, &self.pool) else { return };
        let request = Request { tag: Tag(self.plan.depth as u64), operation };
        if let Ok(()) = self.volumes[volume].queue.submit(now, request) {
            verifier.handle_taken(now);
            self.polls.mark(volume);
        } else {
            verifier.handle_refused(now);
        }
    }

    /// The request under way that verifies, as one of the load's own.
    fn verifying_slot(&self, now: Instant) -> Option<Slot> {
        let verifier = self.verifier.as_ref().filter(|verifier| verifier.is_under_way())?;
        let WrongData { volume, at, .. } = verifier.target()?;
        let start = at / self.volumes.get(volume)?.block_size;
        Some(Slot { counts_from: now, is_read: !verifier.is_writing(), volume, start })
    }

    fn complete_verification(&mut self, now: Instant, completion: &Completion) {
        let asked = self.verifying_slot(now);
        let Some(verifier) = &mut self.verifier else { return };
        let finding = verifier.complete(completion);
        let result = &mut self.counter.result;
        match (finding, completion.error()) {
            (Some(Finding::Same), _) => result.verified += 1,
            (Some(Finding::Differs { volume, at }), _) => match &mut result.wrong {
                Some(wrong) => wrong.reads += 1,
                None => result.wrong = Some(WrongData { volume, at, reads: 1 }),
            },
            (None, Some(kind)) => {
                if let Some(slot) = asked {
                    self.failed(now, slot, kind);
                }
            }
            (None, None) => {}
        }
    }

    /// Counts a failure, which ends a load that is not to go on after one.
    fn failed(&mut self, now: Instant, slot: Slot, kind: VolumeErrorKind) {
        self.count_failure(slot, kind);
        if !self.plan.continue_on_error {
            self.end(now, LoadEnd::Error);
        }
    }

    fn count_failure(&mut self, slot: Slot, kind: VolumeErrorKind) {
        let block = self.volumes.get(slot.volume).map_or(0, |volume| volume.block_size);
        let at = slot.start.saturating_mul(block);
        let (is_read, volume) = (slot.is_read, slot.volume);
        self.counter.fail(kind, || LoadError { is_read, volume, at, kind, last_error: LastError::default() });
    }

    /// Ends the load before its time.
    fn end(&mut self, now: Instant, why: LoadEnd) {
        let Some(clock) = self.clock.as_mut().filter(|clock| !clock.over) else { return };
        clock.over = true;
        self.counter.result.end = why;
        if now >= clock.counted_from {
            self.counter.advance(now.since(clock.counted_from));
        }
    }

    fn tell(&mut self, now: Instant, elapsed: Duration) {
        if now >= self.next_progress {
            self.next_progress = now + Duration::from_secs(1);
            (self.progress)(elapsed, self.counter.result.completed());
        }
    }

    /// Whether an open loop still owes requests that were due before its end.
    fn owes(&self, now: Instant) -> bool {
        self.counter.result.end == LoadEnd::Runtime
            && self
                .clock
                .as_ref()
                .is_some_and(|clock| clock.pace.behind(clock.end) > 0 && now < clock.end + CATCH_UP)
    }

    /// Whether requests have had no answer for so long after the end that none is waited for. They count as errors.
    fn gives_up(&mut self, now: Instant) -> bool {
        let Some(clock) = &mut self.clock else { return false };
        let deadline = *clock.answer_deadline.get_or_insert(now + UNANSWERED);
        if now < deadline {
            return false;
        }
        let unanswered: Vec<Slot> = (self.slots.iter().enumerate())
            .filter(|(index, _)| !self.free.contains(index))
            .map(|(_, slot)| *slot)
            .collect();
        for slot in unanswered {
            self.count_failure(slot, VolumeErrorKind::TimedOut);
        }
        if let Some(slot) = self.verifying_slot(now) {
            self.count_failure(slot, VolumeErrorKind::TimedOut);
        }
        self.counter.result.end = LoadEnd::Error;
        true
    }

    fn is_over(&self) -> bool {
        self.clock.as_ref().is_some_and(|clock| clock.over)
    }

    fn finish(&mut self) -> LoadResult {
        if let Some(clock) = self.clock.as_ref().filter(|_| self.counter.result.end == LoadEnd::Runtime) {
            self.counter.result.missed = clock.pace.behind(clock.end);
        }
        self.counter.finish();
        self.counter.result.spread = self.volumes.iter().map(|volume| volume.spread.clone()).collect();
        let copied = self.sharing.iter().filter_map(|volume| volume.copied());
        self.counter.result.copied = copied.reduce(|all, one| all + one);
        self.counter.result.clone()
    }
}

/// What all writes write: in the pool's memory, if it has room for that.
fn data_of(pool: &Pool, bytes: Vec<u8>) -> SharedBuf {
    match pool.take(bytes.len()) {
        Some(mut data) => {
            data.copy_from_slice(&bytes);
            data.freeze()
        }
        None => SharedBuf::from(bytes),
    }
}

/// Bytes that verifying takes of the pool: one request, in a piece of a power of two.
fn verified_memory(plan: &LoadPlan) -> usize {
    if plan.verify { 2 * usize::try_from(VERIFY_BYTES).unwrap_or_default() } else { 0 }
}

impl Job for Load {
    type Output = LoadResult;

    fn poll(&mut self, now: Instant) -> Option<LoadResult> {
        let plan = self.plan;
        let clock = self.clock.get_or_insert_with(|| {
            let counted_from = now + plan.ramp;
            Clock {
                counted_from,
                end: counted_from + plan.runtime,
                pace: Pace::new(plan.rate, now),
                over: false,
                answer_deadline: None,
            }
        });
        let clock_start = clock.counted_from;
        let elapsed = now.since(clock_start);
        clock.over |= now >= clock.end;
        if self.stop.is_set() {
            self.end(now, LoadEnd::Stopped);
        }
        let over = self.is_over();
        self.reap(now, over);
        self.tell(now, elapsed);
        if !over && now >= clock_start {
            self.counter.advance(elapsed);
        }
        // A failure among what has just been taken may have ended it.
        let over = self.is_over();
        if now > clock_start {
            self.turns.drain(..).for_each(|turns| turns.forget());
        }
        if !over || self.owes(now) {
            let entered = std::time::Instant::now();
            if !over {
                self.verify(now);
            }
            let has_more = self.fill(now);
            let waiting = self.free.len();
            // What a volume in memory answered at once took the time of this very call.
            self.reap(now + entered.elapsed(), over);
            self.again = has_more || self.free.len() > waiting;
            return None;
        }
        self.again = false;
        let verifies = self.verifier.as_ref().is_some_and(Verifier::is_under_way);
        ((self.free.len() == plan.depth && !verifies) || self.gives_up(now)).then(|| self.finish())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let clock = self.clock.as_ref();
        let end = clock.filter(|clock| !clock.over).map(|clock| clock.end);
        let idle = !self.free.is_empty() && !self.blocked;
        let due = clock.filter(|_| idle).and_then(|clock| clock.pace.next().filter(|due| *due < clock.end));
        let again = self.again.then_some(Instant::ZERO);
        let deadline = clock.and_then(|clock| clock.answer_deadline);
        let running = clock.is_some_and(|clock| !clock.over);
        let verify = self.verifier.as_ref().filter(|_| running).and_then(Verifier::due);
        [verify, deadline, self.polls.poll_timeout(), end, due, again, Some(self.next_progress)]
            .into_iter()
            .flatten()
            .min()
    }

    fn expects_work(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Load").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl LoadedVolume {
    fn open(volume: &dyn Volume, plan: &LoadPlan, waker: Waker) -> Result<Self, OpenError> {
        plan.check_volume(volume)?;
        let geometry = volume.geometry();
        let blocks = (plan.block / geometry.block_size as usize) as u64;
        let used = plan.used(geometry) / u64::from(geometry.block_size);
        let offsets = Offsets { blocks, slots: used / blocks, next: 0 };
        let block_size = u64::from(geometry.block_size);
        Ok(Self {
            queue: volume.open_queue(&QueueContext::without_pool(CoreId(0), waker))?,
            block_size,
            offsets,
            spread: Spread::new(used / blocks * blocks * block_size),
        })
    }
}

/// Where a volume's next request goes.
#[derive(Debug)]
struct Offsets {
    blocks: u64,
    slots: u64,
    next: u64,
}

impl Offsets {
    fn peek(&self, random: bool, dice: &mut SeededEntropy) -> Extent {
        let slot = if random { dice.number() % self.slots } else { self.next % self.slots };
        Extent::new(slot * self.blocks, self.blocks)
    }

    fn advance(&mut self) {
        self.next += 1;
    }
}
