//! A target's datamover over RDMA (RFC 7145 §7.3): it writes read data into the initiator's memory, reads write data from there, and sends all else in messages.

use alloc::collections::VecDeque;

use buf::Buf;
use protocol::Instant;
use verbs::{ManagedQueuePair, STag, SetupAnswer, SetupEvent, WorkMemory, WorkRequest};

use super::channel::{Channel, Completed, LONG, Outbound, Owner, Purpose, SHORT};
use super::connection::RdmaMover;
use super::header::{IserHeader, TaggedBase, invalidation_of, private_data};
use super::key_values::check_rdma;
use super::message::{Message, Parts};
use crate::datamover::{
    ControlPdu, DataArrival, Datamover, Disposition, GetData, KeyValues, Pending, PutData, ReceivedPdu,
    Sender, TargetDatamover, TargetLayer, TaskHandle, Unacceptable, WriteResources,
};
use crate::keys::{Parameters, Tuning, WriteBase};
use crate::limits::{LINUX_RECEIVE, LOGIN_RECEIVES, OUTBOUND, OUTBOUND_BYTES, RDMA_SEGMENT, UNEXPECTED_PDUS};
use crate::pdu::{
    BasicHeaderSegment, DataRange, Opcode, ScsiCommand, ScsiResponse, SenseSegment, stamp_length,
};
use crate::sequence::{Leaving, Numbering, TargetNumbers};
use crate::violation::Violation;

// Whatever InitiatorRecvDataSegmentLength open-iscsi says, the receives of Linux and libiscsi take this much after the login.
const _: () = assert!(2 + scsi::Sense::MAX <= LINUX_RECEIVE);

/// The initiator's memory of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RemoteMemory {
    task_tag: u32,
    write: Option<TaggedBase>,
    read: Option<TaggedBase>,
}

/// What is known of a task.
#[derive(Debug, Default)]
struct TaskSlot {
    remote: Option<RemoteMemory>,
    /// Memory for write data was lent, and has not been given back.
    live: bool,
    /// Away while data is read into it.
    buf: Option<Buf>,
    /// The part that is being read.
    reading: Option<DataRange>,
    /// The task has ended while its data was being read.
    is_orphan: bool,
    generation: u32,
}

/// What waits to be sent.
#[derive(Debug)]
enum Outgoing {
    /// A PDU that moves no data.
    Pdu(ControlPdu),
    /// The end of a command.
    Put(PutData, Option<RemoteMemory>),
}

/// What a call to [`IserTarget::send_one`] came to.
enum Sent {
    Nothing,
    Something,
    Status(TaskHandle),
}

/// Receives for so many tasks. A discovery has one request at a time.
fn receives(agreed: &Parameters, tasks: usize) -> usize {
    let tasks = if agreed.rdma.extensions { tasks } else { LOGIN_RECEIVES };
    tasks.saturating_add(usize::try_from(UNEXPECTED_PDUS).unwrap_or_default())
}

/// A target's datamover over a queue pair.
#[derive(Debug)]
pub struct IserTarget<Q> {
    channel: Channel<Q>,
    parameters: Parameters,
    /// The full feature phase has begun.
    enabled: bool,
    /// How many tasks there may be.
    room: usize,
    /// By task.
    slots: alloc::vec::Vec<TaskSlot>,
    queue: VecDeque<Outgoing>,
    /// Tasks whose data is asked for, and not yet of the queue pair.
    reads: VecDeque<TaskHandle>,
    /// The memory that the command names which is being told of.
    arriving: Option<RemoteMemory>,
    /// Reads under way whose tasks have ended.
    orphans: usize,
    /// Bytes outside of pools that wait or are under way.
    data: usize,
    generation: u32,
}

impl<Q: ManagedQueuePair> IserTarget<Q> {
    /// The datamover of a connection that just began.
    pub fn new(queue_pair: Q) -> Self {
        Self {
            channel: Channel::new(queue_pair, &[SHORT]),
            parameters: Parameters::default(),
            enabled: false,
            room: 0,
            slots: alloc::vec::Vec::new(),
            queue: VecDeque::new(),
            reads: VecDeque::new(),
            arriving: None,
            orphans: 0,
            data: 0,
            generation: 0,
        }
    }

