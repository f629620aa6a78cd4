//! Clients that take in everything that comes, wanted or not: for the tests of the tests.

use std::net::SocketAddr;
use std::task::Waker;
use std::time::Duration;

use host::{DatagramEndpoint, Datagrams, Dialer, Endpoint, EndpointId, IoError, OpenSocket, Path, SlotField};
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};

use crate::client_machine::ClientMachine;

/// Dials for endpoints that become greedy, from this machine.
pub(crate) struct GreedyDialer(pub(crate) ClientMachine);

impl Dialer for GreedyDialer {
    fn dial(&self, peer: SocketAddr, inner: Box<dyn Endpoint>) -> EndpointId {
        self.0.dial(peer, Box::new(Greedy { inner, backlog: Vec::new() }))
    }

    fn path_to(&self, peer: SocketAddr) -> Result<Path, IoError> {
        self.0.path_to(peer)
    }

    fn open_socket(
        &self,
        address: SocketAddr,
        slot: SlotField,
        inner: Box<dyn DatagramEndpoint>,
    ) -> EndpointId {
        self.0.open_socket(address, slot, Box::new(GreedySocket { inner, kept: Vec::new() }))
    }

    fn wake(&self, endpoint: EndpointId) {
        self.0.wake(endpoint);
    }

    fn waker(&self, endpoint: EndpointId) -> Waker {
        self.0.waker(endpoint)
    }
}

/// An endpoint, and the bytes that it has not asked for yet.
struct Greedy {
    inner: Box<dyn Endpoint>,
    backlog: Vec<u8>,
}

impl Greedy {
    fn feed(&mut self, now: Instant) {
        while !self.backlog.is_empty() && self.inner.wants_bytes() {
            let consumed = self.inner.handle_bytes(now, &self.backlog);
            self.backlog.drain(..consumed);
            if consumed == 0 {
                break;
            }
        }
    }
}

impl Endpoint for Greedy {
    fn staging(&self) -> usize {
        self.inner.staging()
    }

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        if self.backlog.is_empty() && self.inner.wants_bytes() {
            return self.inner.handle_bytes(now, bytes);
        }
        self.backlog.extend_from_slice(bytes);
        self.feed(now);
        bytes.len()
    }

    fn take_placement(&mut self) -> Option<Placement> {
        if self.backlog.is_empty() { self.inner.take_placement() } else { None }
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        self.inner.handle_placed(now, placement);
    }

    fn handle_transmitted(&mut self, now: Instant, bytes: usize) {
        self.inner.handle_transmitted(now, bytes);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
    }

    fn connect_time(&self) -> Option<Duration> {
        self.inner.connect_time()
    }

    fn handle_connected(&mut self, now: Instant, local: SocketAddr, peer: SocketAddr) {
        self.inner.handle_connected(now, local, peer);
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.backlog = Vec::new();
        self.inner.handle_ended(now, how);
    }

    fn turn(&mut self, now: Instant) {
        self.feed(now);
        self.inner.turn(now);
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.inner.poll_transmit(now, send);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn wants_bytes(&mut self) -> bool {
        true
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.inner.poll_close()
    }

    fn is_idle(&self) -> bool {
        self.inner.is_idle()
    }

    fn expects_work(&self) -> bool {
        false
    }
}

/// A socket that keeps every datagram.
struct GreedySocket {
    inner: Box<dyn DatagramEndpoint>,
    kept: Vec<u8>,
}

impl DatagramEndpoint for GreedySocket {
    fn handle_opened(&mut self, now: Instant, socket: OpenSocket) {
        self.inner.handle_opened(now, socket);
    }

    fn handle_datagrams(&mut self, now: Instant, datagrams: &Datagrams<'_>) {
        self.kept.extend_from_slice(datagrams.bytes);
        self.inner.handle_datagrams(now, datagrams);
    }

    fn handle_transmitted(&mut self, now: Instant) {
        self.inner.handle_transmitted(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
    }

    fn handle_retired(&mut self, now: Instant) {
        self.inner.handle_retired(now);
    }

    fn handle_shutdown(&mut self, now: Instant) {
        self.inner.handle_shutdown(now);
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.kept = Vec::new();
        self.inner.handle_ended(now, how);
    }

    fn turn(&mut self, now: Instant) {
        self.inner.turn(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagrams<'_>> {
        self.inner.poll_transmit(now)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }

    fn expects_work(&self) -> bool {
        false
    }
}
