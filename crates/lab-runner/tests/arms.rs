//! Every target, adapter and link that the lab builds, used by a program that is not the lab, and taken down again.
//!
//! These need root and the peers' programs: `conformance/lab/arms.py` runs them, with `LINERATE` naming the binary.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lab_model::scenario::{Gateway, Initiator, Link, LinkKind, Target};
use lab_runner::arm::{self, AdaptSpec, Endpoint, Filesystem, ServeSpec, Served, Side, Volumes, postgresql};
use lab_runner::machine::ledger::Ledger;
use lab_runner::machine::process::{CommandLine, Placement, Running};
use lab_runner::machine::program;
use lab_runner::machine::topology::{self, Host, Hosts};

const LIMIT: Duration = Duration::from_mins(1);
/// SHA-256 of a MiB of zeros.
const EMPTY_MEBIBYTE: &str = "30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58";
/// Says to the test that is to be killed where it works.
const VICTIM: &str = "LINERATE_LAB_VICTIM";

/// A folder, a ledger, and hosts.
struct Ground {
    folder: tempfile::TempDir,
    ledger: Ledger,
    hosts: Hosts,
}

impl Ground {
    fn new(link: &Link, initiators: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::create(&folder.path().join("ledger.jsonl")).unwrap();
        let hosts = topology::build(link, initiators, &mut ledger).unwrap();
        Self { folder, ledger, hosts }
    }

    fn serve(&mut self, target: Target, volumes: &Volumes) -> Served {
        serve(target, volumes, (&self.hosts.target, self.folder.path()), &mut self.ledger)
    }

    fn adapt(&mut self, initiator: Initiator, endpoints: &[Endpoint]) -> Served {
        adapt(initiator, endpoints, (&self.hosts.initiators[0], self.folder.path()), &mut self.ledger)
    }

    /// Runs a command on an initiating host; its standard output.
    fn on(&self, host: &Host, argv: &[&str]) -> Result<String, String> {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        let line = CommandLine::new("load", argv, self.folder.path());
        let mut running = Running::start(&line, &place(host)).unwrap();
        running.finish(LIMIT).map_err(|error| format!("{error:#}"))?;
        Ok(std::fs::read_to_string(&line.stdout).unwrap())
    }

    fn load(&self, argv: &[&str]) -> String {
        self.on(&self.hosts.initiators[0], argv).unwrap()
    }

    /// Takes everything down; afterwards there is nothing left to take down.
    fn end(mut self) {
        let torn = self.ledger.tear_down();
        assert!(torn.left.is_empty(), "{torn:?}");
        assert_eq!(self.ledger.left().count(), 0);
        assert!(self.ledger.tear_down().removed.is_empty());
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind either.
        self.ledger.tear_down();
    }
}

fn serve(target: Target, volumes: &Volumes, (host, folder): (&Host, &Path), ledger: &mut Ledger) -> Served {
    let (placement, linerate) = (place(host), linerate());
    let spec =
        ServeSpec { volumes, host, folder, placement: &placement, linerate: &linerate, cores: 1, spin: None };
    arm::serve(target, &spec, ledger).unwrap()
}

fn adapt(
    initiator: Initiator,
    endpoints: &[Endpoint],
    (host, folder): (&Host, &Path),
    ledger: &mut Ledger,
) -> Served {
    let (placement, linerate) = (place(host), linerate());
    let spec = AdaptSpec { endpoints, host, folder, placement: &placement, linerate: &linerate };
    arm::adapt(initiator, &spec, ledger).unwrap()
}

fn place(host: &Host) -> Placement {
    Placement { namespace: host.namespace.clone(), ..Placement::default() }
}

fn linerate() -> PathBuf {
    std::env::var_os("LINERATE").expect("LINERATE names the binary: run conformance/lab/arms.py").into()
}

fn volumes(targets: u32, luns: u32, url: &str) -> Volumes {
    Volumes { targets, luns, url: url.to_owned() }
}

fn veth(mtu: u32, rate: Option<&str>) -> Link {
    Link { kind: LinkKind::Veth, mtu, rate: rate.map(str::to_owned), ..Link::default() }
}

