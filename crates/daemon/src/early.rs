//! Signals that come while volumes are still being opened, which may take as long as a machine does not answer.

use std::thread::JoinHandle;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::starter::{News, Started};

/// Listens until it is dropped.
pub(crate) struct Early {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Early {
    /// Tells of the first SIGTERM or SIGINT.
    pub(crate) fn watch(tell: Started) -> Result<Self> {
        let mut signals = Signals::new([SIGTERM, SIGINT]).context("signals cannot be caught")?;
        let handle = signals.handle();
        let thread = std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                // Nobody listens any more once everything is open.
                let _unheard = tell.send(News::Asked);
            }
        });
        Ok(Self { handle, thread: Some(thread) })
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}
