//! The volume contract: what every target consumes, and what every initiator is.
//!
//! A [`Volume`] is the shared control side; a [`VolumeQueue`] is one core's data side. Requests are
//! submitted and completions polled; nothing blocks and no future exists per I/O. A filter is a volume that
//! holds a volume. `docs/volume-contract.md` says what is promised; [`contract`] checks it on any volume.
//!
//! Architecture invariant: nothing here knows a protocol, a file or a socket.
//!
//! Without its feature `std` the contract is left, and what only computes: what protocols need.
#![cfg_attr(not(any(test, feature = "std")), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod cache;
#[cfg(feature = "std")]
pub mod contract;
mod error;
mod failure;
#[cfg(feature = "std")]
pub mod filter;
mod geometry;
mod identity;
mod leave_control;
#[cfg(feature = "std")]
mod leaving;
#[cfg(feature = "std")]
mod limits;
#[cfg(feature = "std")]
mod listeners;
#[cfg(feature = "std")]
mod loss;
mod loss_record;
mod null;
#[cfg(feature = "std")]
mod open;
mod open_error;
mod operation_set;
mod path_state;
#[cfg(feature = "std")]
mod poll_list;
mod queue_context;
#[cfg(feature = "std")]
mod ram;
#[cfg(feature = "std")]
pub mod range_locks;
mod request;
pub mod reservation;
pub mod shape;
mod statistics;
mod submission;
mod volume;
mod volume_id;
mod volume_queue;
mod waiting_completions;

pub use cache::{CacheControl, CacheMode, CacheState, CacheStatus};
pub use error::VolumeErrorKind;
pub use failure::Failure;
pub use geometry::{Changes, Extent, Features, Geometry, Limits};
pub use identity::{Designator, Identity};
pub use leave_control::{LeaveControl, LeaveMode};
#[cfg(feature = "std")]
pub use leaving::{Attendants, Leaving, UsedVolumes};
#[cfg(feature = "std")]
pub use listeners::Listeners;
#[cfg(feature = "std")]
pub use loss::{Losses, promises};
pub use loss_record::LossRecord;
pub use null::Null;
#[cfg(feature = "std")]
pub use open::{Opened, Opener, Openers, Opening, PreparedOpen, Ready};
pub use open_error::{OpenError, OpenStage};
pub use path_state::PathState;
#[cfg(feature = "std")]
pub use poll_list::{PollList, Polled};
pub use queue_context::{CoreId, QueueContext};
#[cfg(feature = "std")]
pub use ram::Ram;
pub use request::{
    Allocation, ComparedWrite, Completion, Durability, Epoch, Operation, Outcome, QueueFull, Request, Tag,
};
pub use submission::Submission;
pub use volume::Volume;
pub use volume_id::VolumeId;
pub use volume_queue::VolumeQueue;
