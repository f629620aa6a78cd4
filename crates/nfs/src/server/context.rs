//! One COMPOUND under way, and what its operations may touch (RFC 8881 §16.2.3).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use buf::Account;
use filesystem::{Attributes, Credentials, FileErrorKind, Operation, Outcome, Target};
use rpc::xdr::Writer;

use super::exports::{Export, Exports, FileKey, FileRef, FileSystemId, Grant, Place, Writes};
use super::held::{HeldLoans, Resolved, Use};
use super::stage::Stage;
use crate::state::messages::{Answer, Call, StateidUse};
use crate::state::sessions::ChannelAttributes;
use crate::v4::{ClientId, Modes, Principal, SessionId, Stateid, Status};

/// What all COMPOUNDs of a connection share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) exports: Arc<Exports>,
    /// What this client may do in each export.
    pub(crate) grants: Vec<Option<Grant>>,
    pub(crate) loans: HeldLoans,
    pub(crate) account: Account,
    /// The client that was last known to be allowed to claim what is new.
    pub(crate) admitted: Option<ClientId>,
}

/// The slot that a COMPOUND occupies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Occupied {
    pub(crate) session: SessionId,
    pub(crate) slot: u32,
    /// Whether the reply is kept.
    pub(crate) cache: bool,
    pub(crate) attributes: ChannelAttributes,
}

/// One COMPOUND.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) caller: Option<Arc<Credentials>>,
    pub(crate) principal: Principal,
    pub(crate) current: Option<Place>,
    pub(crate) saved: Option<Place>,
    pub(crate) current_stateid: Option<Stateid>,
    pub(crate) saved_stateid: Option<Stateid>,
    /// What the operation before told of an object beside its result: a GETATTR behind it need not ask again. Only GETFH may stand between.
    pub(crate) seen: Option<(Place, Box<Attributes>)>,
    /// The session's client.
    pub(crate) client: Option<ClientId>,
    pub(crate) occupied: Option<Occupied>,
    /// Loans that the operation under way was judged by.
    pub(crate) uses: Vec<Use>,
    pub(crate) out: Writer,
    /// Credentials of the export that was used last.
    squashed: Option<(usize, Arc<Credentials>)>,
}

/// How an operation goes on.
#[derive(Debug)]
pub(crate) enum Flow {
    /// It is done; its result is written.
    Done,
    /// It failed, and its result has more than the status.
    Failed(Status),
    /// The file system is asked.
    File { filesystem: FileSystemId, credentials: Arc<Credentials>, operation: Operation, then: Stage },
    /// The group is asked.
    Group { call: Call<FileKey>, then: Stage },
    /// There is no memory.
    Memory { then: Stage },
}

/// What an operation waited for.
#[derive(Debug)]
pub(crate) enum Input {
    /// The file system's answer.
    File(Result<Outcome, FileErrorKind>),
    /// The group's.
    Group(Result<Answer<FileKey>, Status>),
    /// There may be memory.
    Memory,
}

impl Input {
    /// What the file system answered.
    pub(crate) fn outcome(self) -> Result<Outcome, Status> {
        match self {
            Self::File(result) => result.map_err(crate::v4::failure::status),
            Self::Group(_) | Self::Memory => Err(Status::SERVERFAULT),
        }
    }

    /// What the group answered.
    pub(crate) fn answer(self) -> Result<Answer<FileKey>, Status> {
        match self {
            Self::Group(result) => result,
            Self::File(_) | Self::Memory => Err(Status::SERVERFAULT),
        }
    }
}

impl Context {
    pub(crate) fn new(caller: Option<Arc<Credentials>>, principal: Principal, out: Writer) -> Self {
        Self {
            caller,
            principal,
            current: None,
            saved: None,
            current_stateid: None,
            saved_stateid: None,
            seen: None,
            client: None,
            occupied: None,
            uses: Vec::new(),
            out,
            squashed: None,
        }
    }
}

/// What an operation may touch.
#[derive(Debug)]
pub(crate) struct Env<'a> {
    pub(crate) shared: &'a mut Shared,
    pub(crate) context: &'a mut Context,
}

