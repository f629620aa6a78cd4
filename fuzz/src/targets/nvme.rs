//! NVMe/TCP: both ends of a whole connection.

use std::sync::Arc;

use buf::Pool;
use nvme::controller::{self, Hosts, Namespace, Portal, QueueLimits, Subsystem};
use nvme::fabrics::HostIdentity;
use nvme::host::{self, Config, Queue};
use nvme::lifetime::Lifetime;
use nvme::subsystem::{Reply, Subsystems};
use protocol::pair::Half;
use protocol::{Connection, Ended, Group, GroupMessage, Instant};
use volume::reservation::{Change, Reservations};
use volume::{Epoch, Features, Geometry, Limits, Submission, VolumeId};

use super::{answer, chunks};

/// The subsystem's name.
pub const NQN: &str = "nqn.2026-11.org.linerate:disk";

/// A portal with one open subsystem.
pub fn portal() -> Portal {
    let namespace = Namespace {
        incarnation: Some([0xe1; 16]),
        nsid: 1,
        volume: VolumeId::new(0, 0),
        geometry: Geometry { blocks: 4096, block_size: 512, physical_block_size: 4096 },
        limits: Limits::default(),
        features: Features::all().difference(Features::READ_ONLY),
        nguid: [1; 16],
        eui64: None,
        uuid: [7; 16],
    };
    let subsystem = Subsystem {
        nqn: NQN.into(),
        serial: "1".to_owned(),
        model: "Linerate".to_owned(),
        firmware: "0".to_owned(),
        hosts: Hosts::Any,
        namespaces: vec![namespace],
        limits: QueueLimits::default(),
    };
    Portal {
        subsystems: vec![Arc::new(subsystem)],
        advertised: Vec::new(),
        referrals: Vec::new(),
        generation: 1,
        log: nvme::controller::DiscoveryLog::default(),
        require_digests: false,
    }
}

/// How the host connects its admin queue.
pub fn config() -> Config {
    Config {
        host: HostIdentity { identifier: [5; 16], nqn: "nqn.2014-08.org.nvmexpress:uuid:fuzz".into() },
        subnqn: NQN.into(),
        header_digest: false,
        data_digest: false,
        depth: 16,
        command_time: nvme::limits::COMMAND_TIME,
        queue: Queue::Admin { nsid: 1, queues: 1, kato: 0 },
    }
}

/// Gives a controller's connection what it asks for.
pub fn serve(half: &mut Half<controller::Connection>, subsystems: &mut Subsystems<u8>) {
    while let Some(action) = half.connection.poll_action() {
        let input = match action {
            controller::Action::Submit(Submission { request, .. }) => {
                controller::Input::Completion(answer(request))
            }
            controller::Action::Reserve { tag, .. } => controller::Input::Reserved { tag, result: Ok(()) },
            controller::Action::Group(request) => {
                subsystems.handle_message(Instant::ZERO, 0, request);
                let Some(GroupMessage { message: reply, .. }) = subsystems.poll_message() else { continue };
                controller::Input::Group(reply)
            }
            controller::Action::Cancel { .. } => continue,
        };
        half.connection.handle_input(Instant::ZERO, input);
    }
}

/// Whatever a peer may send to a controller.
pub fn controller(bytes: &[u8]) {
    let connection = controller::Connection::new(Arc::new(portal()), Pool::new(8 << 20), Instant::ZERO);
    let (mut half, mut subsystems) = (Half::new(connection), Subsystems::new());
    for chunk in chunks(bytes) {
        half.receive(Instant::ZERO, chunk);
        serve(&mut half, &mut subsystems);
        half.transmit(Instant::ZERO);
    }
    half.end(Instant::ZERO, Ended::ByPeer);
    serve(&mut half, &mut subsystems);
}

/// Gives an I/O queue's connection what it asks for, as the group of a controller that wants it.
pub fn serve_queue<C>(half: &mut Half<C>)
where
    C: Connection<Input = controller::Input, Action = controller::Action>,
{
    let mut reservations = Reservations::default();
    while let Some(action) = half.connection.poll_action() {
        let input = match action {
            controller::Action::Submit(Submission { request, .. }) => {
                controller::Input::Completion(answer(request))
            }
            controller::Action::Reserve { tag, volume, registrant, command } => {
                let change = reservations.apply(&registrant, &command);
                if let Ok(Change { view, notices, aborted }) = &change {
                    let told = controller::Reservations {
                        view: Arc::clone(view),
                        notices: notices.as_slice().into(),
                        aborted: aborted.as_slice().into(),
                    };
                    let (epoch, reservations) = (Epoch(1), Some(told));
                    let fence = controller::Input::Fence { volume, epoch, reservations };
                    half.connection.handle_input(Instant::ZERO, fence);
                }
                controller::Input::Reserved { tag, result: change.map(drop) }
            }
            controller::Action::Group(_) => controller::Input::Group(Reply::Joined {
                cntlid: 1,
                hostid: [5; 16],
                lifetime: Lifetime::new(),
            }),
            controller::Action::Cancel { .. } => continue,
        };
        half.connection.handle_input(Instant::ZERO, input);
    }
}

/// Whatever a peer may send to an I/O queue.
pub fn io_queue(bytes: &[u8]) {
    let connection = controller::Connection::new(Arc::new(portal()), Pool::new(8 << 20), Instant::ZERO);
    let mut half = Half::new(connection);
    for chunk in chunks(bytes) {
        half.receive(Instant::ZERO, chunk);
        serve_queue(&mut half);
        half.transmit(Instant::ZERO);
    }
    half.end(Instant::ZERO, Ended::ByPeer);
    serve_queue(&mut half);
}

/// Whatever a peer may send to a host.
pub fn host(bytes: &[u8]) {
    let mut half = Half::new(host::Connection::new(config(), Instant::ZERO));
    half.transmit(Instant::ZERO);
    for chunk in chunks(bytes) {
        half.receive(Instant::ZERO, chunk);
        while half.connection.poll_action().is_some() {}
        half.transmit(Instant::ZERO);
    }
    half.end(Instant::ZERO, Ended::ByPeer);
}
