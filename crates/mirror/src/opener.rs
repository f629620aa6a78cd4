//! Opens `mirror=[URL,URL,…]`.

use std::fmt;
use std::sync::Arc;

use names::{Source, VolumeUrl};
use volume::{OpenError, OpenStage, Opener, Openers, PreparedOpen};

use crate::opening::{Child, EntropySource, PreparedMirror};
use crate::options::Options;
use crate::shared::{Prepared, Reopen};

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
        &["mirror"]
    }

    fn prepare(&self, url: &VolumeUrl, openers: &Openers) -> Result<Box<dyn PreparedOpen>, OpenError> {
        let Source::Composite(source) = &url.source else {
            return Err(OpenError::new("it is no mirror").at(OpenStage::Scheme));
        };
        let options = Options::of(source)?;
        let mut children = Vec::new();
        for leg in &source.children {
            let prepared = openers.prepare(leg);
            if let Err(error) = &prepared
                && error.stage() == OpenStage::Scheme
            {
                return Err(error.clone());
            }
            children.push(Child { prepared, url: names::redact(&leg.to_string()), local: is_local(leg) });
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
        Source::Iscsi(_) | Source::Nvme(_) => false,
        Source::Composite(composite) => composite.children.iter().all(is_local),
        _ => true,
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
