//! Who gets in, and what it then sees: several accounts, what an initiator leaves out, required digests, logical units of others.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use common::raw::Raw;
use common::{Bench, INITIATOR, ISID, TARGET, config, portal};
use iscsi::chap::{Algorithm, Credentials, Secret};
use iscsi::keys::DigestPolicy;
use iscsi::pdu::{Bhs, LoginIdentity, LoginRequest, LoginResponse, Stage};
use iscsi::target::{Access, Chap, Portal, Rule};
use iscsi::text::Text;
use protocol::CloseReason;
use scsi::TargetDevice;
use volume::VolumeId;

const ALICE: &str = "iqn.2026-11.test:alice";
const BOB: &str = "iqn.2026-11.test:bob";

fn credentials(user: &str) -> Credentials {
    Credentials { user: user.into(), secret: Secret::new(format!("a secret of {user}")) }
}

fn chap(user: &str) -> Chap {
    let (initiator, target) = (credentials(user), Some(credentials("disk")));
    Chap { initiator, target, algorithms: Algorithm::ALL.to_vec() }
}

fn rule(initiator: &str, user: &str, lun: u16) -> Rule {
    Rule { initiators: Some(vec![initiator.parse().unwrap()]), chap: Some(chap(user)), luns: Some(vec![lun]) }
}

/// Alice has LUN 0, Bob LUN 1, each by an account of its own.
fn shared() -> Portal {
    let mut portal = portal(256);
    let node = Arc::make_mut(&mut portal.nodes[0]);
    let mut units = node.device.units.clone();
    units.push(units[0].clone());
    (units[1].lun, units[1].volume) = (1, VolumeId::new(1, 0));
    node.device = Arc::new(TargetDevice { units, ..TargetDevice::clone(&node.device) });
    node.access = Access::Rules(vec![rule(ALICE, "alice", 0), rule(BOB, "bob", 1)]);
    portal
}

/// A portal whose target has one rule for everybody, with Alice's account.
fn guarded() -> Portal {
    let mut portal = portal(256);
    Arc::make_mut(&mut portal.nodes[0]).access =
        Access::Rules(vec![Rule { chap: Some(chap("alice")), ..Rule::default() }]);
    portal
}

fn text(keys: &[(&str, &str)]) -> Text {
    let mut text = Text::new();
    for (key, value) in keys {
        text.put(key, value);
    }
    text
}

/// Answers the target's challenge as `user` with `secret`; gives the bytes of the last response.
fn prove(raw: &mut Raw, names: &[(&str, &str)], (user, secret): (&str, &Secret)) -> Bhs {
    let request = LoginRequest::new(Stage::Security, LoginIdentity::new_session(ISID), 0, 1);
    raw.send(request.to_bytes(), text(names).bytes());
    let answers = raw.send(request.to_bytes(), text(&[("CHAP_A", "7")]).bytes());
    let told = String::from_utf8(answers[0].data.clone()).unwrap();
    let value = |key: &str| {
        let pair = told.split('\0').find(|pair| pair.starts_with(key)).unwrap();
        pair.split_once('=').unwrap().1.to_string()
    };
    let challenge = iscsi::chap::decode(&value("CHAP_C")).unwrap();
    let response = Algorithm::Sha256.respond(value("CHAP_I").parse().unwrap(), secret, &challenge);
    let keys = [("CHAP_N", user), ("CHAP_R", &iscsi::chap::encode(&response))];
    let last = request.transit(Stage::FullFeature);
    raw.send(last.to_bytes(), text(&keys).bytes()).remove(0).header
}

fn names(initiator: &str) -> [(&str, &str); 3] {
    [("InitiatorName", initiator), ("TargetName", TARGET), ("AuthMethod", "CHAP")]
}

fn status(header: &Bhs) -> u16 {
    LoginResponse::from_bytes(header).status().0
}

