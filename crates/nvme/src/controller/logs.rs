//! Log pages of a controller (NVMe Base §5.1.12).

use alloc::vec;
use alloc::vec::Vec;

use buf::SharedBuf;
use volume::Features;
use zerocopy::IntoBytes;

use super::admin::Admin;
use super::service::Service;
use super::subsystem::Subsystem;
use crate::identify::put_padded;
use crate::limits::ADMIN_DATA;
use crate::log::{ErrorEntry, FirmwareSlots, GetLogPage, IoCommand, SmartHealth, effects, lid, supported};
use crate::opcode::{FABRICS, admin as opcodes, nvm};
use crate::status::Status;
use crate::width::from_wide;

const DISCOVERY_PAGES: [u8; 3] = [lid::SUPPORTED, lid::ERROR, lid::DISCOVERY];
const IO_PAGES: [u8; 7] = [
    lid::SUPPORTED,
    lid::ERROR,
    lid::SMART,
    lid::FIRMWARE,
    lid::CHANGED_NAMESPACES,
    lid::EFFECTS,
    lid::RESERVATION,
];

/// The bytes that the command asks for; those beyond the page's end are zeros.
pub(super) fn data(admin: &mut Admin, command: GetLogPage) -> Result<SharedBuf, Status> {
    let length = from_wide(command.length);
    if length > ADMIN_DATA || command.indexed || !command.offset.is_multiple_of(4) {
        return Err(Status::INVALID_FIELD.dnr());
    }
    let page = match (command.lid, &mut admin.service) {
        (lid::DISCOVERY, Service::Discovery(discovery)) => discovery.log(),
        _ => page(admin, command)?.into(),
    };
    let offset = from_wide(command.offset);
    if offset > page.len() {
        return Err(Status::INVALID_FIELD.dnr());
    }
    if !command.retain && command.offset == 0 {
        admin.log_was_read(command.lid);
    }
    if length <= page.len().saturating_sub(offset) {
        return Ok(page.slice(offset..offset.saturating_add(length)));
    }
    let mut bytes = vec![0; length];
    for (target, byte) in bytes.iter_mut().zip(page.get(offset..).unwrap_or_default()) {
        *target = *byte;
    }
    Ok(bytes.into())
}

fn page(admin: &Admin, command: GetLogPage) -> Result<Vec<u8>, Status> {
    let Some(subsystem) = admin.subsystem() else {
        return match command.lid {
            lid::SUPPORTED => Ok(supported(&DISCOVERY_PAGES)),
            lid::ERROR => Ok(vec![0; size_of::<ErrorEntry>()]),
            _ => Err(Status::INVALID_LOG_PAGE.dnr()),
        };
    };
    match command.lid {
        lid::SUPPORTED => Ok(supported(&IO_PAGES)),
        lid::ERROR => Ok(vec![0; size_of::<ErrorEntry>()]),
        lid::SMART => Ok(SmartHealth::good().as_bytes().to_vec()),
        lid::FIRMWARE => {
            let mut revision = [0; 8];
            put_padded(&mut revision, &subsystem.firmware);
            Ok(FirmwareSlots::one(revision).as_bytes().to_vec())
        }
        lid::CHANGED_NAMESPACES => Ok(admin.changed.page()),
        lid::RESERVATION => Ok(admin.notifications.page().as_bytes().to_vec()),
        lid::EFFECTS if command.csi == crate::identify::CSI_NVM => Ok(commands(subsystem)),
        lid::EFFECTS => Err(Status::INVALID_FIELD.dnr()),
        _ => Err(Status::INVALID_LOG_PAGE.dnr()),
    }
}

fn commands(subsystem: &Subsystem) -> Vec<u8> {
    let all = |feature| subsystem.namespaces.iter().all(|namespace| namespace.features.contains(feature));
    let mut io = vec![
        IoCommand::new(nvm::FLUSH),
        IoCommand::changing(nvm::WRITE),
        IoCommand::new(nvm::READ),
        IoCommand::new(nvm::VERIFY),
        IoCommand::new(nvm::RESERVATION_REGISTER),
        IoCommand::new(nvm::RESERVATION_REPORT),
        IoCommand::new(nvm::RESERVATION_ACQUIRE),
        IoCommand::new(nvm::RESERVATION_RELEASE),
    ];
    let optional = [
        (Features::COMPARE, IoCommand::new(nvm::COMPARE)),
        (Features::WRITE_ZEROES, IoCommand::changing(nvm::WRITE_ZEROES)),
        (Features::DISCARD, IoCommand::changing(nvm::DATASET_MANAGEMENT)),
    ];
    io.extend(optional.into_iter().filter(|(feature, _)| all(*feature)).map(|(_, command)| command));
    let mut admin = vec![
        opcodes::GET_LOG_PAGE,
        opcodes::IDENTIFY,
        opcodes::ABORT,
        opcodes::SET_FEATURES,
        opcodes::GET_FEATURES,
        opcodes::ASYNC_EVENT_REQUEST,
        opcodes::KEEP_ALIVE,
        FABRICS,
    ];
    admin.extend(subsystem.tells_allocation().then_some(opcodes::GET_LBA_STATUS));
    effects(&admin, &io)
}
