//! What is kept of a volume that is served, from its opening to its last flush.

use std::os::unix::fs::MetadataExt as _;

use anyhow::Result;
use engine::incarnation::{self, Mark};
use host::{StateError, VolumeState};
use names::Source;
use protocol::Entropy;

use crate::identity::Identity;

/// What is kept of a volume.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) identity: Identity,
    pub(crate) state: VolumeState,
    pub(super) source: Source,
    /// What was seen before it was opened.
    pub(super) seen: Vec<u8>,
    /// Its incarnation; zeros until it begins.
    pub(crate) mark: Mark,
}

impl Kept {
    /// Takes the mark of a clean stop, or a new one: everything is open, and about to be served.
    pub(crate) fn begin(&mut self, entropy: &mut dyn Entropy) -> Result<()> {
        self.mark = incarnation::begin(&self.state, &self.seen, entropy)?;
        Ok(())
    }

    /// Keeps the mark: nobody uses the volume any more, and it is flushed.
    pub(crate) fn end(&self) -> Result<bool, StateError> {
        incarnation::end(&self.state, &self.mark, &seen(&self.source)).map(|()| true)
    }

    #[cfg(test)]
    pub(crate) fn nothing() -> Self {
        let identity = Identity::new(names::Uuid::random([7; 16]), None);
        let source = Source::Ram(names::MemorySource { size: names::ByteSize(1 << 20), block: None });
        Self { identity, state: VolumeState::ephemeral(), source, seen: Vec::new(), mark: [0; 16] }
    }
}

/// What is seen of a volume while it is not open, and changes when somebody writes to it, or puts another in its place. Nothing for devices and other
/// machines' volumes, which say nothing of that.
pub(super) fn seen(source: &Source) -> Vec<u8> {
    let Source::File(file) = source else { return Vec::new() };
    let Ok(known) = std::fs::metadata(&file.path) else { return Vec::new() };
    let numbers =
        [known.ino(), known.size(), known.ctime().cast_unsigned(), known.ctime_nsec().cast_unsigned()];
    numbers.into_iter().flat_map(u64::to_le_bytes).collect()
}
