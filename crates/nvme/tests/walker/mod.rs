//! A host made of raw commands: it sends what a test says, one command at a time, and shows the answer.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use std::sync::Arc;

use buf::{Buf, Pool};
use nvme::controller::{Action, Connection, Input, Portal};
use nvme::fabrics::{Connect, ConnectData, HostIdentity, Property, PropertySize};
use nvme::features;
use nvme::identify::{Identify, SIZE};
use nvme::log::GetLogPage;
use nvme::pdu::{CapsuleCmd, CapsuleResp, Digests, IcReq};
use nvme::sgl::SglDescriptor;
use nvme::sqe::SubmissionQueueEntry;
use nvme::status::Status;
use nvme::subsystem::Subsystems;
use protocol::pair::Half;
use protocol::{CloseReason, Connection as _, Group as _, GroupMessage, Instant};
use volume::reservation::Registrant;
use volume::{Allocation, Completion, Extent, Operation, Outcome, Submission};
use zerocopy::{FromBytes, IntoBytes};

/// How a host connects a queue.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    pub subnqn: &'static str,
    /// `None` is a field without an end.
    pub hostnqn: Option<&'static str>,
    /// Every byte of HOSTID.
    pub identifier: u8,
    pub qid: u16,
    pub cntlid: u16,
    pub sqsize: u16,
    pub kato: u32,
    /// Submission queue flow control; Linux and SPDK turn it off.
    pub flow_control: bool,
}

impl Host {
    pub fn linux() -> Self {
        Self {
            subnqn: super::common::NQN,
            hostnqn: Some("nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
            identifier: 5,
            qid: 0,
            cntlid: 0xffff,
            sqsize: 31,
            kato: 0,
            flow_control: false,
        }
    }

    /// As `spdk_nvme_perf` without options: no name, and flow control.
    pub fn spdk() -> Self {
        Self { hostnqn: Some(""), identifier: 9, kato: 10_000, flow_control: true, ..Self::linux() }
    }

    pub fn freebsd() -> Self {
        Self {
            hostnqn: Some("nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-525400000001"),
            ..Self::linux()
        }
    }
}

/// The end of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: Status,
    pub result: u64,
    /// SQHD.
    pub head: u16,
    pub data: Vec<u8>,
}

/// Queues of raw hosts at one portal.
pub struct Walk {
    portal: Arc<Portal>,
    group: Subsystems<usize>,
    queues: Vec<Half<Connection>>,
    cid: u16,
    now: Instant,
    /// The latest answer.
    pub last: Answer,
    /// SQHD of the latest Connect.
    pub last_connect: u16,
    /// HOSTID of each who asked for a change of reservations.
    pub reserved: Vec<[u8; 16]>,
}

impl Walk {
    pub fn new(portal: Portal) -> Self {
        let last = Answer { status: Status::SUCCESS, result: 0, head: 0, data: Vec::new() };
        let (portal, group) = (Arc::new(portal), Subsystems::new());
        Self {
            portal,
            group,
            queues: Vec::new(),
            cid: 0,
            now: Instant::ZERO,
            last,
            last_connect: 0,
            reserved: Vec::new(),
        }
    }

    /// Connects a queue and gives its number here, or says why not.
    pub fn connect(&mut self, host: &Host) -> Result<usize, Answer> {
        let mut half = Half::new(Connection::new(Arc::clone(&self.portal), Pool::new(16 << 20), self.now));
        half.receive(self.now, IcReq::new(Digests::NONE, 0).as_bytes());
        assert_eq!(half.transmit(self.now).len(), 128);
        let queue = self.queues.len();
        self.queues.push(half);
        let nqn = host.hostnqn.unwrap_or_default();
        let identity = HostIdentity { identifier: [host.identifier; 16], nqn: nqn.into() };
        let mut data = ConnectData::new(&identity, host.cntlid, host.subnqn);
        if host.hostnqn.is_none() {
            data.hostnqn.fill(b'n');
        }
        let mut entry = Connect::entry(host.qid, host.sqsize, host.kato);
        if host.flow_control {
            // CATTR is byte 46.
            entry.as_mut_bytes()[46] = 0;
        }
        let answer = self.send(queue, entry, data.as_bytes());
        self.last_connect = answer.head;
        if answer.status.is_success() { Ok(queue) } else { Err(answer) }
    }

    /// Sends a command with data in its capsule.
    pub fn send(&mut self, queue: usize, mut entry: SubmissionQueueEntry, data: &[u8]) -> Answer {
        entry.dptr = SglDescriptor::in_capsule(data.len() as u32);
        self.put(queue, entry, data);
        self.answer(queue).unwrap()
    }

    /// Sends a command without data.
    pub fn ask(&mut self, queue: usize, entry: SubmissionQueueEntry) -> Answer {
        self.put(queue, entry, &[]);
        self.answer(queue).unwrap()
    }

    /// Sends a command that is not answered now.
    pub fn tell(&mut self, queue: usize, entry: SubmissionQueueEntry) {
        self.put(queue, entry, &[]);
        assert_eq!(self.answer(queue), None);
    }

    /// Sends a command that brings `length` bytes.
    pub fn ask_for(&mut self, queue: usize, mut entry: SubmissionQueueEntry, length: u32) -> Answer {
        entry.dptr = SglDescriptor::transport(length);
        self.ask(queue, entry)
    }

