//! Values to be sent (RFC 4506 §4).

use buf::BufList;

use super::padding;
use super::stream::{Payload, Stream};

/// Bytes of most calls and replies beside their payloads.
const USUAL: usize = 256;
/// Zeros to fill up a unit with.
const ZEROS: [u8; 3] = [0; 3];

/// A type with one form on the wire, to be written.
pub trait Encode {
    /// Writes it at the end. Whoever made the value kept it within the type's bounds.
    fn encode(&self, writer: &mut Writer);
}

/// A word that is written now and known later: a number of elements, the status of a whole.
#[derive(Debug)]
#[must_use = "the word stays zero unless it is set"]
pub struct Place(usize);

/// How far a stream was written: what comes behind can be taken back.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    bytes: usize,
    payloads: usize,
}

/// Writes values at the end of a [`Stream`].
///
/// It cannot fail, and grows as needed: who writes an answer of unknown length looks at [`len`](Self::len), and takes back to a [`Mark`] what is too much.
#[derive(Debug, Default)]
pub struct Writer {
    stream: Stream,
}

impl Writer {
    /// Begins an empty stream, with memory for what most calls and replies have beside payloads: it does not move as it grows.
    pub fn new() -> Self {
        Self { stream: Stream::with_capacity(USUAL) }
    }

    /// Begins a stream in the memory of one that was sent: writing allocates nothing that fitted into it before.
    pub fn reuse(mut sent: Stream) -> Self {
        sent.clear();
        Self { stream: sent }
    }

    /// What was written.
    pub fn finish(self) -> Stream {
        self.stream
    }

    /// Bytes so far, payloads included; a multiple of a unit.
    pub fn len(&self) -> usize {
        self.stream.len()
    }

    /// True when nothing was written.
    pub fn is_empty(&self) -> bool {
        self.stream.is_empty()
    }

    /// An unsigned integer (RFC 4506 §4.2), or a value of an enumeration (§4.3).
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.stream.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// An integer (RFC 4506 §4.1).
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.stream.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// An unsigned hyper integer (RFC 4506 §4.5).
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.stream.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// A hyper integer (RFC 4506 §4.5).
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.stream.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// Opaque data whose length the type says, with its padding (RFC 4506 §4.9).
    pub fn fixed(&mut self, bytes: &[u8]) {
        self.stream.bytes.extend_from_slice(bytes);
        self.pad(bytes.len());
    }

    /// Opaque data of any length, or a string: length, copied bytes, padding (RFC 4506 §4.10, §4.11).
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.fixed(bytes);
    }

    /// Opaque data that is shared memory, which is not copied: length, data, padding (RFC 4506 §4.10).
    pub fn payload(&mut self, data: BufList) {
        let length = data.len();
        self.length(length);
        self.stream.add(Payload { after: self.stream.bytes.len(), data });
        self.pad(length);
    }

    /// An operation whose payload the requester has named memory for has failed, and has none: that memory stays unused (RFC 8267). Writes no bytes.
    pub fn no_payload(&mut self) {
        self.stream.add(Payload { after: self.stream.bytes.len(), data: BufList::new() });
    }

    /// A length word. Lengths have 32 bits: nothing that is longer is kept in memory.
    pub fn length(&mut self, length: usize) {
        self.u32(wire::bounded(length));
    }

    fn pad(&mut self, length: usize) {
        self.stream.bytes.extend_from_slice(ZEROS.get(..padding(length)).unwrap_or_default());
    }

    /// A value of a type; booleans and optional data (RFC 4506 §4.4, §4.19) too.
    pub fn put<T: Encode + ?Sized>(&mut self, value: &T) {
        value.encode(self);
    }

    /// An array: the number of values, and the values (RFC 4506 §4.13).
    pub fn array<T: Encode>(&mut self, values: &[T]) {
        self.length(values.len());
        for value in values {
            value.encode(self);
        }
    }

    /// A list: each value behind a word that says that one more follows (RFC 4506 §4.19).
    pub fn list<T: Encode>(&mut self, values: &[T]) {
        for value in values {
            true.encode(self);
            value.encode(self);
        }
        false.encode(self);
    }

    /// A word that is [set](Self::set) later; zero until then.
    pub fn place(&mut self) -> Place {
        let place = Place(self.stream.bytes.len());
        self.u32(0);
        place
    }

    /// Sets the word of a place. Does nothing if the place was taken back.
    #[expect(clippy::needless_pass_by_value, reason = "a word is set once")]
    pub fn set(&mut self, place: Place, value: u32) {
        let word = self.stream.bytes.get_mut(place.0..);
        if let Some(word) = word.and_then(<[u8]>::first_chunk_mut) {
            *word = value.to_be_bytes();
        }
    }

    /// How far it is.
    pub fn mark(&self) -> Mark {
        Mark { bytes: self.stream.bytes.len(), payloads: self.stream.payloads.len() }
    }

    /// Takes back everything that was written since `mark`.
    pub fn rewind(&mut self, mark: Mark) {
        self.stream.truncate(mark.bytes, mark.payloads);
    }
}

