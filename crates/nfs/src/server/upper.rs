//! NFS as an upper layer of RPC: calls become COMPOUNDs, COMPOUNDs become requests to file systems and to the group.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::net::IpAddr;

use buf::{Account, Buf, Outside, Pool};
use filesystem::{Completion, Credentials, Request, Tag};
use protocol::{CloseReason, Instant, Notice as Told, NoticeKind, Notices};
use rpc::message::{AcceptStat, AuthStat, CallHeader, Flavor, ReplyStatus, Service, dispatch};
use rpc::xdr::{Decoder, Error, Reader, Step};
use rpc::{Body, CallId, Channel, NoBody, ReceivedReply, UpperLayer};

use super::context::{Input as Event, Shared};
use super::executor::{Connection, Running, Wait};
use super::exports::{Exports, FileKey, FileSystemId};
use super::held::{HeldLoans, HeldSlots};
use super::identity::ServerIdentity;
use super::task::Task;
use super::under_way::UnderWay;
use super::version3::{Mounting, Running as Procedure};
use crate::limits::{ARGUMENTS, CONNECTION_SLOTS, OVERDRAFT};
use crate::mount;
use crate::state::messages::{Answer, Call, Reply, Request as GroupRequest};
use crate::v3;
use crate::v4::compound::Compound;
use crate::v4::{ClientId, Principal};

/// The program's number (RFC 8881 §16).
const PROGRAM: u32 = 100_003;
const SERVICES: &[Service<Program>] = &[
    Service { program: PROGRAM, version: 4, procedures: 2, to: Program::Version4 },
    Service { program: PROGRAM, version: 3, procedures: v3::procedure::PROCEDURES, to: Program::Version3 },
    Service {
        program: mount::PROGRAM,
        version: mount::VERSION,
        procedures: mount::PROCEDURES,
        to: Program::Mount,
    },
];

/// What is served at this port.
#[derive(Debug, Clone, Copy)]
enum Program {
    Version4,
    Version3,
    Mount,
}

/// Bytes that a COMPOUND under way counts for beside its arguments.
const PENDING: usize = size_of::<(u64, Pending)>();

/// What a connection is made with.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// What is served.
    pub exports: Arc<Exports>,
    /// The client's address, which says what it may do.
    pub client: IpAddr,
    /// How the server names itself.
    pub identity: ServerIdentity,
}

/// What comes from inside.
#[derive(Debug)]
pub enum Input {
    /// A file system has answered.
    File(Completion),
    /// The group says something.
    Group(Reply<FileKey>),
    /// Something else is served from now on. Calls under way end first.
    Exports(Arc<Exports>),
    /// The process is about to stop.
    Shutdown,
}

/// What goes inside.
#[derive(Debug)]
pub enum Action {
    /// A request to a file system.
    Submit(FileSystemId, Request),
    /// To the group.
    Group(GroupRequest<FileKey>),
}

/// Arguments of a call while they come.
#[derive(Debug)]
pub enum Arguments {
    /// NULL.
    Null,
    /// COMPOUND, and who calls.
    Compound(Box<Compound>, Option<Arc<Credentials>>),
    /// A procedure of version 3, and who calls.
    Procedure(Box<v3::call::Call>, Option<Arc<Credentials>>),
    /// A procedure of MOUNT, and who calls.
    Mount(mount::Call, Option<Arc<Credentials>>),
}

impl Decoder for Arguments {
    fn step(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
        match self {
            Self::Null => Ok(Step::End),
            Self::Compound(compound, _) => compound.step(reader),
            Self::Procedure(call, _) => call.step(reader),
            Self::Mount(call, _) => call.step(reader),
        }
    }
}

impl Body for Arguments {
    fn payload(&mut self, piece: Buf) {
        match self {
            Self::Compound(compound, _) => compound.payload(piece),
            Self::Procedure(call, _) => call.payload(piece),
            Self::Null | Self::Mount(..) => {}
        }
    }
}

/// What a call to the group was about, so far as its answer has to be entered here.
#[derive(Debug)]
enum Asked {
    Slot(crate::v4::SessionId, u32),
    Anonymous(FileKey, crate::v4::Modes),
    Other,
}

/// What a call asks for, and the call.
#[derive(Debug)]
struct Pending {
    call: CallId,
    running: Task,
    asked: Asked,
    /// The file system that has a request of it.
    at: Option<FileSystemId>,
}

