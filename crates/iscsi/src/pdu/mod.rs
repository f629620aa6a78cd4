//! The PDUs of RFC 7143 §11, each a fixed 48-byte basic header segment, one file per exchange.
//!
//! A header type is a *view*: it holds any 48 bytes, and its accessors name the fields. What is legal is the connection's
//! business. Sizes are checked when this is compiled: a conversion between a header and its bytes exists only if both have
//! 48 bytes. Golden vectors lie beside the types as `*.hex`.
//!
//! A constructor names the fields that it sets. The others are zero: what is reserved, what this side never uses, and the sequence numbers,
//! which are stamped when the PDU is sent.

mod asynchronous;
mod data;
mod login;
mod logout;
mod nop;
mod r2t;
mod reject;
mod scsi_command;
mod scsi_response;
mod snack;
mod task_management;
mod text;

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use asynchronous::{AsyncEvent, AsyncMessage};
pub use data::{DataIn, DataOut, DataRange, DataStatus, TaskTags};
pub use login::{LoginIdentity, LoginRequest, LoginResponse, Stage, Status};
pub use logout::{LogoutReason, LogoutRequest, LogoutResponse, LogoutTimes};
pub use nop::{NopIn, NopOut};
pub use r2t::R2t;
pub use reject::{Reason, Reject};
pub use scsi_command::{Ahs, ScsiCommand, extended_cdb};
pub(crate) use scsi_response::SenseSegment;
pub use scsi_response::{Residual, ScsiResponse};
pub use snack::Snack;
pub use task_management::{Function, FunctionResponse, TaskManagementRequest, TaskManagementResponse};
pub use text::{TextRequest, TextResponse};

/// The tag that names nothing, in either direction (RFC 7143 §11.2.1.8).
pub const RESERVED_TAG: u32 = 0xffff_ffff;

/// The raw bytes of a basic header segment.
pub type Bhs = [u8; 48];

/// A length in three bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub struct U24([u8; 3]);

impl U24 {
    /// The value.
    pub fn get(self) -> u32 {
        let [a, b, c] = self.0;
        u32::from_be_bytes([0, a, b, c])
    }

    /// The low 24 bits of `value`; segments are never longer.
    pub fn new(value: u32) -> Self {
        let [_, a, b, c] = value.to_be_bytes();
        Self([a, b, c])
    }
}

impl fmt::Debug for U24 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// What every header begins with (RFC 7143 §11.2.1).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct BasicHeaderSegment {
    opcode: u8,
    flags: u8,
    specific: [u8; 2],
    total_ahs_length: u8,
    data_segment_length: U24,
    lun: [u8; 8],
    initiator_task_tag: wire::big_endian::U32,
    rest: [u8; 28],
}

impl BasicHeaderSegment {
    /// What the PDU is.
    pub fn opcode(&self) -> Opcode {
        Opcode(self.opcode & 0x3f)
    }

    /// The I bit: the command is delivered out of order (RFC 7143 §11.2.1.1).
    pub fn immediate(&self) -> bool {
        self.opcode & 0x40 != 0
    }

    /// The F bit (RFC 7143 §11.2.1.3).
    pub fn is_final(&self) -> bool {
        self.flags & FINAL != 0
    }

    /// Bytes of additional header segments.
    pub fn ahs_length(&self) -> usize {
        usize::from(self.total_ahs_length) * 4
    }

    /// Bytes of the data segment without padding.
    pub fn data_length(&self) -> u32 {
        self.data_segment_length.get()
    }

    /// The initiator task tag.
    pub fn task_tag(&self) -> u32 {
        self.initiator_task_tag.get()
    }

    /// CmdSN, at the place where every numbered request has it (RFC 7143 §11.2.1).
    pub fn cmd_sn(&self) -> u32 {
        word(&self.rest, 4)
    }

    /// ExpStatSN in requests.
    pub fn exp_stat_sn(&self) -> u32 {
        word(&self.rest, 8)
    }

    /// StatSN in responses.
    pub fn stat_sn(&self) -> u32 {
        word(&self.rest, 4)
    }

    /// ExpCmdSN in responses.
    pub fn exp_cmd_sn(&self) -> u32 {
        word(&self.rest, 8)
    }

    /// MaxCmdSN in responses.
    pub fn max_cmd_sn(&self) -> u32 {
        word(&self.rest, 12)
    }
}

