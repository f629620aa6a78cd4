//! NVMe structures: the fields of commands as a controller reads them, and of answers as a host does.

use nvme::fabrics::{Connect, ConnectData, HostIdentity, Property, PropertySize, text};
use nvme::features::{self, FeatureCommand};
use nvme::identify::{
    Identify, IdentifyController, IdentifyNamespace, IndependentNamespace, read_descriptors,
    write_descriptors,
};
use nvme::limits::RANGES;
use nvme::log::{DiscoveryHeader, ErrorEntry, GetLogPage, RawEntry};
use nvme::nvm::{BlockCommand, DatasetManagement, Range};
use nvme::properties::{Capabilities, Configuration, ControllerStatus};
use nvme::reservation;
use nvme::sgl::{Capsule, DataPointer, SglDescriptor, SglSupport};
use nvme::sqe::SubmissionQueueEntry;
use zerocopy::{FromBytes, IntoBytes};

/// The longest qualified name in bytes (NVMe Base §4.7).
const LONGEST_NAME: usize = 223;

/// The fields of every kind of command, with the ranges of Dataset Management and the data of Connect behind it.
///
/// # Panics
/// When fields change by being written again, or exceed their limits: that is what the fuzzer looks for.
pub fn commands(bytes: &[u8]) {
    let Ok((entry, rest)) = SubmissionQueueEntry::read_from_prefix(bytes) else { return };
    admin(&entry);
    fabrics(&entry);
    let read = BlockCommand::decode(&entry);
    let written = BlockCommand::decode(&read.encode(entry.opcode, entry.nsid.get()));
    assert_eq!(written, BlockCommand { protection: false, ..read });
    assert!((1..=1 << 16).contains(&read.extent.blocks));
    assert!((1..=RANGES).contains(&DatasetManagement::decode(&entry).ranges));
    for range in rest.chunks_exact(size_of::<Range>()).filter_map(|bytes| Range::read_from_bytes(bytes).ok())
    {
        std::hint::black_box(volume::Extent::new(range.start.get(), range.blocks.get().into()).end());
    }
    data_pointer(&entry, rest.len());
    assert!(entry.no_data(rest.len()).is_err() || rest.is_empty());
    connect_data(rest);
    reservations(&entry, rest);
}

/// A data pointer under every set of descriptors that a transport may have.
fn data_pointer(entry: &SubmissionQueueEntry, data: usize) {
    for bits in 0..8_u8 {
        let [transport, keyed, offsets] = [1, 2, 4].map(|bit| bits & bit != 0);
        let sgls = SglSupport { transport, keyed, offsets, in_capsule: u32::MAX };
        match entry.data_pointer(Capsule { data, sgls, pointer: entry.dptr.data_pointer() }) {
            Ok(DataPointer::InCapsule { offset, length }) => {
                assert!(offset.saturating_add(length) <= data, "data beyond the capsule");
                assert!(offsets || (offset, length) == (0, data));
            }
            Ok(DataPointer::Transport { length }) => {
                assert!(transport && data == 0, "data in the capsule beside data to be moved");
                assert_eq!(length, usize::try_from(entry.dptr.length.get()).unwrap_or(usize::MAX));
            }
            Ok(DataPointer::Keyed(block)) => {
                assert!(keyed && data == 0, "data in the capsule beside data to be moved");
                assert_eq!(SglDescriptor::keyed(block), Some(entry.dptr));
            }
            Err(status) => assert!(!status.is_success()),
        }
    }
}

fn reservations(entry: &SubmissionQueueEntry, data: &[u8]) {
    if !reservation::changes(entry.opcode) {
        return;
    }
    if let Ok(read) = reservation::command(entry, data) {
        let written = reservation::encode(entry.nsid.get(), &read);
        assert_eq!(reservation::command(&written.entry, &written.data), Ok(read));
        assert!(reservation::check(entry).is_ok());
    }
}

fn admin(entry: &SubmissionQueueEntry) {
    let read = Identify::decode(entry);
    assert_eq!(Identify::decode(&read.encode(entry.nsid.get())), read);

    let read = GetLogPage::decode(entry);
    assert!(read.length >= 4 && read.length.is_multiple_of(4) && read.length <= 1 << 34);
    if let Ok(length) = u32::try_from(read.length) {
        let written = GetLogPage::decode(&GetLogPage::entry(read.lid, read.offset, length));
        assert_eq!((written.lid, written.offset, written.length), (read.lid, read.offset, read.length));
    }

    let read = FeatureCommand::decode(entry);
    let written = FeatureCommand::decode(&features::set(read.fid, read.value));
    assert_eq!((written.fid, written.value, written.save), (read.fid, read.value, false));
    if let Some(count) = features::queue_count(read.value) {
        assert!((1..=u32::from(u16::MAX)).contains(&count));
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        assert_eq!(features::queue_count(features::queues(count)), Some(count.into()));
    }
}