fn bench(ground: &Ground, endpoint: &Endpoint) {
    let linerate = linerate();
    let said = ground.load(&[
        linerate.to_str().unwrap(),
        "bench",
        &endpoint.url,
        "--rw",
        "randread",
        "--bs",
        "4k",
        "--qd",
        "8",
        "--runtime",
        "1",
        "--json",
    ]);
    assert!(said.contains("\"errors\":0") && !said.contains("\"iops\":0,"), "{said}");
}

/// A pattern, written and read back by QEMU.
fn keeps_data(ground: &Ground, url: &str) {
    let steps = ["-c", "write -P 90 64k 64k", "-c", "flush", "-c", "read -P 90 64k 64k"];
    let said = ground.load(&[&["qemu-io", "-f", "raw"], &steps[..], &[url]].concat());
    assert!(said.contains("read 65536/65536") && !said.contains("failed"), "{said}");
}

#[test]
#[ignore = "needs root and programs of others: conformance/lab/arms.py"]
fn iscsi_targets_serve_every_logical_unit() {
    for target in [Target::LinerateIscsi, Target::Tgt] {
        let mut ground = Ground::new(&Link::default(), 1);
        let served = ground.serve(target, &volumes(2, 2, "ram:16M"));
        assert_eq!((served.endpoints.len(), served.services.len()), (4, 1));
        for endpoint in &served.endpoints {
            assert_eq!(endpoint.size, 16 << 20);
            keeps_data(&ground, &endpoint.url);
        }
        bench(&ground, &served.endpoints[3]);
        let perf = ground.load(&["iscsi-perf", "-t", "1", "-m", "8", "-b", "8", &served.endpoints[0].url]);
        assert!(perf.contains("iops average"), "{perf}");
        drop(served);
        ground.end();
    }
}

#[test]
#[ignore = "needs root and programs of others: conformance/lab/arms.py"]
fn null_volumes_are_served_by_all_who_have_them() {
    for target in [Target::LinerateIscsi, Target::LinerateNvme, Target::Tgt] {
        let mut ground = Ground::new(&veth(9000, None), 1);
        let served = ground.serve(target, &volumes(1, 2, "null:1G"));
        served.endpoints.iter().for_each(|endpoint| bench(&ground, endpoint));
        drop(served);
        ground.end();
    }
    let mut ground = Ground::new(&veth(1500, None), 1);
    let served = ground.serve(Target::Nbdkit, &volumes(2, 1, "null:1G"));
    for endpoint in &served.endpoints {
        assert!(ground.load(&["qemu-img", "info", &endpoint.url]).contains("1 GiB"));
    }
    drop(served);
    ground.end();
}

#[test]
#[ignore = "needs root and programs of others: conformance/lab/arms.py"]
fn nbdkit_keeps_data_in_memory_and_in_files() {
    for url in ["ram:16M", "file:{folder}/{n}.img?size=16M"] {
        let mut ground = Ground::new(&Link::default(), 1);
        let served = ground.serve(Target::Nbdkit, &volumes(2, 1, url));
        served.endpoints.iter().for_each(|endpoint| keeps_data(&ground, &endpoint.url));
        drop(served);
        ground.end();
    }
}

#[test]
#[ignore = "needs root and programs of others: conformance/lab/arms.py"]
fn ganesha_exports_a_file_for_each_volume() {
    for (link, url) in [(Link::default(), "ram:1M"), (veth(1500, None), "file:{folder}/{n}.img?size=1M")] {
        let mut ground = Ground::new(&link, 1);
        let served = ground.serve(Target::Ganesha, &volumes(2, 1, url));
        for endpoint in &served.endpoints {
            let copy = ground.folder.path().join("copy");
            ground.load(&["nfs-cp", &endpoint.url, copy.to_str().unwrap()]);
            assert_eq!(std::fs::metadata(&copy).unwrap().len(), 1 << 20);
            std::fs::remove_file(copy).unwrap();
        }
        drop(served);
        ground.end();
    }
}

