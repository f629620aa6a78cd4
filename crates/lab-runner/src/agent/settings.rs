//! What an agent is started with.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::token::Token;

/// What an agent is started with.
#[derive(Debug)]
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What a lab has to know.
    pub token: Token,
    /// The folder of its sessions and their ledgers; no other agent may have the same.
    pub state: PathBuf,
    /// The `linerate` program.
    pub linerate: PathBuf,
    /// Serial numbers of devices whose content may be lost.
    pub destroy: BTreeSet<String>,
}
