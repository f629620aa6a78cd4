//! A command with data is decoded when it comes, and judged once more when its data is there: by the size, the reservation and the
//! epoch of that moment.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;

use std::sync::Arc;

use buf::Pool;
use nvme::controller::{Action, Connection, Input, Reservations};
use nvme::fabrics::{Connect, ConnectData};
use nvme::lifetime::Lifetime;
use nvme::pdu::{CapsuleCmd, CapsuleResp, Digests, H2cData, IcReq, flags};
use nvme::sgl::SglDescriptor;
use nvme::sqe::SubmissionQueueEntry;
use nvme::status::Status;
use nvme::subsystem::Reply;
use protocol::pair::Half;
use protocol::{Connection as _, Instant};
use volume::reservation::{Registrant, ReservationType, View};
use volume::{Durability, Epoch, Extent, Geometry, Operation, Submission, VolumeId};
use zerocopy::{FromBytes, IntoBytes};

const NOW: Instant = Instant::ZERO;
const WRITE: u8 = 1;
const COMPARE: u8 = 5;
const FUA: u32 = 1 << 30;
/// The second namespace, of 4096-byte blocks.
const NSID: u32 = 3;
const LENGTH: u32 = 8192;
const EXTENT: Extent = Extent { start: 4, blocks: 2 };

fn volume() -> VolumeId {
    VolumeId::new(1, 0)
}

fn pdu(entry: SubmissionQueueEntry, data: u32) -> Vec<u8> {
    let mut pdu = CapsuleCmd::new(entry);
    pdu.header.pdo = if data == 0 { 0 } else { 72 };
    pdu.header.plen.set(72 + data);
    pdu.as_bytes().to_vec()
}

/// An I/O queue of a controller.
struct Queue(Half<Connection>);

impl Queue {
    fn new() -> Self {
        let mut half = Half::new(Connection::new(Arc::new(common::portal()), Pool::new(16 << 20), NOW));
        half.receive(NOW, IcReq::new(Digests::NONE, 0).as_bytes());
        let data = ConnectData::new(&common::host_identity(), 1, common::NQN);
        let mut connect = Connect::entry(1, 31, 0);
        connect.dptr = SglDescriptor::in_capsule(data.as_bytes().len() as u32);
        half.receive(NOW, &[&pdu(connect, data.as_bytes().len() as u32), data.as_bytes()].concat());
        assert!(matches!(half.connection.poll_action(), Some(Action::Group(_))));
        let joined = Reply::Joined { cntlid: 1, hostid: [5; 16], lifetime: Lifetime::new() };
        half.connection.handle_input(NOW, Input::Group(joined));
        half.transmit(NOW);
        Self(half)
    }

    /// Sends a command without its data; answers what the data has to begin with.
    fn command(&mut self, (opcode, flags): (u8, u32), in_capsule: bool) -> Vec<u8> {
        let blocks = EXTENT.blocks as u32 - 1;
        let mut entry = SubmissionQueueEntry::new(opcode, NSID).with_quad(10, EXTENT.start);
        entry = entry.with(12, blocks | flags);
        if in_capsule {
            entry.dptr = SglDescriptor::in_capsule(LENGTH);
            self.0.receive(NOW, &pdu(entry, LENGTH));
            return Vec::new();
        }
        entry.dptr = SglDescriptor::transport(LENGTH);
        self.0.receive(NOW, &pdu(entry, 0));
        let r2t = self.0.transmit(NOW);
        assert_eq!((r2t.len(), r2t[0]), (24, 9), "an R2T");
        let mut header = H2cData::new(0, u16::from_le_bytes([r2t[10], r2t[11]]), 0, LENGTH);
        header.header.flags = flags::LAST;
        header.header.pdo = 24;
        header.header.plen.set(24 + LENGTH);
        header.as_bytes().to_vec()
    }

    fn resize(&mut self, blocks: u64) {
        let geometry = Geometry { blocks, block_size: 4096, physical_block_size: 4096 };
        self.0.connection.handle_input(NOW, Input::NamespaceChanged { volume: volume(), geometry });
    }

