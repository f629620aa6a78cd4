//! Task management: aborts and resets (RFC 7143 §11.5, SAM-5 §7), and the end of all tasks at logout and close.
//!
//! A function is answered only after every task that it affects has ended, at the volume too: this nexus's own, which the connection
//! counts, and for resets those of all other nexuses, on whatever core (RFC 7143 §4.2.3.3), which the owner of the fences counts. Tasks
//! whose data is still to come end at once, and what comes for them is thrown away.

use alloc::string::ToString;
use alloc::vec::Vec;

use protocol::{CloseReason, Instant, NoticeKind};
use scsi::{NexusEvent, Status};
use volume::{Epoch, Tag, VolumeId};

use super::commands::without_data;
use super::connection::{Action, Target};
use super::task_management::{FunctionRequest, Performed, Ready, ResetResult, Then};
use super::tasks::{AbortedBy, State, Task};
use crate::datamover::{TargetDatamover, TaskHandle};
use crate::pdu::{Function, FunctionResponse, TaskManagementRequest};
use crate::sequence::{Delivery, before};
use crate::session;

impl<D: TargetDatamover> Target<D> {
    pub(super) fn handle_management(
        &mut self,
        now: Instant,
        request: &TaskManagementRequest,
        delivery: Delivery,
    ) {
        self.notices.push(NoticeKind::Management, request.function().text());
        let is_full = self.management.is_full();
        let performed = if is_full { FunctionResponse::REJECTED.into() } else { self.perform(request) };
        let request = FunctionRequest { at: now, task_tag: request.task_tag(), delivery };
        self.management.performed(request, &performed);
        self.finish_pending();
    }

    fn perform(&mut self, request: &TaskManagementRequest) -> Performed {
        match request.function() {
            Function::ABORT_TASK => self.abort_task(request).into(),
            Function::ABORT_TASK_SET | Function::CLEAR_TASK_SET | Function::LOGICAL_UNIT_RESET => {
                self.on_unit(request)
            }
            Function::TARGET_WARM_RESET => self.reset_target(),
            // It ends the sessions of others, so it is not for an initiator that may use only a part of the target.
            Function::TARGET_COLD_RESET if self.is_masked() => FunctionResponse::NOT_AUTHORIZED.into(),
            Function::TARGET_COLD_RESET => {
                let target = self.node().map(|node| node.name.to_string()).unwrap_or_default();
                self.actions.push_back(Action::Group(session::Request::EndTarget { target }));
                Performed { then: Then::Close, ..self.reset_target() }
            }
            Function::TASK_REASSIGN => FunctionResponse::NO_REASSIGNMENT.into(),
            _ => FunctionResponse::NOT_SUPPORTED.into(),
        }
    }

    fn abort_task(&mut self, request: &TaskManagementRequest) -> FunctionResponse {
        let tag = request.referenced_task_tag();
        let slot = self.tasks.find(tag);
        let task = slot.and_then(|slot| self.tasks.peek(slot));
        let waits =
            task.map(|task| self.is_on_unit(task, request.lun) && !matches!(task.state, State::Answering));
        // A command that was sent before and has not come counts as received, and is not carried out when it comes
        // (RFC 7143 §11.6.1).
        let sent = before(request.ref_cmd_sn(), request.cmd_sn());
        match (slot, waits) {
            (Some(slot), Some(true)) => self.abort(slot, AbortedBy::Itself),
            (None, _) if sent && self.numbers.window.skip(request.ref_cmd_sn()) => {}
            _ => return FunctionResponse::NO_TASK,
        }
        FunctionResponse::COMPLETE
    }

    /// True when the task is one of the logical unit that these bytes name.
    fn is_on_unit(&self, task: &Task, lun: [u8; 8]) -> bool {
        self.nexus.server().is_some_and(|server| server.same_unit(task.lun, lun))
    }

    fn on_unit(&mut self, request: &TaskManagementRequest) -> Performed {
        let lun = request.lun;
        let Some(volume) = self.nexus.server().and_then(|server| server.volume(lun)) else {
            return FunctionResponse::NO_LUN.into();
        };
        let affected = self.slots_where(|task| self.is_on_unit(task, lun));
        for slot in affected {
            self.abort(slot, AbortedBy::Itself);
        }
        match request.function() {
            Function::CLEAR_TASK_SET => self.reset_others(Vec::from([volume]), NexusEvent::TaskSetCleared),
            Function::LOGICAL_UNIT_RESET => {
                self.nexus.server_mut().map(|server| server.reset_unit(lun));
                self.reset_others(Vec::from([volume]), NexusEvent::LogicalUnitReset)
            }
            _ => FunctionResponse::COMPLETE.into(),
        }
    }

    /// True when the target has logical units that this initiator may not use.
    fn is_masked(&self) -> bool {
        let seen = self.nexus.server().map_or(0, |server| server.device().units.len());
        self.node().is_some_and(|node| node.device.units.len() != seen)
    }

    fn reset_target(&mut self) -> Performed {
        self.abort_where(AbortedBy::Itself, |_| true);
        let luns: Vec<u16> = match self.node() {
            Some(node) => node.device.units.iter().map(|unit| unit.lun).collect(),
            None => Vec::new(),
        };
        let nexus = &mut self.nexus;
        let reset = |lun| nexus.server_mut()?.reset_unit(scsi::encode_lun(lun));
        let mut volumes: Vec<VolumeId> = luns.into_iter().filter_map(reset).collect();
        volumes.sort_unstable();
        volumes.dedup();
        self.reset_others(volumes, NexusEvent::LogicalUnitReset)
    }

