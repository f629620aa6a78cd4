//! What a host's queue asks of the transport that carries its capsules and its data (NVMe Base §2.3.1, §3.3.2): the counterpart of
//! [`controller::FabricTransport`](crate::controller::FabricTransport).
//!
//! The memory of a command's data stays in the queue's table, where the transport finds it by the command identifier
//! ([`HostQueue::target`](super::HostQueue::target), [`HostQueue::source`](super::HostQueue::source)) once it sends the command.

use buf::BufList;

use crate::log::TransportType;
use crate::sqe::SubmissionQueueEntry;

/// A command capsule (NVMe Base §3.3.2.1).
#[derive(Debug)]
pub struct CommandCapsule {
    /// The command.
    pub entry: SubmissionQueueEntry,
    /// Data behind it, which may be none.
    pub data: BufList,
}

impl CommandCapsule {
    /// A capsule without data.
    #[inline]
    pub fn bare(entry: SubmissionQueueEntry) -> Self {
        Self { entry, data: BufList::new() }
    }
}

/// The transport of one queue, as the host's queue sees it.
pub trait FabricTransport {
    /// What the discovery log page calls it: a host looks at the entries of its own transport alone.
    const TRANSPORT: TransportType;

    /// Sends a command, once all that waits was sent. A data pointer of the kind
    /// [`transport`](crate::sgl::SglDescriptor::transport) says only how long the data is: a transport with remote memory puts a keyed one in its place.
    fn send_command(&mut self, capsule: CommandCapsule);

    /// Nothing of what waits is sent any more.
    fn clear(&mut self);
}
