//! The state of one command between steps.

use crate::mode::CdbForm;
use crate::opcode::Needs;
use crate::reserve::OutParameters;
use crate::unit_inventory::UnitPlace;
use crate::volume_requests::Work;

/// A command under way. The transport keeps it and gives it back with each event.
#[derive(Debug)]
pub struct Task {
    pub(crate) unit: UnitPlace,
    /// What reservations must allow for it, at each of its steps.
    pub(crate) needs: Needs,
    pub(crate) state: State,
    /// Bytes that the command would move.
    pub(crate) full_length: u64,
}

impl Task {
    /// Bytes that the command moves in all.
    pub fn full_length(&self) -> u64 {
        self.full_length
    }

    /// Where the logical unit is, or was, that the command is for.
    pub fn place(&self) -> UnitPlace {
        self.unit
    }

    /// Ends whatever it was: it is as a new one is.
    pub fn reset(&mut self) {
        (self.unit, self.full_length) = (UnitPlace::NONE, 0);
        self.needs = Needs::Nothing;
        self.state = State::Finished;
    }
}

impl Default for Task {
    fn default() -> Self {
        let needs = Needs::Nothing;
        Self { unit: UnitPlace::NONE, needs, state: State::Finished, full_length: 0 }
    }
}

/// What a task waits for.
#[derive(Debug)]
pub(crate) enum State {
    /// Nothing: it has been completed.
    Finished,
    /// Data of the initiator's.
    Data(Purpose),
    /// A request to the volume; then the rest of the work.
    Io(Work),
    /// The owner of the reservations.
    Reserving,
}

/// What received data is for.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// WRITE, WRITE AND VERIFY.
    Write(Work),
    /// VERIFY with BYTCHK: compare the blocks with the data, or each with the one block received.
    Verify {
        /// The rest of the work, its data still missing.
        work: Work,
        /// BYTCHK 11b.
        single: bool,
    },
    /// COMPARE AND WRITE of so many blocks.
    CompareAndWrite {
        /// First block.
        lba: u64,
        /// Blocks.
        blocks: u64,
        /// Force unit access.
        fua: bool,
    },
    /// UNMAP.
    Unmap,
    /// WRITE SAME with one block of data.
    WriteSame {
        /// The rest of the work, its data still missing.
        range: crate::volume_requests::Range,
        /// The UNMAP bit.
        unmap: bool,
    },
    /// MODE SELECT (6) or (10).
    ModeSelect(CdbForm),
    /// PERSISTENT RESERVE OUT.
    Reserve(OutParameters),
}
