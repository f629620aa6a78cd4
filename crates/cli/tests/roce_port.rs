//! RoCEv2's own port, 4791: several queue pairs and cores of a process share it, a second process hears that it is taken, and who ends says so.
//!
//! The server is at 127.0.0.2, and what connects to it comes from 127.0.0.1: an address is one process's at a time.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{Server, begin, ended, run, run_in_vain, stamped, succeeded, told, until, until_or};
use linerate::{BlockingDisk, Client, ClientConfig};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::tempdir;

const SECTORS: u64 = 6000;
const CORES: u16 = 3;

/// Each test takes the port at both addresses.
fn both_addresses() -> MutexGuard<'static, ()> {
    static ADDRESSES: Mutex<()> = Mutex::new(());
    ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner)
}

const DISKS: [&str; 2] = ["disk=ram:8M", "other=ram:8M"];
const PORTALS: [&str; 4] = ["--nvme-roce", "127.0.0.2:4420", "--iser-roce", "127.0.0.2:3260"];

fn serve(folder: &Path) -> Server {
    Server::start(folder, &[&DISKS[..], &PORTALS, &["--cores", &CORES.to_string()]].concat())
}

fn nvme(volume: &str) -> String {
    format!("nvme+rdma://127.0.0.2:4420/nqn.2026-11.org.linerate:{volume}/1?transport=roce")
}

fn iser(volume: &str) -> String {
    format!("iser://127.0.0.2:3260/iqn.2026-11.org.linerate:{volume}/0?transport=roce")
}

fn open(client: &Client, url: &str) -> BlockingDisk {
    client.open(&url.parse().unwrap()).unwrap().blocking()
}

/// Sockets at an address of this machine, and RoCE's port.
fn sockets(address: [u8; 4]) -> usize {
    let at = format!(" {:08X}:{:04X} ", u32::from_le_bytes(address), 4791);
    fs::read_to_string("/proc/net/udp").unwrap().matches(&at).count()
}

/// How often each event loop of a process has gone to sleep.
fn sleeps(process: Pid) -> Vec<u64> {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())).unwrap();
    let mut cores: Vec<(String, u64)> = tasks
        .filter_map(|task| {
            let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let field =
                |name| Some(status.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned());
            let core = field("Name:").filter(|name| name.starts_with("core "))?;
            Some((core, field("voluntary_ctxt_switches:")?.parse().unwrap()))
        })
        .collect();
    cores.sort();
    cores.into_iter().map(|(_, sleeps)| sleeps).collect()
}

#[test]
fn volumes_with_several_queue_pairs_open_at_roces_port() {
    let _addresses = both_addresses();
    let folder = tempdir().unwrap();
    let server = serve(folder.path());
    assert_eq!(sockets([127, 0, 0, 2]), usize::from(CORES), "one for each core");
    let source = stamped(&folder.path().join("source"), SECTORS, 1);
    for (url, over_tcp) in [(nvme("disk"), server.nvme_url("disk")), (iser("disk"), server.iscsi_url("disk"))]
    {
        run(&["zero", &over_tcp, "--overwrite"]);
        let said =
            told(&["copy", &source, &url, "--overwrite", "--verify", "--connections", "3", "--depth", "5"]);
        assert!(said.starts_with("3072000 bytes copied"), "{said}");
        assert!(run(&["compare", &source, &over_tcp]).starts_with("equal: "));
    }
    assert_eq!(sockets([127, 0, 0, 1]), 0, "nobody has connections any more");
    server.stop();
}

