//! What a target does in the full feature phase, PDU by PDU.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use core::time::Duration;
use std::sync::Arc;

use common::raw::{Pdu, Raw};
use common::{BLOCK, INITIATOR, TARGET, portal};
use iscsi::connection::State;
use iscsi::limits::{self, DRAIN_TIME, IMMEDIATE_DEPTH, MANAGEMENT_DEPTH, MANAGEMENT_TIME};
use iscsi::pdu::{
    DataIn, DataOut, DataRange, DataStatus, Function, FunctionResponse, LogoutReason, LogoutRequest,
    LogoutResponse, NopIn, NopOut, Opcode, R2t, RESERVED_TAG, Reason, Reject, Residual, ScsiCommand,
    ScsiResponse, TaskManagementRequest, TaskManagementResponse, TaskTags, TextRequest, TextResponse,
};
use iscsi::target::{Action, Input, Portal, ResetResult};
use protocol::pair::aperiodic;
use protocol::{CloseReason, Connection};
use scsi::{NexusEvent, builder};
use volume::reservation::{Registrant, Registration, ReservationType, View};
use volume::{Durability, Epoch, Extent, Features, Operation, Submission, VolumeErrorKind, VolumeId};

const LUN: [u8; 8] = [0; 8];
/// The same unit by flat addressing (SAM-5 §4.7.7.3).
const FLAT: [u8; 8] = [0x40, 0, 0, 0, 0, 0, 0, 0];

/// Logged in, with the power-on attention taken.
fn ready() -> Raw {
    ready_at(portal(2048))
}

fn ready_at(portal: Portal) -> Raw {
    let mut raw = Raw::logged_in(portal);
    let answers = command(&mut raw, (1, builder::test_unit_ready()), |command| command, &[]);
    assert_eq!(ScsiResponse::from_bytes(&answers[0].header).status(), Some(2), "a unit attention");
    raw
}

fn command(
    raw: &mut Raw,
    (tag, cdb): (u32, [u8; 16]),
    shape: impl Fn(ScsiCommand) -> ScsiCommand,
    data: &[u8],
) -> Vec<Pdu> {
    let header = shape(ScsiCommand::new(LUN, tag, raw.cmd_sn, cdb));
    raw.cmd_sn += 1;
    raw.send(header.to_bytes(), data)
}

fn read(start: u64, blocks: u64) -> [u8; 16] {
    builder::read(Extent::new(start, blocks))
}

fn write(start: u64, blocks: u64) -> [u8; 16] {
    builder::write(Extent::new(start, blocks), Durability::Cached)
}

fn opcodes(pdus: &[Pdu]) -> Vec<Opcode> {
    pdus.iter().map(Pdu::opcode).collect()
}

fn rejected(pdus: &[Pdu]) -> Option<Reason> {
    pdus.iter().find(|pdu| pdu.opcode() == Opcode::REJECT).map(|pdu| Reject::from_bytes(&pdu.header).reason())
}

/// The statuses of SCSI responses.
fn statuses(answers: &[Pdu]) -> Vec<u8> {
    answers.iter().filter_map(|answer| ScsiResponse::from_bytes(&answer.header).status()).collect()
}

#[test]
fn status_travels_with_the_last_data() {
    let mut raw = ready();
    let answers = command(&mut raw, (2, read(0, 256)), |command| command.reading(131_072), &[]);
    assert_eq!(opcodes(&answers), [Opcode::DATA_IN; 2], "two segments of 65536, no response");
    let last = DataIn::from_bytes(&answers[1].header);
    assert_eq!(
        (last.status(), last.data_sn(), last.buffer_offset()),
        (Some(DataStatus { status: 0, residual: Residual::None }), 1, 65_536)
    );
    assert!(!DataIn::from_bytes(&answers[0].header).is_final());
}

#[test]
fn residuals() {
    let mut raw = ready();
    let answers = command(&mut raw, (2, read(0, 2)), |command| command.reading(2048), &[]);
    let DataStatus { status, residual } = DataIn::from_bytes(&answers[0].header).status().unwrap();
    assert_eq!((status, residual, answers[0].data.len()), (0, Residual::Underflow(1024), 1024));
    let answers = command(&mut raw, (3, read(0, 2)), |command| command.reading(512), &[]);
    let DataStatus { status, residual } = DataIn::from_bytes(&answers[0].header).status().unwrap();
    assert_eq!((status, residual, answers[0].data.len()), (0, Residual::Overflow(512), 512));
    let answers = command(&mut raw, (4, write(0, 1)), |command| command.writing(1024, 1024), &[7; 1024]);
    let response = ScsiResponse::from_bytes(&answers[0].header);
    assert_eq!((response.status(), response.residual()), (Some(0), Residual::Underflow(512)));
    assert_eq!(raw.memory.bytes[..1024], [[7; 512], [0; 512]].concat());
}

/// ExpDataSN (RFC 7143 §11.4.8) of the only response among these.
fn exp_data_sn(answers: &[Pdu]) -> u32 {
    let response = answers.iter().find(|pdu| pdu.opcode() == Opcode::SCSI_RESPONSE).unwrap();
    u32::from_be_bytes(response.header[36..40].try_into().unwrap())
}

