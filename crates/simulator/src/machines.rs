//! Addresses of clients' machines in the calling thread's world, and how long datagrams the way from each carries.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};

use host::Path;

use crate::dice::Dice;

/// Bytes that a way carries whole, headers included: those of an old link, Ethernet's, those between two MTUs of RoCE, jumbo frames', loopback's.
const PATHS: [usize; 5] = [576, 1500, 4179, 9000, 65_536];

/// What the machines of a world begin with.
struct Machines {
    /// How many there are.
    count: u32,
    dice: Dice,
}

thread_local! {
    static MACHINES: RefCell<Option<Machines>> = const { RefCell::new(None) };
}

/// A world begins.
pub(crate) fn begin(dice: Dice) {
    MACHINES.set(Some(Machines { count: 0, dice }));
}

/// What leads from another machine to everybody.
pub(crate) fn another() -> Path {
    let (number, mtu) = MACHINES.with_borrow_mut(|machines| match machines {
        Some(Machines { count, dice }) => {
            *count += 1;
            (*count, PATHS[dice.index(PATHS.len())])
        }
        None => (1, PATHS[0]),
    });
    let local = Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST).saturating_add(number));
    Path { local: IpAddr::V4(local), mtu }
}
