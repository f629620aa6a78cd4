//! READDIR (RFC 8881 §18.23), of file systems and of the pseudo file system.

use alloc::vec::Vec;

use filesystem::{Cookie, CookieVerifier, Entry, Operation, Outcome, Page, Space};

use super::attributes::{Object, encode_object};
use super::context::{Env, Flow, Input};
use super::exports::{Child, Place};
use super::stage::{DirectoryStage, Roots, Stage};
use crate::v4::attributes::{OF_SPACE, WRITE_ONLY};
use crate::v4::operation::ReadDirectory;
use crate::v4::{Bitmap, Status};

/// Bytes of a READDIR's result beside its entries: number, status, verifier, the end of the list, and eof.
const RESULT: usize = 24;
/// Cookies of the pseudo file system begin where those of file systems do.
const FIRST: u64 = Cookie::FIRST.0;

/// READDIR.
pub(crate) fn begin(env: &mut Env<'_>, arguments: ReadDirectory) -> Result<Flow, Status> {
    let current = env.current()?;
    if matches!(arguments.cookie, 1 | 2) {
        return Err(Status::BAD_COOKIE);
    }
    if !arguments.attributes.intersection(&WRITE_ONLY).is_empty() {
        return Err(Status::INVAL);
    }
    match current {
        Place::Pseudo(node) => roots(env, Roots { arguments, node, known: Vec::new() }),
        Place::File { export, .. } if !arguments.attributes.intersection(&OF_SPACE).is_empty() => {
            env.ask(export, Operation::GetSpace, Stage::Directory(DirectoryStage::ReadingSpace(arguments)))
        }
        Place::File { .. } => read(env, arguments, None),
    }
}

fn read(env: &mut Env<'_>, arguments: ReadDirectory, space: Option<Space>) -> Result<Flow, Status> {
    let directory = env.file(Status::NOTDIR)?;
    let room = budget(env, &arguments)?;
    let operation = Operation::ReadDirectory {
        directory: directory.key.handle,
        cookie: Cookie(arguments.cookie),
        verifier: CookieVerifier(arguments.verifier.0),
        max_bytes: wire::saturate(room),
        with_objects: !arguments.attributes.is_empty(),
    };
    env.ask(directory.export, operation, Stage::Directory(DirectoryStage::Reading { arguments, space }))
}

/// Bytes for entries.
fn budget(env: &Env<'_>, arguments: &ReadDirectory) -> Result<usize, Status> {
    let most = wire::index(arguments.max_count.into()).min(env.room());
    most.checked_sub(RESULT).ok_or(Status::TOOSMALL)
}

/// The file system has answered.
pub(crate) fn resume(env: &mut Env<'_>, stage: DirectoryStage, input: Input) -> Result<Flow, Status> {
    match (stage, input) {
        (DirectoryStage::ReadingSpace(arguments), input) => match input.outcome()? {
            Outcome::Space(space) => read(env, arguments, Some(*space)),
            _ => Err(Status::SERVERFAULT),
        },
        // What does not fit is the protocol's own error here.
        (DirectoryStage::Reading { .. }, Input::File(Err(filesystem::FileErrorKind::Invalid))) => {
            Err(Status::TOOSMALL)
        }
        (DirectoryStage::Reading { arguments, space }, input) => match input.outcome()? {
            Outcome::Page(page) => list(env, &arguments, space, &page),
            _ => Err(Status::SERVERFAULT),
        },
        (DirectoryStage::ReadingRoots(mut pending), input) => match input.outcome()? {
            Outcome::Attributes(attributes) => {
                pending.known.push(*attributes);
                roots(env, pending)
            }
            _ => Err(Status::SERVERFAULT),
        },
    }
}

/// One entry of the answer.
struct Listed<'a> {
    cookie: u64,
    name: &'a [u8],
    object: Option<Object<'a>>,
}

/// Writes entries as long as they fit.
struct List {
    out: rpc::xdr::Writer,
    room: usize,
    begun: usize,
    entries: usize,
}

