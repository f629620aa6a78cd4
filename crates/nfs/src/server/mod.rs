//! The server's side of a connection: an upper layer of RPC (docs/decisions/0036-nfs.md).
//!
//! | what | module |
//! |---|---|
//! | exports, the pseudo file system, who may do what | [`exports`] |
//! | what a connection has on loan | [`held`] |
//! | a call, of whichever version | `task` |
//! | a COMPOUND, operation by operation | `executor` |
//! | operations | `names`, `attributes`, `directory`, `data`, `open`, `stateful` |
//! | version 3, and MOUNT | `version3` |

mod attributes;
mod context;
mod data;
mod directory;
mod executor;
pub mod exports;
pub mod held;
mod identity;
mod names;
mod open;
mod stage;
mod stateful;
mod task;
mod under_way;
mod upper;
mod version3;

pub use identity::ServerIdentity;
pub use upper::{Action, Input, NfsServer, ServerConfig};
