//! Values from received bytes (RFC 4506 §4).

use alloc::vec::Vec;

use super::{Error, UNIT, padding};

/// A type with one form on the wire, to be read.
pub trait Decode: Sized {
    /// Reads one value from the front. On an error the reader's place is unspecified.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Error>;
}

/// Reads values from the front of a slice, which begins at a unit.
///
/// It is a place in the bytes and costs nothing to copy: whoever wants to go back keeps a copy. Memory in pieces becomes one by
/// [`BufList::into_one`](buf::BufList::into_one), which copies only where there are several.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes that are not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// What is not read yet, without reading it.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Nothing may follow.
    ///
    /// # Errors
    /// [`Error::Trailing`].
    pub fn end(&self) -> Result<(), Error> {
        if self.rest.is_empty() { Ok(()) } else { Err(Error::Trailing(self.rest.len())) }
    }

    /// The next `count` bytes as they are, without padding.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let split = self.rest.split_at_checked(count);
        let (head, rest) =
            split.ok_or(Error::Truncated { missing: count.saturating_sub(self.rest.len()) })?;
        self.rest = rest;
        Ok(head)
    }

    fn array_of<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let split = self.rest.split_first_chunk::<N>();
        let (head, rest) = split.ok_or(Error::Truncated { missing: N.saturating_sub(self.rest.len()) })?;
        self.rest = rest;
        Ok(*head)
    }

    /// An unsigned integer (RFC 4506 §4.2).
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Error> {
        self.array_of().map(u32::from_be_bytes)
    }

    /// An integer (RFC 4506 §4.1).
    #[inline]
    pub fn i32(&mut self) -> Result<i32, Error> {
        self.array_of().map(i32::from_be_bytes)
    }

    /// An unsigned hyper integer (RFC 4506 §4.5).
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Error> {
        self.array_of().map(u64::from_be_bytes)
    }

    /// A hyper integer (RFC 4506 §4.5).
    #[inline]
    pub fn i64(&mut self) -> Result<i64, Error> {
        self.array_of().map(i64::from_be_bytes)
    }

    /// A boolean: 0 or 1 and nothing else (RFC 4506 §4.4).
    pub fn bool(&mut self) -> Result<bool, Error> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Error::NotBoolean(other)),
        }
    }

    /// A value of an enumeration, or the discriminant of a union (RFC 4506 §4.3, §4.15). `value_of` gives nothing for a number that is none. Negative
    /// values, which no protocol here has, come as their two's complement.
    pub fn enumeration<T>(&mut self, value_of: impl FnOnce(u32) -> Option<T>) -> Result<T, Error> {
        let number = self.u32()?;
        value_of(number).ok_or(Error::NotInEnumeration(number))
    }

    /// Opaque data of `N` bytes, with its padding (RFC 4506 §4.9): a verifier, a session's name.
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let bytes = self.array_of::<N>()?;
        self.padding_behind(N)?;
        Ok(bytes)
    }

    /// Opaque data of any length up to `maximum` bytes, with its padding (RFC 4506 §4.10). It is not copied.
    pub fn opaque(&mut self, maximum: usize) -> Result<&'a [u8], Error> {
        let length = self.length(maximum)?;
        let whole = length.saturating_add(padding(length));
        if self.rest.len() < whole {
            return Err(Error::Truncated { missing: whole.saturating_sub(self.rest.len()) });
        }
        let bytes = self.take(length)?;
        self.padding_behind(length)?;
        Ok(bytes)
    }

    /// A string of at most `maximum` bytes (RFC 4506 §4.11), in UTF-8. Where a wrong encoding has an answer of its own, as names of files have, read
    /// [`opaque`](Self::opaque) and look at the bytes: on the wire both are the same.
    pub fn string(&mut self, maximum: usize) -> Result<&'a str, Error> {
        core::str::from_utf8(self.opaque(maximum)?).map_err(|_| Error::NotText)
    }

    /// The length word of opaque data, a string or an array: at most `maximum`. What it counts follows.
    pub fn length(&mut self, maximum: usize) -> Result<usize, Error> {
        let length = self.u32()?;
        let within = usize::try_from(length).ok().filter(|length| *length <= maximum);
        within.ok_or(Error::TooLong { length, maximum })
    }

    /// The padding behind `length` bytes of opaque data that were read otherwise.
    ///
    /// # Errors
    /// [`Error::Padding`] where it is not zeros.
    pub fn padding_behind(&mut self, length: usize) -> Result<(), Error> {
        let bytes = self.take(padding(length))?;
        if bytes.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(Error::Padding) }
    }

    /// A value of a type.
    pub fn get<T: Decode>(&mut self) -> Result<T, Error> {
        T::decode(self)
    }

    /// An array of at most `maximum` values (RFC 4506 §4.13).
    ///
    /// Nothing is allocated unless the bytes that are there can hold as many values, each of a unit or more.
    pub fn array<T: Decode>(&mut self, maximum: usize) -> Result<Vec<T>, Error> {
        self.array_with(maximum, T::decode)
    }

    /// An array of at most `maximum` values that `read` reads, each from a unit or more, with what it was given beside the bytes: a version, a bound.
    pub fn array_with<T>(
        &mut self,
        maximum: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let count = self.length(maximum)?;
        let least = count.saturating_mul(UNIT);
        if self.rest.len() < least {
            return Err(Error::Truncated { missing: least.saturating_sub(self.rest.len()) });
        }
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(read(self)?);
        }
        Ok(values)
    }

    /// Optional data, `*T` (RFC 4506 §4.19).
    pub fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        if self.bool()? { read(self).map(Some) } else { Ok(None) }
    }

    /// A list of at most `maximum` values, each behind a word that says that one more follows (RFC 4506 §4.19): entries of a directory, chunks.
    pub fn list<T>(
        &mut self,
        maximum: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut values = Vec::new();
        while self.bool()? {
            if values.len() >= maximum {
                return Err(Error::TooLong {
                    length: wire::saturate(values.len().saturating_add(1)),
                    maximum,
                });
            }
            values.push(read(self)?);
        }
        Ok(values)
    }
}

