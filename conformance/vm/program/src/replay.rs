//! Replays a log of dm-log-writes onto a blank disk, and has the disk checked at points where everything before is settled: after a flush, or a write
//! with FUA.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

use crate::command_line::{USAGE, Words, number, say};
use crate::dice::Dice;
use crate::files::MARK;
use crate::log::{self, Entry, Kind};

/// What is asked for.
struct Order<'a> {
    points: usize,
    seed: u64,
    /// One write whose data begin so is left out, one that nothing later makes good: the check has to notice.
    dropped: Option<u64>,
    check: &'a [&'a str],
}

/// `replay LOG TARGET POINTS SEED [--drop MAGIC] -- CHECK…`: the check gets the number of the last operation that was marked before the point.
pub(crate) fn run(words: &[&str]) -> Words<()> {
    let (places, rest, dropped) = match words {
        [log, target, points, seed, "--drop", magic, "--", check @ ..] => {
            ([log, target], (points, seed, check), Some(number(magic)?))
        }
        [log, target, points, seed, "--", check @ ..] => ([log, target], (points, seed, check), None),
        _ => return Err(USAGE.to_owned()),
    };
    let (points, seed, check) = rest;
    let points = usize::try_from(number(points)?).map_err(|error| error.to_string())?;
    let order = Order { points, seed: number(seed)?, dropped, check };
    let [log, target] = places;
    let log = File::open(log).map_err(|error| format!("{log}: {error}"))?;
    let target = File::options().write(true).open(target).map_err(|error| format!("{target}: {error}"))?;
    let entries = log::read(&log)?;
    replay(&Disks { log, target }, &entries, &order)
}

struct Disks {
    log: File,
    target: File,
}

fn replay(disks: &Disks, entries: &[Entry], order: &Order<'_>) -> Words<()> {
    let chosen = choose(entries, order);
    let mut mark = "none".to_owned();
    let left_out = order.dropped.map(|magic| to_leave_out(&disks.log, entries, magic)).transpose()?;
    for (number, entry) in entries.iter().enumerate() {
        if let Kind::Mark(words) = &entry.kind {
            if let Some(operation) = words.strip_prefix(MARK) {
                operation.clone_into(&mut mark);
            }
        } else if left_out != Some(number) {
            apply(disks, entry).map_err(|error| format!("entry {number}: {error}"))?;
        }
        if chosen.contains(&number) {
            disks.target.sync_all().map_err(|error| error.to_string())?;
            check(order, &mark)
                .map_err(|error| format!("after entry {number}, and operation {mark}: {error}"))?;
        }
    }
    disks.target.sync_all().map_err(|error| error.to_string())?;
    let settled = entries.iter().filter(|entry| entry.settled).count();
    say(&format!(
        "# saw {} entries, {settled} of them settle what is before; {} checked, seed {}",
        entries.len(),
        chosen.len(),
        order.seed
    ));
    if chosen.len() < order.points {
        Err(format!("fewer than {} points to check", order.points))
    } else {
        Ok(())
    }
}

/// The points to check: behind the file system's making, the last one, and a sample of the others.
fn choose(entries: &[Entry], order: &Order<'_>) -> Vec<usize> {
    let made = entries.iter().position(|entry| matches!(entry.kind, Kind::Mark(_))).unwrap_or(0);
    let settled = entries.iter().enumerate().skip(made).filter(|(_, entry)| entry.settled);
    let mut points: Vec<usize> = settled.map(|(number, _)| number).collect();
    let mut dice = Dice::new(order.seed);
    let last = points.pop();
    while points.len() >= order.points.max(1) {
        let at = dice.below(points.len() as u64);
        points.swap_remove(usize::try_from(at).unwrap_or(0));
    }
    points.extend(last);
    points
}

