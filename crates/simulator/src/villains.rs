//! Targets and controllers that are hostile: a real server's end of a stream, whose PDUs are passed on honestly for a while and then
//! repeated, lied about, cut short, withheld or drowned in others.

use std::time::Duration;

use host::Endpoint;
use iscsi::pdu::{
    AsyncEvent, AsyncMessage, BasicHeaderSegment, Bhs, NopIn, Opcode, Residual, ScsiResponse, padding,
};
use nvme::cqe::CompletionQueueEntry;
use nvme::opcode::admin;
use nvme::pdu::{CapsuleResp, PduType};
use nvme::status::Status;
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};
use zerocopy::IntoBytes;

use crate::dice::Dice;
use crate::hostility::{Honesty, Hostility};

/// What a far end does once it is hostile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evil {
    /// It asks for answers to pings without end.
    Pings,
    /// The same, and it reads nothing any more.
    UnreadPings,
    /// It asks for more data than a write has.
    Beyond,
    /// It asks for the same data many times.
    Repeats,
    /// It sends the same data many times: more than was asked for.
    Excess,
    /// It answers what nobody asked.
    Strangers,
    /// It tells of events without end.
    Events,
    /// Its text and its log pages never end.
    Endless,
    /// It withholds some of the answers.
    Withheld,
    /// It says nothing any more.
    Silence,
    /// It sends half a PDU, and then nothing any more.
    Half,
    /// It closes the connection, after half a PDU.
    Close,
}

impl Evil {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::Pings,
        Self::UnreadPings,
        Self::Beyond,
        Self::Repeats,
        Self::Excess,
        Self::Strangers,
        Self::Events,
        Self::Endless,
        Self::Withheld,
        Self::Silence,
        Self::Half,
        Self::Close,
    ];
}

impl Hostility for Evil {
    fn before(self, inner: Box<dyn Endpoint>, honesty: Honesty, dice: Dice) -> Box<dyn Endpoint> {
        Box::new(Villain::new(inner, self, honesty, dice))
    }
}

/// Bytes that are left unsent before more are made.
const AHEAD: usize = 64 << 10;
/// PDUs of one stroke of a flood, how often an R2T comes, and how often data does.
const BURST: usize = 1000;
const TIMES: usize = 30;
const TIMES_DATA: usize = 3;
/// How long it waits between two strokes.
const STROKE: std::ops::RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_millis(100);
/// Bytes of one send of the server behind it, and its pieces.
const BUDGET: usize = 64 << 10;
const PIECES: usize = 64;
/// A tag that nobody has given a command.
const STRANGER: u16 = 0x7ffe;
/// A vendor's own event (RFC 7143 §11.9.1).
const VENDORS: AsyncEvent = AsyncEvent(0xff);

/// The server's end of a stream.
pub(crate) struct Villain {
    inner: Box<dyn Endpoint>,
    evil: Evil,
    is_iscsi: bool,
    /// PDUs that it passes on honestly before.
    honest: usize,
    send: Transmit,
    /// What the server sends and is not a whole PDU yet.
    told: Vec<u8>,
    /// What the client has sent and is not a whole PDU yet.
    heard: Vec<u8>,
    out: Vec<u8>,
    /// The header of the last PDU of the server: its numbers.
    last: Bhs,
    /// The latest command that waits for an event.
    waiting: Option<u16>,
    next: Instant,
    silent: bool,
    closes: bool,
    dice: Dice,
}

impl Villain {
    /// In front of `inner`, hostile after so many honest PDUs.
    pub(crate) fn new(inner: Box<dyn Endpoint>, evil: Evil, honesty: Honesty, dice: Dice) -> Self {
        Self {
            inner,
            evil,
            is_iscsi: honesty.is_iscsi,
            honest: honesty.lasts,
            send: Transmit::new(BUDGET, PIECES),
            told: Vec::new(),
            heard: Vec::new(),
            out: Vec::new(),
            last: [0; 48],
            waiting: None,
            next: Instant::ZERO,
            silent: false,
            closes: false,
            dice,
        }
    }

    fn is_hostile(&self) -> bool {
        self.honest == 0
    }

    /// It answers by itself instead of the server behind it.
    fn speaks_itself(&self) -> bool {
        self.is_hostile() && self.is_iscsi && self.evil == Evil::Endless
    }

