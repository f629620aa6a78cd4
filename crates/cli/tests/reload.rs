//! SIGHUP: a running server serves another configuration, all of it or nothing, and whoever uses what stays the same notices nothing.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use common::{Server, run, run_in_vain, stamped, until};
use linerate::{BlockingDisk, Client, ClientConfig};
use rustix::process::{Signal, kill_process};
use tempfile::{TempDir, tempdir};

const MIB: u64 = 1 << 20;

/// Both protocols, at ports of their own.
const PORTALS: &str = "[[portal]]\nprotocol = \"iscsi\"\nlisten = \"127.0.0.1:0\"\n\
                       [[portal]]\nprotocol = \"nvme\"\nlisten = \"127.0.0.1:0\"\n";

fn volume(name: &str, url: &str) -> String {
    format!("[[volume]]\nname = \"{name}\"\nurl = \"{url}\"\n")
}

/// A server with a configuration that changes, in a folder of its own.
struct Changing {
    folder: TempDir,
    server: Server,
}

impl Changing {
    /// Serves these tables beside the portals.
    fn start(tables: &str) -> Self {
        Self::start_in(tempdir().unwrap(), tables)
    }

    fn start_in(folder: TempDir, tables: &str) -> Self {
        let config = folder.path().join("config.toml");
        fs::write(&config, format!("{PORTALS}{tables}")).unwrap();
        let server = Server::start_configured(folder.path(), &["--config", config.to_str().unwrap()]);
        Self { folder, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self) -> String {
        let text = fs::read_to_string(self.path("server.log")).unwrap();
        text.rfind('\n').map_or(String::new(), |end| text[..=end].to_owned())
    }

    /// Has the server read this as its configuration.
    fn hang_up(&self, text: &str) {
        fs::write(self.path("config.toml"), text).unwrap();
        kill_process(self.server.pid(), Signal::HUP).unwrap();
    }

    /// The same, and answers what the log says of it.
    fn reload_whole(&self, text: &str) -> String {
        const ENDS: [&str; 3] = [" applied in ", " was not applied: ", " is unchanged "];
        let before = self.log().len();
        self.hang_up(text);
        until(|| {
            let said = self.log()[before..].to_owned();
            ENDS.iter().any(|end| said.contains(end)).then_some(said)
        })
    }

    /// The same with these tables beside the portals.
    fn reload(&self, tables: &str) -> String {
        self.reload_whole(&format!("{PORTALS}{tables}"))
    }

    /// Waits until the log has the text.
    fn await_line(&self, text: &str) {
        until(|| self.log().contains(text).then_some(()));
    }

    /// The names of what discovery finds, by each protocol.
    fn discovered(&self) -> [Vec<String>; 2] {
        [
            ("iscsi", self.server.iscsi, "iqn.2026-11.org.linerate:"),
            ("nvme+tcp", self.server.nvme, "nqn.2026-11.org.linerate:"),
        ]
        .map(|(scheme, address, prefix)| {
            let listed = run(&["discover", &format!("{scheme}://{address}")]);
            let mut names: Vec<String> =
                listed.lines().filter_map(|line| Some(line.split_once(prefix)?.1.to_owned())).collect();
            names.sort();
            names
        })
    }

    /// The names of what discovery finds, by both protocols alike.
    fn found(&self) -> Vec<String> {
        let [iscsi, nvme] = self.discovered();
        assert_eq!(iscsi, nvme);
        iscsi
    }
}

fn open(client: &Client, url: &str) -> BlockingDisk {
    client.open(&format!("{url}?reconnect=0").parse().unwrap()).unwrap().blocking()
}

/// Writes and reads back without pause, over both protocols, and never loses a connection.
struct Neighbour {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Neighbour {
    fn begin(server: &Server, volume: &str) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let urls = [server.iscsi_url(volume), server.nvme_url(volume)];
        let threads = (0..).zip(urls).map(|(place, url)| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                let client = Client::start(&ClientConfig::default()).unwrap();
                let disk = open(&client, &url);
                let mut rounds: u64 = 0;
                while !is_over.load(Ordering::SeqCst) || rounds < 100 {
                    let at = place * MIB + rounds % 128 * 4096;
                    let (wrote, mut read) = (rounds.to_le_bytes().repeat(512), [0; 4096]);
                    disk.write_at(at, &wrote).unwrap();
                    disk.read_at(at, &mut read).unwrap();
                    assert_eq!(wrote, read, "{url} at {at}");
                    rounds += 1;
                }
                rounds
            })
        });
        let threads = threads.collect();
        Self { is_over, threads }
    }

    fn end(self) {
        self.is_over.store(true, Ordering::SeqCst);
        for thread in self.threads {
            assert!(thread.join().unwrap() >= 100);
        }
    }
}

