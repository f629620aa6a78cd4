//! Listings of directories in a served folder. They block.
//!
//! A cookie is the file system's own position after an entry, which stays valid while the directory changes, moved up by the cookies that are the server's.

use host::{Glance, NodeStat, NodeTime};

use super::error::kind_of;
use super::handles::Found;
use super::limits::ENTRIES;
use super::shared::{Node, Shared};
use filesystem::{
    Cookie, CookieVerifier, Credentials, ENTRY_BYTES, ENTRY_OBJECT_BYTES, Entry, EntryObject, FileErrorKind,
    FileHandle, Name, Outcome, Page, entry_bytes,
};

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
    let mut objects = if listing.with_objects { Objects::begin(shared, &directory) } else { Objects::None };
    let mut room = listing.max_bytes as usize;
    let object_bytes = if listing.with_objects { ENTRY_OBJECT_BYTES } else { 0 };
    let mut entries: Vec<Entry> = Vec::new();
    let mut eof = false;
    'pages: loop {
        // One more than there can be room for: whether it fits is seen by its name.
        let most = room / (ENTRY_BYTES + object_bytes) + 1;
        let found = shared.tree.list(&open, position, most.min(ENTRIES)).map_err(kind_of)?;
        let Some(last) = found.last() else {
            eof = true;
            break;
        };
        position = last.next;
        entries.reserve(found.len());
        for one in found {
            // What the system takes for a name and nobody could ask for is left out.
            let Ok(name) = Name::from_vec(one.name) else { continue };
            let bytes = entry_bytes(&name) + object_bytes;
            if bytes > room {
                break 'pages;
            }
            room -= bytes;
            let cookie = one.next.checked_add(Cookie::FIRST.0).ok_or(FileErrorKind::BadCookie)?;
            let mut entry = Entry { cookie: Cookie(cookie), fileid: one.inode, name, object: None };
            objects.add_to(&mut entry, shared, &directory);
            entries.push(entry);
        }
    }
    if !objects.hold(shared, &directory) {
        objects = Objects::Found;
        for entry in &mut entries {
            objects.add_to(entry, shared, &directory);
        }
    }
    if entries.is_empty() && !eof {
        return Err(FileErrorKind::Invalid);
    }
    let directory = Some(shared.attributes(&directory.stat));
    Ok(Outcome::Page(Box::new(Page { entries, verifier, eof, directory })))
}

/// How it is seen what entries lead to.
#[derive(Clone, Copy)]
enum Objects {
    /// Nobody asked.
    None,
    /// Each is opened, so that all that is told is of one object.
    Found,
    /// At a glance, without opening it, which costs a third less. That holds if the directory did not change since this time.
    Glanced(NodeTime),
}

impl Objects {
    /// Before the first entry is read: a glance, if it could be seen that it does not hold.
    fn begin(shared: &Shared, directory: &Node) -> Self {
        let stamp = shared.tree.stamp().filter(|_| shared.handles.are_of_kernel());
        stamp.filter(|stamp| unchanged_since(*stamp, &directory.stat)).map_or(Self::Found, Self::Glanced)
    }

    /// Says what an entry leads to, if it is still there and in this file system.
    fn add_to(self, entry: &mut Entry, shared: &Shared, directory: &Node) {
        entry.object = match self {
            Self::None => return,
            Self::Found => found(shared, directory, &entry.name),
            Self::Glanced(_) => glanced(shared, directory, &entry.name),
        };
        if let Some(object) = entry.object {
            entry.fileid = object.attributes.fileid;
        }
    }

    /// Whether what was said is true.
    fn hold(self, shared: &Shared, directory: &Node) -> bool {
        let Self::Glanced(stamp) = self else { return true };
        let is_forward = shared.tree.stamp().is_some_and(|now| now >= stamp);
        is_forward && shared.tree.stat(&directory.descriptor).is_ok_and(|now| unchanged_since(stamp, &now))
    }
}

/// Whether a directory's names are as they were before `stamp`. Times of a file system that cuts them off tell nothing.
fn unchanged_since(stamp: NodeTime, stat: &NodeStat) -> bool {
    stat.changed < stamp && !stat.changed.nanos.is_multiple_of(1000)
}

fn found(shared: &Shared, directory: &Node, name: &Name) -> Option<EntryObject> {
    let name = name.as_bytes();
    let descriptor = shared.tree.find(&directory.descriptor, name).ok()?;
    let place = Found { directory: &directory.stat, name };
    let found = shared.object(&shared.node(descriptor, Some(place)).ok()?);
    Some(EntryObject { handle: found.handle, attributes: found.attributes })
}

fn glanced(shared: &Shared, directory: &Node, name: &Name) -> Option<EntryObject> {
    let Glance { stat, handle } = shared.tree.glance(&directory.descriptor, name.as_bytes()).ok()?;
    shared.must_be_here(&stat).ok()?;
    Some(EntryObject { handle: shared.handles.of_kernel(&handle)?, attributes: shared.attributes(&stat) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fine_time_before_the_stamp_says_that_nothing_changed() {
        let at = |nanos| NodeTime { seconds: 5, nanos };
        let stat = |changed| NodeStat {
            kind: host::NodeKind::Directory,
            mode: 0o755,
            links: 2,
            uid: 0,
            gid: 0,
            size: 0,
            occupied: 0,
            inode: 1,
            device: host::DeviceNumber::default(),
            stands_for: host::DeviceNumber::default(),
            accessed: changed,
            modified: NodeTime::default(),
            changed,
            made: None,
        };
        for (changed, unchanged) in [
            (at(1001), true),
            (NodeTime { seconds: 4, nanos: 999_999_999 }, true),
            (at(2_000_001), false),
            (at(2_000_002), false),
            (NodeTime { seconds: 6, nanos: 1 }, false),
            // Of a file system whose times are seconds, or microseconds.
            (at(0), false),
            (at(7000), false),
        ] {
            assert_eq!(unchanged_since(at(2_000_001), &stat(changed)), unchanged, "{changed:?}");
        }
    }
}
