//! Volumes on other machines: an initiator or host connection as a [`volume::Volume`].
//!
//! Opening asks the far end what it is; after that every core that opens a queue gets a connection of its own (an
//! iSCSI session, or an NVMe I/O queue of one controller). Nothing above knows that the volume is remote.
//!
//! A connection that ends is replaced: `recovery` says when, `queue` keeps the requests meanwhile, `replay` says which of them
//! may be sent again, and `durability` what a flush may still promise. docs/decisions/0003-reconnect.md has the reasons.

mod association;
mod client;
mod durability;
mod entries;
mod errands;
mod iscsi;
mod link;
mod nvme;
mod queue;
mod recovery;
mod redirect;
mod referrals;
mod replay;
mod screen;
mod volume;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use ::volume::{OpenError, Volume};
use host::{Dialer, Endpoint};
use names::{DiscoveryUrl, IscsiUrl, NvmeUrl};

pub use self::iscsi::INITIATOR;
use self::link::Link;
use crate::config::EntropySource;

/// What opening may use of the world.
#[derive(Clone)]
pub struct Surroundings {
    /// Connects.
    pub dialer: Arc<dyn Dialer>,
    /// Woken when something has become known.
    pub waker: Waker,
    /// Randomness.
    pub entropy: EntropySource,
}

#[cfg(test)]
impl Surroundings {
    /// A world in which every attempt to connect fails at once.
    fn nowhere() -> Self {
        struct Nowhere;
        impl Dialer for Nowhere {
            fn dial(&self, _peer: SocketAddr, mut endpoint: Box<dyn Endpoint>) -> host::EndpointId {
                endpoint.handle_ended(protocol::Instant::ZERO, protocol::Ended::Failed(111));
                host::EndpointId(0)
            }
            fn nudge(&self, _endpoint: host::EndpointId) {}
            fn waker(&self, _endpoint: host::EndpointId) -> Waker {
                Waker::noop().clone()
            }
        }
        let entropy: EntropySource = Arc::new(|| Box::new(protocol::SeededEntropy::new(1)));
        Self { dialer: Arc::new(Nowhere), waker: Waker::noop().clone(), entropy }
    }
}

impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}

/// CHAP secrets, read from their files: the initiator's, and the target's if it must prove itself.
pub type Secrets = (Vec<u8>, Option<Vec<u8>>);

/// Which volume, and how it is entered.
#[derive(Clone)]
pub enum Access {
    /// A logical unit of an iSCSI target.
    Iscsi {
        /// Which.
        url: IscsiUrl,
        /// The secrets that its options name.
        secrets: Option<Secrets>,
    },
    /// A namespace of an NVMe/TCP subsystem.
    Nvme {
        /// Which.
        url: NvmeUrl,
    },
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Iscsi { url, .. } => f.debug_tuple("Iscsi").field(url).finish(),
            Self::Nvme { url } => f.debug_tuple("Nvme").field(url).finish(),
        }
    }
}

/// A place that an answer will be put into.
type Place<T> = Rc<RefCell<Option<T>>>;

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
pub fn open(address: SocketAddr, access: Access, surroundings: &Surroundings) -> RemoteOpening {
    RemoteOpening(match access {
        Access::Iscsi { url, secrets } => iscsi::open(address, (url, secrets), surroundings),
        Access::Nvme { url } => nvme::open(address, &url, surroundings),
    })
}

/// A target or subsystem that a portal offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// Where it is reached.
    pub address: String,
    /// Why what is behind it is not known, for a discovery service that was referred to and not heard.
    pub trouble: Option<String>,
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
    surroundings: &Surroundings,
) -> Discovery {
    Discovery(match url {
        DiscoveryUrl::Iscsi { options, .. } => iscsi::discover(address, (options, secrets), surroundings),
        DiscoveryUrl::Nvme { options, .. } => nvme::discover(address, options, surroundings),
        _ => Waiting::failed("this kind of portal has no discovery service that is known here"),
    })
}

/// Looks whether there is an answer.
type Look<T> = dyn FnMut() -> Option<Result<T, OpenError>>;

/// Waits for an answer that connections find out.
struct Waiting<T>(Box<Look<T>>);

impl<T: 'static> Waiting<T> {
    fn new(look: impl FnMut() -> Option<Result<T, OpenError>> + 'static) -> Self {
        Self(Box::new(look))
    }

    fn failed(why: &str) -> Self {
        let error = OpenError::new(why);
        Self::new(move || Some(Err(error.clone())))
    }

    fn poll(&mut self) -> Option<Result<T, OpenError>> {
        (self.0)()
    }
}

/// Dials for a link.
fn dial(dialer: &Arc<dyn Dialer>, address: SocketAddr, link: &Rc<Link>, endpoint: Box<dyn Endpoint>) {
    link.set_endpoint(dialer.dial(address, endpoint));
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

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
        fn nudge(&self, _endpoint: host::EndpointId) {}
        fn waker(&self, _endpoint: host::EndpointId) -> Waker {
            Waker::noop().clone()
        }
    }

    fn access(url: &str) -> Access {
        match url.parse::<names::VolumeUrl>().unwrap().source {
            names::Source::Iscsi(url) => Access::Iscsi { url, secrets: None },
            names::Source::Nvme(url) => Access::Nvme { url },
            other => panic!("{} is not remote", other.scheme()),
        }
    }

    #[test]
    fn connecting_takes_no_longer_than_a_command_and_says_what_was_waited_for() {
        let urls = [
            "iscsi://192.0.2.1:3260/iqn.2026-11.org.example:disk/0",
            "nvme+tcp://192.0.2.1:4420/nqn.2026-11.org.example:disk/1",
        ];
        for (option, patience) in [("?timeout=1500ms", 1500), ("?timeout=40s", 10_000), ("", 10_000)] {
            for url in urls {
                let hole = Arc::new(BlackHole::default());
                let dialer: Arc<dyn Dialer> = Arc::clone(&hole) as Arc<dyn Dialer>;
                let surroundings = Surroundings { dialer, ..Surroundings::nowhere() };
                let address: SocketAddr = "192.0.2.1:3260".parse().unwrap();
                let refusal = open(address, access(&format!("{url}{option}")), &surroundings).poll();
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
