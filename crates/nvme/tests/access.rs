//! What a host may not use is not there: subsystems in the discovery log, namespaces in every list and command; required digests.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::{Bench, admin, config, host_identity, io};
use nvme::controller::{self, AllowedHost, Hosts, Portal};
use nvme::host::{Action, Failure, Queue};
use nvme::status::Status;
use protocol::{CloseReason, Connection as _};
use volume::{Geometry, VolumeId};

const OTHER: &str = "nqn.2026-11.test:other";

/// The host of the tests may use only these namespaces; another host the others.
fn masked(namespaces: &[u32]) -> Portal {
    let mut portal = common::portal();
    common::subsystem(&mut portal).hosts = Hosts::Listed(vec![
        AllowedHost { nqn: host_identity().nqn.to_string(), namespaces: Some(namespaces.to_vec()) },
        AllowedHost { nqn: OTHER.into(), namespaces: None },
    ]);
    portal
}

#[test]
fn namespaces_of_others_are_not_there() {
    let mut bench = Bench::with(masked(&[3]));
    let remote = bench.session(3, 1, (false, false));
    assert_eq!(remote.nsid, 3);
    // The hidden namespace answers as one that nobody has.
    let refused = |bench: &mut Bench, nsid| {
        let link = bench.connect(admin(nsid));
        bench.links[link].events.pop()
    };
    let hidden = refused(&mut bench, 1);
    let absent = refused(&mut bench, 2);
    assert_eq!(format!("{hidden:?}"), format!("{absent:?}"));
    assert!(matches!(hidden, Some(Action::Failed(_))), "{hidden:?}");
    // A host that names it in spite of that: every command on an I/O queue is refused, and nothing reaches the volume.
    let mut forged = remote.clone();
    forged.nsid = 1;
    let link = bench.connect(io(2, &forged));
    bench.held = Some(Vec::new());
    bench.links[link].read(1, 0, 4096);
    bench.links[link].write(2, 0, vec![7; 4096]);
    bench.links[link].submit(3, volume::Operation::Flush);
    bench.run();
    assert!(bench.links[link].completions().iter().all(|(_, result)| result.is_err()));
    assert!(bench.held.as_ref().unwrap().is_empty(), "{:?}", bench.held);
}

#[test]
fn a_hidden_namespace_that_changes_is_not_told() {
    let mut bench = Bench::with(masked(&[3]));
    bench.session(3, 0, (false, false));
    let geometry = Geometry { blocks: 8, block_size: 512, physical_block_size: 512 };
    let quiet = bench.links[0].pair.now;
    for (volume, told) in [(VolumeId::new(0, 0), false), (VolumeId::new(1, 0), true)] {
        let event = controller::Input::NamespaceChanged { volume, geometry };
        bench.links[0].pair.far.connection.handle_input(quiet, event);
        let sent = bench.links[0].pair.far.transmit(quiet);
        assert_eq!(!sent.is_empty(), told, "{volume:?}");
    }
}

#[test]
fn names_of_hosts_are_compared_byte_by_byte() {
    let mut portal = common::portal();
    let shouted = host_identity().nqn.to_uppercase();
    common::subsystem(&mut portal).hosts =
        Hosts::Listed(vec![AllowedHost { nqn: shouted, namespaces: None }]);
    let mut bench = Bench::with(portal);
    let link = bench.connect(admin(1));
    let Some(Action::Failed(failure)) = bench.links[link].events.pop() else { panic!("it was let in") };
    assert_eq!(failure, Failure::Refused(Status::CONNECT_HOST.dnr()));
    let link = bench.connect(config(Queue::Discovery));
    let Some(Action::Discovered(entries)) = bench.links[link].events.pop() else {
        panic!("nothing discovered")
    };
    assert!(entries.iter().all(|entry| *entry.subnqn == *nvme::DISCOVERY_NQN), "{entries:?}");
}

#[test]
fn required_digests_cannot_be_dropped() {
    let mut portal = common::portal();
    portal.require_digests = true;
    for digests in [(true, true), (true, false), (false, true), (false, false)] {
        let mut bench = Bench::with(portal.clone());
        let mut asked = admin(1);
        (asked.header_digest, asked.data_digest) = digests;
        let link = bench.connect(asked);
        let close = bench.links[link].pair.far.connection.poll_close();
        if digests == (true, true) {
            assert!(matches!(bench.links[link].events.pop(), Some(Action::Ready(_))));
        } else {
            let said = "required digests were not agreed on";
            assert_eq!(close, Some(CloseReason::Violation(said)), "{digests:?}");
        }
    }
}
