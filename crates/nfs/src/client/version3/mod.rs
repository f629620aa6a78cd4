//! The client of version 3 (RFC 1813): a file at a server as a volume, as in version 4, of a server that keeps nothing about its clients.
//!
//! [`MountClient`] asks MOUNT for the handle of the export, over a connection of its own; [`Nfs3Client`] opens the file below it. There is no session: nothing tells the server that a call
//! was sent before, and nothing says what became of a call whose connection is lost. Whoever makes a write again must wait until the lost one can no longer take effect
//! (docs/decisions/0038-nfs-client.md).
//!
//! | RFC 1813 | file |
//! |---|---|
//! | appendix I, MNT: which part of the path is the export, and its handle | `mounting` |
//! | §3.3.3, §3.3.1, §3.3.4, §3.3.2, §3.3.19, §3.3.21: from there to the file | `opening` |
//! | §3.3.6, §3.3.7, §3.3.21: the volume's requests | `connection`, with the `transfers` of version 4 |
//! | §2.6: what statuses mean | `verdict` |

mod config;
mod connection;
mod mounting;
mod opening;
mod results;
mod verdict;

pub use config::{Nfs3Config, Nfs3Keep};
pub use connection::{Nfs3Client, Nfs3Results};
pub use mounting::{Export, MountAction, MountClient, MountConfig, MountInput, MountResults};
