//! A folder on a file system that may crash.
//!
//! # Fault model
//! * A file that was written and not synced holds after a crash what it held when it was last synced, or any beginning of what was written, or as
//!   many zeros.
//! * A name that was given, replaced or removed and not synced (the folder that holds it) has after a crash its old meaning or its new one, each name
//!   by itself: file systems promise no order. A rename is one step: its two names change together, or neither does.
//! * By [`FolderOptions::errors`] an operation fails with `EIO` and does nothing, but a write may have written a part, and a rename or removal may have
//!   happened.
//! * [`CrashFolder::end_after`] ends the process in the midst of whatever it does: each further operation fails.
//!
//! Paths have one folder at most. Clones are handles to the same folder.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use host::{Folder, IoError};

use crate::dice::{Dice, Odds};
use crate::lock;

/// `EIO`, `ENOENT`, `EAGAIN`.
const IO_ERROR: IoError = IoError(5);
const NO_ENTRY: IoError = IoError(2);
const LOCKED: IoError = IoError(11);

/// What a store must not forget; the checker must find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlantedBug {
    /// Nothing.
    #[default]
    None,
    /// To sync a file before it is renamed.
    Files,
    /// To sync the folder of a volume.
    Folders,
    /// To sync the folder that volumes' folders are in.
    Root,
}

/// What a file system is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FolderOptions {
    /// How often an operation fails.
    pub errors: Odds,
    /// Which syncs do nothing.
    pub bug: PlantedBug,
}

#[derive(Debug, Clone, Default)]
struct File {
    bytes: Vec<u8>,
    synced: Vec<u8>,
}

/// A name, and what it means: a file by its number, a folder (`None`), or nothing any more.
#[derive(Debug, Clone)]
struct Change(Vec<(String, Option<Node>)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Folder,
    File(usize),
}

struct State {
    options: FolderOptions,
    files: Vec<File>,
    names: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    /// Changes of names that are not durable, in their order.
    pending: Vec<Change>,
    locks: Vec<String>,
    /// Operations until the process ends.
    left: Option<u64>,
    /// How often the power went: locks of before are nobody's.
    crashes: u64,
    dice: Dice,
}

/// The folder.
#[derive(Clone)]
pub struct CrashFolder(Arc<Mutex<State>>);

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

impl CrashFolder {
    /// An empty folder.
    pub fn new(options: FolderOptions, dice: Dice) -> Self {
        Self(Arc::new(Mutex::new(State {
            options,
            files: Vec::new(),
            names: BTreeMap::new(),
            durable: BTreeMap::new(),
            pending: Vec::new(),
            locks: Vec::new(),
            left: None,
            crashes: 0,
            dice,
        })))
    }

    /// Ends the process after so many operations more.
    pub fn end_after(&self, operations: u64) {
        lock(&self.0).left = Some(operations);
    }

    /// Another process begins: what the last one wrote is there, durable or not.
    pub fn begin(&self) {
        let mut state = lock(&self.0);
        state.left = None;
        state.locks.clear();
        state.crashes += 1;
    }

    /// Cuts the power, and begins again.
    pub fn crash(&self) {
        let mut state = lock(&self.0);
        let State { files, names, durable, pending, dice, .. } = &mut *state;
        for change in pending.drain(..) {
            if dice.coin() {
                change.apply(durable);
            }
        }
        // What is in a folder that is gone cannot be reached.
        durable.retain({
            let known = durable.clone();
            move |path, _| parent(path).is_empty() || known.contains_key(parent(path))
        });
        names.clone_from(durable);
        for file in files {
            file.crash(dice);
        }
        drop(state);
        self.begin();
    }
}

impl File {
    fn crash(&mut self, dice: &mut Dice) {
        if self.bytes == self.synced {
            return;
        }
        let kept = dice.index(self.bytes.len() + 1);
        self.bytes = match dice.index(4) {
            0 => self.synced.clone(),
            1 => vec![0; self.bytes.len()],
            2 => self.bytes[..kept].to_vec(),
            _ => self.bytes.clone(),
        };
        self.synced.clone_from(&self.bytes);
    }
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, Node>) {
        for (name, node) in &self.0 {
            match node {
                Some(node) => drop(names.insert(name.clone(), *node)),
                None => drop(names.remove(name)),
            }
        }
    }

    fn is_in(&self, folder: &str) -> bool {
        self.0.iter().any(|(name, _)| parent(name) == folder)
    }
}

