//! What both sides say of themselves while a connection is set up (RFC 8797): how long a message may be.

use verbs::PrivateData;

use crate::limits::INLINE;
use crate::xdr::{Reader, UNIT};

/// What begins the message (RFC 8797).
const FORMAT: u32 = 0xf6ab_0e18;
/// The only version of the message.
const VERSION: u8 = 1;
/// The sender supports Send with Invalidate (RFC 8797, R).
const REMOTE_INVALIDATION: u8 = 1;
/// Bytes of the unit that sizes are counted in.
const KIBIBYTE: usize = 1024;

/// A private message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrivateMessage {
    /// The sender lets its memory be invalidated remotely.
    pub remote_invalidation: bool,
    /// Bytes of the longest message that it sends.
    pub send: usize,
    /// Bytes of the longest message that it receives.
    pub receive: usize,
}

impl PrivateMessage {
    /// What holds for a peer that says nothing (RFC 8166 §3.3.2).
    pub const SILENT: Self = Self { remote_invalidation: false, send: INLINE, receive: INLINE };

    /// What a peer has said. Private data that is something else says nothing (RFC 8797): other protocols may be in it.
    pub fn decode(private_data: &[u8]) -> Self {
        let mut reader = Reader::new(private_data);
        match (reader.u32(), reader.fixed::<UNIT>()) {
            (Ok(FORMAT), Ok([VERSION, flags, send, receive])) => Self {
                remote_invalidation: flags & REMOTE_INVALIDATION != 0,
                send: Self::bytes(send),
                receive: Self::bytes(receive),
            },
            _ => Self::SILENT,
        }
    }

    /// The private data. Sizes are rounded down to what can be said: KiB, up to 256.
    pub fn encode(&self) -> PrivateData {
        let flags = if self.remote_invalidation { REMOTE_INVALIDATION } else { 0 };
        let rest = [VERSION, flags, Self::size(self.send), Self::size(self.receive)];
        PrivateData::received(&[FORMAT.to_be_bytes(), rest].concat())
    }

    fn bytes(size: u8) -> usize {
        usize::from(size).saturating_add(1).saturating_mul(KIBIBYTE)
    }

    fn size(bytes: usize) -> u8 {
        wire::saturate(bytes.wrapping_div(KIBIBYTE).saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_message() {
        let message = PrivateMessage { remote_invalidation: true, send: 4096, receive: 1024 };
        let bytes = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 0];
        assert_eq!(message.encode().bytes(), bytes);
        assert_eq!(PrivateMessage::decode(&bytes), message);
        // A set-up may pad it.
        assert_eq!(PrivateMessage::decode(&[&bytes[..], &[0; 48]].concat()), message);
        let largest = PrivateMessage { remote_invalidation: false, send: 1 << 20, receive: 256 << 10 };
        assert_eq!(largest.encode().bytes()[4..], [1, 0, 255, 255]);
    }

    #[test]
    fn what_is_something_else_says_nothing() {
        let bytes = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3];
        for (at, value) in [(0, 0), (3, 0x19), (4, 2)] {
            let mut other = bytes;
            other[at] = value;
            assert_eq!(PrivateMessage::decode(&other), PrivateMessage::SILENT);
        }
        assert_eq!(PrivateMessage::decode(&bytes[..7]), PrivateMessage::SILENT);
        assert_eq!(PrivateMessage::decode(&[]), PrivateMessage::SILENT);
    }
}