#[test]
fn a_response_without_data_counts_the_r2ts_of_its_own_command() {
    let mut raw = ready();
    let write_by_r2t = |raw: &mut Raw, tag| {
        let asked = command(raw, (tag, write(0, 8)), |command| command.writing(4096, 0), &[]);
        let tags = TaskTags { initiator: tag, target: R2t::from_bytes(&asked[0].header).transfer_tag() };
        let data = DataOut::new(LUN, tags, 0, DataRange { offset: 0, length: 4096 }).ending();
        raw.send(data.to_bytes(), &[7; 4096])
    };
    let plain = |raw: &mut Raw, tag| command(raw, (tag, builder::test_unit_ready()), |command| command, &[]);
    assert_eq!(exp_data_sn(&write_by_r2t(&mut raw, 2)), 1);
    assert_eq!(exp_data_sn(&plain(&mut raw, 2)), 0, "the same tag again");
    // A write that ends without an answer leaves nothing behind either.
    raw.memory.hold = true;
    assert!(write_by_r2t(&mut raw, 3).is_empty());
    let abort = TaskManagementRequest::new(Function::ABORT_TASK, LUN, 50).referring(3, raw.cmd_sn - 1);
    raw.send(abort.to_bytes(), &[]);
    assert_eq!(opcodes(&raw.release()), [Opcode::TASK_MANAGEMENT_RESPONSE]);
    assert_eq!(exp_data_sn(&plain(&mut raw, 3)), 0, "the tag of the aborted task");
}

#[test]
fn an_r2t_asks_for_what_was_not_sent() {
    let mut raw = ready();
    let bytes = aperiodic(8 * BLOCK, 5);
    let answers = command(
        &mut raw,
        (2, write(0, 8)),
        |command| command.writing(4096, 1024).with_unsolicited(),
        &bytes[..1024],
    );
    assert_eq!(opcodes(&answers), [], "unsolicited data is announced");
    let unsolicited = DataOut::new(
        LUN,
        TaskTags { initiator: 2, target: RESERVED_TAG },
        0,
        DataRange { offset: 1024, length: 1024 },
    )
    .ending();
    let answers = raw.send(unsolicited.to_bytes(), &bytes[1024..2048]);
    let r2t = R2t::from_bytes(&answers[0].header);
    assert_eq!((r2t.buffer_offset(), r2t.length(), r2t.r2t_sn()), (2048, 2048, 0));
    let half = DataOut::new(
        LUN,
        TaskTags { initiator: 2, target: r2t.transfer_tag() },
        0,
        DataRange { offset: 2048, length: 1024 },
    );
    assert_eq!(opcodes(&raw.send(half.to_bytes(), &bytes[2048..3072])), []);
    let rest = DataOut::new(
        LUN,
        TaskTags { initiator: 2, target: r2t.transfer_tag() },
        1,
        DataRange { offset: 3072, length: 1024 },
    )
    .ending();
    let answers = raw.send(rest.to_bytes(), &bytes[3072..]);
    assert_eq!(ScsiResponse::from_bytes(&answers[0].header).status(), Some(0));
    assert_eq!(raw.memory.bytes[..4096], bytes);
}

#[test]
fn data_out_of_order_ends_the_connection() {
    let mut raw = ready();
    let answers = command(&mut raw, (2, write(0, 2)), |command| command.writing(1024, 0), &[]);
    let tag = R2t::from_bytes(&answers[0].header).transfer_tag();
    let wrong =
        DataOut::new(LUN, TaskTags { initiator: 2, target: tag }, 27, DataRange { offset: 0, length: 1024 })
            .ending();
    let answers = raw.send(wrong.to_bytes(), &[1; 1024]);
    assert_eq!(rejected(&answers), Some(Reason::PROTOCOL_ERROR));
    assert_eq!(raw.closed(), Some(CloseReason::Violation("data out of order")));
    assert_eq!(answers[0].data, wrong.to_bytes_with_length(1024), "the rejected header comes back");
}

trait WithLength {
    fn to_bytes_with_length(self, length: u16) -> [u8; 48];
}

impl WithLength for DataOut {
    fn to_bytes_with_length(self, length: u16) -> [u8; 48] {
        let mut bytes = self.to_bytes();
        bytes[6..8].copy_from_slice(&length.to_be_bytes());
        bytes
    }
}

#[test]
fn commands_outside_the_window_are_ignored_and_gaps_are_not() {
    let mut raw = ready();
    let far = ScsiCommand::new(LUN, 9, raw.cmd_sn + 1000, builder::test_unit_ready());
    assert_eq!(opcodes(&raw.send(far.to_bytes(), &[])), []);
    let old = ScsiCommand::new(LUN, 9, raw.cmd_sn - 1, builder::test_unit_ready());
    assert_eq!(opcodes(&raw.send(old.to_bytes(), &[])), []);
    assert_eq!(raw.closed(), None);
    let gap = ScsiCommand::new(LUN, 9, raw.cmd_sn + 1, builder::test_unit_ready());
    assert_eq!(rejected(&raw.send(gap.to_bytes(), &[])), Some(Reason::PROTOCOL_ERROR));
    assert_eq!(raw.closed(), Some(CloseReason::Violation("a gap in CmdSN")));
}

