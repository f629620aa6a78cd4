//! What may be set when a cluster is built.

use std::time::Duration;

use crate::limits;

/// Which mechanism of the kernel moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Driver {
    /// io_uring where the kernel allows it, else epoll.
    #[default]
    Auto,
    /// io_uring or nothing.
    Uring,
    /// epoll for sockets and a few threads for files, as inside containers that block io_uring.
    Epoll,
}

/// How the cores work. The default is right for most machines.
#[derive(Debug, Clone)]
pub struct Config {
    /// Mechanism.
    pub driver: Driver,
    /// How long a core that expects an answer looks for it before it sleeps; zero never does.
    pub spin: Duration,
    /// TCP congestion control for every socket, where the system permits it; `None` leaves the system's.
    pub congestion: Option<String>,
    /// Bytes of a staging area; at least what every endpoint asks for.
    pub staging: usize,
    /// Staging areas per core; connections that receive at the same moment share them.
    pub staging_areas: usize,
    /// Bytes of one send, about.
    pub send_budget: usize,
    /// Accepted streams per core; more are closed at once.
    pub max_connections: usize,
    /// Bind each spawned core's thread to a processor of its own, where there are enough.
    pub pin: bool,
}

impl Default for Config {
    fn default() -> Self {
        let alone = std::thread::available_parallelism().map_or(1, usize::from) < 2;
        Self {
            driver: Driver::Auto,
            spin: if alone { Duration::ZERO } else { limits::SPIN },
            congestion: Some("cubic".to_owned()),
            staging: limits::STAGING,
            staging_areas: limits::STAGING_AREAS,
            send_budget: limits::SEND_BUDGET,
            max_connections: limits::CONNECTIONS,
            pin: false,
        }
    }
}
