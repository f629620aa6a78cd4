//! iSCSI headers (RFC 7143 §11): any 48 bytes are a header, and what its fields say survives being written again.
//!
//! Every view is laid over the same bytes, as a connection does after it looked at the opcode only.

use iscsi::limits::MOST_AHS;
use iscsi::pdu::{
    Ahs, AsyncMessage, BasicHeaderSegment, Bhs, DataIn, DataOut, DataStatus, Function, FunctionResponse,
    LoginRequest, LoginResponse, LogoutReason, LogoutRequest, LogoutResponse, LogoutTimes, NopIn, NopOut,
    R2t, Reason, Reject, ScsiCommand, ScsiResponse, Snack, TaskManagementRequest, TaskManagementResponse,
    TextRequest, TextResponse, U24, extended_cdb, padding,
};
use wire::Reader;

/// A header's bytes, read as one type and written back.
macro_rules! same_bytes {
    ($bytes:expr, $($name:ident),+) => {
        $(assert_eq!($name::from_bytes($bytes).to_bytes(), *$bytes, stringify!($name));)+
    };
}

/// Every header type on the first 48 bytes, and the additional header segments on what follows.
///
/// # Panics
/// When a header changes by being written again, or a segment reaches beyond its bytes: that is what the fuzzer looks for.
pub fn headers(bytes: &[u8]) {
    let Some((header, rest)) = bytes.split_first_chunk::<48>() else { return additional(bytes) };
    same_bytes!(header, BasicHeaderSegment, AsyncMessage, DataIn, DataOut, LoginRequest, LoginResponse);
    same_bytes!(header, LogoutRequest, LogoutResponse, NopIn, NopOut, R2t, Reject, ScsiCommand);
    same_bytes!(header, ScsiResponse, Snack, TaskManagementRequest, TaskManagementResponse);
    same_bytes!(header, TextRequest, TextResponse);
    basic(header);
    commands(header);
    data(header);
    logins(header);
    texts(header);
    small(header);
    additional(rest);
}

fn basic(header: &Bhs) {
    let view = BasicHeaderSegment::from_bytes(header);
    assert!(view.ahs_length() <= MOST_AHS && view.ahs_length().is_multiple_of(4));
    assert_eq!(U24::new(view.data_length()).get(), view.data_length());
    let length = usize::try_from(view.data_length()).unwrap_or(usize::MAX);
    assert!((length + padding(length)).is_multiple_of(4) && padding(length) < 4);
    assert!(view.opcode().0 < 0x40);
}

fn commands(header: &Bhs) {
    let read = ScsiCommand::from_bytes(header);
    let plain = ScsiCommand::new(read.lun, read.task_tag(), read.cmd_sn(), read.cdb);
    let written = plain.writing(read.expected_length(), read.data_length());
    let written = if read.is_final() { written } else { written.with_unsolicited() };
    assert_eq!((written.lun, written.cdb, written.task_tag()), (read.lun, read.cdb, read.task_tag()));
    assert_eq!((written.cmd_sn(), written.is_final()), (read.cmd_sn(), read.is_final()));
    assert_eq!(written.expected_length(), read.expected_length());
    assert_eq!((written.data_length(), written.writes()), (read.data_length(), true));

    let read = ScsiResponse::from_bytes(header);
    if let Some(status) = read.status() {
        let written = ScsiResponse::new(read.task_tag(), status, read.residual(), 0);
        assert_eq!((written.task_tag(), written.status()), (read.task_tag(), Some(status)));
        assert_eq!(written.residual(), read.residual());
    }

    let read = TaskManagementRequest::from_bytes(header);
    let written = TaskManagementRequest::new(Function(read.function().0), read.lun, read.task_tag())
        .referring(read.referenced_task_tag(), read.ref_cmd_sn());
    assert_eq!((written.function(), written.lun), (read.function(), read.lun));
    assert_eq!((written.task_tag(), written.ref_cmd_sn()), (read.task_tag(), read.ref_cmd_sn()));
    assert_eq!(written.referenced_task_tag(), read.referenced_task_tag());

    let read = TaskManagementResponse::from_bytes(header);
    let written = TaskManagementResponse::new(read.task_tag(), FunctionResponse(read.response().0));
    assert_eq!((written.task_tag(), written.response()), (read.task_tag(), read.response()));
}

