//! Something to do on one core, from start to end: opening a volume, copying one, putting load on one.

use std::sync::Arc;
use std::task::Waker;

use host::{Accepted, Dialer, Endpoint, EndpointId, Refusal, Service, Storage, World};
use protocol::Instant;
use volume::{CoreId, QueueContext};

use crate::control::Control;

/// What a job may use of the world it runs in.
#[derive(Clone)]
pub(crate) struct Environment {
    /// Which core it is.
    pub(crate) core: host::CoreIndex,
    /// Files and devices.
    pub(crate) storage: Arc<dyn Storage>,
    /// Connections to other machines.
    pub(crate) dialer: Arc<dyn Dialer>,
    /// Wakes the job.
    pub(crate) waker: Waker,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}

impl Environment {
    /// The place of a job's volumes. A job shares no pool with them: each gets one of its own.
    pub(crate) fn without_pool(&self) -> QueueContext {
        QueueContext::without_pool(CoreId(self.core), self.waker.clone())
    }
}

/// What a job over volumes runs with.
pub(crate) struct JobContext<'a> {
    /// What the caller keeps in hand of it.
    pub(crate) control: Control,
    /// Wakes it.
    pub(crate) waker: &'a Waker,
}

/// A piece of work that is polled until it has a result.
pub(crate) trait Job {
    /// What comes of it.
    type Output;

    /// Does what can be done now; `Some` once it is over.
    fn poll(&mut self, now: Instant) -> Option<Self::Output>;

    /// When to poll again even if nothing wakes it.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// True while an answer is expected within microseconds.
    fn expects_work(&self) -> bool {
        false
    }
}

/// Runs one job as a core's service.
pub(crate) struct JobService<J: Job> {
    job: J,
    output: Option<J::Output>,
    finished: bool,
}

impl<J: Job> JobService<J> {
    /// A job that has not begun.
    pub(crate) fn new(job: J) -> Self {
        Self { job, output: None, finished: false }
    }

    /// What came of it, once it is over.
    pub(crate) fn into_output(self) -> Option<J::Output> {
        self.output
    }
}

impl<J: Job> Service for JobService<J> {
    type Message = ();

    fn accept(&mut self, _now: Instant, _accepted: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        Err(Refusal("this process does not serve"))
    }

    fn handle_message(&mut self, _now: Instant, (): ()) {}

    fn turn(&mut self, now: Instant, _ready: &mut Vec<EndpointId>) {
        if self.finished {
            return;
        }
        if let Some(output) = self.job.poll(now) {
            self.finished = true;
            self.output = Some(output);
        }
    }

    fn handle_gone(&mut self, _now: Instant, _endpoint: EndpointId) {}

    fn poll_timeout(&self) -> Option<Instant> {
        self.job.poll_timeout()
    }

    fn expects_work(&self) -> bool {
        !self.finished && self.job.expects_work()
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}

impl<M> From<&World<M>> for Environment {
    fn from(world: &World<M>) -> Self {
        Self {
            core: world.core,
            storage: Arc::clone(&world.storage),
            dialer: Arc::clone(&world.dialer),
            waker: world.waker.clone(),
        }
    }
}
