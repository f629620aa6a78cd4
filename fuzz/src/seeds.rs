//! Writes the first corpus: what our own two ends say to each other, and commands worth beginning from.
//!
//! `cargo run -p fuzz --bin seeds` writes `fuzz/corpus/TARGET/ours*`; the bytes are the same each time.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use ::iscsi::datamover::tcp;
use ::iscsi::keys::{SessionType, Tuning};
use ::iscsi::pdu::{
    AsyncMessage, Bhs, DataIn, DataOut, DataRange, Function, FunctionResponse, LoginIdentity, LoginRequest,
    LoginResponse, LogoutReason, LogoutRequest, LogoutResponse, LogoutTimes, NopIn, NopOut, R2t,
    RESERVED_TAG, Reason, Reject, Residual, ScsiCommand, ScsiResponse, Stage, Status, TaskManagementRequest,
    TaskManagementResponse, TaskTags, TextRequest, TextResponse,
};
use ::iscsi::session::Sessions;
use ::iscsi::text::Text;
use ::nvme::cqe::CompletionQueueEntry;
use ::nvme::fabrics::{Connect, ConnectData, HostIdentity, Property, PropertySize};
use ::nvme::identify::{Identify, IdentifyController, IdentifyNamespace, NamespaceIds, write_descriptors};
use ::nvme::log::{DiscoveryEntry, DiscoveryHeader, GetLogPage, SubsystemType};
use ::nvme::nvm::{BlockCommand, deallocate_one};
use ::nvme::pdu::{
    C2hData, C2hTermReq, CapsuleCmd, CapsuleResp, Digests, H2cData, H2cTermReq, IcReq, IcResp,
};
use ::nvme::rdma::{AcceptReply, ConnectRequest};
use ::nvme::sqe::SubmissionQueueEntry;
use ::nvme::status::Status as NvmeStatus;
use ::nvme::subsystem::Subsystems;
use ::nvme::{controller, features, host, reservation};
use attach::nbd::wire::{Command, CommandFlags, RequestHeader};
use buf::{Buf, BufList, Pool};
use fuzz::targets::{iscsi, iser, iwarp, nbd, nfs, nfs_client, nvme, roce_endpoint, rpc, virtio};
use protocol::pair::Half;
use protocol::{Connection, Instant, SeededEntropy};
use volume::reservation::{Command as Change, Registrant, Registration, ReservationType, View};
use volume::{Durability, Extent, Operation, Request, Tag};
use zerocopy::{FromZeros, IntoBytes};

/// Rounds after which both ends have said all they have to say.
const ROUNDS: usize = 40;

/// What each of two ends sent, each with the byte in front that says "in one chunk".
struct Said {
    near: Vec<u8>,
    far: Vec<u8>,
}

fn listen<A: Connection, B: Connection>(
    near: &mut Half<A>,
    far: &mut Half<B>,
    mut act: impl FnMut(&mut Half<B>),
) -> Said {
    let mut said = Said { near: vec![0], far: vec![0] };
    for _ in 0..ROUNDS {
        let out = near.transmit(Instant::ZERO);
        far.receive(Instant::ZERO, &out);
        act(far);
        let back = far.transmit(Instant::ZERO);
        near.receive(Instant::ZERO, &back);
        while near.connection.poll_action().is_some() {}
        said.near.extend(out);
        said.far.extend(back);
    }
    said
}

fn iscsi_said() -> Option<Said> {
    let pool = Pool::new(8 << 20);
    let entropy = Box::new(SeededEntropy::new(1));
    let near = tcp::InitiatorConnection::new(Instant::ZERO, iscsi::config()?, pool.clone(), entropy);
    let far = tcp::TargetConnection::new(Instant::ZERO, Arc::new(iscsi::portal()?), iscsi::resources(&pool));
    let mut sessions = Sessions::new();
    Some(listen(&mut Half::new(near), &mut Half::new(far), |far| iscsi::serve(far, &mut sessions)))
}

fn nvme_said() -> Said {
    let near = host::Connection::new(nvme::config(), Instant::ZERO);
    let far = controller::Connection::new(Arc::new(nvme::portal()), Pool::new(8 << 20), Instant::ZERO);
    let mut subsystems = Subsystems::new();
    listen(&mut Half::new(near), &mut Half::new(far), |far| nvme::serve(far, &mut subsystems))
}

