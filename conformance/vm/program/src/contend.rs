//! Two clients that take a disk from each other, while the harness cuts their links and kills the server; what they saw is judged at the end.
//!
//! A round: the holder writes, something breaks, the other takes the disk and writes, and the old holder goes on trying for a while. The server
//! keeps no reservation over its death, so it is killed only while one client writes.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::clients::{Client, Reservation, Stage, WRITERS};
use crate::command_line::{USAGE, Words, number, say};
use crate::dice::Dice;
use crate::judge::{Fence, Kind, Moment, Operation, judge};

/// The guest's serial line, on which the harness answers.
const LINE: &str = "/dev/ttyS1";
/// How long the holder writes before something breaks, and how long the old one goes on trying.
const WHILE: Duration = Duration::from_millis(800);
/// The longest that a link is cut, in seconds: longer than a path may be dead before the initiators give up.
const LONGEST_CUT: u64 = 14;

/// `contend KIND:DEVICE KIND:DEVICE ROUNDS SEED HISTORY`.
pub(crate) fn run(words: &[&str]) -> Words<()> {
    let [one, two, rounds, seed, path] = words else { return Err(USAGE.to_owned()) };
    let clients = [Client::new(0, one)?, Client::new(1, two)?];
    let disks = [clients[0].open()?, clients[1].open()?];
    let stage = Stage::new();
    let mut game =
        Game { clients: &clients, stage: &stage, dice: Dice::new(number(seed)?), fences: Vec::new() };
    let rounds = number(rounds)?;
    let played = std::thread::scope(|scope| {
        for (client, disk) in clients.iter().zip(&disks) {
            for writer in 0..WRITERS {
                let stage = &stage;
                scope.spawn(move || client.write(stage, disk, writer));
            }
            scope.spawn(|| client.read(&stage, disk));
        }
        let played = game.play(rounds);
        stage.end();
        played
    });
    let fences = game.fences;
    let history = stage.history();
    keep(path, &history, &fences).map_err(|error| format!("{path}: {error}"))?;
    played?;
    meaningful(&history, &fences, rounds)?;
    judge(&history, &fences).map_err(|violation| violation.to_string())
}

struct Game<'a> {
    clients: &'a [Client; 2],
    stage: &'a Stage,
    dice: Dice,
    fences: Vec<Fence>,
}

impl Game<'_> {
    fn play(&mut self, rounds: u64) -> Words<()> {
        let (mut holder, mut other) = (&self.clients[0], &self.clients[1]);
        self.take(holder, other)?;
        holder.writing.store(true, Ordering::SeqCst);
        for _ in 0..rounds {
            std::thread::sleep(WHILE);
            self.break_something()?;
            self.take(other, holder)?;
            other.writing.store(true, Ordering::SeqCst);
            std::thread::sleep(WHILE);
            holder.rest();
            (holder, other) = (other, holder);
        }
        Ok(())
    }

    /// One takes the disk: the other is fenced from when that is acknowledged.
    fn take(&mut self, taker: &Client, victim: &Client) -> Words<()> {
        let kind =
            if self.dice.below(3) == 0 { Reservation::ExclusiveAccess } else { Reservation::WriteExclusive };
        let abort = self.dice.below(2) == 0;
        self.lift();
        taker.take(victim, kind, abort)?;
        let reads = kind == Reservation::ExclusiveAccess;
        self.fences.push(Fence { client: victim.number, from: self.stage.now(), until: Moment::MAX, reads });
        Ok(())
    }

    /// From now on the last fence may be gone.
    fn lift(&mut self) {
        let now = self.stage.now();
        if let Some(last) = self.fences.last_mut() {
            last.until = last.until.min(now);
        }
    }

    fn break_something(&mut self) -> Words<()> {
        let seconds = 1 + self.dice.below(LONGEST_CUT);
        match self.dice.below(6) {
            0 | 1 => {
                self.lift();
                ask("kill linerate")
            }
            2 => ask(&format!("cut first {seconds}")),
            3 => ask(&format!("cut second {seconds}")),
            4 => ask(&format!("cut both {seconds}")),
            _ => Ok(()),
        }
    }
}

/// The harness does something, and says when that is done.
fn ask(order: &str) -> Words<()> {
    let line = File::open(LINE).map_err(|error| format!("{LINE}: {error}"))?;
    say(&format!("# ask {order}"));
    let mut said = String::new();
    BufReader::new(line).read_line(&mut said).map_err(|error| format!("{LINE}: {error}"))?;
    if said.trim() == "done" { Ok(()) } else { Err(format!("{order}: {}", said.trim())) }
}

/// A line for each operation and fence, for whoever looks for what went wrong.
fn keep(path: &str, history: &[Operation], fences: &[Fence]) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(File::create(path)?);
    for operation in history {
        writeln!(file, "{operation:?}")?;
    }
    for fence in fences {
        writeln!(file, "{fence:?}")?;
    }
    file.flush()
}

/// Whether a history says anything: each client has written and read, and was refused while the other had the disk.
fn meaningful(history: &[Operation], fences: &[Fence], rounds: u64) -> Words<()> {
    let count = |client, kind, succeeded| {
        let matches = |one: &&Operation| (one.client, one.kind, one.succeeded) == (client, kind, succeeded);
        history.iter().filter(matches).count()
    };
    for client in [0, 1] {
        let (written, read) = (count(client, Kind::Write, true), count(client, Kind::Read, true));
        let failed = count(client, Kind::Write, false) + count(client, Kind::Read, false);
        let refused = history.iter().filter(|one| refused(one, client, fences)).count();
        say(&format!(
            "# saw client {client}: {written} written, {read} read, {failed} failed, {refused} of them writes while it was fenced"
        ));
        if written < 10 || read < 10 || refused == 0 {
            return Err(format!("client {client} has done too little for a verdict"));
        }
    }
    let held = fences.iter().filter(|fence| fence.until > fence.from).count();
    say(&format!("# saw {} operations in {rounds} rounds, {held} fences", history.len()));
    Ok(())
}

fn refused(operation: &Operation, client: usize, fences: &[Fence]) -> bool {
    let inside = |fence: &Fence| {
        fence.client == client && fence.from < operation.invoked && operation.completed < fence.until
    };
    operation.client == client
        && operation.kind == Kind::Write
        && !operation.succeeded
        && fences.iter().any(inside)
}
