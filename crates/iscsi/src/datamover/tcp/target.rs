//! A target's datamover over a byte stream: read data leaves in Data-Ins, write data is asked for by R2Ts and comes in Data-Outs.

use alloc::vec::Vec;

use buf::Buf;
use protocol::Transmit;

use super::connection::StreamMover;
use super::data_out::DataOutSequences;
use super::framing::{Digests, Receiver};
use super::key_values::check_digests;
use super::send_queue::target::{Outgoing, SendQueue, Sent};
use crate::datamover::{
    ControlPdu, DataArrival, Datamover, Disposition, GetData, KeyValues, Pending, PutData, ReceivedPdu,
    Sender, TargetDatamover, TargetLayer, TaskHandle, Unacceptable, WriteResources,
};
use crate::keys::{Parameters, SessionType, Tuning};
use crate::limits::OUTBOUND;
use crate::pdu::{BasicHeaderSegment, Bhs, DataOut, Opcode};
use crate::sequence::TransferTags;

/// The write data of a task.
#[derive(Debug, Default)]
struct WriteSlot {
    /// Memory was lent, and has not been given back.
    live: bool,
    task_tag: u32,
    /// Away while a piece is being received.
    buf: Option<Buf>,
    sequences: DataOutSequences,
}

/// A target's datamover over a byte stream.
#[derive(Debug)]
pub struct TcpTarget {
    receiver: Receiver,
    out: SendQueue,
    parameters: Parameters,
    /// The full feature phase has begun.
    enabled: bool,
    /// By task; as many as were ever used.
    slots: Vec<WriteSlot>,
    /// How many there may be.
    room: usize,
    transfer_tags: TransferTags,
}

impl TcpTarget {
    /// The datamover of a stream that just began.
    pub fn new() -> Self {
        Self {
            receiver: Receiver::new(),
            out: SendQueue::new(),
            parameters: Parameters::default(),
            enabled: false,
            slots: Vec::new(),
            room: 0,
            transfer_tags: TransferTags::default(),
        }
    }

    /// The write data of a task that something was lent for.
    #[inline]
    fn slot(&mut self, task: TaskHandle) -> Option<&mut WriteSlot> {
        self.slots.get_mut(usize::from(task.0)).filter(|slot| slot.live)
    }

    /// Makes room for a task's slot.
    #[cold]
    fn grow(&mut self, index: usize) {
        self.slots.reserve_exact(self.room.saturating_sub(self.slots.len()));
        self.slots.resize_with(index.saturating_add(1), WriteSlot::default);
    }

    /// Puts a command's own data where it belongs, and says whether it is all there.
    #[inline]
    fn take_immediate(&mut self, task: TaskHandle, pdu: ReceivedPdu<'_>) -> bool {
        let Some(slot) = self.slots.get_mut(usize::from(task.0)).filter(|slot| slot.live) else {
            return false;
        };
        let Some(data) = pdu.data else {
            self.receiver.begin(*pdu.header, slot.buf.take().map(|buf| (buf, 0)));
            return false;
        };
        if let Some(room) = slot.buf.as_mut().and_then(|buf| buf.get_mut(..data.len())) {
            room.copy_from_slice(data);
        }
        true
    }
}

impl Default for TcpTarget {
    fn default() -> Self {
        Self::new()
    }
}

impl Datamover for TcpTarget {
    /// A discovery session has no data that digests would be for.
    fn check_key_values(values: KeyValues<'_>) -> Result<(), Unacceptable> {
        if values.session == SessionType::Discovery { Ok(()) } else { check_digests(values) }
    }

    fn parameters(agreed: Parameters) -> Parameters {
        agreed
    }

    fn send_control(&mut self, pdu: ControlPdu) {
        self.out.send_control(pdu);
    }

    fn notice_key_values(&mut self, agreed: &Parameters) {
        self.parameters = *agreed;
        let digests = Digests { header: agreed.header_digest, data: agreed.data_digest };
        (self.receiver.digests, self.out.digests) = (digests, digests);
    }

    fn enable_datamover(&mut self, longest_segment: u32) {
        self.receiver.longest = longest_segment;
        self.enabled = true;
    }

    fn connection_terminate(&mut self) {
        self.out.clear();
    }
}

impl TargetDatamover for TcpTarget {
    const TASK_SIZE: usize = size_of::<WriteSlot>();
    const QUEUE_SIZE: usize = size_of::<Outgoing>() * OUTBOUND;

    /// A stream is read when there is room.
    fn receive_bytes(_agreed: &Parameters, _tasks: u16) -> usize {
        0
    }

    fn tuning(wanted: Tuning) -> Tuning {
        wanted
    }

    fn allocate_connection_resources(&mut self, tasks: u16) {
        self.room = self.room.max(tasks.into());
        self.out.room = self.room.saturating_mul(OUTBOUND);
    }

