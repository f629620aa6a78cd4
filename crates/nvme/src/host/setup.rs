//! The admin queue's set-up as a chain of commands: properties, identify, queues, discovery
//! (NVMe Base §3.5, §3.1.3.3).

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use protocol::Instant;
use volume::{Features, Geometry, Limits};
use zerocopy::FromBytes;

use super::status_poll::{Readiness, StatusPoll};
use super::{Failure, RemoteNamespace};
use crate::fabrics::{Property, PropertySize};
use crate::features::{self, fid, queue_count};
use crate::identify::{
    self, CSI_NVM, Identify, IdentifyController, IdentifyNamespace, NamespaceIds, NvmNamespace, SIZE, cns,
    read_descriptors,
};
use crate::limits::{DISCOVERY_CHUNK, DISCOVERY_ENTRIES, DISCOVERY_RETRIES, HOST_TRANSFER};
use crate::log::{
    ChangedNamespaces, DiscoveryEntry, DiscoveryHeader, GetLogPage, RawEntry, TransportType, lid,
};
use crate::properties::{Capabilities, Configuration, ControllerStatus, ReadyTimeouts, offset};
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;

/// Which command of the chain is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Capabilities,
    ReadyTimeouts,
    Enable,
    Status,
    Controller,
    Queues,
    Events,
    Namespace,
    NvmNamespace,
    Descriptors,
    ChangedList,
    LogHeader,
    LogEntries,
    LogCheck,
    Done,
}

/// What to do after a command of the chain.
#[derive(Debug)]
pub(crate) enum Next {
    /// Send this, and expect this much data.
    Command(SubmissionQueueEntry, usize),
    /// Ask for the status again after a while.
    Wait,
    /// The namespace is known.
    Ready(RemoteNamespace),
    /// The discovery log page is known.
    Discovered(Vec<DiscoveryEntry>),
    Fail(Failure),
}

/// What the set-up of a controller is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WantedNamespace {
    pub(crate) nsid: u32,
    /// I/O queues.
    pub(crate) queues: u16,
}

/// What Identify has told of the namespace.
#[derive(Debug, Clone, Copy)]
struct IdentifiedNamespace {
    geometry: Geometry,
    limits: Limits,
    features: Features,
}

/// The chain, with what it has learnt.
#[derive(Debug)]
pub(crate) struct Setup {
    stage: Stage,
    /// `None` for discovery.
    wanted: Option<WantedNamespace>,
    /// The transport whose entries of a discovery log page are looked at.
    transport: TransportType,
    cntlid: u16,
    capabilities: Capabilities,
    /// In units of 500 ms.
    ready_time: u16,
    max_transfer: u32,
    in_capsule: u32,
    oacs: u16,
    oncs: u16,
    vwc: u8,
    product: [String; 3],
    incarnation: Option<[u8; 16]>,
    queues: u16,
    namespace: Option<IdentifiedNamespace>,
    log: Log,
    status_poll: StatusPoll,
    /// The namespace has changed while the chain was busy.
    changed: bool,
}

#[derive(Debug, Default)]
struct Log {
    generation: u64,
    count: u64,
    entries: Vec<DiscoveryEntry>,
    read: u64,
    tries: u32,
}

const MALFORMED: Failure = Failure::Lost("the controller sent malformed data");

impl Setup {
    /// The chain for a namespace with so many queues, or for discovery.
    pub(crate) fn new(wanted: Option<WantedNamespace>) -> Self {
        Self {
            stage: Stage::Capabilities,
            wanted,
            transport: TransportType::Tcp,
            cntlid: 0,
            capabilities: Capabilities(0),
            ready_time: 1,
            max_transfer: HOST_TRANSFER,
            in_capsule: 0,
            oacs: 0,
            oncs: 0,
            vwc: 0,
            product: Default::default(),
            incarnation: None,
            queues: 1,
            namespace: None,
            log: Log::default(),
            status_poll: StatusPoll::default(),
            changed: false,
        }
    }

    /// The same over this transport.
    pub(crate) fn over(self, transport: TransportType) -> Self {
        Self { transport, ..self }
    }

    fn wanted_queues(&self) -> u16 {
        self.wanted.map_or(1, |wanted| wanted.queues.max(1))
    }

