//! Sessions and controllers that a trial plays: they write all the time, and ask for resets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use engine::{Core, Transport};
use host::EndpointId;
use iscsi::pdu::{
    DataOut, DataRange, Function, FunctionResponse, LoginResponse, Opcode, R2t, TaskManagementRequest,
};
use names::ROCE_PORT;
use nvme::fabrics::{Property, PropertySize};
use nvme::opcode::nvm;
use nvme::pdu::{CapsuleResp, PduType};
use nvme::properties::{Configuration, ControllerStatus, offset};
use nvme::sqe::SubmissionQueueEntry;
use nvme::status::Status;
use protocol::Instant;
use volume::Extent;
use zerocopy::FromBytes;

use crate::dialects::{Iser, NvmeRdma};
use crate::dice::{Dice, Odds};
use crate::failure::TrialFailure;
use crate::fencing::{content, marks};
use crate::peers::{Initiator, LUN, Pdu, QueueId, SUBSYSTEM, capsule, connect, h2c, host, io, take_pdu};
use crate::queue_pair_peers::{self, Dialect};
use crate::script::{self, Peer};
use crate::world::World;

/// Blocks of the disk: few, so that writes meet.
pub(crate) const BLOCKS: u64 = 96;

/// Writes that a nexus has under way at most, but for those that nobody answers any more.
const DEPTH: usize = 6;
/// How long a write counts as under way. Those that a reset has ended have no answer.
const UNDER_WAY: Duration = Duration::from_millis(300);
/// The longest write, in blocks, and the longest that comes with its command.
const LONGEST: usize = 24;
const IMMEDIATE: usize = 12;
/// How often a nexus that could write does.
const EAGER: Odds = Odds(300);

/// What writes of a nexus are told apart by: the trial's seed, and the nexus' own number.
type Mark = (u64, u64);

/// What carries a nexus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// Streams of TCP.
    Tcp,
    /// Queue pairs of software RoCEv2.
    Roce,
}

impl Carrier {
    /// As a listener says it.
    pub(crate) fn transport(self) -> Transport {
        match self {
            Self::Tcp => Transport::Tcp,
            Self::Roce => {
                Transport::Roce { socket: SocketAddr::from((Ipv4Addr::LOCALHOST, ROCE_PORT)), service: 1 }
            }
        }
    }

    /// Whether data comes with its command. Over RDMA it always does, and what is too much is registered.
    fn brings(self, length: usize, dice: &mut Dice) -> bool {
        self == Self::Roce || (length <= IMMEDIATE * 512 && dice.coin())
    }

    /// A peer of a nexus that comes to a service; `dialect` is how its protocol goes over RDMA.
    fn dial(self, dialect: impl Dialect + 'static, (seed, number): Mark) -> (EndpointId, Peer) {
        match self {
            Self::Tcp => script::dial(dialect.port()),
            Self::Roce => queue_pair_peers::dial(Box::new(dialect), seed ^ number << 32),
        }
    }
}

/// Writes under way.
struct Writes<T> {
    mark: Mark,
    serial: u64,
    sent: BTreeMap<T, (Instant, Extent, Vec<u8>)>,
}

impl<T: Ord + Copy> Writes<T> {
    fn new(mark: Mark) -> Self {
        Self { mark, serial: 0, sent: BTreeMap::new() }
    }

    /// A write that is to be sent now, if one is.
    fn next(&mut self, now: Instant, dice: &mut Dice) -> Option<(Extent, Vec<u8>)> {
        let busy = self.sent.values().filter(|(sent, ..)| *sent + UNDER_WAY > now).count();
        if busy >= DEPTH || !dice.happens(EAGER) {
            return None;
        }
        let blocks = if dice.coin() { 1 } else { dice.within(1..=LONGEST) } as u64;
        let extent = Extent::new(dice.below(BLOCKS - blocks + 1), blocks);
        self.serial += 1;
        Some((extent, content(self.mark.0, (self.mark.1, self.serial), extent)))
    }
}

fn length(data: &[u8]) -> u32 {
    u32::try_from(data.len()).unwrap_or(0)
}

/// An iSCSI session.
pub(crate) struct Session {
    endpoint: EndpointId,
    peer: Peer,
    initiator: Initiator,
    up: bool,
    writes: Writes<u32>,
    /// CmdSN of each write that was sent.
    numbers: BTreeMap<u32, u32>,
    attention: bool,
    answered: BTreeSet<u32>,
    managed: Option<FunctionResponse>,
    greeted: bool,
    carrier: Carrier,
}

