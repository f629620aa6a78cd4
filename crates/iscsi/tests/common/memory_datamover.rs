//! A datamover with three frames: the second one, which shows that the roles above name no byte stream. A PDU crosses whole (CONTROL), read data is put where
//! it belongs (PUT), and write data is fetched (GET), answered by a PUT: as with RDMA, but in a memory that both ends can see. There is no Data-In, Data-Out or
//! R2T, no digest, and no status but in a SCSI Response; data goes unasked only in its command's own PDU.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    unreachable_pub,
    missing_debug_implementations,
    missing_docs,
    reason = "each test file uses its own part"
)]

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use buf::{Buf, BufList, Pool};
use iscsi::datamover::{
    CommandData, CommandResources, CommandToSend, CommandTransfer, ControlPdu, DataArrival, Datamover,
    Disposition, GetData, InitiatorDatamover, InitiatorLayer, KeyValues, Pending, PutData, ReceivedPdu,
    Sender, TargetDatamover, TargetLayer, TaskHandle, Unacceptable, UpperLayer, WriteResources,
};
use iscsi::initiator::{Config, Initiator};
use iscsi::keys::{Parameters, SessionType, Tuning};
use iscsi::pdu::{BasicHeaderSegment, Bhs, DataRange, Opcode, ScsiResponse};
use iscsi::sequence::CmdSn;
use iscsi::target::{Portal, Target};
use protocol::{CloseReason, Connection, Ended, Instant, Placement, SeededEntropy, Transmit};

use super::{Bench, blocks, resources};

const CONTROL: u8 = 1;
const PUT: u8 = 2;
const GET: u8 = 3;
/// Bytes before a frame's content: what it is, and how long the content is.
const FRAME: usize = 5;

/// What waits to be sent.
enum Item {
    Control(ControlPdu),
    /// A SCSI Response, and whose.
    Status(ControlPdu, TaskHandle),
    Put {
        task_tag: u32,
        offset: u32,
        data: BufList,
    },
    Get {
        task_tag: u32,
        range: DataRange,
    },
}

fn put_frame(out: &mut Transmit, kind: u8, content: &[&[u8]]) {
    let length = u32::try_from(content.iter().map(|part| part.len()).sum::<usize>()).unwrap();
    out.put(&[kind]);
    out.put(&length.to_be_bytes());
    for part in content {
        out.put(part);
    }
}

fn words<const N: usize>(bytes: &[u8]) -> ([u32; N], &[u8]) {
    let (head, rest) = bytes.split_at(4 * N);
    let mut chunks = head.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap()));
    (std::array::from_fn(|_| chunks.next().unwrap()), rest)
}

/// What both roles' datamovers have.
#[derive(Default)]
pub struct Common {
    queue: VecDeque<Item>,
    agreed: Parameters,
    enabled: bool,
    /// What was sent in CONTROL frames.
    pub opcodes: BTreeSet<u8>,
    /// Frames sent, by kind.
    pub frames: [usize; 4],
}

impl Common {
    fn send_control(&mut self, out: &mut Transmit, mut header: Bhs, data: &[u8]) {
        let [_, a, b, c] = u32::try_from(data.len()).unwrap().to_be_bytes();
        header[5..8].copy_from_slice(&[a, b, c]);
        self.opcodes.insert(BasicHeaderSegment::from_bytes(&header).opcode().0);
        self.frames[usize::from(CONTROL)] += 1;
        put_frame(out, CONTROL, &[&header, data]);
    }

    fn send_put(&mut self, out: &mut Transmit, [task_tag, offset]: [u32; 2], data: BufList) {
        assert!(self.enabled, "no data before the full feature phase");
        self.frames[usize::from(PUT)] += 1;
        let bytes = data.into_one();
        put_frame(out, PUT, &[&task_tag.to_be_bytes(), &offset.to_be_bytes(), &bytes]);
    }

    fn send_get(&mut self, out: &mut Transmit, task_tag: u32, range: DataRange) {
        self.frames[usize::from(GET)] += 1;
        let words = [task_tag, range.offset, range.length].map(u32::to_be_bytes);
        put_frame(out, GET, &[words.as_flattened()]);
    }
}

