//! Login Request and Login Response (RFC 7143 §11.12, §11.13).

use wire::big_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{IMMEDIATE, Opcode, U24, basic_header};

const TRANSIT: u8 = 0x80;
const CONTINUE: u8 = 0x40;

/// A stage of the login (RFC 7143 §11.12.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// SecurityNegotiation.
    Security,
    /// LoginOperationalNegotiation.
    Operational,
    /// FullFeaturePhase.
    FullFeature,
}

impl Stage {
    fn read(bits: u8) -> Option<Self> {
        match bits & 3 {
            0 => Some(Self::Security),
            1 => Some(Self::Operational),
            3 => Some(Self::FullFeature),
            _ => None,
        }
    }

    fn bits(self) -> u8 {
        match self {
            Self::Security => 0,
            Self::Operational => 1,
            Self::FullFeature => 3,
        }
    }
}

/// How a login went: class and detail (RFC 7143 §11.13.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u16);

impl Status {
    /// It goes on.
    pub const SUCCESS: Self = Self(0x0000);
    /// The target is elsewhere for now; TargetAddress says where.
    pub const MOVED_TEMPORARILY: Self = Self(0x0101);
    /// The target is elsewhere for good.
    pub const MOVED_PERMANENTLY: Self = Self(0x0102);
    /// The initiator erred in some way that has no detail of its own.
    pub const INITIATOR_ERROR: Self = Self(0x0200);
    /// The initiator could not be authenticated, or the target does not support authentication that was asked for.
    pub const AUTHENTICATION_FAILURE: Self = Self(0x0201);
    /// The initiator may not log in to this target.
    pub const AUTHORIZATION_FAILURE: Self = Self(0x0202);
    /// There is no such target.
    pub const NOT_FOUND: Self = Self(0x0203);
    /// The target was removed.
    pub const TARGET_REMOVED: Self = Self(0x0204);
    /// The version is not supported.
    pub const UNSUPPORTED_VERSION: Self = Self(0x0205);
    /// No more connections fit into the session.
    pub const TOO_MANY_CONNECTIONS: Self = Self(0x0206);
    /// A key that the login needs is missing.
    pub const MISSING_PARAMETER: Self = Self(0x0207);
    /// The connection cannot be part of the session.
    pub const CANNOT_INCLUDE: Self = Self(0x0208);
    /// The session type is not supported.
    pub const SESSION_TYPE: Self = Self(0x0209);
    /// The TSIH names no session.
    pub const NO_SESSION: Self = Self(0x020a);
    /// The request's type was not right for the login, for instance not a login at all.
    pub const INVALID_REQUEST: Self = Self(0x020b);
    /// The target failed.
    pub const TARGET_ERROR: Self = Self(0x0300);
    /// The service is not available now.
    pub const SERVICE_UNAVAILABLE: Self = Self(0x0301);
    /// The target has no room.
    pub const OUT_OF_RESOURCES: Self = Self(0x0302);

    /// The class: 0 success, 1 redirection, 2 the initiator erred, 3 the target failed.
    pub fn class(self) -> u8 {
        let [class, _] = self.0.to_be_bytes();
        class
    }

    /// What it means, for an operator.
    pub fn text(self) -> &'static str {
        match self {
            Self::SUCCESS => "success",
            Self::MOVED_TEMPORARILY => "the target has moved temporarily",
            Self::MOVED_PERMANENTLY => "the target has moved permanently",
            Self::AUTHENTICATION_FAILURE => "authentication failed",
            Self::AUTHORIZATION_FAILURE => "this initiator may not log in to the target",
            Self::NOT_FOUND => "there is no such target",
            Self::TARGET_REMOVED => "the target was removed",
            Self::UNSUPPORTED_VERSION => "the protocol version is not supported",
            Self::TOO_MANY_CONNECTIONS => "the session has as many connections as it may",
            Self::MISSING_PARAMETER => "the login lacks a key",
            Self::CANNOT_INCLUDE => "the connection cannot join the session",
            Self::SESSION_TYPE => "the session type is not supported",
            Self::NO_SESSION => "the session does not exist",
            Self::INVALID_REQUEST => "the request does not belong in a login",
            Self::SERVICE_UNAVAILABLE => "the target is not available now",
            Self::OUT_OF_RESOURCES => "the target has no room for the session",
            _ if self.class() == 2 => "the initiator made a mistake in the login",
            _ if self.class() == 3 => "the target failed during the login",
            _ => "an unknown login status",
        }
    }
}

