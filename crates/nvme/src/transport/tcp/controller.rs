//! A controller's queue over one TCP connection: PDUs in, submissions and data to the queue, PDUs out (NVMe TCP Transport §3.4 to §3.6).
//!
//! Before anything else ICReq and ICResp are exchanged. A violation at any time queues a termination request and closes.

use alloc::sync::Arc;

use buf::Pool;
use protocol::{CloseReason, Ended, Instant, Notice, Parties, Placement, Transmit};
use volume::VolumeId;
use zerocopy::FromBytes;

use super::controller_transport::ControllerTransport;
use super::framing::{Agreement, DIGEST, Framed, MOST_ALIGNMENT, Role, data_digest, frame};
use super::receiver::{DataRange, DigestCheck, Receiver};
use crate::controller::{Action, Admission, ControllerQueue, Input, Integrity, Portal};
use crate::limits::{MAX_H2C_DATA, STAGING};
use crate::pdu::{CapsuleCmd, Digests, H2cData, H2cTermReq, IcReq, PduType, flags};
use crate::transport::send_watch::{Allowance, Delivery};
use crate::violation::Violation;
use crate::width::from_field;

/// The controller's end of one TCP connection, which is one queue.
#[derive(Debug)]
pub struct ControllerConnection {
    queue: ControllerQueue<ControllerTransport>,
}

impl ControllerConnection {
    /// The end of a connection that was accepted on `portal`'s address.
    pub fn new(portal: Arc<Portal>, pool: Pool, now: Instant) -> Self {
        Self { queue: ControllerQueue::new(ControllerTransport::default(), portal, pool, now) }
    }

