//! What a server tells people: one event for each login, refusal, violation, failure and management function. Never one for a request
//! that goes well.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use protocol::{CloseReason, Ended};

/// How much an event matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Data or service is lost.
    Error,
    /// Somebody was refused, or broke a rule.
    Warn,
    /// The usual coming and going.
    Info,
    /// For whoever looks for something.
    Debug,
}

impl Level {
    /// All, the most important first.
    pub const ALL: [Self; 4] = [Self::Error, Self::Warn, Self::Info, Self::Debug];

    /// The word in logs and filters.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A stream was accepted.
    Accepted,
    /// A stream was closed as soon as it came: a limit, or the time.
    Rejected,
    /// An initiator or a host is in.
    Login,
    /// Authentication or access control said no.
    Refused,
    /// A peer broke the protocol, and the connection ends.
    Violation,
    /// A peer's PDU was rejected, and the connection goes on.
    Reject,
    /// A peer was silent for too long.
    TimedOut,
    /// A limit ended a connection.
    Limit,
    /// The transport failed.
    Failed,
    /// A connection ended in good order.
    Ended,
    /// Task management, an abort or a reset.
    Management,
    /// A reservation forbade a command.
    Conflict,
    /// A volume could not do what it was asked.
    Io,
    /// No space is left behind a volume.
    NoSpace,
    /// The state of the path to a volume has changed.
    Path,
    /// The configuration, and volumes that are not there.
    Configuration,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Accepted,
        Self::Rejected,
        Self::Login,
        Self::Refused,
        Self::Violation,
        Self::Reject,
        Self::TimedOut,
        Self::Limit,
        Self::Failed,
        Self::Ended,
        Self::Management,
        Self::Conflict,
        Self::Io,
        Self::NoSpace,
        Self::Path,
        Self::Configuration,
    ];

    /// The word in logs and filters.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Login => "login",
            Self::Refused => "refused",
            Self::Violation => "violation",
            Self::Reject => "reject",
            Self::TimedOut => "timed-out",
            Self::Limit => "limit",
            Self::Failed => "failed",
            Self::Ended => "ended",
            Self::Management => "management",
            Self::Conflict => "conflict",
            Self::Io => "io",
            Self::NoSpace => "no-space",
            Self::Path => "path",
            Self::Configuration => "configuration",
        }
    }

    /// How much it matters.
    pub const fn level(self) -> Level {
        match self {
            Self::Io | Self::NoSpace => Level::Error,
            Self::Rejected
            | Self::Refused
            | Self::Violation
            | Self::Reject
            | Self::TimedOut
            | Self::Limit
            | Self::Path
            | Self::Configuration => Level::Warn,
            Self::Login | Self::Failed | Self::Ended | Self::Management => Level::Info,
            Self::Accepted | Self::Conflict => Level::Debug,
        }
    }
}

/// Something that happened. Names come from peers and hold anything: whoever writes them down escapes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub kind: Kind,
    /// How much it matters.
    pub level: Level,
    /// The other side's address.
    pub peer: Option<SocketAddr>,
    /// The initiator or host, as it calls itself.
    pub initiator: Option<String>,
    /// The target or subsystem that it asked for.
    pub target: Option<String>,
    /// What the volume is called.
    pub volume: Option<Arc<str>>,
    /// What happened, or why.
    pub reason: Cow<'static, str>,
}

impl Event {
    /// An event without anything but its reason.
    pub fn new(kind: Kind, reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            level: kind.level(),
            peer: None,
            initiator: None,
            target: None,
            volume: None,
            reason: reason.into(),
        }
    }

    /// The end of a connection, as this side wished it.
    pub fn closed(reason: CloseReason) -> Self {
        match reason {
            CloseReason::Finished => Self::new(Kind::Ended, "the connection ends as both sides agreed"),
            CloseReason::Violation(text) => Self::new(Kind::Violation, text),
            CloseReason::TimedOut(text) => Self::new(Kind::TimedOut, text),
            CloseReason::Refused(text) => Self::new(Kind::Refused, text),
            CloseReason::Limit(text) => Self::new(Kind::Limit, text),
            CloseReason::Withdrawn(text) => Self::new(Kind::Ended, format!("withdrawn: {text}")),
            CloseReason::ShuttingDown => Self::new(Kind::Ended, "this server is stopping"),
        }
    }

    /// The end of a connection, as it came from outside.
    pub fn ended(how: Ended) -> Self {
        match how {
            Ended::ByPeer => Self::new(Kind::Ended, "the peer closed the connection"),
            Ended::ByUs => Self::new(Kind::Ended, "this side closed the connection"),
            Ended::Failed(code) => {
                let error = std::io::Error::from_raw_os_error(code);
                Self::new(Kind::Failed, format!("the connection failed: {error}"))
            }
        }
    }

    /// The same at another level.
    #[must_use]
    pub fn at(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// The same with the peer's address.
    #[must_use]
    pub fn from_peer(mut self, peer: SocketAddr) -> Self {
        self.peer = Some(peer);
        self
    }
}

/// Where events go. All cores share it, and recording never waits.
pub trait Journal: Send + Sync + fmt::Debug {
    /// Takes an event, or drops it when too many come.
    fn record(&self, event: Event);

    /// True when events of this kind and level are wanted at all: whoever would have to compose one asks first.
    fn wants(&self, kind: Kind, level: Level) -> bool;
}

/// Takes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Journal for Silent {
    fn record(&self, _: Event) {}

    fn wants(&self, _: Kind, _: Level) -> bool {
        false
    }
}

/// Keeps everything, for tests and simulations.
#[derive(Debug, Default)]
pub struct Recording(std::sync::Mutex<Vec<Event>>);

impl Recording {
    /// What was recorded since the last call.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

impl Journal for Recording {
    fn record(&self, event: Event) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(event);
    }

    fn wants(&self, _: Kind, _: Level) -> bool {
        true
    }
}
