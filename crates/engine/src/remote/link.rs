//! What a remote volume's queue and one connection share on one core.
//!
//! The queue puts requests in and takes completions out; the connection does the opposite. Both live on the same
//! core, so nothing here waits or is atomic. A link lives as long as its connection; the queue that reconnects has a new one.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;

use ::volume::{Completion, Request, Tag};
use host::EndpointId;

/// What a connection is asked to do.
#[derive(Debug)]
pub(crate) enum LinkInput {
    /// Do a request.
    Submit(Request),
    /// End a request soon.
    Cancel(Tag),
    /// Log out, or disconnect; at once if it is not even open.
    Disconnect,
    /// Send nothing more.
    Abandon,
}

/// How far a connection is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Connecting, logging in.
    Opening,
    /// Requests can go.
    Ready,
    /// It has ended; the text says why.
    Failed(String),
}

/// Called once when the connection has ended, with the reason.
type WhenFailed = Box<dyn FnOnce(&str)>;

/// The shared part of one connection.
pub(crate) struct Link {
    inputs: RefCell<VecDeque<LinkInput>>,
    /// The connection is to end.
    close: RefCell<Option<LinkInput>>,
    done: RefCell<Vec<Completion>>,
    under_way: Cell<usize>,
    stage: RefCell<Stage>,
    endpoint: Cell<Option<EndpointId>>,
    when_failed: RefCell<Option<WhenFailed>>,
    waker: Waker,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("stage", &self.stage)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl Link {
    /// A link whose connection is being opened; `waker` is woken when completions or a new stage can be seen.
    pub(crate) fn new(waker: Waker) -> Rc<Self> {
        Rc::new(Self {
            inputs: RefCell::default(),
            close: RefCell::default(),
            done: RefCell::default(),
            under_way: Cell::new(0),
            stage: RefCell::new(Stage::Opening),
            endpoint: Cell::new(None),
            when_failed: RefCell::default(),
            waker,
        })
    }

    /// Records which endpoint serves the link.
    pub(crate) fn set_endpoint(&self, endpoint: EndpointId) {
        self.endpoint.set(Some(endpoint));
    }

    /// Sets what else hears of the end.
    pub(crate) fn set_when_failed(&self, tell: WhenFailed) {
        *self.when_failed.borrow_mut() = Some(tell);
    }

    /// The endpoint that serves the link.
    pub(crate) fn endpoint(&self) -> Option<EndpointId> {
        self.endpoint.get()
    }

    /// How far the connection is.
    pub(crate) fn stage(&self) -> Stage {
        self.stage.borrow().clone()
    }

    /// True once requests can go, and until the end.
    pub(crate) fn is_ready(&self) -> bool {
        *self.stage.borrow() == Stage::Ready
    }

    /// Why the connection has ended, if it has.
    pub(crate) fn failure(&self) -> Option<String> {
        match &*self.stage.borrow() {
            Stage::Failed(why) => Some(why.clone()),
            Stage::Opening | Stage::Ready => None,
        }
    }

    /// Requests given to the connection and not yet answered by it.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.get()
    }

    /// Takes back the requests that the connection has not taken.
    pub(crate) fn take_back(&self) -> VecDeque<LinkInput> {
        self.inputs.take()
    }

    /// Asks the connection to do something. An ended connection does nothing: whoever gave it requests takes them back.
    pub(crate) fn push(&self, input: LinkInput) {
        match input {
            LinkInput::Disconnect | LinkInput::Abandon => *self.close.borrow_mut() = Some(input),
            LinkInput::Submit(_) | LinkInput::Cancel(_) => self.inputs.borrow_mut().push_back(input),
        }
    }

    /// Gives the connection a request. True if the caller has to wake the connection: nothing that was given before has.
    #[inline]
    pub(crate) fn submit(&self, request: Request) -> bool {
        self.under_way.set(self.under_way.get() + 1);
        let mut inputs = self.inputs.borrow_mut();
        inputs.push_back(LinkInput::Submit(request));
        inputs.len() == 1
    }

    /// Moves what the connection, which is open, is to do next to `inputs`, which is empty.
    pub(crate) fn take_inputs(&self, inputs: &mut VecDeque<LinkInput>) {
        if self.is_ready() {
            std::mem::swap(inputs, &mut self.inputs.borrow_mut());
        }
    }

    /// The request to end, once. [`LinkInput::Disconnect`] waits until the other inputs are taken.
    pub(crate) fn take_close(&self) -> Option<LinkInput> {
        // A disconnect waits for inputs, unless there is to be no more sending at all.
        let mut close = self.close.borrow_mut();
        let waits = matches!(*close, Some(LinkInput::Disconnect))
            && self.is_ready()
            && !self.inputs.borrow().is_empty();
        if waits { None } else { close.take() }
    }

    /// The connection has finished a request.
    pub(crate) fn complete(&self, completion: Completion) {
        self.under_way.set(self.under_way.get().saturating_sub(1));
        self.done.borrow_mut().push(completion);
        self.waker.wake_by_ref();
    }

    /// The connection is ready.
    pub(crate) fn ready(&self) {
        *self.stage.borrow_mut() = Stage::Ready;
        self.waker.wake_by_ref();
    }

    /// The connection has ended: whatever it had not completed may or may not have taken effect.
    pub(crate) fn fail(&self, why: String) {
        if self.failure().is_some() {
            return;
        }
        if let Some(tell) = self.when_failed.take() {
            tell(&why);
        }
        *self.stage.borrow_mut() = Stage::Failed(why);
        self.under_way.set(0);
        self.waker.wake_by_ref();
    }

    /// Moves all completions.
    pub(crate) fn take_done(&self, done: &mut Vec<Completion>) {
        done.append(&mut self.done.borrow_mut());
    }
}
