//! A driver over a byte stream: an [`Endpoint`] for whoever moves the bytes.

use std::net::SocketAddr;

use host::Endpoint;
use protocol::{CloseReason, Connection, Ended, Instant, Placement, Transmit};

use super::{Driver, Role};
use crate::carried::Carried;

impl<R: Role> Endpoint for Driver<R>
where
    R::Connection: Connection,
{
    fn staging(&self) -> usize {
        R::Connection::STAGING
    }

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.active = true;
        self.connection.handle_bytes(now, bytes)
    }

    fn take_placement(&mut self) -> Option<Placement> {
        self.connection.take_placement()
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        self.active = true;
        self.connection.handle_placed(now, placement);
    }

    fn handle_transmitted(&mut self, now: Instant, bytes: usize) {
        self.connection.handle_transmitted(now, bytes);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.connection.pass_deadline(now);
    }

    fn handle_connected(&mut self, _now: Instant, _local: SocketAddr, _peer: SocketAddr) {}

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.end(now, how);
    }

    fn turn(&mut self, now: Instant) {
        self.take_turn(now);
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.connection.poll_transmit(now, send);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.connection.next_deadline()
    }

    fn wants_bytes(&mut self) -> bool {
        self.connection.wants_bytes()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.close_reason()
    }

    fn is_idle(&self) -> bool {
        self.has_nothing_under_way()
    }

    fn expects_work(&self) -> bool {
        self.active && !self.ended
    }
}
