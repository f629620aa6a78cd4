//! The login phase from both ends: CHAP, access, statuses, discovery, reinstatement.

mod common;

use std::sync::Arc;
use std::time::Duration;

use buf::Pool;
use common::raw::Raw;
use common::{Bench, INITIATOR, ISID, TARGET, config, portal};
use iscsi::chap::{Algorithm, Credentials, Secret};
use iscsi::datamover::tcp;
use iscsi::initiator;
use iscsi::pdu::{LoginIdentity, LoginRequest, LoginResponse, NopOut, Opcode, Stage};
use iscsi::session::Reply;
use iscsi::target::{Access, Chap, Input, Node, Portal, Rule};
use iscsi::text::Text;
use protocol::{CloseReason, Connection, Instant, SeededEntropy};

fn credentials(user: &str, secret: &str) -> Credentials {
    Credentials { user: user.into(), secret: Secret::new(secret) }
}

fn guarded(algorithms: Vec<Algorithm>) -> Portal {
    let mut portal = portal(256);
    let chap = Chap {
        initiator: credentials("alice", "a secret of alice"),
        target: Some(credentials("disk", "a secret of the disk")),
        algorithms,
    };
    Arc::make_mut(&mut portal.nodes[0]).access =
        Access::Rules(vec![Rule { chap: Some(chap), ..Rule::default() }]);
    portal
}

#[test]
fn chap_with_every_hash_one_way_and_mutual() {
    for algorithm in Algorithm::ALL {
        for mutual in [false, true] {
            for chunk in [1, usize::MAX] {
                let mut config = config();
                config.chap = Some(credentials("alice", "a secret of alice"));
                config.mutual = mutual.then(|| credentials("disk", "a secret of the disk"));
                let mut bench = Bench::new(config, guarded(vec![algorithm]));
                bench.pair.chunk = chunk;
                bench.run();
                assert_eq!(bench.failed, None, "{algorithm:?}");
                assert!(bench.unit.is_some());
            }
        }
    }
}

#[test]
fn whoever_cannot_prove_who_he_is_stays_out() {
    let right = || Some(credentials("alice", "a secret of alice"));
    for (chap, mutual, reason) in [
        (None, None, "authentication failed"),
        (Some(credentials("alice", "another secret")), None, "with the CHAP account \"alice\""),
        (Some(credentials("bob", "a secret of alice")), None, "with the CHAP account \"bob\""),
        (right(), Some(credentials("disk", "another secret")), "the target could not prove who it is"),
        (right(), Some(credentials("tape", "a secret of the disk")), "is not the CHAP account \"tape\""),
    ] {
        let mut config = config();
        let (who, whom) = (config.initiator.to_string(), config.target.as_ref().unwrap().to_string());
        (config.chap, config.mutual) = (chap, mutual);
        let mut bench = Bench::new(config, guarded(Algorithm::ALL.to_vec()));
        bench.run();
        assert!(bench.unit.is_none());
        let failed = bench.failed.unwrap();
        assert!(failed.contains(reason), "{failed}");
        assert!(failed.contains(&whom), "{failed} does not name the target");
        assert!(failed.contains(&who) || !failed.contains("refused"), "{failed} does not name the initiator");
    }
}

#[test]
fn no_common_hash_is_no_login() {
    let mut config = config();
    config.chap = Some(credentials("alice", "a secret of alice"));
    config.algorithms = vec![Algorithm::Md5];
    let mut bench = Bench::new(config, guarded(vec![Algorithm::Sha256]));
    bench.run();
    assert!(bench.failed.unwrap().contains("authentication failed"));
    assert_eq!(
        bench.pair.far.connection.poll_close(),
        Some(CloseReason::Refused("no common authentication method"))
    );
}

