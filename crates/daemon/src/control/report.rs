//! What is told of changes to what is served: one line for each, in the log.

use std::fmt::Write as _;
use std::time::Duration;

use engine::Generation;
use host::{Event, Kind, Level};

use crate::departures::DepartureCounts;

/// What has changed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// Names of volumes.
    pub(super) added: Vec<String>,
    pub(super) removed: Vec<String>,
    pub(super) kept: usize,
    /// Portals.
    pub(super) opened: usize,
    pub(super) closed: usize,
}

/// A catalogue is served.
pub(super) fn applied(generation: Generation, took: Duration, change: &Change) -> Event {
    let volumes = |names: &[String], what: &str| {
        let list: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
        let list = if list.is_empty() { String::new() } else { format!(" ({})", list.join(", ")) };
        format!("{} {what}{list}", names.len())
    };
    let mut text = format!(
        "{generation} applied in {} ms: volumes: {}, {}, {} kept",
        took.as_millis(),
        volumes(&change.added, "added"),
        volumes(&change.removed, "removed"),
        change.kept
    );
    if change.opened + change.closed > 0 {
        // Writing to a string does not fail.
        let _ = write!(text, "; portals: {} opened, {} closed", change.opened, change.closed);
    }
    Event::new(Kind::Configuration, text).at(Level::Info)
}

/// What has become of connections whose hosts were asked to leave.
pub(super) fn departed(generation: Generation, counts: DepartureCounts) -> Event {
    let DepartureCounts { asked, ended, forced } = counts;
    let text = format!("{generation}: connections: {asked} asked to leave, {ended} ended, {forced} forced");
    Event::new(Kind::Configuration, text).at(Level::Info)
}

/// A configuration is not served.
pub(super) fn refused(generation: Generation, problem: &str) -> Event {
    let text = format!("the configuration was not applied: {problem}; the server goes on with {generation}");
    Event::new(Kind::Configuration, text).at(Level::Error)
}

/// A configuration is the one that is served.
pub(super) fn unchanged(generation: Generation) -> Event {
    Event::new(Kind::Configuration, format!("the configuration is unchanged ({generation})")).at(Level::Info)
}

/// Nothing of a volume is left on any core; so many requests were cancelled because their time was over.
pub(super) fn closed(name: &str, took: Duration, cancelled: u32) -> Event {
    let mut text =
        format!("the volume {name:?} is closed and flushed, {} ms after it was taken out", took.as_millis());
    if cancelled > 0 {
        // Writing to a string does not fail.
        let _ = write!(text, "; requests that were cancelled: {cancelled}");
    }
    Event::new(Kind::Configuration, text).at(Level::Info)
}

/// A volume takes its time.
pub(super) fn still_closing(name: &str, since: Duration) -> Event {
    let text = format!(
        "the volume {name:?} is still being closed after {} s: requests wait for what it lies on",
        since.as_secs()
    );
    Event::new(Kind::Configuration, text)
}

/// What keeps a volume from being taken for flushed by the next server.
pub(super) fn not_secured(name: &str, why: &str) -> String {
    format!(
        "the volume {name:?} was not stopped cleanly: {why}; its clients will take what they have not flushed as lost"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_came_and_went() {
        let mut change = Change { kept: 2, ..Change::default() };
        let line =
            |change: &Change| applied(Generation(7), Duration::from_millis(84), change).reason.into_owned();
        assert_eq!(line(&change), "generation 7 applied in 84 ms: volumes: 0 added, 0 removed, 2 kept");
        change.added = vec!["b".to_owned(), "c".to_owned()];
        change.removed = vec!["a".to_owned()];
        change.opened = 1;
        assert_eq!(
            line(&change),
            "generation 7 applied in 84 ms: volumes: 2 added (\"b\", \"c\"), 1 removed (\"a\"), 2 kept; portals: 1 opened, 0 closed"
        );
    }
}
