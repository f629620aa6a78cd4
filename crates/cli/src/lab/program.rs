//! This program as the lab's own process: where it lies, and how a signal ends it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use super::exit_code::INVALID;
use crate::signals;

/// This program, which the lab starts as target, initiator and load.
pub(super) fn own_program() -> Result<PathBuf> {
    std::env::current_exe()
        .context("cannot find the path of this program")
        .map(|path| path.as_path().to_owned())
}

/// Set by Ctrl-C and by a polite kill: the run ends after the measurement under way.
pub(super) fn stop_by_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let wish = Arc::clone(&stop);
    signals::listen(
        move || wish.store(true, Ordering::Relaxed),
        // `linerate lab clean` finds what is left.
        |_| std::process::exit(INVALID.into()),
    )?;
    Ok(stop)
}
