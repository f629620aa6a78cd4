//! Initiators and hosts that take what they can get: each kind does one thing that a server must bear.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use iscsi::pdu::{
    DataOut, DataRange, LoginIdentity, LoginRequest, LoginResponse, NopOut, Opcode, R2t, RESERVED_TAG,
    Stage as LoginStage, TextRequest,
};
use nvme::DISCOVERY_NQN;
use nvme::fabrics::Property;
use nvme::log::{GetLogPage, lid};
use nvme::opcode::{admin, nvm};
use nvme::pdu::{CapsuleResp, PduType};
use nvme::properties::{Configuration, offset};
use nvme::sqe::SubmissionQueueEntry;
use protocol::Instant;
use zerocopy::FromBytes;

use crate::dice::Dice;
use crate::peers::{Initiator, LUN, Pdu, QueueId, SUBSYSTEM, capsule, connect, host, io, take_pdu};
use crate::script::{Line, Script};

/// What an attacker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attack {
    /// A discovery session pings with long echoes, and reads none.
    Echoes,
    /// A session commands writes of the largest size, and never sends their data.
    Hoard,
    /// A session whose window is always full of large writes, however wide it becomes, and whose data never comes.
    FullWindow,
    /// A session sends what it is asked for, a few bytes at a time.
    Trickle,
    /// A session reads the largest blocks, and takes nothing of them, not even pings.
    Unread,
    /// A login whose text never ends.
    EndlessLogin,
    /// A discovery session whose text never ends.
    EndlessText,
    /// A session whose commands are far beyond its window.
    BeyondWindow,
    /// A connection to the target that says nothing, or stops within its first PDU.
    Mute,
    /// A discovery controller's log pages are asked for without end, and not read.
    LogPages,
    /// Asynchronous Event Requests beyond the limit.
    EventRequests,
    /// An I/O queue that writes and never sends what R2Ts ask for.
    HoardQueue,
    /// An I/O queue that reads and takes nothing of it.
    UnreadQueue,
    /// A controller whose keep alive timer is never reset.
    NoKeepAlive,
    /// A connection to the controller that says nothing, or stops within its first PDU.
    MuteHost,
}

impl Attack {
    /// All kinds.
    pub const ALL: [Self; 15] = [
        Self::Echoes,
        Self::Hoard,
        Self::FullWindow,
        Self::Trickle,
        Self::Unread,
        Self::EndlessLogin,
        Self::EndlessText,
        Self::BeyondWindow,
        Self::Mute,
        Self::LogPages,
        Self::EventRequests,
        Self::HoardQueue,
        Self::UnreadQueue,
        Self::NoKeepAlive,
        Self::MuteHost,
    ];

    /// The port that it goes to.
    pub(crate) fn port(self) -> u16 {
        if self.is_iscsi() { 1 } else { 2 }
    }

    fn is_iscsi(self) -> bool {
        !matches!(
            self,
            Self::LogPages
                | Self::EventRequests
                | Self::HoardQueue
                | Self::UnreadQueue
                | Self::NoKeepAlive
                | Self::MuteHost
        )
    }

    /// True if it takes an admin queue that behaves.
    pub(crate) fn needs_admin(self) -> bool {
        matches!(self, Self::HoardQueue | Self::UnreadQueue)
    }
}

/// Bytes of one transfer of those who want much.
const MUCH: u32 = 1 << 20;
/// The longest transfer that the target's buffers hold.
const MOST: u32 = 8 << 20;
/// Bytes that an attacker leaves unsent before it makes more.
const AHEAD: usize = 64 << 10;
/// Commands of the widest window that a target gives.
const WIDEST: u16 = iscsi::limits::QUEUE_DEPTH;
/// Commands of one queue.
const QUEUE: u16 = 120;
/// Echoes and event requests of one stroke.
const BURST: usize = 8;
/// How long an attacker waits between two strokes: so that a trial lasts as long as its steps, whatever the server's answers are.
const STROKE: std::ops::RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_millis(500);

/// The controller that an admin queue has, for the I/O queues of the same host.
pub(crate) type Shared = Rc<Cell<Option<u16>>>;

/// An attacker over iSCSI.
pub(crate) struct Raider {
    attack: Attack,
    initiator: Initiator,
    dice: Dice,
    greeted: bool,
    up: bool,
    /// When the next stroke is due.
    next: Instant,
    /// Bytes of a Data-Out PDU that are still to come.
    owed: usize,
    asked: Vec<R2t>,
    /// The target transfer tag of text that goes on, or the reserved one.
    text: u32,
}

impl Raider {
    pub(crate) fn new(attack: Attack, number: u8, dice: Dice) -> Self {
        let initiator = Initiator::new(number);
        Self {
            attack,
            initiator,
            dice,
            greeted: false,
            up: false,
            next: Instant::ZERO,
            owed: 0,
            asked: Vec::new(),
            text: RESERVED_TAG,
        }
    }

