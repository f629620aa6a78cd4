//! The seam between a role and its transport, as RFC 5047 draws it: above it the iSCSI layer ([`crate::target::Target`],
//! [`crate::initiator::Initiator`]) with its logins, tasks and numbers, below it a Datamover, which alone knows how PDUs and data cross. [`tcp`] is iSCSI
//! over a byte stream, [`iser`] over RDMA.
//!
//! The iSCSI layer owns its datamover and calls its primitives (RFC 5047 §6): Send_Control, Put_Data, Get_Data and the rest. The datamover's
//! events come back as upcalls, the `…_notify` of [`UpperLayer`], made by whoever moves the bytes, so that what is received need not be copied
//! to be told of.
//!
//! Put_Data has both a command's data and its status, as only a transport knows whether one PDU can carry both: a Data-In can, RDMA
//! cannot. What a transport does not need does not exist above it either: Data-In, Data-Out and R2T PDUs, their numbers, digests. That the layer
//! above names none of it is checked by `cargo xtask tidy` (the rule `datamover`).
//!
//! Keys that belong to a transport are its own business too: it says what this side negotiates over it, whether what was agreed on is enough, and
//! what that means to the layer above.

mod forward;
pub mod iser;
pub mod tcp;

use alloc::vec::Vec;

use buf::{Buf, BufList};
use protocol::{CloseReason, Ended, Instant};
use scsi::Sense;

use crate::keys::{Parameters, SessionType, Tuning};
use crate::pdu::{Bhs, DataRange, Residual};
use crate::sequence::{Delivery, InitiatorNumbers, Leaving, Numbering, TargetNumbers};
use crate::violation::Violation;

/// Names a task between a role and its datamover: the number of its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskHandle(pub u16);

/// A PDU that has come.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedPdu<'a> {
    /// The basic header segment.
    pub header: &'a Bhs,
    /// Additional header segments.
    pub ahs: &'a [u8],
    /// The data segment; `None` while it has not been received, as it is long.
    pub data: Option<&'a [u8]>,
}

/// What becomes of a PDU that the upper layer was told of.
#[derive(Debug)]
pub enum Disposition {
    /// It is done with; data that has not been received is passed over.
    Taken,
    /// Its data belongs into what was lent for this task; [`TargetLayer::data_completion_notify`] is to follow.
    Immediate(TaskHandle),
    /// Its data is to be received into this memory, which is long enough; then the PDU comes again with it.
    Collect(Buf),
    /// There is no memory for it: it stays where it is, and comes again later.
    Withheld,
}

/// A PDU to send whole (Send_Control).
#[derive(Debug)]
pub struct ControlPdu {
    /// The header, without numbers and length.
    pub header: Bhs,
    /// The data segment.
    pub data: Vec<u8>,
    /// What it does to a target's numbers; an initiator's are all alike.
    pub leaving: Leaving,
}

impl ControlPdu {
    /// A response, which takes a StatSN, to a request that was delivered so.
    pub fn response(header: Bhs, data: Vec<u8>, answers: Delivery) -> Self {
        Self { header, data, leaving: Leaving { numbering: Numbering::StatSn, answers } }
    }

    /// A PDU that takes no number.
    pub fn unnumbered(header: Bhs, data: Vec<u8>) -> Self {
        Self { header, data, leaving: Leaving { numbering: Numbering::Next, answers: Delivery::Immediate } }
    }
}

/// The end of a command, which is its data and then its status (Put_Data).
#[derive(Debug)]
pub struct PutData {
    /// Whose end it is.
    pub task: TaskHandle,
    /// The initiator task tag.
    pub task_tag: u32,
    /// No longer than what the initiator expects.
    pub data: BufList,
    /// The SCSI status byte. It travels with the last data or behind it, as the transport has it.
    pub status: u8,
    /// Sense data, if any.
    pub sense: Sense,
    /// By how much the data was less or more than the initiator expects.
    pub residual: Residual,
    /// How the command was delivered.
    pub delivery: Delivery,
}

/// A part of a command's write data is wanted (Get_Data).
#[derive(Debug, Clone, Copy)]
pub struct GetData {
    /// For which task; its resources are allocated.
    pub task: TaskHandle,
    /// The initiator task tag.
    pub task_tag: u32,
    /// The logical unit.
    pub lun: [u8; 8],
    /// Which part; at most MaxBurstLength.
    pub range: DataRange,
}

/// What a target lends for a command's write data.
#[derive(Debug)]
pub struct WriteResources {
    /// The initiator task tag.
    pub task_tag: u32,
    /// The data goes there, by its offset.
    pub buf: Buf,
    /// What comes by itself behind the command's PDU; it may be less.
    pub unsolicited: Option<DataRange>,
}

