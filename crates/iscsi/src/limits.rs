//! Every number of this crate, with its unit, its reason and the section it comes from.

use core::time::Duration;

/// Bytes of a basic header segment (RFC 7143 §11.2.1).
pub const BHS: usize = 48;
/// Bytes of a digest (RFC 7143 §13.1).
pub const DIGEST: usize = 4;
/// The most bytes of additional header segments that TotalAHSLength, counted in words, can announce (RFC 7143 §11.2.1.5).
pub const MOST_AHS: usize = 255 * 4;
/// The longest CDB, with the extended-CDB segment: 16 bytes in the header and 244 more (SPC-4 §4.2.3).
pub const LONGEST_CDB: usize = 260;
/// Data segments up to this many bytes are taken whole from staging, and copied where they belong: below about this size a
/// copy is cheaper than a receive of its own. It is also the default MaxRecvDataSegmentLength (RFC 7143 §13.12), so that
/// every login and text PDU is staged.
pub const STAGED: usize = 8192;
/// What must fit into staging at once: the largest header, a staged data segment with its padding, and both digests.
pub const STAGING: usize = BHS + MOST_AHS + DIGEST + STAGED + 3 + DIGEST;

/// Bytes of the largest block that a volume may have.
pub const LARGEST_BLOCK: usize = 4096;
/// Bytes of zeros that an initiator writes at a time where a unit refuses WRITE SAME: a usual size.
pub const ZEROS_AT_ONCE: u32 = 1 << 20;

/// Bytes of the header that stands before each PDU over RDMA (RFC 7145 §9.2).
pub const ISER_HEADER: usize = 28;
/// TargetRecvDataSegmentLength, in bytes: the default of RFC 7145 §6, and what Linux' initiator asks for. Data in a command's own PDU saves an RDMA Read up to this.
pub const RDMA_SEGMENT: u32 = 8192;
/// InitiatorRecvDataSegmentLength of an initiator, in bytes: sense data and little else comes to it in PDUs, and each command needs a receive of this size.
pub const RDMA_RESPONSE_SEGMENT: u32 = 1024;
/// Bytes of a data segment for which the receives of Linux' initiator and of libiscsi have room after the login, whatever they declare: no response may be longer.
pub const LINUX_RECEIVE: usize = 128;
/// MaxOutstandingUnexpectedPDUs of this side (RFC 7145 §6): pings, their answers, task management, rejects and asynchronous messages for which it has receives.
pub const UNEXPECTED_PDUS: u32 = 8;
/// Receives that each side has for a login's PDUs, of which one comes at a time; and one to spare.
pub const LOGIN_RECEIVES: usize = 2;
/// Bytes behind the headers of a message for which a buffer is kept and used again: sense data of any length, with its own length.
pub const SHORT_MESSAGE: usize = 260;
/// Commands over RDMA that may wait for their memory to be registered, beyond which none leaves the window's queue.
pub const COMMANDS_AHEAD: usize = 64;
/// Buffers of a size that a connection over RDMA keeps for its next messages, at most: those of as many commands or answers as may be under way.
pub const KEPT_MESSAGES: usize = 256;

/// MaxRecvDataSegmentLength until it is declared, in bytes (RFC 7143 §13.12).
pub const DEFAULT_SEGMENT: u32 = 8192;
/// The smallest value of the length keys, in bytes (RFC 7143 §13.12 to §13.14).
pub const LEAST_LENGTH: u32 = 512;
/// The largest value of the length keys, in bytes: 2^24 − 1 (RFC 7143 §13.12 to §13.14).
pub const MOST_LENGTH: u32 = (1 << 24) - 1;
/// What this side receives in one data segment, in bytes: large enough that per-PDU costs vanish (docs/data-path.md rule 9).
pub const SEGMENT: u32 = 262_144;
/// Unsolicited data per command, in bytes: saves the R2T's round trip for writes up to this size.
pub const FIRST_BURST: u32 = 262_144;
/// Data per R2T or Data-In sequence, in bytes.
pub const MAX_BURST: u32 = 1 << 20;
/// R2Ts that may be open for one task.
pub const OUTSTANDING_R2T: u16 = 4;
/// The most of MaxOutstandingR2T that the target's task keeps track of, whatever is configured.
pub const MOST_R2T: u16 = 8;
/// DefaultTime2Wait and DefaultTime2Retain, in seconds (RFC 7143 §13.15, §13.16). Nothing is retained at
/// ErrorRecoveryLevel 0, so an initiator may come back at once.
pub const TIME2WAIT: u16 = 0;
/// See [`TIME2WAIT`].
pub const TIME2RETAIN: u16 = 0;

