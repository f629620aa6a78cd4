//! What a remote volume's queue and its connection share on one core.
//!
//! The queue puts requests in and takes completions out; the connection does the opposite. Both live on the same
//! core, so nothing here waits or is atomic.

use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;
use std::task::Waker;

use ::volume::{Completion, Request, Tag, VolumeErrorKind};
use host::EndpointId;

/// What a connection is asked to do.
#[derive(Debug)]
pub(crate) enum Order {
    /// Do a request.
    Submit(Request),
    /// End a request soon.
    Cancel(Tag),
    /// Log out, disconnect.
    Leave,
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

/// The shared part of one connection.
#[derive(Debug)]
pub(crate) struct Link {
    inner: RefCell<Inner>,
}

#[derive(Debug)]
struct Inner {
    orders: VecDeque<Order>,
    done: Vec<Completion>,
    /// Requests given to the connection and not yet completed, so that none is lost when it ends.
    out: HashSet<Tag>,
    stage: Stage,
    endpoint: Option<EndpointId>,
    waker: Waker,
}

impl Link {
    /// A link whose connection is being opened; `waker` is woken when completions or a new stage can be seen.
    pub(crate) fn new(waker: Waker) -> Rc<Self> {
        Rc::new(Self {
            inner: RefCell::new(Inner {
                orders: VecDeque::new(),
                done: Vec::new(),
                out: HashSet::new(),
                stage: Stage::Opening,
                endpoint: None,
                waker,
            }),
        })
    }

    /// Says which endpoint serves the link.
    pub(crate) fn set_endpoint(&self, endpoint: EndpointId) {
        self.inner.borrow_mut().endpoint = Some(endpoint);
    }

    /// The endpoint that serves the link.
    pub(crate) fn endpoint(&self) -> Option<EndpointId> {
        self.inner.borrow().endpoint
    }

    /// How far the connection is.
    pub(crate) fn stage(&self) -> Stage {
        self.inner.borrow().stage.clone()
    }

    /// Requests submitted and not yet completed.
    pub(crate) fn outstanding(&self) -> usize {
        self.inner.borrow().out.len()
    }

    /// Asks the connection to do something; a request to an ended connection fails at once.
    pub(crate) fn order(&self, order: Order) {
        let mut inner = self.inner.borrow_mut();
        match (&inner.stage, &order) {
            (Stage::Failed(_), Order::Submit(request)) => {
                let completion = Completion { tag: request.tag, result: Err(VolumeErrorKind::Unreachable) };
                inner.done.push(completion);
            }
            (Stage::Failed(_), _) => {}
            (_, Order::Submit(request)) => {
                let tag = request.tag;
                inner.out.insert(tag);
                inner.orders.push_back(order);
            }
            _ => inner.orders.push_back(order),
        }
    }

    /// What the connection is to do next.
    pub(crate) fn next_order(&self) -> Option<Order> {
        self.inner.borrow_mut().orders.pop_front()
    }

    /// The connection has finished a request.
    pub(crate) fn complete(&self, completion: Completion) {
        let mut inner = self.inner.borrow_mut();
        inner.out.remove(&completion.tag);
        inner.done.push(completion);
        inner.waker.wake_by_ref();
    }

    /// The connection is ready.
    pub(crate) fn ready(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.stage = Stage::Ready;
        inner.waker.wake_by_ref();
    }

    /// The connection has ended: whatever it had not completed may or may not have taken effect.
    pub(crate) fn fail(&self, why: String) {
        let mut inner = self.inner.borrow_mut();
        if matches!(inner.stage, Stage::Failed(_)) {
            return;
        }
        inner.stage = Stage::Failed(why);
        inner.orders.clear();
        let lost: Vec<Tag> = inner.out.drain().collect();
        inner.done.extend(
            lost.into_iter().map(|tag| Completion { tag, result: Err(VolumeErrorKind::Unreachable) }),
        );
        inner.waker.wake_by_ref();
    }

    /// Moves all completions.
    pub(crate) fn take_done(&self, done: &mut Vec<Completion>) {
        done.append(&mut self.inner.borrow_mut().done);
    }
}