/// The server's side of one connection.
#[derive(Debug)]
pub struct NfsServer {
    shared: Shared,
    slots: HeldSlots,
    identity: ServerIdentity,
    pending: UnderWay<Pending>,
    starved: VecDeque<u64>,
    actions: VecDeque<Action>,
    caller: Option<Arc<Credentials>>,
    argument_bytes: usize,
    /// Those of them that lie in memory of the pool.
    payload_bytes: usize,
    client: IpAddr,
    /// What is to be served once no COMPOUND is under way: each has looked into what is served now.
    next: Option<Arc<Exports>>,
    notices: Notices,
    /// Somebody has heard that the client has a session.
    told: bool,
    /// A procedure of version 3 was carried out.
    called: bool,
    /// What is counted of what it holds outside of the pool.
    counted: Outside,
    ended: bool,
}

impl NfsServer {
    /// A new connection; its memory comes from `pool`, on the pool's thread.
    pub fn new(config: ServerConfig, pool: &Pool) -> Self {
        let grants = config.exports.grants(config.client);
        let shared = Shared {
            exports: config.exports,
            grants,
            loans: HeldLoans::default(),
            account: Account::new(pool),
            admitted: None,
        };
        Self {
            shared,
            slots: HeldSlots::default(),
            identity: config.identity,
            pending: UnderWay::default(),
            starved: VecDeque::new(),
            actions: VecDeque::new(),
            caller: None,
            argument_bytes: 0,
            payload_bytes: 0,
            client: config.client,
            next: None,
            notices: Notices::default(),
            told: false,
            called: false,
            counted: Outside::default(),
            ended: false,
        }
    }

    /// How many COMPOUNDs are under way: the connection is kept until there are none.
    pub fn under_way(&self) -> usize {
        self.pending.len()
    }

    /// Bytes of arguments and cached replies that it keeps.
    pub fn held(&self) -> usize {
        self.argument_bytes.saturating_add(self.slots.reply_bytes())
    }

    /// True while a request of it is under way at this file system.
    pub fn uses(&self, filesystem: FileSystemId) -> bool {
        self.pending.iter().any(|pending| pending.at == Some(filesystem))
    }

    /// What people are to be told.
    pub fn poll_notice(&mut self) -> Option<Told> {
        self.notices.pop()
    }

    /// Serves what is to be served from now on, once that can be done.
    fn change_exports(&mut self) {
        if !self.pending.is_empty() {
            return;
        }
        if let Some(exports) = self.next.take() {
            self.shared.grants = exports.grants(self.client);
            self.shared.exports = exports;
        }
    }

    /// Counts what the connection holds outside of the pool.
    fn recount(&mut self, channel: &Channel<NoBody>) {
        let tables = self.pending.len().saturating_mul(PENDING).saturating_add(self.shared.loans.held());
        let data = self.held().saturating_sub(self.payload_bytes).saturating_add(channel.held());
        let held = Outside { data, tables };
        if held != self.counted {
            self.shared.account.recount(&mut self.counted, held);
        }
    }

    /// Who calls. A caller that is the same as before is not made again.
    fn caller(
        &mut self,
        header: &CallHeader<'_>,
    ) -> Result<(Principal, Option<Arc<Credentials>>), ReplyStatus> {
        if header.credential.flavor == Flavor::NONE {
            return Ok((Principal::Nobody, None));
        }
        let sys = header.credential.sys().map_err(|_| ReplyStatus::auth_error(AuthStat::BADCRED))?;
        let sys = sys.ok_or(ReplyStatus::auth_error(AuthStat::TOOWEAK))?;
        let same = |known: &&Arc<Credentials>| {
            known.uid() == sys.uid && known.gid() == sys.gid && known.groups() == sys.gids.as_slice()
        };
        if let Some(known) = self.caller.as_ref().filter(same) {
            return Ok((Principal::User(sys.uid), Some(Arc::clone(known))));
        }
        let made = Credentials::new(sys.uid, sys.gid, sys.gids.as_slice());
        let made = Arc::new(made.map_err(|_| ReplyStatus::auth_error(AuthStat::BADCRED))?);
        self.caller = Some(Arc::clone(&made));
        Ok((Principal::User(sys.uid), Some(made)))
    }

