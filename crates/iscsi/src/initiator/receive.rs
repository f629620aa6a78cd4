//! The target's PDUs, as an initiator takes them (RFC 7143 §11).

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use buf::Buf;
use protocol::{CloseReason, Instant};
use scsi::builder::{Capacity, capacity, read_full_status, request_error, synchronize_cache};
use scsi::{Additional, SenseKey, Status};
use volume::{Failure, Outcome, VolumeErrorKind};

use super::cdb::{Abilities, allocation, attention, difference, sense, writing_zeros};
use super::connection::{Action, Discovered, Initiator};
use super::tasks::{CommandEnd, Kind, Owner, Task, Transfer, Work, tag};
use crate::connection::State;
use crate::datamover::{CommandData, CommandTransfer, InitiatorDatamover, TaskHandle};
use crate::limits::{ASKED_TIME, DISCOVERED_TEXT, MOST_KEYS, MOST_TEXT_PDUS, RETRIES};
use crate::pdu::{
    AsyncEvent, AsyncMessage, BasicHeaderSegment, Bhs, LoginResponse, NopIn, NopOut, Opcode, RESERVED_TAG,
    Reject, Residual, ScsiResponse, TaskManagementResponse, TextRequest, TextResponse,
};
use crate::sequence::StatSn;
use crate::violation::Violation;

/// What that means for a command that others may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judgement {
    /// It was carried out.
    Good,
    /// The unit does not know it, or not with these fields.
    IllegalRequest,
    /// It failed otherwise.
    Failed,
}

impl<D: InitiatorDatamover> Initiator<D> {
    pub(super) fn handle_pdu(&mut self, header: &Bhs, data: &[u8]) {
        let (view, now) = (BasicHeaderSegment::from_bytes(header), self.now);
        if self.state == State::InLogin {
            if view.opcode() != Opcode::LOGIN_RESPONSE {
                return self.violate(Violation::NotLogin);
            }
            self.numbers.take(header, StatSn::Taken);
            return self.handle_login(now, &LoginResponse::from_bytes(header), data);
        }
        let is_ping = view.opcode() == Opcode::NOP_IN && view.task_tag() == RESERVED_TAG;
        self.numbers.take(header, if is_ping { StatSn::Unused } else { StatSn::Taken });
        match view.opcode() {
            Opcode::SCSI_RESPONSE => self.handle_response(&ScsiResponse::from_bytes(header), data),
            Opcode::NOP_IN => self.handle_nop(&NopIn::from_bytes(header)),
            Opcode::TASK_MANAGEMENT_RESPONSE => {
                self.handle_abort(&TaskManagementResponse::from_bytes(header));
            }
            Opcode::TEXT_RESPONSE => self.handle_text(now, &TextResponse::from_bytes(header), data),
            Opcode::LOGOUT_RESPONSE => self.logged_out(),
            Opcode::ASYNC_MESSAGE => self.handle_async(now, &AsyncMessage::from_bytes(header)),
            Opcode::REJECT => {
                let reason = Reject::from_bytes(header).reason().0;
                let text = alloc::format!("the target rejected a PDU (reason {reason:#04x})");
                self.fail(CloseReason::Violation("the target rejected a PDU"), text);
            }
            _ => self.violate(Violation::UnknownOpcode),
        }
    }

    /// The task that an answer is for: one whose command was sent.
    fn answered(&mut self, wanted: u32) -> Result<u16, Violation> {
        let slot = self.tasks.find(Kind::Command, wanted).ok_or(Violation::UnknownTask)?;
        let sent = self.tasks.get(slot).is_some_and(|(_, task)| task.sent);
        if sent { Ok(slot) } else { Err(Violation::UnknownTask) }
    }

    fn handle_response(&mut self, response: &ScsiResponse, data: &[u8]) {
        let slot = match self.answered(response.task_tag()) {
            Ok(slot) => slot,
            Err(violation) => return self.violate(violation),
        };
        match response.status() {
            Some(status) => {
                self.finish(slot, &CommandEnd { status, residual: response.residual(), sense: sense(data) });
            }
            None => self.end(slot, VolumeErrorKind::Unreachable),
        }
    }

