//! An initiator's datamover over RDMA (RFC 7145 §7.3): it registers the memory of a command before it sends the command, and has it back before it tells of the
//! response.
//!
//! A command's memory belongs to the queue pair while the target may use it. Whatever ends the command, its region ends first, so that no target touches memory that
//! its owner has back.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use protocol::Instant;
use verbs::{
    ManagedQueuePair, RegionMemory, RemoteRegion, STag, SetupEvent, WorkDone, WorkMemory, WorkRequest,
};

use super::channel::{Channel, Completed, HEADERS, LONG, Outbound, Owner, Purpose, SHORT};
use super::connection::RdmaMover;
use super::header::{Invalidation, IserHeader};
use super::key_values::check_rdma;
use super::message::Message;
use crate::datamover::{
    CommandData, CommandResources, CommandToSend, CommandTransfer, ControlPdu, Datamover, InitiatorDatamover,
    InitiatorLayer, KeyValues, ReceivedPdu, Sender, TaskHandle, Unacceptable,
};
use crate::keys::{Parameters, SessionType, Tuning};
use crate::limits::{
    ANSWERS, COMMANDS_AHEAD, INITIATOR_DEPTH, LOGIN_RECEIVES, RDMA_RESPONSE_SEGMENT, RDMA_SEGMENT,
    UNEXPECTED_PDUS,
};
use crate::pdu::{
    BasicHeaderSegment, Bhs, NopOut, Opcode, RESERVED_TAG, Residual, ScsiResponse, TaskManagementRequest,
    stamp_length,
};
use crate::sequence::{CmdSn, InitiatorNumbers};
use crate::violation::Violation;

/// Why there is no connection when the peer rejects its set-up, as one without an iSER target there does.
const REJECTED: &str = "the peer rejects the connection: no iSER target listens there";

/// Where a command's memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    /// Here.
    #[default]
    Here,
    /// The queue pair has it, and has not named it yet.
    Registering,
    /// The target may use it, under this name.
    Registered(RemoteRegion),
    /// Its region is being ended.
    Ending(STag),
}

/// The data of a command that was sent.
#[derive(Debug, Default)]
struct CommandSlot {
    /// Memory was lent, and has not been given back.
    live: bool,
    task_tag: u32,
    length: u32,
    /// Bytes of a write that go with the command: all or none.
    immediate: u32,
    unsolicited: u32,
    is_read: bool,
    data: CommandData,
    place: Place,
    /// Bytes that were moved, as the response says.
    moved: u32,
    generation: u32,
}

impl CommandSlot {
    /// What the region is called, if there is one.
    fn stag(&self) -> Option<STag> {
        match self.place {
            Place::Registered(region) => Some(region.stag),
            Place::Ending(stag) => Some(stag),
            Place::Here | Place::Registering => None,
        }
    }
}

/// What waits to be sent.
#[derive(Debug)]
enum Outgoing {
    /// A PDU that moves no data.
    Pdu { header: Bhs, data: Vec<u8> },
    /// A command, once its memory is registered.
    Command(QueuedCommand),
}

/// A command that waits to be sent.
#[derive(Debug, Clone, Copy)]
struct QueuedCommand {
    task: TaskHandle,
    task_tag: u32,
    header: Bhs,
}

/// An abort that was sent: its own tag, and that of the task.
#[derive(Debug, Clone, Copy)]
struct Abort {
    task_tag: u32,
    referenced: u32,
}

/// An initiator's datamover over a queue pair.
#[derive(Debug)]
pub struct IserInitiator<Q> {
    channel: Channel<Q>,
    parameters: Parameters,
    /// The full feature phase has begun.
    enabled: bool,
    /// By task; as many as were ever used.
    slots: Vec<CommandSlot>,
    queue: VecDeque<Outgoing>,
    /// Commands among what waits.
    commands: usize,
    /// Regions of commands that have ended, to be ended.
    orphans: Vec<(Owner, STag)>,
    aborts: Vec<Abort>,
    /// PDUs that the target does not expect, and has not answered.
    unexpected: u32,
    /// Answers to the target's pings that wait, in bytes.
    answers: usize,
    generation: u32,
    /// The time as it was told last.
    now: Instant,
}