    const fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }

    pub(crate) const fn is_discovery(&self) -> bool {
        self.wanted.is_none()
    }

    /// What enables the controller: the NVM command set, or all where it is not offered alone. Which one the namespace
    /// has is looked at later.
    pub(crate) fn configuration(&self) -> Configuration {
        if self.capabilities.needs_command_sets() {
            Configuration::ENABLE_COMMAND_SETS
        } else {
            Configuration::ENABLE
        }
    }

    /// How long the controller may take to become ready.
    fn ready_time(&self) -> Duration {
        Duration::from_millis(u64::from(self.ready_time).saturating_mul(500))
    }

    /// The first command, after Connect.
    pub(crate) fn begin(&mut self, cntlid: u16) -> Next {
        self.cntlid = cntlid;
        self.to(Stage::Capabilities, Property::get(offset::CAP, PropertySize::Eight), 0)
    }

    /// The controller is not ready: its status is looked at again, or its time is over.
    pub(crate) fn wait(&mut self, now: Instant) -> Readiness {
        self.status_poll.on_not_ready(now, self.ready_time())
    }

    /// When there is something to do although nothing comes.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.status_poll.due()
    }

    /// The time is this: what comes next, if it has come to that.
    pub(crate) fn on_time(&mut self, now: Instant) -> Option<Next> {
        self.status_poll.take_due(now).then(|| self.look_again())
    }

    /// The queue ends.
    pub(crate) fn stop(&mut self) {
        self.status_poll.stop();
    }

    /// Looks at the status again.
    fn look_again(&mut self) -> Next {
        self.to(Stage::Status, Property::get(offset::CSTS, PropertySize::Four), 0)
    }

    /// The namespace has changed: it is looked at again, now or when the chain is done.
    pub(crate) fn on_change(&mut self) -> Option<Next> {
        self.changed = true;
        self.next_change()
    }

    /// What comes next once the chain is done, if the namespace has changed meanwhile.
    pub(crate) fn next_change(&mut self) -> Option<Next> {
        (self.is_done() && core::mem::take(&mut self.changed)).then(|| self.refresh())
    }

    /// Looks at the namespace again, after it changed: first the list of changes, so that the controller
    /// reports the next one.
    fn refresh(&mut self) -> Next {
        let length = ChangedNamespaces::default().page().len();
        let bytes = u32::try_from(length).unwrap_or(0);
        self.to(Stage::ChangedList, GetLogPage::entry(lid::CHANGED_NAMESPACES, 0, bytes), length)
    }

    fn to(&mut self, stage: Stage, entry: SubmissionQueueEntry, data: usize) -> Next {
        self.stage = stage;
        Next::Command(entry, data)
    }

    /// The command under way has ended.
    pub(crate) fn advance(&mut self, status: Status, result: u64, data: &[u8]) -> Next {
        // Identification descriptors are older than their obligation, and CAP.TO is known: do without them where the controller has none. That an
        // answer did not come through says nothing: a namespace without its names would be another one.
        let optional = matches!(
            self.stage,
            Stage::Descriptors | Stage::NvmNamespace | Stage::Events | Stage::ReadyTimeouts
        ) && !status.is_transient();
        if !status.is_success() && !optional {
            return Next::Fail(Failure::Refused(status));
        }
        match self.stage {
            Stage::Capabilities => {
                self.capabilities = Capabilities(result);
                if self.capabilities.mqes() == 0 {
                    return Next::Fail(Failure::Unusable(
                        "the controller's queues have no room for a command",
                    ));
                }
                self.ready_time = u16::from(self.capabilities.timeout()).max(1);
                if self.capabilities.has_longer_time() {
                    return self.to(Stage::ReadyTimeouts, Property::get(offset::CRTO, PropertySize::Four), 0);
                }
                self.enable()
            }
            Stage::ReadyTimeouts => {
                let value = if status.is_success() { u32::try_from(result).unwrap_or(0) } else { 0 };
                self.ready_time = self.ready_time.max(ReadyTimeouts(value).with_media());
                self.enable()
            }
            Stage::Enable => self.look_again(),
            Stage::Status => self.after_status(result),
            Stage::Controller => self.after_controller(data),
            Stage::Queues => self.after_queues(result),
            Stage::Events | Stage::ChangedList => self.identify_namespace(),
            Stage::Namespace => self.after_namespace(data),
            Stage::NvmNamespace => self.after_nvm_namespace(status, data),
            Stage::Descriptors => self.after_descriptors(status, data),
            Stage::LogHeader => self.after_log_header(data),
            Stage::LogEntries => self.after_log_entries(data),
            Stage::LogCheck => self.after_log_check(data),
            Stage::Done => Next::Fail(Failure::Lost("the controller answered what was not asked")),
        }
    }

    fn enable(&mut self) -> Next {
        self.to(Stage::Enable, Property::set(offset::CC, self.configuration().0), 0)
    }

    fn after_status(&mut self, result: u64) -> Next {
        let status = ControllerStatus(u32::try_from(result).unwrap_or(0));
        if status.has(ControllerStatus::FATAL) {
            return Next::Fail(Failure::Unusable("the controller reports a fatal status"));
        }
        if !status.has(ControllerStatus::READY) {
            return Next::Wait;
        }
        if self.is_discovery() {
            return self.read_log_header(Stage::LogHeader);
        }
        let command = Identify { cns: cns::CONTROLLER, cntid: 0, csi: CSI_NVM };
        self.to(Stage::Controller, command.encode(0), SIZE)
    }

    fn after_controller(&mut self, data: &[u8]) -> Next {
        let Ok((identify, _)) = IdentifyController::ref_from_prefix(data) else {
            return Next::Fail(MALFORMED);
        };
        let limit = identify.max_transfer(self.capabilities.min_page());
        self.max_transfer = limit.map_or(HOST_TRANSFER, |limit| limit.min(HOST_TRANSFER));
        self.in_capsule = identify.in_capsule();
        self.oacs = identify.oacs.get();
        self.oncs = identify.oncs.get();
        self.vwc = identify.vwc;
        self.product = [text(&identify.sn), text(&identify.mn), text(&identify.fr)];
        let queues = self.wanted_queues();
        self.to(Stage::Queues, features::set(fid::QUEUES, features::queues(queues)), 0)
    }

    fn after_queues(&mut self, result: u64) -> Next {
        let granted = queue_count(u32::try_from(result).unwrap_or(0)).unwrap_or(1);
        let wanted = self.wanted_queues();
        self.queues = wire::saturate::<u16>(granted).min(wanted);
        self.to(Stage::Events, features::set(fid::ASYNC_EVENTS, identify::OAES_NAMESPACE), 0)
    }

    fn identify(&mut self, stage: Stage, cns: u8) -> Next {
        let nsid = self.wanted.map_or(0, |wanted| wanted.nsid);
        self.to(stage, Identify { cns, cntid: 0, csi: CSI_NVM }.encode(nsid), SIZE)
    }

    fn identify_namespace(&mut self) -> Next {
        self.identify(Stage::Namespace, cns::NAMESPACE)
    }

    fn after_namespace(&mut self, data: &[u8]) -> Next {
        let Ok((identify, _)) = IdentifyNamespace::ref_from_prefix(data) else {
            return Next::Fail(MALFORMED);
        };
        let Some(geometry) = identify.geometry() else {
            return Next::Fail(Failure::Unusable("the namespace's block format is not supported"));
        };
        if geometry.blocks.checked_mul(geometry.block_size.into()).is_none() {
            return Next::Fail(Failure::Unusable("the namespace claims a size beyond 64 bits"));
        }
        if geometry.blocks == 0 {
            return Next::Fail(Failure::Unusable("the namespace does not exist or is empty"));
        }
        self.incarnation = identify.incarnation();
        let preferred = identify.nsfeat & identify::NSFEAT_PREFERRED != 0;
        let granularity = if preferred { u32::from(identify.npdg.get()).saturating_add(1) } else { 1 };
        let limits = Limits {
            max_transfer: self.max_transfer,
            memory_alignment: 1,
            depth: u32::from(self.capabilities.mqes()),
            discard_granularity: granularity,
            max_discard: u64::from(u32::MAX),
            atomic_blocks: 1,
        };
        self.namespace = Some(IdentifiedNamespace { geometry, limits, features: self.features(identify) });
        if self.oacs & identify::OACS_LBA_STATUS == 0 {
            return self.identify(Stage::Descriptors, cns::DESCRIPTORS);
        }
        self.identify(Stage::NvmNamespace, cns::SET_NAMESPACE)
    }

    /// A controller may have Get LBA Status only for blocks that cannot be read any more: one that tracks allocation says how finely.
    fn after_nvm_namespace(&mut self, status: Status, data: &[u8]) -> Next {
        let found = NvmNamespace::ref_from_prefix(data).ok().filter(|_| status.is_success());
        if let (Some((found, _)), Some(namespace)) = (found, &mut self.namespace) {
            namespace.features.set(Features::ALLOCATION, found.tlbaag.get() != 0);
        }
        self.identify(Stage::Descriptors, cns::DESCRIPTORS)
    }

    fn features(&self, identify: &IdentifyNamespace) -> Features {
        let mut features = Features::empty();
        let zeros = identify.dlfeat & identify::DLFEAT_ZEROS != 0;
        features.set(Features::VOLATILE_CACHE, self.vwc & identify::VWC_PRESENT != 0);
        features.set(Features::DISCARD, self.oncs & identify::ONCS_DATASET != 0 && zeros);
        features.set(Features::WRITE_ZEROES, self.oncs & identify::ONCS_WRITE_ZEROES != 0);
        features.set(Features::READ_ONLY, identify.nsattr & identify::NSATTR_READ_ONLY != 0);
        features
    }

    fn after_descriptors(&mut self, status: Status, data: &[u8]) -> Next {
        self.stage = Stage::Done;
        let ids = if status.is_success() {
            read_descriptors(data).unwrap_or_default()
        } else {
            NamespaceIds::default()
        };
        if ids.command_set.is_some_and(|set| set != CSI_NVM) {
            return Next::Fail(Failure::Unusable(
                "the namespace's I/O command set is not the NVM command set",
            ));
        }
        let (Some(namespace), Some(WantedNamespace { nsid, .. })) = (self.namespace, self.wanted) else {
            return Next::Fail(MALFORMED);
        };
        let IdentifiedNamespace { geometry, limits, features } = namespace;
        Next::Ready(RemoteNamespace {
            nsid,
            cntlid: self.cntlid,
            geometry,
            limits,
            features,
            discards: self.oncs & identify::ONCS_DATASET != 0,
            verifies: self.oncs & identify::ONCS_VERIFY != 0,
            ids,
            product: self.product.clone(),
            queues: self.queues,
            in_capsule: self.in_capsule,
            entries: self.capabilities.mqes().saturating_add(1),
            incarnation: self.incarnation,
        })
    }

    fn read_log_header(&mut self, stage: Stage) -> Next {
        let length = size_of::<DiscoveryHeader>();
        let bytes = u32::try_from(length).unwrap_or(0);
        self.to(stage, GetLogPage::entry(lid::DISCOVERY, 0, bytes), length)
    }

    fn after_log_header(&mut self, data: &[u8]) -> Next {
        let Ok((header, _)) = DiscoveryHeader::ref_from_prefix(data) else { return Next::Fail(MALFORMED) };
        if header.numrec.get() > DISCOVERY_ENTRIES {
            return Next::Fail(Failure::Unusable("the discovery log page has too many entries"));
        }
        self.log.generation = header.genctr.get();
        self.log.count = header.numrec.get();
        self.log.entries.clear();
        self.log.read = 0;
        self.read_log_entries()
    }

    fn read_log_entries(&mut self) -> Next {
        let size = u64::try_from(size_of::<RawEntry>()).unwrap_or(1);
        let left = self.log.count.saturating_sub(self.log.read).saturating_mul(size);
        if left == 0 {
            return self.read_log_header(Stage::LogCheck);
        }
        let bytes = wire::saturate::<u32>(left).min(DISCOVERY_CHUNK);
        let offset = self.log.read.saturating_add(1).saturating_mul(size);
        let length = usize::try_from(bytes).unwrap_or(0);
        self.to(Stage::LogEntries, GetLogPage::entry(lid::DISCOVERY, offset, bytes), length)
    }

    fn after_log_entries(&mut self, data: &[u8]) -> Next {
        for bytes in data.chunks_exact(size_of::<RawEntry>()) {
            self.log.read = self.log.read.saturating_add(1);
            if let Ok(raw) = RawEntry::ref_from_bytes(bytes) {
                let own = raw.decode().filter(|entry| entry.transport == self.transport);
                self.log.entries.extend(own);
            }
        }
        self.read_log_entries()
    }

    /// The page is consistent only if its generation did not move meanwhile.
    fn after_log_check(&mut self, data: &[u8]) -> Next {
        let Ok((header, _)) = DiscoveryHeader::ref_from_prefix(data) else { return Next::Fail(MALFORMED) };
        if header.genctr.get() == self.log.generation {
            self.stage = Stage::Done;
            return Next::Discovered(core::mem::take(&mut self.log.entries));
        }
        self.log.tries = self.log.tries.saturating_add(1);
        if self.log.tries > DISCOVERY_RETRIES {
            return Next::Fail(Failure::Unusable("the discovery log page keeps changing"));
        }
        self.after_log_header(data)
    }
}

