//! Packet sequence numbers: 24 bits, in a circle (IBTA §9.7.1).

use crate::header::U24;

/// How many there are.
const COUNT: u32 = 1 << 24;

/// A packet's number. Of two numbers, the one that is less than half of the circle ahead is the later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Psn(u32);

impl Psn {
    /// The number, taken into the circle.
    pub const fn new(number: u32) -> Self {
        Self(number % COUNT)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number that is so many later.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count % COUNT))
    }

    /// The number before it.
    #[must_use]
    pub const fn previous(self) -> Self {
        self.plus(COUNT - 1)
    }

    /// How many numbers it is later.
    pub const fn since(self, earlier: Self) -> u32 {
        (self.0 + COUNT - earlier.0) % COUNT
    }

    /// It is an earlier number than the other one.
    pub const fn is_before(self, other: Self) -> bool {
        let ahead = other.since(self);
        ahead != 0 && ahead < COUNT / 2
    }
}

impl From<U24> for Psn {
    fn from(number: U24) -> Self {
        Self(number.get())
    }
}

impl From<Psn> for U24 {
    fn from(number: Psn) -> Self {
        Self::new(number.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_in_a_circle() {
        let last = Psn::new(COUNT - 1);
        assert_eq!(last.plus(1), Psn::new(0));
        assert_eq!(Psn::new(0).previous(), last);
        assert_eq!(last.plus(COUNT - 1), Psn::new(COUNT - 2));
        assert_eq!(Psn::new(3).since(last), 4);
        assert!(last.is_before(Psn::new(0)) && !Psn::new(0).is_before(last));
        assert!(!last.is_before(last));
        assert!(Psn::new(0).is_before(Psn::new(COUNT / 2 - 1)));
        assert!(!Psn::new(0).is_before(Psn::new(COUNT / 2)));
    }
}
