//! Volumes on their way to core 0, which opens them: those of other machines are opened over connections, and these live on an event loop.
//!
//! The controller has done what may block ([`PreparedOpening`]). The core looks at a flag in each turn, and at the rest only when it is set.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use linerate::{Opening, PreparedOpening};
use protocol::Instant;
use volume::QueueContext;

use crate::control_input::{ControlInput, Ticket};

#[derive(Debug, Default)]
struct OpenRequests {
    begin: Vec<(Ticket, PreparedOpening)>,
    /// What was begun before is to be given up.
    gives_up: bool,
    /// Of core 0, once that runs.
    waker: Option<Waker>,
}

/// The controller's side.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    requests: Mutex<OpenRequests>,
    is_pending: AtomicBool,
}

impl Openings {
    fn requests(&self) -> MutexGuard<'_, OpenRequests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(&self, change: impl FnOnce(&mut OpenRequests)) {
        let mut requests = self.requests();
        change(&mut requests);
        self.is_pending.store(true, Ordering::Release);
        if let Some(waker) = &requests.waker {
            waker.wake_by_ref();
        }
    }

    /// Has core 0 open a volume; [`ControlInput::Opened`] says what came of it.
    pub(crate) fn begin(&self, ticket: Ticket, prepared: PreparedOpening) {
        self.request(|requests| requests.begin.push((ticket, prepared)));
    }

    /// Has core 0 give up what it has begun.
    pub(crate) fn give_up(&self) {
        self.request(|requests| {
            requests.begin.clear();
            requests.gives_up = true;
        });
    }
}

/// Core 0's side.
pub(crate) struct Opener {
    openings: std::sync::Arc<Openings>,
    context: QueueContext,
    tell: Sender<ControlInput>,
    under_way: Vec<(Ticket, Opening)>,
}

impl Opener {
    /// Opens what is requested in the given place, which is core 0.
    pub(crate) fn new(
        openings: std::sync::Arc<Openings>,
        context: QueueContext,
        tell: Sender<ControlInput>,
    ) -> Self {
        openings.request(|requests| {
            context.waker.wake_by_ref();
            requests.waker = Some(context.waker.clone());
        });
        Self { openings, context, tell, under_way: Vec::new() }
    }

    /// Begins what is requested, and goes on with what was begun.
    pub(crate) fn turn(&mut self, now: Instant) {
        if self.openings.is_pending.load(Ordering::Acquire) {
            self.take_requests();
        }
        if !self.under_way.is_empty() {
            self.go_on(now);
        }
    }

    #[cold]
    fn take_requests(&mut self) {
        let mut requests = self.openings.requests();
        self.openings.is_pending.store(false, Ordering::Relaxed);
        let gives_up = std::mem::take(&mut requests.gives_up);
        let begin = std::mem::take(&mut requests.begin);
        drop(requests);
        if gives_up {
            self.under_way.clear();
        }
        let context = &self.context;
        self.under_way.extend(begin.into_iter().map(|(ticket, prepared)| (ticket, prepared.begin(context))));
    }

    #[cold]
    fn go_on(&mut self, now: Instant) {
        let tell = &self.tell;
        self.under_way.retain_mut(|(ticket, opening)| {
            let Some(result) = opening.poll(now) else { return true };
            // Nobody listens any more only when the server ends.
            let _unheard = tell.send(ControlInput::Opened { ticket: *ticket, result });
            false
        });
    }

    /// When waiting for another machine ends.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.under_way.iter().filter_map(|(_, opening)| opening.poll_timeout()).min()
    }
}
