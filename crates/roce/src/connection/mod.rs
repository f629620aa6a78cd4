//! One connection: a requester and a responder that a manager joins with a peer's, as a [`verbs::QueuePair`].

mod queue_pair;
mod receive;
mod setup;
mod transmit;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::net::SocketAddr;

use buf::Account;
use protocol::{CloseReason, Instant};
use verbs::{EndReason, QueueLimits, QueuePairLimits, QueuePairState, ReceiveQueue, RegionTable, SetupEvent};

use crate::consumer::Consumer;
use crate::counters::Counters;
use crate::limits::LONGEST;
use crate::management::{Manager, Opening, State};
use crate::mtu::Mtu;
use crate::requester::Requester;
use crate::responder::Responder;
use crate::train::Route;

/// Names a connection of an endpoint: the number of its queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// What a connection is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// What its queue pair holds. Requests have up to [`LONGEST`] bytes.
    pub queues: QueueLimits,
    /// The path MTU: the largest that fits into a datagram of this path. The initiator says it; a responder that has less rejects.
    pub mtu: Mtu,
    /// RDMA Reads of the peer's that are served at a time, up to [`READS`](crate::limits::READS).
    pub reads_served: u8,
    /// RDMA Reads under way at a time, up to [`READS`](crate::limits::READS).
    pub reads_sent: u8,
}

/// Whose turn it is to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Request,
    Response,
}

/// What a connection begins with.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) id: ConnectionId,
    pub(crate) config: Config,
    pub(crate) route: Route,
    pub(crate) opening: Opening,
    pub(crate) counters: Arc<Counters>,
}

/// One connection, either role. See the crate's documentation.
///
/// What its peer can make it hold is counted by its account: the table of the peer's RDMA Reads, which is all there is of them, and private data until the consumer has taken
/// it. All other memory is what the consumer posts and registers.
#[derive(Debug)]
pub struct Connection {
    id: ConnectionId,
    config: Config,
    account: Account,
    limits: QueuePairLimits,
    state: QueuePairState,
    close: Option<CloseReason>,
    route: Route,
    manager: Manager,
    events: VecDeque<SetupEvent>,
    consumer: Consumer,
    requester: Requester,
    /// None before the peer's first number is known.
    responder: Option<Responder>,
    turn: Turn,
    counters: Arc<Counters>,
}

impl Connection {
    /// One that this side wants.
    pub(crate) fn initiator(now: Instant, beginning: Beginning, account: Account) -> Self {
        let Beginning { id, config, route, opening, counters } = beginning;
        let own = opening.own;
        let mut connection = Self {
            id,
            config,
            account,
            limits: limits(config),
            state: QueuePairState::Open,
            close: None,
            route,
            manager: Manager::initiator(now, opening),
            events: VecDeque::new(),
            consumer: Consumer {
                receives: ReceiveQueue::new(config.queues.receives),
                regions: RegionTable::new(config.queues.regions),
                done: VecDeque::new(),
            },
            requester: Requester::new(config.queues.sends),
            responder: None,
            turn: Turn::Response,
            counters,
        };
        let granted = Responder::grant_reads(&mut connection.account, own.reads_served);
        connection.config.reads_served = granted;
        connection
    }

    /// One that the peer wants, on which the consumer decides.
    pub(crate) fn responder(now: Instant, beginning: Beginning, account: Account) -> Self {
        let opening = beginning.opening.clone();
        let words = opening.request.private_data.clone();
        let mut connection = Self::initiator(now, beginning, account);
        connection.manager = Manager::responder(now, opening);
        connection.tell(SetupEvent::Requested(words));
        connection
    }

    /// Its name at its endpoint.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.route.destination
    }

    /// The path MTU that was agreed.
    pub fn mtu(&self) -> Mtu {
        self.manager.request().mtu
    }

    /// Nothing is left to be sent or awaited: the endpoint may forget it.
    pub fn is_finished(&self) -> bool {
        self.manager.state() == State::Closed
    }

    fn is_open(&self) -> bool {
        self.state == QueuePairState::Open
    }

    /// Ends it, if it has not ended: everything that was posted completes, and the peer hears of it.
    fn end(&mut self, why: EndReason, close: CloseReason) {
        if self.is_open() {
            self.state = QueuePairState::Ended(why);
            self.close = Some(close);
            self.manager.disconnect();
            self.requester.stop();
            if let Some(responder) = &mut self.responder {
                responder.stop();
            }
            self.flush();
        }
    }

    /// Completes what was posted.
    fn flush(&mut self) {
        while let Some(done) = self.requester.complete() {
            self.consumer.done.push_back(done);
        }
        while let Some(done) = self.consumer.receives.flush() {
            self.consumer.done.push_back(done);
        }
        while let Some(done) = self.requester.flush(&mut self.consumer.regions) {
            self.consumer.done.push_back(done);
        }
    }

    /// Goes on with what needs no sending, and collects completions.
    fn advance(&mut self) {
        if !self.is_open() {
            return;
        }
        self.requester.prepare(&mut self.consumer.regions);
        if self.requester.is_stuck() {
            self.requester.refuse_next();
            let words = "the peer serves no RDMA Reads";
            return self.end(EndReason::Terminated(words), CloseReason::Limit(words));
        }
        while let Some(done) = self.requester.complete() {
            self.consumer.done.push_back(done);
        }
    }

    /// The consumer is to hear this.
    fn tell(&mut self, event: SetupEvent) {
        self.account.count(event.private_data().len());
        self.events.push_back(event);
    }
}

fn limits(config: Config) -> QueuePairLimits {
    QueuePairLimits {
        sends: config.queues.sends,
        receives: config.queues.receives,
        reads: usize::from(config.reads_sent),
        regions: config.queues.regions.min(1 << 16),
        longest: config.queues.longest.min(LONGEST),
        remote_invalidation: true,
    }
}
