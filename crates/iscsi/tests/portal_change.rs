//! A portal that serves something else while connections are there: who notices, who is asked to leave, and what becomes of commands under way.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use buf::{Account, Pool};
use common::raw::{Pdu, Raw};
use common::{Bench, INITIATOR, ISID, TARGET, config, portal};
use iscsi::chap::{Algorithm, Credentials, Secret};
use iscsi::connection::State;
use iscsi::limits::{DRAIN_TIME, LOGOUT_TIME};
use iscsi::pdu::{
    AsyncEvent, AsyncMessage, DataOut, DataRange, LoginIdentity, LoginRequest, LoginResponse, LogoutReason,
    LogoutRequest, NopOut, Opcode, R2t, RESERVED_TAG, ScsiCommand, ScsiResponse, Stage, Status, TaskTags,
    TextRequest,
};
use iscsi::session::Reply;
use iscsi::target::{Access, Action, Chap, Input, Node, Portal, Rule};
use iscsi::text::Text;
use protocol::{CloseReason, Connection};
use scsi::{NexusEvent, TargetDevice, builder};
use volume::{Durability, Epoch, Extent, Operation, VolumeId};

const OTHER: &str = "iqn.2026-11.org.linerate:other";
const GONE: CloseReason = CloseReason::Withdrawn("the target is not served any more");
const NOT_OPEN: CloseReason = CloseReason::Withdrawn("the initiator may not use the target any more");
const NOT_SUPPORTED: (u8, u8, u8) = (5, 0x25, 0);
const REPORTED_LUNS_CHANGED: (u8, u8, u8) = (6, 0x3f, 0x0e);
const TASK_ABORTED: u8 = scsi::Status::TaskAborted as u8;

fn id(slot: u16) -> VolumeId {
    VolumeId::new(slot, 0)
}

/// The target with these logical units, each on the volume in that slot.
fn node(units: &[(u16, u16)]) -> Node {
    let plain = Node::clone(&portal(2048).nodes[0]);
    let unit = |&(lun, slot): &(u16, u16)| scsi::LogicalUnit {
        lun,
        volume: id(slot),
        ..plain.device.units[0].clone()
    };
    let units = units.iter().map(unit).collect();
    Node { device: Arc::new(TargetDevice { units, ..TargetDevice::clone(&plain.device) }), ..plain }
}

fn other() -> Node {
    Node { name: OTHER.parse().unwrap(), ..node(&[(0, 9)]) }
}

fn serving(node: Node) -> Portal {
    Portal::new([node])
}

fn chap(secret: &str) -> Chap {
    let initiator = Credentials { user: "alice".into(), secret: Secret::new(secret) };
    Chap { initiator, target: None, algorithms: Algorithm::ALL.to_vec() }
}

fn rules(node: Node, rule: Rule) -> Node {
    Node { access: Access::Rules(vec![rule]), ..node }
}

fn guarded(node: Node, secret: &str) -> Node {
    rules(node, Rule { chap: Some(chap(secret)), ..Rule::default() })
}

fn for_others(node: Node) -> Node {
    rules(node, Rule { initiators: Some(vec![OTHER.parse().unwrap()]), ..Rule::default() })
}

/// Tells the connection, and gives what it sends.
fn change(raw: &mut Raw, portal: Portal) -> Vec<Pdu> {
    raw.half.connection.handle_input(raw.now, Input::PortalChanged(Arc::new(portal)));
    raw.settle()
}

/// A session of the target with these logical units, which has heard of their power-on.
fn session(units: &[(u16, u16)]) -> Raw {
    session_at(serving(node(units)), &Pool::new(64 << 20))
}

fn session_at(portal: Portal, pool: &Pool) -> Raw {
    let luns: Vec<u16> = portal.nodes[0].device.units.iter().map(|unit| unit.lun).collect();
    let mut raw = Raw::with_pool(portal, pool);
    assert_eq!(raw.log_in(&[("InitialR2T", "No"), ("MaxRecvDataSegmentLength", "65536")]), Ok(()));
    for lun in luns {
        assert_eq!(ready(&mut raw, lun), (6, 0x29, 0));
    }
    raw
}

