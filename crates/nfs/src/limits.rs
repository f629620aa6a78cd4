//! Every number of this crate, with its unit, its reason and the section it comes from.

use core::time::Duration;

/// The longest client owner, open owner, lock owner or server owner, in bytes: NFS4_OPAQUE_LIMIT (RFC 8881 §3.1).
pub const OPAQUE: usize = 1024;
/// The longest file handle, in bytes: NFS4_FHSIZE (RFC 8881 §3.1).
pub const FILE_HANDLE: usize = 128;
/// The longest name of a file, in bytes: NAME_MAX of every usual file system. A longer one is NFS4ERR_NAMETOOLONG.
pub const NAME: usize = 255;
/// The longest target of a symbolic link, in bytes: PATH_MAX, without its end.
pub const LINK_TARGET: usize = 4095;
/// The longest tag of a COMPOUND, in bytes: no client sends one that is longer than a name (RFC 8881 §16.2.3 leaves it open).
pub const TAG: usize = 1024;
/// The most words of an attribute bitmap: the standards use three (RFC 7862 §12.2), and a longer one has bits that nobody knows.
pub const BITMAP_WORDS: usize = 8;
/// The longest attribute list that is taken, in bytes: owner and group of some length, and the rest is fixed. Lists of ACEs are not served.
pub const ATTRIBUTES: usize = 8192;
/// The longest owner or group name, in bytes (RFC 8881 §5.9: a name, an @ and a domain).
pub const OWNER_NAME: usize = 1024;
/// The most stateids in one TEST_STATEID: 4 KiB of them.
pub const TESTED_STATEIDS: usize = 256;
/// The most server-owned lists that are skipped, in entries (state protection, implementation identifiers, security parameters).
pub const LIST: usize = 64;

/// Operations in one COMPOUND, with its SEQUENCE (ca_maxoperations, RFC 8881 §18.36). Linux asks for 8, others for up to 64.
pub const OPERATIONS: u32 = 64;
/// Slots of a session (ca_maxrequests): Linux asks for 64, and gets more out of no more.
pub const SLOTS: u32 = 64;
/// The largest READ or WRITE, in bytes: one payload.
pub const PAYLOAD: u32 = 1 << 20;
/// Bytes of a request or a reply beside its payload.
pub const OVERHEAD: u32 = 4096;
/// The largest request and the largest reply of a session, in bytes (ca_maxrequestsize, ca_maxresponsesize).
pub const MESSAGE: u32 = PAYLOAD + OVERHEAD;
/// Bytes of a reply's RPC header, with a verifier of AUTH_NONE (RFC 5531 §9): what a session's sizes count beside the COMPOUND (RFC 8881 §18.36.3).
pub const REPLY_HEADER: u32 = 24;
/// Bytes of a result that only tells a failure: its number and its status. So much is left free in every reply, to say that the next result does not fit.
pub const FAILED_RESULT: u32 = 8;
/// The smallest request and reply size that a session can be made with, in bytes: less holds no SEQUENCE with an operation (NFS4ERR_TOOSMALL).
pub const LEAST_MESSAGE: u32 = 512;
/// The most bytes of a cached reply (ca_maxresponsesize_cached): every reply of operations that change something fits, Linux asks for as much.
pub const CACHED_REPLY: u32 = 4096;
/// Bytes of the request that tell a false retry from a true one, with its length (RFC 8881 §2.10.6.1.3.1).
pub const FINGERPRINT: usize = 512;

/// The lease, in seconds (RFC 8881 §5.8.1.11): as Linux' server.
pub const LEASE_SECONDS: u32 = 90;
/// The lease.
pub const LEASE: Duration = Duration::from_secs(90);
/// How long grace lasts at most: twice the lease, for those who are reclaiming when the first is over (RFC 8881 §8.4.2.1), as Linux' server.
pub const GRACE: Duration = Duration::from_mins(3);
/// How often a connection tells the group that its client was there: an eighth of the lease, by which leases end later.
pub const RENEWAL: Duration = Duration::from_millis(11_250);
/// How long state outlives its lease when nobody wants what it holds: as Linux' server.
pub const COURTESY: Duration = Duration::from_hours(24);

