//! What a connection receives: headers are judged, payloads placed, and messages told once their FPDUs have come whole.

use buf::Buf;
use protocol::{CloseReason, Placement};
use verbs::{EndReason, RemoteRegion, STag, WorkDone, WorkError};
use zerocopy::FromBytes;

use super::Connection;
use crate::arrival::Arrival;
use crate::ddp::{Control, Segment, TAGGED, Tagged, UNTAGGED, Untagged};
use crate::inbound_reads::InboundRead;
use crate::limits;
use crate::mpa::Fpdu;
use crate::rdmap::{Opcode, READ_REQUEST, TERMINATE_QUEUE};
use crate::terminate;
use crate::violation::Violation;

/// Bytes of the header of a ULPDU of `ulpdu` bytes, with the messages that are read whole.
///
/// # Errors
/// It is too short for that.
fn header_length(control: Control, ulpdu: usize) -> Result<usize, Violation> {
    let base = if control.is_tagged() { TAGGED } else { UNTAGGED };
    let payload = ulpdu.checked_sub(base).ok_or(Violation::Length)?;
    let collected = match control.opcode() {
        _ if control.is_tagged() => 0,
        Opcode::READ_REQUEST => payload.min(READ_REQUEST),
        Opcode::TERMINATE => payload.min(limits::TERMINATE),
        _ => 0,
    };
    Ok(base.saturating_add(collected))
}

impl Connection {
    /// Takes FPDUs from the front of `bytes`, until a payload is next that has not come whole: the transport puts that into its place.
    pub(super) fn take_fpdus(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while self.is_open()
            && let Some(receiver) = &mut self.receiver
        {
            let result = match receiver.advance(&mut rest) {
                Fpdu::Incomplete => break,
                Fpdu::Payload if receiver.piece().is_some_and(|piece| piece <= rest.len()) => {
                    if !self.place_staged(&mut rest) {
                        break;
                    }
                    Ok(())
                }
                Fpdu::Payload => break,
                Fpdu::Control => self.expect_header(),
                Fpdu::Header => self.judge(),
                Fpdu::Whole => self.deliver(),
                Fpdu::Short => Err(Violation::Length),
                Fpdu::CrcMismatch => Err(Violation::Crc),
                Fpdu::MarkerMismatch => Err(Violation::Marker),
            };
            if let Err(violation) = result {
                self.violate(violation);
            }
        }
        bytes.len().saturating_sub(rest.len())
    }

    fn expect_header(&mut self) -> Result<(), Violation> {
        let Some(receiver) = &mut self.receiver else { return Ok(()) };
        let (control, _) = Control::read_from_prefix(receiver.header()).map_err(|_| Violation::Length)?;
        receiver.expect_header(header_length(control, receiver.ulpdu())?);
        Ok(())
    }

    /// The header has come: says where the payload goes.
    fn judge(&mut self) -> Result<(), Violation> {
        let Some(receiver) = &self.receiver else { return Ok(()) };
        let (header, ulpdu) = (receiver.header(), receiver.ulpdu());
        let (control, _) = Control::read_from_prefix(header).map_err(|_| Violation::Length)?;
        let opcode = control.opcode();
        self.arrival = if control.is_tagged() {
            let (header, _) = Tagged::read_from_prefix(header).map_err(|_| Violation::Length)?;
            check_versions(control, Violation::TaggedVersion)?;
            match opcode {
                Opcode::WRITE => Arrival::Write(target(&header, ulpdu.saturating_sub(TAGGED))),
                Opcode::READ_RESPONSE => self.judge_response(&header, ulpdu.saturating_sub(TAGGED))?,
                _ => return Err(Violation::Opcode),
            }
        } else {
            let (header, _) = Untagged::read_from_prefix(header).map_err(|_| Violation::Length)?;
            check_versions(control, Violation::UntaggedVersion)?;
            self.judge_untagged(header, ulpdu.saturating_sub(UNTAGGED))?
        };
        if let Some(receiver) = &mut self.receiver {
            receiver.expect_payload();
        }
        Ok(())
    }

