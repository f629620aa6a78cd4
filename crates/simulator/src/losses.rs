//! Trials of a volume behind a page cache that fails to write back: several users, of whom the system tells the first.
//!
//! The promise (docs/volume-contract.md, Durability): no flush of anybody succeeds for a write that is lost, not even by another
//! process later, until an operator has been told and says that it is known.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use backends::FileVolume;
use host::OpenMode;
use protocol::Instant;
use volume::{CoreId, LossRecord, OpenError, QueueContext, Volume, VolumeQueue};

use crate::dice::{Dice, Odds};
use crate::disk::{CrashDisk, DiskOptions, PlantedBug, SECTOR};
use crate::failure::TrialFailure;
use crate::lock;
use crate::workload::Workload;

/// Sectors of the disk: so many that a lost one is not soon written again.
const SECTORS: usize = 96;
/// Steps of a process' life.
const STEPS: std::ops::RangeInclusive<usize> = 20..=120;
/// Users, each with a queue.
const USERS: usize = 3;
/// How often a step fails to write something back.
const FAILURES: Odds = Odds(5);

/// How a loss is forgotten too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgets {
    /// It is not.
    Never,
    /// By the next process.
    AtRestart,
    /// As soon as one user was told.
    AtOnce,
}

/// The answers that wait until the record is kept.
type Waiting = Vec<Box<dyn FnOnce() + Send>>;

/// What outlives a process.
#[derive(Default)]
struct Record {
    what: Mutex<Option<String>>,
    waiting: Mutex<Waiting>,
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("what", &lock(&self.what)).finish_non_exhaustive()
    }
}

impl LossRecord for Record {
    fn keep(&self, what: &str, kept: Box<dyn FnOnce() + Send>) {
        *lock(&self.what) = Some(what.to_owned());
        lock(&self.waiting).push(kept);
    }
}

impl Record {
    fn kept(&self) {
        for kept in std::mem::take(&mut *lock(&self.waiting)) {
            kept();
        }
    }
}

/// The users' queues, as a process opens them.
fn open(
    disk: &CrashDisk,
    record: &Arc<Record>,
    known: Option<String>,
) -> Result<Vec<Box<dyn VolumeQueue>>, OpenError> {
    let record: Arc<dyn LossRecord> = Arc::<Record>::clone(record);
    let volume = FileVolume::new(Arc::new(disk.clone()), OpenMode::ReadWrite, None)?;
    volume.keep_losses(record, known);
    let queue = |_| volume.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone()));
    (0..USERS).map(queue).collect()
}

/// Lets `lives` processes, one after the other, serve a disk behind a page cache; each ends by being killed or by a loss of
/// power. True if writes were lost on the way, and told.
pub fn write_back(seed: u64, lives: usize, forgets: Forgets) -> Result<bool, TrialFailure> {
    let mut dice = Dice::new(seed);
    let options = DiskOptions {
        sectors: SECTORS,
        errors: Odds::NEVER,
        write_back: Some(FAILURES),
        bug: PlantedBug::None,
    };
    let disk = CrashDisk::new(options, dice.fork());
    let mut workload = Workload::new(SECTORS, SECTOR, dice.fork()).strict();
    let (record, mut lost, mut cut) = (Arc::new(Record::default()), false, false);
    for life in 0..lives {
        let broken =
            |violation| TrialFailure::Forgotten(violation).at(format_args!("seed {seed}, life {life}"));
        let known = lock(&record.what).clone().filter(|_| forgets == Forgets::Never);
        lost |= known.is_some();
        let mut queues = open(&disk, &record, known)?;
        while cut && !workload.check_after_cut(&mut *queues[0], &mut || Instant::ZERO).map_err(broken)? {}
        for _ in 0..dice.within(STEPS) {
            let user = dice.index(USERS);
            workload.step(&mut *queues[user]).map_err(broken)?;
            if dice.coin() {
                record.kept();
            }
            if forgets == Forgets::AtOnce && lock(&record.what).take().is_some() {
                record.kept();
                queues = open(&disk, &record, None)?;
            }
        }
        drop(queues);
        disk.outlive();
        // An operator has seen what is lost, sometimes, and says so.
        if dice.coin() && lock(&record.what).take().is_some() {
            workload.history.disown();
        }
        cut = dice.coin();
        if cut {
            disk.cut();
        }
        workload.cut();
    }
    Ok(lost)
}
