//! One core's queue of a mirror: its requests, its way to the legs, and its part of what is done once for all queues.

use std::sync::Arc;

use buf::{Account, Pool};
use protocol::Instant;
use volume::{
    Allocation, Completion, Operation, Outcome, QueueContext, QueueFull, Request, Tag, VolumeQueue, shape,
};

use crate::cleaner::Cleaner;
use crate::copier::{COPY_LOCK, Copier};
use crate::leaver::Leaver;
use crate::limits::{OWN_MEMORY, ROUNDS};
use crate::log_writer::LogWriter;
use crate::ports::{Ended, Owner, Ports};
use crate::prober::Prober;
use crate::recorder::Recorder;
use crate::shared::{News, Shared};
use crate::tasks::{QueueParts, Settling, Tasks};

/// See the module.
pub(crate) struct MirrorQueue {
    shared: Arc<Shared>,
    context: QueueContext,
    id: u64,
    memory: Pool,
    ports: Ports,
    tasks: Tasks,
    recorder: Recorder,
    log_writer: LogWriter,
    cleaner: Cleaner,
    copier: Copier,
    prober: Prober,
    leaver: Leaver,
    /// What legs have answered that needs more than the lock.
    ended: Vec<Ended>,
    /// Nothing but requests was under way when the chores were done last.
    are_chores_idle: bool,
    /// When they are to be done again at the latest.
    chores_due: Option<Instant>,
    /// The last time that it was told.
    now: Instant,
    /// Legs have more to give at once.
    unfinished: bool,
}

/// What a look at the other queues' work came to.
struct Heard {
    /// They have done something.
    some: bool,
    /// They have not, and nothing is to be done but for requests, as far as the shared state shows.
    is_quiet: bool,
}

/// The parts of a queue that an action of one of them needs.
macro_rules! parts {
    ($queue:ident, $now:expr) => {
        &mut QueueParts {
            shared: &$queue.shared,
            ports: &mut $queue.ports,
            memory: &$queue.memory,
            queue: $queue.id,
            now: $now,
        }
    };
}

impl MirrorQueue {
    /// A queue on this core. One that `attends` is the keeper as long as it is there.
    pub(crate) fn new(shared: &Arc<Shared>, context: &QueueContext, attends: bool) -> Self {
        let id = shared.lock().add_queue(context.waker.clone(), attends);
        Self {
            shared: Arc::clone(shared),
            context: context.clone(),
            id,
            memory: Pool::new(OWN_MEMORY),
            ports: Ports::new(shared, context),
            tasks: Tasks::default(),
            recorder: Recorder::default(),
            log_writer: LogWriter::default(),
            cleaner: Cleaner::default(),
            copier: Copier::new(Account::new(&context.pool)),
            prober: Prober::default(),
            leaver: Leaver::default(),
            ended: Vec::new(),
            are_chores_idle: false,
            chores_due: None,
            now: Instant::ZERO,
            unfinished: true,
        }
    }

    /// Looks at what other queues have done.
    fn hear(&mut self, now: Instant) -> Heard {
        let News { granted, changed, is_quiet } = self.shared.lock().news(self.id);
        let some = changed || !granted.is_empty();
        for number in granted {
            if number == COPY_LOCK {
                self.copier.granted(parts!(self, now));
            } else {
                self.tasks.granted(parts!(self, now), number);
            }
        }
        if changed || self.tasks.poll_timeout().is_some_and(|at| at <= now) {
            self.tasks.look(parts!(self, now));
        }
        Heard { some, is_quiet: is_quiet && !some }
    }

    fn answer(&mut self, now: Instant, ended: Ended) {
        let Ended { owner, membership, .. } = ended;
        let with = parts!(self, now);
        match owner {
            Owner::Task { task, part } => self.tasks.answered(with, task, part, ended),
            Owner::Record => self.recorder.answered(with, membership, ended.result),
            Owner::Log => self.log_writer.answered(with, membership, ended.result),
            Owner::Copy => self.copier.answered(with, membership, ended.result),
            Owner::Leave => self.leaver.answered(with, membership, ended.result),
            Owner::Clean => self.cleaner.answered(with, membership, ended.result),
            Owner::Probe => self.prober.answered(with, membership, ended.result),
        }
    }

    /// Polls the legs: what they have answered well ends at once, under one lock for each leg, and the rest one by one.
    fn poll_legs(&mut self, now: Instant) -> bool {
        let tasks = &mut self.tasks;
        let with = Settling { shape: &self.shared.shape, queue: self.id, now };
        let mut ended = std::mem::take(&mut self.ended);
        let some = self.ports.poll(now, &mut ended, |state, ended| tasks.settle(state, &with, ended));
        for ended in ended.drain(..) {
            self.answer(now, ended);
        }
        self.ended = ended;
        some
    }