    /// What the operator is to be told, the oldest first.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.queue.poll_notice()
    }

    /// The host, and the subsystem that it asked for, as far as they are known.
    pub fn parties(&self) -> Parties {
        self.queue.parties()
    }

    /// True while a namespace that it shows, or a request that it has made, is on the volume. Looks at everything: not to be asked often.
    pub fn uses(&self, volume: VolumeId) -> bool {
        self.queue.uses(volume)
    }

    /// True when its subsystem is withdrawn from the host: the connection ends soon.
    pub fn is_withdrawn(&self) -> bool {
        self.queue.is_withdrawn()
    }

    /// True when the host hears over this connection what has changed, and may ask for it over another at once.
    pub fn reports_changes(&self) -> bool {
        self.queue.reports_changes()
    }

    fn violate(&mut self, violation: Violation, bytes: &[u8]) {
        self.queue.transport().terminate(violation, bytes);
        self.queue.end(CloseReason::Violation(violation.describe()));
    }

    /// Takes a PDU's header off the front of `bytes`, if it is there whole and there is room for what it asks.
    fn handle_header(&mut self, now: Instant, bytes: &[u8]) -> usize {
        if !self.queue.has_room() {
            return 0;
        }
        let framed = match frame(Role::Controller, self.queue.transport().agreed, bytes) {
            Ok(Some(framed)) => framed,
            Ok(None) => return 0,
            Err(violation) => {
                self.violate(violation, bytes);
                return 0;
            }
        };
        match self.handle_pdu(now, &framed) {
            Ok(true) => framed.before_data,
            Ok(false) => 0,
            Err(violation) => {
                self.violate(violation, bytes);
                0
            }
        }
    }

    /// Acts on a PDU; false when it must wait for memory.
    fn handle_pdu(&mut self, now: Instant, framed: &Framed<'_>) -> Result<bool, Violation> {
        let kind = framed.common.kind;
        let initialised = self.queue.transport().initialised;
        match kind {
            PduType::H2C_TERM_REQ => {
                self.handle_termination(framed);
                Ok(true)
            }
            PduType::IC_REQ if !initialised => self.handle_ic_req(framed).map(|()| true),
            PduType::CAPSULE_CMD if initialised && !self.queue.is_connecting() => {
                let Ok((capsule, _)) = CapsuleCmd::ref_from_prefix(framed.header) else { return Ok(false) };
                let admission = self.queue.handle_submission(now, &capsule.entry, framed.data);
                Ok(self.follow(admission, framed.data))
            }
            PduType::H2C_DATA if initialised && !self.queue.is_connecting() => {
                self.handle_h2c_data(framed).map(|()| true)
            }
            _ => Err(Violation::OutOfSequence(kind)),
        }
    }

    /// Does with a capsule's data what the queue makes of its command; false when the capsule stays in the stream.
    #[inline]
    fn follow(&mut self, admission: Admission, data: usize) -> bool {
        match admission {
            Admission::Taken => self.discard(data),
            Admission::Receives { slot, .. } => {
                self.queue.transport().receiver.expect_data(slot, DataRange { start: 0, length: data });
            }
            Admission::Withheld => return false,
        }
        true
    }

    /// A host asks for a connection.
    fn handle_ic_req(&mut self, framed: &Framed<'_>) -> Result<(), Violation> {
        let Ok((request, _)) = IcReq::read_from_prefix(framed.header) else {
            return Err(Violation::HeaderLength);
        };
        if request.pfv.get() != 0 {
            return Err(Violation::FormatVersion);
        }
        if request.hpda > MOST_ALIGNMENT {
            return Err(Violation::Alignment);
        }
        if self.queue.portal().require_digests && request.digests() != Digests::BOTH {
            return Err(Violation::DigestsRequired);
        }
        self.queue.transport().agree(Agreement { digests: request.digests(), alignment: request.hpda });
        Ok(())
    }

    fn handle_termination(&mut self, framed: &Framed<'_>) {
        let named =
            H2cTermReq::read_from_prefix(framed.header).is_ok_and(|(request, _)| request.fes.get() != 0);
        let text =
            if named { "the host reported a fatal error" } else { "the host terminated the connection" };
        self.queue.transport().receiver.discard(framed.data);
        self.queue.end(CloseReason::Violation(text));
    }

    /// Passes over the data of a command that was refused.
    fn discard(&mut self, data: usize) {
        if data != 0 {
            let digest = if self.queue.transport().agreed.digests.data { DIGEST } else { 0 };
            self.queue.transport().receiver.discard(data.saturating_add(digest));
        }
    }

    /// A piece of data that an R2T asked for.
    fn handle_h2c_data(&mut self, framed: &Framed<'_>) -> Result<(), Violation> {
        let Ok((pdu, _)) = H2cData::read_from_prefix(framed.header) else {
            return Err(Violation::HeaderLength);
        };
        let slot = pdu.ttag.get();
        if !self.queue.has_slot(slot) {
            return Err(Violation::TransferTag);
        }
        let transfer = self.queue.transfer(slot).ok_or(Violation::UnknownCommand)?;
        if transfer.cid != pdu.cccid.get() {
            return Err(Violation::UnknownCommand);
        }
        let offset = from_field(pdu.datao.get());
        let count = from_field(pdu.datal.get());
        let end = offset.saturating_add(count);
        if offset != transfer.received || end > transfer.length {
            return Err(Violation::DataRange);
        }
        if count != framed.data {
            return Err(Violation::PduLength);
        }
        if pdu.datal.get() > MAX_H2C_DATA {
            return Err(Violation::DataLimit);
        }
        if framed.common.has(flags::LAST) != (end == transfer.length) {
            return Err(Violation::LastFlag);
        }
        if transfer.abandoned {
            self.queue.pass_over(slot, end);
            self.discard(count);
        } else {
            self.queue.transport().receiver.expect_data(slot, DataRange { start: offset, length: count });
        }
        Ok(())
    }

    fn handle_staged(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let mut used = 0_usize;
        loop {
            let rest = bytes.get(used..).unwrap_or_default();
            if self.queue.poll_close().is_some() {
                return bytes.len();
            }
            let step = match self.queue.transport().receiver {
                Receiver::Header => self.handle_header(now, rest),
                Receiver::Digest { .. } => self.handle_digest(now, rest),
                Receiver::Discard { .. } => self.queue.transport().receiver.skip(rest.len()),
                Receiver::Data { .. } | Receiver::Placing { .. } => 0,
            };
            if step == 0 && self.queue.poll_close().is_none() {
                return used;
            }
            used = used.saturating_add(step);
        }
    }

    fn handle_digest(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let Some(DigestCheck { owner: slot, matches }) = self.queue.transport().receiver.take_digest(bytes)
        else {
            return 0;
        };
        let integrity = if matches { Integrity::Intact } else { Integrity::Damaged };
        self.queue.handle_data(now, slot, integrity);
        DIGEST
    }

    /// Closes the connection when nothing of what is sent to it is read.
    fn watch_sending(&mut self, now: Instant) {
        let allowance = if self.queue.is_memory_wanted() { Allowance::Scarce } else { Allowance::Usual };
        if self.queue.transport().sending.on_time(now, allowance) == Delivery::Stalled {
            self.queue.transport().clear();
            self.queue.end(CloseReason::TimedOut("the host does not read what is sent to it"));
        }
    }
}

