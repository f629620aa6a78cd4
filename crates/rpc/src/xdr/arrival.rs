//! A stream whose bytes arrive piecewise, and whose payloads go straight into memory of their own.
//!
//! The arguments of a COMPOUND are a few hundred bytes of values with up to a megabyte of a WRITE's data in the middle. They are decoded while they arrive,
//! so that nobody collects the megabyte to find out where it belongs:
//!
//! 1. The upper protocol decodes one *item* a [`step`](Decoder::step), for example an operation of a COMPOUND, and keeps what it has read. If the bytes end
//!    within the item, the step fails with [`Error::Truncated`] and changes nothing: the same item is read again, from its beginning, once more bytes are there.
//! 2. Behind the length word of opaque data that wants memory of its own, the step answers [`Step::Payload`]. The next step begins behind that data and its
//!    padding, with the next item or with the rest of this one.
//! 3. Whoever owns the [`Arrival`] gets memory for the payload, waits if there is none, and lets the transport fill it ([`Arrival::lend`]): over a byte
//!    stream it is a [`Placement`](protocol::Placement), over RDMA the target of an RDMA Read ([`Arrival::pass_over`]).
//! 4. [`Step::End`] says that all is read. What follows in the record is not looked at.
//!
//! ```text
//!           step: Next          lend          take_back, in part
//!            ┌──┐  Payload    ┌──────┐ ─────► ┌──────┐ ─────┐
//!            ▼  │ ──────────► │Wanted│        │ Lent │      │
//!  begin ─► Values            └──┬───┘ ◄───── └──┬───┘ ◄────┘
//!            ▲ │  ▲  pass_over   │   provide     │ take_back, whole
//!            │ │  └──────────────┘               ▼
//!            │ └─► Ended                      Padding ──► Values
//! ```

use alloc::vec::Vec;

use buf::Buf;
use protocol::Placement;

use super::{Error, Reader, padding};

/// An item whose front was gathered is tried with so many bytes more, or with as many as it is known to need: enough for most.
const GATHERED: usize = 512;

/// What a decoder says after it has read an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Another item follows.
    Next,
    /// The length word of opaque data was read, which is so long, in bytes, and goes into memory of its own. The decoder has checked the length.
    Payload(usize),
    /// In results: an operation for whose payload memory was named has failed, and has none. The next payload belongs into the memory behind.
    NoPayload,
    /// Everything was read.
    End,
}

/// Reads a stream item by item: an upper protocol's arguments or results. An item may be of no bytes, if there are not endlessly many of them.
pub trait Decoder {
    /// Reads the next item. `reader` begins at it, and ends where the bytes that have come end.
    ///
    /// # Errors
    /// [`Error::Truncated`] leaves the decoder as it was; it is asked again with more bytes, or the record has ended. Any other error ends the stream.
    fn step(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error>;
}

/// What comes next in the stream.
#[derive(Debug, Default)]
enum State {
    /// An item.
    #[default]
    Values,
    /// A payload without memory.
    Wanted { length: usize },
    /// Memory that was named stays unused.
    Unused,
    /// A payload with memory, of which the first `filled` bytes are there.
    Filling { buf: Buf, length: usize, filled: usize },
    /// The same, and the transport has the memory.
    Lent { length: usize, filled: usize },
    /// What fills up a payload's last unit.
    Padding { bytes: usize },
    /// Nothing.
    Ended,
}

/// A stream on its way in.
#[derive(Debug)]
pub struct Arrival {
    state: State,
    /// The front of an item that has not come whole.
    gathered: Vec<u8>,
    /// How many bytes that item needs at least beyond these.
    missing: usize,
    /// Bytes of the longest item.
    longest: usize,
    /// Bytes of the stream that were read.
    position: usize,
}

impl Arrival {
    /// A stream whose items have at most `longest` bytes each, payloads not counted. It holds no more than one of them.
    pub fn new(longest: usize) -> Self {
        Self { state: State::Values, gathered: Vec::new(), missing: 0, longest, position: 0 }
    }

    /// Begins the next stream.
    pub fn restart(&mut self) {
        self.gathered.clear();
        (self.state, self.missing, self.position) = (State::Values, 0, 0);
    }

    /// Bytes of the stream that were read, payloads and their padding included: where the payload that is [wanted](Self::wanted) begins.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes that it holds outside of payloads.
    pub fn held(&self) -> usize {
        self.gathered.capacity()
    }

    /// True when the decoder has read all it wants.
    pub fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// The length of a payload that has no memory yet. One of no bytes needs none: it is [passed over](Self::pass_over).
    pub fn wanted(&self) -> Option<usize> {
        if let State::Wanted { length } = self.state { Some(length) } else { None }
    }