impl Session {
    /// A session that is to be: its login follows.
    pub(crate) fn dial(mark: Mark, number: u8, carrier: Carrier) -> Self {
        let (endpoint, peer) = carrier.dial(Iser, mark);
        Self {
            endpoint,
            peer,
            initiator: Initiator::new(number),
            up: false,
            writes: Writes::new(mark),
            numbers: BTreeMap::new(),
            attention: false,
            answered: BTreeSet::new(),
            managed: None,
            greeted: false,
            carrier,
        }
    }

    pub(crate) fn number(&self) -> u8 {
        self.initiator.number
    }

    pub(crate) fn mark(&self) -> u64 {
        self.writes.mark.1
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.peer.borrow().ended
    }

    /// How the latest task management function was answered, if it was.
    pub(crate) fn managed(&self) -> Option<FunctionResponse> {
        self.managed
    }

    pub(crate) fn forget_attention(&mut self) {
        self.attention = false;
    }

    pub(crate) fn has_attention(&self) -> bool {
        self.attention
    }

    pub(crate) fn has_answered(&self, tag: u32) -> bool {
        self.answered.contains(&tag)
    }

    fn say(&mut self, bytes: &[u8], world: &mut World<Core>) {
        self.peer.borrow_mut().out.extend_from_slice(bytes);
        world.wake_client(self.endpoint);
    }

    /// Asks for a function; the last write that was sent before.
    pub(crate) fn manage(&mut self, function: Function, world: &mut World<Core>) -> u64 {
        self.managed = None;
        let tag = self.initiator.next_tag();
        let request = TaskManagementRequest::new(function, LUN, tag);
        let bytes = self.initiator.immediate(request.to_bytes(), &[]);
        self.say(&bytes, world);
        self.writes.serial
    }

    /// Asks for the end of one of its writes; which it is.
    pub(crate) fn abort(&mut self, dice: &mut Dice, world: &mut World<Core>) -> Option<u64> {
        let chosen = dice.index(self.writes.sent.len());
        let (task, (.., data)) = self.writes.sent.iter().nth(chosen)?;
        let (task, mark) = (*task, *data.first_chunk()?);
        let number = *self.numbers.get(&task)?;
        self.writes.sent.remove(&task);
        self.managed = None;
        let request = TaskManagementRequest::new(Function::ABORT_TASK, LUN, self.initiator.next_tag());
        let bytes = self.initiator.immediate(request.referring(task, number).to_bytes(), &[]);
        self.say(&bytes, world);
        Some(marks(&mark).1)
    }

    /// Sends TEST UNIT READY; its tag.
    pub(crate) fn ask(&mut self, world: &mut World<Core>) -> u32 {
        let bytes = self.initiator.command([0; 16], &[], |command| command);
        self.say(&bytes, world);
        self.initiator.tag
    }

    /// Hears what came, and writes.
    pub(crate) fn play(
        &mut self,
        now: Instant,
        dice: &mut Dice,
        world: &mut World<Core>,
    ) -> Result<(), TrialFailure> {
        if !std::mem::replace(&mut self.greeted, true) {
            let login = self.initiator.login();
            self.say(&login, world);
        }
        loop {
            let next = Pdu::take(&mut self.peer.borrow_mut().received);
            let Some(pdu) = next else { break };
            self.hear(&pdu, world)?;
        }
        let room = self.initiator.cmd_sn <= self.initiator.most_cmd_sn;
        if self.up
            && !self.has_ended()
            && room
            && let Some((extent, data)) = self.writes.next(now, dice)
        {
            let comes = self.carrier.brings(data.len(), dice);
            let immediate = if comes { &data[..] } else { &[] };
            let bytes = self.initiator.write(extent.start, length(&data), immediate);
            self.say(&bytes, world);
            self.numbers.insert(self.initiator.tag, self.initiator.cmd_sn.wrapping_sub(1));
            self.writes.sent.insert(self.initiator.tag, (now, extent, data));
        }
        Ok(())
    }

    fn hear(&mut self, pdu: &Pdu, world: &mut World<Core>) -> Result<(), TrialFailure> {
        if let Some(answer) = self.initiator.hear(pdu) {
            self.say(&answer, world);
        }
        let tag = pdu.view().task_tag();
        match pdu.view().opcode() {
            Opcode::LOGIN_RESPONSE => {
                let status = LoginResponse::from_bytes(&pdu.header).status();
                if status.0 != 0 {
                    return Err(TrialFailure::Broken(format!(
                        "session {} may not log in: {}",
                        self.number(),
                        status.text()
                    )));
                }
                self.up = true;
            }
            Opcode::R2T => self.send_data(&R2t::from_bytes(&pdu.header), world),
            Opcode::SCSI_RESPONSE => {
                self.writes.sent.remove(&tag);
                self.answered.insert(tag);
                let unit_attention = pdu.header[3] == 2 && pdu.data.get(4).is_some_and(|key| key & 0xf == 6);
                self.attention |= unit_attention;
            }
            Opcode::TASK_MANAGEMENT_RESPONSE => {
                let response = iscsi::pdu::TaskManagementResponse::from_bytes(&pdu.header);
                self.managed = Some(response.response());
            }
            Opcode::REJECT => {
                return Err(TrialFailure::Broken(format!("a PDU of session {} is rejected", self.number())));
            }
            _ => {}
        }
        Ok(())
    }