#[test]
fn each_account_opens_its_own_rule_to_its_own_initiators() {
    for (initiator, user, luns) in [
        (ALICE, "alice", Some(0)),
        ("IQN.2026-11.Test:ALICE", "alice", Some(0)),
        (BOB, "bob", Some(1)),
        (ALICE, "bob", None),
        (BOB, "alice", None),
        (ALICE, "carol", None),
    ] {
        let mut raw = Raw::new(shared());
        let header = prove(&mut raw, &names(initiator), (user, &credentials(user).secret));
        assert_eq!(status(&header), if luns.is_some() { 0 } else { 0x0201 }, "{initiator} {user}");
        if let Some(lun) = luns {
            assert_eq!(reported(&mut raw), [lun], "{initiator}");
        }
    }
}

/// The LUNs of REPORT LUNS, asked at a LUN that need not be there.
fn reported(raw: &mut Raw) -> Vec<u16> {
    let mut cdb = [0; 16];
    (cdb[0], cdb[9]) = (0xa0, 64);
    let data = command(raw, 0, cdb, 64).1;
    let count = usize::try_from(u32::from_be_bytes(data[..4].try_into().unwrap())).unwrap() / 8;
    data[8..]
        .chunks_exact(8)
        .take(count)
        .map(|lun| scsi::decode_lun(lun.try_into().unwrap()).unwrap())
        .collect()
}

/// Status, data and sense of a command that reads.
fn command(raw: &mut Raw, lun: u16, cdb: [u8; 16], length: u32) -> (u8, Vec<u8>) {
    let mut header: Bhs = [0; 48];
    (header[0], header[1]) = (1, 0x80 | if length > 0 { 0x40 } else { 0 });
    header[8..16].copy_from_slice(&scsi::encode_lun(lun));
    header[16..20].copy_from_slice(&raw.cmd_sn.to_be_bytes());
    header[20..24].copy_from_slice(&length.to_be_bytes());
    header[24..28].copy_from_slice(&raw.cmd_sn.to_be_bytes());
    header[32..48].copy_from_slice(&cdb);
    raw.cmd_sn += 1;
    let answers = raw.send(header, b"");
    let last = answers.last().unwrap();
    let data = answers.iter().flat_map(|pdu| pdu.data.clone()).collect();
    (last.header[3], data)
}

#[test]
fn logical_units_of_others_are_not_there() {
    let mut raw = Raw::new(shared());
    let header = prove(&mut raw, &names(BOB), ("bob", &credentials("bob").secret));
    assert_eq!(status(&header), 0);
    let mut inquiry = [0; 16];
    (inquiry[0], inquiry[4]) = (0x12, 36);
    let (good, data) = command(&mut raw, 0, inquiry, 36);
    assert_eq!((good, data[0]), (0, 0x7f), "INQUIRY: no such logical unit");
    let (good, data) = command(&mut raw, 1, inquiry, 36);
    assert_eq!((good, data[0]), (0, 0), "INQUIRY of its own");
    // Every opcode: LOGICAL UNIT NOT SUPPORTED (25h) at the other's number, as at one that nobody has.
    for opcode in 0..=255_u8 {
        if [0x12, 0xa0, 0x03].contains(&opcode) {
            continue;
        }
        let mut cdb = [0; 16];
        cdb[0] = opcode;
        let (masked, absent) = (command(&mut raw, 0, cdb, 0), command(&mut raw, 7, cdb, 0));
        assert_eq!(masked, absent, "opcode {opcode:#04x}");
        assert_eq!(masked.0, 2, "opcode {opcode:#04x}");
        assert_eq!(masked.1[2 + 12], 0x25, "opcode {opcode:#04x}");
    }
    for (function, response) in [(2, 2), (4, 2), (5, 2), (7, 6)] {
        let mut header: Bhs = [0; 48];
        (header[0], header[1]) = (0x42, 0x80 | function);
        header[16..20].copy_from_slice(&0x7000_u32.to_be_bytes());
        header[20..24].copy_from_slice(&u32::MAX.to_be_bytes());
        header[24..28].copy_from_slice(&raw.cmd_sn.to_be_bytes());
        let answers = raw.send(header, b"");
        assert_eq!(answers[0].header[2], response, "task management function {function}");
    }
    assert!(raw.events.is_empty(), "nobody else hears of it: {:?}", raw.events);
}

