//! Get LBA Status between both roles, and what a controller refuses.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;
#[path = "walker/mod.rs"]
mod walker;

use buf::Pool;
use common::{BLOCKS, Bench, admin, host_identity, io, portal};
use nvme::allocation::{GetLbaStatus, TRACKED_ALLOCATED};
use nvme::host;
use nvme::limits::{ALLOCATION_COMMANDS, ALLOCATION_QUERIES};
use nvme::status::Status;
use volume::reservation::{Command, Kind, Registrant, Scope};
use volume::{Allocation, Extent, Features, Operation, Outcome, Request, Tag, VolumeErrorKind};
