//! Sockets for datagrams: bound to one address each, with segmentation offload, and without fragments.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use host::Path;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::limits::DATAGRAM_BUFFER;
use crate::sys::{number, set_number};

/// Whether a socket is the first one at its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// It is, and no other process may have one there; others of this one's may join it.
    Begins,
    /// It joins others of this process's.
    Joins,
}

/// Binds a socket.
pub(crate) fn bind(address: SocketAddr, sharing: Sharing) -> io::Result<OwnedFd> {
    if address.ip().is_unspecified() {
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "a wildcard is not one address"));
    }
    let socket = new_socket(address)?;
    prepare(socket.as_fd(), address.ip())?;
    let share = || set_number(socket.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1);
    if sharing == Sharing::Joins {
        share()?;
    }
    socket.bind(&address.into())?;
    if sharing == Sharing::Begins {
        // Only now: it would have joined another process's.
        share()?;
    }
    Ok(socket.into())
}

/// The address that a socket is bound to.
pub(crate) fn local(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let local = SockRef::from(&socket).local_addr()?.as_socket();
    local.ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
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

/// What leads to `peer`.
pub(crate) fn path_to(peer: SocketAddr) -> io::Result<Path> {
    // A socket that is connected knows the path, and nothing is sent.
    let probe = new_socket(peer)?;
    probe.connect(&peer.into())?;
    let here = local(probe.as_fd())?.ip();
    let (level, option) = match here {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let mtu = usize::try_from(number(probe.as_fd(), level, option)?).unwrap_or_default();
    Ok(Path { local: here, mtu })
}
