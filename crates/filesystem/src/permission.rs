//! Who may do what, by the permission bits: the rules of POSIX, for file systems that judge themselves.

use crate::{Access, Attributes, Credentials, FileType};

/// The bits of `mode` that count for the caller: read 4, write 2, execute 1.
const fn class_shift(is_owner: bool, is_group: bool) -> u32 {
    match (is_owner, is_group) {
        (true, _) => 6,
        (false, true) => 3,
        (false, false) => 0,
    }
}

/// Which of all rights a caller has on an object. User 0 has all, but executes only what somebody may execute.
pub fn permitted(attributes: &Attributes, caller: &Credentials) -> Access {
    let is_directory = attributes.file_type == FileType::Directory;
    let bits = if caller.is_root() {
        if is_directory || attributes.mode & 0o111 != 0 { 7 } else { 6 }
    } else {
        let shift = class_shift(caller.uid() == attributes.owner, caller.is_in(attributes.owner_group));
        attributes.mode.wrapping_shr(shift) & 7
    };
    let mut rights = Access::empty();
    rights.set(Access::READ, bits & 4 != 0);
    rights.set(Access::MODIFY | Access::EXTEND, bits & 2 != 0);
    if is_directory {
        rights.set(Access::LOOKUP, bits & 1 != 0);
        // To change entries one must be able to find them.
        let changes = bits & 3 == 3;
        rights.set(Access::MODIFY | Access::EXTEND | Access::DELETE, changes);
    } else {
        rights.set(Access::EXECUTE, bits & 1 != 0);
    }
    rights
}

/// Whether a caller that may change `directory` may remove or rename `object` in it: in a directory with the sticky bit only the owner of either may.
pub fn may_remove(directory: &Attributes, object: &Attributes, caller: &Credentials) -> bool {
    let is_sticky = directory.mode & 0o1000 != 0;
    !is_sticky || caller.is_root() || caller.uid() == directory.owner || caller.uid() == object.owner
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fsid, SpecData, Time};

    fn object(file_type: FileType, mode: u32) -> Attributes {
        Attributes {
            file_type,
            mode,
            numlinks: 1,
            owner: 10,
            owner_group: 20,
            size: 0,
            space_used: 0,
            rawdev: SpecData::default(),
            fsid: Fsid::default(),
            fileid: 1,
            change: 1,
            time_access: Time::default(),
            time_modify: Time::default(),
            time_metadata: Time::default(),
            time_create: None,
        }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let file = object(FileType::Regular, 0o047);
        let by = |uid, gid| permitted(&file, &Credentials::of(uid, gid));
        assert_eq!(by(10, 20), Access::empty(), "the owner is not the group");
        assert_eq!(by(11, 20), Access::READ);
        assert_eq!(by(11, 21), Access::READ | Access::MODIFY | Access::EXTEND | Access::EXECUTE);
        let further = Credentials::new(11, 21, &[7, 20]).unwrap();
        assert_eq!(permitted(&file, &further), Access::READ);
        assert!(by(0, 0).contains(Access::READ | Access::MODIFY | Access::EXECUTE));
        assert!(!permitted(&object(FileType::Regular, 0), &Credentials::of(0, 0)).contains(Access::EXECUTE));
    }

    #[test]
    fn directories_are_changed_by_who_may_also_search_them() {
        let rights = permitted(&object(FileType::Directory, 0o200), &Credentials::of(10, 0));
        assert_eq!(rights, Access::empty());
        let rights = permitted(&object(FileType::Directory, 0o300), &Credentials::of(10, 0));
        assert_eq!(rights, Access::LOOKUP | Access::MODIFY | Access::EXTEND | Access::DELETE);
    }

    #[test]
    fn sticky_directories_protect_what_is_others() {
        let (sticky, plain) = (object(FileType::Directory, 0o1777), object(FileType::Directory, 0o777));
        let theirs = Attributes { owner: 11, ..object(FileType::Regular, 0o666) };
        assert!(!may_remove(&sticky, &theirs, &Credentials::of(12, 0)));
        assert!(may_remove(&plain, &theirs, &Credentials::of(12, 0)));
        for user in [0, 10, 11] {
            assert!(may_remove(&sticky, &theirs, &Credentials::of(user, 0)), "{user}");
        }
    }
}