    fn slot(&mut self, task: TaskHandle) -> Option<&mut TaskSlot> {
        self.slots.get_mut(usize::from(task.0))
    }

    /// The slot of a task that may be new.
    fn slot_or_new(&mut self, task: TaskHandle) -> Option<&mut TaskSlot> {
        let index = usize::from(task.0);
        if index >= self.slots.len() {
            self.slots.reserve_exact(self.room.saturating_sub(self.slots.len()));
            self.slots.resize_with(index.saturating_add(1), TaskSlot::default);
        }
        self.slots.get_mut(index)
    }

    /// Data of this task is being read, though it has ended.
    fn is_orphan(&self, task: TaskHandle) -> bool {
        self.slots.get(usize::from(task.0)).is_some_and(|slot| slot.is_orphan)
    }

    /// The initiator's memory of a task.
    fn remote(&mut self, task: TaskHandle, task_tag: u32) -> Option<RemoteMemory> {
        let known = self.slot(task).and_then(|slot| slot.remote);
        [self.arriving, known].into_iter().flatten().find(|remote| remote.task_tag == task_tag)
    }

    fn post_receives(&mut self) {
        if self.enabled {
            self.channel.want_receives(receives(&self.parameters, self.room), LONG);
        }
    }

    /// Reads the next part of a task's data, if that can be done now.
    fn post_read(&mut self) -> bool {
        if !self.channel.has_room() {
            return false;
        }
        let Some(task) = self.reads.pop_front() else { return false };
        let whole = self.parameters.rdma.write_base == WriteBase::Whole;
        let Some(slot) = self.slots.get_mut(usize::from(task.0)).filter(|slot| slot.live) else {
            return true;
        };
        let (Some(range), Some(base)) = (slot.reading, slot.remote.and_then(|remote| remote.write)) else {
            return true;
        };
        let skipped = if whole { range.offset } else { 0 };
        let (Some(from), Some(mut into)) = (base.region(skipped, range.length), slot.buf.take()) else {
            return true;
        };
        // What came with the command makes room at the front, where a read begins.
        into.copy_within(..range.offset as usize, range.length as usize);
        let owner = Owner { task, generation: slot.generation };
        if let Err(request) = self.channel.post(Purpose::Read(owner), WorkRequest::Read { into, from })
            && let WorkMemory::Buf(buf) = request.into_memory()
        {
            slot.buf = Some(buf);
        }
        true
    }

    /// Sends the next thing that waits.
    fn send_one(&mut self, numbers: &mut TargetNumbers) -> Sent {
        if !self.channel.has_room() {
            return Sent::Nothing;
        }
        match self.queue.pop_front() {
            Some(Outgoing::Pdu(pdu)) if self.orphans > 0 && ends_tasks(&pdu) => {
                // The initiator may take its memory back once it hears of this: nothing may read it any more.
                self.queue.push_front(Outgoing::Pdu(pdu));
                Sent::Nothing
            }
            Some(Outgoing::Pdu(pdu)) => {
                self.send_pdu(pdu, numbers);
                Sent::Something
            }
            Some(Outgoing::Put(put, remote)) if self.is_orphan(put.task) => {
                // So it does at the end of a command, which may end the memory by itself.
                self.queue.push_front(Outgoing::Put(put, remote));
                Sent::Nothing
            }
            Some(Outgoing::Put(put, remote)) if put.data.is_empty() => {
                self.send_status(&put, remote, numbers);
                Sent::Status(put.task)
            }
            Some(Outgoing::Put(put, remote)) => {
                self.write_data(put, remote);
                Sent::Something
            }
            None => Sent::Nothing,
        }
    }

    fn send_pdu(&mut self, mut pdu: ControlPdu, numbers: &mut TargetNumbers) {
        stamp_length(&mut pdu.header, pdu.data.len());
        numbers.stamp(&mut pdu.header, pdu.leaving);
        let outbound = Outbound {
            iser: IserHeader::new(),
            header: &pdu.header,
            data: &pdu.data,
            pieces: &[],
            invalidate: None,
        };
        self.channel.send(&outbound);
        self.data = self.data.saturating_sub(pdu.data.len());
    }