fn fabrics(entry: &SubmissionQueueEntry) {
    let read = Connect::view(entry);
    let written = Connect::view(&Connect::entry(read.qid.get(), read.sqsize.get(), read.kato.get()));
    assert_eq!((written.qid, written.sqsize, written.kato), (read.qid, read.sqsize, read.kato));
    assert_eq!(Connect::view(entry).as_bytes(), entry.as_bytes());

    let read = Property::view(entry);
    assert!(matches!(read.size(), None | Some(4 | 8)));
    let size = if read.size() == Some(8) { PropertySize::Eight } else { PropertySize::Four };
    let written = Property::view(&Property::get(read.ofst.get(), size));
    assert_eq!((written.ofst, written.size() == Some(8)), (read.ofst, read.size() == Some(8)));
    properties(read.value.get());
}

fn properties(value: u64) {
    let capabilities = Capabilities(value);
    assert!(capabilities.min_page().is_power_of_two() && capabilities.min_page() >= 4096);
    let [a, b, c, d, ..] = value.to_le_bytes();
    let half = u32::from_le_bytes([a, b, c, d]);
    let configuration = Configuration(half);
    assert!(configuration.with_shutdown().shutdown());
    assert_eq!(configuration.with_shutdown().enabled(), configuration.enabled());
    std::hint::black_box(configuration.is_supported());
    assert!(ControllerStatus(half).with(ControllerStatus::READY).has(ControllerStatus::READY));
}

fn connect_data(bytes: &[u8]) {
    let Ok((data, _)) = ConnectData::read_from_prefix(bytes) else { return };
    let names = (text(&data.subnqn), text(&data.hostnqn));
    assert!(names.0.is_none_or(|name| (1..=LONGEST_NAME).contains(&name.len())));
    let (Some(subnqn), Some(hostnqn)) = names else { return };
    let host = HostIdentity { identifier: data.hostid, nqn: hostnqn.into() };
    let written = ConnectData::new(&host, data.cntlid.get(), subnqn);
    assert_eq!((text(&written.subnqn), text(&written.hostnqn)), names);
    assert_eq!((written.hostid, written.cntlid), (data.hostid, data.cntlid));
}

/// Identify structures and log pages. The first byte chooses which, the rest is the page.
///
/// # Panics
/// When a structure changes by being written again, or says what no device is: that is what the fuzzer looks for.
pub fn pages(bytes: &[u8]) {
    let Some((which, rest)) = bytes.split_first() else { return };
    match which % 4 {
        0 => descriptors(rest),
        1 => discovery(rest),
        2 => controller(&padded(rest)),
        _ => namespace(&padded(rest)),
    }
}

/// An Identify structure that begins with `bytes`.
fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut page = bytes.to_vec();
    page.resize(nvme::identify::SIZE, 0);
    page
}

fn descriptors(bytes: &[u8]) {
    let Ok(ids) = read_descriptors(bytes) else { return };
    let mut written = [0; 128];
    assert!(write_descriptors(&ids, &mut written).is_ok());
    assert_eq!(read_descriptors(&written), Ok(ids));
}

fn discovery(bytes: &[u8]) {
    if let Ok((header, _)) = DiscoveryHeader::read_from_prefix(bytes) {
        let written = DiscoveryHeader::new(header.genctr.get(), header.numrec.get());
        assert_eq!((written.genctr, written.numrec), (header.genctr, header.numrec));
    }
    if let Ok((entry, _)) = ErrorEntry::read_from_prefix(bytes) {
        assert_eq!(ErrorEntry::read_from_bytes(entry.as_bytes()), Ok(entry));
    }
    if let Some(view) = reservation::read_report(bytes) {
        assert_eq!(reservation::read_report(&reservation::report(&view)), Some(view));
    }
    let Some(read) = RawEntry::read_from_prefix(bytes).ok().and_then(|(raw, _)| raw.decode()) else { return };
    assert!((1..=LONGEST_NAME).contains(&read.subnqn.len()), "a name of {} bytes", read.subnqn.len());
    assert_eq!(read.encode(32).decode(), Some(read));
}

fn controller(page: &[u8]) {
    let Ok((mut identify, _)) = IdentifyController::read_from_prefix(page) else { return };
    let smallest = Capabilities(0).min_page();
    if let Some(most) = identify.max_transfer(smallest) {
        assert!(most >= smallest, "{most} bytes are less than a page");
        identify.set_max_transfer(most);
        let again = identify.max_transfer(smallest);
        assert!(again.is_some_and(|again| again <= most && again > most / 2), "{most} became {again:?}");
    }
    let in_capsule = identify.in_capsule();
    if in_capsule > 0 && in_capsule < u32::MAX - 64 {
        identify.set_in_capsule(in_capsule);
        assert_eq!(identify.in_capsule() / 16, in_capsule / 16);
    }
}

fn namespace(page: &[u8]) {
    let Ok((identify, _)) = IdentifyNamespace::read_from_prefix(page) else { return };
    if let Some(geometry) = identify.geometry() {
        assert!(matches!(geometry.block_size, 512 | 4096), "{geometry:?}");
        assert!(geometry.physical_block_size >= geometry.block_size, "{geometry:?}");
        assert!(geometry.physical_block_size.is_multiple_of(geometry.block_size), "{geometry:?}");
    }
    if let Ok((independent, _)) = IndependentNamespace::read_from_prefix(page) {
        assert_eq!(independent.as_bytes(), page);
    }
}
