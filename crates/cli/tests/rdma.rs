//! RDMA as its users meet it: iSER and NVMe/RDMA, each on software iWARP and on software RoCE, at the server and at every command, beside the same volumes over TCP.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use common::{Server, begin, program, run, run_in_vain, stamped, succeeded, told, until};
use linerate::{BlockingDisk, Client, ClientConfig};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tempfile::tempdir;

const SECTORS: u64 = 6000;
const RDMA: [&str; 10] = [
    "--iser",
    "127.0.0.1:0",
    "--nvme-rdma",
    "127.0.0.1:0",
    "--iser-roce",
    "127.0.0.1:3260",
    "--nvme-roce",
    "127.0.0.1:4420",
    "--roce-udp-port",
    "0",
];

/// Serves over all six.
fn serve(folder: &Path, arguments: &[&str]) -> Server {
    Server::start(folder, &[&RDMA, arguments].concat())
}

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("server.log")).unwrap()
}

/// Every command on a volume over RDMA, which is compared over TCP.
fn use_it(source: &str, url: &str, over_tcp: &str) {
    run(&["zero", over_tcp, "--overwrite"]);
    let said = told(&["copy", source, url, "--overwrite", "--verify", "--connections", "3", "--depth", "5"]);
    assert!(said.starts_with("3072000 bytes copied"), "{said}");
    for same in [url, over_tcp] {
        assert!(run(&["compare", source, same]).starts_with("equal: 8388608 bytes"), "{same}");
    }
    let sum = |url: &str| run(&["checksum", url]).split_once(' ').unwrap().0.to_owned();
    assert_eq!(sum(url), sum(over_tcp));
    let seen: Value = serde_json::from_str(&run(&["inspect", url, "--json"])).unwrap();
    assert_eq!(seen["bytes"], 8 << 20, "{seen}");
    run(&["zero", url, "--overwrite"]);
    assert!(run(&["compare", "null:8M", over_tcp]).starts_with("equal: "));
    let kept = "8388608 bytes kept through writes, flushes, zeroes, discards";
    assert_eq!(run(&["check", url, "--overwrite"]).trim(), kept, "{url}");
    for load in [&["--bs", "4k"][..], &["--bs", "256k", "--qd", "4"]] {
        let arguments = ["bench", url, "--rw", "randrw", "--overwrite", "--runtime", "0.3", "--json"];
        let counted: Value = serde_json::from_str(&run(&[&arguments, load].concat())).unwrap();
        assert_eq!(counted["errors"], 0, "{counted}");
        assert!(counted["read"]["ios"].as_u64() > Some(10), "{counted}");
    }
}

fn every_command_works(driver: &str, options: &str) {
    let folder = tempdir().unwrap();
    let volumes = ["ram=ram:8M", "file=file:disk.img?size=8M", "--cores", "2", "--driver", driver];
    let server = serve(folder.path(), &volumes);
    let source = stamped(&folder.path().join("source"), SECTORS, 1);
    for volume in ["ram", "file"] {
        use_it(&source, &format!("{}{options}", server.iser_url(volume)), &server.iscsi_url(volume));
        use_it(&source, &format!("{}{options}", server.nvme_rdma_url(volume)), &server.nvme_url(volume));
        use_it(&source, &server.iser_roce_url(volume), &server.iscsi_url(volume));
        use_it(&source, &server.nvme_roce_url(volume), &server.nvme_url(volume));
    }
    let said = log(folder.path());
    for expected in [
        "logged in, over iSER\n",
        "logged in, over iSER on RoCE\n",
        "connected, over NVMe/RDMA\n",
        "connected, over NVMe/RDMA on RoCE\n",
    ] {
        assert!(said.contains(expected), "{expected:?} is missing in {said}");
    }
    assert!(!said.contains("violation"), "{said}");
    server.stop();
}

#[test]
fn every_command_works_over_rdma() {
    every_command_works("auto", "");
}

#[test]
fn every_command_works_over_rdma_with_epoll_and_checksums() {
    every_command_works("epoll", "?crc=1");
}