/// What a role does with frames of data, and when it may send.
pub trait Role<U> {
    fn control(upper: &mut U, pdu: ReceivedPdu<'_>) -> bool;
    fn put(upper: &mut U, at: [u32; 2], bytes: &[u8]);
    fn get(upper: &mut U, task_tag: u32, range: DataRange);
    fn send_one(upper: &mut U, out: &mut Transmit) -> bool;
    fn common(&mut self) -> &mut Common;
}

/// A role over frames.
pub struct MemoryConnection<U> {
    pub upper: U,
}

fn receive<U: UpperLayer>(upper: &mut U, bytes: &[u8]) -> usize
where
    U::Mover: Role<U>,
{
    let mut used = 0;
    while !upper.is_over() && !upper.is_withheld() {
        let rest = &bytes[used..];
        let Some((kind, length)) = rest.get(..FRAME).map(|head| (head[0], words::<1>(&head[1..]).0[0]))
        else {
            break;
        };
        let Some(content) = rest.get(FRAME..FRAME + length as usize) else { break };
        match kind {
            CONTROL => {
                let (header, data) = content.split_first_chunk::<48>().unwrap();
                if !U::Mover::control(upper, ReceivedPdu { header, ahs: &[], data: Some(data) }) {
                    break;
                }
            }
            PUT => {
                let (at, bytes) = words::<2>(content);
                U::Mover::put(upper, at, bytes);
            }
            GET => {
                let ([task_tag, offset, length], _) = words::<3>(content);
                U::Mover::get(upper, task_tag, DataRange { offset, length });
            }
            other => panic!("no frame is of kind {other}"),
        }
        used += FRAME + content.len();
    }
    if upper.is_over() { bytes.len() } else { used }
}

impl<U: UpperLayer> Connection for MemoryConnection<U>
where
    U::Mover: Role<U>,
{
    type Input = U::Input;
    type Action = U::Action;
    const STAGING: usize = 1 << 20;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.upper.begin_turn(now);
        let used = receive(&mut self.upper, bytes);
        if used > 0 {
            self.upper.hear();
        }
        self.upper.end_turn();
        used
    }

    fn take_placement(&mut self) -> Option<Placement> {
        None
    }

    fn handle_placed(&mut self, _now: Instant, _placement: Placement) {
        panic!("nothing is placed");
    }

    fn handle_input(&mut self, now: Instant, input: U::Input) {
        self.upper.begin_turn(now);
        self.upper.handle_input(input);
        self.upper.end_turn();
    }

    fn handle_transmitted(&mut self, now: Instant, _bytes: usize) {
        self.upper.begin_turn(now);
        self.upper.send_done_notify();
        self.upper.end_turn();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.upper.begin_turn(now);
        self.upper.handle_timeout();
        self.upper.end_turn();
    }

    fn handle_memory(&mut self, now: Instant) {
        self.upper.begin_turn(now);
        self.upper.handle_memory();
        self.upper.end_turn();
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.upper.begin_turn(now);
        self.upper.mover().common().queue.clear();
        self.upper.handle_ended(how);
        self.upper.end_turn();
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.upper.begin_turn(now);
        while !send.is_full() && U::Mover::send_one(&mut self.upper, send) {}
        if !send.is_empty() {
            self.upper.send_begun_notify();
        }
    }

    fn poll_action(&mut self) -> Option<U::Action> {
        self.upper.poll_action()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.upper.poll_timeout()
    }

    fn wants_bytes(&mut self) -> bool {
        self.upper.is_over() || !self.upper.is_withheld()
    }

    fn is_established(&self) -> bool {
        self.upper.is_established()
    }

    fn awaits_memory(&self) -> bool {
        self.upper.awaits_memory()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.upper.poll_close()
    }
}

