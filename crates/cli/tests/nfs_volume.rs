//! Files at an NFS server as volumes, as their users meet them: data goes both ways, a server that is killed comes back, and errors say what to do. The server is
//! our own; nfs-ganesha is in `conformance/nfs_client`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Server, begin, program, run, run_in_vain, stamped, succeeded, until};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

const HOWTO: &str = include_str!("../../../docs/howto/nfs.md");
const SECTORS: u64 = 6000;
const BYTES: u64 = SECTORS * 512;

const RDMA: [&str; 6] =
    ["--nfs-rdma", "127.0.0.1:0", "--nfs-roce", "127.0.0.1:20049", "--roce-udp-port", "0"];

/// A server of a folder with a file in it.
struct Share {
    folder: TempDir,
    server: Server,
    portal: SocketAddr,
}

impl Share {
    fn start() -> Self {
        Self::with(&[])
    }

    fn with(arguments: &[&str]) -> Self {
        let folder = tempdir().unwrap();
        let files = folder.path().join("files");
        std::fs::create_dir(&files).unwrap();
        // Root of a client is nobody.
        open_to_all(&files, 0o777);
        open_to_all(folder.path(), 0o777);
        let server = serve(folder.path(), "127.0.0.1:0", arguments);
        let portal = server.portal("nfs").unwrap();
        let share = Self { folder, server, portal };
        share.file("disk.img", BYTES);
        share
    }

    /// A file of zeros that everybody may write to.
    fn file(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.folder.path().join("files").join(name);
        File::create(&path).unwrap().set_len(bytes).unwrap();
        open_to_all(&path, 0o666);
        path
    }

    fn url(&self, file: &str) -> String {
        format!("nfs://{}/files/{file}", self.portal)
    }

    /// The same over RDMA: over iWARP, with its checksums, and over RoCE.
    fn rdma_urls(&self, file: &str) -> [String; 4] {
        let iwarp = format!("nfs+rdma://{}/files/{file}", self.server.portal("nfs-rdma").unwrap());
        let roce = self.server.portal("nfs-roce").unwrap();
        let udp = self.server.portal("udp").unwrap().port();
        let roce = format!("nfs+rdma://{roce}/files/{file}?transport=roce&udp_port={udp}");
        let three = format!("{iwarp}?version=3&mountport={}", self.portal.port());
        [iwarp.clone(), format!("{iwarp}?crc=1&version=4.1"), three, roce]
    }
}

fn serve(folder: &Path, portal: &str, arguments: &[&str]) -> Server {
    Server::start(folder, &[&["files=dir:files", "--nfs", portal], arguments].concat())
}

