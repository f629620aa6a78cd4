//! What each procedure answers once the file system has: results and failures (RFC 1813 §3.3).

use alloc::boxed::Box;

use buf::SharedBuf;
use filesystem::{
    Attributes, Created, FileErrorKind, Limits, Operation, Outcome, SetAttributes, Space, Stability, WccData,
    WriteVerifier,
};
use rpc::xdr::Writer;

use super::super::context::Input;
use super::begin::{begin, close};
use super::env::{Env, Flow, Stage, Tail, is, lent, outcome};
use super::listing;
use crate::limits::{LISTING, PAYLOAD};
use crate::v3::Status;
use crate::v3::attributes::{put_attributes, put_directory, put_post, put_time, put_wcc};
use crate::v3::procedure::Number;
use crate::v4::Modes;

/// FSF3_LINK, FSF3_SYMLINK, FSF3_HOMOGENEOUS, FSF3_CANSETTIME (RFC 1813 §3.3.19).
const LINK: u32 = 0x01;
const SYMLINK: u32 = 0x02;
const HOMOGENEOUS: u32 = 0x08;
const CAN_SET_TIME: u32 = 0x10;
/// What sizes of reads and writes should be a multiple of, in bytes: a page.
const MULTIPLE: u32 = 4096;

/// What was waited for has come.
pub(super) fn resume(env: &mut Env<'_>, stage: Stage, input: Input) -> Result<Flow, Status> {
    match stage {
        Stage::Again(procedure) => {
            lent(input)?;
            begin(env, procedure)
        }
        Stage::Closing(tail) => end(env, tail, input),
        Stage::JudgingCut(created) => {
            lent(input)?;
            cut(env, created)
        }
        Stage::LookingForParent(listing) => listing::parent(env, listing, input),
        // Not even one entry fits.
        Stage::Listing(_) if is(&input, FileErrorKind::Invalid) => Err(Status::TOOSMALL),
        Stage::Listing(list) => match outcome(input)? {
            Outcome::Page(page) => listing::finish(env, &list, &page),
            _ => Err(Status::SERVERFAULT),
        },
        stage => answer(env, stage, outcome(input)?),
    }
}

fn answer(env: &mut Env<'_>, stage: Stage, outcome: Outcome) -> Result<Flow, Status> {
    match (stage, outcome) {
        (Stage::GettingAttributes, Outcome::Attributes(attributes)) => {
            env.out.u32(Status::OK.0);
            put_attributes(env.out, &attributes);
        }
        (Stage::SettingAttributes, Outcome::Changed(change)) => {
            env.out.u32(Status::OK.0);
            put_wcc(env.out, &change);
        }
        (Stage::LookingUp, Outcome::Found(object)) => return close(env, Tail::Found(object)),
        (Stage::LookingAtItself, Outcome::Attributes(attributes)) => {
            if attributes.file_type != filesystem::FileType::Directory {
                return Err(Status::NOTDIR);
            }
            let directory = env.known_subject()?.handle();
            tell_found(env, directory, &attributes, Some(&attributes))?;
        }
        (Stage::Access, Outcome::Access(granted)) => return close(env, Tail::Access(granted.bits())),
        (Stage::ReadingLink, Outcome::Link(target)) => return close(env, Tail::Link(target)),
        (Stage::ReadingSpace, Outcome::Space(space)) => return close(env, Tail::Space(space)),
        (Stage::Creating { cut: true }, Outcome::Created(created)) if !created.is_new => {
            return cut(env, created);
        }
        (Stage::Creating { .. } | Stage::Making, Outcome::Created(created)) => tell_created(env, &created)?,
        (Stage::Cutting(mut created), Outcome::Changed(change)) => {
            created.object.attributes = change.after.unwrap_or(created.object.attributes);
            tell_created(env, &created)?;
        }
        (Stage::Removing, Outcome::Removed(change)) => {
            env.out.u32(Status::OK.0);
            put_directory(env.out, &change);
        }
        (Stage::Renaming, Outcome::Renamed { from, to }) => {
            env.out.u32(Status::OK.0);
            put_directory(env.out, &from);
            put_directory(env.out, &to);
        }
        (Stage::Linking, Outcome::Linked { object, directory }) => {
            env.out.u32(Status::OK.0);
            put_post(env.out, Some(&object));
            put_directory(env.out, &directory);
        }
        (stage, outcome) => return answer_data(env, &stage, outcome),
    }
    Ok(Flow::Done)
}

/// READ, WRITE, COMMIT.
fn answer_data(env: &mut Env<'_>, stage: &Stage, outcome: Outcome) -> Result<Flow, Status> {
    match (stage, outcome) {
        (Stage::Reading, Outcome::Data { data, eof, attributes }) => {
            env.out.u32(Status::OK.0);
            put_post(env.out, attributes.as_ref());
            env.out.length(data.len());
            env.out.put(&eof);
            env.out.payload(data);
        }
        (Stage::Writing { count }, Outcome::Written { stability, verifier, file }) => {
            env.out.u32(Status::OK.0);
            put_wcc(env.out, &file);
            env.out.length(*count);
            env.out.u32(stable_how(stability));
            env.out.put(&verifier.0);
        }
        (Stage::Committing, Outcome::Committed { verifier: WriteVerifier(verifier), file }) => {
            env.out.u32(Status::OK.0);
            put_wcc(env.out, &file);
            env.out.put(&verifier);
        }
        _ => return Err(Status::SERVERFAULT),
    }
    Ok(Flow::Done)
}

/// `stable_how`.
fn stable_how(stability: Stability) -> u32 {
    match stability {
        Stability::Unstable => 0,
        Stability::DataSync => 1,
        Stability::FileSync => 2,
    }
}