    /// True, once, where the decoder has said [`Step::NoPayload`].
    pub fn take_unused(&mut self) -> bool {
        let unused = matches!(self.state, State::Unused);
        if unused {
            self.state = State::Values;
        }
        unused
    }

    /// Bytes of the stream that must still come before the decoder goes on, as far as that is known: of a payload and its padding, or of an item.
    pub fn outstanding(&self) -> usize {
        match self.state {
            State::Values => self.missing,
            State::Wanted { length } => length.saturating_add(padding(length)),
            State::Filling { length, filled, .. } | State::Lent { length, filled } => {
                length.saturating_sub(filled).saturating_add(padding(length))
            }
            State::Padding { bytes } => bytes,
            State::Unused | State::Ended => 0,
        }
    }

    /// Gives the next bytes to the decoder and says how many were consumed from the front. It stops before a payload, and at the end.
    ///
    /// # Errors
    /// The decoder's, [`Error::TooLong`] for an item that is longer than the longest, [`Error::Padding`]: the stream has no further use.
    pub fn handle_bytes(&mut self, bytes: &[u8], decoder: &mut impl Decoder) -> Result<usize, Error> {
        let mut used = 0_usize;
        loop {
            let rest = bytes.get(used..).unwrap_or_default();
            match self.state {
                State::Values if rest.len() < self.missing => {
                    self.missing = self.missing.saturating_sub(rest.len());
                    self.gathered.extend_from_slice(rest);
                    return Ok(bytes.len());
                }
                State::Values if self.gathered.is_empty() => {
                    used = used.saturating_add(self.step_in_place(rest, decoder)?);
                }
                State::Values => used = used.saturating_add(self.step_gathered(rest, decoder)?),
                State::Padding { bytes: left } => {
                    if rest.is_empty() {
                        return Ok(used);
                    }
                    used = used.saturating_add(self.skip_padding(rest, left)?);
                }
                _ => return Ok(used),
            }
        }
    }

