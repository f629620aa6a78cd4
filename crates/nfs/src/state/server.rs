//! The group: every client's state, on one core.
//!
//! A call is tried from the start until it can be done whole; what it has to wait for (loans that come back, records that become durable, a client whose
//! lease is over) is asked for meanwhile, and the call is parked.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::fmt::Debug;
use core::time::Duration;

use protocol::{Group, GroupMessage, Instant};

use super::answers::{Answers, Verdict as CallVerdict};
use super::budget::Budget;
use super::clients::{Clients, Confirmation, Holding, Owner, Purpose};
use super::create_slot::Verdict;
use super::grace::{Grace, Phase, Recovery};
use super::holdings::{Hindrance, Holdings, Outcome, Recall, Release};
use super::lease::Standing;
use super::messages::{
    Answer, Call, Claim, LockRequest, Notice, OpenRequest, ReclaimScope, Reply, Request, SessionRequest,
    SlotLoan,
};
use super::sessions::{CreatedSession, Sessions, Taken};
use super::slot::Slot;
use super::stable::{Progress, Stable, StableChange, StableRecord};
use crate::limits::{CLIENT_SESSIONS, PARKED, SHORTAGE};
use crate::v4::{ClientId, SessionId, Status};

/// How long the end of grace waits before it tries again to remove a record that could not be removed.
const RETRY: Duration = Duration::from_secs(1);

/// A call that waits.
#[derive(Debug)]
struct Parked<M, F> {
    from: M,
    tag: u64,
    call: Call<F>,
    /// It was tried before: what it wanted gone may be gone since.
    tried: bool,
}

/// What is to be done about a call that was tried.
#[derive(Debug)]
enum Resolution<F> {
    Answer(Result<Answer<F>, Status>),
    Again,
    Wait,
}

/// How an open in the way is told (RFC 8881 §15.1.5.7, §15.1.8.8, §15.1.9.4).
fn refused_share<F>(call: &Call<F>) -> Status {
    match call {
        Call::Open(OpenRequest { claim: Claim::Reclaim, .. }) => Status::RECLAIM_CONFLICT,
        Call::Open(_) => Status::SHARE_DENIED,
        _ => Status::LOCKED,
    }
}

/// All state of a server. `M` names a connection, `F` a file.
#[derive(Debug)]
pub struct Server<M, F> {
    clients: Clients,
    sessions: Sessions<M>,
    answers: Answers<M>,
    holdings: Holdings<M, F>,
    grace: Grace,
    stable: Stable,
    /// Clients that are being removed, and wait for loans or for stable storage.
    leaving: BTreeSet<ClientId>,
    /// When a client's lease is to be looked at.
    deadlines: BTreeSet<(Instant, ClientId)>,
    parked: VecDeque<Parked<M, F>>,
    messages: VecDeque<GroupMessage<M, Reply<F>>>,
    retry: Option<Instant>,
    /// Bytes that clients make this side hold beside their records.
    bytes: usize,
    budget: Budget,
    /// When clients whose lease is over may be looked for again.
    shortage: Instant,
}

impl<M: Copy + Ord + Debug, F: Clone + Ord + Debug> Server<M, F> {
    /// A server that starts now. `boot` is another number than at every earlier start; `records` is what stable storage has.
    pub fn new(now: Instant, boot: u32, records: &[StableRecord]) -> Self {
        Self {
            clients: Clients::new(boot),
            sessions: Sessions::new(),
            answers: Answers::default(),
            holdings: Holdings::new(boot),
            grace: Grace::new(now, records),
            stable: Stable::new(records),
            leaving: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            parked: VecDeque::new(),
            messages: VecDeque::new(),
            retry: None,
            bytes: 0,
            budget: Budget::default(),
            shortage: now,
        }
    }

    /// The next change of stable storage, in order. [`Server::handle_stable`] says how it ended.
    pub fn poll_stable(&mut self) -> Option<StableChange> {
        self.stable.poll_change()
    }

    /// A change of this client's record is durable, or failed.
    pub fn handle_stable(&mut self, now: Instant, client: ClientId, result: Result<(), ()>) {
        self.stable.handle_done(client, result);
        if result.is_err() {
            self.retry = Some(now + RETRY);
        }
        self.go_on_leaving(client);
        self.settle(now);
    }