fn command(raw: &mut Raw, lun: u16, cdb: [u8; 16], shape: impl Fn(ScsiCommand) -> ScsiCommand) -> Vec<Pdu> {
    let header = shape(ScsiCommand::new(scsi::encode_lun(lun), raw.cmd_sn, raw.cmd_sn, cdb));
    raw.cmd_sn += 1;
    let data = vec![1; iscsi::pdu::BasicHeaderSegment::from_bytes(&header.to_bytes()).data_length() as usize];
    raw.send(header.to_bytes(), &data)
}

fn statuses(answers: &[Pdu]) -> Vec<u8> {
    answers.iter().filter_map(|answer| ScsiResponse::from_bytes(&answer.header).status()).collect()
}

/// What TEST UNIT READY finds; zeros when it is GOOD.
fn ready(raw: &mut Raw, lun: u16) -> (u8, u8, u8) {
    let answers = command(raw, lun, builder::test_unit_ready(), |command| command);
    if statuses(&answers) == [0] {
        return (0, 0, 0);
    }
    let sense = &answers[0].data[2..];
    (sense[2] & 15, sense[12], sense[13])
}

fn write(raw: &mut Raw, lun: u16) -> Vec<Pdu> {
    command(raw, lun, builder::write(Extent::new(0, 1), Durability::Cached), |command| {
        command.writing(512, 512)
    })
}

fn opcodes(pdus: &[Pdu]) -> Vec<Opcode> {
    pdus.iter().map(Pdu::opcode).collect()
}

fn text(keys: &[(&str, &str)]) -> Text {
    let mut text = Text::new();
    for (key, value) in keys {
        text.put(key, value);
    }
    text
}

#[test]
fn an_unchanged_target_yields_nothing_to_its_peer() {
    let mut raw = session(&[(0, 0), (1, 1)]);
    let same = Arc::clone(&Portal::new([node(&[(0, 0), (1, 1)])]).nodes[0]);
    // The session's own target first, of another `Arc` once, and then that one, beside targets that come and go.
    raw.memory.hold = true;
    assert_eq!(write(&mut raw, 1).len(), 0);
    for nodes in [
        vec![Arc::clone(&same)],
        vec![Arc::clone(&same), Arc::new(other())],
        vec![Arc::clone(&same)],
        // What the access rules open is the same.
        vec![Arc::new(rules(Node::clone(&same), Rule::default()))],
    ] {
        assert_eq!(change(&mut raw, Portal::new(nodes)).len(), 0);
        assert_eq!((raw.memory.cancelled.len(), raw.closed()), (0, None));
        assert_eq!(raw.half.connection.state(), State::LoggedIn);
    }
    assert_eq!(statuses(&raw.release()), [0], "what was under way goes on");
    assert_eq!((ready(&mut raw, 0), ready(&mut raw, 1)), ((0, 0, 0), (0, 0, 0)));
}

/// Nothing is sent by either side, whatever happens beside the session's target.
#[test]
fn our_initiator_sees_nothing_of_other_targets() {
    let mut bench = Bench::ready(config(), portal(2048));
    let own = Arc::clone(&portal(2048).nodes[0]);
    let moved = bench.moved;
    for nodes in [vec![Arc::new(other()), Arc::clone(&own)], vec![own]] {
        let input = Input::PortalChanged(Arc::new(Portal::new(nodes)));
        bench.pair.far.connection.handle_input(bench.pair.now, input);
        bench.run();
    }
    assert_eq!(bench.moved, moved);
    bench.write(0, vec![7; 512]).unwrap();
    assert_eq!(bench.read(0, 1), Ok(vec![7; 512]));
}

#[test]
fn our_initiator_logs_out_of_a_target_that_is_gone() {
    let mut bench = Bench::ready(config(), portal(2048));
    let input = Input::PortalChanged(Arc::new(serving(other())));
    bench.pair.far.connection.handle_input(bench.pair.now, input);
    bench.run();
    assert_eq!(bench.pair.far.connection.poll_close(), Some(CloseReason::Finished));
    assert!(bench.failed.is_some(), "it cannot go on");
}