    fn fence(&mut self, epoch: u64, reservation: Option<ReservationType>) {
        let holder = Registrant::Host { identifier: [9; 16], nqn: "nqn.2014-08.org.example:other".into() };
        let reservation = reservation.map(|kind| (kind, Some(holder)));
        let view = Arc::new(View { reservation, ..View::default() });
        let change = Reservations { view, notices: Arc::new([]), aborted: Arc::new([]) };
        let fence = Input::Fence { volume: volume(), epoch: Epoch(epoch), reservations: Some(change) };
        self.0.connection.handle_input(NOW, fence);
    }

    /// Sends the data: the status that the command ends with, or the epoch and the operation that it becomes.
    fn data(&mut self, mut header: Vec<u8>) -> Result<(Epoch, Operation), Status> {
        header.resize(header.len() + LENGTH as usize, 7);
        assert!(self.0.connection.poll_action().is_none(), "nothing begins without the data");
        self.0.receive(NOW, &header);
        match self.0.connection.poll_action() {
            Some(Action::Submit(Submission { volume: to, epoch, request })) => {
                assert_eq!(to, volume());
                Ok((epoch, request.operation))
            }
            None => {
                let bytes = self.0.transmit(NOW);
                Err(CapsuleResp::read_from_bytes(&bytes).unwrap().entry.status())
            }
            other => panic!("{other:?}"),
        }
    }
}

/// What a command of each kind and way ends with when `change` happens before its data.
fn outcomes(change: impl Fn(&mut Queue)) -> Vec<Result<(Epoch, Operation), Status>> {
    let ways = [(WRITE, false), (WRITE, true), (COMPARE, false), (COMPARE, true)];
    let run = |(opcode, in_capsule)| {
        let mut queue = Queue::new();
        let header = queue.command((opcode, 0), in_capsule);
        change(&mut queue);
        queue.data(header)
    };
    ways.map(run).into()
}

#[test]
fn a_volume_that_shrank_refuses_the_data() {
    for outcome in outcomes(|queue| queue.resize(5)) {
        assert_eq!(outcome.unwrap_err(), Status::LBA_OUT_OF_RANGE.dnr());
    }
    assert!(outcomes(|queue| queue.resize(6)).iter().all(Result::is_ok), "the extent still fits");
}

#[test]
fn a_reservation_that_came_meanwhile_refuses_the_data() {
    let conflict = Status::RESERVATION_CONFLICT.dnr();
    for outcome in outcomes(|queue| queue.fence(7, Some(ReservationType::ExclusiveAccess))) {
        assert_eq!(outcome.unwrap_err(), conflict);
    }
    let outcomes = outcomes(|queue| queue.fence(7, Some(ReservationType::WriteExclusive)));
    let refused = outcomes.iter().map(|outcome| outcome.as_ref().err() == Some(&conflict));
    assert_eq!(
        refused.collect::<Vec<_>>(),
        [true, true, false, false],
        "it leaves reading, and so comparing"
    );
}

#[test]
fn a_request_names_the_epoch_of_the_moment_when_its_data_came() {
    for outcome in outcomes(|queue| queue.fence(7, None)) {
        assert_eq!(outcome.unwrap().0, Epoch(7));
    }
}

#[test]
fn what_was_decoded_is_what_is_carried_out() {
    for (in_capsule, durability, flags) in
        [(false, Durability::Cached, 0), (true, Durability::Durable, FUA), (false, Durability::Durable, FUA)]
    {
        let mut queue = Queue::new();
        let header = queue.command((WRITE, flags), in_capsule);
        let (_, operation) = queue.data(header).unwrap();
        let Operation::Write { extent, data, durability: found } = operation else { panic!("{operation:?}") };
        assert_eq!((extent, data.into_one().to_vec(), found), (EXTENT, vec![7; LENGTH as usize], durability));
        let mut queue = Queue::new();
        let header = queue.command((COMPARE, 0), in_capsule);
        let (_, operation) = queue.data(header).unwrap();
        assert!(matches!(operation, Operation::Compare { extent: EXTENT, .. }), "{operation:?}");
    }
}
