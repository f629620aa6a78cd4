//! What cores tell each other. Rare operations only: a read or a write never becomes a message.

use std::sync::Arc;

use host::{CoreIndex, EndpointId};
use volume::reservation::{Command, Notice, Refused, Registrant, View};
use volume::{Completion, Epoch, Geometry, Request, VolumeId};

use crate::catalogue::{Catalogue, Generation, ListenerRole, ProposalError};
use crate::queues::Retired;

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
    /// To core 0: a connection resets volumes' task sets.
    Reset(ResetCall),
    /// To every core: requests on a volume that were judged before this are not to begin any more; acknowledge when those that have
    /// begun have ended.
    Fence(Fence),
    /// To core 0: a core acknowledges a fence.
    Fenced(u64),
    /// To every core: a volume has this size from now on.
    Resized(VolumeId, Geometry),
    /// To core 0: another catalogue is to be served.
    Propose(Arc<Catalogue>),
    /// To every core: open queues of the volumes that are new in a catalogue, and show them to nobody yet.
    Prepare(Arc<Catalogue>),
    /// To every core: serve the catalogue that was prepared to whoever asks, and tell nobody of it yet.
    Commit(Generation),
    /// To every core: all cores serve the catalogue. Tell the connections, and withdraw the volumes that are not in it.
    Announce(Generation),
    /// To every core: drop what was prepared.
    Abandon(Generation),
    /// To core 0: a core has done so, or why it cannot.
    Answered(Generation, Result<(), ProposalError>),
    /// To core 0: a core has no queue of a volume any more.
    Retired(Retired),
    /// To every core: end all connections, then finish.
    Shutdown,
    /// To core 0: a core has no connection and no queue any more.
    Closed,
    /// To every core: all are closed.
    Finish,
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

/// A reset for the owner of the fences.
#[derive(Debug)]
pub struct ResetCall {
    /// Who waits for the answer. It has ended its own tasks.
    pub from: Member,
    /// The asker's own mark.
    pub tag: u32,
    /// Which volumes.
    pub volumes: Vec<VolumeId>,
    /// What other nexuses are told; it ends their tasks on the volumes.
    pub event: scsi::NexusEvent,
}

/// A volume's new epoch, on its way to every connection.
#[derive(Debug, Clone)]
pub struct Fence {
    /// Which change; the volume's epoch from now on.
    pub number: u64,
    /// Which volume.
    pub volume: VolumeId,
    /// Why.
    pub cause: Cause,
}

/// What a fence is for.
#[derive(Debug, Clone)]
pub enum Cause {
    /// The volume's reservations have changed.
    Reservations {
        /// The state from now on.
        view: Arc<View>,
        /// What the change means to other registrants.
        notices: Arc<[(Registrant, Notice)]>,
        /// Whose requests on the volume are to be aborted.
        aborted: Arc<[Registrant]>,
    },
    /// A nexus has reset the volume's task set: the others' tasks end.
    Reset(Member, scsi::NexusEvent),
    /// Nothing that this connection must know.
    Unconcerned,
}

impl Fence {
    /// The volume's epoch from now on.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.number)
    }
}

/// What a driver finds in its inbox.
#[derive(Debug)]
pub enum Inbound {
    /// A request of its connection has ended.
    Completion(Completion),
    /// Something happened on a logical unit.
    Event(VolumeId, scsi::NexusEvent),
    /// A request of its connection was judged by an older state of the volume than holds now: it comes back as it was. Boxed, as fences
    /// are, so that what comes all the time stays small.
    Refused(Box<Request>),
    /// A volume's epoch has moved.
    Fence(Box<Fence>),
    /// A volume has this size from now on.
    Resized(VolumeId, Geometry),
    /// The owner of the reservations answers. The new state has come before, in a fence.
    Reserved(u32, Result<(), Refused>),
    /// A reset is over: what was older has ended on all cores. Or it is refused (false), as too many are under way.
    Reset(u32, bool),
    /// The session's group speaks.
    Session(iscsi::session::Reply),
    /// The subsystem's group speaks.
    Subsystem(nvme::subsystem::Reply),
    /// Something else is behind the listener that the connection came to. Other cores may not serve it yet, so that who would tell its host hears of
    /// it with [`Self::PortalChanged`].
    PortalCommitted(ListenerRole),
    /// Something else is behind the listener that the connection came to, on all cores.
    PortalChanged(ListenerRole),
    /// A volume is withdrawn: the driver is to say whether its connection uses it.
    AskUse(VolumeId),
    /// Who uses a volume that is withdrawn has had the time to leave.
    Overdue(VolumeId),
    /// The process is about to stop.
    Shutdown,
}

/// Completions come for every request and are moved as often: what is rare is boxed or shared, so that nothing is larger than an event of a logical unit.
const _: () = assert!(size_of::<Inbound>() <= size_of::<(VolumeId, scsi::NexusEvent)>());