/// How far a login is when the portal changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reached {
    /// Nothing has come.
    Nothing,
    /// The target is named, and the next request awaited.
    Named,
    /// The group of sessions is asked.
    Joining,
}

fn login(raw: &mut Raw, reached: Reached) {
    let names = text(&[("InitiatorName", INITIATOR), ("TargetName", TARGET)]);
    let request = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, raw.cmd_sn);
    match reached {
        Reached::Nothing => {}
        Reached::Named => assert_eq!(raw.login(request, &names), Ok(())),
        Reached::Joining => ask_to_join(raw, request.transit(Stage::FullFeature), &names),
    }
}

/// Sends the last request of a login, and leaves the group of sessions without an answer.
fn ask_to_join(raw: &mut Raw, request: LoginRequest, names: &Text) {
    let mut bytes = [&request.to_bytes()[..], names.bytes()].concat();
    bytes[7] = u8::try_from(names.bytes().len()).unwrap();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    raw.half.receive(raw.now, &bytes);
    let action = raw.half.connection.poll_action();
    assert!(matches!(action, Some(Action::Group(_))), "{action:?}");
}

/// Ends the login; its status.
fn finish(raw: &mut Raw, reached: Reached) -> u16 {
    let full = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, raw.cmd_sn)
        .transit(Stage::FullFeature);
    let names = [("InitiatorName", INITIATOR), ("TargetName", TARGET)];
    match reached {
        Reached::Nothing => raw.login(full, &text(&names)).err().unwrap_or(0),
        Reached::Named => raw.login(full, &text(&[])).err().unwrap_or(0),
        Reached::Joining => {
            raw.half.connection.handle_input(raw.now, Input::Group(Reply::Joined { tsih: 7 }));
            let answers = raw.settle();
            LoginResponse::from_bytes(&answers[0].header).status().0
        }
    }
}

#[test]
fn a_login_under_way_ends_at_what_is_there_then() {
    let (missing, denied) = (Status::NOT_FOUND.0, Status::AUTHORIZATION_FAILURE.0);
    let rows: [(&str, Portal, [u16; 3]); 5] = [
        ("the target is as it was", serving(node(&[(0, 0)])), [0, 0, 0]),
        ("it has another logical unit", serving(node(&[(5, 5)])), [0, 0, 0]),
        ("it is gone", serving(other()), [missing, missing, missing]),
        ("it is for others", serving(for_others(node(&[(0, 0)]))), [denied, denied, denied]),
        // Who has not proved anything by then, and can no longer, stays out.
        ("it asks for a proof", serving(guarded(node(&[(0, 0)]), "secret")), [0x0201, denied, denied]),
    ];
    for (what, portal, expected) in rows {
        for (reached, expected) in
            [Reached::Nothing, Reached::Named, Reached::Joining].into_iter().zip(expected)
        {
            let mut raw = Raw::new(serving(node(&[(0, 0)])));
            login(&mut raw, reached);
            let told = change(&mut raw, portal.clone());
            let status = match told.first() {
                Some(response) => {
                    assert_eq!(reached, Reached::Joining, "{what}: only who waits for an answer gets one");
                    let status = LoginResponse::from_bytes(&response.header).status().0;
                    raw.half.connection.handle_input(raw.now, Input::Group(Reply::Joined { tsih: 7 }));
                    assert_eq!(raw.settle().len(), 0, "{what}: a login that has failed does not succeed");
                    assert!(!raw.half.connection.is_established(), "{what}");
                    status
                }
                None => finish(&mut raw, reached),
            };
            assert_eq!(status, expected, "{what}, {reached:?}");
            assert_eq!(
                matches!(raw.closed(), Some(CloseReason::Refused(_))),
                expected != 0,
                "{what}, {reached:?}"
            );
            if expected == 0 {
                let lun = portal.nodes[0].device.units[0].lun;
                assert_eq!(ready(&mut raw, lun), (6, 0x29, 0), "{what}, {reached:?}: it sees what is there");
            }
        }
    }
}

