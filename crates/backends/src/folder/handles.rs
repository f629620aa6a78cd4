//! Which handle an object has, and which object a handle is of: by the kernel's handles, or by the table of places.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use filesystem::{FileErrorKind, FileHandle};
use host::{KernelHandle, NodeStat, Tree};

use super::error::kind_of;
use super::handle::Sealer;
use super::table::{ObjectIdentity, Table};

/// A name in a directory, under which an object was found.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) directory: &'a NodeStat,
    pub(super) name: &'a [u8],
}

/// The kind of handles of the table; the kernel's kinds are not negative.
const OF_TABLE: i32 = -1;

/// Makes handles, and finds their objects.
pub(super) struct Handles {
    tree: Arc<dyn Tree>,
    sealer: Sealer,
    /// `None` where the kernel's handles may be opened.
    table: Option<Table>,
}

impl Handles {
    pub(super) const fn new(tree: Arc<dyn Tree>, sealer: Sealer, table: Option<Table>) -> Self {
        Self { tree, sealer, table }
    }

    /// A code that only this server makes of these bytes.
    pub(super) fn code(&self, bytes: &[u8]) -> [u8; 16] {
        self.sealer.code(bytes)
    }

    /// The handle of an object, which was found under a name, or is known by another way.
    pub(super) fn of(
        &self,
        node: &OwnedFd,
        stat: &NodeStat,
        found: Option<Found<'_>>,
    ) -> Result<FileHandle, FileErrorKind> {
        let Some(table) = &self.table else {
            return self.sealer.seal(&self.tree.kernel_handle(node).map_err(kind_of)?);
        };
        if let Some(Found { directory, name }) = found {
            table.seen(stat, directory, name)?;
        }
        let object = ObjectIdentity::of(stat);
        if !table.knows(&object) {
            return Err(FileErrorKind::Stale);
        }
        self.sealer.seal(&KernelHandle { kind: OF_TABLE, bytes: object.bytes().to_vec() })
    }

    /// The handle of an object that the kernel calls so; nothing where handles are of the table.
    pub(super) fn of_kernel(&self, kernel: &KernelHandle) -> Option<FileHandle> {
        if self.table.is_some() { None } else { self.sealer.seal(kernel).ok() }
    }

    /// True if handles are the kernel's.
    pub(super) fn are_of_kernel(&self) -> bool {
        self.table.is_none()
    }

    /// Says whether a handle was given out.
    pub(super) fn check(&self, handle: &FileHandle) -> Result<(), FileErrorKind> {
        self.sealer.unseal(handle).map(drop)
    }

    /// The object of a handle that was given out, if it is where it was.
    pub(super) fn find(&self, handle: &FileHandle) -> Result<OwnedFd, FileErrorKind> {
        let kernel = self.sealer.unseal(handle)?;
        let Some(table) = &self.table else {
            return self.tree.open_kernel_handle(&kernel).map_err(kind_of);
        };
        let object = ObjectIdentity::parse(&kernel.bytes).filter(|_| kernel.kind == OF_TABLE);
        // A handle of the kernel's, of a time when the server had the right to open those.
        let object = object.ok_or(FileErrorKind::Stale)?;
        let found = table.paths(&object).into_iter().find_map(|path| self.walk(&path, &object));
        found.ok_or(FileErrorKind::Stale)
    }

    /// What is at the end of a path, if it is that object.
    fn walk(&self, path: &[Vec<u8>], object: &ObjectIdentity) -> Option<OwnedFd> {
        let (root, mut at) = (self.tree.root(), None);
        for name in path {
            at = Some(self.tree.find(at.as_ref().unwrap_or(&root), name).ok()?);
        }
        let node = at?;
        let stat = self.tree.stat(&node).ok()?;
        (ObjectIdentity::of(&stat) == *object).then_some(node)
    }

    /// An object has another name now.
    pub(super) fn moved(&self, stat: &NodeStat, found: Found<'_>) -> Result<(), FileErrorKind> {
        self.table.as_ref().map_or(Ok(()), |table| table.seen(stat, found.directory, found.name))
    }

    /// An object has no name any more.
    pub(super) fn gone(&self, stat: &NodeStat) {
        if let Some(table) = &self.table {
            table.gone(stat);
        }
    }

    /// Makes durable what handles need that are about to be given out.
    pub(super) fn settle(&self) -> Result<(), host::StateError> {
        self.table.as_ref().map_or(Ok(()), Table::settle)
    }
}
