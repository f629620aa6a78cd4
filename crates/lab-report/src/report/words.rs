//! Values and flags in words.

use lab_model::result::Flag;
use lab_model::scenario::{Initiator, Target};

/// A flag as a clause.
pub(crate) fn flag(flag: &Flag) -> String {
    let (what, detail) = (flag_name(flag), flag_detail(flag));
    if detail.is_empty() { what.to_owned() } else { format!("{what} ({detail})") }
}

/// What a flag says.
pub(crate) const fn flag_name(flag: &Flag) -> &'static str {
    match flag {
        Flag::Contended { .. } => "others used the processors",
        Flag::NoSteadyState { .. } => "no steady state",
        Flag::Throttled { .. } => "throttled",
        Flag::Errors { .. } => "I/Os failed",
        Flag::DelayedAck { .. } => "looks like Nagle's algorithm against delayed acknowledgements",
        Flag::Corrupt { .. } => "wrong data",
        Flag::OutsideProfile { .. } => "not the load that the profile promises",
        Flag::SharedLimit { .. } => "several arms sat on one limit",
    }
}

/// What was seen.
pub(crate) fn flag_detail(flag: &Flag) -> &str {
    match flag {
        Flag::Contended { detail }
        | Flag::NoSteadyState { detail }
        | Flag::Throttled { detail }
        | Flag::Errors { detail }
        | Flag::DelayedAck { detail }
        | Flag::Corrupt { detail }
        | Flag::OutsideProfile { detail }
        | Flag::SharedLimit { detail } => detail,
    }
}

/// `3 results`.
pub(crate) fn count(count: usize, one: &str) -> String {
    format!("{count} {}", plural(&count.to_string(), one))
}

/// A value of an axis where its name is not beside it: `randread`, but `32 jobs`.
pub(crate) fn coordinate(axis: &str, value: &str) -> String {
    match axis {
        "numjobs" => format!("{value} {}", plural(value, "job")),
        "iodepth" => format!("QD {value}"),
        "mtu" => format!("MTU {value}"),
        "rwmixread" => format!("{value} % reads"),
        "volumes" => format!("{value} {}", plural(value, "volume")),
        "parallel" | "threads" => format!("{value} {}", plural(value, "thread")),
        "placement" => format!("{value} core"),
        "anew" if value == "on" => "arm just built".to_owned(),
        "anew" => "arm in use".to_owned(),
        "cores" => format!("{value} target {}", plural(value, "core")),
        "rate_iops" if value.ends_with('%') => format!("{value} of saturation"),
        _ => value.to_owned(),
    }
}

fn plural(count: &str, one: &str) -> String {
    if count == "1" { one.to_owned() } else { format!("{one}s") }
}

/// `A: linerate initiator`, short enough for a legend.
pub(crate) fn arm(key: &str, name: &str) -> String {
    format!("{key} {name}")
}

/// What puts the load on and speaks the protocol.
pub(crate) const fn initiator(initiator: Initiator) -> &'static str {
    match initiator {
        Initiator::Linerate => "Linerate's initiator, linerate bench",
        Initiator::LinerateFio => "Linerate's initiator inside fio, as its engine",
        Initiator::LinerateNbd => "Linerate's software adapter, fio over NBD",
        Initiator::LinerateFuse => "Linerate's software adapter, a file through FUSE",
        Initiator::LinerateVhostUser => "Linerate's software adapter, fio through shared memory",
        Initiator::LibiscsiFio => "libiscsi inside fio, as its engine",
        Initiator::LibiscsiPerf => "libiscsi, iscsi-perf",
        Initiator::QemuNbd => "qemu-storage-daemon, fio over NBD",
        Initiator::NbdkitNbd => "nbdkit, fio over NBD",
        Initiator::LibiscsiNbd => "libiscsi in qemu-storage-daemon, fio over NBD",
        Initiator::LibiscsiFuse => "libiscsi in qemu-storage-daemon, a file through FUSE",
        Initiator::LibiscsiVhostUser => "libiscsi in qemu-storage-daemon, fio through shared memory",
        Initiator::Local => "none: the volume is local",
        Initiator::Site => "the kernel's client, as the site names it",
        Initiator::Libnfs => "libnfs in qemu-storage-daemon, a file through FUSE",
        Initiator::Stream => "iperf3",
        Initiator::BareLoop => "the bare loop's client",
        Initiator::Imported => "the tool of the imported log",
    }
}

/// What serves.
pub(crate) const fn target(target: Target) -> &'static str {
    match target {
        Target::LinerateIscsi => "Linerate over iSCSI",
        Target::LinerateNvme => "Linerate over NVMe/TCP",
        Target::LinerateIser => "Linerate over iSER on software iWARP",
        Target::LinerateIserRoce => "Linerate over iSER on software RoCEv2",
        Target::LinerateNvmeRdma => "Linerate over NVMe/RDMA on software iWARP",
        Target::LinerateNvmeRoce => "Linerate over NVMe/RDMA on software RoCEv2",
        Target::Tgt => "tgt over iSCSI",
        Target::Nbdkit => "nbdkit",
        Target::LinerateNfs => "Linerate over NFS",
        Target::LinerateNfsRdma => "Linerate over NFS/RDMA on software iWARP",
        Target::Ganesha => "nfs-ganesha",
        Target::Stream => "iperf3 server",
        Target::BareLoop => "the bare loop's server",
        Target::None => "nothing",
        Target::Site => "what the site names",
    }
}

/// A title as a file's name: small letters, digits and hyphens.
pub(crate) fn slug(title: &str) -> String {
    let letters = title
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' });
    let parts: String = letters.collect();
    parts.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}
