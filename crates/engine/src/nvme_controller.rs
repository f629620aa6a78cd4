//! The driver's words for an NVMe controller's connection.

use std::marker::PhantomData;
use std::sync::Arc;

use buf::Pool;
use host::AdapterPair;
use nvme::controller::{Action, Connection, Input, Portal, Reservations};
use nvme::rdma::ControllerConnection;
use protocol::Instant;
use verbs::QueueLimits;

use crate::catalogue::ListenerRole;
use crate::driver::{DriverContext, Role};
use crate::iwarp_link::IwarpLink;
use crate::message::{Cause, Fence, Inbound, Message, ReserveCall};
use crate::queue_pairs::OverQueuePair;
use crate::serving_connection::{ServingConnection, serving_connection};
use crate::volume_kind::VolumeKind;

/// NVMe/RDMA over software iWARP, at a controller.
pub(crate) type RdmaController = ControllerConnection<iwarp::Connection>;

/// NVMe/RDMA over software RoCEv2, at a controller.
pub(crate) type RoceController = OverQueuePair<ControllerConnection<roce::Connection>>;

/// NVMe/RDMA over an RDMA adapter, at a controller.
pub(crate) type AdapterController = OverQueuePair<ControllerConnection<AdapterPair>>;

serving_connection!(Connection, None);
serving_connection!(RdmaController, Some("NVMe/RDMA"));
serving_connection!(RoceController, Some("NVMe/RDMA on RoCE"), |connection| connection.consumer);
serving_connection!(AdapterController, Some("NVMe/RDMA on an adapter"), |connection| connection.consumer);

/// A controller's side of a connection: one queue.
pub(crate) struct NvmeController<C = Connection>(PhantomData<C>);

impl NvmeController {
    /// A connection for a stream that was just accepted.
    pub(crate) fn connect(portal: &Arc<Portal>, pool: &Pool, now: Instant) -> Connection {
        Connection::new(Arc::clone(portal), pool.clone(), now)
    }
}

impl NvmeController<RdmaController> {
    /// A connection for a stream that was just accepted, on which software iWARP is spoken.
    pub(crate) fn connect(
        portal: &Arc<Portal>,
        link: IwarpLink,
        pool: &Pool,
        now: Instant,
    ) -> RdmaController {
        let pair = link.responder(now, RdmaController::needs(portal), pool);
        RdmaController::new(pair, Arc::clone(portal), pool.clone(), now)
    }
}

impl NvmeController<RoceController> {
    /// What a queue pair must hold for any host's queue.
    pub(crate) fn needs(portal: &Portal) -> QueueLimits {
        ControllerConnection::<roce::Connection>::needs(portal)
    }

    /// A connection for a queue pair that a peer has just asked for.
    pub(crate) fn connect(
        portal: &Arc<Portal>,
        pair: roce::Connection,
        pool: &Pool,
        now: Instant,
    ) -> RoceController {
        OverQueuePair::new(now, ControllerConnection::new(pair, Arc::clone(portal), pool.clone(), now))
    }
}

impl NvmeController<AdapterController> {
    /// A connection for a queue pair that a peer has just asked for.
    pub(crate) fn connect(
        portal: &Arc<Portal>,
        pair: AdapterPair,
        pool: &Pool,
        now: Instant,
    ) -> AdapterController {
        OverQueuePair::new(now, ControllerConnection::new(pair, Arc::clone(portal), pool.clone(), now))
    }
}

impl<C: ServingConnection<Input = Input, Action = Action>> Role for NvmeController<C> {
    type Kind = VolumeKind;
    type Connection = C;

    #[inline]
    fn input(inbound: Inbound) -> Option<Input> {
        Some(match inbound {
            Inbound::Completion(completion) => Input::Completion(completion),
            Inbound::StaleEpoch(request) => Input::StaleEpoch(request),
            Inbound::Fence(fence) => {
                let (volume, epoch) = (fence.served, fence.epoch());
                Input::Fence { volume, epoch, reservations: reservations(*fence) }
            }
            Inbound::Reserved(tag, result) => Input::Reserved { tag, result },
            Inbound::Resized(volume, geometry) => Input::NamespaceChanged { volume, geometry },
            Inbound::Subsystem(reply) => Input::Group(reply),
            Inbound::PortalCommitted(ListenerRole::Nvme(portal))
            | Inbound::PortalChanged(ListenerRole::Nvme(portal)) => Input::PortalChanged(portal),
            Inbound::Shutdown => Input::Shutdown,
            Inbound::Event(..)
            | Inbound::Reset(..)
            | Inbound::Session(_)
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
            Action::Reserve { tag, volume, registrant, command } => {
                let call = ReserveCall { from: context.member, tag, volume, registrant, command };
                context.hub.post_owner(Message::Reserve(call));
            }
            Action::Group(request) => context.hub.post_owner(Message::Subsystem(context.member, request)),
        }
    }
}

/// What a fence means to a controller. A reset of a SCSI logical unit is none of a namespace.
fn reservations(fence: Fence) -> Option<Reservations> {
    match fence.cause {
        Cause::Reservations { view, notices, aborted } => Some(Reservations { view, notices, aborted }),
        Cause::Reset(..) | Cause::Unconcerned => None,
    }
}
