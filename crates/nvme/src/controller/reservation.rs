//! Reservations at the controller (NVMe Base §8.1.22): what the four commands become, and what a change means to this connection.
//!
//! The truth is in `volume::reservation`, with one owner for all connections of both protocols. A connection asks it for changes and
//! is told every new view; it enforces what the view says of its host.

use alloc::sync::Arc;
use alloc::vec;

use volume::reservation::{Notice, Registrant, View};

use super::command::Plan;
use crate::limits::ADMIN_DATA;
use crate::reservation;
use crate::sgl::Capsule;
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;
use crate::width::from_wide;

/// A change of a volume's reservations, as every connection hears of it.
#[derive(Debug, Clone)]
pub struct Reservations {
    /// The state from now on.
    pub view: Arc<View>,
    /// Who is told what; each connection looks for its host.
    pub notices: Arc<[(Registrant, Notice)]>,
    /// Whose commands are to be aborted.
    pub aborted: Arc<[Registrant]>,
}

/// Decides about a command that changes reservations: its data is needed.
pub(super) fn plan_change(entry: &SubmissionQueueEntry, capsule: Capsule) -> Result<Plan, Status> {
    let pointer = entry.data_pointer(capsule)?;
    reservation::check(entry)?;
    if pointer.length() != reservation::data_length(entry.opcode) {
        return Err(Status::DATA_SGL_LENGTH_INVALID.dnr());
    }
    Ok(Plan::receive(pointer))
}

/// Answers a Reservation Report: as much of it as was asked for, and zeros behind its end.
pub(super) fn plan_report(
    view: &View,
    entry: &SubmissionQueueEntry,
    capsule: Capsule,
) -> Result<Plan, Status> {
    let pointer = entry.data_pointer(capsule)?;
    let length = from_wide(reservation::report_length(entry)?);
    if length > ADMIN_DATA || capsule.data != 0 {
        return Err(Status::INVALID_FIELD.dnr());
    }
    if pointer.length() != length {
        return Err(Status::DATA_SGL_LENGTH_INVALID.dnr());
    }
    let mut data = vec![0; length];
    for (place, byte) in data.iter_mut().zip(reservation::report(view)) {
        *place = byte;
    }
    Ok(Plan::Respond(data.into()))
}
