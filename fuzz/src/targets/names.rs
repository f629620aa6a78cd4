//! Names, URLs, sizes and durations that users type.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use names::{ByteSize, DiscoveryUrl, Iqn, Nqn, Portal, Span, VolumeUrl};

/// Every parser on the same text.
///
/// # Panics
/// When what was accepted is not accepted again as it is printed, or an error does not say where the text stopped making
/// sense: that is what the fuzzer looks for.
pub fn urls(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    again::<VolumeUrl>(text);
    again::<DiscoveryUrl>(text);
    again::<Iqn>(text);
    again::<Nqn>(text);
    again::<Portal>(text);
    again::<ByteSize>(text);
    again::<Span>(text);
    bounds(text);
}

fn again<T>(text: &str)
where
    T: FromStr<Err = names::NameError> + Display + Debug + PartialEq,
{
    match T::from_str(text) {
        Ok(value) => {
            let printed = value.to_string();
            assert_eq!(T::from_str(&printed).as_ref(), Ok(&value), "{text:?} is printed as {printed:?}");
        }
        Err(error) => {
            assert!(error.position() <= text.chars().count(), "{error}");
            assert!(!error.to_string().is_empty());
        }
    }
}

/// The longest name of a target, in bytes, in both standards (RFC 7143 §4.2.7.1, NVMe Base §4.7).
const LONGEST_NAME: usize = 223;

fn bounds(text: &str) {
    assert!(Iqn::from_str(text).ok().is_none_or(|name| name.as_str().len() <= LONGEST_NAME));
    assert!(Nqn::from_str(text).ok().is_none_or(|name| name.as_str().len() <= LONGEST_NAME));
}
