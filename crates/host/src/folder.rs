//! A folder of the system, as a store of records needs it: few operations, each of which blocks, and says what it makes durable.
//!
//! What is written is durable once the file has been synced, and found under its name once the folder that holds the name has been. Paths are
//! relative to the folder, with `/` between their parts; `""` is the folder itself.

use std::fmt;

use crate::IoError;

/// A folder.
pub trait Folder: Send + Sync + fmt::Debug {
    /// Where `path` is, for people.
    fn place(&self, path: &str) -> String;
    /// Makes a folder; one that is there already is as good. The folder itself is made with those above it, durably.
    fn make(&self, path: &str) -> Result<(), IoError>;
    /// Reads a file, or as much of it as `most` bytes and one more.
    fn read(&self, path: &str, most: usize) -> Result<Vec<u8>, IoError>;
    /// Makes a file of these bytes, or replaces what a file holds.
    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), IoError>;
    /// Makes durable what a file holds, or which names a folder has.
    fn sync(&self, path: &str) -> Result<(), IoError>;
    /// Gives a file another name in the same folder, in the place of whatever has that name.
    fn rename(&self, from: &str, to: &str) -> Result<(), IoError>;
    /// Removes a file.
    fn remove(&self, path: &str) -> Result<(), IoError>;
    /// Keeps others from taking the same lock until the answer is dropped or the process ends; refused with `EAGAIN` while another has it, and
    /// with `ENOENT` if the folder of the lock is not there.
    fn lock(&self, path: &str) -> Result<Box<dyn Send>, IoError>;
}
