//! An NVMe host's association with a subsystem: one controller, whose admin queue lives on one core and whose I/O queues on
//! many (NVMe over Fabrics: §3.3 of NVMe Base).
//!
//! An I/O queue is nothing without its controller, and a controller that lost a queue is not what it was. So whatever connection
//! of an association ends, all of it ends, and the next is another association with another controller. Whichever queue
//! first wants to connect again makes it; the others wait for it.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;

use ::nvme::host::{Queue, RemoteNamespace};

use super::admin_requests::AdminRequests;
use super::client::{Hooks, Owner};
use super::link::{Link, LinkInput};
use super::nvme_plan::{Info, Plan};

/// How far an association is.
#[derive(Debug, Clone)]
enum Stage {
    /// The admin queue is being set up.
    Opening,
    /// I/O queues may connect.
    Up(RemoteNamespace),
    /// It has ended; the text says why.
    Down(String),
}

/// What an I/O queue that wants to connect finds.
pub(super) enum AssociationState {
    /// This association; the queue is connected with what it tells, for as long as the purpose is held.
    Up(u64, Box<RemoteNamespace>, Arc<()>),
    /// One is being made.
    Opening,
    /// None, for this reason.
    Down(String),
}

/// What an association is made for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) nsid: u32,
    /// I/O queues.
    pub(super) queues: u16,
}

/// Called with the namespace when it has changed under an association.
type Changed = Box<dyn Fn(&RemoteNamespace) + Send + Sync>;

/// The associations of one volume, one after the other.
pub(super) struct Association {
    plan: Plan,
    wanted: Wanted,
    /// The number of the association that is up; zero while none is.
    current: Arc<AtomicU64>,
    /// What the I/O queues ask the admin queue to do.
    pub(super) admin_requests: AdminRequests,
    inner: Mutex<Inner>,
}

struct Inner {
    number: u64,
    stage: Stage,
    /// Why the one before has ended.
    ended: String,
    /// Held for as long as this association is wanted: its admin queue leaves when it is gone.
    purpose: Arc<()>,
    /// Whom a change of the stage concerns, by I/O queue.
    wakers: HashMap<u16, Waker>,
    /// Identifiers of queues that were given back, the longest unused first.
    free: Vec<u16>,
    given: u16,
    changed: Option<Changed>,
}

