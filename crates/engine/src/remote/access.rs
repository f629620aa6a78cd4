//! Which volume of another machine is meant, and how it is entered.

use names::{IscsiUrl, NfsUrl, NvmeUrl};

/// CHAP secrets, read from their files. They are never printed.
#[derive(Clone)]
pub struct Secrets {
    /// The initiator's.
    pub initiator: Vec<u8>,
    /// The target's, if it must prove itself.
    pub target: Option<Vec<u8>>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets")
    }
}

/// Which volume, and how it is entered.
#[derive(Clone)]
pub enum Access {
    /// A logical unit of an iSCSI target.
    Iscsi {
        /// Which.
        url: IscsiUrl,
        /// The secrets that its options name.
        secrets: Option<Secrets>,
    },
    /// A namespace of an NVMe subsystem.
    Nvme {
        /// Which.
        url: NvmeUrl,
    },
    /// A file at an NFS server.
    Nfs {
        /// Which.
        url: NfsUrl,
        /// Who opens it, and what for.
        user: NfsUser,
    },
}

/// Who opens a file at an NFS server, unless the URL says otherwise, and what for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NfsUser {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
    /// Nothing is to be written.
    pub reads_only: bool,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Iscsi { url, .. } => f.debug_tuple("Iscsi").field(url).finish(),
            Self::Nvme { url } => f.debug_tuple("Nvme").field(url).finish(),
            Self::Nfs { url, .. } => f.debug_tuple("Nfs").field(url).finish(),
        }
    }
}