    #[inline]
    fn allocate_task_resources(&mut self, task: TaskHandle, resources: WriteResources) {
        let index = usize::from(task.0);
        if index >= self.slots.len() {
            self.grow(index);
        }
        let WriteResources { task_tag, buf, unsolicited } = resources;
        if let Some(slot) = self.slots.get_mut(index) {
            (slot.live, slot.task_tag, slot.buf) = (true, task_tag, Some(buf));
            slot.sequences.begin(unsolicited);
        }
    }

    #[inline]
    fn deallocate_task_resources(&mut self, task: TaskHandle) -> Option<Buf> {
        let slot = self.slots.get_mut(usize::from(task.0))?;
        if !slot.live {
            slot.sequences.forget_r2ts();
            return None;
        }
        slot.live = false;
        slot.buf.take()
    }

    #[inline]
    fn get_data(&mut self, get: GetData) {
        let transfer_tag = self.transfer_tags.next();
        let Some(slot) = self.slot(get.task) else { return };
        let r2t = slot.sequences.get_data(&get, transfer_tag);
        self.out.send_control(ControlPdu::unnumbered(r2t.to_bytes(), Vec::new()));
    }

    #[inline]
    fn put_data(&mut self, put: PutData) {
        // A command that reads has none.
        let slot = if put.data.is_empty() { self.slots.get_mut(usize::from(put.task.0)) } else { None };
        let r2ts = slot.map_or(0, |slot| slot.sequences.forget_r2ts());
        self.out.put_data(put, r2ts);
    }

    #[inline]
    fn pending(&self) -> Pending {
        Pending { data: self.out.bytes(), queue: self.out.size() }
    }
}

impl<U: TargetLayer<Mover = Self>> StreamMover<U> for TcpTarget {
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
        if BasicHeaderSegment::from_bytes(pdu.header).opcode() == Opcode::DATA_OUT && upper.mover().enabled {
            handle_data_out(upper, pdu);
            return true;
        }
        match upper.control_notify(pdu) {
            Disposition::Taken => {
                if pdu.data.is_none() {
                    upper.mover().receiver.begin(*pdu.header, None);
                }
            }
            Disposition::Immediate(task) => {
                if upper.mover().take_immediate(task, pdu) {
                    upper.data_completion_notify(task, DataArrival::Immediate);
                }
            }
            Disposition::Collect(buf) => upper.mover().receiver.begin(*pdu.header, Some((buf, 0))),
            Disposition::Withheld => return false,
        }
        true
    }

    fn handle_data(upper: &mut U, header: &Bhs, buf: Buf) {
        let view = BasicHeaderSegment::from_bytes(header);
        let opcode = view.opcode();
        if opcode != Opcode::DATA_OUT && opcode != Opcode::SCSI_COMMAND {
            upper.control_notify(ReceivedPdu { header, ahs: &[], data: Some(&buf) });
            return;
        }
        // The buffer goes back to its task, if that still wants it.
        let Some(task) = upper.find_task(view.task_tag()) else { return };
        let Some(slot) = upper.mover().slot(task).filter(|slot| slot.task_tag == view.task_tag()) else {
            return;
        };
        slot.buf = Some(buf);
        if opcode == Opcode::DATA_OUT {
            let arrival = slot.sequences.take(&DataOut::from_bytes(header));
            upper.data_completion_notify(task, arrival);
        } else {
            upper.data_completion_notify(task, DataArrival::Immediate);
        }
    }

    #[inline]
    fn send_one(upper: &mut U, out: &mut Transmit) -> bool {
        let Sender { mover, numbers } = upper.sender();
        match mover.out.send_one(out, numbers, &mover.parameters) {
            Sent::Nothing => return false,
            Sent::Pdu => {}
            Sent::Status(task) => upper.status_sent_notify(task),
        }
        true
    }

    fn sent(&mut self) {
        self.out.sent();
    }

    fn end(&mut self) {
        self.out.clear();
        self.out.sent();
    }
}

/// Handles a Data-Out; what belongs to no task any more is thrown away.
fn handle_data_out<U: TargetLayer<Mover = TcpTarget>>(upper: &mut U, pdu: ReceivedPdu<'_>) {
    let data = DataOut::from_bytes(pdu.header);
    let task = upper.find_task(data.task_tag());
    let mover = upper.mover();
    let slot = task.and_then(|task| Some((task, mover.slots.get_mut(usize::from(task.0))?)));
    let Some((task, slot)) = slot.filter(|(_, slot)| slot.live) else {
        if pdu.data.is_none() {
            mover.receiver.begin(*pdu.header, None);
        }
        return;
    };
    if let Err(violation) = slot.sequences.check(&data) {
        return upper.violation_notify(violation, Some(pdu.header));
    }
    let start = data.buffer_offset() as usize;
    let Some(bytes) = pdu.data else {
        return mover.receiver.begin(*pdu.header, slot.buf.take().map(|buf| (buf, start)));
    };
    if let Some(room) = slot.buf.as_mut().and_then(|buf| buf.get_mut(start..start + bytes.len())) {
        room.copy_from_slice(bytes);
    }
    let arrival = slot.sequences.take(&data);
    upper.data_completion_notify(task, arrival);
}
