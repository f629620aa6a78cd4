//! What a server keeps beside its disk: the incarnation mark, in a state store on a folder that crashes with the machine.

use std::sync::Arc;

use backends::FolderState;
use engine::incarnation::{self, Mark};
use host::VolumeState;

use crate::dice::{Dice, Odds};
use crate::failure::TrialFailure;
use crate::folder::{CrashFolder, FolderOptions, PlantedBug};
use crate::marks::Marks;

/// The volume's name in the store.
const VOLUME: &str = "disk";

/// The marks of servers, one after the other.
pub(crate) struct Keeper {
    marks: Marks,
    folder: CrashFolder,
    /// The server that runs, or the last one.
    current: Option<(VolumeState, Mark)>,
    dice: Dice,
}

impl Keeper {
    pub(crate) fn new(marks: Marks, mut dice: Dice) -> Self {
        let bug = if marks == Marks::Unsynced { PlantedBug::Folders } else { PlantedBug::None };
        let folder = CrashFolder::new(FolderOptions { errors: Odds::NEVER, bug }, dice.fork());
        Self { marks, folder, current: None, dice }
    }

    /// The mark of a server that begins.
    pub(crate) fn begin(&mut self) -> Result<Option<Mark>, TrialFailure> {
        let state = VolumeState::new(Arc::new(FolderState::new(Arc::new(self.folder.clone()))), VOLUME);
        let mark = incarnation::begin(&state, &[], &mut self.dice)?;
        self.current = Some((state, mark));
        Ok(match self.marks {
            Marks::Absent => None,
            Marks::Kept => Some([0; 16]),
            Marks::Fresh | Marks::Hasty | Marks::Unsynced => Some(mark),
        })
    }

    /// The server has stopped in good order.
    pub(crate) fn stopped(&self) -> Result<(), TrialFailure> {
        let Some((state, mark)) = &self.current else { return Ok(()) };
        Ok(incarnation::end(state, mark, &[])?)
    }

    /// The process has ended.
    pub(crate) fn ended(&mut self) {
        self.current = None;
        self.folder.begin();
    }

    /// The machine has lost power.
    pub(crate) fn cut(&mut self) {
        self.current = None;
        self.folder.crash();
    }
}
