//! What an operation changed: weak cache consistency of version 3, change_info4 of version 4.

use crate::{Attributes, Time};

/// What is told of an object before an operation: wcc_attr (RFC 1813 §2.6), and the change attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreOperation {
    /// Bytes.
    pub size: u64,
    /// Modification of data.
    pub time_modify: Time,
    /// Modification of attributes.
    pub time_metadata: Time,
    /// The change attribute.
    pub change: u64,
}

impl From<&Attributes> for PreOperation {
    fn from(attributes: &Attributes) -> Self {
        let Attributes { size, time_modify, time_metadata, change, .. } = *attributes;
        Self { size, time_modify, time_metadata, change }
    }
}

/// An object before and after an operation: wcc_data (RFC 1813 §2.6). What is not known is not told, and a client asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WccData {
    /// Before.
    pub before: Option<PreOperation>,
    /// After.
    pub after: Option<Attributes>,
}

/// A directory before and after an operation on its entries: also change_info4 (RFC 8881 §3.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryChange {
    /// Nothing else changed the directory between the two.
    pub atomic: bool,
    /// Before.
    pub before: PreOperation,
    /// After.
    pub after: Attributes,
}
