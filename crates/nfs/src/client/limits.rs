//! Every number of the client, with its unit, its reason and the section it comes from.

use core::time::Duration;

/// Requests of the volume under way at a time: as many as an NVMe queue of ours has. The session may have fewer slots; the others wait.
pub const DEPTH: u32 = 128;
/// Slots that a session is asked for (ca_maxrequests, RFC 8881 §18.36): one for each request, as far as the mask of slots has bits.
pub const SLOTS: u32 = 128;
/// The largest READ and WRITE that is asked for, in bytes: what Linux' client and server use, and the longest record that RPC takes.
pub const PAYLOAD: u32 = 1 << 20;
/// Bytes of a call or a reply beside its payload: header of RPC with AUTH_SYS (24 + 408 + 408), SEQUENCE, PUTFH, and the operation.
pub const OVERHEAD: u32 = 4096;
/// The least payload that a volume can do with, in bytes: a block of 4 KiB.
pub const LEAST_PAYLOAD: u32 = 4096;
/// Bytes of the results of any call, payloads not counted.
pub const RESULTS: usize = 4096;
/// Bytes of the results of a call for a request of the volume, payloads not counted: SEQUENCE has 44, PUTFH 8, and READ, WRITE, COMMIT, DEALLOCATE or GETATTR of a size less than
/// 40. Over RDMA they fit into a message of the shortest size that every peer takes (RFC 8166 §3.3.2), and no memory is named for them.
pub const SHORT_RESULTS: usize = 256;
/// Bytes of a reply that a server is asked to keep for a retry (ca_maxresponsesize_cached).
pub const CACHED_REPLY: u32 = 2048;
/// Bytes of a reply that a server must keep, or none is asked for: what a WRITE is answered with has less.
pub const LEAST_CACHED_REPLY: u32 = 256;
/// Operations in the longest COMPOUND that is sent, and one more (RFC 8881 §18.36, ca_maxoperations): SEQUENCE, PUTFH, LOOKUPs and GETFH. As many as Linux asks for.
pub const OPERATIONS: u32 = 8;
/// Names that one COMPOUND looks up.
pub const LOOKUPS: u32 = 4;
/// Names in a path: PATH_MAX with a name of one letter would have more, no export does.
pub const COMPONENTS: usize = 256;
/// Bytes of the longest server owner, server scope and implementation name that is passed over: NFS4_OPAQUE_LIMIT (RFC 8881 §3.1).
pub const OPAQUE: usize = 1024;
/// The most access control entries of a delegation that nobody asked for, which are passed over.
pub const ENTRIES: usize = 64;
/// Silence after which the server is asked whether it is there, and how large the file is: as NVMe hosts of ours. It renews the lease, too, which is at least as long at any server.
pub const PING_INTERVAL: Duration = Duration::from_secs(5);
/// How long the answer to that may take.
pub const PING_TIME: Duration = Duration::from_secs(10);
/// The first pause after NFS4ERR_DELAY or NFS4ERR_GRACE while a volume is opened; it doubles.
pub const PAUSE_FIRST: Duration = Duration::from_millis(20);
/// The longest such pause.
pub const PAUSE_MOST: Duration = Duration::from_secs(1);
/// How long an orderly leave (CLOSE, DESTROY_SESSION, DESTROY_CLIENTID) may take.
pub const LEAVE_TIME: Duration = Duration::from_secs(3);
/// Changes that were carried out over connections before, and whose requests have not heard of it: those of two connections with all of their slots.
pub const SETTLED: usize = 256;
/// How often a COMPOUND may do less than it was asked to before its request fails: a server that gives a block at a time is of no use.
pub const SHORT_ANSWERS: u32 = 4096;
/// Bytes that a READ of a verification has: their memory is the client's own, one for each request under way.
pub const VERIFIED: u32 = 64 << 10;
