//! Trials of the state store by seed: records are written and removed while operations fail and the power goes, and what is read must be what
//! was last promised, or something that was asked for since.

use std::collections::BTreeMap;
use std::sync::Arc;

use backends::FolderState;
use host::{StateError, StateErrorKind, StateStore};
use protocol::Entropy as _;

use crate::dice::{Dice, Odds};
use crate::failure::TrialFailure;
use crate::folder::{CrashFolder, FolderOptions};

/// Volumes and records that a trial uses: few, so that they are replaced often.
const VOLUMES: [&str; 2] = ["disk", "other"];
const RECORDS: [&str; 2] = ["identity", "mark"];
/// Operations of the folder until its process ends.
const LIFE: std::ops::RangeInclusive<usize> = 0..=40;
/// Bytes of the longest record.
const LONGEST: usize = 90;

type Value = Option<Vec<u8>>;

/// What each record may hold: what was last promised comes first, and then what was asked for since without success.
type Allowed = BTreeMap<(&'static str, &'static str), Vec<Value>>;

/// Lets so many processes use one folder, one after the other; each is ended somewhere, mostly by a power cut. The error says what broke.
pub fn records(seed: u64, processes: usize, options: FolderOptions) -> Result<(), TrialFailure> {
    let mut dice = Dice::new(seed);
    let folder = CrashFolder::new(options, dice.fork());
    let mut allowed = Allowed::new();
    for process in 0..processes {
        let told = |failure: TrialFailure| failure.at(format_args!("process {process}"));
        let store = FolderState::new(Arc::new(folder.clone()));
        look(&store, &mut allowed).map_err(told)?;
        folder.end_after(dice.within(LIFE) as u64);
        let mut failures = 0;
        while failures < 4 {
            let key = (VOLUMES[dice.index(VOLUMES.len())], RECORDS[dice.index(RECORDS.len())]);
            if change(&store, key, (&mut dice, &mut allowed)).is_err() {
                failures += 1;
            }
        }
        drop(store);
        if dice.happens(Odds(200)) {
            folder.begin();
        } else {
            folder.crash();
        }
    }
    Ok(())
}

/// Writes or removes a record.
fn change(
    store: &FolderState,
    key: (&'static str, &'static str),
    (dice, allowed): (&mut Dice, &mut Allowed),
) -> Result<(), StateError> {
    let mut bytes = vec![0; dice.within(0..=LONGEST)];
    dice.fill(&mut bytes);
    let value = (!dice.happens(Odds(250))).then_some(bytes);
    let result = match &value {
        Some(bytes) => store.write(key.0, key.1, bytes),
        None => store.remove(key.0, key.1),
    };
    let values = allowed.entry(key).or_insert_with(|| vec![None]);
    if result.is_ok() {
        values.clear();
    }
    values.push(value);
    result
}

/// Reads every record, and compares.
fn look(store: &FolderState, allowed: &mut Allowed) -> Result<(), TrialFailure> {
    for volume in VOLUMES {
        for record in RECORDS {
            let found = loop {
                match store.read(volume, record) {
                    Ok(found) => break found,
                    Err(error) if matches!(error.kind, StateErrorKind::Io(_)) => {}
                    Err(error) => {
                        return Err(TrialFailure::Broken(format!(
                            "{error}: a record is whole after every crash"
                        )));
                    }
                }
            };
            let values = allowed.entry((volume, record)).or_insert_with(|| vec![None]);
            if !values.contains(&found) {
                return Err(TrialFailure::Broken(format!(
                    "the record {record} of {volume} reads {found:?}, and was promised {:?} (or, since then, one of {:?}): \
                     StateStore::write and remove are durable when they return",
                    values.first(),
                    values.get(1..)
                )));
            }
        }
    }
    Ok(())
}
