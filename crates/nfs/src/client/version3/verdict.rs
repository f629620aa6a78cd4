//! What a status of version 3 means for a request, and for the connection: one match over `nfsstat3` (RFC 1813 §2.6).

use volume::VolumeErrorKind;

use crate::client::remedy;
use crate::client::verdict::Verdict;
use crate::v3::Status;

/// What a status that is not OK means.
pub(super) fn verdict(status: Status) -> Verdict {
    use VolumeErrorKind as Kind;
    match status {
        Status::NOSPC | Status::DQUOT | Status::FBIG => Verdict::Fails(Kind::NoSpace),
        Status::ROFS | Status::ACCES | Status::PERM => Verdict::Fails(Kind::ReadOnly),
        Status::NOTSUPP => Verdict::Fails(Kind::Unsupported),
        Status::JUKEBOX => Verdict::Fails(Kind::Busy),
        Status::STALE | Status::BADHANDLE => Verdict::NoState,
        // IO, NXIO, SERVERFAULT, INVAL, and whatever makes no sense for a file.
        _ => Verdict::Fails(Kind::Media),
    }
}

/// What a user can do about a status while a volume is opened.
pub(super) fn remedy(status: Status) -> &'static str {
    match status {
        Status::NOENT => "check the path",
        Status::ACCES | Status::PERM => remedy::USER,
        Status::ROFS => remedy::READ_ONLY,
        Status::NOTDIR => remedy::NO_DIRECTORY,
        Status::JUKEBOX => remedy::BUSY,
        Status::NAMETOOLONG => remedy::LONG_NAME,
        Status::NOSPC | Status::DQUOT => remedy::NO_SPACE,
        Status::STALE | Status::BADHANDLE => {
            "the server no longer knows the export or the file: check that it is still exported, and open the volume anew"
        }
        _ => remedy::LOG,
    }
}

#[cfg(test)]
mod tests {
    use core::fmt::Write as _;

    use super::*;

    /// Every status in one line each, so that a change of meaning is seen.
    #[test]
    fn statuses_and_what_they_mean() {
        let mut lines = std::string::String::new();
        for status in Status::ALL.iter().filter(|status| !status.is_ok()) {
            writeln!(lines, "{status}: {:?}", verdict(*status)).unwrap();
        }
        assert_eq!(lines, include_str!("verdict.table"));
    }

    #[test]
    fn a_status_that_nobody_knows_fails_the_request() {
        assert_eq!(verdict(Status(12_345)), Verdict::Fails(VolumeErrorKind::Media));
    }
}
