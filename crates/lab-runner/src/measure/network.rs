//! What crossed a link: bytes of interfaces and TCP segments sent again, in the namespaces where they are counted.
//!
//! `/proc/net` shows the namespace of whoever opens it. So a thread of its own enters the namespace (`setns(2)`), opens the
//! files and ends; the open files keep showing that namespace. RDMA bypasses these counters: of such a link nothing
//! is said. On loopback every byte is sent and received by the same interface, so directions cannot be told apart there.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, anyhow};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use lab_model::result::Network;
use lab_model::statistics::number::real;

/// Where `ip netns` keeps the namespaces that have a name (`ip-netns(8)`).
const NAMESPACES: &str = "/run/netns";

/// One end of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Name of the network namespace; `None` for the one in which the lab runs.
    pub namespace: Option<String>,
    /// Name of the interface inside.
    pub interface: String,
}

/// Open files with the counters of a link.
#[derive(Debug)]
pub struct Probe {
    initiators: Vec<Interface>,
    protocols: Vec<File>,
    /// Whether the ends are nodes, whose loopback carries what they exchange with themselves.
    nodes: bool,
}

/// The loopback interface of every namespace.
const LOOPBACK: &str = "lo";

#[derive(Debug)]
struct Interface {
    name: String,
    devices: File,
}

impl Probe {
    /// Opens the counters of the initiators' ends, whose bytes are counted, and of the target's, of which only the segments
    /// sent again are of interest. A target on another machine is `None`.
    pub fn open(initiators: &[End], target: Option<&End>) -> Result<Self> {
        let interface = |end: &End| {
            let devices = open(end.namespace.as_deref(), "dev")?;
            Ok(Interface { name: end.interface.clone(), devices })
        };
        let namespaces: BTreeSet<_> =
            initiators.iter().chain(target).map(|end| end.namespace.as_deref()).collect();
        let mut probe = Self {
            initiators: initiators.iter().map(interface).collect::<Result<_>>()?,
            protocols: namespaces.into_iter().map(|name| open(name, "snmp")).collect::<Result<_>>()?,
            nodes: false,
        };
        probe.read()?;
        Ok(probe)
    }

    /// Opens the counters of a cluster's nodes, each in a namespace of its own, and of their loopback interfaces.
    pub fn of_nodes(nodes: &[End]) -> Result<Self> {
        Ok(Self { nodes: true, ..Self::open(nodes, None)? })
    }

    /// Counters so far.
    pub fn read(&mut self) -> Result<Network> {
        let mut sum = Network::default();
        for end in self.read_ends()? {
            sum.sent += end.sent;
            sum.received += end.received;
            sum.kept += end.kept;
        }
        for file in &mut self.protocols {
            let text = again(file)?;
            sum.retransmitted +=
                parse_retransmitted(&text).context("/proc/net/snmp has no Tcp RetransSegs")?;
        }
        Ok(sum)
    }

    /// The nodes' counters so far, without what was sent again; empty where the ends are no nodes.
    pub fn read_nodes(&mut self) -> Result<Vec<Network>> {
        if self.nodes { self.read_ends() } else { Ok(Vec::new()) }
    }

    fn read_ends(&mut self) -> Result<Vec<Network>> {
        let nodes = self.nodes;
        let read = |interface: &mut Interface| {
            let text = again(&mut interface.devices)?;
            let counts = |name: &str| {
                parse_devices(&text, name).with_context(|| {
                    format!("there is no interface {name} in its namespace: see `ip -all netns exec ip link`")
                })
            };
            let (received, sent) = counts(&interface.name)?;
            let kept = if nodes { counts(LOOPBACK)?.0 } else { 0 };
            Ok(Network { sent, received, kept, retransmitted: 0 })
        };
        self.initiators.iter_mut().map(read).collect()
    }
}

/// Opens a file of `/proc/net` inside a namespace.
fn open(namespace: Option<&str>, file: &str) -> Result<File> {
    let path = format!("/proc/thread-self/net/{file}");
    let Some(name) = namespace else {
        return File::open(&path).with_context(|| format!("cannot open {path}"));
    };
    let inside = thread::scope(|scope| scope.spawn(|| open_inside(name, &path)).join());
    inside.map_err(|_| anyhow!("the thread that enters network namespace {name} failed"))?
}