    fn send_data(&mut self, r2t: &R2t, world: &mut World<Core>) {
        let Some((_, _, data)) = self.writes.sent.get(&r2t.task_tag()) else { return };
        let (offset, count) = (r2t.buffer_offset(), r2t.length());
        let range = offset as usize..(offset + count) as usize;
        let Some(part) = data.get(range) else { return };
        let header = DataOut::new(LUN, r2t.tags(), 0, DataRange { offset, length: count }).ending();
        let bytes = self.initiator.pdu(header.to_bytes(), part);
        self.say(&bytes, world);
    }
}

/// How far a controller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its admin queue is being connected.
    Connecting,
    /// CC.EN is being set.
    Enabling,
    /// Its I/O queues are being connected.
    Queues,
    Up,
    /// It was told to reset or shut down.
    Disabling,
    /// CSTS says that it is over.
    Disabled,
}

/// One queue's stream.
struct Queue {
    endpoint: EndpointId,
    peer: Peer,
    connected: bool,
}

impl Queue {
    fn dial(carrier: Carrier, mark: Mark) -> Self {
        let (endpoint, peer) = carrier.dial(NvmeRdma, mark);
        Self { endpoint, peer, connected: false }
    }

    fn say(&self, bytes: &[u8], world: &mut World<Core>) {
        self.peer.borrow_mut().out.extend_from_slice(bytes);
        world.wake_client(self.endpoint);
    }

    fn take(&self) -> Option<(PduType, Vec<u8>)> {
        take_pdu(&mut self.peer.borrow_mut().received)
    }
}

/// How a host disables its controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DisabledBy {
    /// It sets CC.EN to zero.
    Reset,
    /// It sets CC.SHN.
    Shutdown,
}

/// A controller with its I/O queues, as its host sees it.
pub(crate) struct Controller {
    number: u8,
    stage: Stage,
    /// The admin queue, and the I/O queues after it.
    queues: Vec<Queue>,
    /// By queue and command.
    writes: Writes<(usize, u16)>,
    cid: u16,
    cntlid: u16,
    disabled_by: DisabledBy,
    carrier: Carrier,
}

/// I/O queues of a controller.
const QUEUES: u16 = 2;

impl Controller {
    /// A controller that is to be: its Connect follows.
    pub(crate) fn dial(mark: Mark, number: u8, carrier: Carrier) -> Self {
        let (queues, writes) = (Vec::new(), Writes::new(mark));
        Self {
            number,
            stage: Stage::Connecting,
            queues,
            writes,
            cid: 0,
            cntlid: 0,
            disabled_by: DisabledBy::Reset,
            carrier,
        }
    }

    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    pub(crate) fn mark(&self) -> u64 {
        self.writes.mark.1
    }

    pub(crate) fn is_up(&self) -> bool {
        self.stage == Stage::Up
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.stage == Stage::Disabled
    }

    /// Resets all of its streams.
    pub(crate) fn hang_up(&mut self, world: &mut World<Core>) {
        self.queues.drain(..).for_each(|queue| world.reset(queue.endpoint));
    }

    fn order(&mut self, queue: usize, mut entry: SubmissionQueueEntry, world: &mut World<Core>) {
        self.cid = self.cid.wrapping_add(1);
        entry.cid.set(self.cid);
        self.queues[queue].say(&capsule(entry, &[]), world);
    }

    /// Sets CC.EN to zero, or CC.SHN.
    pub(crate) fn disable(&mut self, way: DisabledBy, world: &mut World<Core>) {
        (self.stage, self.disabled_by) = (Stage::Disabling, way);
        let value = match way {
            DisabledBy::Shutdown => Configuration::ENABLE.with_shutdown(),
            DisabledBy::Reset => Configuration(0),
        };
        self.order(0, Property::set(offset::CC, value.0), world);
    }