#[test]
fn discovery_names_the_portals_of_its_own_transport() {
    let folder = tempdir().unwrap();
    let server = serve(folder.path(), &["disk=ram:1M"]);
    let portals = [("iscsi", "iscsi"), ("iser", "iser"), ("nvme+tcp", "nvme"), ("nvme+rdma", "nvme-rdma")];
    for (scheme, kind) in portals {
        let portal = server.portal(kind).unwrap().to_string();
        let found = run(&["discover", &format!("{scheme}://{portal}")]);
        assert!(found.contains("linerate:disk"), "{scheme}: {found}");
        assert!(found.lines().all(|line| line.starts_with(&portal)), "{scheme}: {found}");
        // Whoever comes to a portal of another transport is not let in, and hears so soon.
        let other = match scheme {
            "iscsi" => "iser",
            "iser" => "iscsi",
            "nvme+tcp" => "nvme+rdma",
            _ => "nvme+tcp",
        };
        run_in_vain(&["discover", &format!("{other}://{portal}?timeout=2s")]);
    }
    let udp = server.portal("udp").unwrap().port();
    for (scheme, kind) in [("iser", "iser-roce"), ("nvme+rdma", "nvme-roce")] {
        let portal = server.portal(kind).unwrap();
        let found = run(&["discover", &format!("{scheme}://{portal}?transport=roce&udp_port={udp}")]);
        assert!(found.lines().all(|line| line.starts_with(&portal.to_string())), "{found}");
        assert!(found.contains("linerate:disk"), "{found}");
        let other = portal.port() + 1;
        let url = format!("{scheme}://127.0.0.1:{other}?transport=roce&udp_port={udp}&timeout=5s");
        let said = run_in_vain(&["discover", &url]);
        assert!(said.contains("rejects the connection"), "nobody has that service: {said}");
    }
    server.stop();
}

/// Runs `linerate reserve`; whether it succeeded, and what it said.
fn reserve(url: &str, arguments: &[&str]) -> (bool, String) {
    let done = begin(&[&["reserve", url], arguments].concat()).wait_with_output().unwrap();
    let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
    (done.status.success(), said)
}

fn may_write(url: &str) -> bool {
    let done = begin(&["zero", url, "--overwrite", "--length", "64K"]).wait_with_output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success() || said.contains("a reservation of another host"), "{said}");
    done.status.success()
}

#[test]
fn what_is_reserved_over_one_transport_is_kept_from_all_others() {
    let folder = tempdir().unwrap();
    let server = serve(folder.path(), &["disk=ram:16M", "--cores", "2"]);
    let own = |url: String, number: u8| {
        let mark = if url.contains('?') { '&' } else { '?' };
        if url.starts_with('i') {
            format!("{url}{mark}isid=80000000000{number}")
        } else {
            format!("{url}{mark}hostid=11111111-2222-3333-4444-55555555555{number}")
        }
    };
    let urls = [
        own(server.iser_url("disk"), 1),
        own(server.nvme_rdma_url("disk"), 2),
        own(server.iscsi_url("disk"), 3),
        own(server.nvme_url("disk"), 4),
        own(server.nvme_roce_url("disk"), 5),
        own(server.iser_roce_url("disk"), 6),
    ];
    for (index, holder) in urls.iter().enumerate() {
        assert_eq!(urls.each_ref().map(|url| may_write(url)), [true; 6], "nobody holds it");
        let (done, said) = reserve(holder, &["register", "--new-key", "0xa1"]);
        assert!(done, "{said}");
        let (done, said) = reserve(holder, &["reserve", "--type", "write-exclusive"]);
        assert!(done, "{said}");
        let expected: [bool; 6] = std::array::from_fn(|other| other == index);
        assert_eq!(urls.each_ref().map(|url| may_write(url)), expected, "{holder} holds it");
        for url in &urls {
            assert!(reserve(url, &[]).1.contains("0xa1"), "{url}");
        }
        assert!(reserve(holder, &["release"]).0 && reserve(holder, &["register", "--new-key", "0"]).0);
    }
    server.stop();
}

fn open(client: &Client, url: &str) -> BlockingDisk {
    client.open(&url.parse().unwrap()).unwrap().blocking()
}

