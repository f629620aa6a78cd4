//! A socket's queue pairs as the event loop drives them.

use std::rc::Rc;
use std::sync::Arc;

use buf::{Account, Pool};
use host::{DatagramEndpoint, Datagrams, Membership, OpenSocket, SocketSlot};
use protocol::{Ended, Entropy, Instant};
use roce::Counters;
use roce::endpoint::Neighbours;
use roce::train::Train;

use super::shared_socket::SharedSocket;
use super::socket::Socket;
use crate::limits::CLIENT_POOL;

/// What a socket's queue pairs begin with.
pub(crate) struct Seed {
    /// For their numbers.
    pub(crate) entropy: Box<dyn Entropy>,
    /// Where it is counted what their packets go through.
    pub(crate) counters: Arc<Counters>,
}

/// What the event loop has of a socket; whoever decides about requests, and whoever connects, has the socket too.
pub(crate) struct SocketEndpoint {
    shared: Rc<SharedSocket>,
    /// Of a socket that is not open yet.
    seed: Option<Seed>,
    /// What is on its way out.
    train: Train,
}

impl SocketEndpoint {
    /// Of a socket that is open.
    pub(crate) fn new(shared: Rc<SharedSocket>) -> Self {
        Self { shared, seed: None, train: Train::default() }
    }

    /// Of a socket that is to be opened.
    pub(crate) fn unopened(shared: Rc<SharedSocket>, seed: Seed) -> Self {
        Self { seed: Some(seed), ..Self::new(shared) }
    }
}

/// The queue pairs of a socket that is open, which take no share of the pool.
pub(crate) fn queue_pairs(opened: OpenSocket, pool: &Pool, seed: Seed) -> Socket {
    let Seed { entropy, counters } = seed;
    let neighbours = Box::new(Members(opened.membership.clone()));
    let endpoint = roce::Endpoint::new(opened.local, Account::apart(pool), entropy);
    Socket::new(endpoint.among(neighbours).counting(counters), opened.membership)
}

/// The sockets at one address, as their endpoints name them.
struct Members(Membership);

impl Neighbours for Members {
    fn own(&self) -> u8 {
        self.0.slot.0
    }

    fn acceptor(&self, key: u32) -> Option<u8> {
        self.0.group.acceptor(key).map(|SocketSlot(slot)| slot)
    }
}

impl DatagramEndpoint for SocketEndpoint {
    fn handle_opened(&mut self, now: Instant, opened: OpenSocket) {
        if let Some(seed) = self.seed.take() {
            self.shared.open(|| queue_pairs(opened, &Pool::new(CLIENT_POOL), seed));
            self.shared.turn(now);
        }
    }

    fn handle_datagrams(&mut self, now: Instant, datagrams: &Datagrams<'_>) {
        self.shared.with(|socket| socket.handle_datagrams(now, datagrams));
    }

    fn handle_transmitted(&mut self, _now: Instant) {
        self.train.clear();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.shared.with(|socket| socket.handle_timeout(now));
    }

    fn handle_retired(&mut self, _now: Instant) {
        self.shared.retire();
    }

    fn handle_shutdown(&mut self, now: Instant) {
        self.shared.shut_down(now);
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.shared.end(now, how);
    }

    fn turn(&mut self, now: Instant) {
        self.shared.turn(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagrams<'_>> {
        if self.train.is_empty() {
            self.shared.with(|socket| socket.fill(now, &mut self.train));
        }
        let peer = self.train.destination()?;
        Some(Datagrams { peer, bytes: self.train.bytes(), segment: self.train.segment() })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.shared.with(|socket| socket.poll_timeout())?
    }

    fn is_finished(&self) -> bool {
        self.train.is_empty() && self.shared.is_finished()
    }

    fn expects_work(&self) -> bool {
        self.shared.with(|socket| socket.expects_work()).unwrap_or_default()
    }
}
