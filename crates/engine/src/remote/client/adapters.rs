//! A client's connection over an RDMA adapter: the [`AdapterOwner`] of a queue pair whose port was opened for it.

use std::rc::Rc;

use buf::{Account, Pool};
use host::{AdapterError, AdapterPair, EndpointId, OpenedPair, PairNeeds, PairWish};
use protocol::{Ended, Instant};
use verbs::{Consumer, PrivateData};

use super::super::client_context::ClientContext;
use super::super::link::Link;
use super::{Client, ClientRole, Dial, NO_ANSWER};
use crate::adapters::{AdapterOwner, NewOwner, PortEndpoint, PortOwners};
use crate::carried::Carried;
use crate::limits::CLIENT_POOL;
use crate::queue_pairs::OverQueuePair;

/// What a client asks its peer for.
pub(crate) struct AdapterWish {
    pub(crate) needs: PairNeeds,
    pub(crate) private_data: PrivateData,
}

/// Makes the consumer of a queue pair.
pub(crate) type JoinAdapter<C> = Box<dyn FnOnce(Instant, AdapterPair) -> C>;

impl<C, R> Client<R>
where
    C: Consumer<QueuePair = AdapterPair> + 'static,
    R: ClientRole<Connection = OverQueuePair<C>> + 'static,
{
    /// Asks for a queue pair at an adapter. On a machine without one the link has failed.
    pub(crate) fn ask_adapter(
        context: &ClientContext,
        wish: AdapterWish,
        join: JoinAdapter<C>,
        dial: Dial<R::Info>,
    ) -> Rc<Link> {
        let (link, peer) = (Link::new(dial.owner.waker.clone()), dial.address);
        let AdapterWish { needs, private_data } = wish;
        let account = Account::new(&Pool::new(CLIENT_POOL));
        let opened = context.adapters.connect(PairWish { peer, needs, private_data, account });
        let watched = opened.and_then(|opened| {
            let failed = |error: std::io::Error| {
                AdapterError(format!("there is no descriptor for an RDMA connection: {error}"))
            };
            let descriptor = opened.port.descriptor().map_err(failed)?;
            Ok((opened, descriptor))
        });
        match watched {
            Ok((OpenedPair { port, pair }, descriptor)) => {
                let id = pair.id();
                let make = Box::new(move |now| OverQueuePair::new(now, join(now, pair)));
                let client = Self::new(make, Rc::clone(&link), dial);
                let mut owners = PortOwners::new(port);
                let owner = Box::new(Waiting { client, until: None });
                // Nobody wakes it by name: its port has one owner.
                owners.insert(NewOwner { id, name: EndpointId(u64::MAX), owner });
                let endpoint = Box::new(PortEndpoint::of_one(owners));
                link.set_endpoint(context.dialer.watch(descriptor, endpoint));
            }
            Err(error) => link.fail(format!("cannot connect to {peer}: {error}")),
        }
        link
    }
}

/// A client that waits for its peer until then.
struct Waiting<R: ClientRole> {
    client: Client<R>,
    /// None before its first turn, and once it is connected.
    until: Option<Instant>,
}

impl<C, R> Waiting<R>
where
    C: Consumer<QueuePair = AdapterPair>,
    R: ClientRole<Connection = OverQueuePair<C>>,
{
    /// Lets the inside know of a queue pair that has ended and said so.
    fn follow_end(&mut self, now: Instant) {
        let Some(connection) = &self.client.connection else { return };
        if connection.is_connected() {
            self.until = None;
        }
        if connection.is_finished() {
            self.client.end(now, Ended::ByPeer);
        }
    }
}

impl<C, R> AdapterOwner for Waiting<R>
where
    C: Consumer<QueuePair = AdapterPair> + 'static,
    R: ClientRole<Connection = OverQueuePair<C>>,
{
    fn handle_progress(&mut self, now: Instant) {
        if let Some(connection) = &mut self.client.connection {
            connection.consumer.handle_progress(now);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            return self.client.end(now, Ended::Failed(NO_ANSWER));
        }
        self.client.leave_if_unused();
        if let Some(connection) = &mut self.client.connection {
            connection.pass_deadline(now);
        }
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.client.end(now, how);
    }

    fn turn(&mut self, now: Instant) {
        if self.client.connection.is_none() && !self.client.ended {
            self.client.connect(now);
            self.until = Some(now + self.client.patience);
        }
        self.client.take_turn(now);
        if let Some(connection) = &mut self.client.connection {
            let reason = connection.close_reason();
            connection.leave(now, reason);
        }
        self.client.act();
        self.follow_end(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let deadline = self.client.connection.as_ref().and_then(Carried::next_deadline);
        [deadline, self.until].into_iter().flatten().min()
    }

    fn is_gone(&self) -> bool {
        match &self.client.connection {
            Some(connection) => connection.is_finished(),
            None => self.client.ended,
        }
    }

    fn expects_work(&self) -> bool {
        self.client.is_awaiting()
    }
}
