//! Records in a byte stream (RFC 5531 §11): each message is a record, and each record one or more fragments, which begin with a word that says how long
//! they are and whether they are the last.

use crate::violation::Violation;

/// Bytes of a fragment's header.
pub const HEADER: usize = 4;

/// The bit of a header that says that the fragment is its record's last.
const LAST: u32 = 1 << 31;

/// The header of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Bytes that follow; below 2³¹.
    pub length: u32,
    /// The record ends with it.
    pub is_last: bool,
}

impl Fragment {
    /// A record that is one fragment of so many bytes.
    pub fn whole(length: usize) -> Self {
        let length: u32 = wire::bounded(length);
        debug_assert!(length < LAST, "a record is shorter than 2 GiB");
        Self { length: length & !LAST, is_last: true }
    }

    /// What a header says.
    pub const fn decode(bytes: [u8; HEADER]) -> Self {
        let word = u32::from_be_bytes(bytes);
        Self { length: word & !LAST, is_last: word & LAST != 0 }
    }

    /// The header.
    pub const fn encode(self) -> [u8; HEADER] {
        let last = if self.is_last { LAST } else { 0 };
        (self.length | last).to_be_bytes()
    }
}

/// Where a received stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before a header: of a record's first fragment, or of another.
    Header,
    /// In a fragment, of which so many bytes, more than none, are to come.
    Fragment { left: usize, is_last: bool },
    /// Behind a record.
    Whole,
}

/// The records of a received stream, one after the other.
///
/// Its owner takes headers off the stream ([`handle_header`](Self::handle_header)), consumes no more than is [left](Self::left) of a fragment
/// ([`consume`](Self::consume)), and begins the next record once this one [is whole](Self::is_whole).
#[derive(Debug)]
pub struct Records {
    state: State,
    /// Bytes of this record that were announced so far.
    announced: usize,
    /// Bytes of the longest record.
    longest: usize,
}

impl Records {
    /// Records of at most so many bytes.
    pub fn new(longest: usize) -> Self {
        Self { state: State::Header, announced: 0, longest }
    }

    /// Takes a header off the front of `bytes`, if one is next and there whole: how many bytes were consumed.
    ///
    /// # Errors
    /// The record is longer than the longest.
    pub fn handle_header(&mut self, bytes: &[u8]) -> Result<usize, Violation> {
        let (State::Header, Some(header)) = (self.state, bytes.first_chunk()) else { return Ok(0) };
        let Fragment { length, is_last } = Fragment::decode(*header);
        let left = usize::try_from(length).unwrap_or(usize::MAX);
        self.announced = self.announced.saturating_add(left);
        if self.announced > self.longest {
            return Err(Violation::RecordTooLong);
        }
        self.state = Self::within(left, is_last);
        Ok(HEADER)
    }

    const fn within(left: usize, is_last: bool) -> State {
        match (left, is_last) {
            (0, true) => State::Whole,
            (0, false) => State::Header,
            (left, is_last) => State::Fragment { left, is_last },
        }
    }

    /// Bytes that are left of the fragment.
    pub fn left(&self) -> usize {
        if let State::Fragment { left, .. } = self.state { left } else { 0 }
    }

    /// Bytes that the rest of the record may have: exactly so many in its last fragment.
    pub fn most_left(&self) -> usize {
        match self.state {
            State::Fragment { left, is_last: true } => left,
            State::Fragment { left, .. } => self.longest.saturating_sub(self.announced).saturating_add(left),
            State::Header => self.longest.saturating_sub(self.announced),
            State::Whole => 0,
        }
    }

    /// So many bytes of the fragment were consumed.
    pub fn consume(&mut self, bytes: usize) {
        if let State::Fragment { left, is_last } = self.state {
            self.state = Self::within(left.saturating_sub(bytes), is_last);
        }
    }

    /// True once the whole record was consumed.
    pub fn is_whole(&self) -> bool {
        self.state == State::Whole
    }

    /// True between two records.
    pub fn is_between(&self) -> bool {
        self.state == State::Header && self.announced == 0
    }

    /// Begins the next record.
    pub fn restart(&mut self) {
        (self.state, self.announced) = (State::Header, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use core::fmt::Write as _;

    #[test]
    fn golden_headers() {
        assert_eq!(Fragment::whole(40).encode(), [0x80, 0, 0, 40]);
        assert_eq!(Fragment::decode([0, 0, 1, 0]), Fragment { length: 256, is_last: false });
        assert_eq!(Fragment { length: 256, is_last: false }.encode(), [0, 0, 1, 0]);
    }

    #[test]
    fn table_of_all_transitions() {
        let headers: [(&str, &[u8]); 5] = [
            ("part of a header", &[0x80, 0, 0]),
            ("last of 8", &[0x80, 0, 0, 8]),
            ("first of 8", &[0, 0, 0, 8]),
            ("last of none", &[0x80, 0, 0, 0]),
            ("one of none", &[0, 0, 0, 0]),
        ];
        let states = [
            State::Header,
            State::Fragment { left: 8, is_last: true },
            State::Fragment { left: 8, is_last: false },
            State::Whole,
        ];
        let mut table = String::new();
        for state in states {
            let begin = || Records { state, announced: 8, longest: 100 };
            let mut write = |event: &str, records: &Records, said: String| {
                if records.state != state || !said.is_empty() {
                    writeln!(table, "{state:?} --{event}--> {:?}{said}", records.state).unwrap();
                }
            };
            for (name, bytes) in headers {
                let mut records = begin();
                let used = records.handle_header(bytes).unwrap();
                write(name, &records, String::new());
                assert_eq!(used != 0, state == State::Header && bytes.len() == 4);
            }
            let mut records = begin();
            let error = records.handle_header(&[0x80, 0, 0, 93]).err();
            write("too long", &records, error.map_or_else(String::new, |error| format!(", {error:?}")));
            for count in [5, 8] {
                let mut records = begin();
                records.consume(count);
                write(&format!("{count} bytes"), &records, String::new());
            }
            let mut records = begin();
            records.restart();
            write("restart", &records, String::new());
        }
        assert_eq!(table, include_str!("record.table"), "{table}");
    }

    #[test]
    fn a_record_ends_with_its_last_fragment_and_is_bounded_over_all_of_them() {
        let mut records = Records::new(10);
        assert_eq!(
            (records.handle_header(&[0, 0, 0, 6]), records.left(), records.most_left()),
            (Ok(4), 6, 10)
        );
        records.consume(6);
        assert_eq!((records.is_whole(), records.most_left(), records.is_between()), (false, 4, false));
        assert_eq!((records.handle_header(&[0x80, 0, 0, 4, 9]), records.most_left()), (Ok(4), 4));
        records.consume(4);
        assert!(records.is_whole());
        records.restart();
        assert!(records.is_between());
        assert_eq!(records.handle_header(&[0, 0, 0, 6]), Ok(4));
        records.consume(6);
        assert_eq!(records.handle_header(&[0, 0, 0, 5]), Err(Violation::RecordTooLong));
    }
}
