//! What is measured.

use std::net::SocketAddr;
use std::time::Duration;

use buf::SharedBuf;
use reactor::Driver;

/// The command line.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) block: usize,
    pub(crate) depth: usize,
    /// Streams, each with `depth` requests under way.
    pub(crate) connections: usize,
    pub(crate) writes: bool,
    pub(crate) runtime: Duration,
    /// Bytes that payloads are spread over at the server; zero is one block, always in the cache.
    pub(crate) memory: usize,
    pub(crate) driver: Driver,
    pub(crate) spin: Duration,
    pub(crate) endpoint: bool,
    pub(crate) json: bool,
    pub(crate) serve: Option<SocketAddr>,
    pub(crate) connect: Option<SocketAddr>,
}

/// The most streams.
const MOST_CONNECTIONS: usize = 10_000;

const USAGE: &str = "bareloop [--bs BYTES] [--qd N] [--connections N] [--rw read|write] [--runtime SECONDS] [--memory BYTES] \
    [--driver auto|uring|epoll] [--spin MICROSECONDS] [--endpoint] [--json] [--serve ADDRESS | --connect ADDRESS]";

impl Options {
    /// Reads the command line.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            block: 4096,
            depth: 32,
            connections: 1,
            writes: false,
            runtime: Duration::from_secs(3),
            memory: 0,
            driver: Driver::Auto,
            spin: Duration::ZERO,
            endpoint: false,
            json: false,
            serve: None,
            connect: None,
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--endpoint" => options.endpoint = true,
                "--json" => options.json = true,
                flag => {
                    let value = words.next().ok_or(USAGE)?;
                    options.set(flag, &value).ok_or_else(|| format!("{flag} {value}? {USAGE}"))?;
                }
            }
        }
        Ok(options)
    }

    /// What a server answers reads with. All of it is touched, so that this takes a second for each gigabyte or two.
    pub(crate) fn payloads(&self) -> SharedBuf {
        vec![7; self.memory].into()
    }

    fn set(&mut self, flag: &str, value: &str) -> Option<()> {
        match flag {
            "--bs" => self.block = value.parse().ok().filter(|bytes| *bytes <= buf::LARGEST)?,
            "--qd" => self.depth = value.parse().ok().filter(|depth| *depth > 0)?,
            "--connections" => {
                self.connections =
                    value.parse().ok().filter(|count| (1..=MOST_CONNECTIONS).contains(count))?;
            }
            "--rw" => {
                self.writes = match value {
                    "read" => false,
                    "write" => true,
                    _ => return None,
                };
            }
            "--runtime" => self.runtime = Duration::try_from_secs_f64(value.parse().ok()?).ok()?,
            "--memory" => self.memory = value.parse().ok()?,
            "--spin" => self.spin = Duration::from_micros(value.parse().ok()?),
            "--serve" => self.serve = Some(value.parse().ok()?),
            "--connect" => self.connect = Some(value.parse().ok()?),
            "--driver" => {
                self.driver = match value {
                    "auto" => Driver::Auto,
                    "uring" => Driver::Uring,
                    "epoll" => Driver::Epoll,
                    _ => return None,
                };
            }
            _ => return None,
        }
        Some(())
    }
}
