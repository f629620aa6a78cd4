//! What changes about what a connected queue serves: its portal, the size of a volume, its reservations.

use alloc::sync::Arc;
use alloc::vec::Vec;

use protocol::Instant;
use volume::reservation::CommandError;
use volume::{Geometry, VolumeId};

use super::{ControllerQueue, QueueState};
use crate::controller::abort_table::Ending;
use crate::controller::command::{CommandResult, VolumeRef};
use crate::controller::fabric_transport::FabricTransport;
use crate::controller::io::Namespaces;
use crate::controller::portal_change::{Change, Reaction, Stage, reaction};
use crate::controller::slots::{Slots, Step};
use crate::controller::subsystem::NamespaceKey;
use crate::controller::{Action, Portal, Reservations};
use crate::limits::{REPORT_TIME, REUSE_TIME, WITHDRAW_TIME};
use crate::opcode::nvm;
use crate::reservation;
use crate::sqe::ALL_NAMESPACES;
use crate::status::Status;

impl<T: FabricTransport> ControllerQueue<T> {
    /// A volume has another size. Whoever is not connected yet finds it in the portal.
    pub(super) fn handle_resize(&mut self, volume: VolumeId, geometry: Geometry) {
        if matches!(self.state, QueueState::ExpectConnect) {
            Arc::make_mut(&mut self.portal).resize(volume, geometry);
        }
        self.state.resize(volume, geometry);
        self.after_admin();
    }

    /// What is served is this from now on.
    pub(super) fn handle_portal_change(&mut self, now: Instant, portal: Arc<Portal>) {
        let before = core::mem::replace(&mut self.portal, portal);
        let subnqn = self.association.subnqn.as_deref();
        let [before, after] = [&before, &self.portal].map(|portal| subnqn.and_then(|nqn| portal.find(nqn)));
        match reaction(self.stage(), Change::between(before, after, self.association.hostnqn())) {
            Reaction::Keep => {}
            Reaction::ShowLog => {
                self.state.show_log(&self.portal);
                self.after_admin();
            }
            Reaction::Replace => self.replace_subsystem(now),
            Reaction::Refuse(error) => {
                if let QueueState::Connecting { slot, .. } = self.state {
                    // The group may still agree: there is nobody any more to hear of that.
                    self.state = QueueState::ExpectConnect;
                    self.refuse_connect(slot, error);
                }
            }
            Reaction::Withdraw(reason) => self.withdraw_subsystem(now, reason),
        }
    }

    fn stage(&self) -> Stage {
        if self.close.is_some() || self.is_withdrawn() { Stage::Ending } else { self.state.stage() }
    }

    /// Shows the subsystem of the portal, without what was withdrawn just now.
    fn replace_subsystem(&mut self, now: Instant) {
        let (Some(nqn), Some(host)) = (&self.association.subnqn, &self.association.host) else { return };
        let Some(subsystem) = self.portal.find(nqn).map(|found| found.masked(&host.nqn)) else { return };
        let gone = self.state.gone_from(&subsystem);
        let time = if matches!(self.state, QueueState::Admin(_)) { REPORT_TIME } else { REUSE_TIME };
        self.withdrawn.add(&gone, now + time);
        self.state.replace(self.withdrawn.hide_from(subsystem));
        if let QueueState::Io(namespaces) = &self.state {
            renumber(&mut self.slots, namespaces);
            self.apply_reservations();
        }
        self.end_withdrawn(now, &gone);
        self.after_admin();
        self.renew_deadline();
    }

    /// Shows what has the identifiers of namespaces that have been gone for long enough.
    pub(super) fn show_again(&mut self, now: Instant) {
        if self.withdrawn.release(now) {
            self.replace_subsystem(now);
        } else {
            self.renew_deadline();
        }
    }

    /// The subsystem is no longer for this host: the queue ends soon.
    fn withdraw_subsystem(&mut self, now: Instant, reason: &'static str) {
        self.withdrawn.add_subsystem(now + WITHDRAW_TIME, reason);
        if let QueueState::Admin(admin) = &mut self.state {
            admin.hide();
            self.after_admin();
        }
        self.renew_deadline();
    }

    /// A connected queue is looked at when something that was withdrawn asks for it; an admin queue also when its controller is not kept alive.
    fn renew_deadline(&mut self) {
        let end = match &self.state {
            QueueState::Admin(_) => self.lifetime.end(),
            QueueState::Io(_) => None,
            _ => return,
        };
        self.deadline = end.into_iter().chain(self.withdrawn.due()).min();
    }

