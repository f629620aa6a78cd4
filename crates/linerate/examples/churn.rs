//! Connections that come and go, with verified I/O: `churn SEED SECONDS FIRST COUNT URL...`. **Overwrites** the volumes.
//!
//! Each of COUNT threads has a slice of one of the volumes to itself, the FIRSTth slice or one behind it. Again and again it opens its volume, which makes a connection of
//! its own, reads back all that its slice has to hold, writes and reads at random, and closes, now and then with reads under way. It
//! ends with one more look at the slice. All threads are connected at the same time once, before the first of them closes.
//!
//! `conformance/vm` runs it in a guest over a bad network. The exit code is 0 when all that was read was right and each volume could be opened.
#![expect(clippy::print_stdout, reason = "what the program is for")]

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use linerate::{BlockingDisk, Client, ClientConfig, Extent, VolumeUrl};
use wire::index;

/// Bytes that are written and verified as one, whatever the volume's blocks are.
const BLOCK: u64 = 4096;
/// Blocks of a slice.
const SLICE: u64 = 16;
/// Blocks of the longest request: half a slice.
const LONGEST: u64 = 8;
/// Milliseconds between two requests of a thread, at most: many connections that are hardly busy rather than few that fill the network.
const PAUSE: u64 = 400;
/// Event loops, each with its share of the connections.
const LOOPS: u64 = 2;
/// Requests of a connection, at most, before it is closed.
const REQUESTS: u64 = 24;
/// Reads that are under way when a connection is closed under them.
const ABANDONED: u64 = 4;
/// Attempts to open a volume: what a bad network delays may end by a time limit.
const ATTEMPTS: u64 = 5;
/// Milliseconds in which the threads begin, each at a time of its own.
const BEGIN: u64 = 10_000;
/// How often a thread looks whether all others are connected.
const LOOK: Duration = Duration::from_millis(20);

/// Random numbers that a seed repeats (SplitMix64).
struct Dice(u64);

impl Dice {
    /// A number below `sides`.
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    /// Blocks of a slice that one request may have.
    fn run(&mut self) -> std::ops::Range<u64> {
        let blocks = 1 + self.below(LONGEST);
        let first = self.below(SLICE - blocks + 1);
        first..first + blocks
    }
}

/// What all threads share.
struct Crowd {
    /// When no thread begins anything new.
    end: Instant,
    threads: u64,
    /// Threads that have been connected.
    arrived: AtomicU64,
    /// Connections made.
    opened: AtomicU64,
    /// Attempts to make one that failed.
    refused: AtomicU64,
    /// One thread has failed, and nobody needs to wait for it.
    failed: AtomicBool,
}

impl Crowd {
    /// Opens a volume, which makes a connection.
    fn open(&self, slice: &Slice) -> Result<BlockingDisk, Box<dyn Error>> {
        for attempt in 1.. {
            match slice.client.open(&slice.url) {
                Ok(disk) => {
                    self.opened.fetch_add(1, Ordering::Relaxed);
                    return Ok(disk.blocking());
                }
                Err(error) if attempt == ATTEMPTS || self.failed.load(Ordering::Relaxed) => {
                    return Err(error.into());
                }
                Err(error) => {
                    println!("attempt {attempt}: {error}");
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Err("no attempt was made".into())
    }

    /// Waits until all threads are connected.
    fn gather(&self) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
        while self.arrived.load(Ordering::Relaxed) < self.threads && !self.failed.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
        }
    }

    fn goes_on(&self) -> bool {
        Instant::now() < self.end && !self.failed.load(Ordering::Relaxed)
    }
}

/// One thread's part of a volume, and what it has to hold.
struct Slice {
    number: u64,
    client: Client,
    url: VolumeUrl,
    dice: Dice,
    /// How often each block was written.
    versions: Vec<u64>,
}

impl Slice {
    /// Where a block begins, in bytes.
    fn offset(&self, block: u64) -> u64 {
        (self.number * SLICE + block) * BLOCK
    }

    /// What the blocks have to hold: the slice, the block and its version, to the end.
    fn content(&self, blocks: std::ops::Range<u64>) -> Vec<u8> {
        let words = |block: u64| [self.number, block, self.versions[index(block)], !block];
        blocks
            .flat_map(|block| words(block).map(u64::to_le_bytes).concat().repeat(index(BLOCK / 32)))
            .collect()
    }

    fn write(&mut self, disk: &BlockingDisk, blocks: std::ops::Range<u64>) -> Result<(), Box<dyn Error>> {
        for version in &mut self.versions[index(blocks.start)..index(blocks.end)] {
            *version += 1;
        }
        let data = self.content(blocks.clone());
        Ok(disk.write_at(self.offset(blocks.start), &data)?)
    }

