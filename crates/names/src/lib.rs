//! The names that users type: volume URLs, IQNs, NQNs, portals, sizes, durations. One parser, one error text.
//!
//! Every type here is parsed with [`str::parse`] and written with `Display`, and what it writes it parses to the same
//! value. Every failure is a [`NameError`]: what was read, where it stopped making sense, why, and what to write
//! instead. Anybody may import this crate; it allocates, and does nothing else.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod closest;
mod discover;
mod duration;
mod error;
mod filter;
mod iqn;
mod iscsi;
mod nfs;
mod nqn;
mod nvme;
mod options;
mod parse;
mod percent;
mod piece;
mod portal;
mod rdma;
mod redact;
#[cfg(test)]
mod reference;
mod share;
mod size;
mod source;
mod url;
mod uuid;

pub use discover::DiscoveryUrl;
pub use duration::Span;
pub use error::NameError;
pub use filter::{Delay, Fail, FailKind, FailRate, Filter, Limit, OperationKind};
pub use iqn::Iqn;
pub use iscsi::{Chap, IscsiOptions, IscsiUrl, Isid, MutualChap, SecretPlace};
pub use nfs::{NfsOptions, NfsUrl, NfsVersion};
pub use nqn::Nqn;
pub use nvme::{HostId, NvmeOptions, NvmeUrl};
pub use portal::{Host, ISCSI_PORT, NFS_PORT, NFS_RDMA_PORT, NVME_PORT, Portal};
pub use rdma::{ROCE_PORT, RdmaOptions, RdmaTransport};
pub use redact::{redact, redact_all};
pub use share::{FolderUrl, Network};
pub use size::ByteSize;
pub use source::{BlockSize, DeviceSource, FileSource, MemorySource, RingLayout, VhostUserSource};
pub use url::{CompositeSource, Source, VolumeUrl};
pub use uuid::Uuid;
