//! Folders served by NFS, as operators change them: SIGHUP adds, changes and takes away shares, under clients that stay connected. The clients speak NFS 3, in
//! bytes: version 4 sees the same exports (`crates/nfs/tests`), and real clients are in `conformance/nfs` and `conformance/vm`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use common::{Server, run_in_vain, until};
use rustix::process::{Signal, kill_process};
use tempfile::{TempDir, tempdir};

const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
const OK: u32 = 0;
const NOENT: u32 = 2;
const ACCES: u32 = 13;
const ROFS: u32 = 30;
const STALE: u32 = 70;

/// A client of version 3, on one connection.
struct Client {
    stream: TcpStream,
    xid: u32,
    /// The user who asks, and the group.
    user: u32,
}

/// What the server answered: its status, and the bytes behind it.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u32,
    rest: Vec<u8>,
}

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(common::TIMEOUT)).unwrap();
        Self { stream, xid: 0, user: 1000 }
    }

    /// Calls a procedure (RFC 5531 §9, §11).
    fn call(&mut self, program: u32, procedure: u32, arguments: &[u8]) -> Answer {
        self.xid += 1;
        let credentials = words(&[1, 20, 0, 0, self.user, self.user, 0]);
        let head = words(&[self.xid, 0, 2, program, 3, procedure]);
        let call = [&head[..], &credentials, &words(&[0, 0]), arguments].concat();
        let mark = 0x8000_0000 | u32::try_from(call.len()).unwrap();
        self.stream.write_all(&[&words(&[mark])[..], &call].concat()).unwrap();
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark).unwrap();
        let mut reply = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff).try_into().unwrap()];
        self.stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..24], words(&[self.xid, 1, 0, 0, 0, 0]), "the call is carried out");
        Answer { status: word(&reply[24..]), rest: reply[28..].to_vec() }
    }

    /// MNT: the handle of a path's root, or why not.
    fn mount(&mut self, path: &str) -> Result<Vec<u8>, u32> {
        let Answer { status, rest } = self.call(MOUNT, 1, &opaque(path.as_bytes()));
        if status == OK { Ok(first_opaque(&rest)) } else { Err(status) }
    }

    /// GETATTR's status.
    fn look_at(&mut self, handle: &[u8]) -> u32 {
        self.call(NFS, 1, &opaque(handle)).status
    }

    /// LOOKUP and READ: what a file has.
    fn content(&mut self, folder: &[u8], name: &str) -> Vec<u8> {
        let found = self.call(NFS, 3, &[opaque(folder), opaque(name.as_bytes())].concat());
        assert_eq!(found.status, OK, "{name}");
        let file = first_opaque(&found.rest);
        let read = self.call(NFS, 6, &[opaque(&file), words(&[0, 0, 4096])].concat());
        assert_eq!(read.status, OK, "{name}");
        // Behind the attributes: their presence and 84 bytes, the count, and the end of the file.
        first_opaque(&read.rest[4 + 84 + 8..])
    }

    /// MKDIR's status.
    fn make_folder(&mut self, folder: &[u8], name: &str) -> u32 {
        let attributes = words(&[0; 6]);
        self.call(NFS, 9, &[opaque(folder), opaque(name.as_bytes()), attributes].concat()).status
    }
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().unwrap())
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Bytes with their length, filled up to whole words (RFC 4506 §4.10).
fn opaque(bytes: &[u8]) -> Vec<u8> {
    let padding = vec![0; bytes.len().next_multiple_of(4) - bytes.len()];
    [&words(&[bytes.len().try_into().unwrap()])[..], bytes, &padding].concat()
}

fn first_opaque(bytes: &[u8]) -> Vec<u8> {
    bytes[4..][..word(bytes).try_into().unwrap()].to_vec()
}

/// A server whose shares change.
struct Changing {
    folder: TempDir,
    server: Server,
}

