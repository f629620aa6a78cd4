//! TCP under a host's queue: what it has to send, in order, and its way into PDUs; and the data that is just coming.

use alloc::collections::VecDeque;
use core::ops::Range;

use protocol::Transmit;
use zerocopy::IntoBytes;

use super::framing::{Agreement, Role, Termination, put_bare, put_with_data};
use super::receiver::Receiver;
use crate::host::{CommandCapsule, FabricTransport};
use crate::log::TransportType;
use crate::pdu::{CapsuleCmd, Digests, IcReq};
use crate::violation::Violation;

/// One thing to send.
#[derive(Debug)]
pub(super) enum Outgoing {
    IcReq(Digests),
    Command(CommandCapsule),
    /// What an R2T asked for.
    Burst(Burst),
}

impl Outgoing {
    #[inline]
    pub(super) fn put(self, agreed: Agreement, send: &mut Transmit) {
        match self {
            Self::IcReq(digests) => send.put(IcReq::new(digests, 0).as_bytes()),
            Self::Command(CommandCapsule { entry, data }) if data.is_empty() => {
                put_bare(send, agreed, CapsuleCmd::new(entry).as_mut_bytes());
            }
            Self::Command(CommandCapsule { entry, data }) => {
                put_with_data(send, agreed, CapsuleCmd::new(entry).as_mut_bytes(), data);
            }
            // Cut into PDUs by the connection, which knows the data.
            Self::Burst(_) => {}
        }
    }
}

/// What is left of the data that an R2T asked for.
#[derive(Debug)]
pub(super) struct Burst {
    pub(super) cid: u16,
    pub(super) ttag: u16,
    pub(super) range: Range<usize>,
}

/// The command to which data from the controller belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataOwner {
    pub(super) cid: u16,
    /// The PDU's flag: the command has succeeded with this data, and no completion follows.
    pub(super) success: bool,
}

/// The stream of one connection at the host.
#[derive(Debug)]
pub(super) struct HostTransport {
    /// What ICReq and ICResp have agreed on, once they have.
    pub(super) initialised: bool,
    pub(super) agreed: Agreement,
    pub(super) receiver: Receiver<DataOwner>,
    pub(super) waiting: VecDeque<Outgoing>,
    /// The most bytes of data in one PDU, as the controller says in ICResp (MAXH2CDATA).
    pub(super) max_data: usize,
    termination: Option<Termination>,
}

impl FabricTransport for HostTransport {
    const TRANSPORT: TransportType = TransportType::Tcp;

    #[inline]
    fn send_command(&mut self, capsule: CommandCapsule) {
        self.waiting.push_back(Outgoing::Command(capsule));
    }

    fn clear(&mut self) {
        self.waiting.clear();
    }
}

impl HostTransport {
    /// A stream that begins with an ICReq which asks for these digests.
    pub(super) fn new(digests: Digests) -> Self {
        Self {
            initialised: false,
            agreed: Agreement::default(),
            receiver: Receiver::Header,
            waiting: VecDeque::from([Outgoing::IcReq(digests)]),
            max_data: 0,
            termination: None,
        }
    }

    /// Both sides have agreed how PDUs look from now on, and the controller takes `max_data` bytes of data in one.
    pub(super) fn agree(&mut self, agreed: Agreement, max_data: usize) {
        (self.agreed, self.max_data, self.initialised) = (agreed, max_data, true);
    }

    /// Nothing but the answer to a violation, whose PDU begins with `bytes`, is sent any more.
    pub(super) fn terminate(&mut self, violation: Violation, bytes: &[u8]) {
        self.termination = Some(Termination::new(violation, bytes));
        self.clear();
    }

    /// Puts the answer to a violation, once nothing waits before it.
    #[inline]
    pub(super) fn put_termination(&mut self, send: &mut Transmit) {
        if self.waiting.is_empty()
            && let Some(termination) = self.termination.take()
        {
            termination.put(Role::Host, send);
        }
    }
}
