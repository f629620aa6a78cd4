//! Integers of one width as integers of another: each conversion says why it loses nothing, or what it loses.
//!
//! * [`widen`] and [`index`] lose nothing on any machine that this project runs on: addresses have 64 bits.
//! * [`bounded`] loses nothing because a limit that was checked before keeps the value small. A debug build fails where that is not so.
//! * [`saturate`] may lose: a field says *at least so much* by its largest value.

const _: () = assert!(usize::BITS == u64::BITS, "memory is addressed with 64 bits");

/// A length or a position in memory, with 64 bits.
#[inline]
#[must_use]
pub const fn widen(length: usize) -> u64 {
    length as u64
}

/// A number of 64 bits as a length or a position in memory.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits, as the assertion says")]
pub const fn index(number: u64) -> usize {
    number as usize
}

/// A value that a limit, checked before, keeps within `To`.
///
/// A debug build fails where no limit does; a release build saturates.
#[inline]
#[must_use]
#[track_caller]
pub fn bounded<To: Integer>(value: impl TryInto<To>) -> To {
    let fits = value.try_into();
    debug_assert!(fits.is_ok(), "a limit keeps this value within {} bits", To::BITS);
    fits.unwrap_or(To::MAX)
}

/// The value, or the largest of `To` where it does not fit.
#[inline]
#[must_use]
pub fn saturate<To: Integer>(value: impl TryInto<To>) -> To {
    value.try_into().unwrap_or(To::MAX)
}

/// An integer type and its bounds.
pub trait Integer: Sized {
    /// The largest value.
    const MAX: Self;
    /// Bits of a value.
    const BITS: u32;
}

macro_rules! integers {
    ($($name:ident)*) => {
        $(impl Integer for $name {
            const MAX: Self = Self::MAX;
            const BITS: u32 = Self::BITS;
        })*
    };
}

integers!(u8 u16 u32 u64 usize i32 i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_kept_and_what_does_not_saturates() {
        assert_eq!((widen(usize::MAX), index(u64::MAX)), (u64::MAX, usize::MAX));
        assert_eq!((bounded::<u32>(7_usize), bounded::<u8>(255_u64)), (7, 255));
        assert_eq!(saturate::<u16>(65_535_u32), 65_535);
        assert_eq!(saturate::<u16>(65_536_u32), u16::MAX);
        assert_eq!(saturate::<i32>(u64::MAX), i32::MAX);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "within 8 bits")]
    fn a_limit_that_does_not_hold_is_found_by_a_debug_build() {
        let _ = bounded::<u8>(256_usize);
    }
}
