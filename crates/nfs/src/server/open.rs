//! OPEN (RFC 8881 §18.16).
//!
//! A file is made only once the group has said that the client may claim what is new: whoever is told to wait until grace is over finds no file that it has not made.
//! Then the file system opens the file, or makes it and opens it in one step; it judges permissions. Then the group judges shares. Only then is anything
//! cut: an UNCHECKED creation of a file that is there must not truncate what somebody's deny mode protects.

use alloc::boxed::Box;

use filesystem::{
    CreateHow, ExclusiveVerifier, Name, OpenAccess, OpenId, Operation, Outcome, SetAttributes, Target,
};

use super::context::{Env, Flow, Input};
use super::exports::{FileKey, FileRef, Place};
use super::names::name;
use super::stage::{OpenStage, Opening, Stage, Wanted};
use crate::state::messages::{Answer, Call, Claim, OpenRequest, StateidLoan};
use crate::state::opens::StateOwner;
use crate::v4::attributes::{SETTABLE_EXCLUSIVE, Sent};
use crate::v4::operation::{Open, OpenClaim, OpenHow};
use crate::v4::{Bitmap, Modes, Share, Status};

/// OPEN4_RESULT_LOCKTYPE_POSIX.
const RESULT_FLAGS: u32 = 4;
/// OPEN_DELEGATE_NONE.
const NO_DELEGATION: u32 = 0;
/// Values of `share_access` beside reading and writing: what is wanted of delegations, and when (RFC 8881 §18.16.3).
const WANTS: u32 = 0x0003_ff00;
/// Those of `share_access` that say reading and writing.
const ACCESS: u32 = 3;

/// OPEN.
pub(crate) fn begin(env: &mut Env<'_>, open: Open) -> Result<Flow, Status> {
    let current = env.current()?;
    let access = Modes::from_wire(open.access & ACCESS).filter(|access| *access != Modes::NONE);
    let access = access.filter(|_| open.access & !(ACCESS | WANTS) == 0).ok_or(Status::INVAL)?;
    let share = Share { access, deny: Modes::from_wire(open.deny).ok_or(Status::INVAL)? };
    let claim = if let OpenClaim::Previous(_) = open.claim { Claim::Reclaim } else { Claim::New };
    let wanted = Wanted { owner: open.owner, share, claim };
    match (open.claim, open.how) {
        (OpenClaim::Delegation, _) => Err(Status::NOTSUPP),
        (OpenClaim::Null(bytes), OpenHow::NoCreate) => look_up(env, current, wanted, &bytes),
        (OpenClaim::Null(bytes), how) => admit(env, wanted, name(&bytes)?, how),
        (OpenClaim::Fh | OpenClaim::Previous(_), OpenHow::NoCreate) => {
            let file = env.file(Status::ISDIR)?;
            ask_open(env, Opening::there(wanted, file))
        }
        (OpenClaim::Fh | OpenClaim::Previous(_), _) => Err(Status::INVAL),
    }
}

fn look_up(env: &mut Env<'_>, current: Place, wanted: Wanted, bytes: &[u8]) -> Result<Flow, Status> {
    let name = name(bytes)?;
    match current {
        Place::Pseudo(node) => {
            let found = env.shared.exports.lookup(node, bytes).filter(|place| env.is_visible(*place));
            found.ok_or(Status::NOENT)?;
            Err(Status::ISDIR)
        }
        Place::File { export, handle } => {
            let operation = Operation::Lookup { directory: handle, name };
            env.ask(export, operation, Stage::Open(OpenStage::LookingUp(wanted)))
        }
    }
}

/// The group is asked whether the client may claim what is new, as long as that is not known.
fn admit(env: &mut Env<'_>, wanted: Wanted, name: Name, how: OpenHow) -> Result<Flow, Status> {
    let client = env.client()?;
    if env.shared.admitted == Some(client) {
        return create(env, wanted, name, how);
    }
    let then = OpenStage::Admitting(wanted, name, Box::new(how));
    Ok(Flow::Group { call: Call::Admit(client), then: Stage::Open(then) })
}

/// The file is made, or taken, and opened in one step.
fn create(env: &mut Env<'_>, wanted: Wanted, name: Name, how: OpenHow) -> Result<Flow, Status> {
    let directory = env.writable()?;
    let exclusive = |verifier: [u8; 8], attributes| CreateHow::Exclusive {
        verifier: ExclusiveVerifier(verifier),
        attributes,
    };
    let (how, bitmap, cut) = match how {
        OpenHow::Unchecked(sent) => {
            let mut attributes = sent.to_set()?;
            let cut = attributes.size == Some(0);
            if cut {
                attributes.size = None;
            }
            (CreateHow::Unchecked(attributes), sent.bitmap, cut)
        }
        OpenHow::Guarded(sent) => (CreateHow::Guarded(sent.to_set()?), sent.bitmap, false),
        OpenHow::Exclusive(verifier) => {
            (exclusive(verifier.0, SetAttributes::default()), Bitmap::default(), false)
        }
        OpenHow::ExclusiveWith(verifier, sent) => {
            (exclusive(verifier.0, exclusive_attributes(&sent)?), sent.bitmap, false)
        }
        OpenHow::NoCreate => return Err(Status::SERVERFAULT),
    };
    let operation = Operation::Create {
        directory: directory.key.handle,
        name,
        how: Box::new(how),
        open: Some(open_access(wanted.share.access)),
    };
    let then = OpenStage::Creating { wanted, export: directory.export, bitmap, cut };
    env.ask(directory.export, operation, Stage::Open(then))
}

