//! The engine's own limits; `docs/limits.md` lists all.

use std::time::Duration;

/// How many connections a process serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The most connections at a time, over all protocols, on each core.
    pub per_core: usize,
}

impl Default for ConnectionLimits {
    /// 1,024 on each core: below the usual descriptor limit, which the daemon takes into account.
    fn default() -> Self {
        Self { per_core: 1024 }
    }
}

/// The part of a core's connections that may be without a login, or there only to discover: one in so many. When one more comes the oldest of them is
/// closed, as whoever means to log in does so at once; the other places are for those who did.
pub(crate) const NEWCOMERS: usize = 2;

/// How long a volume that is not to be served any more still takes requests: longer than iSCSI's time for a logout (`LOGOUT_TIME`, 3 s), so that an initiator
/// that logs out in order can flush before.
pub(crate) const WITHDRAWAL: Duration = Duration::from_secs(5);

/// How often connections are asked whether they still use a volume that is withdrawn: each time costs a turn of every connection of the core.
pub(crate) const USE_INTERVAL: Duration = Duration::from_millis(50);

/// Completions taken from a queue at a time, as a first guess of the scratch list's size.
pub(crate) const COMPLETIONS_GUESS: usize = 256;

/// Requests that a connection may have parked because a volume's queue was full. Connections are bounded by their own
/// command windows, so this only sizes the list.
pub(crate) const PARKED_GUESS: usize = 64;

/// Resets of task sets that wait for requests to end, in the whole process: each costs a message to every core, and a volume that answers
/// nothing would gather them. More than all initiators of a large host send at a time; what comes beyond is refused.
pub(crate) const RESETS: usize = 1024;

/// How long a request to a remote volume may take unless its URL says otherwise (`timeout=`).
pub(crate) const COMMAND_TIME: Duration = Duration::from_secs(30);

/// How long connecting to the machine of a remote volume may take, unless `timeout=` says less: a machine of the same network answers within
/// milliseconds, and the third repetition of a lost TCP connection request goes out after 7 s.
pub(crate) const CONNECT_TIME: Duration = Duration::from_secs(10);

/// How long requests wait for a lost connection unless the URL says otherwise (`reconnect=`): longer than the restart of a server
/// and than the longest wait for an NVMe controller to be surely gone, shorter than file systems' own patience.
pub(crate) const RECONNECT_TIME: Duration = Duration::from_secs(30);

/// How long requests still wait once a queue's very first attempt to connect has failed: the volume was just there when it was opened, so what is wrong
/// now is likely to stay so, and is to be told soon.
pub(crate) const FIRST_OPEN: Duration = Duration::from_secs(5);

/// The wait before the second attempt to reconnect; it doubles with each further one. The first attempt does not wait.
pub(crate) const BACKOFF_FIRST: Duration = Duration::from_millis(100);

/// The longest wait between two attempts to reconnect.
pub(crate) const BACKOFF_MOST: Duration = Duration::from_secs(5);

/// The wait before a request is made again that the far end was too busy for; it doubles with each further time.
pub(crate) const BUSY_FIRST: Duration = Duration::from_millis(2);

/// The longest such wait. A request is given up as busy when its command's time (`timeout=`) is over.
pub(crate) const BUSY_MOST: Duration = Duration::from_millis(500);

/// Keep alive timeout of an NVMe association (KATO): twice Linux' default, so that a cut of five seconds ends nothing.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// How long after its keep alive timer ran out a controller may still be busy with commands. Only controllers that follow NVMe
/// Base 2.1 say so themselves (CQT); most end at once.
pub(crate) const QUIESCE: Duration = Duration::from_secs(2);

/// How long a queue pair over datagrams goes on to a peer that is gone, from the first packet that the peer does not acknowledge: the waits of all its attempts.
pub(crate) const PEER_GONE: Duration = Duration::from_secs(8);

/// How long after its connection was lost an iSCSI session that no login has reinstated may still carry out what it was sent. Targets notice by
/// pings that an initiator is gone: Linux' after 45 s (15 s of silence, 30 s for the answer), ours too; the rest is for tasks to end.
pub(crate) const SESSION_GONE: Duration = Duration::from_mins(1);

/// How long after its connection was lost a server of NFS 3 may still carry out WRITEs that it has received: until then none is made again, so that a late one does not undo what came after it. The
/// protocol has no bound and no way to ask; servers take what is in a socket within moments, and give up disks that do not answer within some seconds. As long as over NVMe/TCP, where the keep alive is one,
/// and short enough for a write to be made again within `timeout=` and `reconnect=` as they are if not given.
pub(crate) const CALLS_GONE: Duration = Duration::from_secs(17);

/// Nexuses that a queue tells apart among the writes that it holds; those of further ones are held for their whole time.
pub(crate) const NEXUSES: usize = 16;

/// Buffers of one initiator connection, for what it receives outside a request's own memory, in bytes.
pub(crate) const CLIENT_POOL: usize = 16 << 20;

/// How far a discovery follows referrals from one service to the next: what administrators build has one level, or two.
pub(crate) const REFERRAL_DEPTH: usize = 4;

/// Discovery services that one discovery asks because others refer to them: each may take its time to answer.
pub(crate) const REFERRALS: usize = 32;

/// How often one login is sent elsewhere before it fails: a portal of a cluster sends to the node that has the volume, which may
/// just have changed.
pub(crate) const REDIRECTS: u32 = 4;

/// RDMA Reads that a target or controller has under way on a connection at a time: as many as Linux' siw serves.
pub(crate) const TARGET_READS: u16 = 128;

/// RDMA Reads that an initiator or host serves at a time: as many as ours wants, and Linux' targets ask for.
pub(crate) const INITIATOR_READS: u16 = 128;

/// RDMA Reads that a target or controller has under way on a RoCE connection at a time. Responses come as fast as the peer sends: more of them overrun the buffer of the socket where
/// the system does not allow a large one.
pub(crate) const ROCE_TARGET_READS: u8 = 4;

/// RDMA Reads that an initiator or host serves on a RoCE connection at a time.
pub(crate) const ROCE_INITIATOR_READS: u8 = 16;

/// Requests for connections that wait at one socket for a decision, which comes in the same turn: a burst of more is asked again by whoever is in earnest.
pub(crate) const CONNECTION_REQUESTS: usize = 64;

/// How long a RoCE connection that is to end may still send what it has to say.
pub(crate) const LAST_PACKETS: Duration = Duration::from_secs(5);

/// How often a queue pair that has nothing to send is asked again in one go, because what needs no sending has led to more.
pub(crate) const FILLS: usize = 4;

/// Bytes of a TCP segment between two machines, into which iWARP's FPDUs are made to fit: Ethernet's 1,500 less the headers of IPv6 and of TCP with timestamps.
/// Where segments are longer, several FPDUs share one.
pub(crate) const MSS: usize = 1428;

/// The same within one machine: loopback's 65,536 less those headers.
pub(crate) const MSS_LOCAL: usize = 65_464;
