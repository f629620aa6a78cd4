//! RDMA Reads of the peer that are to be answered, in the order in which they came (RFC 5040 §5.2): as many as IRD says, so that a peer cannot make us keep more.

use alloc::collections::VecDeque;

use verbs::{RemoteRegion, STag};
use zerocopy::{FromBytes, IntoBytes};

use crate::ddp::{Segment, UNTAGGED};
use crate::rdmap::{READ_REQUEST, ReadRequest};

/// Bytes of the headers of a request.
const HEADERS: usize = UNTAGGED + READ_REQUEST;

/// A request of the peer's.
#[derive(Debug)]
pub(crate) struct InboundRead {
    /// Its headers, as they came: a Terminate carries them if it turns out later that it may not be answered.
    headers: [u8; HEADERS],
    request: ReadRequest,
    /// Bytes of the response that have been put into a send.
    sent: u32,
}

/// A segment of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResponseSegment {
    /// What it carries.
    pub(crate) source: RemoteRegion,
    /// Where it goes.
    pub(crate) sink: RemoteRegion,
    pub(crate) segment: Segment,
}

impl InboundRead {
    /// The request whose headers these are.
    pub(crate) fn new(headers: &[u8]) -> Option<Self> {
        let (headers, _) = <[u8; HEADERS]>::read_from_prefix(headers).ok()?;
        let request = ReadRequest::read_from_bytes(headers.as_bytes().get(UNTAGGED..)?).ok()?;
        Some(Self { headers, request, sent: 0 })
    }

    /// What it reads.
    pub(crate) fn source(&self) -> RemoteRegion {
        RemoteRegion {
            stag: STag(self.request.source_stag.get()),
            offset: self.request.source_offset.get(),
            length: self.request.length.get(),
        }
    }

    pub(crate) fn headers(&self) -> &[u8] {
        &self.headers
    }

    /// Its next segment, of at most `most` bytes.
    pub(crate) fn segment(&self, most: usize) -> ResponseSegment {
        let left = self.request.length.get().saturating_sub(self.sent);
        let length = left.min(wire::saturate::<u32>(most));
        let sent = u64::from(self.sent);
        let source =
            RemoteRegion { offset: self.source().offset.saturating_add(sent), length, ..self.source() };
        let sink = RemoteRegion {
            stag: STag(self.request.sink_stag.get()),
            offset: self.request.sink_offset.get().wrapping_add(sent),
            length,
        };
        ResponseSegment {
            source,
            sink,
            segment: if length == left { Segment::Last } else { Segment::Intermediate },
        }
    }
}

/// The requests of a connection.
#[derive(Debug)]
pub(crate) struct InboundReads {
    reads: VecDeque<InboundRead>,
    limit: usize,
}

impl InboundReads {
    /// At most `limit` of them.
    pub(crate) fn new(limit: u16) -> Self {
        let limit = usize::from(limit);
        Self { reads: VecDeque::with_capacity(limit), limit }
    }

    /// Bytes that `limit` of them take.
    pub(crate) fn bytes(limit: u16) -> usize {
        usize::from(limit).saturating_mul(size_of::<InboundRead>())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.reads.len() >= self.limit
    }

    pub(crate) fn push(&mut self, read: InboundRead) {
        debug_assert!(!self.is_full(), "the peer keeps to IRD");
        self.reads.push_back(read);
    }

    /// The one that is being answered.
    pub(crate) fn front(&self) -> Option<&InboundRead> {
        self.reads.front()
    }

    /// A segment of the response to the front one has been put into a send; true if the response is over.
    pub(crate) fn sent(&mut self, response: &ResponseSegment) -> bool {
        let is_over = response.segment == Segment::Last;
        if is_over {
            self.reads.pop_front();
        } else if let Some(read) = self.reads.front_mut() {
            read.sent = read.sent.saturating_add(response.sink.length);
        }
        is_over
    }

    pub(crate) fn clear(&mut self) {
        self.reads.clear();
    }
}
