//! One protocol connection as an endpoint: bytes from whoever moves them, requests to the core's queues.
//!
//! `stream` is a driver over a byte stream, `datagrams` one whose queue pair shares a socket with others, `adapters` one whose queue pair an RDMA adapter has.
//!
//! The driver adds nothing of its own to the protocol. It drains the connection's actions after each batch of
//! inputs, parks requests that a full queue gave back, returns those that a fence has overtaken, and counts what is under
//! way, so that a connection whose stream has ended stays until its last request has completed.

mod adapters;
mod datagrams;
mod stream;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use host::{Accepted, Event, Kind, Level};
use protocol::{CloseReason, Ended, Instant, Notice, NoticeKind, Parties};
use volume::{Submission, Tag};

use crate::carried::Carried;
use crate::catalogue::Departure;
use crate::hub::Hub;
use crate::kind::{ServedKind, Tagged};
use crate::limits::PARKED_GUESS;
use crate::message::{Inbound, Member};
use crate::queues::{Slot, SubmitError, UseReport};
use crate::served_id::ServedId;
use crate::serving_connection::ServingConnection;
use crate::volume_kind::VolumeKind;

/// What tells one protocol's driver from another's: how inbox and actions map to its words.
pub(crate) trait Role {
    /// What the protocol serves, whose queues its requests go to.
    type Kind: ServedKind;

    /// The protocol's state machine.
    type Connection: ServingConnection;

    /// What the inbox says, in the connection's words; `None` when it does not concern this connection.
    fn input(inbound: Inbound<Self::Kind>) -> Option<<Self::Connection as Carried>::Input>;

    /// Does what the connection asks for.
    fn act(action: <Self::Connection as Carried>::Action, context: &mut DriverContext<Self::Kind>);
}

/// The driver's side of the hub, through which actions are carried out.
pub(crate) struct DriverContext<K: ServedKind = VolumeKind> {
    pub(crate) hub: Rc<Hub<K>>,
    pub(crate) member: Member,
    pub(crate) now: Instant,
    slot: Slot,
    parked: VecDeque<Submission<K::Request>>,
    outstanding: usize,
}

impl<K: ServedKind> DriverContext<K> {
    /// Submits a request, or parks it behind those that a full queue gave back.
    #[inline]
    pub(crate) fn submit(&mut self, submission: Submission<K::Request>) {
        self.outstanding += 1;
        if !self.parked.is_empty() {
            self.parked.push_back(submission);
        } else if let Err(error) = self.hub.submit(self.now, self.slot, submission)
            && let Some(full) = self.given_back(error)
        {
            self.parked.push_back(full);
        }
    }

    /// A request that a full queue gave back. One that a fence has overtaken returns to its connection, behind the fence in its
    /// inbox, to be judged again.
    #[cold]
    fn given_back(&self, error: SubmitError<K>) -> Option<Submission<K::Request>> {
        match error {
            SubmitError::Full(submission) => Some(submission),
            SubmitError::StaleEpoch(submission) => {
                self.hub.deliver(self.member.endpoint, Inbound::StaleEpoch(Box::new(submission.request)));
                None
            }
        }
    }

    /// Asks that a request end soon; a parked one ends here.
    pub(crate) fn cancel(&mut self, served: ServedId, tag: Tag) {
        let parked =
            self.parked.iter().position(|parked| (parked.volume, parked.request.tag()) == (served, tag));
        match parked.and_then(|index| self.parked.remove(index)) {
            Some(parked) => {
                let completion = K::cancelled(parked.request);
                self.hub.deliver(self.member.endpoint, Inbound::Completion(completion));
            }
            None => self.hub.cancel(self.slot, served, tag),
        }
    }

    fn retry_parked(&mut self) {
        while let Some(parked) = self.parked.pop_front() {
            if let Err(error) = self.hub.submit(self.now, self.slot, parked)
                && let Some(parked) = self.given_back(error)
            {
                self.parked.push_front(parked);
                return;
            }
        }
    }
}

/// A connection with its context.
pub(crate) struct Driver<R: Role> {
    connection: R::Connection,
    context: DriverContext<R::Kind>,
    peer: SocketAddr,
    ended: bool,
    active: bool,
    established: bool,
    told: Told,
    /// That its host was asked to leave, if it was.
    departure: Option<Departure>,
    /// Why the connection is to end although it does not want to itself.
    forced: Option<CloseReason>,
}

/// What people were told of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    /// The peer is in.
    Login,
    /// The connection ends.
    End,
}

impl<R: Role> Driver<R> {
    /// Takes a place at the hub for a new connection.
    pub(crate) fn new(hub: Rc<Hub<R::Kind>>, accepted: Accepted, connection: R::Connection) -> Self {
        let Accepted { listener, endpoint, peer, .. } = accepted;
        let member = Member { core: hub.core, endpoint };
        let slot = hub.join(endpoint, peer, listener);
        let parked = VecDeque::with_capacity(PARKED_GUESS);
        let context = DriverContext { hub, member, now: Instant::ZERO, slot, parked, outstanding: 0 };
        Self {
            connection,
            context,
            peer,
            ended: false,
            active: false,
            established: false,
            told: Told::Nothing,
            departure: None,
            forced: None,
        }
    }

