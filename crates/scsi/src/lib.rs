//! SCSI as a thin-provisioned disk: SAM-5, SPC-4 and SBC-4, sans-IO.
//!
//! * [`DeviceServer`] is one I_T nexus's view of a target's logical units: a transport gives it commands and
//!   does what each [`Step`] says.
//! * [`Task`] is the state of one command between steps; the transport owns it.
//! * [`builder`] makes an initiator's commands and reads their answers.
//!
//! | standard | module |
//! |---|---|
//! | SAM-5 §4 (device, LUNs) | `device`, `lun` |
//! | SAM-5 §4.6.4, SPC-4 §6.33 (inventory) | `unit_inventory` |
//! | SPC-4 §4.3 (CDBs), §4.5 (sense data) | `cdb`, `sense`, `error` |
//! | SPC-4 §6 and SBC-4 §5 (commands) | `opcode`, `commands`, `work`, `server` |
//! | SPC-4 §6.6.2, §7.8, SBC-4 §6.6 (INQUIRY, VPD) | `inquiry`, `vpd`; for an initiator [`unit_description`] |
//! | SPC-4 §7.5, SBC-4 §6.5 (mode pages) | `mode` |
//! | SPC-4 §6.15, §6.16 (persistent reservations) | `reserve` |
//!
//! Architecture invariant: nothing here knows iSCSI, memory pools or queues of volumes.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod builder;
mod capacity;
mod cdb;
mod command;
mod commands;
mod device;
mod error;
mod inquiry;
pub mod limits;
mod lun;
mod mode;
mod nexus_event;
mod opcode;
mod page;
mod reply;
mod reserve;
mod sense;
mod server;
mod task;
mod transport_step;
pub mod unit_description;
mod unit_inventory;
mod volume_requests;
mod vpd;

pub use command::{Command, DataDirection, TaskAttribute};
pub use device::{LogicalUnit, TargetDevice, UnitIdentity};
pub use error::volume_error;
pub use lun::{decode_lun, encode_lun};
pub use mode::ModeState;
pub use nexus_event::NexusEvent;
pub use reply::{Reply, Sense, Status};
pub use sense::{Additional, SenseKey};
pub use server::{DeviceServer, UnitEvent};
pub use task::Task;
pub use transport_step::Step;
pub use unit_inventory::UnitPlace;
