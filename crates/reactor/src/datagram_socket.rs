//! Sockets for datagrams: bound to one address each, with segmentation offload, and without fragments.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use host::LocalPort;
use socket2::{Domain, Protocol, Socket, Type};

use crate::limits::DATAGRAM_BUFFER;
use crate::listener::while_taken;
use crate::sys::{number, set_number};

/// A bound socket for datagrams.
#[derive(Debug)]
pub struct DatagramSocket {
    socket: Socket,
    local: SocketAddr,
}

impl DatagramSocket {
    /// Binds one; port 0 takes a free one, which [`DatagramSocket::local`] returns. Waits up to two seconds for an address that is in use: by a process
    /// that was just killed, or by a socket of this one's that is about to close.
    ///
    /// # Errors
    /// The system refuses the address, or it is a wildcard.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        while_taken(io::ErrorKind::AddrInUse, || Self::bind_once(address))
    }

    fn bind_once(address: SocketAddr) -> io::Result<Self> {
        if address.ip().is_unspecified() {
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "a wildcard is not one address"));
        }
        let socket = new_socket(address)?;
        prepare(socket.as_fd(), address.ip())?;
        socket.bind(&address.into())?;
        let local = socket.local_addr()?.as_socket().unwrap_or(address);
        Ok(Self { socket, local })
    }

    /// The address that it is bound to.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.socket.into()
    }
}

fn new_socket(address: SocketAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), Some(Protocol::UDP))
}

/// No datagram is cut into fragments, many of one length come in one call, and bursts find room.
fn prepare(socket: BorrowedFd<'_>, address: IpAddr) -> io::Result<()> {
    match address {
        IpAddr::V4(_) => set_number(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?,
        IpAddr::V6(_) => {
            set_number(socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
            set_number(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO)?;
        }
    }
    set_number(socket, libc::SOL_UDP, libc::UDP_GRO, 1)?;
    for (forced, usual) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        // The first takes a privilege; without it the system's limit (`net.core.rmem_max`, `wmem_max`) holds.
        set_number(socket, libc::SOL_SOCKET, forced, DATAGRAM_BUFFER)
            .or_else(|_| set_number(socket, libc::SOL_SOCKET, usual, DATAGRAM_BUFFER))?;
    }
    Ok(())
}

/// A socket for one peer's datagrams.
#[derive(Debug)]
pub(crate) struct Outward {
    pub(crate) socket: DatagramSocket,
    /// Bytes of a datagram that the way carries whole.
    pub(crate) path: usize,
}

/// Binds a socket to the address from which a way leads to `peer`.
pub(crate) fn open(peer: SocketAddr, port: LocalPort) -> io::Result<Outward> {
    // A socket that is connected knows the way, and nothing is sent.
    let probe = new_socket(peer)?;
    probe.connect(&peer.into())?;
    let here = probe.local_addr()?.as_socket().map(|local| local.ip());
    let here = here.ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
    let (level, option) = match here {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let path = usize::try_from(number(probe.as_fd(), level, option)?).unwrap_or_default();
    let port = match port {
        LocalPort::Any => 0,
        LocalPort::Given(port) => port,
    };
    Ok(Outward { socket: DatagramSocket::bind_once(SocketAddr::new(here, port))?, path })
}
