//! Headers of RPC-over-RDMA messages (RFC 8166 §4).

use alloc::vec::Vec;

use verbs::{RemoteRegion, STag};

use crate::limits::{CHUNKS, SEGMENTS};
use crate::xdr::{Encode, Error, Reader, Writer};

/// The version that is spoken here (RFC 8166 §4.1).
pub(super) const VERSION: u32 = 1;

const RDMA_MSG: u32 = 0;
const RDMA_NOMSG: u32 = 1;
const RDMA_ERROR: u32 = 4;
const ERR_VERS: u32 = 1;
const ERR_CHUNK: u32 = 2;

/// Bytes of a header without chunks: seven words.
pub(super) const BARE: usize = 28;

/// A part of a read chunk (RFC 8166 §3.4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadSegment {
    /// Where its chunk belongs in the stream, in bytes; all segments of a chunk have the same. Zero is the message itself.
    pub position: u32,
    /// The memory.
    pub target: RemoteRegion,
}

/// The chunks of a message (RFC 8166 §4.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chunks {
    /// Memory to read arguments from.
    pub reads: Vec<ReadSegment>,
    /// Memory to write payloads of results to, a list of segments for each. In a reply: how much of each segment was written.
    pub writes: Vec<Vec<RemoteRegion>>,
    /// Memory to write a reply to that does not fit into a message.
    pub reply: Option<Vec<RemoteRegion>>,
}

/// Why a message cannot be handled (RFC 8166 §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RdmaError {
    /// ERR_VERS: these versions are spoken.
    Version {
        /// The lowest.
        low: u32,
        /// The highest.
        high: u32,
    },
    /// ERR_CHUNK: the chunks are malformed, or too small.
    Chunk,
}

/// What a message is (RFC 8166 §4.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// RDMA_MSG: an RPC message follows.
    Message(Chunks),
    /// RDMA_NOMSG: an RPC message is in a chunk.
    NoMessage(Chunks),
    /// RDMA_ERROR.
    Error(RdmaError),
}

/// The header of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The number of the call.
    pub xid: u32,
    /// In a call the credits that are asked for, in a reply those that are granted (RFC 8166 §3.3.1).
    pub credits: u32,
    /// What follows.
    pub body: Body,
}

/// Why bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderError {
    /// They are too few to tell which call they belong to: they are dropped.
    Short,
    /// Another version: of this call.
    Version(u32),
    /// The rest of the header of this call cannot be decoded, or its type is unknown.
    Malformed(u32),
}

impl Header {
    /// Reads a header; the RPC message stays.
    ///
    /// # Errors
    /// See [`HeaderError`].
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, HeaderError> {
        let short = |_| HeaderError::Short;
        let (xid, version) = (reader.u32().map_err(short)?, reader.u32().map_err(short)?);
        if version != VERSION {
            return Err(HeaderError::Version(xid));
        }
        let rest = Self::rest(xid, reader);
        rest.map_err(|_| HeaderError::Malformed(xid))
    }

    fn rest(xid: u32, reader: &mut Reader<'_>) -> Result<Self, Error> {
        let credits = reader.u32()?;
        let body = match reader.u32()? {
            RDMA_MSG => Body::Message(Chunks::decode(reader)?),
            RDMA_NOMSG => Body::NoMessage(Chunks::decode(reader)?),
            RDMA_ERROR => Body::Error(match reader.u32()? {
                ERR_VERS => RdmaError::Version { low: reader.u32()?, high: reader.u32()? },
                ERR_CHUNK => RdmaError::Chunk,
                other => return Err(Error::NotInEnumeration(other)),
            }),
            other => return Err(Error::NotInEnumeration(other)),
        };
        Ok(Self { xid, credits, body })
    }
}

impl Encode for Header {
    fn encode(&self, writer: &mut Writer) {
        writer.u32(self.xid);
        writer.u32(VERSION);
        writer.u32(self.credits);
        match &self.body {
            Body::Message(chunks) => {
                writer.u32(RDMA_MSG);
                writer.put(chunks);
            }
            Body::NoMessage(chunks) => {
                writer.u32(RDMA_NOMSG);
                writer.put(chunks);
            }
            Body::Error(RdmaError::Version { low, high }) => {
                for word in [RDMA_ERROR, ERR_VERS, *low, *high] {
                    writer.u32(word);
                }
            }
            Body::Error(RdmaError::Chunk) => {
                writer.u32(RDMA_ERROR);
                writer.u32(ERR_CHUNK);
            }
        }
    }
}

fn segment(reader: &mut Reader<'_>) -> Result<RemoteRegion, Error> {
    let (stag, length) = (STag(reader.u32()?), reader.u32()?);
    Ok(RemoteRegion { stag, offset: reader.u64()?, length })
}

fn write_segment(writer: &mut Writer, segment: &RemoteRegion) {
    writer.u32(segment.stag.0);
    writer.u32(segment.length);
    writer.u64(segment.offset);
}

fn write_segments(writer: &mut Writer, segments: &[RemoteRegion]) {
    writer.length(segments.len());
    for segment in segments {
        write_segment(writer, segment);
    }
}

