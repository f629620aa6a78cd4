//! Buffers for a whole request: all of them, or none.

use buf::{Account, Buf};
use smallvec::SmallVec;

/// Buffers of these lengths, or none: room for all of them is reserved before the first is taken, or many clients could wait for each other's.
pub(super) fn take_all(
    account: &mut Account,
    sizes: impl ExactSizeIterator<Item = usize> + Clone,
) -> Option<SmallVec<[Buf; 1]>> {
    if sizes.len() <= 1 {
        return sizes.map(|size| account.take(size)).collect();
    }
    let mut set_aside: usize = sizes.clone().map(usize::next_power_of_two).sum();
    if !account.charge(set_aside) {
        return None;
    }
    let taken = sizes
        .map(|size| {
            let buf = account.take_charged(size, set_aside)?;
            set_aside -= size;
            Some(buf)
        })
        .collect();
    account.release(set_aside);
    taken
}