/// What a host says to an I/O queue, with a read, a write, a flush, a discard, and the reservation commands.
fn nvme_io_said() -> Option<Vec<u8>> {
    let mut near = Half::new(host::Connection::new(nvme::config(), Instant::ZERO));
    let portal = Arc::new(nvme::portal());
    let connection = controller::Connection::new(Arc::clone(&portal), Pool::new(8 << 20), Instant::ZERO);
    let (mut far, mut subsystems, mut remote) = (Half::new(connection), Subsystems::new(), None);
    for _ in 0..ROUNDS {
        far.receive(Instant::ZERO, &near.transmit(Instant::ZERO));
        nvme::serve(&mut far, &mut subsystems);
        near.receive(Instant::ZERO, &far.transmit(Instant::ZERO));
        while let Some(action) = near.connection.poll_action() {
            if let host::Action::Ready(found) = action {
                remote = Some(*found);
            }
        }
    }
    let queue = host::Queue::Io { qid: 1, remote: remote? };
    let config = host::Config { queue, ..nvme::config() };
    let mut near = Half::new(host::Connection::new(config, Instant::ZERO));
    let mut far = Half::new(controller::Connection::new(portal, Pool::new(8 << 20), Instant::ZERO));
    let extent = Extent::new(8, 4);
    let data = BufList::from(Buf::zeroed(2048).freeze());
    let operations = [
        Operation::Read { extent, into: Buf::zeroed(2048) },
        Operation::Write { extent, data, durability: Durability::Durable },
        Operation::Flush,
        Operation::Discard { extent },
    ];
    let reserve = reservations().map(Operation::Reserve);
    let operations = operations.into_iter().chain(reserve).chain([Operation::ReadReservations]);
    for (tag, operation) in (0..).zip(operations) {
        near.connection
            .handle_input(Instant::ZERO, host::Input::Submit(Request { tag: Tag(tag), operation }));
    }
    Some(listen(&mut near, &mut far, nvme::serve_queue).near)
}

/// One command of 24 bytes for each operation code.
fn scsi_commands() -> Vec<u8> {
    let records = (0..=255_u8).map(|opcode| {
        let mut record = [0; 24];
        record[0] = opcode;
        record[13] = 8;
        record[16..].copy_from_slice(&[opcode % 3, 0, 16, 0, 0, 1, 0, 0]);
        record
    });
    records.flatten().collect()
}

/// One header of every kind, each with some data behind it.
fn iscsi_headers() -> Vec<Bhs> {
    let lun = [0, 1, 0, 0, 0, 0, 0, 0];
    let request = LoginRequest::new(Stage::Security, LoginIdentity::new_session([0x80, 0, 0, 0, 0, 1]), 1, 2)
        .transit(Stage::Operational);
    vec![
        NopOut::ping(1).to_bytes(),
        ScsiCommand::new(lun, 2, 3, scsi::builder::test_unit_ready())
            .writing(4096, 512)
            .with_unsolicited()
            .to_bytes(),
        TaskManagementRequest::new(Function::ABORT_TASK, lun, 3).referring(2, 3).to_bytes(),
        request.to_bytes(),
        TextRequest::new(4, RESERVED_TAG).to_bytes(),
        DataOut::new(lun, TaskTags { initiator: 2, target: 7 }, 1, DataRange { offset: 512, length: 512 })
            .ending()
            .to_bytes(),
        LogoutRequest::new(LogoutReason(0), 1, 5).to_bytes(),
        NopIn::ping(9).to_bytes(),
        ScsiResponse::new(2, 2, Residual::Underflow(512), 1).to_bytes(),
        TaskManagementResponse::new(3, FunctionResponse::NO_TASK).to_bytes(),
        LoginResponse::new(&request, Status::SUCCESS).transit(Stage::Operational).to_bytes(),
        TextResponse::partial(4, 8).continuing().to_bytes(),
        DataIn::new(2, 1, DataRange { offset: 512, length: 512 })
            .with_status(0, Residual::Overflow(8))
            .to_bytes(),
        LogoutResponse::new(5, 0, LogoutTimes { time2wait: 2, time2retain: 20 }).to_bytes(),
        R2t::new(lun, TaskTags { initiator: 2, target: 7 }, 1, DataRange { offset: 0, length: 4096 })
            .to_bytes(),
        AsyncMessage::logout_requested(3).to_bytes(),
        Reject::new(Reason(4)).to_bytes(),
    ]
}

