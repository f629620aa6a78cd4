//! The volumes of a cluster: each node serves a part of every volume, and whoever uses a volume has it as a mirror of these parts.
//!
//! What serves a part is Linerate's target, as on a host that is a target alone; what makes the mirror is whoever opens its URL. A volume is used from one
//! node, whose own part comes first in its mirror: what that holds is read without the link, and the rest from the next node, so that no node serves more
//! of the others' reads than another.

use anyhow::{Context, Result, ensure};

use super::served::{Endpoint, Served};

/// Bytes of a slab: small, so that volumes of some megabytes are spread over all nodes.
const SLAB: u64 = 1 << 20;
/// Bytes of a part that are the mirror's own (docs/howto/mirror.md).
const RESERVE: u64 = 2 << 20;

/// What each node uses: its share of the volumes, in order, as mirrors of which `copies` parts hold each block. `nodes` has the parts that each node serves, one of
/// every volume.
pub fn mirrors(nodes: &[Served], copies: u32) -> Result<Vec<Vec<Endpoint>>> {
    let count = nodes.len();
    ensure!(
        (1..=count).contains(&(copies as usize)),
        "copies = {copies}: the cluster has {count} nodes, and each holds a block once"
    );
    let volumes = nodes.first().map_or(0, |served| served.endpoints.len());
    let mut used = vec![Vec::new(); count];
    for volume in 0..volumes {
        let parts = nodes.iter().map(|served| served.endpoints.get(volume));
        let parts: Vec<&Endpoint> =
            parts.collect::<Option<_>>().context("a node serves fewer parts than another")?;
        // As volumes are shared among the hosts of any scenario: the first node has the first ones.
        let owner = volume * count / volumes;
        let from_owner = parts.iter().cycle().skip(owner).take(count);
        let list: Vec<&str> = from_owner.map(|part| part.url.as_str()).collect();
        let url = format!("mirror=[{}]?copies={copies}&slab={SLAB}", list.join(","));
        let least = parts.iter().map(|part| part.size).min().unwrap_or(0);
        let size = size(least, count as u64, u64::from(copies));
        used.get_mut(owner).context("a volume has no owner")?.push(Endpoint { url, size });
    }
    Ok(used)
}

/// Bytes of a mirror of parts of so many bytes.
const fn size(part: u64, nodes: u64, copies: u64) -> u64 {
    let room = part.saturating_sub(RESERVE);
    if copies >= nodes { room } else { room / SLAB / copies * nodes * SLAB }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: usize, volumes: usize) -> Served {
        let endpoint = |volume| Endpoint {
            url: format!(
                "nvme+rdma://10.77.0.{number}:4420/nqn.2026-11.org.linerate:t{volume}/1?transport=roce"
            ),
            size: 14 << 20,
        };
        Served { services: Vec::new(), endpoints: (0..volumes).map(endpoint).collect() }
    }

    #[test]
    fn each_node_has_its_share_with_its_own_part_first() {
        let nodes: Vec<Served> = (1..=4).map(|number| node(number, 8)).collect();
        let used = mirrors(&nodes, 3).unwrap();
        assert_eq!(used.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2, 2]);
        let last = &used[3][1];
        let parts =
            last.url.strip_prefix("mirror=[").and_then(|rest| rest.strip_suffix("]?copies=3&slab=1048576"));
        let hosts: Vec<&str> =
            parts.unwrap().split(',').filter_map(|part| part.split(['/', ':']).nth(3)).collect();
        assert_eq!(hosts, ["10.77.0.4", "10.77.0.1", "10.77.0.2", "10.77.0.3"]);
        assert_eq!(last.url.matches(":t7/1?transport=roce").count(), 4);
        // Twelve slabs fit into a part, three of them hold the same four.
        assert_eq!(last.size, 16 << 20);
        last.url.parse::<names::VolumeUrl>().unwrap();
        assert_eq!(mirrors(&nodes, 4).unwrap()[0][0].size, 12 << 20);
    }

    #[test]
    fn more_copies_than_nodes_are_refused() {
        let nodes = [node(1, 1), node(2, 1)];
        assert!(mirrors(&nodes, 0).is_err() && mirrors(&nodes, 3).is_err());
    }
}