impl<Q: ManagedQueuePair> IserInitiator<Q> {
    /// The datamover of a connection that just began.
    pub fn new(queue_pair: Q) -> Self {
        let mut channel = Channel::new(queue_pair, &[SHORT, LONG]);
        if channel.queue_pair.limits().remote_invalidation {
            channel.invalidation = Invalidation::Used;
        }
        Self {
            channel,
            parameters: Parameters::default(),
            enabled: false,
            slots: Vec::new(),
            queue: VecDeque::new(),
            commands: 0,
            orphans: Vec::new(),
            aborts: Vec::new(),
            unexpected: 0,
            answers: 0,
            generation: 0,
            now: Instant::ZERO,
        }
    }

    fn slot(&mut self, task: TaskHandle) -> Option<&mut CommandSlot> {
        self.slots.get_mut(usize::from(task.0)).filter(|slot| slot.live)
    }

    /// Gives the queue pair the memory of a command, unless its data goes with it. False when that must wait.
    fn register(&mut self, task: TaskHandle) -> bool {
        let Some(slot) = self.slots.get_mut(usize::from(task.0)).filter(|slot| slot.live) else {
            return true;
        };
        if slot.place != Place::Here || slot.immediate > 0 || slot.length == 0 {
            return true;
        }
        let memory = match core::mem::take(&mut slot.data) {
            CommandData::Read(buf) => RegionMemory::Sink(buf),
            CommandData::Write(list) => RegionMemory::Source(list),
            CommandData::None => return true,
        };
        let owner = Owner { task, generation: slot.generation };
        match self.channel.post(Purpose::Register(owner), WorkRequest::Register { memory }) {
            Ok(()) => {
                slot.place = Place::Registering;
                true
            }
            Err(request) => {
                slot.data = data_of(request.into_memory());
                false
            }
        }
    }

    /// Says how much of a write goes with its command: everything, if that fits; then it needs no region.
    fn begin(&mut self, task: TaskHandle) {
        let Parameters { immediate_data, peer_segment, .. } = self.parameters;
        let Some(slot) = self.slot(task) else { return };
        let most = if immediate_data { slot.unsolicited.min(peer_segment) } else { 0 };
        if !slot.is_read && slot.length <= most {
            slot.immediate = slot.length;
        }
    }

    /// True when what is at the front can be sent now.
    fn may_send(&mut self) -> bool {
        let limit = match self.parameters.rdma.unexpected_pdus {
            0 => UNEXPECTED_PDUS,
            declared => declared,
        };
        match self.queue.front() {
            None => false,
            Some(Outgoing::Pdu { header, .. }) => !is_unexpected(header) || self.unexpected < limit,
            Some(Outgoing::Command(QueuedCommand { task, task_tag, .. })) => {
                let (task, task_tag) = (*task, *task_tag);
                let waits = self.slot(task).filter(|slot| slot.task_tag == task_tag).map(|slot| slot.place);
                match waits {
                    Some(Place::Registering) => false,
                    Some(Place::Here) => {
                        self.register(task)
                            && self.slot(task).is_none_or(|slot| slot.place != Place::Registering)
                    }
                    _ => true,
                }
            }
        }
    }

    /// Sends the next thing that waits; false if there is none.
    fn send_one(&mut self, numbers: &InitiatorNumbers) -> bool {
        if !self.channel.has_room() || !self.may_send() {
            return false;
        }
        match self.queue.pop_front() {
            Some(Outgoing::Pdu { header, data }) => self.send_pdu(header, &data, numbers),
            Some(Outgoing::Command(command)) => {
                self.commands = self.commands.saturating_sub(1);
                self.send_command(command, numbers);
            }
            None => return false,
        }
        true
    }

    fn send_pdu(&mut self, mut header: Bhs, data: &[u8], numbers: &InitiatorNumbers) {
        if is_unexpected(&header) {
            self.unexpected = self.unexpected.saturating_add(1);
        } else if is_answer(&header) {
            self.answers = self.answers.saturating_sub(size_of::<Outgoing>());
        }
        stamp_length(&mut header, data.len());
        numbers.stamp(&mut header, CmdSn::Next);
        let iser = IserHeader::new();
        self.channel.send(&Outbound { iser, header: &header, data, pieces: &[], invalidate: None });
    }

    fn send_command(&mut self, command: QueuedCommand, numbers: &InitiatorNumbers) {
        let QueuedCommand { task, task_tag, mut header } = command;
        let slot = self.slots.get(usize::from(task.0)).filter(|slot| slot.live && slot.task_tag == task_tag);
        // Otherwise the connection is about to end.
        let Some(slot) = slot else { return };
        let mut iser = IserHeader::new();
        if let Place::Registered(region) = slot.place {
            iser = if slot.is_read { iser.reading(region.into()) } else { iser.writing(region.into()) };
        }
        stamp_length(&mut header, slot.immediate as usize);
        numbers.stamp(&mut header, CmdSn::Kept);
        let pieces = match &slot.data {
            CommandData::Write(list) if slot.immediate > 0 => list.pieces(),
            _ => &[],
        };
        self.channel.send(&Outbound { iser, header: &header, data: &[], pieces, invalidate: None });
    }