impl State {
    /// Begins an operation: it may fail, or the process may have ended.
    fn begin(&mut self) -> Result<bool, IoError> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1).ok_or(IO_ERROR)?;
        }
        Ok(self.dice.happens(self.options.errors))
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.pending.push(change);
    }

    fn file(&self, path: &str) -> Result<usize, IoError> {
        match self.names.get(path) {
            Some(Node::File(number)) => Ok(*number),
            _ => Err(NO_ENTRY),
        }
    }

    /// A change of names, which an error may hide or prevent.
    fn rename(&mut self, change: Change) -> Result<(), IoError> {
        let fails = self.begin()?;
        if !fails || self.dice.coin() {
            self.change(change);
        }
        if fails { Err(IO_ERROR) } else { Ok(()) }
    }

    fn sync(&mut self, path: &str) -> Result<(), IoError> {
        if self.begin()? {
            return Err(IO_ERROR);
        }
        let bug = self.options.bug;
        if let Ok(number) = self.file(path) {
            let file = self.files.get_mut(number).ok_or(NO_ENTRY)?;
            if bug != PlantedBug::Files {
                file.synced.clone_from(&file.bytes);
            }
            return Ok(());
        }
        if bug == PlantedBug::Folders && !path.is_empty() || bug == PlantedBug::Root && path.is_empty() {
            return Ok(());
        }
        let (synced, others) =
            std::mem::take(&mut self.pending).into_iter().partition(|change| change.is_in(path));
        self.pending = others;
        let synced: Vec<Change> = synced;
        for change in &synced {
            change.apply(&mut self.durable);
        }
        Ok(())
    }
}

impl Folder for CrashFolder {
    fn place(&self, path: &str) -> String {
        format!("simulated/{path}")
    }

    fn make(&self, path: &str) -> Result<(), IoError> {
        let mut state = lock(&self.0);
        if path.is_empty() || state.names.contains_key(path) {
            return Ok(());
        }
        state.rename(Change(vec![(path.to_owned(), Some(Node::Folder))]))
    }

    fn read(&self, path: &str, _most: usize) -> Result<Vec<u8>, IoError> {
        let mut state = lock(&self.0);
        if state.begin()? {
            return Err(IO_ERROR);
        }
        let number = state.file(path)?;
        state.files.get(number).map(|file| file.bytes.clone()).ok_or(NO_ENTRY)
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), IoError> {
        let mut state = lock(&self.0);
        let fails = state.begin()?;
        if !parent(path).is_empty() && !state.names.contains_key(parent(path)) {
            return Err(NO_ENTRY);
        }
        let number = if let Ok(number) = state.file(path) {
            number
        } else {
            let number = state.files.len();
            state.files.push(File::default());
            state.change(Change(vec![(path.to_owned(), Some(Node::File(number)))]));
            number
        };
        let kept = if fails { state.dice.index(bytes.len() + 1) } else { bytes.len() };
        let file = state.files.get_mut(number).ok_or(NO_ENTRY)?;
        file.bytes = bytes[..kept].to_vec();
        if fails { Err(IO_ERROR) } else { Ok(()) }
    }

    fn sync(&self, path: &str) -> Result<(), IoError> {
        lock(&self.0).sync(path)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), IoError> {
        let mut state = lock(&self.0);
        let number = state.file(from)?;
        state.rename(Change(vec![(to.to_owned(), Some(Node::File(number))), (from.to_owned(), None)]))
    }

    fn remove(&self, path: &str) -> Result<(), IoError> {
        let mut state = lock(&self.0);
        state.file(path)?;
        state.rename(Change(vec![(path.to_owned(), None)]))
    }

    fn lock(&self, path: &str) -> Result<Box<dyn Send>, IoError> {
        let mut state = lock(&self.0);
        if state.begin()? {
            return Err(IO_ERROR);
        }
        if !state.names.contains_key(parent(path)) {
            return Err(NO_ENTRY);
        }
        if state.locks.iter().any(|other| other == path) {
            return Err(LOCKED);
        }
        state.locks.push(path.to_owned());
        Ok(Box::new(Held { folder: self.clone(), path: path.to_owned(), crashes: state.crashes }))
    }
}

/// A lock that somebody has.
struct Held {
    folder: CrashFolder,
    path: String,
    crashes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = lock(&self.folder.0);
        if state.crashes == self.crashes {
            state.locks.retain(|path| *path != self.path);
        }
    }
}

impl fmt::Debug for CrashFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashFolder").field("options", &lock(&self.0).options).finish_non_exhaustive()
    }
}