fn open_to_all(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn data_goes_in_and_comes_out_by_each_version() {
    let share = Share::start();
    let (source, served) = (share.folder.path().join("source"), share.folder.path().join("files/disk.img"));
    let all = ["", "?version=4.1", "?block=4096", "?exclusive=1", "?version=3", "?version=3&block=4096"];
    for (seed, options) in (1..).zip(all) {
        let url = share.url(&format!("disk.img{options}"));
        let from = stamped(&source, SECTORS, seed);
        let connections = if options.contains("exclusive") { "1" } else { "4" };
        run(&["copy", &from, &url, "--overwrite", "--verify", "--connections", connections]);
        assert!(std::fs::read(&source).unwrap() == std::fs::read(&served).unwrap(), "{options}");
        assert!(run(&["compare", &from, &url]).starts_with("equal: 3072000 bytes"), "{options}");
        assert!(run(&["check", &url, "--overwrite", "--bytes", "1M"]).starts_with("1048576 bytes kept"));
        run(&["zero", &url, "--overwrite"]);
        assert!(std::fs::read(&served).unwrap().iter().all(|byte| *byte == 0), "{options}");
    }
    share.server.stop();
}

/// Version 3 as its users meet it: loads, growing, and what is wrong.
#[test]
fn version_3_is_spoken_if_it_is_asked_for() {
    let share = Share::start();
    share.file("empty.img", 0);
    let deep = share.folder.path().join("files/a/b");
    std::fs::create_dir_all(&deep).unwrap();
    share.file("a/b/disk.img", BYTES);
    let url = share.url("disk.img?version=3");
    let said: Value = serde_json::from_str(&run(&["inspect", &url, "--json"])).unwrap();
    assert!(said.to_string().contains("NFS 3 file"), "{said}");
    for load in [&["--bs", "4k"][..], &["--bs", "256k", "--qd", "4"]] {
        let arguments =
            ["bench", &url, "--rw", "randrw", "--overwrite", "--verify", "--runtime", "0.5", "--json"];
        let counted: Value = serde_json::from_str(&run(&[&arguments, load].concat())).unwrap();
        assert_eq!(counted["errors"], 0, "{counted}");
        assert!(counted["read"]["ios"].as_u64() > Some(10), "{counted}");
    }
    let grown = run(&["inspect", "--json", &share.url("empty.img?version=3&size=1M")]);
    assert!(grown.contains("1048576"), "{grown}");
    run(&["inspect", &share.url("a/b/disk.img?version=3")]);
    run(&["inspect", &share.url(&format!("disk.img?version=3&mountport={}", share.portal.port()))]);
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let closed = share.file("closed.img", 512);
    open_to_all(&closed, 0o000);
    let mut wanted = vec![
        (share.url("none.img?version=3"), "check the path"),
        (format!("nfs://{}/nowhere/disk.img?version=3", share.portal), "/nowhere is not found"),
        (share.url("disk.img?version=3&exclusive=1"), "cannot deny others"),
        (share.url(&format!("disk.img?version=3&mountport={}", gone.port())), "MOUNT at 127.0.0.1"),
        (share.url("a?version=3"), "is a directory"),
    ];
    if rustix::process::geteuid().is_root() {
        wanted.push((share.url("closed.img?version=3"), "uid="));
    }
    for (url, word) in wanted {
        let said = run_in_vain(&["inspect", &url]);
        assert!(said.contains(word), "{url}: {said}");
    }
    let refused = run_in_vain(&["metadata", &share.url("?version=3").replace("/?", "?")]);
    assert!(refused.contains("leave version=3 out"), "{refused}");
    share.server.stop();
}

#[test]
fn data_goes_in_and_comes_out_over_rdma() {
    let share = Share::with(&RDMA);
    let (source, served) = (share.folder.path().join("source"), share.folder.path().join("files/disk.img"));
    for (seed, url) in (1..).zip(share.rdma_urls("disk.img")) {
        let from = stamped(&source, SECTORS, seed);
        run(&["copy", &from, &url, "--overwrite", "--verify", "--connections", "3", "--depth", "5"]);
        assert!(std::fs::read(&source).unwrap() == std::fs::read(&served).unwrap(), "{url}");
        for same in [&url, &share.url("disk.img")] {
            assert!(run(&["compare", &from, same]).starts_with("equal: 3072000 bytes"), "{same}");
        }
        assert!(run(&["check", &url, "--overwrite", "--bytes", "1M"]).starts_with("1048576 bytes kept"));
        for load in [&["--bs", "4k"][..], &["--bs", "256k", "--qd", "4"]] {
            let arguments = ["bench", &url, "--rw", "randrw", "--overwrite", "--runtime", "0.3", "--json"];
            let counted: Value = serde_json::from_str(&run(&[&arguments, load].concat())).unwrap();
            assert_eq!(counted["errors"], 0, "{counted}");
            assert!(counted["read"]["ios"].as_u64() > Some(10), "{counted}");
        }
        run(&["zero", &url, "--overwrite"]);
        assert!(std::fs::read(&served).unwrap().iter().all(|byte| *byte == 0), "{url}");
    }
    let said = std::fs::read_to_string(share.folder.path().join("server.log")).unwrap();
    for expected in ["a session, over NFS/RDMA\n", "a session, over NFS/RDMA on RoCE\n"] {
        assert!(said.contains(expected), "{expected:?} is missing in {said}");
    }
    // Whoever comes to the portal of another transport hears so soon.
    let iwarp = share.server.portal("nfs-rdma").unwrap();
    run_in_vain(&["inspect", &format!("nfs://{iwarp}/files/disk.img?timeout=2s")]);
    run_in_vain(&["inspect", &format!("nfs+rdma://{}/files/disk.img?timeout=2s", share.portal)]);
    share.server.stop();
}

/// Killed over iWARP under a load that verifies: the queue pair that follows goes on with the session of the one before.
#[test]
fn a_server_over_rdma_that_is_killed_and_comes_back_is_waited_for() {
    let Share { folder, server, .. } = Share::with(&RDMA);
    // Its ports are known now; one that was chosen by the system is not kept for anybody.
    let [tcp, iwarp] = ["nfs", "nfs-rdma"].map(|kind| server.portal(kind).unwrap().to_string());
    server.stop();
    let start = || serve(folder.path(), &tcp, &["--nfs-rdma", &iwarp]);
    let server = start();
    let url = format!("nfs+rdma://{iwarp}/files/disk.img?reconnect=120s&timeout=60s");
    let load =
        begin(&["bench", &url, "--rw", "randrw", "--verify", "--overwrite", "--runtime", "6", "--json"]);
    let file = folder.path().join("files/disk.img");
    until(|| std::fs::read(&file).unwrap().iter().any(|byte| *byte != 0).then_some(()));
    server.kill();
    let server = start();
    succeeded(load.wait_with_output().unwrap());
    server.stop();
}

/// A client that is gone without a word is waited for when the server starts again, for as long as its lease: each command takes its leave, whatever came of it.
#[test]
fn nothing_of_a_client_stays_at_the_server() {
    let Share { folder, server, portal } = Share::with(&RDMA);
    // Its ports are known now; for one that was chosen by the system nothing is kept.
    let iwarp = server.portal("nfs-rdma").unwrap().to_string();
    server.stop();
    let server = serve(folder.path(), &portal.to_string(), &["--nfs-rdma", &iwarp]);
    let share = Share { folder, server, portal };
    share.file("odd.img", 1000);
    let state = share.folder.path().join("state/nfs-server");
    let records = || {
        let entries = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().file_name());
        entries.filter(|name| name.to_string_lossy().starts_with("clients-")).count()
    };
    let front = tempdir().unwrap();
    for url in [share.url("disk.img"), format!("nfs+rdma://{iwarp}/files/disk.img")] {
        run(&["inspect", &url]);
        run(&["bench", &url, "--runtime", "0.2"]);
        run(&["copy", &url, "null:8M", "--connections", "3"]);
        let gateway = Server::start(front.path(), &[&format!("gw={url}"), "--cores", "2"]);
        // A gateway is ready once it knows its volume; its event loops open theirs from then on.
        until(|| (records() > 0).then_some(()));
        gateway.stop();
        for file in ["none.img", "odd.img"] {
            run_in_vain(&["inspect", &url.replace("disk.img", file)]);
        }
        until(|| (records() == 0).then_some(()));
    }
    share.server.stop();
}

