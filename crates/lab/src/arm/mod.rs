//! What is compared: each arm starts its target and says how the load reaches it.

/// Where a load tool finds a volume, a stream or a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// A volume's URL (`iscsi://…`, `nvme+tcp://…`, `nbd+unix:///0?socket=…`, a local volume's), the path of a file or
    /// device, `HOST:PORT` of a stream, or `postgresql://…`.
    pub url: String,
    /// Its size in bytes; 0 when it has none.
    pub size: u64,
}
