//! READDIR and READDIRPLUS (RFC 1813 §3.3.16, §3.3.17). Version 3 lists `.` and `..`, whose cookies are those that file systems leave free.

use filesystem::{
    Attributes, Cookie, CookieVerifier, Entry, FileHandle, Operation, Outcome, Page, entry_bytes,
};
use rpc::xdr::Writer;

use super::super::context::Input;
use super::env::{Env, Flow, Located, Stage, outcome};
use super::listed::{Listing, PARENT, SELF};
use crate::v3::Status;
use crate::v3::attributes::put_post;
use crate::v3::procedure::{Entries, List};

/// READDIR, READDIRPLUS.
pub(super) fn begin(env: &mut Env<'_>, list: List) -> Result<Flow, Status> {
    let located = env.subject(&list.directory)?;
    let at_top = env.export(located.export)?.root == located.handle();
    let listing = Listing { list, parent: None, at_top };
    listing.room()?;
    if listing.has_dots() && !at_top {
        let operation = Operation::LookupParent { directory: located.handle() };
        return env.ask(operation, Stage::LookingForParent(listing));
    }
    read(env, located, listing)
}

/// The directory above is known, or cannot be: then its number is left out.
pub(super) fn parent(env: &mut Env<'_>, mut listing: Listing, input: Input) -> Result<Flow, Status> {
    match outcome(input) {
        Ok(Outcome::Found(object)) => listing.parent = Some(object),
        Ok(_) => return Err(Status::SERVERFAULT),
        // Whoever may read a directory, and not search it, may list it.
        Err(Status::ACCES | Status::NOENT) => {}
        Err(status) => return Err(status),
    }
    let located = env.known_subject()?;
    read(env, located, listing)
}

fn read(env: &Env<'_>, located: Located, listing: Listing) -> Result<Flow, Status> {
    let begins = listing.list.cookie <= PARENT;
    let operation = Operation::ReadDirectory {
        directory: located.handle(),
        cookie: if begins { Cookie::START } else { Cookie(listing.list.cookie) },
        verifier: if begins { CookieVerifier::default() } else { CookieVerifier(listing.list.verifier) },
        max_bytes: wire::saturate(listing.room()?),
        with_objects: listing.with_objects(),
    };
    env.ask(operation, Stage::Listing(listing))
}

/// Writes what READDIRPLUS tells of what an entry leads to; what was removed meanwhile has neither, and a handle that is too long is not told.
fn put_object(env: &mut Env<'_>, export: usize, object: Option<(FileHandle, &Attributes)>) {
    put_post(env.out, object.map(|(_, attributes)| attributes));
    let handle = object.and_then(|(handle, _)| env.wire_handle(export, handle));
    env.out.put(&handle.is_some());
    if let Some(handle) = handle {
        env.out.opaque(&handle);
    }
}

/// Writes what READDIR tells of an entry.
fn put_entry(out: &mut Writer, fileid: u64, name: &[u8], cookie: u64) {
    out.put(&true);
    out.u64(fileid);
    out.opaque(name);
    out.u64(cookie);
}

/// The file system has listed.
pub(super) fn finish(env: &mut Env<'_>, listing: &Listing, page: &Page) -> Result<Flow, Status> {
    let (list, plus) = (&listing.list, listing.with_objects());
    if matches!(list.cookie, SELF | PARENT) && page.verifier.0 != list.verifier {
        return Err(Status::BAD_COOKIE);
    }
    let located = env.known_subject()?;
    let export = located.export;
    env.out.u32(Status::OK.0);
    put_post(env.out, page.directory.as_ref());
    env.out.put(&page.verifier.0);
    let begun = env.out.len();
    let own = page.directory.as_ref().map(|attributes| (located.handle(), attributes));
    let above = listing.parent.as_deref().map(|object| (object.handle, &object.attributes));
    let above = if listing.at_top { own } else { above };
    let number = own.map_or(0, |(_, attributes)| attributes.fileid);
    let dots = [(b".".as_slice(), own, SELF), (b"..", above, PARENT)];
    for (name, object, cookie) in dots.into_iter().filter(|(_, _, cookie)| *cookie > list.cookie) {
        put_entry(env.out, object.map_or(number, |(_, attributes)| attributes.fileid), name, cookie);
        if plus {
            put_object(env, export, object);
        }
    }
    let room = listing.room()?.saturating_add(env.out.len().saturating_sub(begun));
    let mut names = match list.entries {
        Entries::Names => usize::MAX,
        Entries::Objects { names } => wire::index(names.into()),
    };
    let mut told = 0_usize;
    for Entry { cookie, fileid, name, object } in &page.entries {
        let mark = env.out.mark();
        put_entry(env.out, *fileid, name.as_bytes(), cookie.0);
        if plus {
            put_object(env, export, object.as_ref().map(|object| (object.handle, &object.attributes)));
        }
        // One entry is told in any case that fits into the whole, so that the listing goes on.
        let bytes = entry_bytes(name);
        if env.out.len().saturating_sub(begun) > room || (told > 0 && bytes > names) {
            env.out.rewind(mark);
            break;
        }
        names = names.saturating_sub(bytes);
        told = told.saturating_add(1);
    }
    let eof = page.eof && told == page.entries.len();
    env.out.put(&false);
    env.out.put(&eof);
    if told == 0 && !eof { Err(Status::TOOSMALL) } else { Ok(Flow::Done) }
}
