//! Every limit of this crate, with its unit and the reason for its value.

use core::time::Duration;

/// Bytes that must be staged at once: the longest PDU that is parsed as a whole is a 152-byte termination
/// request, and data offsets reach 255 bytes.
pub const STAGING: usize = 1024;

/// How long a new connection may take to initialise and to connect its queue. Linux answers within a
/// second; a silent peer must not keep a connection for longer than this.
pub const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Keep alive granularity that the controller reports, in units of 100 ms (KAS): one second, as Linux'
/// own target does.
pub const KEEP_ALIVE_GRANULARITY: u16 = 10;

/// How long a discovery controller without a keep alive timer lives without a command: two minutes
/// (NVMe Base §3.1.3.3 leaves the number to the controller; this one is customary).
pub const DISCOVERY_IDLE: Duration = Duration::from_mins(2);

/// Asynchronous Event Requests that may wait at a time. Linux keeps one, SPDK four.
pub const ASYNC_EVENTS: usize = 4;

/// How long hosts are told to wait until a controller is ready, or no longer is (CAP.TO and CRTO.CRWMT), in units of 500 ms: it is ready at once, and
/// unready when its last request has ended at the volume.
pub const READY_TIME: u8 = 15;

/// How long the answer to a reset or shutdown waits for requests to end at the volume: as long as [`READY_TIME`] says. After that the
/// host learns from CSTS that it is not over.
pub const QUIESCE_TIME: Duration = Duration::from_millis(7_500);

/// How long the queues of a subsystem that is not served any more, or no longer to their host, go on. Hosts that have another path to the same namespaces
/// need a moment to go over; a host that has none can only learn that there is nothing more to come.
pub const WITHDRAW_TIME: Duration = Duration::from_secs(3);

/// How long the identifier of a namespace that is gone names nothing on a queue that had it: commands to it may still be on their way, and must not reach
/// another volume that has the identifier next. A host learns of the change within milliseconds, and has ended what it had under way soon after.
pub const REUSE_TIME: Duration = Duration::from_secs(2);

/// The same on an admin queue: longer, so that a host which learns of the new namespace finds it on every I/O queue.
pub const REPORT_TIME: Duration = Duration::from_secs(3);

/// Abort commands that may be under way at a time on one controller (ACL). Linux sends one at a time for each queue
/// that stalls; four is what drives and other targets customarily report.
pub const ABORTS: u8 = 4;

/// Aborted commands of one queue whose data a host may still send, because it was asked for. Each keeps a slot but no
/// memory; beyond this many, a command is aborted only once its data has come.
pub const ABANDONED: u16 = 32;

/// Events of one kind wait as one, so this many suffice: namespace change, discovery change and reservation notification.
pub const PENDING_EVENTS: usize = 4;

/// Reservation notifications that a controller keeps until its host reads them, 64 bytes each; what comes beyond is only
/// counted, so that the host sees the gap. Linux' target keeps as many.
pub const NOTIFICATIONS: usize = 64;

/// Entries of a changed namespace list before it says "all" (NVMe Base §5.1.12.1.5).
pub const CHANGED_NAMESPACES: usize = 1024;

/// Entries in an admin submission queue that the controller offers; NVMe Base asks for at least 32.
pub const ADMIN_QUEUE: u16 = 128;

/// Data that an H2CData PDU may carry, in bytes: large segments cost fewer headers and digests.
pub const MAX_H2C_DATA: u32 = 1 << 20;

/// Bytes that one command of a host's moves at most, whatever its controller takes: longer requests are split.
pub const HOST_TRANSFER: u32 = 1 << 20;

/// The least that a controller may report as MAXH2CDATA (NVMe TCP Transport §3.6.2.3), in bytes.
pub const LEAST_H2C_DATA: u32 = 4096;

/// The longest data of a single PDU that is accepted at all, in bytes; the header's length field allows 4 GiB.
pub const LONGEST_PDU_DATA: usize = 8 << 20;

/// Bytes of data in a command capsule over RDMA: a page, whose write so needs no RDMA Read. The receives of a queue are there for as long as the queue is (NVMe RDMA
/// Transport §3.1, CRQSIZE), half a MiB for 128 entries, so that more would cost memory whether it is used or not.
pub const RDMA_IN_CAPSULE: u32 = 4096;

/// PDUs that wait to be sent before a controller stops reading: a peer that does not read what it asked for is held back. To them come as many for each command
/// for which there is memory: [`UNSENT_OF_SLOT`]. A host needs no such limit: what it sends answers one command or one R2T of its own each, and it has no more of
/// them than its queue.
pub const UNSENT: usize = 64;

/// What a command may have waiting to be sent: an R2T and its end.
pub const UNSENT_OF_SLOT: usize = 2;

