//! Attributes that are to be set: sattr3, and the writable ones of fattr4.

use crate::Time;

/// A time that is to be set: set_atime of version 3, settime4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// To the server's clock.
    ToServer,
    /// To this.
    ToClient(Time),
}

/// What is to be set; `None` leaves it as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttributes {
    /// Permission bits: the lowest twelve; others are an error.
    pub mode: Option<u32>,
    /// The user.
    pub owner: Option<u32>,
    /// The group.
    pub owner_group: Option<u32>,
    /// Bytes of a regular file: it is cut, or grows by zeros.
    pub size: Option<u64>,
    /// Time of access.
    pub time_access: Option<SetTime>,
    /// Time of modification.
    pub time_modify: Option<SetTime>,
}

impl SetAttributes {
    /// Nothing but the permission bits.
    pub fn mode(mode: u32) -> Self {
        Self { mode: Some(mode), ..Self::default() }
    }

    /// Nothing but the size.
    pub fn size(size: u64) -> Self {
        Self { size: Some(size), ..Self::default() }
    }

    /// True if it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
