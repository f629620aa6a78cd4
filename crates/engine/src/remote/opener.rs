//! Opens volumes of other machines by URL: names and secrets on the thread that prepares, connections on a core.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use ::volume::{OpenError, OpenStage, Opened, Opener, Openers, Opening, PreparedOpen, QueueContext, Ready};
use host::{Adapters, Dialer, Resolver, SecretReader};
use names::{Host, Portal, Source, VolumeUrl};
use protocol::Instant;

use super::access::{Access, NfsUser};
use super::client_context::ClientContext;
use super::secret::read_secrets;
use super::{RemoteOpening, open};
use crate::config::EntropySource;

/// Opens volumes of other machines.
#[derive(Clone)]
pub struct RemoteOpener {
    /// Connects, from the core on which a volume is opened.
    pub dialer: Arc<dyn Dialer>,
    /// Queue pairs in hardware.
    pub adapters: Arc<dyn Adapters>,
    /// Randomness.
    pub entropy: EntropySource,
    /// Looks up names of machines.
    pub resolver: Arc<dyn Resolver>,
    /// Reads secrets.
    pub secrets: Arc<dyn SecretReader>,
    /// Who opens files at NFS servers.
    pub user: NfsUser,
}

impl std::fmt::Debug for RemoteOpener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RemoteOpener")
    }
}

impl Opener for RemoteOpener {
    fn schemes(&self) -> &'static [&'static str] {
        &["iscsi", "iser", "nvme+tcp", "nvme+rdma", "nfs", "nfs+rdma"]
    }

    fn prepare(&self, url: &VolumeUrl, _openers: &Openers) -> Result<Box<dyn PreparedOpen>, OpenError> {
        let (portal, access) = match &url.source {
            Source::Iscsi(url) => {
                let secrets = read_secrets(&url.options, &*self.secrets)?;
                (&url.portal, Access::Iscsi { url: url.clone(), secrets })
            }
            Source::Nvme(url) => (&url.portal, Access::Nvme { url: url.clone() }),
            Source::Nfs(file) => {
                let user = NfsUser { reads_only: url.is_read_only(), ..self.user.clone() };
                (&file.portal, Access::Nfs { url: file.clone(), user })
            }
            other => {
                let text = format!("{}: is no volume of another machine", other.scheme());
                return Err(OpenError::new(text).at(OpenStage::Scheme));
            }
        };
        let addresses = resolve(portal, &*self.resolver)?;
        Ok(Box::new(Prepared { addresses, access, opener: self.clone() }))
    }
}

/// The addresses of a portal, at least one. May block.
pub fn resolve(portal: &Portal, resolver: &dyn Resolver) -> Result<Vec<SocketAddr>, OpenError> {
    let name = match &portal.host {
        Host::Address(address) => return Ok(vec![SocketAddr::new(*address, portal.port)]),
        Host::Name(name) => name,
    };
    let addresses = resolver.resolve(name, portal.port).map_err(|error| {
        let text = format!(
            "the host name {name:?} cannot be resolved: {error}; check the name, or write an address"
        );
        OpenError::new(text).at(OpenStage::Name).because(error)
    })?;
    if addresses.is_empty() {
        let text = format!("the host name {name:?} has no address; write an address");
        return Err(OpenError::new(text).at(OpenStage::Name));
    }
    Ok(addresses)
}

/// A volume of another machine that can be dialled.
struct Prepared {
    addresses: Vec<SocketAddr>,
    access: Access,
    opener: RemoteOpener,
}

impl PreparedOpen for Prepared {
    fn begin(self: Box<Self>, queue: &QueueContext) -> Box<dyn Opening> {
        let Self { addresses, access, opener: RemoteOpener { dialer, adapters, entropy, .. } } = *self;
        let context = ClientContext { dialer, adapters, waker: queue.waker.clone(), entropy };
        let mut further = VecDeque::from(addresses);
        let Some(first) = further.pop_front() else {
            let error = OpenError::new("its host name has no address; write an address");
            return Box::new(Ready::failed(error.at(OpenStage::Name)));
        };
        let opening = open(first, access.clone(), &context);
        Box::new(Attempts { opening, access, context, further, refusals: Vec::new() })
    }
}

/// Opens a volume whose host has several addresses: it tries them in the resolver's order.
struct Attempts {
    opening: RemoteOpening,
    access: Access,
    context: ClientContext,
    further: VecDeque<SocketAddr>,
    /// Why each address tried so far failed.
    refusals: Vec<String>,
}

impl Opening for Attempts {
    fn poll(&mut self, _now: Instant) -> Option<Opened> {
        loop {
            let error = match self.opening.poll()? {
                Ok(volume) => return Some(Ok(volume)),
                Err(error) => error.to_string(),
            };
            if !self.refusals.contains(&error) {
                self.refusals.push(error);
            }
            let Some(next) = self.further.pop_front() else {
                return Some(Err(OpenError::new(self.refusals.join("; ")).at(OpenStage::Connection)));
            };
            self.opening = open(next, self.access.clone(), &self.context);
        }
    }
}
