//! Every limit of this crate, with its unit and the reason for its value.

use std::time::Duration;

/// Descriptors of a queue that this side makes: with three for most requests, 341 of those are under way, and the ring stays within 16 KiB.
pub const QUEUE_SIZE: u16 = 1024;

/// Requests under way on a queue, at most: as many as fit its descriptors if each has one piece of data.
pub const DEPTH: u16 = QUEUE_SIZE / 3;

/// Pieces of data in one request: what QEMU's devices take at most, less header and status. Data in more pieces is copied into one.
pub const PIECES: usize = 126;

/// Bytes of the longest read or write, unless the device says less: the largest buffer.
pub const LARGEST: u32 = 8 << 20;

/// Bytes that a queue copies at a time for requests whose memory the device does not have.
pub const BOUNCE: usize = 32 << 20;

/// How long the device may take for an answer over the socket: it has nothing else to do there.
pub const ANSWER_TIME: Duration = Duration::from_secs(5);

/// How long requests wait for a device that is gone, unless `reconnect=` says otherwise: as for volumes of other machines.
pub const RECONNECT: Duration = Duration::from_secs(30);

/// Time between two attempts to reach a device that is gone.
pub const RETRY: Duration = Duration::from_millis(100);

/// Bytes of the largest answer over the socket: what the configuration of any device needs.
pub const ANSWER: usize = 4096;

/// Bytes of a queue's part of the memory in which a device keeps track, at most: eight times what the standard's layouts take.
pub const LARGEST_REGION: u64 = 1 << 18;

/// Queues that one volume asks for at most: what a machine has processors for, and far below what a message can name.
pub const QUEUES: u16 = 64;