#[test]
#[ignore = "needs root and programs of others: conformance/lab/arms.py"]
fn libnfs_hands_every_file_on() {
    let mut ground = Ground::new(&veth(1500, None), 1);
    let target = ground.serve(Target::Ganesha, &volumes(2, 1, "ram:1M"));
    let files = ground.adapt(Initiator::Libnfs, &target.endpoints);
    for (file, over) in files.endpoints.iter().zip(&target.endpoints) {
        ground.load(&[
            "dd",
            "if=/dev/urandom",
            &format!("of={}", file.url),
            "bs=64k",
            "count=16",
            "conv=notrunc,fsync",
        ]);
        let copy = ground.folder.path().join("copy");
        ground.load(&["nfs-cp", &over.url, copy.to_str().unwrap()]);
        let (through, direct) = (std::fs::read(&file.url).unwrap(), std::fs::read(&copy).unwrap());
        assert!(through == direct && through.len() == 1 << 20 && through.iter().any(|byte| *byte != 0));
        std::fs::remove_file(copy).unwrap();
    }
    drop((files, target));
    ground.end();
}

#[test]
#[ignore = "needs root and programs of others: conformance/lab/arms.py"]
fn libiscsi_hands_every_volume_on() {
    for target in [Target::LinerateIscsi, Target::Tgt] {
        let mut ground = Ground::new(&veth(1500, None), 1);
        let target = ground.serve(target, &volumes(2, 1, "ram:64M"));
        let nbd = ground.adapt(Initiator::LibiscsiNbd, &target.endpoints);
        nbd.endpoints.iter().for_each(|endpoint| keeps_data(&ground, &endpoint.url));
        drop(nbd);
        let fuse = ground.adapt(Initiator::LibiscsiFuse, &target.endpoints);
        for endpoint in &fuse.endpoints {
            assert_eq!(std::fs::metadata(&endpoint.url).unwrap().len(), 64 << 20);
            keeps_data(&ground, &endpoint.url);
        }
        drop((fuse, target));
        ground.end();
    }
}

#[test]
#[ignore = "needs root and programs of others: conformance/lab/arms.py"]
fn linerate_hands_every_volume_on() {
    for target in [Target::LinerateIscsi, Target::LinerateNvme, Target::Tgt] {
        let mut ground = Ground::new(&veth(1500, None), 1);
        let target = ground.serve(target, &volumes(2, 1, "ram:64M"));
        let nbd = ground.adapt(Initiator::LinerateNbd, &target.endpoints);
        assert_eq!((nbd.services.len(), nbd.endpoints.len()), (1, 2), "one adapter for all volumes");
        assert!(nbd.services.iter().all(|service| service.side == Side::Adapter));
        nbd.endpoints.iter().for_each(|endpoint| keeps_data(&ground, &endpoint.url));
        drop(nbd);
        let shared = ground.adapt(Initiator::LinerateVhostUser, &target.endpoints);
        assert_eq!((shared.services.len(), shared.endpoints.len()), (1, 2), "one adapter for all volumes");
        for endpoint in &shared.endpoints {
            // QEMU's tools have no driver for it; Linerate's own command writes, reads back and compares.
            let program = linerate();
            let words = [program.to_str().unwrap(), "check", endpoint.url.as_str(), "--overwrite"];
            ground.load(&words);
        }
        drop(shared);
        let fuse = ground.adapt(Initiator::LinerateFuse, &target.endpoints);
        for endpoint in &fuse.endpoints {
            assert_eq!(std::fs::metadata(&endpoint.url).unwrap().len(), 64 << 20);
            keeps_data(&ground, &endpoint.url);
        }
        drop((fuse, target));
        ground.end();
    }
}

#[test]
#[ignore = "needs root and programs of others: conformance/lab/arms.py"]
fn a_database_runs_on_a_file_system_on_a_remote_volume() {
    [Initiator::LibiscsiFuse, Initiator::LinerateFuse].into_iter().for_each(a_database_runs_through);
}

fn a_database_runs_through(initiator: Initiator) {
    let mut ground = Ground::new(&veth(1500, None), 1);
    let target = ground.serve(Target::LinerateIscsi, &volumes(1, 1, "ram:512M"));
    let adapter = ground.adapt(initiator, &target.endpoints);
    let user = postgresql::user();
    let files = Filesystem::make(&adapter.endpoints[0], user.as_deref(), &mut ground.ledger).unwrap();
    let settings = BTreeMap::from([("shared_buffers".to_owned(), "16MB".to_owned())]);
    let placement = place(&ground.hosts.initiators[0]);
    let spec = postgresql::DatabaseSpec {
        root: files.path(),
        settings: &settings,
        folder: ground.folder.path(),
        placement: &placement,
    };
    let database = postgresql::serve(&spec, &mut ground.ledger).unwrap();
    let url = database.endpoints[0].url.clone();
    ground.load(&["pgbench", "-i", "-q", "-s", "1", &url]);
    assert!(ground.load(&["pgbench", "-t", "10", "-c", "1", &url]).contains("10/10"));
    assert!(ground.load(&["psql", "-At", "-c", "show shared_buffers", &url]).contains("16MB"));
    drop(database);
    drop(files);
    drop((adapter, target));
    ground.end();
}

