//! Hosts and the link between them: loopback, or network namespaces joined by shaped veth pairs.
//!
//! One initiator is joined to the target by one veth pair, several by a bridge in a namespace of its own, as a switch would. A gateway that translates
//! addresses is a namespace between the two, which hides the initiator's network from the target.
//! A token bucket (`tc-tbf(8)`) shapes each direction at its sender, so that a queue builds up where it would on a link of
//! that rate. Packets that are to be lost are dropped where they arrive, by nftables, each on its own: a link that loses some hands down no packets
//! that stand for several. Every namespace is noted in the ledger; links and shapers go with their namespaces.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::ledger::{Ledger, Thing};
use super::program;
use lab_model::scenario::topology::{bits_per_second, millionths};
use lab_model::scenario::{Gateway, Link, LinkKind};

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
    /// The namespace of the switch between them, where there is one.
    pub switch: Option<String>,
    /// The namespace of the gateway between them, where there is one.
    pub gateway: Option<String>,
}

/// The interface of every host inside its namespace.
const INTERFACE: &str = "link0";
/// The switch's bridge.
const BRIDGE: &str = "switch0";
/// The gateway's interfaces toward target and initiator.
const OUTSIDE: &str = "outside0";
const INSIDE: &str = "inside0";
/// Packets that one may stand for on its way through the stack, as a kernel has it.
const SEGMENTS: &str = "65535";
/// How long one command may take.
const LIMIT: Duration = Duration::from_secs(10);
/// Most initiating hosts: their addresses share one byte with the target's.
const MOST_INITIATORS: u32 = 200;
/// Least bytes that pass the shaper at once: two packets of the largest size that the stack hands down (64 KiB), so that none
/// has to be cut up.
const LEAST_BURST: f64 = 131_072.0;
/// Seconds of the link's rate that pass at once, where that is more: what a timer of 1 kHz needs to keep the rate.
const BURST_SECONDS: f64 = 0.001;
/// How long a packet may wait at the shaper before it is dropped, as in a switch with a few megabytes of buffer.
const QUEUE: &str = "20ms";

/// Builds the hosts and their link, idle and ready.
pub fn build(link: &Link, initiators: u32, ledger: &mut Ledger) -> Result<Hosts> {
    if initiators == 0 || initiators > MOST_INITIATORS {
        bail!("{initiators} initiating hosts: there may be 1 to {MOST_INITIATORS}");
    }
    match link.kind {
        LinkKind::Loopback => {
            let host = Host { namespace: None, address: Ipv4Addr::LOCALHOST.into(), link: None };
            let count = usize::try_from(initiators).unwrap_or(1);
            Ok(Hosts { target: host.clone(), initiators: vec![host; count], switch: None, gateway: None })
        }
        LinkKind::Veth => veth(link, initiators, ledger),
        LinkKind::Physical => bail!("a physical link is the site's: bind the arms to its hosts with --site"),
    }
}

/// Builds the nodes of a cluster, joined by the link: each is a host on which anything may run. They are what initiates, and the first of them stands for the target.
pub fn nodes(link: &Link, count: u32, ledger: &mut Ledger) -> Result<Hosts> {
    if count < 2 {
        bail!("{count} nodes: a cluster has at least two");
    }
    if link.kind != LinkKind::Veth || link.gateway != Gateway::None {
        bail!("the nodes of a cluster have a link of their own and no gateway: take a veth");
    }
    let mut hosts = build(link, count - 1, ledger)?;
    hosts.initiators.insert(0, hosts.target.clone());
    Ok(hosts)
}

/// The switch's interface toward a host: the target is number 0.
fn port(number: usize) -> String {
    format!("port{number}")
}

/// Tells the links of one process apart.
static COUNT: AtomicU32 = AtomicU32::new(0);