    fn group(&mut self, request: GroupRequest<FileKey>) {
        self.actions.push_back(Action::Group(request));
    }

    fn advance(&mut self, now: Instant, channel: &mut Channel<NoBody>, key: u64, event: Option<Event>) {
        let Some(mut pending) = self.pending.take(key) else { return };
        let Self { shared, slots, identity, .. } = self;
        let mut connection = Connection { shared, slots, identity, now };
        let before = pending.running.client();
        let wait = pending.running.advance(&mut connection, event);
        pending.at = None;
        if let Some(client) = pending.running.client().filter(|_| before.is_none()) {
            self.renew(now, client);
        }
        while let Some(notice) = self.shared.loans.poll_returned().or_else(|| self.slots.poll_returned()) {
            self.group(GroupRequest::Notice(notice));
        }
        match wait {
            Wait::File { filesystem, credentials, request } => {
                let request = Request { tag: Tag(key), credentials, operation: request };
                pending.at = Some(filesystem);
                self.actions.push_back(Action::Submit(filesystem, request));
            }
            Wait::Group(call) => {
                pending.asked = match &call {
                    Call::TakeSlot(session, slot) => Asked::Slot(*session, *slot),
                    Call::BorrowAnonymous(file, access) => Asked::Anonymous(*file, *access),
                    _ => Asked::Other,
                };
                self.group(GroupRequest::Call { tag: key, call });
            }
            Wait::Memory => self.starved.push_back(key),
            Wait::Finished => {
                self.argument_bytes = self.argument_bytes.saturating_sub(pending.running.bytes());
                self.payload_bytes = self.payload_bytes.saturating_sub(pending.running.payload());
                self.pending.free(key);
                let Pending { call, running, .. } = *pending;
                let end = running.finish(now, &mut self.slots);
                if let Some(notice) = end.notice {
                    self.group(GroupRequest::Notice(notice));
                }
                channel.reply(call, end.reply);
                if self.ended {
                    self.give_back_slots();
                }
                return self.change_exports();
            }
        }
        self.pending.put_back(key, pending);
    }

    /// Tells the group now and then that a client is there.
    fn renew(&mut self, now: Instant, client: ClientId) {
        if let Some(notice) = self.slots.renew(now, client) {
            self.group(GroupRequest::Notice(notice));
        }
    }

    fn give_back_slots(&mut self) {
        for notice in self.slots.give_back_idle() {
            self.group(GroupRequest::Notice(notice));
        }
    }

    /// The group says something.
    fn handle_reply(&mut self, now: Instant, channel: &mut Channel<NoBody>, reply: Reply<FileKey>) {
        match reply {
            Reply::Answer { tag, result } => {
                self.enter(tag, &result);
                self.advance(now, channel, tag, Some(Event::Group(result)));
            }
            Reply::Recall(loan) => {
                self.shared.loans.recall(loan);
                while let Some(notice) = self.shared.loans.poll_returned() {
                    self.group(GroupRequest::Notice(notice));
                }
            }
            Reply::RecallSlot(session, slot) => {
                let notice = self.slots.recall(session, slot);
                self.group(GroupRequest::Notice(notice));
            }
            Reply::SessionEnded(session) => self.slots.end_session(session),
        }
    }

    /// Takes what the group lends into the tables.
    fn enter(&mut self, tag: u64, result: &Result<Answer<FileKey>, crate::v4::Status>) {
        let Some(pending) = self.pending.get(tag) else { return };
        match (result, &pending.asked) {
            (Ok(Answer::Slot(loan)), Asked::Slot(session, slot)) => {
                let (session, slot) = (*session, *slot);
                if self.slots.len() >= CONNECTION_SLOTS {
                    self.give_back_slots();
                }
                self.slots.lend(session, slot, loan.clone());
                if !core::mem::replace(&mut self.told, true) {
                    self.notices.push(NoticeKind::Login, "an NFS client has a session");
                }
            }
            (Ok(Answer::Lent(loan)), _) => self.shared.loans.lend(loan.clone()),
            (Ok(Answer::Anonymous), Asked::Anonymous(file, access)) => {
                self.shared.loans.lend_anonymous(*file, *access);
            }
            _ => {}
        }
    }
}

impl UpperLayer for NfsServer {
    type Input = Input;
    type Action = Action;
    type Arguments = Arguments;
    type Results = NoBody;