#[test]
#[ignore = "needs root and programs of others: conformance/lab/arms.py"]
fn a_target_tells_of_its_caches_and_of_nothing_else() {
    let mut ground = Ground::new(&Link::default(), 1);
    let cache = "cache=[ram:2M,ram:4M]?admit=always&bypass=0&mode=back&idle=1000s";
    let mut served = ground.serve(Target::LinerateNvme, &volumes(1, 2, cache));
    assert_eq!(served.endpoints[1].size, 4 << 20);
    let before = served.services[0].counters().unwrap();
    bench(&ground, &served.endpoints[1]);
    let after = served.services[0].counters().unwrap();
    let counted = arm::caches::since(&after, &before);
    let of = |name: &str| counted[name];
    assert!(
        of("cache_hits") > 0.0 && of("cache_misses") > 0.0 && of("cache_insertions") > 0.0,
        "{counted:?}"
    );
    assert!(of("cache_dirty_bytes").abs() < f64::EPSILON, "nothing was written: {counted:?}");
    drop(served);
    let mut plain = ground.serve(Target::LinerateNvme, &volumes(1, 1, "ram:4M"));
    assert!(plain.services[0].counters().unwrap().is_empty());
    drop(plain);
    ground.end();
}

#[test]
#[ignore = "needs root and programs of others: conformance/lab/arms.py"]
fn a_link_has_its_mtu_and_its_rate() {
    for (initiators, mtu, rate, payload) in [(1, 1500, 1000.0, 0.93..0.957), (3, 9000, 500.0, 0.93..1.0)] {
        let mut ground = Ground::new(&veth(mtu, Some(&format!("{rate}Mbit"))), initiators);
        for host in &ground.hosts.initiators {
            assert!(fits(&ground, host, mtu) && !fits(&ground, host, mtu + 1));
        }
        let served = ground.serve(Target::Stream, &volumes(1, 1, ""));
        let share = megabits(&ground, &served.endpoints[0].url) / rate;
        assert!(payload.contains(&share), "payload is {share} of a shaped link of {rate} Mbit/s");
        drop(served);
        ground.end();
    }
}

/// Every kind of Linerate's target reaches its initiator over a link that loses packets, and through one that translates addresses.
#[test]
#[ignore = "needs root and programs of others: conformance/lab/arms.py"]
fn every_transport_gets_over_losses_and_through_a_gateway() {
    let lossy = Link { loss: Some("1%".to_owned()), ..veth(1500, None) };
    let nat = Link { gateway: Gateway::Nat, ..veth(1500, None) };
    for (link, lost) in [(lossy, 0.4..6.0), (nat, 0.0..0.1)] {
        let mut ground = Ground::new(&link, 1);
        let target = ground.hosts.target.address.to_string();
        let said = ground.load(&["ping", "-c", "1000", "-i", "0.002", "-q", &target]);
        let share = said.split_whitespace().find_map(|word| word.strip_suffix('%')).unwrap();
        assert!(
            lost.contains(&share.parse().unwrap()),
            "of pings to and fro {lost:?} % are to be lost: {said}"
        );
        for kind in [
            Target::LinerateIscsi,
            Target::LinerateNvme,
            Target::LinerateIser,
            Target::LinerateNvmeRdma,
            Target::LinerateNvmeRoce,
            Target::LinerateIserRoce,
        ] {
            let served = ground.serve(kind, &volumes(1, 1, "ram:1M"));
            let linerate = linerate().display().to_string();
            let sum = |url: &str| ground.on(&ground.hosts.initiators[0], &[&linerate, "checksum", url]);
            let url = &served.endpoints[0].url;
            if matches!(kind, Target::LinerateNvmeRoce | Target::LinerateIserRoce)
                && link.gateway == Gateway::Nat
            {
                // Its packets' check covers their addresses, so that those of the gateway are nobody's.
                let said = sum(&format!("{url}&timeout=2s")).unwrap_err();
                assert!(said.contains("timed out"), "{said}");
            } else {
                let said = sum(url).unwrap();
                assert!(said.contains(EMPTY_MEBIBYTE), "{kind:?}: {said}");
            }
            drop(served);
        }
        ground.end();
    }
}

