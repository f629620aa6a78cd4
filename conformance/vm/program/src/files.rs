//! A load of small files, each synced before the next is touched, and the check that what was synced is there.
//!
//! After each operation's fsync the log of dm-log-writes gets a mark with its number. A file system that has been replayed up to a point behind
//! mark N has to hold what operations 0 to N have synced.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use crate::command_line::{Words, number, say};
use crate::dice::Dice;

/// What the log's marks begin with.
pub(crate) const MARK: &str = "done-";

/// Bytes that one operation adds at most.
const LONGEST: u64 = 48 << 10;

/// One operation: so many bytes more at the end of a file, which may be new.
struct Append {
    file: usize,
    from: u64,
    to: u64,
}

/// The operations of a seed, from the first on. Every third goes on with an older file.
struct Plan {
    dice: Dice,
    lengths: Vec<u64>,
}

impl Plan {
    fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed), lengths: Vec::new() }
    }

    fn next(&mut self) -> Append {
        if self.lengths.is_empty() || self.dice.below(3) != 0 {
            self.lengths.push(0);
        }
        let newest = self.lengths.len() as u64 - 1;
        let fresh = self.lengths.last() == Some(&0);
        let file = usize::try_from(if fresh { newest } else { self.dice.below(newest + 1) }).unwrap_or(0);
        let more = 1 + self.dice.below(LONGEST);
        let length = self.lengths.get_mut(file).map_or(0, |length| {
            *length += more;
            *length
        });
        Append { file, from: length - more, to: length }
    }
}

/// The bytes of a file: pairs of seed and place, so that any foreign or displaced byte shows. A part of a pair stands for its whole.
fn content(seed: u64, append: &Append) -> Vec<u8> {
    let first = append.from / 16;
    let pairs = (first..append.to.div_ceil(16))
        .flat_map(|pair| [magic(seed), (append.file as u64) << 32 | pair].map(u64::to_le_bytes).concat());
    let skipped = usize::try_from(append.from % 16).unwrap_or(0);
    let wanted = usize::try_from(append.to - append.from).unwrap_or(0);
    pairs.skip(skipped).take(wanted).collect()
}

/// What the content of every file of a load begins with.
fn magic(seed: u64) -> u64 {
    0x6c69_6e65_7261_7465 ^ seed
}

/// Does the operations in a folder, and marks each in the log of the device-mapper device.
pub(crate) fn load(folder: &str, seed: &str, operations: &str, device: &str) -> Words<()> {
    let seed = number(seed)?;
    let mut plan = Plan::new(seed);
    for operation in 0..number(operations)? {
        let append = plan.next();
        perform(Path::new(folder), seed, &append)
            .map_err(|error| format!("operation {operation}: {error}"))?;
        let mark = format!("{MARK}{operation}");
        let done = Command::new("dmsetup").args(["message", device, "0", "mark", &mark]).status();
        if !done.is_ok_and(|status| status.success()) {
            return Err(format!("operation {operation} could not be marked"));
        }
    }
    say(&format!("magic {}", magic(seed)));
    Ok(())
}

fn perform(folder: &Path, seed: u64, append: &Append) -> std::io::Result<()> {
    let path = folder.join(format!("f{}", append.file));
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(&content(seed, append))?;
    file.sync_all()?;
    if append.from == 0 {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// Whether a folder holds what the operations up to `done` have synced; `done` may be `none`.
pub(crate) fn verify(folder: &str, seed: &str, done: &str) -> Words<()> {
    let seed = number(seed)?;
    let operations = if done == "none" { 0 } else { number(done)? + 1 };
    let mut plan = Plan::new(seed);
    for _ in 0..operations {
        plan.next();
    }
    for (file, &length) in plan.lengths.iter().enumerate() {
        let whole = Append { file, from: 0, to: length };
        let wanted = content(seed, &whole);
        let mut held = vec![0; wanted.len()];
        let path = Path::new(folder).join(format!("f{file}"));
        File::open(&path)
            .and_then(|open| open.read_exact_at(&mut held, 0))
            .map_err(|error| format!("lost: {length} bytes of {} were synced: {error}", path.display()))?;
        if let Some(at) = wanted.iter().zip(&held).position(|(wanted, held)| wanted != held) {
            return Err(format!(
                "lost: {} holds other bytes from {at} on, of {length} that were synced",
                path.display()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_seen() {
        let folder = std::env::temp_dir().join(format!("vm-guest-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut plan = Plan::new(3);
        let first = plan.next();
        let second = plan.next();
        perform(&folder, 3, &first).unwrap();
        let place = folder.to_str().unwrap();
        verify(place, "3", "none").unwrap();
        verify(place, "3", "0").unwrap();
        assert!(verify(place, "3", "1").unwrap_err().starts_with("lost"));
        perform(&folder, 3, &second).unwrap();
        verify(place, "3", "1").unwrap();
        let path = folder.join("f0");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[7] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(verify(place, "3", "1").unwrap_err().contains("other bytes from 7"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn appended_content_is_that_of_the_whole() {
        let whole = content(1, &Append { file: 2, from: 0, to: 100 });
        assert_eq!(content(1, &Append { file: 2, from: 21, to: 77 }), whole[21..77]);
    }
}
