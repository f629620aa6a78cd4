//! What a core does for everything of one kind that it serves, whichever kind that is.
//!
//! A core has one of these for each kind: the queues and connections in its hub, and the newest fence of each thing that is served. What the kinds of a core
//! share stays with the core: its place in the process, the catalogue, and on core 0 the owners of the shared truths.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use host::{EndpointId, ListenerId, Postbox};
use protocol::Instant;
use volume::QueueContext;

use crate::catalogue::ProposalError;
use crate::config::EngineConfig;
use crate::fence;
use crate::hub::Hub;
use crate::kind::ServedKind;
use crate::message::{Cause, Fence, Inbound, Message};
use crate::queues::{QueueEvent, Queues};
use crate::served_id::ServedId;

/// One kind's part of a core.
#[derive(Debug)]
pub(crate) struct KindCore<K: ServedKind> {
    pub(crate) hub: Rc<Hub<K>>,
    /// What its queues are opened with.
    context: QueueContext,
    /// The newest state of everything that ever had a fence, for connections that come later.
    fences: HashMap<ServedId, Fence>,
}

impl<K: ServedKind> KindCore<K> {
    /// A part that serves all of `served` from the beginning.
    pub(crate) fn new(
        config: &EngineConfig,
        context: QueueContext,
        postbox: Arc<dyn Postbox<Message>>,
        served: &[K::Served],
    ) -> Result<Self, ProposalError> {
        let mut queues = Queues::new(context.waker.clone());
        queues.prepare(served, &context)?;
        queues.commit();
        let hub = Hub::new(config, &context, postbox, queues);
        Ok(Self { hub, context, fences: HashMap::new() })
    }

    /// What its queues are opened with.
    pub(crate) fn context(&self) -> &QueueContext {
        &self.context
    }

    /// Opens the queues that are missing, all or none of them, and shows them to nobody.
    pub(crate) fn prepare(&self, served: &[K::Served]) -> Result<(), ProposalError> {
        self.hub.queues().prepare(served, &self.context)
    }

    /// Lets everybody use what was prepared.
    pub(crate) fn commit(&self) {
        self.hub.queues().commit();
    }

    /// Drops what was prepared.
    pub(crate) fn abandon(&self) {
        self.hub.queues().abandon();
    }

    /// Withdraws everything but what stays.
    pub(crate) fn withdraw(&mut self, now: Instant, stays: &HashSet<ServedId>) {
        self.fences.retain(|id, _| stays.contains(id));
        self.hub.queues().withdraw(now, |id| stays.contains(&id));
    }

    /// Tells a connection that begins what holds of all that is served.
    pub(crate) fn welcome(&self, endpoint: EndpointId) {
        self.inbound_fences().for_each(|inbound| self.hub.deliver(endpoint, inbound));
    }

    /// Tells the connections of each listener for which `changed` has something that, and what holds of what is served: some may be new to them.
    pub(crate) fn show(&self, changed: impl Fn(ListenerId) -> Option<Inbound<K>>) {
        self.hub.deliver_portals(changed, || self.inbound_fences());
    }

    fn inbound_fences(&self) -> impl Iterator<Item = Inbound<K>> {
        self.fences.values().map(|fence| Inbound::Fence(Box::new(fence.clone())))
    }

    /// Tells all connections, and moves the queue's epoch. What a connection has judged before it looks into its inbox is refused from
    /// here on, and comes back into that inbox behind the fence.
    pub(crate) fn handle_fence(&mut self, fence: &Fence) {
        let asker = match &fence.cause {
            Cause::Reset(by, _) if by.core == self.hub.core => Some(by.endpoint),
            _ => None,
        };
        self.hub.deliver_all(asker, || Inbound::Fence(Box::new(fence.clone())));
        if let Some(asker) = asker {
            self.hub.deliver(
                asker,
                Inbound::Fence(Box::new(Fence { cause: Cause::Unconcerned, ..fence.clone() })),
            );
        }
        self.hub.queues().fence(fence.served, fence.number);
    }

    /// Keeps what connections that come later are told of a fence.
    pub(crate) fn keep_for_newcomers(&mut self, fence: &Fence) {
        let lasting = fence::for_newcomers(self.fences.get(&fence.served), fence);
        self.fences.insert(fence.served, lasting);
    }

    /// Brings what has completed to those who asked, and adds to `ready` who has something to do.
    pub(crate) fn turn(&self, now: Instant, ready: &mut Vec<EndpointId>) {
        let hub = &self.hub;
        if hub.is_unused() {
            // Most processes serve one kind only, and need not pay for the other at every turn.
            return;
        }
        let mut completed = hub.poll_queues(now);
        if hub.queues().has_events() {
            completed |= self.end_queues(now);
        }
        hub.queues().take_drained(|number| hub.post_owner(Message::Fenced(number)));
        if completed {
            hub.list_room_waiters();
        }
        hub.list_memory_waiters();
        hub.take_ready(ready);
    }

    /// Ends all queues, once nobody is left who could ask for anything. True when there is none any more, and core 0 knows.
    pub(crate) fn retire(&self, now: Instant) -> bool {
        if self.hub.queues().retire(now) {
            // What ends at once wakes nobody.
            self.hub.poll_queues(now);
        }
        self.handle_queue_events(now);
        self.hub.queues().is_empty()
    }

    /// Lets queues on their way to their end go on as far as they can now. Answers whether any request has completed.
    #[cold]
    fn end_queues(&self, now: Instant) -> bool {
        let mut completed = false;
        while self.handle_queue_events(now) {
            completed |= self.hub.poll_queues(now);
        }
        completed
    }

    /// Does what queues on their way to their end need. True when one may go on at once, which wakes nobody: they are to be polled again.
    fn handle_queue_events(&self, now: Instant) -> bool {
        let mut goes_on = false;
        loop {
            let event = self.hub.queues().poll_event();
            match event {
                None => return goes_on,
                Some(QueueEvent::AskUsers(served)) => {
                    self.hub.deliver_all(None, || Inbound::AskUse(served));
                    goes_on |= self.hub.queues().await_users(now, served, self.hub.members());
                }
                Some(QueueEvent::Securing) => goes_on = true,
                Some(QueueEvent::Overdue(served)) => self.hub.deliver_all(None, || Inbound::Overdue(served)),
                Some(QueueEvent::Retired(retired)) => self.hub.post_owner(Message::Retired(retired)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
