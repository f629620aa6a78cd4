//! The controller's side: what is served, and one queue of it over whatever transport ([`ControllerQueue`]).

use alloc::boxed::Box;
use alloc::sync::Arc;

use volume::reservation::{Command, CommandError, Registrant};
use volume::{Completion, Epoch, Geometry, Request, Submission, Tag, VolumeId};

mod abort_table;
mod admin;
mod admin_command;
mod allocation;
mod association;
mod command;
mod command_data;
mod command_table;
mod connect;
mod data_progress;
mod discovery_log;
mod fabric_transport;
mod fabrics_command;
mod feature_values;
mod features;
mod identify;
mod io;
mod logs;
mod memory_waiters;
mod outgoing;
mod portal;
mod portal_change;
mod queue;
mod queue_memory;
mod queue_state;
mod quiesce;
mod reservation;
mod served;
mod service;
mod slots;
mod submission_gate;
mod submission_head;
mod subsystem;
mod volume_states;
mod withdrawn;

pub use command::ReceivedCommand;
pub use command_data::{Admission, Integrity, Transfer};
pub use discovery_log::DiscoveryLog;
pub use fabric_transport::{Backlog, FabricTransport, GetData, Response, Withdrawal};
pub use portal::Portal;
pub use queue::ControllerQueue;
pub use reservation::Reservations;
pub use subsystem::{AllowedHost, Hosts, Namespace, QueueLimits, Subsystem};

pub use crate::transport::tcp::ControllerConnection as Connection;

/// What a controller's connection asks of the inside.
#[derive(Debug)]
pub enum Action {
    /// Submit a request; its completion comes back as [`Input::Completion`], or, if the volume's epoch is another one by then, it itself as
    /// [`Input::StaleEpoch`].
    Submit(Submission),
    /// Ask that a request end soon.
    Cancel {
        /// Of which volume.
        volume: VolumeId,
        /// Which.
        tag: Tag,
    },
    /// Ask the owner of a volume's reservations for a change; the answer comes back as [`Input::Reserved`].
    Reserve {
        /// The asker's mark.
        tag: u32,
        /// Of which volume.
        volume: VolumeId,
        /// In whose name.
        registrant: Registrant,
        /// What.
        command: Command,
    },
    /// Speak to the group of controllers.
    Group(crate::subsystem::Request),
}

/// What the inside tells a controller's connection.
#[derive(Debug)]
pub enum Input {
    /// A request has ended.
    Completion(Completion),
    /// A request was judged by an older state of its volume than holds now. Nothing has happened to it.
    StaleEpoch(Box<Request>),
    /// A volume's epoch has moved.
    Fence {
        /// Which volume.
        volume: VolumeId,
        /// Its epoch from now on.
        epoch: Epoch,
        /// Its reservations from now on, if they have changed.
        reservations: Option<Reservations>,
    },
    /// The owner of the reservations answers an [`Action::Reserve`].
    Reserved {
        /// The asker's mark.
        tag: u32,
        /// Done, or why nothing changed. The new state has come before.
        result: Result<(), CommandError>,
    },
    /// The group of controllers answers.
    Group(crate::subsystem::Reply),
    /// A volume has another size from now on.
    NamespaceChanged {
        /// Which volume.
        volume: VolumeId,
        /// Its shape.
        geometry: Geometry,
    },
    /// What is served on the connection's listener is this from now on.
    PortalChanged(Arc<Portal>),
    /// The process is about to stop.
    Shutdown,
}