fn nvme_headers() -> Vec<Vec<u8>> {
    let entry = SubmissionQueueEntry::new(2, 1);
    let done = CompletionQueueEntry::new(1, 2, NvmeStatus::SUCCESS).with_result(3);
    vec![
        IcReq::new(Digests { header: true, data: false }, 4).as_bytes().to_vec(),
        IcResp::new(Digests { header: false, data: true }, 4096).as_bytes().to_vec(),
        H2cTermReq::new(1, 4, 8).as_bytes().to_vec(),
        C2hTermReq::new(2, 8, 8).as_bytes().to_vec(),
        CapsuleCmd::new(entry).as_bytes().to_vec(),
        CapsuleResp::new(done).as_bytes().to_vec(),
        H2cData::new(1, 2, 512, 512).as_bytes().to_vec(),
        C2hData::new(1, 512, 512).as_bytes().to_vec(),
        ::nvme::pdu::R2t::new(1, 2, 0, 4096).as_bytes().to_vec(),
    ]
}

/// Commands with what follows them in their capsules.
fn nvme_commands() -> Vec<Vec<u8>> {
    let host = HostIdentity { identifier: [5; 16], nqn: "nqn.2014-08.org.nvmexpress:uuid:fuzz".into() };
    let data = ConnectData::new(&host, 0xffff, nvme::NQN);
    let block = BlockCommand { extent: Extent::new(8, 4), fua: true, deallocate: false, protection: false };
    let range = [0, 0, 0, 0, 8, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0];
    vec![
        [Connect::entry(0, 31, 0).as_bytes(), data.as_bytes()].concat(),
        Property::get(0x1c, PropertySize::Four).as_bytes().to_vec(),
        Property::set(0x14, 0x0046_0001).as_bytes().to_vec(),
        Identify { cns: 1, cntid: 0, csi: 0 }.encode(0).as_bytes().to_vec(),
        GetLogPage::entry(0x70, 0, 1024).as_bytes().to_vec(),
        features::set(7, features::queues(4)).as_bytes().to_vec(),
        block.encode(1, 1).as_bytes().to_vec(),
        [deallocate_one(1).as_bytes(), &range].concat(),
    ]
    .into_iter()
    .chain(reservations().iter().map(|change| {
        let reservation::ReservationCommand { entry, data } = reservation::encode(1, change);
        [entry.as_bytes(), &data].concat()
    }))
    .collect()
}

/// One change of a namespace's reservations of every kind.
fn reservations() -> [Change; 6] {
    let kind = ReservationType::ExclusiveAccess;
    [
        Change::Register { key: Some(0), new_key: 1, persist: None },
        Change::Reserve { key: 1, kind },
        Change::Preempt { key: 1, victim: 1, kind, abort: true },
        Change::Release { key: 1, kind },
        Change::Clear { key: 1 },
        Change::Register { key: None, new_key: 0, persist: Some(false) },
    ]
}

/// What a controller shows, behind the byte that says which it is.
fn nvme_pages() -> Vec<Vec<u8>> {
    let ids =
        NamespaceIds { nguid: Some([1; 16]), eui64: Some([2; 8]), uuid: Some([3; 16]), command_set: Some(0) };
    let mut descriptors = [0; 64];
    let _ = write_descriptors(&ids, &mut descriptors);
    let subnqn = nvme::NQN.to_owned();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 4420));
    let entry = DiscoveryEntry {
        transport: ::nvme::log::TransportType::Tcp,
        kind: SubsystemType::Nvm,
        subnqn,
        address,
        portid: 1,
    };
    let (controller, namespace) = identify_pages();
    vec![
        [&[0][..], &descriptors].concat(),
        [&[1][..], entry.encode(32).as_bytes()].concat(),
        [&[2][..], &controller].concat(),
        [&[3][..], &namespace].concat(),
        [&[1][..], &reservation::report(&reserved())].concat(),
    ]
}

/// A host's registration and reservation.
fn reserved() -> View {
    let host = Registrant::Host { identifier: [5; 16], nqn: "".into() };
    let registrations = vec![Registration { registrant: host.clone(), key: 7 }];
    let reservation = Some((ReservationType::WriteExclusive, Some(host)));
    View { generation: 1, registrations, reservation, persist: false }
}