impl Chunks {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let segments = |reader: &mut Reader<'_>| reader.array_with(SEGMENTS, segment);
        Ok(Self {
            reads: reader.list(CHUNKS.saturating_mul(SEGMENTS), |reader| {
                Ok(ReadSegment { position: reader.u32()?, target: segment(reader)? })
            })?,
            writes: reader.list(CHUNKS, segments)?,
            reply: reader.optional(segments)?,
        })
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty() && self.reply.is_none()
    }

    /// Bytes of the lists in a header, beyond those of empty ones.
    pub(super) fn size(&self) -> usize {
        let chunk = |segments: &[RemoteRegion]| segments.len().saturating_mul(16).saturating_add(4);
        let writes: usize = self.writes.iter().map(|segments| chunk(segments).saturating_add(4)).sum();
        let reply = self.reply.as_deref().map_or(0, chunk);
        self.reads.len().saturating_mul(24).saturating_add(writes).saturating_add(reply)
    }
}

impl Encode for Chunks {
    fn encode(&self, writer: &mut Writer) {
        for read in &self.reads {
            writer.put(&true);
            writer.u32(read.position);
            write_segment(writer, &read.target);
        }
        writer.put(&false);
        for segments in &self.writes {
            writer.put(&true);
            write_segments(writer, segments);
        }
        writer.put(&false);
        writer.put(&self.reply.is_some());
        if let Some(segments) = &self.reply {
            write_segments(writer, segments);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn region(stag: u32, length: u32, offset: u64) -> RemoteRegion {
        RemoteRegion { stag: STag(stag), offset, length }
    }

    #[test]
    fn golden_headers() {
        let chunks = Chunks {
            reads: vec![ReadSegment { position: 0x7c, target: region(0xaabb, 4096, 0x1_0000_0002) }],
            writes: vec![vec![region(5, 6, 7), region(8, 9, 10)]],
            reply: Some(vec![region(11, 12, 13)]),
        };
        let lists = [
            1, 0x7c, 0xaabb, 4096, 1, 2, 0, // the read list
            1, 2, 5, 6, 0, 7, 8, 9, 0, 10, 0, // the write list
            1, 1, 11, 12, 0, 13, // the reply chunk
        ];
        let all = [
            (Body::Message(Chunks::default()), vec![0, 0, 0, 0]),
            (Body::Message(chunks.clone()), [&[0][..], &lists].concat()),
            (Body::NoMessage(chunks.clone()), [&[1][..], &lists].concat()),
            (Body::Error(RdmaError::Version { low: 1, high: 1 }), vec![4, 1, 1, 1]),
            (Body::Error(RdmaError::Chunk), vec![4, 2]),
        ];
        for (body, words) in all {
            let header = Header { xid: 0x0102_0304, credits: 32, body };
            let mut writer = Writer::new();
            writer.put(&header);
            let words = [&[0x0102_0304, 1, 32][..], &words].concat();
            let expected: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
            assert_eq!(writer.finish().bytes(), expected, "{header:?}");
            let mut reader = Reader::new(&expected);
            assert_eq!((Header::decode(&mut reader), reader.remaining()), (Ok(header), 0));
            for end in 8..expected.len() {
                let cut = Header::decode(&mut Reader::new(&expected[..end]));
                assert_eq!(cut, Err(HeaderError::Malformed(0x0102_0304)));
            }
        }
        assert_eq!(chunks.size(), 4 * lists.len() - 12);
        assert_eq!(Header::decode(&mut Reader::new(&[0; 7])), Err(HeaderError::Short));
    }

    #[test]
    fn bounds() {
        let decode = |words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            Header::decode(&mut Reader::new(&bytes)).map(|_| ())
        };
        assert_eq!(decode(&[9, 2, 1, 0, 0, 0, 0]), Err(HeaderError::Version(9)));
        for kind in [2, 3, 5, 77] {
            assert_eq!(decode(&[9, 1, 1, kind, 0, 0, 0]), Err(HeaderError::Malformed(9)));
        }
        let read = [1, 0, 1, 1, 0, 0];
        let reads = |count: usize| [&[9, 1, 1, 0][..], &read.repeat(count), &[0, 0, 0]].concat();
        assert_eq!(decode(&reads(CHUNKS * SEGMENTS)), Ok(()));
        assert_eq!(decode(&reads(CHUNKS * SEGMENTS + 1)), Err(HeaderError::Malformed(9)));
        let writes = |count: usize| [&[9, 1, 1, 0, 0][..], &[1, 0].repeat(count), &[0, 0]].concat();
        assert_eq!(decode(&writes(CHUNKS)), Ok(()));
        assert_eq!(decode(&writes(CHUNKS + 1)), Err(HeaderError::Malformed(9)));
        let reply =
            |count: u32| [&[9, 1, 1, 0, 0, 0, 1, count][..], &[1, 1, 0, 0].repeat(count as usize)].concat();
        assert_eq!(decode(&reply(16)), Ok(()));
        assert_eq!(decode(&reply(17)), Err(HeaderError::Malformed(9)));
    }

    proptest! {
        /// Any words are decoded or refused, and what is decoded is encoded as it came.
        #[test]
        fn any_words(words in proptest::collection::vec(prop_oneof![0_u32..4, any::<u32>()], 0..60)) {
            let words = [&[7, 1][..], &words].concat();
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            let mut reader = Reader::new(&bytes);
            if let Ok(header) = Header::decode(&mut reader) {
                let mut writer = Writer::new();
                writer.put(&header);
                let read = bytes.len() - reader.remaining();
                let written = writer.finish();
                prop_assert_eq!(written.bytes(), &bytes[..read]);
            }
        }
    }
}