/// The target of a login comes back before the next request: nobody need know.
#[test]
fn a_target_that_comes_back_lets_the_login_go_on() {
    let mut raw = Raw::new(serving(node(&[(0, 0)])));
    login(&mut raw, Reached::Named);
    assert_eq!(change(&mut raw, serving(other())).len(), 0);
    assert_eq!(change(&mut raw, serving(node(&[(0, 0)]))).len(), 0);
    assert_eq!(finish(&mut raw, Reached::Named), 0);
}

#[test]
fn an_agreement_to_prove_nothing_holds_no_longer_than_the_rules() {
    let mut raw = Raw::new(serving(node(&[(0, 0)])));
    let request = LoginRequest::new(Stage::Security, LoginIdentity::new_session(ISID), 0, 1);
    let keys = [("InitiatorName", INITIATOR), ("TargetName", TARGET), ("AuthMethod", "None")];
    assert_eq!(raw.login(request, &text(&keys)), Ok(()));
    change(&mut raw, serving(guarded(node(&[(0, 0)]), "secret")));
    let status = raw.login(request.transit(Stage::FullFeature), &text(&[]));
    assert_eq!(status, Err(Status::AUTHORIZATION_FAILURE.0));
}

/// A login from the security stage to the full feature phase at once, in which nothing is said about a proof.
#[test]
fn a_login_that_proves_nothing_at_all_does_not_outlast_the_rules_that_let_it_in() {
    // A rule that asks for no proof counts only with the one that does.
    let rules = [Rule::default(), Rule { chap: Some(chap("secret")), ..Rule::default() }];
    let guarded = || serving(Node { access: Access::Rules(rules.to_vec()), ..node(&[(0, 0)]) });
    let names = text(&[("InitiatorName", INITIATOR), ("TargetName", TARGET)]);
    let request = LoginRequest::new(Stage::Security, LoginIdentity::new_session(ISID), 0, 1);
    let request = request.transit(Stage::FullFeature);
    let mut raw = Raw::new(serving(node(&[(0, 0)])));
    assert_eq!(raw.login(request, &names), Ok(()));
    assert_eq!(opcodes(&change(&mut raw, guarded())), [Opcode::ASYNC_MESSAGE]);
    // The same while the group of sessions is asked.
    let mut raw = Raw::new(serving(node(&[(0, 0)])));
    ask_to_join(&mut raw, request, &names);
    let told = change(&mut raw, guarded());
    assert_eq!(LoginResponse::from_bytes(&told[0].header).status(), Status::AUTHORIZATION_FAILURE);
}

/// Answers the target's challenge as Alice.
fn prove(raw: &mut Raw, secret: &str) -> u16 {
    let request = LoginRequest::new(Stage::Security, LoginIdentity::new_session(ISID), 0, 1);
    let keys = [("InitiatorName", INITIATOR), ("TargetName", TARGET), ("AuthMethod", "CHAP")];
    raw.send(request.to_bytes(), text(&keys).bytes());
    let answers = raw.send(request.to_bytes(), text(&[("CHAP_A", "7")]).bytes());
    let told = String::from_utf8(answers[0].data.clone()).unwrap();
    let value = |key: &str| {
        let pair = told.split('\0').find(|pair| pair.starts_with(key)).unwrap();
        pair.split_once('=').unwrap().1.to_string()
    };
    let challenge = iscsi::chap::decode(&value("CHAP_C")).unwrap();
    let response =
        Algorithm::Sha256.respond(value("CHAP_I").parse().unwrap(), &Secret::new(secret), &challenge);
    let keys = [("CHAP_N", "alice"), ("CHAP_R", &iscsi::chap::encode(&response))];
    raw.login(request.transit(Stage::FullFeature), &text(&keys)).err().unwrap_or(0)
}