#[test]
fn a_file_at_a_server_is_served_once_more() {
    let share = Share::start();
    let front = tempdir().unwrap();
    let gateway = Server::start(front.path(), &[&format!("gw={}", share.url("disk.img")), "--cores", "2"]);
    let from = stamped(&share.folder.path().join("source"), SECTORS, 5);
    run(&["copy", &from, &gateway.nvme_url("gw"), "--overwrite", "--verify", "--connections", "4"]);
    for url in [share.url("disk.img"), gateway.iscsi_url("gw")] {
        assert!(run(&["compare", &from, &url]).starts_with("equal: 3072000 bytes"), "{url}");
    }
    gateway.stop();
    share.server.stop();
}

/// A server that is killed under a load that verifies, and comes back with what it kept in its state folder: the load goes on.
#[test]
fn a_server_that_is_killed_and_comes_back_is_waited_for() {
    for version in ["4.2", "3"] {
        killed_under_a_load(version);
    }
}

fn killed_under_a_load(version: &str) {
    let Share { folder, server, portal } = Share::start();
    // Its port is known now; a port that was chosen by the system is not kept for anybody.
    server.stop();
    let portal = portal.to_string();
    let server = serve(folder.path(), &portal, &[]);
    let url = format!("nfs://{portal}/files/disk.img?version={version}&reconnect=120s&timeout=60s");
    let load =
        begin(&["bench", &url, "--rw", "randrw", "--verify", "--overwrite", "--runtime", "6", "--json"]);
    let file = folder.path().join("files/disk.img");
    until(|| std::fs::read(&file).unwrap().iter().any(|byte| *byte != 0).then_some(()));
    server.kill();
    let server = serve(folder.path(), &portal, &[]);
    succeeded(load.wait_with_output().unwrap());
    server.stop();
}