fn word(rest: &[u8; 28], at: usize) -> u32 {
    rest.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// The numbers that every response carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the standard's names")]
pub(crate) struct ResponseNumbers {
    pub(crate) stat_sn: u32,
    pub(crate) exp_cmd_sn: u32,
    pub(crate) max_cmd_sn: u32,
}

/// Writes a response's numbers into its header.
pub(crate) fn stamp_response(header: &mut Bhs, numbers: ResponseNumbers) {
    let ResponseNumbers { stat_sn, exp_cmd_sn, max_cmd_sn } = numbers;
    for (at, number) in [(24, stat_sn), (28, exp_cmd_sn), (32, max_cmd_sn)] {
        put_word(header, at, number);
    }
}

/// Writes CmdSN, unless the request has none, and ExpStatSN into a request's header.
pub(crate) fn stamp_request(header: &mut Bhs, cmd_sn: Option<u32>, exp_stat_sn: u32) {
    if let Some(cmd_sn) = cmd_sn {
        put_word(header, 24, cmd_sn);
    }
    put_word(header, 28, exp_stat_sn);
}

/// Writes the length of the data segment into a header.
pub(crate) fn stamp_length(header: &mut Bhs, length: usize) {
    let [_, high, middle, low] = wire::bounded::<u32>(length).to_be_bytes();
    if let Some(field) = header.get_mut(5..8) {
        field.copy_from_slice(&[high, middle, low]);
    }
}

fn put_word(header: &mut Bhs, at: usize, number: u32) {
    if let Some(field) = header.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *field = number.to_be_bytes();
    }
}

/// Bytes that round a data segment up to a multiple of four (RFC 7143 §11.2.3).
pub fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}

/// The opcode of a PDU (RFC 7143 §11.2.1.2). An open set: what is unknown stays what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opcode(pub u8);

impl Opcode {
    /// From the initiator: a ping, or the answer to one.
    pub const NOP_OUT: Self = Self(0x00);
    /// From the initiator: a SCSI command.
    pub const SCSI_COMMAND: Self = Self(0x01);
    /// From the initiator: a task management function.
    pub const TASK_MANAGEMENT_REQUEST: Self = Self(0x02);
    /// From the initiator: a login.
    pub const LOGIN_REQUEST: Self = Self(0x03);
    /// From the initiator: text keys.
    pub const TEXT_REQUEST: Self = Self(0x04);
    /// From the initiator: write data.
    pub const DATA_OUT: Self = Self(0x05);
    /// From the initiator: a logout.
    pub const LOGOUT_REQUEST: Self = Self(0x06);
    /// From the initiator: a selective acknowledgement.
    pub const SNACK: Self = Self(0x10);
    /// From the target: a ping, or the answer to one.
    pub const NOP_IN: Self = Self(0x20);
    /// From the target: a SCSI status.
    pub const SCSI_RESPONSE: Self = Self(0x21);
    /// From the target: the end of a task management function.
    pub const TASK_MANAGEMENT_RESPONSE: Self = Self(0x22);
    /// From the target: the login's next step.
    pub const LOGIN_RESPONSE: Self = Self(0x23);
    /// From the target: text keys.
    pub const TEXT_RESPONSE: Self = Self(0x24);
    /// From the target: read data.
    pub const DATA_IN: Self = Self(0x25);
    /// From the target: the end of a logout.
    pub const LOGOUT_RESPONSE: Self = Self(0x26);
    /// From the target: it is ready for write data.
    pub const R2T: Self = Self(0x31);
    /// From the target: something happened.
    pub const ASYNC_MESSAGE: Self = Self(0x32);
    /// From the target: a PDU was not acceptable.
    pub const REJECT: Self = Self(0x3f);
}

/// The F bit.
pub(crate) const FINAL: u8 = 0x80;
/// The I bit of a request's opcode.
pub(crate) const IMMEDIATE: u8 = 0x40;

/// Gives a header type its bytes and back.
macro_rules! basic_header {
    ($name:ident) => {
        impl $name {
            /// The header that these bytes are.
            pub fn from_bytes(bytes: &$crate::pdu::Bhs) -> Self {
                zerocopy::transmute!(*bytes)
            }

            /// The header's bytes.
            pub fn to_bytes(self) -> $crate::pdu::Bhs {
                zerocopy::transmute!(self)
            }
        }

        const _: () = assert!(size_of::<$name>() == 48);
    };
}
pub(crate) use basic_header;

basic_header!(BasicHeaderSegment);

#[cfg(test)]
mod golden {
    //! What the vectors' files hold: hexadecimal words, and after `#` what they are.

    use alloc::vec::Vec;

    /// The bytes of a vector.
    pub(crate) fn bytes(text: &str) -> super::Bhs {
        let digits: Vec<u8> = text
            .lines()
            .flat_map(|line| line.split('#').next().unwrap().bytes())
            .filter_map(|letter| char::from(letter).to_digit(16))
            .map(|digit| u8::try_from(digit).unwrap())
            .collect();
        let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect();
        bytes.try_into().expect("48 bytes")
    }

    #[test]
    fn padding_rounds_up_to_words() {
        assert_eq!([0, 1, 2, 3, 4, 5].map(super::padding), [0, 3, 2, 1, 0, 3]);
    }
}
