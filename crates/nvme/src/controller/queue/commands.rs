//! Commands from the decision about them to their completion: what they wait for, which requests they make, and how they end.

use alloc::boxed::Box;

use buf::BufList;
use protocol::{Instant, NoticeKind};
use volume::{Completion, Operation, Outcome, Request, Submission, Tag, VolumeId};

use super::{Admission, ControllerQueue, Integrity, QueueState};
use crate::controller::Action;
use crate::controller::admin::ReportedEvent;
use crate::controller::allocation::{NextQuery, Query, QueryProgress};
use crate::controller::command::{CommandResult, EndedCommand, Plan, Position, ReceivedCommand, VolumeRef};
use crate::controller::data_progress::DataSource;
use crate::controller::fabric_transport::{FabricTransport, Response};
use crate::controller::slots::Step;
use crate::cqe::CompletionQueueEntry;
use crate::opcode::{CommandGroup, admin::GET_LBA_STATUS, nvm};
use crate::sgl::DataPointer;
use crate::status::Status;
use crate::subsystem::{self, ControllerState};

impl<T: FabricTransport> ControllerQueue<T> {
    /// Does what was decided about a command.
    #[inline]
    pub(super) fn carry_out(&mut self, now: Instant, command: &ReceivedCommand, plan: Plan) -> Admission {
        match plan {
            Plan::Finish(result) => self.complete(command.ended(), result, None),
            Plan::Respond(bytes) => {
                self.complete(command.ended(), CommandResult::SUCCESS, Some(bytes.into()));
            }
            Plan::Receive { length, in_capsule: true, transfer } => {
                return self.receive_capsule(command, length, transfer);
            }
            Plan::Read(read) if self.waiters.is_empty() && self.begin_read(command, &read) => {}
            plan @ (Plan::Read(_) | Plan::Receive { .. }) => self.begin_with_memory(now, command, &plan),
            Plan::Submit { volume_ref, operation } => {
                let slot =
                    self.slots.begin(command, Step::submitted(volume_ref.volume, Position::AFTER_FIRST));
                self.submit(slot, volume_ref, operation);
            }
            Plan::Hold => {
                let slot = self.slots.begin(command, Step::Held);
                if let (QueueState::Admin(admin), Some(slot)) = (&mut self.state, slot) {
                    admin.hold(slot);
                }
            }
            Plan::Query(query) => self.begin_query(command, &query),
            Plan::Abort => self.begin_abort(now, command),
            Plan::Disconnect => self.begin_disconnect(now, command),
            Plan::Quiesce => self.begin_quiesce(now, command),
        }
        Admission::Taken
    }

    /// A piece of a command's data has come whole. The command goes on when it was the last one.
    #[inline]
    pub fn handle_data(&mut self, now: Instant, index: u16, integrity: Integrity) {
        if integrity == Integrity::Damaged
            && let Some(slot) = self.slots.get(index)
            && let Step::Data { damaged, .. } = &mut slot.step
        {
            *damaged = true;
        }
        if self.aborts.is_pending_for(index) {
            self.stop_transfer(index, self.aborts.status(index));
            return;
        }
        let Some(slot) = self.slots.get(index) else { return };
        let Step::Data { buf, received, length, damaged, transfer, .. } = &mut slot.step else { return };
        if *received < *length {
            return;
        }
        let (damaged, transfer) = (*damaged, *transfer);
        let Some(data) = buf.take() else { return };
        let entry = slot.command.entry;
        self.data.on_whole(DataSource::of(&slot.command));
        if damaged {
            self.notices.push(NoticeKind::Reject, T::DAMAGED);
            return self.finish(index, CommandResult::of(Status::TRANSIENT_TRANSPORT), None);
        }
        let next = match (&self.state, transfer) {
            (QueueState::Io(namespaces), Some(transfer)) => namespaces.with_data(transfer, data),
            (QueueState::Io(_), None) if entry.opcode == nvm::DATASET_MANAGEMENT => {
                let volume = VolumeId::new(0, 0);
                slot.step = Step::Submitted { volume, ranges: Some(data), position: Position::START };
                return self.next_step(index);
            }
            (QueueState::Io(_), None) => return self.reserve(index, &data),
            (QueueState::Admin(_), _) => Err(Status::SUCCESS),
            _ => return self.handle_connect(now, index, &data),
        };
        match next {
            Ok((volume_ref, operation)) => {
                slot.step = Step::submitted(volume_ref.volume, Position::AFTER_FIRST);
                self.submit(Some(index), volume_ref, operation);
            }
            Err(status) => self.finish(index, CommandResult::of(status), None),
        }
    }

