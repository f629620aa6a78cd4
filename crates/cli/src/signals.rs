//! SIGINT and SIGTERM, which ask for an end: the first in good order, a later one at once.
//!
//! `timeout(1)` signals the process and then its whole group, so that one wish arrives twice within microseconds. What comes right after the
//! first signal is therefore the same wish.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// How long after the first signal another one says nothing new: longer than what sends one twice takes on a busy machine, and
/// shorter than somebody takes who has waited in vain.
const SAME_WISH: Duration = Duration::from_millis(500);

/// Calls `ask` at the first signal, and `insist` with the number of each that comes when that has been heard for a while.
pub(crate) fn listen(
    mut ask: impl FnMut() + Send + 'static,
    mut insist: impl FnMut(i32) + Send + 'static,
) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("signals cannot be heard")?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut first = None;
            for signal in &mut signals {
                match (first, Instant::now()) {
                    (None, now) => {
                        first = Some(now);
                        ask();
                    }
                    (Some(first), now) if insists(first, now) => insist(signal),
                    (Some(_), _) => {}
                }
            }
        })
        .context("no thread can listen for signals")?;
    Ok(())
}

/// Whether a signal is a wish of its own.
fn insists(first: Instant, now: Instant) -> bool {
    now.duration_since(first) >= SAME_WISH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_right_after_the_first_is_the_same_wish() {
        let first = Instant::now();
        assert!(!insists(first, first) && !insists(first, first + SAME_WISH / 2));
        assert!(insists(first, first + SAME_WISH) && insists(first, first + 9 * SAME_WISH));
    }
}
