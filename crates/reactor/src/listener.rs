//! Listening sockets, and what every stream's socket is set to.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use host::ListenerId;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use crate::congestion::Congestion;
use crate::limits::{BACKLOG, BIND_RETRY, BIND_TIMEOUT, NEAR_SEND_BUFFER, UNSENT};

/// Stands for the address of a stream that has none: a Unix-domain one.
pub const UNNAMED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// A bound, listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    local: SocketAddr,
}

impl Listener {
    /// Listens on `address`; port 0 takes a free one, which [`Listener::local`] returns. Waits up to two seconds for an address
    /// that is in use: by a process that was just killed.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        while_taken(io::ErrorKind::AddrInUse, || Self::bind_once(address))
    }

    fn bind_once(address: SocketAddr) -> io::Result<Self> {
        let socket =
            Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        let local = socket.local_addr()?.as_socket().unwrap_or(address);
        Ok(Self { socket, local })
    }

    /// Listens on a Unix-domain socket at `path`, which must not be there yet. Its file is the owner's alone, and stays
    /// when the listener goes. Such streams have no address: [`UNNAMED`] stands for both sides'.
    pub fn bind_unix(path: &Path) -> io::Result<Self> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
        socket.bind(&SockAddr::unix(path)?)?;
        // No client can connect before it listens.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        socket.listen(BACKLOG)?;
        Ok(Self { socket, local: UNNAMED })
    }

    /// The address that it listens on.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.socket.into()
    }
}

/// Tries again while `attempt` fails with `taken`, for as long as a killed process may still be dying.
pub fn while_taken<T>(taken: io::ErrorKind, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(error) if error.kind() == taken && begun.elapsed() < BIND_TIMEOUT => {
                std::thread::sleep(BIND_RETRY);
            }
            result => return result,
        }
    }
}

/// Sets a stream's socket: no delay, little that waits unsent, and the congestion control.
pub(crate) fn prepare(socket: &OwnedFd, congestion: Congestion) -> io::Result<()> {
    let socket = SockRef::from(socket);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(UNSENT)?;
    congestion.set(&socket);
    Ok(())
}

/// Keeps short what waits to be sent to a peer on the same machine. To others the system decides, as it knows how much is on the way.
fn keep_near(socket: &SockRef<'_>, local: SocketAddr, peer: SocketAddr) {
    if (local.ip() == peer.ip() || peer.ip().is_loopback()) && may_be_near() {
        // Where it is refused after all, the system's own size works too.
        let _ = socket.set_send_buffer_size(NEAR_SEND_BUFFER);
    }
}

/// True where the system allows the whole buffer (`net.core.wmem_max`): a smaller one would be worse than its own.
fn may_be_near() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP));
        let size = socket.and_then(|socket| {
            socket.set_send_buffer_size(NEAR_SEND_BUFFER)?;
            socket.send_buffer_size()
        });
        size.is_ok_and(|size| size >= NEAR_SEND_BUFFER)
    })
}

/// Begins to connect; the outcome shows when the socket becomes writable.
pub(crate) fn connect(peer: SocketAddr, congestion: Congestion) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(peer), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    let result = socket.connect(&peer.into());
    let descriptor = OwnedFd::from(socket);
    match result {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    prepare(&descriptor, congestion)?;
    Ok(descriptor)
}

/// The outcome of a connection attempt, and the addresses of both sides. From then on calls may wait: io_uring's do.
pub(crate) fn connected(socket: &OwnedFd) -> io::Result<(SocketAddr, SocketAddr)> {
    let socket = SockRef::from(socket);
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    let peer = socket.peer_addr()?.as_socket();
    socket.set_nonblocking(false)?;
    let local = socket.local_addr()?.as_socket();
    let addresses = local.zip(peer);
    let (local, peer) = addresses.ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
    keep_near(&socket, local, peer);
    Ok((local, peer))
}

/// An accepted stream on its way to the core that serves it.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) listener: ListenerId,
    pub(crate) stream: Stream,
}

/// A stream that a peer has opened to a listener.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) descriptor: OwnedFd,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

/// Accepts a stream, without waiting.
pub(crate) fn accept(listener: impl AsFd, congestion: Congestion) -> io::Result<Stream> {
    let (socket, peer) = SockRef::from(&listener).accept()?;
    let local = socket.local_addr()?;
    let descriptor = OwnedFd::from(socket);
    if local.domain() == Domain::UNIX {
        return Ok(Stream { descriptor, local: UNNAMED, peer: UNNAMED });
    }
    let local = local.as_socket();
    prepare(&descriptor, congestion)?;
    let addresses = local.zip(peer.as_socket());
    let (local, peer) = addresses.ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
    keep_near(&SockRef::from(&descriptor), local, peer);
    Ok(Stream { descriptor, local, peer })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The send buffers of both ends of a stream.
    fn send_buffers(at: &str) -> [usize; 2] {
        let listener = std::net::TcpListener::bind((at, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let dialled = connect(address, Congestion::default()).unwrap();
        let accepted = accept(&listener, Congestion::default()).unwrap();
        connected(&dialled).unwrap();
        [&dialled, &accepted.descriptor].map(|end| SockRef::from(end).send_buffer_size().unwrap())
    }

    #[test]
    fn little_waits_to_be_sent_to_a_peer_on_the_same_machine() {
        let fixed = |size: usize| (NEAR_SEND_BUFFER..=2 * NEAR_SEND_BUFFER).contains(&size);
        for size in send_buffers("127.0.0.1") {
            assert_eq!(fixed(size), may_be_near(), "{size}");
        }
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
        let before = socket.send_buffer_size().unwrap();
        let (here, there) = ("192.0.2.1:1".parse().unwrap(), "192.0.2.2:2".parse().unwrap());
        keep_near(&SockRef::from(&socket), here, there);
        assert_eq!(socket.send_buffer_size().unwrap(), before);
        keep_near(&SockRef::from(&socket), here, here);
        assert_eq!(socket.send_buffer_size().unwrap() != before, may_be_near());
    }

    #[test]
    fn an_address_is_tried_again_only_while_it_is_in_use() {
        let mut answers = vec![Ok(7), Err(io::ErrorKind::AddrInUse), Err(io::ErrorKind::AddrInUse)];
        let mut next = || answers.pop().unwrap_or(Ok(0)).map_err(io::Error::from);
        assert_eq!(while_taken(io::ErrorKind::AddrInUse, &mut next).ok(), Some(7));
        let mut asked = 0;
        let refused = while_taken::<()>(io::ErrorKind::AddrInUse, || {
            asked += 1;
            Err(io::ErrorKind::PermissionDenied.into())
        });
        assert_eq!((refused.map_err(|error| error.kind()), asked), (Err(io::ErrorKind::PermissionDenied), 1));
    }

    #[test]
    fn little_waits_unsent_at_both_ends_of_a_stream() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let dialled = connect(listener.local_addr().unwrap(), Congestion::default()).unwrap();
        let accepted = accept(&listener, Congestion::default()).unwrap();
        for end in [&dialled, &accepted.descriptor] {
            assert_eq!(SockRef::from(end).tcp_notsent_lowat().unwrap(), UNSENT);
        }
    }

    #[test]
    fn both_ends_of_a_stream_have_the_congestion_control_that_was_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let reno = Congestion::named("reno").unwrap();
        let dialled = connect(listener.local_addr().unwrap(), reno).unwrap();
        let accepted = accept(&listener, reno).unwrap();
        for end in [&dialled, &accepted.descriptor] {
            assert!(SockRef::from(end).tcp_congestion().unwrap().starts_with(b"reno"));
        }
    }
}
