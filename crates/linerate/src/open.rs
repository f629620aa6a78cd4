//! Opening a volume by its URL: local ones at once, remote ones over a few round trips.

use std::collections::VecDeque;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use engine::remote::{self, Access, RemoteOpening};
use host::{Storage, World};
use names::{Host, Portal, Source, VolumeUrl};
use protocol::Instant;
use volume::{OpenError, Volume};

use crate::job::Environment;
use crate::limits::OPEN_TIMEOUT;
use crate::secret;

/// A volume that is being opened, on an event loop of the caller's own: whoever serves or attaches volumes. It is polled on the core's
/// thread that began it, whenever the core's waker is woken or its deadline comes.
pub struct Opening {
    url: VolumeUrl,
    state: State,
    deadline: Option<Instant>,
}

enum State {
    Decided(Option<Result<Arc<dyn Volume>, OpenError>>),
    Remote(Box<Route>),
}

/// The way to a volume of another machine, which may have several addresses: they are tried in the resolver's order.
struct Route {
    opening: RemoteOpening,
    access: Access,
    environment: remote::ClientContext,
    further: VecDeque<SocketAddr>,
    /// Why each address so far did not do.
    refusals: Vec<String>,
}

impl Route {
    fn begin(addresses: Vec<SocketAddr>, access: Access, environment: remote::ClientContext) -> Option<Self> {
        let mut further = VecDeque::from(addresses);
        let opening = remote::open(further.pop_front()?, access.clone(), &environment);
        Some(Self { opening, access, environment, further, refusals: Vec::new() })
    }

    fn poll(&mut self) -> Option<Result<Arc<dyn Volume>, OpenError>> {
        loop {
            let error = match self.opening.poll()? {
                Ok(volume) => return Some(Ok(volume)),
                Err(error) => error.to_string(),
            };
            if !self.refusals.contains(&error) {
                self.refusals.push(error);
            }
            let Some(next) = self.further.pop_front() else {
                return Some(Err(OpenError::new(self.refusals.join("; "))));
            };
            self.opening = remote::open(next, self.access.clone(), &self.environment);
        }
    }
}

/// A volume of which everything that may block is done: files are open, secrets read, names of machines looked up. What is left to do for a
/// volume of another machine belongs to an event loop.
pub struct PreparedOpening {
    url: VolumeUrl,
    way: Result<Way, OpenError>,
}

/// What is left to do.
enum Way {
    /// Nothing.
    Here(Arc<dyn Volume>),
    /// To reach one of these addresses.
    Elsewhere { addresses: Vec<SocketAddr>, access: Box<Access> },
}

impl PreparedOpening {
    /// Does what may block, with files and devices from `storage`: a thread that serves must not call it. What went wrong is what opening
    /// ends with.
    pub fn new(url: &VolumeUrl, storage: &Arc<dyn Storage>) -> Self {
        let way = access(&url.source).and_then(|elsewhere| match elsewhere {
            None => backends::open(url, storage).map(Way::Here),
            Some((addresses, access)) => Ok(Way::Elsewhere { addresses, access: Box::new(access) }),
        });
        Self { url: url.clone(), way }
    }

    /// Does the rest, on the calling core, whose world is given.
    pub fn begin<M>(self, world: &World<M>) -> Opening {
        self.begin_in(&Environment::from(world))
    }

    fn begin_in(self, environment: &Environment) -> Opening {
        let state = match self.way {
            Err(error) => State::Decided(Some(Err(error))),
            Ok(Way::Here(volume)) => State::Decided(Some(Ok(volume))),
            Ok(Way::Elsewhere { addresses, access }) => {
                match Route::begin(addresses, *access, client_environment(environment)) {
                    Some(route) => State::Remote(Box::new(route)),
                    None => State::Decided(Some(Err(OpenError::new(
                        "its host name has no address; write an address",
                    )))),
                }
            }
        };
        Opening { url: self.url, state, deadline: None }
    }
}

