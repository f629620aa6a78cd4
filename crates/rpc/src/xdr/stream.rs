//! What a writer has written: bytes, and memory that is shared between them.

use alloc::vec::Vec;

use buf::{BufList, SharedBuf};

use super::padding;

/// Opaque data that is shared memory: of a READ's answer, of a WRITE's arguments. Its length word stands before it, in the bytes of its stream.
///
/// Over a byte stream it goes out where it stands. Over RDMA it travels apart from the rest: what was written so is what RFC 8166 §3.4 calls a data item that
/// is eligible for direct data placement.
#[derive(Debug, Clone)]
pub struct Payload {
    /// How many of the stream's bytes come before it.
    pub after: usize,
    /// The data, without its padding, which is among the stream's bytes. It may be empty; so that the memory that a requester has named for it is known to
    /// stay unused.
    pub data: BufList,
}

/// A part of a stream.
#[derive(Debug, Clone, Copy)]
pub enum Piece<'a> {
    /// Bytes, which are copied to where they are sent from.
    Bytes(&'a [u8]),
    /// A part of a payload, which is not.
    Shared(&'a SharedBuf),
}

impl<'a> Piece<'a> {
    /// Its bytes, wherever they are.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Shared(shared) => shared,
        }
    }
}

/// An XDR stream: the arguments or the results of a call, to be sent.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    /// Everything but the payloads.
    pub(super) bytes: Vec<u8>,
    /// The payloads in order.
    pub(super) payloads: Vec<Payload>,
    /// Bytes of all payloads.
    payload_bytes: usize,
}

impl Stream {
    /// An empty stream with room for so many bytes beside payloads.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Bytes on the wire: a multiple of a unit.
    pub fn len(&self) -> usize {
        self.bytes.len().saturating_add(self.payload_bytes)
    }

    /// True when nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Everything but the payloads.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The payloads in order.
    pub fn payloads(&self) -> &[Payload] {
        &self.payloads
    }

    /// What goes out, in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        self.reduced(|_| false)
    }

    /// What goes out without the payloads that travel apart, which `apart` names by their number, and without their padding (RFC 8166 §3.4.1).
    pub fn reduced(&self, apart: impl Fn(usize) -> bool) -> impl Iterator<Item = Piece<'_>> {
        let mut from = 0;
        let behind = self.payloads.iter().enumerate().map(|(index, payload)| (index, Some(payload)));
        let all = behind.chain([(self.payloads.len(), None)]);
        all.flat_map(move |(index, payload)| {
            let after = payload.map_or(self.bytes.len(), |payload| payload.after);
            let bytes = self.bytes.get(from..after).unwrap_or_default();
            let leaves = apart(index);
            let shared: &[SharedBuf] = match payload {
                Some(payload) if !leaves => payload.data.pieces(),
                _ => &[],
            };
            from = match payload {
                Some(payload) if leaves => after.saturating_add(padding(payload.data.len())),
                _ => after,
            };
            core::iter::once(Piece::Bytes(bytes)).chain(shared.iter().map(Piece::Shared))
        })
    }

    /// The bytes of a stream without payloads.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Everything as one list: the bytes become memory that is shared, payloads stay where they are.
    pub fn into_list(self) -> BufList {
        let Self { bytes, payloads, .. } = self;
        let bytes = SharedBuf::from(bytes);
        let (mut list, mut from) = (BufList::new(), 0);
        for Payload { after, data } in payloads {
            list.push(bytes.slice(from..after));
            list.append(data);
            from = after;
        }
        list.push(bytes.slice(from..));
        list
    }

    /// Bytes that it holds in memory of no pool.
    pub(crate) fn unpooled(&self) -> usize {
        let payloads: usize = self.payloads.iter().map(|payload| payload.data.unpooled()).sum();
        self.capacity().saturating_add(payloads)
    }

    /// Bytes of its tables.
    pub(crate) fn capacity(&self) -> usize {
        let payloads = self.payloads.capacity().saturating_mul(size_of::<Payload>());
        self.bytes.capacity().saturating_add(payloads)
    }

    /// Lets go of everything and keeps the tables, so that writing the next stream into them allocates nothing.
    pub fn clear(&mut self) {
        self.truncate(0, 0);
    }

    pub(super) fn add(&mut self, payload: Payload) {
        self.payload_bytes = self.payload_bytes.saturating_add(payload.data.len());
        self.payloads.push(payload);
    }

    /// Keeps so many bytes and payloads.
    pub(super) fn truncate(&mut self, bytes: usize, payloads: usize) {
        self.bytes.truncate(bytes);
        self.payloads.truncate(payloads);
        self.payload_bytes = self.payloads.iter().map(|payload| payload.data.len()).sum();
    }
}
