//! What is served: exports, the pseudo file system above them, and who may do what there (RFC 8881 §7.3, §2.6).

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use filesystem::{Attributes, Credentials, Features, FileHandle, FileType, Fsid, Limits, SpecData, Time};
use wire::Reader;

use crate::v4::Status;

/// Names a file system among those that are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileSystemId(pub u32);

/// Names a file among all that are served, whatever export it was reached by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey {
    /// Its file system.
    pub filesystem: FileSystemId,
    /// Its handle there.
    pub handle: FileHandle,
}

/// An object of an export.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileRef {
    pub(crate) export: usize,
    pub(crate) key: FileKey,
}

/// Whose requests are carried out in the anonymous user's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Squash {
    /// Nobody's.
    Nobody,
    /// Those of user 0; group 0 becomes the anonymous one.
    Root,
    /// Everybody's.
    All,
}

/// Whether an export can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// NFS4ERR_ROFS.
    Refused,
    /// As the file system says.
    Allowed,
}

/// What a client may do in an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Whether it may change anything.
    pub writes: Writes,
    /// Who is who.
    pub squash: Squash,
    /// The anonymous user.
    pub anonymous_uid: u32,
    /// The anonymous group.
    pub anonymous_gid: u32,
}

/// The user and group that nobody is: as Linux' server.
pub const ANONYMOUS: u32 = 65_534;

impl Grant {
    /// Root squash, the default of every server.
    pub fn new(writes: Writes) -> Self {
        Self { writes, squash: Squash::Root, anonymous_uid: ANONYMOUS, anonymous_gid: ANONYMOUS }
    }

    /// The credentials that a caller's requests carry here; nobody has come without any (AUTH_NONE).
    pub fn credentials(&self, caller: Option<&Arc<Credentials>>) -> Arc<Credentials> {
        let anonymous = || Arc::new(Credentials::of(self.anonymous_uid, self.anonymous_gid));
        let Some(caller) = caller else { return anonymous() };
        match self.squash {
            Squash::Nobody => Arc::clone(caller),
            Squash::All => anonymous(),
            Squash::Root if caller.is_root() => anonymous(),
            Squash::Root if !caller.is_in(0) => Arc::clone(caller),
            Squash::Root => {
                let group = |gid: u32| if gid == 0 { self.anonymous_gid } else { gid };
                let groups: Vec<u32> = caller.groups().iter().map(|gid| group(*gid)).collect();
                Credentials::new(caller.uid(), group(caller.gid()), &groups)
                    .map_or_else(|_| anonymous(), Arc::new)
            }
        }
    }
}

/// Clients by their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientRule {
    /// A network's address; `None` for everybody.
    pub network: Option<IpAddr>,
    /// How many of its bits count.
    pub prefix: u8,
    /// What such a client may do; nothing at all for `None`.
    pub grant: Option<Grant>,
}

impl ClientRule {
    /// A rule for everybody.
    pub fn everybody(grant: Grant) -> Self {
        Self { network: None, prefix: 0, grant: Some(grant) }
    }

    fn matches(&self, client: IpAddr) -> bool {
        match (self.network, client.to_canonical()) {
            (None, _) => true,
            (Some(IpAddr::V4(network)), IpAddr::V4(client)) => {
                same(&network.octets(), &client.octets(), self.prefix)
            }
            (Some(IpAddr::V6(network)), IpAddr::V6(client)) => {
                same(&network.octets(), &client.octets(), self.prefix)
            }
            _ => false,
        }
    }
}

/// True if the first `bits` bits are the same.
fn same(one: &[u8], other: &[u8], bits: u8) -> bool {
    let mut left = bits;
    one.iter().zip(other).all(|(one, other)| {
        let here = left.min(8);
        left = left.saturating_sub(here);
        (one ^ other).leading_zeros() >= here.into()
    })
}

/// One export.
#[derive(Debug, Clone)]
pub struct Export {
    /// Stands in its handles: the same at every start.
    pub id: u32,
    /// Where it is in the pseudo file system, component by component; none for the root itself.
    pub path: Vec<Vec<u8>>,
    /// What is there.
    pub filesystem: FileSystemId,
    /// The file system's root.
    pub root: FileHandle,
    /// Its limits.
    pub limits: Limits,
    /// What it can do.
    pub features: Features,
    /// Who may do what; the first that matches counts, and without one nothing is allowed.
    pub rules: Vec<ClientRule>,
}

