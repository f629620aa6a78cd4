//! A host's queue over one TCP connection: submissions of the queue out, PDUs in, data and completions to the queue
//! (NVMe TCP Transport §3.4 to §3.6).
//!
//! Before anything else ICReq and ICResp are exchanged. A violation at any time queues a termination request and closes.

use protocol::{CloseReason, Ended, Instant, Placement, Transmit};
use zerocopy::{FromBytes, IntoBytes};

use super::framing::{Agreement, DIGEST, Framed, MOST_ALIGNMENT, Role, data_digest, frame, put_with_data};
use super::host_transport::{Burst, DataOwner, HostTransport, Outgoing};
use super::receiver::{DataRange, DigestCheck, Receiver};
use crate::cqe::CompletionQueueEntry;
use crate::host::{Action, CompletionError, Config, Failure, HostQueue, Input};
use crate::limits::{LEAST_H2C_DATA, STAGING};
use crate::pdu::{C2hData, CapsuleResp, Digests, H2cData, IcResp, PduType, R2t, flags};
use crate::status::Status;
use crate::violation::Violation;
use crate::width::{from_field, to_field};

/// The digests without which a controller is of no use.
const fn wanted_digests(config: &Config) -> Digests {
    Digests { header: config.header_digest, data: config.data_digest }
}

/// The host's end of one TCP connection, which is one queue.
#[derive(Debug)]
pub struct HostConnection {
    queue: HostQueue<HostTransport>,
}

impl HostConnection {
    /// The end of a connection that has just been made.
    pub fn new(config: Config, now: Instant) -> Self {
        let transport = HostTransport::new(wanted_digests(&config));
        Self { queue: HostQueue::new(transport, config, now) }
    }

    fn violate(&mut self, violation: Violation, bytes: &[u8]) {
        self.queue.transport.terminate(violation, bytes);
        self.queue.fail(Failure::Violation(violation), CloseReason::Violation(violation.describe()));
    }

    fn handle_header(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let framed = match frame(Role::Host, self.queue.transport.agreed, bytes) {
            Ok(Some(framed)) => framed,
            Ok(None) => return 0,
            Err(violation) => {
                self.violate(violation, bytes);
                return 0;
            }
        };
        match self.handle_pdu(now, &framed) {
            Ok(()) => framed.before_data,
            Err(violation) => {
                self.violate(violation, bytes);
                0
            }
        }
    }

    fn handle_pdu(&mut self, now: Instant, framed: &Framed<'_>) -> Result<(), Violation> {
        let kind = framed.common.kind;
        let initialised = self.queue.transport.initialised;
        match kind {
            PduType::C2H_TERM_REQ => {
                let text = "the controller terminated the connection";
                self.queue.fail(Failure::Lost(text), CloseReason::Violation(text));
                Ok(())
            }
            PduType::IC_RESP if !initialised => self.handle_ic_resp(now, framed),
            PduType::CAPSULE_RESP if initialised => {
                let response =
                    CapsuleResp::read_from_prefix(framed.header).map_err(|_| Violation::HeaderLength)?;
                self.queue.handle_completion(now, response.0.entry).map_err(violation)
            }
            PduType::C2H_DATA if initialised => self.handle_c2h_data(framed),
            PduType::R2T if initialised => self.handle_r2t(framed),
            _ => Err(Violation::OutOfSequence(kind)),
        }
    }

