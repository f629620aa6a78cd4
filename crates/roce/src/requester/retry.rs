//! When a requester sends again, and when it gives up (IBTA §9.7.6). `retry.table` has every transition.

use core::time::Duration;

use protocol::Instant;

use crate::limits::{ACKNOWLEDGE_BACKOFF, ACKNOWLEDGE_TIME, ENDLESS_RETRIES};

/// What a requester waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Nothing is under way.
    Idle,
    /// An acknowledgement or a response, until then.
    Acknowledgement(Instant),
    /// A receive of the peer's: nothing is sent until then.
    Receive(Instant),
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    GoOn,
    /// Send again what is not acknowledged.
    SendAgain,
    /// The peer does not answer: the connection is lost.
    Lost,
    /// The peer posts no receive.
    NeverReady,
}

/// How often a requester tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attempts {
    /// Without an answer.
    pub(crate) silent: u8,
    /// Without a receive; [`ENDLESS_RETRIES`] has no end.
    pub(crate) not_ready: u8,
}

/// The wait of a requester, and its attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retry {
    wait: Wait,
    most: Attempts,
    made: Attempts,
}

impl Retry {
    /// At most so many attempts beyond the first.
    pub(crate) const fn new(most: Attempts) -> Self {
        Self { wait: Wait::Idle, most, made: Attempts { silent: 0, not_ready: 0 } }
    }

    /// So many attempts that wait for a receive.
    pub(crate) const fn set_not_ready(&mut self, attempts: u8) {
        self.most.not_ready = attempts;
    }

    /// When the wait is over.
    pub(crate) const fn deadline(&self) -> Option<Instant> {
        match self.wait {
            Wait::Idle => None,
            Wait::Acknowledgement(until) | Wait::Receive(until) => Some(until),
        }
    }

    /// The peer has let a time pass without an answer.
    pub(crate) const fn is_silent(&self) -> bool {
        self.made.silent > 0
    }

    /// Packets may be sent.
    pub(crate) const fn may_send(&self) -> bool {
        !matches!(self.wait, Wait::Receive(_))
    }

    fn patience(&self) -> Duration {
        let factor = 2_u32.saturating_pow(u32::from(self.made.silent)).min(ACKNOWLEDGE_BACKOFF);
        ACKNOWLEDGE_TIME.saturating_mul(factor)
    }

    /// A packet is sent.
    pub(crate) fn sent(&mut self, now: Instant) {
        if self.wait == Wait::Idle {
            self.wait = Wait::Acknowledgement(now + self.patience());
        }
    }

    /// The peer has acknowledged something, or sent a part of a response; more is under way, or not.
    pub(crate) fn progress(&mut self, now: Instant, more: bool) {
        self.made = Attempts { silent: 0, not_ready: 0 };
        self.wait = if more { Wait::Acknowledgement(now + self.patience()) } else { Wait::Idle };
    }

    /// The peer has no receive, and says how long to wait.
    pub(crate) fn not_ready(&mut self, now: Instant, wait: Duration) -> Verdict {
        if self.most.not_ready < ENDLESS_RETRIES && self.made.not_ready >= self.most.not_ready {
            return Verdict::NeverReady;
        }
        self.made.not_ready = self.made.not_ready.saturating_add(1);
        self.wait = Wait::Receive(now + wait);
        Verdict::GoOn
    }

    /// It is then.
    pub(crate) fn time_out(&mut self, now: Instant) -> Verdict {
        match self.wait {
            Wait::Acknowledgement(until) if until <= now => {
                if self.made.silent >= self.most.silent {
                    return Verdict::Lost;
                }
                self.made.silent = self.made.silent.saturating_add(1);
                self.wait = Wait::Idle;
                Verdict::SendAgain
            }
            Wait::Receive(until) if until <= now => {
                self.wait = Wait::Idle;
                Verdict::SendAgain
            }
            _ => Verdict::GoOn,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::fmt::Write;

    use super::*;

    #[test]
    fn table_of_all_transitions() {
        type Event = fn(&mut Retry) -> Verdict;
        const NOW: Instant = Instant::from_nanos(1_000_000_000);
        let events: [(&str, Event); 5] = [
            ("sent", |state| {
                state.sent(NOW);
                Verdict::GoOn
            }),
            ("acknowledged, more under way", |state| {
                state.progress(NOW, true);
                Verdict::GoOn
            }),
            ("all acknowledged", |state| {
                state.progress(NOW, false);
                Verdict::GoOn
            }),
            ("no receive for 1 ms", |state| state.not_ready(NOW, Duration::from_millis(1))),
            ("time", |state| state.time_out(NOW)),
        ];
        let most = Attempts { silent: 2, not_ready: 1 };
        let mut table = String::new();
        for wait in [Wait::Idle, Wait::Acknowledgement(NOW), Wait::Receive(NOW)] {
            for made in [Attempts { silent: 0, not_ready: 0 }, most] {
                for (name, event) in &events {
                    let state = Retry { wait, most, made };
                    let mut next = state;
                    let verdict = event(&mut next);
                    if next != state || verdict != Verdict::GoOn {
                        writeln!(table, "{} --{name}--> {} {verdict:?}", show(state), show(next)).unwrap();
                    }
                }
            }
        }
        assert_eq!(table, include_str!("retry.table"));
    }

    fn show(state: Retry) -> String {
        let mut words = String::new();
        let Attempts { silent, not_ready } = state.made;
        write!(words, "{:?} after {silent} and {not_ready}", state.wait).unwrap();
        words
    }

    #[test]
    fn waits_grow_and_end() {
        let mut retry = Retry::new(Attempts { silent: 7, not_ready: ENDLESS_RETRIES });
        let (mut now, mut waits) = (Instant::ZERO, alloc::vec::Vec::new());
        loop {
            retry.sent(now);
            let until = retry.deadline().unwrap();
            waits.push(until.since(now).as_millis());
            now = until;
            if retry.time_out(now) == Verdict::Lost {
                break;
            }
        }
        assert_eq!(waits, [100, 200, 400, 800, 1600, 1600, 1600, 1600]);
        for _ in 0..1000 {
            assert_eq!(retry.not_ready(now, Duration::ZERO), Verdict::GoOn);
        }
    }
}