/// What an initiator lends for a command.
#[derive(Debug)]
pub struct CommandResources {
    /// The initiator task tag.
    pub task_tag: u32,
    /// The logical unit.
    pub lun: [u8; 8],
    /// Bytes of the command's data.
    pub length: u32,
    /// The memory.
    pub data: CommandData,
    /// So many bytes of a write may go without being asked for.
    pub unsolicited: u32,
}

/// An initiator's memory for a command.
#[derive(Debug, Default)]
pub enum CommandData {
    /// The command has no data, or its memory is away.
    #[default]
    None,
    /// Read data goes there.
    Read(Buf),
    /// Write data is taken from there.
    Write(BufList),
}

/// What came of a command's data.
#[derive(Debug, Default)]
pub struct CommandTransfer {
    /// What was lent.
    pub data: CommandData,
    /// Bytes of read data that have come.
    pub received: u32,
    /// Bytes of write data that have gone.
    pub sent: u32,
    /// Write data was sent without being asked for, or was asked for, up to this offset.
    pub requested: u32,
}

/// What waits in a datamover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// Bytes of PDUs and data outside of pools that wait to be sent, or are being sent.
    pub data: usize,
    /// Bytes of the queue itself.
    pub queue: usize,
}

/// What a login has negotiated, for its transport to judge.
#[derive(Debug, Clone, Copy)]
pub struct KeyValues<'a> {
    /// What was agreed on.
    pub agreed: &'a Parameters,
    /// What this side wants.
    pub wanted: &'a Tuning,
    /// What the session is for.
    pub session: SessionType,
}

/// What a transport needs of a session and the peer has not agreed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unacceptable {
    /// What the peer did by that.
    pub violation: Violation,
    /// What it does not agree to and what helps, for an operator.
    pub advice: &'static str,
}

/// What both roles ask of a transport.
pub trait Datamover {
    /// Whether a session may begin with what was agreed on.
    fn check_key_values(values: KeyValues<'_>) -> Result<(), Unacceptable>;

    /// What was agreed on, as the layer above is to reckon with it.
    fn parameters(agreed: Parameters) -> Parameters;

    /// Send_Control: sends a PDU that moves no data of a command, behind those before it. Numbers are stamped when it leaves.
    fn send_control(&mut self, pdu: ControlPdu);

    /// Notice_Key_Values: these were agreed on.
    fn notice_key_values(&mut self, agreed: &Parameters);

    /// Enable_Datamover: the full feature phase begins behind the last PDU of the login. This side takes data segments of at most `longest_segment`
    /// bytes.
    fn enable_datamover(&mut self, longest_segment: u32);

    /// Connection_Terminate: of what waits nothing is sent any more.
    fn connection_terminate(&mut self);
}

/// What a target asks of a transport.
pub trait TargetDatamover: Datamover {
    /// Bytes that it keeps for a task.
    const TASK_SIZE: usize;
    /// Bytes that what waits to be sent takes for each task that there may be.
    const QUEUE_SIZE: usize;

    /// Bytes of the receives that it posts for a session of so many tasks, once these were agreed on. They are asked for before the login ends, and before there
    /// are more tasks.
    fn receive_bytes(agreed: &Parameters, tasks: u16) -> usize;

    /// What a target negotiates over this transport, of what its portal wants.
    fn tuning(wanted: Tuning) -> Tuning;

    /// Allocate_Connection_Resources: there are at most so many tasks from now on; never fewer than before.
    fn allocate_connection_resources(&mut self, tasks: u16);

    /// Lends memory for a command's write data.
    fn allocate_task_resources(&mut self, task: TaskHandle, resources: WriteResources);

    /// Deallocate_Task_Resources: gives the memory back; what comes for the task later is thrown away. `None` when the task has none, or a
    /// PDU is just being received into it. A task that ends without [`TargetDatamover::put_data`] ends with this, so that nothing is known of it when
    /// another has its slot.
    fn deallocate_task_resources(&mut self, task: TaskHandle) -> Option<Buf>;

    /// Get_Data: asks for a part of a command's write data. [`TargetLayer::data_completion_notify`] tells of its end.
    fn get_data(&mut self, get: GetData);

    /// Put_Data: sends a command's read data and its status. [`TargetLayer::status_sent_notify`] tells of its end.
    fn put_data(&mut self, put: PutData);

    /// What waits, for the connection's account.
    fn pending(&self) -> Pending;
}

/// What an initiator asks of a transport.
pub trait InitiatorDatamover: Datamover {
    /// Whether the answer to a logout may still be under way at the far end when it has come here, so that the target is let to end the connection.
    const TARGET_ENDS_FIRST: bool;

    /// What an initiator negotiates over this transport for such a session, of what it wants.
    fn tuning(wanted: Tuning, session: SessionType) -> Tuning;

    /// Lends memory for a command that is about to be sent.
    fn allocate_task_resources(&mut self, task: TaskHandle, resources: CommandResources);