/// Whether a packet of so many bytes passes in one piece.
fn fits(ground: &Ground, host: &Host, bytes: u32) -> bool {
    // IPv4's and ICMP's headers have 28 bytes.
    let (size, target) = ((bytes - 28).to_string(), ground.hosts.target.address.to_string());
    ground.on(host, &["ping", "-c", "1", "-W", "5", "-M", "do", "-s", &size, &target]).is_ok()
}

/// What one stream carries, Mbit/s: the most of three, since a busy machine only takes away.
fn megabits(ground: &Ground, address: &str) -> f64 {
    (0..3).map(|_| one_stream(ground, address)).fold(0.0, f64::max)
}

fn one_stream(ground: &Ground, address: &str) -> f64 {
    let (host, port) = address.rsplit_once(':').unwrap();
    let said = ground.load(&["iperf3", "-c", host, "-p", port, "-t", "2", "-O", "1", "-J"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    said["end"]["sum_received"]["bits_per_second"].as_f64().unwrap() / 1e6
}

/// Builds all that a run can build, says so, and waits to be killed. Only [`nothing_outlives_a_killed_run`] starts it.
#[test]
#[ignore = "the part of another test that is killed"]
fn victim() {
    let Some(folder) = std::env::var_os(VICTIM).map(PathBuf::from) else { return };
    let mut ledger = Ledger::create(&folder.join("ledger.jsonl")).unwrap();
    let hosts = topology::build(&veth(1500, Some("5Gbit")), 2, &mut ledger).unwrap();
    let target = serve(Target::Tgt, &volumes(1, 1, "ram:64M"), (&hosts.target, &folder), &mut ledger);
    let parts = (&hosts.initiators[0], folder.as_path());
    let adapter = adapt(Initiator::LibiscsiFuse, &target.endpoints, parts, &mut ledger);
    let _files = Filesystem::make(&adapter.endpoints[0], None, &mut ledger).unwrap();
    std::fs::write(folder.join("built"), "all\n").unwrap();
    std::thread::park();
}

#[test]
#[ignore = "needs root and programs of others: conformance/lab/arms.py"]
fn nothing_outlives_a_killed_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "victim", "--ignored", "--nocapture"]).env(VICTIM, folder.path());
    let mut child = command.spawn().unwrap();
    let deadline = std::time::Instant::now() + LIMIT;
    while !folder.path().join("built").exists() {
        assert!(
            child.try_wait().unwrap().is_none() && std::time::Instant::now() < deadline,
            "nothing was built"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let path = folder.path().join("ledger.jsonl");
    // The kill comes in the middle of a line.
    let torn = std::fs::read_to_string(&path).unwrap() + "{\"id\":99,\"thing\":\"names";
    std::fs::write(&path, torn).unwrap();
    let mark = format!("linerate-lab-{}-", child.id());
    assert!(traces(&mark).len() > 3, "{:?}", traces(&mark));
    let mut ledger = Ledger::open(&path).unwrap();
    let torn = ledger.tear_down();
    assert!(torn.left.is_empty() && torn.removed.len() >= 8, "{torn:?}");
    assert_eq!(traces(&mark), Vec::<String>::new());
    assert!(Ledger::open(&path).unwrap().tear_down().removed.is_empty());
}

/// Whatever the machine still knows of a run: mounts, loop devices, processes.
fn traces(mark: &str) -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let loops = program::output(&["losetup", "--list", "--output", "NAME,BACK-FILE"], LIMIT).unwrap();
    let processes = program::output(&["ps", "-eo", "pid,args"], LIMIT).unwrap();
    let lines = mounts.lines().chain(loops.lines()).chain(processes.lines());
    lines.filter(|line| line.contains(mark)).map(str::to_owned).collect()
}
