//! Every limit of this crate, with its unit and the reason for its value.

use core::time::Duration;

/// Bytes that must be staged at once: a set-up frame with all its private data (532), which is decoded as a whole.
pub const STAGING: usize = 1024;

/// Bytes of private data in a set-up frame, at most (RFC 5044 §7.1.1).
pub const PRIVATE_DATA: usize = 512;

/// How long a responder waits for the request frame of a new connection: twice as long as Linux' siw does.
pub const REQUEST_TIME: Duration = Duration::from_secs(10);

/// How long an initiator waits for the reply: as long as siw does. The responder's consumer decides meanwhile.
pub const REPLY_TIME: Duration = Duration::from_secs(10);

/// How long a responder waits for the message that shows a peer-to-peer initiator to be ready (RFC 6581 §4.3). It is sent as soon as the reply has come.
pub const RTR_TIME: Duration = Duration::from_secs(10);

/// RDMA Reads that may be under way in one direction: the largest number that set-up can name, one less than "not negotiated" (RFC 6581 §9).
pub const READS: u16 = 0x3ffe;

/// Bytes of the largest ULPDU, whatever the segment size: its FPDU with all its markers stays below 64 KiB, so that every distance within it has 16 bits
/// (RFC 5044 §4.3 and §5.1).
pub const MULPDU: usize = 64_768;

/// Bytes of the least ULPDU, whatever the segment size: a path that carries less is none for storage (RFC 5044 §5.1 asks for 128).
pub const LEAST_MULPDU: usize = 128;

/// Bytes of a Terminate message that are looked at: all headers that it may carry (RFC 5040 §4.8). What is longer is no Terminate.
pub const TERMINATE: usize = 4 + 2 + 18 + 28;

/// Bytes of the longest message or memory access: message offsets have 32 bits (RFC 5041 §4.2).
pub const LONGEST: usize = u32::MAX as usize;