#[test]
fn all_cores_of_both_sides_have_queue_pairs() {
    let _addresses = both_addresses();
    let folder = tempdir().unwrap();
    let server = serve(folder.path());
    let before = sleeps(server.pid());
    let client = Client::start(&ClientConfig { cores: CORES, ..ClientConfig::default() }).unwrap();
    let disks = [nvme("disk"), iser("disk"), nvme("other"), iser("other")].map(|url| open(&client, &url));
    std::thread::scope(|scope| {
        // A thread's requests go to a core of its own.
        for place in 0..6_u64 {
            let disks = &disks;
            scope.spawn(move || {
                for round in 0..200_u64 {
                    let disk = &disks[usize::try_from(round % 4).unwrap()];
                    let (at, wrote) = (place << 20, (round + place).to_le_bytes().repeat(1024));
                    let mut read = vec![0; wrote.len()];
                    disk.write_at(at + round % 4 * 65_536, &wrote).unwrap();
                    disk.read_at(at + round % 4 * 65_536, &mut read).unwrap();
                    assert!(wrote == read, "{place} in round {round}");
                }
            });
        }
    });
    assert_eq!(sockets([127, 0, 0, 1]), usize::from(CORES));
    let after = sleeps(server.pid());
    let slept: Vec<u64> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
    assert!(slept.len() == usize::from(CORES) && slept.iter().all(|slept| *slept > 50), "{slept:?}");
    drop(disks);
    drop(client);
    server.stop();
}

#[test]
fn a_process_hears_that_another_one_has_the_port() {
    let _addresses = both_addresses();
    let folder = tempdir().unwrap();
    let server = serve(folder.path());
    let client = Client::start(&ClientConfig::default()).unwrap();
    let disk = open(&client, &nvme("disk"));
    for url in [nvme("disk"), iser("disk")] {
        let said = run_in_vain(&["inspect", &url]);
        for expected in ["UDP port 4791", "another process of this machine", "rdma_rxe", "udp_port"] {
            assert!(said.contains(expected), "{expected:?} is missing in {said}");
        }
    }
    // What the other one has goes on.
    disk.write_at(0, &[1; 4096]).unwrap();
    drop(disk);
    drop(client);
    until(|| (sockets([127, 0, 0, 1]) == 0).then_some(()));
    run(&["inspect", &nvme("disk")]);

    let said = run_in_vain(&["serve", "d=ram:1M", "--nvme-roce", "127.0.0.2:4421", "--iscsi", "127.0.0.1:0"]);
    assert!(said.contains("127.0.0.2:4791") && said.contains("rdma_rxe"), "{said}");
    server.stop();
}

/// What the server's log says of the ends of connections.
fn ends(log: &str) -> Vec<&str> {
    let ended = log.lines().filter(|line| line.contains(" ended ") || line.contains(" failed "));
    ended.map(|line| line.rsplit(": ").next().unwrap()).collect()
}

#[test]
fn a_client_that_ends_ends_its_queue_pairs() {
    let _addresses = both_addresses();
    let attached = tempdir().unwrap();
    let socket = format!("unix:{}", attached.path().join("nbd").display());
    for url in [nvme("disk"), iser("disk")] {
        for arguments in [
            vec!["bench", &url, "--rw", "randread", "--runtime", "600"],
            vec!["attach", &url, &socket, "--as", "nbd", "--cores", "2"],
            vec!["copy", "ram:1M", &url, "--overwrite"],
        ] {
            // A server for each: of many lines in a second its log leaves some out.
            let folder = tempdir().unwrap();
            let server = Server::start(folder.path(), &[&DISKS[..], &PORTALS, &["--log", "debug"]].concat());
            let log = || fs::read_to_string(folder.path().join("server.log")).unwrap();
            let mut child = begin(&arguments);
            // Opening is over when there is a connection beside the first.
            let begun = || log().matches("a connection begins").count();
            until_or(|| (begun() >= 2).then_some(()), || format!("{arguments:?}: {}", log()));
            if arguments[0] != "copy" {
                kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
            }
            ended(&mut child);
            until_or(
                || (ends(&log()).len() == begun()).then_some(()),
                || format!("{arguments:?}: {}", log()),
            );
            // It was told of each, and has missed none by a timer.
            let log = log();
            let agreed = ends(&log).iter().all(|end| *end == "the connection ends as both sides agreed");
            assert!(agreed, "{arguments:?}: {log}");
            server.stop();
        }
    }
}

