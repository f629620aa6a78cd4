//! Joins connections with volumes: the middle of every Linerate process.
//!
//! * [`Core`] is what runs on each core: it implements [`host::Service`], owns that core's volume queues,
//!   accepts connections and answers other cores.
//! * `kind` says what queues can carry; `kind_core` is what a core does for each kind alike, `volume_kind` and `file_kind` the two that there are.
//! * `driver` wraps one protocol connection as a [`host::Endpoint`].
//! * `queue_pairs` has the sockets that queue pairs over datagrams share; a driver owns one of those.
//! * `groups` and `fence` are the shared truths (sessions, controllers, reservations), which live on core 0.
//!
//! Data flow of a read: the reactor gives received bytes to a driver, whose connection asks for a request to be
//! submitted; the core's volume queue completes it; the completion goes back through the driver's inbox into
//! the connection, which becomes bytes again.
//!
//! Architecture invariant: nothing here makes a system call, reads a clock or starts a thread; the world comes
//! in through `host`, so that the daemon and the simulator run the same code.
#![forbid(unsafe_code)]

mod adapters;
mod carried;
mod catalogue;
mod config;
mod core;
mod driver;
mod fence;
mod file_kind;
mod groups;
mod hub;
pub mod incarnation;
mod iscsi_target;
mod iwarp_link;
mod kind;
mod kind_core;
mod leaving_volumes;
mod limits;
mod message;
mod nfs_portal;
mod nfs_service;
mod nvme_controller;
mod queue_pairs;
mod queues;
pub mod remote;
mod served_id;
mod serving_connection;
mod volume_kind;
mod volume_watch;

pub use crate::core::Core;
pub use catalogue::{
    Catalogue, ControlEvent, ControlObserver, Departure, Generation, ListenerRole, Listening, NamedVolume,
    ProposalError, ServedFiles, ServedVolume, Transport,
};
pub use config::{EngineConfig, EntropySource};
pub use limits::ConnectionLimits;
pub use message::{Answer, Cause, Fence, Member, Message, ReserveCall, ResetCall};
pub use nfs_portal::{ClientRecords, NfsPortal, NfsStart};
pub use queue_pairs::ROCE_SLOT;
pub use queues::Retired;
pub use roce::Counters as RoceCounters;
pub use served_id::ServedId;
