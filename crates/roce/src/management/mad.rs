//! The messages of connection management as they are on the wire: a management datagram of 256 bytes (IBTA §13.4.2, §12.6; annex A11 for RDMA over IP).

use wire::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::header::U24;

/// Bytes of every management datagram.
pub(super) const MAD: usize = 256;
/// Bytes behind the common header.
pub(super) const BODY: usize = MAD - size_of::<MadHeader>();

const VERSION: u8 = 1;
const CLASS: u8 = 7;
const CLASS_VERSION: u8 = 2;
const SEND: u8 = 3;

/// What a message is.
pub(super) mod attribute {
    pub(crate) const REQUEST: u16 = 0x10;
    pub(crate) const RECEIPT: u16 = 0x11;
    pub(crate) const REJECT: u16 = 0x12;
    pub(crate) const REPLY: u16 = 0x13;
    pub(crate) const READY: u16 = 0x14;
    pub(crate) const DISCONNECT: u16 = 0x15;
    pub(crate) const DISCONNECTED: u16 = 0x16;
}

/// The common header.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct MadHeader {
    version: u8,
    class: u8,
    class_version: u8,
    method: u8,
    status: U16,
    class_specific: U16,
    pub(super) transaction: U64,
    pub(super) attribute: U16,
    reserved: U16,
    modifier: U32,
}

impl MadHeader {
    pub(super) fn new(attribute: u16, transaction: u64) -> Self {
        Self {
            version: VERSION,
            class: CLASS,
            class_version: CLASS_VERSION,
            method: SEND,
            status: U16::ZERO,
            class_specific: U16::ZERO,
            transaction: U64::new(transaction),
            attribute: U16::new(attribute),
            reserved: U16::ZERO,
            modifier: U32::ZERO,
        }
    }

    /// It begins a message of connection management.
    pub(super) const fn is_management(&self) -> bool {
        self.version == VERSION
            && self.class == CLASS
            && self.class_version == CLASS_VERSION
            && self.method == SEND
    }
}

/// Wants a connection (REQ, IBTA §12.6.5).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Req {
    pub(super) local_id: U32,
    reserved: U32,
    pub(super) service: U64,
    pub(super) guid: U64,
    reserved_too: U32,
    queue_key: U32,
    pub(super) queue_pair: U24,
    pub(super) responder_resources: u8,
    local_context: U24,
    pub(super) initiator_depth: u8,
    remote_context: U24,
    /// Five bits of time, two of the service, one of flow control.
    remote_response: u8,
    pub(super) sequence: U24,
    /// Five bits of time, three of a count.
    local_response: u8,
    partition: U16,
    /// Four bits of the path MTU, one, three of a count.
    mtu: u8,
    /// Four bits of a count, one of shared receive queues, three of a transport.
    retries: u8,
    pub(super) primary: PathRecord,
    alternate: PathRecord,
    pub(super) private_data: [u8; 92],
}

/// A path in a request.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct PathRecord {
    local_lid: U16,
    remote_lid: U16,
    pub(super) local_gid: [u8; 16],
    pub(super) remote_gid: [u8; 16],
    flow_label: U24,
    /// Two bits reserved, six of a rate.
    rate: u8,
    traffic_class: u8,
    hop_limit: u8,
    service_level: u8,
    /// Five bits of time.
    acknowledge_time: u8,
}

/// A port without an LID, as all of Ethernet are.
const NO_LID: U16 = U16::new(0xffff);
const DEFAULT_PARTITION: U16 = U16::new(0xffff);
/// Ten gigabits a second; nobody acts on it.
const RATE: u8 = 3;
const HOP_LIMIT: u8 = 64;
const TIME_SHIFT: u32 = 3;
const COUNT: u8 = 0b111;
const SERVICE: u8 = 0b111;
const MTU_SHIFT: u32 = 4;

/// What a request says in parts of bytes. Times are exponents of two, in units of 4.096 µs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Small {
    pub(super) mtu: u8,
    pub(super) retries: u8,
    pub(super) not_ready_retries: u8,
    pub(super) response_time: u8,
    pub(super) acknowledge_time: u8,
    pub(super) management_retries: u8,
}

impl Req {
    /// With those small numbers; all else is zero, as the default.
    pub(super) fn new(small: Small) -> Self {
        let mut req = Self::new_zeroed();
        req.remote_response = small.response_time << TIME_SHIFT;
        req.local_response = (small.response_time << TIME_SHIFT) | small.retries;
        req.partition = DEFAULT_PARTITION;
        req.mtu = (small.mtu << MTU_SHIFT) | small.not_ready_retries;
        req.retries = small.management_retries << MTU_SHIFT;
        (req.primary.local_lid, req.primary.remote_lid) = (NO_LID, NO_LID);
        (req.primary.rate, req.primary.hop_limit) = (RATE, HOP_LIMIT);
        req.primary.acknowledge_time = small.acknowledge_time << TIME_SHIFT;
        req
    }

