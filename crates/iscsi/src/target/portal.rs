//! What a portal serves, and to whom.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

use names::Iqn;
use volume::{Geometry, VolumeId};

use crate::chap::{Algorithm, Credentials};
use crate::keys::Tuning;
use crate::limits;

/// How initiators prove who they are (RFC 7143 §12.1.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chap {
    /// What the initiator must know.
    pub initiator: Credentials,
    /// How the target proves itself to initiators that ask (mutual CHAP). Its secret must differ from the initiator's.
    pub target: Option<Credentials>,
    /// The hashes that are good enough.
    pub algorithms: Vec<Algorithm>,
}

/// Who may use a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// The initiators that may; `None` lets everybody.
    pub initiators: Option<Vec<Iqn>>,
    /// How they prove it; `None` believes them.
    pub chap: Option<Chap>,
}

impl Access {
    /// True when this initiator may log in, once it has proved itself.
    pub fn allows(&self, initiator: &Iqn) -> bool {
        self.initiators.as_ref().is_none_or(|allowed| allowed.contains(initiator))
    }
}

/// One target.
#[derive(Debug, Clone)]
pub struct Node {
    /// TargetName.
    pub name: Iqn,
    /// TargetAlias; empty for none.
    pub alias: String,
    /// Its logical units.
    pub device: Arc<scsi::TargetDevice>,
    /// The portal group that this portal belongs to; also the relative target port identifier.
    pub portal_group: u16,
    /// Who may use it.
    pub access: Access,
}

/// A listening address, and everything behind it.
#[derive(Debug, Clone)]
pub struct Portal {
    /// The targets.
    pub nodes: Vec<Node>,
    /// How initiators prove themselves for discovery; `None` lets everybody look.
    pub discovery: Option<Chap>,
    /// The addresses that SendTargets answers; if empty, the one that the initiator came to.
    pub addresses: Vec<SocketAddr>,
    /// What to negotiate.
    pub tuning: Tuning,
    /// Commands that a session may have outstanding.
    pub queue_depth: u16,
}

impl Portal {
    /// A portal for these targets, with defaults for everything else.
    pub fn new(nodes: Vec<Node>) -> Self {
        Self {
            nodes,
            discovery: None,
            addresses: Vec::new(),
            tuning: Tuning::default(),
            queue_depth: limits::QUEUE_DEPTH,
        }
    }

    /// The volume has this size from now on, for sessions that begin later.
    pub fn resize(&mut self, volume: VolumeId, geometry: Geometry) {
        for node in &mut self.nodes {
            if node.device.units.iter().any(|unit| unit.volume == volume) {
                Arc::make_mut(&mut node.device).resize(volume, geometry);
            }
        }
    }

    /// The target of that name.
    pub(super) fn find(&self, name: &Iqn) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == *name)
    }
}