#[test]
fn a_server_that_stops_ends_its_queue_pairs() {
    let _addresses = both_addresses();
    for url in [nvme("disk"), iser("disk")] {
        let folder = tempdir().unwrap();
        let server = serve(folder.path());
        let client = Client::start(&ClientConfig::default()).unwrap();
        let disk = open(&client, &format!("{url}&reconnect=0"));
        disk.write_at(0, &[1; 4096]).unwrap();
        server.stop();
        let why = disk.write_at(0, &[2; 4096]).unwrap_err().to_string();
        assert!(
            why.ends_with("the connection to the controller was lost)") || why.ends_with("logged out)"),
            "{why}"
        );
    }
}

#[test]
fn a_server_tells_what_packets_went_through() {
    let _addresses = both_addresses();
    let folder = tempdir().unwrap();
    let state = folder.path().join("state").display().to_string();
    let arguments =
        [&["serve"], &DISKS[..], &PORTALS, &["--iscsi", "127.0.0.1:0", "--state", &state]].concat();
    for damaged in [0, 3] {
        let child = begin(&arguments);
        until(|| (sockets([127, 0, 0, 2]) == 1).then_some(()));
        // Opened sockets are read soon.
        run(&["inspect", &nvme("disk")]);
        for _ in 0..damaged {
            UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&[7; 40], "127.0.0.2:4791").unwrap();
        }
        run(&["inspect", &nvme("disk")]);
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let said = succeeded(child.wait_with_output().unwrap());
        let told = said.lines().find(|line| line.starts_with("RoCE counted "));
        let expected = (damaged > 0).then_some("3 damaged packets");
        assert_eq!(told.map(|line| line.rsplit(", ").next().unwrap()), expected, "{said}");
    }
}

#[test]
fn a_portal_comes_back_while_connections_of_before_leave() {
    const DISK: &str = "[[volume]]\nname = \"disk\"\nurl = \"ram:8M\"\n";
    const TCP: &str = "[[portal]]\nprotocol = \"nvme\"\nlisten = \"127.0.0.1:0\"\n\
                       [[portal]]\nprotocol = \"iscsi\"\nlisten = \"127.0.0.1:0\"\n";
    const ROCE: &str = "[[portal]]\nprotocol = \"nvme\"\ntransport = \"roce\"\nlisten = \"127.0.0.2:4420\"\n";
    let _addresses = both_addresses();
    let folder = tempdir().unwrap();
    let config = folder.path().join("config.toml");
    fs::write(&config, [TCP, ROCE, DISK].concat()).unwrap();
    let server =
        Server::start_configured(folder.path(), &["--config", config.to_str().unwrap(), "--cores", "2"]);
    let log = || fs::read_to_string(folder.path().join("server.log")).unwrap();
    let reload = |parts: &[&str], expected: &str| {
        let before = log().len();
        fs::write(&config, parts.concat()).unwrap();
        kill_process(server.pid(), Signal::HUP).unwrap();
        until(|| log()[before..].contains(expected).then_some(()));
    };
    let client = Client::start(&ClientConfig { cores: 2, ..ClientConfig::default() }).unwrap();
    let disks = [(); 6].map(|()| open(&client, &nvme("disk")));
    for round in 0..3_u8 {
        for disk in &disks {
            disk.write_at(0, &[round; 4096]).unwrap();
        }
        reload(&[TCP, DISK], "portals: 0 opened, 1 closed");
        reload(&[TCP, ROCE, DISK], "portals: 1 opened, 0 closed");
    }
    for disk in &disks {
        disk.write_at(0, &[9; 4096]).unwrap();
    }
    drop(disks);
    drop(client);
    server.stop();
}