impl Changing {
    fn start(shares: &[Share<'_>]) -> Self {
        let folder = tempdir().unwrap();
        for name in ["one", "two"] {
            let share = folder.path().join(name);
            std::fs::create_dir(&share).unwrap();
            open_to_all(&share);
            std::fs::write(share.join("file"), format!("of {name}")).unwrap();
        }
        open_to_all(folder.path());
        std::fs::write(folder.path().join("config.toml"), configuration(folder.path(), shares)).unwrap();
        let config = folder.path().join("config.toml");
        let server = Server::start_configured(folder.path(), &["--config", config.to_str().unwrap()]);
        Self { folder, server }
    }

    fn portal(&self) -> SocketAddr {
        self.server.portal("nfs").unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("server.log")).unwrap()
    }

    /// Has the server read a file with these shares, and waits until the log has what comes of it.
    fn reload(&self, shares: &[Share<'_>], expected: &str) {
        let before = self.log().len();
        let config = configuration(self.folder.path(), shares);
        std::fs::write(self.folder.path().join("config.toml"), config).unwrap();
        kill_process(self.server.pid(), Signal::HUP).unwrap();
        let said = until(|| {
            let said = self.log()[before..].to_owned();
            [" applied in ", " was not applied: "].iter().any(|end| said.contains(end)).then_some(said)
        });
        assert!(said.contains(expected), "{said}");
    }
}

/// Whoever the server is, and as whom it acts.
fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
}

/// A share of the configuration file.
#[derive(Clone, Copy)]
struct Share<'a> {
    name: &'a str,
    folder: &'a str,
    more: &'a str,
}

const ONE: Share<'_> = Share { name: "one", folder: "one", more: "" };
const TWO: Share<'_> = Share { name: "two", folder: "two", more: "" };

