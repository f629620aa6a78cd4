//! What can go wrong with a request, in the words of the standards.

use core::fmt;

/// The closed list of failures. Each has one nfsstat3 (RFC 1813 §2.6) and one nfsstat4 (RFC 8881 §15.1); where version 3 has no such word, the
/// comment says which comes closest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileErrorKind {
    /// Only the owner may do that, or nobody: NFS3ERR_PERM, NFS4ERR_PERM.
    NotOwner,
    /// There is no such name: NOENT.
    NoEntry,
    /// The medium failed: IO.
    Io,
    /// There is no data behind that offset (SEEK, RFC 7862 §15.11), or no device behind the node: NXIO.
    NoDevice,
    /// The caller lacks the right: ACCES, NFS4ERR_ACCESS.
    Access,
    /// The name is taken: EXIST.
    Exists,
    /// Both ends must be in one file system: XDEV.
    CrossDevice,
    /// It is no directory: NOTDIR.
    NotDirectory,
    /// It is a directory: ISDIR.
    IsDirectory,
    /// An argument makes no sense, or not for this type of object: INVAL.
    Invalid,
    /// It is a symbolic link: NFS4ERR_SYMLINK; version 3 says INVAL.
    SymbolicLink,
    /// The object is of a type that the operation is not for: NFS4ERR_WRONG_TYPE; version 3 says INVAL.
    WrongType,
    /// The type of object cannot be made: BADTYPE.
    BadType,
    /// The name cannot be one: NFS4ERR_BADNAME; version 3 says INVAL.
    BadName,
    /// The file would be larger than files can be: FBIG.
    FileTooBig,
    /// No space is left: NOSPC.
    NoSpace,
    /// The caller's quota is used up: DQUOT.
    QuotaExceeded,
    /// The file system takes no changes: ROFS.
    ReadOnly,
    /// The object has as many names as it can have: MLINK.
    TooManyLinks,
    /// The name or the link's target is too long: NAMETOOLONG.
    NameTooLong,
    /// The directory is not empty: NOTEMPTY.
    NotEmpty,
    /// The object that the handle names is gone: STALE.
    Stale,
    /// No object ever had that handle: BADHANDLE.
    BadHandle,
    /// The guard is not the time of the last change: NOT_SYNC, NFS3ERR_NOT_SYNC.
    NotSync,
    /// The cookie or its verifier belongs to no listing: BAD_COOKIE, NFS4ERR_NOT_SAME for the verifier.
    BadCookie,
    /// The file system does not do this: NOTSUPP; see [`Features`](crate::Features).
    NotSupported,
    /// Something is wrong with the server that nobody can name: SERVERFAULT.
    ServerFault,
    /// It cannot be done now, and may be tried a little later: NFS3ERR_JUKEBOX, NFS4ERR_DELAY.
    Delay,
    /// The request was cancelled before it began. Nobody is told, or DELAY.
    Cancelled,
}

impl fmt::Display for FileErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOwner => "only the owner may do that",
            Self::NoEntry => "there is no such name",
            Self::Io => "the medium could not read or write the data",
            Self::NoDevice => "there is nothing behind that",
            Self::Access => "the caller lacks the right",
            Self::Exists => "the name is taken",
            Self::CrossDevice => "both ends must be in one file system",
            Self::NotDirectory => "the object is no directory",
            Self::IsDirectory => "the object is a directory",
            Self::Invalid => "an argument makes no sense for this object",
            Self::SymbolicLink => "the object is a symbolic link",
            Self::WrongType => "the object is of another type than the operation is for",
            Self::BadType => "an object of this type cannot be made",
            Self::BadName => "these bytes cannot be a name",
            Self::FileTooBig => "the file would be larger than files can be",
            Self::NoSpace => "no space is left in the file system",
            Self::QuotaExceeded => "the caller's quota is used up",
            Self::ReadOnly => "the file system takes no changes",
            Self::TooManyLinks => "the object has as many names as it can have",
            Self::NameTooLong => "the name is too long",
            Self::NotEmpty => "the directory is not empty",
            Self::Stale => "the object is gone",
            Self::BadHandle => "no object ever had this handle",
            Self::NotSync => "the object has changed since the guard's time",
            Self::BadCookie => "the cookie belongs to no listing of the directory",
            Self::NotSupported => "the file system does not do this",
            Self::ServerFault => "the server failed",
            Self::Delay => "it cannot be done now, and may be tried again later",
            Self::Cancelled => "the request was cancelled",
        })
    }
}

impl core::error::Error for FileErrorKind {}

impl FileErrorKind {
    /// All of them.
    pub const ALL: [Self; 29] = [
        Self::NotOwner,
        Self::NoEntry,
        Self::Io,
        Self::NoDevice,
        Self::Access,
        Self::Exists,
        Self::CrossDevice,
        Self::NotDirectory,
        Self::IsDirectory,
        Self::Invalid,
        Self::SymbolicLink,
        Self::WrongType,
        Self::BadType,
        Self::BadName,
        Self::FileTooBig,
        Self::NoSpace,
        Self::QuotaExceeded,
        Self::ReadOnly,
        Self::TooManyLinks,
        Self::NameTooLong,
        Self::NotEmpty,
        Self::Stale,
        Self::BadHandle,
        Self::NotSync,
        Self::BadCookie,
        Self::NotSupported,
        Self::ServerFault,
        Self::Delay,
        Self::Cancelled,
    ];
}

#[cfg(test)]
mod tests {
    use super::FileErrorKind;

    #[test]
    fn all_are_all_and_each_says_something_else() {
        // The last variant's number, as the enum has no gaps: a new one that is not in the list shows here.
        assert_eq!(FileErrorKind::Cancelled as usize + 1, FileErrorKind::ALL.len());
        for (index, kind) in FileErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index, "{kind:?}");
            let same = FileErrorKind::ALL.into_iter().filter(|other| other.to_string() == kind.to_string());
            assert_eq!(same.count(), 1, "{kind:?}");
        }
    }
}
