//! What opening a volume of another machine asks of this one: addresses and secrets. Both may block.

use std::io;
use std::net::SocketAddr;

/// Knows the addresses of machines.
pub trait Resolver: Send + Sync {
    /// The addresses of a machine, with this port, in the order in which they are to be tried. May take as long as it takes.
    fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// Reads secrets.
pub trait SecretReader: Send + Sync {
    /// What a file holds.
    fn file(&self, path: &str) -> io::Result<Vec<u8>>;

    /// What a variable of the environment holds, if it is set.
    fn variable(&self, name: &str) -> Option<Vec<u8>>;
}
