//! What has become of reloads, and of the connections whose hosts they asked to leave: counted for operators.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use engine::Generation;
use jiff::Timestamp;

use crate::departures::DepartureCounts;

/// How long after a reload its connections are told of: the protocols give hosts 3 s, and the engine cuts off at 5 s.
const PARTING: Duration = Duration::from_secs(6);

/// Connections of which a line is still to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parting {
    generation: Generation,
    before: DepartureCounts,
    due: Instant,
}

/// What has become of reloads since the start.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    pub(super) applied: u64,
    pub(super) refused: u64,
    pub(super) unchanged: u64,
    /// What was applied last, and when.
    pub(super) last: Option<(Generation, Timestamp)>,
    parting: Option<Parting>,
}

impl Reloads {
    /// A configuration is served. `before` has the connections that were counted before that.
    pub(super) fn handle_applied(&mut self, now: Instant, generation: Generation, before: DepartureCounts) {
        self.applied += 1;
        self.last = Some((generation, Timestamp::now()));
        // Reloads in quick succession share a line.
        let before = self.parting.map_or(before, |parting| parting.before);
        self.parting = Some(Parting { generation, before, due: now + PARTING });
    }

    /// When there is something to tell.
    pub(super) fn due(&self) -> Option<Instant> {
        self.parting.map(|parting| parting.due)
    }

    /// What has become of the hosts that were asked to leave, if any were, once their time is over.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        counts: DepartureCounts,
    ) -> Option<(Generation, DepartureCounts)> {
        let parting = self.parting.take_if(|parting| parting.due <= now)?;
        let counts = counts.since(parting.before);
        (counts.asked > 0).then_some((parting.generation, counts))
    }

    /// A line for the end of the server; none if it was never asked to reload.
    pub(super) fn line(&self, counts: DepartureCounts) -> Option<String> {
        let Self { applied, refused, unchanged, last, .. } = self;
        if applied + refused + unchanged == 0 {
            return None;
        }
        let mut line = format!("reloads: {applied} applied, {refused} refused, {unchanged} unchanged");
        if let Some((generation, at)) = last {
            // Writing to a string does not fail.
            let _ = write!(line, "; {generation} since {}", at.strftime("%Y-%m-%dT%H:%M:%SZ"));
        }
        if counts.asked > 0 {
            let DepartureCounts { asked, ended, forced } = counts;
            let _ = write!(line, "; connections: {asked} asked to leave, {ended} ended, {forced} forced");
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use engine::Departure;

    use super::*;
    use crate::departures::Departures;

    const FIRST: DepartureCounts = DepartureCounts { asked: 4, ended: 3, forced: 1 };

    #[test]
    fn reloads_are_counted_and_told_at_the_end() {
        let mut reloads = Reloads::default();
        assert_eq!(reloads.line(DepartureCounts::default()), None);
        reloads.refused = 2;
        assert_eq!(
            reloads.line(DepartureCounts::default()).unwrap(),
            "reloads: 0 applied, 2 refused, 0 unchanged"
        );
        reloads.applied = 1;
        reloads.last = Some((Generation(7), "2026-11-23T20:00:00Z".parse().unwrap()));
        assert_eq!(
            reloads.line(FIRST).unwrap(),
            "reloads: 1 applied, 2 refused, 0 unchanged; generation 7 since 2026-11-23T20:00:00Z; \
             connections: 4 asked to leave, 3 ended, 1 forced"
        );
    }

    #[test]
    fn who_was_asked_to_leave_is_told_of_once_its_time_is_over() {
        let (mut reloads, now, departures) = (Reloads::default(), Instant::now(), Departures::default());
        let before = departures.counts();
        reloads.handle_applied(now, Generation(2), before);
        assert_eq!(reloads.poll(now + PARTING, before), None, "nobody has to leave");
        for departure in [Departure::Asked, Departure::Asked] {
            departures.count(departure);
        }
        reloads.handle_applied(now, Generation(3), before);
        for departure in [Departure::Ended, Departure::Forced] {
            departures.count(departure);
        }
        assert_eq!(reloads.poll(now, departures.counts()), None);
        let told = DepartureCounts { asked: 2, ended: 1, forced: 1 };
        assert_eq!(reloads.poll(now + PARTING, departures.counts()), Some((Generation(3), told)));
        assert_eq!((reloads.due(), reloads.applied), (None, 2));
    }
}