    fn handle_ic_resp(&mut self, now: Instant, framed: &Framed<'_>) -> Result<(), Violation> {
        let (response, _) = IcResp::read_from_prefix(framed.header).map_err(|_| Violation::HeaderLength)?;
        if response.pfv.get() != 0 {
            return Err(Violation::FormatVersion);
        }
        if response.cpda > MOST_ALIGNMENT {
            return Err(Violation::Alignment);
        }
        if response.maxh2cdata.get() < LEAST_H2C_DATA {
            return Err(Violation::Maxh2cdata);
        }
        let (wanted, granted) = (wanted_digests(self.queue.config()), response.digests());
        // A digest that was asked for is wanted: a controller may refuse it, and is then of no use. It cannot force one.
        for (wanted, granted, text) in
            [(wanted.header, granted.header, NO_HEADER_DIGEST), (wanted.data, granted.data, NO_DATA_DIGEST)]
        {
            if wanted && !granted {
                self.queue.fail(Failure::Unusable(text), CloseReason::Refused(text));
                return Ok(());
            }
        }
        let agreed = Agreement {
            digests: Digests { header: granted.header && wanted.header, data: granted.data && wanted.data },
            alignment: response.cpda,
        };
        self.queue.transport.agree(agreed, from_field(response.maxh2cdata.get()));
        self.queue.handle_ready(now);
        Ok(())
    }

    /// Data from the controller.
    fn handle_c2h_data(&mut self, framed: &Framed<'_>) -> Result<(), Violation> {
        let (pdu, _) = C2hData::read_from_prefix(framed.header).map_err(|_| Violation::HeaderLength)?;
        let cid = pdu.cccid.get();
        let target = self.queue.target(cid).ok_or(Violation::UnknownCommand)?;
        let start = from_field(pdu.datao.get());
        let length = from_field(pdu.datal.get());
        if length == 0 || start != target.received || start.saturating_add(length) > target.length {
            return Err(Violation::DataRange);
        }
        if length != framed.data {
            return Err(Violation::PduLength);
        }
        let success = framed.common.has(flags::SUCCESS);
        if success && !framed.common.has(flags::LAST) {
            return Err(Violation::LastFlag);
        }
        self.queue.transport.receiver.expect_data(DataOwner { cid, success }, DataRange { start, length });
        Ok(())
    }

    /// The controller asks for a command's data: in order, nothing twice, and only once it has what it asked for before, as
    /// MAXR2T is 0 (NVMe TCP Transport §3.6.2.2, §3.6.2.9). What it can make the host hold is so bounded by the queue.
    fn handle_r2t(&mut self, framed: &Framed<'_>) -> Result<(), Violation> {
        let (pdu, _) = R2t::read_from_prefix(framed.header).map_err(|_| Violation::HeaderLength)?;
        let cid = pdu.cccid.get();
        let source = self.queue.source(cid).ok_or(Violation::UnknownCommand)?;
        if source.has_ended() {
            return Err(Violation::UnknownCommand);
        }
        if source.is_open() {
            return Err(Violation::DataLimit);
        }
        let start = from_field(pdu.r2to.get());
        let length = from_field(pdu.r2tl.get());
        let end = start.saturating_add(length);
        if start != source.asked || length == 0 || end > source.data.len() {
            return Err(Violation::DataRange);
        }
        source.asked = end;
        let burst = Burst { cid, ttag: pdu.ttag.get(), range: start..end };
        self.queue.transport.waiting.push_back(Outgoing::Burst(burst));
        Ok(())
    }

    /// Data is in its target, and its digest was checked.
    fn data_arrived(&mut self, now: Instant, owner: DataOwner) {
        let DataOwner { cid, success } = owner;
        if success {
            let entry = CompletionQueueEntry::new(cid, 0, Status::SUCCESS);
            // The identifier was found when the data was announced.
            let _known = self.queue.handle_completion(now, entry);
        }
    }

    fn handle_digest(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let Some(DigestCheck { owner, matches }) = self.queue.transport.receiver.take_digest(bytes) else {
            return 0;
        };
        if !matches && let Some(target) = self.queue.target(owner.cid) {
            target.damaged = true;
        }
        self.data_arrived(now, owner);
        DIGEST
    }

    /// Sends the oldest thing that waits; false if there is none.
    #[inline]
    fn send_one(&mut self, send: &mut Transmit) -> bool {
        match self.queue.transport.waiting.pop_front() {
            None => return false,
            Some(Outgoing::Burst(burst)) => self.send_burst(burst, send),
            Some(outgoing) => {
                if let Outgoing::Command(capsule) = &outgoing {
                    self.queue.mark_sent(capsule.entry.cid.get());
                }
                outgoing.put(self.queue.transport.agreed, send);
            }
        }
        true
    }

