//! Fabrics commands on a connection that is no queue yet, and on an I/O queue (NVMe Base §6.3, §6.4).

use super::command::Plan;
use crate::fabrics::ConnectData;
use crate::opcode::{FABRICS, fctype};
use crate::sgl::Capsule;
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;

/// Decides about the first command of a connection, which must be a Connect.
pub(super) fn plan_first(entry: &SubmissionQueueEntry, capsule: Capsule) -> Result<Plan, Status> {
    if entry.opcode != FABRICS || entry.fctype() != fctype::CONNECT {
        return Err(Status::COMMAND_SEQUENCE.dnr());
    }
    let pointer = entry.data_pointer(capsule)?;
    if pointer.length() != size_of::<ConnectData>() {
        return Err(Status::DATA_SGL_LENGTH_INVALID.dnr());
    }
    Ok(Plan::receive(pointer))
}

/// Decides about a Fabrics command on an I/O queue.
pub(super) fn plan_io(entry: &SubmissionQueueEntry) -> Result<Plan, Status> {
    match entry.fctype() {
        fctype::DISCONNECT => Ok(Plan::Disconnect),
        fctype::CONNECT => Err(Status::COMMAND_SEQUENCE.dnr()),
        _ => Err(Status::INVALID_FIELD.dnr()),
    }
}