#[test]
fn a_session_whose_target_is_gone_or_closed_to_it_is_asked_to_log_out() {
    let units: &[(u16, u16)] = &[(0, 0), (1, 1)];
    let rows: [(&str, Portal, CloseReason); 7] = [
        ("the target is gone", serving(other()), GONE),
        ("the portal is empty", Portal::new(Vec::<Node>::new()), GONE),
        ("it is another port", serving(Node { portal_group: 2, ..node(units) }), GONE),
        ("no rule names the initiator", serving(for_others(node(units))), NOT_OPEN),
        ("the rules ask for a proof", serving(guarded(node(units), "secret")), NOT_OPEN),
        (
            "the rules open another number",
            serving(rules(node(units), Rule { luns: Some(vec![7]), ..Rule::default() })),
            NOT_OPEN,
        ),
        ("nobody may", serving(Node { access: Access::Rules(Vec::new()), ..node(units) }), NOT_OPEN),
    ];
    for (what, portal, reason) in rows {
        for logs_out in [false, true] {
            let mut raw = session(units);
            raw.memory.hold = true;
            assert_eq!(write(&mut raw, 1).len(), 0);
            let told = change(&mut raw, portal.clone());
            assert_eq!(opcodes(&told), [Opcode::ASYNC_MESSAGE], "{what}");
            let event = AsyncMessage::from_bytes(&told[0].header).event();
            assert_eq!(event, AsyncEvent::LOGOUT_REQUESTED, "{what}");
            // Its initiator ends what it has begun, and flushes.
            assert_eq!(statuses(&raw.release()), [0], "{what}");
            assert_eq!(
                statuses(&command(&mut raw, 0, builder::synchronize_cache(), |command| command)),
                [0],
                "{what}"
            );
            assert!(raw.half.connection.uses(id(1)), "{what}");
            // Another change in the meantime is nothing to it, even back to what was.
            assert_eq!(change(&mut raw, serving(node(units))).len(), 0, "{what}");
            assert_eq!(change(&mut raw, Portal::new(Vec::<Node>::new())).len(), 0, "{what}");
            assert_eq!((ready(&mut raw, 1), raw.closed()), ((0, 0, 0), None), "{what}");
            let reason = if logs_out {
                let request = LogoutRequest::new(LogoutReason::CLOSE_SESSION, 0, 900);
                assert_eq!(opcodes(&raw.send(request.to_bytes(), &[])), [Opcode::LOGOUT_RESPONSE], "{what}");
                CloseReason::Finished
            } else {
                let due = raw.half.connection.poll_timeout().unwrap();
                assert_eq!(due, raw.now + LOGOUT_TIME, "{what}");
                raw.half.connection.handle_timeout(due);
                reason
            };
            assert_eq!(raw.closed(), Some(reason), "{what}");
            assert!(!raw.half.connection.uses(id(1)), "{what}");
        }
    }
}

#[test]
fn a_proof_counts_as_long_as_its_account_is_the_same() {
    let units: &[(u16, u16)] = &[(0, 0)];
    for (secret, reason) in [("secret", None), ("another", Some(NOT_OPEN))] {
        let mut raw = Raw::new(serving(guarded(node(units), "secret")));
        assert_eq!(prove(&mut raw, "secret"), 0);
        change(&mut raw, serving(guarded(node(units), secret)));
        raw.now = raw.now + LOGOUT_TIME;
        raw.half.connection.handle_timeout(raw.now);
        assert_eq!(raw.closed(), reason, "{secret}");
    }
    // And rules that ask for less than was proved open what they open.
    let mut raw = Raw::new(serving(guarded(node(units), "secret")));
    assert_eq!(prove(&mut raw, "secret"), 0);
    assert_eq!(change(&mut raw, serving(node(units))).len(), 0);
    assert_eq!(raw.half.connection.state(), State::LoggedIn);
}

/// Every state in which a connection is about to end: nothing more happens for a change, whatever it is.
#[test]
fn a_connection_that_is_about_to_end_takes_no_notice() {
    for state in [State::LogoutRequested, State::InLogout, State::Closing, State::Free] {
        let mut raw = session(&[(0, 0), (1, 1)]);
        raw.memory.hold = true;
        write(&mut raw, 0);
        match state {
            State::LogoutRequested => raw.half.connection.handle_input(raw.now, Input::Shutdown),
            State::InLogout => {
                let request = LogoutRequest::new(LogoutReason::CLOSE_SESSION, 0, 900);
                raw.half.receive(raw.now, &request.to_bytes());
            }
            State::Closing => raw.half.connection.handle_input(raw.now, Input::Group(Reply::Displaced)),
            _ => raw.half.end(raw.now, protocol::Ended::ByPeer),
        }
        raw.settle();
        assert_eq!(raw.half.connection.state(), state);
        let (due, cancelled) = (raw.half.connection.poll_timeout(), raw.memory.cancelled.len());
        for portal in [serving(node(&[(1, 1)])), serving(other())] {
            assert_eq!(change(&mut raw, portal).len(), 0, "{state:?}");
            assert_eq!(raw.half.connection.state(), state);
            assert_eq!(raw.half.connection.poll_timeout(), due, "{state:?}");
            assert_eq!(raw.memory.cancelled.len(), cancelled, "{state:?}");
        }
        if state == State::LogoutRequested {
            raw.half.connection.handle_timeout(raw.now + DRAIN_TIME);
            assert_eq!(raw.closed(), Some(CloseReason::ShuttingDown), "for the reason that came first");
        }
    }
}

