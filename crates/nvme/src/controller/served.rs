//! What one queue serves its host: who the host is, what the queue is to it, and what is known of the volumes.
//!
//! What is served may change while hosts are connected: the portal (`portal_change`), the size of a volume, its reservations. What a host may not use any more it loses in
//! order (`withdrawn`).

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use protocol::{CloseReason, Instant, Parties};
use volume::reservation::{Command, Registrant};
use volume::{Geometry, VolumeId};
use zerocopy::FromBytes;

use super::association::Association;
use super::command::{Plan, VolumeRef};
use super::connect::{ConnectNames, ControllerEnd, RequestedQueue};
use super::portal::Portal;
use super::portal_change::{Change, Reaction, Stage, reaction};
use super::queue_state::QueueState;
use super::reservation::Reservations;
use super::subsystem::NamespaceKey;
use super::volume_states::VolumeStates;
use super::withdrawn::Withdrawn;
use crate::fabrics::{Connect, ConnectData};
use crate::lifetime::Lifetime;
use crate::limits::{REPORT_TIME, REUSE_TIME, WITHDRAW_TIME};
use crate::log::TransportType;
use crate::reservation;
use crate::sgl::{Capsule, SglSupport};
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;
use crate::subsystem::ConnectError;

/// What a queue serves.
#[derive(Debug)]
pub(super) struct Served {
    portal: Arc<Portal>,
    pub(super) association: Association,
    pub(super) state: QueueState,
    volume_states: VolumeStates,
    /// What is not served any more, or no longer to the host.
    withdrawn: Withdrawn,
}

/// The transport of a queue, and the life of the controller that it is to belong to.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectPath<'a> {
    pub(super) transport: TransportType,
    pub(super) sgls: SglSupport,
    pub(super) lifetime: &'a Lifetime,
}

/// The queue that a Connect asks for, and the data of the Connect.
#[derive(Debug)]
pub(super) struct FoundQueue {
    pub(super) queue: RequestedQueue,
    pub(super) data: ConnectData,
}

/// A change of reservations that a host asks for.
#[derive(Debug)]
pub(super) struct ReservationChange {
    pub(super) volume: VolumeId,
    pub(super) registrant: Registrant,
    pub(super) command: Command,
}

impl Served {
    /// Nobody has connected to this portal yet.
    pub(super) fn new(portal: Arc<Portal>) -> Self {
        Self {
            portal,
            association: Association::default(),
            state: QueueState::ExpectConnect,
            volume_states: VolumeStates::default(),
            withdrawn: Withdrawn::default(),
        }
    }

    /// What is served where the host has come in.
    pub(super) fn portal(&self) -> &Portal {
        &self.portal
    }

    /// The host, and the subsystem that it asked for, as far as they are known.
    pub(super) fn parties(&self) -> Parties {
        let initiator = self.association.host.as_ref().map(|host| host.nqn.to_string());
        Parties { initiator, target: self.association.subnqn.as_ref().map(ToString::to_string) }
    }