#[test]
fn volumes_come_and_go_and_their_neighbour_notices_nothing() {
    let stays = volume("stays", "ram:4M");
    let changing = Changing::start(&stays);
    let neighbour = Neighbour::begin(&changing.server, "stays");
    let content = stamped(&changing.path("content"), 256, 7);
    for round in 0..3 {
        let said = changing.reload(&format!("{}{stays}", volume("comes", "file:comes.img?size=1M")));
        assert!(said.contains("1 added (\"comes\"), 0 removed, 1 kept"), "{said}");
        assert_eq!(changing.found(), ["comes", "stays"]);
        let [iscsi, nvme] = [changing.server.iscsi_url("comes"), changing.server.nvme_url("comes")];
        run(&["copy", &content, &iscsi, "--overwrite", "--verify"]);
        run(&["compare", &content, &nvme]);
        let said = changing.reload(&stays);
        assert!(said.contains("0 added, 1 removed (\"comes\"), 1 kept"), "{said}");
        assert_eq!(changing.found(), ["stays"]);
        for url in [iscsi, nvme] {
            run_in_vain(&["inspect", &format!("{url}?reconnect=0")]);
        }
        until(|| {
            (changing.log().matches("the volume \"comes\" is closed and flushed").count() > round)
                .then_some(())
        });
    }
    neighbour.end();
    assert!(!changing.log().contains("still holds it"), "{}", changing.log());
    changing.server.stop();
}

/// Opens a volume, and writes and flushes without pause until that fails; what it failed with.
fn write_until_it_ends(url: String) -> JoinHandle<String> {
    let (is_open, opened) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let client = Client::start(&ClientConfig::default()).unwrap();
        let disk = open(&client, &url);
        is_open.send(()).unwrap();
        loop {
            if let Err(error) = disk.write_at(0, &[7; 4096]).and_then(|()| disk.flush()) {
                return error.to_string();
            }
        }
    });
    opened.recv().unwrap();
    thread
}

#[test]
fn who_uses_what_is_taken_out_leaves_and_it_is_flushed() {
    let stays = volume("stays", "ram:4M");
    let goes = volume("goes", "file:goes.img?size=1M");
    let pair = |names: &[&str]| -> String {
        let entry = |(lun, name): (usize, &&str)| {
            format!("[[volume]]\nname = \"{name}\"\nurl = \"ram:1M\"\ntarget = \"pair\"\nlun = {lun}\n")
        };
        names.iter().enumerate().map(entry).collect()
    };
    let changing = Changing::start(&format!("{stays}{goes}{}", pair(&["one", "two"])));
    let neighbour = Neighbour::begin(&changing.server, "stays");
    let (iscsi, nvme) = (changing.server.iscsi_url("pair"), changing.server.nvme_url("pair"));
    let (first, second) = (iscsi.strip_suffix("/0").unwrap(), nvme.strip_suffix("/1").unwrap());
    let whole = [changing.server.iscsi_url("goes"), changing.server.nvme_url("goes")];
    let units = [format!("{first}/1"), format!("{second}/2")];
    let users: Vec<_> = whole.into_iter().chain(units).map(write_until_it_ends).collect();
    let client = Client::start(&ClientConfig::default()).unwrap();
    let kept = [&iscsi, &nvme].map(|url| open(&client, url));
    let said = changing.reload(&format!("{stays}{}", pair(&["one"])));
    assert!(said.contains("2 removed"), "{said}");
    for user in users {
        let error = user.join().unwrap();
        assert!(!error.is_empty());
    }
    for name in ["goes", "two"] {
        changing.await_line(&format!("the volume \"{name}\" is closed and flushed"));
    }
    // The other unit of the target never lost its connection.
    for disk in kept {
        disk.write_at(0, &[9; 512]).unwrap();
    }
    neighbour.end();
    changing.server.stop();
}