    /// Writes a command's data to where it belongs; its status follows.
    fn write_data(&mut self, mut put: PutData, remote: Option<RemoteMemory>) {
        let data = core::mem::take(&mut put.data);
        let unpooled = data.unpooled();
        let length = wire::bounded::<u32>(data.len());
        // A command without such memory was not taken.
        let to = remote.and_then(|remote| remote.read).and_then(|base| base.region(0, length));
        let posted = to.map(|to| self.channel.post(Purpose::Write, WorkRequest::Write { data, to }));
        if !matches!(posted, Some(Ok(()))) {
            self.data = self.data.saturating_sub(unpooled);
        }
        self.queue.push_front(Outgoing::Put(put, remote));
    }

    fn send_status(&mut self, put: &PutData, remote: Option<RemoteMemory>, numbers: &mut TargetNumbers) {
        // There are neither Data-Ins nor R2Ts to be counted.
        let mut header = ScsiResponse::new(put.task_tag, put.status, put.residual, 0).to_bytes();
        let sense = SenseSegment::new(&put.sense);
        stamp_length(&mut header, sense.bytes().len());
        numbers.stamp(&mut header, Leaving { numbering: Numbering::StatSn, answers: put.delivery });
        let invalidate: Option<STag> =
            remote.and_then(|remote| remote.read.or(remote.write)).map(|base| base.stag);
        let outbound = Outbound {
            iser: IserHeader::new(),
            header: &header,
            data: sense.bytes(),
            pieces: &[],
            invalidate,
        };
        self.channel.send(&outbound);
    }

    /// Takes back what a read has filled. Says whose it was, if the task still wants it.
    fn end_read(&mut self, owner: Owner, completed: Completed) -> Option<TaskHandle> {
        let slot = self.slots.get_mut(usize::from(owner.task.0));
        let mut slot = slot.filter(|slot| slot.generation == owner.generation);
        if let Some(ended) = slot.take_if(|slot| !slot.live) {
            ended.is_orphan = false;
        }
        let Some(slot) = slot else {
            self.orphans = self.orphans.saturating_sub(1);
            return None;
        };
        let (Some(range), WorkMemory::Buf(mut buf)) = (slot.reading.take(), completed.memory) else {
            return None;
        };
        let (offset, length) = (range.offset as usize, range.length as usize);
        if let Some(all) = buf.get_mut(..offset.saturating_add(length)) {
            all.rotate_right(offset);
        }
        slot.buf = Some(buf);
        completed.result.is_ok().then_some(owner.task)
    }
}

/// True for answers after which the initiator takes back the memory of tasks.
fn ends_tasks(pdu: &ControlPdu) -> bool {
    let opcode = BasicHeaderSegment::from_bytes(&pdu.header).opcode();
    opcode == Opcode::TASK_MANAGEMENT_RESPONSE || opcode == Opcode::LOGOUT_RESPONSE
}

impl<Q: ManagedQueuePair> Datamover for IserTarget<Q> {
    fn check_key_values(values: KeyValues<'_>) -> Result<(), Unacceptable> {
        check_rdma(values)
    }

    fn parameters(agreed: Parameters) -> Parameters {
        agreed.over_rdma(agreed.rdma.initiator_segment)
    }

    fn send_control(&mut self, pdu: ControlPdu) {
        self.data = self.data.saturating_add(pdu.data.len());
        self.queue.push_back(Outgoing::Pdu(pdu));
    }

    fn notice_key_values(&mut self, agreed: &Parameters) {
        self.parameters = *agreed;
    }

    fn enable_datamover(&mut self, _longest_segment: u32) {
        self.enabled = true;
        self.post_receives();
    }

    fn connection_terminate(&mut self) {
        self.end();
        self.channel.queue_pair.disconnect();
    }
}

