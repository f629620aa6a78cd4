//! The command that checks whether an endpoint keeps its data, and what such a pass can come to.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::arm::Endpoint;

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

/// The command that checks an endpoint, through fio's engine where the arm has one; `None` for what is no disk.
pub(crate) fn checker(
    endpoint: &Endpoint,
    linerate: &Path,
    engine: Option<[String; 2]>,
) -> Option<Vec<String>> {
    let bytes = if (1..=MOST).contains(&endpoint.size) { endpoint.size } else { LEAST };
    Some(match Reach::of(endpoint, engine)? {
        Reach::Own(url) => own(&url, bytes, linerate),
        Reach::Fio(words) => fio(bytes, &words),
    })
}

/// What can write to an endpoint and read it back.
pub(super) enum Reach {
    /// fio, told so where the volume is.
    Fio(Vec<String>),
    /// Linerate's own check of this volume.
    Own(String),
}

impl Reach {
    /// Through fio's engine where the arm has one; `None` for what is no disk.
    pub(super) fn of(endpoint: &Endpoint, engine: Option<[String; 2]>) -> Option<Self> {
        let url = endpoint.url.as_str();
        if let Some(engine) = engine {
            return Some(Self::Fio(engine.to_vec()));
        }
        match scheme(url) {
            "iscsi" | "iser" | "nvme+tcp" | "nvme+rdma" | "nfs" | "nfs+rdma" | "file" | "ram" | "null"
            | "device" => Some(Self::Own(url.to_owned())),
            "nbd" | "nbd+unix" => Some(Self::Fio(vec!["--ioengine=nbd".to_owned(), format!("--uri={url}")])),
            "" if is_device(url) => Some(Self::Own(format!("device:{url}"))),
            "" if url.starts_with('/') => Some(Self::Fio(vec![
                format!("--filename={}", url.replace(':', "\\:")),
                "--ioengine=psync".to_owned(),
                "--direct=0".to_owned(),
            ])),
            _ => None,
        }
    }
}

/// What stands before the colon of a URL, behind its filters: `ram` of `delay=75us+ram:64M`.
pub(crate) fn scheme(url: &str) -> &str {
    let before = url.split_once(':').map_or("", |(before, _)| before);
    if matches!(before, "nvme+tcp" | "nvme+rdma" | "nfs+rdma" | "nbd+unix") {
        before
    } else {
        before.rsplit('+').next().unwrap_or(before)
    }
}

fn is_device(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
}

pub(super) fn own(url: &str, bytes: u64, linerate: &Path) -> Vec<String> {
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
    use lab_model::scenario::Initiator;

    #[test]
    fn every_kind_of_endpoint_has_its_checker() {
        let of = |url: &str| {
            let endpoint = Endpoint { url: url.to_owned(), size: 0 };
            checker(&endpoint, Path::new("linerate"), None).map(|argv| argv[..3.min(argv.len())].join(" "))
        };
        assert_eq!(of("iscsi://h/t/0").as_deref(), Some("linerate check iscsi://h/t/0"));
        for url in ["nfs://h/s/0", "nfs+rdma://h/s/0", "iser://h/t/0", "nvme+rdma://h/n/1"] {
            assert_eq!(of(url), Some(format!("linerate check {url}")));
        }
        assert!(of("/dev/null").unwrap().starts_with("fio"), "no block device");
        assert!(of("nbd+unix:///0?socket=/s").unwrap().starts_with("fio"));
        assert!(of("/run/fuse/0").unwrap().starts_with("fio"));
        assert!(of("limit=5000iops+ram:64M").unwrap().starts_with("linerate check"));
        assert_eq!(of("127.0.0.1:5201"), None);
    }

    #[test]
    fn an_arm_inside_fio_is_checked_through_its_engine() {
        let endpoint = Endpoint { url: "iscsi://h/t/0".to_owned(), size: 0 };
        let engine = super::super::engine(Initiator::LinerateFio, Path::new("/e"), &endpoint.url);
        let argv = checker(&endpoint, Path::new("linerate"), engine).unwrap();
        assert!(argv.contains(&"--ioengine=external:/e/liblinerate-fio.so".to_owned()), "{argv:?}");
        assert_eq!(super::super::engine(Initiator::Linerate, Path::new("/e"), &endpoint.url), None);
    }
}