    /// Memory for what is left of a write, or of its next piece: a region that has ended in between takes no more.
    fn lend(&mut self, to: RemoteRegion) -> Result<Buf, Violation> {
        self.regions.lend(to).map_err(|error| Violation::of_write(error, to))
    }

    fn judge_response(&mut self, header: &Tagged, length: usize) -> Result<Arrival, Violation> {
        let expected = self.sends.expected().ok_or(Violation::Opcode)?;
        let segment = header.control.segment();
        let end = expected.placed.saturating_add(length);
        if header.stag.get() != expected.stag.0 {
            return Err(Violation::WriteStag);
        }
        let goes_on = usize::try_from(header.offset.get()) == Ok(expected.placed);
        if !goes_on || end > expected.length || segment == Segment::Last && end != expected.length {
            return Err(Violation::WriteBounds);
        }
        Ok(Arrival::Response { length, placed: expected.placed, segment })
    }

    fn judge_untagged(&mut self, header: Untagged, length: usize) -> Result<Arrival, Violation> {
        let (opcode, queue) = (header.control.opcode(), header.queue.get());
        if queue > TERMINATE_QUEUE {
            return Err(Violation::QueueNumber);
        }
        match opcode {
            _ if opcode.queue() != Some(queue) => Err(Violation::Opcode),
            Opcode::READ_REQUEST => self.judge_read_request(header, length),
            Opcode::TERMINATE if length > limits::TERMINATE => Err(Violation::MessageTooLong),
            Opcode::TERMINATE => Ok(Arrival::Terminate),
            _ => self.judge_send(header, length),
        }
    }

    fn judge_send(&mut self, header: Untagged, length: usize) -> Result<Arrival, Violation> {
        let placed = self.send_messages.check(&header)?;
        let room = self.receives.room().ok_or(Violation::NoBuffer)?;
        if placed.saturating_add(length) > room {
            let done = self.receives.complete(Err(WorkError::MessageTooLong));
            self.done.extend(done);
            return Err(Violation::MessageTooLong);
        }
        Ok(Arrival::Send { header, length, placed })
    }

    fn judge_read_request(&mut self, header: Untagged, length: usize) -> Result<Arrival, Violation> {
        self.read_requests.check(&header)?;
        if length > READ_REQUEST || !header.control.is_last() {
            return Err(Violation::MessageTooLong);
        }
        if length < READ_REQUEST {
            return Err(Violation::Length);
        }
        if self.reads.is_full() { Err(Violation::NoBuffer) } else { Ok(Arrival::ReadRequest(header)) }
    }

    /// Lends the transport the memory that the payload goes to.
    pub(super) fn place(&mut self) -> Option<Placement> {
        if !self.is_open() || self.lent {
            return None;
        }
        let len = self.receiver.as_mut()?.lend()?;
        let (buf, start) = match self.arrival {
            Arrival::Write(to) => match self.lend(to) {
                Ok(buf) => (Some(buf), wire::index(to.offset)),
                Err(violation) => {
                    self.violate(violation);
                    return None;
                }
            },
            Arrival::Send { placed, .. } => (self.receives.lend(), placed),
            Arrival::Response { placed, .. } => (self.sends.lend(), placed),
            _ => return None,
        };
        self.lent = true;
        buf.map(|buf| Placement { buf, start, len, token: 0 })
    }

    /// Puts the payload that is next, all of which is at the front of `bytes`, into its place. False where it has none.
    ///
    /// The transport would copy it just so, but go through the whole connection for each piece: a capsule of 64 bytes is not worth that.
    fn place_staged(&mut self, bytes: &mut &[u8]) -> bool {
        let Some(mut placement) = self.place() else { return false };
        let Some((now, later)) = bytes.split_at_checked(placement.len) else { return false };
        let end = placement.start.saturating_add(placement.len);
        if let Some(room) = placement.buf.get_mut(placement.start..end) {
            room.copy_from_slice(now);
        }
        *bytes = later;
        self.placed(placement);
        true
    }

