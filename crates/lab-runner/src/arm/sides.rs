//! Whose time is counted for an arm, and which processes belong to whom.

use anyhow::Result;

use super::served::Served;
use crate::machine::ledger::{Ledger, Thing};
use crate::machine::process::Placement;
use crate::machine::topology::Host;
use crate::measure::{Role, Sides};
use lab_model::scenario::Initiator;

/// Whose time an arm with this initiator has, as far as it is not the site's.
pub(crate) fn roles(initiator: Initiator) -> &'static [Role] {
    match initiator {
        Initiator::Site | Initiator::Local => &[Role::Host],
        Initiator::QemuNbd | Initiator::NbdkitNbd => &[Role::Host, Role::Adapter],
        Initiator::LinerateNbd
        | Initiator::LinerateFuse
        | Initiator::LinerateVhostUser
        | Initiator::LibiscsiNbd
        | Initiator::LibiscsiFuse
        | Initiator::LibiscsiVhostUser
        | Initiator::Libnfs => &[Role::Host, Role::Adapter, Role::Target],
        _ => &[Role::Host, Role::Target],
    }
}

/// Makes control groups for sides, noted before; with one for each of so many nodes within each of them.
pub(crate) fn account(name: &str, roles: &[Role], nodes: usize, ledger: &mut Ledger) -> Result<Sides> {
    for path in Sides::folders(name, roles, nodes) {
        ledger.add(Thing::Cgroup { path })?;
    }
    Sides::of_nodes(name, roles, nodes)
}

/// A process of a side, on its host.
pub(crate) fn placement(host: &Host, processors: &[usize], sides: &Sides, role: Role) -> Placement {
    placement_on((host, None), processors, sides, role)
}

/// The same of a node, by its number from 0.
pub(crate) fn placement_on(
    (host, node): (&Host, Option<usize>),
    processors: &[usize],
    sides: &Sides,
    role: Role,
) -> Placement {
    Placement {
        namespace: host.namespace.clone(),
        processors: (!processors.is_empty()).then(|| processors.to_vec()),
        cgroup: sides.get(role).and_then(|side| side.folder_of(node)),
    }
}

/// Where no control groups can be made, a side has to be told of its processes.
pub(crate) fn enrol(sides: &Sides, role: Role, served: &Served) {
    let Some(side) = sides.get(role) else { return };
    for service in &served.services {
        side.started(service.running.pid());
    }
}
