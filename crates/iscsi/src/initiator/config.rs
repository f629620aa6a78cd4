//! What an initiator's connection is told to do: its login, and how long a command may take.

use alloc::vec::Vec;
use core::time::Duration;

use names::Iqn;

use crate::chap::{Algorithm, Credentials};
use crate::keys::{SessionType, Tuning};
use crate::limits::COMMAND_TIME;

/// Where to log in, as whom, and how.
#[derive(Debug, Clone)]
pub struct Config {
    /// InitiatorName.
    pub initiator: Iqn,
    /// The initiator's part of the session's name: one that no other session of this initiator to the target uses.
    pub isid: [u8; 6],
    /// TargetName; `None` for a discovery session.
    pub target: Option<Iqn>,
    /// The logical unit's number.
    pub lun: u16,
    /// How the initiator proves itself; `None` to be believed.
    pub chap: Option<Credentials>,
    /// How the target must prove itself.
    pub mutual: Option<Credentials>,
    /// The hashes to offer, the preferred first.
    pub algorithms: Vec<Algorithm>,
    /// What to negotiate.
    pub tuning: Tuning,
    /// How long a command may take before its task is aborted.
    pub command_time: Duration,
}

impl Config {
    /// A login of `initiator` to a target's logical unit, or a discovery, with defaults for everything else.
    pub fn new(initiator: Iqn, isid: [u8; 6], target: Option<Iqn>, lun: u16) -> Self {
        Self {
            initiator,
            isid,
            target,
            lun,
            chap: None,
            mutual: None,
            algorithms: Algorithm::ALL.to_vec(),
            tuning: Tuning::default(),
            command_time: COMMAND_TIME,
        }
    }

    /// What the session is for.
    pub(super) fn session_type(&self) -> SessionType {
        if self.target.is_some() { SessionType::Normal } else { SessionType::Discovery }
    }
}