#[test]
fn the_window_stays_open_over_many_commands() {
    let mut raw = ready();
    for tag in 2..1000 {
        let answers = command(&mut raw, (tag, builder::test_unit_ready()), |command| command, &[]);
        let view = answers[0].view();
        assert_eq!(view.exp_cmd_sn(), raw.cmd_sn);
        let window = view.max_cmd_sn().wrapping_sub(view.exp_cmd_sn()) + 1;
        assert_eq!(window, u32::from(limits::FIRST_DEPTH), "the whole window again");
        assert_eq!(view.stat_sn(), tag, "each response takes one number");
    }
}

#[test]
fn pings_are_echoed() {
    let mut raw = ready();
    let answers = raw.send(NopOut::ping(5).to_bytes(), b"hello");
    assert_eq!(NopIn::from_bytes(&answers[0].header).task_tag(), 5);
    assert_eq!(answers[0].data, b"hello");
    let answers = raw.send(NopOut::ping(6).to_bytes(), &vec![3; 100_000]);
    assert_eq!(answers[0].data, [3; 8192], "as much as is echoed");
}

#[test]
fn a_silent_initiator_is_pinged_and_then_dropped() {
    let mut raw = ready();
    let due = raw.half.connection.poll_timeout().unwrap();
    raw.now = due;
    raw.half.connection.handle_timeout(due);
    let answers = raw.settle();
    let ping = NopIn::from_bytes(&answers[0].header);
    assert_ne!(ping.transfer_tag(), RESERVED_TAG);
    raw.send(NopOut::answer(&ping).to_bytes(), &[]);
    assert!(raw.half.connection.poll_timeout().unwrap() > due + Duration::from_secs(20));
    for _ in 0..2 {
        raw.now = raw.half.connection.poll_timeout().unwrap();
        raw.half.connection.handle_timeout(raw.now);
    }
    assert!(matches!(raw.closed(), Some(CloseReason::TimedOut(_))));
}

fn management(raw: &mut Raw, request: TaskManagementRequest) -> Vec<Pdu> {
    raw.send(request.to_bytes(), &[])
}

fn function_response(pdu: &Pdu) -> FunctionResponse {
    assert_eq!(pdu.opcode(), Opcode::TASK_MANAGEMENT_RESPONSE);
    TaskManagementResponse::from_bytes(&pdu.header).response()
}

#[test]
fn an_abort_is_answered_after_the_volume_let_go() {
    let mut raw = ready();
    raw.memory.hold = true;
    command(&mut raw, (2, read(0, 8)), |command| command.reading(4096), &[]);
    let abort = TaskManagementRequest::new(Function::ABORT_TASK, LUN, 50).referring(2, raw.cmd_sn - 1);
    assert_eq!(opcodes(&management(&mut raw, abort)), [], "the volume still has the request");
    assert_eq!(raw.memory.cancelled.len(), 1);
    let answers = raw.release();
    assert_eq!(answers.len(), 1, "the command itself is not answered");
    assert_eq!(function_response(&answers[0]), FunctionResponse::COMPLETE);
    assert_eq!(raw.half.connection.outstanding(), 0);
    let again = TaskManagementRequest::new(Function::ABORT_TASK, LUN, 51).referring(2, 1);
    assert_eq!(function_response(&management(&mut raw, again)[0]), FunctionResponse::NO_TASK);
}

/// GET LBA STATUS asks its volume run by run.
#[test]
fn a_query_of_allocation_that_is_aborted_ends_with_the_run_that_is_asked_for() {
    let mut telling = portal(2048);
    Arc::make_mut(&mut Arc::make_mut(&mut telling.nodes[0]).device).units[0].features |= Features::ALLOCATION;
    let mut raw = ready_at(telling);
    raw.memory.hold = true;
    let query = |raw: &mut Raw, tag| {
        command(raw, (tag, builder::lba_status(0, 4096)), |command| command.reading(4096), &[])
    };
    let end_one = |raw: &mut Raw| {
        let request = raw.memory.held.remove(0);
        let completion = raw.memory.carry_out(request);
        raw.half.connection.handle_input(raw.now, Input::Completion(completion));
        raw.settle()
    };
    assert_eq!(opcodes(&query(&mut raw, 2)), []);
    assert!(matches!(raw.memory.held[0].operation, Operation::QueryAllocation { .. }));
    let abort = TaskManagementRequest::new(Function::ABORT_TASK, LUN, 50).referring(2, raw.cmd_sn - 1);
    assert_eq!(opcodes(&management(&mut raw, abort)), [], "the volume still has the request");
    assert_eq!(raw.memory.cancelled, [raw.memory.held[0].tag]);
    let answers = end_one(&mut raw);
    assert!(raw.memory.held.is_empty(), "the next run is not asked for");
    assert_eq!(answers.len(), 1, "the command itself is not answered");
    assert_eq!(function_response(&answers[0]), FunctionResponse::COMPLETE);
    assert_eq!(raw.half.connection.outstanding(), 0);
    query(&mut raw, 3);
    assert_eq!(opcodes(&end_one(&mut raw)), []);
    assert_eq!(raw.memory.held.len(), 1, "one that goes on asks for it");
    let answers = raw.release();
    assert_eq!(opcodes(&answers), [Opcode::DATA_IN]);
    assert_eq!(answers[0].data[8..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0], "2,048 mapped blocks");
}

