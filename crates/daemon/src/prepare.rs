//! What a start and a check of the configuration do first, and alike: what the configuration alone can have wrong, and the secrets.

use anyhow::{Result, bail};
use reactor::{Congestion, Driver};

use crate::access;
use crate::accounts::Accounts;
use crate::config::{Config, Protocol};
use crate::findings::Findings;
use crate::safety::{self, Guard};

/// Memory for data buffers in all, unless the configuration says otherwise.
pub(crate) const USUAL_MEMORY: u64 = 512 << 20;

/// The accounts of a configuration, and what is wrong or doubtful about it but for its volumes.
pub(crate) fn prepare(config: &Config) -> (Accounts, Findings) {
    let mut findings = Findings { problems: config.problems(), ..Findings::default() };
    if findings.problems.is_empty() {
        findings.warnings = access::warnings(config);
    }
    let accounts = Accounts::read(config, &mut findings);
    findings.require(reactor_config(config).map(|_| ()));
    for portal in &config.portals {
        let Some(address) = portal.listen.address() else { continue };
        let restricted = match portal.protocol {
            Protocol::Iscsi | Protocol::Nvme => access::restricted(config),
            Protocol::Nfs => config.shares.iter().all(|share| !share.clients.is_empty()),
        };
        let guard = Guard { protocol: portal.protocol, restricted, allow_any: config.daemon.allow_any };
        findings.require(safety::check_bind(address, guard));
    }
    let speaks_nfs = config.portals.iter().any(|portal| portal.protocol == Protocol::Nfs);
    if !config.shares.is_empty() && !config.portals.is_empty() && !speaks_nfs {
        findings.warnings.push(
            "nobody can reach the shares: no portal speaks NFS; add one with protocol = \"nfs\", or say --nfs 127.0.0.1:2049"
                .to_owned(),
        );
    }
    (accounts, findings)
}

/// How the event loops reach the kernel.
pub(crate) fn reactor_config(config: &Config) -> Result<reactor::Config> {
    let driver = match config.daemon.driver.as_deref() {
        None | Some("auto") => Driver::Auto,
        Some("uring") => Driver::Uring,
        Some("epoll") => Driver::Epoll,
        Some(other) => bail!("there is no driver {other:?}: say auto, uring or epoll"),
    };
    let usual = reactor::Config::default();
    let spin = config.daemon.spin.map_or(usual.spin, |span| span.0);
    let congestion = config.daemon.congestion.as_deref().map(Congestion::named).transpose()?;
    let congestion = congestion.unwrap_or(usual.congestion);
    Ok(reactor::Config { driver, spin, congestion, ..usual })
}