    /// Ends the tasks of all other nexuses on these volumes: the function is answered when they have ended on all cores.
    fn reset_others(&mut self, volumes: Vec<VolumeId>, event: NexusEvent) -> Performed {
        let tag = self.tags.next();
        self.actions.push_back(Action::Reset { tag, volumes, event });
        Performed { reset: Some(tag), ..FunctionResponse::COMPLETE.into() }
    }

    /// Everything of other nexuses that a reset ends has ended.
    pub(super) fn handle_reset(&mut self, tag: u32, result: ResetResult) {
        self.management.handle_reset(tag, result);
        self.finish_pending();
    }

    /// A volume's epoch has moved.
    pub(super) fn handle_fence(&mut self, volume: VolumeId, epoch: Epoch, event: Option<NexusEvent>) {
        self.nexus.set_epoch(volume, epoch);
        if let Some(event) = event {
            self.handle_event(volume, event);
        }
    }

    /// Something happened on a volume through another nexus. Tasks that it ends are answered with TASK ABORTED (TAS is one), so
    /// that their initiator can send them again at once.
    pub(super) fn handle_event(&mut self, volume: VolumeId, event: NexusEvent) {
        if let Some(server) = self.nexus.server().filter(|server| server.ends_tasks(&event)) {
            for slot in self.slots_where(|task| server.volume(task.lun) == Some(volume)) {
                self.abort(slot, AbortedBy::Others);
            }
        }
        self.nexus.handle_event(volume, event);
    }

    /// Aborts the tasks that `affected` names.
    pub(super) fn abort_where(&mut self, by: AbortedBy, affected: impl Fn(&Task) -> bool) {
        for slot in self.slots_where(affected) {
            self.abort(slot, by);
        }
    }

    fn slots_where(&self, affected: impl Fn(&Task) -> bool) -> Vec<u16> {
        self.tasks.slots().filter(|slot| self.tasks.peek(*slot).is_some_and(&affected)).collect()
    }

    fn abort(&mut self, slot: u16, by: AbortedBy) {
        let Some(task) = self.tasks.get(slot) else { return };
        match task.state {
            State::Free | State::Answering => {}
            State::Collecting => {
                self.mover.deallocate_task_resources(TaskHandle(slot));
                self.end_aborted(slot, by);
            }
            State::Unread => {
                // Receiving goes on: the data behind the command is passed over.
                self.withheld.release();
                self.end_aborted(slot, by);
            }
            State::AwaitBuffer(_) => {
                self.buffers.remove(slot);
                self.end_aborted(slot, by);
            }
            State::AtReservations => task.abort(by),
            State::AtVolume(volume) => {
                let first = task.aborted.is_none();
                task.abort(by);
                if first {
                    self.actions.push_back(Action::Cancel { volume, tag: Tag(slot.into()) });
                }
            }
        }
    }

    /// Ends an aborted task whose request, if it had one, is over.
    #[cold]
    pub(super) fn end_aborted(&mut self, slot: u16, by: AbortedBy) {
        match by {
            AbortedBy::Itself => self.retire(slot),
            AbortedBy::Others => {
                if let Some(task) = self.tasks.get(slot) {
                    task.aborted = None;
                }
                self.answer(slot, without_data(Status::TaskAborted));
                self.finish_pending();
            }
        }
    }

    /// A task has ended without an answer.
    pub(super) fn retire(&mut self, slot: u16) {
        self.mover.deallocate_task_resources(TaskHandle(slot));
        if let Some(delivery) = self.remove_task(slot) {
            self.numbers.window.finish(delivery);
        }
        self.finish_pending();
    }

    /// Answers the functions whose tasks have ended.
    pub(super) fn finish_pending(&mut self) {
        while self.management.awaits_only_tasks() && !self.tasks.are_aborting() && self.answer_oldest() {}
    }

    /// Answers all functions, whatever they wait for.
    pub(super) fn finish_all_pending(&mut self) {
        while self.answer_oldest() {}
    }

    /// Answers the oldest function that waits; false when there is none, or nobody to answer.
    fn answer_oldest(&mut self) -> bool {
        if self.life.state().is_over() {
            return false;
        }
        let Some(ready) = self.management.take_oldest() else { return false };
        self.send_ready(ready);
        true
    }

    fn send_ready(&mut self, Ready { header, delivery, then }: Ready) {
        self.respond(header, Vec::new(), delivery);
        if then == Then::Close {
            self.close(CloseReason::Finished);
        }
    }

    /// Rejects the functions that have waited for too long.
    pub(super) fn reject_overdue(&mut self, now: Instant) {
        while !self.life.state().is_over()
            && let Some(ready) = self.management.take_overdue(now)
        {
            self.send_ready(ready);
        }
        self.finish_pending();
    }

    /// The connection ends: what is at a volume is cancelled, everything else is dropped.
    pub(super) fn abandon(&mut self) {
        self.abort_where(AbortedBy::Itself, |_| true);
        self.management.clear();
        self.nexus.give_up();
        self.buffers.clear();
    }
}
