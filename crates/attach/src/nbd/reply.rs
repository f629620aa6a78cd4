//! Replies as they go out: headers copied, data shared (the NBD project's protocol document, "Simple reply message",
//! "Structured reply chunk message").

use buf::BufList;
use protocol::Transmit;
use zerocopy::IntoBytes;

use super::export::ReplyForm;
use super::handshake::ALLOCATION_ID;
use super::requests::{Pending, Work};
use super::wire::{Chunk, ChunkHeader, Descriptor, Failure, SimpleReply};
use crate::convert::short;

/// Something to send.
#[derive(Debug)]
pub(crate) enum Reply {
    /// What the negotiation says.
    Bytes(Vec<u8>),
    /// Success or an error, and nothing more.
    Simple(SimpleReply),
    /// Data behind a simple reply.
    Plain(SimpleReply, BufList),
    /// Data in a chunk.
    Data {
        cookie: u64,
        offset: u64,
        /// Bytes of data.
        length: u32,
        data: BufList,
    },
    /// Extents.
    Extents(u64, Vec<Descriptor>),
    /// An error in a chunk.
    Error(u64, Failure),
}

impl Reply {
    /// Bytes of it outside of pools.
    pub(super) fn unpooled(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Extents(_, found) => size_of_val(found.as_slice()),
            Self::Plain(_, data) | Self::Data { data, .. } => data.unpooled(),
            Self::Simple(_) | Self::Error(..) => 0,
        }
    }

    /// The reply to a request that is over.
    pub(crate) fn of(pending: Pending, form: ReplyForm) -> Self {
        let cookie = pending.cookie;
        if let Some(failure) = pending.failure {
            let has_chunks = matches!(pending.work, Work::Read(_) | Work::BlockStatus { .. });
            return Self::failed(cookie, failure, if has_chunks { form } else { ReplyForm::Simple });
        }
        let simple = SimpleReply::new(0, cookie);
        match pending.work {
            Work::Read(pieces) => {
                let mut data = BufList::new();
                pieces.into_iter().flatten().for_each(|piece| data.append(piece));
                match form {
                    ReplyForm::Structured => {
                        Self::Data { cookie, offset: pending.offset, length: pending.length, data }
                    }
                    ReplyForm::Simple => Self::Plain(simple, data),
                }
            }
            Work::BlockStatus { found, .. } => Self::Extents(cookie, found),
            _ => Self::Simple(simple),
        }
    }

    /// A reply that reports an error, in the form that the client expects it in.
    pub(crate) fn failed(cookie: u64, failure: Failure, form: ReplyForm) -> Self {
        match form {
            ReplyForm::Structured => Self::Error(cookie, failure),
            ReplyForm::Simple => Self::Simple(SimpleReply::new(failure.0, cookie)),
        }
    }

    /// Adds it to a send.
    pub(crate) fn put(self, send: &mut Transmit) {
        match self {
            Self::Bytes(bytes) => send.put(&bytes),
            Self::Simple(reply) => send.put(reply.as_bytes()),
            Self::Plain(reply, data) => {
                send.put(reply.as_bytes());
                data.into_pieces().for_each(|piece| send.put_shared(piece));
            }
            Self::Data { cookie, offset, length, data } => {
                let payload = length.saturating_add(short(size_of::<u64>()));
                send.put(ChunkHeader::only(Chunk::OFFSET_DATA, cookie, payload).as_bytes());
                send.put(&offset.to_be_bytes());
                data.into_pieces().for_each(|piece| send.put_shared(piece));
            }
            Self::Extents(cookie, found) => {
                let payload = short(size_of::<u32>() + found.as_bytes().len());
                send.put(ChunkHeader::only(Chunk::BLOCK_STATUS, cookie, payload).as_bytes());
                send.put(&ALLOCATION_ID.to_be_bytes());
                send.put(found.as_bytes());
            }
            Self::Error(cookie, failure) => {
                // The number, and a message of no bytes.
                let payload = short(size_of::<u32>() + size_of::<u16>());
                send.put(ChunkHeader::only(Chunk::ERROR, cookie, payload).as_bytes());
                send.put(&failure.0.to_be_bytes());
                send.put(&0_u16.to_be_bytes());
            }
        }
    }
}