    fn is_opcode(&self, pdu: &[u8], iscsi: &[Opcode], nvme: &[PduType]) -> bool {
        if self.is_iscsi { iscsi.contains(&Opcode(pdu[0] & 0x3f)) } else { nvme.contains(&PduType(pdu[0])) }
    }

    /// Takes what the server sends.
    fn relay(&mut self, now: Instant) {
        while self.out.len() < AHEAD {
            self.send.clear();
            self.inner.poll_transmit(now, &mut self.send);
            for segment in self.send.segments() {
                self.told.extend_from_slice(self.send.bytes(segment));
            }
            if self.send.is_empty() {
                break;
            }
            self.inner.handle_transmitted(now, self.send.len());
            while let Some(pdu) = take(&mut self.told, self.is_iscsi) {
                self.tell(pdu);
            }
        }
        self.send.clear();
    }

    /// Passes on a PDU of the server, or what it makes of it.
    fn tell(&mut self, mut pdu: Vec<u8>) {
        if let Some(header) = pdu.first_chunk::<48>() {
            self.last = *header;
        }
        if self.silent || self.closes {
            return;
        }
        if !self.is_hostile() {
            self.honest -= 1;
            return self.out.extend(pdu);
        }
        let asks = self.is_opcode(&pdu, &[Opcode::R2T], &[PduType::R2T]);
        let brings = self.is_opcode(&pdu, &[Opcode::DATA_IN], &[PduType::C2H_DATA]);
        let answers = self.is_opcode(&pdu, &[Opcode::SCSI_RESPONSE], &[PduType::CAPSULE_RESP]);
        match self.evil {
            Evil::Silence => self.silent = true,
            Evil::Half | Evil::Close => {
                pdu.truncate(pdu.len() / 2);
                (self.silent, self.closes) = (self.evil == Evil::Half, self.evil == Evil::Close);
                self.out.extend(pdu);
            }
            Evil::Withheld if (brings || answers) && self.dice.coin() => {}
            Evil::Beyond if asks => {
                // The high byte of the length that is asked for.
                let at = if self.is_iscsi { 44 } else { 19 };
                pdu[at] ^= 1;
                self.out.extend(pdu);
            }
            Evil::Repeats if asks => (0..TIMES).for_each(|_| self.out.extend(&pdu)),
            Evil::Excess if brings => (0..TIMES_DATA).for_each(|_| self.out.extend(&pdu)),
            Evil::Endless if brings && !self.is_iscsi && pdu.len() >= 40 => {
                // GENCTR and NUMREC, if it is a discovery log page: another one each time, of very many records.
                pdu[24..32].copy_from_slice(&self.dice.below(u64::MAX).to_le_bytes());
                pdu[32..40].fill(0x7f);
                self.out.extend(pdu);
            }
            _ => self.out.extend(pdu),
        }
    }

    /// Hears what the client sends.
    fn hear(&mut self, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
        while let Some(pdu) = take(&mut self.heard, self.is_iscsi) {
            if self.speaks_itself() {
                self.promise_more(&pdu);
            }
            // CommandDwords of a capsule begin behind eight bytes: opcode, flags, identifier.
            if !self.is_iscsi
                && PduType(pdu[0]) == PduType::CAPSULE_CMD
                && pdu.len() >= 12
                && pdu[8] == admin::ASYNC_EVENT_REQUEST
            {
                self.waiting = Some(u16::from_le_bytes([pdu[10], pdu[11]]));
            }
        }
    }

    /// Answers a login or text request with text that goes on.
    fn promise_more(&mut self, request: &[u8]) {
        let opcode = Opcode(request[0] & 0x3f);
        if ![Opcode::LOGIN_REQUEST, Opcode::TEXT_REQUEST].contains(&opcode) || self.out.len() > AHEAD {
            return;
        }
        let mut header = [0; 48];
        (header[0], header[1]) = (opcode.0 | 0x20, 0x40 | request[1] & 0x0c);
        header[6] = 0x1f;
        header[7] = 0x40;
        header[8..20].copy_from_slice(&request[8..20]);
        if opcode == Opcode::TEXT_REQUEST {
            header[23] = 1;
        }
        self.out.extend(header);
        self.out.extend([b'a'; 0x1f40]);
    }

