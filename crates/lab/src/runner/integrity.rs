//! The integrity pass: before an arm is measured, it must keep what it is given.
//!
//! Patterns are written through the arm's own path, flushed and read back, some overwritten, zeroed or discarded. A fast
//! arm that loses data gets no row. Endpoints up to 256 MiB are filled by it: a volume with holes would be measured as if
//! reading nothing were fast, and some initiators do not even ask for a hole. A `null` volume keeps nothing by definition and is passed over, by name.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::process::{CommandLine, Running};
use super::stage::Stage;
use crate::arm::Endpoint;
use crate::scenario::Initiator;
use crate::tool;

/// How long the pass over one endpoint may take.
const LIMIT: Duration = Duration::from_mins(1);
/// Bytes that are written to an endpoint that is too large to be filled.
const LEAST: u64 = 4 << 20;
/// Largest endpoint that is filled.
const MOST: u64 = 256 << 20;

/// What the pass came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Integrity {
    /// This many endpoints keep their data.
    Kept(usize),
    /// It could not be asked, and why.
    PassedOver(String),
}

/// The programs that check.
#[derive(Debug, Clone, Copy)]
pub struct Programs<'a> {
    /// The `linerate` program.
    pub linerate: &'a Path,
    /// The folder of fio's engines.
    pub engines: &'a Path,
}

/// Checks every endpoint of an arm. An error says which one lost data, and where.
pub fn check(
    stage: &Stage,
    (initiator, programs): (Initiator, Programs<'_>),
    folder: &Path,
) -> Result<Integrity> {
    if scheme(&stage.topology.volume) == "null" && !stage.is_bound() {
        return Ok(Integrity::PassedOver(format!("{} keeps no data by definition", stage.topology.volume)));
    }
    if stage.afar.loads() {
        return stage.afar.check();
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut checked = 0;
    for (host, endpoints) in &stage.initiators {
        for endpoint in endpoints {
            let engine = tool::engine(initiator, programs.engines, &endpoint.url);
            let Some(argv) = checker(endpoint, programs.linerate, engine) else {
                return Ok(Integrity::PassedOver(format!("nothing here can check {}", endpoint.url)));
            };
            let line = CommandLine::new(&format!("check-{checked}"), argv, folder);
            let mut running = Running::start(&line, &stage.load_placement(host))?;
            running.finish(LIMIT).with_context(|| format!("{} fails the integrity pass", endpoint.url))?;
            checked += 1;
        }
    }
    Ok(Integrity::Kept(checked))
}

/// The command that checks an endpoint, through fio's engine where the arm has one; `None` for what is no disk.
pub(crate) fn checker(
    endpoint: &Endpoint,
    linerate: &Path,
    engine: Option<[String; 2]>,
) -> Option<Vec<String>> {
    let url = endpoint.url.as_str();
    let bytes = if (1..=MOST).contains(&endpoint.size) { endpoint.size } else { LEAST };
    if let Some(engine) = engine {
        return Some(fio(bytes, &engine));
    }
    match scheme(url) {
        "iscsi" | "nvme+tcp" | "file" | "ram" | "null" | "device" => Some(own(url, bytes, linerate)),
        "nbd" | "nbd+unix" => Some(fio(bytes, &["--ioengine=nbd".to_owned(), format!("--uri={url}")])),
        "" if is_device(url) => Some(own(&format!("device:{url}"), bytes, linerate)),
        "" if url.starts_with('/') => Some(fio(
            bytes,
            &[
                format!("--filename={}", url.replace(':', "\\:")),
                "--ioengine=psync".to_owned(),
                "--direct=0".to_owned(),
            ],
        )),
        _ => None,
    }
}

/// What stands before the colon of a URL, behind its filters: `ram` of `delay=75us+ram:64M`.
fn scheme(url: &str) -> &str {
    let before = url.split_once(':').map_or("", |(before, _)| before);
    if before == "nvme+tcp" || before == "nbd+unix" {
        before
    } else {
        before.rsplit('+').next().unwrap_or(before)
    }
}

fn is_device(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
}

fn own(url: &str, bytes: u64, linerate: &Path) -> Vec<String> {
    let bytes = bytes.to_string();
    let words = ["check", url, "--overwrite", "--bytes", &bytes];
    std::iter::once(linerate.display().to_string()).chain(words.map(str::to_owned)).collect()
}

fn fio(bytes: u64, engine: &[String]) -> Vec<String> {
    let words = [
        "fio",
        "--name=integrity",
        "--rw=randwrite",
        "--bs=64k",
        "--iodepth=8",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--do_verify=1",
        "--end_fsync=1",
        "--randseed=1",
    ];
    let size = format!("--size={bytes}");
    words.map(str::to_owned).into_iter().chain([size]).chain(engine.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_endpoint_has_its_checker() {
        let of = |url: &str| {
            let endpoint = Endpoint { url: url.to_owned(), size: 0 };
            checker(&endpoint, Path::new("linerate"), None).map(|argv| argv[..3.min(argv.len())].join(" "))
        };
        assert_eq!(of("iscsi://h/t/0").as_deref(), Some("linerate check iscsi://h/t/0"));
        assert!(of("/dev/null").unwrap().starts_with("fio"), "no block device");
        assert!(of("nbd+unix:///0?socket=/s").unwrap().starts_with("fio"));
        assert!(of("/run/fuse/0").unwrap().starts_with("fio"));
        assert!(of("limit=5000iops+ram:64M").unwrap().starts_with("linerate check"));
        assert_eq!(of("127.0.0.1:5201"), None);
    }

    #[test]
    fn an_arm_inside_fio_is_checked_through_its_engine() {
        let endpoint = Endpoint { url: "iscsi://h/t/0".to_owned(), size: 0 };
        let engine = tool::engine(Initiator::LinerateFio, Path::new("/e"), &endpoint.url);
        let argv = checker(&endpoint, Path::new("linerate"), engine).unwrap();
        assert!(argv.contains(&"--ioengine=external:/e/liblinerate-fio.so".to_owned()), "{argv:?}");
        assert_eq!(tool::engine(Initiator::Linerate, Path::new("/e"), &endpoint.url), None);
    }
}
