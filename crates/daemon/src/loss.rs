//! Losses of acknowledged writes: kept with a volume's state, told to the operator, and cleared by nobody else.
//!
//! docs/decisions/0012-lost-writes.md says what a loss is, and why a volume then serves reads only.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use host::{Event, Journal, Kind, VolumeState};
use volume::{LossRecord, Volume};

use crate::config::Config;
use crate::exports::Opened;
use crate::state::States;

/// The record's name.
const RECORD: &str = "lost-writes";

/// Called once it is kept.
type Kept = Mutex<Option<Box<dyn FnOnce() + Send>>>;

/// Keeps one volume's loss.
#[derive(Debug, Clone)]
struct Keeper {
    name: String,
    state: VolumeState,
    journal: Arc<dyn Journal>,
}

impl Keeper {
    fn write(&self, what: &str, kept: &Kept) {
        self.journal.record(Event::new(Kind::Io, text(&self.name, what)));
        if let Err(error) = self.state.write(RECORD, what.as_bytes()) {
            let name = &self.name;
            let forgotten = format!(
                "the loss of writes of the volume {name:?} is forgotten when this process ends: {error}"
            );
            self.journal.record(Event::new(Kind::Io, forgotten));
        }
        let kept = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(kept) = kept {
            kept();
        }
    }
}

impl LossRecord for Keeper {
    fn keep(&self, what: &str, kept: Box<dyn FnOnce() + Send>) {
        let kept = Arc::new(Mutex::new(Some(kept)));
        let (keeper, owned, later) = (self.clone(), what.to_owned(), Arc::clone(&kept));
        let thread = std::thread::Builder::new().name("loss".to_owned());
        if thread.spawn(move || keeper.write(&owned, &later)).is_err() {
            // Once in a volume's life a core may wait.
            self.write(what, &kept);
        }
    }
}

/// What operators are told.
fn text(name: &str, what: &str) -> String {
    format!(
        "the volume {name:?} has lost acknowledged writes ({what}): everything that writes or flushes fails, reads go on; find out why, compare or \
         restore what its clients have there, then stop the server and clear the loss with `linerate losses --accept`"
    )
}

fn known(state: &VolumeState) -> Result<Option<String>> {
    Ok(state.read(RECORD)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Has a volume keep its losses with its state, and know those that were kept.
pub(crate) fn watch(
    name: &str,
    volume: &dyn Volume,
    state: &VolumeState,
    journal: &Arc<dyn Journal>,
) -> Result<()> {
    let known = known(state)?;
    let keeper = Keeper { name: name.to_owned(), state: state.clone(), journal: Arc::clone(journal) };
    volume.keep_losses(Arc::new(keeper), known);
    Ok(())
}

/// A line for each volume whose loss is kept.
pub(crate) fn lines(opened: &[Opened]) -> Vec<String> {
    let lost = |entry: &Opened| known(&entry.kept.state).ok()?.map(|what| text(&entry.name, &what));
    opened.iter().filter_map(lost).collect()
}

/// Tells which of the volumes have lost writes, and with `accept` clears that: the next server serves them as if nothing were lost.
/// Refused while a server has them.
pub fn losses(config: &Config, accept: bool, say: &dyn Fn(&str)) -> Result<()> {
    config.check()?;
    let states = States::new(config);
    for entry in &config.volumes {
        let (name, before) = (&entry.name, states.look(entry)?);
        let state = before.state();
        let about = || format!("the losses of the volume {name:?} cannot be told");
        match known(state).with_context(about)? {
            None => say(&format!("the volume {name:?} has lost no acknowledged writes")),
            Some(what) if accept => {
                state.remove(RECORD).with_context(about)?;
                say(&format!("the volume {name:?} had lost acknowledged writes ({what}): cleared"));
            }
            Some(what) => say(&text(name, &what)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::config::VolumeEntry;

    #[test]
    fn a_loss_is_kept_before_anybody_is_told_and_found_again() {
        let state = VolumeState::ephemeral();
        let journal: Arc<dyn Journal> = Arc::new(host::Recording::default());
        let keeper = Keeper { name: "disk".to_owned(), state: state.clone(), journal };
        assert_eq!(known(&state).unwrap(), None);
        let (tell, told) = mpsc::channel();
        let seen = state.clone();
        keeper.keep("a flush failed: EIO", Box::new(move || drop(tell.send(known(&seen).unwrap()))));
        assert_eq!(told.recv().unwrap().as_deref(), Some("a flush failed: EIO"));
        assert!(text("disk", "why").contains("linerate losses --accept"));
    }

    #[test]
    fn a_loss_is_told_until_it_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file:{}/disk.img", folder.path().display());
        let mut config = Config::default();
        config.volumes.push(VolumeEntry::alone("disk".to_owned(), url.parse().unwrap()));
        config.daemon.state = Some(folder.path().join("state"));
        let told = |accept| {
            let lines = Mutex::new(Vec::new());
            losses(&config, accept, &|line| lines.lock().unwrap().push(line.to_owned())).unwrap();
            lines.into_inner().unwrap().concat()
        };
        assert!(told(true).contains("has lost no"));
        let states = States::new(&config);
        let before = states.look(&config.volumes[0]).unwrap();
        before.state().write(RECORD, b"a flush failed: EIO").unwrap();
        assert!(losses(&config, true, &|_| ()).is_err(), "refused while a server has the volume");
        drop((before, states));
        assert!(told(false).contains("a flush failed: EIO") && told(false).contains("--accept"));
        assert!(told(true).contains("cleared"));
        assert!(told(false).contains("has lost no"));
    }
}
