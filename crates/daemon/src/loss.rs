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

/// What becomes of the losses that are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossAction {
    /// They are told, and stay.
    Tell,
    /// They are told and cleared: the next server serves the volumes as if nothing were lost.
    Accept,
}

/// Tells which of the volumes have lost writes, and does with that what `action` says. Refused while a server has the volumes.
pub fn losses(config: &Config, action: LossAction, say: &dyn Fn(&str)) -> Result<()> {
    config.check()?;
    let states = States::new(config);
    for entry in &config.volumes {
        let (name, before) = (&entry.name, states.look(entry)?);
        let state = before.state();
        let about = || format!("the losses of the volume {name:?} cannot be told");
        match known(state).with_context(about)? {
            None => say(&format!("the volume {name:?} has lost no acknowledged writes")),
            Some(what) if action == LossAction::Accept => {
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
    use std::task::Waker;

    use host::{StateError, StateErrorKind, StateStore};
    use volume::Losses;

    use super::*;
    use crate::config::VolumeEntry;
    use crate::state::Before;

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

    /// A store that the system refuses everything of some kind, as a full disk refuses writes.
    #[derive(Debug, Default)]
    struct Refusing {
        inner: host::MemoryState,
        refuses: Mutex<Option<&'static str>>,
    }

    impl Refusing {
        fn check(&self, what: &str) -> Result<(), StateError> {
            let refused = *self.refuses.lock().unwrap() == Some(what);
            let full = || StateError::new("state/disk", StateErrorKind::Io(host::IoError(28)));
            if refused { Err(full()) } else { Ok(()) }
        }
    }

    impl StateStore for Refusing {
        fn read(&self, volume: &str, record: &str) -> Result<Option<Vec<u8>>, StateError> {
            self.check("read")?;
            self.inner.read(volume, record)
        }

        fn write(&self, volume: &str, record: &str, bytes: &[u8]) -> Result<(), StateError> {
            self.check("write")?;
            self.inner.write(volume, record, bytes)
        }

        fn remove(&self, volume: &str, record: &str) -> Result<(), StateError> {
            self.check("remove")?;
            self.inner.remove(volume, record)
        }
    }

    #[test]
    fn a_loss_that_cannot_be_kept_holds_in_this_process_and_is_told() {
        let store = Arc::new(Refusing::default());
        *store.refuses.lock().unwrap() = Some("write");
        let state = VolumeState::new(Arc::<Refusing>::clone(&store), "disk");
        let journal = Arc::new(host::Recording::default());
        let name = "disk".to_owned();
        let keeper = Keeper { name, state: state.clone(), journal: Arc::<host::Recording>::clone(&journal) };
        let losses = Losses::new();
        losses.keep_in(Arc::new(keeper), None);
        let (tell, told) = mpsc::channel();
        losses.add_queue(Waker::from(Arc::new(Bell(tell))));
        losses.report("a flush failed: EIO");
        told.recv().unwrap();
        assert!(losses.happened() && !losses.is_being_kept(), "queues answer, and with an error");
        let lines: Vec<String> = journal.take().iter().map(|event| event.reason.to_string()).collect();
        let [lost, forgotten] = &lines[..] else { panic!("{lines:?}") };
        assert!(lost.contains("a flush failed: EIO") && lost.contains("--accept"), "{lost}");
        assert!(
            forgotten.contains("is forgotten when this process ends") && forgotten.contains("cannot be kept")
        );
    }

    /// Rings when a queue is woken.
    struct Bell(mpsc::Sender<()>);

    impl std::task::Wake for Bell {
        fn wake(self: Arc<Self>) {
            let _unheard = self.0.send(());
        }
    }

    #[test]
    fn a_volume_whose_state_cannot_be_read_or_changed_is_not_served() {
        for (refuses, kept) in [("read", false), ("write", false), ("remove", true)] {
            let store = Arc::new(Refusing::default());
            let entry = VolumeEntry::alone("disk".to_owned(), "file:disk.img".parse().unwrap());
            let begin = || {
                let state = VolumeState::new(Arc::<Refusing>::clone(&store), "disk");
                let entropy = &mut protocol::SeededEntropy::new(1);
                let mut kept = States::keep(&entry, Before::of(state.clone()), entropy)?;
                let journal: Arc<dyn Journal> = Arc::new(host::Recording::default());
                watch("disk", &volume::Null::new(1 << 20, 512)?, &state, &journal)?;
                kept.begin(entropy)
            };
            if kept {
                begin().unwrap();
            }
            *store.refuses.lock().unwrap() = Some(refuses);
            let refusal = format!("{:#}", begin().unwrap_err());
            assert!(refusal.contains("choose a state folder"), "{refuses}: {refusal}");
        }
    }

    #[test]
    fn a_loss_is_told_until_it_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file:{}/disk.img", folder.path().display());
        let mut config = Config::default();
        config.volumes.push(VolumeEntry::alone("disk".to_owned(), url.parse().unwrap()));
        config.daemon.state = Some(folder.path().join("state"));
        let told = |action| {
            let lines = Mutex::new(Vec::new());
            losses(&config, action, &|line| lines.lock().unwrap().push(line.to_owned())).unwrap();
            lines.into_inner().unwrap().concat()
        };
        assert!(told(LossAction::Accept).contains("has lost no"));
        let states = States::new(&config);
        let before = states.look(&config.volumes[0]).unwrap();
        before.state().write(RECORD, b"a flush failed: EIO").unwrap();
        assert!(
            losses(&config, LossAction::Accept, &|_| ()).is_err(),
            "refused while a server has the volume"
        );
        drop((before, states));
        assert!(
            told(LossAction::Tell).contains("a flush failed: EIO")
                && told(LossAction::Tell).contains("--accept")
        );
        assert!(told(LossAction::Accept).contains("cleared"));
        assert!(told(LossAction::Tell).contains("has lost no"));
    }
}
