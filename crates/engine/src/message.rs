//! What cores tell each other. Rare operations only: a read or a write never becomes a message.

use std::sync::Arc;

use host::{CoreIndex, EndpointId};
use volume::reservation::{Command, Notice, Refused, Registrant, View};
use volume::{Completion, Geometry, VolumeId};

/// Names a connection in the whole process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    /// The core that it lives on.
    pub core: CoreIndex,
    /// Its name there.
    pub endpoint: EndpointId,
}

/// A message between cores, or from outside to a core.
#[derive(Debug)]
pub enum Message {
    /// To core 0: a connection speaks to its session's group.
    Session(Member, iscsi::session::Request),
    /// To core 0: a connection speaks to its subsystem's group.
    Subsystem(Member, nvme::subsystem::Request),
    /// To core 0: a connection that may be in a group is gone.
    Left(Member),
    /// To a connection.
    Deliver(EndpointId, Inbound),
    /// To every core: something happened on a logical unit that other nexuses must hear of.
    Event(Member, VolumeId, scsi::NexusEvent),
    /// To core 0: a registrant asks for a change of a volume's reservation.
    Reserve(ReserveCall),
    /// To every core: a volume's reservation has changed; acknowledge when older requests have ended.
    Fence(Fence),
    /// To core 0: a core acknowledges a fence.
    Fenced(u64),
    /// To every core: a volume has this size from now on.
    Resized(VolumeId, Geometry),
    /// To every core: end all connections, then finish.
    Shutdown,
}

/// A command for the owner of the reservations.
#[derive(Debug)]
pub struct ReserveCall {
    /// Who waits for the answer.
    pub from: Member,
    /// The asker's own mark.
    pub tag: u32,
    /// Which volume.
    pub volume: VolumeId,
    /// In whose name.
    pub registrant: Registrant,
    /// What.
    pub command: Command,
}

/// A reservation's new state, on its way to every connection of the volume.
#[derive(Debug, Clone)]
pub struct Fence {
    /// Which change.
    pub number: u64,
    /// Which volume.
    pub volume: VolumeId,
    /// The state from now on.
    pub view: Arc<View>,
    /// What the change means to other registrants.
    pub notices: Arc<[(Registrant, Notice)]>,
    /// Whose requests on the volume are to be aborted.
    pub aborted: Arc<[Registrant]>,
}

/// What a driver finds in its inbox.
#[derive(Debug)]
pub enum Inbound {
    /// A request of its connection has ended.
    Completion(Completion),
    /// Something happened on a logical unit.
    Event(VolumeId, scsi::NexusEvent),
    /// A volume's reservation has changed.
    Reservations(Fence),
    /// A volume has this size from now on.
    Resized(VolumeId, Geometry),
    /// The owner of the reservations answers.
    Reserved(u32, Result<Arc<View>, Refused>),
    /// The session's group speaks.
    Session(iscsi::session::Reply),
    /// The subsystem's group speaks.
    Subsystem(nvme::subsystem::Reply),
    /// The process is about to stop.
    Shutdown,
}
