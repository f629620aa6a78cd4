//! The state that clients share, and its one owner (docs/decisions/0036-nfs.md).
//!
//! [`Server`] is the group. Each other file is one component with its own states and its own tests; none of them knows the group.

pub mod answers;
pub mod budget;
pub mod clients;
pub mod create_slot;
pub mod grace;
pub mod holdings;
pub mod lease;
pub mod loans;
pub mod locks;
pub mod messages;
pub mod opens;
pub mod ranges;
mod server;
pub mod sessions;
pub mod slot;
pub mod stable;

pub use server::Server;