    /// Hears what came, and writes.
    pub(crate) fn play(
        &mut self,
        now: Instant,
        dice: &mut Dice,
        world: &mut World<Core>,
    ) -> Result<(), TrialFailure> {
        if self.queues.is_empty() && self.stage == Stage::Connecting {
            self.queues.push(Queue::dial(self.carrier, self.writes.mark));
            self.queues[0].say(&connect(&host(self.number), QueueId::ADMIN, SUBSYSTEM, 0), world);
        }
        for index in 0..self.queues.len() {
            while let Some((kind, pdu)) = self.queues[index].take() {
                self.hear(index, (kind, &pdu), world)?;
            }
        }
        // A host that resets its controller need not have stopped before.
        if matches!(self.stage, Stage::Up | Stage::Disabling)
            && let Some((extent, data)) = self.writes.next(now, dice)
        {
            let queue = dice.within(1..=usize::from(QUEUES));
            self.cid = self.cid.wrapping_add(1);
            let entry = io(nvm::WRITE, self.cid, extent.start, length(&data));
            let comes = self.carrier.brings(data.len(), dice);
            self.queues[queue].say(&capsule(entry, if comes { &data } else { &[] }), world);
            self.writes.sent.insert((queue, self.cid), (now, extent, data));
        }
        Ok(())
    }

    fn hear(
        &mut self,
        index: usize,
        (kind, pdu): (PduType, &[u8]),
        world: &mut World<Core>,
    ) -> Result<(), TrialFailure> {
        let odd = |what: &str| Err(TrialFailure::Broken(format!("controller {}: {what}", self.number)));
        match kind {
            PduType::CAPSULE_RESP => {
                let Ok(response) = CapsuleResp::read_from_bytes(pdu) else { return odd("a torn response") };
                let entry = response.entry;
                if self.writes.sent.remove(&(index, entry.cid.get())).is_some() {
                    return Ok(());
                }
                // The core that connects the queue may not know yet that the controller is enabled: hosts connect again.
                if self.stage == Stage::Queues && entry.status().code() == Status::COMMAND_SEQUENCE.code() {
                    world.reset(self.queues[index].endpoint);
                    self.queues[index] = self.dial_queue(index, world);
                    return Ok(());
                }
                if !entry.status().is_success() {
                    return Err(TrialFailure::Broken(format!(
                        "controller {}: a command of queue {index} fails at {:?}: {:?}",
                        self.number,
                        self.stage,
                        entry.status()
                    )));
                }
                self.proceed(index, entry.result(), world);
            }
            PduType::R2T => self.send_data(index, pdu, world),
            PduType::C2H_TERM_REQ => return odd(&format!("queue {index} is terminated: {pdu:x?}")),
            _ => {}
        }
        Ok(())
    }

    /// The command that the host waits for has succeeded.
    fn proceed(&mut self, index: usize, result: u64, world: &mut World<Core>) {
        match self.stage {
            Stage::Connecting => {
                self.queues[0].connected = true;
                self.stage = Stage::Enabling;
                self.cntlid = u16::try_from(result & 0xffff).unwrap_or(0);
                self.order(0, Property::set(offset::CC, Configuration::ENABLE.0), world);
            }
            Stage::Enabling => {
                self.stage = Stage::Queues;
                for index in 1..=usize::from(QUEUES) {
                    let queue = self.dial_queue(index, world);
                    self.queues.push(queue);
                }
            }
            Stage::Queues => {
                self.queues[index].connected = true;
                if self.queues.iter().all(|queue| queue.connected) {
                    self.stage = Stage::Up;
                }
            }
            Stage::Disabling => self.look(result, world),
            Stage::Up | Stage::Disabled => {}
        }
    }

    fn dial_queue(&self, index: usize, world: &mut World<Core>) -> Queue {
        let queue = Queue::dial(self.carrier, self.writes.mark);
        let qid = u16::try_from(index).unwrap_or(0);
        queue.say(&connect(&host(self.number), QueueId { qid, cntlid: self.cntlid }, SUBSYSTEM, 0), world);
        queue
    }

    /// Asks for CSTS until it says that it is over.
    fn look(&mut self, result: u64, world: &mut World<Core>) {
        let status = ControllerStatus(u32::try_from(result).unwrap_or(0));
        let asked = std::mem::replace(&mut self.queues[0].connected, false);
        let over = if self.disabled_by == DisabledBy::Shutdown {
            status.has(ControllerStatus::SHUT_DOWN)
        } else {
            !status.has(ControllerStatus::READY)
        };
        // The first answer is that of the Property Set.
        if !asked && over {
            self.stage = Stage::Disabled;
        } else {
            self.order(0, Property::get(offset::CSTS, PropertySize::Four), world);
        }
    }

    fn send_data(&mut self, index: usize, pdu: &[u8], world: &mut World<Core>) {
        let Ok(r2t) = nvme::pdu::R2t::read_from_bytes(pdu) else { return };
        let Some((_, _, data)) = self.writes.sent.get(&(index, r2t.cccid.get())) else { return };
        let (offset, count) = (r2t.r2to.get(), r2t.r2tl.get());
        let Some(part) = data.get(offset as usize..(offset + count) as usize) else { return };
        let data = h2c(&r2t, offset, part);
        self.queues[index].say(&data, world);
    }
}