    /// What is to be closed at the file system, on any queue of it: its client closed it, or is gone.
    pub fn poll_release(&mut self) -> Option<Release<F>> {
        self.holdings.poll_release()
    }

    /// Bytes of everything that clients make this side hold.
    pub fn bytes(&self) -> usize {
        self.clients.bytes().saturating_add(self.bytes)
    }

    /// How many clients there are, confirmed or not.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Where the grace period stands.
    pub fn phase(&self) -> Phase {
        self.grace.phase()
    }

    fn answer(&mut self, to: M, tag: u64, result: Result<Answer<F>, Status>) {
        self.messages.push_back(GroupMessage { to, message: Reply::Answer { tag, result } });
    }

    /// Tries a call, and parks it if it has to wait.
    fn call(&mut self, now: Instant, mut parked: Parked<M, F>) {
        let mut resolution = Resolution::Again;
        // A second try follows when everybody who stood in the way is gone; each takes at least one client away.
        while let Resolution::Again = resolution {
            let outcome = self.attempt(now, &parked);
            parked.tried = true;
            self.pass_on();
            resolution = self.resolve(now, &parked.call, outcome);
        }
        match resolution {
            Resolution::Answer(result) => self.answer(parked.from, parked.tag, result),
            _ if self.parked.len() >= PARKED => self.answer(parked.from, parked.tag, Err(Status::DELAY)),
            _ => self.parked.push_back(parked),
        }
    }

    fn resolve(&mut self, now: Instant, call: &Call<F>, outcome: Outcome<F>) -> Resolution<F> {
        let hindrance = match outcome {
            Ok(answer) => return Resolution::Answer(Ok(answer)),
            Err(hindrance) => hindrance,
        };
        let (clients, refusal) = match hindrance {
            Hindrance::Refused(status) => return Resolution::Answer(Err(status)),
            Hindrance::Recalling => return Resolution::Wait,
            Hindrance::Shares(clients) => (clients, Err(refused_share(call))),
            Hindrance::Lock(denied) => {
                let client = BTreeSet::from([denied.owner.client]);
                let reclaim = matches!(call, Call::Lock(LockRequest { claim: Claim::Reclaim, .. }));
                (client, if reclaim { Err(Status::RECLAIM_CONFLICT) } else { Ok(Answer::Denied(denied)) })
            }
        };
        if !clients.iter().all(|client| self.gives_way(now, *client)) {
            return Resolution::Answer(refusal);
        }
        let left: Vec<Result<(), Hindrance>> = clients.iter().map(|client| self.leave(*client)).collect();
        match left.into_iter().find_map(Result::err) {
            None => Resolution::Again,
            Some(Hindrance::Refused(status)) => Resolution::Answer(Err(status)),
            Some(_) => Resolution::Wait,
        }
    }

    /// Whoever's lease is over has to give way (RFC 8881 §8.4.2).
    fn gives_way(&self, now: Instant, client: ClientId) -> bool {
        let record = self.clients.get(client);
        self.leaving.contains(&client)
            || record.is_none_or(|record| record.lease.standing(now) != Standing::Active)
    }

    /// Goes on with a client that leaves, for which something has come back.
    fn go_on_leaving(&mut self, client: ClientId) {
        if self.leaving.contains(&client) {
            // What still waits goes on at the next event of this client.
            let _waits = self.leave(client);
        }
    }

    /// Tries every parked call once more, as something has come back.
    fn settle(&mut self, now: Instant) {
        self.end_grace();
        for parked in core::mem::take(&mut self.parked) {
            self.call(now, parked);
        }
        self.pass_on();
    }

    /// Passes on recalls, and counts what clients hold.
    fn pass_on(&mut self) {
        while let Some(Recall { from, loan }) = self.holdings.poll_recall() {
            self.messages.push_back(GroupMessage { to: from, message: Reply::Recall(loan) });
        }
        while let Some(growth) = self.holdings.poll_growth() {
            self.grow(growth.client, growth.more, growth.fewer);
        }
    }

    fn grow(&mut self, client: ClientId, more: usize, fewer: usize) {
        self.bytes = self.bytes.saturating_add(more).saturating_sub(fewer);
        if let Some(record) = self.clients.get_mut(client) {
            let after = record.bytes.saturating_add(more).saturating_sub(fewer);
            self.budget.change(record.bytes, after);
            record.bytes = after;
        }
    }

