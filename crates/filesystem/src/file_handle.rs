//! File handles: what objects are called, opaque to everybody but the file system that made them (RFC 1813 §2.5.2, RFC 8881 §4).

use core::fmt;

use crate::limits::FILE_HANDLE_BYTES;

/// Names one object of one file system for as long as the object is there, over restarts. Two handles are of the same object if, and only if, they
/// are equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileHandle {
    len: u8,
    /// Zeros after the first `len`, so that comparisons are of what counts.
    bytes: [u8; FILE_HANDLE_BYTES],
}

impl FileHandle {
    /// The handle of these bytes, whoever made them; `None` if it has none, or more than [`FILE_HANDLE_BYTES`].
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut all = [0; FILE_HANDLE_BYTES];
        let len = u8::try_from(bytes.len()).ok().filter(|len| *len > 0)?;
        all.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { len, bytes: all })
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// The handle of exactly these bytes.
impl From<[u8; 16]> for FileHandle {
    fn from(handle: [u8; 16]) -> Self {
        let mut bytes = [0; FILE_HANDLE_BYTES];
        bytes.iter_mut().zip(handle).for_each(|(to, from)| *to = from);
        Self { len: 16, bytes }
    }
}

impl fmt::Debug for FileHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileHandle(")?;
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_have_one_to_64_bytes() {
        assert_eq!(FileHandle::new(&[]), None);
        assert_eq!(FileHandle::new(&[1; 65]), None);
        assert_eq!(FileHandle::new(&[1; 64]).unwrap().as_bytes(), [1; 64]);
        let handle = FileHandle::new(&[0xab, 0]).unwrap();
        assert_ne!(Some(handle), FileHandle::new(&[0xab]), "zeros count");
        assert_eq!(format!("{handle:?}"), "FileHandle(ab00)");
    }
}