#[test]
fn a_task_that_waits_for_data_is_aborted_and_its_data_thrown_away() {
    let mut raw = ready();
    let answers = command(&mut raw, (2, write(0, 64)), |command| command.writing(32_768, 0), &[]);
    let tag = R2t::from_bytes(&answers[0].header).transfer_tag();
    let reset = TaskManagementRequest::new(Function::LOGICAL_UNIT_RESET, LUN, 50);
    assert_eq!(function_response(&management(&mut raw, reset)[0]), FunctionResponse::COMPLETE);
    assert_eq!(raw.events, [(volume::VolumeId::new(0, 0), scsi::NexusEvent::LogicalUnitReset)]);
    let late =
        DataOut::new(LUN, TaskTags { initiator: 2, target: tag }, 0, DataRange { offset: 0, length: 32_768 })
            .ending();
    assert_eq!(opcodes(&raw.send(late.to_bytes(), &vec![9; 32_768])), []);
    assert_eq!(raw.closed(), None);
    assert!(raw.memory.bytes.iter().all(|byte| *byte == 0));
    let answers = command(&mut raw, (3, builder::test_unit_ready()), |command| command, &[]);
    assert_eq!(ScsiResponse::from_bytes(&answers[0].header).status(), Some(2), "the reset is told");
}

#[test]
fn functions_that_do_not_apply_are_answered() {
    let mut raw = ready();
    let nowhere = [0, 9, 0, 0, 0, 0, 0, 0];
    for (function, lun, expected) in [
        (Function::ABORT_TASK_SET, LUN, FunctionResponse::COMPLETE),
        (Function::CLEAR_TASK_SET, LUN, FunctionResponse::COMPLETE),
        (Function::CLEAR_ACA, LUN, FunctionResponse::NOT_SUPPORTED),
        (Function::LOGICAL_UNIT_RESET, nowhere, FunctionResponse::NO_LUN),
        (Function::TASK_REASSIGN, LUN, FunctionResponse::NO_REASSIGNMENT),
        (Function::TARGET_WARM_RESET, LUN, FunctionResponse::COMPLETE),
        (Function(99), LUN, FunctionResponse::NOT_SUPPORTED),
        (Function::TARGET_COLD_RESET, LUN, FunctionResponse::COMPLETE),
    ] {
        let answers = management(&mut raw, TaskManagementRequest::new(function, lun, 50));
        assert_eq!(function_response(&answers[0]), expected, "{function:?}");
    }
    assert_eq!(raw.closed(), Some(CloseReason::Finished), "a cold reset ends the session");
}

/// RFC 7143 §11.14.1, §11.15.1: what cannot be logged out of is said, and the session goes on.
#[test]
fn every_reason_to_log_out_has_its_response() {
    for (reason, cid, expected) in [
        (LogoutReason::CLOSE_SESSION, 0, LogoutResponse::CLOSED),
        (LogoutReason::CLOSE_SESSION, 9, LogoutResponse::CLOSED),
        (LogoutReason::CLOSE_CONNECTION, 0, LogoutResponse::CLOSED),
        (LogoutReason::CLOSE_CONNECTION, 9, LogoutResponse::CID_NOT_FOUND),
        (LogoutReason::RECOVERY, 0, LogoutResponse::NO_RECOVERY),
        (LogoutReason::RECOVERY, 9, LogoutResponse::NO_RECOVERY),
        (LogoutReason(99), 0, LogoutResponse::CID_NOT_FOUND),
    ] {
        let mut raw = ready();
        let answers = raw.send(LogoutRequest::new(reason, cid, 60).to_bytes(), &[]);
        let told = LogoutResponse::from_bytes(&answers[0].header).response();
        assert_eq!(told, expected, "{reason:?} of connection {cid}, which is 0");
        let ends = expected == LogoutResponse::CLOSED;
        assert_eq!(raw.closed().is_some(), ends, "{reason:?} of connection {cid}");
    }
}

#[test]
fn a_logout_waits_for_the_volume() {
    let mut raw = ready();
    raw.memory.hold = true;
    command(&mut raw, (2, write(0, 1)), |command| command.writing(512, 512), &[1; 512]);
    let other = LogoutRequest::new(LogoutReason::CLOSE_CONNECTION, 9, 60);
    let answers = raw.send(other.to_bytes(), &[]);
    assert_eq!(LogoutResponse::from_bytes(&answers[0].header).response(), LogoutResponse::CID_NOT_FOUND);
    let logout = LogoutRequest::new(LogoutReason::CLOSE_SESSION, 0, 61);
    assert_eq!(opcodes(&raw.send(logout.to_bytes(), &[])), []);
    assert_eq!(raw.half.connection.state(), State::InLogout);
    let answers = raw.release();
    assert_eq!(LogoutResponse::from_bytes(&answers[0].header).response(), LogoutResponse::CLOSED);
    assert_eq!(raw.closed(), Some(CloseReason::Finished));
}