/// Logs in half-way and sends the target's own challenge back to it.
#[test]
fn a_reflected_challenge_is_refused() {
    let mut raw = Raw::new(guarded(Algorithm::ALL.to_vec()));
    let request = LoginRequest::new(Stage::Security, LoginIdentity::new_session(ISID), 0, 1);
    let mut text = Text::new();
    text.put("InitiatorName", INITIATOR);
    text.put("TargetName", TARGET);
    text.put("AuthMethod", "CHAP");
    raw.send(request.to_bytes(), text.bytes());
    let mut text = Text::new();
    text.put("CHAP_A", "7");
    let answers = raw.send(request.to_bytes(), text.bytes());
    let challenge = String::from_utf8(answers[0].data.clone()).unwrap();
    let value = |key: &str| {
        let pair = challenge.split('\0').find(|pair| pair.starts_with(key)).unwrap();
        pair.split_once('=').unwrap().1.to_string()
    };
    let identifier = value("CHAP_I").parse().unwrap();
    let bytes = iscsi::chap::decode(&value("CHAP_C")).unwrap();
    let response = Algorithm::Sha256.respond(identifier, &Secret::new("a secret of alice"), &bytes);
    let mut text = Text::new();
    text.put("CHAP_N", "alice");
    text.put("CHAP_R", &iscsi::chap::encode(&response));
    text.put("CHAP_I", &value("CHAP_I"));
    text.put("CHAP_C", &value("CHAP_C"));
    let answers = raw.send(request.to_bytes(), text.bytes());
    assert_eq!(LoginResponse::from_bytes(&answers[0].header).status().0, 0x0201);
    assert_eq!(raw.closed(), Some(CloseReason::Refused("a reflected CHAP challenge")));
}

fn first(keys: &[(&str, &str)]) -> Result<(), u16> {
    let mut raw = Raw::new(portal(256));
    let mut text = Text::new();
    for (key, value) in keys {
        text.put(key, value);
    }
    let request = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, 1)
        .transit(Stage::FullFeature);
    let result = raw.login(request, &text);
    assert_eq!(raw.closed().is_some(), result.is_err());
    result
}

#[test]
fn statuses_of_failed_logins() {
    let name = ("InitiatorName", INITIATOR);
    let target = ("TargetName", TARGET);
    for (keys, status) in [
        (vec![name, target], Ok(())),
        (vec![target], Err(0x0207)),
        (vec![name], Err(0x0207)),
        (vec![("InitiatorName", "nobody"), target], Err(0x0207)),
        (vec![name, ("TargetName", "iqn.2026-11.org.linerate:other")], Err(0x0203)),
        (vec![name, ("TargetName", "?")], Err(0x0203)),
        (vec![name, target, ("SessionType", "Casual")], Err(0x0209)),
        (vec![name, target, name], Err(0x0200)),
        (vec![name, ("SessionType", "Discovery")], Ok(())),
    ] {
        assert_eq!(first(&keys), status, "{keys:?}");
    }
}

/// RFC 7143 §13.12: MaxRecvDataSegmentLength is declared in the operational negotiation, once.
#[test]
fn what_is_received_is_declared_once_and_not_while_they_authenticate() {
    let mut raw = Raw::new(portal(64));
    let mut text = Text::new();
    text.put("InitiatorName", INITIATOR);
    text.put("TargetName", TARGET);
    text.put("AuthMethod", "None");
    let says = |answers: &[common::raw::Pdu]| {
        let said = String::from_utf8(answers.iter().flat_map(|pdu| pdu.data.clone()).collect()).unwrap();
        said.matches("MaxRecvDataSegmentLength=").count()
    };
    let security = LoginRequest::new(Stage::Security, LoginIdentity::new_session(ISID), 0, 1)
        .transit(Stage::Operational);
    assert_eq!(
        says(&raw.send(security.to_bytes(), text.bytes())),
        0,
        "an operational key in the security negotiation"
    );
    let mut text = Text::new();
    text.put("MaxBurstLength", "65536");
    let operational = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, 1);
    assert_eq!(says(&raw.send(operational.to_bytes(), text.bytes())), 1);
    assert_eq!(
        says(&raw.send(operational.transit(Stage::FullFeature).to_bytes(), &[])),
        0,
        "it is said again"
    );
}

