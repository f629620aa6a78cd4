//! Logout Request and Logout Response (RFC 7143 §11.14, §11.15).

use wire::big_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{FINAL, IMMEDIATE, Opcode, U24, basic_header};

/// Why the initiator logs out (RFC 7143 §11.14.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogoutReason(pub u8);

impl LogoutReason {
    /// The whole session ends.
    pub const CLOSE_SESSION: Self = Self(0);
    /// One connection ends.
    pub const CLOSE_CONNECTION: Self = Self(1);
    /// One connection is to be recovered.
    pub const RECOVERY: Self = Self(2);
}

/// The header of a Logout Request.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct LogoutRequest {
    opcode: u8,
    flags: u8,
    reserved2: [u8; 2],
    total_ahs_length: u8,
    data_segment_length: U24,
    reserved8: [u8; 8],
    initiator_task_tag: U32,
    cid: U16,
    reserved22: [u8; 2],
    cmd_sn: U32,
    exp_stat_sn: U32,
    reserved32: [u8; 16],
}

basic_header!(LogoutRequest);

impl LogoutRequest {
    /// An immediate logout.
    pub fn new(reason: LogoutReason, cid: u16, task_tag: u32) -> Self {
        Self {
            opcode: Opcode::LOGOUT_REQUEST.0 | IMMEDIATE,
            flags: FINAL | reason.0 & 0x7f,
            initiator_task_tag: U32::new(task_tag),
            cid: U16::new(cid),
            ..Self::new_zeroed()
        }
    }

    /// Why.
    pub fn reason(&self) -> LogoutReason {
        LogoutReason(self.flags & 0x7f)
    }

    /// Which connection; means nothing when the whole session ends.
    pub fn cid(&self) -> u16 {
        self.cid.get()
    }

    /// The initiator task tag.
    pub fn task_tag(&self) -> u32 {
        self.initiator_task_tag.get()
    }
}

/// When the session may be taken up again (RFC 7143 §11.15.3, §11.15.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogoutTimes {
    /// Seconds to wait before that.
    pub time2wait: u16,
    /// Seconds behind these for which the target retains the session's state.
    pub time2retain: u16,
}

/// The header of a Logout Response.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct LogoutResponse {
    opcode: u8,
    flags: u8,
    response: u8,
    reserved3: u8,
    total_ahs_length: u8,
    data_segment_length: U24,
    reserved8: [u8; 8],
    initiator_task_tag: U32,
    reserved20: [u8; 4],
    stat_sn: U32,
    exp_cmd_sn: U32,
    max_cmd_sn: U32,
    reserved36: [u8; 4],
    time2wait: U16,
    time2retain: U16,
    reserved44: [u8; 4],
}

basic_header!(LogoutResponse);

impl LogoutResponse {
    /// It is closed (RFC 7143 §11.15.1).
    pub const CLOSED: u8 = 0;
    /// There is no such connection.
    pub const CID_NOT_FOUND: u8 = 1;
    /// Recovery is not supported.
    pub const NO_RECOVERY: u8 = 2;

    /// The answer to the logout `task_tag`.
    pub fn new(task_tag: u32, response: u8, times: LogoutTimes) -> Self {
        Self {
            opcode: Opcode::LOGOUT_RESPONSE.0,
            flags: FINAL,
            response,
            initiator_task_tag: U32::new(task_tag),
            time2wait: U16::new(times.time2wait),
            time2retain: U16::new(times.time2retain),
            ..Self::new_zeroed()
        }
    }

    /// How it went.
    pub fn response(&self) -> u8 {
        self.response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdu::golden;

    #[test]
    fn request_golden_vector() {
        let vector = golden::bytes(include_str!("logout_request.hex"));
        assert_eq!(LogoutRequest::new(LogoutReason::CLOSE_CONNECTION, 7, 0x99).to_bytes(), vector);
        let request = LogoutRequest::from_bytes(&vector);
        assert_eq!((request.reason(), request.cid(), request.task_tag()), (LogoutReason(1), 7, 0x99));
    }

    #[test]
    fn response_golden_vector() {
        let vector = golden::bytes(include_str!("logout_response.hex"));
        assert_eq!(
            LogoutResponse::new(
                0x99,
                LogoutResponse::NO_RECOVERY,
                LogoutTimes { time2wait: 2, time2retain: 20 }
            )
            .to_bytes(),
            vector
        );
        assert_eq!(LogoutResponse::from_bytes(&vector).response(), LogoutResponse::NO_RECOVERY);
    }
}
