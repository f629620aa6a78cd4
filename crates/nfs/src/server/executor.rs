//! Carries out a COMPOUND, operation by operation, up to its end or its first failure (RFC 8881 §16.2.3, §2.10.6).

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use filesystem::{Credentials, Operation as Request};
use protocol::Instant;
use rpc::xdr::{Mark, Place as Word, Stream, Writer};

use super::context::{Context, Env, Flow, Input, Occupied, Shared};
use super::exports::{FileKey, FileSystemId};
use super::held::HeldSlots;
use super::identity::ServerIdentity;
use super::stage::{DataOperation, Purpose, Stage};
use super::stateful::Tested;
use super::{attributes, data, directory, names, open, stateful};
use crate::limits::{CONNECTION_REPLIES, OP_REPLY, OPERATIONS};
use crate::state::messages::Call;
use crate::state::slot::{Fingerprint, Verdict};
use crate::v4::compound::Compound;
use crate::v4::operation::{OpNumber, Operation, Sequence};
use crate::v4::{ClientId, Status};

/// What a COMPOUND waits for.
#[derive(Debug)]
pub(crate) enum Wait {
    File {
        filesystem: FileSystemId,
        credentials: Arc<Credentials>,
        request: Request,
    },
    Group(Call<FileKey>),
    Memory,
    /// Nothing: it has its answer.
    Finished,
}

/// Where its current operation stands.
#[derive(Debug)]
enum Current {
    None,
    /// SEQUENCE waits for its slot.
    Sequence(Sequence),
    Waiting(Stage),
}

/// The result that is being written.
#[derive(Debug)]
struct ResultPlace {
    number: OpNumber,
    status: Word,
    /// Behind the status.
    body: Mark,
}

/// A COMPOUND under way.
#[derive(Debug)]
pub(crate) struct Running {
    context: Context,
    operations: VecDeque<Operation>,
    fingerprint: Fingerprint,
    bytes: usize,
    payload: usize,
    /// How many operations were sent, and how many have a result.
    sent: u32,
    results: u32,
    status: Status,
    status_word: Option<Word>,
    count_word: Option<Word>,
    result: Option<ResultPlace>,
    current: Current,
    /// The cached reply of an earlier request, in place of this one's.
    replay: Option<buf::SharedBuf>,
}

/// What the connection has beside [`Shared`].
#[derive(Debug)]
pub(crate) struct Connection<'a> {
    pub(crate) shared: &'a mut Shared,
    pub(crate) slots: &'a mut HeldSlots,
    pub(crate) identity: &'a ServerIdentity,
    pub(crate) now: Instant,
}

impl Running {
    /// Begins; [`Running::advance`] goes on.
    pub(crate) fn new(mut compound: Compound, caller: Option<Arc<Credentials>>, mut out: Writer) -> Self {
        let status_word = Some(out.place());
        let header = compound.header().cloned();
        out.opaque(header.as_ref().map_or(&[], |header| &header.tag));
        let count_word = Some(out.place());
        let context = Context::new(caller, compound.principal(), out);
        let mut status = Status::OK;
        if header.as_ref().is_some_and(|header| !matches!(header.minor, 1 | 2)) {
            status = Status::MINOR_VERS_MISMATCH;
        }
        Self {
            fingerprint: compound.fingerprint(),
            bytes: compound.len(),
            payload: compound.payload_len(),
            operations: core::mem::take(compound.operations()),
            sent: header.map_or(0, |header| header.count),
            context,
            results: 0,
            status,
            status_word,
            count_word,
            result: None,
            current: Current::None,
            replay: None,
        }
    }

    /// The session's client, once SEQUENCE was accepted.
    pub(crate) fn client(&self) -> Option<ClientId> {
        self.context.client
    }

    /// Bytes of arguments that it keeps.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of them that are counted already, as they lie in memory of the pool.
    pub(crate) fn payload(&self) -> usize {
        self.payload
    }

    /// Goes on until it waits or is finished. `input` is what it waited for.
    pub(crate) fn advance(&mut self, connection: &mut Connection<'_>, mut input: Option<Input>) -> Wait {
        loop {
            if self.replay.is_some() {
                return Wait::Finished;
            }
            let flow = match (core::mem::replace(&mut self.current, Current::None), input.take()) {
                (Current::Waiting(stage), Some(input)) => {
                    let env = &mut Env { shared: connection.shared, context: &mut self.context };
                    resume(env, stage, input)
                }
                (Current::Sequence(sequence), Some(input)) => match input.answer() {
                    Ok(_) => self.sequence(connection, sequence),
                    Err(status) => Err(status),
                },
                _ => {
                    let next = if self.status.is_ok() { self.operations.pop_front() } else { None };
                    let Some(operation) = next else { return Wait::Finished };
                    self.begin(connection, operation)
                }
            };
            match self.proceed(connection, flow) {
                None => {}
                Some(wait) => return wait,
            }
        }
    }

