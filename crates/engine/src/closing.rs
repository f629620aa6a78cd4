//! The flush that follows a core's last request, on each of its queues.
//!
//! A process that stops in good order flushes every volume once no connection is left, so that nothing that it has acknowledged depends on a cache that
//! ends with it, or on what happens to the machine before the next one begins. A flush covers what was completed over the same queue; each core flushes
//! its own, and a volume is secured when all cores have.

use volume::{Completion, Tag};

use crate::queues::Slot;

/// The slot that asks for the flushes: no driver's.
pub(crate) const SLOT: Slot = Slot(0x7fff_ffff);

/// The flushes of a core, by volume.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    begun: bool,
    awaited: usize,
    secured: Vec<bool>,
}

impl Closing {
    /// Begins for so many volumes; false if that was done before. None of them is secured yet.
    pub(crate) fn begin(&mut self, volumes: usize) -> bool {
        if std::mem::replace(&mut self.begun, true) {
            return false;
        }
        self.awaited = volumes;
        self.secured = vec![false; volumes];
        true
    }

    /// The end of one flush; its tag is the volume's number.
    pub(crate) fn take(&mut self, completion: &Completion) {
        self.end(completion.tag, completion.result.is_ok());
    }

    /// A volume's flush has ended, or is not needed.
    pub(crate) fn end(&mut self, Tag(number): Tag, secured: bool) {
        self.awaited = self.awaited.saturating_sub(1);
        let place = usize::try_from(number).ok().and_then(|index| self.secured.get_mut(index));
        if let Some(place) = place {
            *place = secured;
        }
    }

    /// Which volumes are secured, once all flushes have ended.
    pub(crate) fn secured(&self) -> Option<&[bool]> {
        (self.begun && self.awaited == 0).then_some(&self.secured)
    }
}
