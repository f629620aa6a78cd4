//! What is compared: each arm starts its target and says how the load reaches it.
//!
//! An arm is an implementation, ours or a peer's. [`Served`] is what is there once the target (or the process that
//! speaks the protocol for the host) is ready: the processes whose time and memory are accounted, and the endpoints that a
//! load tool opens.

mod attach;
mod backing;
pub(crate) mod bareloop;
pub mod caches;
pub mod cluster;
mod filesystem;
mod ganesha;
mod linerate;
mod nbdkit;
mod nfs;
pub mod postgresql;
mod qemu;
mod served;
mod service_start;
pub mod sides;
mod stream;
mod tgt;

pub use filesystem::Filesystem;
pub use served::{AdaptSpec, Endpoint, ServeSpec, Served, Service, Side, Volumes};

use anyhow::{Result, bail};

use crate::machine::ledger::Ledger;
use crate::machine::program;
use backing::{numbers, volume_size, volume_url};
use lab_model::scenario::{Initiator, Target};
use served::Handing;

/// Makes whoever opens these endpoints of Linerate's ask for digests, or over software iWARP for CRCs.
pub fn protect(endpoints: &mut [Endpoint]) {
    endpoints.iter_mut().for_each(linerate::with_digests);
}

/// Starts what serves, and waits until it can be used.
pub fn serve(target: Target, spec: &ServeSpec<'_>, ledger: &mut Ledger) -> Result<Served> {
    backing::make_storage(spec.volumes, spec.folder, ledger)?;
    match target {
        Target::LinerateIscsi => linerate::serve(linerate::Protocol::Iscsi, spec, ledger),
        Target::LinerateNvme => linerate::serve(linerate::Protocol::Nvme, spec, ledger),
        Target::LinerateIser => linerate::serve(linerate::Protocol::Iser, spec, ledger),
        Target::LinerateIserRoce => linerate::serve(linerate::Protocol::IserRoce, spec, ledger),
        Target::LinerateNvmeRdma => linerate::serve(linerate::Protocol::NvmeRdma, spec, ledger),
        Target::LinerateNvmeRoce => linerate::serve(linerate::Protocol::NvmeRoce, spec, ledger),
        Target::LinerateNfs => linerate::serve_share(linerate::ShareTransport::Tcp, spec, ledger),
        Target::LinerateNfsRdma => linerate::serve_share(linerate::ShareTransport::Iwarp, spec, ledger),
        Target::Tgt => tgt::serve(spec, ledger),
        Target::Stream => stream::serve(spec, ledger),
        Target::BareLoop => bareloop::serve(spec, ledger),
        Target::None => Ok(local(spec)),
        Target::Nbdkit => nbdkit::serve(spec, ledger),
        Target::Ganesha => ganesha::serve(spec, ledger),
        Target::Site => bail!("the target is the site's: name it with --site"),
    }
}

/// Starts what speaks the protocol for the host, if that is a process of its own.
pub fn adapt(initiator: Initiator, spec: &AdaptSpec<'_>, ledger: &mut Ledger) -> Result<Served> {
    let named: Vec<Endpoint>;
    let spec = &if speaks_for_linerate(initiator) {
        named = spec.endpoints.iter().map(nfs::for_linerate).collect();
        AdaptSpec { endpoints: &named, ..*spec }
    } else {
        *spec
    };
    match initiator {
        Initiator::LinerateNbd => attach::adapt(Handing::Nbd, spec, ledger),
        Initiator::LinerateFuse => attach::adapt(Handing::Fuse, spec, ledger),
        Initiator::LinerateVhostUser => attach::adapt(Handing::VhostUser, spec, ledger),
        Initiator::LibiscsiNbd | Initiator::QemuNbd => qemu::adapt(Handing::Nbd, spec, ledger),
        Initiator::LibiscsiVhostUser => qemu::adapt(Handing::VhostUser, spec, ledger),
        Initiator::NbdkitNbd => nbdkit::adapt(spec, ledger),
        Initiator::LibiscsiFuse | Initiator::Libnfs => qemu::adapt(Handing::Fuse, spec, ledger),
        _ => Ok(Served { services: Vec::new(), endpoints: spec.endpoints.to_vec() }),
    }
}

/// Whether Linerate opens the endpoints.
const fn speaks_for_linerate(initiator: Initiator) -> bool {
    matches!(
        initiator,
        Initiator::Linerate
            | Initiator::LinerateFio
            | Initiator::LinerateNbd
            | Initiator::LinerateFuse
            | Initiator::LinerateVhostUser
    )
}

/// Programs that an arm needs and that are not installed, each with its package.
pub fn missing(target: Target, initiator: Initiator) -> Vec<String> {
    let serving: &[&str] = match target {
        Target::Tgt => &["tgtd", "tgtadm"],
        Target::Stream => &["iperf3"],
        Target::Nbdkit => &[nbdkit::PROGRAM],
        Target::Ganesha => &[ganesha::PROGRAM, ganesha::MAPPER],
        _ => &[],
    };
    let asking: &[&str] = match initiator {
        Initiator::LibiscsiPerf => &["iscsi-perf"],
        Initiator::LibiscsiNbd
        | Initiator::LibiscsiFuse
        | Initiator::LibiscsiVhostUser
        | Initiator::QemuNbd => &[qemu::PROGRAM, "fio"],
        Initiator::NbdkitNbd => &[nbdkit::PROGRAM, "fio"],
        Initiator::LinerateFio
        | Initiator::LinerateNbd
        | Initiator::LinerateFuse
        | Initiator::LinerateVhostUser
        | Initiator::LibiscsiFio => &["fio"],
        Initiator::Stream => &["iperf3"],
        Initiator::Libnfs => &[qemu::PROGRAM],
        _ => &[],
    };
    let absent = serving.iter().chain(asking).filter(|name| program::find(name).is_none());
    let mut words: Vec<String> = absent.map(|name| program::not_there(name)).collect();
    if matches!(initiator, Initiator::LibiscsiNbd | Initiator::LibiscsiFuse | Initiator::LibiscsiVhostUser) {
        words.extend(qemu::missing_module(qemu::ISCSI));
    }
    if initiator == Initiator::Libnfs {
        words.extend(qemu::missing_module(qemu::NFS));
    }
    if target == Target::BareLoop {
        words.extend(bareloop::missing());
    }
    words
}

/// The volumes themselves.
fn local(spec: &ServeSpec<'_>) -> Served {
    let size = volume_size(&spec.volumes.url);
    let url = |number| volume_url(&spec.volumes.url, number, spec.folder);
    let endpoints = numbers(spec.volumes).map(|(_, _, number)| Endpoint { url: url(number), size });
    Served { services: Vec::new(), endpoints: endpoints.collect() }
}
