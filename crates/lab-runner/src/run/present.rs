//! What this machine has of what scenarios may need ([`needs`](lab_model::scenario::needs)): links, kernel modules, rights, engines of fio.

use std::path::Path;

use lab_model::scenario::needs::Present;

use crate::machine::program;
use crate::tool::{LIBISCSI_ENGINE, LINERATE_ENGINE};

/// Looks at this machine.
pub fn look() -> Present {
    let mut present = under(Path::new("/"));
    if rustix::process::geteuid().is_root() {
        present.add("root");
        if Path::new("/dev/fuse").exists() {
            present.add("fuse");
        }
    }
    for (program, need) in [("iperf3", "iperf3"), ("nft", "nftables")] {
        if program::find(program).is_some() {
            present.add(need);
        }
    }
    let own = std::env::current_exe().unwrap_or_default();
    look_for_engines(&mut present, own.parent().unwrap_or(Path::new("")));
    present
}

/// Looks for fio's engines in a folder.
pub fn look_for_engines(present: &mut Present, folder: &Path) {
    for (name, file) in [("fio engine", LINERATE_ENGINE), ("fio libiscsi engine", LIBISCSI_ENGINE)] {
        if folder.join(file).is_file() {
            present.add(name);
        }
    }
}

/// Looks at the `proc`, `sys` and `lib` below a folder.
fn under(root: &Path) -> Present {
    let mut present = Present::default();
    let some = |path: &str| root.join(path).read_dir().is_ok_and(|mut entries| entries.next().is_some());
    let links = [("10GbE", 10_000), ("25GbE", 25_000), ("40GbE", 40_000), ("100GbE", 100_000)];
    let fastest = fastest_link(&root.join("sys/class/net"));
    let seen = [
        ("rdma adapter", some("sys/class/infiniband")),
        ("kernel iSCSI initiator", some("sys/class/iscsi_transport")),
        ("kernel NVMe/TCP host", root.join("sys/module/nvme_tcp").exists()),
        ("kernel NFS client", says(&root.join("proc/filesystems"), "nfs")),
        ("netem", netem(root)),
        ("energy", some("sys/class/powercap")),
    ];
    let fast = links.iter().filter(|(_, megabits)| fastest >= *megabits).map(|(name, _)| *name);
    for name in fast.chain(seen.iter().filter(|(_, is)| *is).map(|(name, _)| *name)) {
        present.add(name);
    }
    present
}

/// Speed of the fastest device with a driver, in Mbit/s; virtual links claim speeds that they do not have.
fn fastest_link(folder: &Path) -> i64 {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let real = entries.map(|entry| entry.path()).filter(|path| path.join("device/driver").exists());
    let speed =
        |path: std::path::PathBuf| std::fs::read_to_string(path.join("speed")).ok()?.trim().parse().ok();
    real.filter_map(speed).max().unwrap_or(0)
}

fn says(file: &Path, word: &str) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.split_whitespace().any(|one| one == word))
}

/// Loaded, or among the modules of a kernel that is installed.
fn netem(root: &Path) -> bool {
    let listed = |folder: &Path| {
        ["modules.dep", "modules.builtin"].iter().any(|name| {
            std::fs::read_to_string(folder.join(name)).is_ok_and(|text| text.contains("/sch_netem.ko"))
        })
    };
    let release = std::fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
    root.join("sys/module/sch_netem").exists() || listed(&root.join("lib/modules").join(release.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_looked_at_below_a_folder() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(under(root.path()), Present::default());
        put("sys/class/net/eth0/device/driver/bind", "");
        put("sys/class/net/eth0/speed", "25000\n");
        put("sys/class/net/veth0/speed", "100000\n");
        put("sys/class/infiniband/mlx5_0/node_type", "1");
        put("proc/filesystems", "nodev\tnfs\n\text4\n");
        put("proc/sys/kernel/osrelease", "6.12\n");
        put("lib/modules/6.12/modules.dep", "kernel/net/sched/sch_netem.ko.xz:\n");
        let present = under(root.path());
        for name in ["10GbE", "25GbE", "rdma adapter", "kernel NFS client", "netem"] {
            assert!(present.has(name), "{name}");
        }
        for name in ["40GbE", "100GbE", "root", "energy"] {
            assert!(!present.has(name), "{name}");
        }
    }

    #[test]
    fn engines_are_looked_for_by_their_files() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(LINERATE_ENGINE), "").unwrap();
        let mut present = Present::default();
        look_for_engines(&mut present, folder.path());
        assert!(present.has("fio engine") && !present.has("fio libiscsi engine"));
    }
}
