//! What a status means for a request, and for the connection: one match over `nfsstat4` (RFC 8881 §15.1, RFC 7862 §11.1).

use volume::VolumeErrorKind;

use super::remedy;
use crate::v4::Status;

/// What becomes of whatever ended with a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The request fails so.
    Fails(VolumeErrorKind),
    /// It was carried out, and its answer was not kept: it may be made again, as a new one.
    Uncached,
    /// The session is no more; the client and what it has open may be there still.
    NoSession,
    /// What was open is no more, or the whole client: it is opened anew.
    NoState,
}

/// What a status that is not OK means.
pub(super) fn verdict(status: Status) -> Verdict {
    use VolumeErrorKind as Kind;
    match status {
        Status::NOSPC | Status::DQUOT | Status::FBIG => Verdict::Fails(Kind::NoSpace),
        Status::ROFS | Status::ACCESS | Status::PERM => Verdict::Fails(Kind::ReadOnly),
        Status::NOTSUPP | Status::OP_ILLEGAL | Status::ATTRNOTSUPP | Status::UNION_NOTSUPP => {
            Verdict::Fails(Kind::Unsupported)
        }
        Status::DELAY | Status::GRACE | Status::RESOURCE | Status::LAYOUTTRYLATER => {
            Verdict::Fails(Kind::Busy)
        }
        Status::LOCKED | Status::SHARE_DENIED | Status::DENIED => Verdict::Fails(Kind::ReservationConflict),
        Status::RETRY_UNCACHED_REP => Verdict::Uncached,
        Status::BADSESSION
        | Status::DEADSESSION
        | Status::BADSLOT
        | Status::BAD_HIGH_SLOT
        | Status::SEQ_MISORDERED
        | Status::SEQ_FALSE_RETRY
        | Status::CONN_NOT_BOUND_TO_SESSION
        | Status::SEQUENCE_POS
        | Status::OP_NOT_IN_SESSION
        | Status::REQ_TOO_BIG
        | Status::REP_TOO_BIG
        | Status::REP_TOO_BIG_TO_CACHE
        | Status::TOO_MANY_OPS => Verdict::NoSession,
        Status::STALE
        | Status::BADHANDLE
        | Status::FHEXPIRED
        | Status::NOFILEHANDLE
        | Status::BAD_STATEID
        | Status::OLD_STATEID
        | Status::STALE_STATEID
        | Status::EXPIRED
        | Status::ADMIN_REVOKED
        | Status::DELEG_REVOKED
        | Status::OPENMODE
        | Status::STALE_CLIENTID
        | Status::MOVED
        | Status::LEASE_MOVED => Verdict::NoState,
        // IO, NXIO, SERVERFAULT, INVAL, and whatever makes no sense for a file.
        _ => Verdict::Fails(Kind::Media),
    }
}

/// What a user can do about a status while a volume is opened; empty where there is nothing to say.
pub(super) fn remedy(status: Status) -> &'static str {
    match status {
        Status::NOENT => "check the path; a server of version 4 shows its exports below /",
        Status::ACCESS | Status::PERM => remedy::USER,
        Status::ROFS => remedy::READ_ONLY,
        Status::NOTDIR => remedy::NO_DIRECTORY,
        Status::ISDIR => "it is a directory: name a file in it",
        Status::SYMLINK => "a symbolic link is not followed: name what it leads to",
        Status::WRONGSEC => {
            "the server wants another security flavor, such as Kerberos: export it with sec=sys"
        }
        Status::SHARE_DENIED => {
            "another client has it open and denies others: close it there, or wait until its lease has ended"
        }
        Status::GRACE => {
            "the server has restarted and still waits for its clients: try again in a minute or two"
        }
        Status::DELAY | Status::RESOURCE => remedy::BUSY,
        Status::MINOR_VERS_MISMATCH => {
            "the server has neither version 4.1 nor 4.2, or not the one that version= asks for"
        }
        Status::NAMETOOLONG => remedy::LONG_NAME,
        Status::CLID_INUSE => "the server knows this client under another user",
        Status::MOVED => "the file system is at another server: name that one",
        Status::NOSPC | Status::DQUOT => remedy::NO_SPACE,
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
    fn what_may_be_repeated_is_never_a_loss() {
        for status in [Status::DELAY, Status::GRACE] {
            assert_eq!(verdict(status), Verdict::Fails(VolumeErrorKind::Busy));
        }
        assert_eq!(verdict(Status::IO), Verdict::Fails(VolumeErrorKind::Media));
        assert_eq!(verdict(Status(12_345)), Verdict::Fails(VolumeErrorKind::Media));
    }
}
