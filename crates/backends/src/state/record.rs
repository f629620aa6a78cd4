//! A record as it stands in its file: a line that says what it is, a checksum, a length, and the bytes.
//!
//! The checksum covers the record's name, so that one that was copied over another is noticed, and everything behind it. It does not cover the
//! volume's: the folder of a volume may be copied or renamed.

use wire::Crc32c;

use super::limits::RECORD;

/// What every record begins with: the format and its version.
const MAGIC: &[u8] = b"linerate state 1\n";
/// Bytes of the checksum, and of the length.
const NUMBER: usize = 4;
/// The longest file.
pub(super) const LONGEST: usize = MAGIC.len() + 2 * NUMBER + RECORD;

fn sum(name: &str, length: [u8; NUMBER], bytes: &[u8]) -> [u8; NUMBER] {
    let mut sum = Crc32c::new();
    sum.update(name.as_bytes());
    sum.update(&length);
    sum.update(bytes);
    sum.finish().to_le_bytes()
}

/// The file of a record. `None` if it is too long.
pub(super) fn encode(name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= RECORD)?.to_le_bytes();
    Some([MAGIC, &sum(name, length, bytes), &length, bytes].concat())
}

/// What a file holds, or how it is seen that it is not what was written.
pub(super) fn decode(name: &str, file: &[u8]) -> Result<Vec<u8>, &'static str> {
    if file.is_empty() {
        return Err("it is empty");
    }
    let Some(rest) = file.strip_prefix(MAGIC) else {
        return Err("it does not begin as a record of this version does");
    };
    let split = rest.split_first_chunk::<NUMBER>();
    let Some((stored, (length, bytes))) =
        split.and_then(|(stored, rest)| Some((stored, rest.split_first_chunk::<NUMBER>()?)))
    else {
        return Err("it ends too early");
    };
    if bytes.len() as u64 != u64::from(u32::from_le_bytes(*length)) {
        return Err("it does not have the length that it says");
    }
    if *stored != sum(name, *length, bytes) {
        return Err("its checksum does not match");
    }
    Ok(bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_format_stays() {
        let file = encode("identity", b"abc").unwrap();
        assert_eq!(file, b"linerate state 1\n\x39\xa2\xc2\xe9\x03\0\0\0abc");
    }

    #[test]
    fn a_record_too_long_is_not_made() {
        assert!(encode("r", &vec![7; RECORD]).is_some() && encode("r", &vec![7; RECORD + 1]).is_none());
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(decode("r", &encode("r", &bytes).unwrap()), Ok(bytes));
        }

        #[test]
        fn a_changed_bit_is_noticed(
            bytes in prop::collection::vec(any::<u8>(), 0..100), place in any::<prop::sample::Index>(), bit in 0..8_u8,
        ) {
            let mut file = encode("r", &bytes).unwrap();
            let place = place.index(file.len());
            file[place] ^= 1 << bit;
            prop_assert!(decode("r", &file).is_err());
        }

        #[test]
        fn a_torn_or_longer_or_zeroed_record_is_noticed(
            bytes in prop::collection::vec(1..=255_u8, 1..100), cut in any::<prop::sample::Index>(), more in 1..20_usize,
        ) {
            let file = encode("r", &bytes).unwrap();
            let cut = cut.index(file.len());
            prop_assert!(decode("r", &file[..cut]).is_err());
            let mut zeroed = file.clone();
            zeroed[cut..].fill(0);
            prop_assert!(zeroed == file || decode("r", &zeroed).is_err());
            prop_assert!(decode("r", &[&file[..], &vec![0; more]].concat()).is_err());
        }

        #[test]
        fn any_bytes_are_decoded_without_panic(file in prop::collection::vec(any::<u8>(), 0..200), with in any::<bool>()) {
            let file = if with { [MAGIC, &file].concat() } else { file };
            let _either = decode("r", &file);
        }
    }

    #[test]
    fn a_record_under_another_name_is_noticed() {
        assert!(decode("other", &encode("record", b"abc").unwrap()).is_err());
    }
}
