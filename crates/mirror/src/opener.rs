//! Opens `mirror=[URL,URL,…]`.

use std::fmt;
use std::sync::Arc;

use names::{Source, VolumeUrl};
use volume::{OpenError, OpenStage, Opener, Openers, PreparedOpen};

use crate::fencer::Need;
use crate::numbering::Numbered;
use crate::opening::{Child, EntropySource, PreparedMirror};
use crate::options::Options;
use crate::shared::{Prepared, Reopen};

const KIND: &str = "mirror";

/// Runs what may block, such as looking up a name, where that holds nobody up.
pub trait Background: Send + Sync {
    /// Runs `work` on a thread of its own. What it does not run it drops.
    fn run(&self, work: Box<dyn FnOnce() + Send>);
}

/// Opens mirrors, and their legs by whatever openers there are.
#[derive(Clone)]
pub struct MirrorOpener {
    /// What this host is called in the record of its legs, for people.
    pub owner: String,
    /// Where UUIDs and keys of reservations come from.
    pub entropy: EntropySource,
    /// Where legs are prepared that were not there when the mirror was opened.
    pub background: Arc<dyn Background>,
}

impl fmt::Debug for MirrorOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MirrorOpener").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl Opener for MirrorOpener {
    fn schemes(&self) -> &'static [&'static str] {
        &[KIND]
    }

    fn prepare(&self, url: &VolumeUrl, openers: &Openers) -> Result<Box<dyn PreparedOpen>, OpenError> {
        let Source::Composite(source) = &url.source else {
            return Err(OpenError::new("it is no mirror").at(OpenStage::Scheme));
        };
        let options = Options::of(source)?;
        let mut children = Vec::new();
        for (index, leg) in source.children.iter().enumerate() {
            if let Some(option) = fixed_identity(leg) {
                return Err(OpenError::new(format!(
                    "{} has {option}=: a mirror is known to its legs by another name each time that it is opened, so that an owner that it was taken from can be \
                     told from the next one; leave {option}= out",
                    Numbered(index)
                )));
            }
            let prepared = openers.prepare(leg);
            if let Err(error) = &prepared
                && error.stage() == OpenStage::Scheme
            {
                return Err(error.clone());
            }
            let need = if options.unfenced || fences_itself(leg) { Need::Nothing } else { Need::Reservation };
            let url = names::redact(&leg.to_string());
            children.push(Child { prepared, url, local: is_local(leg), need });
        }
        let reopener = Reopener {
            openers: openers.clone(),
            urls: source.children.clone(),
            background: Arc::clone(&self.background),
        };
        Ok(Box::new(PreparedMirror {
            children,
            options,
            owner: self.owner.clone(),
            entropy: Arc::clone(&self.entropy),
            reopen: Some(Arc::new(reopener)),
        }))
    }
}

/// True for a volume of this machine.
fn is_local(url: &VolumeUrl) -> bool {
    match &url.source {
        Source::Iscsi(_) | Source::Nvme(_) | Source::Nfs(_) => false,
        Source::Composite(composite) => composite.children.iter().all(is_local),
        _ => true,
    }
}

/// True for what no other host can reach, and for a mirror, whose own legs have the reservations.
fn fences_itself(url: &VolumeUrl) -> bool {
    match &url.source {
        Source::Iscsi(_) | Source::Nvme(_) | Source::Nfs(_) => false,
        Source::Composite(composite) => {
            composite.kind == KIND || composite.children.iter().all(fences_itself)
        }
        _ => true,
    }
}

/// The option by which a leg of another machine would know every owner by the same name.
fn fixed_identity(url: &VolumeUrl) -> Option<&'static str> {
    match &url.source {
        Source::Iscsi(remote) => remote.options.isid.map(|_| "isid"),
        Source::Nvme(remote) => remote.options.hostid.map(|_| "hostid"),
        Source::Composite(composite) => composite.children.iter().find_map(fixed_identity),
        _ => None,
    }
}

/// Prepares legs again.
struct Reopener {
    openers: Openers,
    urls: Vec<VolumeUrl>,
    background: Arc<dyn Background>,
}

impl fmt::Debug for Reopener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reopener")
    }
}

impl Reopen for Reopener {
    fn begin(&self, leg: usize, then: Box<dyn FnOnce(Prepared) + Send>) {
        let Some(url) = self.urls.get(leg).cloned() else { return };
        let openers = self.openers.clone();
        self.background.run(Box::new(move || then(openers.prepare(&url))));
    }
}
