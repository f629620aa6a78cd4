//! Every state of a controller's connection × every event, as one table: a changed transition is a changed line.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::fmt::Write as _;
use std::sync::Arc;

use buf::Pool;
use nvme::controller::{Action, Connection, Input};
use nvme::fabrics::{Connect, ConnectData, Property, PropertySize, disconnect};
use nvme::lifetime::Lifetime;
use nvme::pdu::{CapsuleCmd, CapsuleResp, Digests, H2cData, H2cTermReq, IcReq};
use nvme::sgl::SglDescriptor;
use nvme::sqe::SubmissionQueueEntry;
use nvme::subsystem::{ConnectError, Reply};
use protocol::pair::Half;
use protocol::{Connection as _, Ended, Instant};
use zerocopy::{FromBytes, IntoBytes};

const NOW: Instant = Instant::ZERO;
const STATES: [&str; 6] = ["ExpectIcReq", "ExpectConnect", "Connecting", "Admin", "Admin enabled", "Io"];

fn bare(entry: SubmissionQueueEntry) -> Vec<u8> {
    CapsuleCmd::new(entry).as_bytes().to_vec()
}

fn transfer(mut entry: SubmissionQueueEntry, length: u32) -> Vec<u8> {
    entry.dptr = SglDescriptor::transport(length);
    bare(entry)
}

fn connect(qid: u16) -> Vec<u8> {
    let cntlid = if qid == 0 { 0xffff } else { 1 };
    let data = ConnectData::new(&common::host_identity(), cntlid, common::NQN);
    let mut pdu = CapsuleCmd::new(Connect::entry(qid, 31, 0));
    pdu.header.pdo = 72;
    pdu.header.plen.set(72 + 1024);
    [pdu.as_bytes(), data.as_bytes()].concat()
}

fn h2c_data() -> Vec<u8> {
    let mut pdu = H2cData::new(9, 0, 0, 512);
    pdu.header.pdo = 24;
    pdu.header.plen.set(24 + 512);
    pdu.as_bytes().to_vec()
}

fn in_state(state: usize) -> Half<Connection> {
    let mut half = Half::new(Connection::new(Arc::new(common::portal()), Pool::new(16 << 20), NOW));
    if state >= 1 {
        half.receive(NOW, IcReq::new(Digests::NONE, 0).as_bytes());
    }
    if state >= 2 {
        half.receive(NOW, &connect(u16::from(state == 5)));
    }
    if state >= 3 {
        half.connection.handle_input(
            NOW,
            Input::Group(Reply::Joined { cntlid: 1, hostid: [5; 16], lifetime: Lifetime::new() }),
        );
    }
    if state == 4 {
        half.receive(NOW, &bare(Property::set(0x14, 0x0046_0001)));
    }
    while half.connection.poll_action().is_some() {}
    half.transmit(NOW);
    half
}

enum Event {
    Bytes(Vec<u8>),
    Input(Input),
    Timeout,
    Ended,
}

fn events() -> Vec<(&'static str, Event)> {
    let entry = SubmissionQueueEntry::new;
    let bytes = |bytes: &[u8]| Event::Bytes(bytes.to_vec());
    vec![
        ("ICReq", bytes(IcReq::new(Digests::BOTH, 0).as_bytes())),
        ("H2CTermReq", bytes(H2cTermReq::new(1, 0, 0).as_bytes())),
        ("H2CData", Event::Bytes(h2c_data())),
        ("Connect admin", Event::Bytes(connect(0))),
        ("Connect I/O", Event::Bytes(connect(1))),
        ("Disconnect", Event::Bytes(bare(disconnect()))),
        ("Property Get CSTS", Event::Bytes(bare(Property::get(0x1c, PropertySize::Four)))),
        ("Property Set CC.EN", Event::Bytes(bare(Property::set(0x14, 0x0046_0001)))),
        ("Property Set CC=0", Event::Bytes(bare(Property::set(0x14, 0)))),
        ("Property Set CC.SHN", Event::Bytes(bare(Property::set(0x14, 0x0046_4001)))),
        ("Identify", Event::Bytes(transfer(entry(0x06, 0).with(10, 1), 4096))),
        ("Keep Alive", Event::Bytes(bare(entry(0x18, 0)))),
        ("Async Event Request", Event::Bytes(bare(entry(0x0c, 0)))),
        ("Abort", Event::Bytes(bare(entry(0x08, 0).with(10, 1)))),
        ("Read / Get Log Page", Event::Bytes(transfer(entry(0x02, 1), 512))),
        ("Write", Event::Bytes(transfer(entry(0x01, 1), 512))),
        ("Flush", Event::Bytes(bare(entry(0x00, 1)))),
        (
            "group: joined",
            Event::Input(Input::Group(Reply::Joined {
                cntlid: 1,
                hostid: [5; 16],
                lifetime: Lifetime::new(),
            })),
        ),
        ("group: refused", Event::Input(Input::Group(Reply::Refused(ConnectError::command(42))))),
        ("group: close", Event::Input(Input::Group(Reply::Close))),
        ("group: quiesced", Event::Input(Input::Group(Reply::Quiesced))),
        ("group: abort", Event::Input(Input::Group(Reply::Abort { cid: 9, tag: 0 }))),
        ("group: aborted", Event::Input(Input::Group(Reply::Aborted { tag: 0, aborted: true }))),
        ("shutdown", Event::Input(Input::Shutdown)),
        ("deadline", Event::Timeout),
        ("transport ended", Event::Ended),
    ]
}

/// What the connection does about an event.
fn outcome(state: usize, event: Event) -> String {
    let mut half = in_state(state);
    match event {
        Event::Bytes(bytes) => half.receive(NOW, &bytes),
        Event::Input(input) => half.connection.handle_input(NOW, input),
        Event::Ended => half.end(NOW, Ended::ByPeer),
        Event::Timeout => match half.connection.poll_timeout() {
            Some(deadline) => half.connection.handle_timeout(deadline),
            None => return "no deadline".into(),
        },
    }
    let mut text = String::new();
    while let Some(action) = half.connection.poll_action() {
        match action {
            Action::Submit(volume::Submission { request, .. }) => {
                write!(text, "{} ", name(&request.operation))
            }
            Action::Cancel { .. } => write!(text, "cancel "),
            Action::Reserve { .. } => write!(text, "reserve "),
            Action::Group(request) => write!(text, "→{} ", name(&request)),
        }
        .unwrap();
    }
    let sent = half.transmit(NOW);
    match sent.first() {
        None => {}
        Some(1) => text += "ICResp ",
        Some(3) => write!(text, "C2HTermReq({},{}) ", sent[8], sent[10]).unwrap(),
        Some(5) => {
            let response = CapsuleResp::read_from_bytes(&sent).unwrap().entry;
            write!(text, "[{}] ", response.status()).unwrap();
        }
        Some(7) => text += "data ",
        Some(9) => text += "R2T ",
        Some(other) => write!(text, "PDU {other} ").unwrap(),
    }
    if let Some(reason) = half.connection.poll_close() {
        write!(text, "close: {}", name(&reason)).unwrap();
    }
    if text.is_empty() { "nothing".into() } else { text.trim_end().into() }
}

/// A value's variant, without its fields.
fn name(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split([' ', '{', '(']).next().unwrap_or_default().to_owned()
}

#[test]
fn every_state_and_event() {
    let mut table = String::new();
    for (index, state) in STATES.iter().enumerate() {
        writeln!(table, "{state}").unwrap();
        for (event, what) in events() {
            writeln!(table, "  {event:<20} {}", outcome(index, what)).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}
