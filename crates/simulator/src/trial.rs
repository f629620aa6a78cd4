//! A file volume on a crash disk, kept busy and cut off again and again: one seed, one trial.

use std::sync::Arc;
use std::task::Waker;

use backends::FileVolume;
use host::OpenMode;
use volume::{CoreId, OpenError, Volume, VolumeQueue};

use crate::dice::{Dice, Odds};
use crate::disk::{CrashDisk, DiskOptions, Plant, SECTOR};
use crate::workload::Workload;

/// Sectors of the disk: few, so that requests meet.
const SECTORS: usize = 24;
/// Steps between two cuts.
const STEPS: std::ops::RangeInclusive<usize> = 5..=60;

/// Cuts the power of a busy volume `cuts` times. The error says what was lost.
pub fn crash(seed: u64, cuts: usize, plant: Plant, errors: Odds) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let options = DiskOptions { sectors: SECTORS, errors, plant };
    let disk = CrashDisk::new(options, dice.fork());
    let mut workload = Workload::new(SECTORS, SECTOR, dice.fork());
    for cut in 0..cuts {
        let mut queue = open(&disk).map_err(|error| error.to_string())?;
        let told = |violation| format!("cut {cut}: {violation}");
        workload.check_after_cut(&mut *queue).map_err(told)?;
        for _ in 0..dice.within(STEPS) {
            workload.step(&mut *queue).map_err(told)?;
        }
        disk.cut();
        workload.cut();
    }
    Ok(())
}

fn open(disk: &CrashDisk) -> Result<Box<dyn VolumeQueue>, OpenError> {
    let volume = FileVolume::new(Arc::new(disk.clone()), OpenMode::ReadWrite, None)?;
    volume.open_queue(CoreId(0), Waker::noop().clone())
}
