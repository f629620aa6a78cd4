//! What the commands on data share: how much goes on side by side, progress on a terminal, and Ctrl-C.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use linerate::{Control, Effort, Stop};
use signal_hook::low_level::emulate_default_handler;

use crate::signals;

/// The exit code of a command that Ctrl-C ended: 128 and the signal's number, as shells count.
const STOPPED: u8 = 130;
/// How often the progress bar moves though nothing was done.
const TICK: Duration = Duration::from_millis(500);
/// The template where the end is known, and where it is not.
const BAR: &str = "{bytes} of {total_bytes} {bar:30} {bytes_per_sec}, {eta} left";
const COUNT: &str = "{bytes} {bytes_per_sec}";

/// Options of every command that walks over volumes.
#[derive(Debug, Parser)]
pub(crate) struct EffortArgs {
    /// Connections to each volume
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=Effort::MOST_CONNECTIONS as i64))]
    connections: u16,
    /// Chunks of up to 1 MiB under way at a time, over all connections
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=Effort::MOST_CHUNKS as i64))]
    depth: u16,
}

impl EffortArgs {
    /// The same for the library.
    pub(crate) fn effort(&self) -> Effort {
        Effort { connections: self.connections.into(), chunks: self.depth.into() }
    }
}

/// A job's progress bar, and the wish that it stop.
pub(crate) struct Watch {
    bar: ProgressBar,
    stop: Stop,
    begun: Instant,
}

/// What SIGINT and SIGTERM set: the first lets a job finish what is under way, a later one ends the process.
pub(crate) fn stop_on_signal(bar: &ProgressBar) -> Result<Stop> {
    let stop = Stop::new();
    let (wish, shown) = (stop.clone(), bar.clone());
    let ask = move || {
        shown.println("stopping: finishing what is under way; a second Ctrl-C does not wait");
        wish.set();
    };
    signals::listen(ask, |signal| {
        // It ends the process; if it cannot, the job still stops by itself.
        let _unable = emulate_default_handler(signal);
    })?;
    Ok(stop)
}

impl Watch {
    /// Begins, with [`stop_on_signal`].
    pub(crate) fn start() -> Result<Self> {
        let bar = ProgressBar::no_length();
        bar.set_style(ProgressStyle::with_template(COUNT)?);
        bar.enable_steady_tick(TICK);
        let stop = stop_on_signal(&bar)?;
        Ok(Self { bar, stop, begun: Instant::now() })
    }

    /// Seconds since it began.
    pub(crate) fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// What the job is given.
    pub(crate) fn control(&self) -> Result<Control> {
        let known = ProgressStyle::with_template(BAR)?;
        let shown = self.bar.clone();
        let meter = Arc::new(move |done: u64, total: Option<u64>| {
            if let Some(total) = total.filter(|total| shown.length() != Some(*total)) {
                shown.set_length(total);
                shown.set_style(known.clone());
            }
            shown.set_position(done);
        });
        Ok(Control { meter, stop: self.stop.clone() })
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The exit code of a job that was stopped.
pub(crate) fn stopped() -> ExitCode {
    ExitCode::from(STOPPED)
}

/// The exit code of a job that went well or was stopped.
pub(crate) fn exit_code(was_stopped: bool) -> ExitCode {
    if was_stopped { stopped() } else { ExitCode::SUCCESS }
}
