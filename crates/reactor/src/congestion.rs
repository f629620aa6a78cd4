//! Which TCP congestion control the sockets use: cubic where the system permits it, unless the user names another.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Bytes of the longest name, and a zero (`TCP_CA_NAME_MAX`).
const NAME: usize = 16;
/// What the sockets use unless the user says otherwise: bbr, which many systems prefer, costs a fifth of what goes through a rack (docs/data-path.md rule 3).
const USUAL: &str = "cubic";
/// What leaves the system's own in use.
const SYSTEM: &str = "system";

/// The congestion control of every TCP socket. The default is cubic where the system permits it, else the system's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Congestion {
    /// `None` leaves the system's own.
    name: Option<[u8; NAME]>,
}

impl Default for Congestion {
    fn default() -> Self {
        Self { name: padded(USUAL) }
    }
}

impl Congestion {
    /// By the kernel's name for it, such as `dctcp`; `system` leaves the system's own in use.
    ///
    /// # Errors
    ///
    /// When the system has none of that name, or does not permit it to this process.
    pub fn named(name: &str) -> Result<Self, NoCongestion> {
        if name == SYSTEM {
            return Ok(Self { name: None });
        }
        let failed = |error| NoCongestion::new(name, &error);
        let padded = padded(name).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).map_err(failed)?;
        socket.set_tcp_congestion(&padded).map_err(failed)?;
        Ok(Self { name: Some(padded) })
    }

    /// Sets a socket's.
    pub(crate) fn set(&self, socket: &SockRef<'_>) {
        if let Some(name) = &self.name {
            // Where cubic is not permitted, the system's own works too; others were permitted when they were named.
            let _ = socket.set_tcp_congestion(name);
        }
    }
}

/// As the kernel takes it; `None` for what cannot be a name.
fn padded(name: &str) -> Option<[u8; NAME]> {
    let mut padded = [0; NAME];
    let fits = !name.is_empty() && name.len() < NAME && name.bytes().all(|byte| byte.is_ascii_graphic());
    padded.get_mut(..name.len()).filter(|_| fits)?.copy_from_slice(name.as_bytes());
    Some(padded)
}

/// A congestion control cannot be used: which, why, and what can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoCongestion(String);

impl NoCongestion {
    fn new(name: &str, error: &io::Error) -> Self {
        let read =
            |setting: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{setting}")).unwrap_or_default();
        Self(match error.kind() {
            io::ErrorKind::NotFound => format!(
                "the system has no TCP congestion control {name:?}: say system, or one that it has: {} (others may be kernel modules)",
                read("tcp_available_congestion_control").trim()
            ),
            io::ErrorKind::PermissionDenied => format!(
                "the system does not permit the TCP congestion control {name:?} to this user: say system, or one that net.ipv4.tcp_allowed_congestion_control names: {}",
                read("tcp_allowed_congestion_control").trim()
            ),
            _ => format!("the TCP congestion control {name:?} cannot be set: {error}"),
        })
    }
}

impl fmt::Display for NoCongestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for NoCongestion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_system_has_is_set() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
        Congestion::named("reno").unwrap().set(&SockRef::from(&socket));
        assert!(socket.tcp_congestion().unwrap().starts_with(b"reno"));
    }

    #[test]
    fn the_systems_own_stays_where_it_is_asked_for() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
        let before = socket.tcp_congestion().unwrap();
        Congestion::named("system").unwrap().set(&SockRef::from(&socket));
        assert_eq!(socket.tcp_congestion().unwrap(), before);
    }

    #[test]
    fn a_name_that_the_system_lacks_is_refused_with_those_that_it_has() {
        for name in ["", "kbbr", "two words", "longer-than-sixteen-bytes", "r\u{e9}no", "ren"] {
            let error = Congestion::named(name).unwrap_err().to_string();
            assert!(error.contains(&format!("{name:?}")) && error.contains("reno"), "{error}");
        }
    }

    #[test]
    fn a_name_that_is_not_permitted_is_told_from_one_that_is_not_there() {
        let error = NoCongestion::new("dctcp", &io::ErrorKind::PermissionDenied.into()).to_string();
        assert!(error.contains("does not permit") && error.contains("reno"), "{error}");
        let error = NoCongestion::new("dctcp", &io::Error::from_raw_os_error(libc::EMFILE)).to_string();
        assert!(error.contains("cannot be set"), "{error}");
    }
}
