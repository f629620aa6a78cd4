//! Asks a portal what it offers.

use backends::{SystemResolver, SystemSecrets};
use engine::remote::{self, Discovery, Found};
use names::DiscoveryUrl;
use protocol::Instant;
use volume::OpenError;

use crate::error::Error;
use crate::job::Job;
use crate::open::client_environment;
use crate::run::run_job;

/// A discovery under way.
struct Asking(Discovery);

impl Job for Asking {
    type Output = Result<Vec<Found>, OpenError>;

    fn poll(&mut self, _now: Instant) -> Option<Self::Output> {
        self.0.poll()
    }
}

/// What the portal at `url` offers.
pub fn discover(url: &DiscoveryUrl) -> Result<Vec<Found>, Error> {
    let told = |error| Error::Open { url: url.to_string(), error };
    let (portal, secrets) = match url {
        DiscoveryUrl::Iscsi { portal, options } => {
            (portal, remote::read_secrets(options, &SystemSecrets).map_err(told)?)
        }
        DiscoveryUrl::Nvme { portal, .. } => (portal, None),
        _ => {
            return Err(told(OpenError::new(
                "this kind of portal has no discovery service that is known here",
            )));
        }
    };
    let mut refusals = Vec::new();
    for address in remote::resolve(portal, &SystemResolver).map_err(told)? {
        let secrets = secrets.clone();
        let ask =
            |environment| Asking(remote::discover(address, url, secrets, &client_environment(&environment)));
        match run_job(ask)? {
            Ok(found) => return Ok(found),
            Err(error) => refusals.push(error.to_string()),
        }
    }
    Err(told(OpenError::new(refusals.join("; "))))
}
