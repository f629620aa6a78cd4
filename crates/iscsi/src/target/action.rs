//! What a target's connection asks of the inside: of volumes, of whoever owns their reservations, of other connections and of its group.

use alloc::vec::Vec;

use scsi::NexusEvent;
use volume::reservation::{Command, Registrant};
use volume::{Submission, Tag, VolumeId};

use crate::session;

/// What a connection asks of the inside.
#[derive(Debug)]
pub enum Action {
    /// Submit a request, whose tag is below 2^16 and unique until its completion. If the volume's epoch is another one by then it comes back as
    /// [`Input::StaleEpoch`].
    Submit(Submission),
    /// Ask that a request end soon.
    Cancel {
        /// On which volume.
        volume: VolumeId,
        /// Which.
        tag: Tag,
    },
    /// Tell every other connection that shows this volume.
    Event {
        /// Which volume.
        volume: VolumeId,
        /// What happened.
        event: NexusEvent,
    },
    /// Hand a command to the owner of a volume's reservations; [`Input::Reserved`] follows.
    Reserve {
        /// Comes back with the answer.
        tag: u32,
        /// Which volume.
        volume: VolumeId,
        /// In whose name.
        registrant: Registrant,
        /// What.
        command: Command,
    },
    /// End the tasks of all other nexuses on these volumes, and tell them; [`Input::Reset`] follows when all that is older has ended.
    Reset {
        /// Comes back with the answer.
        tag: u32,
        /// Which volumes.
        volumes: Vec<VolumeId>,
        /// What the others are told.
        event: NexusEvent,
    },
    /// A message to the group of sessions.
    Group(session::Request),
}