fn veth(link: &Link, initiators: u32, ledger: &mut Ledger) -> Result<Hosts> {
    if !rustix::process::geteuid().is_root() {
        bail!("network namespaces need root: run with sudo, or choose a scenario on loopback");
    }
    let base = format!("lab{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let target = host(&format!("{base}t"), Ipv4Addr::new(10, 77, 0, 1), ledger)?;
    let hosts: Vec<Host> = (0..initiators)
        .map(|number| host(&format!("{base}i{number}"), initiator_address(link.gateway, number)?, ledger))
        .collect::<Result<_>>()?;
    let mut hosts = Hosts { target, initiators: hosts, switch: None, gateway: None };
    if link.gateway == Gateway::Nat {
        let namespace = format!("{base}g");
        gateway(&namespace, &hosts, link, ledger)?;
        hosts.gateway = Some(namespace);
    } else if let [only] = hosts.initiators.as_slice() {
        join(name(&hosts.target)?, name(only)?, INTERFACE)?;
    } else {
        let namespace = format!("{base}s");
        switch(&namespace, &hosts, link, ledger)?;
        hosts.switch = Some(namespace);
    }
    for host in std::iter::once(&hosts.target).chain(&hosts.initiators) {
        let namespace = name(host)?;
        ip(&["-n", namespace, "link", "set", "lo", "up"])?;
        ip(&["-n", namespace, "address", "add", &format!("{}/24", host.address), "dev", INTERFACE])?;
        set_up_port(namespace, INTERFACE, link)?;
        lose(namespace, INTERFACE, link)?;
    }
    if hosts.gateway.is_some() {
        for initiator in &hosts.initiators {
            ip(&["-n", name(initiator)?, "route", "add", "default", "via", "10.77.1.254"])?;
        }
    }
    Ok(hosts)
}

/// The address of an initiating host: beside the target, or behind the gateway.
fn initiator_address(gateway: Gateway, number: u32) -> Result<Ipv4Addr> {
    let last = u8::try_from(number + 2).context("too many hosts")?;
    match gateway {
        Gateway::None => Ok(Ipv4Addr::new(10, 77, 0, last)),
        Gateway::Nat if number == 0 => Ok(Ipv4Addr::new(10, 77, 1, last)),
        Gateway::Nat => bail!("a gateway is for one initiating host: set initiators to 1"),
    }
}

fn name(host: &Host) -> Result<&str> {
    host.namespace.as_deref().context("a host without a namespace has no link to shape")
}

/// A namespace with its address; the interface comes later.
fn host(namespace: &str, address: Ipv4Addr, ledger: &mut Ledger) -> Result<Host> {
    add_namespace(namespace, ledger)?;
    let link = Some(INTERFACE.to_owned());
    Ok(Host { namespace: Some(namespace.to_owned()), address: address.into(), link })
}

fn add_namespace(name: &str, ledger: &mut Ledger) -> Result<()> {
    ledger.add(Thing::Namespace { name: name.to_owned() })?;
    ip(&["netns", "add", name]).context("network namespaces need root and a kernel that allows them")
}

/// A veth pair from a host's interface to a peer's.
fn join(namespace: &str, peer: &str, interface: &str) -> Result<()> {
    let pair = ["link", "add", INTERFACE, "netns", namespace, "type", "veth"];
    ip(&[&pair[..], &["peer", "name", interface, "netns", peer]].concat())
}

/// A router between the target and an initiator, which puts its own address in the place of the initiator's.
fn gateway(namespace: &str, hosts: &Hosts, link: &Link, ledger: &mut Ledger) -> Result<()> {
    add_namespace(namespace, ledger)?;
    join(name(&hosts.target)?, namespace, OUTSIDE)?;
    for initiator in &hosts.initiators {
        join(name(initiator)?, namespace, INSIDE)?;
    }
    for (interface, address) in [(OUTSIDE, "10.77.0.254/24"), (INSIDE, "10.77.1.254/24")] {
        ip(&["-n", namespace, "address", "add", address, "dev", interface])?;
        set_up_port(namespace, interface, link)?;
    }
    let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward";
    ip(&["netns", "exec", namespace, "sh", "-c", forward]).context("the gateway cannot forward packets")?;
    let chain = "type nat hook postrouting priority 100;";
    nft(
        namespace,
        &format!("table ip gateway {{ chain leaving {{ {chain} oifname {OUTSIDE} masquerade; }}; }}"),
    )
}

/// Drops the share of the packets that arrive at a host which the link is to lose, unless netem does.
fn lose(namespace: &str, interface: &str, link: &Link) -> Result<()> {
    let Some(share) = link.loss.as_ref().filter(|_| impairments(link).is_empty()) else { return Ok(()) };
    let chain = "type filter hook prerouting priority -300;";
    let drop = format!("iifname {interface} numgen random mod 1000000 < {} drop;", millionths(share)?);
    nft(namespace, &format!("table inet loss {{ chain arriving {{ {chain} {drop} }}; }}"))
}

/// Has nftables do something in a namespace.
fn nft(namespace: &str, what: &str) -> Result<()> {
    program::require("nft")?;
    ip(&["netns", "exec", namespace, "nft", what]).context("losses and gateways need nftables")
}

/// A bridge with a port for every host, each shaped toward its host.
fn switch(namespace: &str, hosts: &Hosts, link: &Link, ledger: &mut Ledger) -> Result<()> {
    add_namespace(namespace, ledger)?;
    ip(&["-n", namespace, "link", "add", BRIDGE, "type", "bridge"])?;
    for (number, host) in std::iter::once(&hosts.target).chain(&hosts.initiators).enumerate() {
        let port = port(number);
        join(name(host)?, namespace, &port)?;
        ip(&["-n", namespace, "link", "set", &port, "master", BRIDGE])?;
        set_up_port(namespace, &port, link)?;
    }
    ip(&["-n", namespace, "link", "set", BRIDGE, "up"])
}

/// MTU, shaper and state of one interface.
fn set_up_port(namespace: &str, interface: &str, link: &Link) -> Result<()> {
    // Packets are lost one by one: none is handed down that stands for several.
    let segments = if link.loss.is_some() { "1" } else { SEGMENTS };
    let port = ["-n", namespace, "link", "set", interface];
    ip(&[&port[..], &["mtu", &link.mtu.to_string(), "gso_max_segs", segments, "up"]].concat())?;
    let impaired = impairments(link);
    let device = ["-n", namespace, "qdisc"];
    let parent: &[&str] = if impaired.is_empty() {
        &["root"]
    } else {
        let netem: Vec<&str> = impaired.iter().map(String::as_str).collect();
        let words =
            [&device[..], &["replace", "dev", interface, "root", "handle", "1:", "netem"], &netem].concat();
        tc(&words).context("delay and reordering need the kernel's sch_netem: load it, or run in a guest")?;
        &["parent", "1:1"]
    };
    let Some(rate) = &link.rate else { return Ok(()) };
    let burst = format!("{:.0}", (bits_per_second(rate)? / 8.0 * BURST_SECONDS).max(LEAST_BURST));
    let bits = format!("{:.0}bit", bits_per_second(rate)?);
    let shaper = ["tbf", "rate", &bits, "burst", &burst, "latency", QUEUE];
    tc(&[&device[..], &["replace", "dev", interface], parent, &shaper].concat())
}

/// What `netem` is asked for; empty when the link only carries, or loses packets and nothing else.
fn impairments(link: &Link) -> Vec<String> {
    let mut words = Vec::new();
    if link.delay.is_none() && link.reorder.is_none() {
        return words;
    }
    let all = [("delay", &link.delay), ("loss", &link.loss), ("reorder", &link.reorder)];
    for (name, value) in all.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        words.extend([name.to_owned(), value.clone()]);
    }
    words
}