    /// Lets the commands to namespaces that are gone end. A flush of all namespaces that is just at one of them ends too, and may be tried again.
    fn end_withdrawn(&mut self, now: Instant, gone: &[NamespaceKey]) {
        let mut concerned = Vec::new();
        for index in self.slots.under_way() {
            let Some(slot) = self.slots.get(index) else { continue };
            let (nsid, volume) = (slot.command.entry.nsid.get(), slot.step.volume());
            let ending = if gone.iter().any(|key| key.nsid == nsid) {
                Ending::Withdrawn
            } else if nsid == ALL_NAMESPACES && gone.iter().any(|key| Some(key.volume) == volume) {
                Ending::Dropped
            } else {
                continue;
            };
            // What waits for memory ends before any comes free: it would begin on the namespace that has the identifier now.
            if self.waiters.on_end(index) {
                self.aborts.add(index, ending);
                self.finish_aborted(index);
            } else {
                concerned.push((index, ending));
            }
        }
        for (index, ending) in concerned {
            self.end_command(now, index, ending);
        }
    }

    /// A command that changes reservations has its data: the owner decides.
    pub(super) fn reserve(&mut self, index: u16, data: &[u8]) {
        let Some(registrant) = self.association.registrant() else { return };
        let (Some(slot), QueueState::Io(namespaces)) = (self.slots.get(index), &self.state) else { return };
        let entry = slot.command.entry;
        let identified = self.association.is_identified();
        let asked = namespaces.find(entry.nsid.get()).and_then(|namespace| {
            let command = reservation::command(&entry, data)?;
            // What a host without an identifier registered, every other such host could use.
            if identified { Ok((namespace.volume, command)) } else { Err(Status::COMMAND_SEQUENCE.dnr()) }
        });
        match asked {
            Ok((volume, command)) => {
                slot.step = Step::Held;
                let tag = u32::from(index);
                self.actions.push_back(Action::Reserve { tag, volume, registrant, command });
            }
            Err(status) => self.finish(index, CommandResult::of(status), None),
        }
    }

    /// The owner has decided.
    pub(super) fn handle_reserved(&mut self, tag: u32, result: Result<(), CommandError>) {
        let Ok(index) = u16::try_from(tag) else { return };
        let Some(slot) = self.slots.get(index) else { return };
        if matches!(slot.step, Step::Held) && reservation::changes(slot.command.entry.opcode) {
            let status = result.map_or_else(reservation::refusal, |()| Status::SUCCESS);
            self.finish(index, CommandResult::of(status), None);
        }
    }

    /// A volume's epoch has moved, perhaps because it has other reservations from now on.
    pub(super) fn handle_fence(&mut self, now: Instant, fenced: VolumeRef, change: Option<Reservations>) {
        self.volume_states.record(fenced, change.as_ref().map(|change| &change.view));
        self.apply_reservations();
        let Some((host, change)) = self.association.registrant().zip(change) else { return };
        if change.aborted.contains(&host) {
            self.abort_requests(now, fenced.volume);
        }
        if let QueueState::Admin(admin) = &mut self.state {
            for (_, notice) in change.notices.iter().filter(|(registrant, _)| *registrant == host) {
                admin.log_reservation(fenced.volume, *notice);
            }
        }
        self.after_admin();
    }

    /// A preemption that aborts has named this host: what it has under way on the volume is to end soon, and nothing of it goes on.
    fn abort_requests(&mut self, now: Instant, volume: VolumeId) {
        let QueueState::Io(namespaces) = &self.state else { return };
        let concerned: Vec<u32> = namespaces.of_volume(volume).collect();
        self.end_commands(now, |entry| {
            concerned.contains(&entry.nsid.get()) || entry.nsid.get() == ALL_NAMESPACES
        });
    }

    /// What this host may do, from all reservations known.
    pub(super) fn apply_reservations(&mut self) {
        let Some(host) = self.association.registrant() else { return };
        if let QueueState::Io(namespaces) = &mut self.state {
            namespaces.apply(&self.volume_states, &host);
        }
    }
}

/// What commands know by a namespace's position they know by its new one.
fn renumber(slots: &mut Slots, namespaces: &Namespaces) {
    for index in slots.indices() {
        let Some(slot) = slots.get(index) else { continue };
        let nsid = slot.command.entry.nsid.get();
        match &mut slot.step {
            Step::Data { transfer: Some(transfer), .. } => transfer.namespace = namespaces.position(nsid),
            Step::Submitted { volume, position, .. }
                if slot.command.entry.opcode == nvm::FLUSH && nsid == ALL_NAMESPACES =>
            {
                position.next = namespaces.flushed_with(*volume);
            }
            _ => {}
        }
    }
}
