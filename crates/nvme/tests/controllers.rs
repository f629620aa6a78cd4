//! Controllers that are not ours: a host must use those that offer the NVM command set among others only, and must see that a
//! namespace is of another command set.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;

use nvme::cqe::CompletionQueueEntry;
use nvme::fabrics::Property;
use nvme::host::{Action, Connection, Failure, Input};
use nvme::identify::{
    Identify, IdentifyController, IdentifyNamespace, NamespaceIds, SIZE, cns, write_descriptors,
};
use nvme::opcode::{FABRICS, admin, fctype};
use nvme::pdu::{C2hData, CapsuleCmd, CapsuleResp, Digests, IcResp, flags};
use nvme::properties::offset;
use nvme::sqe::SubmissionQueueEntry;
use nvme::status::Status;
use protocol::pair::Half;
use protocol::{Connection as _, Instant};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

const NOW: Instant = Instant::ZERO;

/// A controller with one namespace that says what it is told to say.
struct Controller {
    /// CAP.CSS.
    css: u64,
    /// The command set of its namespace.
    csi: u8,
    /// CC as the host has written it.
    written: Vec<u32>,
}

impl Controller {
    /// What a command brings: its result and its data.
    fn answer(&mut self, entry: &SubmissionQueueEntry) -> (u64, Vec<u8>) {
        let property = Property::view(entry);
        match (entry.opcode, entry.fctype()) {
            (FABRICS, fctype::CONNECT) => (1, Vec::new()),
            (FABRICS, fctype::PROPERTY_SET) => {
                self.written.push(property.value.get() as u32);
                (0, Vec::new())
            }
            (FABRICS, _) if property.ofst.get() == offset::CAP => (127 | self.css << 37, Vec::new()),
            (FABRICS, _) => (1, Vec::new()),
            (admin::IDENTIFY, _) => (0, self.identify(Identify::decode(entry))),
            _ => (0, Vec::new()),
        }
    }

    fn identify(&self, command: Identify) -> Vec<u8> {
        match command.cns {
            cns::CONTROLLER => IdentifyController::new_zeroed().as_bytes().to_vec(),
            cns::NAMESPACE => {
                let mut namespace = IdentifyNamespace::new_zeroed();
                namespace.nsze.set(1000);
                namespace.lbaf[0].lbads = 9;
                namespace.as_bytes().to_vec()
            }
            _ => {
                let mut page = vec![0; SIZE];
                let ids = NamespaceIds { command_set: Some(self.csi), ..NamespaceIds::default() };
                write_descriptors(&ids, &mut page).unwrap();
                page
            }
        }
    }

    /// Answers everything that the host has sent; false when it sent nothing.
    fn serve(&mut self, half: &mut Half<Connection>) -> bool {
        let bytes = half.transmit(NOW);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (pdu, others) = rest.split_at(u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize);
            rest = others;
            if pdu[0] == 0 {
                half.receive(NOW, IcResp::new(Digests::NONE, 8192).as_bytes());
                continue;
            }
            let (capsule, _) = CapsuleCmd::read_from_prefix(pdu).unwrap();
            if capsule.entry.opcode == admin::ASYNC_EVENT_REQUEST {
                continue;
            }
            let (result, data) = self.answer(&capsule.entry);
            let cid = capsule.entry.cid.get();
            if !data.is_empty() {
                let mut header = C2hData::new(cid, 0, data.len() as u32);
                header.header.flags = flags::LAST;
                header.header.pdo = 24;
                header.header.plen.set(24 + data.len() as u32);
                half.receive(NOW, &[header.as_bytes(), &data].concat());
            }
            let entry = CompletionQueueEntry::new(cid, 0, Status::SUCCESS).with_result(result);
            half.receive(NOW, CapsuleResp::new(entry).as_bytes());
        }
        !bytes.is_empty()
    }
}

/// What a host says of a controller, and what it wrote to CC, the last time to shut it down.
fn meet(css: u64, csi: u8) -> (Result<u64, Failure>, Vec<u32>) {
    let mut controller = Controller { css, csi, written: Vec::new() };
    let mut half = Half::new(Connection::new(common::admin(1), NOW));
    while controller.serve(&mut half) {}
    let said = match half.connection.poll_action() {
        Some(Action::Ready(remote)) => Ok(remote.geometry.blocks),
        Some(Action::Failed(failure)) => Err(failure),
        other => panic!("{other:?}"),
    };
    if said.is_ok() {
        half.connection.handle_input(NOW, Input::Disconnect);
        while controller.serve(&mut half) {}
    }
    (said, controller.written)
}

#[test]
fn the_nvm_command_set_is_enabled_in_the_way_that_is_offered() {
    // CSS bits: 0 the NVM command set, 6 all that there are, 7 none. Some drives say nothing.
    for (css, enable) in
        [(1, 0x0046_0001), (1 | 1 << 6, 0x0046_0001), (1 << 6, 0x0046_0061), (0, 0x0046_0001)]
    {
        let (said, written) = meet(css, 0);
        assert_eq!((said.unwrap(), written), (1000, vec![enable, enable | 1 << 14]), "CSS {css:#b}");
    }
}

#[test]
fn a_namespace_of_another_command_set_is_refused_before_it_is_read() {
    let (said, _) = meet(1 << 6, 2);
    let text = "the namespace's I/O command set is not the NVM command set";
    assert_eq!(said.unwrap_err(), Failure::Unusable(text));
}
