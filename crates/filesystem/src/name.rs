//! Names within directories: one component of a path.

use alloc::vec::Vec;
use core::fmt;

use crate::FileErrorKind;
use crate::limits::NAME_BYTES;

/// One component of a path, in bytes that need not be text. It is not empty, not `.` or `..`, and has no `/` and no zero byte: it cannot lead out of its
/// directory. The server turns `..` into [`Operation::LookupParent`](crate::Operation::LookupParent).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Vec<u8>);

impl Name {
    /// The name of these bytes, or why they are none: [`FileErrorKind::Invalid`], [`FileErrorKind::BadName`] or
    /// [`FileErrorKind::NameTooLong`] (RFC 8881 §14.5).
    pub fn new(bytes: &[u8]) -> Result<Self, FileErrorKind> {
        Self::check(bytes).map(|()| Self(bytes.to_vec()))
    }

    /// As [`Name::new`], in the memory of the bytes.
    pub fn from_vec(bytes: Vec<u8>) -> Result<Self, FileErrorKind> {
        Self::check(&bytes).map(|()| Self(bytes))
    }

    fn check(bytes: &[u8]) -> Result<(), FileErrorKind> {
        if bytes.is_empty() {
            return Err(FileErrorKind::Invalid);
        }
        if bytes.len() > NAME_BYTES {
            return Err(FileErrorKind::NameTooLong);
        }
        if bytes == b"." || bytes == b".." || bytes.iter().any(|byte| matches!(byte, b'/' | 0)) {
            return Err(FileErrorKind::BadName);
        }
        Ok(())
    }

    /// The name of a text that is one, as the contract's checks have them.
    #[cfg(feature = "std")]
    pub(crate) fn known(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_directory() {
        for (bytes, refused) in [
            (&b""[..], FileErrorKind::Invalid),
            (b".", FileErrorKind::BadName),
            (b"..", FileErrorKind::BadName),
            (b"/etc", FileErrorKind::BadName),
            (b"a/b", FileErrorKind::BadName),
            (b"a\0b", FileErrorKind::BadName),
            (&[b'a'; 256], FileErrorKind::NameTooLong),
        ] {
            assert_eq!(Name::new(bytes), Err(refused), "{bytes:?}");
        }
        for bytes in [&b"..."[..], b"..a", b"\xff\xfe", &[b'a'; 255]] {
            assert_eq!(Name::new(bytes).unwrap().as_bytes(), bytes);
        }
    }
}
