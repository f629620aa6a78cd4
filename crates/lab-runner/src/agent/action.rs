//! What an agent can have its host's kernel do: log in to an iSCSI target, connect to an NVMe subsystem, mount a file system,
//! serve a device by LIO or nvmet.
//!
//! Each is a name with checked arguments, never a command. What it leaves in the kernel is an [`Attachment`], noted in the
//! ledger before it is made and removed by it. What is there already is somebody else's: it is neither used nor removed.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::guard::{self, Grounds};
use crate::machine::attachment::{Attachment, Words, words};
use crate::machine::ledger::{Ledger, Thing};
use crate::machine::limits::ACTION_TIMEOUT;
use crate::machine::program;

/// Something that a host does for an arm, by the programs that it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// Logs the kernel's initiator in to a target (`iscsiadm`).
    #[serde(rename_all = "kebab-case")]
    IscsiLogin {
        /// The target's portal.
        portal: SocketAddr,
        /// The target's name, such as `iqn.2026-11.org.linerate:t0`.
        target: String,
    },
    /// Connects the kernel's host to a subsystem over TCP (`nvme connect`).
    NvmeConnect {
        /// The subsystem's port.
        portal: SocketAddr,
        /// The subsystem's name, such as `nqn.2026-11.org.linerate:t0`.
        subsystem: String,
    },
    /// Mounts a file system (`mount`); an endpoint `mount:NAME` is the place.
    Mount {
        /// Its name in endpoints.
        name: String,
        /// `HOST:/EXPORT` for NFS, else a device.
        source: String,
        /// Its kind.
        filesystem: Filesystem,
    },
    /// Serves a device by the kernel's iSCSI target to whoever asks (`targetcli`).
    LioServe {
        /// Where it listens.
        portal: SocketAddr,
        /// The target's name.
        target: String,
        /// The device; its content may be lost.
        device: String,
    },
    /// Serves a device by the kernel's NVMe target over TCP to whoever asks (`nvmetcli`).
    NvmetServe {
        /// Where it listens.
        portal: SocketAddr,
        /// The subsystem's name.
        subsystem: String,
        /// The device; its content may be lost.
        device: String,
    },
}

/// File systems that can be mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Filesystem {
    /// NFS 4.
    Nfs4,
    /// NFS 3.
    Nfs,
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
}

impl Action {
    /// The program that does it.
    pub const fn program(&self) -> &'static str {
        match self {
            Self::IscsiLogin { .. } => "iscsiadm",
            Self::NvmeConnect { .. } => "nvme",
            Self::Mount { .. } => "mount",
            Self::LioServe { .. } => "targetcli",
            Self::NvmetServe { .. } => "nvmetcli",
        }
    }

    /// Does it. Whatever is wrong with it is said before anything is changed.
    pub(super) fn perform(&self, grounds: Grounds<'_>, ledger: &mut Ledger) -> Result<()> {
        self.check(grounds.destroy)?;
        program::require(self.program())?;
        let left = self.leaves(grounds.folder);
        if let Thing::Attachment { attachment } = &left {
            ensure!(
                !attachment.is_there(),
                "{attachment} is there already, and not the lab's: remove it first"
            );
        }
        ledger.add(left)?;
        self.write_files(grounds.folder)?;
        for command in self.commands(grounds.folder) {
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            program::output(&command, ACTION_TIMEOUT)?;
        }
        Ok(())
    }

    fn check(&self, destroy: &BTreeSet<String>) -> Result<()> {
        match self {
            Self::IscsiLogin { target, .. } => iscsi_name(target),
            Self::NvmeConnect { subsystem, .. } => nvme_name(subsystem),
            Self::Mount { name, source, filesystem } => {
                guard::name(name)?;
                mountable(source, *filesystem)
            }
            Self::LioServe { target, device, .. } => {
                iscsi_name(target)?;
                guard::block_device(device, destroy)
            }
            Self::NvmetServe { subsystem, device, .. } => {
                nvme_name(subsystem)?;
                guard::block_device(device, destroy)
            }
        }
    }

    fn leaves(&self, folder: &Path) -> Thing {
        let attachment = match self {
            Self::Mount { name, .. } => return Thing::Mount { path: guard::mount_point(folder, name) },
            Self::IscsiLogin { portal, target } => {
                Attachment::IscsiSession { portal: *portal, target: target.clone() }
            }
            Self::NvmeConnect { subsystem, .. } => {
                Attachment::NvmeConnection { subsystem: subsystem.clone() }
            }
            Self::LioServe { target, .. } => {
                Attachment::LioTarget { target: target.clone(), backstore: backstore(target) }
            }
            Self::NvmetServe { subsystem, .. } => Attachment::Nvmet { subsystem: subsystem.clone() },
        };
        Thing::Attachment { attachment }
    }

    /// Mount points and configuration files, which the commands need.
    fn write_files(&self, folder: &Path) -> Result<()> {
        match self {
            Self::Mount { name, .. } => {
                let path = guard::mount_point(folder, name);
                std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))
            }
            Self::NvmetServe { portal, subsystem, device } => {
                let path = folder.join("nvmet.json");
                std::fs::write(&path, nvmet(*portal, subsystem, device))
                    .with_context(|| format!("cannot write {}", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// The commands, one after the other.
    fn commands(&self, folder: &Path) -> Vec<Words> {
        match self {
            Self::IscsiLogin { portal, target } => {
                let node =
                    ["iscsiadm", "-m", "node", "-T", target, "-p", &portal.to_string()].map(str::to_owned);
                [["-o", "new"].as_slice(), &["--login"]]
                    .map(|rest| [&node[..], &words(rest)].concat())
                    .to_vec()
            }
            Self::NvmeConnect { portal, subsystem } => {
                let (address, port) = (portal.ip().to_string(), portal.port().to_string());
                vec![words(&["nvme", "connect", "-t", "tcp", "-a", &address, "-s", &port, "-n", subsystem])]
            }
            Self::Mount { name, source, filesystem } => {
                let path = guard::mount_point(folder, name).display().to_string();
                vec![words(&["mount", "-t", filesystem.name(), "-o", "nosuid,nodev", source, &path])]
            }
            Self::LioServe { portal, target, device } => lio(*portal, target, device),
            Self::NvmetServe { .. } => {
                vec![words(&["nvmetcli", "restore", &folder.join("nvmet.json").display().to_string()])]
            }
        }
    }
}

impl Filesystem {
    const fn name(self) -> &'static str {
        match self {
            Self::Nfs4 => "nfs4",
            Self::Nfs => "nfs",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }
}

/// RFC 7143, 4.2.7.2: `iqn.`, `eui.` or `naa.` and lower-case letters, digits, dash, dot and colon; at most 223 bytes.
fn iscsi_name(name: &str) -> Result<()> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte);
    let typed = ["iqn.", "eui.", "naa."].iter().any(|start| name.starts_with(start));
    ensure!(typed && name.len() <= 223 && name.bytes().all(fits), "{name:?} is not an iSCSI name (iqn.…)");
    Ok(())
}