#[test]
fn who_may_no_longer_use_a_volume_leaves_it() {
    let (open_to_all, stays) = (volume("disk", "ram:1M"), volume("stays", "ram:4M"));
    let closed = "[[access]]\nvolume = \"disk\"\ninitiators = [\"iqn.2026-11.test:other\"]\n\
                  hosts = [\"nqn.2026-11.test:other\"]\n";
    let changing = Changing::start(&format!("{open_to_all}{stays}"));
    let neighbour = Neighbour::begin(&changing.server, "stays");
    let urls = [changing.server.iscsi_url("disk"), changing.server.nvme_url("disk")];
    let users = urls.clone().map(write_until_it_ends);
    let said = changing.reload(&format!("{open_to_all}{stays}{closed}"));
    assert!(said.contains("0 added, 0 removed, 2 kept"), "{said}");
    for user in users {
        user.join().unwrap();
    }
    for url in &urls {
        run_in_vain(&["inspect", &format!("{url}?reconnect=0")]);
    }
    changing.reload(&format!("{open_to_all}{stays}"));
    for url in &urls {
        run(&["inspect", url]);
    }
    neighbour.end();
    changing.server.stop();
}

#[test]
fn what_was_taken_out_can_be_served_by_another_and_put_back_with_the_identity_that_it_had() {
    let (stays, moves) = (volume("stays", "ram:1M"), volume("moves", "file:moves.img?size=1M"));
    let changing = Changing::start(&format!("{stays}{moves}"));
    let who = |server: &Server| run(&["inspect", &server.nvme_url("moves"), "--json"]);
    let identity = |text: &str| {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        value["identity"]["designators"].clone()
    };
    let first = identity(&who(&changing.server));
    assert!(!first.is_null());
    changing.reload(&stays);
    changing.await_line("the volume \"moves\" is closed and flushed");
    let elsewhere = tempdir().unwrap();
    let (state, file) = (changing.path("state"), changing.path("moves.img"));
    let named = format!("moves=file:{}", file.display());
    let other = Server::start(elsewhere.path(), &[&named, "--state", state.to_str().unwrap()]);
    assert_eq!(identity(&who(&other)), first);
    let said = changing.reload(&format!("{stays}{moves}"));
    assert!(said.contains("was not applied") && said.contains("\"moves\""), "{said}");
    other.stop();
    let said = changing.reload(&format!("{stays}{moves}"));
    assert!(said.contains("1 added (\"moves\")"), "{said}");
    assert_eq!(identity(&who(&changing.server)), first);
    changing.server.stop();
}

/// One NVMe portal, whose port stays the same.
fn fixed_portal() -> String {
    format!("[[portal]]\nprotocol = \"nvme\"\nlisten = \"127.0.0.1:{}\"\n", free_port())
}

/// A server of `disk` behind such a portal refuses each of these configurations, which are given the portal, for the reason beside it, goes on as
/// it was, and leaves no file behind.
fn refuses(cases: impl FnOnce(&str) -> Vec<(String, &'static str)>) {
    let portal = fixed_portal();
    let plain = format!("{portal}{DISK}");
    let changing = Changing::start(&plain);
    for (tables, expected) in cases(&portal) {
        let said = changing.reload(&tables);
        // Connections may end beside it, and the log says so too.
        let refused = said.lines().find(|line| line.contains("was not applied")).is_some_and(|line| {
            line.contains(expected) && line.ends_with("; the server goes on with generation 1")
        });
        assert!(refused, "{tables}: {said}");
        assert_eq!(changing.found(), ["disk"], "{tables}");
    }
    let left = fs::read_dir(changing.folder.path()).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["config.toml", "disk.img", "ready", "server.log", "state"]);
    let said = changing.reload(&plain);
    assert!(said.contains("the configuration is unchanged (generation 1)"), "{said}");
    changing.server.stop();
}

