//! Moving PDUs and data over a transport: the lower half that RFC 5047 calls the Datamover. [`tcp`] is the one so far; iSER will stand
//! beside it.
//!
//! What a role asks of its datamover is named as in RFC 5047 §6: Put_Data sends a command's read data and its status, Get_Data
//! asks for a part of its write data; how they become PDUs is the datamover's own business.

use buf::BufList;
use scsi::Sense;

use crate::pdu::{Bhs, DataRange, Residual};

pub(crate) mod tcp;

/// Names a task between a role and its datamover: the number of its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskHandle(pub(crate) u16);

/// A PDU that has come (Control_Notify).
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedPdu<'a> {
    pub(crate) header: &'a Bhs,
    /// Additional header segments.
    pub(crate) ahs: &'a [u8],
    /// The data segment; `None` when it is too long to be staged, and stands in the stream behind the header.
    pub(crate) data: Option<&'a [u8]>,
}

/// Put_Data: the end of a command, which is its data and then its status.
#[derive(Debug)]
pub(crate) struct PutData {
    pub(crate) task: TaskHandle,
    /// The initiator task tag.
    pub(crate) task_tag: u32,
    /// No longer than what the initiator expects.
    pub(crate) data: BufList,
    pub(crate) status: FinalStatus,
}

/// Get_Data: a part of a command's write data is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GetData {
    /// The initiator task tag.
    pub(crate) task_tag: u32,
    /// The logical unit.
    pub(crate) lun: [u8; 8],
    pub(crate) range: DataRange,
}

/// How a command ended. The status travels with the last data or behind it, as the transport has it.
#[derive(Debug)]
pub(crate) struct FinalStatus {
    /// The SCSI status byte.
    pub(crate) status: u8,
    pub(crate) sense: Sense,
    pub(crate) residual: Residual,
}
