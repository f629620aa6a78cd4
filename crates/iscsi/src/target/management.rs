//! Task management: aborts and resets (RFC 7143 §11.5, SAM-5 §7), and the end of all tasks at logout and close.
//!
//! A function is answered only after every task that it affects has ended, at the volume too.

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::discriminant;

use protocol::CloseReason;
use scsi::NexusEvent;
use volume::{Tag, VolumeId};

use super::connection::{Action, Connection};
use super::tasks::{State, Task};
use crate::connection::State as Connected;
use crate::limits::MANAGEMENT_DEPTH;
use crate::pdu::{Bhs, Function, FunctionResponse, TaskManagementRequest, TaskManagementResponse};
use crate::sequence::Verdict;
use crate::session;

/// What follows an answer that waits for tasks to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// The connection goes on.
    GoOn,
    /// The connection ends.
    Close,
}

/// An answer that waits until every aborted task has ended.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) header: Bhs,
    pub(super) numbered: bool,
    pub(super) then: Then,
}

impl Connection {
    pub(super) fn handle_management(&mut self, request: &TaskManagementRequest, numbered: bool) {
        let (response, then) = if self.pending.len() >= MANAGEMENT_DEPTH {
            (FunctionResponse::REJECTED, Then::GoOn)
        } else {
            self.perform(request)
        };
        let header = TaskManagementResponse::new(request.task_tag(), response).to_bytes();
        self.pending.push_back(Pending { header, numbered, then });
        self.finish_pending(false);
    }

    fn perform(&mut self, request: &TaskManagementRequest) -> (FunctionResponse, Then) {
        let response = match request.function() {
            Function::ABORT_TASK => self.abort_task(request),
            Function::ABORT_TASK_SET | Function::CLEAR_TASK_SET | Function::LOGICAL_UNIT_RESET => {
                self.on_unit(request)
            }
            Function::TARGET_WARM_RESET => {
                self.reset_target();
                FunctionResponse::COMPLETE
            }
            Function::TARGET_COLD_RESET => {
                self.reset_target();
                let target = self.node().map(|node| node.name.to_string()).unwrap_or_default();
                self.actions.push_back(Action::Group(session::Request::EndTarget { target }));
                return (FunctionResponse::COMPLETE, Then::Close);
            }
            Function::TASK_REASSIGN => FunctionResponse::NO_REASSIGNMENT,
            _ => FunctionResponse::NOT_SUPPORTED,
        };
        (response, Then::GoOn)
    }

    fn abort_task(&mut self, request: &TaskManagementRequest) -> FunctionResponse {
        let tag = request.referenced_task_tag();
        let waits = |task: &Task| !matches!(task.state, State::Answering);
        match self.tasks.find(tag).and_then(|slot| self.tasks.peek(slot)) {
            Some(task) if waits(task) => {
                self.doom_where(|task| task.tag == tag);
                FunctionResponse::COMPLETE
            }
            // A command that may still come is as good as aborted (RFC 7143 §11.6.1).
            None if self.window.judge(request.ref_cmd_sn()) != Verdict::Outside => FunctionResponse::COMPLETE,
            _ => FunctionResponse::NO_TASK,
        }
    }

    fn on_unit(&mut self, request: &TaskManagementRequest) -> FunctionResponse {
        let lun = request.lun;
        if !self.server.as_ref().is_some_and(|server| server.unit_exists(lun)) {
            return FunctionResponse::NO_LUN;
        }
        self.doom_where(|task| task.lun == lun);
        if let Some(server) = &mut self.server {
            match request.function() {
                Function::CLEAR_TASK_SET => server.clear_task_set(lun),
                Function::LOGICAL_UNIT_RESET => server.reset_unit(lun),
                _ => {}
            }
        }
        self.spread_events();
        FunctionResponse::COMPLETE
    }

    fn reset_target(&mut self) {
        self.doom_where(|_| true);
        let luns: Vec<u16> = match self.node() {
            Some(node) => node.device.units.iter().map(|unit| unit.lun).collect(),
            None => Vec::new(),
        };
        if let Some(server) = &mut self.server {
            for lun in luns {
                server.reset_unit(scsi::encode_lun(lun));
            }
        }
        self.spread_events();
    }

    /// Something happened on a volume through another nexus. Tasks that it ends get no answer (TAS is zero); a unit
    /// attention tells the initiator.
    pub(super) fn handle_event(&mut self, volume: VolumeId, event: NexusEvent) {
        if self.server.as_ref().is_some_and(|server| server.ends_tasks(&event))
            && let Some(node) = self.node()
        {
            let device = Arc::clone(&node.device);
            self.doom_where(|task| {
                let unit = device.find(task.lun).and_then(|place| device.units.get(place));
                unit.is_some_and(|unit| unit.volume == volume)
            });
        }
        match &mut self.server {
            Some(server) => server.handle_event(volume, event),
            None => self.hear_early(volume, event),
        }
    }

    /// Who holds reservations, and how large the unit is, must be known when the nexus begins; nothing else that happened
    /// before concerns it.
    fn hear_early(&mut self, volume: VolumeId, event: NexusEvent) {
        let lasting = matches!(event, NexusEvent::Reservations { .. } | NexusEvent::CapacityChanged(_));
        if self.state == Connected::InLogin && lasting {
            let kind = discriminant(&event);
            self.heard_early.retain(|(at, earlier)| (*at, discriminant(earlier)) != (volume, kind));
            self.heard_early.push((volume, event));
        }
    }

    /// Aborts the tasks that `affected` names.
    pub(super) fn doom_where(&mut self, affected: impl Fn(&Task) -> bool) {
        for slot in self.tasks.slots() {
            if self.tasks.peek(slot).is_some_and(&affected) {
                self.doom(slot);
            }
        }
    }

    fn doom(&mut self, slot: u16) {
        let Some(task) = self.tasks.get(slot) else { return };
        match task.state {
            State::Free | State::Answering => {}
            State::Collecting(_) => self.bury(slot),
            State::AwaitBuffer { .. } => {
                self.parked.retain(|parked| *parked != slot);
                self.bury(slot);
            }
            State::AtReservations => task.doomed = true,
            State::AtVolume(volume) => {
                if !core::mem::replace(&mut task.doomed, true) {
                    self.actions.push_back(Action::Cancel { volume, tag: Tag(slot.into()) });
                }
            }
        }
    }

    /// A task has ended without an answer.
    pub(super) fn bury(&mut self, slot: u16) {
        if self.tasks.remove(slot) {
            self.window.release();
        }
        self.finish_pending(false);
    }

    /// Answers the functions whose tasks have ended; with `force`, all.
    pub(super) fn finish_pending(&mut self, force: bool) {
        while let Some(front) = self.pending.front() {
            let waits = self.tasks.iter().any(|task| task.doomed);
            if waits && !force || self.state.is_over() {
                return;
            }
            let (header, numbered, then) = (front.header, front.numbered, front.then);
            self.pending.pop_front();
            self.out.respond(header, Vec::new(), numbered);
            if then == Then::Close {
                self.close(CloseReason::Finished);
            }
        }
    }

    /// The connection ends: what is at a volume is cancelled, everything else is dropped.
    pub(super) fn abandon(&mut self) {
        self.doom_where(|_| true);
        self.pending.clear();
        self.parked.clear();
    }
}
