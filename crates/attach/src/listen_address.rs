//! Where an NBD server listens, as users write it, and the socket file that a Unix-domain one is.

use std::fmt;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use reactor::Listener;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Where clients connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// A Unix-domain socket, at this path.
    Unix(PathBuf),
    /// TCP.
    Tcp(SocketAddr),
}

impl FromStr for ListenAddress {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        match text.parse() {
            Ok(address) => Ok(Self::Tcp(address)),
            Err(_) => bail!(
                "{text:?} is not an address to listen at: write unix:PATH, such as unix:disk.sock, or an IP address and a port, \
                 such as 127.0.0.1:10809"
            ),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

impl ListenAddress {
    /// The URI by which NBD clients name the default export here.
    pub fn uri(&self) -> String {
        match self {
            Self::Unix(path) => {
                let whole = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                format!("nbd+unix:///?socket={}", escape(&whole))
            }
            Self::Tcp(address) => format!("nbd://{address}"),
        }
    }
}

/// Percent-encodes what has a meaning in a URI's query, or none (RFC 3986 §3.4).
fn escape(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    bytes
        .map(|&byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// A socket file of ours, removed when this goes, unless another process has put its own in its place.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|inode| inode == self.inode) {
            // Gone already is as good.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn inode(path: &Path) -> std::io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|data| (data.dev(), data.ino()))
}

/// Listens at `address`, where no other process does. The file of a Unix-domain socket is the owner's alone.
pub(crate) fn listen(address: &ListenAddress) -> Result<(Listener, ListenAddress, Option<SocketFile>)> {
    match address {
        ListenAddress::Tcp(address) => {
            let listener = Listener::bind(*address).with_context(|| format!("cannot listen at {address}"))?;
            let local = ListenAddress::Tcp(listener.local());
            Ok((listener, local, None))
        }
        ListenAddress::Unix(path) => {
            clear(path)?;
            let listener =
                Listener::bind_unix(path).with_context(|| format!("cannot listen at {address}"))?;
            let inode =
                inode(path).with_context(|| format!("the socket {} cannot be seen", path.display()))?;
            Ok((listener, address.clone(), Some(SocketFile { path: path.clone(), inode })))
        }
    }
}

/// A Unix-domain socket that listens at `path`, where no other process does; its file is the owner's alone.
pub(crate) fn bind_private(path: &Path) -> Result<(UnixListener, SocketFile)> {
    clear(path)?;
    let wrong = || format!("cannot listen at {}", path.display());
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .with_context(wrong)?;
    net::bind(&socket, &SocketAddrUnix::new(path).with_context(wrong)?).with_context(wrong)?;
    let inode = inode(path).with_context(wrong)?;
    let file = SocketFile { path: path.to_owned(), inode };
    // No client can connect before it listens.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).with_context(wrong)?;
    net::listen(&socket, 1).with_context(wrong)?;
    Ok((UnixListener::from(socket), file))
}

/// Removes a socket that a process left behind when it died; refuses to touch anything else.
fn clear(path: &Path) -> Result<()> {
    let data = match std::fs::symlink_metadata(path) {
        Ok(data) => data,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("{} cannot be looked at", path.display())),
    };
    if !data.file_type().is_socket() {
        bail!("{} exists and is not a socket: choose another path, or move it away", path.display());
    }
    match reactor::while_taken(ErrorKind::AddrInUse, || check_free(path)) {
        Ok(()) => std::fs::remove_file(path).with_context(|| {
            format!("the socket {} that nobody listens at cannot be removed", path.display())
        }),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            bail!("somebody listens at {} already: choose another path, or end that process", path.display())
        }
        Err(error) => Err(error)
            .with_context(|| format!("whether somebody listens at {} cannot be told", path.display())),
    }
}

/// Fails with [`ErrorKind::AddrInUse`] if a process listens at `path`.
fn check_free(path: &Path) -> std::io::Result<()> {
    match UnixStream::connect(path) {
        Ok(_) => Err(ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whom the user means to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllowedPeers {
    /// Programs of this machine.
    ThisMachine,
    /// Whoever can reach the address.
    Anybody,
}

/// Refuses an address that other machines can reach, unless this is meant.
pub(crate) fn check_reach(address: &ListenAddress, peers: AllowedPeers) -> Result<()> {
    match address {
        ListenAddress::Tcp(address)
            if !address.ip().to_canonical().is_loopback() && peers == AllowedPeers::ThisMachine =>
        {
            bail!(
                "{address} can be reached from other machines, and NBD has no access rules here: listen at loopback or at a \
             Unix-domain socket, or say --allow-any to serve anybody who can reach it"
            )
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for text in ["unix:/run/disk.sock", "127.0.0.1:10809", "[::1]:10809"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        for text in ["", "unix:", "/run/disk.sock", "localhost:10809", "127.0.0.1"] {
            let error = text.parse::<ListenAddress>().unwrap_err().to_string();
            assert!(error.contains("unix:PATH"), "{error}");
        }
        assert_eq!(ListenAddress::Unix("/a b/c&d".into()).uri(), "nbd+unix:///?socket=/a%20b/c%26d");
    }

    #[test]
    fn only_a_socket_without_a_listener_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock");
        drop(UnixListener::bind(&path).unwrap());
        let address = ListenAddress::Unix(path.clone());
        let (listener, _, file) = listen(&address).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let error = listen(&address).unwrap_err().to_string();
        assert!(error.contains("somebody listens"), "{error}");
        drop((listener, file));
        assert!(!path.exists());
        std::fs::write(&path, "text").unwrap();
        let error = listen(&address).unwrap_err().to_string();
        assert!(error.contains("is not a socket"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"text");
    }

    #[test]
    fn a_socket_of_another_process_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock");
        let (_listener, _, file) = listen(&ListenAddress::Unix(path.clone())).unwrap();
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(file);
        assert!(path.exists());
    }

    #[test]
    fn beyond_loopback_only_if_it_is_meant() {
        use AllowedPeers::{Anybody, ThisMachine};
        for (text, peers, fine) in [
            ("127.0.0.1:1", ThisMachine, true),
            ("[::ffff:127.0.0.1]:1", ThisMachine, true),
            ("unix:x", ThisMachine, true),
            ("0.0.0.0:1", ThisMachine, false),
            ("192.0.2.1:1", ThisMachine, false),
            ("192.0.2.1:1", Anybody, true),
        ] {
            assert_eq!(check_reach(&text.parse().unwrap(), peers).is_ok(), fine, "{text} {peers:?}");
        }
    }
}