/// Why exports cannot be served together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportError {
    /// Two have the same identifier, or two paths the same checksum.
    SameId,
    /// One lies within another, or at the same place.
    Nested,
    /// A path has a component that is no name.
    BadPath,
}

/// A directory of the pseudo file system.
#[derive(Debug, Clone, Default)]
struct Node {
    parent: usize,
    children: BTreeMap<Vec<u8>, usize>,
    export: Option<usize>,
    /// Stands in its handles: it follows from the path.
    id: u32,
}

/// An object that handles name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A directory of the pseudo file system.
    Pseudo(usize),
    /// An object of an export.
    File {
        /// Which export, by its position.
        export: usize,
        /// The object.
        handle: FileHandle,
    },
}

/// An entry of a directory of the pseudo file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// What it names.
    pub place: Place,
}

/// The root of the pseudo file system.
const ROOT: usize = 0;
/// The first byte of a handle.
const PSEUDO: u8 = 0;
const FILE: u8 = 1;

/// Everything that is served.
#[derive(Debug)]
pub struct Exports {
    served: Vec<Export>,
    nodes: Vec<Node>,
    since: Time,
}

impl Exports {
    /// These exports, with the directories that lead to them. `since` is the time of these directories.
    ///
    /// # Errors
    /// What does not go together.
    pub fn new(exports: Vec<Export>, since: Time) -> Result<Self, ExportError> {
        let mut all = Self { served: Vec::new(), nodes: alloc::vec![Node::default()], since };
        for export in exports {
            if all.served.iter().any(|known| known.id == export.id) {
                return Err(ExportError::SameId);
            }
            let node = all.place(&export.path)?;
            let position = all.served.len();
            let Some(node) = all.nodes.get_mut(node) else { return Err(ExportError::BadPath) };
            if node.export.is_some() || !node.children.is_empty() {
                return Err(ExportError::Nested);
            }
            node.export = Some(position);
            all.served.push(export);
        }
        Ok(all)
    }

    /// The same root with nothing in it.
    #[must_use]
    pub fn emptied(&self) -> Self {
        Self { served: Vec::new(), nodes: alloc::vec![Node::default()], since: self.since }
    }

    /// The node of a path, made if it is not there.
    fn place(&mut self, path: &[Vec<u8>]) -> Result<usize, ExportError> {
        let (mut at, mut sum) = (ROOT, 0_u32);
        for name in path {
            filesystem::Name::new(name).map_err(|_| ExportError::BadPath)?;
            let mut bytes = sum.to_be_bytes().to_vec();
            bytes.extend_from_slice(name);
            sum = wire::crc32c(&bytes);
            let fresh = self.nodes.len();
            let Some(node) = self.nodes.get_mut(at) else { return Err(ExportError::BadPath) };
            if node.export.is_some() {
                return Err(ExportError::Nested);
            }
            let child = *node.children.entry(name.clone()).or_insert(fresh);
            if child == fresh {
                if self.nodes.iter().any(|node| node.id == sum) {
                    return Err(ExportError::SameId);
                }
                self.nodes.push(Node { parent: at, id: sum, ..Node::default() });
            }
            at = child;
        }
        Ok(at)
    }

    /// What a client at this address may do in each export.
    pub fn grants(&self, client: IpAddr) -> Vec<Option<Grant>> {
        let first = |export: &Export| {
            export.rules.iter().find(|rule| rule.matches(client)).and_then(|rule| rule.grant)
        };
        self.served.iter().map(first).collect()
    }

    /// An export by its position.
    pub fn get(&self, position: usize) -> Option<&Export> {
        self.served.get(position)
    }

    /// Every export.
    pub fn iter(&self) -> impl Iterator<Item = &Export> {
        self.served.iter()
    }

    /// The root of everything.
    pub fn root(&self) -> Place {
        self.enter(ROOT)
    }

    /// The node, or what is exported there.
    fn enter(&self, node: usize) -> Place {
        let export = self.nodes.get(node).and_then(|node| node.export);
        let root = export.and_then(|export| Some(Place::File { export, handle: self.get(export)?.root }));
        root.unwrap_or(Place::Pseudo(node))
    }