    /// Sends the next piece of what an R2T asked for.
    fn send_burst(&mut self, burst: Burst, send: &mut Transmit) {
        let Burst { cid, ttag, range } = burst;
        let (agreed, max_data) = (self.queue.transport.agreed, self.queue.transport.max_data);
        let Some(source) = self.queue.source(cid) else { return };
        let length = range.len().min(max_data);
        let next = range.start.saturating_add(length);
        let data = source.data.part(range.start, length);
        source.sent = next;
        let mut pdu = H2cData::new(cid, ttag, to_field(range.start), to_field(length));
        pdu.header.flags = u8::from(next == range.end) * flags::LAST;
        put_with_data(send, agreed, pdu.as_mut_bytes(), data);
        if next < range.end {
            let rest = Outgoing::Burst(Burst { cid, ttag, range: next..range.end });
            self.queue.transport.waiting.push_front(rest);
        }
    }
}

/// What a completion that cannot be one is in PDUs.
fn violation(error: CompletionError) -> Violation {
    match error {
        CompletionError::UnknownCommand => Violation::UnknownCommand,
        CompletionError::DataOwed => Violation::OutOfSequence(PduType::CAPSULE_RESP),
    }
}

/// Why a controller without the digests that were asked for is of no use.
const NO_HEADER_DIGEST: &str = "the controller does not agree to header digests (ICResp, HDGST_ENABLE), which this side requires: \
                                switch them on there, or leave header_digest= out";
const NO_DATA_DIGEST: &str = "the controller does not agree to data digests (ICResp, DDGST_ENABLE), which this side requires: \
                              switch them on there, or leave data_digest= out";

impl protocol::Connection for HostConnection {
    type Input = Input;
    type Action = Action;

    const STAGING: usize = STAGING;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let mut used = 0_usize;
        loop {
            if self.queue.poll_close().is_some() {
                return bytes.len();
            }
            let rest = bytes.get(used..).unwrap_or_default();
            let step = match self.queue.transport.receiver {
                Receiver::Header => self.handle_header(now, rest),
                Receiver::Digest { .. } => self.handle_digest(now, rest),
                Receiver::Data { .. } | Receiver::Placing { .. } | Receiver::Discard { .. } => 0,
            };
            if step == 0 && self.queue.poll_close().is_none() {
                return used;
            }
            used = used.saturating_add(step);
        }
    }

    fn take_placement(&mut self) -> Option<Placement> {
        let Receiver::Data { owner, range } = self.queue.transport.receiver else { return None };
        let buf = self.queue.target(owner.cid)?.buf.take()?;
        self.queue.transport.receiver.lend();
        Some(Placement { buf, start: range.start, len: range.length, token: u64::from(owner.cid) })
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        let Receiver::Placing { owner } = self.queue.transport.receiver else { return };
        let end = placement.start.saturating_add(placement.len);
        let sum = self.queue.transport.agreed.digests.data.then(|| data_digest(&placement));
        if let Some(target) = self.queue.target(owner.cid) {
            target.buf = Some(placement.buf);
            target.received = end;
        }
        self.queue.transport.receiver.place(sum);
        if sum.is_none() {
            self.data_arrived(now, owner);
        }
    }

    fn handle_input(&mut self, now: Instant, input: Input) {
        self.queue.handle_input(now, input);
    }

    fn handle_transmitted(&mut self, now: Instant, _bytes: usize) {
        self.queue.handle_sent(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.queue.handle_timeout(now);
    }

    fn handle_ended(&mut self, _now: Instant, _how: Ended) {
        self.queue.handle_ended();
    }

    fn poll_transmit(&mut self, _now: Instant, send: &mut Transmit) {
        while !send.is_full() && self.send_one(send) {}
        self.queue.transport.put_termination(send);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.queue.poll_action()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.queue.poll_timeout()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.queue.poll_close()
    }
}