/// The names that a discovery session is told.
fn targets(raw: &mut Raw) -> Vec<String> {
    let answers = raw.send(TextRequest::new(7, RESERVED_TAG).to_bytes(), b"SendTargets=All\0");
    let text = String::from_utf8(answers[0].data.clone()).unwrap();
    text.split('\0').filter_map(|pair| pair.strip_prefix("TargetName=")).map(str::to_owned).collect()
}

fn discovery(portal: Portal) -> Raw {
    let mut raw = Raw::new(portal);
    let request = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, 1)
        .transit(Stage::FullFeature);
    assert_eq!(
        raw.login(request, &text(&[("InitiatorName", INITIATOR), ("SessionType", "Discovery")])),
        Ok(())
    );
    raw
}

#[test]
fn a_discovery_session_finds_what_is_there() {
    let mut raw = discovery(serving(node(&[(0, 0)])));
    assert_eq!(targets(&mut raw), [TARGET]);
    for (portal, expected) in [
        (Portal::new([other(), node(&[(0, 0)])]), &[TARGET, OTHER][..]),
        (serving(other()), &[OTHER]),
        (serving(for_others(node(&[(0, 0)]))), &[]),
        (Portal::new(Vec::<Node>::new()), &[]),
    ] {
        assert_eq!(change(&mut raw, portal).len(), 0);
        assert_eq!(targets(&mut raw), expected);
    }
    assert_eq!(raw.closed(), None);
    let guarded = Portal { discovery: Some(chap("secret")), ..serving(node(&[(0, 0)])) };
    assert_eq!(opcodes(&change(&mut raw, guarded)), [Opcode::ASYNC_MESSAGE], "it has proved nothing");
}

#[test]
fn logical_units_come_and_go_under_a_session() {
    let mut raw = session(&[(0, 0), (1, 1)]);
    assert_eq!(change(&mut raw, serving(node(&[(0, 0), (2, 2)]))).len(), 0, "nothing is sent unasked");
    assert_eq!(ready(&mut raw, 1), NOT_SUPPORTED);
    assert_eq!(ready(&mut raw, 0), REPORTED_LUNS_CHANGED);
    assert_eq!((ready(&mut raw, 2), ready(&mut raw, 2)), ((6, 0x29, 0), REPORTED_LUNS_CHANGED));
    let uses = |raw: &Raw| [0, 1, 2].map(|slot| raw.half.connection.uses(id(slot)));
    assert_eq!(uses(&raw), [true, false, true]);
    // The epoch of the volume that has come is told behind the change; the one that went is nothing to anybody.
    for (slot, epoch) in [(2, Epoch(5)), (1, Epoch(6))] {
        raw.half.connection.handle_input(raw.now, Input::Fence { volume: id(slot), epoch, event: None });
    }
    raw.submitted.clear();
    assert_eq!((statuses(&write(&mut raw, 2)), statuses(&write(&mut raw, 0))), (vec![0], vec![0]));
    assert_eq!(raw.submitted, [(id(2), Epoch(5)), (id(0), Epoch(0))]);
    // A rule that opens less is like a target that has less.
    let narrow = rules(node(&[(0, 0), (2, 2)]), Rule { luns: Some(vec![2]), ..Rule::default() });
    assert_eq!(change(&mut raw, serving(narrow)).len(), 0);
    assert_eq!((ready(&mut raw, 0), ready(&mut raw, 2)), (NOT_SUPPORTED, REPORTED_LUNS_CHANGED));
    assert_eq!(uses(&raw), [false, false, true]);
}