/// Moves the calling thread, which must not be used for anything else afterwards.
fn open_inside(name: &str, path: &str) -> Result<File> {
    let namespace = Path::new(NAMESPACES).join(name);
    let handle = File::open(&namespace)
        .with_context(|| format!("there is no network namespace {}", namespace.display()))?;
    move_into_link_name_space(handle.as_fd(), Some(LinkNameSpaceType::Network))
        .with_context(|| format!("cannot enter network namespace {name}: this needs root (CAP_SYS_ADMIN)"))?;
    File::open(path).with_context(|| format!("cannot open {path} in network namespace {name}"))
}

/// What the file shows now.
fn again(file: &mut File) -> Result<String> {
    let mut text = String::new();
    file.rewind()
        .and_then(|()| file.read_to_string(&mut text))
        .context("cannot read the counters of a network namespace")?;
    Ok(text)
}

/// Bytes received and sent, from `/proc/net/dev`: the first and the ninth column.
fn parse_devices(text: &str, interface: &str) -> Option<(u64, u64)> {
    let columns =
        text.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    let mut counts = columns.split_ascii_whitespace().map(str::parse);
    Some((counts.next()?.ok()?, counts.nth(7)?.ok()?))
}

/// `RetransSegs`, from `/proc/net/snmp`: a line of names, then a line of values.
fn parse_retransmitted(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut columns = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
    columns.find_map(|(name, value)| (name == "RetransSegs").then_some(value))?.parse().ok()
}

/// What was counted after `earlier`.
pub(crate) const fn since(later: Network, earlier: Network) -> Network {
    Network {
        sent: later.sent.saturating_sub(earlier.sent),
        received: later.received.saturating_sub(earlier.received),
        kept: later.kept.saturating_sub(earlier.kept),
        retransmitted: later.retransmitted.saturating_sub(earlier.retransmitted),
    }
}

/// The counters at a moment between `from` (`share` 0) and `to` (1), as if they had grown evenly.
pub(crate) fn toward(from: Network, to: Network, share: f64) -> Network {
    let between = |from: u64, to: u64| from + part(to.saturating_sub(from), share);
    Network {
        sent: between(from.sent, to.sent),
        received: between(from.received, to.received),
        kept: between(from.kept, to.kept),
        retransmitted: between(from.retransmitted, to.retransmitted),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share from 0 to 1 of a count is a count"
)]
fn part(count: u64, share: f64) -> u64 {
    (real(count) * share).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICES: &str = "Inter-|   Receive                      |  Transmit\n\
        \x20face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n\
        \x20   lo: 1 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0\n\
        ll1:100 7 0 0 0 0 0 0 900 8 0 0 0 0 0 0\n";

    #[test]
    fn columns_of_the_interface() {
        assert_eq!(parse_devices(DEVICES, "ll1"), Some((100, 900)));
        assert_eq!(parse_devices(DEVICES, "lo"), Some((1, 2)));
        assert_eq!(parse_devices(DEVICES, "l"), None);
        assert_eq!(parse_devices("ll1: 1 2 3", "ll1"), None);
    }

    #[test]
    fn segments_sent_again() {
        let text = "Ip: Forwarding\nIp: 1\nTcp: RtoMin InSegs RetransSegs InErrs\nTcp: 200 5 17 0\n";
        assert_eq!(parse_retransmitted(text), Some(17));
        assert_eq!(parse_retransmitted("Tcp: RtoMin\nTcp: 200\n"), None);
        assert_eq!(parse_retransmitted("Tcp: RetransSegs\n"), None);
    }

    #[test]
    fn counters_between_and_since() {
        let (from, to) = (
            Network { sent: 100, received: 50, kept: 0, retransmitted: 1 },
            Network { sent: 300, received: 50, kept: 8, retransmitted: 4 },
        );
        assert_eq!(toward(from, to, 0.5), Network { sent: 200, received: 50, kept: 4, retransmitted: 3 });
        assert_eq!((toward(from, to, 0.0), toward(from, to, 1.0)), (from, to));
        assert_eq!(since(to, from), Network { sent: 200, received: 0, kept: 8, retransmitted: 3 });
    }

    #[test]
    fn what_is_not_there_is_named() {
        let end = |namespace: Option<&str>| End {
            namespace: namespace.map(str::to_owned),
            interface: "none0".to_owned(),
        };
        let error = Probe::open(&[end(None)], None).unwrap_err();
        assert!(error.to_string().contains("no interface none0"), "{error:#}");
        let error = Probe::open(&[end(Some("lab-not-there"))], None).unwrap_err();
        assert!(error.to_string().contains("no network namespace"), "{error:#}");
    }
}