    /// A name in a directory of the pseudo file system.
    pub fn lookup(&self, node: usize, name: &[u8]) -> Option<Place> {
        Some(self.enter(*self.nodes.get(node)?.children.get(name)?))
    }

    /// The entries of such a directory.
    pub fn children(&self, node: usize) -> impl Iterator<Item = Child<'_>> {
        let children = self.nodes.get(node).into_iter().flat_map(|node| &node.children);
        children.map(|(name, child)| Child { name, place: self.enter(*child) })
    }

    /// The parent of such a directory; none for the root.
    pub fn parent(&self, node: usize) -> Option<Place> {
        let parent = self.nodes.get(node).map(|node| Place::Pseudo(node.parent));
        parent.filter(|_| node != ROOT)
    }

    /// The node that an export is at.
    fn node_of(&self, export: usize) -> Option<usize> {
        self.nodes.iter().position(|node| node.export == Some(export))
    }

    /// The directory above an export's root; none at the root of everything.
    pub fn above(&self, export: usize) -> Option<Place> {
        self.parent(self.node_of(export)?)
    }

    /// The number of the directory that an object is mounted on; of most objects their own (`mounted_on_fileid`).
    pub fn mounted_on(&self, place: Place, fileid: u64) -> u64 {
        let Place::File { export, handle } = place else { return fileid };
        let root = self.get(export).is_some_and(|export| export.root == handle);
        let node = if root { self.node_of(export) } else { None };
        node.map_or(fileid, node_fileid)
    }

    /// The handle of an object, as it is on the wire.
    pub fn handle(&self, place: Place) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(1 + 4 + filesystem::FILE_HANDLE_BYTES);
        match place {
            Place::Pseudo(node) => {
                bytes.push(PSEUDO);
                bytes.extend_from_slice(&self.nodes.get(node).map_or(0, |node| node.id).to_be_bytes());
            }
            Place::File { export, handle } => {
                bytes.push(FILE);
                bytes.extend_from_slice(&self.get(export).map_or(0, |export| export.id).to_be_bytes());
                bytes.extend_from_slice(handle.as_bytes());
            }
        }
        bytes
    }

    /// The object that a handle names.
    ///
    /// # Errors
    /// BADHANDLE if it is none of this server, STALE if it is of an export or a directory that is not there any more.
    pub fn find(&self, handle: &[u8]) -> Result<Place, Status> {
        let mut reader = Reader::new(handle);
        let kind = reader.u8().map_err(|_| Status::BADHANDLE)?;
        let id = reader.u32_be().map_err(|_| Status::BADHANDLE)?;
        match kind {
            PSEUDO if reader.is_empty() => {
                let node = self.nodes.iter().position(|node| node.id == id && node.export.is_none());
                node.map(Place::Pseudo).ok_or(Status::STALE)
            }
            FILE => {
                let handle = FileHandle::new(reader.rest()).ok_or(Status::BADHANDLE)?;
                let export = self.served.iter().position(|export| export.id == id).ok_or(Status::STALE)?;
                Ok(Place::File { export, handle })
            }
            _ => Err(Status::BADHANDLE),
        }
    }

    /// The attributes of a directory of the pseudo file system.
    pub fn attributes(&self, node: usize) -> Attributes {
        let links = self.nodes.get(node).map_or(0, |node| node.children.len());
        Attributes {
            file_type: FileType::Directory,
            mode: 0o555,
            numlinks: wire::saturate(links.saturating_add(2)),
            owner: 0,
            owner_group: 0,
            size: 512,
            space_used: 0,
            rawdev: SpecData::default(),
            fsid: Fsid::default(),
            fileid: node_fileid(node),
            change: self.since.seconds.unsigned_abs(),
            time_access: self.since,
            time_modify: self.since,
            time_metadata: self.since,
            time_create: None,
        }
    }
}

