//! Names of machines and secrets, as the operating system knows them.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStringExt;

use host::{Resolver, SecretReader};

/// The system's resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok((name, port).to_socket_addrs()?.collect())
    }
}

/// The system's files, and this process' environment.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemSecrets;

impl SecretReader for SystemSecrets {
    fn file(&self, path: &str) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn variable(&self, name: &str) -> Option<Vec<u8>> {
        // The system knows no variable whose name is empty or has one of these; asking would be an error.
        let value = (!name.contains(['=', '\0'])).then(|| std::env::var_os(name)).flatten();
        value.map(OsStringExt::into_vec)
    }
}
