//! Carries out task management functions: aborts and resets (RFC 7143 §11.5, SAM-5 §7).
//!
//! A function is answered only after every task that it affects has ended, at the volume too (`task_management`): this nexus's own, which the connection
//! counts, and for resets those of all other nexuses, on whatever core (RFC 7143 §4.2.3.3), which the owner of the fences counts. Tasks
//! whose data is still to come end at once, and what comes for them is thrown away.

use alloc::string::ToString;
use alloc::vec::Vec;

use scsi::NexusEvent;
use volume::VolumeId;

use super::action::Action;
use super::commands::Commands;
use super::context::Context;
use super::portal::Node;
use super::task_management::{Performed, Then};
use super::tasks::{AbortedBy, State};
use crate::datamover::TargetDatamover;
use crate::pdu::{Function, FunctionResponse, TaskManagementRequest};
use crate::sequence::before;
use crate::session;

/// What a function works on.
#[derive(Debug)]
pub(super) struct FunctionScope<'a, D> {
    pub(super) context: &'a mut Context<D>,
    pub(super) commands: &'a mut Commands,
    /// The target of the session.
    pub(super) node: Option<&'a Node>,
}

impl<D: TargetDatamover> FunctionScope<'_, D> {
    /// Carries out a function, as far as that does not wait for tasks to end.
    pub(super) fn perform(&mut self, request: &TaskManagementRequest) -> Performed {
        match request.function() {
            Function::ABORT_TASK => self.abort_task(request).into(),
            Function::ABORT_TASK_SET | Function::CLEAR_TASK_SET | Function::LOGICAL_UNIT_RESET => {
                self.on_unit(request)
            }
            Function::TARGET_WARM_RESET => self.reset_target(),
            // It ends the sessions of others, so it is not for an initiator that may use only a part of the target.
            Function::TARGET_COLD_RESET if self.is_masked() => FunctionResponse::NOT_AUTHORIZED.into(),
            Function::TARGET_COLD_RESET => {
                let target = self.node.map(|node| node.name.to_string()).unwrap_or_default();
                self.context.actions.push_back(Action::Group(session::Request::EndTarget { target }));
                Performed { then: Then::Close, ..self.reset_target() }
            }
            Function::TASK_REASSIGN => FunctionResponse::NO_REASSIGNMENT.into(),
            _ => FunctionResponse::NOT_SUPPORTED.into(),
        }
    }

    fn abort_task(&mut self, request: &TaskManagementRequest) -> FunctionResponse {
        let commands = &mut *self.commands;
        let slot = commands.find(request.referenced_task_tag());
        let task = slot.and_then(|slot| commands.peek(slot));
        let waits = task
            .map(|task| commands.is_on_unit(task, request.lun) && !matches!(task.state, State::Answering));
        // A command that was sent before and has not come counts as received, and is not carried out when it comes
        // (RFC 7143 §11.6.1).
        let sent = before(request.ref_cmd_sn(), request.cmd_sn());
        match (slot, waits) {
            (Some(slot), Some(true)) => commands.abort(self.context, slot, AbortedBy::Itself),
            (None, _) if sent && self.context.numbers.window.skip(request.ref_cmd_sn()) => {}
            _ => return FunctionResponse::NO_TASK,
        }
        FunctionResponse::COMPLETE
    }

    fn on_unit(&mut self, request: &TaskManagementRequest) -> Performed {
        let lun = request.lun;
        let Some(volume) = self.commands.nexus().server().and_then(|server| server.volume(lun)) else {
            return FunctionResponse::NO_LUN.into();
        };
        self.commands.abort_unit(self.context, lun);
        match request.function() {
            Function::CLEAR_TASK_SET => self.reset_others(Vec::from([volume]), NexusEvent::TaskSetCleared),
            Function::LOGICAL_UNIT_RESET => {
                self.commands.server_mut().and_then(|server| server.reset_unit(lun));
                self.reset_others(Vec::from([volume]), NexusEvent::LogicalUnitReset)
            }
            _ => FunctionResponse::COMPLETE.into(),
        }
    }

    /// True when the target has logical units that this initiator may not use.
    fn is_masked(&self) -> bool {
        let seen = self.commands.nexus().server().map_or(0, |server| server.device().units.len());
        self.node.is_some_and(|node| node.device.units.len() != seen)
    }

    fn reset_target(&mut self) -> Performed {
        self.commands.abort_where(self.context, AbortedBy::Itself, |_| true);
        let luns: Vec<u16> = match self.node {
            Some(node) => node.device.units.iter().map(|unit| unit.lun).collect(),
            None => Vec::new(),
        };
        let reset = |lun| self.commands.server_mut()?.reset_unit(scsi::encode_lun(lun));
        let mut volumes: Vec<VolumeId> = luns.into_iter().filter_map(reset).collect();
        volumes.sort_unstable();
        volumes.dedup();
        self.reset_others(volumes, NexusEvent::LogicalUnitReset)
    }

    /// Ends the tasks of all other nexuses on these volumes: the function is answered when they have ended on all cores.
    fn reset_others(&mut self, volumes: Vec<VolumeId>, event: NexusEvent) -> Performed {
        let tag = self.context.tags.next();
        self.context.actions.push_back(Action::Reset { tag, volumes, event });
        Performed { reset: Some(tag), ..FunctionResponse::COMPLETE.into() }
    }
}
