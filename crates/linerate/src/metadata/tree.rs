//! The tree of directories and files of a load of names: what each phase does with which of them.

use std::ops::Range;

use nfs::client::names::{Listed, NameOperation, NamesOutcome, ObjectHandle};

use super::plan::{MetadataPlan, NamesError};

/// `nfs_ftype4` of a file.
const REGULAR: u32 = 1;

/// A phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    MakeDirectories,
    MakeFiles,
    Stat,
    List,
    RemoveFiles,
    RemoveDirectories,
}

impl Phase {
    pub(super) const ALL: [Self; 6] = [
        Self::MakeDirectories,
        Self::MakeFiles,
        Self::Stat,
        Self::List,
        Self::RemoveFiles,
        Self::RemoveDirectories,
    ];

    /// Its name, as mdtest has it where it has one.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::MakeDirectories => "directory creation",
            Self::MakeFiles => "file creation",
            Self::Stat => "file stat",
            Self::List => "directory listing",
            Self::RemoveFiles => "file removal",
            Self::RemoveDirectories => "directory removal",
        }
    }

    /// Whether it takes away what was made.
    pub(super) const fn removes(self) -> bool {
        matches!(self, Self::RemoveFiles | Self::RemoveDirectories)
    }
}

/// A directory of the tree.
#[derive(Debug)]
struct Directory {
    /// Its parent's place; the first is in the directory of the URL.
    parent: Option<usize>,
    name: String,
    /// Once it is made.
    handle: Option<ObjectHandle>,
    /// Directories in it.
    children: u64,
    /// Names that a listing has told so far.
    listed: u64,
    /// Files in it that were made.
    files: u64,
}

/// The tree.
#[derive(Debug)]
pub(super) struct Tree {
    base: ObjectHandle,
    /// Level by level.
    directories: Vec<Directory>,
    /// Where each level begins, and where the last ends.
    levels: Vec<usize>,
    files: usize,
    /// Whether files were made: nothing else can be removed.
    made_files: bool,
}

impl Tree {
    /// The tree of a plan whose directories were counted, whose first one has this name in `base`.
    pub(super) fn new(plan: &MetadataPlan, root: String, base: ObjectHandle, count: usize) -> Self {
        let make = |parent, name| Directory { parent, name, handle: None, children: 0, listed: 0, files: 0 };
        let mut directories = Vec::with_capacity(count);
        directories.push(make(None, root));
        let mut levels = vec![0, 1];
        for _ in 0..plan.depth.min(::wire::bounded(count)) {
            let (from, to) = (levels[levels.len() - 2], levels[levels.len() - 1]);
            for parent in from..to {
                directories[parent].children = plan.branch.into();
                directories
                    .extend((0..plan.branch).map(|number| make(Some(parent), format!("dir.{number}"))));
            }
            levels.push(directories.len());
        }
        let files = ::wire::index(plan.files.into());
        Self { base, directories, levels, files, made_files: false }
    }

    /// The items of a phase, in ranges that must follow one another: directories before what is in them, and the other way round when they go.
    pub(super) fn steps(&self, phase: Phase) -> Vec<Range<usize>> {
        let all = self.directories.len();
        let levels = || self.levels.windows(2).map(|ends| ends[0]..ends[1]);
        match phase {
            Phase::MakeDirectories => levels().collect(),
            Phase::RemoveDirectories => levels().rev().filter(|range| self.is_made(range)).collect(),
            Phase::List => std::iter::once(0..all).collect(),
            Phase::RemoveFiles if !self.made_files => Vec::new(),
            Phase::MakeFiles | Phase::Stat | Phase::RemoveFiles => {
                std::iter::once(0..all.saturating_mul(self.files)).collect()
            }
        }
    }

    fn is_made(&self, range: &Range<usize>) -> bool {
        self.directories[range.clone()].iter().all(|directory| directory.handle.is_some())
    }

    /// The directory and the number of a file.
    fn file(&self, item: usize) -> (usize, String) {
        (item / self.files, format!("file.{}", item % self.files))
    }

    /// The name of an item, from the first directory on.
    pub(super) fn name(&self, phase: Phase, item: usize) -> String {
        match phase {
            Phase::MakeFiles | Phase::Stat | Phase::RemoveFiles => {
                let (directory, name) = self.file(item);
                format!("{}/{name}", self.path(directory))
            }
            Phase::MakeDirectories | Phase::List | Phase::RemoveDirectories => self.path(item),
        }
    }