    /// Takes note of how the operation goes on; nothing if it is over.
    fn proceed(&mut self, connection: &mut Connection<'_>, flow: Result<Flow, Status>) -> Option<Wait> {
        match flow {
            Ok(Flow::File { filesystem, credentials, operation, then }) => {
                self.current = Current::Waiting(then);
                return Some(Wait::File { filesystem, credentials, request: operation });
            }
            Ok(Flow::Group { call, then }) => {
                self.current = Current::Waiting(then);
                return Some(Wait::Group(call));
            }
            Ok(Flow::Memory { then }) => {
                self.current = Current::Waiting(then);
                return Some(Wait::Memory);
            }
            Ok(Flow::Done) => self.end(connection, Status::OK, true),
            Ok(Flow::Failed(status)) => self.end(connection, status, true),
            Err(status) => self.end(connection, status, false),
        }
        if let Current::Sequence(sequence) = self.current {
            return Some(Wait::Group(Call::TakeSlot(sequence.session, sequence.slot)));
        }
        None
    }

    /// The operation has ended.
    fn end(&mut self, connection: &mut Connection<'_>, mut status: Status, has_body: bool) {
        Env { shared: connection.shared, context: &mut self.context }.end_uses();
        if let Current::Sequence(_) = self.current {
            return;
        }
        let Some(ResultPlace { number, status: word, body }) = self.result.take() else { return };
        if let Some(occupied) = self.context.occupied
            && has_body
        {
            let len = wire::saturate::<u32>(self.context.out.len());
            if occupied.cache && len > occupied.attributes.max_response_cached {
                status = Status::REP_TOO_BIG_TO_CACHE;
            }
            if len > occupied.attributes.max_response {
                status = Status::REP_TOO_BIG;
            }
        }
        let kept = has_body && !matches!(status, Status::REP_TOO_BIG | Status::REP_TOO_BIG_TO_CACHE);
        if !kept {
            self.context.out.rewind(body);
            if number == OpNumber::SETATTR {
                // Its result has the attributes that were set, in any case: none.
                self.context.out.u32(0);
            }
        }
        self.context.out.set(word, status.0);
        self.results = self.results.saturating_add(1);
        self.status = status;
    }

    /// Begins an operation: writes the front of its result, and judges whether it may stand here.
    fn begin(&mut self, connection: &mut Connection<'_>, operation: Operation) -> Result<Flow, Status> {
        let number = operation.number();
        self.context.out.u32(number.0);
        let status = self.context.out.place();
        self.result = Some(ResultPlace { number, status, body: self.context.out.mark() });
        self.judge_place(&operation)?;
        if let Operation::Sequence(sequence) = operation {
            return self.sequence(connection, sequence);
        }
        if self.results > 0 {
            let env = Env { shared: &mut *connection.shared, context: &mut self.context };
            if env.room() < OP_REPLY {
                let cache = env.context.occupied.is_some_and(|occupied| {
                    occupied.cache
                        && occupied.attributes.max_response_cached < occupied.attributes.max_response
                });
                return Err(if cache { Status::REP_TOO_BIG_TO_CACHE } else { Status::REP_TOO_BIG });
            }
        }
        if self.results >= OPERATIONS {
            return Err(Status::TOO_MANY_OPS);
        }
        if !matches!(operation, Operation::GetFh | Operation::GetAttr(_)) {
            self.context.seen = None;
        }
        let last = self.operations.is_empty();
        let identity = connection.identity;
        let env = &mut Env { shared: &mut *connection.shared, context: &mut self.context };
        start(env, operation, CompoundContext { last, identity })
    }

    /// Where operations may stand (RFC 8881 §2.10.6, §15.1.10, §18.46.3).
    fn judge_place(&self, operation: &Operation) -> Result<(), Status> {
        let first = self.results == 0;
        match operation {
            Operation::Undecodable(_) => Err(Status::BADXDR),
            Operation::Illegal => Err(Status::OP_ILLEGAL),
            Operation::Sequence(_) if first => Ok(()),
            Operation::Sequence(_) => Err(Status::SEQUENCE_POS),
            Operation::BindConnToSession { .. } if self.sent > 1 => Err(Status::NOT_ONLY_OP),
            Operation::ExchangeId { .. }
            | Operation::CreateSession { .. }
            | Operation::DestroySession(_)
            | Operation::DestroyClientId(_)
            | Operation::BindConnToSession { .. }
                if first =>
            {
                if self.sent > 1 {
                    Err(Status::NOT_ONLY_OP)
                } else {
                    Ok(())
                }
            }
            _ if first => Err(Status::OP_NOT_IN_SESSION),
            _ => Ok(()),
        }
    }

