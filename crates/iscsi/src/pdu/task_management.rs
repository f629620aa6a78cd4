//! Task Management Function Request and Response (RFC 7143 §11.5, §11.6).

use wire::big_endian::U32;
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{FINAL, IMMEDIATE, Opcode, RESERVED_TAG, U24, basic_header};

/// What to do (RFC 7143 §11.5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function(pub u8);

impl Function {
    /// Abort one task.
    pub const ABORT_TASK: Self = Self(1);
    /// Abort all tasks of this nexus on a logical unit.
    pub const ABORT_TASK_SET: Self = Self(2);
    /// Clear an auto contingent allegiance.
    pub const CLEAR_ACA: Self = Self(3);
    /// Abort all tasks on a logical unit.
    pub const CLEAR_TASK_SET: Self = Self(4);
    /// Reset a logical unit.
    pub const LOGICAL_UNIT_RESET: Self = Self(5);
    /// Reset all logical units; sessions go on.
    pub const TARGET_WARM_RESET: Self = Self(6);
    /// Reset everything and end all sessions.
    pub const TARGET_COLD_RESET: Self = Self(7);
    /// Move a task to this connection (ErrorRecoveryLevel 2).
    pub const TASK_REASSIGN: Self = Self(8);

    /// Its name, for logs.
    pub fn text(self) -> &'static str {
        match self {
            Self::ABORT_TASK => "ABORT TASK",
            Self::ABORT_TASK_SET => "ABORT TASK SET",
            Self::CLEAR_ACA => "CLEAR ACA",
            Self::CLEAR_TASK_SET => "CLEAR TASK SET",
            Self::LOGICAL_UNIT_RESET => "LOGICAL UNIT RESET",
            Self::TARGET_WARM_RESET => "TARGET WARM RESET",
            Self::TARGET_COLD_RESET => "TARGET COLD RESET",
            Self::TASK_REASSIGN => "TASK REASSIGN",
            _ => "an unknown task management function",
        }
    }
}

/// How it went (RFC 7143 §11.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionResponse(pub u8);

impl FunctionResponse {
    /// Done.
    pub const COMPLETE: Self = Self(0);
    /// There is no such task.
    pub const NO_TASK: Self = Self(1);
    /// There is no such logical unit.
    pub const NO_LUN: Self = Self(2);
    /// The task is still allegiant to another connection.
    pub const STILL_ALLEGIANT: Self = Self(3);
    /// Reassignment is not supported.
    pub const NO_REASSIGNMENT: Self = Self(4);
    /// The function is not supported.
    pub const NOT_SUPPORTED: Self = Self(5);
    /// This initiator may not.
    pub const NOT_AUTHORIZED: Self = Self(6);
    /// It was rejected.
    pub const REJECTED: Self = Self(255);
}

/// The header of a Task Management Function Request.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct TaskManagementRequest {
    opcode: u8,
    flags: u8,
    reserved2: [u8; 2],
    total_ahs_length: u8,
    data_segment_length: U24,
    /// The logical unit.
    pub lun: [u8; 8],
    initiator_task_tag: U32,
    referenced_task_tag: U32,
    cmd_sn: U32,
    exp_stat_sn: U32,
    ref_cmd_sn: U32,
    exp_data_sn: U32,
    reserved40: [u8; 8],
}

basic_header!(TaskManagementRequest);

impl TaskManagementRequest {
    /// An immediate function on a logical unit.
    pub fn new(function: Function, lun: [u8; 8], task_tag: u32) -> Self {
        Self {
            opcode: Opcode::TASK_MANAGEMENT_REQUEST.0 | IMMEDIATE,
            flags: FINAL | function.0 & 0x7f,
            lun,
            initiator_task_tag: U32::new(task_tag),
            referenced_task_tag: U32::new(RESERVED_TAG),
            ..Self::new_zeroed()
        }
    }

    /// The same, about a task and the CmdSN that it was sent with.
    #[must_use]
    pub fn referring(mut self, task_tag: u32, cmd_sn: u32) -> Self {
        self.referenced_task_tag = U32::new(task_tag);
        self.ref_cmd_sn = U32::new(cmd_sn);
        self
    }

    /// What to do.
    pub fn function(&self) -> Function {
        Function(self.flags & 0x7f)
    }

    /// The initiator task tag of the function itself.
    pub fn task_tag(&self) -> u32 {
        self.initiator_task_tag.get()
    }

    /// The task that it is about.
    pub fn referenced_task_tag(&self) -> u32 {
        self.referenced_task_tag.get()
    }

    /// The function's own CmdSN; an immediate one carries that of the next command.
    pub fn cmd_sn(&self) -> u32 {
        self.cmd_sn.get()
    }

    /// The CmdSN of that task.
    pub fn ref_cmd_sn(&self) -> u32 {
        self.ref_cmd_sn.get()
    }
}

/// The header of a Task Management Function Response.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct TaskManagementResponse {
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
    reserved36: [u8; 12],
}

basic_header!(TaskManagementResponse);

impl TaskManagementResponse {
    /// The answer to the function `task_tag`.
    pub fn new(task_tag: u32, response: FunctionResponse) -> Self {
        Self {
            opcode: Opcode::TASK_MANAGEMENT_RESPONSE.0,
            flags: FINAL,
            response: response.0,
            initiator_task_tag: U32::new(task_tag),
            ..Self::new_zeroed()
        }
    }

    /// How it went.
    pub fn response(&self) -> FunctionResponse {
        FunctionResponse(self.response)
    }

    /// The initiator task tag of the function.
    pub fn task_tag(&self) -> u32 {
        self.initiator_task_tag.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdu::golden;

    #[test]
    fn request_golden_vector() {
        let vector = golden::bytes(include_str!("task_management_request.hex"));
        let lun = [0, 1, 0, 0, 0, 0, 0, 0];
        let request = TaskManagementRequest::new(Function::ABORT_TASK, lun, 0x21).referring(0x1234, 0x0a);
        assert_eq!(request.to_bytes(), vector);
        let request = TaskManagementRequest::from_bytes(&vector);
        assert_eq!((request.function(), request.lun, request.task_tag()), (Function::ABORT_TASK, lun, 0x21));
        assert_eq!((request.referenced_task_tag(), request.ref_cmd_sn()), (0x1234, 0x0a));
    }

    #[test]
    fn response_golden_vector() {
        let vector = golden::bytes(include_str!("task_management_response.hex"));
        assert_eq!(TaskManagementResponse::new(0x21, FunctionResponse::NO_TASK).to_bytes(), vector);
        let response = TaskManagementResponse::from_bytes(&vector);
        assert_eq!((response.task_tag(), response.response()), (0x21, FunctionResponse::NO_TASK));
    }
}