    fn path(&self, place: usize) -> String {
        let directory = &self.directories[place];
        directory.parent.map_or_else(
            || directory.name.clone(),
            |parent| format!("{}/{}", self.path(parent), directory.name),
        )
    }

    fn wrong(&self, phase: Phase, item: usize, what: impl Into<String>) -> NamesError {
        NamesError::Wrong { phase: phase.name(), name: self.name(phase, item), what: what.into() }
    }

    /// The handle of a directory that was made; of none, where the first one is.
    fn handle(&self, place: Option<usize>) -> Option<ObjectHandle> {
        place.map_or_else(|| Some(self.base.clone()), |place| self.directories[place].handle.clone())
    }

    /// What an item begins with.
    pub(super) fn begin(&self, phase: Phase, item: usize) -> Result<NameOperation, NamesError> {
        let absent = || self.wrong(phase, item, "its directory was not made");
        Ok(match phase {
            Phase::MakeDirectories | Phase::RemoveDirectories => {
                let directory = &self.directories[item];
                let parent = self.handle(directory.parent).ok_or_else(absent)?;
                let name = directory.name.clone().into_bytes();
                if phase.removes() {
                    NameOperation::Remove { parent, name }
                } else {
                    NameOperation::MakeDirectory { parent, name }
                }
            }
            Phase::List => {
                NameOperation::List { directory: self.handle(Some(item)).ok_or_else(absent)?, from: None }
            }
            Phase::MakeFiles | Phase::Stat | Phase::RemoveFiles => {
                let (directory, name) = self.file(item);
                let (parent, name) = (self.handle(Some(directory)).ok_or_else(absent)?, name.into_bytes());
                match phase {
                    Phase::MakeFiles => NameOperation::Create { parent, name },
                    Phase::Stat => NameOperation::Look { parent, name },
                    _ => NameOperation::Remove { parent, name },
                }
            }
        })
    }

    /// Takes an answer: what follows for the same item, and what was done by it.
    pub(super) fn answered(
        &mut self,
        phase: Phase,
        item: usize,
        outcome: NamesOutcome,
    ) -> Result<(Option<NameOperation>, u64), NamesError> {
        match (phase, outcome) {
            (Phase::MakeDirectories, NamesOutcome::Directory(handle)) => {
                self.directories[item].handle = Some(handle);
                Ok((None, 1))
            }
            (Phase::MakeFiles, NamesOutcome::Open(open)) => {
                self.made_files = true;
                let (directory, _) = self.file(item);
                self.directories[directory].files += 1;
                Ok((Some(NameOperation::Close(open)), 0))
            }
            (Phase::Stat, NamesOutcome::Seen(seen)) if seen.kind == Some(REGULAR) && seen.size == Some(0) => {
                Ok((None, 1))
            }
            (Phase::Stat, NamesOutcome::Seen(seen)) => {
                Err(self.wrong(phase, item, format!("an empty file was made, and is {seen:?}")))
            }
            (Phase::List, NamesOutcome::Listed(listed)) => self.listed(item, listed),
            (Phase::MakeFiles | Phase::RemoveFiles | Phase::RemoveDirectories, NamesOutcome::Done) => {
                Ok((None, 1))
            }
            (_, other) => Err(self.wrong(phase, item, format!("the answer is of something else: {other:?}"))),
        }
    }

    fn listed(&mut self, item: usize, listed: Listed) -> Result<(Option<NameOperation>, u64), NamesError> {
        let directory = &mut self.directories[item];
        directory.listed += u64::from(listed.entries);
        let (names, made) = (directory.listed, directory.children + directory.files);
        if listed.at_end && names != made {
            return Err(self.wrong(Phase::List, item, format!("it has {made} names, and lists {names}")));
        }
        if !listed.at_end && listed.entries == 0 {
            return Err(self.wrong(Phase::List, item, "an answer has no names, and is not the last"));
        }
        let more =
            || self.handle(Some(item)).map(|directory| NameOperation::List { directory, from: Some(listed) });
        Ok((if listed.at_end { None } else { more() }, listed.entries.into()))
    }
}