/// Which connection of which session a login is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginIdentity {
    /// The initiator's part of the session's name.
    pub isid: [u8; 6],
    /// The handle that the target gave the session; zero for a new one.
    pub tsih: u16,
    /// The connection's number within the session.
    pub cid: u16,
}

impl LoginIdentity {
    /// The first connection of a new session.
    pub fn new_session(isid: [u8; 6]) -> Self {
        Self { isid, tsih: 0, cid: 0 }
    }
}

/// The header of a Login Request.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct LoginRequest {
    opcode: u8,
    flags: u8,
    version_max: u8,
    version_min: u8,
    total_ahs_length: u8,
    data_segment_length: U24,
    /// The initiator's part of the session's name.
    pub isid: [u8; 6],
    tsih: U16,
    initiator_task_tag: U32,
    cid: U16,
    reserved22: [u8; 2],
    cmd_sn: U32,
    exp_stat_sn: U32,
    reserved32: [u8; 16],
}

basic_header!(LoginRequest);

impl LoginRequest {
    /// A request in stage `current`.
    pub fn new(current: Stage, identity: LoginIdentity, task_tag: u32, cmd_sn: u32) -> Self {
        let LoginIdentity { isid, tsih, cid } = identity;
        Self {
            opcode: Opcode::LOGIN_REQUEST.0 | IMMEDIATE,
            flags: current.bits() << 2,
            version_max: 0,
            version_min: 0,
            isid,
            tsih: U16::new(tsih),
            initiator_task_tag: U32::new(task_tag),
            cid: U16::new(cid),
            cmd_sn: U32::new(cmd_sn),
            ..Self::new_zeroed()
        }
    }

    /// The same, asking for the transition to `next`.
    #[must_use]
    pub fn transit(mut self, next: Stage) -> Self {
        self.flags |= TRANSIT | next.bits();
        self
    }

    /// The T bit: the initiator is ready for the next stage.
    pub fn wants_transit(&self) -> bool {
        self.flags & TRANSIT != 0
    }

    /// The C bit: more text follows in another request.
    pub fn continues(&self) -> bool {
        self.flags & CONTINUE != 0
    }

    /// CSG.
    pub fn current(&self) -> Option<Stage> {
        Stage::read(self.flags >> 2)
    }

    /// NSG; counts only with the T bit.
    pub fn next(&self) -> Option<Stage> {
        Stage::read(self.flags)
    }

    /// The lowest version that the initiator speaks.
    pub fn version_min(&self) -> u8 {
        self.version_min
    }

    /// The session's handle; zero for a new session.
    pub fn tsih(&self) -> u16 {
        self.tsih.get()
    }

    /// The connection's number in the session.
    pub fn cid(&self) -> u16 {
        self.cid.get()
    }

    /// Which connection of which session.
    pub fn identity(&self) -> LoginIdentity {
        LoginIdentity { isid: self.isid, tsih: self.tsih(), cid: self.cid() }
    }

    /// The initiator task tag, the same for the whole login.
    pub fn task_tag(&self) -> u32 {
        self.initiator_task_tag.get()
    }

    /// The first CmdSN of the session.
    pub fn cmd_sn(&self) -> u32 {
        self.cmd_sn.get()
    }
}

