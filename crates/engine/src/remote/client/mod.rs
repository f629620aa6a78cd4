//! An initiator's or host's connection: inputs in, completions out.
//!
//! `stream` is one over a byte stream, `datagrams` one whose queue pair has a socket, `adapters` one whose queue pair an RDMA adapter has.

pub(crate) mod adapters;
pub(crate) mod datagrams;
mod stream;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use ::volume::Completion;
use host::Dialer;
use names::Span;
use protocol::{CloseReason, Ended, Instant};

use super::link::{Link, LinkInput};
use crate::carried::Carried;
use crate::limits::CONNECT_TIME;

/// What a connection reports.
pub(crate) enum Report<I> {
    /// It is open; what is now known of the far end.
    Ready(I),
    /// Something at the far end has changed.
    Changed(I),
    /// A request has ended.
    Complete(Completion),
    /// It cannot go on.
    Failed(String),
}

/// What tells one protocol's client from another's.
pub(crate) trait ClientRole {
    /// The protocol's state machine.
    type Connection: Carried;
    /// What is known once it is open.
    type Info;

    /// The far end is to hear that the connection ends, even where the whole process does: what it keeps for a client that has just gone is in others' way.
    const TAKES_LEAVE: bool = false;

    /// What a link asks for, in the connection's words.
    fn input(input: LinkInput) -> <Self::Connection as Carried>::Input;

    /// An action in common words.
    fn report(action: <Self::Connection as Carried>::Action) -> Report<Self::Info>;
}

/// Called with what became known of the far end when the connection is ready and whenever it has changed, and with the link, to
/// which it may push inputs.
pub(crate) type Tell<I> = Box<dyn FnMut(I, &Link)>;

/// Called in each turn of an open connection: submits requests of other cores, and takes the answers to them.
pub(crate) type TurnHook = Box<dyn FnMut(&Link)>;

/// Makes the connection once its transport is there: a protocol's clock starts then.
pub(crate) type Make<C> = Box<dyn FnOnce(Instant) -> C>;

/// Who needs a connection.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    /// Woken when completions or a new stage can be seen.
    pub(crate) waker: Waker,
    /// Held by whoever needs the connection: it logs out or disconnects once nobody does.
    pub(crate) purpose: Arc<()>,
}

/// What is called for a connection, on its core.
pub(crate) struct Hooks<I> {
    pub(crate) tell: Tell<I>,
    pub(crate) turn: Option<TurnHook>,
}

/// A connection that is to be made.
pub(crate) struct Dial<I> {
    /// Where it leads.
    pub(crate) address: SocketAddr,
    /// How long a command may take (`timeout=`): connecting is a step of opening like others, and takes no longer.
    pub(crate) command_time: Duration,
    pub(crate) owner: Owner,
    pub(crate) hooks: Hooks<I>,
}

/// A client connection with its link.
pub(crate) struct Client<R: ClientRole> {
    make: Option<Make<R::Connection>>,
    connection: Option<R::Connection>,
    link: Rc<Link>,
    tell: Tell<R::Info>,
    turn_hook: Option<TurnHook>,
    /// Where the far end is, for people.
    address: SocketAddr,
    /// How long connecting may take.
    patience: Duration,
    /// Dropped by the last user of the volume: the connection then logs out or disconnects.
    purpose: Weak<()>,
    ended: bool,
    /// Empty between turns; its memory changes places with the link's.
    inputs: VecDeque<LinkInput>,
}

impl<R: ClientRole + 'static> Client<R>
where
    R::Connection: protocol::Connection,
{
    /// Dials.
    pub(crate) fn dial(dialer: &Arc<dyn Dialer>, make: Make<R::Connection>, dial: Dial<R::Info>) -> Rc<Link> {
        let (link, address) = (Link::new(dial.owner.waker.clone()), dial.address);
        let client = Self::new(make, Rc::clone(&link), dial);
        link.set_endpoint(dialer.dial(address, Box::new(client)));
        link
    }
}

impl<R: ClientRole> Client<R> {
    /// A connection that is to be made, with its link.
    fn new(make: Make<R::Connection>, link: Rc<Link>, dial: Dial<R::Info>) -> Self {
        Self { make: Some(make), ..Self::unconnected(link, dial) }
    }

    /// A link whose connection is made with its transport.
    pub(crate) fn unconnected(link: Rc<Link>, dial: Dial<R::Info>) -> Self {
        let Dial { address, command_time, owner, hooks } = dial;
        Self {
            make: None,
            connection: None,
            link,
            tell: hooks.tell,
            turn_hook: hooks.turn,
            address,
            patience: command_time.min(CONNECT_TIME),
            purpose: Arc::downgrade(&owner.purpose),
            ended: false,
            inputs: VecDeque::new(),
        }
    }

    fn act(&mut self) {
        self.act_with(None);
    }

    fn run_turn_hook(&mut self) {
        if let Some(turn_hook) = &mut self.turn_hook
            && self.link.is_ready()
        {
            turn_hook(&self.link);
        }
    }

    /// Does what the connection wants done; `why` is a better reason for its failure than its own.
    fn act_with(&mut self, why: Option<&str>) {
        let Some(connection) = &mut self.connection else { return };
        while let Some(action) = connection.next_action() {
            match R::report(action) {
                Report::Complete(completion) => self.link.complete(completion),
                Report::Failed(own) => self.link.fail(why.map_or(own, str::to_owned)),
                Report::Changed(info) => (self.tell)(info, &self.link),
                Report::Ready(info) => {
                    (self.tell)(info, &self.link);
                    self.link.ready();
                }
            }
        }
    }