/// Clients, confirmed or not: ten thousand and some.
pub const CLIENTS: usize = 16_384;
/// Sessions of a client.
pub const CLIENT_SESSIONS: usize = 64;
/// Bytes of sessions, cached replies, opens and locks that a client may make the server hold. A Linux client with a session of 64 slots and 4,096 open files stays below.
pub const CLIENT_BYTES: usize = 4 << 20;
/// Of those, bytes that no other client can take from it: a session of seven slots, and ten opens with locks.
pub const CLIENT_FLOOR: usize = 8 << 10;
/// Bytes beyond their floors of all clients together. Where they run short, clients whose lease is over give way.
pub const SHARED_BYTES: usize = 96 << 20;
/// Bytes of all clients together: the records and floors of as many as there may be, and what they share.
pub const STATE_BYTES: usize = 256 << 20;
/// How often, where bytes run short, clients whose lease is over are looked for.
pub const SHORTAGE: Duration = Duration::from_secs(1);
/// Bytes that a client record counts for beside its owner.
pub const CLIENT_COST: usize = 512;
/// Bytes that a session counts for beside its slots.
pub const SESSION_COST: usize = 256;
/// Bytes that a slot counts for beside the reply that it may cache.
pub const SLOT_COST: usize = 96;
/// Bytes that a slot is taken to need when a session is made: with the reply to an OPEN, which is the longest that is usual. A session has no more slots than fit into half of the bytes that its
/// client may still take.
pub const SLOT_ROOM: usize = 512;
/// Bytes that an open counts for beside its owner, with its place in every table.
pub const OPEN_COST: usize = 512;
/// Bytes that a lock stateid counts for beside its owner.
pub const LOCK_COST: usize = 768;
/// Bytes that one locked range counts for.
pub const RANGE_COST: usize = 48;
/// Requests of connections that may wait in the group for loans or records; beyond that they are answered NFS4ERR_DELAY.
pub const PARKED: usize = 4096;
/// Stateids that a connection may hold on loan: beyond that it gives one back that it does not use.
pub const LOANS: usize = 4096;
/// Bytes of arguments of COMPOUNDs that a connection works on, payloads included; beyond that it takes no call. As many as eight of the largest requests.
pub const ARGUMENTS: usize = 8 << 20;
/// Bytes that a connection may hold beyond its share of the pool while calls are under way; beyond that it takes no further call. Some headers and replies.
pub const OVERDRAFT: usize = 64 << 10;
/// Bytes of cached replies that a connection keeps; beyond that a SEQUENCE that wants its reply cached is answered NFS4ERR_DELAY.
pub const CONNECTION_REPLIES: usize = 1 << 20;
/// Slots that a connection holds before it gives those back that it does not use: of sixteen full sessions.
pub const CONNECTION_SLOTS: usize = 1024;
/// Clients that a connection remembers to have told of; one is usual.
pub const RENEWED_CLIENTS: usize = 64;
/// Bytes that the result of any operation that changes something fits into: without so much room it is not begun, so that nothing is done that cannot be
/// answered (RFC 8881 §2.10.6.4).
pub const OP_REPLY: usize = 128;

/// The longest handle of version 3, in bytes: NFS3_FHSIZE (RFC 1813 §2.4).
pub const HANDLE_V3: usize = 64;
/// The longest name or link target that version 3 decodes, in bytes: the standard bounds neither, and what is longer than names and targets can be is told so
/// (NFS3ERR_NAMETOOLONG) up to here. Beyond it is no argument.
pub const STRING_V3: usize = 8192;
/// The longest path of MOUNT, in bytes: MNTPATHLEN (RFC 1813 appendix I §5.1.4).
pub const MOUNT_PATH: usize = 1024;
/// The largest answer of READDIR and READDIRPLUS, in bytes, and what FSINFO says is best (`dtpref`): as Linux' server.
pub const LISTING: u32 = 64 << 10;
/// Answers of calls that must not be carried out twice, kept for retransmissions, of one client address: twice the slots that Linux' client begins with, and
/// what it may add in the time of one answer.
pub const ADDRESS_ANSWERS: usize = 1024;
/// The same of all addresses.
pub const ANSWERS: usize = 16_384;
/// Bytes of such an answer, at most: RENAME's is 236, CREATE's 292.
pub const ANSWER: usize = 512;
/// How long such an answer is kept: twice the time after which Linux' client sends a call again over TCP.
pub const ANSWER_TIME: Duration = Duration::from_mins(2);
