//! Every number of the loop, with its unit and its reason.

use std::time::Duration;

/// Bytes of one staging area. A smaller one doubles the cost of 4 KiB requests (docs/data-path.md rule 5).
pub(crate) const STAGING: usize = 256 * 1024;
/// Staging areas of that size per core. While all are in use, others have a spare area each.
pub(crate) const STAGING_AREAS: usize = 64;
/// Per cent of the staging areas that connections may hold while they wait for bytes, which saves each of them a poll. Those of a
/// thousand others are served with the rest.
pub(crate) const HELD_AREAS: usize = 75;
/// Bytes that a turn moves in each direction at most, about: a quarter of a millisecond's copying where they lie in the cache. A connection that has more to
/// send sends it in the next one.
pub(crate) const TURN_BUDGET: usize = 1 << 20;
/// The same where bytes take long, at least. Less would cost more in system calls than other connections gain.
pub(crate) const LEAST_TURN: usize = 256 * 1024;
/// Processor time of a turn above which the next ones move less: half of a stall.
pub(crate) const GOAL: Duration = Duration::from_micros(500);
/// Bytes of the kernel's send buffer towards a peer on the same machine; the kernel doubles it for its own bookkeeping. Nothing is on the way there, so that
/// all that is sent ahead only leaves the cache: eight readers of 1 MiB over iSCSI get twice as much as with the system's own 4 MiB. Less slows down a
/// single writer.
pub(crate) const NEAR_SEND_BUFFER: usize = 1 << 20;
/// Bytes of a socket that wait in the kernel for room in the windows, about. With more, packets overtake each other by the thousand over a veth, and TCP
/// sends again what was not lost; with half of it, 64 KiB reads lose a tenth there (decision 0009).
pub(crate) const UNSENT: u32 = 256 * 1024;
/// Bytes of one send, about, of a connection that has the core for itself: as many as the kernel's buffer holds, so that the kernel has something to send
/// while the next requests are worked off. Half of it costs a tenth and more of what 64 KiB reads at depth 32 come to; twice as much makes long turns.
pub(crate) const SEND_BUDGET: usize = 2 << 20;
/// The same while other connections have had something to do lately: what one turn may spend on one of them. A reader of large blocks then delays a
/// reader of small ones by some tens of microseconds a turn. Less would cost it more system calls than that is worth.
pub(crate) const SEND_SHARE: usize = 256 * 1024;
/// Bytes that a receive may bring however many connections receive at the same moment.
pub(crate) const LEAST_SHARE: usize = 32 * 1024;
/// Turns for which a core remembers that more than one connection had something to do. Who waits for the answer to a small read is
/// away for a few of a large reader's turns.
pub(crate) const SHARED_TURNS: u32 = 16;
/// Pieces of one send, about: half of the kernel's `IOV_MAX`, as one PDU may exceed the budget.
pub(crate) const SEND_SEGMENTS: usize = 512;
/// Pieces for which a send has room at once: 32 answers with a header and data each.
pub(crate) const USUAL_VECTORS: usize = 64;
/// Pieces that one system call takes (`IOV_MAX`).
pub(crate) const MOST_VECTORS: usize = 1024;
/// Bytes of a spare staging area: more than any protocol asks for, and what each of so many connections receives at once (`LEAST_SHARE`).
pub(crate) const SPARE_STAGING: usize = 32 * 1024;
/// Connections per core.
pub(crate) const CONNECTIONS: usize = 16 * 1024;
/// How long a core looks for completions before it sleeps, while work is expected (rule 7).
pub(crate) const SPIN: Duration = Duration::from_micros(50);
/// Sleeps that follow without a spin after spins in vain, at most.
pub(crate) const SPIN_PENALTY: u32 = 64;
/// Looks at the completion queue between two looks at the clock while spinning.
pub(crate) const SPIN_STRIDE: u32 = 32;
/// Time between two looks at the thread's own clock, at least: a look costs half a microsecond, so all of them cost 0.2 % at most.
pub(crate) const SPACING: Duration = Duration::from_micros(250);
/// Processor time of one turn above which it is a stall: other connections have waited for as long as a fast drive takes for ten I/Os.
pub(crate) const STALL: Duration = Duration::from_millis(1);
/// A connection that received nothing for this long gives its staging area back.
pub(crate) const QUIET: Duration = Duration::from_millis(100);
/// How long a listener backs off when the process or the system has no descriptor left.
pub(crate) const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Bytes that one call receives: those of the longest datagram, or of so many shorter ones as the kernel gathers.
pub(crate) const DATAGRAM_AREA: usize = 64 * 1024;
/// Calls that receive from one socket before others have a look in: a megabyte.
pub(crate) const RECEIVES_AT_ONCE: usize = 16;
/// Bytes of a socket's buffers for datagrams, each way: what is sent meanwhile to a core that is busy for a millisecond at 25 Gbit/s. The kernel counts its own structures too, up to as much
/// again; without the privilege to force it, the system's limit holds.
pub(crate) const DATAGRAM_BUFFER: i32 = 4 << 20;
/// Bytes of datagrams, and of what is kept of each call's worth of them, that wait for the event loop to which another one has forwarded them: what a card has put together of several peers,
/// and messages of management. Four calls at their longest, or some thousand messages. More are lost, as on the way.
pub(crate) const FORWARDED: usize = 256 * 1024;
/// How long a send waits that found no room in its socket: what the buffer holds goes out within a few of them.
pub(crate) const SEND_RETRY: Duration = Duration::from_micros(500);
/// Streams that one look at a listener accepts, of which a turn has two at most, so that connections are served in between.
pub(crate) const ACCEPTS_PER_TURN: usize = 64;
/// Streams that wait to be accepted (the kernel's own limit may be lower).
pub(crate) const BACKLOG: i32 = 1024;
/// How long a closed stream's peer may take to close its side, before the rest is cut off; also how long what was ready
/// to be sent may take once the peer has closed its side.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
/// How long the last sends of a connection that is to be closed may take.
pub(crate) const LAST_SENDS: Duration = Duration::from_secs(5);
/// How long a connection attempt may take at most; an endpoint may give it less.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);
/// How long endpoints of sockets for datagrams may take to say that the loop ends, and to hear the answers: a word that was lost is said again after a second.
pub(crate) const LAST_DATAGRAMS: Duration = Duration::from_millis(1500);
/// How long streams may take to say to their peers that the loop ends, and to hear the answers: three round trips to another continent, and a little.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(1500);
/// How long endpoints may take to become idle when the loop ends.
pub(crate) const SHUTDOWN: Duration = Duration::from_secs(5);
/// Times that the service is asked again within one turn before the sockets get a look in.
pub(crate) const SERVICE_ROUNDS: usize = 16;
/// Submission queue entries. A turn that needs more submits in between.
pub(crate) const RING_ENTRIES: u32 = 512;
/// Completion queue entries; the kernel keeps what overflows.
pub(crate) const RING_COMPLETIONS: u32 = 4096;
/// Events that one `epoll_wait` takes.
pub(crate) const EPOLL_EVENTS: usize = 256;
/// Turns in a row that may be served from what is known to be ready before epoll is asked again.
pub(crate) const EPOLL_SKIPS: u32 = 2;
/// File operations that the kernel gets at a time: it hands all of them to the drive together, at the end, and spends some microseconds on each before. A
/// drive that gets 32 at once stands still that long (0.79 of fio's reads in place of 0.99).
pub(crate) const FILES_AT_ONCE: usize = 4;
/// Requests that a core's queue of one file takes at a time.
pub(crate) const FILE_DEPTH: usize = 1024;
/// Threads for operations that block, for the whole process: enough to keep a drive busy, few enough to be cheap.
pub(crate) const FILE_THREADS: usize = 8;
/// Pieces of one blocking write.
pub(crate) const FILE_SLICES: usize = 64;

/// How long a listening address may still be in use: the kernel takes a killed process' io_uring apart after the process is gone, and
/// its sockets with it.
pub(crate) const BIND_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between two attempts to take such an address.
pub(crate) const BIND_RETRY: Duration = Duration::from_millis(20);
/// Operations on files that a turn does itself: a quarter of what clients usually have under way, so that what follows upon the first begins while the others are
/// done.
pub(crate) const FILES_PER_TURN: usize = 8;
/// Bytes that it copies with that, about: one operation of the largest that are usual.
pub(crate) const FILE_BYTES_PER_TURN: usize = 64 << 10;
/// Bytes of memory for one look at a directory at most: some hundred names.
pub(crate) const LISTING_BYTES: usize = 32 << 10;
/// Bytes of one name in it, as most are: 19 before the name, and a name of up to 20 (`struct linux_dirent64`).
pub(crate) const DIRENT_BYTES: usize = 40;
/// Bytes of the longest name in it.
pub(crate) const LONGEST_DIRENT: usize = (19 + NAME_BYTES + 1).next_multiple_of(8);
/// Bytes of the longest name in a directory (NAME_MAX).
pub(crate) const NAME_BYTES: usize = 255;