fn ip(arguments: &[&str]) -> Result<()> {
    program::output(&[&["ip"], arguments].concat(), LIMIT).map(drop)
}

fn tc(arguments: &[&str]) -> Result<()> {
    program::output(&[&["tc"], arguments].concat(), LIMIT).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_needs_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::create(&folder.path().join("ledger.jsonl")).unwrap();
        let hosts = build(&Link::default(), 3, &mut ledger).unwrap();
        assert_eq!(hosts.initiators.len(), 3);
        assert!(hosts.target.namespace.is_none() && ledger.left().count() == 0);
        assert!(build(&Link::default(), 0, &mut ledger).is_err());
    }

    #[test]
    fn nodes_need_a_link_and_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::create(&folder.path().join("ledger.jsonl")).unwrap();
        let veth = Link { kind: LinkKind::Veth, ..Link::default() };
        assert!(nodes(&Link::default(), 4, &mut ledger).unwrap_err().to_string().contains("take a veth"));
        assert!(nodes(&veth, 1, &mut ledger).unwrap_err().to_string().contains("at least two"));
    }

    #[test]
    fn impairments_are_netem_s_words() {
        let link = Link { delay: Some("100us".to_owned()), loss: Some("0.1%".to_owned()), ..Link::default() };
        assert_eq!(impairments(&link), ["delay", "100us", "loss", "0.1%"]);
        assert!(impairments(&Link::default()).is_empty());
        assert!(impairments(&Link { loss: Some("1%".to_owned()), ..Link::default() }).is_empty(), "nftables");
    }
}