    /// How many bytes a client may still take.
    fn room(&self, client: ClientId) -> usize {
        self.clients.get(client).map_or(0, |record| self.budget.room(record.bytes))
    }

    /// Where bytes run short, clients whose lease is over lose what they have.
    fn make_bytes(&mut self, now: Instant) {
        if !self.budget.is_short() || now < self.shortage {
            return;
        }
        self.shortage = now + SHORTAGE;
        for client in self.clients.idle_above_floor(now) {
            let _waits = self.leave(client);
        }
    }

    /// Takes a client's record out.
    fn remove_client(&mut self, client: ClientId) {
        if let Some(record) = self.clients.remove(client) {
            self.budget.change(record.bytes, 0);
        }
    }

    fn attempt(&mut self, now: Instant, parked: &Parked<M, F>) -> Outcome<F> {
        let from = parked.from;
        if matches!(parked.call, Call::CreateSession(_) | Call::Open(_) | Call::Lock(_)) {
            self.make_bytes(now);
        }
        match &parked.call {
            Call::ExchangeId(owner, purpose) => self.exchange_id(now, owner, *purpose),
            Call::CreateSession(request) => self.create_session(now, request),
            Call::TakeSlot(session, slot) => self.take_slot(now, from, *session, *slot),
            Call::FindSession(session) => {
                self.sessions.get(*session).map(|_| Answer::Done).ok_or(Status::BADSESSION.into())
            }
            Call::DestroySession(session) => self.destroy_session(*session),
            Call::DestroyClientId(client) if parked.tried && self.clients.get(*client).is_none() => {
                Ok(Answer::Done)
            }
            Call::DestroyClientId(client) => self.destroy_client(*client),
            Call::ReclaimComplete(client, scope) => self.reclaim_complete(*client, *scope),
            Call::Borrow(named) => {
                self.living(named.client)?;
                self.holdings.borrow(from, named)
            }
            Call::BorrowAnonymous(file, access) => match self.grace.phase() {
                Phase::Over => self.holdings.borrow_anonymous(from, file, *access),
                Phase::Running | Phase::Ending => Err(Status::GRACE.into()),
            },
            Call::Admit(client) => Ok(self.admit(*client, Claim::New).map(|()| Answer::Done)?),
            Call::Open(request) => {
                self.admit(request.owner.client, request.claim)?;
                self.holdings.open(from, request, self.room(request.owner.client))
            }
            Call::Downgrade(named, share) => {
                self.living(named.client)?;
                self.holdings.downgrade(from, named, *share)
            }
            Call::Close(named) => {
                self.living(named.client)?;
                self.holdings.close(named)
            }
            Call::Lock(request) => {
                self.admit(request.client, request.claim)?;
                self.holdings.lock(from, request, self.room(request.client))
            }
            Call::TestLock(request) => {
                self.admit(request.owner.client, Claim::New)?;
                self.holdings.test_lock(request)
            }
            Call::Unlock(named, range) => {
                self.living(named.client)?;
                self.holdings.unlock(from, named, *range, self.room(named.client))
            }
            Call::FreeStateid(client, stateid) => {
                self.living(*client)?;
                self.holdings.free(*client, *stateid)
            }
            Call::TestStateids(client, stateids) => {
                self.living(*client)?;
                let tested = stateids.iter().map(|stateid| self.holdings.test(*client, *stateid));
                Ok(Answer::Tested(tested.map(|result| result.err().unwrap_or(Status::OK)).collect()))
            }
            Call::Once(key) => match self.answers.begin(now, from, key) {
                CallVerdict::Execute => Ok(Answer::Done),
                CallVerdict::Repeat(answer) => Ok(Answer::Repeated(answer)),
                CallVerdict::Wait => Err(Hindrance::Recalling),
                CallVerdict::Refuse => Err(Status::DELAY.into()),
            },
        }
    }

    /// A request of a client that was removed while it was under way.
    fn living(&self, client: ClientId) -> Result<(), Status> {
        let there = self.clients.confirmed(client).is_some() && !self.leaving.contains(&client);
        there.then_some(()).ok_or(Status::EXPIRED)
    }

