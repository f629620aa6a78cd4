//! Nothing that a command prints or writes repeats a secret, whatever the user did with it: a marker stands where a secret may be
//! typed, and all output of every command is searched for it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Server, program};
use tempfile::tempdir;

const MARKER: &str = "MARKER-4711";

/// Commands that take a volume's URL, with what else they need before it and after it.
const COMMANDS: &[(&[&str], &[&str])] = &[
    (&["inspect"], &[]),
    (&["inspect", "--json"], &[]),
    (&["checksum"], &[]),
    (&["zero"], &[]),
    (&["check"], &[]),
    (&["bench"], &["--runtime", "1"]),
    (&["bench", "--json"], &["--runtime", "1"]),
    (&["discover"], &[]),
    (&["reserve"], &[]),
    (&["reserve"], &["--json"]),
    (&["compare"], &["ram:1M"]),
    (&["compare", "ram:1M"], &[]),
    (&["copy"], &["ram:1M"]),
    (&["copy", "ram:1M"], &[]),
    (&["attach"], &["unix:/tmp/none", "--as", "nbd"]),
    (&["inspect", "--no-such-option"], &[]),
    (&["lab", "run"], &[]),
    (&["lab", "inspect"], &[]),
    (&["lab", "report"], &[]),
    (&["no-such-command"], &[]),
];

/// URLs with a secret in them, as users and other programs write them.
fn urls() -> Vec<String> {
    [
        "iscsi://bob:MARKER@127.0.0.1:1/iqn.2026-11.a:b/0",
        "iscsi://bob%MARKER@127.0.0.1:1/iqn.2026-11.a:b/0",
        "iscsi://bob:x/MARKER@127.0.0.1:1/iqn.2026-11.a:b/0",
        "iscsi://bob:MARKER@127.0.0.1:x/iqn.2026-11.a:b/0",
        "iscsi://127.0.0.1:1/iqn.2026-11.a:b/0?chap_secret=MARKER",
        "iscsi://127.0.0.1:1/iqn.2026-11.a:b/0?chap_user=u&secret=MARKER&timeout=x",
        "iscsi://127.0.0.1:1/no-name/0?password=MARKER",
        "delay=5ms+iscsi://bob:MARKER@127.0.0.1:1/iqn.2026-11.a:b/0",
        "nvme+tcp://bob:MARKER@127.0.0.1:1/nqn.2026-11.a:b/1",
        "nvme+tcp://127.0.0.1:1/nqn.2026-11.a:b/1?secret=MARKER",
        "http://bob:MARKER@127.0.0.1:1/",
        "file:/nowhere/x?password=MARKER",
        "ram:1M?secret=MARKER",
    ]
    .map(|url| url.replace("MARKER", MARKER))
    .to_vec()
}

/// Runs a command in a folder, and gives everything that it said and wrote.
fn everything(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program())
        .args(arguments)
        .current_dir(folder)
        .env("RUST_LOG", "trace")
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    assert!(!said.is_empty() || output.status.success(), "{arguments:?} fails without a word");
    said
}

#[test]
fn no_command_repeats_a_secret_of_its_command_line() {
    let folder = tempdir().unwrap();
    for url in urls() {
        for (before, after) in COMMANDS {
            let arguments = [before, &[url.as_str()][..], after].concat();
            let said = everything(folder.path(), &arguments);
            assert!(!said.contains(MARKER), "{arguments:?} says {said}");
        }
        let volume = format!("disk={url}");
        let said =
            everything(folder.path(), &["serve", &volume, "--iscsi", "127.0.0.1:0", "--nvme", "127.0.0.1:0"]);
        assert!(!said.contains(MARKER), "serve {volume} says {said}");
    }
}

#[test]
fn no_mistake_in_a_configuration_file_shows_a_secret() {
    let folder = tempdir().unwrap();
    let config = folder.path().join("config.toml");
    let volume = "[[volume]]\nname = \"disk\"\nurl = \"ram:1M\"\n";
    let short = folder.path().join("short");
    fs::write(&short, &MARKER[..8]).unwrap();
    for text in [
        "[[access]]\nchap = { user = \"u\", secret = \"MARKER\" }\n".to_owned(),
        "[[access]]\nchap = { user = \"u\", secret_file = \"short\", mutual_secret = 'MARKER' }\n".to_owned(),
        "[discovery]\nchap = { user = \"u\", password = \"MARKER\"\n".to_owned(),
        "[[access]]\nchap = { user = \"u\", secret_file = \"short\" }\n".to_owned(),
    ]
    .into_iter()
    .chain(urls().iter().map(|url| format!("[[volume]]\nname = \"other\"\nurl = \"{url}\"\n")))
    {
        fs::write(&config, format!("{volume}{}", text.replace("MARKER", MARKER))).unwrap();
        let said = everything(folder.path(), &["serve", "--config", config.to_str().unwrap()]);
        assert!(!said.contains(&MARKER[..8]), "{text} says {said}");
    }
    for (file, command) in [("site.toml", "--site"), ("scenario.toml", "")] {
        let path = folder.path().join(file);
        for url in urls() {
            let arm = format!(
                "[arm.A]\nendpoints = [\"{url}\"]\nevidence = {{ kind = 'real' }}\nvolumes = [\"{url}\"]\n"
            );
            fs::write(&path, arm).unwrap();
            let arguments: &[&str] = match command {
                "" => &["lab", "run", path.to_str().unwrap()],
                option => &["lab", "run", "quick", option, path.to_str().unwrap()],
            };
            let said = everything(folder.path(), arguments);
            assert!(!said.contains(MARKER), "{arguments:?} with {url} says {said}");
        }
    }
    assert!(!files(folder.path()).iter().any(|path| path.contains("run.json")), "no run began");
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path.display().to_string()] })
        .collect()
}

/// A server with accounts, good and refused logins, and a client's errors.
#[test]
fn neither_server_nor_client_shows_the_secrets_that_they_use() {
    let folder = tempdir().unwrap();
    let secret = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    secret("right", &format!("{MARKER}-right"));
    secret("wrong", &format!("{MARKER}-wrong"));
    secret("ours", &format!("{MARKER}-ours"));
    let config = folder.path().join("config.toml");
    let text = "[[volume]]\nname = \"disk\"\nurl = \"ram:1M\"\n\
                [[portal]]\nprotocol = \"iscsi\"\nlisten = \"127.0.0.1:0\"\n\
                [[portal]]\nprotocol = \"nvme\"\nlisten = \"127.0.0.1:0\"\n\
                [[access]]\nchap = { user = \"u\", secret_file = \"right\", mutual_user = \"t\", mutual_secret_file = \"ours\" }\n";
    fs::write(&config, text).unwrap();
    let server = Server::start_configured(folder.path(), &["--config", config.to_str().unwrap()]);
    for (file, works) in [("right", true), ("wrong", false)] {
        let url = format!("{}?chap_user=u&chap_secret_file={file}&reconnect=0", server.iscsi_url("disk"));
        let said = everything(folder.path(), &["inspect", "--json", &url]);
        assert!(!said.contains(MARKER), "{said}");
        assert_eq!(said.contains("\"bytes\":1048576"), works, "{said}");
    }
    server.stop();
    let log = fs::read_to_string(folder.path().join("server.log")).unwrap();
    assert!(!log.contains(MARKER), "{log}");
}
