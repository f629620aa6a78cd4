//! `nfsstat4`: what an operation came to (RFC 8881 §15.1, RFC 7862 §11.1, RFC 8276 §8.5).

use crate::named::statuses;

/// An `nfsstat4`. Values that nobody knows are kept as they are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(pub u32);

statuses! {
    NFS4, nfsstat4;
    /// Done.
    OK = 0;
    /// Only an owner or a privileged user may.
    PERM = 1;
    /// No such file or directory.
    NOENT = 2;
    /// The medium failed.
    IO = 5;
    /// No such data or hole: beyond the end (RFC 7862 §15.11).
    NXIO = 6;
    /// Permission is denied.
    ACCESS = 13;
    /// It exists already.
    EXIST = 17;
    /// The two are in different file systems.
    XDEV = 18;
    /// It is no directory.
    NOTDIR = 20;
    /// It is a directory.
    ISDIR = 21;
    /// An argument is invalid.
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
    /// The handle is none of this server.
    BADHANDLE = 10_001;
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
    /// Not now: try again later.
    DELAY = 10_008;
    /// The attributes are the same (NVERIFY).
    SAME = 10_009;
    /// Somebody else has the lock.
    DENIED = 10_010;
    /// The state expired.
    EXPIRED = 10_011;
    /// A share reservation forbids it.
    LOCKED = 10_012;
    /// Only reclaims are served: the server has restarted.
    GRACE = 10_013;
    /// The handle has expired.
    FHEXPIRED = 10_014;
    /// Another open denies the share.
    SHARE_DENIED = 10_015;
    /// The security mechanism is not the one that is required.
    WRONGSEC = 10_016;
    /// The client ID is in use by another principal.
    CLID_INUSE = 10_017;
    /// Resources are exhausted (not in 4.1).
    RESOURCE = 10_018;
    /// The file system is elsewhere.
    MOVED = 10_019;
    /// There is no current file handle.
    NOFILEHANDLE = 10_020;
    /// The minor version is not served.
    MINOR_VERS_MISMATCH = 10_021;
    /// The client ID is not known.
    STALE_CLIENTID = 10_022;
    /// The stateid is of an earlier server (not in 4.1).
    STALE_STATEID = 10_023;
    /// The seqid of the stateid is not the newest.
    OLD_STATEID = 10_024;
    /// The stateid is none of this client.
    BAD_STATEID = 10_025;
    /// The seqid is wrong (not in 4.1).
    BAD_SEQID = 10_026;
    /// The attributes, or verifiers, differ.
    NOT_SAME = 10_027;
    /// The lock range cannot be split.
    LOCK_RANGE = 10_028;
    /// It is a symbolic link.
    SYMLINK = 10_029;
    /// There is no saved file handle.
    RESTOREFH = 10_030;
    /// A lease has moved.
    LEASE_MOVED = 10_031;
    /// An attribute is not supported.
    ATTRNOTSUPP = 10_032;
    /// There is no grace period for a reclaim.
    NO_GRACE = 10_033;
    /// The client has nothing that could be reclaimed.
    RECLAIM_BAD = 10_034;
    /// The reclaim conflicts with another.
    RECLAIM_CONFLICT = 10_035;
    /// The arguments cannot be decoded.
    BADXDR = 10_036;
    /// Locks are held.
    LOCKS_HELD = 10_037;
    /// The open does not allow it.
    OPENMODE = 10_038;
    /// An owner or group name cannot be translated.
    BADOWNER = 10_039;
    /// A string has a character that is not supported.
    BADCHAR = 10_040;
    /// The name is not supported.
    BADNAME = 10_041;
    /// The lock range is not supported.
    BAD_RANGE = 10_042;
    /// An atomic upgrade or downgrade of a lock is not supported.
    LOCK_NOTSUPP = 10_043;
    /// There is no such operation.
    OP_ILLEGAL = 10_044;
    /// A lock would be waited for in a circle.
    DEADLOCK = 10_045;
    /// The file is open.
    FILE_OPEN = 10_046;
    /// An administrator revoked the state.
    ADMIN_REVOKED = 10_047;
    /// The callback path is down.
    CB_PATH_DOWN = 10_048;
    /// See NFS4ERR_BADIOMODE (RFC 8881 §15.1, RFC 7862 §11.1).
    BADIOMODE = 10_049;
    /// See NFS4ERR_BADLAYOUT (RFC 8881 §15.1, RFC 7862 §11.1).
    BADLAYOUT = 10_050;
    /// See NFS4ERR_BAD_SESSION_DIGEST (RFC 8881 §15.1, RFC 7862 §11.1).
    BAD_SESSION_DIGEST = 10_051;
    /// See NFS4ERR_BADSESSION (RFC 8881 §15.1, RFC 7862 §11.1).
    BADSESSION = 10_052;
    /// See NFS4ERR_BADSLOT (RFC 8881 §15.1, RFC 7862 §11.1).
    BADSLOT = 10_053;
    /// See NFS4ERR_COMPLETE_ALREADY (RFC 8881 §15.1, RFC 7862 §11.1).
    COMPLETE_ALREADY = 10_054;
    /// See NFS4ERR_CONN_NOT_BOUND_TO_SESSION (RFC 8881 §15.1, RFC 7862 §11.1).
    CONN_NOT_BOUND_TO_SESSION = 10_055;
    /// See NFS4ERR_DELEG_ALREADY_WANTED (RFC 8881 §15.1, RFC 7862 §11.1).
    DELEG_ALREADY_WANTED = 10_056;
    /// See NFS4ERR_BACK_CHAN_BUSY (RFC 8881 §15.1, RFC 7862 §11.1).
    BACK_CHAN_BUSY = 10_057;
    /// See NFS4ERR_LAYOUTTRYLATER (RFC 8881 §15.1, RFC 7862 §11.1).
    LAYOUTTRYLATER = 10_058;
    /// See NFS4ERR_LAYOUTUNAVAILABLE (RFC 8881 §15.1, RFC 7862 §11.1).
    LAYOUTUNAVAILABLE = 10_059;
    /// See NFS4ERR_NOMATCHING_LAYOUT (RFC 8881 §15.1, RFC 7862 §11.1).
    NOMATCHING_LAYOUT = 10_060;
    /// See NFS4ERR_RECALLCONFLICT (RFC 8881 §15.1, RFC 7862 §11.1).
    RECALLCONFLICT = 10_061;
    /// See NFS4ERR_UNKNOWN_LAYOUTTYPE (RFC 8881 §15.1, RFC 7862 §11.1).
    UNKNOWN_LAYOUTTYPE = 10_062;
    /// See NFS4ERR_SEQ_MISORDERED (RFC 8881 §15.1, RFC 7862 §11.1).
    SEQ_MISORDERED = 10_063;
    /// See NFS4ERR_SEQUENCE_POS (RFC 8881 §15.1, RFC 7862 §11.1).
    SEQUENCE_POS = 10_064;
    /// See NFS4ERR_REQ_TOO_BIG (RFC 8881 §15.1, RFC 7862 §11.1).
    REQ_TOO_BIG = 10_065;
    /// See NFS4ERR_REP_TOO_BIG (RFC 8881 §15.1, RFC 7862 §11.1).
    REP_TOO_BIG = 10_066;
    /// See NFS4ERR_REP_TOO_BIG_TO_CACHE (RFC 8881 §15.1, RFC 7862 §11.1).
    REP_TOO_BIG_TO_CACHE = 10_067;
    /// See NFS4ERR_RETRY_UNCACHED_REP (RFC 8881 §15.1, RFC 7862 §11.1).
    RETRY_UNCACHED_REP = 10_068;
    /// See NFS4ERR_UNSAFE_COMPOUND (RFC 8881 §15.1, RFC 7862 §11.1).
    UNSAFE_COMPOUND = 10_069;
    /// See NFS4ERR_TOO_MANY_OPS (RFC 8881 §15.1, RFC 7862 §11.1).
    TOO_MANY_OPS = 10_070;
    /// See NFS4ERR_OP_NOT_IN_SESSION (RFC 8881 §15.1, RFC 7862 §11.1).
    OP_NOT_IN_SESSION = 10_071;
    /// See NFS4ERR_HASH_ALG_UNSUPP (RFC 8881 §15.1, RFC 7862 §11.1).
    HASH_ALG_UNSUPP = 10_072;
    /// See NFS4ERR_CLIENTID_BUSY (RFC 8881 §15.1, RFC 7862 §11.1).
    CLIENTID_BUSY = 10_074;
    /// See NFS4ERR_PNFS_IO_HOLE (RFC 8881 §15.1, RFC 7862 §11.1).
    PNFS_IO_HOLE = 10_075;
    /// See NFS4ERR_SEQ_FALSE_RETRY (RFC 8881 §15.1, RFC 7862 §11.1).
    SEQ_FALSE_RETRY = 10_076;
    /// See NFS4ERR_BAD_HIGH_SLOT (RFC 8881 §15.1, RFC 7862 §11.1).
    BAD_HIGH_SLOT = 10_077;
    /// See NFS4ERR_DEADSESSION (RFC 8881 §15.1, RFC 7862 §11.1).
    DEADSESSION = 10_078;
    /// See NFS4ERR_ENCR_ALG_UNSUPP (RFC 8881 §15.1, RFC 7862 §11.1).
    ENCR_ALG_UNSUPP = 10_079;
    /// See NFS4ERR_PNFS_NO_LAYOUT (RFC 8881 §15.1, RFC 7862 §11.1).
    PNFS_NO_LAYOUT = 10_080;
    /// See NFS4ERR_NOT_ONLY_OP (RFC 8881 §15.1, RFC 7862 §11.1).
    NOT_ONLY_OP = 10_081;
    /// See NFS4ERR_WRONG_CRED (RFC 8881 §15.1, RFC 7862 §11.1).
    WRONG_CRED = 10_082;
    /// See NFS4ERR_WRONG_TYPE (RFC 8881 §15.1, RFC 7862 §11.1).
    WRONG_TYPE = 10_083;
    /// See NFS4ERR_DIRDELEG_UNAVAIL (RFC 8881 §15.1, RFC 7862 §11.1).
    DIRDELEG_UNAVAIL = 10_084;
    /// See NFS4ERR_REJECT_DELEG (RFC 8881 §15.1, RFC 7862 §11.1).
    REJECT_DELEG = 10_085;
    /// See NFS4ERR_RETURNCONFLICT (RFC 8881 §15.1, RFC 7862 §11.1).
    RETURNCONFLICT = 10_086;
    /// See NFS4ERR_DELEG_REVOKED (RFC 8881 §15.1, RFC 7862 §11.1).
    DELEG_REVOKED = 10_087;
    /// See NFS4ERR_PARTNER_NOTSUPP (RFC 8881 §15.1, RFC 7862 §11.1).
    PARTNER_NOTSUPP = 10_088;
    /// See NFS4ERR_PARTNER_NO_AUTH (RFC 8881 §15.1, RFC 7862 §11.1).
    PARTNER_NO_AUTH = 10_089;
    /// See NFS4ERR_UNION_NOTSUPP (RFC 8881 §15.1, RFC 7862 §11.1).
    UNION_NOTSUPP = 10_090;
    /// See NFS4ERR_OFFLOAD_DENIED (RFC 8881 §15.1, RFC 7862 §11.1).
    OFFLOAD_DENIED = 10_091;
    /// See NFS4ERR_WRONG_LFS (RFC 8881 §15.1, RFC 7862 §11.1).
    WRONG_LFS = 10_092;
    /// See NFS4ERR_BADLABEL (RFC 8881 §15.1, RFC 7862 §11.1).
    BADLABEL = 10_093;
    /// See NFS4ERR_OFFLOAD_NO_REQS (RFC 8881 §15.1, RFC 7862 §11.1).
    OFFLOAD_NO_REQS = 10_094;
    /// See NFS4ERR_NOXATTR (RFC 8881 §15.1, RFC 7862 §11.1).
    NOXATTR = 10_095;
    /// See NFS4ERR_XATTR2BIG (RFC 8881 §15.1, RFC 7862 §11.1).
    XATTR2BIG = 10_096;
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;

    use super::*;

    #[test]
    fn each_value_has_one_name() {
        let values: BTreeSet<Status> = Status::ALL.iter().copied().collect();
        assert_eq!(values.len(), Status::ALL.len());
        assert!(Status::ALL.iter().all(|status| status.name().is_some()));
        assert_eq!(
            format!("{} {} {}", Status::OK, Status::DELAY, Status(77)),
            "NFS4_OK NFS4ERR_DELAY nfsstat4 77"
        );
    }
}