#[test]
fn headers_that_make_no_sense() {
    let text = {
        let mut text = Text::new();
        text.put("InitiatorName", INITIATOR);
        text.put("TargetName", TARGET);
        text
    };
    let request = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, 1)
        .transit(Stage::FullFeature);
    let changed = |at: usize, value: u8| {
        let mut bytes = request.to_bytes();
        bytes[at] = value;
        LoginRequest::from_bytes(&bytes)
    };
    for (bad, status) in [
        (changed(3, 1), 0x0205),    // version
        (changed(1, 0x8f), 0x0200), // in the full feature phase already
        (changed(1, 0x84), 0x0200), // back to security
        (changed(1, 0xc7), 0x0200), // transit and continue
        (changed(15, 9), 0x020a),   // an unknown session
    ] {
        assert_eq!(Raw::new(portal(256)).login(bad, &text), Err(status), "{:x?}", bad.to_bytes());
    }
}

#[test]
fn text_may_come_in_pieces() {
    let mut raw = Raw::new(portal(256));
    let mut part = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, 1).to_bytes();
    part[1] |= 0x40;
    for piece in [&b"InitiatorName=iqn.2026-11.org.lin"[..], b"erate:tester\0Target", b"Name="] {
        let answers = raw.send(part, piece);
        assert!(answers[0].data.is_empty());
    }
    let last = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, 1)
        .transit(Stage::FullFeature);
    let answers = raw.send(last.to_bytes(), b"iqn.2026-11.org.linerate:disk\0");
    assert_eq!(LoginResponse::from_bytes(&answers[0].header).transition(), Some(Stage::FullFeature));
}

#[test]
fn endless_logins_end() {
    let mut raw = Raw::new(portal(256));
    let mut part = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, 1).to_bytes();
    part[1] |= 0x40;
    let status = (0..9).find_map(|_| {
        let answers = raw.send(part, &[b'x'; 8192]);
        Some(LoginResponse::from_bytes(&answers.first()?.header).status().0).filter(|status| *status != 0)
    });
    assert_eq!(status, Some(0x0302), "more text than the limit");
    let mut raw = Raw::new(portal(256));
    let asked = (0..100)
        .take_while(|_| {
            raw.send(part, b"");
            raw.closed().is_none()
        })
        .count();
    assert_eq!(asked, 64, "more requests than the limit");
    let mut raw = Raw::new(portal(256));
    raw.now = raw.half.connection.poll_timeout().unwrap();
    raw.half.connection.handle_timeout(raw.now);
    assert!(matches!(raw.closed(), Some(CloseReason::TimedOut(_))));
}

#[test]
fn what_is_no_login_is_not_answered() {
    let mut raw = Raw::new(portal(256));
    assert!(raw.send(NopOut::ping(1).to_bytes(), b"").is_empty());
    assert_eq!(raw.closed(), Some(CloseReason::Violation("the first PDU is not a login request")));
}

#[test]
fn access_is_by_name() {
    let mut portal = portal(256);
    let friend = vec!["iqn.2026-11.org.linerate:friend".parse().unwrap()];
    Arc::make_mut(&mut portal.nodes[0]).access =
        Access::Rules(vec![Rule { initiators: Some(friend), ..Rule::default() }]);
    let mut bench = Bench::new(config(), portal.clone());
    bench.run();
    assert!(bench.failed.unwrap().contains("may not log in"));
    let mut config = config();
    config.initiator = "iqn.2026-11.org.linerate:friend".parse().unwrap();
    Bench::ready(config, portal);
}