/// What a command of LUN 1 waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    ForTheVolume,
    ForData,
    ForTheRestOfAPdu,
    ForABuffer,
    InTheStream,
    ForTheReservations,
}

/// A command that waits, and what is needed to go on.
struct Waiting {
    /// All memory, where there is none for the command.
    hostage: Vec<buf::Buf>,
    /// What comes for it when it is too late.
    late: Vec<u8>,
}

/// Begins a command of LUN 1 that waits.
fn begin(raw: &mut Raw, pool: &Pool, waits: Waits) -> Waiting {
    let mut waiting = Waiting { hostage: Vec::new(), late: Vec::new() };
    if matches!(waits, Waits::ForABuffer | Waits::InTheStream) {
        waiting.hostage = std::iter::from_fn(|| pool.take(512)).collect();
    }
    let tag = raw.cmd_sn;
    let long = |blocks| builder::write(Extent::new(0, blocks), Durability::Cached);
    let answers = match waits {
        Waits::ForTheVolume => write(raw, 1),
        Waits::ForData => {
            let answers = command(raw, 1, long(128), |command| command.writing(65_536, 0));
            let tags =
                TaskTags { initiator: tag, target: R2t::from_bytes(&answers[0].header).transfer_tag() };
            let data = DataOut::new(scsi::encode_lun(1), tags, 0, DataRange { offset: 0, length: 512 });
            waiting.late = [&data.to_bytes()[..], &[1; 512]].concat();
            waiting.late[6] = 2;
            Vec::new()
        }
        Waits::ForTheRestOfAPdu => {
            let header = ScsiCommand::new(scsi::encode_lun(1), tag, tag, long(128)).writing(65_536, 65_536);
            raw.cmd_sn += 1;
            let mut bytes = [header.to_bytes().to_vec(), vec![1; 65_536]].concat();
            waiting.late = bytes.split_off(20_000);
            raw.send_bytes(&bytes)
        }
        Waits::ForABuffer => command(raw, 1, long(2048), |command| command.writing(1 << 20, 0)),
        Waits::InTheStream => command(raw, 1, long(8), |command| command.writing(4096, 4096)),
        Waits::ForTheReservations => {
            let mut cdb = [0; 16];
            (cdb[0], cdb[8]) = (0x5f, 24);
            let register = ScsiCommand::new(scsi::encode_lun(1), tag, tag, cdb).writing(24, 24);
            raw.cmd_sn += 1;
            raw.send(register.to_bytes(), &[0; 24])
        }
    };
    assert_eq!(answers.len(), 0, "{waits:?}");
    assert_eq!(raw.reserves.len(), usize::from(waits == Waits::ForTheReservations), "{waits:?}");
    assert_eq!(raw.half.connection.wants_bytes(), waits != Waits::InTheStream, "{waits:?}");
    assert_eq!(raw.half.connection.outstanding(), 1, "{waits:?}");
    waiting
}

