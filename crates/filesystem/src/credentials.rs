//! Who asks: the user and the groups that permissions are judged by.

use alloc::vec::Vec;
use core::fmt;

use crate::limits::GROUPS;

/// The user and groups in whose name a request is carried out. The server has already decided who that is: root and strangers are squashed before
/// (RFC 8881 §5.9). User 0 passes every check of permission, where the file system has the power to let it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Credentials {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

/// More groups than [`GROUPS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyGroups;

impl fmt::Display for TooManyGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a caller has {GROUPS} further groups at most")
    }
}

impl core::error::Error for TooManyGroups {}

impl Credentials {
    /// A user with its group, and the groups that it is in beside that.
    pub fn new(uid: u32, gid: u32, groups: &[u32]) -> Result<Self, TooManyGroups> {
        if groups.len() > GROUPS {
            return Err(TooManyGroups);
        }
        Ok(Self { uid, gid, groups: groups.to_vec() })
    }

    /// A user with its group and no other.
    pub const fn of(uid: u32, gid: u32) -> Self {
        Self { uid, gid, groups: Vec::new() }
    }

    /// The user.
    pub const fn uid(&self) -> u32 {
        self.uid
    }

    /// Its group, which new objects get.
    pub const fn gid(&self) -> u32 {
        self.gid
    }

    /// Its further groups.
    pub fn groups(&self) -> &[u32] {
        &self.groups
    }

    /// True if the user is in that group.
    pub fn is_in(&self, group: u32) -> bool {
        self.gid == group || self.groups.contains(&group)
    }

    /// True for the user that passes every check.
    pub const fn is_root(&self) -> bool {
        self.uid == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_bounded() {
        let most = vec![7; GROUPS];
        assert!(Credentials::new(1, 2, &most).unwrap().is_in(7));
        let more = vec![7; GROUPS + 1];
        assert_eq!(Credentials::new(1, 2, &more), Err(TooManyGroups));
    }
}