#[test]
fn discovery_finds_what_may_be_seen() {
    let mut portal = portal(256);
    let mut nodes = portal.nodes.clone();
    let device = nodes[0].device.clone();
    for number in 0..300 {
        let hidden = number % 3 == 0;
        let access = if hidden { Access::Rules(Vec::new()) } else { Access::Open };
        nodes.push(Arc::new(Node {
            name: format!("iqn.2026-11.org.linerate:disk-with-a-long-name-{number}").parse().unwrap(),
            alias: String::new(),
            device: device.clone(),
            portal_group: 2,
            access,
        }));
    }
    portal.nodes = Portal::new(nodes).nodes;
    portal.addresses = vec!["192.0.2.1:3260".parse().unwrap(), "[2001:db8::1]:3261".parse().unwrap()];
    let mut config = config();
    config.target = None;
    let mut bench = Bench::new(config, portal);
    bench.run();
    let found = bench.discovered.expect("targets");
    assert_eq!(found.len(), 201, "more than one response holds, and without the hidden ones");
    assert_eq!(found[0].name, TARGET);
    assert_eq!(found[200].addresses, ["192.0.2.1:3260,2", "[2001:db8::1]:3261,2"]);
    assert_eq!(bench.failed.as_deref(), Some("logged out"));
}

#[test]
fn a_displaced_session_ends_at_once() {
    let mut bench = Bench::ready(config(), portal(256));
    bench.memory.hold = true;
    bench.submit(1, volume::Operation::Flush);
    bench.run();
    bench.tell_group(Reply::Displaced);
    bench.run();
    assert_eq!(bench.pair.far.connection.poll_close(), Some(CloseReason::Finished));
    assert_eq!(bench.memory.cancelled.len(), 1, "what the volume has is cancelled");
    bench.release();
    assert_eq!(bench.pair.far.connection.outstanding(), 0, "the group may admit the reinstating login");
}

#[test]
fn nothing_is_read_while_the_group_decides() {
    let portal = Arc::new(portal(256));
    let pool = buf::Pool::new(1 << 20);
    let connection = tcp::TargetConnection::new(protocol::Instant::ZERO, portal, common::resources(&pool));
    let mut half = protocol::pair::Half::new(connection);
    let mut text = Text::new();
    text.put("InitiatorName", INITIATOR);
    text.put("TargetName", TARGET);
    let request = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, 1)
        .transit(Stage::FullFeature);
    let mut bytes = request.to_bytes().to_vec();
    bytes[6..8].copy_from_slice(&u16::try_from(text.bytes().len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(text.bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend_from_slice(&NopOut::ping(3).to_bytes());
    half.receive(protocol::Instant::ZERO, &bytes);
    assert_eq!(half.staged(), 48, "the ping waits");
    half.connection.handle_input(protocol::Instant::ZERO, Input::Group(Reply::Joined { tsih: 7 }));
    half.receive(protocol::Instant::ZERO, &[]);
    let sent = half.transmit(protocol::Instant::ZERO);
    let opcode = |at: usize| Opcode(sent[at] & 0x3f);
    assert_eq!(opcode(0), Opcode::LOGIN_RESPONSE);
    assert_eq!(opcode(sent.len() - 48), Opcode::NOP_IN);
}

#[test]
fn a_login_takes_no_longer_than_a_command_may() {
    for (patience, seconds) in [(2, 2), (30, 15)] {
        let mut config = config();
        config.command_time = Duration::from_secs(patience);
        let (pool, entropy) = (Pool::new(1 << 20), Box::new(SeededEntropy::new(1)));
        let mut connection = tcp::InitiatorConnection::new(Instant::ZERO, config, pool, entropy);
        let due = connection.poll_timeout().unwrap();
        assert_eq!(due, Instant::ZERO + Duration::from_secs(seconds));
        connection.handle_timeout(due);
        let told = std::iter::from_fn(|| connection.poll_action());
        let reasons: Vec<String> = told
            .filter_map(|action| match action {
                initiator::Action::Failed { reason } => Some(reason),
                _ => None,
            })
            .collect();
        assert_eq!(reasons, ["the login timed out: check that an iSCSI target listens there"]);
    }
}
