//! How many lines a peer may cause: a few of each kind, level and volume in a window, and so many of each level in all. A flood of what
//! matters little, or about one volume, leaves the room of what matters more, and of another. What the server says of its configuration no peer causes, and it is
//! always written: who asks for a reload waits for its outcome.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use host::{Event, Kind, Level};

use super::limits::{LINES, LINES_OF_A_PEER, PEERS, WINDOW};

/// What becomes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Write,
    Suppress,
}

/// Events that share their lines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Source {
    level: Level,
    kind: Kind,
    peer: Option<IpAddr>,
    volume: Option<Arc<str>>,
}

impl Source {
    fn of(event: &Event) -> Self {
        Self {
            level: event.level,
            kind: event.kind,
            peer: event.peer.map(|peer| peer.ip()),
            volume: event.volume.clone(),
        }
    }

    /// Tells how many events were left out.
    fn suppressed(self, count: u32) -> Event {
        let from = self.peer.map(|peer| format!(" from {peer}")).unwrap_or_default();
        let told = Event::new(self.kind, format!("{count} more like this{from} suppressed"));
        Event { volume: self.volume, ..told }.at(self.level)
    }
}

/// Counts of the present window.
#[derive(Debug)]
pub(super) struct Limiter {
    began: Instant,
    /// Lines written, by level.
    lines: HashMap<Level, u32>,
    /// Lines written and left out.
    counts: HashMap<Source, (u32, u32)>,
    /// Left out beyond the table's end.
    others: u32,
}

impl Limiter {
    pub(super) fn new(now: Instant) -> Self {
        Self { began: now, lines: HashMap::new(), counts: HashMap::new(), others: 0 }
    }

    /// True when something was left out that is still to be told.
    pub(super) fn suppresses(&self) -> bool {
        self.others > 0 || self.counts.values().any(|(_, left_out)| *left_out > 0)
    }

    pub(super) fn judge(&mut self, event: &Event) -> Verdict {
        if is_unlimited(event) {
            return Verdict::Write;
        }
        let key = Source::of(event);
        if self.counts.len() >= PEERS && !self.counts.contains_key(&key) {
            self.others = self.others.saturating_add(1);
            return Verdict::Suppress;
        }
        let (written, left_out) = self.counts.entry(key).or_default();
        let lines = self.lines.entry(event.level).or_default();
        if *written >= LINES_OF_A_PEER || *lines >= LINES {
            *left_out = left_out.saturating_add(1);
            return Verdict::Suppress;
        }
        *written += 1;
        *lines += 1;
        Verdict::Write
    }

    /// Begins a new window if the last one is over: what was left out in it, as events.
    pub(super) fn settle(&mut self, now: Instant) -> Vec<Event> {
        if now.saturating_duration_since(self.began) < WINDOW {
            return Vec::new();
        }
        self.began = now;
        self.lines.clear();
        let mut left_out: Vec<_> = self.counts.drain().filter(|(_, (_, left_out))| *left_out > 0).collect();
        left_out.sort_unstable();
        let rest = left_out.split_off(left_out.len().min(LINES_OF_A_PEER as usize));
        let others = rest
            .iter()
            .map(|(_, (_, count))| count)
            .fold(self.others, |sum, count| sum.saturating_add(*count));
        self.others = 0;
        let mut events: Vec<Event> =
            left_out.into_iter().map(|(source, (_, count))| source.suppressed(count)).collect();
        if others > 0 {
            events.push(Event::new(
                Kind::Limit,
                format!("{others} more like this from other peers suppressed"),
            ));
        }
        events
    }
}

/// True for what is written however much else is.
pub(super) fn is_unlimited(event: &Event) -> bool {
    event.kind == Kind::Configuration
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Kind, peer: &str) -> Event {
        Event::new(kind, "x").from_peer(format!("{peer}:1").parse().unwrap())
    }

    #[test]
    fn each_peer_has_its_lines_of_each_kind_and_what_is_left_out_is_counted() {
        let now = Instant::now();
        let mut limiter = Limiter::new(now);
        let few = usize::try_from(LINES_OF_A_PEER).unwrap();
        let judged = |limiter: &mut Limiter, kind, peer: &str| {
            (0..LINES_OF_A_PEER + 3).filter(|_| limiter.judge(&event(kind, peer)) == Verdict::Write).count()
        };
        assert_eq!(judged(&mut limiter, Kind::Refused, "192.0.2.1"), few);
        assert_eq!(judged(&mut limiter, Kind::Violation, "192.0.2.1"), few);
        assert_eq!(judged(&mut limiter, Kind::Refused, "192.0.2.2"), few);
        assert!(limiter.suppresses() && limiter.settle(now).is_empty(), "its second is not over");
        let told: Vec<String> =
            limiter.settle(now + WINDOW).iter().map(|event| event.reason.to_string()).collect();
        assert_eq!(told.len(), 3);
        assert!(told.contains(&"3 more like this from 192.0.2.2 suppressed".to_owned()), "{told:?}");
        assert!(!limiter.suppresses());
        assert_eq!(judged(&mut limiter, Kind::Refused, "192.0.2.1"), few, "a new second");
    }

    #[test]
    fn a_flood_of_what_matters_little_or_of_another_volume_leaves_room() {
        let mut limiter = Limiter::new(Instant::now());
        let about = |volume: u32, level| {
            Event { volume: Some(volume.to_string().into()), ..event(Kind::Io, "192.0.2.1") }.at(level)
        };
        for volume in 0..100 {
            (0..LINES).for_each(|_| {
                limiter.judge(&about(volume, Level::Debug));
            });
        }
        assert_eq!(limiter.judge(&about(0, Level::Error)), Verdict::Write);
        (0..LINES_OF_A_PEER).for_each(|_| {
            limiter.judge(&about(0, Level::Error));
        });
        assert_eq!(limiter.judge(&about(0, Level::Error)), Verdict::Suppress);
        assert_eq!(limiter.judge(&about(1, Level::Error)), Verdict::Write);
    }

    #[test]
    fn any_number_of_peers_makes_a_bounded_number_of_lines() {
        let now = Instant::now();
        let mut limiter = Limiter::new(now);
        let peers = (0..2000).map(|number| format!("10.0.{}.{}", number / 250, number % 250));
        let written =
            peers.filter(|peer| limiter.judge(&event(Kind::Refused, peer)) == Verdict::Write).count();
        assert_eq!(written, usize::try_from(LINES).unwrap());
        assert!(limiter.counts.len() <= PEERS);
        assert!(limiter.settle(now + WINDOW).len() <= usize::try_from(LINES_OF_A_PEER).unwrap() + 1);
    }
}