macro_rules! encode {
    ($($name:ident)*) => {
        $(impl Encode for $name {
            fn encode(&self, writer: &mut Writer) {
                writer.$name(*self);
            }
        })*
    };
}

encode!(u32 i32 u64 i64);

impl Encode for bool {
    fn encode(&self, writer: &mut Writer) {
        writer.u32(u32::from(*self));
    }
}

impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, writer: &mut Writer) {
        writer.fixed(self);
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, writer: &mut Writer) {
        self.is_some().encode(writer);
        if let Some(value) = self {
            value.encode(writer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Piece, Reader};
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use buf::SharedBuf;

    #[test]
    fn values_in_order() {
        let mut writer = Writer::new();
        writer.u32(7);
        writer.i32(-2);
        writer.put(&true);
        writer.u64(0x1_0000_0002);
        writer.i64(-1);
        writer.opaque(b"abc");
        writer.put(&[9_u8, 8, 7, 6, 5]);
        writer.put(&None::<u32>);
        writer.array(&[1_u32, 2]);
        writer.list(&[3_u32]);
        let expected = [
            [0, 0, 0, 7, 0xff, 0xff, 0xff, 0xfe],
            [0, 0, 0, 1, 0, 0, 0, 1],
            [0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff],
            [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 3],
            [b'a', b'b', b'c', 0, 9, 8, 7, 6],
            [5, 0, 0, 0, 0, 0, 0, 0],
            [0, 0, 0, 2, 0, 0, 0, 1],
            [0, 0, 0, 2, 0, 0, 0, 1],
            [0, 0, 0, 3, 0, 0, 0, 0],
        ];
        assert_eq!(writer.finish().bytes(), expected.concat());
    }

    #[test]
    fn a_payload_is_shared_and_padded() {
        let data = SharedBuf::from(vec![1, 2, 3, 4, 5]);
        let memory = data.as_ptr();
        let mut writer = Writer::new();
        writer.u32(0);
        writer.payload(data.into());
        writer.u32(9);
        assert_eq!(writer.len(), 20);
        let stream = writer.finish();
        assert!(stream.pieces().any(|piece| matches!(piece, Piece::Shared(it) if it.as_ptr() == memory)));
        assert_eq!(stream.payloads().iter().map(|payload| payload.after).collect::<Vec<_>>(), [8]);
        let list = stream.into_list();
        assert!(list.pieces().iter().any(|piece| piece.as_ptr() == memory), "not copied");
        let expected = [[0, 0, 0, 0, 0, 0, 0, 5], [1, 2, 3, 4, 5, 0, 0, 0]].concat();
        let whole = list.into_one();
        assert_eq!((&whole[..16], &whole[16..]), (&expected[..], &[0, 0, 0, 9][..]));
    }

    #[test]
    fn words_are_set_later_and_what_was_too_much_is_taken_back() {
        let mut writer = Writer::new();
        let count = writer.place();
        writer.u32(1);
        let mark = writer.mark();
        let gone = writer.place();
        writer.payload(SharedBuf::from(vec![0; 9]).into());
        assert_eq!(writer.len(), 8 + 4 + 4 + 12);
        writer.rewind(mark);
        writer.set(gone, 5);
        writer.set(count, 1);
        let stream = writer.finish();
        assert_eq!((stream.len(), stream.payloads().len()), (8, 0));
        let mut reader = Reader::new(stream.bytes());
        assert_eq!((reader.array::<u32>(1), reader.end()), (Ok(vec![1]), Ok(())));
    }
}