const DISK: &str = "[[volume]]\nname = \"disk\"\nurl = \"file:disk.img?size=1M\"\n";

#[test]
fn a_volume_that_is_served_is_not_opened_twice_and_stays_what_hosts_know() {
    refuses(|portal| {
        let other = |name: &str, url: &str| format!("{portal}{}", volume(name, url));
        let with = |line: &str| format!("{portal}{DISK}{line}\n");
        vec![
            (
                other("disk", "file:disk.img?direct=1"),
                "cannot change from file:disk.img?size=1M to file:disk.img?direct=1",
            ),
            (
                other("disk", "readonly+file:disk.img"),
                "the same file is being served, and two openings of it would destroy data; take the volume out, reload, and put it back, or restart",
            ),
            (
                other("disk", "file:other.img?size=1M"),
                "it would keep its identity, and hosts would take the one disk for the other",
            ),
            (other("renamed", "file:disk.img"), "the same file is being served as \"disk\""),
            (
                with("uuid = \"0b3f5f0e-6a1d-4c58-9f2b-7d1f0c9a4e21\""),
                "the volume \"disk\" cannot get another uuid while it is served",
            ),
            (with("serial = \"SN-7\""), "the volume \"disk\" cannot get another serial while it is served"),
        ]
    });
}

#[test]
fn a_portal_that_cannot_be_opened_or_would_change_its_language_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap();
    refuses(|portal| {
        let add =
            |listen: &str| format!("[[portal]]\nprotocol = \"iscsi\"\nlisten = \"{listen}\"\n{portal}{DISK}");
        vec![
            (add(&at.to_string()), "choose another port, or end the program that has it"),
            (add("0.0.0.0:0"), "nothing says who may use the volumes"),
            (
                format!("{}{DISK}", portal.replace("nvme", "iscsi")),
                "cannot change from nvme to iscsi: its connections speak the old protocol; take it out, reload, and put it back",
            ),
        ]
    });
}

#[test]
fn what_the_process_was_made_with_is_refused() {
    const LOOPS: &str = "cannot change while the server runs: its event loops are running; restart";
    const NAMES: &str = "cannot change while the server runs: every target would get another name; restart";
    refuses(|portal| {
        let daemon = |key: &str| format!("[daemon]\n{key}\n{portal}{DISK}");
        vec![
            (
                format!("[limits]\nmemory = \"64M\"\n{portal}{DISK}"),
                "[limits] memory cannot change while the server runs: its cores have taken their buffers; restart",
            ),
            (daemon("cores = 2"), LOOPS),
            (daemon("driver = \"epoll\""), LOOPS),
            (daemon("spin = \"7us\""), LOOPS),
            (daemon("congestion = \"system\""), LOOPS),
            (daemon("iqn_prefix = \"iqn.2026-11.org.example:\""), NAMES),
            (daemon("nqn_prefix = \"nqn.2026-11.org.example:\""), NAMES),
            (
                daemon("log_format = \"json\""),
                "[daemon] log_format cannot change while the server runs: its log has begun; restart",
            ),
        ]
    });
}

