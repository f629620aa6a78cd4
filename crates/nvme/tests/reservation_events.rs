//! What a host is told of its registrations: events, the log page, and the mask (NVMe Base §8.1.22.9), on a raw admin queue.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;

use std::sync::Arc;

use buf::Pool;
use nvme::controller::{Connection, Input, Reservations};
use nvme::fabrics::{Connect, ConnectData, Property};
use nvme::identify::Identify;
use nvme::lifetime::Lifetime;
use nvme::log::GetLogPage;
use nvme::pdu::{CapsuleCmd, Digests, IcReq, flags};
use nvme::sgl::SglDescriptor;
use nvme::sqe::SubmissionQueueEntry;
use nvme::status::Status;
use nvme::subsystem::Reply;
use protocol::pair::Half;
use protocol::{Connection as _, Instant};
use volume::VolumeId;
use volume::reservation::{Notice, Registrant, View};
use zerocopy::{FromBytes, IntoBytes};

const NOW: Instant = Instant::ZERO;
const RESERVATION_LOG: u8 = 0x80;
const MASK: u32 = 0x82;
const PERSISTENCE: u32 = 0x83;

/// An enabled controller's admin queue, and what it has sent and nobody has looked at.
struct Admin(Half<Connection>, Vec<u8>);

impl Admin {
    fn new() -> Self {
        let portal = Arc::new(common::portal());
        let mut half = Half::new(Connection::new(portal, Pool::new(16 << 20), NOW));
        half.receive(NOW, IcReq::new(Digests::NONE, 0).as_bytes());
        let data = ConnectData::new(&common::host_identity(), 0xffff, common::NQN);
        let mut connect = Connect::entry(0, 31, 0);
        connect.dptr = SglDescriptor::in_capsule(data.as_bytes().len() as u32);
        half.receive(NOW, &capsule(connect, data.as_bytes()));
        half.connection.handle_input(
            NOW,
            Input::Group(Reply::Joined { cntlid: 1, hostid: [5; 16], lifetime: Lifetime::new() }),
        );
        let mut admin = Self(half, Vec::new());
        admin.send(Property::set(0x14, 0x0046_0001));
        admin.0.transmit(NOW);
        admin
    }

    fn send(&mut self, entry: SubmissionQueueEntry) {
        self.0.receive(NOW, &capsule(entry, &[]));
        while self.0.connection.poll_action().is_some() {}
    }

    /// Status and result of the only answer.
    fn answer(&mut self, entry: SubmissionQueueEntry) -> (Status, u64) {
        self.send(entry);
        self.result().unwrap()
    }

    fn result(&mut self) -> Option<(Status, u64)> {
        self.1.extend(self.0.transmit(NOW));
        let bytes = std::mem::take(&mut self.1);
        let response = nvme::pdu::CapsuleResp::read_from_bytes(&bytes).ok()?;
        Some((response.entry.status(), response.entry.result()))
    }

    /// The data of a command that succeeds, `length` bytes of it.
    fn data(&mut self, mut entry: SubmissionQueueEntry, length: u32) -> Vec<u8> {
        entry.dptr = SglDescriptor::transport(length);
        self.send(entry);
        let mut bytes = self.0.transmit(NOW);
        assert_eq!(
            (bytes[0], bytes[1] & flags::SUCCESS),
            (7, flags::SUCCESS),
            "data that says that it is all"
        );
        self.1 = bytes.split_off(24 + length as usize);
        bytes.split_off(24)
    }

    fn tell(&mut self, volume: u16, notices: &[(Registrant, Notice)]) {
        let change =
            Reservations { view: Arc::new(View::default()), notices: notices.into(), aborted: Arc::new([]) };
        let (volume, epoch, reservations) = (VolumeId::new(volume, 0), volume::Epoch(1), Some(change));
        self.0.connection.handle_input(NOW, Input::Fence { volume, epoch, reservations });
    }

    /// Count, type, further pages and namespace.
    fn page(&mut self) -> [u32; 4] {
        let page = self.data(GetLogPage::entry(RESERVATION_LOG, 0, 64), 64);
        let number = |range: std::ops::Range<usize>| u32::from_le_bytes(page[range].try_into().unwrap());
        [number(0..4), page[8].into(), page[9].into(), number(12..16)]
    }
}

