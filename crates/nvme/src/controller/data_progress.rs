//! Whether the data of a queue's commands makes progress: what the host was asked for, when any of it came last, and when that is looked at.
//! `data_progress.table` has every transition.

use core::time::Duration;

use protocol::Instant;

use super::command::ReceivedCommand;
use crate::limits::{DATA_TIME, SCARCE_DATA_TIME, WATCH};
use crate::sgl::DataPointer;

/// Where a command's data comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataSource {
    /// It came with the command.
    Capsule,
    /// The host is asked for it.
    Host,
}

impl DataSource {
    /// Where the data of this command comes from.
    #[inline]
    pub(super) fn of(command: &ReceivedCommand) -> Self {
        if command.pointer.is_some_and(DataPointer::is_in_capsule) { Self::Capsule } else { Self::Host }
    }
}

/// The data that a queue expects.
#[derive(Debug)]
pub(super) struct DataProgress {
    /// Transfers that the host was asked for: they hold memory until their data comes.
    transfers: usize,
    /// When the commands that wait for data are looked at.
    watch_at: Option<Instant>,
    /// When any data came last.
    heard: Instant,
}

impl DataProgress {
    /// Of a queue that expects no data.
    pub(super) const fn new(now: Instant) -> Self {
        Self { transfers: 0, watch_at: None, heard: now }
    }

    /// True while the host was asked for data that has not come.
    #[inline]
    pub(super) const fn has_transfers(&self) -> bool {
        self.transfers > 0
    }

    /// When the commands that wait for data are looked at.
    #[inline]
    pub(super) const fn watch_at(&self) -> Option<Instant> {
        self.watch_at
    }

    /// True when that time has come.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.watch_at.is_some_and(|at| at <= now)
    }

    /// A command waits for its data from now on.
    #[inline]
    pub(super) fn on_expected(&mut self, now: Instant, source: DataSource) {
        if source == DataSource::Host {
            self.transfers = self.transfers.saturating_add(1);
        }
        self.watch_at.get_or_insert(now + WATCH);
    }

    /// A piece of a command's data has come.
    #[inline]
    pub(super) fn on_piece(&mut self, now: Instant) {
        self.heard = now;
    }

    /// A command's data has come whole.
    #[inline]
    pub(super) fn on_whole(&mut self, source: DataSource) {
        self.on_abandoned(source);
        if self.transfers == 0 {
            self.watch_at = None;
        }
    }

    /// A command has ended before its data has come.
    #[inline]
    pub(super) fn on_abandoned(&mut self, source: DataSource) {
        if source == DataSource::Host {
            self.transfers = self.transfers.saturating_sub(1);
        }
    }

    /// How long a command's data may make no progress: less while others wait for memory, if no data comes at all.
    pub(super) fn limit(&self, now: Instant, memory: Demand) -> Duration {
        let silent = memory == Demand::Wanted && self.heard + SCARCE_DATA_TIME <= now;
        if silent { SCARCE_DATA_TIME } else { DATA_TIME }
    }

    /// The commands that wait for data were looked at, and some go on waiting.
    pub(super) fn on_watched(&mut self, now: Instant) {
        self.watch_at = Some(now + WATCH);
    }

    /// None waits for data any more.
    pub(super) fn stop_watching(&mut self) {
        self.watch_at = None;
    }
}

/// Whether others wait for memory that a connection may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Demand {
    /// There is enough.
    Met,
    /// Others wait.
    Wanted,
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::fmt::Write as _;

    use super::*;

    const NOW: Instant = Instant::ZERO;

    #[test]
    fn table_of_all_transitions() {
        type Event = fn(&mut DataProgress);
        let events: [(&str, Event); 8] = [
            ("expected in the capsule", |data| data.on_expected(NOW, DataSource::Capsule)),
            ("expected of the host", |data| data.on_expected(NOW, DataSource::Host)),
            ("whole, in the capsule", |data| data.on_whole(DataSource::Capsule)),
            ("whole, of the host", |data| data.on_whole(DataSource::Host)),
            ("abandoned, in the capsule", |data| data.on_abandoned(DataSource::Capsule)),
            ("abandoned, of the host", |data| data.on_abandoned(DataSource::Host)),
            ("watched", |data| data.on_watched(NOW)),
            ("stop watching", DataProgress::stop_watching),
        ];
        let describe = |data: &DataProgress| {
            let watch = if data.watch_at.is_some() { "watched" } else { "not watched" };
            alloc::format!("{} of the host, {watch}", data.transfers)
        };
        let mut table = String::new();
        for (transfers, watch_at) in [(0, None), (0, Some(NOW)), (1, Some(NOW)), (2, Some(NOW))] {
            for (name, event) in events {
                let mut data = DataProgress { transfers, watch_at, heard: NOW };
                let before = describe(&data);
                event(&mut data);
                if describe(&data) != before {
                    writeln!(table, "{before} --{name}--> {}", describe(&data)).unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("data_progress.table"));
    }

    #[test]
    fn data_may_pause_for_less_time_while_others_want_its_memory() {
        let mut data = DataProgress::new(NOW);
        data.on_expected(NOW, DataSource::Host);
        let later = NOW + SCARCE_DATA_TIME;
        assert_eq!(data.limit(later, Demand::Met), DATA_TIME);
        assert_eq!(data.limit(later, Demand::Wanted), SCARCE_DATA_TIME);
        data.on_piece(later);
        assert_eq!(data.limit(later, Demand::Wanted), DATA_TIME, "data comes");
        assert!(data.is_due(NOW + WATCH) && !data.is_due(NOW));
    }
}