macro_rules! datamover {
    ($name:ident) => {
        impl Datamover for $name {
            fn check_key_values(_values: KeyValues<'_>) -> Result<(), Unacceptable> {
                Ok(())
            }

            fn parameters(agreed: Parameters) -> Parameters {
                agreed
            }

            fn send_control(&mut self, pdu: ControlPdu) {
                self.common.queue.push_back(Item::Control(pdu));
            }

            fn notice_key_values(&mut self, agreed: &Parameters) {
                self.common.agreed = *agreed;
            }

            fn enable_datamover(&mut self, _longest_segment: u32) {
                self.common.enabled = true;
            }

            fn connection_terminate(&mut self) {
                self.common.queue.clear();
            }
        }
    };
}

/// Memory of a target's task.
struct WriteSlot {
    task_tag: u32,
    buf: Buf,
    /// What was asked for and has not come.
    asked: Vec<DataRange>,
}

#[derive(Default)]
pub struct MemoryTarget {
    pub common: Common,
    slots: Vec<Option<WriteSlot>>,
    /// Data that came for tasks that had ended.
    pub thrown_away: usize,
}

datamover!(MemoryTarget);

impl MemoryTarget {
    fn slot(&mut self, task: TaskHandle) -> Option<&mut WriteSlot> {
        self.slots.get_mut(usize::from(task.0))?.as_mut()
    }
}

impl TargetDatamover for MemoryTarget {
    const TASK_SIZE: usize = size_of::<WriteSlot>();
    const QUEUE_SIZE: usize = 2 * size_of::<Item>();

    fn receive_bytes(_agreed: &Parameters, _tasks: u16) -> usize {
        0
    }

    fn tuning(wanted: Tuning) -> Tuning {
        wanted
    }

    fn allocate_connection_resources(&mut self, tasks: u16) {
        let tasks = usize::from(tasks).max(self.slots.len());
        self.slots.resize_with(tasks, || None);
    }

    fn allocate_task_resources(&mut self, task: TaskHandle, resources: WriteResources) {
        let WriteResources { task_tag, buf, unsolicited } = resources;
        assert_eq!(unsolicited, None, "data goes unasked only with its command");
        let place = &mut self.slots[usize::from(task.0)];
        assert!(place.is_none(), "what was lent for the task before has been given back");
        *place = Some(WriteSlot { task_tag, buf, asked: Vec::new() });
    }

    fn deallocate_task_resources(&mut self, task: TaskHandle) -> Option<Buf> {
        self.slots[usize::from(task.0)].take().map(|slot| slot.buf)
    }

    fn get_data(&mut self, get: GetData) {
        let slot = self.slot(get.task).expect("memory for the data was lent");
        slot.asked.push(get.range);
        self.common.queue.push_back(Item::Get { task_tag: get.task_tag, range: get.range });
    }

    fn put_data(&mut self, put: PutData) {
        let PutData { task, task_tag, data, status, sense: bytes, residual, delivery } = put;
        if !data.is_empty() {
            self.common.queue.push_back(Item::Put { task_tag, offset: 0, data });
        }
        let response = ScsiResponse::new(task_tag, status, residual, 0);
        let mut sense = Vec::new();
        if !bytes.bytes().is_empty() {
            sense.extend(u16::try_from(bytes.bytes().len()).unwrap().to_be_bytes());
            sense.extend(bytes.bytes());
        }
        let pdu = ControlPdu::response(response.to_bytes(), sense, delivery);
        self.common.queue.push_back(Item::Status(pdu, task));
    }

    fn pending(&self) -> Pending {
        let data = self.common.queue.iter().map(|item| match item {
            Item::Control(pdu) | Item::Status(pdu, _) => pdu.data.len(),
            Item::Put { data, .. } => data.unpooled(),
            Item::Get { .. } => 0,
        });
        Pending { data: data.sum(), queue: 0 }
    }
}

impl<U: TargetLayer<Mover = Self>> Role<U> for MemoryTarget {
    fn control(upper: &mut U, pdu: ReceivedPdu<'_>) -> bool {
        match upper.control_notify(pdu) {
            Disposition::Taken => true,
            Disposition::Immediate(task) => {
                let data = pdu.data.unwrap();
                upper.mover().slot(task).unwrap().buf[..data.len()].copy_from_slice(data);
                upper.data_completion_notify(task, DataArrival::Immediate);
                true
            }
            Disposition::Collect(_) => panic!("every PDU comes whole"),
            Disposition::Withheld => false,
        }
    }