    pub fn get(&mut self, queue: usize, property: u32, eight: bool) -> u64 {
        let size = if eight { PropertySize::Eight } else { PropertySize::Four };
        let answer = self.ask(queue, Property::get(property, size));
        assert_eq!(answer.status, Status::SUCCESS);
        answer.result
    }

    pub fn set(&mut self, queue: usize, property: u32, value: u32) {
        assert_eq!(self.ask(queue, Property::set(property, value)).status, Status::SUCCESS);
    }

    /// The structure for a namespace and an I/O command set.
    pub fn identify(&mut self, queue: usize, cns: u8, of: (u32, u8)) -> Result<Vec<u8>, Status> {
        let (nsid, csi) = of;
        let answer = self.ask_for(queue, Identify { cns, cntid: 0, csi }.encode(nsid), SIZE as u32);
        if answer.status.is_success() { Ok(answer.data) } else { Err(answer.status) }
    }

    /// A piece of a log page: where it begins, and how many bytes.
    pub fn log(&mut self, queue: usize, lid: u8, piece: (u64, u32)) -> Answer {
        self.ask_for(queue, GetLogPage::entry(lid, piece.0, piece.1), piece.1)
    }

    /// The current value of a feature.
    pub fn feature(&mut self, queue: usize, fid: u8) -> Answer {
        let mut entry = features::set(fid, 0);
        entry.opcode = 0x0a;
        self.ask(queue, entry)
    }

    /// Seconds pass.
    pub fn pass(&mut self, seconds: u64) {
        self.now = self.now + std::time::Duration::from_secs(seconds);
        for half in &mut self.queues {
            half.connection.handle_timeout(self.now);
        }
    }

    /// When a queue's connection next has something to do, in seconds since the beginning.
    pub fn deadline(&self, queue: usize) -> Option<u64> {
        self.queues[queue].connection.poll_timeout().map(|time| time.as_nanos() / 1_000_000_000)
    }

    pub fn closed(&self, queue: usize) -> Option<CloseReason> {
        self.queues[queue].connection.poll_close()
    }

    fn put(&mut self, queue: usize, mut entry: SubmissionQueueEntry, data: &[u8]) {
        self.cid += 1;
        entry.cid.set(self.cid);
        let mut pdu = CapsuleCmd::new(entry);
        pdu.header.pdo = if data.is_empty() { 0 } else { 72 };
        pdu.header.plen.set(72 + data.len() as u32);
        self.queues[queue].receive(self.now, &[pdu.as_bytes(), data].concat());
        while let Some((queue, action)) = self.next_action() {
            self.act(queue, action);
        }
    }

    fn next_action(&mut self) -> Option<(usize, Action)> {
        let mut queues = self.queues.iter_mut().enumerate();
        queues.find_map(|(queue, half)| Some((queue, half.connection.poll_action()?)))
    }

    fn act(&mut self, queue: usize, action: Action) {
        let input = match action {
            Action::Submit(Submission { request, .. }) => {
                let outcome = match request.operation {
                    Operation::Read { into, .. } => Outcome::Data(Buf::zeroed(into.len()).freeze().into()),
                    // Every other block is allocated.
                    Operation::QueryAllocation { extent } => Outcome::Allocation(Allocation {
                        extent: Extent::new(extent.start, 1),
                        mapped: extent.start % 2 == 1,
                    }),
                    _ => Outcome::Done,
                };
                Input::Completion(Completion { tag: request.tag, result: Ok(outcome) })
            }
            Action::Reserve { tag, registrant, .. } => {
                if let Registrant::Host { identifier, .. } = registrant {
                    self.reserved.push(identifier);
                }
                Input::Reserved { tag, result: Ok(()) }
            }
            Action::Group(request) => {
                self.group.handle_message(self.now, queue, request);
                while let Some(GroupMessage { to, message: reply }) = self.group.poll_message() {
                    self.queues[to].connection.handle_input(self.now, Input::Group(reply));
                }
                return;
            }
            Action::Cancel { .. } => return,
        };
        self.queues[queue].connection.handle_input(self.now, input);
    }

    /// What has come: data, and a completion unless the data says that the command succeeded.
    fn answer(&mut self, queue: usize) -> Option<Answer> {
        let bytes = self.queues[queue].transmit(self.now);
        let mut rest = bytes.as_slice();
        let mut data = Vec::new();
        let mut answer = None;
        while !rest.is_empty() {
            let length = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
            let (pdu, others) = rest.split_at(length);
            match pdu[0] {
                7 => {
                    data.extend_from_slice(&pdu[usize::from(pdu[3])..]);
                    if pdu[1] & 8 != 0 {
                        answer = Some((Status::SUCCESS, 0, u16::MAX));
                    }
                }
                5 => {
                    let entry = CapsuleResp::read_from_bytes(pdu).unwrap().entry;
                    assert_eq!(entry.cid.get(), self.cid);
                    answer = Some((entry.status(), entry.result(), entry.sqhd.get()));
                }
                other => panic!("a PDU of type {other}"),
            }
            rest = others;
        }
        let (status, result, head) = answer?;
        self.last = Answer { status, result, head, data };
        Some(self.last.clone())
    }
}