impl Opening {
    /// Begins to open what `url` names.
    pub(crate) fn new(url: &VolumeUrl, environment: &Environment) -> Self {
        PreparedOpening::new(url, &environment.storage).begin_in(environment)
    }

    /// The volume or why it could not be opened, once that is known.
    pub fn poll(&mut self, now: Instant) -> Option<Result<Arc<dyn Volume>, OpenError>> {
        let deadline = *self.deadline.get_or_insert(now + OPEN_TIMEOUT);
        match &mut self.state {
            State::Decided(result) => result.take(),
            State::Remote(route) => match route.poll() {
                Some(result) => Some(result.map(|volume| backends::apply_filters(&self.url.filters, volume))),
                None if now >= deadline => Some(Err(OpenError::new(format!(
                    "no answer within {} s; check the address, and that the server is well",
                    OPEN_TIMEOUT.as_secs()
                )))),
                None => None,
            },
        }
    }

    /// When waiting ends.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }
}

impl std::fmt::Debug for PreparedOpening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedOpening").field("url", &self.url.to_string()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Opening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opening").field("url", &self.url.to_string()).finish_non_exhaustive()
    }
}

/// What trying to open a volume without leaving this machine came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tried {
    /// It is on this machine, and can be opened.
    Here,
    /// It is on another machine, which was not asked: only the secrets for it were read.
    Elsewhere,
}

/// Tries to open what `url` names as far as that goes on this machine, with files and devices from `storage`. The error is the one that
/// opening would end with.
pub fn try_here(url: &VolumeUrl, storage: &Arc<dyn Storage>) -> Result<Tried, OpenError> {
    match &url.source {
        Source::Iscsi(remote) => secret::of(&remote.options).map(|_| Tried::Elsewhere),
        Source::Nvme(_) => Ok(Tried::Elsewhere),
        _ => backends::open(url, storage).map(|_| Tried::Here),
    }
}

/// Where a remote source is and how it is entered; `None` for local ones.
fn access(source: &Source) -> Result<Option<(Vec<SocketAddr>, Access)>, OpenError> {
    match source {
        Source::Iscsi(url) => {
            let secrets = secret::of(&url.options)?;
            Ok(Some((resolve(&url.portal)?, Access::Iscsi { url: url.clone(), secrets })))
        }
        Source::Nvme(url) => Ok(Some((resolve(&url.portal)?, Access::Nvme { url: url.clone() }))),
        _ => Ok(None),
    }
}

/// What remote volumes may use of a job's environment.
pub(crate) fn client_environment(environment: &Environment) -> remote::ClientContext {
    remote::ClientContext {
        dialer: Arc::clone(&environment.dialer),
        waker: environment.waker.clone(),
        entropy: Arc::new(|| Box::new(SystemEntropy)),
    }
}

/// The addresses of a portal, at least one. May ask the system's resolver.
pub(crate) fn resolve(portal: &Portal) -> Result<Vec<SocketAddr>, OpenError> {
    let name = match &portal.host {
        Host::Address(address) => return Ok(vec![SocketAddr::new(*address, portal.port)]),
        Host::Name(name) => name,
    };
    let found = (name.as_str(), portal.port).to_socket_addrs().map_err(|error| {
        OpenError::new(format!(
            "the host name {name:?} cannot be resolved: {error}; check the name, or write an address"
        ))
    })?;
    let addresses: Vec<SocketAddr> = found.collect();
    if addresses.is_empty() {
        return Err(OpenError::new(format!("the host name {name:?} has no address; write an address")));
    }
    Ok(addresses)
}

/// The operating system's randomness.
#[derive(Debug)]
struct SystemEntropy;

impl protocol::Entropy for SystemEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        // Without randomness no challenge is safe: a process that cannot get any must not go on.
        if getrandom::fill(bytes).is_err() {
            std::process::abort();
        }
    }
}
