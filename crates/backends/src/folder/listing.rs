//! Listings of directories in a served folder. They block.
//!
//! A cookie is the file system's own position after an entry, which stays valid while the directory changes, moved up by the cookies that are the server's.

use filesystem::{
    Cookie, CookieVerifier, Credentials, ENTRY_OBJECT_BYTES, Entry, EntryObject, FileErrorKind, FileHandle,
    Name, Outcome, Page, entry_bytes,
};
use host::NodeEntry;

use super::error::kind_of;
use super::handles::Found;
use super::limits::ENTRIES;
use super::shared::{Node, Shared};

/// Where a listing begins, and how far it goes.
#[derive(Clone, Copy)]
pub(super) struct Listing {
    pub(super) cookie: Cookie,
    pub(super) verifier: CookieVerifier,
    pub(super) max_bytes: u32,
    pub(super) with_objects: bool,
}

/// What cookies of a directory are valid with. They stay so over restarts.
fn verifier_of(shared: &Shared, directory: &FileHandle) -> CookieVerifier {
    let code = shared.handles.code(&[b"cookies of ", directory.as_bytes()].concat());
    CookieVerifier(*code.first_chunk().unwrap_or(&[1; 8]))
}

/// Lists a part of a directory.
pub(super) fn read_directory(
    shared: &Shared,
    caller: &Credentials,
    directory: &FileHandle,
    listing: Listing,
) -> Result<Outcome, FileErrorKind> {
    let directory = shared.directory(directory)?;
    let verifier = verifier_of(shared, &directory.handle);
    let mut position = match listing.cookie {
        Cookie::START => 0,
        cookie if listing.verifier == verifier => {
            cookie.0.checked_sub(Cookie::FIRST.0).ok_or(FileErrorKind::BadCookie)?
        }
        _ => return Err(FileErrorKind::BadCookie),
    };
    let open = shared.try_as_caller(caller, |tree| tree.open_directory(&directory.descriptor))?;
    let mut room = listing.max_bytes as usize;
    let mut entries: Vec<Entry> = Vec::new();
    let mut eof = false;
    'pages: loop {
        let found = shared.tree.list(&open, position, ENTRIES).map_err(kind_of)?;
        let Some(last) = found.last() else {
            eof = true;
            break;
        };
        position = last.next;
        for one in found {
            // What the system takes for a name and nobody could ask for is left out.
            let Ok(name) = Name::new(&one.name) else { continue };
            let bytes = entry_bytes(&name) + if listing.with_objects { ENTRY_OBJECT_BYTES } else { 0 };
            if bytes > room {
                break 'pages;
            }
            room -= bytes;
            entries.push(entry(shared, &directory, &one, name, listing.with_objects)?);
        }
    }
    if entries.is_empty() && !eof {
        return Err(FileErrorKind::Invalid);
    }
    let directory = Some(shared.attributes(&directory.stat));
    Ok(Outcome::Page(Box::new(Page { entries, verifier, eof, directory })))
}

fn entry(
    shared: &Shared,
    directory: &Node,
    found: &NodeEntry,
    name: Name,
    with_object: bool,
) -> Result<Entry, FileErrorKind> {
    let object = if with_object { object(shared, directory, &found.name) } else { None };
    let cookie = found.next.checked_add(Cookie::FIRST.0).ok_or(FileErrorKind::BadCookie)?;
    let fileid = object.map_or(found.inode, |object| object.attributes.fileid);
    Ok(Entry { cookie: Cookie(cookie), fileid, name, object })
}

/// What an entry leads to, if it is still there and in this file system.
fn object(shared: &Shared, directory: &Node, name: &[u8]) -> Option<EntryObject> {
    let descriptor = shared.tree.find(&directory.descriptor, name).ok()?;
    let place = Found { directory: &directory.stat, name };
    let found = shared.object(&shared.node(descriptor, Some(place)).ok()?);
    Some(EntryObject { handle: found.handle, attributes: found.attributes })
}
