//! Requests of the full feature phase: numbering, and the ones that are not SCSI commands (RFC 7143 §4.2.2, §11).

use alloc::vec::Vec;

use protocol::{CloseReason, Instant, NoticeKind};

use super::commands::RefusedCommand;
use super::connection::Target;
use super::management::FunctionScope;
use super::task_management::{FunctionRequest, Ready, Then};
use super::tasks::AbortedBy;
use super::text_exchange::TextReply;
use crate::connection::State;
use crate::datamover::{Disposition, ReceivedPdu, TargetDatamover};
use crate::limits::{DRAIN_TIME, ECHO};
use crate::pdu::{
    BasicHeaderSegment, Bhs, FunctionResponse, LogoutReason, LogoutRequest, LogoutResponse, LogoutTimes,
    NopIn, NopOut, Opcode, RESERVED_TAG, TaskManagementRequest, TextRequest,
};
use crate::sequence::{Delivery, Verdict};
use crate::violation::Violation;

impl<D: TargetDatamover> Target<D> {
    /// Handles a request.
    #[inline]
    pub(super) fn handle_request(&mut self, pdu: ReceivedPdu<'_>) -> Disposition {
        let ReceivedPdu { header, data, .. } = pdu;
        match BasicHeaderSegment::from_bytes(header).opcode() {
            Opcode::SCSI_COMMAND => return self.handle_command(pdu),
            Opcode::NOP_OUT
            | Opcode::TASK_MANAGEMENT_REQUEST
            | Opcode::TEXT_REQUEST
            | Opcode::LOGOUT_REQUEST => match data {
                Some(data) => self.handle_numbered(header, data),
                None => return self.collect_request(header),
            },
            Opcode::LOGIN_REQUEST => self.violate(Violation::LoginAfterLogin, Some(header)),
            Opcode::SNACK => self.violate(Violation::Snack, Some(header)),
            _ => self.violate(Violation::UnknownOpcode, Some(header)),
        }
        Disposition::Taken
    }

    /// Handles a SCSI command. If it is withheld, it was carried out as far as that.
    #[inline]
    fn handle_command(&mut self, pdu: ReceivedPdu<'_>) -> Disposition {
        if let Some(slot) = self.commands.take_withheld() {
            return self.commands.resume(&mut self.context, slot, pdu);
        }
        let Some(delivery) = self.take_number(pdu.header) else { return Disposition::Taken };
        if !self.life.state().takes_commands() {
            return Disposition::Taken;
        }
        match self.commands.handle_command(&mut self.context, pdu, delivery) {
            Ok(disposition) => disposition,
            Err(refused) => self.refuse_command(refused, pdu.header),
        }
    }

    #[cold]
    fn refuse_command(&mut self, refused: RefusedCommand, header: &Bhs) -> Disposition {
        match refused {
            RefusedCommand::NotBegun(violation) => self.violate(violation, Some(header)),
            RefusedCommand::Begun(violation) => self.violate(violation, None),
        }
        Disposition::Taken
    }

    /// Judges a request's CmdSN and takes it: `None` when the request is to be ignored.
    #[inline]
    fn take_number(&mut self, header: &Bhs) -> Option<Delivery> {
        let view = BasicHeaderSegment::from_bytes(header);
        if view.immediate() {
            return Some(Delivery::Immediate);
        }
        let window = &mut self.context.numbers.window;
        match window.judge(view.cmd_sn()) {
            Verdict::Next => {
                window.take();
                if window.is_used_up() {
                    self.commands.widen(&mut self.context);
                }
                Some(Delivery::Numbered)
            }
            Verdict::Outside => None,
            Verdict::Gap => {
                self.violate(Violation::CmdSnGap, Some(header));
                None
            }
        }
    }

    fn handle_numbered(&mut self, header: &Bhs, data: &[u8]) {
        let Some(delivery) = self.take_number(header) else { return };
        let now = self.context.now;
        match BasicHeaderSegment::from_bytes(header).opcode() {
            Opcode::NOP_OUT => self.handle_nop(&NopOut::from_bytes(header), data, delivery),
            Opcode::TEXT_REQUEST => self.handle_text(header, data, delivery),
            Opcode::LOGOUT_REQUEST => self.handle_logout(now, &LogoutRequest::from_bytes(header), delivery),
            _ => self.handle_management(now, &TaskManagementRequest::from_bytes(header), delivery),
        }
    }

