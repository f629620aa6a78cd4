//! Portals that send clients elsewhere: iSCSI logins that are redirected, and NVMe discovery services that refer to others.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use common::{Server, run, run_in_vain};
use tempfile::tempdir;

const TARGET: &str = "iqn.2026-11.org.linerate:disk";
/// Status class and detail of a Login Response (RFC 7143 §11.13.5).
const TEMPORARILY: [u8; 2] = [1, 1];
const PERMANENTLY: [u8; 2] = [1, 2];

/// A portal that answers each of so many logins with a redirection, as bytes of RFC 7143 §11.13.
fn redirector(logins: usize, status: [u8; 2], to: &str) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let text = format!("TargetAddress={to}\0");
    let thread = std::thread::spawn(move || {
        for _ in 0..logins {
            let (stream, _) = listener.accept().unwrap();
            redirect(stream, status, text.as_bytes());
        }
    });
    (address, thread)
}

fn redirect(mut stream: TcpStream, status: [u8; 2], text: &[u8]) {
    let mut request = [0; 48];
    stream.read_exact(&mut request).unwrap();
    assert_eq!(request[0] & 0x3f, 0x03, "a Login Request");
    let length = usize::from(request[6]) << 8 | usize::from(request[7]);
    stream.read_exact(&mut vec![0; length.next_multiple_of(4)]).unwrap();
    let mut response = [0; 48];
    response[0] = 0x23;
    response[1] = request[1] & 0x0c;
    response[7] = u8::try_from(text.len()).unwrap();
    response[8..14].copy_from_slice(&request[8..14]);
    response[16..20].copy_from_slice(&request[16..20]);
    response[36..38].copy_from_slice(&status);
    let mut data = text.to_vec();
    data.resize(text.len().next_multiple_of(4), 0);
    stream.write_all(&[&response[..], &data].concat()).unwrap();
    // Until the initiator has gone, so that nothing is reset under it.
    let _gone = stream.read(&mut [0; 1]);
}

fn url(portal: SocketAddr) -> String {
    format!("iscsi://{portal}/{TARGET}/0")
}

#[test]
fn a_login_goes_where_it_is_sent() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=ram:1M"]);
    // Opening logs in once to look, and each queue once more: it begins at the new place only if the old one is gone.
    for (status, logins) in [(TEMPORARILY, 2), (PERMANENTLY, 1)] {
        let (portal, thread) = redirector(logins, status, &format!("{},1", server.iscsi));
        run(&["zero", &url(portal), "--overwrite"]);
        thread.join().unwrap();
    }
    // Discovery is sent on as well.
    let (portal, thread) = redirector(1, TEMPORARILY, &server.iscsi.to_string());
    assert!(run(&["discover", &format!("iscsi://{portal}")]).contains(TARGET));
    thread.join().unwrap();
    server.stop();
}

#[test]
fn a_login_that_is_sent_in_circles_ends() {
    let (one, other) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = [one.local_addr().unwrap(), other.local_addr().unwrap()];
    // Each sends to the other: the login comes to the first, and follows four moves.
    let threads = [(one, 3, addresses[1]), (other, 2, addresses[0])].map(|(listener, logins, to)| {
        let text = format!("TargetAddress={to},1\0");
        std::thread::spawn(move || {
            for _ in 0..logins {
                redirect(listener.accept().unwrap().0, TEMPORARILY, text.as_bytes());
            }
        })
    });
    let said = run_in_vain(&["inspect", &url(addresses[0])]);
    assert!(said.contains("sent us elsewhere 4 times"), "{said}");
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_login_that_is_sent_to_a_name_says_what_to_do() {
    let (portal, thread) = redirector(1, PERMANENTLY, "storage.example:3260,1");
    let said = run_in_vain(&["inspect", &url(portal)]);
    assert!(said.contains("to storage.example:3260,1") && said.contains("give that portal"), "{said}");
    thread.join().unwrap();
}

#[test]
fn a_discovery_follows_referrals_and_ends() {
    let folder = tempdir().unwrap();
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    // An address of this process alone, so that the ports there are free: one must be known before its server runs.
    let own = |port| SocketAddr::from(([127, 64 | high, middle, low], port));
    let (nobody, first) = (own(1), own(4420));
    let serve = |name: &str, listen: String, referrals: &[SocketAddr]| {
        let place = folder.path().join(name);
        std::fs::create_dir(&place).unwrap();
        let config = format!(
            "[[volume]]\nname = \"{name}\"\nurl = \"ram:1M\"\n\
             [[portal]]\nprotocol = \"iscsi\"\nlisten = \"127.0.0.1:0\"\n\
             [[portal]]\nprotocol = \"nvme\"\nlisten = \"{listen}\"\nreferrals = {referrals:?}\n",
            referrals = referrals.iter().map(ToString::to_string).collect::<Vec<_>>()
        );
        std::fs::write(place.join("config.toml"), config).unwrap();
        Server::start_configured(&place, &["--config", "config.toml"])
    };
    let far = serve("far", "127.0.0.1:0".to_owned(), &[]);
    // Both refer to each other.
    let middle = serve("middle", "127.0.0.1:0".to_owned(), &[first, far.nvme, nobody]);
    let near = serve("near", first.to_string(), &[middle.nvme]);
    let listed = run(&["discover", &format!("nvme+tcp://{}", near.nvme)]);
    for name in ["near", "middle", "far"] {
        let rows = listed.lines().filter(|line| line.ends_with(&format!("linerate:{name}")));
        assert_eq!(rows.count(), 1, "{listed}");
    }
    let unknown = listed.lines().find(|line| line.starts_with(&nobody.to_string())).unwrap();
    assert!(unknown.contains("not known what is behind it: cannot connect"), "{listed}");
    let rows: serde_json::Value =
        serde_json::from_str(&run(&["discover", "--json", &format!("nvme+tcp://{}", near.nvme)])).unwrap();
    let errors = rows.as_array().unwrap().iter().filter(|row| row["error"].is_string()).count();
    assert_eq!(errors, 1, "{rows}");
    for server in [near, middle, far] {
        server.stop();
    }
}
