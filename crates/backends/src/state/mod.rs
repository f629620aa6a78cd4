//! The state store in a folder: a folder for each volume, a file for each record.
//!
//! A record is written to a file beside it, which is synced, renamed over it, and the folder synced: after a crash the old record is there or the new
//! one. A file that is not whole can then only be damage, and is an error that names it; it is never taken for a record that is not there.
//!
//! A volume's state belongs to one process at a time: the first use of it takes a lock that lasts until the state is released, or as long as the store.
//! Looking for state that is not there makes nothing.

mod limits;
mod record;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::{Folder, IoError, StateError, StateErrorKind, StateStore};

/// `ENOENT`.
const NO_ENTRY: i32 = 2;
/// `EAGAIN`, as a lock answers that another has.
const LOCKED: i32 = 11;
/// The ending of a record that is being written.
const NEW: &str = ".new";
/// The file that a volume's state is locked by.
const LOCK: &str = ".lock";

/// The locks of the volumes whose state this process has.
type Claimed = BTreeMap<String, Box<dyn Send>>;

/// Records in a folder.
pub struct FolderState {
    folder: Arc<dyn Folder>,
    claimed: Mutex<Claimed>,
}

impl FolderState {
    /// The records in `folder`.
    pub fn new(folder: Arc<dyn Folder>) -> Self {
        Self { folder, claimed: Mutex::default() }
    }

    fn error(&self, path: &str, error: IoError) -> StateError {
        StateError::new(self.folder.place(path), StateErrorKind::Io(error))
    }

    /// Makes the volume's folder.
    fn make(&self, volume: &str) -> Result<(), StateError> {
        for path in ["", volume] {
            self.folder.make(path).map_err(|error| self.error(path, error))?;
        }
        Ok(())
    }

    /// Takes the volume's state for this process, or `None` if there is none yet. The answer keeps the process's other threads out meanwhile.
    fn claim(&self, volume: &str) -> Result<Option<MutexGuard<'_, Claimed>>, StateError> {
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        if !claimed.contains_key(volume) {
            let lock = match self.folder.lock(&format!("{volume}/{LOCK}")) {
                Ok(lock) => lock,
                Err(IoError(NO_ENTRY)) => return Ok(None),
                Err(IoError(LOCKED)) => {
                    return Err(StateError::new(self.folder.place(volume), StateErrorKind::InUse));
                }
                Err(error) => return Err(self.error(volume, error)),
            };
            // The process that made the volume's folder may have ended before this.
            self.folder.sync("").map_err(|error| self.error("", error))?;
            claimed.insert(volume.to_owned(), lock);
        }
        Ok(Some(claimed))
    }
}

/// Names become names of files.
fn check(name: &str) -> Result<(), StateError> {
    let good = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter);
    let fine = (1..=limits::NAME).contains(&name.len()) && !name.starts_with('.') && name.chars().all(good);
    if fine { Ok(()) } else { Err(StateError::new(name, StateErrorKind::Name)) }
}

/// The path of a record, if both names can be part of one.
fn path(volume: &str, record: &str) -> Result<String, StateError> {
    check(volume)?;
    check(record)?;
    if record.ends_with(NEW) {
        // It would be in the way of another that is being written.
        return Err(StateError::new(record, StateErrorKind::Name));
    }
    Ok(format!("{volume}/{record}"))
}

impl StateStore for FolderState {
    fn read(&self, volume: &str, record: &str) -> Result<Option<Vec<u8>>, StateError> {
        let path = path(volume, record)?;
        let Some(_claimed) = self.claim(volume)? else { return Ok(None) };
        let file = match self.folder.read(&path, record::LONGEST) {
            Ok(file) => file,
            Err(IoError(NO_ENTRY)) => return Ok(None),
            Err(error) => return Err(self.error(&path, error)),
        };
        let damaged = |how| StateError::new(self.folder.place(&path), StateErrorKind::Damaged(how));
        record::decode(record, &file).map(Some).map_err(damaged)
    }

    fn write(&self, volume: &str, record: &str, bytes: &[u8]) -> Result<(), StateError> {
        let path = path(volume, record)?;
        let too_long = StateErrorKind::TooLong { len: bytes.len(), most: limits::RECORD };
        let file = record::encode(record, bytes).ok_or_else(|| StateError::new(&path, too_long))?;
        let mut claimed = self.claim(volume)?;
        if claimed.is_none() {
            self.make(volume)?;
            claimed = self.claim(volume)?;
        }
        let _claimed = claimed;
        let beside = format!("{path}{NEW}");
        let folder = &self.folder;
        folder
            .write(&beside, &file)
            .and_then(|()| folder.sync(&beside))
            .and_then(|()| folder.rename(&beside, &path))
            .and_then(|()| folder.sync(volume))
            .map_err(|error| self.error(&path, error))
    }

    fn remove(&self, volume: &str, record: &str) -> Result<(), StateError> {
        let path = path(volume, record)?;
        let Some(_claimed) = self.claim(volume)? else { return Ok(()) };
        match self.folder.remove(&path) {
            // Synced all the same: an earlier removal may have failed after the name was gone.
            Ok(()) | Err(IoError(NO_ENTRY)) => {
                self.folder.sync(volume).map_err(|error| self.error(&path, error))
            }
            Err(error) => Err(self.error(&path, error)),
        }
    }

    fn release(&self, volume: &str) {
        let lock = self.claimed.lock().unwrap_or_else(PoisonError::into_inner).remove(volume);
        drop(lock);
    }
}

impl fmt::Debug for FolderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderState").field("folder", &self.folder).finish_non_exhaustive()
    }
}
