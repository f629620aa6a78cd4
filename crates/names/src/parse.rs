//! The way from a text to a name: every type reads itself from a piece, and its faults are worded in one place.

/// Implements `FromStr` by a type's `read(Piece)`, wrapping its faults with the type's name.
macro_rules! parse_by_read {
    ($type:ty, $what:literal) => {
        impl core::str::FromStr for $type {
            type Err = crate::NameError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::read(crate::piece::Piece::whole(text))
                    .map_err(|fault| crate::NameError::new($what, text, fault))
            }
        }
    };
}
pub(crate) use parse_by_read;
