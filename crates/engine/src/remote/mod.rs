//! Volumes on other machines: an initiator or host connection as a [`volume::Volume`].
//!
//! Opening asks the far end what it is; after that every core that opens a queue gets a connection of its own (an
//! iSCSI session, an NVMe I/O queue of one controller, or an NFS client's session). Nothing above knows that the volume is remote.
//!
//! A connection that ends is replaced: `recovery` says when, `queue` keeps the requests meanwhile, `replay` says which of them
//! may be sent again, and `durability` what a flush may still promise. docs/decisions/0003-reconnect.md has the reasons.

mod access;
mod admin_requests;
mod association;
mod claim;
mod client;
mod client_context;
mod durability;
mod entries;
mod far_end;
mod iscsi;
mod link;
mod nfs;
mod nvme;
mod nvme_plan;
mod opener;
mod paths;
mod precheck;
mod queue;
mod recovery;
mod redirect;
mod referrals;
mod replay;
mod route;
mod secret;
mod volume;
mod waiting;

use std::net::SocketAddr;
use std::sync::Arc;

use ::volume::{OpenError, Volume};
use names::DiscoveryUrl;

pub use self::access::{Access, NfsUser, Secrets};
pub use self::client_context::ClientContext;
pub use self::iscsi::INITIATOR;
pub use self::opener::{RemoteOpener, resolve};
pub use self::secret::read_secrets;
pub use self::waiting::Found;
use self::waiting::Waiting;

/// A volume that is being opened.
pub struct RemoteOpening(Waiting<Arc<dyn Volume>>);

impl RemoteOpening {
    /// The volume, or why it cannot be opened, once that is known.
    pub fn poll(&mut self) -> Option<Result<Arc<dyn Volume>, OpenError>> {
        self.0.poll()
    }
}

impl std::fmt::Debug for RemoteOpening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RemoteOpening")
    }
}

/// Begins to open a volume at `address`, on the calling core.
pub fn open(address: SocketAddr, access: Access, context: &ClientContext) -> RemoteOpening {
    RemoteOpening(match access {
        Access::Iscsi { url, secrets } => iscsi::open(address, url, secrets, context),
        Access::Nvme { url } => nvme::open(address, &url, context),
        Access::Nfs { url, user } => nfs::open(address, url, &user, context),
    })
}

/// A discovery under way.
pub struct Discovery(Waiting<Vec<Found>>);

impl Discovery {
    /// What the portal offers, or why it did not say, once that is known.
    pub fn poll(&mut self) -> Option<Result<Vec<Found>, OpenError>> {
        self.0.poll()
    }
}

impl std::fmt::Debug for Discovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Discovery")
    }
}

/// Asks the portal at `address` what it offers, on the calling core.
pub fn discover(
    address: SocketAddr,
    url: &DiscoveryUrl,
    secrets: Option<Secrets>,
    context: &ClientContext,
) -> Discovery {
    Discovery(match url {
        DiscoveryUrl::Iscsi { options, .. } => iscsi::discover(address, options, secrets, context),
        DiscoveryUrl::Nvme { options, .. } => nvme::discover(address, options, context),
        _ => Waiting::failed("this kind of portal has no discovery service that is known here"),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::task::Waker;
    use std::time::Duration;

    use host::{Dialer, Endpoint};
    use protocol::{Ended, Instant};

    use super::*;

    /// A network that swallows everything: whoever dials waits for as long as it wants to.
    #[derive(Default)]
    struct BlackHole(Mutex<Vec<Option<Duration>>>);

    impl Dialer for BlackHole {
        fn dial(&self, _peer: SocketAddr, mut endpoint: Box<dyn Endpoint>) -> host::EndpointId {
            self.0.lock().unwrap().push(endpoint.connect_time());
            endpoint.handle_ended(Instant::ZERO, Ended::Failed(110));
            host::EndpointId(0)
        }
        fn wake(&self, _endpoint: host::EndpointId) {}
        fn waker(&self, _endpoint: host::EndpointId) -> Waker {
            Waker::noop().clone()
        }
    }

    fn access(url: &str) -> Access {
        match url.parse::<names::VolumeUrl>().unwrap().source {
            names::Source::Iscsi(url) => Access::Iscsi { url, secrets: None },
            names::Source::Nvme(url) => Access::Nvme { url },
            names::Source::Nfs(url) => Access::Nfs { url, user: NfsUser::default() },
            other => panic!("{} is not remote", other.scheme()),
        }
    }

    #[test]
    fn connecting_takes_no_longer_than_a_command_and_says_what_was_waited_for() {
        let urls = [
            "iscsi://192.0.2.1:3260/iqn.2026-11.org.example:disk/0",
            "nvme+tcp://192.0.2.1:4420/nqn.2026-11.org.example:disk/1",
            "nfs://192.0.2.1:2049/export/disk.img",
        ];
        for (option, patience) in [("?timeout=1500ms", 1500), ("?timeout=40s", 10_000), ("", 10_000)] {
            for url in urls {
                let hole = Arc::new(BlackHole::default());
                let dialer: Arc<dyn Dialer> = Arc::clone(&hole) as Arc<dyn Dialer>;
                let context = ClientContext { dialer, ..ClientContext::without_network() };
                let address: SocketAddr = "192.0.2.1:3260".parse().unwrap();
                let refusal = open(address, access(&format!("{url}{option}")), &context).poll();
                let refusal = refusal.unwrap().err().unwrap().to_string();
                let patience = Duration::from_millis(patience);
                assert_eq!(*hole.0.lock().unwrap(), [Some(patience)], "{url}{option}");
                let expected = format!(
                    "cannot connect to 192.0.2.1:3260: it did not answer the TCP connection request within {}; nothing answers there",
                    names::Span(patience)
                );
                assert!(refusal.contains(&expected), "{url}{option} says {refusal}");
            }
        }
    }
}