impl List {
    fn new(env: &mut Env<'_>, room: usize, verifier: [u8; 8]) -> Self {
        let mut out = core::mem::take(&mut env.context.out);
        out.put(&verifier);
        let begun = out.len();
        Self { out, room, begun, entries: 0 }
    }

    /// False if the entry does not fit.
    fn add(&mut self, env: &Env<'_>, bitmap: &Bitmap, entry: &Listed<'_>) -> bool {
        let mark = self.out.mark();
        self.out.put(&true);
        self.out.u64(entry.cookie);
        self.out.opaque(entry.name);
        if let Some(object) = entry.object {
            encode_object(env, &mut self.out, bitmap, object);
        } else {
            self.out.put(&Bitmap::default());
            self.out.u32(0);
        }
        let fits = self.out.len().saturating_sub(self.begun) <= self.room;
        if fits {
            self.entries = self.entries.saturating_add(1);
        } else {
            self.out.rewind(mark);
        }
        fits
    }

    fn finish(mut self, env: &mut Env<'_>, eof: bool) -> Result<Flow, Status> {
        self.out.put(&false);
        self.out.put(&eof);
        env.context.out = self.out;
        if self.entries == 0 && !eof { Err(Status::TOOSMALL) } else { Ok(Flow::Done) }
    }
}

fn list(
    env: &mut Env<'_>,
    arguments: &ReadDirectory,
    space: Option<Space>,
    page: &Page,
) -> Result<Flow, Status> {
    let export = env.file(Status::SERVERFAULT)?.export;
    let room = budget(env, arguments)?;
    let mut list = List::new(env, room, page.verifier.0);
    let wanted = !arguments.attributes.is_empty();
    let mut all = true;
    for Entry { cookie, name, object, .. } in &page.entries {
        if wanted && object.is_none() {
            // It was removed meanwhile.
            continue;
        }
        let object = object.as_ref().filter(|_| wanted).map(|object| Object {
            place: Place::File { export, handle: object.handle },
            attributes: &object.attributes,
            space,
        });
        let entry = Listed { cookie: cookie.0, name: name.as_bytes(), object };
        if !list.add(env, &arguments.attributes, &entry) {
            all = false;
            break;
        }
    }
    list.finish(env, page.eof && all)
}

/// Lists the pseudo file system, once the attributes of all roots in it are known.
fn roots(env: &mut Env<'_>, pending: Roots) -> Result<Flow, Status> {
    let visible = env.shared.exports.children(pending.node).filter(|child| env.is_visible(child.place));
    let children: Vec<(Vec<u8>, Place)> =
        visible.map(|Child { name, place }| (name.to_vec(), place)).collect();
    let mut files = children.iter().filter_map(|(_, place)| match place {
        Place::File { export, handle } => Some((*export, *handle)),
        Place::Pseudo(_) => None,
    });
    if !pending.arguments.attributes.is_empty()
        && let Some((export, handle)) = files.nth(pending.known.len())
    {
        let operation = Operation::GetAttributes { object: handle.into() };
        return env.ask(export, operation, Stage::Directory(DirectoryStage::ReadingRoots(pending)));
    }
    let room = budget(env, &pending.arguments)?;
    let mut list = List::new(env, room, [0; 8]);
    let (mut known, mut all) = (pending.known.into_iter(), true);
    for (number, (name, place)) in (FIRST..).zip(&children) {
        let attributes = match place {
            Place::Pseudo(node) => Some(env.shared.exports.attributes(*node)),
            Place::File { .. } => known.next(),
        };
        if number <= pending.arguments.cookie {
            continue;
        }
        let attributes = attributes.filter(|_| !pending.arguments.attributes.is_empty());
        let object = attributes.as_ref().map(|attributes| Object { place: *place, attributes, space: None });
        let entry = Listed { cookie: number, name, object };
        if !list.add(env, &pending.arguments.attributes, &entry) {
            all = false;
            break;
        }
    }
    list.finish(env, all)
}
