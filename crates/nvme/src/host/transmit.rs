//! What a host's connection has to send, in order, and its way into PDUs.

use buf::BufList;
use protocol::Transmit;
use zerocopy::IntoBytes;

use crate::pdu::{CapsuleCmd, H2cData, IcReq, flags};
use crate::sqe::SubmissionQueueEntry;
use crate::transport::{Agreement, put_bare, put_with_data};

/// One thing to send.
#[derive(Debug)]
pub(crate) enum Outgoing {
    IcReq {
        header_digest: bool,
        data_digest: bool,
    },
    /// A command with its in-capsule data, which may be none.
    Command {
        entry: SubmissionQueueEntry,
        data: BufList,
    },
    /// A piece of a command's data.
    Data {
        cid: u16,
        ttag: u16,
        offset: u32,
        data: BufList,
        last: bool,
    },
}

impl Outgoing {
    pub(crate) fn put(self, agreed: Agreement, send: &mut Transmit) {
        match self {
            Self::IcReq { header_digest, data_digest } => {
                send.put(IcReq::new(header_digest, data_digest, 0).as_bytes());
            }
            Self::Command { entry, data } if data.is_empty() => {
                put_bare(send, agreed, CapsuleCmd::new(entry).as_mut_bytes());
            }
            Self::Command { entry, data } => {
                let length = data.len();
                let pieces = data.into_pieces();
                put_with_data(send, agreed, CapsuleCmd::new(entry).as_mut_bytes(), (length, pieces));
            }
            Self::Data { cid, ttag, offset, data, last } => {
                let length = data.len();
                let mut pdu = H2cData::new(cid, ttag, offset, u32::try_from(length).unwrap_or(u32::MAX));
                pdu.header.flags = u8::from(last) * flags::LAST;
                put_with_data(send, agreed, pdu.as_mut_bytes(), (length, data.into_pieces()));
            }
        }
    }
}