#[test]
fn violations_are_rejected() {
    let mut raw = ready();
    let mut snack = [0; 48];
    snack[0] = 0x10;
    assert_eq!(rejected(&raw.send(snack, &[])), Some(Reason::SNACK));
    let mut unknown = [0; 48];
    unknown[0] = 0x1e;
    assert_eq!(rejected(&raw.send(unknown, &[])), Some(Reason::COMMAND_NOT_SUPPORTED));
    let answers = command(&mut raw, (2, read(0, 1)), |command| command.reading(512).writing(512, 0), &[]);
    assert_eq!(rejected(&answers), Some(Reason::COMMAND_NOT_SUPPORTED));
    raw.memory.hold = true;
    command(&mut raw, (3, read(0, 1)), |command| command.reading(512), &[]);
    let answers = command(&mut raw, (3, read(0, 1)), |command| command.reading(512), &[]);
    assert_eq!(rejected(&answers), Some(Reason::TASK_IN_PROGRESS));
    let stale = TextRequest::new(7, 77);
    assert_eq!(rejected(&raw.send(stale.to_bytes(), &[])), Some(Reason::INVALID_FIELD));
    assert_eq!(raw.closed(), None, "none of these harms the connection");
    let answers = command(&mut raw, (4, read(0, 1)), |command| command, &[1; 512]);
    assert_eq!(rejected(&answers), Some(Reason::PROTOCOL_ERROR));
    assert!(raw.closed().is_some());
}

#[test]
fn text_in_the_full_feature_phase() {
    let mut raw = ready();
    let request = TextRequest::new(7, RESERVED_TAG);
    let text = b"SendTargets=\0MaxRecvDataSegmentLength=4096\0MaxBurstLength=512\0X-what=1\0";
    let answers = raw.send(request.to_bytes(), text);
    let text = String::from_utf8(answers[0].data.clone()).unwrap();
    assert_eq!(
        text,
        "TargetName=iqn.2026-11.org.linerate:disk\0TargetAddress=127.0.0.1:3260,1\0MaxBurstLength=Reject\0\
         X-what=NotUnderstood\0"
    );
    assert!(TextResponse::from_bytes(&answers[0].header).is_final());
    let answers = command(&mut raw, (2, read(0, 16)), |command| command.reading(8192), &[]);
    assert_eq!(answers.len(), 2, "the new segment length holds");
}

#[test]
fn failures_of_the_volume_are_check_conditions() {
    let mut raw = ready();
    raw.memory.fail = Some(VolumeErrorKind::Media);
    let answers = command(&mut raw, (2, read(0, 8)), |command| command.reading(4096), &[]);
    let response = ScsiResponse::from_bytes(&answers[0].header);
    assert_eq!((response.status(), response.residual()), (Some(2), Residual::Underflow(4096)));
    assert_eq!(answers[0].data[4] & 0x0f, 3, "MEDIUM ERROR behind the sense length");
}

#[test]
fn reservations_heard_before_the_login_bind_the_nexus() {
    let holder = Registrant::Host { identifier: [1; 16], nqn: "nqn.2026-11.org.linerate:host".into() };
    let view = View {
        generation: 1,
        registrations: vec![Registration { registrant: holder.clone(), key: 7 }],
        reservation: Some((ReservationType::WriteExclusive, Some(holder))),
        persist: false,
    };
    let mut raw = Raw::new(portal(64));
    let event =
        NexusEvent::Reservations { view: Arc::new(view), notices: Arc::new([]), aborted: Arc::new([]) };
    raw.half.connection.handle_input(raw.now, Input::Event { volume: VolumeId::new(0, 0), event });
    assert_eq!(raw.log_in(&[]), Ok(()));
    command(&mut raw, (1, builder::test_unit_ready()), |command| command, &[]);
    let answers = command(&mut raw, (2, write(0, 1)), |command| command.writing(512, 512), &[1; 512]);
    let status = ScsiResponse::from_bytes(&answers[0].header).status();
    assert_eq!(status, Some(scsi::Status::ReservationConflict as u8));
}

#[test]
fn a_preemption_that_aborts_ends_tasks_with_task_aborted() {
    let mut raw = ready();
    raw.memory.hold = true;
    let answers = command(&mut raw, (2, write(0, 1)), |command| command.writing(512, 512), &[1; 512]);
    assert_eq!(answers.len(), 0);
    let own = Registrant::Nexus {
        initiator_port: format!("{INITIATOR},i,0x800000000001").into(),
        target_port: format!("{TARGET},t,0x0001").into(),
        relative_port: 1,
    };
    let other = Registrant::Host { identifier: [1; 16], nqn: "nqn.2026-11.org.linerate:host".into() };
    for (registrant, cancelled) in [(other, 0), (own, 1)] {
        let (view, notices) = (Arc::default(), Arc::new([]));
        let event = NexusEvent::Reservations { view, notices, aborted: Arc::new([registrant]) };
        raw.half.connection.handle_input(raw.now, Input::Event { volume: VolumeId::new(0, 0), event });
        assert_eq!(raw.settle().len(), 0);
        assert_eq!(raw.memory.cancelled.len(), cancelled);
    }
    assert_eq!(statuses(&raw.release()), [scsi::Status::TaskAborted as u8], "TAS is one");
    assert_eq!(raw.half.connection.outstanding(), 0);
}

#[test]
fn shutting_down_asks_for_a_logout_first() {
    let mut raw = ready();
    raw.half.connection.handle_input(raw.now, Input::Shutdown);
    assert_eq!(opcodes(&raw.settle()), [Opcode::ASYNC_MESSAGE]);
    raw.now = raw.half.connection.poll_timeout().unwrap();
    raw.half.connection.handle_timeout(raw.now);
    assert_eq!(raw.closed(), Some(CloseReason::ShuttingDown));
}

