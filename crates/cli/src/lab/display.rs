//! What a run's progress looks like: a bar on a terminal, one plain line per event elsewhere, JSON for machines.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use lab_runner::run::progress::{Event, Observer};

/// Shows events.
pub(super) enum Display {
    /// A bar on standard error.
    Bar(ProgressBar),
    /// Lines on standard error.
    Lines,
    /// JSON lines on standard output.
    Json,
}

impl Display {
    /// What suits where the output goes.
    pub(super) fn new(json: bool) -> Self {
        if json {
            return Self::Json;
        }
        if !std::io::stderr().is_terminal() {
            return Self::Lines;
        }
        let bar = ProgressBar::new(1);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Self::Bar(bar)
    }
}

impl Observer for Display {
    fn tell(&mut self, event: &Event) {
        match self {
            Self::Json => {
                let line = serde_json::to_string(event).unwrap_or_default();
                // A closed output leaves nobody to tell.
                let _unheard = writeln!(std::io::stdout().lock(), "{line}");
            }
            // The end is told with the verdicts.
            Self::Lines if matches!(event, Event::Ended { .. }) => {}
            Self::Lines => {
                let _unheard = writeln!(std::io::stderr().lock(), "{}", names::redact(&event.line()));
            }
            Self::Bar(bar) => show(bar, event),
        }
    }
}

fn show(bar: &ProgressBar, event: &Event) {
    match event {
        Event::Measured { done, of, .. } => {
            bar.set_length(*of);
            bar.set_position(*done);
            bar.set_message(event.line());
        }
        Event::Warning { .. } | Event::Invalid { .. } | Event::Begun { .. } => bar.println(event.line()),
        Event::Step { .. } => bar.set_message(event.line()),
        Event::Ended { .. } => bar.finish_and_clear(),
    }
}
