//! Every limit of this crate, with its unit and the reason for its value.

use core::time::Duration;

/// Bytes of payload in one packet: the largest path MTU that the InfiniBand architecture names. What is longer is refused.
pub const PAYLOAD: usize = 4096;

/// Bytes of the longest message or memory access: as many packets as a quarter of the sequence numbers, at the least path MTU. With what is under way already it stays
/// below half of the numbers, so that old and new ones cannot be mistaken (IBTA §9.7.1).
pub const LONGEST: usize = 1 << 30;

/// Sequence numbers that may be under way before another request begins: see [`LONGEST`].
pub const SEQUENCE_NUMBERS: u32 = 1 << 22;

/// Packets that are sent or asked for beyond the oldest one that has not come: at the largest path MTU they fit into twice Linux' default buffer of a socket, which counts a
/// half of itself.
pub const WINDOW: u32 = 48;

/// The same after losses, at least: the peer acknowledges every so many packets ([`ACKNOWLEDGED_PACKETS`]), and a read is asked for in as many ([`READ_PACKETS`]). With fewer,
/// nothing might come until the time is over.
pub const LEAST_WINDOW: u32 = 16;

/// Packets after which an acknowledgement is asked for inside of a message: a third of [`WINDOW`], so that it is never used up before one can have come.
pub const ACKNOWLEDGED_PACKETS: u32 = 16;

/// Packets of a response that one request asks for: a third of [`WINDOW`], so that the next part is on its way while one comes. A longer read takes several requests. One request for
/// a megabyte had the peer send all that was left again for each packet that was lost.
pub const READ_PACKETS: u32 = 16;

/// RDMA Reads that may be under way in one direction: as many as Linux' rxe serves.
pub const READS: u8 = 128;

/// How long a requester waits for an acknowledgement before it sends again: far above what a busy peer in user space needs, for losses are mostly told by the peer
/// (IBTA §9.7.6.1.3).
pub const ACKNOWLEDGE_TIME: Duration = Duration::from_millis(100);

/// By how much the wait grows at most, doubled at each attempt.
pub const ACKNOWLEDGE_BACKOFF: u32 = 16;

/// Attempts without an answer until the connection is lost: the largest number that connection management can name. With the waits it takes eight seconds.
pub const RETRIES: u8 = 7;

/// Attempts that connection management's largest number stands for: without end (IBTA §9.7.5.2.8).
pub const ENDLESS_RETRIES: u8 = 7;

/// How long a message of connection management waits for its answer before it is sent again.
pub const MANAGEMENT_TIME: Duration = Duration::from_secs(1);

/// How often such a message is sent, at most. Linux' retries take about a minute; its applications give up before.
pub const MANAGEMENT_ATTEMPTS: u8 = 10;

/// How often the wish to disconnect is sent: a peer that is gone does not answer.
pub const DISCONNECT_ATTEMPTS: u8 = 4;

/// How long a peer may ask us to wait for its decision, at most (MRA, IBTA §12.6.6).
pub const SERVICE_TIME: Duration = Duration::from_mins(1);

/// How long a consumer may take to decide on a request: as long as a peer sends it again.
pub const DECISION_TIME: Duration = Duration::from_secs(30);

/// Bytes of private data of a consumer in a request: what the header of RDMA over IP leaves of its 92 (IBTA annex A11).
pub const REQUEST_PRIVATE_DATA: usize = 56;

/// Bytes of private data in a reply (IBTA §12.6.8).
pub const REPLY_PRIVATE_DATA: usize = 196;

/// Bytes of private data in a rejection (IBTA §12.6.7).
pub const REJECT_PRIVATE_DATA: usize = 148;

/// Queue pairs of one endpoint: more than a core serves.
pub const QUEUE_PAIRS: usize = 4096;

/// Answers of an endpoint that wait to be sent, to messages that belong to no connection of it. Further ones are left out: whoever needs one asks again.
pub const ANSWERS: usize = 16;

/// Packets in one train: what Linux takes in one call with UDP segmentation offload, before 6.10.
pub const TRAIN_PACKETS: usize = 64;

/// Bytes of one train, without the headers of UDP and IP: what one datagram of IPv4 may have.
pub const TRAIN_BYTES: usize = 65_000;