/// The longest key name in bytes (RFC 7143 §6.1).
pub const LONGEST_KEY: usize = 63;
/// The longest value in bytes, unless a key says otherwise (RFC 7143 §6.1).
pub const LONGEST_VALUE: usize = 255;
/// The longest large binary value in bytes, encoded: 1024 bytes and their prefix in hexadecimal (RFC 7143 §12.1.3).
pub const LONGEST_BINARY: usize = 2 + 2 * 1024;
/// The most keys in one login or text exchange: three times as many as the standard defines.
pub const MOST_KEYS: usize = 96;
/// The most text in one login or text exchange over all its PDUs, in bytes: eight full PDUs, as RFC 7143 §6.2 obliges a
/// target to take 64 KiB at most.
pub const MOST_TEXT: usize = 65_536;
/// The most login requests before the login must be over: a mutual CHAP login takes five.
pub const MOST_LOGIN_PDUS: u32 = 64;
/// How long a login may take.
pub const LOGIN_TIME: Duration = Duration::from_secs(15);
/// The challenge that this side sends, in bytes; RFC 1994 asks for enough randomness never to repeat.
pub const CHALLENGE: usize = 32;
/// The longest challenge that is accepted, in bytes (RFC 7143 §12.1.3).
pub const LONGEST_CHALLENGE: usize = 1024;
/// Below this many bytes a CHAP secret is called weak (RFC 7143 §9.2.1: 96 bits).
pub const WEAK_SECRET: usize = 12;

/// Commands that one session may have outstanding: the width of the CmdSN window at most. Linux' default asks for 128.
pub const QUEUE_DEPTH: u16 = 128;
/// The width with which a window begins, in commands. It becomes wider when it is used up and there is memory for more tasks, so that a session that was
/// promised a command has room for it, whatever others hold; until then this many keep a client busy that must do with a block at a time anyway.
pub const FIRST_DEPTH: u16 = 32;
/// Immediate commands that may be outstanding beyond the window (RFC 7143 §4.2.2.1 leaves it to the target).
pub const IMMEDIATE_DEPTH: u16 = 16;
/// Task management functions that may wait for tasks to end.
pub const MANAGEMENT_DEPTH: usize = 16;
/// How long a task management function waits for tasks to end before it is answered "function rejected" (RFC 7143 §11.6.1): less than
/// the 15 s after which open-iscsi gives an abort up, so that an initiator hears that it failed and takes the next step. The tasks stay
/// aborted.
pub const MANAGEMENT_TIME: Duration = Duration::from_secs(10);
/// PDUs that may wait to be sent before no more bytes are received, for each task that there may be: its answer, and a ping's or an R2T.
pub const OUTBOUND: usize = 2;
/// Bytes of text and answers that a connection may hold although there is no memory for them: what a login or a ping takes. With more, its text ends it, and
/// nothing more is received while its answers wait.
pub const OVERDRAFT: usize = 8192;
/// Bytes of echoes, text and parameter data that may wait to be sent before no more bytes are received: eight of the longest echoes.
pub const OUTBOUND_BYTES: usize = 65_536;
/// Commands that an initiator takes before it answers that its queue is full.
pub const INITIATOR_DEPTH: u16 = 256;