fn capsule(entry: SubmissionQueueEntry, data: &[u8]) -> Vec<u8> {
    let mut pdu = CapsuleCmd::new(entry);
    pdu.header.pdo = if data.is_empty() { 0 } else { 72 };
    pdu.header.plen.set(72 + data.len() as u32);
    [pdu.as_bytes(), data].concat()
}

fn own() -> Registrant {
    let host = common::host_identity();
    Registrant::Host { identifier: host.identifier, nqn: host.nqn }
}

fn other() -> Registrant {
    Registrant::Host { identifier: [9; 16], nqn: "nqn.2014-08.org.example:other".into() }
}

fn event_request(cid: u16) -> SubmissionQueueEntry {
    let mut entry = SubmissionQueueEntry::new(0x0c, 0);
    entry.cid.set(cid);
    entry
}

fn set_feature(fid: u32, nsid: u32, value: u32) -> SubmissionQueueEntry {
    SubmissionQueueEntry::new(0x09, nsid).with(10, fid).with(11, value)
}

fn get_feature(fid: u32, nsid: u32, select: u32) -> SubmissionQueueEntry {
    SubmissionQueueEntry::new(0x0a, nsid).with(10, fid | select << 8)
}

/// I/O command specific, reservation log page available, log page 80h.
const EVENT: (Status, u64) = (Status::SUCCESS, 0x0080_0006);

#[test]
fn a_host_is_told_once_and_reads_what_happened_in_order() {
    let mut admin = Admin::new();
    admin.send(event_request(1));
    admin.tell(0, &[(other(), Notice::Preempted)]);
    assert_eq!(admin.result(), None, "another host's affair");
    admin.tell(0, &[(other(), Notice::Released), (own(), Notice::Preempted)]);
    admin.tell(1, &[(own(), Notice::Released)]);
    admin.tell(7, &[(own(), Notice::Released)]);
    assert_eq!(admin.result(), Some(EVENT), "once, until the page is read");
    admin.send(event_request(2));
    assert_eq!(admin.result(), None);
    assert_eq!(admin.page(), [1, 1, 1, 1]);
    assert_eq!(admin.result(), Some(EVENT), "there is another page");
    assert_eq!(admin.page(), [2, 2, 0, 3], "namespace 3 is volume 1; volume 7 is no namespace here");
    assert_eq!(admin.page(), [0, 0, 0, 0]);
    admin.send(event_request(3));
    admin.tell(0, &[(own(), Notice::Cleared)]);
    assert_eq!(admin.result(), Some(EVENT));
    assert_eq!(admin.page(), [3, 3, 0, 1]);
}

#[test]
fn what_is_masked_is_neither_told_nor_kept() {
    let mut admin = Admin::new();
    admin.send(event_request(1));
    assert_eq!(admin.answer(set_feature(MASK, 1, 0b0110)).0, Status::SUCCESS);
    admin.tell(0, &[(own(), Notice::Preempted)]);
    admin.tell(0, &[(own(), Notice::Released)]);
    assert_eq!(admin.result(), None);
    assert_eq!(admin.page(), [0; 4]);
    admin.tell(1, &[(own(), Notice::Released)]);
    assert_eq!(admin.result(), Some(EVENT), "the mask is one namespace's");
    assert_eq!(admin.page(), [1, 2, 0, 3]);
    admin.send(event_request(2));
    admin.tell(0, &[(own(), Notice::Cleared)]);
    assert_eq!(admin.result(), Some(EVENT), "the mask is of other kinds");
}

#[test]
fn the_features_answer_for_each_namespace() {
    let mut admin = Admin::new();
    let missing = Status::INVALID_NAMESPACE.dnr();
    assert_eq!(admin.answer(set_feature(MASK, 2, 0xe)).0, missing);
    assert_eq!(admin.answer(get_feature(MASK, 2, 0)).0, missing);
    assert_eq!(admin.answer(get_feature(MASK, 0xffff_ffff, 0)).0, missing);
    assert_eq!(admin.answer(set_feature(MASK, 0xffff_ffff, 0xe)).0, Status::SUCCESS);
    assert_eq!(admin.answer(set_feature(MASK, 3, 0x2)).0, Status::SUCCESS);
    assert_eq!(admin.answer(get_feature(MASK, 1, 0)), (Status::SUCCESS, 0xe));
    assert_eq!(admin.answer(get_feature(MASK, 3, 0)), (Status::SUCCESS, 0x2));
    assert_eq!(admin.answer(get_feature(MASK, 3, 1)), (Status::SUCCESS, 0), "the default");
    assert_eq!(admin.answer(get_feature(MASK, 3, 3)), (Status::SUCCESS, 0b110));
    assert_eq!(admin.answer(get_feature(PERSISTENCE, 1, 0)), (Status::SUCCESS, 0));
    assert_eq!(admin.answer(get_feature(PERSISTENCE, 1, 3)), (Status::SUCCESS, 0b010));
    assert_eq!(admin.answer(set_feature(PERSISTENCE, 1, 1)).0, Status::NOT_CHANGEABLE.dnr());
}