    /// Does once what is done beside requests. True if anything was.
    fn do_chores(&mut self, now: Instant) -> bool {
        let mut some = false;
        // What no request of this queue waits for is the keeper's: a queue is dropped once its requests have ended, and should leave nothing behind then.
        let writes = !self.tasks.is_idle() || self.shared.lock().is_keeper(self.id);
        if writes || !self.recorder.is_idle() {
            some |= self.recorder.work(parts!(self, now));
        }
        if writes || !self.log_writer.is_idle() {
            some |= self.log_writer.work(parts!(self, now));
        }
        some |= self.cleaner.work(parts!(self, now));
        some |= self.copier.work(parts!(self, now));
        some |= self.prober.work(parts!(self, now), &self.context);
        let is_idle = self.tasks.is_idle() && self.chores_are_idle();
        some |= self.leaver.work(parts!(self, now), is_idle);
        self.are_chores_idle = !some && self.leaver.is_idle() && self.chores_are_idle();
        self.chores_due = self.chores_timeout();
        some
    }

    /// True if none of what is done beside requests is under way.
    fn chores_are_idle(&self) -> bool {
        self.recorder.is_idle()
            && self.log_writer.is_idle()
            && self.cleaner.is_idle()
            && self.copier.is_idle()
            && self.prober.is_idle()
    }

    /// When chores want to be done though nothing else happens.
    fn chores_timeout(&self) -> Option<Instant> {
        let timeout = self.shared.shape.timeout;
        let deadlines = [
            self.recorder.poll_timeout(timeout),
            self.log_writer.poll_timeout(timeout),
            self.cleaner.poll_timeout(timeout),
            self.copier.poll_timeout(timeout),
            self.prober.poll_timeout(),
            self.leaver.poll_timeout(timeout),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Does once what can be done. True if anything was.
    fn turn(&mut self, now: Instant) -> bool {
        let Heard { mut some, is_quiet } = self.hear(now);
        // Where all is well and nothing due there are no chores, and most turns find that.
        if !is_quiet || !self.are_chores_idle || self.chores_due.is_some_and(|due| due <= now) {
            some |= self.do_chores(now);
        }
        some |= self.poll_legs(now);
        some
    }

    /// Wakes the core for what happened outside of a poll.
    fn wake(&self) {
        self.context.waker.wake_by_ref();
    }
}

/// What an empty request comes to, which does nothing.
fn nothing(operation: Operation) -> Outcome {
    match operation {
        Operation::Read { into, .. } => Outcome::Data(into.freeze().into()),
        Operation::QueryAllocation { extent } => Outcome::Allocation(Allocation { extent, mapped: true }),
        _ => Outcome::Done,
    }
}

impl VolumeQueue for MirrorQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let shape = &self.shared.shape;
        if self.tasks.len() >= shape.limits.depth as usize {
            return Err(QueueFull(request));
        }
        self.now = now;
        let fits = shape::check(&request.operation, shape.geometry, &shape.limits, shape.features);
        if let Err(kind) = fits {
            self.tasks.end(request.failed(kind));
        } else if request.operation.extent().is_some_and(|extent| extent.blocks == 0) {
            let refusal = self.shared.lock().refusal();
            self.tasks.end(match refusal {
                Some(kind) => request.failed(kind),
                None => Completion { tag: request.tag, result: Ok(nothing(request.operation)) },
            });
        } else {
            self.tasks.begin(parts!(self, now), request);
        }
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        let now = self.now;
        self.tasks.cancel(parts!(self, now), tag);
        self.wake();
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.now = now;
        self.unfinished = false;
        for round in 0..=ROUNDS {
            if !self.turn(now) {
                break;
            }
            self.unfinished = round == ROUNDS;
        }
        if self.unfinished {
            self.wake();
        }
        self.tasks.take_ready(done);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.unfinished || self.tasks.has_ready() {
            return Some(self.now);
        }
        [self.tasks.poll_timeout(), self.ports.poll_timeout(), self.chores_timeout()]
            .into_iter()
            .flatten()
            .min()
    }
}

impl Drop for MirrorQueue {
    fn drop(&mut self) {
        self.ports.abandon(self.now);
        let mut state = self.shared.lock();
        self.tasks.abandon(&mut state, self.now);
        self.copier.abandon(&mut state, self.now);
        state.forget_queue(self.id, self.now);
    }
}
