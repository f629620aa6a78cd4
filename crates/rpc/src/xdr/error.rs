//! Why bytes are no value of the type that was expected.

/// The bytes are not the value that they should be. Each but [`Truncated`](Self::Truncated) stays true whatever comes behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes end before the value does. More may be on their way.
    #[error("the data ends {missing} bytes or more before the value does")]
    Truncated {
        /// At least so many bytes more are needed; above zero.
        missing: usize,
    },
    /// A length is above its maximum (RFC 4506 §4.10, §4.11, §4.13).
    #[error("a length of {length} is above its maximum of {maximum}")]
    TooLong {
        /// Bytes of opaque data, or elements of an array.
        length: u32,
        /// The most that the type allows.
        maximum: usize,
    },
    /// A boolean is neither 0 nor 1 (RFC 4506 §4.4).
    #[error("{0} is no boolean")]
    NotBoolean(u32),
    /// A number is no value of its enumeration, or no arm of its union (RFC 4506 §4.3, §4.15).
    #[error("{0} is no value of its enumeration")]
    NotInEnumeration(u32),
    /// The bytes that fill up a unit are not zeros (RFC 4506 §3).
    #[error("the bytes behind opaque data are not zeros")]
    Padding,
    /// A string is not UTF-8.
    #[error("a string is not UTF-8")]
    NotText,
    /// The value has ended, and bytes follow.
    #[error("{0} bytes follow the value")]
    Trailing(usize),
}