    fn greet(&mut self, line: &mut Line) {
        match self.attack {
            Attack::Mute if self.dice.coin() => {}
            Attack::Mute => line.out.extend(&self.initiator.login_to_discover()[..20]),
            Attack::EndlessLogin => self.go_on_with_login(line),
            Attack::Echoes | Attack::EndlessText => line.out.extend(self.initiator.login_to_discover()),
            _ => line.out.extend(self.initiator.login()),
        }
    }

    /// A login request with text that says that more follows.
    fn go_on_with_login(&mut self, line: &mut Line) {
        let isid = [0x80, 0, 0, 0, 0, self.initiator.number];
        let mut header =
            LoginRequest::new(LoginStage::Operational, LoginIdentity::new_session(isid), 0, 1).to_bytes();
        header[1] |= 0x40;
        let text = [&b"X-org.example.endless="[..], &[b'a'; 200]].concat();
        line.out.extend(self.initiator.pdu(header, &text));
    }

    fn hear(&mut self, pdu: &Pdu, line: &mut Line) {
        if let Some(answer) = self.initiator.hear(pdu) {
            line.out.extend(answer);
        }
        match pdu.view().opcode() {
            Opcode::LOGIN_RESPONSE if self.attack == Attack::EndlessLogin => self.up = true,
            Opcode::LOGIN_RESPONSE => {
                self.up = LoginResponse::from_bytes(&pdu.header).status().0 == 0;
                self.next = Instant::ZERO;
                line.deaf = matches!(self.attack, Attack::Echoes | Attack::Unread);
            }
            Opcode::TEXT_RESPONSE => {
                let [a, b, c, d] = [pdu.header[20], pdu.header[21], pdu.header[22], pdu.header[23]];
                self.text = u32::from_be_bytes([a, b, c, d]);
            }
            Opcode::REJECT => self.text = RESERVED_TAG,
            Opcode::R2T if self.attack == Attack::Trickle => self.asked.push(R2t::from_bytes(&pdu.header)),
            _ => {}
        }
    }

    /// A text request that says that more follows.
    fn go_on_with_text(&mut self, line: &mut Line) {
        let mut header = TextRequest::new(1, self.text).to_bytes();
        header[1] = 0x40;
        let bytes = self.initiator.immediate(header, &[b'a'; 4096]);
        line.out.extend(bytes);
    }

    fn strike(&mut self, line: &mut Line) {
        let room = |raider: &Self| raider.initiator.cmd_sn <= raider.initiator.most_cmd_sn;
        match self.attack {
            Attack::Echoes => {
                for _ in 0..BURST {
                    let tag = self.initiator.next_tag();
                    let bytes = self.initiator.immediate(NopOut::ping(tag).to_bytes(), &[7; 8192]);
                    line.out.extend(bytes);
                }
            }
            Attack::Hoard => {
                while room(self) {
                    line.out.extend(self.initiator.write(0, MOST, &[]));
                }
            }
            Attack::FullWindow => self.fill_window(line),
            Attack::Trickle => self.trickle(line, room(self)),
            Attack::Unread => {
                while room(self) {
                    line.out.extend(self.initiator.read(0, MUCH));
                }
            }
            Attack::EndlessLogin => self.go_on_with_login(line),
            Attack::EndlessText => self.go_on_with_text(line),
            Attack::BeyondWindow => {
                self.initiator.cmd_sn = self.initiator.most_cmd_sn.wrapping_add(1000);
                let beyond = self.initiator.write(0, MUCH, &[]);
                line.out.extend(beyond);
            }
            _ => {}
        }
    }

    /// Commands more than any window takes. The target ignores what lies beyond its own, so that is sent again once the window has moved.
    fn fill_window(&mut self, line: &mut Line) {
        let initiator = &mut self.initiator;
        if initiator.exp_cmd_sn <= initiator.most_cmd_sn {
            initiator.cmd_sn = initiator.exp_cmd_sn;
            for _ in 0..WIDEST {
                line.out.extend(initiator.write(0, MUCH, &[]));
            }
        }
    }

    fn trickle(&mut self, line: &mut Line, room: bool) {
        if room {
            line.out.extend(self.initiator.write(0, MUCH, &[]));
        }
        if self.owed == 0
            && let Some(r2t) = self.asked.pop()
        {
            let count = r2t.length().min(1 << 16);
            let header =
                DataOut::new(LUN, r2t.tags(), 0, DataRange { offset: r2t.buffer_offset(), length: count });
            let mut bytes = self.initiator.pdu(header.to_bytes(), &vec![0; count as usize]);
            self.owed = count as usize;
            bytes.truncate(48);
            line.out.extend(bytes);
        }
        let count = self.dice.within(1..=64).min(self.owed);
        self.owed -= count;
        line.out.resize(line.out.len() + count, 0);
    }
}