#[test]
fn a_file_with_a_mistake_changes_nothing() {
    refuses(|portal| {
        let plain = format!("{portal}{DISK}");
        vec![
            (format!("{plain}{}", volume("new", "file:/no/such")), "the volume \"new\" cannot be opened"),
            (format!("{plain}[[volume]]\nname = \"new\"\n"), "is not valid"),
            (
                format!("{plain}[[access]]\nvolume = \"none\"\nhosts = [\"nqn.2026-11.test:a\"]\n"),
                "names the volume \"none\"",
            ),
            (
                format!("{plain}[[access]]\nchap = {{ user = \"u\", secret_file = \"none\" }}\n"),
                "cannot be read",
            ),
            (portal.to_owned(), "there is nothing to serve"),
        ]
    });
    let changing = Changing::start(DISK);
    fs::remove_file(changing.path("config.toml")).unwrap();
    kill_process(changing.server.pid(), Signal::HUP).unwrap();
    changing.await_line("config.toml cannot be read");
    assert_eq!(changing.found(), ["disk"]);
    changing.server.stop();
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_change_that_fails_takes_back_what_it_has_made() {
    let stays = volume("stays", "ram:1M");
    let changing = Changing::start(&stays);
    let (descriptors, port) = (changing.server.descriptors(), free_port());
    let portal = format!("[[portal]]\nprotocol = \"nvme\"\nlisten = \"127.0.0.1:{port}\"\n");
    let fresh = volume("fresh", "file:fresh.img?size=1M");
    let said = changing.reload(&format!("{portal}{stays}{fresh}{}", volume("bad", "file:/no/such")));
    assert!(said.contains("\"bad\" cannot be opened"), "{said}");
    assert!(!changing.path("fresh.img").exists());
    TcpListener::bind(("127.0.0.1", port)).unwrap();
    assert_eq!(changing.server.descriptors(), descriptors);
    let said = changing.reload(&format!("{portal}{stays}{fresh}"));
    assert!(said.contains("1 added (\"fresh\"), 0 removed, 1 kept; portals: 1 opened, 0 closed"), "{said}");
    changing.server.stop();
}

/// Where the ready file says that the server listens.
fn ready(path: &Path) -> Vec<(String, SocketAddr)> {
    let text = fs::read_to_string(path).unwrap();
    let line = |line: &str| {
        let (protocol, address) = line.split_once(' ').unwrap();
        (protocol.to_owned(), address.parse().unwrap())
    };
    text.lines().map(line).collect()
}

#[test]
fn a_portal_moves_and_the_ready_file_says_where() {
    let disk = volume("disk", "ram:4M");
    let changing = Changing::start(&disk);
    let neighbour = Neighbour::begin(&changing.server, "disk");
    let before = ready(&changing.path("ready"));
    let more = |port: u16| format!("[[portal]]\nprotocol = \"nvme\"\nlisten = \"127.0.0.1:{port}\"\n{disk}");
    let [one, two] = [free_port(), free_port()];
    changing.reload(&more(one));
    let after = until(|| Some(ready(&changing.path("ready"))).filter(|after| after.len() == 3));
    assert_eq!(after[..2], before[..]);
    let url = |port| format!("nvme+tcp://127.0.0.1:{port}/nqn.2026-11.org.linerate:disk/1?reconnect=0");
    run(&["inspect", &url(one)]);
    let said = changing.reload(&more(two));
    assert!(said.contains("portals: 1 opened, 1 closed"), "{said}");
    run(&["inspect", &url(two)]);
    run_in_vain(&["inspect", &url(one)]);
    until(|| TcpListener::bind(("127.0.0.1", one)).ok());
    until(|| (ready(&changing.path("ready"))[2].1.port() == two).then_some(()));
    neighbour.end();
    changing.server.stop();
}

#[test]
fn a_secret_file_with_another_secret_counts_and_so_does_another_rule() {
    let folder = tempdir().unwrap();
    let secret = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.display().to_string()
    };
    let (served, [old, new]) = (
        secret("secret", "the-first-secret"),
        [secret("old", "the-first-secret"), secret("new", "the-second-secret")],
    );
    let disk = volume("disk", "ram:1M");
    let rule = format!("[[access]]\nchap = {{ user = \"u\", secret_file = \"{served}\" }}\n");
    let changing = Changing::start_in(folder, &format!("{disk}{rule}"));
    let url = |file: &str| {
        format!("{}?chap_user=u&chap_secret_file={file}&reconnect=0", changing.server.iscsi_url("disk"))
    };
    run(&["inspect", &url(&old)]);
    run_in_vain(&["inspect", &url(&new)]);
    fs::write(&served, "the-second-secret").unwrap();
    let said = changing.reload(&format!("{disk}{rule}"));
    assert!(said.contains("generation 2 applied") && said.contains("0 added, 0 removed, 1 kept"), "{said}");
    run(&["inspect", &url(&new)]);
    run_in_vain(&["inspect", &url(&old)]);
    changing.reload(&disk);
    run(&["inspect", &changing.server.iscsi_url("disk")]);
    changing.server.stop();
}

