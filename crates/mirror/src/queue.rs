//! One core's queue of a mirror: its requests, its way to the legs, and its part of what is done once for all queues.

use std::sync::Arc;

use buf::{Account, Pool};
use protocol::Instant;
use volume::{
    Allocation, Completion, Operation, Outcome, QueueContext, QueueFull, Request, Tag, VolumeErrorKind,
    VolumeQueue, shape,
};

use crate::cleaner::Cleaner;
use crate::copier::{COPY_LOCK, Copier};
use crate::limits::{OWN_MEMORY, ROUNDS};
use crate::log_writer::LogWriter;
use crate::ports::{Ended, Owner, Ports};
use crate::prober::Prober;
use crate::recorder::Recorder;
use crate::shared::Shared;
use crate::tasks::{QueueParts, Tasks};

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
    ended: Vec<Ended>,
    /// The last time that it was told.
    now: Instant,
    /// Legs have more to give at once.
    unfinished: bool,
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
    pub(crate) fn new(shared: &Arc<Shared>, context: &QueueContext) -> Self {
        let id = shared.lock().add_queue(context.waker.clone());
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
            ended: Vec::new(),
            now: Instant::ZERO,
            unfinished: true,
        }
    }

    /// Looks at what other queues have done. True if that was anything.
    fn hear(&mut self, now: Instant) -> bool {
        let news = self.shared.lock().news(self.id);
        let some = news.changed || !news.granted.is_empty();
        for number in news.granted {
            if number == COPY_LOCK {
                self.copier.granted(parts!(self, now));
            } else {
                self.tasks.granted(parts!(self, now), number);
            }
        }
        if news.changed || self.tasks.poll_timeout().is_some_and(|at| at <= now) {
            self.tasks.look(parts!(self, now));
        }
        some
    }

    fn answer(&mut self, now: Instant, ended: Ended) {
        let Ended { owner, membership, .. } = ended;
        let with = parts!(self, now);
        match owner {
            Owner::Task { task, part } => self.tasks.answered(with, task, part, ended),
            Owner::Record => self.recorder.answered(with, membership, ended.result),
            Owner::Log => self.log_writer.answered(with, membership, ended.result),
            Owner::Copy => self.copier.answered(with, membership, ended.result),
            Owner::Clean => self.cleaner.answered(with, membership, ended.result),
            Owner::Probe => self.prober.answered(with, membership, ended.result),
        }
    }

    /// Does once what can be done. True if anything was.
    fn turn(&mut self, now: Instant) -> bool {
        let mut some = self.hear(now);
        some |= self.recorder.work(parts!(self, now));
        some |= self.log_writer.work(parts!(self, now));
        some |= self.cleaner.work(parts!(self, now));
        some |= self.copier.work(parts!(self, now));
        some |= self.prober.work(parts!(self, now), &self.context);
        let mut ended = std::mem::take(&mut self.ended);
        some |= self.ports.poll(now, &mut ended);
        for answer in ended.drain(..) {
            self.answer(now, answer);
        }
        self.ended = ended;
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
        } else if self.shared.lock().fenced {
            self.tasks.end(request.failed(VolumeErrorKind::ReservationConflict));
        } else if request.operation.extent().is_some_and(|extent| extent.blocks == 0) {
            self.tasks.end(Completion { tag: request.tag, result: Ok(nothing(request.operation)) });
        } else {
            self.tasks.begin(parts!(self, now), request);
        }
        // What was given to legs is polled with the next poll of this queue.
        self.wake();
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
        let timeout = self.shared.shape.timeout;
        let deadlines = [
            self.tasks.poll_timeout(),
            self.ports.poll_timeout(),
            self.recorder.poll_timeout(timeout),
            self.log_writer.poll_timeout(timeout),
            self.cleaner.poll_timeout(timeout),
            self.copier.poll_timeout(timeout),
            self.prober.poll_timeout(),
        ];
        deadlines.into_iter().flatten().min()
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