    fn put(upper: &mut U, [task_tag, offset]: [u32; 2], bytes: &[u8]) {
        let task = upper.find_task(task_tag);
        let mover = upper.mover();
        let slot = task.and_then(|task| mover.slots[usize::from(task.0)].as_mut());
        let Some(slot) = slot.filter(|slot| slot.task_tag == task_tag) else {
            mover.thrown_away += bytes.len();
            return;
        };
        let range = DataRange { offset, length: u32::try_from(bytes.len()).unwrap() };
        let asked = slot.asked.iter().position(|asked| *asked == range);
        slot.asked.remove(asked.expect("this was asked for"));
        slot.buf[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        upper.data_completion_notify(task.unwrap(), DataArrival::GetData);
    }

    fn get(_upper: &mut U, _task_tag: u32, _range: DataRange) {
        panic!("an initiator asks for no data");
    }

    fn send_one(upper: &mut U, out: &mut Transmit) -> bool {
        let Sender { mover, numbers } = upper.sender();
        let Some(item) = mover.common.queue.pop_front() else { return false };
        match item {
            Item::Control(mut pdu) => {
                numbers.stamp(&mut pdu.header, pdu.leaving);
                mover.common.send_control(out, pdu.header, &pdu.data);
            }
            Item::Status(mut pdu, task) => {
                numbers.stamp(&mut pdu.header, pdu.leaving);
                mover.common.send_control(out, pdu.header, &pdu.data);
                upper.status_sent_notify(task);
            }
            Item::Put { task_tag, offset, data } => mover.common.send_put(out, [task_tag, offset], data),
            Item::Get { task_tag, range } => mover.common.send_get(out, task_tag, range),
        }
        true
    }

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }
}

#[derive(Default)]
pub struct MemoryInitiator {
    pub common: Common,
    slots: Vec<Option<(CommandResources, CommandTransfer)>>,
}

datamover!(MemoryInitiator);

impl MemoryInitiator {
    fn slot(&mut self, task: TaskHandle) -> Option<&mut (CommandResources, CommandTransfer)> {
        self.slots.get_mut(usize::from(task.0))?.as_mut()
    }
}

impl InitiatorDatamover for MemoryInitiator {
    const TARGET_ENDS_FIRST: bool = false;

    fn tuning(wanted: Tuning, _session: SessionType) -> Tuning {
        wanted
    }

    fn allocate_task_resources(&mut self, task: TaskHandle, resources: CommandResources) {
        let index = usize::from(task.0);
        self.slots.resize_with(self.slots.len().max(index + 1), || None);
        assert!(self.slots[index].is_none(), "what was lent for the command before has been given back");
        self.slots[index] = Some((resources, CommandTransfer::default()));
    }

    fn deallocate_task_resources(&mut self, task: TaskHandle) -> CommandTransfer {
        let slot = self.slots.get_mut(usize::from(task.0)).and_then(Option::take);
        slot.map(|(resources, transfer)| CommandTransfer { data: resources.data, ..transfer })
            .unwrap_or_default()
    }
}

impl<U: InitiatorLayer<Mover = Self>> Role<U> for MemoryInitiator {
    fn control(upper: &mut U, pdu: ReceivedPdu<'_>) -> bool {
        assert!(matches!(upper.control_notify(pdu), Disposition::Taken));
        true
    }