#[test]
fn a_unit_is_the_same_in_whatever_form_its_number_is_written() {
    for (function, sent, named) in [
        (Function::ABORT_TASK, LUN, FLAT),
        (Function::ABORT_TASK, FLAT, LUN),
        (Function::ABORT_TASK_SET, LUN, FLAT),
        (Function::CLEAR_TASK_SET, FLAT, LUN),
        (Function::LOGICAL_UNIT_RESET, LUN, FLAT),
    ] {
        let mut raw = ready();
        raw.memory.hold = true;
        let header = ScsiCommand::new(sent, 2, raw.cmd_sn, write(0, 1)).writing(512, 512);
        assert_eq!(raw.send(header.to_bytes(), &[1; 512]).len(), 0);
        let request = TaskManagementRequest::new(function, named, 50).referring(2, raw.cmd_sn);
        assert_eq!(opcodes(&management(&mut raw, request)), [], "{function:?}: the volume has the request");
        assert_eq!(raw.memory.cancelled.len(), 1, "{function:?} of a unit written as {named:x?}");
        assert_eq!(function_response(&raw.release()[0]), FunctionResponse::COMPLETE);
        assert_eq!(raw.half.connection.outstanding(), 0);
    }
    let mut raw = ready();
    raw.memory.hold = true;
    command(&mut raw, (2, read(0, 8)), |command| command.reading(4096), &[]);
    let elsewhere = [0, 9, 0, 0, 0, 0, 0, 0];
    let abort = TaskManagementRequest::new(Function::ABORT_TASK, elsewhere, 50).referring(2, raw.cmd_sn - 1);
    assert_eq!(function_response(&management(&mut raw, abort)[0]), FunctionResponse::NO_TASK);
    assert_eq!(raw.memory.cancelled.len(), 0, "the tag of a task of another unit names no task (SAM-5 §7.2)");
}

/// An immediate function with its CmdSN.
fn numbered(raw: &mut Raw, request: TaskManagementRequest, cmd_sn: u32) -> FunctionResponse {
    let mut header = request.to_bytes();
    header[24..28].copy_from_slice(&cmd_sn.to_be_bytes());
    function_response(&raw.send(header, &[])[0])
}

#[test]
fn a_command_that_is_aborted_before_it_comes_is_not_carried_out() {
    let mut raw = ready();
    let next = raw.cmd_sn;
    let abort = |tag| TaskManagementRequest::new(Function::ABORT_TASK, LUN, 50).referring(tag, next);
    assert_eq!(
        numbered(&mut raw, abort(2), next),
        FunctionResponse::NO_TASK,
        "no command was sent before it"
    );
    assert_eq!(numbered(&mut raw, abort(2), next + 1), FunctionResponse::COMPLETE);
    assert_eq!(numbered(&mut raw, abort(2), next + 1), FunctionResponse::NO_TASK, "it counts as received");
    let header = ScsiCommand::new(LUN, 2, next, write(0, 1)).writing(512, 512);
    assert_eq!(raw.send(header.to_bytes(), &[9; 512]).len(), 0, "RFC 7143 §11.6.1: considered received");
    assert!(raw.memory.bytes.iter().all(|byte| *byte == 0), "and never executed");
    // With more data than is staged.
    let abort = TaskManagementRequest::new(Function::ABORT_TASK, LUN, 51).referring(3, next + 1);
    assert_eq!(numbered(&mut raw, abort, next + 2), FunctionResponse::COMPLETE);
    let header = ScsiCommand::new(LUN, 3, next + 1, write(0, 64)).writing(32_768, 32_768);
    assert_eq!(raw.send(header.to_bytes(), &vec![9; 32_768]).len(), 0);
    assert!(raw.memory.bytes.iter().all(|byte| *byte == 0));
    raw.cmd_sn = next + 2;
    let answers = command(&mut raw, (4, write(0, 1)), |command| command.writing(512, 512), &[7; 512]);
    let response = ScsiResponse::from_bytes(&answers[0].header);
    assert_eq!(response.status(), Some(0), "what comes behind goes on");
    assert_eq!(raw.closed(), None);
}

#[test]
fn a_reset_is_answered_after_the_other_nexuses_tasks_have_ended() {
    let functions = [
        (Function::CLEAR_TASK_SET, NexusEvent::TaskSetCleared),
        (Function::LOGICAL_UNIT_RESET, NexusEvent::LogicalUnitReset),
        (Function::TARGET_WARM_RESET, NexusEvent::LogicalUnitReset),
        (Function::TARGET_COLD_RESET, NexusEvent::LogicalUnitReset),
    ];
    for (function, event) in functions {
        let mut raw = ready();
        raw.hold_resets = true;
        let answers = management(&mut raw, TaskManagementRequest::new(function, LUN, 50));
        assert_eq!(opcodes(&answers), [], "{function:?}: RFC 7143 §4.2.3.3");
        assert_eq!(raw.events, [(VolumeId::new(0, 0), event)]);
        assert_eq!(raw.closed(), None);
        raw.hold_resets = false;
        assert_eq!(function_response(&raw.settle()[0]), FunctionResponse::COMPLETE);
        assert_eq!(raw.closed().is_some(), function == Function::TARGET_COLD_RESET);
    }
    let mut raw = ready();
    raw.hold_resets = true;
    management(&mut raw, TaskManagementRequest::new(Function::LOGICAL_UNIT_RESET, LUN, 50));
    let tag = raw.resets.pop().unwrap();
    raw.half.connection.handle_input(raw.now, Input::Reset { tag, result: ResetResult::Rejected });
    assert_eq!(function_response(&raw.settle()[0]), FunctionResponse::REJECTED, "too many are under way");
}

