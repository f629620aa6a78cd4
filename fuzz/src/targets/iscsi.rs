//! iSCSI: both ends of a whole connection.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use buf::Pool;
use iscsi::datamover::tcp;
use iscsi::initiator::Config;
use iscsi::session::Sessions;
use iscsi::target::{self, Access, Node, Portal, Resources};
use protocol::pair::Half;
use protocol::{Connection, Ended, Group, GroupMessage, Instant, SeededEntropy};

use super::{answer, chunks, scsi};

/// The target's name.
pub const TARGET: &str = "iqn.2026-11.org.linerate:disk";
/// The initiator's name.
pub const INITIATOR: &str = "iqn.2026-11.org.linerate:fuzz";

/// A portal with one open target.
pub fn portal() -> Option<Portal> {
    let node = Node {
        name: TARGET.parse().ok()?,
        alias: String::new(),
        device: scsi::device(),
        portal_group: 1,
        access: Access::default(),
    };
    Some(Portal::new(vec![node]))
}

/// What a target's connection is made of.
pub fn resources(pool: &Pool) -> Resources {
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 3260));
    Resources { pool: pool.clone(), entropy: Box::new(SeededEntropy::new(1)), local, peer: local }
}

/// How the initiator logs in.
pub fn config() -> Option<Config> {
    let isid = [0x80, 0, 0, 0, 0, 1];
    Some(Config::new(INITIATOR.parse().ok()?, isid, Some(TARGET.parse().ok()?), 0))
}

/// Gives a target's connection what it asks for.
pub fn serve<C>(half: &mut Half<C>, sessions: &mut Sessions<u8>)
where
    C: Connection<Input = target::Input, Action = target::Action>,
{
    half.connection.handle_memory(Instant::ZERO);
    while let Some(action) = half.connection.poll_action() {
        let input = match action {
            target::Action::Submit(volume::Submission { request, .. }) => {
                target::Input::Completion(answer(request))
            }
            target::Action::Group(request) => {
                sessions.handle_message(Instant::ZERO, 0, request);
                let Some(GroupMessage { message: reply, .. }) = sessions.poll_message() else { continue };
                target::Input::Group(reply)
            }
            target::Action::Reserve { tag, .. } => {
                target::Input::Reserved { tag, result: Err(volume::reservation::CommandError::Conflict) }
            }
            target::Action::Reset { tag, .. } => {
                target::Input::Reset { tag, result: target::ResetResult::Done }
            }
            target::Action::Cancel { .. } | target::Action::Event { .. } => continue,
        };
        half.connection.handle_input(Instant::ZERO, input);
    }
}

/// Whatever a peer may send to a target.
pub fn target(bytes: &[u8]) {
    let Some(portal) = portal() else { return };
    let pool = Pool::new(8 << 20);
    let connection = tcp::TargetConnection::new(Instant::ZERO, Arc::new(portal), resources(&pool));
    let (mut half, mut sessions) = (Half::new(connection), Sessions::new());
    for chunk in chunks(bytes) {
        half.receive(Instant::ZERO, chunk);
        serve(&mut half, &mut sessions);
        half.transmit(Instant::ZERO);
    }
    half.end(Instant::ZERO, Ended::ByPeer);
    serve(&mut half, &mut sessions);
}

/// Whatever a peer may send to an initiator.
pub fn initiator(bytes: &[u8]) {
    let Some(config) = config() else { return };
    let entropy = Box::new(SeededEntropy::new(1));
    let connection = tcp::InitiatorConnection::new(Instant::ZERO, config, Pool::new(8 << 20), entropy);
    let mut half = Half::new(connection);
    half.transmit(Instant::ZERO);
    for chunk in chunks(bytes) {
        half.receive(Instant::ZERO, chunk);
        while half.connection.poll_action().is_some() {}
        half.transmit(Instant::ZERO);
    }
    half.end(Instant::ZERO, Ended::ByPeer);
}