    fn verify(&self, disk: &BlockingDisk, blocks: std::ops::Range<u64>) -> Result<(), Box<dyn Error>> {
        let held = self.content(blocks.clone());
        let mut read = vec![0; held.len()];
        disk.read_at(self.offset(blocks.start), &mut read)?;
        match held.iter().zip(&read).position(|(held, read)| held != read) {
            None => Ok(()),
            Some(at) => Err(format!(
                "byte {at} of blocks {blocks:?} of slice {} is not what was written: {:02x?} for {:02x?}",
                self.number,
                &read[at..read.len().min(at + 32)],
                &held[at..held.len().min(at + 32)]
            )
            .into()),
        }
    }

    /// Reads that nobody waits for: the disk is closed under them.
    fn abandon(&mut self, disk: &BlockingDisk) {
        let per_block = BLOCK / u64::from(disk.disk().geometry().block_size);
        for _ in 0..ABANDONED {
            let blocks = self.dice.run();
            let first = self.offset(blocks.start) / BLOCK * per_block;
            disk.disk().submit_read(Extent::new(first, (blocks.end - blocks.start) * per_block), drop);
        }
    }

    /// One connection, from its beginning to its end.
    fn visit(&mut self, crowd: &Crowd, first: bool) -> Result<(), Box<dyn Error>> {
        let disk = crowd.open(self)?;
        if first {
            self.write(&disk, 0..SLICE)?;
            crowd.gather();
        }
        self.verify(&disk, 0..SLICE)?;
        for _ in 0..self.dice.below(REQUESTS) {
            if !crowd.goes_on() {
                break;
            }
            std::thread::sleep(Duration::from_millis(self.dice.below(PAUSE)));
            let blocks = self.dice.run();
            match self.dice.below(8) {
                0 => disk.flush()?,
                1..=3 => self.verify(&disk, blocks)?,
                _ => self.write(&disk, blocks)?,
            }
        }
        if self.dice.below(3) == 0 {
            self.abandon(&disk);
        }
        Ok(())
    }

    /// Connections until the time is over, and the last look.
    fn run(&mut self, crowd: &Crowd) -> Result<(), Box<dyn Error>> {
        std::thread::sleep(Duration::from_millis(self.dice.below(BEGIN)));
        self.visit(crowd, true)?;
        while crowd.goes_on() {
            self.visit(crowd, false)?;
        }
        let disk = crowd.open(self)?;
        self.verify(&disk, 0..SLICE)
    }
}

/// Runs the threads; returns what they did, in words.
fn run(arguments: &[String]) -> Result<String, Box<dyn Error>> {
    let [seed, seconds, first, count, urls @ ..] = arguments else {
        return Err("usage: churn SEED SECONDS FIRST COUNT URL...   (overwrites the volumes)".into());
    };
    let (seed, seconds, first, count): (u64, u64, u64, u64) =
        (seed.parse()?, seconds.parse()?, first.parse()?, count.parse()?);
    let urls: Vec<VolumeUrl> = urls.iter().map(|url| url.parse()).collect::<Result<_, _>>()?;
    let crowd = Crowd {
        end: Instant::now() + Duration::from_secs(seconds),
        threads: count,
        arrived: AtomicU64::new(0),
        opened: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        failed: AtomicBool::new(false),
    };
    let clients: Vec<Client> =
        (0..LOOPS).map(|_| Client::start(&ClientConfig::default())).collect::<Result<_, _>>()?;
    // Each loop has connections of each kind.
    let loops = clients.iter().flat_map(|client| std::iter::repeat_n(client, urls.len())).cycle();
    let slices =
        (first..first + count).zip(urls.iter().cycle()).zip(loops).map(|((number, url), client)| Slice {
            number,
            client: client.clone(),
            url: url.clone(),
            dice: Dice(seed ^ (number << 32)),
            versions: vec![0; index(SLICE)],
        });
    let failures: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = slices
            .map(|mut slice| {
                let crowd = &crowd;
                scope.spawn(move || {
                    slice.run(crowd).map_err(|error| {
                        crowd.failed.store(true, Ordering::Relaxed);
                        format!("{}: {error}", slice.url)
                    })
                })
            })
            .collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into())).err())
            .collect()
    });
    let (opened, arrived) = (crowd.opened.into_inner(), crowd.arrived.into_inner());
    if failures.is_empty() && arrived == count {
        let refused = crowd.refused.into_inner();
        return Ok(format!(
            "{opened} connections, {refused} attempts that failed; all that was read is right"
        ));
    }
    Err(format!(
        "{} of {count} threads failed, {arrived} were connected at the same time:\n{}",
        failures.len(),
        failures.join("\n")
    )
    .into())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(words) => {
            println!("{words}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
