//! What the kernel holds because it was asked to: sessions of its initiators, and its own targets.
//!
//! An agent's actions make them; the ledger names them before they are made and removes them, whoever made them.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use super::limits::ACTION_TIMEOUT;
use super::program;
use crate::measure::process::line;

/// What an action leaves in the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Attachment {
    /// A session of the kernel's iSCSI initiator.
    IscsiSession {
        /// The target's portal.
        portal: SocketAddr,
        /// The target's name.
        target: String,
    },
    /// A connection of the kernel's NVMe host.
    NvmeConnection {
        /// The subsystem's name.
        subsystem: String,
    },
    /// A target of LIO with its device.
    LioTarget {
        /// The target's name.
        target: String,
        /// The backstore's name.
        backstore: String,
    },
    /// All of nvmet's configuration: there was none before.
    Nvmet {
        /// The subsystem's name.
        subsystem: String,
    },
}

/// A command's words.
pub(crate) type Words = Vec<String>;

/// The same, owned.
pub(crate) fn words(words: &[&str]) -> Words {
    words.iter().map(|word| (*word).to_owned()).collect()
}

impl Attachment {
    /// Whether the kernel has it.
    pub(crate) fn is_there(&self) -> bool {
        match self {
            Self::IscsiSession { target, .. } => has("/sys/class/iscsi_session", "targetname", target),
            Self::NvmeConnection { subsystem } => has("/sys/class/nvme", "subsysnqn", subsystem),
            Self::LioTarget { target, .. } => {
                Path::new("/sys/kernel/config/target/iscsi").join(target).exists()
            }
            // `nvmetcli` restores and clears all that there is, so anything at all counts.
            Self::Nvmet { .. } => ["subsystems", "ports"].iter().any(|part| {
                let folder = Path::new("/sys/kernel/config/nvmet").join(part);
                std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
            }),
        }
    }

    /// Removes it; false when the kernel does not have it.
    pub(crate) fn remove(&self) -> Result<bool> {
        if !self.is_there() {
            return Ok(false);
        }
        for command in self.removal() {
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            program::output(&command, ACTION_TIMEOUT)?;
        }
        if self.is_there() {
            bail!("the kernel still has {self}");
        }
        Ok(true)
    }

    pub(crate) fn removal(&self) -> Vec<Words> {
        match self {
            Self::IscsiSession { portal, target } => {
                let node =
                    ["iscsiadm", "-m", "node", "-T", target, "-p", &portal.to_string()].map(str::to_owned);
                [["--logout"].as_slice(), &["-o", "delete"]]
                    .map(|rest| [&node[..], &words(rest)].concat())
                    .to_vec()
            }
            Self::NvmeConnection { subsystem } => vec![words(&["nvme", "disconnect", "-n", subsystem])],
            Self::LioTarget { target, backstore } => vec![
                words(&["targetcli", "/iscsi", "delete", target]),
                words(&["targetcli", "/backstores/block", "delete", backstore]),
            ],
            Self::Nvmet { .. } => vec![words(&["nvmetcli", "clear"])],
        }
    }
}

/// Whether one of a class's objects has this value.
fn has(class: &str, file: &str, value: &str) -> bool {
    let entries = std::fs::read_dir(class).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| line(entry.path().join(file)).as_deref() == Some(value))
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IscsiSession { portal, target } => write!(f, "iSCSI session with {target} at {portal}"),
            Self::NvmeConnection { subsystem } => write!(f, "NVMe connection to {subsystem}"),
            Self::LioTarget { target, .. } => write!(f, "LIO target {target}"),
            Self::Nvmet { subsystem } => write!(f, "nvmet configuration with {subsystem}"),
        }
    }
}
