//! When to look whether commands get the data that they wait for. One that makes no progress ends, and sooner while others wait for memory and nothing comes
//! at all on its connection.

use core::time::Duration;

use protocol::Instant;

use super::send_watch::Memory;
use crate::limits::{DATA_TIME, SCARCE_DATA_TIME, WATCH};

/// The watch over commands that wait for data.
#[derive(Debug)]
pub(super) struct DataWatch {
    /// When they are looked at; `None` while none waits.
    due: Option<Instant>,
    /// When any data came last.
    heard: Instant,
}

impl DataWatch {
    /// On a connection that begins, where no command waits.
    pub(super) fn new(now: Instant) -> Self {
        Self { due: None, heard: now }
    }

    /// A command waits for its data from now on.
    #[inline]
    pub(super) fn begin(&mut self, now: Instant) {
        self.due.get_or_insert(now + WATCH);
    }

    /// Data has come.
    #[inline]
    pub(super) fn hear(&mut self, now: Instant) {
        self.heard = now;
    }

    /// No command waits any more.
    pub(super) fn end(&mut self) {
        self.due = None;
    }

    /// The next time to look.
    #[inline]
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// If it is time to look: how long a command's data may make no progress. Those that still wait then begin the watch anew.
    pub(super) fn handle_timeout(&mut self, now: Instant, memory: Memory) -> Option<Duration> {
        self.due.take_if(|due| *due <= now)?;
        let is_silent = memory == Memory::Wanted && self.heard + SCARCE_DATA_TIME <= now;
        Some(if is_silent { SCARCE_DATA_TIME } else { DATA_TIME })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_may_be_late_and_less_so_while_others_wait_and_nothing_comes() {
        let start = Instant::ZERO;
        let mut watch = DataWatch::new(start);
        assert_eq!((watch.due(), watch.handle_timeout(start, Memory::Wanted)), (None, None));
        watch.begin(start);
        watch.begin(start + WATCH);
        assert_eq!(watch.due(), Some(start + WATCH), "whoever waits first");
        assert_eq!(watch.handle_timeout(start, Memory::Free), None, "called early");
        assert_eq!(watch.handle_timeout(start + WATCH, Memory::Free), Some(DATA_TIME));
        assert_eq!(watch.due(), None);
        let later = start + SCARCE_DATA_TIME + WATCH;
        for (heard, memory, limit) in [
            (start, Memory::Free, DATA_TIME),
            (start, Memory::Wanted, SCARCE_DATA_TIME),
            (start + WATCH + WATCH, Memory::Wanted, DATA_TIME),
        ] {
            watch.hear(heard);
            watch.begin(start + SCARCE_DATA_TIME);
            assert_eq!(watch.handle_timeout(later, memory), Some(limit), "{heard:?} {memory:?}");
        }
    }
}