fn data(header: &Bhs) {
    let lun = ScsiCommand::from_bytes(header).lun;
    let read = DataOut::from_bytes(header);
    let tags = read.tags();
    let range = read.range();
    let mut written = DataOut::new(lun, tags, read.data_sn(), range);
    if read.is_final() {
        written = written.ending();
    }
    assert_eq!(written.tags(), tags);
    assert_eq!(written.range(), range);
    assert_eq!((written.data_sn(), written.is_final()), (read.data_sn(), read.is_final()));

    let read = DataIn::from_bytes(header);
    let range = read.range();
    let mut written = DataIn::new(read.task_tag(), read.data_sn(), range);
    if let Some(DataStatus { status, residual }) = read.status() {
        written = written.with_status(status, residual);
    } else if read.is_final() {
        written = written.ending();
    }
    assert_eq!(written.range(), range);
    assert_eq!((written.task_tag(), written.data_sn()), (read.task_tag(), read.data_sn()));
    assert_eq!(written.status(), read.status());
    assert!(written.is_final() >= read.is_final());

    let read = R2t::from_bytes(header);
    let tags = read.tags();
    let range = read.range();
    let written = R2t::new(lun, tags, read.r2t_sn(), range);
    assert_eq!(written.tags(), tags);
    assert_eq!((written.range(), written.r2t_sn()), (range, read.r2t_sn()));
}

fn logins(header: &Bhs) {
    let read = LoginRequest::from_bytes(header);
    let Some(stage) = read.current() else { return };
    let identity = read.identity();
    let mut written = LoginRequest::new(stage, identity, read.task_tag(), read.cmd_sn());
    if let Some(next) = read.next().filter(|_| read.wants_transit()) {
        written = written.transit(next);
        assert_eq!((written.wants_transit(), written.next()), (true, Some(next)));
    }
    assert_eq!(written.identity(), identity);
    assert_eq!((written.task_tag(), written.cmd_sn()), (read.task_tag(), read.cmd_sn()));
    assert_eq!(written.current(), Some(stage));

    let read = LoginResponse::from_bytes(header);
    let mut answer = LoginResponse::new(&written, read.status()).with_tsih(read.tsih());
    if let Some(next) = read.transition() {
        answer = answer.transit(next);
        assert_eq!(answer.transition(), Some(next));
    }
    assert_eq!((answer.status(), answer.tsih()), (read.status(), read.tsih()));
    assert_eq!((answer.task_tag(), answer.current()), (written.task_tag(), Some(stage)));
    assert!(!read.status().text().is_empty());
}

fn texts(header: &Bhs) {
    let read = TextRequest::from_bytes(header);
    let written = TextRequest::new(read.task_tag(), read.transfer_tag());
    assert_eq!((written.task_tag(), written.transfer_tag()), (read.task_tag(), read.transfer_tag()));
    assert!(written.is_final() && !written.continues());

    let read = TextResponse::from_bytes(header);
    let written = TextResponse::partial(read.task_tag(), read.transfer_tag());
    let written = if read.is_final() { written } else { written.continuing() };
    assert_eq!((written.task_tag(), written.transfer_tag()), (read.task_tag(), read.transfer_tag()));
    assert!(!written.is_final() && TextResponse::last(read.task_tag()).is_final());
}

fn small(header: &Bhs) {
    let read = LogoutRequest::from_bytes(header);
    let written = LogoutRequest::new(LogoutReason(read.reason().0), read.cid(), read.task_tag());
    assert_eq!(
        (written.reason(), written.cid(), written.task_tag()),
        (read.reason(), read.cid(), read.task_tag())
    );

    let response = LogoutResponse::from_bytes(header).response();
    assert_eq!(
        LogoutResponse::new(0, response, LogoutTimes { time2wait: 0, time2retain: 0 }).response(),
        response
    );

    let ping = NopIn::from_bytes(header);
    assert_eq!(NopOut::answer(&ping).transfer_tag(), ping.transfer_tag());
    assert_eq!(NopIn::ping(ping.transfer_tag()).transfer_tag(), ping.transfer_tag());
    let ping = NopOut::from_bytes(header);
    let length = BasicHeaderSegment::from_bytes(header).data_length();
    let answer = NopIn::answer(ping.task_tag(), length);
    assert_eq!(answer.task_tag(), ping.task_tag());
    assert_eq!(BasicHeaderSegment::from_bytes(&answer.to_bytes()).data_length(), length);

    let reason = Reject::from_bytes(header).reason();
    assert_eq!(Reject::new(Reason(reason.0)).reason(), reason);
    assert!(Snack::from_bytes(header).kind() < 0x10);
    std::hint::black_box((AsyncMessage::from_bytes(header).event(), Snack::from_bytes(header).beg_run()));
}

/// The additional header segments: each lies within the bytes, and their number has a bound.
fn additional(bytes: &[u8]) {
    let bytes = bytes.get(..bytes.len().min(MOST_AHS)).unwrap_or_default();
    let mut reader = Reader::new(bytes);
    let mut segments = 0;
    while let Some(segment) = Ahs::read(&mut reader) {
        segments += 1;
        if let Ahs::ExtendedCdb(rest) = segment {
            assert!(rest.len() + 4 <= bytes.len(), "a segment is longer than what holds it");
        }
        // Two bytes of length, one of type, and the reserved one that every legal length counts.
        assert!(segments * 4 <= bytes.len(), "more segments than the bytes can hold");
    }
    assert!(extended_cdb(bytes).is_none_or(|rest| rest.len() < bytes.len()));
}