/// `LOOKUP3resok`. `within` is the directory.
fn tell_found(
    env: &mut Env<'_>,
    handle: filesystem::FileHandle,
    attributes: &Attributes,
    within: Option<&Attributes>,
) -> Result<(), Status> {
    let export = env.known_subject()?.export;
    let handle = env.wire_handle(export, handle).ok_or(Status::SERVERFAULT)?;
    env.out.u32(Status::OK.0);
    env.out.opaque(&handle);
    put_post(env.out, Some(attributes));
    put_post(env.out, within);
    Ok(())
}

/// What was made. A handle that is too long for version 3 is not told: whoever wants it looks it up, and hears why not.
fn tell_created(env: &mut Env<'_>, created: &Created) -> Result<(), Status> {
    let export = env.known_subject()?.export;
    let handle = env.wire_handle(export, created.object.handle);
    env.out.u32(Status::OK.0);
    env.out.put(&handle.is_some());
    if let Some(handle) = handle {
        env.out.opaque(&handle);
    }
    put_post(env.out, Some(&created.object.attributes));
    put_directory(env.out, &created.directory);
    Ok(())
}

/// A file that was taken is cut to nothing, if no open of version 4 denies that.
fn cut(env: &mut Env<'_>, created: Box<Created>) -> Result<Flow, Status> {
    let mut located = env.known_subject()?;
    located.key.handle = created.object.handle;
    let object = match env.target(located, Modes::WRITE)? {
        Ok(target) => target,
        Err(call) => return Ok(Flow::Group { call, then: Stage::JudgingCut(created) }),
    };
    let operation = Operation::SetAttributes { object, guard: None, attributes: SetAttributes::size(0) };
    env.ask(operation, Stage::Cutting(created))
}

/// The attributes behind a result are there, or cannot be had.
fn end(env: &mut Env<'_>, tail: Tail, input: Input) -> Result<Flow, Status> {
    if let Tail::Found(object) = tail {
        // What was found counts, even if its directory went meanwhile.
        let within = match outcome(input) {
            Ok(Outcome::Attributes(attributes)) => Some(attributes),
            _ => None,
        };
        tell_found(env, object.handle, &object.attributes, within.as_deref())?;
        return Ok(Flow::Done);
    }
    let attributes = match outcome(input) {
        Ok(Outcome::Attributes(attributes)) => attributes,
        Ok(_) => return Err(Status::SERVERFAULT),
        // The object went while it was looked at.
        Err(status) => return Err(status),
    };
    let subject = env.known_subject()?;
    let limits = env.export(subject.export)?.limits;
    let features = env.export(subject.export)?.features;
    let out = &mut *env.out;
    out.u32(Status::OK.0);
    put_post(out, Some(&attributes));
    match tail {
        Tail::Access(granted) => out.u32(granted),
        // A client over RDMA may have named memory for it (RFC 8267).
        Tail::Link(target) => out.payload(SharedBuf::from(target).into()),
        Tail::Space(space) => tell_space(out, &space),
        Tail::Information => tell_information(out, &limits, features),
        Tail::Configuration => tell_configuration(out, &limits),
        Tail::Found(_) => return Err(Status::SERVERFAULT),
    }
    Ok(Flow::Done)
}

/// `FSSTAT3resok`.
fn tell_space(out: &mut Writer, space: &Space) {
    let Space { space_total, space_free, space_avail, files_total, files_free, files_avail } = *space;
    for number in [space_total, space_free, space_avail, files_total, files_free, files_avail] {
        out.u64(number);
    }
    // invarsec: it may change at any time.
    out.u32(0);
}

/// `FSINFO3resok`.
fn tell_information(out: &mut Writer, limits: &Limits, features: filesystem::Features) {
    for most in [limits.max_read, limits.max_write] {
        let most = most.min(PAYLOAD);
        out.u32(most);
        out.u32(most);
        out.u32(MULTIPLE.min(most));
    }
    out.u32(LISTING);
    out.u64(limits.max_file_size);
    put_time(out, limits.time_delta);
    let mut properties = HOMOGENEOUS | CAN_SET_TIME;
    if features.contains(filesystem::Features::LINKS) {
        properties |= LINK;
    }
    if features.contains(filesystem::Features::SYMBOLIC_LINKS) {
        properties |= SYMLINK;
    }
    out.u32(properties);
}

/// `PATHCONF3resok`: names that are too long are refused, owners are given away by user 0 alone, and names are what they are byte for byte.
fn tell_configuration(out: &mut Writer, limits: &Limits) {
    out.u32(limits.max_links);
    out.u32(limits.max_name);
    for truth in [true, true, false, true] {
        out.put(&truth);
    }
}

/// Writes the result of a procedure that failed, with what is known of its first object.
pub(super) fn tell_failure(out: &mut Writer, number: Number, status: Status, after: Option<Attributes>) {
    out.u32(status.0);
    let unknown = WccData::default();
    let known = WccData { before: None, after };
    match number {
        Number::GETATTR => {}
        Number::SETATTR
        | Number::WRITE
        | Number::CREATE
        | Number::MKDIR
        | Number::SYMLINK
        | Number::MKNOD
        | Number::REMOVE
        | Number::RMDIR
        | Number::COMMIT => put_wcc(out, &known),
        Number::RENAME => {
            put_wcc(out, &known);
            put_wcc(out, &unknown);
        }
        Number::LINK => {
            put_post(out, after.as_ref());
            put_wcc(out, &unknown);
        }
        _ => put_post(out, after.as_ref()),
    }
}
