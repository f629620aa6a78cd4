//! When requests start: at once when there is room (closed loop), or at fixed moments whatever the volume does (open
//! loop). A closed loop waits with a stalled target and so hides the stall; an open loop counts it.

use std::time::Duration;

use protocol::Instant;

/// The rhythm of a load.
#[derive(Debug)]
pub(super) enum Pace {
    /// Each request starts when an earlier one has ended.
    Closed,
    /// Request `started` is due that many periods after `begun`.
    Open {
        /// Nanoseconds between two starts.
        period: u64,
        begun: Instant,
        started: u64,
    },
}

impl Pace {
    /// `rate` requests per second from `begun` on.
    pub(super) fn new(rate: Option<u32>, begun: Instant) -> Self {
        match rate {
            None => Self::Closed,
            Some(rate) => Self::Open { period: 1_000_000_000 / u64::from(rate.max(1)), begun, started: 0 },
        }
    }

    /// The moment from which the next request counts, if it may start now.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        match self {
            Self::Closed => Some(now),
            Self::Open { .. } => self.next().filter(|due| *due <= now),
        }
    }

    /// The next request has started.
    pub(super) fn advance(&mut self) {
        if let Self::Open { started, .. } = self {
            *started += 1;
        }
    }

    /// When the next request is due, in an open loop.
    pub(super) fn next(&self) -> Option<Instant> {
        match self {
            Self::Closed => None,
            Self::Open { period, begun, started } => {
                Some(*begun + Duration::from_nanos(period.saturating_mul(*started)))
            }
        }
    }

    /// Requests that were due before `end` and have not started.
    pub(super) fn behind(&self, end: Instant) -> u64 {
        match self {
            Self::Closed => 0,
            Self::Open { period, begun, started } => {
                let span = protocol::nanos(end.since(*begun));
                span.div_ceil((*period).max(1)).saturating_sub(*started)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_loop_does_not_wait() {
        let begun = Instant::ZERO + Duration::from_secs(1);
        let mut pace = Pace::new(Some(1000), begun);
        let late = begun + Duration::from_millis(10);
        assert_eq!(pace.due(begun), Some(begun));
        pace.advance();
        assert_eq!(pace.due(begun), None);
        assert_eq!(pace.next(), Some(begun + Duration::from_millis(1)));
        assert_eq!(pace.due(late), Some(begun + Duration::from_millis(1)), "counts from when it was due");
        assert_eq!(pace.behind(late), 9);
    }

    #[test]
    fn a_closed_loop_starts_at_once() {
        let pace = Pace::new(None, Instant::ZERO);
        let now = Instant::ZERO + Duration::from_secs(3);
        assert_eq!(pace.due(now), Some(now));
        assert_eq!((pace.next(), pace.behind(now)), (None, 0));
    }
}