impl Association {
    /// No association yet.
    pub(super) fn new(plan: Plan, wanted: Wanted) -> Arc<Self> {
        let inner = Inner {
            number: 0,
            stage: Stage::Down("not connected yet".to_owned()),
            ended: String::new(),
            purpose: Arc::new(()),
            wakers: HashMap::new(),
            free: Vec::new(),
            given: 0,
            changed: None,
        };
        Arc::new(Self {
            plan,
            wanted,
            current: Arc::default(),
            admin_requests: AdminRequests::default(),
            inner: Mutex::new(inner),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whom to tell of changes.
    pub(super) fn set_changed(&self, changed: Changed) {
        self.lock().changed = Some(changed);
    }

    /// An identifier for one more I/O queue; `None` when the controller granted no more.
    pub(super) fn take_queue(&self, waker: Waker) -> Option<u16> {
        let mut inner = self.lock();
        let granted = match &inner.stage {
            Stage::Up(remote) => remote.queues,
            Stage::Opening | Stage::Down(_) => self.wanted.queues,
        };
        let fresh = inner.given.saturating_add(1);
        let qid = if fresh <= granted {
            inner.given = fresh;
            fresh
        } else if inner.free.is_empty() {
            return None;
        } else {
            inner.free.remove(0)
        };
        inner.wakers.insert(qid, waker);
        Some(qid)
    }

    /// A queue gives its identifier back.
    pub(super) fn give_back(&self, qid: u16) {
        let mut inner = self.lock();
        inner.wakers.remove(&qid);
        inner.free.push(qid);
    }

    /// True while this association is the one that is up.
    pub(super) fn is_up(&self, number: u64) -> bool {
        self.current.load(Ordering::Acquire) == number
    }

    /// How it stands.
    pub(super) fn state(&self) -> AssociationState {
        let inner = self.lock();
        match &inner.stage {
            Stage::Opening => AssociationState::Opening,
            Stage::Down(why) => AssociationState::Down(why.clone()),
            Stage::Up(remote) => {
                AssociationState::Up(inner.number, Box::new(remote.clone()), Arc::clone(&inner.purpose))
            }
        }
    }

    /// Makes another association, unless there is one or somebody is at it. The admin queue lives on the calling core.
    pub(super) fn begin(self: &Arc<Self>, waker: Waker) -> Option<Rc<Link>> {
        let mut inner = self.lock();
        if !matches!(inner.stage, Stage::Down(_)) {
            return None;
        }
        inner.number += 1;
        inner.stage = Stage::Opening;
        inner.purpose = Arc::new(());
        let (number, purpose) = (inner.number, Arc::clone(&inner.purpose));
        drop(inner);
        let (tells, ends, serves) = (Arc::downgrade(self), Arc::downgrade(self), Arc::downgrade(self));
        let tell = Box::new(move |info, _: &Link| {
            if let (Some(association), Info::Namespace(remote)) = (Weak::upgrade(&tells), info) {
                association.handle_namespace(number, remote);
            }
        });
        let queue =
            Queue::Admin { nsid: self.wanted.nsid, queues: self.wanted.queues, kato: Plan::keep_alive() };
        let (open, current) = (self.admin_requests.open(), Arc::clone(&self.current));
        let turn_hook = Box::new(move |link: &Link| {
            if current.load(Ordering::Acquire) != number {
                // It must not keep the controller alive.
                return link.push(LinkInput::Abandon);
            }
            if open.load(Ordering::Acquire)
                && let Some(association) = Weak::upgrade(&serves)
            {
                association.admin_requests.work(number, link, |qid| association.wake(qid));
            }
        });
        let hooks = Hooks { tell, turn: Some(turn_hook) };
        let link = self.plan.connect(queue, Owner { waker, purpose }, hooks);
        if let Some(admin) = link.endpoint() {
            self.admin_requests.begin(number, self.plan.waker_of(admin));
        }
        let handle_end = move |why: &str| {
            if let Some(association) = Weak::upgrade(&ends) {
                association.lose(number, why);
            }
        };
        match link.failure() {
            Some(why) => handle_end(&why),
            None => link.set_when_failed(Box::new(handle_end)),
        }
        Some(link)
    }

    /// Why the one before has ended, also once another is being made.
    pub(super) fn ended(&self) -> String {
        self.lock().ended.clone()
    }

    /// Lets an I/O queue look.
    fn wake(&self, qid: u16) {
        if let Some(waker) = self.lock().wakers.get(&qid) {
            waker.wake_by_ref();
        }
    }

    /// The admin queue has found the namespace, for the first time or changed.
    fn handle_namespace(&self, number: u64, remote: RemoteNamespace) {
        let mut inner = self.lock();
        if inner.number != number || matches!(inner.stage, Stage::Down(_)) {
            return;
        }
        // What another association finds is for the queues to recognise first.
        if let (Stage::Up(_), Some(changed)) = (&inner.stage, &inner.changed) {
            changed(&remote);
        }
        inner.stage = Stage::Up(remote);
        self.current.store(number, Ordering::Release);
        inner.wakers.values().for_each(Waker::wake_by_ref);
    }

    /// A connection of that association has ended, and it with it.
    pub(super) fn lose(&self, number: u64, why: &str) {
        self.admin_requests.end(number);
        let mut inner = self.lock();
        if inner.number != number || matches!(inner.stage, Stage::Down(_)) {
            return;
        }
        inner.stage = Stage::Down(why.to_owned());
        why.clone_into(&mut inner.ended);
        inner.purpose = Arc::new(());
        self.current.store(0, Ordering::Release);
        inner.wakers.values().for_each(Waker::wake_by_ref);
    }
}

#[cfg(test)]
mod tests {
    use names::NvmeOptions;

    use super::*;
    use crate::remote::client_context::ClientContext;

    #[test]
    fn why_an_association_ended_is_known_while_the_next_one_is_being_made() {
        let options = NvmeOptions::default();
        let plan = Plan::new(
            "127.0.0.1:1".parse().unwrap(),
            "nqn.test",
            &options,
            &ClientContext::without_network(),
        );
        let association = Association::new(plan, Wanted { nsid: 1, queues: 1 });
        association.lock().stage = Stage::Opening;
        let why = "the controller broke the protocol: a PDU out of sequence";
        association.lose(0, why);
        association.lock().stage = Stage::Opening;
        association.lose(7, "another one");
        assert_eq!(association.ended(), why);
    }
}