impl<Q> IserTarget<Q> {
    /// Nothing of what waits is sent any more.
    fn end(&mut self) {
        while let Some(outgoing) = self.queue.pop_front() {
            let bytes = match outgoing {
                Outgoing::Pdu(pdu) => pdu.data.len(),
                Outgoing::Put(put, _) => put.data.unpooled(),
            };
            self.data = self.data.saturating_sub(bytes);
        }
        self.reads.clear();
    }
}

impl<Q: ManagedQueuePair> TargetDatamover for IserTarget<Q> {
    const TASK_SIZE: usize = size_of::<TaskSlot>();
    const QUEUE_SIZE: usize = size_of::<Outgoing>() * OUTBOUND;

    fn receive_bytes(agreed: &Parameters, tasks: u16) -> usize {
        receives(agreed, tasks.into()).saturating_mul(LONG)
    }

    fn tuning(wanted: Tuning) -> Tuning {
        wanted.over_rdma(RDMA_SEGMENT)
    }

    fn allocate_connection_resources(&mut self, tasks: u16) {
        self.room = self.room.max(tasks.into());
        self.post_receives();
    }

    fn allocate_task_resources(&mut self, task: TaskHandle, resources: WriteResources) {
        let remote = self.remote(task, resources.task_tag);
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        if let Some(slot) = self.slot_or_new(task) {
            let buf = Some(resources.buf);
            *slot = TaskSlot { remote, live: true, buf, reading: None, is_orphan: false, generation };
        }
    }

    fn deallocate_task_resources(&mut self, task: TaskHandle) -> Option<Buf> {
        let slot = self.slot(task).filter(|slot| slot.live)?;
        slot.live = false;
        let buf = slot.buf.take();
        slot.is_orphan = buf.is_none();
        if buf.is_none() {
            self.orphans = self.orphans.saturating_add(1);
        }
        buf
    }

    fn get_data(&mut self, get: GetData) {
        if let Some(slot) = self.slot(get.task).filter(|slot| slot.live) {
            slot.reading = Some(get.range);
            self.reads.push_back(get.task);
        }
    }

    fn put_data(&mut self, put: PutData) {
        self.data = self.data.saturating_add(put.data.unpooled());
        let remote = self.remote(put.task, put.task_tag);
        self.queue.push_back(Outgoing::Put(put, remote));
    }

    fn pending(&self) -> Pending {
        let waiting = self.queue.capacity().wrapping_mul(size_of::<Outgoing>());
        let reads = self.reads.capacity().wrapping_mul(size_of::<TaskHandle>());
        let data = self.data.saturating_add(self.channel.odd_bytes());
        Pending { data, queue: waiting.saturating_add(reads).saturating_add(self.channel.table_bytes()) }
    }
}

impl<Q: ManagedQueuePair, U: TargetLayer<Mover = Self>> RdmaMover<U> for IserTarget<Q> {
    type QueuePair = Q;

    fn channel(&mut self) -> &mut Channel<Q> {
        &mut self.channel
    }

    fn channel_ref(&self) -> &Channel<Q> {
        &self.channel
    }

    fn is_full(&self) -> bool {
        self.queue.len() >= self.room.saturating_mul(OUTBOUND).max(1) || self.data >= OUTBOUND_BYTES
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.channel.is_idle()
    }

    fn handle_setup(upper: &mut U, now: Instant, event: SetupEvent) {
        let SetupEvent::Requested(said) = event else { return };
        let channel = &mut upper.mover().channel;
        if channel.queue_pair.limits().remote_invalidation {
            channel.invalidation = invalidation_of(said.bytes());
        }
        let answer = SetupAnswer::Accept(private_data(channel.invalidation));
        channel.queue_pair.handle_answer(now, answer);
    }

    fn handle_completions(upper: &mut U, now: Instant) -> bool {
        let mut any = false;
        // A role's own completions are few at a time: each is told of before the next is fetched.
        while let Some(completed) = upper.mover().channel.next_completed(now, &mut any) {
            match (completed.purpose, completed.memory) {
                (Purpose::Read(owner), memory) => {
                    let completed = Completed { memory, ..completed };
                    if let Some(task) = upper.mover().end_read(owner, completed) {
                        upper.data_completion_notify(task, DataArrival::GetData);
                    }
                }
                (_, WorkMemory::List(list)) => {
                    let mover = upper.mover();
                    mover.data = mover.data.saturating_sub(list.unpooled());
                }
                _ => {}
            }
        }
        any
    }

