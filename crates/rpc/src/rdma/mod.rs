//! RPC-over-RDMA version 1 (RFC 8166), upon queue pairs: messages as Sends, payloads by RDMA Read and RDMA Write.
//!
//! The side that is called moves all data: it reads the caller's memory for arguments and writes to it for results, by the segments that the caller's header
//! names. What a caller's [`Stream`](crate::xdr::Stream) has as payloads, and what a [`Body`](crate::Body) announces as such, are the data items that are eligible
//! for direct placement; RFC 8267 says which those of NFS are.
//!
//! | standard | module |
//! |---|---|
//! | RFC 8166 §4 (headers, chunks) | `header` |
//! | RFC 8797 (inline thresholds) | `private_data` |
//! | RFC 8166 §3.3 (credits), §3.4, §3.5 (chunks), for a caller | `requester` |
//! | the same, for who is called; §4.5 (errors) | `responder` |
//! | RFC 8167 (calls in both directions) | `connection` |

mod connection;
mod header;
mod private_data;
mod requester;
mod responder;
mod send_memory;
mod sending;
mod work_queue;

pub use connection::{RdmaConnection, Role};
pub use header::{Body, Chunks, Header, HeaderError, RdmaError, ReadSegment};
pub use private_data::PrivateMessage;