    /// The next request of a command that needs several, or its end.
    fn next_step(&mut self, index: u16) {
        let (Some(slot), QueueState::Io(namespaces)) = (self.slots.get(index), &self.state) else { return };
        let entry = slot.command.entry;
        let Step::Submitted { volume, ranges, position } = &mut slot.step else { return };
        let step = if let Some(ranges) = ranges {
            namespaces.next_discard(&entry, ranges, *position).map(|found| {
                found.map(|discard| {
                    *position = discard.position;
                    (discard.volume_ref, Operation::Discard { extent: discard.extent })
                })
            })
        } else {
            let flushed = position.next;
            position.next = flushed.saturating_add(1);
            namespaces.next_flush(&entry, flushed)
        };
        match step {
            Ok(Some(_)) if self.aborts.is_pending_for(index) => self.finish_aborted(index),
            Ok(Some((volume_ref, operation))) => {
                *volume = volume_ref.volume;
                self.submit(Some(index), volume_ref, operation);
            }
            Ok(None) => self.finish(index, CommandResult::SUCCESS, None),
            Err(status) => self.finish(index, CommandResult::of(status), None),
        }
    }

    pub(super) fn submit(&mut self, slot: Option<u16>, volume_ref: VolumeRef, operation: Operation) {
        if let Some(slot) = slot {
            let request = Request { tag: Tag(u64::from(slot)), operation };
            let VolumeRef { volume, epoch } = volume_ref;
            self.actions.push_back(Action::Submit(Submission { volume, epoch, request }));
        }
    }

    /// Ends a slot's command.
    pub(super) fn finish(&mut self, slot: u16, result: CommandResult, data: Option<BufList>) {
        if let Some(command) = self.slots.end(slot) {
            self.complete(command, result, data);
            self.settle_aborts(slot, result.status);
        }
    }

    pub(super) fn complete(&mut self, command: EndedCommand, result: CommandResult, data: Option<BufList>) {
        let CommandResult { status, value } = result;
        if status.code() == Status::RESERVATION_CONFLICT.code() {
            self.notices.push(NoticeKind::Conflict, "Reservation Conflict");
        }
        let completion =
            CompletionQueueEntry::new(command.cid, self.head.report(), status).with_result(value);
        if self.close.is_none() {
            let block = command.pointer.and_then(DataPointer::keyed_block);
            let sq_flow_off = self.head.is_flow_off();
            self.transport.send_response(Response { block, completion, data, sq_flow_off });
        }
    }

    #[inline]
    pub(super) fn handle_completion(&mut self, completion: Completion) {
        let Ok(index) = u16::try_from(completion.tag.0) else { return };
        let Some(slot) = self.slots.get(index) else { return };
        match completion.result {
            Ok(Outcome::Data(data)) => self.finish(index, CommandResult::SUCCESS, Some(data)),
            Ok(Outcome::Allocation(run)) => self.handle_allocation(index, run),
            Err(volume::Failure { kind, .. }) => {
                let group = match slot.command.entry.opcode {
                    nvm::READ | GET_LBA_STATUS => CommandGroup::Read,
                    _ => CommandGroup::Write,
                };
                let status = self.aborts.judge(index, Status::from_volume(kind, group));
                self.finish(index, CommandResult::of(status), None);
            }
            Ok(_) if matches!(slot.command.entry.opcode, nvm::FLUSH | nvm::DATASET_MANAGEMENT) => {
                self.next_step(index);
            }
            Ok(_) => self.finish(index, CommandResult::SUCCESS, None),
        }
    }

