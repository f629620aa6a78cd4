//! Hostile peers: whatever others send or leave unsent, whoever behaves is served without an error, and memory and
//! descriptors stay bounded.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;

use common::{Server, TIMEOUT, begin, run, stamped, succeeded, until};
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
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// True when the peer closes before the timeout ends, whatever it says first.
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
    let mut violations = Vec::new();
    for (portal, bytes, why) in [
        (server.iscsi, garbage(4096), "a data segment is longer than declared"),
        (server.nvme, garbage(4096), "a PDU of a type that does not belong here"),
        (server.iscsi, login_header([0xff, 0xff, 0xff]).to_vec(), "a data segment is longer than declared"),
        (server.nvme, ic_req(u32::MAX).to_vec(), "a PDU of an impossible length"),
    ] {
        let mut stream = connect(portal);
        violations.push(format!("violation peer={}: {why}", stream.local_addr().unwrap()));
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
    // A connection whose other end is gone is closed in any case.
    let log = std::fs::read_to_string(folder.path().join("server.log")).unwrap();
    for violation in violations {
        assert!(log.contains(&violation), "{violation} is not in {log}");
    }
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
    // The portal that could accept nobody accepts again, as does the other.
    for url in [server.nvme_url("disk"), server.iscsi_url("disk")] {
        run(&["bench", &format!("{url}?reconnect=0&timeout=10s"), "--runtime", "1", "--json"]);
    }
    server.stop();
}

/// `[limits] memory` of a server that is flooded, and what its resident memory may be beside that and what it had before, in KiB: staging areas,
/// sends, and the allocator's own.
const FLOODED_MEMORY: u64 = 64 << 10;
const BESIDE: u64 = 64 << 10;
/// Connections of each flood.
const CROWD: u32 = 100;

/// A Login Request (RFC 7143, section 11.12) for a discovery session.
fn discovery_login(number: u32) -> Vec<u8> {
    let mut text = format!("InitiatorName=iqn.2026-11.test:{number}\0SessionType=Discovery\0").into_bytes();
    let mut pdu = login_header([0, 0, u8::try_from(text.len()).unwrap()]).to_vec();
    pdu[8] = 0x80;
    pdu[10..14].copy_from_slice(&number.to_be_bytes());
    pdu[19] = 1;
    text.resize(text.len().next_multiple_of(4), 0);
    [pdu, text].concat()
}

/// A NOP-Out (RFC 7143, section 11.18) with the longest data that is echoed.
fn ping() -> Vec<u8> {
    let mut pdu = vec![0; 48 + 8192];
    pdu[..8].copy_from_slice(&[0x40, 0x80, 0, 0, 0, 0, 0x20, 0]);
    pdu[19] = 2;
    pdu[20..24].fill(0xff);
    pdu[27] = 1;
    pdu
}

/// A command capsule (NVMe/TCP, section 3.6.2.4).
fn capsule(entry: [u8; 64], data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(72 + data.len()).unwrap();
    let mut pdu = vec![4, 0, 72, if data.is_empty() { 0 } else { 72 }];
    pdu.extend(length.to_le_bytes());
    pdu.extend(entry);
    pdu.extend(data);
    pdu
}

/// ICReq, Connect and the property that enables a discovery controller (NVMe over Fabrics, sections 3.3 and 3.6).
fn discovery_connect() -> Vec<u8> {
    let mut connect = [0; 64];
    connect[..5].copy_from_slice(&[0x7f, 0x40, 1, 0, 1]);
    connect[32..36].copy_from_slice(&1024_u32.to_le_bytes());
    connect[39] = 1;
    connect[44] = 127;
    let mut data = vec![0; 1024];
    (data[0], data[16], data[17]) = (1, 0xff, 0xff);
    let names = ["nqn.2014-08.org.nvmexpress.discovery", "nqn.2026-11.test:host"];
    for (at, name) in [256, 512].into_iter().zip(names) {
        data[at..at + name.len()].copy_from_slice(name.as_bytes());
    }
    let mut enable = [0; 64];
    enable[..5].copy_from_slice(&[0x7f, 0x40, 2, 0, 0]);
    enable[44] = 0x14;
    enable[48..52].copy_from_slice(&0x0046_0001_u32.to_le_bytes());
    [ic_req(128).to_vec(), capsule(connect, &data), capsule(enable, &[])].concat()
}

/// Get Log Page for 1 MiB of the discovery log.
fn long_page() -> Vec<u8> {
    let mut entry = [0; 64];
    entry[..3].copy_from_slice(&[2, 0x40, 3]);
    entry[32..36].copy_from_slice(&(1_u32 << 20).to_le_bytes());
    entry[39] = 0x5a;
    entry[40..46].copy_from_slice(&[0x70, 0, 0xff, 0xff, 3, 0]);
    capsule(entry, &[])
}

/// Says `first`, and then `again` as often as the server listens, but for so many times; reads nothing.
fn flood(portal: SocketAddr, first: &[u8], (again, times): (&[u8], usize)) -> Option<TcpStream> {
    let mut stream = connect(portal);
    stream.write_all(first).ok()?;
    stream.set_nonblocking(true).unwrap();
    let bytes = again.repeat(times);
    let mut at = 0;
    // What the kernel's buffers do not take any more, the server does not read.
    while let Ok(count) = stream.write(&bytes[at..])
        && count > 0
    {
        at += count;
    }
    Some(stream)
}

#[test]
fn floods_of_unread_answers_stay_within_the_limit_of_memory() {
    let folder = tempdir().unwrap();
    let volumes: Vec<_> =
        (0..300).map(|number| format!("[[volume]]\nname = \"v{number}\"\nurl = \"null:64M\"\n")).collect();
    let config = format!(
        "[limits]\nmemory = \"64M\"\n[daemon]\ncores = 1\n[[portal]]\nprotocol = \"iscsi\"\nlisten = \"127.0.0.1:0\"\n[[portal]]\nprotocol = \"nvme\"\nlisten = \"127.0.0.1:0\"\n{}",
        volumes.concat()
    );
    std::fs::write(folder.path().join("config.toml"), config).unwrap();
    let server = Server::start_configured(folder.path(), &["--config", "config.toml"]);
    let url = server.nvme_url("v7");
    run(&["bench", &url, "--runtime", "1", "--json"]);
    let before = server.resident();
    let good = [server.iscsi_url("v0"), url].map(|url| load(&url));
    let (pings, pages) = (ping(), long_page());
    let mut held = Vec::new();
    for round in 0..4 {
        for number in 0..CROWD {
            let login = discovery_login(round * CROWD + number + 1);
            held.extend(flood(server.iscsi, &login, (&pings, 100)));
            held.extend(flood(server.nvme, &discovery_connect(), (&pages, 100)));
        }
        let most = before + FLOODED_MEMORY + BESIDE;
        let resident = server.resident();
        assert!(resident <= most, "{resident} KiB are resident beside {} floods, of {most}", held.len());
    }
    good.into_iter().for_each(without_errors);
    drop(held);
    server.stop();
}