/// Bytes of answers to a target's pings that may wait to be sent before an initiator receives nothing more: 64 KiB, which is hundreds of
/// pings, where a target that is not answered sends one (RFC 7143 §11.18 obliges to answer each).
pub const ANSWERS: usize = 64 << 10;
/// The most text that a target may answer to SendTargets, in bytes: 4 MiB are the names and addresses of 50,000 targets.
pub const DISCOVERED_TEXT: usize = 4 << 20;
/// The most text responses that a SendTargets exchange may take: [`DISCOVERED_TEXT`] in pieces of 4 KiB.
pub const MOST_TEXT_PDUS: u32 = 1024;
/// How long a discovery session may take from its login to its answer.
pub const DISCOVERY_TIME: Duration = Duration::from_mins(1);

/// Silence of the peer after which a ping (NOP-In or NOP-Out) is sent.
pub const IDLE_TIME: Duration = Duration::from_secs(30);
/// Silence after such a ping after which the connection is given up.
pub const PING_TIME: Duration = Duration::from_secs(15);
/// Silence of the target after which an initiator sends a ping: open-iscsi's default, so that a target is used to it.
pub const INITIATOR_IDLE_TIME: Duration = Duration::from_secs(5);
/// How long an initiator waits for the answer to a ping before it gives the connection up (open-iscsi's default). Together
/// with [`INITIATOR_IDLE_TIME`] the longest that a frozen or vanished target goes unnoticed.
pub const INITIATOR_PING_TIME: Duration = Duration::from_secs(5);
/// How long an initiator waits for a command before it aborts the task.
pub const COMMAND_TIME: Duration = Duration::from_secs(30);
/// How long an initiator sends no unsolicited data once the target had no memory for it: as long as whoever holds what others wait for may keep it
/// ([`SCARCE_SEND_TIME`]).
pub const ASKED_TIME: Duration = SCARCE_SEND_TIME;
/// How long an initiator waits for the answer to the abort before it gives the connection up.
pub const ABORT_TIME: Duration = Duration::from_secs(15);
/// How long a command's data may make no progress before the command ends: as long as initiators wait for a command.
pub const DATA_TIME: Duration = Duration::from_secs(30);
/// The same while others wait for memory, if no data comes at all on the connection: a little longer than TCP takes to send again what was lost
/// twice.
pub const SCARCE_DATA_TIME: Duration = Duration::from_secs(5);
/// How long an initiator may read nothing of what is sent to it: [`IDLE_TIME`] and [`PING_TIME`], as whoever does not read hears no ping.
pub const SEND_TIME: Duration = Duration::from_secs(45);
/// The same while others wait for memory.
pub const SCARCE_SEND_TIME: Duration = Duration::from_secs(10);
/// How long the stream waits for memory for data that comes unsolicited before its command is answered BUSY: a part of the 5 s for which initiators wait for
/// the answer to a ping, which may come behind it.
pub const MEMORY_WAIT_TIME: Duration = Duration::from_secs(1);
/// How often a target looks at what holds its memory: precise enough for the times above, and too seldom to cost anything.
pub const WATCH: Duration = Duration::from_secs(1);
/// How long a discovery session may last: initiators log out within a second, operators who look by hand within minutes.
pub const DISCOVERY_SESSION_TIME: Duration = Duration::from_mins(5);
/// How long a new session waits until the one that it replaces has drained.
pub const REINSTATEMENT_TIME: Duration = Duration::from_secs(10);
/// How long the target waits for the logout that its last asynchronous message asked for, in seconds.
pub const LOGOUT_TIME: Duration = Duration::from_secs(3);
/// How long an initiator lets the target end a connection, over RDMA, once it has logged out: far more than an acknowledgement takes, and less than a person notices.
pub const TARGET_CLOSE_TIME: Duration = Duration::from_millis(500);
/// How long a logout or close may wait for requests to end before the answer goes out.
pub const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Sessions that a process serves: far below the 65,535 handles that a TSIH can name.
pub const SESSIONS: usize = 8192;
/// Bytes of NOP-Out ping data that are echoed (RFC 7143 §11.19 allows less than was sent).
pub const ECHO: usize = 8192;
/// Unit attentions in a row after which an initiator's command fails.
pub const RETRIES: u8 = 16;
