//! Volumes on files and block devices, the one place where a URL of a local volume becomes a volume, folders as file systems that are served, and the state
//! store in a folder.
//!
//! Everything is done through `host`'s traits, so the same code runs on the reactor's real files and on the
//! simulator's crash disks.
//!
//! Architecture invariant: no protocol name, no system call, no socket.
#![forbid(unsafe_code)]

mod errno;
mod file;
mod folder;
mod open;
mod resolver;
mod state;

pub use file::FileVolume;
pub use folder::{Folder, FolderMode};
pub use open::{LocalOpener, open};
pub use resolver::{SystemResolver, SystemSecrets};
pub use state::FolderState;
