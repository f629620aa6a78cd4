//! Operations that only the group can carry out: clients, sessions, opens and locks (RFC 8881 §18.2, §18.10–§18.12, §18.18, §18.34–§18.38, §18.48, §18.50,
//! §18.51).

use alloc::vec::Vec;

use filesystem::{FileType, Operation as Request, Outcome};
use rpc::xdr::Writer;

use super::context::{Env, Flow, Input};
use super::exports::FileKey;
use super::identity::ServerIdentity;
use super::stage::{Stage, StatefulStage};
use crate::state::clients::{Confirmation, Owner};
use crate::state::locks::Denied;
use crate::state::messages::{Answer, Call, LockRequest, LockTest, ReclaimScope, SessionRequest};
use crate::state::opens::StateOwner;
use crate::state::ranges::{ByteRange, LockMode};
use crate::state::sessions::{ChannelAttributes, CreatedSession};
use crate::v4::operation::{CONFIRMED, EXCHANGE_FLAGS, Lock, USE_NON_PNFS, purpose};
use crate::v4::{ClientId, Modes, SessionId, Share, Stateid, Status};

fn ask(call: Call<FileKey>, then: StatefulStage) -> Flow {
    Flow::Group { call, then: Stage::Stateful(then) }
}

/// EXCHANGE_ID: no state protection but by the principal (SP4_NONE).
pub(crate) fn exchange_id(
    owner: Owner,
    flags: u32,
    protection: u32,
    identity: &ServerIdentity,
) -> Result<Flow, Status> {
    match protection {
        0 => {}
        // SP4_MACH_CRED needs RPCSEC_GSS; SP4_SSV needs algorithms, of which there are none.
        1 => return Err(Status::INVAL),
        _ => return Err(Status::HASH_ALG_UNSUPP),
    }
    if flags & !EXCHANGE_FLAGS != 0 {
        return Err(Status::INVAL);
    }
    Ok(ask(Call::ExchangeId(owner, purpose(flags)), StatefulStage::ExchangingId(identity.clone())))
}

/// CREATE_SESSION.
pub(crate) fn create_session(
    env: &Env<'_>,
    client: ClientId,
    sequence: u32,
    attributes: ChannelAttributes,
) -> Flow {
    let principal = env.context.principal;
    let request = SessionRequest { client, sequence, principal, attributes };
    ask(Call::CreateSession(request), StatefulStage::CreatingSession)
}

/// BIND_CONN_TO_SESSION: every connection may be used for the fore channel (SP4_NONE), and there is no backchannel.
pub(crate) fn bind(session: SessionId, direction: u32) -> Result<Flow, Status> {
    match direction {
        // CDFC4_FORE, CDFC4_FORE_OR_BOTH, CDFC4_BACK_OR_BOTH.
        1 | 3 | 7 => Ok(ask(Call::FindSession(session), StatefulStage::Binding(session))),
        _ => Err(Status::INVAL),
    }
}

/// DESTROY_SESSION.
pub(crate) fn destroy_session(session: SessionId) -> Flow {
    ask(Call::DestroySession(session), StatefulStage::Ending)
}

/// DESTROY_CLIENTID.
pub(crate) fn destroy_client(client: ClientId) -> Flow {
    ask(Call::DestroyClientId(client), StatefulStage::Ending)
}

/// RECLAIM_COMPLETE.
pub(crate) fn reclaim_complete(env: &Env<'_>, scope: ReclaimScope) -> Result<Flow, Status> {
    if scope == ReclaimScope::OneFileSystem {
        env.current()?;
    }
    Ok(ask(Call::ReclaimComplete(env.client()?, scope), StatefulStage::Ending))
}

/// FREE_STATEID.
pub(crate) fn free_stateid(env: &Env<'_>, stateid: Stateid) -> Result<Flow, Status> {
    Ok(ask(Call::FreeStateid(env.client()?, env.stateid(stateid)?), StatefulStage::Ending))
}

/// TEST_STATEID.
pub(crate) fn test_stateid(env: &Env<'_>, stateids: Vec<Stateid>) -> Result<Flow, Status> {
    Ok(ask(Call::TestStateids(env.client()?, stateids), StatefulStage::Testing))
}

/// CLOSE.
pub(crate) fn close(env: &Env<'_>, stateid: Stateid) -> Result<Flow, Status> {
    env.current()?;
    Ok(ask(Call::Close(env.named(stateid)?), StatefulStage::Closing))
}

/// OPEN_DOWNGRADE.
pub(crate) fn downgrade(env: &Env<'_>, stateid: Stateid, access: u32, deny: u32) -> Result<Flow, Status> {
    env.current()?;
    let access = Modes::from_wire(access).filter(|access| *access != Modes::NONE).ok_or(Status::INVAL)?;
    let share = Share { access, deny: Modes::from_wire(deny).ok_or(Status::INVAL)? };
    Ok(ask(Call::Downgrade(env.named(stateid)?, share), StatefulStage::Stateid))
}

/// LOCK.
pub(crate) fn lock(env: &Env<'_>, lock: Lock) -> Result<Flow, Status> {
    let file = env.file(Status::ISDIR)?.key;
    let range = ByteRange::new(lock.offset, lock.length)?;
    let locker = match lock.locker {
        crate::state::messages::Locker::New { open, owner } => {
            crate::state::messages::Locker::New { open: env.stateid(open)?, owner }
        }
        crate::state::messages::Locker::Existing(stateid) => {
            crate::state::messages::Locker::Existing(env.stateid(stateid)?)
        }
    };
    let (mode, claim) = (lock.mode, lock.claim);
    Ok(ask(
        Call::Lock(LockRequest { client: env.client()?, file, locker, range, mode, claim }),
        StatefulStage::Locking,
    ))
}