#[test]
fn what_is_wrong_is_said_with_what_helps() {
    let share = Share::start();
    share.file("empty.img", 0);
    share.file("odd.img", 1000);
    std::fs::create_dir(share.folder.path().join("files/folder")).unwrap();
    std::os::unix::fs::symlink("disk.img", share.folder.path().join("files/link.img")).unwrap();
    let closed = share.file("closed.img", 512);
    open_to_all(&closed, 0o000);
    let mut wanted = vec![
        (share.url("none.img"), "check the path"),
        (format!("nfs://{}/nowhere/disk.img", share.portal), "/nowhere is not found"),
        (share.url("folder"), "is a directory"),
        (share.url("link.img"), "symbolic link"),
        (share.url("empty.img"), "size="),
        (share.url("odd.img"), "1000"),
        (share.url("disk.img/deeper"), "no directory"),
    ];
    if rustix::process::geteuid().is_root() {
        // Nobody may be root here; a server of somebody else does everything as that user.
        wanted.push((share.url("closed.img"), "uid="));
    }
    for (url, word) in wanted {
        let said = run_in_vain(&["inspect", &url]);
        assert!(said.contains(word), "{url}: {said}");
    }
    let grown = run(&["inspect", "--json", &share.url("empty.img?size=1M")]);
    assert!(grown.contains("1048576"), "{grown}");
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = run_in_vain(&["inspect", &format!("nfs://{gone}/files/disk.img")]);
    assert!(said.contains("cannot connect"), "{said}");
    share.server.stop();
}

