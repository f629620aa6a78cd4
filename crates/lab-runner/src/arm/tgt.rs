//! tgt, the peer target in user space: one daemon with a control socket of its own, set up by `tgtadm`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::backing;
use super::served::{Endpoint, ServeSpec, Served, Side};
use super::service_start;
use crate::machine::ledger::Ledger;
use crate::machine::process::CommandLine;
use crate::machine::program;

/// The name of every target, before its number.
const NAME: &str = "iqn.2026-11.org.linerate.lab:t";
/// How long one command of `tgtadm` may take.
const LIMIT: Duration = Duration::from_secs(10);

pub(super) fn serve(spec: &ServeSpec<'_>, ledger: &mut Ledger) -> Result<Served> {
    let port = service_start::free_port(spec.host.address).unwrap_or(USUAL_PORT);
    let portal = SocketAddr::new(spec.host.address, port);
    let scratch = backing::scratch(&format!("tgt-{port}"), ledger)?;
    let socket = scratch.join("control");
    let argv = ["tgtd", "-f", "--iscsi", &format!("portal={portal}")].map(str::to_owned).to_vec();
    let mut line = CommandLine::new("target", argv, spec.folder);
    line.environment.insert("TGT_IPC_SOCKET".to_owned(), socket.display().to_string());
    let version = service_start::version("tgtd")?;
    let mut service = service_start::start(
        &line,
        spec.placement,
        service_start::Label { side: Side::Target, name: "tgtd", version },
        ledger,
    )?;
    let admin = Admin { socket };
    service_start::wait(&mut service, "it answers tgtadm", || {
        Ok(admin.run(&["--mode", "sys", "--op", "show"]).ok())
    })?;
    let endpoints = set_up(&admin, portal, spec, &scratch)?;
    Ok(Served { services: vec![service], endpoints })
}

/// The registered port of iSCSI: for a namespace of its own, where nothing else can have it.
const USUAL_PORT: u16 = 3260;

struct Admin {
    socket: PathBuf,
}

impl Admin {
    fn run(&self, words: &[&str]) -> Result<()> {
        let program = program::require("tgtadm")?;
        let output = Command::new(program::require("timeout")?)
            .arg(LIMIT.as_secs().to_string())
            .arg(program)
            .args(["--lld", "iscsi"])
            .args(words)
            .env("TGT_IPC_SOCKET", &self.socket)
            .output()
            .context("tgtadm cannot be started")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`tgtadm {}` ended with {}: {}", words.join(" "), output.status, said.trim());
        }
        Ok(())
    }
}

fn set_up(admin: &Admin, portal: SocketAddr, spec: &ServeSpec<'_>, scratch: &Path) -> Result<Vec<Endpoint>> {
    let mut endpoints = Vec::new();
    for (target, lun, number) in backing::numbers(spec.volumes) {
        let tid = (target + 1).to_string();
        if lun == 0 {
            let name = format!("{NAME}{target}");
            admin.run(&["--mode", "target", "--op", "new", "--tid", &tid, "-T", &name])?;
        }
        let (backing, kind, size) = backing(&spec.volumes.url, number, spec.folder, scratch)?;
        // LUN 0 of a tgt target is its controller.
        let unit = (lun + 1).to_string();
        let new = ["--mode", "logicalunit", "--op", "new", "--tid", &tid, "--lun", &unit];
        admin.run(&[&new[..], &["-b", &backing, "--bstype", kind]].concat())?;
        if lun == 0 {
            admin.run(&["--mode", "target", "--op", "bind", "--tid", &tid, "-I", "ALL"])?;
        }
        endpoints.push(Endpoint { url: format!("iscsi://{portal}/{NAME}{target}/{unit}"), size });
    }
    Ok(endpoints)
}

/// What stands behind a logical unit: tgt's own null device for `null:`, a file in memory for `ram:`, a file for `file:`.
fn backing(url: &str, number: u32, folder: &Path, scratch: &Path) -> Result<(String, &'static str, u64)> {
    let size = backing::volume_size(url);
    let url = backing::volume_url(url, number, folder);
    let file = match url.split_once(':') {
        // The backing store `null` takes its size from the file that it is given and never reads it.
        Some(("null", _)) => (scratch.join(format!("{number}.null")), "null"),
        Some(("ram", _)) => (scratch.join(format!("{number}.ram")), "rdwr"),
        Some(("file", rest)) => (PathBuf::from(rest.split('?').next().unwrap_or(rest)), "rdwr"),
        _ => bail!("tgt cannot serve {url}: it serves null:, ram: and file: volumes"),
    };
    let (path, kind) = file;
    let made = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    made.and_then(|file| file.set_len(size)).with_context(|| format!("cannot make {}", path.display()))?;
    Ok((path.display().to_string(), kind, size))
}