    /// Begins to end a command's region. True once its memory is here.
    fn take_back(&mut self, task: TaskHandle) -> bool {
        let Some(slot) = self.slots.get_mut(usize::from(task.0)).filter(|slot| slot.live) else {
            return true;
        };
        match slot.place {
            Place::Here => true,
            Place::Registering | Place::Ending(_) => false,
            Place::Registered(region) => {
                let owner = Owner { task, generation: slot.generation };
                let request = WorkRequest::Invalidate { stag: region.stag };
                if self.channel.has_room_to_end()
                    && self.channel.post(Purpose::Invalidate(owner), request).is_ok()
                {
                    slot.place = Place::Ending(region.stag);
                }
                false
            }
        }
    }

    /// Takes what has completed; false if there was nothing.
    fn collect(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(Completed { purpose, result, memory }) = self.channel.next_completed(now, &mut any) {
            match purpose {
                Purpose::Register(owner) => self.registered(owner, result.ok(), memory),
                Purpose::Invalidate(owner) => self.ended(owner, memory),
                _ => {}
            }
        }
        any
    }

    fn of(&mut self, owner: Owner) -> Option<&mut CommandSlot> {
        self.slot(owner.task).filter(|slot| slot.generation == owner.generation)
    }

    fn registered(&mut self, owner: Owner, done: Option<WorkDone>, memory: WorkMemory) {
        match (self.of(owner), done) {
            (Some(slot), Some(WorkDone::Registered(region))) => slot.place = Place::Registered(region),
            (None, Some(WorkDone::Registered(region))) => self.orphans.push((owner, region.stag)),
            (Some(slot), _) => (slot.data, slot.place) = (data_of(memory), Place::Here),
            (None, _) => {}
        }
    }

    /// A region has ended. The memory of a command that has ended, too, is dropped.
    fn ended(&mut self, owner: Owner, memory: WorkMemory) {
        if let Some(slot) = self.of(owner) {
            (slot.data, slot.place) = (data_of(memory), Place::Here);
        }
    }

    /// Ends regions whose commands have ended.
    fn end_orphans(&mut self) {
        while let Some((owner, stag)) = self.orphans.pop() {
            let request = WorkRequest::Invalidate { stag };
            if !self.channel.has_room_to_end() {
                return self.orphans.push((owner, stag));
            }
            // A region that is not known is gone.
            let _ = self.channel.post(Purpose::Invalidate(owner), request);
        }
    }

    /// Whether a message can be told of: the memory of the command that it ends must be here. What it has invalidated must be that command's.
    fn prepare(&mut self, message: &Message, task: Option<TaskHandle>) -> Result<bool, Violation> {
        let stag = task.and_then(|task| self.slot(task)).and_then(|slot| slot.stag());
        if message.invalidated.is_some_and(|invalidated| Some(invalidated) != stag) {
            return Err(Violation::WrongInvalidation);
        }
        let Some(task) = task else { return Ok(true) };
        if self.take_back(task) {
            return Ok(true);
        }
        // Most queue pairs end a region at once.
        self.collect(self.now);
        Ok(self.slot(task).is_none_or(|slot| slot.place == Place::Here))
    }

    /// What a response says that was moved: RDMA does not tell.
    fn count(&mut self, task: TaskHandle, response: &ScsiResponse) -> bool {
        let Some(slot) = self.slot(task) else { return false };
        slot.moved = match response.residual() {
            Residual::Underflow(count) => slot.length.saturating_sub(count),
            Residual::None | Residual::Overflow(_) => slot.length,
        };
        !slot.is_read && slot.immediate == 0 && slot.length > 0
    }
}

/// True for a PDU that the target does not expect, and answers.
fn is_unexpected(header: &Bhs) -> bool {
    let view = BasicHeaderSegment::from_bytes(header);
    let kinds =
        [Opcode::NOP_OUT, Opcode::TASK_MANAGEMENT_REQUEST, Opcode::TEXT_REQUEST, Opcode::LOGOUT_REQUEST];
    view.task_tag() != RESERVED_TAG && kinds.contains(&view.opcode())
}

