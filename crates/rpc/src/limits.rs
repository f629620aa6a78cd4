//! Every limit of this crate, with its unit and the reason for its value.

use core::time::Duration;

/// Bytes of a credential's or verifier's body, at most (RFC 5531 §8.2).
pub const AUTH_BODY: usize = 400;

/// Bytes of a machine's name in AUTH_SYS, at most (RFC 5531 appendix A).
pub const MACHINE_NAME: usize = 255;

/// Groups in AUTH_SYS besides the first, at most (RFC 5531 appendix A).
pub const GIDS: usize = 16;

/// Bytes of the longest header of a call or reply: six words, and a credential and a verifier of two words and a body each (RFC 5531 §9).
pub const HEADER: usize = 24 + 2 * (8 + AUTH_BODY);

/// Bytes of the longest item of arguments or results that is decoded at once, unless an upper protocol says otherwise: more than any operation of NFS has
/// without payloads, names of 255 bytes, attributes with an ACL of hundreds of entries.
pub const ITEM: usize = 64 << 10;

/// Bytes of the longest record, unless an upper protocol says otherwise: a payload of 1 MiB, which is the most that Linux' client and server use by default, and
/// as much as an item beside it.
pub const RECORD: usize = (1 << 20) + ITEM;

/// Calls of the peer that are not answered, unless an upper protocol says otherwise: then no more are taken, and the transport's flow control holds the peer back.
/// Linux' client asks for 64 slots in a session's table.
pub const CALLS: usize = 128;

/// Bytes of a connection's answers in memory of no pool that wait to be sent: above it no call is taken. As many as answers of 4 KiB to every call have.
pub const UNSENT: usize = 512 << 10;

/// Streams that were sent and whose memory is kept for the next ones.
pub const SPARE_STREAMS: usize = 8;

/// Bytes of a spare stream, at most: what is larger is given up.
pub const SPARE_STREAM: usize = 4 << 10;

/// How long a peer may leave what is sent to it unread before the connection is closed: as long as a network may be interrupted.
pub const SEND_TIME: Duration = Duration::from_mins(1);

/// How long a peer may take to send a payload, once there is memory for it, before the connection is closed: others may wait for that memory.
pub const PAYLOAD_TIME: Duration = Duration::from_mins(1);

/// How long a call may be without a reply before its connection is closed, unless an upper protocol says otherwise: as long as Linux' client waits over TCP.
pub const CALL_TIME: Duration = Duration::from_mins(1);

/// Bytes of an RPC-over-RDMA message that every peer receives (RFC 8166 §3.3.2), and no more unless it says so while the connection is set up (RFC 8797).
pub const INLINE: usize = 1024;

/// Bytes of a message that is received here: a block of 4 KiB fits with the call or the reply that it belongs to, and for no shorter message memory is named. Sizes are said in KiB (RFC 8797).
pub const RDMA_RECEIVE: usize = 5 << 10;

/// Chunks in a list, at most: as many operations with a payload as a call may have. Clients name one.
pub const CHUNKS: usize = 16;

/// Segments of a chunk, at most: a payload of 1 MiB in pieces of 64 KiB. A client that registers a payload at once names one.
pub const SEGMENTS: usize = 16;

/// Bytes of the header of a reply as its caller has to expect it: with a verifier of any length (RFC 5531 §9).
pub const REPLY_HEADER: usize = 24 + AUTH_BODY;
