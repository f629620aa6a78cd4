//! What a listener for datagrams is: a socket for each core, all of them at one address.

use std::io;
use std::net::SocketAddr;

use host::{CoreIndex, SlotField};

use crate::listener::while_taken;
use crate::socket_group::Member;

/// Bound sockets for datagrams, at one address.
#[derive(Debug)]
pub struct DatagramSockets {
    members: Vec<Member>,
    local: SocketAddr,
}

impl DatagramSockets {
    /// Binds as many as there are cores; port 0 takes a free one, which [`DatagramSockets::local`] returns. A datagram comes to the socket, counted from zero, that `slot` of it
    /// names. Waits up to two seconds for an address that is in use: by a process that was just killed. Sockets of this process's at this address, which leave or are a
    /// client's, do not matter.
    ///
    /// # Errors
    /// The system refuses the address, or it is a wildcard, or 256 sockets of this process have it.
    pub fn bind(address: SocketAddr, slot: SlotField, cores: CoreIndex) -> io::Result<Self> {
        let first = while_taken(io::ErrorKind::AddrInUse, || Member::bind(address, slot))?;
        let local = first.local();
        let others = (1..cores).map(|_| Member::bind(local, slot));
        let members = std::iter::once(Ok(first)).chain(others).collect::<io::Result<_>>()?;
        Ok(Self { members, local })
    }

    /// The address that they are bound to.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn into_members(self) -> Vec<Member> {
        self.members
    }
}
