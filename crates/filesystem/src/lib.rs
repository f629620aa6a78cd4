//! The file-system contract: what the NFS server consumes, as targets consume volumes.
//!
//! A [`FileSystem`] is the shared control side; a [`FileSystemQueue`] is one core's data side. Requests are submitted and completions polled;
//! nothing blocks and no future exists per operation. Objects are named by opaque [`FileHandle`]s that outlive the process. Each request carries
//! the [`Credentials`] of whoever asks, which the server has squashed already. `docs/filesystem-contract.md` says what is promised; [`contract`]
//! checks it on any file system.
//!
//! The words are those of RFC 8881 (NFS 4.1) and RFC 1813 (NFS 3), so that each request, attribute and failure has its counterpart in both.
//! Locks, share reservations, delegations and leases are not here: they are the server's state.
//!
//! Architecture invariant: nothing here knows a protocol's bytes, a descriptor or a socket.
//!
//! Without its feature `std` the contract is left: what protocols need.
#![cfg_attr(not(any(test, feature = "std")), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod access;
mod attributes;
mod change;
#[cfg(feature = "std")]
pub mod contract;
mod credentials;
mod entry;
mod error;
mod features;
mod file_handle;
mod file_system;
mod limits;
#[cfg(feature = "std")]
mod memory;
mod name;
mod open_error;
mod permission;
mod queue_context;
mod request;
mod set_attributes;
pub mod shape;
mod statistics;
mod time;
mod write;

pub use access::{Access, OpenAccess};
pub use attributes::{Attributes, FileType, Fsid, SpecData};
pub use change::{DirectoryChange, PreOperation, WccData};
pub use credentials::{Credentials, TooManyGroups};
pub use entry::{Cookie, CookieVerifier, Entry, EntryObject, Page, entry_bytes};
pub use error::FileErrorKind;
pub use features::{Features, Identity, Limits};
pub use file_handle::FileHandle;
pub use file_system::{FileSystem, FileSystemQueue};
pub use limits::{
    ENTRY_BYTES, ENTRY_OBJECT_BYTES, FILE_HANDLE_BYTES, GROUPS, LINK_BYTES, NAME_BYTES, NFS3_HANDLE_BYTES,
};
#[cfg(feature = "std")]
pub use memory::{Memory, MemoryOptions};
pub use name::Name;
pub use open_error::OpenError;
pub use permission::{may_remove, permitted};
pub use queue_context::{CoreId, QueueContext};
pub use request::{
    Completion, CopyRange, CreateHow, Created, ExclusiveVerifier, Failure, NewObject, Object, OpenId,
    Operation, Outcome, QueueFull, Removal, Request, SeekWhat, Space, Tag, Target,
};
pub use set_attributes::{SetAttributes, SetTime};
pub use statistics::Statistics;
pub use time::Time;
pub use write::{Stability, WriteVerifier};