/// NVMe Base §5.1.11: a value that cannot be saved has its default as the saved one; capabilities are no value.
#[test]
fn every_feature_answers_for_every_select() {
    const CHANGEABLE: u64 = 0b100;
    let mut admin = Admin::new();
    for (feature, value) in [(0x01, 0x0102_0303), (0x04, 0x0155), (0x05, 0x77), (0x0b, 0x0100), (0x0f, 9000)]
    {
        assert_eq!(admin.answer(set_feature(feature, 0, value)).0, Status::SUCCESS, "feature {feature:#x}");
    }
    // What is set, and what it would be otherwise; and whether it can be changed.
    for (feature, current, default, capabilities) in [
        (0x01, 0x0102_0303, 0, CHANGEABLE),
        (0x02, 0, 0, CHANGEABLE),
        (0x04, 0x0155, 0, CHANGEABLE),
        (0x05, 0x77, 0, CHANGEABLE),
        (0x06, 1, 1, 0),
        (0x0a, 0, 0, 0),
        (0x0b, 0x0100, 0, CHANGEABLE),
        (0x0f, 9000, 0, CHANGEABLE),
        (0x19, 0, 0, CHANGEABLE),
    ] {
        for (select, expected) in [(0, current), (1, default), (2, default), (3, capabilities)] {
            let told = admin.answer(get_feature(feature, 0, select));
            assert_eq!(told, (Status::SUCCESS, expected), "feature {feature:#x}, select {select}");
        }
    }
    // Host Behavior Support and Host Identifier have data, but only as they are now.
    assert_eq!(admin.data(get_feature(0x16, 0, 0), 512), [0; 512]);
    assert_eq!(admin.data(get_feature(0x81, 0, 0).with(11, 1), 16), common::host_identity().identifier);
    for (feature, capabilities) in [(0x16, CHANGEABLE), (0x81, 0)] {
        for (select, expected) in [(1, 0), (2, 0), (3, capabilities)] {
            let told = admin.answer(get_feature(feature, 0, select).with(11, 1));
            assert_eq!(told, (Status::SUCCESS, expected), "feature {feature:#x}, select {select}");
        }
    }
}

#[test]
fn what_is_offered_is_said() {
    let mut admin = Admin::new();
    let identify = |cns, nsid| {
        let mut entry = Identify { cns, cntid: 0, csi: 0 }.encode(nsid);
        entry.cid.set(4);
        entry
    };
    let controller = admin.data(identify(1, 0), 4096);
    assert_eq!(controller[520] & 0x20, 0x20, "ONCS: reservations");
    assert_eq!(controller[96] & 1, 1, "CTRATT: 128-bit host identifiers");
    assert_eq!(admin.data(identify(0, 1), 4096)[31], 0xfe, "all types, nothing that persists");
    assert_eq!(admin.data(identify(8, 1), 4096)[2], 0xfe);
    let pages = admin.data(GetLogPage::entry(0, 0, 1024), 1024);
    assert_eq!(pages[4 * 0x80] & 1, 1);
    let effects = admin.data(GetLogPage::entry(5, 0, 4096), 4096);
    for opcode in [0x0d, 0x0e, 0x11, 0x15] {
        assert_eq!(effects[4 * (256 + opcode)], 1, "{opcode:x}h");
    }
}

#[test]
fn a_reset_forgets_what_was_not_read() {
    let mut admin = Admin::new();
    admin.tell(0, &[(own(), Notice::Cleared)]);
    admin.send(Property::set(0x14, 0x0046_0000));
    admin.0.connection.handle_input(NOW, Input::Group(Reply::Quiesced));
    admin.send(Property::set(0x14, 0x0046_0001));
    admin.0.transmit(NOW);
    assert_eq!(admin.page(), [0; 4]);
    admin.send(event_request(1));
    assert_eq!(admin.result(), None);
}
