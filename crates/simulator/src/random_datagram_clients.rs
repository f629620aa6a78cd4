//! Initiators and hosts on queue pairs of software RoCEv2 of any shape, each with a socket of its own in a world. They leave in good order, or are gone without a word.

use std::cell::RefCell;
use std::rc::Rc;

use buf::{Account, Pool};
use host::{DatagramEndpoint, Datagrams, OpenSocket};
use protocol::{Ended, Entropy, Instant};
use roce::Endpoint;
use roce::endpoint::{Arrival, Target};
use roce::train::Train;
use verbs::{QueuePair as _, QueuePairState};

use crate::random_clients::{Client, ClientConsumer};

/// Makes the consumer of a queue pair.
pub(crate) type Join<C> = Box<dyn FnOnce(Instant, roce::Connection) -> C>;

/// What a client wants of its peer.
pub(crate) struct Wish {
    pub(crate) target: Target,
    pub(crate) pool: Pool,
    pub(crate) entropy: Box<dyn Entropy>,
    /// It is gone behind so many trains.
    pub(crate) silence: usize,
}

/// A client's end: what it will be, and what it is once its socket is open.
pub(crate) struct DatagramClientEnd<C> {
    client: Rc<RefCell<Client>>,
    begin: Option<(Wish, Join<C>)>,
    open: Option<Open<C>>,
    train: Train,
    /// Trains that it still sends before it is gone.
    left: usize,
}

struct Open<C> {
    endpoint: Endpoint,
    consumer: C,
}

impl<C: ClientConsumer<QueuePair = roce::Connection>> DatagramClientEnd<C> {
    /// One that begins when its socket is open.
    pub(crate) fn new(wish: Wish, client: &Rc<RefCell<Client>>, join: Join<C>) -> Self {
        let left = wish.silence;
        let (client, train) = (Rc::clone(client), Train::default());
        Self { client, begin: Some((wish, join)), open: None, train, left }
    }

    /// Passes words on, ends a queue pair that is to end, and notices one that has.
    fn follow(&mut self, now: Instant) {
        let Some(open) = &mut self.open else { return };
        self.client.borrow_mut().talk(now, &mut open.consumer);
        let is_open = open.consumer.queue_pair_ref().state() == QueuePairState::Open;
        if open.consumer.close_reason().is_some() && is_open {
            open.consumer.queue_pair().disconnect();
            open.consumer.handle_progress(now);
        }
        if open.consumer.queue_pair_ref().is_finished() {
            self.end(now);
        }
    }

    fn end(&mut self, now: Instant) {
        let mut client = self.client.borrow_mut();
        if std::mem::replace(&mut client.ended, true) {
            return;
        }
        if let Some(open) = &mut self.open {
            open.consumer.queue_pair().disconnect();
            open.consumer.handle_ended(now);
            client.talk(now, &mut open.consumer);
        }
    }
}

impl<C: ClientConsumer<QueuePair = roce::Connection>> DatagramEndpoint for DatagramClientEnd<C> {
    fn handle_opened(&mut self, now: Instant, socket: OpenSocket) {
        let Some((wish, join)) = self.begin.take() else { return };
        let mut endpoint = Endpoint::new(socket.local, Account::new(&wish.pool), wish.entropy);
        match endpoint.connect(now, wish.target, Account::new(&wish.pool)) {
            Ok(pair) => {
                let mut consumer = join(now, pair);
                consumer.handle_progress(now);
                self.open = Some(Open { endpoint, consumer });
            }
            Err(_) => self.end(now),
        }
    }

    fn handle_datagrams(&mut self, now: Instant, datagrams: &Datagrams<'_>) {
        let Some(open) = &mut self.open else { return };
        for datagram in datagrams.each() {
            match open.endpoint.handle_datagram(datagrams.peer, datagram) {
                // Its socket is alone at its address.
                Arrival::Nothing | Arrival::Elsewhere(_) | Arrival::Withdrawn(_) => {}
                Arrival::Packet(_, packet) => {
                    open.consumer.queue_pair().handle_packet(now, packet);
                    open.consumer.handle_progress(now);
                }
                Arrival::Request(request) => open.endpoint.refuse(&request),
            }
        }
    }

    fn handle_transmitted(&mut self, _now: Instant) {
        self.train.clear();
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(open) = &mut self.open {
            open.consumer.handle_deadline(now);
        }
    }

    fn handle_retired(&mut self, _now: Instant) {}

    fn handle_shutdown(&mut self, _now: Instant) {}

    fn handle_ended(&mut self, now: Instant, _how: Ended) {
        self.end(now);
    }

    fn turn(&mut self, now: Instant) {
        self.follow(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagrams<'_>> {
        if self.client.borrow().ended {
            return None;
        }
        let open = self.open.as_mut()?;
        if self.train.is_empty() {
            open.endpoint.poll_transmit(&mut self.train);
        }
        if self.train.is_empty() {
            open.consumer.queue_pair().poll_transmit(now, &mut self.train);
            open.consumer.handle_progress(now);
            self.follow(now);
            self.left = self.left.saturating_sub(usize::from(!self.train.is_empty()));
            if self.left == 0 {
                self.train.clear();
                self.end(now);
            }
        }
        let peer = self.train.destination()?;
        Some(Datagrams { peer, bytes: self.train.bytes(), segment: self.train.segment() })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let open = self.open.as_ref()?;
        open.consumer.next_deadline()
    }

    fn is_finished(&self) -> bool {
        self.begin.is_none() && self.client.borrow().ended
    }

    fn expects_work(&self) -> bool {
        false
    }
}