#[test]
fn commands_of_a_unit_that_goes_end_with_task_aborted_and_hold_nothing() {
    use Waits::{ForABuffer, ForData, ForTheReservations, ForTheRestOfAPdu, ForTheVolume, InTheStream};
    for waits in [ForTheVolume, ForData, ForTheRestOfAPdu, ForABuffer, InTheStream, ForTheReservations] {
        for after in [&[(0, 0)][..], &[(0, 0), (1, 7)]] {
            let pool = Pool::new(64 << 20);
            let mut raw = session_at(serving(node(&[(0, 0), (1, 1)])), &pool);
            let before = pool.used();
            raw.memory.hold = true;
            let Waiting { hostage, late } = begin(&mut raw, &pool, waits);
            let mut answers = change(&mut raw, serving(node(after)));
            let is_inside = matches!(waits, ForTheVolume | ForTheReservations);
            assert_eq!(statuses(&answers).is_empty(), is_inside, "{waits:?}: it ends when its request has");
            assert_eq!(raw.memory.cancelled.len(), usize::from(waits == ForTheVolume), "{waits:?}");
            assert_eq!(raw.half.connection.uses(id(1)), waits == ForTheVolume, "{waits:?}");
            if waits == ForTheVolume {
                answers.extend(raw.release());
            }
            if let Some(tag) = raw.reserves.pop() {
                raw.half.connection.handle_input(raw.now, Input::Reserved { tag, result: Ok(()) });
                answers.extend(raw.settle());
            }
            assert_eq!(statuses(&answers), [TASK_ABORTED], "{waits:?}");
            drop(hostage);
            assert_eq!(raw.send_bytes(&late).len(), 0, "{waits:?}: what comes for it is passed over");
            assert_eq!(raw.send(NopOut::ping(5).to_bytes(), b"there?").len(), 1, "{waits:?}");
            assert_eq!((raw.half.connection.outstanding(), raw.closed()), (0, None), "{waits:?}");
            assert!(!raw.half.connection.uses(id(1)), "{waits:?}");
            assert_eq!(pool.used(), before, "{waits:?}: all memory has come back");
            assert!(!Account::new(&pool).is_wanted(), "{waits:?}: it waits for none");
            let expected = if after.len() == 1 { NOT_SUPPORTED } else { (6, 0x29, 0) };
            assert_eq!(ready(&mut raw, 1), expected, "{waits:?}");
        }
    }
}

#[test]
fn commands_of_the_other_units_go_on() {
    let mut raw = session(&[(0, 0), (1, 1), (2, 2)]);
    raw.memory.hold = true;
    for lun in [0, 1, 2] {
        assert_eq!(write(&mut raw, lun).len(), 0);
    }
    let data = command(&mut raw, 2, builder::write(Extent::new(0, 8), Durability::Cached), |command| {
        command.writing(4096, 0)
    });
    assert_eq!(opcodes(&data), [Opcode::R2T]);
    assert_eq!(change(&mut raw, serving(node(&[(0, 0), (2, 2)]))).len(), 0);
    assert_eq!(raw.memory.cancelled.len(), 1);
    let mut ended = statuses(&raw.release());
    ended.sort_unstable();
    assert_eq!(ended, [0, 0, TASK_ABORTED]);
    assert_eq!(raw.half.connection.outstanding(), 1, "the one that waits for its data");
}

/// A request that a fence or the end of a volume's queue gives back belongs to a task that is aborted already: it is not judged again.
#[test]
fn a_request_that_comes_back_after_the_change_is_not_tried_again() {
    let mut raw = session(&[(0, 0), (1, 1)]);
    raw.memory.hold = true;
    write(&mut raw, 1);
    change(&mut raw, serving(node(&[(0, 0)])));
    raw.submitted.clear();
    let request = raw.memory.held.remove(0);
    assert!(matches!(request.operation, Operation::Write { .. }));
    raw.half.connection.handle_input(raw.now, Input::StaleEpoch(Box::new(request)));
    assert_eq!((statuses(&raw.settle()), raw.submitted.len()), (vec![TASK_ABORTED], 0));
}

/// A reset of the volume by another nexus concerns the unit that is on it now, not the one that was.
#[test]
fn events_of_a_volume_concern_the_unit_that_is_on_it() {
    let mut raw = session(&[(0, 0), (1, 1)]);
    change(&mut raw, serving(node(&[(0, 1), (1, 0)])));
    for lun in [0, 1] {
        assert_eq!((ready(&mut raw, lun), ready(&mut raw, lun)), ((6, 0x29, 0), REPORTED_LUNS_CHANGED));
    }
    raw.memory.hold = true;
    write(&mut raw, 0);
    write(&mut raw, 1);
    let event = Input::Event { volume: id(1), event: NexusEvent::LogicalUnitReset };
    raw.half.connection.handle_input(raw.now, event);
    raw.settle();
    let mut ended = statuses(&raw.release());
    ended.sort_unstable();
    assert_eq!(ended, [0, TASK_ABORTED]);
    assert_eq!((ready(&mut raw, 0), ready(&mut raw, 1)), ((6, 0x29, 3), (0, 0, 0)));
}