/// Text that is padded with spaces.
fn text(bytes: &[u8]) -> String {
    let padding = |byte: char| byte == ' ' || byte == '\0';
    String::from(String::from_utf8_lossy(bytes).trim_matches(padding))
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;
    use crate::fabrics::Property as View;
    use crate::log::SubsystemType;

    /// The property that the chain asks for or sets next.
    fn next(next: &Next) -> u32 {
        let Next::Command(entry, _) = next else { panic!("{next:?}") };
        View::view(entry).ofst.get()
    }

    #[test]
    fn a_controller_that_takes_longer_than_cap_can_say_is_asked_how_long() {
        // TO, what CRTO is answered with, and the time that it comes to in units of 500 ms.
        let cases = [
            (254, None, 254),
            (255, Some((Status::SUCCESS, 600)), 600),
            (255, Some((Status::SUCCESS, 0)), 255),
            (255, Some((Status::INVALID_FIELD, 600)), 255),
        ];
        for (time, timeouts, expected) in cases {
            let mut setup = Setup::new(Some(WantedNamespace { nsid: 1, queues: 1 }));
            setup.begin(1);
            let mut then = setup.advance(Status::SUCCESS, Capabilities::new(128, time).0, &[]);
            if let Some((status, value)) = timeouts {
                assert_eq!(next(&then), offset::CRTO);
                then = setup.advance(status, value, &[]);
            }
            assert_eq!(next(&then), offset::CC, "{time} {timeouts:?}");
            assert_eq!(setup.ready_time(), Duration::from_millis(500 * expected), "{time} {timeouts:?}");
        }
    }

    #[test]
    fn entries_of_another_transport_are_passed_over() {
        let entry = |transport, portid| DiscoveryEntry {
            transport,
            kind: SubsystemType::Nvm,
            subnqn: "nqn.disk".into(),
            address: "127.0.0.1:4420".parse().unwrap(),
            portid,
        };
        let transports = [TransportType::Tcp, TransportType::Rdma];
        let page = [entry(transports[0], 1).encode(32), entry(transports[1], 2).encode(32)];
        for own in transports {
            let mut setup = Setup::new(None).over(own);
            (setup.stage, setup.log.count) = (Stage::LogEntries, 2);
            setup.advance(Status::SUCCESS, 0, page.as_bytes());
            let found: Vec<_> = setup.log.entries.iter().map(|entry| entry.transport).collect();
            assert_eq!((found.as_slice(), setup.log.read), (&[own][..], 2));
        }
    }

    #[test]
    fn an_answer_that_did_not_come_through_is_not_taken_for_none() {
        for stage in [Stage::Descriptors, Stage::Events] {
            for status in [Status::TRANSIENT_TRANSPORT, Status::COMMAND_INTERRUPTED] {
                let mut setup = Setup::new(Some(WantedNamespace { nsid: 1, queues: 1 }));
                setup.stage = stage;
                let next = setup.advance(status, 0, &[]);
                assert!(matches!(next, Next::Fail(Failure::Refused(_))), "{stage:?} {status}: {next:?}");
            }
        }
        let mut setup = Setup::new(Some(WantedNamespace { nsid: 1, queues: 1 }));
        setup.stage = Stage::Events;
        let next = setup.advance(Status::INVALID_FIELD.dnr(), 0, &[]);
        assert!(matches!(next, Next::Command(..)), "{next:?}");
    }
}