    /// Takes the memory back.
    pub(super) fn placed(&mut self, placement: Placement) {
        let Placement { buf, start, len, .. } = placement;
        self.lent = false;
        if self.is_open()
            && let Some(receiver) = &mut self.receiver
        {
            receiver.placed(buf.get(start..start.saturating_add(len)).unwrap_or_default());
        }
        match &mut self.arrival {
            Arrival::Write(to) => {
                let stag = to.stag;
                let bytes = wire::bounded::<u32>(len);
                to.offset = to.offset.saturating_add(u64::from(bytes));
                to.length = to.length.saturating_sub(bytes);
                self.regions.give_back(stag, buf);
            }
            Arrival::Send { placed, .. } => {
                *placed = placed.saturating_add(len);
                self.receives.give_back(buf);
            }
            Arrival::Response { placed, .. } => {
                *placed = placed.saturating_add(len);
                self.sends.give_back(buf);
            }
            Arrival::Empty | Arrival::ReadRequest(_) | Arrival::Terminate => {}
        }
        if !self.is_open() {
            self.flush();
        }
    }

    /// An FPDU has come whole: what it says happens.
    fn deliver(&mut self) -> Result<(), Violation> {
        let arrival = core::mem::replace(&mut self.arrival, Arrival::Empty);
        if !matches!(arrival, Arrival::Terminate) {
            self.first_fpdu();
        }
        match arrival {
            Arrival::Empty | Arrival::Write(_) => {}
            Arrival::Send { header, length, .. } => {
                if let Some(length) = self.send_messages.receive(&header, length) {
                    self.deliver_message(&header, length)?;
                }
            }
            Arrival::Response { length, segment, .. } => self.sends.responded(length, segment),
            Arrival::ReadRequest(header) => return self.deliver_read_request(&header),
            Arrival::Terminate => self.terminated(),
        }
        Ok(())
    }

    fn deliver_message(&mut self, header: &Untagged, length: usize) -> Result<(), Violation> {
        let mut invalidated = None;
        if header.control.opcode().invalidates() {
            let stag = STag(header.invalidate.get());
            self.regions.invalidate(stag).map_err(|_| Violation::Invalidate)?;
            invalidated = Some(stag);
        }
        let done = self.receives.complete(Ok(WorkDone::Received { length, invalidated }));
        if let Some(done) = done {
            self.done.push(done);
        }
        Ok(())
    }

    fn deliver_read_request(&mut self, header: &Untagged) -> Result<(), Violation> {
        self.read_requests.receive(header, READ_REQUEST);
        let receiver = self.receiver.as_ref().ok_or(Violation::Length)?;
        let read = InboundRead::new(receiver.header()).ok_or(Violation::Length)?;
        let source = read.source();
        // RFC 5040 §5.2: likewise of a read of no bytes.
        if source.length > 0 {
            self.regions.read(source).map_err(|error| Violation::of_read(error, source))?;
        }
        self.reads.push(read);
        Ok(())
    }

    /// The peer ends the stream, and says why.
    fn terminated(&mut self) {
        let message = self.receiver.as_ref().and_then(|receiver| {
            let message = receiver.header().get(UNTAGGED..receiver.ulpdu());
            terminate::decode(message.unwrap_or_default())
        });
        let words =
            message.map_or("the peer terminates without a reason", |message| message.error.describe());
        if let Some(read) = message.filter(|message| message.error.refuses_access()).and_then(|it| it.read) {
            self.sends.refuse(read);
        }
        self.end(EndReason::Terminated(words), CloseReason::Violation(words));
    }
}

/// Where a write goes. Of one without bytes neither tag nor offset is looked at (RFC 5040 §5.4), as nothing is placed.
fn target(header: &Tagged, length: usize) -> RemoteRegion {
    RemoteRegion {
        stag: STag(header.stag.get()),
        offset: header.offset.get(),
        length: wire::bounded::<u32>(length),
    }
}

fn check_versions(control: Control, other_ddp: Violation) -> Result<(), Violation> {
    if !control.is_our_ddp() {
        Err(other_ddp)
    } else if control.is_our_rdmap() {
        Ok(())
    } else {
        Err(Violation::RdmapVersion)
    }
}