    /// A request was judged by what no longer holds, and has not begun: it is judged again.
    pub(super) fn handle_refused(&mut self, request: Request) {
        let Ok(index) = u16::try_from(request.tag.0) else { return };
        let Some(slot) = self.slots.get(index) else { return };
        let Some(volume) = slot.step.volume() else { return };
        let entry = slot.command.entry;
        // A volume that is withdrawn refuses every request: a connection that ends with it would make this one again for ever.
        if self.aborts.is_pending_for(index) || self.close.is_some() {
            return self.finish_aborted(index);
        }
        let judged = match &self.state {
            QueueState::Io(namespaces) => namespaces.judge_again(&entry, volume),
            _ => self.judge_query(volume),
        };
        match judged {
            Ok(volume_ref) => self.submit(Some(index), volume_ref, request.operation),
            Err(status) => self.finish(index, CommandResult::of(status), None),
        }
    }

    /// Takes a Get LBA Status. The answer's memory is the pool's; without any, the host is to try again.
    fn begin_query(&mut self, command: &ReceivedCommand, query: &Query) {
        let volume_ref = match self.judge_query(query.volume) {
            Ok(volume_ref) => volume_ref,
            Err(status) => return self.complete(command.ended(), CommandResult::of(status), None),
        };
        let Some(answer) = self.memory.take(query.length) else {
            return self.complete(command.ended(), CommandResult::of(Status::COMMAND_INTERRUPTED), None);
        };
        let slot = self.slots.begin(command, Step::Query(Box::new(QueryProgress::new(query, answer))));
        self.submit(slot, volume_ref, Operation::QueryAllocation { extent: query.extent });
    }

    /// Whether the host may know how a volume is allocated: as if it read it. Says what that was judged by.
    fn judge_query(&self, volume: VolumeId) -> Result<VolumeRef, Status> {
        self.volume_states.judge_read(volume, self.association.registrant().as_ref())
    }

    /// A run is known.
    fn handle_allocation(&mut self, index: u16, run: volume::Allocation) {
        if self.aborts.is_pending_for(index) {
            return self.finish_aborted(index);
        }
        let Some(slot) = self.slots.get(index) else { return };
        let Step::Query(query) = &mut slot.step else { return };
        let volume = query.volume();
        match query.on_run(run) {
            NextQuery::Ask(extent) => match self.judge_query(volume) {
                Ok(volume_ref) => {
                    self.submit(Some(index), volume_ref, Operation::QueryAllocation { extent });
                }
                Err(status) => self.finish(index, CommandResult::of(status), None),
            },
            NextQuery::Answer(condition) => {
                let Step::Query(query) = core::mem::replace(&mut slot.step, Step::Held) else { return };
                self.finish(index, CommandResult::SUCCESS, Some(query.answer(condition).into()));
            }
        }
    }

    /// Tells the group what the admin queue decided, and reports events.
    pub(super) fn after_admin(&mut self) {
        loop {
            let QueueState::Admin(admin) = &mut self.state else { return };
            if let Some(request) = admin.news.pop_front() {
                if request == subsystem::Request::Ready(ControllerState::Disabled) {
                    self.notices.push(NoticeKind::Management, "controller reset or shutdown");
                }
                self.actions.push_back(Action::Group(request));
            } else if let Some(ReportedEvent { slot, event }) = admin.poll_event() {
                self.finish(slot, CommandResult::success(event.result().dword().into()), None);
            } else {
                return;
            }
        }
    }
}