/// The header of a Login Response.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct LoginResponse {
    opcode: u8,
    flags: u8,
    version_max: u8,
    version_active: u8,
    total_ahs_length: u8,
    data_segment_length: U24,
    isid: [u8; 6],
    tsih: U16,
    initiator_task_tag: U32,
    reserved20: [u8; 4],
    stat_sn: U32,
    exp_cmd_sn: U32,
    max_cmd_sn: U32,
    status: U16,
    reserved38: [u8; 10],
}

basic_header!(LoginResponse);

impl LoginResponse {
    /// The answer to `request` with a status; no transition yet.
    pub fn new(request: &LoginRequest, status: Status) -> Self {
        Self {
            opcode: Opcode::LOGIN_RESPONSE.0,
            flags: request.flags & 0x0c,
            version_max: 0,
            version_active: 0,
            isid: request.isid,
            tsih: request.tsih,
            initiator_task_tag: request.initiator_task_tag,
            status: U16::new(status.0),
            ..Self::new_zeroed()
        }
    }

    /// The same, agreeing to the transition to `next`.
    #[must_use]
    pub fn transit(mut self, next: Stage) -> Self {
        self.flags |= TRANSIT | next.bits();
        self
    }

    /// The same, with more text to come.
    #[must_use]
    pub fn continuing(mut self) -> Self {
        self.flags |= CONTINUE;
        self
    }

    /// The same, with the handle that the target gave the session.
    #[must_use]
    pub fn with_tsih(mut self, tsih: u16) -> Self {
        self.tsih = U16::new(tsih);
        self
    }

    /// How it went.
    pub fn status(&self) -> Status {
        Status(self.status.get())
    }

    /// The transition that the target agrees to.
    pub fn transition(&self) -> Option<Stage> {
        if self.flags & TRANSIT == 0 { None } else { Stage::read(self.flags) }
    }

    /// CSG.
    pub fn current(&self) -> Option<Stage> {
        Stage::read(self.flags >> 2)
    }

    /// The C bit: more text follows in another response.
    pub fn continues(&self) -> bool {
        self.flags & CONTINUE != 0
    }

    /// The session's handle.
    pub fn tsih(&self) -> u16 {
        self.tsih.get()
    }

    /// The initiator task tag of the login.
    pub fn task_tag(&self) -> u32 {
        self.initiator_task_tag.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdu::golden;

    const ISID: [u8; 6] = [0x80, 1, 2, 3, 0, 4];

    #[test]
    fn request_golden_vector() {
        let vector = golden::bytes(include_str!("login_request.hex"));
        let request =
            LoginRequest::new(Stage::Security, LoginIdentity { isid: ISID, tsih: 0x0102, cid: 7 }, 0xabcd, 9)
                .transit(Stage::Operational);
        assert_eq!(request.to_bytes(), vector);
        let request = LoginRequest::from_bytes(&vector);
        assert_eq!((request.current(), request.next()), (Some(Stage::Security), Some(Stage::Operational)));
        assert!(request.wants_transit() && !request.continues());
        assert_eq!((request.isid, request.tsih(), request.cid()), (ISID, 0x0102, 7));
        assert_eq!((request.task_tag(), request.cmd_sn(), request.version_min()), (0xabcd, 9, 0));
    }

    #[test]
    fn response_golden_vector() {
        let vector = golden::bytes(include_str!("login_response.hex"));
        let request =
            LoginRequest::new(Stage::Operational, LoginIdentity { isid: ISID, tsih: 0, cid: 7 }, 0xabcd, 9);
        let response =
            LoginResponse::new(&request, Status::SUCCESS).transit(Stage::FullFeature).with_tsih(0x0506);
        assert_eq!(response.to_bytes(), vector);
        let response = LoginResponse::from_bytes(&vector);
        assert_eq!(
            (response.current(), response.transition()),
            (Some(Stage::Operational), Some(Stage::FullFeature))
        );
        assert_eq!(
            (response.status(), response.tsih(), response.task_tag()),
            (Status::SUCCESS, 0x0506, 0xabcd)
        );
        assert!(!response.continues());
    }
}
