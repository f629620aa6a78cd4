//! The driver's words for an iSCSI target's connection.

use std::marker::PhantomData;
use std::sync::Arc;

use buf::Pool;
use host::{Accepted, AdapterPair};
use iscsi::datamover::iser::{self, target_needs};
use iscsi::datamover::tcp;
use iscsi::target::{Action, Input, Portal, Resources};
use protocol::{Entropy, Instant};
use scsi::NexusEvent;

use crate::catalogue::ListenerRole;
use crate::driver::{DriverContext, Role};
use crate::iwarp_link::IwarpLink;
use crate::message::{Cause, Fence, Inbound, Message, ReserveCall, ResetCall};
use crate::queue_pairs::OverQueuePair;
use crate::serving_connection::{ServingConnection, serving_connection};
use crate::volume_kind::VolumeKind;

/// iSER over software iWARP, at a target.
pub(crate) type IserTarget = iser::TargetConnection<iwarp::Connection>;

/// iSER over software RoCEv2, at a target.
pub(crate) type RoceTarget = OverQueuePair<iser::TargetConnection<roce::Connection>>;

/// iSER over an RDMA adapter, at a target.
pub(crate) type AdapterTarget = OverQueuePair<iser::TargetConnection<AdapterPair>>;

serving_connection!(tcp::TargetConnection, None);
serving_connection!(IserTarget, Some("iSER"));
serving_connection!(RoceTarget, Some("iSER on RoCE"), |connection| connection.consumer);
serving_connection!(AdapterTarget, Some("iSER on an adapter"), |connection| connection.consumer);

/// What a connection is made of, beside its portal.
pub(crate) struct Newcomer<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) entropy: Box<dyn Entropy>,
    pub(crate) now: Instant,
    pub(crate) accepted: Accepted,
}

impl Newcomer<'_> {
    fn resources(self) -> Resources {
        let Accepted { local, peer, .. } = self.accepted;
        Resources { pool: self.pool.clone(), entropy: self.entropy, local, peer }
    }
}

/// A target's side of an iSCSI connection.
pub(crate) struct IscsiTarget<C = tcp::TargetConnection>(PhantomData<C>);

impl IscsiTarget {
    /// A connection for a stream that was just accepted.
    pub(crate) fn connect(portal: &Arc<Portal>, newcomer: Newcomer<'_>) -> tcp::TargetConnection {
        tcp::TargetConnection::new(newcomer.now, Arc::clone(portal), newcomer.resources())
    }
}

impl IscsiTarget<IserTarget> {
    /// A connection for a stream that was just accepted, on which software iWARP is spoken.
    pub(crate) fn connect(portal: &Arc<Portal>, link: IwarpLink, newcomer: Newcomer<'_>) -> IserTarget {
        let queues = target_needs(portal.queue_depth);
        let pair = link.responder(newcomer.now, queues, newcomer.pool);
        IserTarget::new(newcomer.now, Arc::clone(portal), newcomer.resources(), pair)
    }
}

impl IscsiTarget<RoceTarget> {
    /// A connection for a queue pair that a peer has just asked for.
    pub(crate) fn connect(
        portal: &Arc<Portal>,
        pair: roce::Connection,
        newcomer: Newcomer<'_>,
    ) -> RoceTarget {
        let now = newcomer.now;
        let target = iser::TargetConnection::new(now, Arc::clone(portal), newcomer.resources(), pair);
        OverQueuePair::new(now, target)
    }
}

impl IscsiTarget<AdapterTarget> {
    /// A connection for a queue pair that a peer has just asked for.
    pub(crate) fn connect(portal: &Arc<Portal>, pair: AdapterPair, newcomer: Newcomer<'_>) -> AdapterTarget {
        let now = newcomer.now;
        let target = iser::TargetConnection::new(now, Arc::clone(portal), newcomer.resources(), pair);
        OverQueuePair::new(now, target)
    }
}

impl<C: ServingConnection<Input = Input, Action = Action>> Role for IscsiTarget<C> {
    type Kind = VolumeKind;
    type Connection = C;

    #[inline]
    fn input(inbound: Inbound) -> Option<Input> {
        Some(match inbound {
            Inbound::Completion(completion) => Input::Completion(completion),
            Inbound::Event(volume, event) => Input::Event { volume, event },
            Inbound::StaleEpoch(request) => Input::StaleEpoch(request),
            Inbound::Fence(fence) => {
                let (volume, epoch) = (fence.served, fence.epoch());
                Input::Fence { volume, epoch, event: event(*fence) }
            }
            Inbound::Resized(volume, geometry) => {
                Input::Event { volume, event: NexusEvent::CapacityChanged(geometry) }
            }
            Inbound::Reserved(tag, result) => Input::Reserved { tag, result },
            Inbound::Reset(tag, result) => Input::Reset { tag, result },
            Inbound::Session(reply) => Input::Group(reply),
            Inbound::PortalCommitted(ListenerRole::Iscsi(portal))
            | Inbound::PortalChanged(ListenerRole::Iscsi(portal)) => Input::PortalChanged(portal),
            Inbound::Shutdown => Input::Shutdown,
            Inbound::Subsystem(_)
            | Inbound::PortalCommitted(_)
            | Inbound::PortalChanged(_)
            | Inbound::Nfs(_)
            | Inbound::AskUse(_)
            | Inbound::Overdue(_) => return None,
        })
    }

    #[inline]
    fn act(action: Action, context: &mut DriverContext) {
        match action {
            Action::Submit(submission) => context.submit(submission),
            Action::Cancel { volume, tag } => context.cancel(volume, tag),
            Action::Event { volume, event } => {
                let member = context.member;
                context.hub.post_all(|| Message::Event(member, volume, event.clone()));
            }
            Action::Reserve { tag, volume, registrant, command } => {
                let call = ReserveCall { from: context.member, tag, volume, registrant, command };
                context.hub.post_owner(Message::Reserve(call));
            }
            Action::Reset { tag, volumes, event } => {
                let call = ResetCall {
                    from: context.member,
                    tag,
                    served: volumes,
                    cause: Cause::Reset(context.member, event),
                };
                context.hub.post_owner(Message::Reset(call));
            }
            Action::Group(request) => context.hub.post_owner(Message::Session(context.member, request)),
        }
    }
}

/// What a fence means to a nexus.
fn event(fence: Fence) -> Option<NexusEvent> {
    match fence.cause {
        Cause::Reservations { view, notices, aborted } => {
            Some(NexusEvent::Reservations { view, notices, aborted })
        }
        Cause::Reset(_, event) => Some(event),
        Cause::Unconcerned => None,
    }
}
