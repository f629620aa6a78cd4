//! Every limit of the NBD server, with its unit and the reason for its value.

use std::time::Duration;

/// Bytes of an option's data that are looked at: a name of 4,096 bytes, which is the longest that the protocol knows, and
/// queries or pieces of information beside it. Longer ones are answered with `NBD_REP_ERR_TOO_BIG`.
pub const OPTION_DATA: usize = 8192;

/// Bytes that must be staged at once: an option whole.
pub const STAGING: usize = 16 + OPTION_DATA;

/// How long a client may negotiate. People do it by hand, so this is long.
pub const NEGOTIATION: Duration = Duration::from_mins(1);

/// Bytes of the longest read or write: what the protocol lets clients send that did not ask.
pub const PAYLOAD: u32 = 32 << 20;

/// Requests under way on one connection. The protocol has no window: beyond this the stream stays unread.
pub const REQUESTS: usize = 256;

/// Requests to the volume that one request becomes at most, so that a tag names both.
pub const PIECES: u64 = 1 << 16;

/// Replies that wait to be sent before no further request is taken: a client that does not read its answers is held back.
pub const UNSENT: usize = 1024;

/// Extents in one answer about allocation. The client asks again from where it ends.
pub const EXTENTS: usize = 512;

/// How long requests that wait for memory wait before they look again, if nothing else happens meanwhile.
pub const MEMORY_RETRY: Duration = Duration::from_millis(1);
