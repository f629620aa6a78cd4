//! Hosts of a site that have an agent, and what it is to have them do for an arm.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::processors::Processors;
use crate::agent::action::Action;

/// A machine on which `linerate lab agent` runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentHost {
    /// Address and port of the agent, such as `10.0.0.2:7311`.
    pub agent: String,
    /// The file with the agent's token.
    pub token_file: PathBuf,
    /// The host's address on the link that is measured; the agent's where it is not given.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// The host's interface there, if its counters are wanted.
    #[serde(default)]
    pub interface: Option<String>,
    /// Which of its processors do what; any where nothing is said.
    #[serde(default)]
    pub processors: Processors,
}

/// Something that a host's kernel does for an arm before it is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostAction {
    /// The host's name in the site file.
    pub host: String,
    /// What it does.
    pub action: Action,
}
