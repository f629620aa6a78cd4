//! A gateway: a server whose volume is on another server, over the other protocol.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{Server, run, run_in_vain, stamped};
use tempfile::tempdir;

const SECTORS: u64 = 6000;

/// A volume behind `behind` is served once more as `gw`, on two cores.
fn gateway(folder: &std::path::Path, behind: &str) -> Server {
    Server::start(folder, &[&format!("gw={behind}"), "--cores", "2"])
}

#[test]
fn nvme_goes_in_and_iscsi_comes_out_and_the_other_way_round() {
    let (back, front) = (tempdir().unwrap(), tempdir().unwrap());
    let server = Server::start(back.path(), &["disk=ram:4M"]);
    let path = back.path().join("source");
    for (seed, nvme_in) in [(1, true), (2, false)] {
        let behind = if nvme_in { server.iscsi_url("disk") } else { server.nvme_url("disk") };
        let gateway = gateway(front.path(), &behind);
        let (entry, other) = if nvme_in {
            (gateway.nvme_url("gw"), gateway.iscsi_url("gw"))
        } else {
            (gateway.iscsi_url("gw"), gateway.nvme_url("gw"))
        };
        let source = stamped(&path, SECTORS, seed);
        run(&["copy", &source, &entry, "--overwrite", "--verify", "--connections", "4"]);
        // What went in through the gateway is behind it, and comes out of it by either protocol.
        for url in [&behind, &entry, &other] {
            assert!(run(&["compare", &source, url]).starts_with("equal: 4194304 bytes"), "{url}");
        }
        assert!(run(&["check", &entry, "--overwrite", "--bytes", "1M"]).starts_with("1048576 bytes kept"));
        run(&["zero", &other, "--overwrite"]);
        assert!(run(&["compare", "ram:4M", &behind]).starts_with("equal: "));
        gateway.stop();
    }
    server.stop();
}

#[test]
fn a_gateway_to_nowhere_says_so() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in [
        format!("iscsi://{gone}/iqn.2026-11.org.linerate:disk/0"),
        format!("nvme+tcp://{gone}/nqn.2026-11.org.linerate:disk/1"),
    ] {
        let arguments = ["serve", &format!("gw={url}"), "--iscsi", "127.0.0.1:0", "--nvme", "127.0.0.1:0"];
        let said = run_in_vain(&arguments);
        assert!(said.contains("the volume \"gw\" cannot be opened"), "{said}");
    }
}