/// Writes and reads back without pause, each at a place of its own, until it is told to end, and fails with the first failure.
fn toil(url: String, place: u64, is_over: Arc<AtomicBool>) -> JoinHandle<Result<u64, String>> {
    let (is_open, opened) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let client = Client::start(&ClientConfig::default()).unwrap();
        let disk = open(&client, &url);
        let mut rounds: u64 = 0;
        while !is_over.load(Ordering::SeqCst) || rounds < 100 {
            let at = (place << 20) + rounds % 128 * 4096;
            let (wrote, mut read) = (rounds.to_le_bytes().repeat(512), [0; 4096]);
            disk.write_at(at, &wrote).map_err(|error| error.to_string())?;
            if rounds == 0 {
                is_open.send(()).unwrap();
            }
            disk.read_at(at, &mut read).map_err(|error| error.to_string())?;
            assert!(wrote == read, "{url} at {at}");
            rounds += 1;
        }
        Ok(rounds)
    });
    opened.recv().unwrap();
    thread
}

/// Whether an iWARP portal wants checksums of a peer that asks for none: what its reply to an MPA request says (RFC 5044 §7.1.1).
fn wants_checksums(portal: SocketAddr) -> bool {
    const CRC: u8 = 0x40;
    let mut stream = TcpStream::connect(portal).unwrap();
    // No flags, revision 1, no private data.
    stream.write_all(b"MPA ID Req Frame\x00\x01\x00\x00").unwrap();
    let mut reply = [0; 20];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply[..16], b"MPA ID Rep Frame");
    reply[16] & CRC != 0
}

#[test]
fn portals_come_and_go_while_others_work() {
    const TCP: &str = "[[portal]]\nprotocol = \"iscsi\"\nlisten = \"127.0.0.1:0\"\n\
                       [[portal]]\nprotocol = \"nvme\"\nlisten = \"127.0.0.1:0\"\n";
    const ISER: &str = "[[portal]]\nprotocol = \"iscsi\"\ntransport = \"iwarp\"\nlisten = \"127.0.0.1:0\"\n";
    const NVME: &str = "[[portal]]\nprotocol = \"nvme\"\ntransport = \"iwarp\"\nlisten = \"127.0.0.1:0\"\n";
    const ROCE: &str = "[[portal]]\nprotocol = \"nvme\"\ntransport = \"roce\"\nlisten = \"127.0.0.1:4420\"\nudp_port = 0\n\
         [[portal]]\nprotocol = \"iscsi\"\ntransport = \"roce\"\nlisten = \"127.0.0.1:3260\"\nudp_port = 0\n";
    const DISK: &str = "[[volume]]\nname = \"disk\"\nurl = \"ram:8M\"\n";
    let folder = tempdir().unwrap();
    let config = folder.path().join("config.toml");
    fs::write(&config, [TCP, DISK].concat()).unwrap();
    let server = Server::start_configured(folder.path(), &["--config", config.to_str().unwrap()]);
    let reload = |parts: &[&str], expected: &str| {
        let before = log(folder.path()).len();
        fs::write(&config, parts.concat()).unwrap();
        kill_process(server.pid(), Signal::HUP).unwrap();
        until(|| log(folder.path())[before..].contains(expected).then_some(()));
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let once = |url: String| format!("{url}{}reconnect=0", if url.contains('?') { '&' } else { '?' });
    // The first MiB is what `check` below overwrites.
    let tcp = toil(once(server.iscsi_url("disk")), 3, Arc::clone(&is_over));

    reload(&[TCP, ISER, NVME, ROCE, DISK], "portals: 4 opened, 0 closed");
    until(|| server.portal("nvme-rdma"));
    let stays = toil(once(server.nvme_rdma_url("disk")), 1, Arc::clone(&is_over));
    let goes = toil(once(server.iser_url("disk")), 2, Arc::clone(&is_over));
    let roce = toil(once(server.nvme_roce_url("disk")), 4, Arc::clone(&is_over));
    let iser_roce = toil(once(server.iser_roce_url("disk")), 5, Arc::clone(&is_over));

    // One that asks for checksums now is still the same portal.
    assert!(!wants_checksums(server.portal("nvme-rdma").unwrap()));
    reload(&[TCP, &format!("{NVME}crc = true\n"), DISK], "portals: 0 opened, 3 closed");
    for (goes, scheme) in [(goes, "iser://"), (roce, "nvme+rdma://"), (iser_roce, "transport=roce")] {
        let why = goes.join().unwrap().unwrap_err();
        assert!(why.contains(scheme), "{why}");
    }
    until(|| (server.portal("iser").is_none() && server.portal("udp").is_none()).then_some(()));
    assert!(wants_checksums(server.portal("nvme-rdma").unwrap()));
    run(&["check", &server.nvme_rdma_url("disk"), "--overwrite", "--bytes", "64K"]);

    is_over.store(true, Ordering::SeqCst);
    assert!(tcp.join().unwrap().unwrap() >= 100);
    assert!(stays.join().unwrap().unwrap() >= 100);
    server.stop();
}

/// Passes streams on to a server, and cuts them when it is told to.
struct Cutter {
    address: SocketAddr,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Cutter {
    fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let streams = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&streams);
        // It ends with the test's process.
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let (near, far) = (near.unwrap(), TcpStream::connect(server).unwrap());
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    std::thread::spawn(move || pass(from, to));
                }
                all.lock().unwrap().extend([near, far]);
            }
        });
        Self { address, streams }
    }

    /// Cuts all streams; how many there were.
    fn cut(&self) -> usize {
        let streams = std::mem::take(&mut *self.streams.lock().unwrap());
        for stream in &streams {
            drop(stream.shutdown(Shutdown::Both));
        }
        streams.len()
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ended = to.shutdown(Shutdown::Both);
}

