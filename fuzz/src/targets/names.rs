//! Names and URLs that users type.

use std::str::FromStr;

use names::{ByteSize, DiscoveryUrl, Iqn, Nqn, Portal, Span, VolumeUrl};

/// Every parser on the same text.
///
/// # Panics
/// When a URL that was accepted is not accepted again as it is printed: that is what the fuzzer looks for.
pub fn urls(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(url) = VolumeUrl::from_str(text) {
        assert_eq!(VolumeUrl::from_str(&url.to_string()).as_ref(), Ok(&url), "{text:?}");
    }
    let accepted = [
        DiscoveryUrl::from_str(text).is_ok(),
        Iqn::from_str(text).is_ok(),
        Nqn::from_str(text).is_ok(),
        Portal::from_str(text).is_ok(),
        ByteSize::from_str(text).is_ok(),
        Span::from_str(text).is_ok(),
    ];
    std::hint::black_box(accepted);
}
