//! An initiator's datamover over a byte stream: read data comes in Data-Ins, write data goes with the command, behind it, and where R2Ts ask for it.

use alloc::vec::Vec;

use buf::{Buf, BufList};
use protocol::Transmit;

use super::connection::StreamMover;
use super::data_in::DataInProgress;
use super::data_out::{DataOutProgress, DataOutSequence};
use super::framing::{Digests, Payload, Receiver, send};
use super::key_values::check_digests;
use super::send_queue::initiator::{Outgoing, SendQueue};
use crate::datamover::{
    CommandData, CommandResources, CommandToSend, CommandTransfer, ControlPdu, Datamover, InitiatorDatamover,
    InitiatorLayer, KeyValues, ReceivedPdu, Sender, TaskHandle, Unacceptable,
};
use crate::keys::{Parameters, SessionType, Tuning};
use crate::pdu::{
    BasicHeaderSegment, Bhs, DataIn, DataRange, DataStatus, Opcode, R2t, RESERVED_TAG, ScsiCommand, TaskTags,
    stamp_length,
};
use crate::sequence::{CmdSn, StatSn};
use crate::violation::Violation;

/// The data of a command that was sent.
#[derive(Debug, Default)]
struct CommandSlot {
    /// Memory was lent, and has not been given back.
    live: bool,
    task_tag: u32,
    lun: [u8; 8],
    length: u32,
    unsolicited: u32,
    reads: bool,
    /// What was lent; read data's place is away while a piece is being received.
    data: CommandData,
    data_in: DataInProgress,
    data_out: DataOutProgress,
}

impl CommandSlot {
    /// A part of the write data.
    fn part(&self, range: DataRange) -> Option<BufList> {
        let (offset, length) = (range.offset as usize, range.length as usize);
        let CommandData::Write(data) = &self.data else { return None };
        (offset.checked_add(length)? <= data.len()).then(|| data.part(offset, length))
    }
}

/// An initiator's datamover over a byte stream.
#[derive(Debug)]
pub struct TcpInitiator {
    receiver: Receiver,
    out: SendQueue,
    parameters: Parameters,
    digests: Digests,
    /// The full feature phase has begun.
    enabled: bool,
    /// By task; as many as were ever used.
    slots: Vec<CommandSlot>,
}

impl TcpInitiator {
    /// The datamover of a stream that just began.
    pub fn new() -> Self {
        Self {
            receiver: Receiver::new(),
            out: SendQueue::new(),
            parameters: Parameters::default(),
            digests: Digests::default(),
            enabled: false,
            slots: Vec::new(),
        }
    }

    /// The command that has this tag, if it was sent.
    #[inline]
    fn slot(&mut self, task: TaskHandle, task_tag: u32) -> Option<&mut CommandSlot> {
        self.slots.get_mut(usize::from(task.0)).filter(|slot| slot.live && slot.task_tag == task_tag)
    }

    /// The command that a Data-In is for, which is as it should be.
    #[inline]
    fn check(&mut self, task: Option<TaskHandle>, data: &DataIn) -> Result<&mut CommandSlot, Violation> {
        let slot = task.and_then(|task| self.slot(task, data.task_tag())).ok_or(Violation::UnknownTask)?;
        slot.data_in.check(data, slot.reads.then_some(slot.length))?;
        Ok(slot)
    }
}

impl TcpInitiator {
    /// What of a write's data goes in the command itself; what may follow unasked is queued.
    #[inline]
    fn begin_write(&mut self, task: TaskHandle, header: &mut Bhs) -> BufList {
        let Parameters { immediate_data, initial_r2t, peer_segment, .. } = self.parameters;
        let Some(slot) = self.slots.get_mut(usize::from(task.0)) else { return BufList::new() };
        let CommandData::Write(data) = &slot.data else { return BufList::new() };
        let first = slot.unsolicited.min(slot.length);
        let most = if immediate_data { first.min(peer_segment) } else { 0 };
        let immediate = data.part(0, most as usize);
        let more = !initial_r2t && most < first;
        slot.data_out = DataOutProgress::begin(most, if more { first } else { most });
        stamp_length(header, most as usize);
        if more {
            let tags = TaskTags { initiator: slot.task_tag, target: RESERVED_TAG };
            let range = DataRange { offset: most, length: first - most };
            self.out.continue_data(DataOutSequence::new(task, tags, range));
            *header = ScsiCommand::from_bytes(header).with_unsolicited().to_bytes();
        }
        immediate
    }
}

impl Default for TcpInitiator {
    fn default() -> Self {
        Self::new()
    }
}