    pub(super) fn finish(&mut self, slot: u16, end: &CommandEnd<'_>) {
        let CommandEnd { status, residual, sense } = *end;
        let transfer = self.mover.deallocate_task_resources(TaskHandle(slot));
        let Some((_, task)) = self.tasks.get(slot) else { return };
        task.sent = false;
        // An abort is under way: the command ended first, which decides.
        let ours = task.aborting.take().is_some();
        let good = status == Status::Good as u8 || status == Status::ConditionMet as u8;
        let busy = status == Status::Busy as u8 || status == Status::TaskSetFull as u8;
        let told = if status == Status::CheckCondition as u8 { attention(sense) } else { None };
        // Another initiator's reset or preemption: nothing is wrong with the command, which has ended and can be sent again.
        let aborted = status == Status::TaskAborted as u8 && !ours;
        if (told.is_some() || aborted) && task.retries < RETRIES {
            task.retries += 1;
            task.work.data = transfer.data;
            self.tasks.renew(slot);
            self.queue.push_back(slot);
            if told == Some(Additional::CAPACITY_CHANGED) {
                self.measure();
            }
            return;
        }
        let illegal =
            || scsi::builder::sense(sense).is_some_and(|sense| sense.key == SenseKey::IllegalRequest);
        let judgement = if good {
            Judgement::Good
        } else if told.is_none() && illegal() {
            Judgement::IllegalRequest
        } else {
            Judgement::Failed
        };
        let goes_on = task.work.zeros.is_some() || task.work.flush_after;
        if goes_on
            && let Some(next) = next(&task.work, judgement, self.geometry.block_size, &mut self.abilities)
        {
            return self.replace(slot, next);
        }
        let result = if good {
            outcome(task, residual, transfer)
        } else {
            let (requested, memory) = (transfer.requested, task.unfilled(transfer.data));
            let kind = if status == Status::ReservationConflict as u8 {
                VolumeErrorKind::ReservationConflict
            } else if status == Status::CheckCondition as u8 {
                request_error(sense)
            } else if busy {
                self.ask_first(status, requested);
                VolumeErrorKind::Busy
            } else {
                VolumeErrorKind::Cancelled
            };
            Err(Failure { kind, memory })
        };
        self.conclude(slot, result);
    }

    /// A write whose data went unsolicited was answered BUSY: the target may have had no memory for it, and cannot let it wait, as other requests come
    /// behind it. For a time writes send nothing before it is asked for, so that they wait at the target, in their order.
    fn ask_first(&mut self, status: u8, requested: u32) {
        if status == Status::Busy as u8 && requested > 0 {
            (self.unsolicited, self.unsolicited_from) = (0, self.now + ASKED_TIME);
        }
    }

    /// Goes on with another command for the same request.
    fn replace(&mut self, slot: u16, work: Work) {
        if let Some((_, task)) = self.tasks.get(slot) {
            (task.work, task.due) = (work, self.now + self.config.command_time);
        }
        self.tasks.renew(slot);
        self.queue.push_back(slot);
    }

    /// Takes a task's memory back from the datamover; answers the buffer that a read was to fill.
    pub(super) fn take_memory(&mut self, slot: u16) -> Option<Buf> {
        let CommandTransfer { data, .. } = self.mover.deallocate_task_resources(TaskHandle(slot));
        self.tasks.get(slot)?.1.unfilled(data)
    }

    /// Ends a task that failed.
    pub(super) fn end(&mut self, slot: u16, kind: VolumeErrorKind) {
        let memory = self.take_memory(slot);
        self.conclude(slot, Err(Failure { kind, memory }));
    }

    /// Ends a task whose memory has come back.
    #[inline]
    fn conclude(&mut self, slot: u16, result: Result<Outcome, Failure>) {
        let Some((owner, _)) = self.tasks.remove(slot) else { return };
        match owner {
            Owner::Probe => self.probed(&result),
            Owner::Request(_) | Owner::Size => self.complete(owner, result),
        }
    }

    fn probed(&mut self, result: &Result<Outcome, Failure>) {
        let Some(mut probe) = self.probe.take() else { return };
        // A unit that was too busy to say what it is has not said that it has no name: without one it would be another unit.
        if matches!(
            result,
            Err(Failure {
                kind: VolumeErrorKind::Busy | VolumeErrorKind::Cancelled | VolumeErrorKind::TimedOut,
                ..
            })
        ) {
            let text = alloc::format!("logical unit {} does not answer what it is", self.config.lun);
            return self.fail(CloseReason::Refused("the logical unit does not answer"), text);
        }
        let answer = match result {
            Ok(Outcome::Data(data)) => data.pieces().first().map(|piece| &**piece),
            _ => None,
        };
        if !probe.take(answer) {
            let (lun, why) = (self.config.lun, probe.refusal());
            let text = alloc::format!("logical unit {lun} is not a usable disk: {why}");
            return self.fail(CloseReason::Refused("the logical unit is not a usable disk"), text);
        }
        if let Some(next) = probe.next() {
            probe.question = next;
            self.probe = Some(probe);
            return self.ask();
        }
        let mut unit = probe.finish();
        unit.portal_group = self.login.portal_group;
        (self.geometry, self.abilities) = (unit.geometry, Abilities::of(&unit));
        self.actions.push_back(Action::Ready(Box::new(unit)));
        self.measure_if_outdated();
    }

    /// The size was asked for again; no answer changes nothing.
    pub(super) fn measured(&mut self, result: &Result<Outcome, Failure>) {
        self.measuring = false;
        if let Ok(Outcome::Data(data)) = result
            && let Some(Capacity { geometry, .. }) = data.pieces().first().and_then(|answer| capacity(answer))
            && geometry.block_size == self.geometry.block_size
            && geometry != self.geometry
        {
            self.geometry = geometry;
            self.actions.push_back(Action::Resized(geometry));
        }
        self.measure_if_outdated();
    }

    fn handle_nop(&mut self, nop: &NopIn) {
        if nop.transfer_tag() != RESERVED_TAG {
            self.send(NopOut::answer(nop).to_bytes(), Vec::new());
        }
    }