/// The identify structures of a controller and of a namespace with 4096 blocks of 512 bytes, as far as they are not zeros.
fn identify_pages() -> (Vec<u8>, Vec<u8>) {
    let mut controller = IdentifyController::new_zeroed();
    controller.set_max_transfer(1 << 20);
    controller.set_in_capsule(8192);
    controller.oncs.set(0x0c);
    let mut namespace = IdentifyNamespace::new_zeroed();
    namespace.nsze.set(4096);
    namespace.dlfeat = 1;
    namespace.nsfeat = 0x10;
    namespace.npwg.set(7);
    namespace.lbaf[0].lbads = 9;
    (controller.as_bytes()[..2048].to_vec(), namespace.as_bytes()[..256].to_vec())
}

/// The answers of a controller to a host that sets up: behind status and result, the data.
fn namespace_script() -> Vec<u8> {
    let (controller, namespace) = identify_pages();
    let mut script = vec![1];
    let steps: [(u64, &[u8]); 8] = [
        (0x0020_0f01_007f, &[]),
        (0, &[]),
        (1, &[]),
        (0, &controller),
        (0x0003_0003, &[]),
        (0, &[]),
        (0, &namespace),
        (0, &[3, 16, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]),
    ];
    for (result, data) in steps {
        script.push(0);
        script.extend(result.to_le_bytes());
        script.extend(u16::try_from(data.len()).unwrap_or(0).to_le_bytes());
        script.extend(data);
    }
    script
}

/// The answers of a controller to a host that asks for a discovery log page of one entry.
fn discovery_script() -> Vec<u8> {
    let pages = nvme_pages();
    let header = DiscoveryHeader::new(7, 1);
    let entry = pages.get(1).and_then(|page| page.get(1..)).unwrap_or_default();
    let mut script = vec![0];
    let steps: [(u64, &[u8]); 6] = [
        (0x0020_0f01_007f, &[]),
        (0, &[]),
        (1, &[]),
        (0, header.as_bytes()),
        (0, entry),
        (0, header.as_bytes()),
    ];
    for (result, data) in steps {
        script.push(0);
        script.extend(result.to_le_bytes());
        script.extend(u16::try_from(data.len()).unwrap_or(0).to_le_bytes());
        script.extend(data);
    }
    script
}