impl protocol::Connection for ControllerConnection {
    type Input = Input;
    type Action = Action;

    const STAGING: usize = STAGING;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        if !self.queue.begin_turn(now) {
            return bytes.len();
        }
        let used = self.handle_staged(now, bytes);
        self.queue.end_turn();
        used
    }

    fn take_placement(&mut self) -> Option<Placement> {
        let Receiver::Data { owner: slot, range } = self.queue.transport().receiver else { return None };
        let buf = self.queue.take_buffer(slot)?;
        self.queue.transport().receiver.lend();
        Some(Placement { buf, start: range.start, len: range.length, token: u64::from(slot) })
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        let Receiver::Placing { owner: slot } = self.queue.transport().receiver else { return };
        if !self.queue.begin_turn(now) {
            return;
        }
        let end = placement.start.saturating_add(placement.len);
        let sum = self.queue.transport().agreed.digests.data.then(|| data_digest(&placement));
        self.queue.return_buffer(slot, placement.buf, end);
        self.queue.transport().receiver.place(sum);
        if sum.is_none() {
            self.queue.handle_data(now, slot, Integrity::Intact);
        }
        self.queue.end_turn();
    }

    fn handle_input(&mut self, now: Instant, input: Input) {
        self.queue.handle_input(now, input);
    }

    fn handle_transmitted(&mut self, now: Instant, _bytes: usize) {
        self.queue.transport().sending.on_sent();
        self.queue.transport().unsent.sent();
        self.queue.handle_sent(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.watch_sending(now);
        self.queue.handle_timeout(now);
    }

    fn handle_memory(&mut self, now: Instant) {
        self.queue.handle_memory(now);
    }

    fn handle_ended(&mut self, now: Instant, _how: Ended) {
        let transport = self.queue.transport();
        transport.clear();
        transport.unsent.sent();
        transport.sending.on_sent();
        self.queue.handle_ended(now);
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.queue.transport().send(send);
        if !send.is_empty() {
            self.queue.transport().sending.on_send(now);
        }
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.queue.poll_action()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let sending = self.queue.transport_ref().sending.due();
        [self.queue.poll_timeout(), sending].into_iter().flatten().min()
    }

    fn wants_bytes(&mut self) -> bool {
        self.queue.takes_submissions()
    }

    fn is_established(&self) -> bool {
        self.queue.is_established()
    }

    fn awaits_memory(&self) -> bool {
        self.queue.awaits_memory()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.queue.poll_close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::violation::tests::ALL;

    /// What the operator is told of a connection: every violation by its end, everything else by a notice.
    #[test]
    fn no_violation_passes_in_silence() {
        for &violation in ALL {
            let portal = Portal {
                subsystems: alloc::vec::Vec::new(),
                advertised: alloc::vec::Vec::new(),
                referrals: alloc::vec::Vec::new(),
                generation: 1,
                log: crate::controller::DiscoveryLog::default(),
                require_digests: false,
            };
            let mut connection =
                ControllerConnection::new(Arc::new(portal), Pool::new(1 << 20), Instant::ZERO);
            connection.violate(violation, &[0; 24]);
            let close = protocol::Connection::poll_close(&connection);
            assert_eq!(close, Some(CloseReason::Violation(violation.describe())));
        }
    }
}