impl Datamover for TcpInitiator {
    fn check_key_values(values: KeyValues<'_>) -> Result<(), Unacceptable> {
        check_digests(values)
    }

    fn parameters(agreed: Parameters) -> Parameters {
        agreed
    }

    fn send_control(&mut self, pdu: ControlPdu) {
        self.out.send(pdu.header, pdu.data);
    }

    fn notice_key_values(&mut self, agreed: &Parameters) {
        self.parameters = *agreed;
        self.digests = Digests { header: agreed.header_digest, data: agreed.data_digest };
        self.receiver.digests = self.digests;
    }

    fn enable_datamover(&mut self, longest_segment: u32) {
        self.receiver.longest = longest_segment;
        self.enabled = true;
    }

    fn connection_terminate(&mut self) {
        self.out.clear();
    }
}

impl InitiatorDatamover for TcpInitiator {
    const TARGET_ENDS_FIRST: bool = false;

    fn tuning(wanted: Tuning, _session: SessionType) -> Tuning {
        wanted
    }

    #[inline]
    fn allocate_task_resources(&mut self, task: TaskHandle, resources: CommandResources) {
        let index = usize::from(task.0);
        if index >= self.slots.len() {
            self.slots.resize_with(index.saturating_add(1), CommandSlot::default);
        }
        let Some(slot) = self.slots.get_mut(index) else { return };
        let CommandResources { task_tag, lun, length, data, unsolicited } = resources;
        (slot.live, slot.task_tag, slot.lun, slot.length, slot.unsolicited) =
            (true, task_tag, lun, length, unsolicited);
        slot.reads = matches!(data, CommandData::Read(_));
        slot.data = data;
        (slot.data_in, slot.data_out) = (DataInProgress::default(), DataOutProgress::default());
    }

    #[inline]
    fn deallocate_task_resources(&mut self, task: TaskHandle) -> CommandTransfer {
        let Some(slot) = self.slots.get_mut(usize::from(task.0)).filter(|slot| slot.live) else {
            return CommandTransfer::default();
        };
        slot.live = false;
        CommandTransfer {
            data: core::mem::take(&mut slot.data),
            received: slot.data_in.received,
            sent: slot.data_out.sent,
            requested: slot.data_out.requested,
        }
    }
}

impl<U: InitiatorLayer<Mover = Self>> StreamMover<U> for TcpInitiator {
    #[inline]
    fn receiver(&mut self) -> &mut Receiver {
        &mut self.receiver
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.out.is_full()
    }

    #[inline]
    fn handle_pdu(upper: &mut U, pdu: ReceivedPdu<'_>) -> bool {
        let Some(data) = pdu.data else {
            begin_large(upper, pdu.header);
            return true;
        };
        let opcode = BasicHeaderSegment::from_bytes(pdu.header).opcode();
        match opcode {
            Opcode::DATA_IN if upper.mover().enabled => handle_data_in(upper, pdu.header, data),
            Opcode::R2T if upper.mover().enabled => handle_r2t(upper, pdu.header),
            // An initiator waits for nothing: it takes whatever comes whole.
            _ => {
                upper.control_notify(pdu);
            }
        }
        true
    }

    fn handle_data(upper: &mut U, header: &Bhs, buf: Buf) {
        let data = DataIn::from_bytes(header);
        let numbers = upper.sender().numbers;
        numbers.take(header, stat_sn(&data));
        let Some(task) = upper.find_task(data.task_tag()) else { return };
        if let Some(slot) = upper.mover().slot(task, data.task_tag()) {
            slot.data = CommandData::Read(buf);
            slot.data_in.take(&data);
            end_with_status(upper, task, &data);
        }
    }

    #[inline]
    fn send_one(upper: &mut U, out: &mut Transmit) -> bool {
        let Sender { mover, numbers } = upper.sender();
        match mover.out.pop() {
            Some(Outgoing::Pdu { mut header, data }) => {
                stamp_length(&mut header, data.len());
                numbers.stamp(&mut header, CmdSn::Next);
                send(out, mover.digests, &header, Payload::Bytes(&data));
            }
            Some(Outgoing::Answer(mut header)) => {
                numbers.stamp(&mut header, CmdSn::Next);
                send(out, mover.digests, &header, Payload::Bytes(&[]));
            }
            Some(Outgoing::Data(sequence)) => send_data(upper, sequence, out),
            None => return send_command(upper, out),
        }
        true
    }

    fn end(&mut self) {
        self.out.clear();
    }
}

/// A Data-In has a StatSN only with a status (RFC 7143 §11.7.3).
#[inline]
fn stat_sn(data: &DataIn) -> StatSn {
    if data.status().is_some() { StatSn::Taken } else { StatSn::Unused }
}

