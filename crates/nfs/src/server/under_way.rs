//! Calls under way, each at a place of its own, so that a call that waits and goes on is not moved.
//!
//! A map by number had to shift its neighbours whenever a call ended, and a call has most of a kilobyte.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Bits of a key that are the place; the others are how often places were given out, so that a key does not come again soon. A key has 32 bits, as
/// requests' tags have.
const PLACE_BITS: u32 = 16;

/// Calls, or whatever waits.
#[derive(Debug)]
pub(super) struct UnderWay<T> {
    places: Vec<Option<(u64, Box<T>)>>,
    free: Vec<u32>,
    count: u32,
}

impl<T> Default for UnderWay<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new(), count: 0 }
    }
}

impl<T> UnderWay<T> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.places.len().saturating_sub(self.free.len())
    }

    /// True if there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, but for one that is taken.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten().map(|(_, one)| &**one)
    }

    /// Adds one: its key.
    pub(super) fn insert(&mut self, one: T) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            wire::bounded(self.places.len().saturating_sub(1))
        });
        self.count = self.count.wrapping_add(1);
        let key = u64::from(self.count.wrapping_shl(PLACE_BITS) | place);
        self.put_back(key, Box::new(one));
        key
    }

    fn place(key: u64) -> usize {
        wire::index(key & ((1 << PLACE_BITS) - 1))
    }

    /// Looks at one.
    pub(super) fn get(&self, key: u64) -> Option<&T> {
        let (known, one) = self.places.get(Self::place(key))?.as_ref()?;
        (*known == key).then_some(one)
    }

    /// Takes one to go on with; it is put back, or its place is freed.
    pub(super) fn take(&mut self, key: u64) -> Option<Box<T>> {
        let place = self.places.get_mut(Self::place(key))?;
        place.take_if(|(known, _)| *known == key).map(|(_, one)| one)
    }

    /// Puts back what was taken.
    pub(super) fn put_back(&mut self, key: u64, one: Box<T>) {
        if let Some(place) = self.places.get_mut(Self::place(key)) {
            *place = Some((key, one));
        }
    }

    /// What was taken is over.
    pub(super) fn free(&mut self, key: u64) {
        self.free.push(wire::bounded(Self::place(key)));
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn a_place_is_used_again_under_another_key() {
        let mut calls = UnderWay::default();
        let (one, two) = (calls.insert(1), calls.insert(2));
        assert_eq!((calls.len(), calls.get(one), calls.get(two)), (2, Some(&1), Some(&2)));
        let mut taken = calls.take(one).unwrap();
        assert_eq!((calls.take(one), calls.get(one), calls.len()), (None, None, 2), "it goes on");
        *taken += 10;
        calls.put_back(one, taken);
        assert_eq!(calls.iter().copied().collect::<Vec<_>>(), vec![11, 2]);
        assert_eq!(calls.take(one), Some(Box::new(11)));
        calls.free(one);
        let three = calls.insert(3);
        assert_eq!((calls.len(), three == one, calls.get(one), calls.get(three)), (2, false, None, Some(&3)));
        assert!(u32::try_from(three).is_ok(), "tags of requests have 32 bits");
    }
}