#[test]
fn what_is_logged_changes_unless_the_command_line_says_it() {
    let disk = volume("disk", "ram:1M");
    let verbose = format!("[daemon]\nlog = \"debug\"\n{PORTALS}{disk}");
    let folder = tempdir().unwrap();
    let config = folder.path().join("config.toml");
    fs::write(&config, format!("{PORTALS}{disk}")).unwrap();
    let arguments = ["--config", config.to_str().unwrap(), "--log", "info"];
    let server = Server::start_configured(folder.path(), &arguments);
    let said = Changing { folder, server };
    assert!(said.reload_whole(&verbose).contains("is unchanged"));
    said.server.stop();
    let changing = Changing::start(&disk);
    changing.found();
    assert!(!changing.log().contains("a connection begins"));
    changing.reload_whole(&verbose);
    changing.found();
    changing.await_line("a connection begins");
    changing.server.stop();
}

#[test]
fn a_volume_that_could_not_be_opened_is_tried_again_each_time() {
    let folder = tempdir().unwrap();
    let late = format!("{}nofail = true\n", volume("late", "file:late.img"));
    let tables = format!("{}{late}", volume("disk", "ram:1M"));
    let changing = Changing::start_in(folder, &tables);
    assert_eq!(changing.found(), ["disk"]);
    let said = changing.reload(&tables);
    assert!(said.contains("\"late\" cannot be opened") && said.contains("is unchanged"), "{said}");
    fs::write(changing.path("late.img"), [7; 4096]).unwrap();
    let said = changing.reload(&tables);
    assert!(said.contains("1 added (\"late\"), 0 removed, 1 kept"), "{said}");
    assert_eq!(changing.found(), ["disk", "late"]);
    changing.server.stop();
}

#[test]
fn a_volume_that_cannot_be_flushed_yet_is_not_put_back_before_it_is() {
    let back_folder = tempdir().unwrap();
    let back = Server::start(back_folder.path(), &["disk=ram:1M"]);
    let stays = volume("stays", "ram:1M");
    let both = format!("{stays}{}", volume("gw", &back.iscsi_url("disk")));
    let changing = Changing::start(&both);
    kill_process(back.pid(), Signal::STOP).unwrap();
    let said = changing.reload(&stays);
    assert!(said.contains("1 removed (\"gw\"), 1 kept"), "{said}");
    for name in ["gw", "other"] {
        let again = format!("{stays}{}", volume(name, &back.iscsi_url("disk")));
        let said = changing.reload(&again);
        assert!(said.contains("the volume \"gw\" is still being closed"), "{said}");
    }
    kill_process(back.pid(), Signal::CONT).unwrap();
    changing.await_line("the volume \"gw\" is closed and flushed");
    let said = changing.reload(&both);
    assert!(said.contains("1 added (\"gw\"), 0 removed, 1 kept"), "{said}");
    changing.server.stop();
    back.stop();
}

#[test]
fn two_signals_at_once_leave_the_newest_configuration() {
    let changing = Changing::start(&volume("a", "ram:1M"));
    for round in 0..10 {
        let name = |kind: &str| format!("{kind}{round}");
        for kind in ["b", "c"] {
            let tables = format!("{}{}", volume("a", "ram:1M"), volume(&name(kind), "ram:1M"));
            changing.hang_up(&format!("{PORTALS}{tables}"));
        }
        let newest = || ["a".to_owned(), name("c")].to_vec();
        until(|| (changing.discovered() == [newest(), newest()]).then_some(()));
    }
    changing.server.stop();
}

