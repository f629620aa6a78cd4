//! A server whose streams a trial sees first: the trial may lead a stream elsewhere, or answer it itself.

use std::cell::RefCell;
use std::rc::Rc;

use engine::{Core, Message};
use host::{Accepted, Endpoint, EndpointId, Refusal, Service};
use protocol::Instant;

/// What becomes of a stream, given the core that would have it.
pub(crate) type Admit = Rc<RefCell<dyn FnMut(Instant, Accepted, &mut Core) -> Admitted>>;

/// The server's end of a stream, or why there is none.
pub(crate) type Admitted = Result<Box<dyn Endpoint>, Refusal>;

/// A core behind what a trial does with its streams.
pub(crate) struct Front {
    pub(crate) core: Core,
    pub(crate) admit: Admit,
}

impl Service for Front {
    type Message = Message;

    fn accept(&mut self, now: Instant, accepted: Accepted) -> Admitted {
        (self.admit.borrow_mut())(now, accepted, &mut self.core)
    }

    fn handle_message(&mut self, now: Instant, message: Message) {
        self.core.handle_message(now, message);
    }

    fn turn(&mut self, now: Instant, ready: &mut Vec<EndpointId>) {
        self.core.turn(now, ready);
    }

    fn handle_gone(&mut self, now: Instant, endpoint: EndpointId) {
        self.core.handle_gone(now, endpoint);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.core.poll_timeout()
    }

    fn is_finished(&self) -> bool {
        self.core.is_finished()
    }
}
