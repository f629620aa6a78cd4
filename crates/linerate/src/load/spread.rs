//! Where on a volume a load's requests went, so that a reader of the result can tell whether all of it was used.

/// Parts of equal size that a volume is counted in.
pub const SPREAD_PARTS: usize = 64;

/// How many requests went to each part of what a load uses of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// Bytes that are used, from the volume's beginning.
    pub bytes: u64,
    /// Requests that succeeded, by the part that they began in: [`SPREAD_PARTS`] of them.
    pub ios: Vec<u64>,
}

impl Spread {
    pub(super) fn new(bytes: u64) -> Self {
        Self { bytes, ios: vec![0; SPREAD_PARTS] }
    }

    /// Counts a request that began at this byte.
    pub(super) fn record(&mut self, at: u64) {
        let part = (u128::from(at) * SPREAD_PARTS as u128) / u128::from(self.bytes.max(1));
        if let Some(count) = usize::try_from(part).ok().and_then(|part| self.ios.get_mut(part)) {
            *count += 1;
        }
    }
}