/// True for the answer to a ping of the target's.
fn is_answer(header: &Bhs) -> bool {
    let is_nop = BasicHeaderSegment::from_bytes(header).opcode() == Opcode::NOP_OUT;
    is_nop && NopOut::from_bytes(header).transfer_tag() != RESERVED_TAG
}

/// The memory of a command as it comes back.
fn data_of(memory: WorkMemory) -> CommandData {
    match memory {
        WorkMemory::Region(RegionMemory::Sink(buf)) => CommandData::Read(buf),
        WorkMemory::Region(RegionMemory::Source(list)) => CommandData::Write(list),
        _ => CommandData::None,
    }
}

impl<Q: ManagedQueuePair> Datamover for IserInitiator<Q> {
    fn check_key_values(values: KeyValues<'_>) -> Result<(), Unacceptable> {
        check_rdma(values)
    }

    fn parameters(agreed: Parameters) -> Parameters {
        agreed.over_rdma(agreed.rdma.target_segment)
    }

    fn send_control(&mut self, pdu: ControlPdu) {
        let ControlPdu { header, data, .. } = pdu;
        let view = BasicHeaderSegment::from_bytes(&header);
        if is_answer(&header) {
            self.answers = self.answers.saturating_add(size_of::<Outgoing>());
        }
        if view.opcode() == Opcode::TASK_MANAGEMENT_REQUEST {
            let referenced = TaskManagementRequest::from_bytes(&header).referenced_task_tag();
            self.aborts.push(Abort { task_tag: view.task_tag(), referenced });
        }
        self.queue.push_back(Outgoing::Pdu { header, data });
    }

    fn notice_key_values(&mut self, agreed: &Parameters) {
        self.parameters = *agreed;
    }

    fn enable_datamover(&mut self, longest_segment: u32) {
        self.enabled = true;
        let size = LONG.min(HEADERS.saturating_add(longest_segment as usize));
        // A discovery has one request at a time.
        let is_discovery = !self.parameters.rdma.extensions;
        let responses = if is_discovery { LOGIN_RECEIVES } else { INITIATOR_DEPTH.into() };
        let unexpected = usize::try_from(UNEXPECTED_PDUS).unwrap_or_default();
        self.channel.want_receives(responses.saturating_add(unexpected), size);
    }

    fn connection_terminate(&mut self) {
        self.end();
        self.channel.queue_pair.disconnect();
    }
}

impl<Q> IserInitiator<Q> {
    fn end(&mut self) {
        self.queue.clear();
        (self.commands, self.answers) = (0, 0);
    }
}

impl<Q: ManagedQueuePair> InitiatorDatamover for IserInitiator<Q> {
    // Its adapter tells it of a send that has ended only once this side's has acknowledged that. Linux' isert frees the answer twice if the connection ends first.
    const TARGET_ENDS_FIRST: bool = true;

    /// Sense data and little else comes to an initiator in PDUs, but for a discovery's answers.
    fn tuning(wanted: Tuning, session: SessionType) -> Tuning {
        wanted.over_rdma(match session {
            SessionType::Normal => RDMA_RESPONSE_SEGMENT,
            SessionType::Discovery => RDMA_SEGMENT,
        })
    }

    fn allocate_task_resources(&mut self, task: TaskHandle, resources: CommandResources) {
        let index = usize::from(task.0);
        if index >= self.slots.len() {
            self.slots.resize_with(index.saturating_add(1), CommandSlot::default);
        }
        let CommandResources { task_tag, length, data, unsolicited, .. } = resources;
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        if let Some(slot) = self.slots.get_mut(index) {
            let is_read = matches!(data, CommandData::Read(_));
            let length = if matches!(data, CommandData::None) { 0 } else { length };
            *slot = CommandSlot {
                live: true,
                task_tag,
                length,
                immediate: 0,
                unsolicited,
                is_read,
                data,
                place: Place::Here,
                moved: 0,
                generation,
            };
        }
    }

    fn deallocate_task_resources(&mut self, task: TaskHandle) -> CommandTransfer {
        // Where the queue pair has ended, regions end at once.
        if self.slot(task).is_some_and(|slot| slot.place != Place::Here) {
            self.collect(self.now);
            self.take_back(task);
            self.collect(self.now);
        }
        let Some(slot) = self.slot(task) else { return CommandTransfer::default() };
        slot.live = false;
        let (owner, place) = (Owner { task, generation: slot.generation }, slot.place);
        let data = core::mem::take(&mut slot.data);
        let (received, sent) = if slot.is_read { (slot.moved, 0) } else { (0, slot.moved) };
        let requested = slot.immediate;
        if let Place::Registered(region) = place {
            self.orphans.push((owner, region.stag));
        }
        CommandTransfer { data, received, sent, requested }
    }
}

