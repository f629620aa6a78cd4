//! libiscsi or libnfs as the host's initiator: `qemu-storage-daemon` speaks iSCSI or NFSv3 and hands every volume to the load
//! tool, as an NBD export on a local socket or as a file through FUSE. On a local volume it is the peer of Linerate's software adapter
//! and nothing else.
//!
//! One daemon with one event loop serves all volumes of a host: it is the adapter, and its processor time is counted as such.
//! Nothing is cached in it: what the tool writes is what the target is asked to write.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::backing;
use super::served::{AdaptSpec, Endpoint, Handing, Served, Side};
use super::service_start;
use crate::machine::ledger::{Ledger, Thing};
use crate::machine::process::CommandLine;

/// The daemon's name.
pub(super) const PROGRAM: &str = "qemu-storage-daemon";
/// Its module for iSCSI, which is in a package of its own.
pub(super) const ISCSI: &str = "iscsi";
/// Its module for NFS.
pub(super) const NFS: &str = "nfs";
/// The name under which the lab logs in.
const INITIATOR: &str = "iqn.2026-11.org.linerate.lab:host";

/// Starts the daemon on all volumes of a host.
pub(super) fn adapt(handing: Handing, spec: &AdaptSpec<'_>, ledger: &mut Ledger) -> Result<Served> {
    if spec.endpoints.is_empty() {
        return Ok(Served::default());
    }
    for endpoint in spec.endpoints {
        let needed = [("nfs:", NFS), ("iscsi:", ISCSI)];
        let needed = needed.into_iter().find(|(scheme, _)| endpoint.url.starts_with(scheme));
        if let Some(words) = needed.and_then(|(_, module)| missing_module(module)) {
            bail!("{words}");
        }
    }
    let scratch = backing::scratch("qemu", ledger)?;
    let pidfile = scratch.join("ready");
    let mut argv = vec![PROGRAM.to_owned()];
    let mut add = |option: &str, value: &Value| argv.extend([option.to_owned(), value.to_string()]);
    if handing == Handing::Nbd {
        add("--nbd-server", &json!({"addr": {"type": "unix", "path": scratch.join("nbd")}}));
    }
    let mut endpoints = Vec::new();
    for (number, endpoint) in spec.endpoints.iter().enumerate() {
        add("--blockdev", &volume(number, endpoint)?);
        let (export, url) = match handing {
            Handing::Nbd => nbd(number, &scratch),
            Handing::Fuse => fuse(number, &scratch, ledger)?,
            Handing::VhostUser => vhost_user(number, &scratch),
        };
        add("--export", &export);
        endpoints.push(Endpoint { url, size: endpoint.size });
    }
    argv.extend(["--pidfile".to_owned(), pidfile.display().to_string()]);
    let line = CommandLine::new("adapter", argv, spec.folder);
    let version = service_start::version(PROGRAM)?;
    let mut service = service_start::start(
        &line,
        spec.placement,
        service_start::Label { side: Side::Adapter, name: PROGRAM, version },
        ledger,
    )?;
    // The daemon writes the file when every export is there.
    service_start::wait(&mut service, "it exports its volumes", || Ok(service_start::written(&pidfile)))?;
    Ok(Served { services: vec![service], endpoints })
}

/// What to install when the daemon lacks a module. Debian keeps them below the folder of libraries.
pub(super) fn missing_module(name: &str) -> Option<String> {
    let file = format!("qemu/block-{name}.so");
    let libraries = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from).into_iter();
    let per_machine = libraries.clone().flat_map(|folder| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    });
    let there = libraries.chain(per_machine).any(|folder| folder.join(&file).is_file());
    (!there).then(|| format!("{PROGRAM} has no module for {name}: apt install qemu-block-extra"))
}

/// The block device on an iSCSI or NFS URL, or on a local volume that keeps nothing.
fn volume(number: usize, endpoint: &Endpoint) -> Result<Value> {
    let url = endpoint.url.as_str();
    if let Some(rest) = url.strip_prefix("nfs://") {
        return file_on_nfs(number, rest);
    }
    if url.starts_with("null:") {
        return Ok(nothing(number, endpoint.size));
    }
    let parts = url.strip_prefix("iscsi://").and_then(|rest| rest.split_once('/'));
    let (portal, rest) =
        parts.with_context(|| format!("libiscsi needs iscsi://HOST:PORT/IQN/LUN, not {url}"))?;
    let (target, lun) = rest.split_once('/').with_context(|| format!("{url} names no logical unit"))?;
    ensure!(
        !portal.contains('@'),
        "a CHAP secret would stand in the command line of {PROGRAM}: leave it out of {url}"
    );
    let lun: u16 = lun.parse().with_context(|| format!("{url}: {lun:?} is not a logical unit number"))?;
    Ok(json!({
        "driver": "iscsi",
        "node-name": format!("volume{number}"),
        "transport": "tcp",
        "portal": portal,
        "target": target,
        "lun": lun,
        "initiator-name": INITIATOR,
        "cache": {"direct": true},
    }))
}

