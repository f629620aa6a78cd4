//! TCP under a controller's queue: what it has to send, in order, and its way into PDUs; and the data that is just coming.

use alloc::collections::VecDeque;

use buf::BufList;
use protocol::{Transmit, Unsent};
use zerocopy::IntoBytes;

use super::framing::{Agreement, Role, Termination, put_bare, put_with_data};
use super::receiver::Receiver;
use crate::controller::{Backlog, FabricTransport, GetData, Response, Withdrawal};
use crate::cqe::CompletionQueueEntry;
use crate::limits::MAX_H2C_DATA;
use crate::log::TransportType;
use crate::pdu::{C2hData, CapsuleResp, IcResp, R2t, flags};
use crate::sgl::SglSupport;
use crate::transport::send_watch::SendWatch;
use crate::violation::Violation;
use crate::width::to_field;

/// One thing to send.
#[derive(Debug)]
enum Outgoing {
    /// The answer to ICReq.
    IcResp,
    /// The host may send all of a command's data.
    R2t { cid: u16, ttag: u16, length: u32 },
    /// A command is complete: its data, if any, then its completion.
    Complete { entry: CompletionQueueEntry, data: Option<BufList>, may_omit: bool },
}

/// The stream of one connection at the controller.
#[derive(Debug, Default)]
pub(super) struct ControllerTransport {
    /// What ICReq and ICResp have agreed on, once they have.
    pub(super) initialised: bool,
    pub(super) agreed: Agreement,
    /// What comes next in the stream; data belongs to a slot.
    pub(super) receiver: Receiver<u16>,
    outgoing: VecDeque<Outgoing>,
    /// Data in memory of no pool among what is to be sent.
    pub(super) unsent: Unsent,
    pub(super) sending: SendWatch,
    termination: Option<Termination>,
}

impl FabricTransport for ControllerTransport {
    const TRANSPORT: TransportType = TransportType::Tcp;
    const SGLS: SglSupport =
        SglSupport { transport: true, keyed: false, offsets: false, in_capsule: u32::MAX };
    const UNSENT_SIZE: usize = size_of::<Outgoing>();
    const DAMAGED: &'static str = "a data digest that does not match";
    const STALLED: &'static str = "the host stopped in the middle of a PDU";

    #[inline]
    fn send_response(&mut self, response: Response) {
        let Response { completion: entry, data, sq_flow_off: may_omit, .. } = response;
        self.unsent.add(data.as_ref().map_or(0, BufList::unpooled));
        self.outgoing.push_back(Outgoing::Complete { entry, data, may_omit });
    }

    /// The slot is the transfer tag.
    #[inline]
    fn get_data(&mut self, get: GetData<'_>) {
        let GetData { slot: ttag, command, length } = get;
        self.outgoing.push_back(Outgoing::R2t {
            cid: command.entry.cid.get(),
            ttag,
            length: to_field(length),
        });
    }

    /// An R2T that was sent is served (NVMe TCP Transport §3.3.2.2): its data is passed over.
    fn withdraw(&mut self, slot: u16) -> Withdrawal {
        if self.receiver.is_for(slot) {
            return Withdrawal::Arriving;
        }
        let unsent = |outgoing: &Outgoing| matches!(outgoing, Outgoing::R2t { ttag, .. } if *ttag == slot);
        let position = self.outgoing.iter().position(unsent);
        match position.and_then(|at| self.outgoing.remove(at)) {
            Some(_) => Withdrawal::Unsent,
            None => Withdrawal::Passing,
        }
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        Backlog {
            count: self.outgoing.len(),
            unpooled: self.unsent.bytes(),
            // What is allocated cannot overflow.
            tables: self.outgoing.capacity().wrapping_mul(size_of::<Outgoing>()),
        }
    }
}

impl ControllerTransport {
    /// Both sides have agreed how PDUs look from now on, which the host is told.
    pub(super) fn agree(&mut self, agreed: Agreement) {
        (self.agreed, self.initialised) = (agreed, true);
        self.outgoing.push_back(Outgoing::IcResp);
    }

    /// Nothing of what waits is sent any more.
    pub(super) fn clear(&mut self) {
        self.outgoing.clear();
        self.unsent.drop_waiting();
    }

    /// Nothing but the answer to a violation, whose PDU begins with `bytes`, is sent any more.
    pub(super) fn terminate(&mut self, violation: Violation, bytes: &[u8]) {
        self.termination = Some(Termination::new(violation, bytes));
        self.clear();
    }

    /// Puts what waits into PDUs, as much of it as there is room for.
    #[inline]
    pub(super) fn send(&mut self, send: &mut Transmit) {
        while !send.is_full() {
            let Some(outgoing) = self.outgoing.pop_front() else { break };
            self.unsent.leave(outgoing.unpooled());
            outgoing.put(self.agreed, send);
        }
        if self.outgoing.is_empty()
            && let Some(termination) = self.termination.take()
        {
            termination.put(Role::Controller, send);
        }
    }
}

impl Outgoing {
    /// Bytes of data outside of pools.
    fn unpooled(&self) -> usize {
        match self {
            Self::Complete { data: Some(data), .. } => data.unpooled(),
            _ => 0,
        }
    }

    #[inline]
    fn put(self, agreed: Agreement, send: &mut Transmit) {
        match self {
            Self::IcResp => {
                send.put(IcResp::new(agreed.digests, MAX_H2C_DATA).as_bytes());
            }
            Self::R2t { cid, ttag, length } => {
                put_bare(send, agreed, R2t::new(cid, ttag, 0, length).as_mut_bytes());
            }
            Self::Complete { entry, data, may_omit } => {
                let omit = data.is_some() && may_omit && entry.status().is_success() && entry.result() == 0;
                if let Some(data) = data {
                    let mut pdu = C2hData::new(entry.cid.get(), 0, to_field(data.len()));
                    pdu.header.flags = flags::LAST | (u8::from(omit) * flags::SUCCESS);
                    put_with_data(send, agreed, pdu.as_mut_bytes(), data);
                }
                if !omit {
                    put_bare(send, agreed, CapsuleResp::new(entry).as_mut_bytes());
                }
            }
        }
    }
}
