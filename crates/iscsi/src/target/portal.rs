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

#[cfg(test)]
mod tests {
    use scsi::{LogicalUnit, TargetDevice, UnitIdentity};
    use volume::{Features, Limits};

    use super::*;

    const SIZE: Geometry = Geometry { blocks: 8, block_size: 512, physical_block_size: 512 };

    fn node(name: &str, slot: u16) -> Node {
        let unit = LogicalUnit {
            lun: 0,
            volume: VolumeId::new(slot, 0),
            geometry: SIZE,
            limits: Limits::default(),
            features: Features::empty(),
            identity: UnitIdentity {
                vendor: "V".into(),
                product: "P".into(),
                revision: "1".into(),
                serial: "1".into(),
                naa: [0; 8],
                uuid: [0; 16],
                incarnation: None,
            },
        };
        let device = TargetDevice {
            port_name: "p".into(),
            device_name: "d".into(),
            relative_port: 1,
            port_group: 1,
            units: [unit].to_vec(),
        };
        let name = alloc::format!("iqn.2026-11.test:{name}").parse().unwrap();
        let (alias, device) = (String::new(), Arc::new(device));
        Node { name, alias, device, portal_group: 1, access: Access::default() }
    }

    #[test]
    fn targets_are_found_in_whatever_order_they_were_given() {
        let names = ["m", "b", "z", "a", "c-1", "c"];
        let portal = Portal::new(names.map(|name| node(name, 0)));
        for name in names {
            let name = node(name, 0).name;
            assert_eq!(portal.find(&name).map(|found| &found.name), Some(&name));
        }
        assert!(portal.find(&node("d", 0).name).is_none());
    }

    #[test]
    fn a_target_stays_the_same_unless_one_of_its_sizes_is_another() {
        let mut portal = Portal::new([node("a", 1), node("b", 2)]);
        let before = portal.nodes.clone();
        let is_same = |portal: &Portal| [0, 1].map(|at| Arc::ptr_eq(&portal.nodes[at], &before[at]));
        portal.resize(VolumeId::new(1, 0), SIZE);
        assert_eq!(is_same(&portal), [true, true]);
        portal.resize(VolumeId::new(1, 0), Geometry { blocks: 9, ..SIZE });
        assert_eq!(is_same(&portal), [false, true]);
        assert_eq!(portal.nodes[0].device.units[0].geometry.blocks, 9);
        assert_eq!(before[0].device.units[0].geometry, SIZE, "sessions that are there keep what they have");
    }
}
