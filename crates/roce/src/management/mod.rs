//! Connection management: how two queue pairs come to know each other, by messages to queue pair 1 (IBTA chapter 12, annex A11 for services of TCP's ports).
//!
//! A [`Manager`] is one connection's: it says which message is to be sent, sends it again while its answer does not come, and takes the peer's.

mod mad;
mod message;
mod state;

use core::time::Duration;

use protocol::Instant;
use verbs::PrivateData;

pub use self::message::{
    Content, MESSAGE, Message, Names, Reason, Rejected, Reply, Request, Terms, Unreadable,
};
pub(crate) use self::state::{Change, State};
use crate::limits::{DECISION_TIME, DISCONNECT_ATTEMPTS, MANAGEMENT_ATTEMPTS, MANAGEMENT_TIME, SERVICE_TIME};

/// The queue pair that all management goes to.
pub const QUEUE_PAIR: u32 = 1;
/// The key of that queue pair (IBTA §10.2.5).
pub const QUEUE_KEY: u32 = 0x8001_0000;

/// One connection's manager.
#[derive(Debug)]
pub(crate) struct Manager {
    state: State,
    /// When the message that is under way was sent, or the request came.
    since: Instant,
    /// How long its answer may take.
    patience: Duration,
    attempts: u8,
    names: Names,
    transaction: u64,
    /// The request: what this side wants, or the peer.
    request: Request,
    /// What this side says of its queue pair.
    own: Terms,
    /// What the peer says of its.
    peer: Option<Terms>,
    /// What the consumer says in a reply or a rejection.
    words: PrivateData,
    reason: Reason,
}

/// What begins a manager.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    /// The names as this side says them.
    pub(crate) names: Names,
    /// The transaction of the request.
    pub(crate) transaction: u64,
    pub(crate) request: Request,
    /// What this side says of its queue pair.
    pub(crate) own: Terms,
}

impl Manager {
    /// Of a connection that this side wants.
    pub(crate) fn initiator(now: Instant, opening: Opening) -> Self {
        Self::new(now, opening, State::RequestDue)
    }

    /// Of a connection that the peer wants.
    pub(crate) fn responder(now: Instant, opening: Opening) -> Self {
        let peer = opening.request.terms;
        Self { peer: Some(peer), patience: DECISION_TIME, ..Self::new(now, opening, State::Deciding) }
    }

    fn new(now: Instant, opening: Opening, state: State) -> Self {
        let Opening { names, transaction, request, own } = opening;
        Self {
            state,
            since: now,
            patience: MANAGEMENT_TIME,
            attempts: 0,
            names,
            transaction,
            request,
            own,
            peer: None,
            words: PrivateData::NONE,
            reason: Reason::CONSUMER,
        }
    }

    pub(crate) const fn state(&self) -> State {
        self.state
    }

    pub(crate) const fn request(&self) -> &Request {
        &self.request
    }

    /// What the peer says of its queue pair, once it has.
    pub(crate) const fn peer(&self) -> Option<Terms> {
        self.peer
    }

    /// What this side says of its queue pair.
    pub(crate) const fn own(&self) -> Terms {
        self.own
    }

    /// The message that is to be sent.
    pub(crate) fn due(&self) -> Option<Message> {
        let content = match self.state {
            State::RequestDue => Content::Request(self.request.clone()),
            State::ReplyDue => Content::Reply(Reply {
                terms: self.own,
                adapter: message::adapter(self.request.destination),
                private_data: self.words.clone(),
            }),
            State::ReadyDue => Content::Ready,
            State::RejectDue => {
                let rejected = if self.peer.is_some() { Rejected::Request } else { Rejected::Other };
                Content::Reject(rejected, self.reason, self.words.clone())
            }
            State::DisconnectDue => Content::Disconnect(self.peer?.queue_pair),
            State::DisconnectedDue => Content::Disconnected,
            _ => return None,
        };
        Some(Message { transaction: self.transaction, names: self.names, content })
    }

    /// It is sent.
    pub(crate) fn sent(&mut self, now: Instant) {
        (self.since, self.patience) = (now, MANAGEMENT_TIME);
        self.attempts = self.attempts.saturating_add(1);
        self.state.sent();
    }

    /// What is sent next is sent for the first time.
    fn anew(&mut self) {
        self.attempts = 0;
    }

    /// The peer sends its request again.
    pub(crate) fn requested_again(&mut self) {
        self.state.requested_again();
    }

    /// The consumer accepts, with these words and on these terms; false if it has nothing to decide.
    pub(crate) fn accept(&mut self, own: Terms, words: PrivateData) -> bool {
        let accepts = self.state.accept();
        if accepts {
            (self.own, self.words) = (own, words);
        }
        accepts
    }

    /// The consumer rejects, with these words; false if it has nothing to decide.
    pub(crate) fn reject(&mut self, words: PrivateData) -> bool {
        let rejects = self.state.reject();
        if rejects {
            self.words = words;
        }
        rejects
    }

    /// The peer has sent a packet: it has the reply.
    pub(crate) fn heard(&mut self) -> Change {
        self.state.ready()
    }

    /// The peer grants the connection.
    pub(crate) fn replied(&mut self, name: u32, terms: Terms) -> Change {
        let change = self.state.replied();
        if change == Change::Established {
            (self.names.receiver, self.peer) = (name, Some(terms));
            self.anew();
        }
        change
    }

    /// The message comes from the peer that this connection is with.
    pub(crate) fn is_peer(&self, sender: u32) -> bool {
        self.peer.is_none() || sender == self.names.receiver
    }

    /// The peer has the reply.
    pub(crate) fn ready(&mut self) -> Change {
        self.state.ready()
    }

    /// The peer refuses.
    pub(crate) fn rejected(&mut self) -> Change {
        self.state.rejected()
    }

    /// The peer asks for patience.
    pub(crate) fn receipt(&mut self, now: Instant, exponent: u8) {
        if matches!(self.state, State::AwaitReply | State::AwaitReady) {
            let wait = Duration::from_nanos(4096).saturating_mul(2_u32.saturating_pow(u32::from(exponent)));
            (self.since, self.patience) = (now, wait.clamp(MANAGEMENT_TIME, SERVICE_TIME));
        }
    }

    /// The peer ends the connection of this queue pair.
    pub(crate) fn disconnected_by_peer(&mut self, transaction: u64) -> Change {
        let change = self.state.disconnected_by_peer();
        if self.state == State::DisconnectedDue {
            self.transaction = transaction;
        }
        change
    }

    /// The peer knows that it is over.
    pub(crate) fn disconnected(&mut self) {
        self.state.disconnected();
    }

    /// This side ends it.
    pub(crate) fn disconnect(&mut self) {
        let before = self.state;
        self.state.disconnect();
        if self.state != before {
            self.anew();
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let waits = matches!(
            self.state,
            State::AwaitReply | State::Deciding | State::AwaitReady | State::AwaitDisconnected
        );
        waits.then(|| self.since + self.patience)
    }

    /// The deadline may have passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Change {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return Change::None;
        }
        let most = match self.state {
            State::AwaitDisconnected => DISCONNECT_ATTEMPTS,
            _ => MANAGEMENT_ATTEMPTS,
        };
        let change = self.state.time_out(self.attempts < most);
        if change == Change::TimedOut {
            self.reason = Reason::TIMEOUT;
        }
        change
    }
}
