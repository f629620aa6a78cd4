//! Operations on data, each with a stateid: READ, WRITE, SETATTR, ALLOCATE, DEALLOCATE, SEEK, COPY; and COMMIT
//! (RFC 8881 §18.22, §18.32, §18.30, §18.3; RFC 7862 §15.1, §15.2, §15.4, §15.11).

use buf::{Buf, BufList};
use filesystem::{CopyRange, Operation, Outcome, Stability, WriteVerifier};

use super::context::{Env, Flow, Input};
use super::stage::{DataOperation, DataStage, Stage};
use crate::limits::PAYLOAD;
use crate::state::messages::{Answer, StateidUse};
use crate::v4::operation::{Copy, Ranged, Write};
use crate::v4::{Modes, Stateid, Status};

/// Bytes of a READ's result beside its data: number, status, eof, length and padding.
const READ_RESULT: usize = 20;

/// Begins, or begins again.
pub(crate) fn begin(env: &mut Env<'_>, operation: DataOperation) -> Result<Flow, Status> {
    env.end_uses();
    let (stateid, access) = match &operation {
        DataOperation::Read(Ranged { stateid, .. }) | DataOperation::Seek { stateid, .. } => {
            (*stateid, Modes::READ)
        }
        DataOperation::Write(Write { stateid, .. })
        | DataOperation::SetSize { stateid, .. }
        | DataOperation::Allocate(Ranged { stateid, .. })
        | DataOperation::Deallocate(Ranged { stateid, .. }) => (*stateid, Modes::WRITE),
        DataOperation::Copy(copy) => (copy.to, Modes::WRITE),
    };
    let wrong = if access.write { Status::ROFS } else { Status::ISDIR };
    let file = env.file(wrong)?;
    if access.write {
        env.may_write(file)?;
    }
    let named = env.named(stateid)?;
    let target = match env.target(named, access)? {
        Ok(target) => target,
        Err(call) => return Ok(Flow::Group { call, then: Stage::Begin(operation) }),
    };
    let (request, then) = match operation {
        DataOperation::Read(read) => {
            let most = env.export(file.export)?.limits.max_read.min(PAYLOAD);
            let room = env.room().saturating_sub(READ_RESULT);
            let length = wire::index(read.count.min(most.into())).min(room);
            let into = if length == 0 { Some(Buf::zeroed(0)) } else { env.shared.account.take(length) };
            let Some(into) = into else {
                env.end_uses();
                return Ok(Flow::Memory { then: Stage::Begin(DataOperation::Read(read)) });
            };
            (Operation::Read { file: target, offset: read.offset, into }, DataStage::Reading)
        }
        DataOperation::Write(write) => {
            let most = wire::index(env.export(file.export)?.limits.max_write.into());
            let (data, stability) = (collect(write.data).part(0, write.length.min(most)), write.stability);
            let count = data.len();
            (
                Operation::Write { file: target, offset: write.offset, data, stability },
                DataStage::Writing { count },
            )
        }
        DataOperation::SetSize { set, bitmap, .. } => {
            let request = Operation::SetAttributes { object: target, guard: None, attributes: set };
            (request, DataStage::SettingAttributes(bitmap))
        }
        DataOperation::Allocate(Ranged { offset, count, .. }) => {
            (Operation::Allocate { file: target, offset, count }, DataStage::Changing)
        }
        DataOperation::Deallocate(Ranged { offset, count, .. }) => {
            (Operation::Deallocate { file: target, offset, count }, DataStage::Changing)
        }
        DataOperation::Seek { offset, what, .. } => {
            (Operation::Seek { file: target, offset, what }, DataStage::Seeking)
        }
        DataOperation::Copy(copy) => {
            let source = env.saved_file(Status::ISDIR)?;
            if source.key.filesystem != file.key.filesystem {
                return Err(Status::XDEV);
            }
            let stateid =
                if copy.from == Stateid::CURRENT { env.context.saved_stateid } else { Some(copy.from) };
            let stateid = stateid.ok_or(Status::BAD_STATEID)?;
            let named = StateidUse { client: env.client()?, file: source.key, stateid };
            let from = match env.target(named, Modes::READ)? {
                Ok(from) => from,
                Err(call) => return Ok(Flow::Group { call, then: Stage::Begin(DataOperation::Copy(copy)) }),
            };
            let Copy { from_offset, to_offset, count, .. } = copy;
            let range = CopyRange { from, from_offset, to: target, to_offset, count };
            (Operation::Copy(alloc::boxed::Box::new(range)), DataStage::Copying)
        }
    };
    env.ask(file.export, request, Stage::Data(then))
}