    fn handle_message(upper: &mut U, message: Message) -> Option<Message> {
        let parts = match message.parts() {
            Ok(parts) => parts,
            Err(violation) => {
                upper.violation_notify(violation, None);
                upper.mover().channel.recycle(message);
                return None;
            }
        };
        let opcode = BasicHeaderSegment::from_bytes(parts.header).opcode();
        let withheld = match opcode {
            Opcode::SCSI_COMMAND if upper.mover().enabled => handle_command(upper, parts),
            // All write data comes with its command, or is read.
            Opcode::DATA_OUT if upper.mover().enabled => {
                upper.violation_notify(Violation::UnexpectedData, Some(parts.header));
                false
            }
            _ => {
                let Parts { header, ahs, data, .. } = parts;
                matches!(
                    upper.control_notify(ReceivedPdu { header, ahs, data: Some(data) }),
                    Disposition::Withheld
                )
            }
        };
        if withheld {
            return Some(message);
        }
        upper.mover().channel.recycle(message);
        None
    }

    fn send(upper: &mut U) -> bool {
        let mut any = false;
        while upper.mover().post_read() {
            any = true;
        }
        loop {
            let Sender { mover, numbers } = upper.sender();
            match mover.send_one(numbers) {
                Sent::Nothing => return any,
                Sent::Something => any = true,
                Sent::Status(task) => {
                    upper.status_sent_notify(task);
                    any = true;
                }
            }
        }
    }

    fn end(&mut self) {
        self.end();
        self.channel.clear_inbox();
    }
}

/// Takes a SCSI command, with the memory that it names. True if it stays where it is.
fn handle_command<Q, U>(upper: &mut U, parts: Parts<'_>) -> bool
where
    Q: ManagedQueuePair,
    U: TargetLayer<Mover = IserTarget<Q>>,
{
    let Parts { iser, header, ahs, data } = parts;
    let command = ScsiCommand::from_bytes(header);
    if !names_memory(&command, &iser) {
        upper.violation_notify(Violation::MissingStag, Some(header));
        return false;
    }
    let task_tag = command.task_tag();
    let remote = RemoteMemory { task_tag, write: iser.write(), read: iser.read() };
    // A tag in use is refused, and changes nothing for its task.
    let is_new = upper.find_task(task_tag).is_none();
    upper.mover().arriving = is_new.then_some(remote);
    let disposition = upper.control_notify(ReceivedPdu { header, ahs, data: Some(data) });
    upper.mover().arriving = None;
    let task = upper.find_task(task_tag).filter(|_| is_new);
    if let Some(slot) = task.and_then(|task| upper.mover().slot_or_new(task)) {
        slot.remote = Some(remote);
    }
    match disposition {
        Disposition::Withheld => return true,
        Disposition::Immediate(task) => take_immediate(upper, task, data),
        Disposition::Taken | Disposition::Collect(_) => {}
    }
    false
}

/// Whether a command names memory for all of its data that does not come with it. What is refused anyway is not judged here.
fn names_memory(command: &ScsiCommand, iser: &IserHeader) -> bool {
    let expected = command.expected_length();
    let reads = command.reads() && expected > 0;
    let writes = command.writes() && expected > command.data_length();
    (!reads || iser.read().is_some()) && (!writes || iser.write().is_some())
}

/// Puts a command's own data where it belongs.
fn take_immediate<Q, U>(upper: &mut U, task: TaskHandle, data: &[u8])
where
    Q: ManagedQueuePair,
    U: TargetLayer<Mover = IserTarget<Q>>,
{
    let buf = upper.mover().slot(task).and_then(|slot| slot.buf.as_mut());
    if let Some(room) = buf.and_then(|buf| buf.get_mut(..data.len())) {
        room.copy_from_slice(data);
    }
    upper.data_completion_notify(task, DataArrival::Immediate);
}
