//! Requests of the full feature phase: numbering, and the ones that are not SCSI commands (RFC 7143 §4.2.2, §11).

use alloc::vec::Vec;

use protocol::Instant;

use super::connection::Target;
use super::tasks::AbortedBy;
use crate::connection::State;
use crate::datamover::{Disposition, ReceivedPdu, TargetDatamover};
use crate::limits::{DRAIN_TIME, ECHO};
use crate::pdu::{
    BasicHeaderSegment, Bhs, LogoutReason, LogoutRequest, LogoutResponse, LogoutTimes, NopIn, NopOut, Opcode,
    RESERVED_TAG, TaskManagementRequest,
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

    /// Judges a request's CmdSN and takes it: `None` when the request is to be ignored.
    #[inline]
    pub(super) fn take_number(&mut self, header: &Bhs) -> Option<Delivery> {
        let view = BasicHeaderSegment::from_bytes(header);
        if view.immediate() {
            return Some(Delivery::Immediate);
        }
        match self.numbers.window.judge(view.cmd_sn()) {
            Verdict::Next => {
                self.numbers.window.take();
                if self.numbers.window.is_used_up() {
                    self.widen();
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
        let now = self.now;
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
        let Some(buf) = self.account.take(length.min(buf::LARGEST)) else {
            if self.tasks.are_collecting() {
                // Receiving must go on: what waits for buffers comes behind this.
                if let Some(delivery) = self.take_number(header) {
                    self.numbers.window.finish(delivery);
                }
                self.violate(Violation::TooMuchText, Some(header));
                return Disposition::Taken;
            }
            self.withheld.withhold_request(self.account.returns());
            return Disposition::Withheld;
        };
        if buf.len() >= length { Disposition::Collect(buf) } else { Disposition::Taken }
    }

    fn handle_nop(&mut self, nop: &NopOut, data: &[u8], delivery: Delivery) {
        if nop.task_tag() == RESERVED_TAG {
            // The answer to this side's ping; having heard it is enough.
            return self.numbers.window.finish(delivery);
        }
        // Of a ping's data less may come back (RFC 7143 §11.19), if there is no memory for it.
        let most = if self.account.overdrawn() > 0 { 0 } else { ECHO };
        let most = most.min(self.parameters.peer_segment as usize).min(data.len());
        let echo: Vec<u8> = data.get(..most).unwrap_or_default().to_vec();
        let answer = NopIn::answer(nop.task_tag(), u32::try_from(most).unwrap_or(0));
        self.respond(answer.to_bytes(), echo, delivery);
    }

    fn handle_logout(&mut self, now: Instant, request: &LogoutRequest, delivery: Delivery) {
        let ours = self.login.as_ref().map_or(0, |login| login.cid());
        let response = match request.reason() {
            LogoutReason::CLOSE_SESSION => LogoutResponse::CLOSED,
            LogoutReason::CLOSE_CONNECTION if request.cid() == ours => LogoutResponse::CLOSED,
            LogoutReason::RECOVERY => LogoutResponse::NO_RECOVERY,
            _ => LogoutResponse::CID_NOT_FOUND,
        };
        let times =
            LogoutTimes { time2wait: self.parameters.time2wait, time2retain: self.parameters.time2retain };
        let header = LogoutResponse::new(request.task_tag(), response, times).to_bytes();
        if response != LogoutResponse::CLOSED {
            return self.respond(header, Vec::new(), delivery);
        }
        self.life.log_out(now + DRAIN_TIME);
        debug_assert_eq!(self.life.state(), State::InLogout);
        self.abort_where(AbortedBy::Itself, |_| true);
        self.management.logout(header, delivery);
        self.finish_pending();
    }
}
