//! CHAP (RFC 1994) in iSCSI's text keys (RFC 7143 §12.1.3), with MD5, SHA-1, SHA-256 and SHA3-256.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use md5::{Digest, Md5};
use protocol::Entropy;
use sha1::Sha1;
use sha2::Sha256;
use sha3::Sha3_256;

use crate::limits::{CHALLENGE, LONGEST_CHALLENGE, WEAK_SECRET};
use crate::text::Text;

/// A hash function, by its number in CHAP_A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// MD5 (RFC 1994).
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA3-256.
    Sha3,
}

impl Algorithm {
    /// All, the strongest first: the order in which an initiator offers them.
    pub const ALL: [Self; 4] = [Self::Sha3, Self::Sha256, Self::Sha1, Self::Md5];

    /// The number in CHAP_A.
    pub fn number(self) -> u8 {
        match self {
            Self::Md5 => 5,
            Self::Sha1 => 6,
            Self::Sha256 => 7,
            Self::Sha3 => 8,
        }
    }

    /// The algorithm with this number as text.
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|algorithm| crate::text::number(text) == Some(u64::from(algorithm.number())))
    }

    /// The first of the offered list that `allowed` has: a responder takes the first that it supports (RFC 7143 §6.2.1).
    pub fn choose(offered: &str, allowed: &[Self]) -> Option<Self> {
        offered.split(',').filter_map(Self::read).find(|algorithm| allowed.contains(algorithm))
    }

    /// The response to a challenge: the hash of identifier, secret and challenge.
    pub fn respond(self, identifier: u8, secret: &Secret, challenge: &[u8]) -> Vec<u8> {
        fn hash<D: Digest>(parts: [&[u8]; 3]) -> Vec<u8> {
            let mut hash = D::new();
            for part in parts {
                hash.update(part);
            }
            hash.finalize().as_slice().to_vec()
        }
        let parts = [&[identifier], secret.0.as_slice(), challenge];
        match self {
            Self::Md5 => hash::<Md5>(parts),
            Self::Sha1 => hash::<Sha1>(parts),
            Self::Sha256 => hash::<Sha256>(parts),
            Self::Sha3 => hash::<Sha3_256>(parts),
        }
    }
}

/// A challenge that this side sends.
#[derive(Debug)]
pub(crate) struct Challenge {
    pub(crate) algorithm: Algorithm,
    identifier: u8,
    pub(crate) bytes: [u8; CHALLENGE],
}

impl Challenge {
    /// A fresh one, to be answered by this hash.
    pub(crate) fn new(algorithm: Algorithm, entropy: &mut dyn Entropy) -> Self {
        let mut random = [0; CHALLENGE + 1];
        entropy.fill(&mut random);
        let [identifier, bytes @ ..] = random;
        Self { algorithm, identifier, bytes }
    }

    /// Writes it as CHAP_I and CHAP_C.
    pub(crate) fn put(&self, text: &mut Text) {
        text.put("CHAP_I", &self.identifier.to_string());
        text.put("CHAP_C", &encode(&self.bytes));
    }

    /// The response of whoever knows the secret.
    pub(crate) fn response(&self, secret: &Secret) -> Vec<u8> {
        self.algorithm.respond(self.identifier, secret, &self.bytes)
    }
}

/// A shared secret. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// The secret of these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// True when it is shorter than RFC 7143 §9.2.1 asks: warn whoever chose it.
    pub fn is_weak(&self) -> bool {
        self.0.len() < WEAK_SECRET
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Who one is, and how one proves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// CHAP_N.
    pub user: String,
    /// The shared secret.
    pub secret: Secret,
}

/// True when both are equal, in a time that depends on the lengths only.
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && core::hint::black_box(a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b))) == 0
}

/// A binary value, hexadecimal or base64 (RFC 7143 §6.1), of at most [`LONGEST_CHALLENGE`] bytes.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let bytes = if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        hexadecimal(digits)?
    } else {
        base64(text.strip_prefix("0b").or_else(|| text.strip_prefix("0B"))?)?
    };
    (bytes.len() <= LONGEST_CHALLENGE).then_some(bytes)
}

fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let mut values =
        digits.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()));
    let mut bytes = Vec::with_capacity(digits.len().div_ceil(2).min(LONGEST_CHALLENGE));
    if digits.len() % 2 == 1 {
        bytes.push(values.next()??);
    }
    while let Some(high) = values.next() {
        bytes.push(high? * 16 + values.next()??);
    }
    Some(bytes)
}