/// A device that keeps nothing. It is not said to read as zeros: an NBD client would be told so in place of the data, and what is to
/// be measured would be passed by.
fn nothing(number: usize, size: u64) -> Value {
    json!({"driver": "null-co", "node-name": format!("volume{number}"), "size": size, "read-zeroes": false})
}

/// The block device on a file of an NFS server, `HOST/PATH?…`. QEMU's driver speaks NFSv3 at the ports that the host's port mapper
/// names, so what follows the question mark says nothing to it.
fn file_on_nfs(number: usize, rest: &str) -> Result<Value> {
    let place = rest.split('?').next().unwrap_or(rest);
    let (host, path) = place.split_once('/').with_context(|| format!("nfs://{rest} names no file"))?;
    Ok(json!({
        "driver": "nfs",
        "node-name": format!("volume{number}"),
        "server": {"type": "inet", "host": host},
        "path": format!("/{path}"),
        "cache": {"direct": true},
    }))
}

fn nbd(number: usize, scratch: &Path) -> (Value, String) {
    let node = format!("volume{number}");
    let export = json!({"type": "nbd", "id": format!("export{number}"), "node-name": node, "name": number.to_string(), "writable": true});
    (export, format!("nbd+unix:///{number}?socket={}", scratch.join("nbd").display()))
}

fn vhost_user(number: usize, scratch: &Path) -> (Value, String) {
    let (node, socket) = (format!("volume{number}"), scratch.join(format!("vhost{number}")));
    let export = json!({"type": "vhost-user-blk", "id": format!("export{number}"), "node-name": node,
        "addr": {"type": "unix", "path": socket}, "logical-block-size": 512, "writable": true});
    (export, format!("vhost-user:{}", socket.display()))
}

/// The daemon mounts over an empty file.
fn fuse(number: usize, scratch: &Path, ledger: &mut Ledger) -> Result<(Value, String)> {
    let file = scratch.join(format!("volume{number}"));
    std::fs::write(&file, []).with_context(|| format!("cannot make {}", file.display()))?;
    ledger.add(Thing::Mount { path: file.clone() })?;
    let node = format!("volume{number}");
    let export = json!({"type": "fuse", "id": format!("export{number}"), "node-name": node, "mountpoint": file, "writable": true});
    Ok((export, file.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> Endpoint {
        Endpoint { url: url.to_owned(), size: 1 << 20 }
    }

    #[test]
    fn a_volume_that_keeps_nothing_hides_no_data() {
        let device = volume(0, &at("null:1M")).unwrap();
        assert_eq!((device["driver"].as_str(), device["size"].as_u64()), (Some("null-co"), Some(1 << 20)));
        assert_eq!(device["read-zeroes"], false);
    }

    #[test]
    fn a_url_becomes_a_block_device_and_others_are_refused() {
        let device = volume(3, &at("iscsi://[::1]:3260/iqn.2026-11.org.example:t/2")).unwrap();
        assert_eq!(device["portal"], "[::1]:3260");
        assert_eq!(device["target"], "iqn.2026-11.org.example:t");
        assert_eq!((device["lun"].as_u64(), device["node-name"].as_str()), (Some(2), Some("volume3")));
        for (url, part) in [
            ("nvme+tcp://h:1/nqn.x:y/1", "iscsi://HOST"),
            ("iscsi://h:1/iqn.x:y", "logical unit"),
            ("iscsi://h:1/iqn.x:y/one", "logical unit number"),
            ("iscsi://u%p@h:1/iqn.x:y/1", "CHAP"),
        ] {
            let error = format!("{:#}", volume(0, &at(url)).unwrap_err());
            assert!(error.contains(part), "{url}: {error}");
        }
    }

    #[test]
    fn a_file_on_nfs_is_one_of_the_host_s_exports() {
        let device = volume(0, &at("nfs://10.0.0.1/volumes/0?version=4&nfsport=2049")).unwrap();
        assert_eq!((device["driver"].as_str(), device["path"].as_str()), (Some("nfs"), Some("/volumes/0")));
        assert_eq!(device["server"]["host"], "10.0.0.1");
        assert!(volume(0, &at("nfs://10.0.0.1")).is_err());
    }

    #[test]
    fn an_export_has_its_url() {
        let (export, url) = nbd(1, Path::new("/run/x"));
        assert_eq!(url, "nbd+unix:///1?socket=/run/x/nbd");
        assert_eq!((export["name"].as_str(), export["node-name"].as_str()), (Some("1"), Some("volume1")));
    }
}