    /// SEQUENCE (RFC 8881 §18.46). The slot is here, or is asked for.
    fn sequence(&mut self, connection: &mut Connection<'_>, sequence: Sequence) -> Result<Flow, Status> {
        if sequence.cache && connection.slots.reply_bytes() >= CONNECTION_REPLIES {
            return Err(Status::DELAY);
        }
        connection.slots.give_back_stale(connection.now, sequence.session, sequence.slot);
        let (sent, bytes, fingerprint) = (self.sent, wire::saturate::<u32>(self.bytes), self.fingerprint);
        let begun = connection.slots.with(sequence.session, sequence.slot, |loan| {
            let attributes = loan.attributes;
            let highest = attributes.max_requests.saturating_sub(1);
            if sent > attributes.max_operations {
                return Err(Status::TOO_MANY_OPS);
            }
            if bytes > attributes.max_request {
                return Err(Status::REQ_TOO_BIG);
            }
            if sequence.highest_slot > highest || sequence.highest_slot < sequence.slot {
                return Err(Status::BAD_HIGH_SLOT);
            }
            Ok((loan.client, attributes, loan.slot.begin(sequence.sequence, fingerprint)))
        });
        let Some(begun) = begun else {
            self.current = Current::Sequence(sequence);
            return Ok(Flow::Done);
        };
        let (client, attributes, verdict) = begun?;
        match verdict {
            Verdict::Refuse(status) => return Err(status),
            Verdict::Replay(reply) => {
                self.replay = Some(reply);
                return Ok(Flow::Done);
            }
            Verdict::Execute => {}
        }
        let highest = attributes.max_requests.saturating_sub(1);
        self.context.client = Some(client);
        let Sequence { session, slot, cache, .. } = sequence;
        let attributes = attributes.for_results();
        self.context.occupied = Some(Occupied { session, slot, cache, attributes });
        let out = &mut self.context.out;
        out.put(&session.0);
        out.u32(sequence.sequence);
        out.u32(slot);
        out.u32(highest);
        out.u32(highest);
        // No status flag: docs/decisions/0036-nfs.md.
        out.u32(0);
        Ok(Flow::Done)
    }

    /// The answer. A slot that was occupied is free.
    pub(crate) fn finish(mut self, _now: Instant, slots: &mut HeldSlots) -> Stream {
        if let Some(replay) = self.replay.take() {
            let mut out = Writer::reuse(self.context.out.finish());
            out.fixed(&replay);
            return out.finish();
        }
        if let Some(word) = self.status_word.take() {
            self.context.out.set(word, self.status.0);
        }
        if let Some(word) = self.count_word.take() {
            self.context.out.set(word, self.results);
        }
        let occupied = self.context.occupied;
        let reply = self.context.out.finish();
        if let Some(occupied) = occupied {
            let kept = occupied.cache.then(|| reply.clone().into_list().into_one());
            slots.with(occupied.session, occupied.slot, |loan| loan.slot.finish(kept));
        }
        reply
    }
}

/// What an operation has to know of where it stands.
#[derive(Debug, Clone, Copy)]
struct CompoundContext<'a> {
    last: bool,
    identity: &'a ServerIdentity,
}

