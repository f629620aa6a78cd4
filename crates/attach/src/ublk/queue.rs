//! One queue of a device: requests from the kernel to the volume, on a thread that the kernel knows as the queue's.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use buf::BufList;
use linerate::Disk;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use volume::{Durability, Extent, Operation, Outcome, VolumeErrorKind};

use super::wire::{Ask, Descriptor, QueueSize, data_offset};
use crate::memory::memory;
use crate::sys::{Commands, Descriptors, Event};

/// Answers on their way from the volume's cores to the queue's thread.
struct Answers {
    list: Mutex<Vec<(u16, i32)>>,
    bell: Arc<OwnedFd>,
}

impl Answers {
    fn lock(&self) -> MutexGuard<'_, Vec<(u16, i32)>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves an answer, and wakes the queue for the first one.
    fn leave(&self, tag: u16, result: i32) {
        let mut list = self.lock();
        list.push((tag, result));
        if list.len() == 1 {
            // A bell that has been rung too often still rings.
            let _rung = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }
}

/// Which queue of which device it is, and the disk that it serves.
#[derive(Clone)]
pub(crate) struct QueueSource {
    pub(crate) device: Arc<File>,
    pub(crate) number: u16,
    pub(crate) depth: u16,
    pub(crate) disk: Disk,
}

/// A queue.
pub(crate) struct Queue {
    source: QueueSource,
    commands: Commands,
    descriptors: Descriptors,
    answers: Arc<Answers>,
    /// Tags that the kernel has not taken back.
    open: u16,
}

impl Queue {
    /// A queue that asks for requests; to be made on the thread that runs it.
    pub(crate) fn begin(source: QueueSource) -> io::Result<Self> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let size = QueueSize { queue: source.number, depth: source.depth };
        let descriptors = Descriptors::map(&source.device, size)?;
        let mut commands = Commands::new(Arc::clone(&source.device), size, Arc::clone(&bell))?;
        (0..source.depth).try_for_each(|tag| commands.fetch(tag))?;
        commands.submit()?;
        let answers = Arc::new(Answers { list: Mutex::default(), bell });
        let open = source.depth;
        Ok(Self { source, commands, descriptors, answers, open })
    }

    /// Carries requests out until the device is stopped.
    pub(crate) fn run(mut self) -> io::Result<()> {
        while self.open > 0 {
            let events = self.commands.wait()?;
            for event in &events {
                match *event {
                    Event::Fetched(tag, 0) => self.start(tag),
                    // The device is being stopped, or a stopped one got an answer.
                    Event::Fetched(..) => self.open -= 1,
                    Event::Bell => {}
                }
            }
            self.commands.recycle(events);
            let answers = std::mem::take(&mut *self.answers.lock());
            for (tag, result) in answers {
                self.commands.answer(tag, result)?;
            }
        }
        Ok(())
    }

    /// Begins to carry out the request with this tag.
    fn start(&self, tag: u16) {
        let request = self.descriptors.get(tag).and_then(|request| Some((request.ask()?, request)));
        let answers = Arc::clone(&self.answers);
        let Some((ask, request)) = request else {
            return answers.leave(tag, failure(VolumeErrorKind::Unsupported));
        };
        let bytes = wire::bounded::<i32>(request.sectors << 9);
        let extent = extent(&request, self.source.disk.geometry().block_size);
        let done = leaving(answers, tag, bytes);
        let operation = match ask {
            Ask::Read => return self.read(tag, extent),
            Ask::Write { fua } => match self.fetch_data(tag, bytes) {
                Ok(data) => {
                    let durability = if fua { Durability::Durable } else { Durability::Cached };
                    Operation::Write { extent, data, durability }
                }
                Err(_) => return done(Err(VolumeErrorKind::Media)),
            },
            Ask::Flush => Operation::Flush,
            Ask::Discard => Operation::Discard { extent },
            Ask::WriteZeroes { unmap } => {
                Operation::WriteZeroes { extent, durability: Durability::Cached, may_unmap: unmap }
            }
        };
        self.source.disk.submit(operation, done);
    }

