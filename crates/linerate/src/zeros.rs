//! Zeros: to send, and to recognise.

use buf::SharedBuf;

use crate::limits::CHUNK_LEN;

/// As many zeros as a chunk may have.
#[derive(Debug)]
pub(crate) struct Zeros(SharedBuf);

impl Zeros {
    /// Makes them once for a job.
    pub(crate) fn new() -> Self {
        Self(SharedBuf::from(vec![0; CHUNK_LEN]))
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[u8] {
        &self.0
    }

    /// The first `len`, or all where a hole is longer: it is not sent as data.
    pub(crate) fn first(&self, len: u64) -> SharedBuf {
        let len = usize::try_from(len).map_or(self.0.len(), |len| len.min(self.0.len()));
        self.0.slice(..len)
    }
}

/// True when there is nothing but zeros: the first byte is one, and each equals the next. A comparison of memory with itself,
/// shifted, is the fastest that the standard library does.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    match bytes {
        [] => true,
        [first, rest @ ..] => *first == 0 && bytes[..rest.len()] == *rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_recognised() {
        assert!(is_zero(&[]) && is_zero(&[0]) && is_zero(Zeros::new().all()));
        for at in [0, 1, 511, 4095] {
            let mut bytes = [0; 4096];
            bytes[at] = 1;
            assert!(!is_zero(&bytes), "{at}");
        }
        assert!(!is_zero(&[7; 64]));
    }
}
