//! What a controller's connection has to send, in order, and its way into PDUs.

use buf::BufList;
use protocol::Transmit;
use zerocopy::IntoBytes;

use crate::cqe::CompletionQueueEntry;
use crate::limits::MAX_H2C_DATA;
use crate::pdu::{C2hData, CapsuleResp, IcResp, R2t, flags};
use crate::transport::{Agreement, PduData, put_bare, put_with_data};
use crate::width::to_field;

/// One thing to send.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// The answer to ICReq.
    IcResp,
    /// The host may send all of a command's data.
    R2t { cid: u16, ttag: u16, length: u32 },
    /// A command is complete: its data, if any, then its completion.
    Complete { entry: CompletionQueueEntry, data: Option<BufList>, may_omit: bool },
}

impl Outgoing {
    /// Bytes of data outside of pools.
    pub(crate) fn unpooled(&self) -> usize {
        match self {
            Self::Complete { data: Some(data), .. } => data.unpooled(),
            _ => 0,
        }
    }

    pub(crate) fn put(self, agreed: Agreement, send: &mut Transmit) {
        match self {
            Self::IcResp => {
                send.put(IcResp::new(agreed.header_digest, agreed.data_digest, MAX_H2C_DATA).as_bytes());
            }
            Self::R2t { cid, ttag, length } => {
                put_bare(send, agreed, R2t::new(cid, ttag, 0, length).as_mut_bytes());
            }
            Self::Complete { entry, data, may_omit } => {
                let omit = data.is_some() && may_omit && entry.status().is_success() && entry.result() == 0;
                if let Some(data) = data {
                    put_data(send, agreed, HostData { cid: entry.cid.get(), data, success: omit });
                }
                if !omit {
                    put_bare(send, agreed, CapsuleResp::new(entry).as_mut_bytes());
                }
            }
        }
    }
}

/// Data of a command for the host; with `success` it is also the command's completion.
struct HostData {
    cid: u16,
    data: BufList,
    success: bool,
}

fn put_data(send: &mut Transmit, agreed: Agreement, host_data: HostData) {
    let HostData { cid, data, success } = host_data;
    let length = data.len();
    let mut pdu = C2hData::new(cid, 0, to_field(length));
    pdu.header.flags = flags::LAST | (u8::from(success) * flags::SUCCESS);
    put_with_data(send, agreed, pdu.as_mut_bytes(), PduData { length, pieces: data.into_pieces() });
}