fn node_fileid(node: usize) -> u64 {
    wire::widen(node).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn export(id: u32, path: &[&[u8]]) -> Export {
        let limits = Limits {
            depth: 1,
            max_read: 1,
            max_write: 1,
            max_name: 255,
            max_link_text: 1,
            max_links: 1,
            max_file_size: 1,
            time_delta: Time::default(),
        };
        Export {
            id,
            path: path.iter().map(|name| name.to_vec()).collect(),
            filesystem: FileSystemId(id),
            root: FileHandle::from([7; 16]),
            limits,
            features: Features::all(),
            rules: vec![ClientRule::everybody(Grant::new(Writes::Allowed))],
        }
    }

    #[test]
    fn paths_lead_to_exports_and_back() {
        let exports = vec![export(1, &[b"a", b"b"]), export(2, &[b"a", b"c"]), export(3, &[b"d"])];
        let exports = Exports::new(exports, Time::default()).unwrap();
        let Some(a @ Place::Pseudo(node)) = exports.lookup(ROOT, b"a") else { panic!() };
        let b = exports.lookup(node, b"b").unwrap();
        assert!(matches!(b, Place::File { export: 0, .. }));
        assert_eq!((exports.above(0), exports.parent(node)), (Some(a), Some(Place::Pseudo(ROOT))));
        assert_eq!((exports.parent(ROOT), exports.above(2)), (None, Some(exports.root())));
        assert_eq!(exports.children(ROOT).map(|child| child.name.to_vec()).collect::<Vec<_>>(), [b"a", b"d"]);
        for place in [exports.root(), a, b] {
            assert_eq!(exports.find(&exports.handle(place)), Ok(place));
        }
        assert_ne!(exports.mounted_on(b, 99), 99);
        let refused = [(&[][..], Status::BADHANDLE), (&[1, 0, 0, 0, 1], Status::BADHANDLE)];
        for (handle, status) in refused {
            assert_eq!(exports.find(handle), Err(status));
        }
        assert_eq!(exports.find(&[1, 0, 0, 0, 9, 1]), Err(Status::STALE));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let error = |exports: Vec<Export>| Exports::new(exports, Time::default()).unwrap_err();
        assert_eq!(error(vec![export(1, &[b"a"]), export(1, &[b"b"])]), ExportError::SameId);
        assert_eq!(error(vec![export(1, &[b"a"]), export(2, &[b"a", b"b"])]), ExportError::Nested);
        assert_eq!(error(vec![export(2, &[b"a", b"b"]), export(1, &[b"a"])]), ExportError::Nested);
        assert_eq!(error(vec![export(1, &[b".."])]), ExportError::BadPath);
        assert!(matches!(
            Exports::new(vec![export(1, &[])], Time::default()).unwrap().root(),
            Place::File { .. }
        ));
    }

    #[test]
    fn squashing() {
        let root = Arc::new(Credentials::new(0, 0, &[0, 5]).unwrap());
        let user = Arc::new(Credentials::new(7, 0, &[5, 0]).unwrap());
        let plain = Arc::new(Credentials::of(7, 8));
        let by = |squash| Grant { squash, ..Grant::new(Writes::Allowed) };
        let anonymous = Credentials::of(ANONYMOUS, ANONYMOUS);
        assert_eq!(*by(Squash::Root).credentials(Some(&root)), anonymous);
        assert_eq!(
            *by(Squash::Root).credentials(Some(&user)),
            Credentials::new(7, ANONYMOUS, &[5, ANONYMOUS]).unwrap()
        );
        assert_eq!(by(Squash::Root).credentials(Some(&plain)), plain);
        assert_eq!(by(Squash::Nobody).credentials(Some(&root)), root);
        assert_eq!(*by(Squash::All).credentials(Some(&plain)), anonymous);
        assert_eq!(*by(Squash::Nobody).credentials(None), anonymous);
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        let rule = |network: &str, prefix, grant| ClientRule { network: network.parse().ok(), prefix, grant };
        let read = Grant::new(Writes::Refused);
        let mut one = export(1, &[b"a"]);
        one.rules = vec![
            rule("10.1.2.0", 24, None),
            rule("10.0.0.0", 15, Some(read)),
            rule("fe80::", 10, Some(read)),
        ];
        let exports = Exports::new(vec![one], Time::default()).unwrap();
        let grant = |client: &str| exports.grants(client.parse().unwrap())[0];
        assert_eq!((grant("10.1.2.9"), grant("10.0.255.1"), grant("10.2.0.1")), (None, Some(read), None));
        assert_eq!(
            (grant("::ffff:10.1.3.1"), grant("fe80::1"), grant("::1")),
            (Some(read), Some(read), None)
        );
    }
}