fn collect(pieces: alloc::vec::Vec<Buf>) -> BufList {
    let mut data = BufList::new();
    for piece in pieces {
        data.push(piece.freeze());
    }
    data
}

/// The group has answered about a stateid, or there may be memory.
pub(crate) fn again(env: &mut Env<'_>, operation: DataOperation, input: Input) -> Result<Flow, Status> {
    if let Input::Group(answer) = input {
        // What was lent stands in the table by now.
        match answer? {
            Answer::Lent(_) | Answer::Anonymous => {}
            _ => return Err(Status::SERVERFAULT),
        }
    }
    begin(env, operation)
}

/// COMMIT.
pub(crate) fn commit(env: &mut Env<'_>, offset: u64, count: u32) -> Result<Flow, Status> {
    let file = env.writable()?;
    let operation = Operation::Commit { file: file.key.handle.into(), offset, count: count.into() };
    env.ask(file.export, operation, Stage::Data(DataStage::Committing))
}

/// SETATTR (RFC 8881 §18.30): only a size needs a stateid.
pub(crate) fn set_attributes(
    env: &mut Env<'_>,
    stateid: Stateid,
    wanted: &crate::v4::attributes::Sent,
) -> Result<Flow, Status> {
    env.current()?;
    let set = wanted.to_set()?;
    if set.size.is_some() {
        return begin(env, DataOperation::SetSize { stateid, set, bitmap: wanted.bitmap });
    }
    let file = env.writable()?;
    let operation = Operation::SetAttributes { object: file.key.handle.into(), guard: None, attributes: set };
    env.ask(file.export, operation, Stage::Data(DataStage::SettingAttributes(wanted.bitmap)))
}

/// The file system has answered.
pub(crate) fn resume(env: &mut Env<'_>, stage: DataStage, input: Input) -> Result<Flow, Status> {
    let outcome = input.outcome()?;
    let out = &mut env.context.out;
    match (stage, outcome) {
        (DataStage::Reading, Outcome::Data { data, eof, .. }) => {
            out.put(&eof);
            out.payload(data);
        }
        (DataStage::Writing { count }, Outcome::Written { stability, verifier, .. }) => {
            out.length(count);
            out.u32(stable_how(stability));
            out.put(&verifier.0);
        }
        (DataStage::Committing, Outcome::Committed { verifier: WriteVerifier(verifier), .. }) => {
            out.put(&verifier);
        }
        (DataStage::SettingAttributes(bitmap), Outcome::Changed(_)) => out.put(&bitmap),
        (DataStage::Changing, Outcome::Changed(_)) => {}
        (DataStage::Seeking, Outcome::Sought { offset, eof }) => {
            out.put(&eof);
            out.u64(offset);
        }
        (DataStage::Copying, Outcome::Copied { count, stability, verifier }) => {
            // No callback identifier: the copy is complete.
            out.u32(0);
            out.u64(count);
            out.u32(stable_how(stability));
            out.put(&verifier.0);
            out.put(&true);
            out.put(&true);
        }
        _ => return Err(Status::SERVERFAULT),
    }
    Ok(Flow::Done)
}

/// `stable_how4`.
fn stable_how(stability: Stability) -> u32 {
    match stability {
        Stability::Unstable => 0,
        Stability::DataSync => 1,
        Stability::FileSync => 2,
    }
}
