//! What cores tell each other, and what a connection finds in its inbox.
//!
//! Messages are rare operations only: a read or a write never becomes one. What they say of fences and ends holds for whatever is served, by its [`ServedId`]; only
//! [`Inbound`], which stays on its core, has requests and completions, and is of one kind.

use std::sync::Arc;

use host::{CoreIndex, EndpointId};
use iscsi::target::ResetResult;
use nfs::server::exports::FileKey;
use nfs::v4::ClientId;
use volume::reservation::{Command, CommandError, Notice, Registrant, View};
use volume::{Epoch, Geometry, VolumeId};

use crate::catalogue::{Catalogue, Generation, ListenerRole, ProposalError};
use crate::kind::ServedKind;
use crate::queues::Retired;
use crate::served_id::ServedId;
use crate::volume_kind::VolumeKind;

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
    /// To core 0: a connection speaks to the owner of NFS clients' state.
    Nfs(Member, Box<nfs::state::messages::Request<FileKey>>),
    /// To core 0: a change of an NFS client's record is durable, or failed.
    NfsRecord(ClientId, Result<(), ()>),
    /// To core 0: a connection that may be in a group is gone.
    Left(Member),
    /// To a connection.
    Deliver(EndpointId, Answer),
    /// To every core: something happened on a logical unit that other nexuses must hear of.
    Event(Member, VolumeId, scsi::NexusEvent),
    /// To core 0: a registrant asks for a change of a volume's reservation.
    Reserve(ReserveCall),
    /// To core 0: a connection wants that nothing older goes on: it resets volumes' task sets.
    Reset(ResetCall),
    /// To every core: requests that were judged before this are not to begin any more; acknowledge when those that have begun have
    /// ended.
    Fence(Fence),
    /// To core 0: a core acknowledges a fence.
    Fenced(u64),
    /// To every core: a volume has this size from now on.
    Resized(VolumeId, Geometry),
    /// To core 0: another catalogue is to be served.
    Propose(Arc<Catalogue>),
    /// To every core: open queues of what is new in a catalogue, and show it to nobody yet.
    Prepare(Arc<Catalogue>),
    /// To every core: serve the catalogue that was prepared to whoever asks, and tell nobody of it yet.
    Commit(Generation),
    /// To every core: all cores serve the catalogue. Tell the connections, and withdraw what is not in it.
    Announce(Generation),
    /// To every core: drop what was prepared.
    Abandon(Generation),
    /// To core 0: a core has done so, or why it cannot.
    Answered(Generation, Result<(), ProposalError>),
    /// To core 0: a core has no queue any more of what it served.
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

/// A fence for its owner to begin, such as a reset.
#[derive(Debug)]
pub struct ResetCall {
    /// Who waits for the answer. It has ended its own requests.
    pub from: Member,
    /// The asker's own mark.
    pub tag: u32,
    /// On what.
    pub served: Vec<ServedId>,
    /// What other connections are told.
    pub cause: Cause,
}

/// The new epoch of what is served, on its way to every connection.
#[derive(Debug, Clone)]
pub struct Fence {
    /// Which change; the epoch from now on.
    pub number: u64,
    /// Of what.
    pub served: ServedId,
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
    /// A nexus has reset a volume's task set: the others' tasks end.
    Reset(Member, scsi::NexusEvent),
    /// Nothing that this connection must know beside the epoch.
    Unconcerned,
}

impl Fence {
    /// The epoch from now on.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.number)
    }
}

/// What core 0 answers a connection, wherever it lives.
#[derive(Debug)]
pub enum Answer {
    /// The owner of the reservations answers. The new state has come before, in a fence.
    Reserved(u32, Result<(), CommandError>),
    /// A reset is over: what was older has ended on all cores. Or it is refused, as too many are under way.
    Reset(u32, ResetResult),
    /// The session's group speaks.
    Session(iscsi::session::Reply),
    /// The subsystem's group speaks.
    Subsystem(nvme::subsystem::Reply),
    /// The owner of NFS clients' state speaks.
    Nfs(Box<nfs::state::messages::Reply<FileKey>>),
}

/// What a driver finds in its inbox: one line for everything, as a completion, a fence and what is told of it are to be heard in the order in which they
/// came. A protocol's own input is made of it by its driver's `Role`, as connections of every protocol of the kind share the hub.
#[derive(Debug)]
pub(crate) enum Inbound<K: ServedKind = VolumeKind> {
    /// A request of its connection has ended.
    Completion(K::Completion),
    /// Something happened on a logical unit.
    Event(VolumeId, scsi::NexusEvent),
    /// A request of its connection was judged by an older state of what is served than holds now: it comes back as it was. Boxed, as
    /// fences are, so that what comes all the time stays small.
    StaleEpoch(Box<K::Request>),
    /// The epoch of what is served has moved.
    Fence(Box<Fence>),
    /// A volume has this size from now on.
    Resized(VolumeId, Geometry),
    /// The owner of the reservations answers.
    Reserved(u32, Result<(), CommandError>),
    /// A reset is over, or refused.
    Reset(u32, ResetResult),
    /// The session's group speaks.
    Session(iscsi::session::Reply),
    /// The subsystem's group speaks.
    Subsystem(nvme::subsystem::Reply),
    /// The owner of NFS clients' state speaks.
    Nfs(Box<nfs::state::messages::Reply<FileKey>>),
    /// Something else is behind the listener that the connection came to. Other cores may not serve it yet, so that who would tell its host hears of
    /// it with [`Self::PortalChanged`].
    PortalCommitted(ListenerRole),
    /// Something else is behind the listener that the connection came to, on all cores.
    PortalChanged(ListenerRole),
    /// This is withdrawn: the driver is to say whether its connection uses it.
    AskUse(ServedId),
    /// Who uses what is withdrawn has had the time to leave.
    Overdue(ServedId),
    /// The process is about to stop.
    Shutdown,
}

impl<K: ServedKind> From<Answer> for Inbound<K> {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Reserved(tag, result) => Self::Reserved(tag, result),
            Answer::Reset(tag, result) => Self::Reset(tag, result),
            Answer::Session(reply) => Self::Session(reply),
            Answer::Subsystem(reply) => Self::Subsystem(reply),
            Answer::Nfs(reply) => Self::Nfs(reply),
        }
    }
}

/// Completions come for every request and are moved as often: what is rare is boxed or shared, so that nothing is larger than an event of a logical unit.
const _: () = assert!(size_of::<Inbound>() <= size_of::<(VolumeId, scsi::NexusEvent)>());
