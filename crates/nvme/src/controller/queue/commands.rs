//! How a queue's commands go on: from the decision about them to their completion, over what they wait for and which requests they make.
//!
//! A command that is to end, by an Abort (NVMe Base §5.1.1) or as its queue ends (§3.5, §3.6, §6.4), does so soon. With a volume it is cancelled there, and whatever the
//! volume makes of that decides. One that waits for memory or for its data ends at once. Data that the host was asked for may still come, as the
//! transport has it: then the slot stays taken, and the data is passed over.
//!
//! Whoever ends a queue is told that its commands are over: the controller, which shows it in CSTS, or the host. That is not so before every request of the queue has
//! ended at its volume.

use alloc::boxed::Box;

use buf::BufList;
use protocol::{CloseReason, Instant, NoticeKind};
use volume::reservation::CommandError;
use volume::{Completion, Operation, Outcome, Request, VolumeId};

use super::{ControllerQueue, QueueState};
use crate::abort::Abort;
use crate::controller::Action;
use crate::controller::abort_table::{Ending, ImmediateAbort};
use crate::controller::admin::ReportedEvent;
use crate::controller::allocation::{NextQuery, Query, QueryProgress};
use crate::controller::command::{CommandResult, Plan, Position, ReceivedCommand};
use crate::controller::command_data::{Admission, CapsuleData, Integrity, Parts, WaitingCommand, WholeData};
use crate::controller::command_table::Ends;
use crate::controller::connect::Membership;
use crate::controller::fabric_transport::FabricTransport;
use crate::controller::quiesce::Waiter;
use crate::controller::served::{ConnectPath, FoundQueue, ReservationChange};
use crate::controller::slots::Step;
use crate::controller::submission_head::{SqFlowControl, SubmissionHead};
use crate::fabrics::Connect;
use crate::limits::{CONNECT_TIME, QUIESCE_TIME, SLOT_SLACK};
use crate::opcode::{CommandGroup, admin::GET_LBA_STATUS, nvm};
use crate::reservation;
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;
use crate::subsystem::{self, ControllerState};