/// The last write whose data begin with `magic` that is settled, and of which no later entry touches a byte: a file that grows within a block has the
/// block written again, and with it what an earlier write lost.
fn to_leave_out(log: &File, entries: &[Entry], magic: u64) -> Words<usize> {
    let settled = entries.iter().rposition(|entry| entry.settled).unwrap_or(0);
    let begins_so = |entry: &Entry| {
        let mut front = [0; 8];
        let readable = entry.length >= 8 && log.read_exact_at(&mut front, entry.data).is_ok();
        readable && entry.kind == Kind::Write && u64::from_le_bytes(front) == magic
    };
    let is_made_good = |number: usize, entry: &Entry| {
        entries.iter().skip(number + 1).any(|later| {
            later.to < entry.to + entry.length && entry.to < later.to + later.length && later.length > 0
        })
    };
    let candidates = entries.iter().enumerate().take(settled + 1).rev();
    candidates
        .filter(|(_, entry)| begins_so(entry))
        .find(|&(number, entry)| !is_made_good(number, entry))
        .map(|(number, _)| number)
        .ok_or_else(|| "no write begins with what was to be left out and is not made good later".to_owned())
}

fn apply(disks: &Disks, entry: &Entry) -> std::io::Result<()> {
    let mut data = vec![0; usize::try_from(entry.length).unwrap_or(0)];
    if entry.kind == Kind::Write {
        disks.log.read_exact_at(&mut data, entry.data)?;
    }
    disks.target.write_all_at(&data, entry.to)
}

fn check(order: &Order<'_>, mark: &str) -> Words<()> {
    let [program, arguments @ ..] = order.check else { return Err("no check was named".to_owned()) };
    let done = Command::new(program).args(arguments).arg(mark).output().map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(());
    }
    let said = [done.stdout, done.stderr].concat();
    Err(format!("{}: {}", done.status, String::from_utf8_lossy(&said).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::{block, file};

    fn disks() -> (Disks, Vec<Entry>) {
        let front = block([0x006a_7366_7773_6872, 1, 4, 512], &[]);
        let mark = block([0, 0, 8, 6], b"done-0");
        let first = [block([1, 1, 0, 0], &[]), vec![1; 512]];
        let second = [block([1, 1, 2, 0], &[]), vec![2; 512]];
        let flush = block([0, 0, 1, 0], &[]);
        let [a, b] = first;
        let [c, d] = second;
        let log = file("replayed", &[front, mark, a, b, c, d, flush]);
        let entries = log::read(&log).unwrap();
        (Disks { log, target: file("target", &[vec![0; 1024]]) }, entries)
    }

    fn order(dropped: Option<u64>) -> Order<'static> {
        Order { points: 2, seed: 1, dropped, check: &["test", "0", "="] }
    }

    fn held(disks: &Disks) -> u8 {
        let mut byte = [0];
        disks.target.read_exact_at(&mut byte, 700).unwrap();
        byte[0]
    }

    #[test]
    fn a_log_is_applied_in_order_and_checked_at_every_point() {
        let (disks, entries) = disks();
        replay(&disks, &entries, &order(None)).unwrap();
        assert_eq!(held(&disks), 2);
        let failing = Order { check: &["test", "1", "="], ..order(None) };
        assert!(replay(&disks, &entries, &failing).unwrap_err().contains("after entry 2, and operation 0"));
        let many = Order { points: 3, ..order(None) };
        assert!(replay(&disks, &entries, &many).unwrap_err().contains("fewer than 3"));
    }

    #[test]
    fn one_write_is_left_out_on_demand() {
        let (disks, entries) = disks();
        replay(&disks, &entries, &order(Some(0x0202_0202_0202_0202))).unwrap();
        assert_eq!(held(&disks), 1);
        assert!(replay(&disks, &entries, &order(Some(9))).unwrap_err().contains("left out"));
    }

    #[test]
    fn a_write_that_a_later_one_makes_good_stays() {
        let front = block([0x006a_7366_7773_6872, 1, 6, 512], &[]);
        let mark = block([0, 0, 8, 6], b"done-0");
        let write = |sector, byte| [block([sector, 1, 0, 0], &[]), vec![byte; 512]].concat();
        let flush = block([0, 0, 1, 0], &[]);
        let unsettled = write(0, 3);
        let log = file("made-good", &[front, mark, write(1, 3), write(1, 4), write(0, 3), flush, unsettled]);
        let entries = log::read(&log).unwrap();
        let error = to_leave_out(&log, &entries, 0x0303_0303_0303_0303).unwrap_err();
        assert!(error.contains("made good"), "{error}");
        assert_eq!(to_leave_out(&log, &entries, 0x0404_0404_0404_0404).unwrap(), 2);
    }
}