#[inline]
fn handle_data_in<U: InitiatorLayer<Mover = TcpInitiator>>(upper: &mut U, header: &Bhs, bytes: &[u8]) {
    let data = DataIn::from_bytes(header);
    let task = upper.find_task(data.task_tag());
    let Sender { mover, numbers } = upper.sender();
    numbers.take(header, stat_sn(&data));
    let slot = match mover.check(task, &data) {
        Ok(slot) => slot,
        Err(violation) => return upper.violation_notify(violation, Some(header)),
    };
    let start = data.buffer_offset() as usize;
    if let CommandData::Read(buf) = &mut slot.data
        && let Some(room) = buf.get_mut(start..start + bytes.len())
    {
        room.copy_from_slice(bytes);
    }
    slot.data_in.take(&data);
    if let Some(task) = task {
        end_with_status(upper, task, &data);
    }
}

/// A Data-In whose data goes straight to the command's buffer. Nothing else is that long: sense data and text fit into what is
/// staged, and a ping has no data (RFC 7143 §11.19).
fn begin_large<U: InitiatorLayer<Mover = TcpInitiator>>(upper: &mut U, header: &Bhs) {
    let view = BasicHeaderSegment::from_bytes(header);
    let task = upper.find_task(view.task_tag());
    let mover = upper.mover();
    if !mover.enabled || view.opcode() != Opcode::DATA_IN {
        return upper.violation_notify(Violation::SegmentTooLong, Some(header));
    }
    let data = DataIn::from_bytes(header);
    match mover.check(task, &data).map(|slot| core::mem::take(&mut slot.data)) {
        Ok(CommandData::Read(buf)) => {
            mover.receiver.begin(*header, Some((buf, data.buffer_offset() as usize)));
        }
        Ok(_) => mover.receiver.begin(*header, None),
        Err(violation) => upper.violation_notify(violation, Some(header)),
    }
}

#[inline]
fn end_with_status<U: InitiatorLayer<Mover = TcpInitiator>>(upper: &mut U, task: TaskHandle, data: &DataIn) {
    if let Some(DataStatus { status, residual }) = data.status() {
        upper.status_notify(task, status, residual);
    }
}

fn handle_r2t<U: InitiatorLayer<Mover = TcpInitiator>>(upper: &mut U, header: &Bhs) {
    let numbers = upper.sender().numbers;
    numbers.take(header, StatSn::Unused);
    let r2t = R2t::from_bytes(header);
    // Otherwise the task was aborted in the meantime.
    let Some(task) = upper.find_task(r2t.task_tag()) else { return };
    upper.get_data_notify(task);
    let mover = upper.mover();
    let parameters = mover.parameters;
    let taken = mover.slot(task, r2t.task_tag()).ok_or(Violation::UnknownTask).and_then(|slot| {
        let length = matches!(slot.data, CommandData::Write(_)).then_some(slot.length);
        slot.data_out.take_r2t(&r2t, length, &parameters)
    });
    match taken {
        Ok(range) => mover.out.send_data(DataOutSequence::new(task, r2t.tags(), range)),
        Err(violation) => upper.violation_notify(violation, Some(header)),
    }
}

/// Sends the next Data-Out of a sequence, unless its command has ended.
fn send_data<U: InitiatorLayer<Mover = TcpInitiator>>(
    upper: &mut U,
    sequence: DataOutSequence,
    out: &mut Transmit,
) {
    let Sender { mover, numbers } = upper.sender();
    let range = sequence.next_range(mover.parameters.peer_segment);
    let Some(slot) = mover.slot(sequence.task, sequence.tags.initiator) else { return };
    let Some(part) = slot.part(range) else { return };
    let solicited = sequence.is_solicited();
    let (data_out, rest) = sequence.next(slot.lun, range);
    slot.data_out.count(range.length);
    if rest.is_none() && solicited {
        slot.data_out.close_r2t();
    }
    let mut header = data_out.to_bytes();
    numbers.stamp(&mut header, CmdSn::Kept);
    send(out, mover.digests, &header, Payload::Shared(part));
    if let Some(rest) = rest {
        mover.out.continue_data(rest);
    }
}

/// Sends the next command, with what may go with it.
fn send_command<U: InitiatorLayer<Mover = TcpInitiator>>(upper: &mut U, out: &mut Transmit) -> bool {
    let Some(CommandToSend { task, mut header }) = upper.poll_command() else { return false };
    let Sender { mover, numbers } = upper.sender();
    let immediate = mover.begin_write(task, &mut header);
    numbers.stamp(&mut header, CmdSn::Kept);
    send(out, mover.digests, &header, Payload::Shared(immediate));
    true
}
