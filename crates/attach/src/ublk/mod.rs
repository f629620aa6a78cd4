//! A volume as a block device of this machine, by Linux' ublk driver: `/dev/ublkbN`.
//!
//! The driver hands requests to a process and takes its answers through io_uring. Each queue has a thread, whose requests go to the
//! client's cores. If the process is killed, the device stays and its users wait; whoever attaches the same volume at the same place again
//! takes the device over, and what was under way is carried out again.
//!
//! | module | what |
//! |---|---|
//! | `wire` | the driver's structures |
//! | `device` | make, take over, start, stop, remove |
//! | `queue` | requests |

mod device;
mod limits;
mod queue;
pub(crate) mod wire;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use anyhow::{Context, Error, Result, anyhow, bail};
use linerate::{Client, Disk};
use names::VolumeUrl;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use volume::Features;

use self::device::{Device, Driver, Wanted};
use self::limits::QUEUES;
use self::queue::{Queue, QueueSource};
use crate::cores::Cores;
use crate::early::{self, WhileOpening};
use crate::ready_file;

/// Which device a volume is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockDevice {
    /// `/dev/ublkbN`, made or taken over.
    Number(u32),
    /// Any that is free.
    Any,
}

impl FromStr for BlockDevice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = text.strip_prefix("/dev/ublkb");
        match (text, number.and_then(|number| number.parse().ok())) {
            ("auto", _) => Ok(Self::Any),
            (_, Some(number)) => Ok(Self::Number(number)),
            _ => bail!(
                "{text:?} is not a ublk device: write /dev/ublkb0, with any number, or auto for one that is free"
            ),
        }
    }
}

impl fmt::Display for BlockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "/dev/ublkb{number}"),
            Self::Any => f.write_str("auto"),
        }
    }
}

/// What is to be a block device, and how.
#[derive(Debug, Clone)]
pub struct UblkConfig {
    /// The volume.
    pub url: VolumeUrl,
    /// The device.
    pub place: BlockDevice,
    /// Refuse writes.
    pub read_only: bool,
    /// Where the work is done.
    pub cores: Cores,
    /// Written once the device is there.
    pub ready_file: Option<PathBuf>,
}

/// Keeps the device until SIGTERM or SIGINT. `say` is given the lines that explain how to use it.
pub fn serve(config: &UblkConfig, say: &dyn Fn(&str)) -> Result<()> {
    let opening = WhileOpening::begin()?;
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("signals cannot be caught")?;
    ready_file::remove(config.ready_file.as_deref())?;
    config.cores.bind()?;
    let mut driver = Driver::open()?;
    let client = Client::start(&config.cores.client()).context("the event loops cannot be started")?;
    let Some(disk) = opening.open(&client, &config.url)? else {
        say(early::STOPPED);
        return Ok(());
    };
    let read_only = config.read_only || disk.features().contains(Features::READ_ONLY);
    let number = match config.place {
        BlockDevice::Number(number) => Some(number),
        BlockDevice::Any => None,
    };
    let queues = config.cores.count().min(QUEUES);
    let wanted = Wanted::of(&disk, read_only, queues, mark(&config.url));
    let device = driver.prepare(number, &wanted)?;
    let handle = signals.handle();
    let threads = match begin(&device, &disk, &handle) {
        Ok(threads) => threads,
        Err(error) if device.taken => return Err(error),
        Err(error) => {
            driver.remove(&device)?;
            return Err(error);
        }
    };
    let line = format!("ublk {}", device.path().display());
    let started = driver.start(&device).and_then(|()| {
        announce(&device, &disk, say);
        config.ready_file.as_deref().map_or(Ok(()), |path| ready_file::write(path, &line))
    });
    if let Err(error) = started {
        if !device.taken {
            // Why it could not be started matters more than how it went away.
            let _ended = end(&mut driver, &device, threads);
        }
        return Err(error);
    }
    if signals.forever().next().is_some() {
        say("detaching: requests under way are finished");
    }
    end(&mut driver, &device, threads)?;
    if !read_only {
        disk.blocking().flush().context("the last flush failed")?;
    }
    Ok(())
}

/// Stops the device, which finishes what is under way, and removes it.
fn end(driver: &mut Driver, device: &Device, threads: Vec<Running>) -> Result<()> {
    driver.stop(device)?;
    let ended: Result<()> = threads.into_iter().try_for_each(|thread| {
        let ended = thread.join().map_err(|_| anyhow!("a queue's thread panicked"))?;
        ended.context("a queue of the device failed")
    });
    driver.remove(device)?;
    ended
}

/// What distinguishes this volume's devices from others: its URL, in a number that is never zero.
fn mark(url: &VolumeUrl) -> u64 {
    1 << 32 | u64::from(::wire::crc32c(url.to_string().as_bytes()))
}

/// A queue's thread.
type Running = JoinHandle<std::io::Result<()>>;

/// Starts the queues' threads, and waits until each has asked for requests.
fn begin(device: &Device, disk: &Disk, handle: &signal_hook::iterator::Handle) -> Result<Vec<Running>> {
    let file = Arc::new(device.open()?);
    let (tell, told) = channel();
    let mut threads = Vec::new();
    for number in 0..device.info.queues {
        let source =
            QueueSource { device: Arc::clone(&file), number, depth: device.info.depth, disk: disk.clone() };
        let (tell, handle) = (tell.clone(), handle.clone());
        let thread = std::thread::Builder::new().name(format!("ublk-{number}"));
        threads.push(thread.spawn(move || run(source, &tell, &handle)).context("no thread can be started")?);
    }
    drop(tell);
    for _ in 0..device.info.queues {
        let begun = told.recv().context("a queue's thread ended")?;
        begun.context("a queue of the device cannot be set up")?;
    }
    Ok(threads)
}

/// A queue's thread: reports that the queue has begun, and runs it. A failure ends the whole adapter.
fn run(
    source: QueueSource,
    tell: &Sender<std::io::Result<()>>,
    handle: &signal_hook::iterator::Handle,
) -> std::io::Result<()> {
    let queue = match Queue::begin(source) {
        Ok(queue) => queue,
        Err(error) => {
            // The thread that waits for it gets the failure, and ends.
            let _told = tell.send(Err(error));
            return Ok(());
        }
    };
    let _told = tell.send(Ok(()));
    let ended = queue.run();
    handle.close();
    ended
}

fn announce(device: &Device, disk: &Disk, say: &dyn Fn(&str)) {
    let (geometry, path) = (disk.geometry(), device.path());
    let path = path.display();
    let how = if device.taken { "again as the device" } else { "as the device" };
    say(&format!("{} bytes in blocks of {} {how} {path}", geometry.bytes(), geometry.block_size));
    say(&format!("    Linux:  mkfs.ext4 {path} && mount {path} /mnt"));
    say("    away:   umount it, and end this process");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_and_written() {
        for (text, device) in [("/dev/ublkb7", BlockDevice::Number(7)), ("auto", BlockDevice::Any)] {
            assert_eq!(text.parse::<BlockDevice>().unwrap(), device);
            assert_eq!(device.to_string(), text);
        }
        for text in ["", "ublkb0", "/dev/ublkb", "/dev/ublkbx", "/dev/sda"] {
            let error = text.parse::<BlockDevice>().unwrap_err().to_string();
            assert!(error.contains("/dev/ublkb0"), "{error}");
        }
    }

    #[test]
    fn volumes_are_told_apart() {
        let mark = |url: &str| mark(&url.parse().unwrap());
        assert_ne!(mark("ram:1M"), mark("ram:2M"));
        assert_eq!(mark("ram:1M"), mark("ram:1M"));
    }
}
