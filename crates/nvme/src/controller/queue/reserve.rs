//! Reservations on one queue: asking their owner for a change, and hearing of every change.

use alloc::sync::Arc;
use alloc::vec::Vec;

use protocol::Instant;
use volume::reservation::{CommandError, Notice, Registrant};
use volume::{Request, VolumeId};

use super::{ControllerQueue, State};
use crate::controller::admin::{Admin, Event};
use crate::controller::command::{CommandResult, VolumeRef};
use crate::controller::fabric_transport::FabricTransport;
use crate::controller::slots::Step;
use crate::controller::{Action, Reservations};
use crate::fabrics::HostIdentity;
use crate::reservation;
use crate::sqe::ALL_NAMESPACES;
use crate::status::Status;

impl<T: FabricTransport> ControllerQueue<T> {
    /// The host in the words of the reservations.
    pub(super) fn registrant(&self) -> Option<Registrant> {
        let host = self.host.as_ref()?;
        Some(Registrant::Host { identifier: host.identifier, nqn: Arc::clone(&host.nqn) })
    }

    /// A command that changes reservations has its data: the owner decides.
    pub(super) fn reserve(&mut self, index: u16, data: &[u8]) {
        let Some(registrant) = self.registrant() else { return };
        let (Some(slot), State::Io(namespaces)) = (self.slots.get(index), &self.state) else { return };
        let entry = slot.entry;
        let identified = self.host.as_ref().is_some_and(HostIdentity::is_identified);
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
        if matches!(slot.step, Step::Held) && reservation::changes(slot.entry.opcode) {
            let status = result.map_or_else(reservation::refusal, |()| Status::SUCCESS);
            self.finish(index, CommandResult::of(status), None);
        }
    }

    /// A volume's epoch has moved, perhaps because it has other reservations from now on.
    pub(super) fn handle_fence(&mut self, now: Instant, fenced: VolumeRef, change: Option<Reservations>) {
        self.volume_states.record(fenced, change.as_ref().map(|change| &change.view));
        self.apply_reservations();
        let Some((host, change)) = self.registrant().zip(change) else { return };
        if change.aborted.contains(&host) {
            self.abort_requests(now, fenced.volume);
        }
        if let State::Admin(admin) = &mut self.state {
            for (_, notice) in change.notices.iter().filter(|(registrant, _)| *registrant == host) {
                admin.log_reservation(fenced.volume, *notice);
            }
        }
        self.after_admin();
    }

    /// A preemption that aborts has named this host: what it has under way on the volume is to end soon, and nothing of it goes on.
    fn abort_requests(&mut self, now: Instant, volume: VolumeId) {
        let State::Io(namespaces) = &mut self.state else { return };
        let of_volume = namespaces.iter_mut().filter(|namespace| namespace.volume == volume);
        let concerned: Vec<u32> = of_volume.map(|namespace| namespace.nsid).collect();
        self.end_commands(now, |entry| {
            concerned.contains(&entry.nsid.get()) || entry.nsid.get() == ALL_NAMESPACES
        });
    }

    /// A request was judged by what no longer holds, and has not begun: it is judged again.
    pub(super) fn handle_refused(&mut self, request: Request) {
        let Ok(index) = u16::try_from(request.tag.0) else { return };
        let Some(slot) = self.slots.get(index) else { return };
        let Some(volume) = slot.step.volume() else { return };
        let entry = slot.entry;
        // A volume that is withdrawn refuses every request: a connection that ends with it would make this one again for ever.
        if self.aborts.is_pending_for(index) || self.close.is_some() {
            return self.finish_aborted(index);
        }
        let judged = match &self.state {
            State::Io(namespaces) => namespaces.judge_again(&entry, volume),
            _ => self.judge_query(volume),
        };
        match judged {
            Ok(volume_ref) => self.submit(Some(index), volume_ref, request.operation),
            Err(status) => self.finish(index, CommandResult::of(status), None),
        }
    }

    /// What this host may do, from all reservations known.
    pub(super) fn apply_reservations(&mut self) {
        let Some(host) = self.registrant() else { return };
        let State::Io(namespaces) = &mut self.state else { return };
        for namespace in namespaces.iter_mut() {
            if let Some(state) = self.volume_states.find(namespace.volume) {
                namespace.see(&state.view, &host);
                namespace.epoch = state.current.epoch;
            }
        }
    }
}

impl Admin {
    /// Something happened to the host's registration on a volume.
    fn log_reservation(&mut self, volume: VolumeId, notice: Notice) {
        let Some(subsystem) = self.subsystem() else { return };
        let of_volume = subsystem.namespaces.iter().filter(|namespace| namespace.volume == volume);
        let concerned: Vec<u32> = of_volume.map(|namespace| namespace.nsid).collect();
        for nsid in concerned {
            if !self.values.masks(nsid, notice) {
                self.notifications.add(nsid, notice);
                self.notify(Event::Reservation);
            }
        }
    }
}