    /// A PDU that belongs to no command, with the numbers of the last one.
    fn beside(&self, mut header: Bhs) -> Bhs {
        header[24..36].copy_from_slice(&self.last[24..36]);
        header
    }

    fn strike(&mut self) {
        match (self.evil, self.is_iscsi) {
            (Evil::Pings | Evil::UnreadPings, true) => self.flood(NopIn::ping(7).to_bytes()),
            (Evil::Events, true) => {
                let mut message = AsyncMessage::logout_requested(0).to_bytes();
                message[36] = VENDORS.0;
                self.flood(message);
            }
            (Evil::Strangers, true) => {
                let response = ScsiResponse::new(STRANGER.into(), 0, Residual::None, 0);
                self.flood(response.to_bytes());
            }
            (Evil::Events, false) => {
                // A notice that the namespace has changed (NVMe Base §5.2.2), as soon as the host waits for one.
                if let Some(cid) = self.waiting.take() {
                    self.respond(cid, 2 | 4 << 16);
                }
            }
            (Evil::Strangers, false) => self.respond(STRANGER, 0),
            _ => {}
        }
    }

    fn flood(&mut self, header: Bhs) {
        self.out.extend(self.beside(header).repeat(BURST));
    }

    fn respond(&mut self, cid: u16, result: u64) {
        let entry = CompletionQueueEntry::new(cid, 0, Status::SUCCESS).with_result(result);
        self.out.extend(CapsuleResp::new(entry).as_bytes());
    }

    fn is_deaf(&self) -> bool {
        self.is_hostile() && self.evil == Evil::UnreadPings
    }
}

/// Takes the next whole PDU, without digests.
fn take(bytes: &mut Vec<u8>, is_iscsi: bool) -> Option<Vec<u8>> {
    let whole = if is_iscsi {
        let header: Bhs = *bytes.first_chunk()?;
        let view = BasicHeaderSegment::from_bytes(&header);
        let data = view.data_length() as usize;
        48 + view.ahs_length() + data + padding(data)
    } else {
        let length: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
        (u32::from_le_bytes(length) as usize).max(8)
    };
    (bytes.len() >= whole).then(|| bytes.drain(..whole).collect())
}

impl Endpoint for Villain {
    fn staging(&self) -> usize {
        self.inner.staging()
    }

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let count = if self.speaks_itself() { bytes.len() } else { self.inner.handle_bytes(now, bytes) };
        self.hear(&bytes[..count]);
        count
    }

    fn take_placement(&mut self) -> Option<Placement> {
        self.inner.take_placement()
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        let placed = placement.start..placement.start + placement.len;
        let bytes = placement.buf[placed].to_vec();
        self.hear(&bytes);
        self.inner.handle_placed(now, placement);
    }

    fn handle_transmitted(&mut self, _now: Instant, _bytes: usize) {}

    fn handle_timeout(&mut self, now: Instant) {
        if self.inner.poll_timeout().is_some_and(|due| due <= now) {
            self.inner.handle_timeout(now);
        }
        if self.next <= now {
            self.next = now + self.dice.span(&STROKE);
            if self.is_hostile() && self.out.len() < AHEAD {
                self.strike();
            }
        }
    }

    fn handle_connected(&mut self, _now: Instant, _local: std::net::SocketAddr, _peer: std::net::SocketAddr) {
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        (self.told, self.heard, self.out) = (Vec::new(), Vec::new(), Vec::new());
        self.inner.handle_ended(now, how);
    }

    fn turn(&mut self, now: Instant) {
        self.inner.turn(now);
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.relay(now);
        let count = self.out.len().min(AHEAD);
        send.put(&self.out[..count]);
        self.out.drain(..count);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [Some(self.next), self.inner.poll_timeout()].into_iter().flatten().min()
    }

    fn wants_bytes(&mut self) -> bool {
        !self.is_deaf() && (self.speaks_itself() || self.inner.wants_bytes())
    }

    fn poll_close(&self) -> Option<CloseReason> {
        let own = (self.closes && self.out.is_empty()).then_some(CloseReason::Finished);
        own.or_else(|| self.inner.poll_close())
    }

    fn is_idle(&self) -> bool {
        self.inner.is_idle()
    }

    fn expects_work(&self) -> bool {
        false
    }
}
