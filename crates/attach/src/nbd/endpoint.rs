//! A connection with its slot at the hub: bytes from the reactor, requests to the core's queue.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use host::{Endpoint, EndpointId};
use protocol::{CloseReason, Connection as _, Ended, Instant, Placement, Transmit};
use volume::{QueueFull, Request};

use super::connection::{Action, Connection, Input};
use super::connection_table::ConnectionSlot;
use super::hub::Hub;

/// A client's connection as the reactor drives it.
#[derive(Debug)]
pub(crate) struct ClientEndpoint {
    connection: Connection,
    hub: Rc<Hub>,
    slot: ConnectionSlot,
    /// Requests that a full queue gave back, in order.
    awaiting_room: VecDeque<Request>,
    outstanding: usize,
    /// The hub counts it among those that negotiate.
    is_negotiating: bool,
    ended: bool,
}

impl ClientEndpoint {
    /// Takes a slot for a new connection.
    pub(crate) fn new(hub: Rc<Hub>, endpoint: EndpointId, connection: Connection) -> Self {
        let slot = hub.join(endpoint);
        Self {
            connection,
            hub,
            slot,
            awaiting_room: VecDeque::new(),
            outstanding: 0,
            is_negotiating: true,
            ended: false,
        }
    }

    fn act(&mut self, now: Instant) {
        while let Some(Action::Submit(request)) = self.connection.poll_action() {
            self.outstanding += 1;
            self.awaiting_room.push_back(request);
        }
        while let Some(request) = self.awaiting_room.pop_front() {
            if let Err(QueueFull(request)) = self.hub.submit(now, self.slot, request) {
                self.awaiting_room.push_front(request);
                return self.hub.wait_for_room(self.slot);
            }
        }
    }
}

impl Endpoint for ClientEndpoint {
    fn staging(&self) -> usize {
        Connection::STAGING
    }

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.connection.handle_bytes(now, bytes)
    }

    fn take_placement(&mut self) -> Option<Placement> {
        self.connection.take_placement()
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        self.connection.handle_placed(now, placement);
    }

    fn handle_transmitted(&mut self, now: Instant, bytes: usize) {
        self.connection.handle_transmitted(now, bytes);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
    }

    fn handle_connected(&mut self, _now: Instant, _local: SocketAddr, _peer: SocketAddr) {}

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        if !std::mem::replace(&mut self.ended, true) {
            self.connection.handle_ended(now, how);
        }
    }

    fn turn(&mut self, now: Instant) {
        if self.is_negotiating && !self.connection.is_negotiating() {
            self.is_negotiating = false;
            self.hub.end_negotiation(self.slot);
        }
        self.act(now);
        while let Some(input) = self.hub.take(self.slot) {
            self.outstanding -= usize::from(matches!(input, Input::Completion(_)));
            self.connection.handle_input(now, input);
        }
        self.act(now);
        if !self.connection.wants_bytes() || self.connection.awaits_memory() {
            self.hub.wait_for_memory(self.slot);
        }
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.connection.poll_transmit(now, send);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    fn wants_bytes(&mut self) -> bool {
        self.connection.wants_bytes()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.connection.poll_close()
    }

    fn is_idle(&self) -> bool {
        self.outstanding == 0
    }

    fn expects_work(&self) -> bool {
        !self.ended
    }
}