#[test]
fn an_unknown_user_and_a_wrong_secret_look_alike() {
    let answer = |user: &str, secret: &str| {
        let mut raw = Raw::new(shared());
        let header = prove(&mut raw, &names(ALICE), (user, &Secret::new(secret)));
        (header, raw.closed())
    };
    let wrong = answer("alice", "another secret");
    assert_eq!((status(&wrong.0), wrong.1), (0x0201, Some(CloseReason::Refused("a wrong CHAP response"))));
    assert_eq!(answer("nobody", "another secret"), wrong);
    assert_eq!(answer("nobody", "a secret of alice"), wrong);
    assert_eq!(answer("bob", "a secret of bob"), wrong, "an account of somebody else's rule");
}

#[test]
fn a_response_that_the_target_would_have_given_is_refused() {
    let mut portal = guarded();
    let shared = Secret::new("one secret for both");
    let chap = Chap {
        initiator: Credentials { user: "alice".into(), secret: shared.clone() },
        target: Some(Credentials { user: "disk".into(), secret: shared.clone() }),
        algorithms: Algorithm::ALL.to_vec(),
    };
    Arc::make_mut(&mut portal.nodes[0]).access =
        Access::Rules(vec![Rule { chap: Some(chap), ..Rule::default() }]);
    let header = prove(&mut Raw::new(portal.clone()), &names(INITIATOR), ("alice", &shared));
    assert_eq!(status(&header), 0x0201, "RFC 7143 §9.2.1");
    // And of an initiator: a target that knows its secret has not proved another.
    let mut config = config();
    config.chap = Some(Credentials { user: "alice".into(), secret: shared.clone() });
    config.mutual = Some(Credentials { user: "disk".into(), secret: shared });
    Arc::make_mut(&mut portal.nodes[0]).access =
        Access::Rules(vec![Rule { chap: Some(mutual_only()), ..Rule::default() }]);
    let mut bench = Bench::new(config, portal);
    bench.run();
    assert!(bench.failed.is_some(), "the initiator takes no response that it would have given");
}

/// Alice's account with the shared secret; the target's own is another, so that the target lets the login pass.
fn mutual_only() -> Chap {
    let initiator = Credentials { user: "alice".into(), secret: Secret::new("one secret for both") };
    let target = Some(Credentials { user: "disk".into(), secret: Secret::new("another") });
    Chap { initiator, target, algorithms: Algorithm::ALL.to_vec() }
}

/// The status that refuses the login, or the stage that it reached.
fn attempt(portal: Portal, requests: &[(LoginRequest, &[(&str, &str)])]) -> Result<Option<Stage>, u16> {
    let mut raw = Raw::new(portal);
    let mut reached = None;
    for (request, keys) in requests {
        let answers = raw.send(request.to_bytes(), text(keys).bytes());
        let Some(answer) = answers.last() else { break };
        let response = LoginResponse::from_bytes(&answer.header);
        if response.status().0 != 0 {
            return Err(response.status().0);
        }
        reached = response.transition();
    }
    Ok(reached)
}

