//! GETATTR, VERIFY, NVERIFY and ACCESS (RFC 8881 §18.7, §18.31, §18.15, §18.1).

use alloc::vec::Vec;

use filesystem::{Access, Attributes, Features, Limits, Operation, Outcome, Space, Time};
use rpc::xdr::{Reader, Writer};

use super::context::{Env, Flow, Input};
use super::exports::{Place, Writes};
use super::names::wire_handle;
use super::stage::{AttributeStage, Purpose, Stage};
use crate::limits::NAME;
use crate::v4::attributes::number::{FILEHANDLE, RDATTR_ERROR};
use crate::v4::attributes::{OF_SPACE, SUPPORTED, Sent, Source, WRITE_ONLY, encode};
use crate::v4::{Bitmap, Status};

/// Limits of the pseudo file system, which takes no data.
const PSEUDO_LIMITS: Limits = Limits {
    depth: 1,
    max_read: 0,
    max_write: 0,
    max_name: 255,
    max_link_text: 0,
    max_links: 1,
    max_file_size: 0,
    time_delta: Time { seconds: 0, nanos: 1 },
};
const _: () = assert!(NAME == 255, "the limit of names");

/// GETATTR, VERIFY, NVERIFY.
pub(crate) fn begin(env: &mut Env<'_>, purpose: Purpose) -> Result<Flow, Status> {
    let current = env.current()?;
    match &purpose {
        Purpose::Get(bitmap) if !bitmap.intersection(&WRITE_ONLY).is_empty() => return Err(Status::INVAL),
        Purpose::Get(_) => {}
        Purpose::Same(sent) | Purpose::Different(sent) => {
            if !SUPPORTED.contains(&sent.bitmap) {
                return Err(Status::ATTRNOTSUPP);
            }
            if !sent.bitmap.intersection(&WRITE_ONLY).is_empty() || sent.bitmap.has(RDATTR_ERROR) {
                return Err(Status::INVAL);
            }
        }
    }
    match current {
        Place::Pseudo(node) => {
            let attributes = env.shared.exports.attributes(node);
            finish(env, &purpose, &attributes, None)
        }
        Place::File { export, handle } => {
            let seen = env.context.seen.take().filter(|(place, _)| *place == current);
            if let Some((_, attributes)) = seen.filter(|_| !needs_space(&purpose)) {
                return finish(env, &purpose, &attributes, None);
            }
            let operation = Operation::GetAttributes { object: handle.into() };
            env.ask(export, operation, Stage::Attributes(AttributeStage::Reading { purpose }))
        }
    }
}

/// ACCESS. In an export that cannot be changed nobody may change anything.
pub(crate) fn access(env: &mut Env<'_>, asked: u32) -> Result<Flow, Status> {
    let current = env.current()?;
    let mut asked = Access::from_bits_truncate(asked);
    match current {
        Place::Pseudo(_) => {
            tell_access(env, asked, asked & (Access::READ | Access::LOOKUP));
            Ok(Flow::Done)
        }
        Place::File { export, handle } => {
            let grant = env.grant(export).ok_or(Status::STALE)?;
            let all = asked;
            if grant.writes == Writes::Refused {
                asked -= Access::MODIFY | Access::EXTEND | Access::DELETE;
            }
            let operation = Operation::Access { object: handle, access: asked };
            env.ask(export, operation, Stage::Attributes(AttributeStage::Access { asked: all }))
        }
    }
}

fn tell_access(env: &mut Env<'_>, supported: Access, granted: Access) {
    env.context.out.u32(supported.bits());
    env.context.out.u32(granted.bits());
}

/// The file system has answered.
pub(crate) fn resume(env: &mut Env<'_>, stage: AttributeStage, input: Input) -> Result<Flow, Status> {
    match (stage, input.outcome()?) {
        (AttributeStage::Reading { purpose }, Outcome::Attributes(attributes)) => {
            if !needs_space(&purpose) {
                return finish(env, &purpose, &attributes, None);
            }
            let export = env.file(Status::SERVERFAULT)?.export;
            let then = AttributeStage::ReadingSpace { purpose, attributes };
            env.ask(export, Operation::GetSpace, Stage::Attributes(then))
        }
        (AttributeStage::ReadingSpace { purpose, attributes }, Outcome::Space(space)) => {
            finish(env, &purpose, &attributes, Some(*space))
        }
        (AttributeStage::Access { asked }, Outcome::Access(granted)) => {
            tell_access(env, asked, granted);
            Ok(Flow::Done)
        }
        _ => Err(Status::SERVERFAULT),
    }
}

fn needs_space(purpose: &Purpose) -> bool {
    let bitmap = match purpose {
        Purpose::Get(bitmap) => bitmap,
        Purpose::Same(sent) | Purpose::Different(sent) => &sent.bitmap,
    };
    !bitmap.intersection(&OF_SPACE).is_empty()
}

fn finish(
    env: &mut Env<'_>,
    purpose: &Purpose,
    of: &Attributes,
    space: Option<Space>,
) -> Result<Flow, Status> {
    let place = env.current()?;
    match purpose {
        Purpose::Get(bitmap) => {
            let mut out = core::mem::take(&mut env.context.out);
            encode_object(env, &mut out, bitmap, Object { place, attributes: of, space });
            env.context.out = out;
            Ok(Flow::Done)
        }
        Purpose::Same(sent) => {
            if is_same(env, sent, Object { place, attributes: of, space }) {
                Ok(Flow::Done)
            } else {
                Err(Status::NOT_SAME)
            }
        }
        Purpose::Different(sent) => {
            if is_same(env, sent, Object { place, attributes: of, space }) {
                Err(Status::SAME)
            } else {
                Ok(Flow::Done)
            }
        }
    }
}

/// An object whose attributes are told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Object<'a> {
    pub(crate) place: Place,
    pub(crate) attributes: &'a Attributes,
    pub(crate) space: Option<Space>,
}

/// Writes `fattr4` of an object.
pub(crate) fn encode_object(env: &Env<'_>, out: &mut Writer, bitmap: &Bitmap, object: Object<'_>) {
    let Object { place, attributes, space } = object;
    let export = match place {
        Place::File { export, .. } => env.shared.exports.get(export),
        Place::Pseudo(_) => None,
    };
    let handle = if bitmap.has(FILEHANDLE) { wire_handle(env, place) } else { Vec::new() };
    let source = Source {
        attributes,
        fsid: attributes.fsid,
        handle: &handle,
        mounted_on: env.shared.exports.mounted_on(place, attributes.fileid),
        limits: export.map_or(&PSEUDO_LIMITS, |export| &export.limits),
        features: export.map_or(Features::READ_ONLY, |export| export.features),
        space,
    };
    encode(out, bitmap, &source);
}

/// True if the attributes are byte for byte what was sent.
fn is_same(env: &Env<'_>, sent: &Sent, object: Object<'_>) -> bool {
    let mut writer = Writer::new();
    encode_object(env, &mut writer, &sent.bitmap, object);
    let bytes = writer.finish();
    let mut reader = Reader::new(bytes.bytes());
    Sent::decode(&mut reader).is_ok_and(|own| own == *sent)
}