    fn begin_call(&mut self, header: &CallHeader<'_>) -> Result<Arguments, ReplyStatus> {
        let program = dispatch(SERVICES, header.procedure).map_err(ReplyStatus::Accepted)?;
        if header.procedure.procedure == 0 {
            return Ok(Arguments::Null);
        }
        let (principal, caller) = self.caller(header)?;
        Ok(match program {
            Program::Version4 => Arguments::Compound(Box::new(Compound::new(principal)), caller),
            Program::Version3 => {
                let number = v3::procedure::Number(header.procedure.procedure);
                Arguments::Procedure(Box::new(v3::call::Call::new(number, header.xid, principal)), caller)
            }
            Program::Mount => Arguments::Mount(mount::Call::new(header.procedure.procedure), caller),
        })
    }

    fn memory(&mut self, length: usize) -> Option<Buf> {
        self.shared.account.take(length)
    }

    fn call(&mut self, now: Instant, channel: &mut Channel<NoBody>, id: CallId, arguments: Arguments) {
        let out = channel.writer();
        let running = match arguments {
            Arguments::Null => return channel.reply(id, out.finish()),
            Arguments::Compound(compound, caller) => Task::Compound(Running::new(*compound, caller, out)),
            Arguments::Mount(call, caller) => Task::Mounting(Mounting::new(call, caller, out)),
            Arguments::Procedure(call, caller) => {
                if !core::mem::replace(&mut self.called, true) {
                    self.notices.push(NoticeKind::Login, "an NFS client of version 3 calls");
                }
                let Some(running) = Procedure::new(*call, self.client, caller, out) else {
                    let status = ReplyStatus::Accepted(AcceptStat::GarbageArguments);
                    return channel.refuse(id, status);
                };
                Task::Procedure(running)
            }
        };
        self.argument_bytes = self.argument_bytes.saturating_add(running.bytes());
        self.payload_bytes = self.payload_bytes.saturating_add(running.payload());
        let key = self.pending.insert(Pending { call: id, running, asked: Asked::Other, at: None });
        self.advance(now, channel, key, None);
        self.recount(channel);
    }

    fn undecodable(
        &mut self,
        now: Instant,
        channel: &mut Channel<NoBody>,
        id: CallId,
        mut arguments: Arguments,
    ) {
        if let Arguments::Compound(compound, _) = &mut arguments
            && compound.header().is_some()
        {
            compound.give_up();
            return self.call(now, channel, id, arguments);
        }
        channel.refuse(id, ReplyStatus::Accepted(AcceptStat::GarbageArguments));
    }

    fn reply(&mut self, _now: Instant, _channel: &mut Channel<NoBody>, reply: ReceivedReply<NoBody>) {
        match reply.results {}
    }

    fn handle_input(&mut self, now: Instant, channel: &mut Channel<NoBody>, input: Input) {
        match input {
            Input::File(completion) => {
                let key = completion.tag.0;
                self.advance(now, channel, key, Some(Event::File(completion.outcome())));
            }
            Input::Group(reply) => self.handle_reply(now, channel, reply),
            Input::Exports(exports) => {
                self.next = Some(exports);
                self.change_exports();
            }
            Input::Shutdown => channel.close(CloseReason::ShuttingDown),
        }
        self.recount(channel);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn handle_memory(&mut self, now: Instant, channel: &mut Channel<NoBody>) {
        for key in core::mem::take(&mut self.starved) {
            self.advance(now, channel, key, Some(Event::Memory));
        }
        self.recount(channel);
    }

    fn handle_ended(&mut self, now: Instant, channel: &mut Channel<NoBody>) {
        self.ended = true;
        // What waits for memory waits for nobody any more; the rest ends when its requests do.
        self.handle_memory(now, channel);
        self.give_back_slots();
    }

    fn awaits_memory(&self) -> bool {
        !self.starved.is_empty()
    }

    fn takes_calls(&self) -> bool {
        // Where there is no room for what it holds already, its answers have to go out first.
        let waits = !self.pending.is_empty() && self.shared.account.overdrawn() > OVERDRAFT;
        self.argument_bytes < ARGUMENTS && self.next.is_none() && !waits
    }

    fn is_established(&self) -> bool {
        !self.slots.is_empty() || self.called
    }
}