fn configuration(folder: &Path, shares: &[Share<'_>]) -> String {
    let mut text = String::new();
    for protocol in ["iscsi", "nvme", "nfs"] {
        writeln!(text, "[[portal]]\nprotocol = \"{protocol}\"\nlisten = \"127.0.0.1:0\"").unwrap();
    }
    writeln!(text, "[[volume]]\nname = \"disk\"\nurl = \"ram:1M\"").unwrap();
    for Share { name, folder: of, more } in shares {
        let url: PathBuf = folder.join(of);
        writeln!(text, "[[share]]\nname = \"{name}\"\nurl = \"dir:{}\"\n{more}", url.display()).unwrap();
    }
    text
}

#[test]
fn shares_come_and_go_at_a_reload() {
    let changing = Changing::start(&[ONE]);
    let mut client = Client::connect(changing.portal());
    let one = client.mount("/one").unwrap();
    assert_eq!(client.content(&one, "file"), b"of one");
    assert_eq!(client.mount("/two"), Err(NOENT));

    changing.reload(&[ONE, TWO], " applied in ");
    let two = until(|| client.mount("/two").ok());
    assert_eq!(client.content(&two, "file"), b"of two");
    assert_eq!(client.content(&one, "file"), b"of one", "the share that stays notices nothing");

    changing.reload(&[TWO], " applied in ");
    until(|| (client.look_at(&one) == STALE).then_some(()));
    assert_eq!(client.mount("/one"), Err(NOENT));
    assert_eq!(client.content(&two, "file"), b"of two");
    assert_eq!(Client::connect(changing.portal()).mount("/one"), Err(NOENT));

    // The same folder under its old name: the handles of before are good again, as their key is kept.
    changing.reload(&[ONE, TWO], " applied in ");
    until(|| (client.look_at(&one) == OK).then_some(()));
    assert_eq!(client.content(&one, "file"), b"of one");
    changing.server.stop();
}

#[test]
fn who_may_use_a_share_changes_at_a_reload() {
    let changing = Changing::start(&[ONE]);
    let mut client = Client::connect(changing.portal());
    let one = client.mount("/one").unwrap();
    let others = Share { more: "clients = [\"192.0.2.0/24\"]", ..ONE };
    changing.reload(&[others], " applied in ");
    until(|| (client.look_at(&one) == STALE).then_some(()));
    assert_eq!(Client::connect(changing.portal()).mount("/one"), Err(ACCES));
    changing.reload(&[Share { more: "clients = [\"127.0.0.0/8\"]", ..ONE }], " applied in ");
    until(|| (client.look_at(&one) == OK).then_some(()));
    assert_eq!(client.make_folder(&one, "made"), OK);
    changing.server.stop();
}

/// A connection that stays is asked under the new rules: whom new folders belong to shows in whose name they are made.
#[test]
fn who_asks_in_whose_name_changes_at_a_reload() {
    const NOBODY: u32 = 65_534;
    let changing = Changing::start(&[ONE]);
    let mut client = Client::connect(changing.portal());
    let one = client.mount("/one").unwrap();
    // A server that is not root does everything as its own user, whoever asks.
    let own = rustix::process::geteuid();
    let mut rounds = 0;
    let mut owners = |client: &mut Client, wanted: [(u32, u32); 2]| {
        rounds += 1;
        for (asks, owner) in wanted {
            client.user = asks;
            let name = format!("of {asks} in round {rounds}");
            assert_eq!(client.make_folder(&one, &name), OK, "{name}");
            let made = std::fs::metadata(changing.folder.path().join("one").join(&name)).unwrap();
            let owner = if own.is_root() { owner } else { own.as_raw() };
            assert_eq!(std::os::unix::fs::MetadataExt::uid(&made), owner, "{name}");
        }
    };
    owners(&mut client, [(0, NOBODY), (1000, 1000)]);
    for (more, wanted) in [
        ("squash = \"none\"", [(0, 0), (1000, 1000)]),
        ("squash = \"all\"", [(0, NOBODY), (1000, NOBODY)]),
        ("squash = \"all\"\nanonymous_uid = 4711\nanonymous_gid = 4712", [(0, 4711), (1000, 4711)]),
        ("anonymous_uid = 4713", [(0, 4713), (1000, 1000)]),
    ] {
        changing.reload(&[Share { more, ..ONE }], " applied in ");
        owners(&mut client, wanted);
    }
    // What cannot be is refused whole, and says what can be; what was in place stays.
    for (more, words) in [
        ("squash = \"some\"", ["some", "none"]),
        ("anonymous_uid = \"nobody\"", ["anonymous_uid", "string"]),
        ("anonymous_gid = -1", ["anonymous_gid", "-1"]),
    ] {
        for word in words {
            changing.reload(&[Share { more, ..ONE }, TWO], word);
        }
        assert_eq!(client.mount("/two"), Err(NOENT), "all or nothing");
    }
    owners(&mut client, [(0, 4713), (1000, 1000)]);
    changing.server.stop();
}

#[test]
fn another_folder_under_the_same_name_is_refused_at_a_reload() {
    let changing = Changing::start(&[ONE]);
    let mut client = Client::connect(changing.portal());
    let one = client.mount("/one").unwrap();
    let elsewhere = Share { folder: "two", ..ONE };
    changing.reload(&[elsewhere], " was not applied: ");
    assert_eq!(client.content(&one, "file"), b"of one", "all or nothing");
    changing.reload(&[TWO], " applied in ");
    changing.reload(&[elsewhere], " applied in ");
    let moved = until(|| client.mount("/one").ok());
    assert_eq!(client.content(&moved, "file"), b"of two");
    changing.server.stop();
}

#[test]
fn a_share_on_the_command_line_can_be_read_only() {
    let folder = tempdir().unwrap();
    let share = folder.path().join("files");
    std::fs::create_dir(&share).unwrap();
    open_to_all(&share);
    open_to_all(folder.path());
    std::fs::write(share.join("file"), "content").unwrap();
    let server = Server::start(folder.path(), &["files=dir:files?readonly=1", "--nfs", "127.0.0.1:0"]);
    let mut client = Client::connect(server.portal("nfs").unwrap());
    let root = client.mount("/files").unwrap();
    assert_eq!(client.content(&root, "file"), b"content");
    assert_eq!(client.make_folder(&root, "made"), ROFS);
    server.stop();
}

#[test]
fn a_folder_that_is_not_there_is_told() {
    let said = run_in_vain(&["serve", "files=dir:/nowhere/at/all", "--nfs", "127.0.0.1:0"]);
    assert!(
        said.contains("the share \"files\" cannot be opened") && said.contains("/nowhere/at/all"),
        "{said}"
    );
}
