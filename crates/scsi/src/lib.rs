//! SCSI as a thin-provisioned disk: SAM-5, SPC-4/5 and SBC-3/4, sans-IO.
//!
//! * [`DeviceServer`] is one I_T nexus's view of a target's logical units: a transport gives it commands and
//!   does what each [`Step`] says.
//! * [`Task`] is the state of one command between steps; the transport owns it.
//!
//! Architecture invariant: nothing here knows iSCSI, memory pools or queues of volumes.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod step;

pub use step::{Command, DataDirection, NexusEvent, Reply, Sense, Status, Step, TaskAttribute};
