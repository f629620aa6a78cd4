//! Bytes on the wire: a bounded [`Reader`] and [`Writer`], endian integers and their widths, CRC32C and CRC-32.
//!
//! Protocol crates describe fixed headers with zerocopy's endian integers (re-exported here) and walk
//! variable-length parts (text keys, VPD pages, parameter lists) with [`Reader`]. Nothing here panics on
//! any input: a read past the end is an [`Truncated`] error, a write past the end a [`Full`] one.
//!
//! CRC32C (Castagnoli) is the digest of iSCSI (RFC 7143 §13.1), NVMe/TCP (NVMe TCP Transport §3.6.1.1)
//! and MPA (RFC 5044 §4.4). CRC-32 is the sum of RoCE's ICRC.
#![cfg_attr(not(any(test, feature = "std")), no_std)]

mod crc;
mod integer;
#[cfg(feature = "std")]
mod processor;
mod reader;
#[cfg(any(test, not(feature = "std")))]
mod table;
mod writer;

pub use crc::{Crc32, Crc32c, crc32c};
pub use integer::{Integer, bounded, index, saturate, widen};
pub use reader::{Reader, Truncated};
pub use writer::{Full, Writer};
/// Big-endian integers without alignment, for headers of iSCSI and SCSI.
pub use zerocopy::big_endian;
/// Little-endian integers without alignment, for headers of NVMe.
pub use zerocopy::little_endian;