#[test]
fn a_function_whose_tasks_do_not_end_is_rejected_and_they_stay_aborted() {
    let mut raw = ready();
    raw.hold_resets = true;
    raw.memory.hold = true;
    command(&mut raw, (2, write(0, 1)), |command| command.writing(512, 512), &[1; 512]);
    for (tag, function) in [(50, Function::ABORT_TASK_SET), (51, Function::LOGICAL_UNIT_RESET)] {
        let answers = management(&mut raw, TaskManagementRequest::new(function, LUN, tag));
        assert_eq!(opcodes(&answers), []);
    }
    raw.now = raw.now + MANAGEMENT_TIME;
    assert_eq!(raw.half.connection.poll_timeout(), Some(raw.now));
    raw.half.connection.handle_timeout(raw.now);
    let answers = raw.settle();
    let responses: Vec<_> = answers.iter().map(function_response).collect();
    assert_eq!(responses, [FunctionResponse::REJECTED; 2]);
    raw.hold_resets = false;
    assert_eq!(raw.release().len(), 0, "neither the task nor a function is answered once more");
    assert_eq!(raw.half.connection.outstanding(), 0);
}

#[test]
fn a_reset_by_another_nexus_ends_tasks_with_task_aborted() {
    for (event, attention) in [(NexusEvent::LogicalUnitReset, true), (NexusEvent::TaskSetCleared, false)] {
        let mut raw = ready();
        raw.memory.hold = true;
        command(&mut raw, (2, write(0, 1)), |command| command.writing(512, 512), &[1; 512]);
        let (volume, epoch) = (VolumeId::new(0, 0), Epoch(1));
        let fence = Input::Fence { volume, epoch, event: Some(event) };
        raw.half.connection.handle_input(raw.now, fence);
        assert_eq!(raw.settle().len(), 0);
        assert_eq!(raw.memory.cancelled.len(), 1);
        assert_eq!(statuses(&raw.release()), [scsi::Status::TaskAborted as u8], "TAS is one");
        let answers = command(&mut raw, (3, builder::test_unit_ready()), |command| command, &[]);
        assert_eq!(statuses(&answers), [if attention { 2 } else { 0 }], "{attention}: SAM-5 §5.14");
        if attention {
            assert_eq!(answers[0].data[2..][12..14], [0x29, 3]);
        }
        assert_eq!(raw.half.connection.outstanding(), 0);
    }
}

#[test]
fn a_write_whose_data_another_nexus_cuts_short_is_answered_at_once() {
    let mut raw = ready();
    let shape = |command: ScsiCommand| command.writing(32_768, 0);
    let answers = command(&mut raw, (2, write(0, 64)), shape, &[]);
    assert_eq!(opcodes(&answers), [Opcode::R2T]);
    let ask = R2t::from_bytes(&answers[0].header);
    let (volume, epoch, event) = (VolumeId::new(0, 0), Epoch(1), Some(NexusEvent::LogicalUnitReset));
    raw.half.connection.handle_input(raw.now, Input::Fence { volume, epoch, event });
    let answers = raw.settle();
    assert_eq!(statuses(&answers), [scsi::Status::TaskAborted as u8]);
    // What had been sent before the answer came is thrown away.
    let data = DataOut::new(
        LUN,
        TaskTags { initiator: 2, target: ask.transfer_tag() },
        0,
        DataRange { offset: 0, length: 32_768 },
    )
    .ending();
    assert_eq!(raw.send(data.to_bytes(), &vec![9; 32_768]).len(), 0);
    assert!(raw.memory.bytes.iter().all(|byte| *byte == 0));
    assert_eq!((raw.closed(), raw.half.connection.outstanding()), (None, 0));
}

#[test]
fn who_aborted_its_own_task_hears_nothing_of_anothers_reset() {
    for own_first in [true, false] {
        let mut raw = ready();
        raw.memory.hold = true;
        command(&mut raw, (2, write(0, 1)), |command| command.writing(512, 512), &[1; 512]);
        let (volume, epoch, event) = (VolumeId::new(0, 0), Epoch(1), Some(NexusEvent::TaskSetCleared));
        let abort = TaskManagementRequest::new(Function::ABORT_TASK, LUN, 50).referring(2, raw.cmd_sn - 1);
        if !own_first {
            raw.half.connection.handle_input(raw.now, Input::Fence { volume, epoch, event: event.clone() });
        }
        assert_eq!(opcodes(&management(&mut raw, abort)), []);
        if own_first {
            raw.half.connection.handle_input(raw.now, Input::Fence { volume, epoch, event });
        }
        assert_eq!(raw.memory.cancelled.len(), 1, "it is cancelled once");
        assert_eq!(opcodes(&raw.release()), [Opcode::TASK_MANAGEMENT_RESPONSE]);
    }
}