impl Env<'_> {
    /// The current object.
    pub(crate) fn current(&self) -> Result<Place, Status> {
        self.context.current.ok_or(Status::NOFILEHANDLE)
    }

    /// Makes another object the current one; its stateid is not known (RFC 8881 §16.2.3.1.2).
    pub(crate) fn set_current(&mut self, place: Place) {
        self.context.current = Some(place);
        self.context.current_stateid = None;
    }

    /// The current object, which must not be a directory of the pseudo file system: that is refused with `status`.
    pub(crate) fn file(&self, status: Status) -> Result<FileRef, Status> {
        self.file_of(self.current()?, status)
    }

    /// The saved object, likewise.
    pub(crate) fn saved_file(&self, status: Status) -> Result<FileRef, Status> {
        self.file_of(self.context.saved.ok_or(Status::NOFILEHANDLE)?, status)
    }

    fn file_of(&self, place: Place, status: Status) -> Result<FileRef, Status> {
        let Place::File { export, handle } = place else { return Err(status) };
        let filesystem = self.export(export)?.filesystem;
        Ok(FileRef { export, key: FileKey { filesystem, handle } })
    }

    /// The current object, to be changed.
    pub(crate) fn writable(&self) -> Result<FileRef, Status> {
        let file = self.file(Status::ROFS)?;
        self.may_write(file)?;
        Ok(file)
    }

    /// Whether the export of a file can be changed.
    pub(crate) fn may_write(&self, file: FileRef) -> Result<(), Status> {
        let grant = self.grant(file.export).ok_or(Status::STALE)?;
        if grant.writes == Writes::Refused { Err(Status::ROFS) } else { Ok(()) }
    }

    pub(crate) fn export(&self, export: usize) -> Result<&Export, Status> {
        self.shared.exports.get(export).ok_or(Status::STALE)
    }

    pub(crate) fn grant(&self, export: usize) -> Option<Grant> {
        self.shared.grants.get(export).copied().flatten()
    }

    /// Whether this client may see an object at all.
    pub(crate) fn is_visible(&self, place: Place) -> bool {
        match place {
            Place::Pseudo(_) => true,
            Place::File { export, .. } => self.grant(export).is_some(),
        }
    }

    /// Asks the file system of an export.
    pub(crate) fn ask(&mut self, export: usize, operation: Operation, then: Stage) -> Result<Flow, Status> {
        let filesystem = self.export(export)?.filesystem;
        let credentials = self.credentials(export)?;
        Ok(Flow::File { filesystem, credentials, operation, then })
    }

    /// In whose name requests go to an export.
    fn credentials(&mut self, export: usize) -> Result<Arc<Credentials>, Status> {
        if let Some((known, credentials)) = &self.context.squashed
            && *known == export
        {
            return Ok(Arc::clone(credentials));
        }
        let grant = self.grant(export).ok_or(Status::STALE)?;
        let credentials = grant.credentials(self.context.caller.as_ref());
        self.context.squashed = Some((export, Arc::clone(&credentials)));
        Ok(credentials)
    }

    /// The session's client. Every operation that needs one has a SEQUENCE before it.
    pub(crate) fn client(&self) -> Result<ClientId, Status> {
        self.context.client.ok_or(Status::OP_NOT_IN_SESSION)
    }

    /// A stateid as it was sent, or the COMPOUND's own in its place (RFC 8881 §16.2.3.1.2).
    pub(crate) fn stateid(&self, sent: Stateid) -> Result<Stateid, Status> {
        if sent == Stateid::CURRENT {
            self.context.current_stateid.ok_or(Status::BAD_STATEID)
        } else {
            Ok(sent)
        }
    }

    /// The stateid with the current file, for the group.
    pub(crate) fn named(&self, stateid: Stateid) -> Result<StateidUse<FileKey>, Status> {
        let file = self.file(Status::BAD_STATEID)?.key;
        Ok(StateidUse { client: self.client()?, file, stateid: self.stateid(stateid)? })
    }

    /// Judges a stateid that comes for `access`; `Err` of the result is what the group is to be asked.
    pub(crate) fn target(
        &mut self,
        named: StateidUse<FileKey>,
        access: Modes,
    ) -> Result<Result<Target, Call<FileKey>>, Status> {
        let file = named.file.handle;
        match self.shared.loans.resolve(named, access)? {
            Resolved::Ask(call) => Ok(Err(call)),
            Resolved::Valid { by, open } => {
                self.context.uses.push(by);
                Ok(Ok(Target { file, open }))
            }
        }
    }

    /// The operation under way needs its loans no more.
    pub(crate) fn end_uses(&mut self) {
        for by in self.context.uses.drain(..) {
            self.shared.loans.end_use(&by);
        }
    }

    /// Bytes that the answer may still take.
    pub(crate) fn room(&self) -> usize {
        let most = self.context.occupied.map_or(crate::limits::LEAST_MESSAGE, |occupied| {
            if occupied.cache {
                occupied.attributes.max_response_cached.min(occupied.attributes.max_response)
            } else {
                occupied.attributes.max_response
            }
        });
        wire::index(most.into()).saturating_sub(self.context.out.len())
    }
}
