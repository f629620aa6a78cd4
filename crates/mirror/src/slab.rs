//! Places that are used again, by number: what is under way is found without a search, stays where it is, and keeps the memory that it has.
//!
//! A number names one use of a place. Once that has ended it finds nothing, although the place has another user by then.

/// One place.
#[derive(Debug)]
struct Place<T> {
    /// The number of its present use, or of the next one.
    number: u64,
    used: bool,
    value: T,
}

/// As many places as were ever used at a time.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<usize>,
}

/// A number's low bits say which place, the others which use of it: there are fewer places than these have room for, and no number is zero.
const PLACES: u64 = 1 << 24;

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> Slab<T> {
    /// Begins to use a place, which holds what its last user left there.
    pub(crate) fn claim(&mut self) -> (u64, &mut T) {
        let index = self.free.pop().unwrap_or_else(|| {
            let number = PLACES + wire::widen(self.places.len());
            self.places.push(Place { number, used: false, value: T::default() });
            self.places.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "a free place, or the one that was just added")]
        let place = &mut self.places[index];
        place.used = true;
        (place.number, &mut place.value)
    }

    /// What a place holds, as long as the use of this number goes on.
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let place = self.places.get_mut(wire::index(number % PLACES))?;
        (place.used && place.number == number).then_some(&mut place.value)
    }

    /// Ends the use of a place. Gives what is in it, for the last time by this number.
    pub(crate) fn release(&mut self, number: u64) -> Option<&mut T> {
        let index = wire::index(number % PLACES);
        let place = self.places.get_mut(index)?;
        if !place.used || place.number != number {
            return None;
        }
        place.used = false;
        place.number = place.number.wrapping_add(PLACES);
        self.free.push(index);
        Some(&mut place.value)
    }

    /// Places that are in use.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Those in use, with their numbers.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.places.iter_mut().filter(|place| place.used).map(|place| (place.number, &mut place.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_finds_its_own_use_of_a_place_alone() {
        let mut slab: Slab<Vec<u8>> = Slab::default();
        let (one, value) = slab.claim();
        value.push(1);
        let (two, value) = slab.claim();
        value.push(2);
        assert_eq!((slab.len(), slab.get_mut(one).cloned()), (2, Some(vec![1])));
        assert_eq!(slab.release(one).cloned(), Some(vec![1]));
        assert!(slab.get_mut(one).is_none() && slab.release(one).is_none());
        let (three, value) = slab.claim();
        assert_eq!(*value, [1], "the place is used again as it was left");
        assert!(three != one && slab.get_mut(one).is_none());
        let mut numbers: Vec<u64> = slab.iter_mut().map(|(number, _)| number).collect();
        numbers.sort_unstable();
        let mut expected = [two, three];
        expected.sort_unstable();
        assert_eq!(numbers, expected);
    }
}