    /// Whether a client may claim state now (RFC 8881 §8.4.2.1, §18.51.3).
    fn admit(&self, client: ClientId, claim: Claim) -> Result<(), Status> {
        self.living(client)?;
        let record = self.clients.get(client).ok_or(Status::EXPIRED)?;
        match claim {
            Claim::New if self.grace.phase() != Phase::Over || !record.reclaim_complete => Err(Status::GRACE),
            Claim::Reclaim if record.reclaim_complete || !self.grace.may_reclaim(&record.owner.id) => {
                Err(Status::NO_GRACE)
            }
            Claim::New | Claim::Reclaim => Ok(()),
        }
    }

    fn exchange_id(&mut self, now: Instant, owner: &Owner, purpose: Purpose) -> Outcome<F> {
        let collision = self.clients.collides(owner).filter(|_| purpose == Purpose::Establish);
        let holding = collision.map_or(Holding::Nothing, |client| self.holding(now, client));
        if let Some(client) = collision.filter(|_| holding == Holding::Nothing) {
            self.leave(client)?;
        }
        self.make_room(now);
        let exchanged = self.clients.exchange(now, owner.clone(), purpose, holding)?;
        if let Some(record) = self.clients.get(exchanged.client)
            && exchanged.confirmation == Confirmation::Unconfirmed
        {
            self.deadlines.insert((record.lease.ends(), exchanged.client));
        }
        Ok(Answer::Exchanged(exchanged))
    }

    /// What a confirmed client has that its lease protects.
    fn holding(&self, now: Instant, client: ClientId) -> Holding {
        let active =
            self.clients.get(client).is_some_and(|record| record.lease.standing(now) == Standing::Active);
        if active && self.holdings.has_state(client) { Holding::State } else { Holding::Nothing }
    }

    /// When the table is full, the oldest record that nobody has confirmed makes room, or else a client whose lease is over.
    fn make_room(&mut self, now: Instant) {
        if self.clients.len() < crate::limits::CLIENTS {
            return;
        }
        if let Some(client) = self.clients.oldest_unconfirmed() {
            return self.remove_client(client);
        }
        if let Some(client) = self.clients.find(|record| record.lease.standing(now) != Standing::Active) {
            let _waits = self.leave(client);
        }
    }

    fn create_session(&mut self, now: Instant, request: &SessionRequest) -> Outcome<F> {
        let Some(record) =
            self.clients.get(request.client).filter(|_| !self.leaving.contains(&request.client))
        else {
            return Err(Status::STALE_CLIENTID.into());
        };
        match record.create.judge(request.sequence) {
            Verdict::Misordered => return Err(Status::SEQ_MISORDERED.into()),
            Verdict::Replay(result) => return Ok(Answer::SessionCreated(result?)),
            Verdict::Execute => {}
        }
        if record.confirmation == Confirmation::Unconfirmed && record.owner.principal != request.principal {
            return Err(Status::CLID_INUSE.into());
        }
        let attributes = request.attributes.negotiate();
        if attributes.is_ok()
            && let Some(earlier) = self.clients.replaced_by(request.client)
        {
            self.leave(earlier)?;
        }
        let result = attributes.and_then(|attributes| {
            let fitting = attributes.fitting(self.room(request.client) / 2).ok_or(Status::DELAY)?;
            if self.sessions.count(request.client) < CLIENT_SESSIONS {
                Ok(fitting)
            } else {
                Err(Status::DELAY)
            }
        });
        let result = result.map(|attributes| {
            self.clients.confirm(request.client);
            let session = self.sessions.create(request.client, attributes);
            self.grow(request.client, attributes.bytes(), 0);
            CreatedSession { session, sequence: request.sequence, attributes }
        });
        if let Some(record) = self.clients.get_mut(request.client) {
            record.create.finish(result);
            record.lease.renew(now);
        }
        Ok(Answer::SessionCreated(result?))
    }

    fn take_slot(&mut self, now: Instant, from: M, id: SessionId, slot: u32) -> Outcome<F> {
        let session = self.sessions.get_mut(id).ok_or(Status::BADSESSION)?;
        let (client, attributes) = (session.client, session.attributes);
        match session.take(slot, from) {
            Taken::Lent(slot) => {
                if let Some(record) = self.clients.get_mut(client) {
                    record.lease.renew(now);
                }
                self.grow(client, 0, slot.reply_bytes());
                Ok(Answer::Slot(SlotLoan { slot, client, attributes, renewed: now }))
            }
            Taken::Recall(holder) => {
                self.messages.push_back(GroupMessage { to: holder, message: Reply::RecallSlot(id, slot) });
                Err(Hindrance::Recalling)
            }
            Taken::Wait => Err(Hindrance::Recalling),
            Taken::Refused(status) => Err(status.into()),
        }
    }

