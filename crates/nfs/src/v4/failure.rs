//! A file system's failures as `nfsstat4`: one match.

use filesystem::FileErrorKind;

use super::Status;

/// The status of a failure (RFC 8881 §15.1).
pub fn status(of: FileErrorKind) -> Status {
    match of {
        FileErrorKind::NotOwner => Status::PERM,
        FileErrorKind::NoEntry => Status::NOENT,
        FileErrorKind::Io => Status::IO,
        FileErrorKind::NoDevice => Status::NXIO,
        FileErrorKind::Access => Status::ACCESS,
        FileErrorKind::Exists => Status::EXIST,
        FileErrorKind::CrossDevice => Status::XDEV,
        FileErrorKind::NotDirectory => Status::NOTDIR,
        FileErrorKind::IsDirectory => Status::ISDIR,
        FileErrorKind::Invalid => Status::INVAL,
        FileErrorKind::SymbolicLink => Status::SYMLINK,
        FileErrorKind::WrongType => Status::WRONG_TYPE,
        FileErrorKind::BadType => Status::BADTYPE,
        FileErrorKind::BadName => Status::BADNAME,
        FileErrorKind::FileTooBig => Status::FBIG,
        FileErrorKind::NoSpace => Status::NOSPC,
        FileErrorKind::QuotaExceeded => Status::DQUOT,
        FileErrorKind::ReadOnly => Status::ROFS,
        FileErrorKind::TooManyLinks => Status::MLINK,
        FileErrorKind::NameTooLong => Status::NAMETOOLONG,
        FileErrorKind::NotEmpty => Status::NOTEMPTY,
        FileErrorKind::Stale => Status::STALE,
        FileErrorKind::BadHandle => Status::BADHANDLE,
        FileErrorKind::BadCookie => Status::BAD_COOKIE,
        FileErrorKind::NotSupported => Status::NOTSUPP,
        // No request of this version has a guard.
        FileErrorKind::ServerFault | FileErrorKind::NotSync => Status::SERVERFAULT,
        FileErrorKind::Delay | FileErrorKind::Cancelled => Status::DELAY,
    }
}
