//! A client's connection over a byte stream: an [`Endpoint`] for whoever moves the bytes.

use std::net::SocketAddr;
use std::time::Duration;

use host::Endpoint;
use protocol::{CloseReason, Connection, Ended, Instant, Placement, Transmit};

use super::{Client, ClientRole};

impl<R: ClientRole> Endpoint for Client<R>
where
    R::Connection: Connection,
{
    fn staging(&self) -> usize {
        R::Connection::STAGING
    }

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.connection.as_mut().map_or(0, |connection| connection.handle_bytes(now, bytes))
    }

    fn take_placement(&mut self) -> Option<Placement> {
        self.connection.as_mut()?.take_placement()
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        if let Some(connection) = &mut self.connection {
            connection.handle_placed(now, placement);
        }
    }

    fn handle_transmitted(&mut self, now: Instant, bytes: usize) {
        if let Some(connection) = &mut self.connection {
            connection.handle_transmitted(now, bytes);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.leave_if_unused();
        if let Some(connection) = &mut self.connection {
            connection.handle_timeout(now);
        }
    }

    fn handle_connected(&mut self, now: Instant, _local: SocketAddr, _peer: SocketAddr) {
        self.connect(now);
    }

    fn handle_shutdown(&mut self, now: Instant) -> bool {
        self.shut_down(now)
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.end(now, how);
    }

    fn turn(&mut self, now: Instant) {
        self.take_turn(now);
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        if let Some(connection) = &mut self.connection {
            connection.poll_transmit(now, send);
        }
    }

    fn connect_time(&self) -> Option<Duration> {
        Some(self.patience)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.connection.as_ref()?.poll_timeout()
    }

    fn wants_bytes(&mut self) -> bool {
        self.connection.as_mut().is_some_and(Connection::wants_bytes)
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.connection.as_ref()?.poll_close()
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn expects_work(&self) -> bool {
        self.is_awaiting()
    }
}