    /// Finds the queue that a Connect asks for. Its names are known from then on.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn find_queue(&mut self, command: &Connect, data: &[u8]) -> Result<FoundQueue, ConnectError> {
        let short = ConnectError::plain(Status::DATA_SGL_LENGTH_INVALID);
        let (data, _) = ConnectData::read_from_prefix(data).map_err(|_| short)?;
        let names = ConnectNames::read(command, &data)?;
        self.association.host = Some(names.host.clone());
        self.association.subnqn = Some(Arc::clone(&names.subnqn));
        Ok(FoundQueue { queue: RequestedQueue::find(&self.portal, command, names)?, data })
    }

    /// Where the host has connected.
    pub(super) fn controller_end<'a>(&'a self, path: ConnectPath<'a>) -> ControllerEnd<'a> {
        let ConnectPath { transport, sgls, lifetime } = path;
        ControllerEnd { portal: &self.portal, transport, sgls, lifetime }
    }

    /// Decides about a command.
    ///
    /// # Errors
    /// How it fails.
    #[inline]
    pub(super) fn plan(&mut self, entry: &SubmissionQueueEntry, capsule: Capsule) -> Result<Plan, Status> {
        self.state.plan(entry, capsule)
    }

    /// Whether the host may know how a volume is allocated: as if it read it. Says what that was judged by.
    ///
    /// # Errors
    /// Its reservations do not let it.
    pub(super) fn judge_query(&self, volume: VolumeId) -> Result<VolumeRef, Status> {
        self.volume_states.judge_read(volume, self.association.registrant().as_ref())
    }

    /// A request was judged by what no longer holds: judges it again.
    ///
    /// # Errors
    /// How its command fails.
    pub(super) fn judge_again(
        &self,
        entry: &SubmissionQueueEntry,
        volume: VolumeId,
    ) -> Result<VolumeRef, Status> {
        match &self.state {
            QueueState::Io(namespaces) => namespaces.judge_again(entry, volume),
            _ => self.judge_query(volume),
        }
    }

    /// What a command asks the owner of reservations for, whose data is here.
    ///
    /// # Errors
    /// How it fails; `None` on a queue that takes no such command.
    pub(super) fn reservation_change(
        &self,
        entry: &SubmissionQueueEntry,
        data: &[u8],
    ) -> Option<Result<ReservationChange, Status>> {
        let registrant = self.association.registrant()?;
        let QueueState::Io(namespaces) = &self.state else { return None };
        Some(namespaces.find(entry.nsid.get()).and_then(|namespace| {
            let command = reservation::command(entry, data)?;
            // What a host without an identifier registered, every other such host could use.
            if !self.association.is_identified() {
                return Err(Status::COMMAND_SEQUENCE.dnr());
            }
            Ok(ReservationChange { volume: namespace.volume, registrant, command })
        }))
    }

    /// A volume has another size. Whoever is not connected yet finds it in the portal.
    pub(super) fn resize(&mut self, volume: VolumeId, geometry: Geometry) {
        if matches!(self.state, QueueState::ExpectConnect) {
            Arc::make_mut(&mut self.portal).resize(volume, geometry);
        }
        self.state.resize(volume, geometry);
    }

    /// What is served is this from now on: says what that means to a queue that is at this stage.
    pub(super) fn take_portal(&mut self, portal: Arc<Portal>, stage: Stage) -> Reaction {
        let before = core::mem::replace(&mut self.portal, portal);
        let subnqn = self.association.subnqn.as_deref();
        let [before, after] = [&before, &self.portal].map(|portal| subnqn.and_then(|nqn| portal.find(nqn)));
        reaction(stage, Change::between(before, after, self.association.hostnqn()))
    }

    /// Shows the discovery log page of the portal.
    pub(super) fn show_log(&mut self) {
        self.state.show_log(&self.portal);
    }

    /// Shows the subsystem of the portal, without what was withdrawn just now. Gives the namespaces that are gone.
    pub(super) fn replace_subsystem(&mut self, now: Instant) -> Option<Vec<NamespaceKey>> {
        let (nqn, host) = (self.association.subnqn.as_ref()?, self.association.host.as_ref()?);
        let subsystem = self.portal.find(nqn).map(|found| found.masked(&host.nqn))?;
        let gone = self.state.gone_from(&subsystem);
        let time = if matches!(self.state, QueueState::Admin(_)) { REPORT_TIME } else { REUSE_TIME };
        self.withdrawn.add(&gone, now + time);
        self.state.replace(self.withdrawn.hide_from(subsystem));
        Some(gone)
    }

    /// The subsystem is no longer for this host, for this reason.
    pub(super) fn withdraw_subsystem(&mut self, now: Instant, reason: &'static str) {
        self.withdrawn.add_subsystem(now + WITHDRAW_TIME, reason);
        if let QueueState::Admin(admin) = &mut self.state {
            admin.hide();
        }
    }

    /// Forgets the namespaces that have been gone for long enough; false if there is none.
    pub(super) fn release_withdrawn(&mut self, now: Instant) -> bool {
        self.withdrawn.release(now)
    }

    /// How the connection ends, once its subsystem is withdrawn.
    pub(super) fn withdrawal(&self) -> Option<CloseReason> {
        self.withdrawn.reason()
    }

    /// When something that was withdrawn is to be looked at.
    pub(super) fn withdrawal_due(&self) -> Option<Instant> {
        self.withdrawn.due()
    }

    /// A volume's epoch has moved, perhaps because it has other reservations from now on.
    pub(super) fn record(&mut self, fenced: VolumeRef, change: Option<&Reservations>) {
        self.volume_states.record(fenced, change.map(|change| &change.view));
        self.apply_reservations();
    }

    /// What this host may do, from all reservations known.
    pub(super) fn apply_reservations(&mut self) {
        let Some(host) = self.association.registrant() else { return };
        if let QueueState::Io(namespaces) = &mut self.state {
            namespaces.apply(&self.volume_states, &host);
        }
    }
}