#[test]
fn a_request_that_a_fence_overtook_is_judged_again() {
    let holder = Registrant::Host { identifier: [1; 16], nqn: "nqn.2026-11.org.linerate:host".into() };
    let view = View {
        generation: 1,
        registrations: vec![Registration { registrant: holder.clone(), key: 7 }],
        reservation: Some((ReservationType::WriteExclusive, Some(holder))),
        persist: false,
    };
    let mut raw = ready();
    let (volume, notices, aborted) = (VolumeId::new(0, 0), Arc::new([]), Arc::new([]));
    let event = Some(NexusEvent::Reservations { view: Arc::new(view), notices, aborted });
    for (tag, cdb) in [(2, write(0, 1)), (3, read(0, 1))] {
        let shape = |command: ScsiCommand| match tag {
            2 => command.writing(512, 512),
            _ => command.reading(512),
        };
        let header = shape(ScsiCommand::new(LUN, tag, raw.cmd_sn, cdb)).to_bytes();
        raw.cmd_sn += 1;
        let data: &[u8] = if tag == 2 { &[1; 512] } else { &[] };
        let mut bytes = header.to_vec();
        bytes[7] = 0;
        bytes[6] = u8::try_from(data.len() >> 8).unwrap();
        bytes.extend_from_slice(data);
        raw.half.receive(raw.now, &bytes);
    }
    let mut requests = Vec::new();
    while let Some(action) = raw.half.connection.poll_action() {
        let Action::Submit(Submission { epoch: Epoch(0), request, .. }) = action else {
            panic!("{action:?}")
        };
        requests.push(request);
    }
    let connection = &mut raw.half.connection;
    connection.handle_input(raw.now, Input::Fence { volume, epoch: Epoch(5), event });
    for request in requests {
        connection.handle_input(raw.now, Input::StaleEpoch(Box::new(request)));
    }
    match connection.poll_action() {
        Some(Action::Submit(Submission { epoch: Epoch(5), request, .. })) => {
            let completion = raw.memory.carry_out(request);
            connection.handle_input(raw.now, Input::Completion(completion));
        }
        other => panic!("the read is allowed: {other:?}"),
    }
    let answers = raw.settle();
    let status = ScsiResponse::from_bytes(&answers[0].header).status();
    assert_eq!(status, Some(scsi::Status::ReservationConflict as u8), "the write is not");
    assert_eq!(
        DataIn::from_bytes(&answers[1].header).status(),
        Some(DataStatus { status: 0, residual: Residual::None })
    );
    assert!(raw.memory.bytes.iter().all(|byte| *byte == 0));
}

#[test]
fn immediate_commands_beyond_the_limit_are_rejected_until_one_has_ended() {
    const IMMEDIATE: u8 = 0x40;
    let mut raw = ready();
    raw.memory.hold = true;
    let send = |raw: &mut Raw, tag| {
        let mut header = ScsiCommand::new(LUN, tag, raw.cmd_sn, read(0, 1)).reading(512).to_bytes();
        header[0] |= IMMEDIATE;
        raw.send(header, &[])
    };
    for tag in 100..100 + u32::from(IMMEDIATE_DEPTH) {
        assert_eq!(opcodes(&send(&mut raw, tag)), [], "{tag} of {IMMEDIATE_DEPTH} from 100 on");
    }
    let answers = send(&mut raw, 200);
    assert_eq!(rejected(&answers), Some(Reason::IMMEDIATE), "RFC 7143 §11.17.1");
    assert_eq!(raw.memory.held.len(), usize::from(IMMEDIATE_DEPTH));
    assert_eq!(opcodes(&raw.release()), [Opcode::DATA_IN; IMMEDIATE_DEPTH as usize]);
    assert_eq!(opcodes(&send(&mut raw, 201)), [Opcode::DATA_IN], "there is room again");
}

#[test]
fn functions_beyond_the_limit_are_rejected() {
    let mut raw = ready();
    raw.hold_resets = true;
    let mut answers = Vec::new();
    for tag in 0..2 + u32::try_from(MANAGEMENT_DEPTH).unwrap() {
        let request = TaskManagementRequest::new(Function::LOGICAL_UNIT_RESET, LUN, 100 + tag);
        answers.extend(management(&mut raw, request));
    }
    assert_eq!(raw.resets.len(), MANAGEMENT_DEPTH, "no further reset is begun");
    raw.hold_resets = false;
    answers.extend(raw.settle());
    let responses: Vec<_> = answers.iter().map(function_response).collect();
    let with = |response| responses.iter().filter(|found| **found == response).count();
    assert_eq!(
        (with(FunctionResponse::COMPLETE), with(FunctionResponse::REJECTED)),
        (MANAGEMENT_DEPTH, 2),
        "RFC 7143 §11.6.1: each has its answer"
    );
}

#[test]
fn a_logout_waits_for_the_volume_only_so_long() {
    let mut raw = ready();
    raw.memory.hold = true;
    command(&mut raw, (2, write(0, 1)), |command| command.writing(512, 512), &[1; 512]);
    let begun = raw.now;
    let logout = LogoutRequest::new(LogoutReason::CLOSE_SESSION, 0, 61);
    assert_eq!(opcodes(&raw.send(logout.to_bytes(), &[])), []);
    let mut due = begun;
    while raw.closed().is_none() && due <= begun + DRAIN_TIME {
        due = raw.half.connection.poll_timeout().unwrap();
        raw.now = due;
        raw.half.connection.handle_timeout(due);
        raw.settle();
    }
    assert_eq!((raw.closed().is_some(), due.since(begun)), (true, DRAIN_TIME));
}