/// Commands of a queue for which there is memory whatever other connections hold; for more there is when it is free. This many keep a host busy that must
/// do with a block at a time anyway.
pub const FIRST_SLOTS: u16 = 32;

/// Bytes of answers that a connection may hold although there is no memory for them: an identify structure. With more, nothing more is received while they wait.
pub const OVERDRAFT: usize = 4096;

/// Bytes of identify data, log pages and reports that wait to be sent before a controller stops reading: what hosts ask for at a time fits,
/// and a longer answer goes out alone.
pub const UNSENT_BYTES: usize = 65_536;

/// How long a command's data may make no progress before the command ends: as long as hosts wait for a command.
pub const DATA_TIME: Duration = Duration::from_secs(30);

/// The same while others wait for memory, if no data comes at all on the connection: a little longer than TCP takes to send again what was lost
/// twice.
pub const SCARCE_DATA_TIME: Duration = Duration::from_secs(5);

/// How long a host may read nothing of what is sent to it.
pub const SEND_TIME: Duration = Duration::from_secs(45);

/// The same while others wait for memory.
pub const SCARCE_SEND_TIME: Duration = Duration::from_secs(10);

/// How long an admin queue's stream waits for memory before the command that needs it is answered that it may be tried again: a part of the shortest
/// keep alive timeout in use, as a Keep Alive may come behind it.
pub const STARVED_TIME: Duration = Duration::from_secs(1);

/// How long a host sends no data in capsules once the controller had no memory for it: as long as whoever holds what others wait for may keep it
/// ([`SCARCE_SEND_TIME`]).
pub const ASKED_TIME: Duration = SCARCE_SEND_TIME;

/// How often a controller looks at what holds its memory: precise enough for the times above, and too seldom to cost anything.
pub const WATCH: Duration = Duration::from_secs(1);

/// Bytes of the longest transfer of a controller at least, whatever its volumes say: two pages, the least that MDTS can say beside one.
pub const LEAST_TRANSFER: u32 = 8192;

/// Commands beyond the queue's size that are accepted: Linux fills a queue to its last entry.
pub const SLOT_SLACK: u16 = 8;

/// Ranges in one Dataset Management command; the field cannot say more (NVM Command Set §3.2.3).
pub const RANGES: usize = 256;

/// The longest log page piece, identify structure or Reservation Report that one command transfers, in bytes.
pub const ADMIN_DATA: usize = 1 << 20;

/// Bytes of a Reservation Report that a host asks for: 64, and as many for each of the 512 registrants that one of our
/// controllers knows at most.
pub const REPORT: u32 = 64 + 512 * 64;

/// Allocation runs that a controller looks at for one Get LBA Status: it answers in bounded time, and says that there is more.
pub const ALLOCATION_QUERIES: usize = 256;

/// Get LBA Status commands that a host has under way at a time: the admin queue keeps places for Keep Alive and events.
pub const ALLOCATION_COMMANDS: usize = 8;

/// Blocks in one NVM command: the length field has 16 bits and counts from zero.
pub const BLOCKS_PER_COMMAND: u64 = 1 << 16;

/// Bytes that a host reads or writes at a time for a command that the controller does not have: to verify, or to zero.
pub const AT_ONCE: u32 = 1 << 20;

/// Controllers of all subsystems of one process: what 16-bit identifiers allow without the reserved ones.
pub const CONTROLLERS: u16 = 0xffe0;

/// How long a host waits for the controller to become ready when CAP.TO says less, and for any admin command.
pub const ADMIN_TIME: Duration = Duration::from_mins(1);

/// How long a host waits for a command on an I/O queue before it gives the connection up, unless it is told otherwise: what
/// Linux' host waits.
pub const COMMAND_TIME: Duration = Duration::from_secs(30);

/// How long a host waits for its Disconnect or shutdown to be answered.
pub const DISCONNECT_TIME: Duration = Duration::from_secs(2);

/// How long a host waits between two looks at CSTS.
pub const READY_POLL: Duration = Duration::from_millis(10);

/// Entries that a host accepts in a discovery log page.
pub const DISCOVERY_ENTRIES: u64 = 4096;

/// How long a host reads a discovery log page: 4,096 entries take it 600 commands, which a service in another continent answers in
/// two minutes.
pub const DISCOVERY_TIME: Duration = Duration::from_mins(2);

/// How often a host reads a discovery log page again because it changed while being read.
pub const DISCOVERY_RETRIES: u32 = 8;

/// Bytes of a discovery log page that a host asks for at a time, header and seven entries: within any MDTS.
pub const DISCOVERY_CHUNK: u32 = 8192;

/// How long commands that wait for memory wait before they look again, if nobody tells that there is some: a connection that
/// shares its core with others is told, so that this may be long.
pub const MEMORY_RETRY: Duration = Duration::from_millis(100);
