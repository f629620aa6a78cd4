//! Hostile peers: whatever others send or leave unsent, whoever behaves is served without an error, and memory and
//! descriptors stay bounded.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;

use common::{PATIENCE, Server, begin, run, stamped, succeeded, until};
use rustix::process::{Resource, Rlimit, prlimit};
use tempfile::tempdir;

/// What hostile peers may cost in resident memory beyond the load's own, in KiB: the buffers of all, with room.
const MEMORY_BOUND: u64 = 256 << 10;
/// Connections that send nothing.
const SILENT: usize = 50;

/// A load beside the hostility; its requests must all succeed.
fn load(url: &str) -> Child {
    begin(&["bench", url, "--runtime", "3", "--json"])
}

fn without_errors(load: Child) {
    let report: serde_json::Value =
        serde_json::from_str(&succeeded(load.wait_with_output().unwrap())).unwrap();
    assert_eq!(report["errors"], 0, "{report}");
}

fn connect(portal: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(portal).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// True when the peer closes before the patience ends, whatever it says first.
fn closes(mut stream: TcpStream) -> bool {
    let mut sink = [0; 4096];
    loop {
        match stream.read(&mut sink) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// Bytes with no meaning, the same in each run.
fn garbage(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

/// A Login Request's header (RFC 7143, section 11.12) whose data segment claims `length` bytes.
fn login_header(length: [u8; 3]) -> [u8; 48] {
    let mut header = [0; 48];
    header[0] = 0x43;
    header[1] = 0x87;
    header[5..8].copy_from_slice(&length);
    header
}

/// An ICReq (NVMe/TCP, section 3.6.2.2) whose PLEN claims `length` bytes.
fn ic_req(length: u32) -> [u8; 128] {
    let mut pdu = [0; 128];
    pdu[2] = 128;
    pdu[4..8].copy_from_slice(&length.to_le_bytes());
    pdu
}

#[test]
fn nonsense_disturbs_nobody() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=ram:16M"]);
    run(&["bench", &server.nvme_url("disk"), "--runtime", "1", "--json"]);
    let before = server.resident();
    let load = [server.iscsi_url("disk"), server.nvme_url("disk")].map(|url| load(&url));
    let mut held = Vec::new();
    for portal in [server.iscsi, server.nvme] {
        for _ in 0..SILENT {
            drop(connect(portal));
            held.push(connect(portal));
        }
    }
    for (portal, bytes) in [
        (server.iscsi, login_header([0, 0, 64])[..20].to_vec()),
        (server.iscsi, login_header([0, 0, 64]).to_vec()),
        (server.nvme, ic_req(128)[..4].to_vec()),
        (server.nvme, ic_req(128)[..100].to_vec()),
    ] {
        let mut half = connect(portal);
        half.write_all(&bytes).unwrap();
        held.push(half);
    }
    for (portal, bytes) in [
        (server.iscsi, garbage(4096)),
        (server.nvme, garbage(4096)),
        (server.iscsi, login_header([0xff, 0xff, 0xff]).to_vec()),
        (server.nvme, ic_req(u32::MAX).to_vec()),
    ] {
        let mut stream = connect(portal);
        // The peer may have closed before all was sent.
        let _refused = stream.write_all(&bytes);
        let _refused = stream.shutdown(std::net::Shutdown::Write);
        assert!(closes(stream), "{portal} keeps a connection that sent nonsense");
    }
    load.into_iter().for_each(without_errors);
    let grown = server.resident().saturating_sub(before);
    assert!(grown < MEMORY_BOUND, "resident memory grew by {grown} KiB");
    drop(held);
    server.stop();
}

/// A copy that is under way for seconds, because the volume is slow; whoever disturbs it makes it fail.
struct SlowCopy {
    source: PathBuf,
    target: PathBuf,
    process: Child,
}

impl SlowCopy {
    /// The volume of the server that it reads.
    const VOLUME: &str = "disk=limit=4M/s+file:source";

    /// Makes the volume's file.
    fn prepare(folder: &Path) {
        const SECTORS: u64 = 16 << 11;
        stamped(&folder.join("source"), SECTORS, 1);
    }

    /// Starts, and waits until data flows.
    fn start(server: &Server, folder: &Path) -> Self {
        let target = folder.join("target");
        let url = format!("file:{}", target.display());
        let process = begin(&["copy", &server.iscsi_url("disk"), &url]);
        // The file has its size before the first stamp comes.
        until(|| {
            let mut first = [0];
            File::open(&target).ok()?.read(&mut first).ok().filter(|_| first != [0])
        });
        Self { source: folder.join("source"), target, process }
    }

    /// Requires that it is still under way, succeeds and that everything arrives.
    fn finish(mut self) {
        assert!(self.process.try_wait().unwrap().is_none(), "the copy was over before the hostility was");
        succeeded(self.process.wait_with_output().unwrap());
        let same = std::fs::read(self.source).unwrap() == std::fs::read(self.target).unwrap();
        assert!(same, "the copy differs");
    }
}

#[test]
fn more_connections_than_the_limit_are_closed() {
    const LIMIT: usize = 20;
    let folder = tempdir().unwrap();
    SlowCopy::prepare(folder.path());
    std::fs::write(folder.path().join("config.toml"), format!("[limits]\nconnections = {LIMIT}\n")).unwrap();
    let server = Server::start(folder.path(), &["--config", "config.toml", SlowCopy::VOLUME]);
    let idle = server.descriptors();
    let copy = SlowCopy::start(&server, folder.path());
    let crowd: Vec<_> = (0..LIMIT + 100).map(|_| connect(server.nvme)).collect();
    // The last ones came when all places were taken.
    for extra in crowd.iter().skip(LIMIT) {
        assert!(closes(extra.try_clone().unwrap()), "a connection beyond the limit stays open");
    }
    assert!(server.descriptors() <= idle + LIMIT);
    copy.finish();
    drop(crowd);
    until(|| (server.descriptors() <= idle).then_some(()));
    run(&["bench", &server.nvme_url("disk"), "--runtime", "1", "--json"]);
    server.stop();
}

#[test]
fn survives_running_out_of_descriptors() {
    /// Descriptors beyond those in use when the crowd comes.
    const SPARE: usize = 8;
    let folder = tempdir().unwrap();
    SlowCopy::prepare(folder.path());
    let server = Server::start(folder.path(), &[SlowCopy::VOLUME]);
    let idle = server.descriptors();
    let copy = SlowCopy::start(&server, folder.path());
    let most = server.descriptors() + SPARE;
    let few = Some(most as u64);
    let usual = prlimit(Some(server.pid()), Resource::Nofile, Rlimit { current: few, maximum: few }).unwrap();
    assert!(usual.current > few);
    let crowd: Vec<_> = (0..100).map(|_| connect(server.nvme)).collect();
    until(|| (server.descriptors() >= most).then_some(()));
    copy.finish();
    drop(crowd);
    until(|| (server.descriptors() <= idle).then_some(()));
    run(&["bench", &server.iscsi_url("disk"), "--runtime", "1", "--json"]);
    server.stop();
}