    /// Tells people what has come up, and once why the connection ends.
    fn tell(&mut self) {
        while let Some(notice) = self.connection.poll_notice() {
            if notice.kind == NoticeKind::Login {
                self.told = Told::Login;
            }
            self.record(noticed(notice, R::Connection::CARRIER));
        }
        if self.told != Told::End
            && let Some(reason) = self.close_reason()
        {
            self.record(Event::closed(reason));
            self.told = Told::End;
        }
    }

    /// Records an event of this connection. That it ends in good order is told of those who were in.
    fn record(&self, mut event: Event) {
        if self.told == Told::Nothing && matches!(event.kind, Kind::Ended | Kind::Failed) {
            event.level = Level::Debug;
        }
        let journal = &self.context.hub.journal;
        if journal.wants(event.kind, event.level) {
            let Parties { initiator, target } = self.connection.parties();
            journal.record(Event { peer: Some(self.peer), initiator, target, ..event });
        }
    }

    /// Says whether the connection uses what is withdrawn.
    #[cold]
    fn report_use(&self, served: ServedId) {
        let report = if self.uses(served) { UseReport::InUse } else { UseReport::Unused };
        self.context.hub.queues().handle_use(self.context.now, served, report);
    }

    /// Ends the connection if it still uses what is not served any more: its requests end with it.
    #[cold]
    fn leave(&mut self, served: ServedId) {
        if self.uses(served) {
            self.forced = Some(CloseReason::Withdrawn(R::Kind::WITHDRAWN));
        }
    }

    /// Lets the connection hear what is behind its portal. Before all cores serve that, one that would tell its host does not.
    #[cold]
    fn change_portal(&mut self, now: Instant, inbound: Inbound<R::Kind>) {
        if matches!(inbound, Inbound::PortalCommitted(_)) && self.connection.reports_changes() {
            return;
        }
        let Some(input) = R::input(inbound) else { return };
        self.connection.take_input(now, input);
        if self.departure.is_none() && self.connection.is_withdrawn() {
            self.departure = Some(Departure::Asked);
            self.context.hub.observer.observe_departure(Departure::Asked);
        }
    }

    /// Counts the end of a connection whose host was asked to leave.
    fn count_departure(&self) {
        if self.departure.is_some() {
            let is_forced = matches!(self.close_reason(), Some(CloseReason::Withdrawn(_)));
            let departure = if is_forced { Departure::Forced } else { Departure::Ended };
            self.context.hub.observer.observe_departure(departure);
        }
    }

    fn uses(&self, served: ServedId) -> bool {
        self.connection.uses(served) || self.context.parked.iter().any(|parked| parked.volume == served)
    }

    /// The transport has ended.
    fn end(&mut self, now: Instant, how: Ended) {
        if !std::mem::replace(&mut self.ended, true) {
            self.count_departure();
            self.tell();
            if self.told != Told::End {
                self.record(Event::ended(how));
                self.told = Told::End;
            }
            self.connection.end(now, how);
        }
    }

    /// Does what has come from inside since the last turn.
    fn take_turn(&mut self, now: Instant) {
        self.context.now = now;
        self.connection.retry_memory(now);
        self.act();
        while let Some(inbound) = self.context.hub.take(self.context.slot) {
            match inbound {
                Inbound::Completion(_) | Inbound::StaleEpoch(_) => self.context.outstanding -= 1,
                Inbound::AskUse(served) => self.report_use(served),
                Inbound::Overdue(served) => self.leave(served),
                Inbound::PortalCommitted(_) | Inbound::PortalChanged(_) => {
                    self.change_portal(now, inbound);
                    continue;
                }
                _ => {}
            }
            if let Some(input) = R::input(inbound) {
                self.connection.take_input(now, input);
            }
        }
        self.context.retry_parked();
        self.act();
        if !self.established && self.connection.is_in() {
            self.established = true;
            self.context.hub.establish(self.context.slot);
        }
        if !self.context.parked.is_empty() {
            self.context.hub.wait_for_room(self.context.slot);
        }
        self.tell();
        if self.connection.waits_for_memory() {
            self.context.hub.wait_for_memory(self.context.slot);
        }
    }

    /// Why the connection is to end.
    fn close_reason(&self) -> Option<CloseReason> {
        self.connection.close_reason().or(self.forced)
    }

    /// No request of its is under way.
    fn has_nothing_under_way(&self) -> bool {
        self.context.outstanding == 0 && !self.connection.is_busy()
    }

    fn act(&mut self) {
        while let Some(action) = self.connection.next_action() {
            R::act(action, &mut self.context);
        }
    }
}

/// A notice as an event. That somebody is in says what carries the connection.
fn noticed(notice: Notice, carrier: Option<&str>) -> Event {
    let is_in = matches!(notice.kind, NoticeKind::Login | NoticeKind::Queue);
    let text: Cow<'static, str> = match carrier.filter(|_| is_in) {
        Some(carrier) => format!("{}, over {carrier}", notice.text).into(),
        None => notice.text.into(),
    };
    let kind = match notice.kind {
        NoticeKind::Login | NoticeKind::Queue => Kind::Login,
        NoticeKind::Reject => Kind::Reject,
        NoticeKind::Management => Kind::Management,
        NoticeKind::Conflict => Kind::Conflict,
    };
    let event = Event::new(kind, text);
    if notice.kind == NoticeKind::Queue { event.at(Level::Debug) } else { event }
}