/// The commands from the first section on that our client is in, in their order: servers are started, the others run in a shell as they stand there.
#[test]
fn the_commands_of_the_howto_work() {
    let (_, sections) = HOWTO.split_once("\n## What a folder holds\n").unwrap();
    let blocks = sections.split("\n```sh\n").skip(1).map(|block| block.split_once("```").unwrap().0);
    let lines: Vec<&str> = blocks.flat_map(str::lines).collect();
    let share = Share::with(&RDMA);
    let iwarp = share.server.portal("nfs-rdma").unwrap();
    std::fs::remove_file(share.folder.path().join("files/disk.img")).unwrap();
    stamped(&share.folder.path().join("image.raw"), SECTORS, 6);
    let files = share.folder.path().join("files").display().to_string();
    let address = share.portal.to_string();
    let path = format!("{}:{}", Path::new(program()).parent().unwrap().display(), env!("PATH"));
    let mut gateways = 0;
    // What the kernel mounts, it mounts in the virtual machine.
    for line in lines.iter().filter(|line| !line.starts_with("mount ")) {
        let command = line
            .replace("/srv/files", &files)
            .replace("nfs://127.0.0.1/", &format!("nfs://{address}/"))
            .replace("nfs+rdma://127.0.0.1/", &format!("nfs+rdma://{iwarp}/"))
            .replace("--files 1000", "--files 30")
            .replace("size=10G", "size=10M")
            .replace("--runtime 5", "--runtime 1");
        let words = line.strip_prefix("linerate serve ").map(|words| words.trim_start_matches("--export "));
        if let Some(words) = words.and_then(|words| words.strip_prefix("files=")) {
            let portals = words.strip_prefix("dir:/srv/files --nfs 127.0.0.1:2049");
            assert!(matches!(portals, Some(" &" | " --nfs-rdma 127.0.0.1:20049 &")), "{words}");
            continue;
        }
        if let Some(words) = command.strip_prefix("linerate serve ") {
            let (volume, portal) = words.split_once(' ').unwrap();
            assert_eq!(portal, "--iscsi 127.0.0.1:3260");
            let front = tempdir().unwrap();
            let server = Server::start(front.path(), &[volume]);
            let said = run(&["compare", &stamped_url(&share), &server.iscsi_url("disk"), "--json"]);
            assert!(said.contains("3072000"), "{said}");
            server.stop();
            gateways += 1;
            continue;
        }
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", &format!("umask 000\n{command}")]).env("PATH", &path);
        let output = shell.current_dir(share.folder.path()).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!((lines.len(), gateways), (16, 1), "{lines:?}");
    share.server.stop();
}

fn stamped_url(share: &Share) -> String {
    format!("file:{}", share.folder.path().join("image.raw").display())
}

/// Names of a folder that is served.
fn names(share: &Share) -> Vec<String> {
    let entries = std::fs::read_dir(share.folder.path().join("files")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn names_are_made_looked_at_and_removed_again() {
    let share = Share::start();
    let url = format!("nfs://{}/files", share.portal);
    let words = ["metadata", &url, "--depth", "2", "--branch", "3", "--files", "20", "--qd", "8"];
    let told: serde_json::Value = serde_json::from_str(&run(&[&words[..], &["--json"]].concat())).unwrap();
    let phases = told["phases"].as_array().unwrap();
    let counts: Vec<(&str, u64)> = phases
        .iter()
        .map(|phase| (phase["phase"].as_str().unwrap(), phase["operations"].as_u64().unwrap()))
        .collect();
    // 1 + 3 + 9 directories with 20 files each; all but the first directory are listed.
    let expected = [
        ("directory creation", 13),
        ("file creation", 260),
        ("file stat", 260),
        ("directory listing", 272),
        ("file removal", 260),
        ("directory removal", 13),
    ];
    assert_eq!((counts, &told["nfs"], &told["qd"]), (expected.to_vec(), &"4.2".into(), &8.into()));
    assert!(phases.iter().all(|phase| phase["per_second"].as_f64().unwrap() > 0.0));
    assert_eq!(names(&share), ["disk.img"], "nothing is left");
    let text = run(&words);
    assert!(text.lines().count() == 6 && text.contains("file stat"), "{text}");
    for key in ["phases", "phase", "operations", "seconds", "per_second", "latency_us"] {
        assert!(HOWTO.contains(&format!("`{key}`")), "docs/howto/nfs.md does not say what {key} is");
    }
    share.server.stop();
}

#[test]
fn what_names_cannot_be_made_in_is_told() {
    let share = Share::start();
    let absent = run_in_vain(&["metadata", &format!("nfs://{}/files/absent", share.portal)]);
    assert!(absent.contains("/files/absent") && absent.contains("check the path"), "{absent}");
    let file = run_in_vain(&["metadata", &share.url("disk.img"), "--files", "1"]);
    assert!(file.contains("directory creation"), "{file}");
    let url = format!("nfs://{}/files", share.portal);
    for (words, part) in [(["--files", "4000000000"], "lower depth"), (["--qd", "0"], "0 is not in")] {
        let said = run_in_vain(&[&["metadata", &url][..], &words].concat());
        assert!(said.contains(part), "{said}");
    }
    for wrong in ["iscsi://127.0.0.1/iqn.2026-11.org.linerate:x/0", "nfs://127.0.0.1/files?size=1M"] {
        let said = run_in_vain(&["metadata", wrong]);
        assert!(said.contains("nfs://HOST") || said.contains("leave them out"), "{said}");
    }
    assert_eq!(names(&share), ["disk.img"], "nothing was made");
    share.server.stop();
}

#[test]
fn a_directory_is_listed() {
    let share = Share::start();
    let files = share.folder.path().join("files");
    share.file("odd name\n.img", 1000);
    std::fs::create_dir(files.join("folder")).unwrap();
    std::os::unix::fs::symlink("disk.img", files.join("link")).unwrap();
    // More than an answer has room for.
    std::fs::create_dir(files.join("many")).unwrap();
    (0..2000)
        .for_each(|number| drop(std::fs::File::create(files.join(format!("many/{number:04}"))).unwrap()));
    let url = format!("nfs://{}/files", share.portal);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&run(&["ls", &url])), ["disk.img", "folder/", "link", "many/", r"odd name\u{a}.img"]);
    let long = run(&["ls", "--long", &url]);
    assert!(long.lines().any(|line| line.starts_with('-') && line.contains(" 3072000 ")), "{long}");
    assert!(long.lines().any(|line| line.starts_with("l ") && line.ends_with(" link")), "{long}");
    let many = run(&["ls", "--json", &format!("{url}/many?version=4.1")]);
    let rows: Vec<Value> = many.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert!(names.iter().copied().eq((0..2000).map(|number| format!("{number:04}")).collect::<Vec<_>>()));
    assert!(rows.iter().all(|row| row["kind"] == "file" && row["size"] == 0 && row["modified"].is_string()));
    assert!(run_in_vain(&["ls", &format!("{url}/absent")]).contains("check the path"));
    assert!(run_in_vain(&["ls", &format!("{url}/disk.img")]).contains("listing of /files/disk.img"));
    for (wrong, part) in [("nfs+rdma://127.0.0.1/files", "over TCP alone"), ("ram:1M", "nfs://HOST")] {
        assert!(run_in_vain(&["ls", wrong]).contains(part), "{wrong}");
    }
    share.server.stop();
}

#[test]
fn a_folder_is_exported_by_name_and_nothing_else_is() {
    let folder = tempdir().unwrap();
    let files = folder.path().join("files");
    std::fs::create_dir(&files).unwrap();
    std::fs::File::create(files.join("one")).unwrap();
    let export = format!("pictures=dir:{}", files.display());
    let server = Server::start(folder.path(), &["--export", &export, "--nfs", "127.0.0.1:0"]);
    let portal = server.portal("nfs").unwrap();
    assert_eq!(run(&["ls", &format!("nfs://{portal}/pictures")]), "one\n");
    server.stop();
    let said = run_in_vain(&["serve", "--export", "disk=ram:1M", "--nfs", "127.0.0.1:0"]);
    assert!(said.contains("dir:"), "{said}");
}
