//! One object of the file system in memory.

use std::collections::BTreeMap;

use super::content::Content;
use crate::limits::NAME_ENTRY_BYTES;
use crate::{Attributes, Cookie, ExclusiveVerifier, FileErrorKind, FileType, Fsid, Name, SpecData, Time};

/// A name in a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) cookie: u64,
    pub(super) fileid: u64,
}

/// A directory's names, in the order in which they came: a cookie is never another's.
#[derive(Debug)]
pub(super) struct Directory {
    /// Where it is; itself for the root.
    pub(super) parent: u64,
    names: BTreeMap<Name, Entry>,
    order: BTreeMap<u64, Name>,
    next_cookie: u64,
    directories: u32,
    bytes: u64,
}

impl Directory {
    /// Without names.
    pub(super) const fn new(parent: u64) -> Self {
        let next_cookie = Cookie::FIRST.0;
        Self { parent, names: BTreeMap::new(), order: BTreeMap::new(), next_cookie, directories: 0, bytes: 0 }
    }

    /// What a name leads to.
    pub(super) fn get(&self, name: &Name) -> Option<u64> {
        self.names.get(name).map(|entry| entry.fileid)
    }

    /// What a name takes.
    pub(super) fn cost(name: &Name) -> u64 {
        NAME_ENTRY_BYTES + 2 * name.as_bytes().len() as u64
    }

    /// Adds a name that is not there.
    pub(super) fn insert(&mut self, name: &Name, fileid: u64, is_directory: bool) {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.names.insert(name.clone(), Entry { cookie, fileid });
        self.order.insert(cookie, name.clone());
        self.directories += u32::from(is_directory);
        self.bytes += Self::cost(name);
    }

    /// Removes a name.
    pub(super) fn remove(&mut self, name: &Name, is_directory: bool) {
        if let Some(entry) = self.names.remove(name) {
            self.order.remove(&entry.cookie);
            self.directories = self.directories.saturating_sub(u32::from(is_directory));
            self.bytes = self.bytes.saturating_sub(Self::cost(name));
        }
    }

    /// True without names.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The entries after a cookie.
    pub(super) fn after(&self, cookie: Cookie) -> impl Iterator<Item = (&Name, Entry)> {
        let later = self.order.range(cookie.0.saturating_add(1)..);
        later.filter_map(|(_, name)| self.names.get(name).map(|entry| (name, *entry)))
    }

    /// True for a place that a listing could have come to.
    pub(super) const fn knows(&self, cookie: Cookie) -> bool {
        cookie.0 < self.next_cookie
    }
}

/// What an object consists of.
#[derive(Debug)]
pub(super) enum Node {
    File(Content),
    Directory(Directory),
    SymbolicLink(Vec<u8>),
    Device(FileType, SpecData),
    Socket,
    Fifo,
}

/// An object.
#[derive(Debug)]
pub(super) struct Inode {
    /// What its handle has beside its number, so that nobody guesses one.
    pub(super) secret: u64,
    pub(super) node: Node,
    pub(super) mode: u32,
    pub(super) owner: u32,
    pub(super) owner_group: u32,
    /// Names that lead to it, a directory's own not counted.
    pub(super) links: u32,
    /// How often it is open.
    pub(super) opens: u32,
    pub(super) change: u64,
    pub(super) time_access: Time,
    pub(super) time_modify: Time,
    pub(super) time_metadata: Time,
    pub(super) time_create: Time,
    /// What it was created by, until its attributes are set.
    pub(super) verifier: Option<ExclusiveVerifier>,
}

impl Inode {
    /// What it is.
    pub(super) const fn file_type(&self) -> FileType {
        match &self.node {
            Node::File(_) => FileType::Regular,
            Node::Directory(_) => FileType::Directory,
            Node::SymbolicLink(_) => FileType::SymbolicLink,
            Node::Device(file_type, _) => *file_type,
            Node::Socket => FileType::Socket,
            Node::Fifo => FileType::Fifo,
        }
    }

    /// True for a directory.
    pub(super) const fn is_directory(&self) -> bool {
        matches!(self.node, Node::Directory(_))
    }

    /// Its names, if it is a directory.
    pub(super) const fn directory(&self) -> Result<&Directory, FileErrorKind> {
        match &self.node {
            Node::Directory(directory) => Ok(directory),
            _ => Err(FileErrorKind::NotDirectory),
        }
    }

    /// Its names, to change them.
    pub(super) const fn directory_mut(&mut self) -> Result<&mut Directory, FileErrorKind> {
        match &mut self.node {
            Node::Directory(directory) => Ok(directory),
            _ => Err(FileErrorKind::NotDirectory),
        }
    }

    /// Its content, if it is a regular file.
    pub(super) const fn content(&self) -> Result<&Content, FileErrorKind> {
        match &self.node {
            Node::File(content) => Ok(content),
            other => Err(no_file(other)),
        }
    }

    /// Its content, to change it.
    pub(super) const fn content_mut(&mut self) -> Result<&mut Content, FileErrorKind> {
        match &mut self.node {
            Node::File(content) => Ok(content),
            other => Err(no_file(other)),
        }
    }

    /// Bytes of memory that it takes beside its record.
    pub(super) fn held(&self) -> u64 {
        match &self.node {
            Node::File(content) => content.held(),
            Node::Directory(directory) => directory.bytes,
            Node::SymbolicLink(target) => target.len() as u64,
            Node::Device(..) | Node::Socket | Node::Fifo => 0,
        }
    }

    /// Its attributes.
    pub(super) fn attributes(&self, fileid: u64, fsid: Fsid) -> Attributes {
        let (size, space_used) = match &self.node {
            Node::File(content) => (content.size(), content.mapped()),
            Node::Directory(directory) => (directory.bytes, directory.bytes),
            Node::SymbolicLink(target) => (target.len() as u64, 0),
            Node::Device(..) | Node::Socket | Node::Fifo => (0, 0),
        };
        let numlinks = match &self.node {
            Node::Directory(directory) if self.links > 0 => 2 + directory.directories,
            _ => self.links,
        };
        let rawdev = if let Node::Device(_, device) = &self.node { *device } else { SpecData::default() };
        Attributes {
            file_type: self.file_type(),
            mode: self.mode,
            numlinks,
            owner: self.owner,
            owner_group: self.owner_group,
            size,
            space_used,
            rawdev,
            fsid,
            fileid,
            change: self.change,
            time_access: self.time_access,
            time_modify: self.time_modify,
            time_metadata: self.time_metadata,
            time_create: Some(self.time_create),
        }
    }

    /// Its data or entries have changed.
    pub(super) fn modified(&mut self, now: Time) {
        self.time_modify = now;
        self.altered(now);
    }

    /// Its attributes have changed.
    pub(super) fn altered(&mut self, now: Time) {
        self.time_metadata = now;
        self.change += 1;
    }
}

const fn no_file(node: &Node) -> FileErrorKind {
    match node {
        Node::Directory(_) => FileErrorKind::IsDirectory,
        Node::SymbolicLink(_) => FileErrorKind::SymbolicLink,
        _ => FileErrorKind::WrongType,
    }
}
