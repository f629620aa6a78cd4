//! What an arm's targets and adapters are told, and what is there once they run.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::caches::{Caches, Counters};
use crate::machine::process::{Placement, Running};
use crate::machine::topology::Host;

/// How long an adapter may take to end by itself.
const ADAPTER_TIMEOUT: Duration = Duration::from_secs(5);
/// The volumes behind the targets of an arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volumes {
    /// Targets (iSCSI targets, NVMe subsystems, exports); at least 1.
    pub targets: u32,
    /// Volumes of each target; at least 1.
    pub luns: u32,
    /// What each volume is: a volume URL in which `{n}` is its number from 0 and `{folder}` the point's folder.
    pub url: String,
}

/// Something that a load tool opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// `iscsi://…`, `nvme+tcp://…`, `nbd+unix:///…?socket=…`, `nbd://…`, `nfs://…`, a path, a local volume's URL,
    /// `host:port` of a stream, or `postgresql:///…`.
    pub url: String,
    /// Its size in bytes; 0 when it has none.
    pub size: u64,
}

/// For whom a process works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// It speaks the protocol for the host.
    Adapter,
    /// It serves.
    Target,
}

/// A process that runs for an arm.
#[derive(Debug)]
pub struct Service {
    /// For whom.
    pub side: Side,
    /// The program's name.
    pub name: String,
    /// What it says of its version.
    pub version: String,
    /// The process.
    pub running: Running,
    /// What it can be asked about its cache volumes, where it has any.
    pub caches: Option<Caches>,
}

impl Service {
    /// What its cache volumes count now; nothing where it has none.
    pub fn counters(&mut self) -> Result<Counters> {
        let Some(caches) = self.caches.clone() else { return Ok(Counters::new()) };
        caches.ask(&mut self.running).with_context(|| format!("{} was asked for its caches", self.name))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // An adapter is asked, so that it logs out and unmounts; what serves keeps nothing that would be worth waiting for.
        if self.side == Side::Adapter {
            self.running.stop(ADAPTER_TIMEOUT);
        }
    }
}

/// What runs, and what can be opened. Dropping it ends the processes.
#[derive(Debug, Default)]
pub struct Served {
    /// The processes.
    pub services: Vec<Service>,
    /// Target 0 LUN 0, LUN 1, …, target 1 LUN 0, …
    pub endpoints: Vec<Endpoint>,
}

/// What a target needs to know.
#[derive(Debug, Clone, Copy)]
pub struct ServeSpec<'a> {
    /// What it serves.
    pub volumes: &'a Volumes,
    /// Where it listens.
    pub host: &'a Host,
    /// Where its files go; there must be nobody else's.
    pub folder: &'a Path,
    /// Where it runs.
    pub placement: &'a Placement,
    /// The `linerate` program itself.
    pub linerate: &'a Path,
    /// Event loops of Linerate's target; others have what they have.
    pub cores: u32,
    /// How long the target looks for work before it sleeps, where it is told.
    pub spin: Option<&'a str>,
}

/// What an adapter needs to know.
#[derive(Debug, Clone, Copy)]
pub struct AdaptSpec<'a> {
    /// What the targets offer.
    pub endpoints: &'a [Endpoint],
    /// The initiating host.
    pub host: &'a Host,
    /// Where its files go.
    pub folder: &'a Path,
    /// Where it runs.
    pub placement: &'a Placement,
    /// The `linerate` program itself.
    pub linerate: &'a Path,
}

/// How an adapter hands volumes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handing {
    /// As NBD exports on a local socket.
    Nbd,
    /// As files, through FUSE.
    Fuse,
    /// As vhost-user devices, each on a local socket.
    VhostUser,
}