    /// The abort of a task is answered: whatever it says, the task is over.
    fn handle_abort(&mut self, response: &TaskManagementResponse) {
        if let Some(slot) = self.tasks.find(Kind::Abort, response.task_tag())
            && let Some((_, task)) = self.tasks.get(slot)
            && let Some(kind) = task.aborting
        {
            self.end(slot, kind);
        }
    }

    fn handle_async(&mut self, now: Instant, message: &AsyncMessage) {
        match message.event() {
            AsyncEvent::LOGOUT_REQUESTED => self.log_out(now),
            AsyncEvent::CONNECTION_DROPPED | AsyncEvent::SESSION_DROPPED => {
                self.fail(CloseReason::Finished, "the target drops the session");
            }
            _ => {}
        }
    }

    fn handle_text(&mut self, now: Instant, response: &TextResponse, data: &[u8]) {
        let Some(texts) = self.texts.take() else { return self.violate(Violation::UnknownTask) };
        if let Err(violation) = self.found.collect_within(data, DISCOVERED_TEXT) {
            return self.violate(violation);
        }
        if !response.is_final() {
            if texts >= MOST_TEXT_PDUS {
                return self.violate(Violation::TooMuchText);
            }
            self.texts = Some(texts + 1);
            let request = TextRequest::new(tag(Kind::Other, 0, 0), response.transfer_tag());
            return self.send(request.to_bytes(), Vec::new());
        }
        match targets(self.found.bytes()) {
            Ok(found) => {
                self.actions.push_back(Action::Discovered(found));
                self.log_out(now);
            }
            Err(violation) => self.violate(violation),
        }
    }
}

/// The command that follows one that ended well, or that stands in for one that was refused, if there is one.
#[cold]
fn next(work: &Work, judgement: Judgement, block_size: u32, abilities: &mut Abilities) -> Option<Work> {
    let good = judgement == Judgement::Good;
    if let Some(zeros) = work.zeros
        && (if zeros.instead { judgement == Judgement::IllegalRequest } else { good })
    {
        abilities.writes_same = false;
        return Some(writing_zeros(zeros, block_size, *abilities));
    }
    (good && work.flush_after).then(|| Work::plain(synchronize_cache()))
}

/// What a command that ended well came to.
#[inline]
fn outcome(task: &Task, residual: Residual, transfer: CommandTransfer) -> Result<Outcome, Failure> {
    let CommandTransfer { data, received, sent, .. } = transfer;
    let none = residual == Residual::None;
    let whole = received == task.work.length && none;
    let sent = sent == task.work.length && none;
    let probe = matches!(task.owner, Owner::Probe | Owner::Size);
    let transfer = match (&task.work.transfer, data) {
        (Transfer::None, _) => return Ok(Outcome::Done),
        (Transfer::Write, _) if sent || !task.work.exact => return Ok(Outcome::Done),
        (transfer, CommandData::Read(buf)) => (transfer, buf),
        _ => return Err(VolumeErrorKind::Media.into()),
    };
    let (transfer, mut buf) = transfer;
    let told = || buf.get(..received as usize).unwrap_or_default();
    match transfer {
        Transfer::Read if whole || probe => {
            buf.set_len((received as usize).min(buf.len()));
            Ok(Outcome::Data(buf.freeze().into()))
        }
        Transfer::Status(asked) => allocation(told(), *asked).ok_or_else(|| VolumeErrorKind::Media.into()),
        Transfer::Compare(expected) if whole => match difference(&buf, expected) {
            None => Ok(Outcome::Done),
            Some(offset) => Err(VolumeErrorKind::Miscompare { offset }.into()),
        },
        Transfer::Reservations => {
            let view = read_full_status(told());
            view.map(|view| Outcome::Reservations(Arc::new(view)))
                .ok_or_else(|| VolumeErrorKind::Media.into())
        }
        // A success that moved less, or more, than was asked for is none.
        Transfer::Read => Err(Failure { kind: VolumeErrorKind::Media, memory: Some(buf) }),
        _ => Err(VolumeErrorKind::Media.into()),
    }
}

/// Reads a SendTargets answer (RFC 7143 Appendix C): addresses follow the name that they belong to. The number of pairs is
/// bounded by the text's size, not by the limit of a negotiation.
fn targets(text: &[u8]) -> Result<Vec<Discovered>, Violation> {
    let mut found: Vec<Discovered> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end =
            rest.iter().enumerate().filter(|(_, byte)| **byte == 0).nth(MOST_KEYS / 2).map(|(at, _)| at + 1);
        let (part, later) = rest.split_at(end.unwrap_or(rest.len()));
        rest = later;
        for pair in crate::text::Pairs::new(part) {
            match (pair?, found.last_mut()) {
                (("TargetName", name), _) => {
                    found.push(Discovered { name: String::from(name), addresses: Vec::new() });
                }
                (("TargetAddress", address), Some(last)) => last.addresses.push(address.to_string()),
                _ => {}
            }
        }
    }
    Ok(found)
}