/// NVMe Base, NVMe Qualified Names: `nqn.` and UTF-8, at most 223 bytes; here without what a shell or a path could mean.
fn nvme_name(name: &str) -> Result<()> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:_".contains(&byte);
    let good = name.starts_with("nqn.") && name.len() <= 223 && name.bytes().all(fits);
    ensure!(good, "{name:?} is not an NVMe qualified name (nqn.…)");
    Ok(())
}

fn mountable(source: &str, filesystem: Filesystem) -> Result<()> {
    guard::word(source)?;
    let good = match filesystem {
        Filesystem::Nfs | Filesystem::Nfs4 => source.contains(":/"),
        Filesystem::Ext4 | Filesystem::Xfs => source.starts_with("/dev/") && !source.contains("/../"),
    };
    ensure!(
        good,
        "{source:?} cannot be mounted as {}: name HOST:/EXPORT for NFS, else a device",
        filesystem.name()
    );
    Ok(())
}

/// LIO's name for the device behind a target: it takes no colons.
fn backstore(target: &str) -> String {
    format!("lab-{}", target.replace([':', '.'], "-"))
}

/// An open target with one LUN, and no portal but the one asked for.
fn lio(portal: SocketAddr, target: &str, device: &str) -> Vec<Words> {
    let (name, group) = (backstore(target), format!("/iscsi/{target}/tpg1"));
    let (address, port) = (bracketed(portal.ip()), portal.port().to_string());
    let store = format!("/backstores/block/{name}");
    let attributes =
        ["authentication=0", "generate_node_acls=1", "cache_dynamic_acls=1", "demo_mode_write_protect=0"];
    let set = [&["targetcli", group.as_str(), "set", "attribute"], &attributes[..]].concat();
    vec![
        words(&["targetcli", "set", "global", "auto_add_default_portal=false"]),
        words(&[
            "targetcli",
            "/backstores/block",
            "create",
            &format!("name={name}"),
            &format!("dev={device}"),
        ]),
        words(&["targetcli", "/iscsi", "create", target]),
        words(&["targetcli", &format!("{group}/luns"), "create", &store]),
        words(&set),
        words(&["targetcli", &format!("{group}/portals"), "create", &address, &port]),
    ]
}

fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// What `nvmetcli restore` reads: one port, one subsystem, one namespace.
fn nvmet(portal: SocketAddr, subsystem: &str, device: &str) -> String {
    let family = if portal.is_ipv4() { "ipv4" } else { "ipv6" };
    let address = json!({
        "adrfam": family,
        "traddr": portal.ip().to_string(),
        "treq": "not specified",
        "trsvcid": portal.port().to_string(),
        "trtype": "tcp",
    });
    let port = json!({ "addr": address, "portid": 1, "referrals": [], "subsystems": [subsystem] });
    let namespace = json!({ "device": { "path": device }, "enable": 1, "nsid": 1 });
    let served = json!({
        "allowed_hosts": [],
        "attr": { "allow_any_host": "1" },
        "namespaces": [namespace],
        "nqn": subsystem,
    });
    json!({ "hosts": [], "ports": [port], "subsystems": [served] }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portal() -> SocketAddr {
        "10.0.0.2:3260".parse().unwrap()
    }

    fn lines(commands: &[Words]) -> Vec<String> {
        commands.iter().map(|command| command.join(" ")).collect()
    }

    #[test]
    fn initiators_are_told_the_portal_and_the_name() {
        let folder = Path::new("/run/lab");
        let login = Action::IscsiLogin { portal: portal(), target: "iqn.x:t".to_owned() };
        let node = "iscsiadm -m node -T iqn.x:t -p 10.0.0.2:3260";
        assert_eq!(lines(&login.commands(folder)), [format!("{node} -o new"), format!("{node} --login")]);
        let Thing::Attachment { attachment } = login.leaves(folder) else { unreachable!() };
        assert_eq!(lines(&attachment.removal()), [format!("{node} --logout"), format!("{node} -o delete")]);
        let connect = Action::NvmeConnect { portal: portal(), subsystem: "nqn.x:t".to_owned() };
        assert_eq!(lines(&connect.commands(folder)), ["nvme connect -t tcp -a 10.0.0.2 -s 3260 -n nqn.x:t"]);
        let mount = Action::Mount {
            name: "data".to_owned(),
            source: "10.0.0.2:/export".to_owned(),
            filesystem: Filesystem::Nfs4,
        };
        let expected = "mount -t nfs4 -o nosuid,nodev 10.0.0.2:/export /run/lab/mounts/data";
        assert_eq!(lines(&mount.commands(folder)), [expected]);
        assert_eq!(mount.leaves(folder), Thing::Mount { path: "/run/lab/mounts/data".into() });
    }

    #[test]
    fn targets_are_open_and_listen_where_they_should() {
        let folder = Path::new("/run/lab");
        let device = "/dev/nvme1n1".to_owned();
        let serve =
            Action::LioServe { portal: portal(), target: "iqn.x:t".to_owned(), device: device.clone() };
        let commands = lines(&serve.commands(folder));
        assert_eq!(commands[1], "targetcli /backstores/block create name=lab-iqn-x-t dev=/dev/nvme1n1");
        assert_eq!(commands[5], "targetcli /iscsi/iqn.x:t/tpg1/portals create 10.0.0.2 3260");
        let Thing::Attachment { attachment } = serve.leaves(folder) else { unreachable!() };
        assert_eq!(lines(&attachment.removal())[1], "targetcli /backstores/block delete lab-iqn-x-t");
        let serve = Action::NvmetServe { portal: portal(), subsystem: "nqn.x:t".to_owned(), device };
        assert_eq!(lines(&serve.commands(folder)), ["nvmetcli restore /run/lab/nvmet.json"]);
        let config: serde_json::Value =
            serde_json::from_str(&nvmet(portal(), "nqn.x:t", "/dev/nvme1n1")).unwrap();
        assert_eq!(config["ports"][0]["addr"]["traddr"], "10.0.0.2");
        assert_eq!(config["subsystems"][0]["namespaces"][0]["device"]["path"], "/dev/nvme1n1");
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let destroy = BTreeSet::new();
        let login = |target: &str| Action::IscsiLogin { portal: portal(), target: target.to_owned() };
        login("iqn.2026-11.org.linerate:t0").check(&destroy).unwrap();
        for wrong in ["", "-T", "x", "iqn.a b", "iqn.a;id", "iqn./../x"] {
            assert!(login(wrong).check(&destroy).is_err(), "{wrong:?}");
        }
        let mount = |source: &str, filesystem| Action::Mount {
            name: "data".to_owned(),
            source: source.to_owned(),
            filesystem,
        };
        mount("server:/export", Filesystem::Nfs).check(&destroy).unwrap();
        assert!(mount("server:/export", Filesystem::Ext4).check(&destroy).is_err());
        assert!(mount("/dev/sdb", Filesystem::Nfs).check(&destroy).is_err());
        let serve = Action::LioServe {
            portal: portal(),
            target: "iqn.x".to_owned(),
            device: "/etc/passwd".to_owned(),
        };
        assert!(serve.check(&destroy).is_err());
    }

    #[test]
    fn a_missing_program_is_named_and_nothing_is_noted() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::create(&folder.path().join("ledger.jsonl")).unwrap();
        let destroy = BTreeSet::new();
        let grounds = Grounds { folder: folder.path(), destroy: &destroy };
        let login = Action::IscsiLogin { portal: portal(), target: "iqn.x:t".to_owned() };
        if program::find(login.program()).is_none() {
            let error = login.perform(grounds, &mut ledger).unwrap_err().to_string();
            assert!(error.contains("apt install open-iscsi"), "{error}");
        }
        let wrong = Action::IscsiLogin { portal: portal(), target: "t".to_owned() };
        assert!(wrong.perform(grounds, &mut ledger).is_err());
        assert_eq!(ledger.left().count(), 0);
    }
}