/// The answers of a logical unit to an initiator that asks what it is.
fn unit_script() -> Vec<u8> {
    let mut standard = [0; 36];
    standard[8..16].copy_from_slice(b"LINERATE");
    let designator = [0, 0x83, 0, 12, 1, 3, 0, 8, 0x30, 0, 0, 0, 0, 0, 0, 1];
    let capacity = [0, 0, 0, 0, 0, 0, 0, 99, 0, 0, 2, 0, 0, 3, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut limits = [0; 64];
    limits[..4].copy_from_slice(&[0, 0xb0, 0, 60]);
    limits[20..24].copy_from_slice(&[0, 0, 1, 0]);
    let provisioning = [0, 0xb2, 0, 4, 0, 0xe4, 2, 0];
    let caching = [19, 0, 0x10, 0, 8, 18, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut script = vec![1];
    let answers: [&[u8]; 6] = [&standard, &designator, &capacity, &limits, &provisioning, &caching];
    for answer in answers {
        script.extend([0, u8::try_from(answer.len()).unwrap_or(0)]);
        script.extend(answer);
    }
    script
}

/// MODE SELECT of the control page, a registration and a reservation, and UNMAP of one extent.
fn parameter_lists() -> Vec<u8> {
    let mode = [0, 0, 0, 0, 0x0a, 0x0a, 4, 0x10, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut register = [0; 24];
    register[15] = 1;
    let mut reserve = [0; 24];
    reserve[7] = 1;
    let unmap = scsi::builder::unmap_list(Extent::new(8, 4));
    let lists: [(u8, u8, &[u8]); 6] =
        [(0, 0, &mode), (2, 6, &register), (2, 0x11, &reserve), (3, 0, &unmap), (4, 8, &[0]), (5, 0, &[1])];
    let records = lists.iter().map(|(which, choice, list)| {
        [&[*which, *choice, u8::try_from(list.len()).unwrap_or(0)][..], list].concat()
    });
    records.flatten().collect()
}

/// A configuration that uses every table.
const CONFIG: &str = r#"[daemon]
cores = 2
spin = "50us"
[limits]
connections = 100
memory = "512M"
[[portal]]
protocol = "iscsi"
listen = "[::1]:0"
advertise = "10.0.0.1:3260"
[[volume]]
name = "disk"
url = "delay=5ms+ram:1G?block=4096"
lun = 1
[[volume]]
name = "other"
target = "disk"
url = "null:1G"
[[access]]
volume = "disk"
initiators = ["iqn.2026-11.org.example:host"]
hosts = ["nqn.2026-11.org.example:host"]
chap = { user = "u", secret_file = "s" }
"#;

fn write(target: &str, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(name), bytes)
}

/// Writes one file for each of several inputs.
fn write_each(target: &str, inputs: &[impl AsRef<[u8]>]) -> std::io::Result<()> {
    for (index, input) in inputs.iter().enumerate() {
        write(target, &format!("ours-{index:02}"), input.as_ref())?;
    }
    Ok(())
}

/// What two ends say to each other, as it is and for the targets that add digests, which take no chunk size.
fn write_conversations() -> std::io::Result<()> {
    if let Some(said) = iscsi_said() {
        write("iscsi_target", "ours", &said.near)?;
        write("iscsi_target_digests", "ours", said.near.get(1..).unwrap_or_default())?;
        write("iscsi_initiator", "ours", &said.far)?;
    }
    let said = nvme_said();
    write("nvme_admin", "ours", &said.near)?;
    write("nvme_host", "ours", &said.far)?;
    write("nvme_host_digests", "ours", said.far.get(1..).unwrap_or_default())?;
    if let Some(said) = nvme_io_said() {
        write("nvme_io", "ours", &said)?;
        write("nvme_io_digests", "ours", said.get(1..).unwrap_or_default())?;
    }
    Ok(())
}

fn write_iscsi() -> std::io::Result<()> {
    let text = b"InitiatorName=iqn.2026-11.org.linerate:fuzz\0SessionType=Normal\0HeaderDigest=None,CRC32C\0";
    write_each("iscsi_pdu", &iscsi_headers())?;
    write("iscsi_chap", "ours", b"0x0123456789abcdef")?;
    write("iscsi_login", "ours", text)?;
    let mut offer = Text::new();
    Tuning::default().offer(SessionType::Normal, &mut offer);
    write("iscsi_keys", "ours", &[&[1; 8][..], offer.bytes()].concat())?;
    write("iscsi_unit", "ours", &unit_script())?;
    let found = b"\0\0\x40TargetName=iqn.2026-11.org.linerate:disk\0TargetAddress=[::1]:3260,1\0";
    write("iscsi_unit", "ours-discovery", found)
}

fn write_nvme() -> std::io::Result<()> {
    write_each("nvme_pdu", &nvme_headers())?;
    write_each("nvme_commands", &nvme_commands())?;
    write_each("nvme_pages", &nvme_pages())?;
    write("nvme_namespace", "ours", &namespace_script())?;
    write("nvme_namespace", "ours-discovery", &discovery_script())
}

fn write_scsi() -> std::io::Result<()> {
    for (index, part) in scsi_commands().chunks(24 * 32).enumerate() {
        write("scsi_command", &format!("ours-{index}"), part)?;
    }
    write("scsi_initiator", "ours", &[0; 64])?;
    write("scsi_parameter_lists", "ours", &parameter_lists())
}

/// ULPDUs of every kind that reach something: the first tags are 0x001, to be written to, and 0x101, to be read.
fn iwarp_ulpdus() -> Vec<u8> {
    let untagged = |control: [u8; 2], fields: [u32; 4], payload: &[u8]| {
        let fields = fields.map(u32::to_be_bytes).concat();
        [&control[..], &fields, payload].concat()
    };
    let tagged = |control: [u8; 2], stag: u32, payload: &[u8]| {
        [&control[..], &stag.to_be_bytes(), &[0; 8], payload].concat()
    };
    let mut request = [0; 28];
    (request[15], request[18], request[19]) = (64, 1, 1);
    let ulpdus = [
        tagged([0xc1, 0x40], 0, &[]),
        untagged([0x01, 0x43], [0, 0, 1, 0], &[7; 32]),
        untagged([0x41, 0x43], [0, 0, 1, 32], &[7; 32]),
        tagged([0x81, 0x40], 0x001, &[8; 64]),
        untagged([0x41, 0x41], [0, 1, 1, 0], &request),
        tagged([0x81, 0x42], 0x8000_0001, &[9; 100]),
        untagged([0x41, 0x46], [0x001, 0, 2, 0], &[7; 5]),
        untagged([0x41, 0x47], [0, 2, 1, 0], &[0x01, 2, 0, 0]),
    ];
    let records = ulpdus
        .iter()
        .map(|ulpdu| [&u16::try_from(ulpdu.len()).unwrap_or(0).to_le_bytes()[..], ulpdu].concat());
    [0].into_iter().chain(records.flatten()).collect()
}

fn write_iwarp() -> std::io::Result<()> {
    // Both roles, both revisions, markers and CRCs, and no peer-to-peer set-up.
    for bits in [0, 1, 2, 3, 12, 13, 16] {
        write("iwarp", &format!("ours-{bits:02}"), &iwarp::said(bits))?;
    }
    write("iwarp_ulpdus", "ours", &iwarp_ulpdus())?;
    write("iwarp_ulpdus", "ours-initiator", &[&[9], iwarp_ulpdus().get(1..).unwrap_or_default()].concat())
}

fn write_roce() -> std::io::Result<()> {
    // Both roles, once established and from the beginning; and a peer that says nothing for long.
    for bits in 0..4 {
        write("roce_endpoint", &format!("ours-{bits}"), &roce_endpoint::said(bits))?;
    }
    let silence = |bits: u8| [vec![bits], [2, 0xff, 0xff].repeat(12)].concat();
    write("roce_endpoint", "ours-silence", &silence(1))?;
    write("roce_endpoint", "ours-silence-at-once", &silence(3))
}

/// What an NVMe/RDMA peer does: a step each, behind its kind and its length.
fn rdma_steps(steps: &[(u8, &[u8])]) -> Vec<u8> {
    let record = |(kind, bytes): &(u8, &[u8])| {
        let length = u16::try_from(bytes.len()).unwrap_or(0).to_le_bytes();
        [&[*kind], &length[..], bytes].concat()
    };
    steps.iter().flat_map(record).collect()
}

fn write_nvme_rdma() -> std::io::Result<()> {
    let command = |opcode: u8| {
        let mut entry = SubmissionQueueEntry::new(opcode, 1);
        entry.cid.set(opcode.into());
        entry.as_bytes().to_vec()
    };
    // A write that is read, a read that is written, one with a wrong key, and a message that is no capsule.
    let host = rdma_steps(&[(0, &[]), (8, &command(1)), (9, &command(2)), (12, &command(1)), (0, &[7; 40])]);
    write("nvme_rdma_controller", "ours", &host)?;
    let request = ConnectRequest::new(0, 0, 32).encode();
    write("nvme_rdma_controller", "ours-admin", &rdma_steps(&[(0, request.bytes()), (9, &command(6))]))?;
    // Connect's data is read, all is well; then the properties, and a second answer.
    let controller =
        [(0, &[][..]), (3, &[]), (5, &1_u64.to_le_bytes()), (1, &[1; 8]), (17, &[1; 8]), (1, &[])];
    write("nvme_rdma_host", "ours", &rdma_steps(&controller))?;
    let reply = AcceptReply::new(1).encode();
    write("nvme_rdma_host", "ours-short", &rdma_steps(&[(0, reply.bytes()), (2, &[9; 64]), (0, &[0; 15])]))
}

/// One NBD request of every kind, the write with its data.
fn nbd_requests() -> Vec<u8> {
    let none = CommandFlags::empty();
    let requests = [
        (Command::READ, CommandFlags::DF, (512, 8192)),
        (Command::WRITE, CommandFlags::FUA, (0, 512)),
        (Command::FLUSH, none, (0, 0)),
        (Command::TRIM, CommandFlags::FUA, (4096, 65_536)),
        (Command::WRITE_ZEROES, CommandFlags::NO_HOLE, (0, 16_384)),
        (Command::BLOCK_STATUS, none, (0, 16_384)),
        (Command::BLOCK_STATUS, CommandFlags::REQ_ONE, (512, 512)),
        (Command::DISC, none, (0, 0)),
    ];
    let mut said = vec![0];
    for (cookie, (command, flags, range)) in (1..).zip(requests) {
        said.extend(RequestHeader::new(command, cookie, range.0, range.1).with(flags).as_bytes());
        if command == Command::WRITE {
            said.extend([0x5a; 512]);
        }
    }
    said
}

/// A queue of each layout, with what may be agreed on, and with a region that keeps track.
fn write_virtio() -> std::io::Result<()> {
    for (name, bits) in [
        ("split", 0),
        ("packed", 1),
        ("split-events", 6),
        ("packed-events", 7),
        ("split-kept", 0x80),
        ("packed-kept", 0x81),
    ] {
        write("virtio_device", &format!("ours-{name}"), &virtio::device_script(bits))?;
    }
    for (name, bits) in [("split", 2), ("packed", 3)] {
        write("virtio_driver", &format!("ours-{name}"), &virtio::driver_script(bits))?;
    }
    Ok(())
}

/// Messages of RPC in records, apart, and behind their length; and what RPC-over-RDMA has in front of them.
fn write_rpc() -> std::io::Result<()> {
    let messages = rpc::messages();
    let (mut stream, mut records) = (vec![0], Vec::new());
    for message in &messages {
        stream.extend(::rpc::record::Fragment::whole(message.len()).encode());
        stream.extend(message);
        records.extend(u16::try_from(message.len()).unwrap_or_default().to_le_bytes());
        records.extend(message);
    }
    write("rpc_stream", "ours", &stream)?;
    write("rpc_stream", "ours-in-sevens", &[&[7], stream.get(1..).unwrap_or_default()].concat())?;
    write("rpc_records", "ours", &records)?;
    let words: &[u32] =
        &[9, 1, 32, 0, 1, 60, 7, 4096, 0, 0, 0, 1, 2, 8, 5, 0, 0, 9, 6, 0, 1, 0, 1, 1, 10, 11, 0, 12];
    let header: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    write("rpc_rdma_headers", "ours", &header)?;
    write("rpc_rdma_headers", "ours-private", &[0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3])
}

/// A client of NFS, in records and behind their length, and the arguments of each of its calls.
fn write_nfs() -> std::io::Result<()> {
    let (mut stream, mut calls) = (vec![0], Vec::new());
    for (number, message) in nfs::conversation().iter().enumerate() {
        stream.extend(::rpc::record::Fragment::whole(message.len()).encode());
        stream.extend(message);
        calls.extend(u16::try_from(message.len()).unwrap_or_default().to_le_bytes());
        calls.extend(message);
        // Behind ten words of RPC.
        write("nfs_arguments", &format!("ours-{number}"), message.get(40..).unwrap_or_default())?;
    }
    write("nfs_stream", "ours", &stream)?;
    write("nfs_stream", "ours-in-sevens", &[&[7], stream.get(1..).unwrap_or_default()].concat())?;
    write("nfs_client_stream", "ours", &[&[0], &*nfs_client::conversation()].concat())?;
    for (name, skip) in [("early", 20), ("late", 200)] {
        let changes: Vec<u8> = (0..40).flat_map(|at| [skip, at, 1 << (at % 8)]).collect();
        write("nfs_client", name, &changes)?;
        write("nfs_client3", name, &changes)?;
    }
    write("nfs_client", "true", &[])?;
    write("nfs_client3", "true", &[])?;
    write("nfs_calls", "ours", &calls)
}

fn main() -> std::io::Result<()> {
    write_conversations()?;
    write_iscsi()?;
    write_nvme()?;
    write_scsi()?;
    write("iser_target", "ours", &iser::steps(&iscsi_headers()))?;
    write("iser_initiator", "ours", &iser::steps(&iscsi_headers()))?;
    write_iwarp()?;
    write_roce()?;
    write_nvme_rdma()?;
    write_virtio()?;
    write_rpc()?;
    write_nfs()?;
    write(
        "nbd_negotiation",
        "ours",
        &[&[0], nbd::OPENING, nbd_requests().get(1..).unwrap_or_default()].concat(),
    )?;
    write("nbd_transmission", "ours", &nbd_requests())?;
    write("config", "ours", CONFIG.as_bytes())?;
    write("names", "ours", b"delay=5ms+readonly+file:disk.img?size=2G&direct=1")?;
    write("names", "ours-iscsi", b"iscsi://[::1]:3260/iqn.2026-11.org.linerate:disk/0?header_digest=crc32c")?;
    write("names", "ours-portal", b"[::1]:3260")?;
    write("names", "ours-size", b"1.5T")?;
    write("names", "ours-span", b"250us")?;
    write("names", "ours-nqn", b"nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6")
}
