//! What a connection sends: the frame of its set-up, what shows readiness, messages and responses in turn, and a Terminate at last.

use buf::BufList;
use protocol::{Instant, Transmit};
use verbs::RegionError;
use wire::big_endian::{U32, U64};
use zerocopy::{Immutable, IntoBytes};

use super::Connection;
use crate::ddp::{Control, Segment, TAGGED, Tagged, UNTAGGED, Untagged};
use crate::inbound_reads::ResponseSegment;
use crate::mpa::{Payload, Rtr};
use crate::rdmap::{Opcode, READ_QUEUE, ReadRequest, SEND_QUEUE, SendKind};
use crate::send_queue::{Outgoing, Read, Work, sink_of};
use crate::sender::{Sender, Turn};
use crate::violation::Violation;

impl Connection {
    /// Fills a send.
    pub(super) fn transmit(&mut self, now: Instant, send: &mut Transmit) {
        let before = send.len();
        if let Some(frame) = self.frame.take_if(|_| self.setup.has_frame()) {
            send.put(&frame.encode());
            self.setup.frame_sent();
            self.since = now;
        } else if self.setup.may_send() {
            self.show_readiness(send);
            while !send.is_full() && self.is_open() && self.send_segment(send) {}
        }
        // What ends the stream may have been found just now.
        if let Some(terminate) = self.sender.terminate.take() {
            if let Some(writer) = &mut self.sender.writer {
                writer.write(send, &terminate, None);
            }
            self.sender.writer = None;
        }
        self.sender.in_flight = self.sender.in_flight.saturating_add(send.len().saturating_sub(before));
    }

    fn show_readiness(&mut self, send: &mut Transmit) {
        let Some(writer) = &mut self.sender.writer else { return };
        match self.sender.rtr.take() {
            Some(Rtr::Write) => {
                let control = Control::new(Opcode::WRITE, Segment::Last);
                let header = Tagged { control, stag: U32::ZERO, offset: U64::ZERO };
                writer.write(send, header.as_bytes(), None);
            }
            Some(Rtr::ZeroLength) => writer.write(send, &[], None),
            Some(Rtr::Read) | None => {}
        }
    }

    /// Adds one segment; false if there is none.
    fn send_segment(&mut self, send: &mut Transmit) -> bool {
        let has_request = self.sends.prepare(&mut self.regions, self.terms.ord);
        let has_response = self.reads.front().is_some();
        let turn = match (has_request, has_response) {
            _ if self.sender.is_within => self.sender.turn,
            (false, false) => return false,
            (true, false) => Turn::Request,
            (true, true) if self.sender.turn == Turn::Response => Turn::Request,
            (_, true) => Turn::Response,
        };
        self.sender.turn = turn;
        match turn {
            Turn::Request => self.send_request(send),
            Turn::Response => self.send_response(send),
        }
        true
    }

    fn send_request(&mut self, send: &mut Transmit) {
        let Self { sends, sender, config, .. } = self;
        let Sender { writer: Some(writer), mulpdu, .. } = sender else { return };
        let Some(outgoing) = sends.outgoing() else { return };
        let Outgoing { work, sent, sequence } = outgoing;
        let (bytes, segment) = match work {
            Work::Send { data, invalidate } => {
                let part = part(data, sent, mulpdu.saturating_sub(UNTAGGED));
                let header = Untagged {
                    control: Control::new(
                        Opcode::send(SendKind {
                            invalidates: invalidate.is_some(),
                            solicited: config.solicited,
                        }),
                        part.segment,
                    ),
                    invalidate: U32::new(invalidate.map_or(0, |stag| stag.0)),
                    queue: U32::new(SEND_QUEUE),
                    sequence: U32::new(sequence),
                    offset: U32::new(wire::bounded::<u32>(sent)),
                };
                writer.write(send, header.as_bytes(), Some(part.payload));
                (part.payload.length, part.segment)
            }
            Work::Write { data, to } => {
                let part = part(data, sent, mulpdu.saturating_sub(TAGGED));
                let offset = to.offset.wrapping_add(wire::widen(sent));
                let control = Control::new(Opcode::WRITE, part.segment);
                let header = Tagged { control, stag: U32::new(to.stag.0), offset: U64::new(offset) };
                writer.write(send, header.as_bytes(), Some(part.payload));
                (part.payload.length, part.segment)
            }
            Work::Read(read) => {
                writer.write(send, ReadMessage::new(read, sequence).as_bytes(), None);
                sender.is_within = false;
                return sends.requested();
            }
            Work::Register(_) | Work::Invalidate { .. } => return,
        };
        sender.is_within = segment == Segment::Intermediate;
        sends.sent(bytes, segment);
    }

    fn send_response(&mut self, send: &mut Transmit) {
        let most = self.sender.mulpdu.saturating_sub(TAGGED);
        let Some(response) = self.reads.front().map(|read| read.segment(most)) else { return };
        let ResponseSegment { source, sink, segment } = response;
        // Each segment is judged when it is sent: a region that has ended meanwhile gives nothing more.
        let data = if source.length == 0 { Ok(BufList::new()) } else { self.regions.read(source) };
        match (data, &mut self.sender.writer) {
            (Ok(data), Some(writer)) => {
                let control = Control::new(Opcode::READ_RESPONSE, segment);
                let header = Tagged { control, stag: U32::new(sink.stag.0), offset: U64::new(sink.offset) };
                let payload = Payload { list: &data, offset: 0, length: data.len() };
                writer.write(send, header.as_bytes(), Some(payload));
                self.sender.is_within = !self.reads.sent(&response);
            }
            (Err(error), _) => self.refuse_read(error),
            (Ok(_), None) => {}
        }
    }

    /// A read that was allowed when it came is not any more.
    fn refuse_read(&mut self, error: RegionError) {
        if let Some(read) = self.reads.front() {
            let headers = read.headers();
            let violation = Violation::of_read(error, read.source());
            self.sender.terminate(violation, (headers.len(), headers));
            self.end_by(violation);
        }
    }
}

/// The next part of a message.
struct Part<'a> {
    payload: Payload<'a>,
    segment: Segment,
}

/// At most `most` bytes of a message behind those that are sent.
fn part(list: &BufList, sent: usize, most: usize) -> Part<'_> {
    let left = list.len().saturating_sub(sent);
    let length = left.min(most);
    Part {
        payload: Payload { list, offset: sent, length },
        segment: Segment::before(left.saturating_sub(length)),
    }
}

/// An RDMA Read Request, whole.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct ReadMessage {
    header: Untagged,
    request: ReadRequest,
}

impl ReadMessage {
    fn new(read: &Read, sequence: u32) -> Self {
        let header = Untagged {
            control: Control::new(Opcode::READ_REQUEST, Segment::Last),
            invalidate: U32::ZERO,
            queue: U32::new(READ_QUEUE),
            sequence: U32::new(sequence),
            offset: U32::ZERO,
        };
        let request = ReadRequest {
            sink_stag: U32::new(sink_of(sequence).0),
            sink_offset: U64::ZERO,
            length: U32::new(read.from.length),
            source_stag: U32::new(read.from.stag.0),
            source_offset: U64::new(read.from.offset),
        };
        Self { header, request }
    }
}