    fn put(upper: &mut U, [task_tag, offset]: [u32; 2], bytes: &[u8]) {
        let Some(task) = upper.find_task(task_tag) else { return };
        let Some((CommandResources { data: CommandData::Read(buf), .. }, transfer)) =
            upper.mover().slot(task)
        else {
            panic!("data for a command that reads none");
        };
        buf[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        transfer.received += u32::try_from(bytes.len()).unwrap();
    }

    fn get(upper: &mut U, task_tag: u32, range: DataRange) {
        let Some(task) = upper.find_task(task_tag) else { return };
        upper.get_data_notify(task);
        let mover = upper.mover();
        let Some((CommandResources { data: CommandData::Write(data), .. }, transfer)) = mover.slot(task)
        else {
            panic!("data is asked of a command that writes none");
        };
        let part = data.part(range.offset as usize, range.length as usize);
        transfer.sent += range.length;
        transfer.requested = transfer.requested.max(range.offset + range.length);
        mover.common.queue.push_back(Item::Put { task_tag, offset: range.offset, data: part });
    }

    fn send_one(upper: &mut U, out: &mut Transmit) -> bool {
        let Sender { mover, numbers } = upper.sender();
        match mover.common.queue.pop_front() {
            Some(Item::Control(mut pdu)) => {
                numbers.stamp(&mut pdu.header, CmdSn::Next);
                mover.common.send_control(out, pdu.header, &pdu.data);
            }
            Some(Item::Put { task_tag, offset, data }) => {
                mover.common.send_put(out, [task_tag, offset], data);
            }
            Some(Item::Status(..) | Item::Get { .. }) => panic!("a target's"),
            None => return send_command(upper, out),
        }
        true
    }

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }
}

fn send_command<U: InitiatorLayer<Mover = MemoryInitiator>>(upper: &mut U, out: &mut Transmit) -> bool {
    let Some(CommandToSend { task, mut header }) = upper.poll_command() else { return false };
    let Sender { mover, numbers } = upper.sender();
    let agreed = mover.common.agreed;
    let (resources, transfer) = mover.slot(task).unwrap();
    let mut immediate = BufList::new();
    if let CommandData::Write(data) = &resources.data
        && agreed.immediate_data
    {
        let most = resources.unsolicited.min(resources.length).min(agreed.peer_segment);
        immediate = data.part(0, most as usize);
        (transfer.sent, transfer.requested) = (most, most);
    }
    numbers.stamp(&mut header, CmdSn::Kept);
    mover.common.send_control(out, header, &immediate.into_one());
    true
}

/// Both roles over frames.
pub type MemoryBench =
    Bench<MemoryConnection<Initiator<MemoryInitiator>>, MemoryConnection<Target<MemoryTarget>>>;

/// Both ends, which have exchanged nothing yet.
pub fn bench(config: Config, portal: Portal, pool: &Pool) -> MemoryBench {
    let (now, blocks) = (Instant::ZERO, blocks(&portal));
    let (ours, entropy) = (Pool::new(64 << 20), Box::new(SeededEntropy::new(2)));
    let near = Initiator::new(now, config, ours, entropy, MemoryInitiator::default());
    let far = Target::new(now, Arc::new(portal), resources(pool), MemoryTarget::default());
    Bench::of(MemoryConnection { upper: near }, MemoryConnection { upper: far }, blocks)
}

impl MemoryBench {
    /// The kinds of PDUs that have crossed: none of them moves data.
    pub fn opcodes(&mut self) -> BTreeSet<u8> {
        let (near, far) = (self.pair.near.connection.upper.mover(), self.pair.far.connection.upper.mover());
        let all: BTreeSet<u8> = near.common.opcodes.union(&far.common.opcodes).copied().collect();
        for of_a_stream in [Opcode::DATA_IN, Opcode::DATA_OUT, Opcode::R2T] {
            assert!(!all.contains(&of_a_stream.0), "{of_a_stream:?} has crossed");
        }
        all
    }

    /// Frames of this kind that have crossed.
    pub fn frames(&mut self) -> Frames {
        let (near, far) = (self.pair.near.connection.upper.mover(), self.pair.far.connection.upper.mover());
        let count = |kind: u8| near.common.frames[usize::from(kind)] + far.common.frames[usize::from(kind)];
        Frames { control: count(CONTROL), put: count(PUT), get: count(GET) }
    }
}

/// How many frames have crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frames {
    pub control: usize,
    pub put: usize,
    pub get: usize,
}