impl<Q: ManagedQueuePair, U: InitiatorLayer<Mover = Self>> RdmaMover<U> for IserInitiator<Q> {
    type QueuePair = Q;

    fn channel(&mut self) -> &mut Channel<Q> {
        &mut self.channel
    }

    fn channel_ref(&self) -> &Channel<Q> {
        &self.channel
    }

    fn is_full(&self) -> bool {
        self.answers >= ANSWERS
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.channel.is_idle()
    }

    /// The words of a target that accepts change nothing for an initiator: it ends each region itself, whether the target has done so or not.
    fn handle_setup(upper: &mut U, _now: Instant, event: SetupEvent) {
        if matches!(event, SetupEvent::Rejected(_)) {
            upper.terminate_notify(REJECTED);
        }
    }

    fn handle_completions(upper: &mut U, now: Instant) -> bool {
        let mover = upper.mover();
        mover.now = now;
        let any = mover.collect(now);
        mover.end_orphans();
        any
    }

    fn handle_message(upper: &mut U, mut message: Message) -> Option<Message> {
        match is_ready(upper, &message) {
            Ok(false) => {
                // What it has invalidated was right, and is looked at once.
                message.invalidated = None;
                return Some(message);
            }
            Ok(true) => tell(upper, &message),
            Err(violation) => upper.violation_notify(violation, None),
        }
        upper.mover().channel.recycle(message);
        None
    }

    fn send(upper: &mut U) -> bool {
        let mut any = false;
        while upper.mover().commands < COMMANDS_AHEAD && upper.mover().channel.is_open() {
            let Some(CommandToSend { task, header }) = upper.poll_command() else { break };
            let mover = upper.mover();
            let task_tag = BasicHeaderSegment::from_bytes(&header).task_tag();
            mover.begin(task);
            mover.register(task);
            mover.queue.push_back(Outgoing::Command(QueuedCommand { task, task_tag, header }));
            mover.commands = mover.commands.saturating_add(1);
            any = true;
        }
        loop {
            let Sender { mover, numbers } = upper.sender();
            if !mover.send_one(numbers) {
                return any;
            }
            any = true;
        }
    }

    fn end(&mut self) {
        self.end();
        self.channel.clear_inbox();
    }
}

/// Whether a message can be told of: the memory of the command that it ends must be here.
fn is_ready<Q, U>(upper: &mut U, message: &Message) -> Result<bool, Violation>
where
    Q: ManagedQueuePair,
    U: InitiatorLayer<Mover = IserInitiator<Q>>,
{
    let parts = message.parts()?;
    let view = BasicHeaderSegment::from_bytes(parts.header);
    let tag = match view.opcode() {
        Opcode::SCSI_RESPONSE => Some(view.task_tag()),
        Opcode::TASK_MANAGEMENT_RESPONSE => {
            let aborts = &upper.mover().aborts;
            let abort = aborts.iter().find(|abort| abort.task_tag == view.task_tag());
            abort.map(|abort| abort.referenced)
        }
        _ => None,
    };
    let task = tag.and_then(|tag| upper.find_task(tag));
    upper.mover().prepare(message, task)
}

/// Tells of a message.
fn tell<Q, U>(upper: &mut U, message: &Message)
where
    Q: ManagedQueuePair,
    U: InitiatorLayer<Mover = IserInitiator<Q>>,
{
    let Ok(parts) = message.parts() else { return };
    let view = BasicHeaderSegment::from_bytes(parts.header);
    let opcode = view.opcode();
    if opcode == Opcode::SCSI_RESPONSE {
        let response = ScsiResponse::from_bytes(parts.header);
        if let Some(task) = upper.find_task(view.task_tag())
            && upper.mover().count(task, &response)
            && response.status() == Some(0)
        {
            // The target has read the data, so it had memory for it.
            upper.get_data_notify(task);
        }
    } else if view.task_tag() != RESERVED_TAG {
        let mover = upper.mover();
        mover.unexpected = mover.unexpected.saturating_sub(1);
        mover.aborts.retain(|abort| abort.task_tag != view.task_tag());
    }
    upper.control_notify(ReceivedPdu { header: parts.header, ahs: parts.ahs, data: Some(parts.data) });
}