#[test]
fn a_signal_to_stop_is_heard_while_a_reload_waits_for_a_silent_machine() {
    let changing = Changing::start(&volume("disk", "file:disk.img?size=1M"));
    // It takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("iscsi://{}/iqn.2026-11.org.linerate:disk/0", silent.local_addr().unwrap());
    let fresh = volume("fresh", "file:fresh.img?size=1M");
    let tables = format!("{}{fresh}{}", volume("disk", "file:disk.img?size=1M"), volume("gw", &url));
    changing.hang_up(&format!("{PORTALS}{tables}"));
    let (_connection, _) = silent.accept().unwrap();
    let Changing { folder, server } = changing;
    server.stop();
    assert!(!folder.path().join("fresh.img").exists());
    let log = fs::read_to_string(folder.path().join("server.log")).unwrap();
    assert!(!log.contains("was not applied"), "{log}");
}

#[test]
fn a_signal_that_comes_during_a_reload_counts_after_it() {
    let disk = volume("disk", "ram:1M");
    let changing = Changing::start(&disk);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("iscsi://{}/iqn.2026-11.org.linerate:disk/0", silent.local_addr().unwrap());
    changing.hang_up(&format!("{PORTALS}{disk}{}", volume("gw", &url)));
    let connection = silent.accept().unwrap();
    changing.hang_up(&format!("{PORTALS}{disk}{}", volume("new", "ram:1M")));
    drop((connection, silent));
    changing.await_line("1 added (\"new\"), 0 removed, 1 kept");
    assert!(changing.log().contains("the volume \"gw\" cannot be opened"), "{}", changing.log());
    assert_eq!(changing.found(), ["disk", "new"]);
    changing.server.stop();
}

/// Which file it is, and when it was written.
fn stamp(path: &Path) -> (u64, i64, i64) {
    let known = fs::metadata(path).unwrap();
    (known.ino(), known.ctime(), known.ctime_nsec())
}

#[test]
fn a_thousand_reloads_cost_nothing() {
    const RELOADS: u32 = 1000;
    let changing = Changing::start(&volume("stays", "ram:4M"));
    let neighbour = Neighbour::begin(&changing.server, "stays");
    let (ready, secret) = (changing.path("ready"), changing.path("secret"));
    fs::write(&secret, "a-secret-of-many-letters").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let secret = secret.display();
    let mut after_ten = None;
    let port = free_port();
    for round in 0..RELOADS {
        let before = stamp(&ready);
        // What is taken out must be closed before it can come back.
        let name = format!("v{}", round / 2);
        // A volume that comes back under another name, with another rule and account, at a portal more.
        let extra = [
            format!(
                "[[portal]]\nprotocol = \"nvme\"\nlisten = \"127.0.0.1:{port}\"\n{}\
                 [[access]]\nvolume = \"{name}\"\nhosts = [\"nqn.2026-11.test:h{round}\"]\n\
                 [[access]]\nvolume = \"{name}\"\nchap = {{ user = \"u{round}\", secret_file = \"{secret}\" }}\n",
                volume(&name, &format!("file:{name}.img?size=1M"))
            ),
            String::new(),
        ];
        changing.hang_up(&format!("{PORTALS}{}{}", extra[round as usize % 2], volume("stays", "ram:4M")));
        until(|| (stamp(&ready) != before).then_some(()));
        if round == 9 {
            let descriptors = settled(&changing);
            after_ten = Some((descriptors, changing.server.resident()));
        }
    }
    let (descriptors, resident) = after_ten.unwrap();
    until(|| (changing.server.descriptors() <= descriptors).then_some(()));
    let grown = changing.server.resident().saturating_sub(resident);
    assert!(grown <= 1024, "{grown} KiB more after {RELOADS} reloads");
    neighbour.end();
    assert!(!changing.log().contains("still holds it"), "{}", changing.log());
    changing.server.stop();
}

/// The descriptors that a server without the extra volume has.
fn settled(changing: &Changing) -> usize {
    let is_open = |name: &str| {
        let fds = fs::read_dir(format!("/proc/{}/fd", changing.server.pid().as_raw_nonzero())).unwrap();
        fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok()).any(|path| path.ends_with(name))
    };
    until(|| {
        (!(0..5).any(|number| is_open(&format!("v{number}.img")))).then(|| changing.server.descriptors())
    })
}