    /// The data of a write, out of the kernel's memory.
    fn fetch_data(&self, tag: u16, bytes: i32) -> io::Result<BufList> {
        let mut data = memory(usize::try_from(bytes).unwrap_or(0));
        self.source.device.read_exact_at(&mut data, data_offset(self.source.number, tag))?;
        Ok(data.freeze().into())
    }

    /// A read, whose data goes into the kernel's memory from where it arrives.
    fn read(&self, tag: u16, extent: Extent) {
        let (device, answers) = (Arc::clone(&self.source.device), Arc::clone(&self.answers));
        let offset = data_offset(self.source.number, tag);
        self.source.disk.submit_read(extent, move |result| {
            let outcome = match result {
                Ok(Outcome::Data(data)) => match put(&device, &data, offset) {
                    Ok(()) => wire::bounded::<i32>(data.len()),
                    Err(_) => failure(VolumeErrorKind::Media),
                },
                Ok(_) => failure(VolumeErrorKind::Media),
                Err(kind) => failure(kind),
            };
            answers.leave(tag, outcome);
        });
    }
}

/// Leaves the answer to the request with this tag: as many bytes, or why it failed.
fn leaving(
    answers: Arc<Answers>,
    tag: u16,
    bytes: i32,
) -> impl FnOnce(Result<Outcome, VolumeErrorKind>) + Send + 'static {
    move |result| answers.leave(tag, result.map_or_else(failure, |_| bytes))
}

/// Writes all pieces of `data` one behind the other.
fn put(device: &File, data: &BufList, mut offset: u64) -> io::Result<()> {
    for piece in data.pieces() {
        device.write_all_at(piece, offset)?;
        offset += piece.len() as u64;
    }
    Ok(())
}

/// The blocks of a request.
fn extent(request: &Descriptor, block_size: u32) -> Extent {
    let sectors = u64::from(block_size / 512).max(1);
    Extent::new(request.start / sectors, u64::from(request.sectors) / sectors)
}

/// How a failure is reported to the kernel: a negative error number, as its block layer knows them.
fn failure(kind: VolumeErrorKind) -> i32 {
    let error = match kind {
        VolumeErrorKind::NoSpace => Errno::NOSPC,
        VolumeErrorKind::TimedOut => Errno::TIMEDOUT,
        VolumeErrorKind::Unsupported => Errno::OPNOTSUPP,
        VolumeErrorKind::Unreachable => Errno::NOLINK,
        VolumeErrorKind::Media => Errno::NODATA,
        _ => Errno::IO,
    };
    -error.raw_os_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_become_blocks() {
        let request = Descriptor { operation: 0, sectors: 16, start: 64, address: 0 };
        assert_eq!(extent(&request, 512), Extent::new(64, 16));
        assert_eq!(extent(&request, 4096), Extent::new(8, 2));
    }

    #[test]
    fn a_flush_that_fails_fails_the_kernels_request_each_time() {
        let client = linerate::Client::start(&linerate::ClientConfig::default()).unwrap();
        let disk = client.open(&"fail=100%,on=flush+ram:1M".parse().unwrap()).unwrap();
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let answers = Arc::new(Answers { list: Mutex::default(), bell: Arc::clone(&bell) });
        for (tag, operation, expected) in [
            (1, Operation::Verify { extent: Extent::new(0, 8) }, 4096),
            (2, Operation::Flush, failure(VolumeErrorKind::Media)),
            (3, Operation::Flush, failure(VolumeErrorKind::Media)),
        ] {
            disk.submit(operation, leaving(Arc::clone(&answers), tag, 4096));
            // Rung when there is an answer.
            rustix::io::read(&bell, &mut [0; 8]).unwrap();
            assert_eq!(std::mem::take(&mut *answers.lock()), [(tag, expected)]);
        }
    }

    #[test]
    fn failures_are_negative() {
        for kind in [VolumeErrorKind::NoSpace, VolumeErrorKind::Media, VolumeErrorKind::ShuttingDown] {
            assert!(failure(kind) < 0);
        }
    }
}
