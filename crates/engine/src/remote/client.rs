//! An initiator's or host's connection as an endpoint: orders in, completions out.

use std::net::SocketAddr;
use std::rc::Rc;

use host::Endpoint;
use protocol::{CloseReason, Connection, Ended, Instant, Placement, Transmit};
use volume::Completion;

use super::link::{Link, Order, Stage};

/// What a connection reports.
pub(crate) enum Report<I> {
    /// It is open; what is now known of the far end.
    Ready(I),
    /// A request has ended.
    Complete(Completion),
    /// It cannot go on.
    Failed(String),
}

/// What tells one protocol's client from another's.
pub(crate) trait ClientRole {
    /// The protocol's state machine.
    type Connection: Connection;
    /// What is known once it is open.
    type Info;

    /// An order in the connection's words.
    fn input(order: Order) -> <Self::Connection as Connection>::Input;

    /// An action in common words.
    fn report(action: <Self::Connection as Connection>::Action) -> Report<Self::Info>;
}

/// Called once with what became known of the far end.
pub(crate) type WhenReady<I> = Box<dyn FnOnce(I)>;

/// A client connection with its link.
pub(crate) struct Client<R: ClientRole> {
    connection: R::Connection,
    link: Rc<Link>,
    when_ready: Option<WhenReady<R::Info>>,
    now: Instant,
    ended: bool,
}

impl<R: ClientRole> Client<R> {
    /// Joins a connection with its link.
    pub(crate) fn new(connection: R::Connection, link: Rc<Link>, when_ready: WhenReady<R::Info>) -> Self {
        Self { connection, link, when_ready: Some(when_ready), now: Instant::ZERO, ended: false }
    }

    fn act(&mut self) {
        while let Some(action) = self.connection.poll_action() {
            match R::report(action) {
                Report::Complete(completion) => self.link.complete(completion),
                Report::Failed(why) => self.link.fail(why),
                Report::Ready(info) => {
                    if let Some(tell) = self.when_ready.take() {
                        tell(info);
                    }
                    self.link.ready();
                }
            }
        }
    }
}

impl<R: ClientRole> Endpoint for Client<R> {
    fn staging(&self) -> usize {
        R::Connection::STAGING
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

    fn handle_connected(&mut self, now: Instant, _local: SocketAddr, _peer: SocketAddr) {
        self.now = now;
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.connection.handle_ended(now, how);
        self.act();
        let why = match (how, self.connection.poll_close()) {
            (_, Some(CloseReason::Violation(text) | CloseReason::TimedOut(text) | CloseReason::Refused(text))) => {
                text.to_owned()
            }
            (Ended::ByPeer, _) => "the peer closed the connection".to_owned(),
            (Ended::Failed(code), _) => host::IoError(code).to_string(),
            (Ended::ByUs, _) => "the connection was closed".to_owned(),
        };
        self.link.fail(why);
    }

    fn turn(&mut self, now: Instant) {
        self.now = now;
        self.act();
        while let Some(order) = self.link.next_order() {
            self.connection.handle_input(now, R::input(order));
        }
        self.act();
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
        true
    }

    fn expects_work(&self) -> bool {
        !self.ended && self.link.stage() == Stage::Ready && self.link.outstanding() > 0
    }
}
