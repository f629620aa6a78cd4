//! Signals that come while the volume is still being opened, which may take as long as a machine does not answer.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use linerate::{Client, Disk};
use names::VolumeUrl;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// Listens until it is dropped, or the first signal has come.
pub(crate) struct Early {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Early {
    /// Sends `word` when the first SIGTERM or SIGINT comes.
    pub(crate) fn watch<T: Send + 'static>(tell: Sender<T>, word: T) -> Result<Self> {
        let mut signals = Signals::new([SIGTERM, SIGINT]).context("signals cannot be caught")?;
        let handle = signals.handle();
        let thread = std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                // Nobody listens once the volume is open.
                let _unheard = tell.send(word);
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

/// A volume that will be opened, unless a signal asks to stop first.
///
/// It listens from the beginning: whoever catches signals for the time after begins to do so before [`Self::open`], and no signal is missed.
pub(crate) struct WhileOpening {
    early: Early,
    tell: Sender<Option<Opened>>,
    told: Receiver<Option<Opened>>,
}

type Opened = Result<Disk>;

impl WhileOpening {
    /// Listens from now on.
    pub(crate) fn begin() -> Result<Self> {
        let (tell, told) = mpsc::channel();
        Ok(Self { early: Early::watch(tell.clone(), None)?, tell, told })
    }

    /// Opens a volume; `None` if a signal has asked to stop since the beginning.
    pub(crate) fn open(self, client: &Client, url: &VolumeUrl) -> Result<Option<Disk>> {
        let Self { early, tell, told } = self;
        let (client, url) = (client.clone(), url.clone());
        // It may still be at it when the process ends.
        std::thread::spawn(move || tell.send(Some(client.open(&url).map_err(Into::into))));
        let first = told.recv().context("the volume is not being opened any more")?;
        drop(early);
        first.transpose()
    }
}

/// What is said when a signal came too early.
pub(crate) const STOPPED: &str = "stopped before the volume was open";
