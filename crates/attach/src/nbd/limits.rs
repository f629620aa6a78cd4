//! Every limit of the NBD server, with its unit and the reason for its value.

use std::time::Duration;

/// Bytes of an option's data that are looked at: a name of 4,096 bytes, which is the longest that the protocol knows, and
/// queries or pieces of information beside it. Longer ones are answered with `NBD_REP_ERR_TOO_BIG`.
pub const OPTION_DATA: usize = 8192;

/// Bytes that must be staged at once: an option whole.
pub const STAGING: usize = 16 + OPTION_DATA;

/// How long a client may negotiate. Users do it by hand, so this is long.
pub const NEGOTIATION: Duration = Duration::from_mins(1);

/// Bytes of the longest read or write: what the protocol lets clients send that did not ask.
pub const PAYLOAD: u32 = 32 << 20;

/// Requests under way on one connection. The protocol has no window: beyond this the stream stays unread.
pub const REQUESTS: usize = 256;

/// Requests of one connection for which there is memory whatever others hold; for more there is when it is free. This many keep a client busy that must do
/// with a block at a time anyway.
pub const FIRST_REQUESTS: usize = 16;

/// Requests to the volume that one request becomes at most, so that a tag names both.
pub const PIECES: u64 = 1 << 16;

/// Replies that wait to be sent before no further request is taken: a client that does not read its answers is held back. To them comes one for each request for
/// which there is memory.
pub const UNSENT: usize = 64;

/// Bytes of answers that a client may have although there is no memory for them: one about allocation. With more, no further request is taken.
pub const OVERDRAFT: usize = 4096;

/// Bytes of answers outside of buffers (options, extents) that wait to be sent before no further request is taken: sixteen of the longest.
pub const UNSENT_BYTES: usize = 65_536;

/// Bytes of a write's data that one receive waits for, so that slow clients are seen to make progress.
pub const AT_ONCE: usize = 1 << 20;

/// How long a write's data may make no progress: as long as the network targets wait.
pub const DATA_TIME: Duration = Duration::from_secs(30);

/// The same while others wait for memory: a little longer than TCP takes to send again what was lost twice.
pub const SCARCE_DATA_TIME: Duration = Duration::from_secs(5);

/// How long a client may read nothing of what is sent to it.
pub const SEND_TIME: Duration = Duration::from_secs(45);

/// The same while others wait for memory.
pub const SCARCE_SEND_TIME: Duration = Duration::from_secs(10);

/// How often the server looks at what holds its memory: precise enough for the times above, and too seldom to cost anything.
pub const WATCH: Duration = Duration::from_secs(1);

/// The part of a core's connections that may be negotiating: one in so many. When one more comes the oldest of them is closed.
pub const PENDING_SHARE: usize = 2;

/// Extents in one answer about allocation. The client asks again from where it ends.
pub const EXTENTS: usize = 512;

/// How long requests that wait for memory wait before they check again without a notification: a connection that
/// shares its core with others is notified, so that this may be long.
pub const MEMORY_RETRY: Duration = Duration::from_millis(100);