#[test]
fn what_an_initiator_leaves_out_never_lets_it_in() {
    let security = LoginRequest::new(Stage::Security, LoginIdentity::new_session(ISID), 0, 1);
    let operational = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, 1);
    let (name, target) = (("InitiatorName", INITIATOR), ("TargetName", TARGET));
    let full = |request: LoginRequest| request.transit(Stage::FullFeature);
    let next = |request: LoginRequest| request.transit(Stage::Operational);
    let (chap, none, both) = (("AuthMethod", "CHAP"), ("AuthMethod", "None"), ("AuthMethod", "None,CHAP"));
    let hash = [("CHAP_A", "7")];
    let continued = {
        let mut bytes = full(operational).to_bytes();
        bytes[1] = bytes[1] & 0x7f | 0x40;
        LoginRequest::from_bytes(&bytes)
    };
    let response = [("CHAP_R", "0x00112233")];
    for requests in [
        vec![(full(operational), &[name, target][..])],
        vec![(operational, &[name, target]), (full(operational), &[])],
        vec![(full(security), &[name, target])],
        vec![(full(security), &[name, target, none])],
        vec![(next(security), &[name, target, none]), (full(operational), &[])],
        vec![(full(security), &[name, target, chap]), (full(operational), &[])],
        vec![(full(security), &[name, target, both]), (full(security), &[]), (full(security), &[])],
        vec![
            (security, &[name, target, chap]),
            (full(security), &hash),
            (full(security), &[]),
            (full(operational), &[]),
        ],
        vec![(security, &[name, target, chap]), (security, &hash), (full(security), &response)],
        vec![(security, &[name, target, chap]), (security, &hash), (full(security), &[("CHAP_N", "alice")])],
        vec![(security, &[name, target, chap]), (security, &hash), (security, &hash)],
        vec![(security, &[name, target, chap]), (full(security), &response)],
        vec![(continued, &[name, target]), (full(operational), &[])],
        vec![(continued, &[]), (full(security), &[name, target, none])],
        vec![
            (security, &[name, ("SessionType", "Discovery")]),
            (full(security), &[("SessionType", "Normal"), target]),
        ],
        vec![(security, &[name, ("SessionType", "Discovery")]), (full(security), &[target])],
        vec![(security, &[name, target, chap]), (full(security), &[("SessionType", "Discovery")])],
    ] {
        let outcome = attempt(guarded(), &requests);
        assert_ne!(outcome, Ok(Some(Stage::FullFeature)), "{requests:x?}");
    }
}

#[test]
fn discovery_sessions_prove_themselves_where_they_must() {
    let mut portal = guarded();
    portal.discovery = Some(chap("scout"));
    let discovery = [("InitiatorName", INITIATOR), ("SessionType", "Discovery"), ("AuthMethod", "CHAP")];
    for (user, expected) in [("scout", 0), ("alice", 0x0201)] {
        let header = prove(&mut Raw::new(portal.clone()), &discovery, (user, &credentials(user).secret));
        assert_eq!(status(&header), expected, "{user}");
    }
    let operational = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, 1)
        .transit(Stage::FullFeature);
    assert_eq!(attempt(portal.clone(), &[(operational, &discovery[..2])]), Err(0x0201));
    let security = LoginRequest::new(Stage::Security, LoginIdentity::new_session(ISID), 0, 1)
        .transit(Stage::FullFeature);
    let none = [discovery[0], discovery[1], ("AuthMethod", "None")];
    assert_eq!(attempt(portal, &[(security, &none)]), Err(0x0201));
}

#[test]
fn required_digests_cannot_be_dropped() {
    let mut portal = portal(256);
    (portal.tuning.header_digest, portal.tuning.data_digest) = (DigestPolicy::Require, DigestPolicy::Require);
    let operational = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, 1);
    let full = operational.transit(Stage::FullFeature);
    let (name, target) = (("InitiatorName", INITIATOR), ("TargetName", TARGET));
    let (header, data) = (("HeaderDigest", "None,CRC32C"), ("DataDigest", "CRC32C"));
    let skip = LoginRequest::new(Stage::Security, LoginIdentity::new_session(ISID), 0, 1)
        .transit(Stage::FullFeature);
    for (requests, expected) in [
        (vec![(full, &[name, target, header, data][..])], Ok(Some(Stage::FullFeature))),
        (vec![(full, &[name, target])], Err(0x0207)),
        (vec![(full, &[name, target, header])], Err(0x0207)),
        (vec![(full, &[name, target, data])], Err(0x0207)),
        (vec![(full, &[name, target, header, ("DataDigest", "None")])], Err(0x0207)),
        (vec![(operational, &[name, target, header]), (full, &[])], Err(0x0207)),
        (vec![(skip, &[name, target, ("AuthMethod", "None")])], Err(0x0207)),
        (vec![(full, &[name, ("SessionType", "Discovery")])], Ok(Some(Stage::FullFeature))),
    ] {
        assert_eq!(attempt(portal.clone(), &requests), expected, "{requests:x?}");
    }
    let mut raw = Raw::new(portal);
    raw.login(full, &text(&[name, target])).unwrap_err();
    assert_eq!(raw.closed(), Some(CloseReason::Violation("a required digest was not negotiated")));
}
