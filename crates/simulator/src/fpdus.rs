//! The stream that one end of a connection over software iWARP sends, cut into what it carries: for peers that change it on its way. Without markers.

/// Bytes of a set-up frame before its private data, and where their number stands (RFC 5044 §7.1.1).
const FRAME: usize = 20;
const FRAME_LENGTH: usize = 18;

/// What a stream carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Carried {
    /// The frame of the set-up.
    Frame(Vec<u8>),
    /// A DDP segment.
    Segment(Vec<u8>),
}

/// Cuts a stream.
#[derive(Debug, Default)]
pub(crate) struct Cutter {
    bytes: Vec<u8>,
    is_set_up: bool,
}

impl Cutter {
    /// More of the stream.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next that has come whole.
    pub(crate) fn take(&mut self) -> Option<Carried> {
        if !self.is_set_up {
            let whole = FRAME + self.number(FRAME_LENGTH)?;
            let frame = (self.bytes.len() >= whole).then(|| self.bytes.drain(..whole).collect())?;
            self.is_set_up = true;
            return Some(Carried::Frame(frame));
        }
        let length = self.number(0)?;
        let whole = (2 + length).next_multiple_of(4) + 4;
        let fpdu: Vec<u8> = (self.bytes.len() >= whole).then(|| self.bytes.drain(..whole).collect())?;
        Some(Carried::Segment(fpdu[2..2 + length].to_vec()))
    }

    fn number(&self, at: usize) -> Option<usize> {
        let number: [u8; 2] = *self.bytes.get(at..)?.first_chunk()?;
        Some(u16::from_be_bytes(number).into())
    }
}

/// The FPDU of a segment. Its CRC does no harm where there are none.
pub(crate) fn fpdu(segment: &[u8]) -> Vec<u8> {
    let mut bytes = wire::bounded::<u16>(segment.len()).to_be_bytes().to_vec();
    bytes.extend_from_slice(segment);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let crc = wire::crc32c(&bytes);
    bytes.extend(crc.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_cut_wherever_its_bytes_end() {
        let frame = [&b"MPA ID Req Frame\x10\x02\x00\x04"[..], &[1, 2, 3, 4]].concat();
        let segments = [vec![], vec![7; 18], vec![8; 1443]];
        let stream = [frame.clone(), segments.iter().flat_map(|segment| fpdu(segment)).collect()].concat();
        for chunk in [1, 7, stream.len()] {
            let (mut cutter, mut carried) = (Cutter::default(), Vec::new());
            for bytes in stream.chunks(chunk) {
                cutter.put(bytes);
                carried.extend(std::iter::from_fn(|| cutter.take()));
            }
            assert_eq!(carried[0], Carried::Frame(frame.clone()));
            assert!(carried[1..].iter().cloned().eq(segments.iter().cloned().map(Carried::Segment)));
        }
    }
}
