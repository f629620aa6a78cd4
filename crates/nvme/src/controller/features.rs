//! Get Features and Set Features of a controller (NVMe Base §5.1.11, §5.1.25).

use alloc::vec;
use alloc::vec::Vec;

use super::admin::Admin;
use super::command::Plan;
use crate::async_event::AsyncEventConfiguration;
use crate::features::{
    FeatureCapabilities, FeatureCommand, HostIdentifierFormat, PowerManagement, ReservationNotificationMask,
    Select, command_set_combination, fid, queue_count, queues,
};
use crate::sqe::ALL_NAMESPACES;
use crate::status::Status;

/// Data of Host Behavior Support.
const BEHAVIOR: usize = 512;

pub(super) fn get(admin: &Admin, command: FeatureCommand, nsid: u32) -> Result<Plan, Status> {
    let select = command.select.ok_or(Status::INVALID_FIELD.dnr())?;
    if admin.subsystem().is_none() && ![fid::KEEP_ALIVE, fid::ASYNC_EVENTS].contains(&command.fid) {
        return Err(Status::INVALID_FIELD.dnr());
    }
    let now = select == Select::Current;
    let values = &admin.values;
    let current = |value: u32| if now { value } else { 0 };
    let (value, capabilities) = match command.fid {
        fid::ARBITRATION => (current(values.arbitration), FeatureCapabilities::CONTROLLER),
        fid::TEMPERATURE => (current(values.temperature), FeatureCapabilities::CONTROLLER),
        fid::ERROR_RECOVERY => (current(values.error_recovery), FeatureCapabilities::CONTROLLER),
        fid::WRITE_CACHE => (u32::from(admin.has_cache()), FeatureCapabilities::FIXED),
        fid::QUEUES => {
            (queues(values.queues.unwrap_or_else(|| admin.max_queues())), FeatureCapabilities::CONTROLLER)
        }
        fid::ASYNC_EVENTS => (current(values.async_events.0), FeatureCapabilities::CONTROLLER),
        fid::KEEP_ALIVE => (current(admin.kato), FeatureCapabilities::CONTROLLER),
        fid::HOST_BEHAVIOR if now => return Ok(Plan::Respond(vec![0; BEHAVIOR].into())),
        fid::HOST_ID if now => return host_id(admin, command.value),
        // The only combination is the first, the NVM command set alone.
        fid::POWER | fid::HOST_BEHAVIOR | fid::COMMAND_SETS => (0, FeatureCapabilities::CONTROLLER),
        fid::WRITE_ATOMICITY | fid::HOST_ID => (0, FeatureCapabilities::FIXED),
        fid::RESERVATION_MASK | fid::RESERVATION_PERSISTENCE => {
            return of_namespace(admin, command.fid, select, nsid);
        }
        _ => return Err(Status::INVALID_FIELD.dnr()),
    };
    let value = if select == Select::Capabilities { capabilities.dword() } else { value };
    Ok(Plan::success(u64::from(value)))
}

/// The two features that concern reservations. Nothing here survives a loss of power, so that Reservation Persistence is zero.
fn of_namespace(admin: &Admin, feature: u8, select: Select, nsid: u32) -> Result<Plan, Status> {
    let subsystem = admin.subsystem().ok_or(Status::INVALID_FIELD.dnr())?;
    if !subsystem.namespaces.iter().any(|namespace| namespace.nsid == nsid) {
        return Err(Status::INVALID_NAMESPACE.dnr());
    }
    let value = match (feature, select) {
        (feature, Select::Capabilities) => {
            let changeable = feature == fid::RESERVATION_MASK;
            FeatureCapabilities { changeable, namespace_specific: true }.dword()
        }
        (fid::RESERVATION_MASK, Select::Current) => admin.values.mask(nsid).0,
        _ => 0,
    };
    Ok(Plan::success(u64::from(value)))
}

/// Sets what notifications the host does not want on a namespace, or on all.
fn set_mask(admin: &mut Admin, nsid: u32, value: u32) -> Result<Plan, Status> {
    let subsystem = admin.subsystem().ok_or(Status::INVALID_FIELD.dnr())?;
    let all = subsystem.namespaces.iter().map(|namespace| namespace.nsid);
    let named: Vec<u32> = all.filter(|each| nsid == ALL_NAMESPACES || *each == nsid).collect();
    if named.is_empty() {
        return Err(Status::INVALID_NAMESPACE.dnr());
    }
    admin.values.set_mask(&named, ReservationNotificationMask(value));
    Ok(Plan::success(0))
}

fn host_id(admin: &Admin, value: u32) -> Result<Plan, Status> {
    if !HostIdentifierFormat(value).is_extended() {
        return Err(Status::HOST_ID_INCONSISTENT.dnr());
    }
    let identifier: Vec<u8> = admin.host.identifier.to_vec();
    Ok(Plan::Respond(identifier.into()))
}

/// Sets a value that comes in dword 11; Host Behavior Support is the only feature with data.
pub(super) fn set(admin: &mut Admin, command: FeatureCommand, nsid: u32) -> Result<Plan, Status> {
    if command.save {
        return Err(Status::NOT_SAVEABLE.dnr());
    }
    if admin.subsystem().is_none() && ![fid::KEEP_ALIVE, fid::ASYNC_EVENTS].contains(&command.fid) {
        return Err(Status::INVALID_FIELD.dnr());
    }
    let value = command.value;
    match command.fid {
        fid::ARBITRATION => admin.values.arbitration = value,
        fid::TEMPERATURE => admin.values.temperature = value,
        fid::ERROR_RECOVERY => admin.values.error_recovery = value,
        fid::ASYNC_EVENTS => admin.values.async_events = AsyncEventConfiguration(value),
        fid::POWER if PowerManagement(value).power_state() != 0 => return Err(Status::INVALID_FIELD.dnr()),
        fid::COMMAND_SETS if command_set_combination(value) != 0 => {
            return Err(Status::COMMAND_SET_COMBINATION.dnr());
        }
        // The only power state, and the only combination of I/O command sets.
        fid::POWER | fid::COMMAND_SETS => {}
        fid::KEEP_ALIVE => admin.set_keep_alive(value),
        fid::QUEUES => return set_queues(admin, value),
        fid::RESERVATION_MASK => return set_mask(admin, nsid, value),
        fid::WRITE_CACHE | fid::WRITE_ATOMICITY | fid::RESERVATION_PERSISTENCE => {
            return Err(Status::NOT_CHANGEABLE.dnr());
        }
        // Over fabrics the identifier comes with Connect and stays.
        fid::HOST_ID => return Err(Status::COMMAND_SEQUENCE.dnr()),
        _ => return Err(Status::INVALID_FIELD.dnr()),
    }
    Ok(Plan::success(0))
}

fn set_queues(admin: &mut Admin, value: u32) -> Result<Plan, Status> {
    let wanted = queue_count(value).ok_or(Status::INVALID_FIELD.dnr())?;
    let granted = wire::saturate::<u16>(wanted).min(admin.max_queues());
    admin.values.queues = Some(granted);
    Ok(Plan::success(u64::from(queues(granted))))
}

/// Bytes of data that a Set Features command brings.
pub(super) const fn data_length(command: FeatureCommand) -> usize {
    match command.fid {
        fid::HOST_BEHAVIOR => BEHAVIOR,
        _ => 0,
    }
}