    /// The transport is there.
    fn connect(&mut self, now: Instant) {
        self.connection = self.make.take().map(|make| make(now));
    }

    /// Nobody needs the connection any more: it is to leave.
    fn leave_if_unused(&mut self) {
        if self.purpose.strong_count() == 0 {
            self.link.push(LinkInput::Disconnect);
        }
    }

    /// The process ends. True if the far end is to hear that first.
    fn shut_down(&mut self, now: Instant) -> bool {
        let Some(connection) = self.connection.as_mut().filter(|_| R::TAKES_LEAVE && !self.ended) else {
            return false;
        };
        if connection.close_reason().is_none() {
            connection.take_input(now, R::input(LinkInput::Disconnect));
        }
        true
    }

    /// The transport has ended.
    fn end(&mut self, now: Instant, how: Ended) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        // Whatever the connection has said of its end itself says more.
        self.act();
        let why = self.why(how);
        if let Some(connection) = &mut self.connection {
            connection.end(now, how);
            // Its requests go back before the link is known to have ended.
            self.act_with(Some(&why));
        }
        self.link.fail(why);
    }

    /// Does what was asked for, and reports what has come of it.
    fn take_turn(&mut self, now: Instant) {
        self.act();
        self.run_turn_hook();
        if let Some(connection) = &mut self.connection {
            // Inputs wait until the connection is open.
            self.link.take_inputs(&mut self.inputs);
            for input in self.inputs.drain(..) {
                connection.take_input(now, R::input(input));
            }
            if let Some(input) = self.link.take_close() {
                connection.take_input(now, R::input(input));
            }
        }
        self.act();
        self.run_turn_hook();
    }

    /// Answers are awaited.
    fn is_awaiting(&self) -> bool {
        !self.ended && self.link.under_way() > 0
    }

    /// Why the stream ended, for people.
    fn why(&self, how: Ended) -> String {
        let address = self.address;
        match (how, self.connection.as_ref()) {
            (Ended::ByPeer, Some(_)) => format!("{address} closed the connection"),
            (Ended::Failed(code), Some(_)) => {
                format!("the connection to {address} failed: {}", host::IoError(code))
            }
            (Ended::Failed(NO_ANSWER), None) => {
                let (patience, remedy) = (Span(self.patience), remedy(NO_ANSWER));
                format!(
                    "cannot connect to {address}: it did not answer the TCP connection request within {patience}; {remedy}"
                )
            }
            (Ended::Failed(code), None) => {
                format!("cannot connect to {address}: {}; {}", host::IoError(code), remedy(code))
            }
            (Ended::ByUs, Some(connection)) => match connection.close_reason() {
                Some(CloseReason::Violation(what) | CloseReason::TimedOut(what)) => {
                    format!("the connection to {address} was closed: {what}")
                }
                _ => format!("the connection to {address} was closed"),
            },
            (Ended::ByPeer | Ended::ByUs, _) => format!("the connection to {address} was closed"),
        }
    }
}

/// `EPERM`, `EACCES`: what a firewall of this machine answers.
const FORBIDDEN: [i32; 2] = [1, 13];
/// `ENETUNREACH`, `EHOSTUNREACH`: no route, or nobody there.
const NO_ROUTE: [i32; 2] = [101, 113];
/// `ETIMEDOUT`: nothing came back.
const NO_ANSWER: i32 = 110;
/// `ECONNREFUSED`: the machine is there, and nobody listens.
const REFUSED: i32 = 111;

/// `EADDRINUSE`: what a socket is told whose address is another process's. Streams take any port.
const TAKEN: i32 = 98;

/// What helps against a stream that cannot be connected.
fn remedy(code: i32) -> &'static str {
    match code {
        TAKEN => {
            "all packets of RoCEv2 go to UDP port 4791, and another process of this machine, or its kernel (rdma_rxe), has it: end that process, unload rdma_rxe, or use a server with another \
             udp_port, or another transport"
        }
        REFUSED => "nothing listens there: start the server, or check the address and the port",
        NO_ANSWER => "nothing answers there: check the address, and firewalls on the way",
        code if NO_ROUTE.contains(&code) => {
            "no route leads there: check the address, the routes and the network's links"
        }
        code if FORBIDDEN.contains(&code) => "this machine forbids it: check its firewall",
        _ => "check the address, the port and the network",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_not_to_connect_has_a_remedy() {
        for (code, wanted) in [
            (libc_code("refused"), "start the server"),
            (libc_code("timed out"), "firewalls"),
            (libc_code("no route"), "routes"),
            (libc_code("unreachable"), "routes"),
            (libc_code("permission"), "its firewall"),
            (libc_code("in use"), "another process of this machine"),
            (12, "check the address"),
        ] {
            assert!(remedy(code).contains(wanted), "{}: {}", host::IoError(code), remedy(code));
        }
    }

    /// The number of an error whose text of the system has these words.
    fn libc_code(words: &str) -> i32 {
        let named = |code: &i32| host::IoError(*code).to_string().to_lowercase().contains(words);
        (1..134).find(named).unwrap()
    }
}
