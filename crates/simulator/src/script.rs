//! Peers that do what no connection of this project does: endpoints whose bytes a script or a trial makes.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use host::{Dialer as _, Endpoint, EndpointId};
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};

use crate::world::WorldDialer;

/// Bytes of one send.
const SEND: usize = 64 << 10;

/// A peer's end of a stream.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// What came and was not looked at.
    pub(crate) received: Vec<u8>,
    /// What is to be sent.
    pub(crate) out: Vec<u8>,
    /// It takes no bytes: its window closes.
    pub(crate) deaf: bool,
    /// It wants the stream closed.
    pub(crate) closes: bool,
    pub(crate) ended: bool,
}

/// A peer's end, for whoever plays the peer.
pub(crate) type Peer = Rc<RefCell<Line>>;

/// What a peer does.
pub(crate) trait Script {
    /// The stream is there, something has come, or the time that it named has passed. Says when it wants to be called next.
    fn act(&mut self, now: Instant, line: &mut Line) -> Option<Instant>;
}

/// A peer that does only what a trial puts into its line.
struct Puppet;

impl Script for Puppet {
    fn act(&mut self, _now: Instant, _line: &mut Line) -> Option<Instant> {
        None
    }
}

/// Dials a port of the calling thread's world for a peer that a trial plays.
pub(crate) fn dial(port: u16) -> (EndpointId, Peer) {
    dial_for(port, Box::new(Puppet))
}

/// The same for one with a script.
pub(crate) fn dial_for(port: u16, script: Box<dyn Script>) -> (EndpointId, Peer) {
    let peer = Peer::default();
    let endpoint = Scripted::new(Rc::clone(&peer), script);
    (WorldDialer.dial(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Box::new(endpoint)), peer)
}

/// The endpoint of a peer.
pub(crate) struct Scripted {
    line: Peer,
    script: Box<dyn Script>,
    due: Option<Instant>,
}

impl Scripted {
    pub(crate) fn new(line: Peer, script: Box<dyn Script>) -> Self {
        Self { line, script, due: Some(Instant::ZERO) }
    }

    fn act(&mut self, now: Instant) {
        let mut line = self.line.borrow_mut();
        if !line.ended {
            self.due = self.script.act(now, &mut line);
        }
    }
}

impl Endpoint for Scripted {
    fn staging(&self) -> usize {
        0
    }

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.line.borrow_mut().received.extend_from_slice(bytes);
        self.act(now);
        bytes.len()
    }

    fn take_placement(&mut self) -> Option<Placement> {
        None
    }

    fn handle_placed(&mut self, _now: Instant, _placement: Placement) {}

    fn handle_transmitted(&mut self, _now: Instant, _bytes: usize) {}

    fn handle_timeout(&mut self, now: Instant) {
        self.due = None;
        self.act(now);
    }

    fn handle_connected(&mut self, now: Instant, _local: SocketAddr, _peer: SocketAddr) {
        self.act(now);
    }

    fn handle_ended(&mut self, _now: Instant, _how: Ended) {
        let mut line = self.line.borrow_mut();
        *line = Line { received: std::mem::take(&mut line.received), ended: true, ..Line::default() };
        self.due = None;
    }

    fn turn(&mut self, _now: Instant) {}

    fn poll_transmit(&mut self, _now: Instant, send: &mut Transmit) {
        let mut line = self.line.borrow_mut();
        let count = line.out.len().min(SEND);
        send.put(&line.out[..count]);
        line.out.drain(..count);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    fn wants_bytes(&mut self) -> bool {
        !self.line.borrow().deaf
    }

    fn poll_close(&self) -> Option<CloseReason> {
        let line = self.line.borrow();
        (line.closes && !line.ended).then_some(CloseReason::Finished)
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn expects_work(&self) -> bool {
        false
    }
}
