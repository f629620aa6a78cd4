//! The seam between RPC and what stands on it: an upper layer is a server, a client, or, where calls go both ways over one connection (RFC 8881 §2.10.3.1),
//! both.
//!
//! Below it are the transports, [`tcp`](crate::tcp) and [`rdma`](crate::rdma); nothing here says which one there is. A transport calls its upper layer while it receives
//! ([`UpperLayer`]), and an upper layer puts calls and replies into the [`Channel`] that comes with each such call.
//!
//! | what happens | the upper layer is told by | and answers by |
//! |---|---|---|
//! | a call's header has come | [`begin_call`](UpperLayer::begin_call) | a decoder for its arguments, or what the caller hears instead |
//! | arguments come | [`Decoder::step`](crate::xdr::Decoder::step) of that decoder | what it wants next |
//! | a WRITE's data begins | [`memory`](UpperLayer::memory) | a buffer, or nothing while there is none |
//! | the data is there | [`Body::payload`] | |
//! | the arguments are whole | [`call`](UpperLayer::call) | [`Channel::reply`], now or later |
//! | they are no arguments | [`undecodable`](UpperLayer::undecodable) | [`Channel::reply`] |
//! | it wants to call its peer | | [`Channel::call`], with a decoder for the results, and memory for their payloads |
//! | the reply is whole | [`reply`](UpperLayer::reply) | |
//! | the connection has ended | [`handle_ended`](UpperLayer::handle_ended) | [`Channel::take_unanswered`], to call again over another |

use buf::Buf;
use protocol::Instant;

use crate::call::CallId;
use crate::channel::{Channel, ReceivedReply};
use crate::message::{AcceptStat, CallHeader, ReplyStatus};
use crate::xdr::{Decoder, Error, Reader, Step};

/// Arguments or results on their way in.
pub trait Body: Decoder {
    /// A piece of the payload that [`Step::Payload`] has announced, filled: all of it over a byte stream; over RDMA it may come in several pieces, in order,
    /// before the next step.
    fn payload(&mut self, piece: Buf);
}

/// The body of an upper layer that calls nobody, and so receives no results: there is none.
#[derive(Debug)]
pub enum NoBody {}

impl Decoder for NoBody {
    fn step(&mut self, _reader: &mut Reader<'_>) -> Result<Step, Error> {
        match *self {}
    }
}

impl Body for NoBody {
    fn payload(&mut self, _piece: Buf) {
        match *self {}
    }
}

/// What stands on a connection. See the module.
pub trait UpperLayer {
    /// What comes from inside (see [`protocol::Connection::Input`]).
    type Input;
    /// What goes inside.
    type Action;
    /// The arguments of a call of the peer, while they come.
    type Arguments: Body;
    /// The results of a call to the peer, while they come.
    type Results: Body;

    /// The peer calls.
    ///
    /// # Errors
    /// What the peer hears at once, such as what [`dispatch`](crate::message::dispatch) says; not success.
    fn begin_call(&mut self, header: &CallHeader<'_>) -> Result<Self::Arguments, ReplyStatus>;

    /// Memory for `length` bytes or more, of a call's payload or of what carries a call over RDMA: above zero, and no more than
    /// [`Config::longest_record`](crate::Config), or than the results of a call of its own. Nothing means that the call waits until
    /// [`protocol::Connection::handle_memory`] is called.
    fn memory(&mut self, length: usize) -> Option<Buf>;

    /// A call's arguments are whole. It is answered with [`Channel::reply`].
    fn call(
        &mut self,
        now: Instant,
        channel: &mut Channel<Self::Results>,
        id: CallId,
        arguments: Self::Arguments,
    );

    /// A call's arguments cannot be decoded, or end too early. It is answered with [`Channel::reply`].
    fn undecodable(
        &mut self,
        _now: Instant,
        channel: &mut Channel<Self::Results>,
        id: CallId,
        _arguments: Self::Arguments,
    ) {
        channel.refuse(id, ReplyStatus::Accepted(AcceptStat::GarbageArguments));
    }

    /// A call to the peer was answered.
    fn reply(
        &mut self,
        now: Instant,
        channel: &mut Channel<Self::Results>,
        reply: ReceivedReply<Self::Results>,
    );

    /// Takes what comes from inside.
    fn handle_input(&mut self, now: Instant, channel: &mut Channel<Self::Results>, input: Self::Input);

    /// The next action.
    fn poll_action(&mut self) -> Option<Self::Action>;

    /// Memory may have come back. The transport goes on with the call that waits for some.
    fn handle_memory(&mut self, _now: Instant, _channel: &mut Channel<Self::Results>) {}

    /// The deadline has passed, or not quite.
    fn handle_timeout(&mut self, _now: Instant, _channel: &mut Channel<Self::Results>) {}

    /// When it wants to be told the time.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// The connection has ended. Calls of the peer's that are under way are answered in vain from now on.
    fn handle_ended(&mut self, now: Instant, channel: &mut Channel<Self::Results>);

    /// True while it waits for memory itself.
    fn awaits_memory(&self) -> bool {
        false
    }

    /// False while it takes no further call; asked again every turn. Replies behind such a call are not read either, so that this must become true without one.
    fn takes_calls(&self) -> bool {
        true
    }

    /// True once the peer may use what is served.
    fn is_established(&self) -> bool {
        true
    }
}

/// What stands on a connection, and what it says.
#[derive(Debug)]
pub struct Parts<'a, U: UpperLayer> {
    /// The upper layer.
    pub upper: &'a mut U,
    /// Its channel.
    pub channel: &'a mut Channel<U::Results>,
}
