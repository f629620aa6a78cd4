//! Hosts and the link between them: loopback, or network namespaces joined by shaped veth pairs.

use std::net::IpAddr;

/// One host of a scenario: this machine, or a network namespace of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The namespace, as `ip netns` names it; none for the machine itself.
    pub namespace: Option<String>,
    /// Its address on the link.
    pub address: IpAddr,
    /// Its interface on the link; none for loopback.
    pub link: Option<String>,
}

/// The hosts of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    /// Where the targets run.
    pub target: Host,
    /// Where the load comes from; at least one.
    pub initiators: Vec<Host>,
}