/// Begins an operation that may stand where it stands.
fn start(env: &mut Env<'_>, operation: Operation, around: CompoundContext<'_>) -> Result<Flow, Status> {
    match operation {
        Operation::PutFh(handle) => {
            let place = env.shared.exports.find(&handle)?;
            if !env.is_visible(place) {
                return Err(Status::STALE);
            }
            env.set_current(place);
            Ok(Flow::Done)
        }
        Operation::PutRootFh | Operation::PutPubFh => {
            let root = env.shared.exports.root();
            if !env.is_visible(root) {
                return Err(Status::SERVERFAULT);
            }
            env.set_current(root);
            Ok(Flow::Done)
        }
        Operation::GetFh => {
            let handle = names::wire_handle(env, env.current()?);
            env.context.out.opaque(&handle);
            Ok(Flow::Done)
        }
        Operation::SaveFh => {
            env.context.saved = Some(env.current()?);
            env.context.saved_stateid = env.context.current_stateid;
            Ok(Flow::Done)
        }
        Operation::RestoreFh => {
            let saved = env.context.saved.ok_or(Status::NOFILEHANDLE)?;
            env.context.current = Some(saved);
            env.context.current_stateid = env.context.saved_stateid;
            Ok(Flow::Done)
        }
        Operation::Lookup(name) => names::lookup(env, &name),
        Operation::LookupP => names::lookup_parent(env),
        Operation::ReadLink => names::read_link(env),
        Operation::Create { kind, name, attributes } => names::create(env, kind, &name, &attributes),
        Operation::Remove(name) => names::remove(env, &name),
        Operation::Rename { from, to } => names::rename(env, &from, &to),
        Operation::Link(name) => names::link(env, &name),
        Operation::SecInfo(name) => names::security(env, &name),
        Operation::SecInfoNoName { parent } => names::security_without_name(env, parent),
        Operation::GetAttr(bitmap) => attributes::begin(env, Purpose::Get(bitmap)),
        Operation::Verify(sent) => attributes::begin(env, Purpose::Same(sent)),
        Operation::NVerify(sent) => attributes::begin(env, Purpose::Different(sent)),
        Operation::Access(asked) => attributes::access(env, asked),
        Operation::ReadDir(arguments) => directory::begin(env, arguments),
        operation => start_stateful(env, operation, around),
    }
}

/// Operations with a stateid, a client or a session.
fn start_stateful(
    env: &mut Env<'_>,
    operation: Operation,
    around: CompoundContext<'_>,
) -> Result<Flow, Status> {
    match operation {
        Operation::Read(read) => data::begin(env, DataOperation::Read(read)),
        Operation::Write(write) => data::begin(env, DataOperation::Write(write)),
        Operation::SetAttr { stateid, attributes } => data::set_attributes(env, stateid, &attributes),
        Operation::Commit { offset, count } => data::commit(env, offset, count),
        Operation::Allocate(range) => data::begin(env, DataOperation::Allocate(range)),
        Operation::Deallocate(range) => data::begin(env, DataOperation::Deallocate(range)),
        Operation::Seek { stateid, offset, what } => {
            data::begin(env, DataOperation::Seek { stateid, offset, what })
        }
        Operation::Copy(copy) if copy.is_remote => Err(Status::NOTSUPP),
        Operation::Copy(copy) => data::begin(env, DataOperation::Copy(copy)),
        Operation::Open(arguments) => open::begin(env, arguments),
        Operation::Close(stateid) => stateful::close(env, stateid),
        Operation::OpenDowngrade { stateid, access, deny } => stateful::downgrade(env, stateid, access, deny),
        Operation::Lock(lock) => stateful::lock(env, lock),
        Operation::LockT { mode, offset, length, owner } => {
            stateful::test_lock(env, Tested { mode, offset, length, owner })
        }
        Operation::LockU { stateid, offset, length } => stateful::unlock(env, stateid, offset, length),
        Operation::FreeStateid(stateid) => stateful::free_stateid(env, stateid),
        Operation::TestStateid(stateids) => stateful::test_stateid(env, stateids),
        Operation::ReclaimComplete(scope) => stateful::reclaim_complete(env, scope),
        Operation::ExchangeId { owner, flags, protection } => {
            stateful::exchange_id(owner, flags, protection, around.identity)
        }
        Operation::CreateSession { client, sequence, attributes } => {
            Ok(stateful::create_session(env, client, sequence, attributes))
        }
        Operation::BindConnToSession { session, direction } => stateful::bind(session, direction),
        Operation::DestroySession(session) => {
            let own = env.context.occupied.is_some_and(|occupied| occupied.session == session);
            if own && !around.last {
                Err(Status::NOT_ONLY_OP)
            } else {
                Ok(stateful::destroy_session(session))
            }
        }
        Operation::DestroyClientId(client) => Ok(stateful::destroy_client(client)),
        _ => Err(Status::NOTSUPP),
    }
}

/// Goes on with an operation.
fn resume(env: &mut Env<'_>, stage: Stage, input: Input) -> Result<Flow, Status> {
    match stage {
        Stage::Begin(operation) => data::again(env, operation, input),
        Stage::Data(stage) => data::resume(env, stage, input),
        Stage::Name(stage) => names::resume(env, stage, input),
        Stage::Attributes(stage) => attributes::resume(env, stage, input),
        Stage::Directory(stage) => directory::resume(env, stage, input),
        Stage::Open(stage) => open::resume(env, stage, input),
        Stage::Stateful(stage) => stateful::resume(env, stage, input),
    }
}
