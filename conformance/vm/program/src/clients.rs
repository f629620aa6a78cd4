//! A client of the disk: threads that write and read its blocks, and the commands by which it takes the disk for itself.

use std::fs::File;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::block::{Memory, open};
use crate::command_line::{Words, say};
use crate::dice::Dice;
use crate::judge::{Kind, Moment, Operation};

/// Blocks of the disk that are used: few, so that clients meet.
const BLOCKS: u64 = 24;
/// Threads of a client that write. Each has blocks of its own: a block has one writer at a time.
pub(crate) const WRITERS: u64 = 3;
/// Between two operations of a thread, so that a history stays small.
const PAUSE: Duration = Duration::from_millis(4);
/// How often a client tries to take the disk. It may have to find its connection again first.
const TRIES: u32 = 60;

/// What the kernel calls the disk, and how it is reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Iscsi,
    Nvme,
}

/// A reservation's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reservation {
    WriteExclusive,
    ExclusiveAccess,
}

impl Reservation {
    /// SPC-4 table 62 and NVMe Base's figure of reservation types.
    fn number(self, protocol: Protocol) -> u32 {
        match (self, protocol) {
            (Self::WriteExclusive, _) => 1,
            (Self::ExclusiveAccess, Protocol::Nvme) => 2,
            (Self::ExclusiveAccess, Protocol::Iscsi) => 3,
        }
    }
}

/// One initiator, or host, with its own way to the disk.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) number: usize,
    protocol: Protocol,
    path: String,
    /// Whether it is to write.
    pub(crate) writing: AtomicBool,
    /// Its writes under way.
    pub(crate) under_way: AtomicUsize,
}

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Stage {
    start: Instant,
    over: AtomicBool,
    history: Mutex<Vec<Operation>>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), over: AtomicBool::new(false), history: Mutex::default() }
    }

    pub(crate) fn now(&self) -> Moment {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(Moment::MAX)
    }

    /// Tells the threads to end.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::SeqCst)
    }

    fn record(&self, operation: Operation) {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).push(operation);
    }

    /// All that was done.
    pub(crate) fn history(self) -> Vec<Operation> {
        self.history.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// A client from `iscsi:/dev/sda`.
    pub(crate) fn new(number: usize, words: &str) -> Words<Self> {
        let (protocol, path) = match words.split_once(':') {
            Some(("iscsi", path)) => (Protocol::Iscsi, path.to_owned()),
            Some(("nvme", path)) => (Protocol::Nvme, path.to_owned()),
            _ => return Err(format!("{words:?} is no client, such as iscsi:/dev/sda")),
        };
        Ok(Self { number, protocol, path, writing: AtomicBool::new(false), under_way: AtomicUsize::new(0) })
    }

    pub(crate) fn open(&self) -> Words<File> {
        open(&self.path).map_err(|error| format!("{}: {error}", self.path))
    }

    /// Writes the blocks of one writer while that is wanted.
    pub(crate) fn write(&self, stage: &Stage, disk: &File, writer: u64) {
        let mut memory = Memory::new();
        let mut dice = Dice::new(writer);
        let mut count = 0;
        while stage.goes_on() {
            std::thread::sleep(PAUSE);
            self.under_way.fetch_add(1, Ordering::SeqCst);
            if self.writing.load(Ordering::SeqCst) {
                count += 1;
                let block = writer + WRITERS * dice.below(BLOCKS / WRITERS);
                let value = (self.number as u64 + 1) << 56 | writer << 48 | count;
                let invoked = stage.now();
                let succeeded = memory.write(disk, block, value).is_ok();
                stage.record(Operation {
                    client: self.number,
                    kind: Kind::Write,
                    block,
                    value: Some(value),
                    invoked,
                    completed: stage.now(),
                    succeeded,
                });
            }
            self.under_way.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Reads any blocks until the end.
    pub(crate) fn read(&self, stage: &Stage, disk: &File) {
        let mut memory = Memory::new();
        let mut dice = Dice::new(self.number as u64);
        while stage.goes_on() {
            std::thread::sleep(PAUSE);
            let block = dice.below(BLOCKS);
            let invoked = stage.now();
            let read = memory.read(disk, block);
            stage.record(Operation {
                client: self.number,
                kind: Kind::Read,
                block,
                succeeded: read.is_ok(),
                value: read.unwrap_or_default(),
                invoked,
                completed: stage.now(),
            });
        }
    }

    /// No more writes, and none under way.
    pub(crate) fn rest(&self) {
        self.writing.store(false, Ordering::SeqCst);
        while self.under_way.load(Ordering::SeqCst) != 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn key(&self) -> String {
        format!("{:x}", 0xa0 + self.number)
    }

    /// Takes the disk, from `other` if that one has it. Only this client may write then.
    pub(crate) fn take(&self, other: &Self, kind: Reservation, abort: bool) -> Words<()> {
        for _ in 0..TRIES {
            if self.register() && (self.reserve(kind) || self.preempt(other, kind, abort)) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        Err(format!("client {} could not take {}", self.number, self.path))
    }

    fn register(&self) -> bool {
        let key = self.key();
        match self.protocol {
            Protocol::Iscsi => self.persist(&["--register-ignore", &format!("--param-sark={key}")]),
            Protocol::Nvme => {
                self.nvme("resv-register", &[&format!("--nrkey=0x{key}"), "--rrega=0", "--iekey"])
            }
        }
    }

    fn reserve(&self, kind: Reservation) -> bool {
        let (key, number) = (self.key(), kind.number(self.protocol));
        match self.protocol {
            Protocol::Iscsi => {
                self.persist(&["--reserve", &format!("--param-rk={key}"), &format!("--prout-type={number}")])
            }
            Protocol::Nvme => self.nvme(
                "resv-acquire",
                &[&format!("--crkey=0x{key}"), &format!("--rtype={number}"), "--racqa=0"],
            ),
        }
    }

    fn preempt(&self, other: &Self, kind: Reservation, abort: bool) -> bool {
        let (key, victim, number) = (self.key(), other.key(), kind.number(self.protocol));
        match self.protocol {
            Protocol::Iscsi => {
                let action = if abort { "--preempt-abort" } else { "--preempt" };
                let (key, victim) = (format!("--param-rk={key}"), format!("--param-sark={victim}"));
                self.persist(&[action, &key, &victim, &format!("--prout-type={number}")])
            }
            Protocol::Nvme => {
                let action = if abort { "--racqa=2" } else { "--racqa=1" };
                let (key, victim) = (format!("--crkey=0x{key}"), format!("--prkey=0x{victim}"));
                self.nvme("resv-acquire", &[&key, &victim, &format!("--rtype={number}"), action])
            }
        }
    }

    fn persist(&self, arguments: &[&str]) -> bool {
        self.succeeds(
            Command::new("sg_persist").args(["--no-inquiry", "--out"]).args(arguments).arg(&self.path),
        )
    }

    fn nvme(&self, command: &str, arguments: &[&str]) -> bool {
        self.succeeds(Command::new("nvme").arg(command).arg(&self.path).args(arguments))
    }

    fn succeeds(&self, command: &mut Command) -> bool {
        let Ok(done) = command.output() else { return false };
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            say(&format!("client {}: {command:?}: {}", self.number, said.lines().next().unwrap_or_default()));
        }
        done.status.success()
    }
}