impl<T: FabricTransport> ControllerQueue<T> {
    /// Does what was decided about a command.
    #[inline]
    pub(super) fn carry_out(&mut self, now: Instant, command: &ReceivedCommand, plan: Plan) -> Admission {
        let parts = Parts { table: &mut self.table, out: &mut self.out, now };
        match plan {
            Plan::Finish(result) => parts.out.complete(command.ended(), result, None),
            Plan::Respond(bytes) => {
                parts.out.complete(command.ended(), CommandResult::SUCCESS, Some(bytes.into()));
            }
            Plan::Receive { length, in_capsule: true, transfer } => {
                let expected = CapsuleData { length, transfer, patience: self.served.state.patience() };
                return self.data.receive_capsule(parts, command, expected);
            }
            Plan::Read(read) if self.data.begin_read(parts, command, &read) => {}
            plan @ (Plan::Read(_) | Plan::Receive { .. }) => {
                let parts = Parts { table: &mut self.table, out: &mut self.out, now };
                self.data.begin_with_memory(parts, command, &plan);
            }
            Plan::Submit { volume_ref, operation } => {
                let step = Step::submitted(volume_ref.volume, Position::AFTER_FIRST);
                let slot = self.table.slots.begin(command, step);
                self.out.submit(slot, volume_ref, operation);
            }
            Plan::Hold => {
                let slot = self.table.slots.begin(command, Step::Held);
                if let (QueueState::Admin(admin), Some(slot)) = (&mut self.served.state, slot) {
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
        let whole = self.data.take_whole(&mut self.table, &mut self.out, index, integrity);
        let (Some(WholeData { transfer, data }), Some(slot)) = (whole, self.table.slots.get(index)) else {
            return;
        };
        let next = match (&self.served.state, transfer) {
            (QueueState::Io(namespaces), Some(transfer)) => namespaces.with_data(transfer, data),
            (QueueState::Io(_), None) if slot.command.entry.opcode == nvm::DATASET_MANAGEMENT => {
                let volume = VolumeId::new(0, 0);
                slot.step = Step::Submitted { volume, ranges: Some(data), position: Position::START };
                return self.next_step(index);
            }
            (QueueState::Io(_), None) => {
                let entry = slot.command.entry;
                return self.reserve(index, &entry, &data);
            }
            (QueueState::Admin(_), _) => Err(Status::SUCCESS),
            _ => return self.handle_connect(now, index, &data),
        };
        match next {
            Ok((volume_ref, operation)) => {
                slot.step = Step::submitted(volume_ref.volume, Position::AFTER_FIRST);
                self.out.submit(Some(index), volume_ref, operation);
            }
            Err(status) => self.finish_with(index, status),
        }
    }

    /// Ends a slot's command with data for the host, or without.
    fn finish(&mut self, index: u16, result: CommandResult, data: Option<BufList>) {
        self.table.finish(&mut self.out, index, result, data);
    }

    fn finish_with(&mut self, index: u16, status: Status) {
        self.table.finish_with(&mut self.out, index, status);
    }

    /// The next request of a command that needs several, or its end.
    fn next_step(&mut self, index: u16) {
        let (Some(slot), QueueState::Io(namespaces)) = (self.table.slots.get(index), &self.served.state)
        else {
            return;
        };
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
            Ok(Some((volume_ref, operation))) => {
                *volume = volume_ref.volume;
                if self.table.is_to_end(index) {
                    return self.table.finish_aborted(&mut self.out, index);
                }
                self.out.submit(Some(index), volume_ref, operation);
            }
            Ok(None) => self.finish(index, CommandResult::SUCCESS, None),
            Err(status) => self.finish_with(index, status),
        }
    }

    /// A volume's request has ended.
    #[inline]
    pub(super) fn handle_completion(&mut self, completion: Completion) {
        let Ok(index) = u16::try_from(completion.tag.0) else { return };
        let Some(slot) = self.table.slots.get(index) else { return };
        match completion.result {
            Ok(Outcome::Data(data)) => self.finish(index, CommandResult::SUCCESS, Some(data)),
            Ok(Outcome::Allocation(run)) => self.handle_allocation(index, run),
            Err(volume::Failure { kind, .. }) => {
                let group = match slot.command.entry.opcode {
                    nvm::READ | GET_LBA_STATUS => CommandGroup::Read,
                    _ => CommandGroup::Write,
                };
                let status = self.table.judge(index, Status::from_volume(kind, group));
                self.finish_with(index, status);
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
        let Some(slot) = self.table.slots.get(index) else { return };
        let Some(volume) = slot.step.volume() else { return };
        let entry = slot.command.entry;
        // A volume that is withdrawn refuses every request: a connection that ends with it would make this one again for ever.
        if self.table.is_to_end(index) || self.out.is_closing() {
            return self.table.finish_aborted(&mut self.out, index);
        }
        match self.served.judge_again(&entry, volume) {
            Ok(volume_ref) => self.out.submit(Some(index), volume_ref, request.operation),
            Err(status) => self.finish_with(index, status),
        }
    }

    /// Takes a Get LBA Status. The answer's memory is the pool's; without any, the host is to try again.
    fn begin_query(&mut self, command: &ReceivedCommand, query: &Query) {
        let volume_ref = match self.served.judge_query(query.volume) {
            Ok(volume_ref) => volume_ref,
            Err(status) => return self.out.complete(command.ended(), CommandResult::of(status), None),
        };
        let Some(answer) = self.data.take_for_answer(query.length) else {
            let result = CommandResult::of(Status::COMMAND_INTERRUPTED);
            return self.out.complete(command.ended(), result, None);
        };
        let step = Step::Query(Box::new(QueryProgress::new(query, answer)));
        let slot = self.table.slots.begin(command, step);
        self.out.submit(slot, volume_ref, Operation::QueryAllocation { extent: query.extent });
    }

    /// A run is known.
    fn handle_allocation(&mut self, index: u16, run: volume::Allocation) {
        if self.table.is_to_end(index) {
            return self.table.finish_aborted(&mut self.out, index);
        }
        let Some(slot) = self.table.slots.get(index) else { return };
        let Step::Query(query) = &mut slot.step else { return };
        let volume = query.volume();
        match query.on_run(run) {
            NextQuery::Ask(extent) => match self.served.judge_query(volume) {
                Ok(volume_ref) => {
                    self.out.submit(Some(index), volume_ref, Operation::QueryAllocation { extent });
                }
                Err(status) => self.finish_with(index, status),
            },
            NextQuery::Answer(condition) => {
                let Step::Query(query) = core::mem::replace(&mut slot.step, Step::Held) else { return };
                self.finish(index, CommandResult::SUCCESS, Some(query.answer(condition).into()));
            }
        }
    }

    /// A Connect with its data.
    fn handle_connect(&mut self, now: Instant, slot: u16, data: &[u8]) {
        let Some(entry) = self.table.slots.get(slot).map(|slot| slot.command.entry) else { return };
        let command = &Connect::view(&entry);
        let FoundQueue { queue, data } = match self.served.find_queue(command, data) {
            Ok(found) => found,
            Err(error) => return self.refuse_connect(slot, error),
        };
        self.out.head = SubmissionHead::after_connect(queue.entries.into(), SqFlowControl::of(command));
        self.table.slots.grow(queue.entries.saturating_add(SLOT_SLACK));
        let path = ConnectPath { transport: T::TRANSPORT, sgls: T::SGLS, lifetime: &self.lifetime };
        match queue.join(command, &data, &self.served.controller_end(path)) {
            Ok(Membership { joining, request }) => {
                if let Some(slot) = self.table.slots.get(slot) {
                    slot.step = Step::Held;
                }
                self.served.state = QueueState::Connecting { slot, joining };
                self.deadline = Some(now + CONNECT_TIME);
                self.out.ask(Action::Group(request));
            }
            Err(error) => self.refuse_connect(slot, error),
        }
    }

    /// A command that changes reservations has its data: the owner decides.
    fn reserve(&mut self, index: u16, entry: &SubmissionQueueEntry, data: &[u8]) {
        let Some(asked) = self.served.reservation_change(entry, data) else { return };
        match asked {
            Ok(ReservationChange { volume, registrant, command }) => {
                if let Some(slot) = self.table.slots.get(index) {
                    slot.step = Step::Held;
                }
                self.out.ask(Action::Reserve { tag: u32::from(index), volume, registrant, command });
            }
            Err(status) => self.finish_with(index, status),
        }
    }

    /// The owner has decided.
    pub(super) fn handle_reserved(&mut self, tag: u32, result: Result<(), CommandError>) {
        let Ok(index) = u16::try_from(tag) else { return };
        let Some(slot) = self.table.slots.get(index) else { return };
        if matches!(slot.step, Step::Held) && reservation::changes(slot.command.entry.opcode) {
            let status = result.map_or_else(reservation::refusal, |()| Status::SUCCESS);
            self.finish_with(index, status);
        }
    }

    /// Tells the group what the admin queue decided, and reports events.
    pub(super) fn after_admin(&mut self) {
        loop {
            let QueueState::Admin(admin) = &mut self.served.state else { return };
            if let Some(request) = admin.news.pop_front() {
                if request == subsystem::Request::Ready(ControllerState::Disabled) {
                    self.out.tell(NoticeKind::Management, "controller reset or shutdown");
                }
                self.out.ask(Action::Group(request));
            } else if let Some(ReportedEvent { slot, event }) = admin.poll_event() {
                self.finish(slot, CommandResult::success(event.result().dword().into()), None);
            } else {
                return;
            }
        }
    }

    /// Offers commands that wait the memory that may have come back.
    #[inline]
    pub(super) fn offer_memory(&mut self, now: Instant) {
        if !self.data.has_no_waiters() {
            self.offer_to_waiters(now);
        }
    }

    #[inline(never)]
    fn offer_to_waiters(&mut self, now: Instant) {
        self.data.begin_offer();
        while let Some(waiting) = self.data.next_waiting(&mut self.table, now) {
            if self.decide_again(now, waiting) {
                self.data.on_going_on();
            } else {
                self.data.on_starved(now);
            }
        }
    }

    /// Decides anew about a command that waits, as reservations may have changed meanwhile, and goes on with it or ends it; false while it has no memory.
    fn decide_again(&mut self, now: Instant, waiting: WaitingCommand) -> bool {
        let Some(command) = self.table.slots.get(waiting.slot).map(|slot| slot.command) else { return true };
        match self.decide(now, &command.entry, command.capsule(0, T::SGLS)) {
            Plan::Finish(result) => {
                self.finish(waiting.slot, result, None);
                true
            }
            plan => {
                let parts = Parts { table: &mut self.table, out: &mut self.out, now };
                self.data.go_on_with_memory(parts, waiting, &plan)
            }
        }
    }

    /// Takes an Abort on the admin queue.
    fn begin_abort(&mut self, now: Instant, command: &ReceivedCommand) {
        let tag = match self.table.begin_abort(command) {
            Ok(Some(tag)) => tag,
            Ok(None) => return,
            Err(status) => return self.out.complete(command.ended(), CommandResult::of(status), None),
        };
        self.out.tell(NoticeKind::Management, "Abort");
        let Abort { sqid, cid, .. } = Abort::view(&command.entry);
        let (qid, cid) = (sqid.get(), cid.get());
        if qid == 0 {
            self.abort(now, cid, tag);
        } else {
            self.out.ask(Action::Group(subsystem::Request::Abort { qid, cid, tag }));
        }
    }

    /// Aborts a command of this queue, as far as that is possible. One without a slot may be the one that waits for memory before it is taken.
    pub(super) fn abort(&mut self, now: Instant, cid: u16, tag: u16) {
        let Some(index) = self.table.slots.find(cid) else {
            if self.data.release_withheld(cid) {
                self.table.add_unread(cid, tag);
            } else {
                self.table.answer_abort(&mut self.out, tag, ImmediateAbort::NotPerformed);
            }
            return;
        };
        let Some(slot) = self.table.slots.get(index) else { return };
        match slot.step {
            Step::Free | Step::Held | Step::Abandoned { .. } => self.abort_held(index, tag),
            Step::Submitted { .. } | Step::Query(_) | Step::Waiting | Step::Data { .. } => {
                self.end_command(now, index, Ending::Aborted { tag });
            }
        }
    }

    /// An Asynchronous Event Request ends at once; nothing else that is held can be aborted.
    fn abort_held(&mut self, index: u16, tag: u16) {
        let held = match &mut self.served.state {
            QueueState::Admin(admin) => admin.release(index),
            _ => false,
        };
        let outcome = if held { ImmediateAbort::Performed } else { ImmediateAbort::NotPerformed };
        if held {
            self.finish_with(index, Status::ABORT_REQUESTED);
        }
        self.table.answer_abort(&mut self.out, tag, outcome);
    }

    /// Lets a command end soon, and nothing of it go on: one that is with a volume when its request has ended, any other at once. Others may have its memory then.
    pub(super) fn end_command(&mut self, now: Instant, index: u16, ending: Ending) {
        if self.table.end_soon(&mut self.out, index, ending) == Ends::AtOnce {
            self.data.stop(&mut self.table, &mut self.out, index);
            self.offer_memory(now);
        }
    }

    /// Lets the commands that `affected` names end soon, for whatever they wait but an event or the group.
    pub(super) fn end_commands(&mut self, now: Instant, affected: impl Fn(&SubmissionQueueEntry) -> bool) {
        for index in self.table.slots.under_way() {
            let ends = self.table.slots.get(index).is_some_and(|slot| affected(&slot.command.entry));
            if ends && !self.table.is_to_end(index) {
                self.end_command(now, index, Ending::Dropped);
            }
        }
    }

    /// The controller is reset, shut down or gone.
    pub(super) fn handle_close(&mut self, now: Instant) {
        self.end(self.served.withdrawal().unwrap_or(CloseReason::Finished));
        self.end_all(now);
        self.quiesce.begin(Waiter::Group);
        self.check_quiesced();
    }

    /// Takes a Disconnect.
    fn begin_disconnect(&mut self, now: Instant, command: &ReceivedCommand) {
        let Some(slot) = self.table.slots.begin(command, Step::Held) else { return };
        self.quiesce.begin(Waiter::Disconnect { slot });
        self.end_commands(now, |_| true);
        self.check_quiesced();
    }

    /// Nobody hears of this queue's commands any more: they end soon.
    pub(super) fn end_all(&mut self, now: Instant) {
        self.data.clear_waiters();
        self.end_commands(now, |_| true);
    }

    /// Tells whoever waits for it that none of the queue's requests is with a volume any more.
    pub(super) fn check_quiesced(&mut self) {
        if !self.quiesce.is_under_way() || self.table.slots.submitted().next().is_some() {
            return;
        }
        match self.quiesce.end() {
            None => {}
            Some(Waiter::Group) => self.out.ask(Action::Group(subsystem::Request::Quiesced)),
            Some(Waiter::Disconnect { slot }) => {
                self.finish(slot, CommandResult::SUCCESS, None);
                self.end(CloseReason::Finished);
            }
        }
    }

    /// Takes the Property Set that disables the controller or shuts it down: it is answered when that is so, as hosts that do not look
    /// at CSTS take it.
    fn begin_quiesce(&mut self, now: Instant, command: &ReceivedCommand) {
        let Some(slot) = self.table.slots.begin(command, Step::Held) else { return };
        self.quiesce.hold(slot, now + QUIESCE_TIME);
    }

    /// The I/O queues of this controller have ended.
    pub(super) fn handle_quiesced(&mut self) {
        if let QueueState::Admin(admin) = &mut self.served.state
            && admin.quiesced()
        {
            self.answer_quiesce();
        }
        self.after_admin();
    }

    /// Answers what has waited for the I/O queues, or has waited long enough.
    pub(super) fn answer_quiesce(&mut self) {
        for slot in self.quiesce.release() {
            self.finish(slot, CommandResult::SUCCESS, None);
        }
    }
}
