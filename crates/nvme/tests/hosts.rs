//! What other hosts send when they start, command for command: Linux, SPDK and FreeBSD, each at its own size of queues, with
//! its own choices at every option. All of it must succeed, or fail as that host expects.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;
mod walker;

use nvme::controller::Hosts;
use nvme::features::{self, fid};
use nvme::identify::{IdentifyController, IdentifyNamespace, cns, read_descriptors};
use nvme::log::{DiscoveryHeader, lid};
use nvme::properties::{Capabilities, Configuration, offset};
use nvme::sqe::SubmissionQueueEntry;
use nvme::status::Status;
use protocol::CloseReason;
use walker::{Answer, Host, Walk};
use zerocopy::FromBytes;

const KEEP_ALIVE: u8 = 0x18;
const ASYNC_EVENT_REQUEST: u8 = 0x0c;
const READ: u8 = 0x02;
/// CSI of zoned namespaces and of key-value stores.
const ZONED: u8 = 2;
const KEY_VALUE: u8 = 1;
const INVALID_FIELD: Status = Status::INVALID_FIELD.dnr();

fn bare(opcode: u8) -> SubmissionQueueEntry {
    SubmissionQueueEntry::new(opcode, 0)
}

/// Reads one block of namespace 1.
fn read_a_block(walk: &mut Walk, queue: usize) {
    let answer = walk.ask_for(queue, SubmissionQueueEntry::new(READ, 1), 512);
    assert_eq!((answer.status, answer.data.len()), (Status::SUCCESS, 512));
}

