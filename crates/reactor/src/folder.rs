//! A folder of the system, for state that outlives the process: blocking calls, for the beginning and for control operations.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use host::{Folder, IoError};

/// Who may see state: its owner.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// `EIO`, for what has no number of its own.
const UNKNOWN: i32 = 5;

/// A folder by its path.
#[derive(Debug, Clone)]
pub struct SystemFolder {
    root: PathBuf,
}

impl SystemFolder {
    /// The folder at `root`, which is made when something is first made in it.
    pub fn new(root: &Path) -> Self {
        Self { root: std::path::absolute(root).unwrap_or_else(|_| root.to_owned()) }
    }

    fn at(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }
}

fn failure(error: &Error) -> IoError {
    IoError(error.raw_os_error().unwrap_or(UNKNOWN))
}

fn make(path: &Path) -> Result<(), Error> {
    match DirBuilder::new().mode(FOLDER_MODE).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}

/// Makes a folder and those above it, and makes their names durable.
fn make_all(path: &Path) -> Result<(), Error> {
    if path.is_dir() {
        return Ok(());
    }
    let above = path.parent();
    above.map_or(Ok(()), make_all)?;
    make(path)?;
    above.map_or(Ok(()), |above| File::open(above)?.sync_all())
}

impl Folder for SystemFolder {
    fn place(&self, path: &str) -> String {
        self.at(path).display().to_string()
    }

    fn make(&self, path: &str) -> Result<(), IoError> {
        let at = self.at(path);
        let made = if path.is_empty() { make_all(&at) } else { make(&at) };
        made.map_err(|error| failure(&error))
    }

    fn read(&self, path: &str, most: usize) -> Result<Vec<u8>, IoError> {
        let mut bytes = Vec::new();
        File::open(self.at(path))
            .and_then(|file| file.take(most as u64 + 1).read_to_end(&mut bytes))
            .map_err(|error| failure(&error))?;
        Ok(bytes)
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), IoError> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(FILE_MODE);
        options
            .open(self.at(path))
            .and_then(|mut file| file.write_all(bytes))
            .map_err(|error| failure(&error))
    }

    fn sync(&self, path: &str) -> Result<(), IoError> {
        File::open(self.at(path)).and_then(|file| file.sync_all()).map_err(|error| failure(&error))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), IoError> {
        std::fs::rename(self.at(from), self.at(to)).map_err(|error| failure(&error))
    }

    fn remove(&self, path: &str) -> Result<(), IoError> {
        std::fs::remove_file(self.at(path)).map_err(|error| failure(&error))
    }

    fn lock(&self, path: &str) -> Result<Box<dyn Send>, IoError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = options.open(self.at(path)).map_err(|error| failure(&error))?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(TryLockError::WouldBlock) => Err(IoError(rustix::io::Errno::AGAIN.raw_os_error())),
            Err(TryLockError::Error(error)) => Err(failure(&error)),
        }
    }
}
