//! Zeros: to send, and to recognise.

use buf::SharedBuf;

use crate::limits::CHUNK;

/// As many zeros as a chunk may have.
pub(crate) fn zeros() -> SharedBuf {
    SharedBuf::from(vec![0; usize::try_from(CHUNK).unwrap_or(0)])
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
        assert!(is_zero(&[]) && is_zero(&[0]) && is_zero(&zeros()));
        for at in [0, 1, 511, 4095] {
            let mut bytes = [0; 4096];
            bytes[at] = 1;
            assert!(!is_zero(&bytes), "{at}");
        }
        assert!(!is_zero(&[7; 64]));
    }
}
