//! Discovery of many targets: how the answer is cut into PDUs, and how an initiator puts it together (RFC 7143 §11.10, §11.11,
//! Appendix C).
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::sync::Arc;

use common::raw::{Pdu, Raw};
use common::{Bench, INITIATOR, ISID, config, portal};
use iscsi::limits::DISCOVERED_TEXT;
use iscsi::pdu::{LoginIdentity, LoginRequest, Opcode, RESERVED_TAG, Stage, TextRequest, TextResponse};
use iscsi::target::{Node, Portal};
use iscsi::text::Text;

/// The F and C bits, in the second byte of a Text Response.
const FINAL: u8 = 0x80;
const CONTINUE: u8 = 0x40;

/// A portal with so many targets.
fn many(count: usize) -> Portal {
    let mut portal = portal(64);
    let node = Node::clone(&portal.nodes[0]);
    portal.nodes = (0..count)
        .map(|number| {
            let mut node = node.clone();
            node.name = name(number).parse().unwrap();
            Arc::new(node)
        })
        .collect();
    portal
}

fn name(number: usize) -> String {
    format!("iqn.2026-11.org.linerate:volume-{number:05}")
}

fn expected(count: usize) -> Vec<u8> {
    let records =
        (0..count).map(|number| format!("TargetName={}\0TargetAddress=127.0.0.1:3260,1\0", name(number)));
    records.collect::<String>().into_bytes()
}

/// A discovery session whose initiator declares such a segment, or none.
fn session(portal: Portal, segment: Option<usize>) -> Raw {
    let mut raw = Raw::new(portal);
    let mut text = Text::new();
    text.put("InitiatorName", INITIATOR);
    text.put("SessionType", "Discovery");
    if let Some(segment) = segment {
        text.put("MaxRecvDataSegmentLength", &segment.to_string());
    }
    let request = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, 1)
        .transit(Stage::FullFeature);
    assert_eq!(raw.login(request, &text), Ok(()));
    raw
}

fn send_targets(raw: &mut Raw, mark: u32) -> Pdu {
    let request = TextRequest::new(7, mark);
    let text: &[u8] = if mark == RESERVED_TAG { b"SendTargets=All\0" } else { &[] };
    let mut answers = raw.send(request.to_bytes(), text);
    assert_eq!((answers.len(), answers[0].opcode()), (1, Opcode::TEXT_RESPONSE));
    answers.remove(0)
}

#[test]
fn a_thousand_targets_are_one_response_where_the_initiator_declared_so_much() {
    let mut raw = session(many(1000), Some(262_144));
    let answer = send_targets(&mut raw, RESERVED_TAG);
    assert_eq!(answer.header[1], FINAL, "libiscsi takes no other flags");
    assert_eq!(answer.data, expected(1000));
    assert_eq!(raw.closed(), None);
}

#[test]
fn beyond_what_the_initiator_declared_the_answer_is_continued() {
    for (segment, declared) in
        [(512, Some(512)), (8192, None), (32_768, Some(32_768)), (70_000, Some(70_000))]
    {
        let mut raw = session(many(1000), declared);
        let (mut text, mut mark) = (Vec::new(), RESERVED_TAG);
        loop {
            let answer = send_targets(&mut raw, mark);
            text.extend_from_slice(&answer.data);
            let response = TextResponse::from_bytes(&answer.header);
            if response.is_final() {
                assert_eq!(response.transfer_tag(), RESERVED_TAG);
                break;
            }
            assert_eq!((answer.data.len(), answer.header[1]), (segment, CONTINUE));
            mark = response.transfer_tag();
            assert_ne!(mark, RESERVED_TAG);
        }
        assert!(text == expected(1000), "segments of {segment}");
    }
}

#[test]
fn a_new_question_begins_anew() {
    let mut raw = session(many(1000), None);
    let first = send_targets(&mut raw, RESERVED_TAG);
    let mark = TextResponse::from_bytes(&first.header).transfer_tag();
    send_targets(&mut raw, mark);
    assert_eq!(send_targets(&mut raw, RESERVED_TAG).data, first.data);
}

/// What our own initiator finds, or why it fails. It declares 8 KiB, so that what it finds comes in parts.
fn discover(portal: Portal, chunk: usize) -> Result<usize, String> {
    let mut config = config();
    config.target = None;
    let mut bench = Bench::new(config, portal);
    bench.pair.chunk = chunk;
    bench.run();
    let Some(found) = bench.discovered else { return Err(bench.failed.unwrap_or_default()) };
    for (number, target) in found.iter().enumerate() {
        assert_eq!((&target.name, target.addresses.len()), (&name(number), 1));
    }
    Ok(found.len())
}

#[test]
fn our_initiator_puts_the_parts_together() {
    for chunk in [1000, usize::MAX] {
        assert_eq!(discover(many(1000), chunk), Ok(1000), "chunks of {chunk}");
    }
    for count in [0, 1, 200, 10_000] {
        assert_eq!(discover(many(count), usize::MAX), Ok(count));
    }
}

#[test]
fn our_initiator_takes_only_so_much() {
    let portal = many(DISCOVERED_TEXT / expected(1).len() + 1);
    assert!(discover(portal, usize::MAX).unwrap_err().contains("too much text"));
}
