//! What a lab and an agent say to each other.
//!
//! The agent speaks first ([`Hello`]), the lab proves the token ([`Introduction`]), the agent proves it too or refuses ([`Answer`]). From
//! then on each [`Request`] has one [`Reply`], in order. `docs/protocols/lab-agent.md` shows the course of it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::action::Action;
use crate::arm::{Endpoint, Volumes};
use crate::measure::{Counted, Environment};
use crate::site::Processors;
use crate::tool::Measured;
use lab_model::result::Hardware;
use lab_model::scenario::{Initiator, Target, ToolKind};

/// What the agent says it speaks.
pub(crate) const PROTOCOL: &str = "linerate-lab-agent";
/// The version of the protocol: raised whenever a message changes; both sides must have the same.
pub(crate) const VERSION: u32 = 1;

/// The agent's first words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hello {
    pub(crate) protocol: String,
    pub(crate) version: u32,
    pub(crate) nonce: String,
}

/// The lab's first words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Introduction {
    pub(crate) version: u32,
    pub(crate) nonce: String,
    pub(crate) proof: String,
}

/// The agent's second words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Answer {
    Welcome { proof: String },
    Refused { reason: String },
}

/// What a lab asks for. An arm is named by its key; its target and its initiating side may be on different agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    /// The time, and a sign of life.
    Now {},
    /// What the machine is.
    Environment {},
    /// Has the kernel do something for the rest of the session; once, however often it is asked for.
    Act { action: Action },
    /// Starts an arm's target.
    Serve { arm: String, target: Target, volumes: Volumes, place: Place },
    /// Starts what speaks the protocol for the host.
    Adapt { arm: String, initiator: Initiator, endpoints: Vec<Endpoint>, place: Place },
    /// Ends what runs for an arm.
    End { arm: String },
    /// Begins to count what an arm's side costs here.
    Open { arm: String },
    /// Ends that. The moments are the agent's, seconds since 1970; what lies outside of the counted time is cut off.
    Close { arm: String, from: f64, to: f64 },
    /// Says which load comes next.
    Plan { arm: String, work: Work },
    /// Starts a step of it.
    Start { step: Step },
    /// Whether the step has ended.
    Poll {},
    /// What the load measured.
    Outcome {},
    /// A part of one of its raw files.
    Read { name: String, offset: u64 },
}

/// Where an arm's side runs on its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    /// The host's address on the link.
    pub(crate) address: IpAddr,
    /// Its interface there, if its counters are wanted.
    pub(crate) interface: Option<String>,
    /// Which processors do what; empty means any.
    pub(crate) processors: Processors,
}

/// A load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Work {
    pub(crate) tool: ToolKind,
    pub(crate) settings: BTreeMap<String, String>,
    /// Seconds before the window.
    pub(crate) ramp: f64,
    /// Seconds of the window.
    pub(crate) runtime: f64,
}

/// A process that an agent starts for a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Step {
    /// A check that an endpoint keeps its data, by the endpoint's number.
    Check { endpoint: usize },
    /// What comes before the first load, by its number.
    Prepare { number: usize },
    /// The load itself.
    Load {},
}

/// What an agent replies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Reply {
    /// It was not done, and why.
    Refused { reason: String },
    /// It was done.
    Done {},
    /// Seconds since 1970, by the agent's clock.
    Now { at: f64 },
    /// What the machine is.
    Environment { environment: Box<Environment> },
    /// What can be opened; for an initiating side: what its load opens.
    Served { endpoints: Vec<Endpoint> },
    /// How many steps come before the first load.
    Planned { preparations: usize },
    /// Whether the step was started; an endpoint that nothing can check is not.
    Started { started: bool },
    /// The step still runs.
    Running {},
    /// It ended well, or else what it said.
    Ended { failure: Option<String> },
    /// What the load measured, or why that is not known, and its raw files.
    Outcome { outcome: Box<Outcome>, files: Vec<RawFile> },
    /// Bytes of a file as hexadecimal digits; fewer than were asked for only at its end.
    Bytes { digits: String },
    /// What was counted.
    Counted { counted: Box<Counted>, hardware: Box<Hardware> },
}

/// What came of a load; times are the agent's, seconds since 1970.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Outcome {
    Measured { measured: Box<Measured>, started: f64, from: f64, to: f64 },
    Failed { reason: String },
}

/// A raw file of a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawFile {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

impl Reply {
    /// Its kind, for a message about a reply that came out of turn.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "refused",
            Self::Done {} => "done",
            Self::Now { .. } => "now",
            Self::Environment { .. } => "environment",
            Self::Served { .. } => "served",
            Self::Planned { .. } => "planned",
            Self::Started { .. } => "started",
            Self::Running {} => "running",
            Self::Ended { .. } => "ended",
            Self::Outcome { .. } => "outcome",
            Self::Bytes { .. } => "bytes",
            Self::Counted { .. } => "counted",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_closed() {
        let text = r#"{"open":{"arm":"A"}}"#;
        let request: Request = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        for wrong in [
            r#"{"open":{"arm":"A","more":1}}"#,
            r#"{"run":{"argv":["id"]}}"#,
            r#"{"now":{"x":1}}"#,
            r#"{"act":{"action":{"iscsi-login":{"portal":"10.0.0.1:1","target":"iqn.x","x":1}}}}"#,
            r#"{"start":{"step":{"load":{"argv":"id"}}}}"#,
        ] {
            assert!(serde_json::from_str::<Request>(wrong).is_err(), "{wrong}");
        }
    }
}
