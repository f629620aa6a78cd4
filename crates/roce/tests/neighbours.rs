//! Endpoints that share an address: which connection is whose, and what goes on to a neighbour.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod rig;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

use protocol::{Instant, SeededEntropy};
use rig::{CONFIG, Host, far_address, near_address};
use roce::endpoint::{NUMBER_OFFSET, Neighbours};
use roce::{Connection, Endpoint};
use verbs::ManagedQueuePair as _;

struct Shared {
    own: u8,
    /// The slots that decide about newcomers: so many, from the second.
    acceptors: Rc<Cell<u8>>,
}

impl Neighbours for Shared {
    fn own(&self) -> u8 {
        self.own
    }

    fn acceptor(&self, key: u32) -> Option<u8> {
        let count = u32::from(self.acceptors.get());
        let chosen = key.checked_rem(count)?;
        Some(1 + u8::try_from(chosen).unwrap())
    }
}

/// Three hosts at one address, and those of them that decide about newcomers.
fn near(acceptors: u8) -> ([Host; 3], Rc<Cell<u8>>) {
    let acceptors = Rc::new(Cell::new(acceptors));
    let host = |own| {
        let mut host = Host::new(near_address(false), CONFIG, Vec::new());
        let account = buf::Account::new(&buf::Pool::new(64 << 20));
        let entropy = Box::new(SeededEntropy::new(u64::from(own)));
        let neighbours = Box::new(Shared { own, acceptors: Rc::clone(&acceptors) });
        host.endpoint = Endpoint::new(near_address(false), account, entropy).among(neighbours);
        host
    };
    ([0, 1, 2].map(host), acceptors)
}

/// Gives each datagram to the host that the kernel would choose by its byte, and on from there.
fn deliver(near: &mut [Host; 3], from: SocketAddr, datagrams: Vec<Vec<u8>>) -> usize {
    let mut forwarded = 0;
    for bytes in datagrams {
        let mut slot = usize::from(bytes[usize::from(NUMBER_OFFSET) + 2]);
        // Twice would be in circles.
        for _ in 0..2 {
            let Some(next) = near[slot].receive(Instant::ZERO, from, &bytes) else { break };
            forwarded += 1;
            slot = usize::from(next);
        }
    }
    forwarded
}

/// Until nobody has anything to say; what was forwarded.
fn run(near: &mut [Host; 3], far: &mut Host) -> usize {
    let mut forwarded = 0;
    loop {
        let sent = far.transmit(Instant::ZERO);
        let mut is_over = sent.is_empty();
        forwarded += deliver(near, far.address, sent.into_iter().map(|(_, bytes)| bytes).collect());
        for host in &mut *near {
            for (_, bytes) in host.transmit(Instant::ZERO) {
                is_over = false;
                assert_eq!(far.receive(Instant::ZERO, host.address, &bytes), None);
            }
        }
        if is_over {
            return forwarded;
        }
    }
}

#[test]
fn newcomers_are_spread_and_each_packet_finds_its_connection() {
    let (mut near, acceptors) = near(2);
    let mut far = Host::new(far_address(false), CONFIG, Vec::new());
    for _ in 0..6 {
        far.connect(Instant::ZERO, near_address(false).ip(), b"");
    }
    assert!(run(&mut near, &mut far) > 0, "management names no slot");
    assert_eq!(near.each_ref().map(|host| host.connections.len()), [0, 3, 3]);
    assert!(far.connections.values().all(Connection::is_connected));
    for (slot, host) in (0..).zip(&near) {
        assert!(host.connections.keys().all(|id| id.0 % 256 == slot), "{:?}", host.connections.keys());
    }
    // Those that there are stay where they are.
    acceptors.set(1);
    for connection in far.connections.values_mut() {
        rig::send(connection, 1, b"hello");
    }
    for host in &mut near {
        for connection in host.connections.values_mut() {
            rig::post_receive(connection, 1, 10);
        }
    }
    assert_eq!(run(&mut near, &mut far), 0, "each packet names its slot");
    for connection in far.connections.values_mut() {
        assert_eq!(rig::done(connection).len(), 1, "it is acknowledged");
    }
    for connection in far.connections.values_mut() {
        verbs::QueuePair::disconnect(connection);
    }
    assert!(run(&mut near, &mut far) > 0);
    for host in near.iter_mut().chain([&mut far]) {
        host.forget_finished();
        assert!(host.endpoint.is_empty());
    }
}

#[test]
fn where_nobody_decides_a_newcomer_is_refused() {
    let (mut near, acceptors) = near(0);
    let mut far = Host::new(far_address(false), CONFIG, Vec::new());
    far.connect(Instant::ZERO, near_address(false).ip(), b"");
    run(&mut near, &mut far);
    assert!(far.one().is_finished(), "it was told");
    acceptors.set(2);
    // A packet for a connection that is gone is nobody's, wherever it comes.
    let id = near[2].connect(Instant::ZERO, far.address.ip(), b"");
    assert_eq!(id.0 % 256, 2);
}
