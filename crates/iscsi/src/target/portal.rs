//! What a portal serves, and to whom.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

use names::Iqn;
use volume::{Geometry, VolumeId};

use super::access::{Access, Chap};
use crate::keys::Tuning;
use crate::limits;

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
    /// The targets, in the order of their names. Those that are the same in another state of the portal are the same `Arc`: their sessions then see no change.
    pub nodes: Vec<Arc<Node>>,
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
    /// A portal for these targets, in any order, with defaults for everything else.
    pub fn new(nodes: impl IntoIterator<Item = impl Into<Arc<Node>>>) -> Self {
        let mut nodes: Vec<Arc<Node>> = nodes.into_iter().map(Into::into).collect();
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
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
            // A target whose units have that size already stays the same for its sessions.
            if node.device.units.iter().any(|unit| unit.volume == volume && unit.geometry != geometry) {
                Arc::make_mut(&mut Arc::make_mut(node).device).resize(volume, geometry);
            }
        }
    }

    /// The target of that name.
    pub(super) fn find(&self, name: &Iqn) -> Option<&Arc<Node>> {
        let place = self.nodes.binary_search_by(|node| node.name.cmp(name)).ok()?;
        self.nodes.get(place)
    }
}
