//! What a controller's queue asks of the transport that carries its capsules and its data (NVMe Base §2.3.1, §3.3.2): the seam below which TCP
//! has its PDUs and RDMA its queue pair.
//!
//! The transport drives: it owns the stream or the messages, calls [`ControllerQueue`](super::ControllerQueue) with what has come, and is asked
//! by the queue, through this trait, for what is to go. What it is asked for it keeps until it is polled: nothing here sends, and nothing
//! calls back.
//!
//! What has come together is one turn: `begin_turn`; for each command `has_room` and `handle_submission`; for each piece of data `take_buffer`,
//! `return_buffer` and `handle_data`; `end_turn`. A command that is withheld stays where it is, in a stream or in its receive buffer, until
//! `takes_submissions` is true: a transport that gives its host credits for receive buffers gives none for that one meanwhile.

use buf::BufList;

use super::command::ReceivedCommand;
use crate::cqe::CompletionQueueEntry;
use crate::log::TransportType;
use crate::sgl::{KeyedBlock, SglSupport};

/// The transport of one queue, as the controller's queue sees it.
pub trait FabricTransport {
    /// What the discovery log page calls it.
    const TRANSPORT: TransportType;

    /// Which data pointers commands may have; the host reads it in Identify Controller (SGLS).
    const SGLS: SglSupport;

    /// Bytes that one response, or one request for data, takes while it waits to be sent.
    const UNSENT_SIZE: usize;

    /// What the operator is told of data that was damaged on its way.
    const DAMAGED: &'static str;

    /// Why a connection ends whose host stops while a command's data is arriving.
    const STALLED: &'static str;

    /// Sends a command's data, if it has any for the host, and its completion.
    fn send_response(&mut self, response: Response);

    /// Fetches a command's data from the host, all of it, into the memory that [`take_buffer`](super::ControllerQueue::take_buffer) has for its slot.
    fn get_data(&mut self, get: GetData<'_>);

    /// A command's data is not wanted any more: says what is to be expected of it.
    fn withdraw(&mut self, slot: u16) -> Withdrawal;

    /// What waits to be sent.
    fn backlog(&self) -> Backlog;
}

/// The end of a command.
#[derive(Debug)]
pub struct Response {
    /// The command's memory at the host, if a key opens it: where its data goes, and which key is of no use any more.
    pub block: Option<KeyedBlock>,
    /// Its completion.
    pub completion: CompletionQueueEntry,
    /// Data for the host, exactly as much as the command's data pointer says.
    pub data: Option<BufList>,
    /// The host has switched submission queue flow control off: it needs no completion of a command whose data says that it has succeeded.
    pub sq_flow_off: bool,
}

/// A command whose data is to be fetched.
#[derive(Debug, Clone, Copy)]
pub struct GetData<'a> {
    /// Its slot at the controller, which names it until its data is there.
    pub slot: u16,
    /// The command: its identifier, and where its data is at the host.
    pub command: &'a ReceivedCommand,
    /// Bytes of the data.
    pub length: usize,
}

/// What is to be expected of data that is not wanted any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawal {
    /// The host was not asked for it, and will not be.
    Unsent,
    /// The host was asked, or has sent it with the command: what still comes, if anything, is passed over, and told by [`pass_over`](super::ControllerQueue::pass_over).
    Passing,
    /// A part of it, or all, is arriving in the command's memory, and cannot be held up: the command ends when that has arrived.
    Arriving,
}

/// What waits to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Responses and requests for data.
    pub count: usize,
    /// Bytes of data in memory of no pool, until they have gone out.
    pub unpooled: usize,
    /// Bytes of the tables that all of it waits in.
    pub tables: usize,
}