fn base64(letters: &str) -> Option<Vec<u8>> {
    let letters = letters.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(letters.len());
    for group in letters.chunks(4) {
        let mut word = 0_u32;
        for &letter in group {
            word = word * 64 + u32::from(base64_value(letter)?);
        }
        // A group of n letters holds n - 1 bytes; what is missing counts as zeros below them.
        for _ in group.len()..4 {
            word *= 64;
        }
        let [_, whole @ ..] = word.to_be_bytes();
        bytes.extend_from_slice(whole.get(..group.len().checked_sub(1).filter(|&count| count > 0)?)?);
    }
    Some(bytes)
}

fn base64_value(letter: u8) -> Option<u8> {
    match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// A binary value in hexadecimal.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::from("0x");
    for byte in bytes {
        for digit in [byte / 16, byte % 16] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Identifier 0x27, secret "secret-of-12b", challenge 00…0f; the hashes by Python's hashlib.
    #[test]
    fn responses_of_all_four_hashes() {
        let challenge: Vec<u8> = (0..16).collect();
        let secret = Secret::new(*b"secret-of-12b");
        for (algorithm, expected) in [
            (Algorithm::Md5, "0xeeed840934e04c245481189affa92a32"),
            (Algorithm::Sha1, "0x69d088d2d4172bcb2a0e4574f5c8bc3d0dfb7d45"),
            (Algorithm::Sha256, "0xbd2fe6814e0f7290093c8964e04a34337d3a76dfe3b48ca62dc4300bac63af3a"),
            (Algorithm::Sha3, "0x2ae99f5c99d6a7bb62bf69d4cc0b61f61f302837fcc57d820b5c7a2a4103caae"),
        ] {
            assert_eq!(encode(&algorithm.respond(0x27, &secret, &challenge)), expected, "{algorithm:?}");
        }
    }

    #[test]
    fn the_first_common_algorithm_wins() {
        assert_eq!(Algorithm::choose("5,7", &Algorithm::ALL), Some(Algorithm::Md5));
        assert_eq!(Algorithm::choose("9,8,5", &Algorithm::ALL), Some(Algorithm::Sha3));
        assert_eq!(Algorithm::choose("5,7", &[Algorithm::Sha256]), Some(Algorithm::Sha256));
        assert_eq!(Algorithm::choose("", &Algorithm::ALL), None);
    }

    #[test]
    fn binary_values() {
        assert_eq!(decode("0xabc"), Some(alloc::vec![0x0a, 0xbc]));
        assert_eq!(decode("0bTWFu"), Some(b"Man".to_vec()));
        assert_eq!(decode("0bTWE="), Some(b"Ma".to_vec()));
        assert_eq!(decode("0BTQ=="), Some(b"M".to_vec()));
        // Every letter of the alphabet, RFC 4648 §4, twice: the second time shifted by one place of the group.
        let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let expected = "0x00108310518720928b30d38f41149351559761969b71d79f8218a39259a7a29aabb2dbafc31cb3d35db7e39ebbf3dfbf";
        assert_eq!(
            decode(&alloc::format!("0b{alphabet}")).map(|bytes| encode(&bytes)).as_deref(),
            Some(expected)
        );
        let expected = "0xfc00420c41461c824a2cc34e3d04524d45565d865a6dc75e7e08628e49669e8a6aaecb6ebf0c72cf4d76df8e7aefcf7e";
        let shifted = alloc::format!("0b/{}", alphabet.trim_end_matches('/'));
        assert_eq!(decode(&shifted).map(|bytes| encode(&bytes)).as_deref(), Some(expected));
        for bad in ["", "abc", "0xzz", "0bA", "0b?", "0b=A"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
        assert_eq!(decode(&encode(&[7; 1024])).map(|bytes| bytes.len()), Some(1024));
        assert_eq!(decode(&encode(&[7; 1025])), None);
    }

    #[test]
    fn secrets_are_not_printed() {
        assert_eq!(alloc::format!("{:?}", Secret::new(*b"hush")), "Secret(…)");
        assert!(Secret::new([0; 11]).is_weak() && !Secret::new([0; 12]).is_weak());
    }

    proptest! {
        #[test]
        fn hexadecimal_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }

        #[test]
        fn any_text_decodes_or_not(text in "\\PC{0,80}") {
            let _ = decode(&text);
        }
    }
}