/// Attributes that EXCLUSIVE4_1 may have.
fn exclusive_attributes(sent: &Sent) -> Result<SetAttributes, Status> {
    let attributes = sent.to_set()?;
    if SETTABLE_EXCLUSIVE.contains(&sent.bitmap) { Ok(attributes) } else { Err(Status::INVAL) }
}

fn open_access(access: Modes) -> OpenAccess {
    match (access.read, access.write) {
        (_, false) => OpenAccess::READ,
        (false, true) => OpenAccess::WRITE,
        (true, true) => OpenAccess::BOTH,
    }
}

/// Asks the file system to open a file that is there.
fn ask_open(env: &mut Env<'_>, opening: Opening) -> Result<Flow, Status> {
    let file = opening.file;
    if opening.wanted.share.access.write {
        env.may_write(file)?;
    }
    let access = open_access(opening.wanted.share.access);
    let operation = Operation::Open { file: file.key.handle, access };
    env.ask(file.export, operation, Stage::Open(OpenStage::Opening(Box::new(opening))))
}

/// Asks the group for the share.
fn ask_share(env: &mut Env<'_>, opening: Box<Opening>, id: OpenId) -> Result<Flow, Status> {
    let Wanted { owner, share, claim } = opening.wanted.clone();
    let owner = StateOwner { client: env.client()?, owner };
    let call = Call::Open(OpenRequest { owner, file: opening.file.key, share, id, claim });
    Ok(Flow::Group { call, then: Stage::Open(OpenStage::Granting(opening, id)) })
}

/// What was waited for has come.
pub(crate) fn resume(env: &mut Env<'_>, stage: OpenStage, input: Input) -> Result<Flow, Status> {
    match stage {
        OpenStage::Admitting(wanted, name, how) => {
            input.answer()?;
            env.shared.admitted = Some(env.client()?);
            create(env, wanted, name, *how)
        }
        OpenStage::LookingUp(wanted) => {
            let Outcome::Found(object) = input.outcome()? else { return Err(Status::SERVERFAULT) };
            let directory = env.file(Status::SERVERFAULT)?;
            let file = FileRef { key: FileKey { handle: object.handle, ..directory.key }, ..directory };
            ask_open(env, Opening::there(wanted, file))
        }
        OpenStage::Opening(mut opening) => {
            let Outcome::Opened { open, attributes } = input.outcome()? else {
                return Err(Status::SERVERFAULT);
            };
            opening.attributes = Some(*attributes);
            ask_share(env, opening, open)
        }
        OpenStage::Creating { wanted, export, bitmap, cut } => {
            let Outcome::Created(created) = input.outcome()? else { return Err(Status::SERVERFAULT) };
            let Some(id) = created.open else { return Err(Status::SERVERFAULT) };
            let directory = env.file(Status::SERVERFAULT)?;
            let file = FileRef { export, key: FileKey { handle: created.object.handle, ..directory.key } };
            let cut = cut && !created.is_new;
            let attributes = Some(created.object.attributes);
            let opening = Opening { wanted, file, change: Some(created.directory), bitmap, cut, attributes };
            ask_share(env, Box::new(opening), id)
        }
        OpenStage::Granting(opening, id) => match input.answer() {
            Ok(Answer::Lent(loan)) if opening.cut => cut(env, opening, loan),
            Ok(Answer::Lent(loan)) => Ok(finish(env, &opening, &loan)),
            other => {
                let status = other.err().unwrap_or(Status::SERVERFAULT);
                let export = opening.file.export;
                env.ask(export, Operation::Close { open: id }, Stage::Open(OpenStage::Closing(status)))
            }
        },
        OpenStage::Cutting(opening, loan) => {
            input.outcome()?;
            Ok(finish(env, &opening, &loan))
        }
        OpenStage::Closing(status) => Err(status),
    }
}

fn cut(env: &mut Env<'_>, opening: Box<Opening>, loan: StateidLoan<FileKey>) -> Result<Flow, Status> {
    let file = opening.file;
    let object = Target { file: file.key.handle, open: loan.ids.write };
    let operation = Operation::SetAttributes { object, guard: None, attributes: SetAttributes::size(0) };
    env.ask(file.export, operation, Stage::Open(OpenStage::Cutting(opening, loan)))
}

/// `OPEN4resok`.
fn finish(env: &mut Env<'_>, opening: &Opening, loan: &StateidLoan<FileKey>) -> Flow {
    let FileRef { export, key } = opening.file;
    let place = Place::File { export, handle: key.handle };
    env.set_current(place);
    if let (Some(attributes), false) = (opening.attributes, opening.cut) {
        env.context.seen = Some((place, Box::new(attributes)));
    }
    super::stateful::tell_stateid(env, loan.stateid());
    if let Some(change) = &opening.change {
        super::names::change_info(env, change);
    } else {
        env.context.out.put(&false);
        env.context.out.u64(0);
        env.context.out.u64(0);
    }
    env.context.out.u32(RESULT_FLAGS);
    env.context.out.put(&opening.bitmap);
    env.context.out.u32(NO_DELEGATION);
    Flow::Done
}