impl Script for Raider {
    fn act(&mut self, now: Instant, line: &mut Line) -> Option<Instant> {
        if !std::mem::replace(&mut self.greeted, true) {
            self.greet(line);
        }
        while let Some(pdu) = Pdu::take(&mut line.received) {
            self.hear(&pdu, line);
        }
        if self.next <= now {
            self.next = now + self.dice.span(&STROKE);
            if self.up && line.out.len() < AHEAD {
                self.strike(line);
            }
        }
        Some(self.next)
    }
}

/// How far a queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It has said nothing.
    Silent,
    /// Its Connect was sent.
    Connecting,
    /// CC.EN is being set.
    Enabling,
    Up,
}

/// An attacker over NVMe/TCP: of one queue.
pub(crate) struct Marauder {
    /// What it does; nothing if it is there for the I/O queues of its host.
    attack: Option<Attack>,
    number: u8,
    queue: QueueKind,
    shared: Shared,
    dice: Dice,
    stage: Stage,
    /// When the next stroke is due.
    next: Instant,
    cid: u16,
}

/// Which queue a marauder has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueKind {
    /// An admin queue.
    Admin,
    /// An I/O queue of the controller that is shared with an admin queue's.
    Io,
}

/// What a marauder does, and as whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// None for one that behaves.
    pub(crate) attack: Option<Attack>,
    /// Which host it is.
    pub(crate) number: u8,
    pub(crate) queue: QueueKind,
}

impl Marauder {
    /// One before it has said anything.
    pub(crate) fn new(plan: Plan, shared: Shared, dice: Dice) -> Self {
        let Plan { attack, number, queue } = plan;
        Self { attack, number, queue, shared, dice, stage: Stage::Silent, next: Instant::ZERO, cid: 1 }
    }

    /// True once it has said what it has to say at first.
    fn greet(&mut self, line: &mut Line) -> bool {
        let kato = if self.attack == Some(Attack::NoKeepAlive) { 1000 } else { 0 };
        let host = host(self.number);
        match self.attack {
            Some(Attack::MuteHost) if self.dice.coin() => {}
            Some(Attack::MuteHost) => line.out.extend(&connect(&host, QueueId::ADMIN, SUBSYSTEM, 0)[..100]),
            Some(Attack::LogPages) => line.out.extend(connect(&host, QueueId::ADMIN, DISCOVERY_NQN, 0)),
            _ if self.queue == QueueKind::Io => {
                let Some(cntlid) = self.shared.get() else { return false };
                line.out.extend(connect(&host, QueueId { qid: 1, cntlid }, SUBSYSTEM, 0));
            }
            _ => line.out.extend(connect(&host, QueueId::ADMIN, SUBSYSTEM, kato)),
        }
        true
    }

    fn command(&mut self, mut entry: SubmissionQueueEntry, line: &mut Line) {
        self.cid = self.cid.wrapping_add(1);
        entry.cid.set(self.cid);
        line.out.extend(capsule(entry, &[]));
    }

    fn hear(&mut self, pdu: &[u8], line: &mut Line) {
        let Ok(response) = CapsuleResp::read_from_bytes(pdu) else { return };
        let (good, result) = (response.entry.status().is_success(), response.entry.result());
        match self.stage {
            _ if !good => {}
            Stage::Connecting if self.queue == QueueKind::Admin => {
                self.shared.set(u16::try_from(result & 0xffff).ok());
                self.command(Property::set(offset::CC, Configuration::ENABLE.0), line);
                self.stage = Stage::Enabling;
            }
            Stage::Connecting | Stage::Enabling => {
                (self.stage, self.next) = (Stage::Up, Instant::ZERO);
                line.deaf = matches!(self.attack, Some(Attack::LogPages | Attack::UnreadQueue));
            }
            Stage::Silent | Stage::Up => {}
        }
    }

    fn strike(&mut self, line: &mut Line) {
        match self.attack {
            Some(Attack::LogPages) => self.command(GetLogPage::entry(lid::DISCOVERY, 0, MUCH), line),
            Some(Attack::EventRequests) => {
                for _ in 0..BURST {
                    self.command(SubmissionQueueEntry::new(admin::ASYNC_EVENT_REQUEST, 0), line);
                }
            }
            Some(Attack::HoardQueue | Attack::UnreadQueue) => {
                let reads = self.attack == Some(Attack::UnreadQueue);
                let opcode = if reads { nvm::READ } else { nvm::WRITE };
                while self.cid < QUEUE {
                    let entry = io(opcode, self.cid, 0, MUCH);
                    self.command(entry, line);
                }
            }
            _ => {}
        }
    }
}

impl Script for Marauder {
    fn act(&mut self, now: Instant, line: &mut Line) -> Option<Instant> {
        if self.stage == Stage::Silent && self.greet(line) {
            self.stage = Stage::Connecting;
        }
        while let Some((kind, pdu)) = take_pdu(&mut line.received) {
            if kind == PduType::CAPSULE_RESP {
                self.hear(&pdu, line);
            }
        }
        if self.next <= now {
            self.next = now + self.dice.span(&STROKE);
            if self.stage == Stage::Up && line.out.len() < AHEAD {
                self.strike(line);
            }
        }
        Some(self.next)
    }
}