    pub(super) const fn small(&self) -> Small {
        Small {
            mtu: self.mtu >> MTU_SHIFT,
            retries: self.local_response & COUNT,
            not_ready_retries: self.mtu & COUNT,
            response_time: self.local_response >> TIME_SHIFT,
            acknowledge_time: self.primary.acknowledge_time >> TIME_SHIFT,
            management_retries: self.retries >> MTU_SHIFT,
        }
    }

    /// It wants a reliable connection.
    pub(super) const fn is_reliable(&self) -> bool {
        self.remote_response & SERVICE & !1 == 0 && self.retries & COUNT == 0
    }
}

/// Grants a connection (REP, IBTA §12.6.8).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Rep {
    pub(super) local_id: U32,
    pub(super) remote_id: U32,
    queue_key: U32,
    pub(super) queue_pair: U24,
    reserved: u8,
    context: U24,
    reserved_too: u8,
    pub(super) sequence: U24,
    reserved_three: u8,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    /// Five bits of time, two of failover, one of flow control.
    acknowledge_delay: u8,
    /// Three bits of a count, one of shared receive queues.
    not_ready: u8,
    pub(super) guid: U64,
    pub(super) private_data: [u8; 196],
}

const NOT_READY_SHIFT: u32 = 5;

impl Rep {
    pub(super) fn new(not_ready_retries: u8, acknowledge_delay: u8) -> Self {
        let mut rep = Self::new_zeroed();
        rep.not_ready = not_ready_retries << NOT_READY_SHIFT;
        rep.acknowledge_delay = acknowledge_delay << TIME_SHIFT;
        rep
    }

    pub(super) const fn not_ready_retries(&self) -> u8 {
        self.not_ready >> NOT_READY_SHIFT
    }
}

/// Says no (REJ, IBTA §12.6.7).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Rej {
    pub(super) local_id: U32,
    pub(super) remote_id: U32,
    /// Two bits of what is rejected.
    message: u8,
    length: u8,
    pub(super) reason: U16,
    information: [u8; 72],
    pub(super) private_data: [u8; 148],
}

const MESSAGE_SHIFT: u32 = 6;

impl Rej {
    /// Rejects a message, by its code of two bits.
    pub(super) fn new(message: u8) -> Self {
        let mut rej = Self::new_zeroed();
        rej.message = message << MESSAGE_SHIFT;
        rej
    }

    pub(super) const fn message(&self) -> u8 {
        self.message >> MESSAGE_SHIFT
    }
}

/// Asks for patience (MRA, IBTA §12.6.6).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Mra {
    pub(super) local_id: U32,
    pub(super) remote_id: U32,
    message: u8,
    /// Five bits of time.
    time: u8,
    private_data: [u8; 222],
}

impl Mra {
    pub(super) const fn time(&self) -> u8 {
        self.time >> TIME_SHIFT
    }
}

/// Says which connection (RTU and DREP, IBTA §12.6.9 and §12.6.11).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Named {
    pub(super) local_id: U32,
    pub(super) remote_id: U32,
    private_data: [u8; 224],
}

impl Named {
    pub(super) fn new(local_id: u32, remote_id: u32) -> Self {
        Self { local_id: U32::new(local_id), remote_id: U32::new(remote_id), private_data: [0; 224] }
    }
}

/// Ends a connection (DREQ, IBTA §12.6.10).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Dreq {
    pub(super) local_id: U32,
    pub(super) remote_id: U32,
    pub(super) queue_pair: U24,
    reserved: u8,
    private_data: [u8; 220],
}

impl Dreq {
    pub(super) fn new(local_id: u32, remote_id: u32) -> Self {
        let mut dreq = Self::new_zeroed();
        (dreq.local_id, dreq.remote_id) = (U32::new(local_id), U32::new(remote_id));
        dreq
    }
}

/// What stands before a consumer's private data in a request over IP (IBTA annex A11.4).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct IpHeader {
    version: u8,
    /// Four bits of the version of IP.
    ip_version: u8,
    pub(super) source_port: U16,
    pub(super) source: [u8; 16],
    pub(super) destination: [u8; 16],
}

const IP_SHIFT: u32 = 4;

impl IpHeader {
    pub(super) fn new(ip_version: u8) -> Self {
        let mut header = Self::new_zeroed();
        header.ip_version = ip_version << IP_SHIFT;
        header
    }

    /// The version of IP; none of another version of this header.
    pub(super) const fn ip_version(&self) -> Option<u8> {
        if self.version >> IP_SHIFT == 0 { Some(self.ip_version >> IP_SHIFT) } else { None }
    }
}

const _: () = assert!(size_of::<MadHeader>() == 24 && size_of::<IpHeader>() == 36);
const _: () = assert!(size_of::<Req>() == BODY && size_of::<Rep>() == BODY && size_of::<Rej>() == BODY);
const _: () = assert!(size_of::<Mra>() == BODY && size_of::<Named>() == BODY && size_of::<Dreq>() == BODY);
