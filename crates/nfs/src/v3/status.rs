//! `nfsstat3`: what a procedure came to (RFC 1813 §2.6), and which of them a failure is.

use filesystem::FileErrorKind;

use super::procedure::Number;
use crate::named::statuses;

/// An `nfsstat3`: the closed list of RFC 1813 §2.6.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(pub u32);

statuses! {
    NFS3, nfsstat3;
    /// Done.
    OK = 0;
    /// Only an owner or a privileged user may.
    PERM = 1;
    /// No such file or directory.
    NOENT = 2;
    /// The medium failed.
    IO = 5;
    /// No such device.
    NXIO = 6;
    /// Permission is denied.
    ACCES = 13;
    /// It exists already.
    EXIST = 17;
    /// The two are in different file systems.
    XDEV = 18;
    /// No such device.
    NODEV = 19;
    /// It is no directory.
    NOTDIR = 20;
    /// It is a directory.
    ISDIR = 21;
    /// An argument is invalid, or not for this type of object.
    INVAL = 22;
    /// The file would be larger than the file system allows.
    FBIG = 27;
    /// No space is left.
    NOSPC = 28;
    /// The file system is read-only.
    ROFS = 30;
    /// Too many links.
    MLINK = 31;
    /// The name is too long.
    NAMETOOLONG = 63;
    /// The directory is not empty.
    NOTEMPTY = 66;
    /// A quota is exhausted.
    DQUOT = 69;
    /// The file of the handle is gone.
    STALE = 70;
    /// Too many levels of remote in a path.
    REMOTE = 71;
    /// The handle is none of this server.
    BADHANDLE = 10_001;
    /// The guard of SETATTR is not the time of the last change.
    NOT_SYNC = 10_002;
    /// The READDIR cookie is stale.
    BAD_COOKIE = 10_003;
    /// The operation is not supported.
    NOTSUPP = 10_004;
    /// A buffer or a request is too small.
    TOOSMALL = 10_005;
    /// An error that has no other name.
    SERVERFAULT = 10_006;
    /// The type cannot be created.
    BADTYPE = 10_007;
    /// Not now: the client tries again later.
    JUKEBOX = 10_008;
}

impl Status {
    /// The status of a failure of the file system.
    pub fn of(failure: FileErrorKind) -> Self {
        match failure {
            FileErrorKind::NotOwner => Self::PERM,
            FileErrorKind::NoEntry => Self::NOENT,
            FileErrorKind::Io => Self::IO,
            FileErrorKind::NoDevice => Self::NXIO,
            FileErrorKind::Access => Self::ACCES,
            FileErrorKind::Exists => Self::EXIST,
            FileErrorKind::CrossDevice => Self::XDEV,
            FileErrorKind::NotDirectory | FileErrorKind::SymbolicLink => Self::NOTDIR,
            FileErrorKind::IsDirectory => Self::ISDIR,
            FileErrorKind::Invalid | FileErrorKind::WrongType | FileErrorKind::BadName => Self::INVAL,
            FileErrorKind::BadType => Self::BADTYPE,
            FileErrorKind::FileTooBig => Self::FBIG,
            FileErrorKind::NoSpace => Self::NOSPC,
            FileErrorKind::QuotaExceeded => Self::DQUOT,
            FileErrorKind::ReadOnly => Self::ROFS,
            FileErrorKind::TooManyLinks => Self::MLINK,
            FileErrorKind::NameTooLong => Self::NAMETOOLONG,
            FileErrorKind::NotEmpty => Self::NOTEMPTY,
            FileErrorKind::Stale => Self::STALE,
            FileErrorKind::BadHandle => Self::BADHANDLE,
            FileErrorKind::NotSync => Self::NOT_SYNC,
            FileErrorKind::BadCookie => Self::BAD_COOKIE,
            FileErrorKind::NotSupported => Self::NOTSUPP,
            FileErrorKind::ServerFault => Self::SERVERFAULT,
            FileErrorKind::Delay | FileErrorKind::Cancelled => Self::JUKEBOX,
        }
    }

    /// The status as the procedure has it: each has its own list (RFC 1813 §3.3). Data and the size of what is no regular file, a link to a directory, and
    /// a size beyond all bounds are invalid arguments.
    #[must_use]
    pub fn within(self, procedure: Number) -> Self {
        match (procedure, self) {
            (Number::READ | Number::WRITE | Number::COMMIT, Self::ISDIR | Self::NOTDIR)
            | (Number::SETATTR, Self::ISDIR | Self::NOTDIR | Self::FBIG)
            | (Number::LINK, Self::ISDIR) => Self::INVAL,
            _ => self,
        }
    }

    /// True where nothing is known of the object, so that its attributes are not asked for either.
    pub fn concerns_the_handle(self) -> bool {
        matches!(self, Self::STALE | Self::BADHANDLE | Self::SERVERFAULT | Self::JUKEBOX | Self::IO)
    }
}

/// What is shared with version 4: handles, anonymous access, grace. An open of version 4 that denies the access is [`Status::ACCES`]: version 3 has no word that is
/// nearer, and a client that was told to come back would do so for as long as the file is open.
impl From<crate::v4::Status> for Status {
    fn from(status: crate::v4::Status) -> Self {
        use crate::v4::Status as Other;
        match status {
            Other::BADHANDLE => Self::BADHANDLE,
            Other::STALE => Self::STALE,
            Other::ROFS => Self::ROFS,
            Other::LOCKED => Self::ACCES,
            Other::GRACE | Other::DELAY => Self::JUKEBOX,
            _ => Self::SERVERFAULT,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;

    use super::*;

    #[test]
    fn each_value_has_one_name() {
        let values: BTreeSet<Status> = Status::ALL.iter().copied().collect();
        assert_eq!(values.len(), 29);
        assert!(Status::ALL.iter().all(|status| status.name().is_some()));
        assert_eq!(
            format!("{} {} {}", Status::OK, Status::ACCES, Status(77)),
            "NFS3_OK NFS3ERR_ACCES nfsstat3 77"
        );
    }
}
