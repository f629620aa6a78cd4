//! What a load of names is told and tells.

use std::net::SocketAddr;
use std::time::Duration;

use hdrhistogram::Histogram;
use nfs::v4::Status;

/// The most operations under way at a time: as many as a session of ours asks for.
pub const MOST_IN_FLIGHT: usize = 128;
/// The most directories, and the most files, that a plan may have.
const MOST_NAMES: u64 = 10_000_000;

/// What a load of names is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetadataPlan {
    /// Levels of directories below the first: 0 or more.
    pub depth: u32,
    /// Directories in each directory, but for those of the last level.
    pub branch: u32,
    /// Files in each directory.
    pub files: u32,
    /// Operations under way at a time, 1 to [`MOST_IN_FLIGHT`]; the server's session may have room for fewer.
    pub in_flight: usize,
}

/// How much a plan makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// Directories, the first one included.
    pub directories: u64,
    /// Files in all of them.
    pub files: u64,
}

impl MetadataPlan {
    /// What it makes; nothing if there are more than ten million directories or files.
    pub fn names(&self) -> Option<Names> {
        let mut directories = 1_u64;
        let mut level = 1_u64;
        for _ in 0..self.depth {
            level = level.checked_mul(self.branch.into())?;
            directories = directories.checked_add(level).filter(|all| *all <= MOST_NAMES)?;
            if level == 0 {
                break;
            }
        }
        let files = directories.checked_mul(self.files.into()).filter(|all| *all <= MOST_NAMES)?;
        Some(Names { directories, files })
    }
}

/// What one phase did.
#[derive(Debug, Clone)]
pub struct MetadataPhase {
    /// `directory creation`, `file creation`, `file stat`, `directory listing`, `file removal` or `directory removal`.
    pub name: &'static str,
    /// Directories or files; of a listing, the names that came.
    pub operations: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// Latency of each directory or file in nanoseconds: of a creation to the answer to CLOSE, of a listing to the last name.
    pub latency: Histogram<u64>,
}

/// What a load of names did.
#[derive(Debug, Clone)]
pub struct MetadataResult {
    /// The minor version of NFS 4 that was spoken.
    pub minor: u32,
    /// Operations that were under way at a time: what the plan says, or what the session has room for.
    pub in_flight: usize,
    /// The phases in order. Those after a wish to stop are missing, but for removals.
    pub phases: Vec<MetadataPhase>,
    /// It was stopped.
    pub stopped: bool,
}

/// Why a load of names, or a listing, did not come to its end. What a load made may be left at the server.
#[derive(Debug, thiserror::Error)]
pub enum NamesError {
    /// The plan has more names than may be.
    #[error("the plan has more than {MOST_NAMES} directories or files: lower depth, branch or files")]
    TooMany,
    /// The server's name or address.
    #[error(transparent)]
    Open(#[from] volume::OpenError),
    /// The connection.
    #[error("{address}: {error}; check that NFS is served there")]
    Connection {
        /// Whose.
        address: SocketAddr,
        /// What the system says.
        error: std::io::Error,
    },
    /// The client cannot go on.
    #[error("{0}")]
    Client(String),
    /// An operation failed.
    #[error("{phase} of {name}: {status}")]
    Operation {
        /// In which phase.
        phase: &'static str,
        /// The name.
        name: String,
        /// What the server says.
        status: Status,
    },
    /// An operation's answer cannot be right.
    #[error("{phase} of {name}: {what}")]
    Wrong {
        /// In which phase.
        phase: &'static str,
        /// The name.
        name: String,
        /// What is wrong.
        what: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_plan() {
        let plan = |depth, branch, files| {
            MetadataPlan { depth, branch, files, in_flight: 1 }
                .names()
                .map(|names| [names.directories, names.files])
        };
        assert_eq!(plan(0, 9, 7), Some([1, 7]));
        assert_eq!(plan(2, 3, 10), Some([13, 130]));
        assert_eq!(plan(u32::MAX, 0, 1), Some([1, 1]), "no branches, no levels");
        assert_eq!(plan(u32::MAX, 1, 0), None);
        assert_eq!(plan(64, 2, 1), None);
        assert_eq!(plan(0, 0, u32::MAX), None);
    }
}