    /// One step of the decoder on `bytes`: how many it has read, or nothing when they end within its item.
    fn step(&mut self, bytes: &[u8], decoder: &mut impl Decoder) -> Result<Option<usize>, Error> {
        let mut reader = Reader::new(bytes);
        match decoder.step(&mut reader) {
            Ok(step) => {
                self.missing = 0;
                self.state = match step {
                    Step::Next => State::Values,
                    Step::NoPayload => State::Unused,
                    Step::Payload(length) => State::Wanted { length },
                    Step::End => State::Ended,
                };
                let read = bytes.len().saturating_sub(reader.remaining());
                self.position = self.position.saturating_add(read);
                Ok(Some(read))
            }
            Err(Error::Truncated { missing }) => {
                self.missing = missing.max(1);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// One step on bytes where they lie: how many were consumed. All of them are kept if they end within the item.
    fn step_in_place(&mut self, rest: &[u8], decoder: &mut impl Decoder) -> Result<usize, Error> {
        if let Some(read) = self.step(rest, decoder)? {
            return Ok(read);
        }
        self.gathered.extend_from_slice(rest);
        self.check_length()?;
        Ok(rest.len())
    }

    /// One step on an item whose front was gathered, and a part of `rest`: how many bytes of `rest` were consumed. What is behind the item must not be: it
    /// may be a payload.
    fn step_gathered(&mut self, rest: &[u8], decoder: &mut impl Decoder) -> Result<usize, Error> {
        let before = self.gathered.len();
        let count = self.missing.max(GATHERED).min(rest.len());
        let mut item = core::mem::take(&mut self.gathered);
        item.extend_from_slice(rest.get(..count).unwrap_or_default());
        let step = self.step(&item, decoder);
        self.gathered = item;
        let Some(read) = step? else {
            self.check_length()?;
            return Ok(count);
        };
        self.gathered.truncate(before);
        self.gathered.drain(..read.min(before));
        Ok(read.saturating_sub(before))
    }

    fn check_length(&self) -> Result<(), Error> {
        let length = self.gathered.len().saturating_add(self.missing);
        let too_long = Error::TooLong { length: wire::saturate(length), maximum: self.longest };
        if length > self.longest { Err(too_long) } else { Ok(()) }
    }

    fn skip_padding(&mut self, rest: &[u8], left: usize) -> Result<usize, Error> {
        let count = left.min(rest.len());
        if rest.iter().take(count).any(|byte| *byte != 0) {
            return Err(Error::Padding);
        }
        self.position = self.position.saturating_add(count);
        self.state = match left.saturating_sub(count) {
            0 => State::Values,
            bytes => State::Padding { bytes },
        };
        Ok(count)
    }

    /// Takes memory for the payload that is [wanted](Self::wanted), which must be long enough.
    pub fn provide(&mut self, mut buf: Buf) {
        if let State::Wanted { length } = self.state {
            debug_assert!(buf.len() >= length, "memory for a payload holds all of it");
            buf.set_len(length.min(buf.len()));
            self.state = State::Filling { buf, length, filled: 0 };
        }
    }

    /// Lends the payload's memory to be filled with the next `available` bytes of the stream, or with as many as are missing.
    pub fn lend(&mut self, available: usize) -> Option<Placement> {
        let State::Filling { length, filled, .. } = self.state else { return None };
        let len = length.saturating_sub(filled).min(available);
        if len == 0 {
            return None;
        }
        let State::Filling { buf, .. } = core::mem::replace(&mut self.state, State::Lent { length, filled })
        else {
            return None;
        };
        Some(Placement { buf, start: filled, len, token: 0 })
    }

    /// Takes back what was lent. Gives the memory once the payload is whole.
    pub fn take_back(&mut self, placement: Placement) -> Option<Buf> {
        let State::Lent { length, filled } = self.state else { return None };
        let filled = filled.saturating_add(placement.len);
        self.position = self.position.saturating_add(placement.len);
        if filled < length {
            self.state = State::Filling { buf: placement.buf, length, filled };
            return None;
        }
        self.state = match padding(length) {
            0 => State::Values,
            bytes => State::Padding { bytes },
        };
        Some(placement.buf)
    }

    /// The payload that is wanted is not among the bytes, and neither is its padding: it comes otherwise (RFC 8166 §3.4.4).
    pub fn pass_over(&mut self) {
        if let State::Wanted { length } = self.state {
            self.position = self.position.saturating_add(length).saturating_add(padding(length));
            self.state = State::Values;
        }
    }

    /// Nothing more comes: gives back memory that is not filled.
    pub fn abandon(&mut self) -> Option<Buf> {
        match core::mem::replace(&mut self.state, State::Ended) {
            State::Filling { buf, .. } => Some(buf),
            _ => None,
        }
    }

    /// The record has ended.
    ///
    /// # Errors
    /// [`Error::Truncated`] where that is too early.
    pub fn finish(&self) -> Result<(), Error> {
        if self.is_ended() { Ok(()) } else { Err(Error::Truncated { missing: self.outstanding().max(1) }) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Writer;
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;
    use buf::SharedBuf;
    use core::fmt::Write as _;
    use proptest::prelude::*;

    /// What a stream of the test has: numbers, names, and data, each behind its kind.
    #[derive(Debug, Clone, PartialEq)]
    enum Item {
        Number(u64),
        Name(String),
        /// With a number behind the data, in the same operation.
        Data(Vec<u8>, u32),
    }

    #[derive(Debug, Default)]
    struct Items {
        read: Vec<Item>,
        left: Option<u32>,
        steps: usize,
        /// A number is to be read behind data.
        behind: bool,
    }

    impl Decoder for Items {
        fn step(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
            self.steps += 1;
            if self.behind {
                let number = reader.u32()?;
                if let Some(Item::Data(_, behind)) = self.read.last_mut() {
                    *behind = number;
                }
                self.behind = false;
                return Ok(Step::Next);
            }
            let Some(left) = self.left else {
                self.left = Some(reader.u32()?);
                return Ok(Step::Next);
            };
            if left == 0 {
                return Ok(Step::End);
            }
            let step = match reader.u32()? {
                1 => {
                    self.read.push(Item::Number(reader.u64()?));
                    Step::Next
                }
                2 => {
                    self.read.push(Item::Name(reader.string(2000)?.into()));
                    Step::Next
                }
                3 => {
                    let length = reader.length(1 << 20)?;
                    self.read.push(Item::Data(Vec::new(), 0));
                    self.behind = true;
                    Step::Payload(length)
                }
                other => return Err(Error::NotInEnumeration(other)),
            };
            self.left = Some(left - 1);
            Ok(step)
        }
    }

    fn written(items: &[Item]) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.length(items.len());
        for item in items {
            match item {
                Item::Number(number) => {
                    writer.u32(1);
                    writer.u64(*number);
                }
                Item::Name(name) => {
                    writer.u32(2);
                    writer.opaque(name.as_bytes());
                }
                Item::Data(data, behind) => {
                    writer.u32(3);
                    writer.payload(SharedBuf::from(data.clone()).into());
                    writer.u32(*behind);
                }
            }
        }
        writer.finish().into_list().into_one().to_vec()
    }

    /// Lets `bytes` arrive in chunks, as a connection does; what it says of the end.
    fn arrive(arrival: &mut Arrival, items: &mut Items, chunks: &[&[u8]]) -> Result<(), Error> {
        for chunk in chunks {
            let mut chunk = *chunk;
            loop {
                match arrival.wanted() {
                    Some(0) => arrival.pass_over(),
                    Some(length) => arrival.provide(Buf::zeroed(length)),
                    None => {}
                }
                let used = if let Some(mut placement) = arrival.lend(chunk.len()) {
                    let range = placement.start..placement.start + placement.len;
                    placement.buf[range].copy_from_slice(&chunk[..placement.len]);
                    let used = placement.len;
                    if let (Some(buf), Some(Item::Data(data, _))) =
                        (arrival.take_back(placement), items.read.last_mut())
                    {
                        *data = buf.to_vec();
                    }
                    used
                } else {
                    arrival.handle_bytes(chunk, items)?
                };
                chunk = &chunk[used..];
                if used == 0 {
                    break;
                }
            }
            if arrival.is_ended() {
                break;
            }
            assert!(chunk.is_empty(), "only the end of the stream leaves bytes");
        }
        arrival.finish()
    }

    fn items() -> impl Strategy<Value = Vec<Item>> {
        let item = prop_oneof![
            any::<u64>().prop_map(Item::Number),
            "[a-z]{0,900}".prop_map(Item::Name),
            (proptest::collection::vec(any::<u8>(), 0..3000), any::<u32>())
                .prop_map(|(data, behind)| Item::Data(data, behind)),
        ];
        proptest::collection::vec(item, 0..6)
    }

    proptest! {
        /// Wherever the stream is cut, the same is read, and nothing behind it is consumed.
        #[test]
        fn arbitrary_cuts_give_the_same(
            sent in items(),
            mut cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut bytes = written(&sent);
            let length = bytes.len();
            bytes.extend_from_slice(&[0xee; 8]);
            let mut places: Vec<usize> = cuts.drain(..).map(|cut| cut.index(bytes.len())).collect();
            places.extend([0, bytes.len()]);
            places.sort_unstable();
            let chunks: Vec<&[u8]> = places.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
            let (mut arrival, mut items) = (Arrival::new(4096), Items::default());
            prop_assert_eq!(arrive(&mut arrival, &mut items, &chunks), Ok(()));
            prop_assert_eq!((items.read, arrival.position()), (sent, length));
        }

        /// No bytes make it hold more than its longest item, or panic.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..600), cut in 1_usize..50) {
            let chunks: Vec<&[u8]> = bytes.chunks(cut).collect();
            let (mut arrival, mut items) = (Arrival::new(128), Items::default());
            let _ = arrive(&mut arrival, &mut items, &chunks);
            prop_assert!(arrival.gathered.len() <= 128 + 600);
        }
    }

    /// One payload of five bytes behind its length, and a word.
    #[derive(Default)]
    struct One {
        steps: usize,
    }

    impl Decoder for One {
        fn step(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
            let step = match self.steps {
                0 => Step::Payload(reader.length(5)?),
                1 => reader.u32().map(|_| Step::NoPayload)?,
                _ => Step::End,
            };
            self.steps += 1;
            Ok(step)
        }
    }

    fn state_of(arrival: &Arrival) -> String {
        match &arrival.state {
            State::Filling { length, filled, .. } => format!("Filling {filled} of {length}"),
            State::Values if arrival.missing != 0 => format!("Values, {} missing", arrival.missing),
            state => format!("{state:?}"),
        }
    }

    /// What is done to an arrival, and what it says.
    type Event = fn(&mut Arrival, &mut One) -> String;

    const EVENTS: [(&str, Event); 12] = [
        ("8 bytes", |arrival, one| format!("{:?}", arrival.handle_bytes(&[0, 0, 0, 5, 0, 0, 0, 0], one))),
        ("2 bytes", |arrival, one| format!("{:?}", arrival.handle_bytes(&[0, 0], one))),
        ("rubbish", |arrival, one| format!("{:?}", arrival.handle_bytes(&[9; 8], one))),
        ("provide", |arrival, _| {
            arrival.provide(Buf::zeroed(5));
            String::new()
        }),
        ("lend 3", |arrival, _| arrival.lend(3).map_or_else(String::new, |lent| format!("{}", lent.len))),
        ("lend none", |arrival, _| arrival.lend(0).map_or_else(String::new, |lent| format!("{}", lent.len))),
        ("take back 3", |arrival, _| {
            let placement = Placement { buf: Buf::zeroed(5), start: 0, len: 3, token: 0 };
            arrival.take_back(placement).map_or_else(String::new, |whole| format!("{whole:?}"))
        }),
        ("take back 5", |arrival, _| {
            let placement = Placement { buf: Buf::zeroed(5), start: 0, len: 5, token: 0 };
            arrival.take_back(placement).map_or_else(String::new, |whole| format!("{whole:?}"))
        }),
        ("pass over", |arrival, _| {
            arrival.pass_over();
            String::new()
        }),
        ("take unused", |arrival, _| format!("{}", arrival.take_unused())),
        ("finish", |arrival, _| format!("{:?}", arrival.finish())),
        ("abandon", |arrival, _| format!("{:?}", arrival.abandon())),
    ];

    #[test]
    fn table_of_all_transitions() {
        // How each state is reached.
        let reach: [&[usize]; 8] =
            [&[], &[1], &[0], &[0, 3], &[0, 3, 4], &[0, 3, 4, 7], &[0, 8, 0], &[0, 8, 0, 9, 0]];
        let mut table = String::new();
        for path in reach {
            for (name, event) in EVENTS {
                let (mut arrival, mut one) = (Arrival::new(64), One::default());
                for step in path {
                    EVENTS[*step].1(&mut arrival, &mut one);
                }
                let before = state_of(&arrival);
                let said = event(&mut arrival, &mut one);
                let after = state_of(&arrival);
                if before != after || !said.is_empty() {
                    let said = if said.is_empty() { said } else { format!(", {said}") };
                    writeln!(table, "{before} --{name}--> {after}{said}").unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("arrival.table"), "{table}");
    }

    #[test]
    fn byte_by_byte_an_item_is_not_tried_for_each_byte() {
        let sent = vec![Item::Name("n".repeat(1900)), Item::Number(7)];
        let bytes = written(&sent);
        let chunks: Vec<&[u8]> = bytes.chunks(1).collect();
        let (mut arrival, mut items) = (Arrival::new(2048), Items::default());
        assert_eq!(arrive(&mut arrival, &mut items, &chunks), Ok(()));
        assert_eq!(items.read, sent);
        assert!(items.steps < 20, "{} steps", items.steps);
    }

    #[test]
    fn an_item_is_no_longer_than_the_longest() {
        let bytes = written(&[Item::Name("n".repeat(100))]);
        let mut items = Items::default();
        let too_long = arrive(&mut Arrival::new(107), &mut items, &[&bytes[..40], &bytes[40..]]);
        assert_eq!(too_long, Err(Error::TooLong { length: 108, maximum: 107 }));
        let fits = arrive(&mut Arrival::new(108), &mut Items::default(), &[&bytes[..40], &bytes[40..]]);
        assert_eq!(fits, Ok(()));
    }

    #[test]
    fn a_stream_that_ends_early_or_pads_with_rubbish_is_refused() {
        let bytes = written(&[Item::Data(vec![1; 5], 9)]);
        let end = |to: usize| arrive(&mut Arrival::new(64), &mut Items::default(), &[&bytes[..to]]);
        assert_eq!(end(12), Err(Error::Truncated { missing: 8 }));
        assert_eq!(end(15), Err(Error::Truncated { missing: 5 }));
        assert_eq!(end(18), Err(Error::Truncated { missing: 2 }));
        assert_eq!(end(22), Err(Error::Truncated { missing: 2 }));
        assert_eq!(end(24), Ok(()));
        let mut rubbish = bytes.clone();
        rubbish[18] = 1;
        assert_eq!(arrive(&mut Arrival::new(64), &mut Items::default(), &[&rubbish]), Err(Error::Padding));
    }

    #[test]
    fn a_payload_that_comes_otherwise_is_passed_over_with_its_padding() {
        let bytes = written(&[Item::Data(vec![1; 5], 9)]);
        let reduced = [&bytes[..12], &bytes[20..]].concat();
        let (mut arrival, mut items) = (Arrival::new(64), Items::default());
        assert_eq!(arrival.handle_bytes(&reduced, &mut items), Ok(12));
        assert_eq!((arrival.wanted(), arrival.position()), (Some(5), 12));
        arrival.pass_over();
        assert_eq!(arrival.handle_bytes(&reduced[12..], &mut items), Ok(4));
        assert_eq!((arrival.finish(), arrival.position()), (Ok(()), 24));
        assert_eq!(items.read, [Item::Data(Vec::new(), 9)]);
    }
}