    fn destroy_session(&mut self, session: SessionId) -> Outcome<F> {
        if self.end_session(session) { Ok(Answer::Done) } else { Err(Status::BADSESSION.into()) }
    }

    /// A slot comes back. A session whose cached replies no longer fit ends: its client hears so, and begins another.
    fn return_slot(&mut self, from: M, id: SessionId, slot: u32, contents: Slot) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let (client, more) = (session.client, contents.reply_bytes());
        if !session.give_back(slot, from, contents) {
            return;
        }
        if more > self.room(client) {
            self.end_session(id);
        } else {
            self.grow(client, more, 0);
        }
    }

    /// Ends a session at once. Those that have slots of it hear so; requests of these slots go on, and are answered.
    fn end_session(&mut self, id: SessionId) -> bool {
        let Some(session) = self.sessions.remove(id) else { return false };
        for holder in session.holders() {
            self.messages.push_back(GroupMessage { to: holder, message: Reply::SessionEnded(id) });
        }
        let fewer = session.attributes.bytes().saturating_add(session.reply_bytes());
        self.grow(session.client, 0, fewer);
        true
    }

    fn destroy_client(&mut self, client: ClientId) -> Outcome<F> {
        if self.clients.get(client).is_none() {
            return Err(Status::STALE_CLIENTID.into());
        }
        // While it leaves, it has nothing any more that could make it busy.
        if !self.leaving.contains(&client)
            && (self.sessions.count(client) > 0 || self.holdings.has_state(client))
        {
            return Err(Status::CLIENTID_BUSY.into());
        }
        self.leave(client)?;
        Ok(Answer::Done)
    }

    /// Removes a client with all that it has: once no loan of it is out, and its record is gone from stable storage.
    fn leave(&mut self, client: ClientId) -> Result<(), Hindrance> {
        if self.clients.get(client).is_none() {
            self.leaving.remove(&client);
            return Ok(());
        }
        self.leaving.insert(client);
        for session in self.sessions.of_client(client) {
            self.end_session(session);
        }
        // Before anybody else gets what it held, it must not be able to reclaim it (RFC 8881 §8.4.3).
        match self.stable.remove(client) {
            Progress::Pending => return Err(Hindrance::Recalling),
            Progress::Failed => return Err(Status::DELAY.into()),
            Progress::Done => {}
        }
        let ended = self.holdings.end_client(client);
        self.pass_on();
        ended?;
        self.leaving.remove(&client);
        self.remove_client(client);
        Ok(())
    }

    fn reclaim_complete(&mut self, client: ClientId, scope: ReclaimScope) -> Outcome<F> {
        self.living(client)?;
        let record = self.clients.get(client).ok_or(Status::EXPIRED)?;
        if scope == ReclaimScope::OneFileSystem {
            return Ok(Answer::Done);
        }
        if record.reclaim_complete {
            return Err(Status::COMPLETE_ALREADY.into());
        }
        let owner = record.owner.id.clone();
        match self.stable.keep(&StableRecord { client, owner: owner.clone() }) {
            Progress::Pending => return Err(Hindrance::Recalling),
            Progress::Failed => return Err(Status::DELAY.into()),
            Progress::Done => {}
        }
        if let Some(record) = self.clients.get_mut(client) {
            record.reclaim_complete = true;
        }
        self.grace.complete(&owner);
        self.end_grace();
        Ok(Answer::Done)
    }

    /// Clients that have reclaimed something and have not said RECLAIM_COMPLETE: no record says so of them.
    fn recovering(&self) -> Vec<ClientId> {
        let known = self.grace.waiting().filter_map(|owner| self.clients.confirmed_of(owner));
        known.filter(|client| self.holdings.has_state(*client)).collect()
    }

    /// Grace ends when its time has come and nobody reclaims any more whose lease runs.
    fn look_at_grace(&mut self, now: Instant) {
        if self.grace.is_due(now) {
            let active = self.recovering().into_iter().any(|client| !self.gives_way(now, client));
            self.grace.handle_due(now, if active { Recovery::UnderWay } else { Recovery::Over });
        }
    }

    /// Removes the records of those that did not come back, and then ends grace. Whoever was not done with reclaiming goes with what it has: after another restart
    /// nobody would wait for it (RFC 8881 §8.4.3).
    fn end_grace(&mut self) {
        if self.grace.phase() != Phase::Ending {
            return;
        }
        let left: Vec<Result<(), Hindrance>> =
            self.recovering().into_iter().map(|client| self.leave(client)).collect();
        if left.iter().any(Result::is_err) {
            return;
        }
        let progress: Vec<Progress> =
            self.grace.to_remove().into_iter().map(|client| self.stable.remove(client)).collect();
        if progress.iter().all(|progress| *progress == Progress::Done) {
            self.grace.end();
        }
    }

    fn notice(&mut self, now: Instant, from: M, notice: Notice<F>) {
        match notice {
            Notice::ReturnSlot(session, slot, contents) => {
                self.return_slot(from, session, slot, contents);
                self.settle(now);
            }
            Notice::SlotBusy(session, slot) => {
                if let Some(session) = self.sessions.get_mut(session) {
                    session.refuse(slot, from);
                }
                self.settle(now);
            }
            Notice::GiveBack(loan, times) => {
                self.holdings.give_back(&loan, from, times);
                if let Some(client) = self.holdings.client_of(&loan) {
                    self.go_on_leaving(client);
                    self.end_grace();
                }
                if !self.parked.is_empty() {
                    self.settle(now);
                }
            }
            Notice::Renew(client) => {
                if let Some(record) = self.clients.get_mut(client) {
                    record.lease.renew(now);
                }
            }
            Notice::Answered(key, answer) => {
                // Whoever has sent the call again waits for that.
                if self.answers.finish(now, &key, answer) && !self.parked.is_empty() {
                    self.settle(now);
                }
            }
        }
    }

    /// Looks at the leases that are due.
    fn look_at_leases(&mut self, now: Instant) {
        while let Some(first @ (due, client)) = self.deadlines.first().copied()
            && due <= now
        {
            self.deadlines.remove(&first);
            let Some(record) = self.clients.get(client) else { continue };
            let (standing, next) = (record.lease.standing(now), record.lease.next_change(now));
            let worthless =
                record.confirmation == Confirmation::Unconfirmed || !self.holdings.has_state(client);
            match standing {
                Standing::Active => {
                    self.deadlines.insert((next, client));
                }
                Standing::Courteous if !worthless => {
                    self.deadlines.insert((next, client));
                }
                Standing::Courteous | Standing::Over => {
                    // A record that could not be removed is looked at again.
                    if self.leave(client).is_err() {
                        self.deadlines.insert((now + RETRY, client));
                    }
                }
            }
        }
    }
}

