//! Fabrics and admin commands on the admin queue of a controller: what is to be done with each (NVMe Base §5, §6).

use buf::SharedBuf;

use super::admin::Admin;
use super::allocation::Query;
use super::command::{CommandResult, Plan};
use super::{features, identify, logs};
use crate::fabrics::Property;
use crate::features::{FeatureCommand, fid, queue_count};
use crate::identify::Identify;
use crate::limits::ASYNC_EVENTS;
use crate::log::GetLogPage;
use crate::opcode::{FABRICS, admin as opcodes, fctype};
use crate::sgl::Capsule;
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;
use crate::subsystem::Request;

/// Decides about a command.
pub(super) fn plan(
    admin: &mut Admin,
    entry: &SubmissionQueueEntry,
    capsule: Capsule,
) -> Result<Plan, Status> {
    match entry.opcode {
        FABRICS => plan_fabrics(admin, entry),
        opcodes::KEEP_ALIVE => entry.no_data(capsule.data).map(|()| Plan::success(0)),
        _ if !admin.is_ready() => Err(Status::COMMAND_SEQUENCE.dnr()),
        opcodes::IDENTIFY => {
            let data = identify::data(admin, Identify::decode(entry), entry.nsid.get())?;
            respond(entry, capsule, data.into())
        }
        opcodes::GET_LOG_PAGE => {
            let data = logs::data(admin, GetLogPage::decode(entry))?;
            respond(entry, capsule, data)
        }
        opcodes::GET_FEATURES => {
            match features::get(admin, FeatureCommand::decode(entry), entry.nsid.get())? {
                Plan::Respond(data) => respond(entry, capsule, data),
                plan => Ok(plan),
            }
        }
        opcodes::SET_FEATURES => plan_set_features(admin, entry, capsule),
        opcodes::ASYNC_EVENT_REQUEST if admin.event_requests.len() < ASYNC_EVENTS => Ok(Plan::Hold),
        opcodes::ASYNC_EVENT_REQUEST => Err(Status::ASYNC_EVENT_LIMIT.dnr()),
        opcodes::ABORT if admin.subsystem().is_some() => {
            entry.no_data(capsule.data)?;
            Ok(Plan::Abort)
        }
        opcodes::GET_LBA_STATUS => Query::plan(admin.subsystem(), entry, capsule).map(Plan::Query),
        _ => Err(Status::INVALID_OPCODE.dnr()),
    }
}

fn plan_set_features(
    admin: &mut Admin,
    entry: &SubmissionQueueEntry,
    capsule: Capsule,
) -> Result<Plan, Status> {
    let command = FeatureCommand::decode(entry);
    let length = features::data_length(command);
    if length != 0 && admin.subsystem().is_some() {
        let pointer = entry.data_pointer(capsule)?;
        let fits = pointer.length() == length;
        return if fits { Ok(Plan::receive(pointer)) } else { Err(Status::DATA_SGL_LENGTH_INVALID.dnr()) };
    }
    let plan = features::set(admin, command, entry.nsid.get())?;
    if command.fid == fid::QUEUES
        && let Plan::Finish(CommandResult { value, .. }) = plan
    {
        let granted = queue_count(u32::try_from(value).unwrap_or(0)).unwrap_or(1);
        admin.news.push_back(Request::Queues(wire::saturate::<u16>(granted)));
    }
    Ok(plan)
}

fn plan_fabrics(admin: &mut Admin, entry: &SubmissionQueueEntry) -> Result<Plan, Status> {
    let property = Property::view(entry);
    match entry.fctype() {
        fctype::PROPERTY_GET => admin.get_property(property).map(Plan::success),
        fctype::PROPERTY_SET => admin.set_property(property),
        // A second Connect, or a Disconnect of the admin queue.
        fctype::CONNECT => Err(Status::COMMAND_SEQUENCE.dnr()),
        fctype::DISCONNECT => Err(Status::INVALID_QUEUE.dnr()),
        _ => Err(Status::INVALID_FIELD.dnr()),
    }
}

/// Data toward the host, if the host has room for exactly that much.
fn respond(entry: &SubmissionQueueEntry, capsule: Capsule, data: SharedBuf) -> Result<Plan, Status> {
    if entry.data_pointer(capsule)?.length() != data.len() {
        return Err(Status::DATA_SGL_LENGTH_INVALID.dnr());
    }
    Ok(Plan::Respond(data))
}