#[test]
fn as_linux_does() {
    let mut walk = Walk::new(common::portal());
    let host = Host { kato: 10_000, ..Host::linux() };
    let admin = walk.connect(&host).unwrap();
    let capabilities = Capabilities(walk.get(admin, offset::CAP, true));
    // All I/O command sets are offered, so that Linux enables them; first the value without EN.
    assert_eq!(capabilities.0 & (1 << 37 | 1 << 43), 1 << 37 | 1 << 43);
    // CRMS: ready with media only. CRTO says how long that may take, as TO does.
    assert_eq!(capabilities.0 >> 59 & 3, 1);
    assert_eq!(walk.get(admin, offset::CRTO, false), u64::from(capabilities.timeout()));
    walk.set(admin, offset::CC, 0x0046_0060);
    assert_eq!(walk.get(admin, offset::CC, false), 0x0046_0060);
    walk.get(admin, offset::CAP, true);
    walk.set(admin, offset::CC, 0x0046_0061);
    assert_eq!(walk.get(admin, offset::CSTS, false), 1, "ready, and not failed");
    assert_eq!(walk.get(admin, offset::VS, false), 0x0002_0000);
    let data = walk.identify(admin, cns::CONTROLLER, (0, 0)).unwrap();
    let (controller, _) = IdentifyController::ref_from_prefix(&data).unwrap();
    assert_eq!(controller.cntlid.get(), 1);
    assert_eq!(walk.log(admin, lid::EFFECTS, (0, 4096)).status, Status::SUCCESS);
    walk.identify(admin, cns::SET_CONTROLLER, (0, 0)).unwrap();
    assert_eq!(walk.ask(admin, bare(KEEP_ALIVE)).status, Status::SUCCESS);
    assert_eq!(walk.ask(admin, features::set(fid::QUEUES, 0x0001_0001)).result, 0x0001_0001);
    for qid in [1, 2] {
        let queue = walk.connect(&Host { qid, cntlid: 1, sqsize: 127, kato: 0, ..host }).unwrap();
        read_a_block(&mut walk, queue);
    }
    assert_eq!(walk.ask(admin, features::set(fid::ASYNC_EVENTS, 1 << 8)).status, Status::SUCCESS);
    walk.tell(admin, bare(ASYNC_EVENT_REQUEST));
    let list = walk.identify(admin, cns::NAMESPACE_LIST, (0, 0)).unwrap();
    assert_eq!(list[..12], [1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    for nsid in [1, 3] {
        // Linux takes no namespace whose descriptors name no I/O command set, once all are enabled.
        let descriptors = walk.identify(admin, cns::DESCRIPTORS, (nsid, 0)).unwrap();
        assert_eq!(read_descriptors(&descriptors).unwrap().command_set, Some(0));
        walk.identify(admin, cns::INDEPENDENT, (nsid, 0)).unwrap();
        walk.identify(admin, cns::SET_NAMESPACE, (nsid, 0)).unwrap();
        let namespace = walk.identify(admin, cns::NAMESPACE, (nsid, 0)).unwrap();
        assert_ne!(IdentifyNamespace::ref_from_bytes(&namespace).unwrap().nsze.get(), 0);
    }
    assert_eq!(walk.log(admin, lid::CHANGED_NAMESPACES, (0, 4096)).status, Status::SUCCESS);
    walk.set(admin, offset::CC, 0x0046_4061);
    assert_eq!(walk.get(admin, offset::CSTS, false) & 0xc, 8, "shutdown is complete");
}

#[test]
fn as_spdk_does_without_a_name() {
    let mut walk = Walk::new(common::portal());
    let host = Host::spdk();
    let admin = walk.connect(&host).unwrap();
    walk.get(admin, offset::VS, false);
    assert_ne!(Capabilities(walk.get(admin, offset::CAP, true)).0 & 1 << 43, 0);
    assert_eq!((walk.get(admin, offset::CC, false), walk.get(admin, offset::CSTS, false)), (0, 0));
    walk.set(admin, offset::CC, Configuration::ENABLE_COMMAND_SETS.0);
    assert_eq!(walk.get(admin, offset::CSTS, false), 1);
    walk.identify(admin, cns::CONTROLLER, (0, 0)).unwrap();
    assert_eq!(walk.ask(admin, features::set(fid::ASYNC_EVENTS, 0x11f)).status, Status::SUCCESS);
    for _ in 0..4 {
        walk.tell(admin, bare(ASYNC_EVENT_REQUEST));
    }
    assert_eq!(walk.feature(admin, fid::KEEP_ALIVE).result, 10_000, "what it asked for at Connect");
    walk.identify(admin, cns::SET_CONTROLLER, (0, 0)).unwrap();
    // If this succeeded, SPDK would insist on what zoned namespaces have besides.
    assert_eq!(walk.identify(admin, cns::SET_CONTROLLER, (0, ZONED)), Err(INVALID_FIELD));
    assert_eq!(walk.identify(admin, cns::SET_CONTROLLER, (0, KEY_VALUE)), Err(INVALID_FIELD));
    assert_eq!(walk.ask(admin, features::set(fid::QUEUES, 0x003e_003e)).result, 0x003e_003e);
    walk.identify(admin, cns::NAMESPACE_LIST, (0, 0)).unwrap();
    for nsid in [1, 3] {
        walk.identify(admin, cns::NAMESPACE, (nsid, 0)).unwrap();
        let descriptors = walk.identify(admin, cns::DESCRIPTORS, (nsid, 0)).unwrap();
        assert_eq!(read_descriptors(&descriptors).unwrap().command_set, Some(0));
        walk.identify(admin, cns::SET_NAMESPACE, (nsid, 0)).unwrap();
    }
    let queue = walk.connect(&Host { qid: 1, cntlid: 1, sqsize: 127, kato: 0, ..host }).unwrap();
    read_a_block(&mut walk, queue);
    assert_eq!(walk.ask(admin, bare(KEEP_ALIVE)).status, Status::SUCCESS);
    let fresh = walk.ask(admin, features::set(fid::KEEP_ALIVE, 0)).status;
    assert_eq!(fresh, Status::SUCCESS);
}

#[test]
fn as_freebsd_does() {
    let mut walk = Walk::new(common::portal());
    let host = Host { kato: 120_000, ..Host::freebsd() };
    let admin = walk.connect(&host).unwrap();
    let capabilities = Capabilities(walk.get(admin, offset::CAP, true));
    assert_ne!(capabilities.0 & 1 << 37, 0, "FreeBSD insists on the NVM command set alone");
    let configuration = walk.get(admin, offset::CC, false) as u32;
    walk.set(admin, offset::CC, configuration | Configuration::ENABLE.0);
    assert_eq!(walk.get(admin, offset::CSTS, false), 1);
    walk.identify(admin, cns::CONTROLLER, (0, 0)).unwrap();
    assert_eq!(walk.ask(admin, features::set(fid::QUEUES, 0)).result, 0);
    let sqsize = capabilities.mqes();
    let queue = walk.connect(&Host { qid: 1, cntlid: 1, sqsize, kato: 0, ..host }).unwrap();
    walk.identify(admin, cns::NAMESPACE_LIST, (0, 0)).unwrap();
    walk.identify(admin, cns::NAMESPACE, (1, 0)).unwrap();
    assert_eq!(walk.ask(admin, features::set(fid::ASYNC_EVENTS, 1 << 8)).status, Status::SUCCESS);
    walk.tell(admin, bare(ASYNC_EVENT_REQUEST));
    read_a_block(&mut walk, queue);
    let shutdown = Configuration(walk.get(admin, offset::CC, false) as u32).with_shutdown();
    walk.set(admin, offset::CC, shutdown.0);
}

#[test]
fn discovery_as_each_of_them_reads_it() {
    for (host, configuration) in [
        (Host::linux(), 0x0046_0001),
        (Host::linux(), 0x0046_0061),
        (Host::spdk(), 0x0046_0001),
        (Host::freebsd(), 0x0000_0001),
    ] {
        let mut walk = Walk::new(common::portal());
        let admin = walk.connect(&Host { subnqn: nvme::DISCOVERY_NQN, ..host }).unwrap();
        walk.get(admin, offset::CAP, true);
        walk.set(admin, offset::CC, configuration);
        assert_eq!(walk.get(admin, offset::CSTS, false), 1);
        walk.identify(admin, cns::CONTROLLER, (0, 0)).unwrap();
        assert_eq!(walk.ask(admin, features::set(fid::ASYNC_EVENTS, 1 << 31)).status, Status::SUCCESS);
        assert_eq!(walk.feature(admin, fid::KEEP_ALIVE).status, Status::SUCCESS);
        // nvme-cli looks at the header first, SPDK takes 4,096 bytes wherever the page ends.
        for length in [16, 1024, 4096] {
            let page = walk.log(admin, lid::DISCOVERY, (0, length)).data;
            assert_eq!(page.len(), length as usize);
        }
        let page = walk.log(admin, lid::DISCOVERY, (0, 1024)).data;
        assert_eq!(DiscoveryHeader::ref_from_bytes(&page).unwrap().numrec.get(), 4);
        let rest = walk.log(admin, lid::DISCOVERY, (4 * 1024, 4096));
        assert_eq!((rest.status, rest.data[1024..].iter().max()), (Status::SUCCESS, Some(&0)));
    }
}

#[test]
fn a_host_without_a_name_is_any_host_and_none_of_a_list() {
    let nameless = Host { hostnqn: Some(""), ..Host::linux() };
    assert!(Walk::new(common::portal()).connect(&nameless).is_ok());
    for listed in ["nqn.other", ""] {
        let mut portal = common::portal();
        common::subsystem(&mut portal).hosts = Hosts::Listed(vec![listed.into()]);
        let mut walk = Walk::new(portal);
        let refused = walk.connect(&nameless).unwrap_err();
        assert_eq!(refused.status, Status::CONNECT_HOST.dnr(), "an empty name is in no list");
        let discovery = walk.connect(&Host { subnqn: nvme::DISCOVERY_NQN, ..nameless }).unwrap();
        walk.set(discovery, offset::CC, 0x0046_0001);
        let page = walk.log(discovery, lid::DISCOVERY, (0, 1024)).data;
        assert_eq!(DiscoveryHeader::ref_from_bytes(&page).unwrap().numrec.get(), 2, "it sees no subsystem");
    }
    // A field without an end is no name: Connect Invalid Parameters, HOSTNQN in the data.
    let endless = Host { hostnqn: None, ..Host::linux() };
    let refused = Walk::new(common::portal()).connect(&endless).unwrap_err();
    assert_eq!((refused.status, refused.result), (Status::CONNECT_INVALID.dnr(), 1 << 16 | 512));
}

#[test]
fn a_host_without_an_identifier_reads_and_writes_but_reserves_nothing() {
    for (identifier, expected) in [(0, Status::COMMAND_SEQUENCE.dnr()), (5, Status::SUCCESS)] {
        let mut walk = Walk::new(common::portal());
        let host = Host { identifier, ..Host::linux() };
        let admin = walk.connect(&host).unwrap();
        walk.set(admin, offset::CC, Configuration::ENABLE.0);
        let queue = walk.connect(&Host { qid: 1, cntlid: 1, ..host }).unwrap();
        read_a_block(&mut walk, queue);
        let register = SubmissionQueueEntry::new(0x0d, 1);
        let keys = [[0; 8], 7_u64.to_le_bytes()].concat();
        assert_eq!(walk.send(queue, register, &keys).status, expected);
    }
}

#[test]
fn a_queue_has_the_identifier_of_its_controller_whatever_its_own_connect_says() {
    // TrueNAS' client makes up a HOSTID for each queue.
    let mut walk = Walk::new(common::portal());
    let admin = walk.connect(&Host::linux()).unwrap();
    walk.set(admin, offset::CC, Configuration::ENABLE.0);
    let queue = walk.connect(&Host { qid: 1, cntlid: 1, identifier: 77, ..Host::linux() }).unwrap();
    let keys = [[0; 8], 7_u64.to_le_bytes()].concat();
    assert_eq!(walk.send(queue, SubmissionQueueEntry::new(0x0d, 1), &keys).status, Status::SUCCESS);
    assert_eq!(walk.reserved, [[5; 16]], "who registered");
    // A host without a name has nothing else to be known by.
    let mut walk = Walk::new(common::portal());
    let admin = walk.connect(&Host::spdk()).unwrap();
    walk.set(admin, offset::CC, Configuration::ENABLE.0);
    let other = Host { qid: 1, cntlid: 1, identifier: 77, ..Host::spdk() };
    assert_eq!(walk.connect(&other).unwrap_err().result, 1 << 16, "Connect Invalid Parameters: HOSTID");
    assert!(walk.connect(&Host { identifier: 9, ..other }).is_ok());
}

#[test]
fn other_command_sets_are_refused_as_the_standard_prescribes() {
    let mut walk = Walk::new(common::portal());
    let admin = walk.connect(&Host::linux()).unwrap();
    walk.set(admin, offset::CC, Configuration::ENABLE_COMMAND_SETS.0);
    let sets = walk.identify(admin, cns::COMMAND_SETS, (0, 0)).unwrap();
    assert_eq!((sets[0], sets[1..].iter().max()), (1, Some(&0)), "one combination: the NVM command set");
    let zoned = |walk: &mut Walk, cns, nsid| walk.identify(admin, cns, (nsid, ZONED));
    let invalid_set = Err(Status::INVALID_COMMAND_SET.dnr());
    assert_eq!(zoned(&mut walk, cns::SET_NAMESPACE, 1), invalid_set);
    assert_eq!(zoned(&mut walk, cns::SET_NAMESPACE, 9), Err(Status::INVALID_NAMESPACE.dnr()));
    assert_eq!(zoned(&mut walk, cns::SET_NAMESPACE_LIST, 0), Err(INVALID_FIELD));
    assert_eq!(walk.identify(admin, cns::SET_NAMESPACE_LIST, (1, 0)).unwrap()[..8], [3, 0, 0, 0, 0, 0, 0, 0]);
    // Namespace 2 is inactive: zeros.
    for cns in [cns::NAMESPACE, cns::SET_NAMESPACE, cns::INDEPENDENT] {
        assert_eq!(walk.identify(admin, cns, (2, 0)).unwrap().iter().max(), Some(&0), "{cns:x}");
        assert_eq!(walk.identify(admin, cns, (4, 0)), Err(Status::INVALID_NAMESPACE.dnr()), "{cns:x}");
    }
    // Lists of allocated namespaces belong to Namespace Management, which is not supported.
    for cns in [0x1a, 0x1b, 0x10, 0x11] {
        assert_eq!(walk.identify(admin, cns, (1, 0)), Err(INVALID_FIELD), "{cns:x}");
    }
    let mut profile = |value| walk.ask(admin, features::set(fid::COMMAND_SETS, value)).status;
    assert_eq!(profile(0), Status::SUCCESS);
    assert_eq!(profile(1), Status::COMMAND_SET_COMBINATION.dnr());
    assert_eq!(walk.feature(admin, fid::COMMAND_SETS).result, 0);
    let mut unknown = |css: u32| {
        let other = walk.connect(&Host::linux()).unwrap();
        walk.set(other, offset::CC, 0x0046_0001 | css << 4);
        walk.get(other, offset::CSTS, false)
    };
    assert_eq!([0, 6].map(&mut unknown), [1, 1]);
    assert_eq!([1, 5, 7].map(&mut unknown), [2, 2, 2], "a fatal status");
}

#[test]
fn a_completion_counts_its_own_command_as_consumed() {
    let mut walk = Walk::new(common::portal());
    let host = Host { sqsize: 3, flow_control: true, ..Host::linux() };
    let admin = walk.connect(&host).unwrap();
    assert_eq!(walk.last.head, 1, "Connect was the first entry");
    let heads: Vec<u16> = (0..6).map(|_| walk.ask(admin, bare(KEEP_ALIVE)).head).collect();
    assert_eq!(heads, [2, 3, 0, 1, 2, 3], "of a queue with four entries");
    walk.set(admin, offset::CC, Configuration::ENABLE.0);
    walk.tell(admin, bare(ASYNC_EVENT_REQUEST));
    assert_eq!(walk.ask(admin, bare(KEEP_ALIVE)).head, 2, "what is not complete is consumed too");
    let queue = walk.connect(&Host { qid: 1, cntlid: 1, ..host }).unwrap();
    let heads: Vec<u16> = (0..4).map(|_| walk.send(queue, common_write(), &[7; 512]).head).collect();
    assert_eq!((walk.last_connect, heads), (1, vec![2, 3, 0, 1]));
    let mut walk = Walk::new(common::portal());
    let admin = walk.connect(&Host::linux()).unwrap();
    assert_eq!((walk.last.head, walk.ask(admin, bare(KEEP_ALIVE)).head), (0xffff, 0xffff));
}

fn common_write() -> SubmissionQueueEntry {
    SubmissionQueueEntry::new(0x01, 1)
}

#[test]
fn set_features_arms_rearms_and_disarms_the_keep_alive_timer() {
    let mut walk = Walk::new(common::portal());
    let admin = walk.connect(&Host { kato: 0, ..Host::linux() }).unwrap();
    walk.set(admin, offset::CC, Configuration::ENABLE.0);
    assert_eq!(walk.deadline(admin), None);
    let set = |walk: &mut Walk, kato| {
        assert_eq!(walk.ask(admin, features::set(fid::KEEP_ALIVE, kato)).status, Status::SUCCESS);
        walk.feature(admin, fid::KEEP_ALIVE).result
    };
    assert_eq!(set(&mut walk, 4500), 5000, "rounded up to the granularity that KAS says");
    assert_eq!(walk.deadline(admin), Some(6), "seconds: the timeout and a granule");
    walk.pass(3);
    assert_eq!(walk.ask(admin, features::set(fid::KEEP_ALIVE, 2000)).status, Status::SUCCESS);
    assert_eq!(walk.deadline(admin), Some(6), "from now on");
    assert_eq!(walk.ask(admin, features::set(fid::KEEP_ALIVE, 0)).status, Status::SUCCESS);
    assert_eq!(walk.deadline(admin), None);
    assert_eq!(walk.ask(admin, features::set(fid::KEEP_ALIVE, 1)).status, Status::SUCCESS);
    assert_eq!(walk.deadline(admin), Some(5));
    walk.pass(2);
    assert_eq!(walk.closed(admin), Some(CloseReason::TimedOut("the keep alive timer expired")));
}

#[test]
fn a_timeout_at_connect_is_rounded_up_as_well() {
    let mut walk = Walk::new(common::portal());
    let admin = walk.connect(&Host { kato: 1, ..Host::linux() }).unwrap();
    assert_eq!(walk.deadline(admin), Some(2));
    walk.set(admin, offset::CC, Configuration::ENABLE.0);
    let Answer { result, .. } = walk.feature(admin, fid::KEEP_ALIVE);
    assert_eq!(result, 1000);
}