macro_rules! decode {
    ($($name:ident)*) => {
        $(impl Decode for $name {
            fn decode(reader: &mut Reader<'_>) -> Result<Self, Error> {
                reader.$name()
            }
        })*
    };
}

decode!(u32 i32 u64 i64 bool);

impl<const N: usize> Decode for [u8; N] {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Error> {
        reader.fixed()
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Error> {
        reader.optional(T::decode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn values_in_order() {
        let bytes = [
            [0, 0, 0, 7, 0xff, 0xff, 0xff, 0xfe],
            [0, 0, 0, 1, 0, 0, 0, 2],
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            [0, 0, 0, 1, 0, 0, 0, 0],
            [0, 0, 0, 3, b'a', b'b', b'c', 0],
            [9, 8, 7, 6, 5, 0, 0, 0],
            [0, 0, 0, 4, b'n', b'a', b'm', b'e'],
        ]
        .concat();
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.u32(), reader.i32()), (Ok(7), Ok(-2)));
        assert_eq!((reader.u64(), reader.i64()), (Ok(0x1_0000_0002), Ok(-1)));
        assert_eq!((reader.bool(), reader.bool()), (Ok(true), Ok(false)));
        assert_eq!(reader.opaque(3), Ok(&b"abc"[..]));
        assert_eq!(reader.fixed(), Ok([9, 8, 7, 6, 5]));
        assert_eq!(reader.end(), Err(Error::Trailing(8)));
        assert_eq!((reader.string(255), reader.end()), (Ok("name"), Ok(())));
    }

    #[test]
    fn what_is_missing_is_said() {
        for (bytes, missing) in [(&[0, 0][..], 2), (&[0, 0, 0, 5], 8), (&[0, 0, 0, 5, 1, 2, 3, 4, 5], 3)] {
            assert_eq!(Reader::new(bytes).opaque(100), Err(Error::Truncated { missing }));
        }
        let array = Reader::new(&[0, 0, 0, 9, 0, 0, 0, 1]).array::<u64>(9);
        assert_eq!(array, Err(Error::Truncated { missing: 32 }));
    }

    #[test]
    fn second_forms_of_a_value_are_refused() {
        assert_eq!(Reader::new(&[0, 0, 0, 2]).bool(), Err(Error::NotBoolean(2)));
        assert_eq!(Reader::new(&[0, 0, 0, 1, 7, 0, 0, 1]).opaque(4), Err(Error::Padding));
        assert_eq!(Reader::new(&[7, 0, 1, 0]).fixed::<1>(), Err(Error::Padding));
        assert_eq!(Reader::new(&[0, 0, 0, 1, 0xff, 0, 0, 0]).string(4), Err(Error::NotText));
        let even = |number: u32| number.is_multiple_of(2).then_some(number);
        assert_eq!(Reader::new(&[0, 0, 0, 4]).enumeration(even), Ok(4));
        assert_eq!(Reader::new(&[0, 0, 0, 5]).enumeration(even), Err(Error::NotInEnumeration(5)));
    }

    #[test]
    fn a_length_above_its_maximum_is_refused_before_anything_is_read_or_allocated() {
        let bytes = [0xff, 0xff, 0xff, 0xff];
        let too_long = |maximum| Error::TooLong { length: u32::MAX, maximum };
        assert_eq!(Reader::new(&bytes).opaque(1024), Err(too_long(1024)));
        assert_eq!(Reader::new(&bytes).array::<u32>(7), Err(too_long(7)));
        let list = [0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0];
        assert_eq!(Reader::new(&list).list(2, Reader::u32), Ok(vec![8, 9]));
        assert_eq!(Reader::new(&list).list(1, Reader::u32), Err(Error::TooLong { length: 2, maximum: 1 }));
    }
}