    /// Deallocate_Task_Resources: gives the memory back, and tells what was moved.
    fn deallocate_task_resources(&mut self, task: TaskHandle) -> CommandTransfer;
}

/// A datamover, and what it stamps PDUs with that leave.
#[derive(Debug)]
pub struct Sender<'a, D, N> {
    /// The datamover.
    pub mover: &'a mut D,
    /// What the iSCSI layer numbers its PDUs by.
    pub numbers: &'a mut N,
}

/// A command that is to leave.
#[derive(Debug, Clone, Copy)]
pub struct CommandToSend {
    /// Its task.
    pub task: TaskHandle,
    /// Its header, without what it says of data.
    pub header: Bhs,
}

/// The iSCSI layer of one connection, as its datamover and its driver see it.
///
/// Each call of the driver is one turn: [`Self::begin_turn`], upcalls, [`Self::end_turn`].
pub trait UpperLayer {
    /// The datamover that it owns.
    type Mover;
    /// What it numbers its PDUs by.
    type Numbers;
    /// See [`protocol::Connection::Input`].
    type Input;
    /// See [`protocol::Connection::Action`].
    type Action;

    /// The datamover.
    fn mover(&mut self) -> &mut Self::Mover;

    /// The datamover, to be asked.
    fn mover_ref(&self) -> &Self::Mover;

    /// The datamover, and what it stamps PDUs with that leave.
    fn sender(&mut self) -> Sender<'_, Self::Mover, Self::Numbers>;

    /// It is `now`.
    fn begin_turn(&mut self, now: Instant);

    /// Everything that happened at once has been told.
    fn end_turn(&mut self) {}

    /// The peer is alive: something was received.
    fn hear(&mut self);

    /// Control_Notify: a PDU has come.
    fn control_notify(&mut self, pdu: ReceivedPdu<'_>) -> Disposition;

    /// Connection_Terminate_Notify: what has come breaks the protocol. What follows from it is the upper layer's to decide.
    fn violation_notify(&mut self, violation: Violation, header: Option<&Bhs>);

    /// Connection_Terminate_Notify: the transport carries nothing any more, for this reason. [`Self::handle_ended`] may follow.
    fn terminate_notify(&mut self, why: &'static str);

    /// The task with this initiator task tag.
    fn find_task(&self, task_tag: u32) -> Option<TaskHandle>;

    /// True while nothing more is to be received, for reasons of the upper layer.
    fn is_withheld(&self) -> bool {
        false
    }

    /// True once what is received no longer matters.
    fn is_over(&self) -> bool;

    /// A send begins.
    fn send_begun_notify(&mut self) {}

    /// The send has gone out whole.
    fn send_done_notify(&mut self) {}

    /// See [`protocol::Connection::handle_input`].
    fn handle_input(&mut self, input: Self::Input);

    /// See [`protocol::Connection::handle_timeout`].
    fn handle_timeout(&mut self);

    /// See [`protocol::Connection::handle_memory`].
    fn handle_memory(&mut self) {}

    /// See [`protocol::Connection::handle_ended`]. The datamover sends nothing any more.
    fn handle_ended(&mut self, how: Ended);

    /// See [`protocol::Connection::poll_action`].
    fn poll_action(&mut self) -> Option<Self::Action>;

    /// See [`protocol::Connection::poll_timeout`].
    fn poll_timeout(&self) -> Option<Instant>;

    /// See [`protocol::Connection::is_established`].
    fn is_established(&self) -> bool {
        true
    }

    /// See [`protocol::Connection::awaits_memory`].
    fn awaits_memory(&self) -> bool {
        false
    }

    /// See [`protocol::Connection::poll_close`].
    fn poll_close(&self) -> Option<CloseReason>;
}

/// What has come of a command's write data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataArrival {
    /// All that came with the command itself.
    Immediate,
    /// A part of what comes by itself, or was asked for.
    Part,
    /// All that comes by itself; it ended at this offset.
    Unsolicited {
        /// Offset behind the last byte.
        end: u32,
    },
    /// All that one Get_Data asked for.
    GetData,
}

/// The upper layer of a target.
pub trait TargetLayer: UpperLayer<Numbers = TargetNumbers> {
    /// Data_Completion_Notify: write data has arrived in the memory that was lent for it.
    fn data_completion_notify(&mut self, task: TaskHandle, arrival: DataArrival);

    /// A task's data and status have been sent.
    fn status_sent_notify(&mut self, task: TaskHandle);
}

/// The upper layer of an initiator.
pub trait InitiatorLayer: UpperLayer<Numbers = InitiatorNumbers> {
    /// The next command that the window lets through. Its resources are allocated; the header says nothing yet of data in its PDU or behind it.
    fn poll_command(&mut self) -> Option<CommandToSend>;

    /// A command's status has come with its last data.
    fn status_notify(&mut self, task: TaskHandle, status: u8, residual: Residual);

    /// The target asks for write data, so it has memory for it.
    fn get_data_notify(&mut self, task: TaskHandle);
}
