//! Signals, heard from before anything begins until everything has ended.

use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::control_input::ControlInput;

/// Listens until it is dropped.
pub(crate) struct SignalWatch {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl SignalWatch {
    /// Tells of each SIGTERM, SIGINT and SIGHUP.
    pub(crate) fn begin(tell: Sender<ControlInput>) -> Result<Self> {
        let had_terminal = has_terminal();
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("signals cannot be caught")?;
        let handle = signals.handle();
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in &mut signals {
                let reloads = signal == SIGHUP && has_terminal() == had_terminal;
                // Nobody listens any more once everything has ended.
                let _unheard = tell.send(if reloads { ControlInput::Reload } else { ControlInput::Stop });
            }
        });
        Ok(Self { handle, thread: Some(thread.context("no thread can listen for signals")?) })
    }
}

/// True while the process belongs to a terminal. One whose terminal is closed gets SIGHUP too, and is to end.
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}