/// What LOCKT tests.
#[derive(Debug)]
pub(crate) struct Tested {
    pub(crate) mode: LockMode,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) owner: Vec<u8>,
}

/// LOCKT: it has no stateid, so that nobody has looked yet whether this is a file.
pub(crate) fn test_lock(env: &mut Env<'_>, tested: Tested) -> Result<Flow, Status> {
    let Tested { mode, offset, length, owner } = tested;
    let file = env.file(Status::ISDIR)?;
    let range = ByteRange::new(offset, length)?;
    let owner = StateOwner { client: env.client()?, owner };
    let test = LockTest { owner, file: file.key, range, mode };
    let request = Request::GetAttributes { object: file.key.handle.into() };
    env.ask(file.export, request, Stage::Stateful(StatefulStage::JudgingType(test)))
}

/// LOCKU.
pub(crate) fn unlock(env: &Env<'_>, stateid: Stateid, offset: u64, length: u64) -> Result<Flow, Status> {
    env.current()?;
    let range = ByteRange::new(offset, length)?;
    Ok(ask(Call::Unlock(env.named(stateid)?, range), StatefulStage::Stateid))
}

/// Writes a stateid, which is the COMPOUND's own from now on.
pub(crate) fn tell_stateid(env: &mut Env<'_>, stateid: Stateid) {
    env.context.current_stateid = Some(stateid);
    write_stateid(&mut env.context.out, stateid);
}

fn write_stateid(out: &mut Writer, stateid: Stateid) {
    out.u32(stateid.seqid);
    out.put(&stateid.other.0);
}

/// The group has answered.
pub(crate) fn resume(env: &mut Env<'_>, stage: StatefulStage, input: Input) -> Result<Flow, Status> {
    if let StatefulStage::JudgingType(test) = stage {
        let Outcome::Attributes(attributes) = input.outcome()? else { return Err(Status::SERVERFAULT) };
        return match attributes.file_type {
            FileType::Regular => Ok(ask(Call::TestLock(test), StatefulStage::TestingLock)),
            FileType::Directory => Err(Status::ISDIR),
            FileType::SymbolicLink => Err(Status::SYMLINK),
            _ => Err(Status::WRONG_TYPE),
        };
    }
    match (stage, input.answer()?) {
        (StatefulStage::ExchangingId(identity), Answer::Exchanged(exchanged)) => {
            let out = &mut env.context.out;
            out.u64(exchanged.client.0);
            out.u32(exchanged.sequence);
            let confirmed = if exchanged.confirmation == Confirmation::Confirmed { CONFIRMED } else { 0 };
            out.u32(USE_NON_PNFS | confirmed);
            // SP4_NONE.
            out.u32(0);
            out.u64(0);
            out.opaque(&identity.owner);
            out.opaque(&identity.scope);
            // No implementation identifier.
            out.u32(0);
        }
        (StatefulStage::CreatingSession, Answer::SessionCreated(created)) => {
            tell_session(&mut env.context.out, &created);
        }
        (StatefulStage::Binding(session), Answer::Done) => {
            env.context.out.put(&session.0);
            // CDFS4_FORE, and no RDMA.
            env.context.out.u32(1);
            env.context.out.put(&false);
        }
        (StatefulStage::Ending | StatefulStage::TestingLock, Answer::Done) => {}
        (StatefulStage::Closing, Answer::Done) => {
            // RFC 8881 §18.2.4: nothing that could be used again.
            env.context.current_stateid = None;
            write_stateid(&mut env.context.out, Stateid::INVALID);
        }
        (StatefulStage::Stateid | StatefulStage::Locking, Answer::Lent(loan)) => {
            tell_stateid(env, loan.stateid());
        }
        (StatefulStage::Locking | StatefulStage::TestingLock, Answer::Denied(denied)) => {
            tell_denied(&mut env.context.out, &denied);
            return Ok(Flow::Failed(Status::DENIED));
        }
        (StatefulStage::Testing, Answer::Tested(statuses)) => {
            let statuses: Vec<u32> = statuses.into_iter().map(|status| status.0).collect();
            env.context.out.array(&statuses);
        }
        _ => return Err(Status::SERVERFAULT),
    }
    Ok(Flow::Done)
}

/// `LOCK4denied`.
fn tell_denied(out: &mut Writer, denied: &Denied) {
    let range = denied.locked.range;
    out.u64(range.first);
    out.u64(range.length());
    out.u32(match denied.locked.mode {
        LockMode::Read => 1,
        LockMode::Write => 2,
    });
    out.u64(denied.owner.client.0);
    out.opaque(&denied.owner.owner);
}

/// `CREATE_SESSION4resok`: not persistent, and without a backchannel.
fn tell_session(out: &mut Writer, created: &CreatedSession) {
    out.put(&created.session.0);
    out.u32(created.sequence);
    out.u32(0);
    let back = ChannelAttributes {
        max_request: crate::limits::LEAST_MESSAGE,
        max_response: crate::limits::LEAST_MESSAGE,
        max_response_cached: 0,
        max_operations: 2,
        max_requests: 1,
    };
    for attributes in [&created.attributes, &back] {
        out.u32(0);
        out.u32(attributes.max_request);
        out.u32(attributes.max_response);
        out.u32(attributes.max_response_cached);
        out.u32(attributes.max_operations);
        out.u32(attributes.max_requests);
        out.u32(0);
    }
}