    /// A request whose data is not here yet: collect it first. Its number is taken afterwards; order holds, because
    /// nothing else is looked at before.
    fn collect_request(&mut self, header: &Bhs) -> Disposition {
        let length = BasicHeaderSegment::from_bytes(header).data_length() as usize;
        let Some(buf) = self.context.account.take(length.min(buf::LARGEST)) else {
            if self.commands.are_collecting() {
                // Receiving must go on: what waits for buffers comes behind this.
                if let Some(delivery) = self.take_number(header) {
                    self.context.numbers.window.finish(delivery);
                }
                self.violate(Violation::TooMuchText, Some(header));
                return Disposition::Taken;
            }
            self.commands.withhold_request(&self.context);
            return Disposition::Withheld;
        };
        if buf.len() >= length { Disposition::Collect(buf) } else { Disposition::Taken }
    }

    fn handle_nop(&mut self, nop: &NopOut, data: &[u8], delivery: Delivery) {
        if nop.task_tag() == RESERVED_TAG {
            // The answer to this side's ping; having heard it is enough.
            return self.context.numbers.window.finish(delivery);
        }
        // Of a ping's data less may come back (RFC 7143 §11.19), if there is no memory for it.
        let most = if self.context.account.overdrawn() > 0 { 0 } else { ECHO };
        let most = most.min(self.context.parameters.peer_segment as usize).min(data.len());
        let echo: Vec<u8> = data.get(..most).unwrap_or_default().to_vec();
        let answer = NopIn::answer(nop.task_tag(), u32::try_from(most).unwrap_or(0));
        self.context.respond(answer.to_bytes(), echo, delivery);
    }

    fn handle_logout(&mut self, now: Instant, request: &LogoutRequest, delivery: Delivery) {
        let ours = self.login.as_ref().map_or(0, |login| login.cid());
        let response = match request.reason() {
            LogoutReason::CLOSE_SESSION => LogoutResponse::CLOSED,
            LogoutReason::CLOSE_CONNECTION if request.cid() == ours => LogoutResponse::CLOSED,
            LogoutReason::RECOVERY => LogoutResponse::NO_RECOVERY,
            _ => LogoutResponse::CID_NOT_FOUND,
        };
        let times = LogoutTimes {
            time2wait: self.context.parameters.time2wait,
            time2retain: self.context.parameters.time2retain,
        };
        let header = LogoutResponse::new(request.task_tag(), response, times).to_bytes();
        if response != LogoutResponse::CLOSED {
            return self.context.respond(header, Vec::new(), delivery);
        }
        self.life.log_out(now + DRAIN_TIME);
        debug_assert_eq!(self.life.state(), State::InLogout);
        self.commands.abort_where(&mut self.context, AbortedBy::Itself, |_| true);
        self.management.logout(header, delivery);
        self.finish_pending();
    }

    fn handle_text(&mut self, header: &Bhs, data: &[u8], delivery: Delivery) {
        match self.negotiate(&TextRequest::from_bytes(header), data) {
            Ok(TextReply { response, text }) => self.context.respond(response.to_bytes(), text, delivery),
            Err(violation) => {
                self.context.numbers.window.finish(delivery);
                self.violate(violation, Some(header));
            }
        }
    }

    fn handle_management(&mut self, now: Instant, request: &TaskManagementRequest, delivery: Delivery) {
        self.context.notices.push(NoticeKind::Management, request.function().text());
        let performed = if self.management.is_full() {
            FunctionResponse::REJECTED.into()
        } else {
            let node = self.login.as_ref().and_then(|login| login.node.as_deref());
            FunctionScope { context: &mut self.context, commands: &mut self.commands, node }.perform(request)
        };
        let request = FunctionRequest { at: now, task_tag: request.task_tag(), delivery };
        self.management.performed(request, &performed);
        self.finish_pending();
    }

    /// Answers the functions whose tasks have ended.
    #[inline]
    pub(super) fn finish_pending(&mut self) {
        while self.management.awaits_only_tasks() && !self.commands.are_aborting() && self.answer_oldest() {}
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
        self.context.respond(header, Vec::new(), delivery);
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
}