#[test]
fn a_connection_that_is_cut_comes_back_and_nothing_is_lost() {
    let folder = tempdir().unwrap();
    let server = serve(folder.path(), &["disk=ram:8M"]);
    for url in [server.iser_url("disk"), server.nvme_rdma_url("disk")] {
        let portal = url.split('/').nth(2).unwrap().to_owned();
        let cutter = Cutter::before(portal.parse().unwrap());
        let is_over = Arc::new(AtomicBool::new(false));
        let through = url.replace(&portal, &cutter.address.to_string());
        let toiling = toil(format!("{through}?timeout=5s"), 0, Arc::clone(&is_over));
        for _ in 0..3 {
            assert!(until(|| Some(cutter.cut()).filter(|streams| *streams > 0)) > 0);
            // Somebody is there again: the connection was made anew.
            until(|| (!cutter.streams.lock().unwrap().is_empty()).then_some(()));
        }
        is_over.store(true, Ordering::SeqCst);
        assert!(toiling.join().unwrap().unwrap() >= 100, "{url}");
    }
    server.stop();
}

#[test]
fn a_portal_beyond_loopback_must_know_whom_it_serves() {
    for (option, at) in [
        ("--iser", "0.0.0.0:4420"),
        ("--nvme-rdma", "0.0.0.0:4420"),
        ("--iser-roce", "192.0.2.1:3260"),
        ("--nvme-roce", "192.0.2.1:4420"),
        ("--iser-adapter", "192.0.2.1:3260"),
        ("--nvme-adapter", "192.0.2.1:4420"),
    ] {
        let arguments = ["serve", "--check", "disk=ram:1M", option, at];
        let said = run_in_vain(&arguments);
        assert!(said.contains(&format!("{at} can be reached from other machines")), "{said}");
        assert!(run(&[&arguments[..], &["--allow-any"]].concat()).contains("the configuration is good"));
    }
}

#[test]
fn the_examples_work() {
    const HOWTO: &str = include_str!("../../../docs/howto/rdma.md");
    let (_, block) = HOWTO.split_once("## Use a volume\n").unwrap().1.split_once("```sh\n").unwrap();
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("image.raw"), vec![0xa5; 1 << 20]).unwrap();
    let server = serve(folder.path(), &["disk=ram:32M"]);
    let script = block.split_once("```").unwrap().0;
    let script = script
        .replace("iser://127.0.0.1:3261", &format!("iser://{}", server.portal("iser").unwrap()))
        .replace(
            "nvme+rdma://127.0.0.1:4421",
            &format!("nvme+rdma://{}", server.portal("nvme-rdma").unwrap()),
        );
    let path = format!("{}:{}", Path::new(program()).parent().unwrap().display(), env!("PATH"));
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &script]).env("PATH", path).current_dir(folder.path());
    let said = succeeded(shell.output().unwrap());
    for expected in ["linerate:disk", "nguid", "equal: ", "IOPS"] {
        assert!(said.contains(expected), "{expected:?} is missing in {said}");
    }
    server.stop();
}
