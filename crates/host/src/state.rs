//! State that outlives the process: small named records for each volume.
//!
//! Identities, marks and the like are read when a process begins and written in rare control operations. The calls block: never make one on an event
//! loop that serves.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::IoError;

/// Records by volume and name. Names are one letter at least, of a–z, 0–9, `-` and `.`, and do not begin with a dot.
///
/// A record is replaced whole: after a crash it is what it was before the write or after it, never a mixture.
pub trait StateStore: Send + Sync + fmt::Debug {
    /// The record, or `None` if it was never written or has been removed. A record that is there and cannot be trusted is an error.
    fn read(&self, volume: &str, record: &str) -> Result<Option<Vec<u8>>, StateError>;

    /// Replaces the record. It is durable when this returns; after an error the old record or the new one is found, and either may
    /// outlive a crash.
    fn write(&self, volume: &str, record: &str, bytes: &[u8]) -> Result<(), StateError>;

    /// Removes the record, durably as in [`StateStore::write`]. One that is not there is removed already.
    fn remove(&self, volume: &str, record: &str) -> Result<(), StateError>;

    /// Gives the volume's state back, for another process to have: this one serves the volume no more. Using it again takes it again. A store
    /// that no other process can have does nothing.
    fn release(&self, _volume: &str) {}
}

/// Why state could not be read or written: what, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateError {
    /// The path or the name that it is about.
    pub place: String,
    /// What was wrong with it.
    pub kind: StateErrorKind,
}

/// What was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateErrorKind {
    /// The record is there, and is not what was written.
    Damaged(
        /// How it was noticed.
        &'static str,
    ),
    /// Another process has the volume's state.
    InUse,
    /// It cannot be the name of a volume or a record.
    Name,
    /// The record is longer than the store takes.
    TooLong {
        /// Its bytes.
        len: usize,
        /// The most that there may be.
        most: usize,
    },
    /// The system refused.
    Io(IoError),
}

impl StateError {
    /// An error about `place`.
    pub fn new(place: impl Into<String>, kind: StateErrorKind) -> Self {
        Self { place: place.into(), kind }
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.place;
        match self.kind {
            StateErrorKind::Damaged(how) => write!(
                f,
                "the state record {place} is damaged: {how}; restore it from a copy, or remove it if what it says may be forgotten"
            ),
            StateErrorKind::InUse => write!(
                f,
                "the state in {place} is in use: another process serves a volume of this name with it; give one of the volumes another \
                 name, or one of the servers another state folder"
            ),
            StateErrorKind::Name => write!(
                f,
                "{place:?} cannot name state: names are of a-z, 0-9, '-' and '.', and do not begin with a dot; choose another"
            ),
            StateErrorKind::TooLong { len, most } => {
                write!(f, "the state record {place} has {len} bytes: the store takes {most} at most")
            }
            StateErrorKind::Io(error) => write!(
                f,
                "the state in {place} cannot be kept: {error}; choose a state folder that this process may write"
            ),
        }
    }
}

impl std::error::Error for StateError {}

/// The records of one volume.
#[derive(Debug, Clone)]
pub struct VolumeState {
    store: Arc<dyn StateStore>,
    volume: String,
}

impl VolumeState {
    /// The records that `store` has under this name.
    pub fn new(store: Arc<dyn StateStore>, volume: impl Into<String>) -> Self {
        Self { store, volume: volume.into() }
    }

    /// The state of a volume whose data does not outlive the process either.
    pub fn ephemeral() -> Self {
        Self::new(Arc::new(MemoryState::default()), "ephemeral")
    }

    /// As [`StateStore::read`].
    pub fn read(&self, record: &str) -> Result<Option<Vec<u8>>, StateError> {
        self.store.read(&self.volume, record)
    }

    /// As [`StateStore::write`].
    pub fn write(&self, record: &str, bytes: &[u8]) -> Result<(), StateError> {
        self.store.write(&self.volume, record, bytes)
    }

    /// As [`StateStore::remove`].
    pub fn remove(&self, record: &str) -> Result<(), StateError> {
        self.store.remove(&self.volume, record)
    }

    /// As [`StateStore::release`].
    pub fn release(&self) {
        self.store.release(&self.volume);
    }
}

type Records = BTreeMap<(String, String), Vec<u8>>;

/// A store that ends with the process, for volumes whose data does too.
#[derive(Debug, Default)]
pub struct MemoryState(Mutex<Records>);

impl MemoryState {
    fn with<R>(
        &self,
        volume: &str,
        record: &str,
        act: impl FnOnce(&mut Records, (String, String)) -> R,
    ) -> R {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut records, (volume.to_owned(), record.to_owned()))
    }
}

impl StateStore for MemoryState {
    fn read(&self, volume: &str, record: &str) -> Result<Option<Vec<u8>>, StateError> {
        Ok(self.with(volume, record, |records, key| records.get(&key).cloned()))
    }

    fn write(&self, volume: &str, record: &str, bytes: &[u8]) -> Result<(), StateError> {
        self.with(volume, record, |records, key| records.insert(key, bytes.to_vec()));
        Ok(())
    }

    fn remove(&self, volume: &str, record: &str) -> Result<(), StateError> {
        self.with(volume, record, |records, key| records.remove(&key));
        Ok(())
    }
}