impl<M: Copy + Ord + Debug, F: Clone + Ord + Debug> Group for Server<M, F> {
    type Member = M;
    type Request = Request<F>;
    type Reply = Reply<F>;

    fn handle_message(&mut self, now: Instant, from: M, message: Request<F>) {
        match message {
            Request::Call { tag, call } => self.call(now, Parked { from, tag, call, tried: false }),
            Request::Notice(notice) => self.notice(now, from, notice),
        }
    }

    fn handle_leave(&mut self, now: Instant, member: M) {
        for parked in self.parked.iter().filter(|parked| parked.from == member) {
            // Nobody hears that it was refused.
            if let Call::Open(request) = &parked.call {
                self.holdings.release(&request.file, [request.id]);
            }
        }
        self.parked.retain(|parked| parked.from != member);
        self.holdings.forget(member);
        self.answers.leave(member);
        // A connection gives its slots back before it leaves. Of one that did not, nobody knows what was executed.
        for session in self.sessions.lost_with(member) {
            self.end_session(session);
        }
        for client in self.leaving.clone() {
            self.go_on_leaving(client);
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.look_at_grace(now);
        self.look_at_leases(now);
        self.retry = self.retry.filter(|retry| *retry > now);
        self.settle(now);
    }

    fn poll_message(&mut self) -> Option<GroupMessage<M, Reply<F>>> {
        self.messages.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let lease = self.deadlines.first().map(|(due, _)| *due);
        [lease, self.grace.poll_timeout(), self.retry].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
