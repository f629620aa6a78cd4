//! One queue of the guest's: a thread takes requests off it, the client's cores answer them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use buf::{BufList, SharedBuf};
use linerate::Disk;
use rustix::event::{PollFd, PollFlags, poll};
use virtio_queue::{DescriptorChain, Queue, QueueT, Reader, Writer};
use vm_memory::GuestMemoryMmap;
use volume::{Durability, Extent, Operation, Outcome, VolumeErrorKind};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::limits::LARGEST;
use super::request::{Header, SECTOR, Segment, Status, kind};
use crate::gate::{Gate, Pass};
use crate::limits::GRACE;
use crate::memory::memory;

type Chain = DescriptorChain<Arc<GuestMemoryMmap>>;

/// What a running queue needs.
pub(crate) struct Parts {
    pub(crate) queue: Queue,
    pub(crate) guest: Arc<GuestMemoryMmap>,
    pub(crate) kick: File,
    pub(crate) call: Option<File>,
    pub(crate) disk: Disk,
    pub(crate) read_only: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    guest: Arc<GuestMemoryMmap>,
    call: Mutex<Option<File>>,
    disk: Disk,
    read_only: bool,
    gate: Arc<Gate>,
    stop: AtomicBool,
}

/// A queue whose requests are being served.
pub(crate) struct Ring {
    shared: Arc<Shared>,
    kick: File,
    thread: JoinHandle<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ring {
    /// Begins to serve.
    pub(crate) fn start(parts: Parts) -> io::Result<Self> {
        let Parts { queue, guest, kick, call, disk, read_only } = parts;
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            guest,
            call: Mutex::new(call),
            disk,
            read_only,
            gate: Arc::default(),
            stop: AtomicBool::new(false),
        });
        let (worker, waits) = (Arc::clone(&shared), kick.try_clone()?);
        let thread = std::thread::Builder::new().name("queue".to_owned()).spawn(move || {
            // What was put into the queue before it started had its kick already.
            while worker.take_all().is_ok() && worker.wait(&waits).is_ok() {}
        })?;
        Ok(Self { shared, kick, thread })
    }

    /// Tells the guest of answers this way from now on.
    pub(crate) fn set_call(&self, call: Option<File>) {
        *lock(&self.shared.call) = call;
    }

    /// Takes no more requests, waits for those under way, and gives the queue back.
    pub(crate) fn stop(self) -> Option<Queue> {
        self.shared.stop.store(true, Ordering::SeqCst);
        // The thread looks up when the descriptor is written to, by whomever.
        let _woken = (&self.kick).write_all(&1_u64.to_ne_bytes());
        let _ended = self.thread.join();
        self.shared.gate.close(GRACE);
        Queue::try_from(lock(&self.shared.queue).state()).ok()
    }
}

impl Shared {
    /// Waits for a kick; an error once the queue is to stop.
    fn wait(&self, kick: &File) -> io::Result<()> {
        loop {
            if self.stop.load(Ordering::SeqCst) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            match poll(&mut [PollFd::new(kick, PollFlags::IN)], None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let mut count = [0; 8];
            match (&mut &*kick).read(&mut count) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes requests until the queue is empty and the guest knows that it has to kick again.
    fn take_all(self: &Arc<Self>) -> Result<(), virtio_queue::Error> {
        loop {
            lock(&self.queue).disable_notification(&*self.guest)?;
            loop {
                let chain = lock(&self.queue).pop_descriptor_chain(Arc::clone(&self.guest));
                let Some(chain) = chain else { break };
                let Some(pass) = self.gate.enter() else { return Ok(()) };
                self.begin(Answer { shared: Arc::clone(self), chain, pass });
            }
            if self.stop.load(Ordering::SeqCst) || !lock(&self.queue).enable_notification(&*self.guest)? {
                return Ok(());
            }
        }
    }

    /// Begins a request. What makes no sense is answered as failed.
    fn begin(&self, answer: Answer) {
        let guest = Arc::clone(&self.guest);
        let Ok(mut reader) = answer.chain.clone().reader(&guest) else {
            return answer.end(Status::Failed);
        };
        let mut header = Header::new_zeroed();
        if reader.read_exact(header.as_mut_bytes()).is_err() {
            return answer.end(Status::Failed);
        }
        let changes = matches!(header.kind.get(), kind::WRITE | kind::DISCARD | kind::WRITE_ZEROES);
        if changes && self.read_only {
            return answer.end(Status::Failed);
        }
        match header.kind.get() {
            kind::READ => self.read(&header, answer),
            kind::WRITE => self.write(&header, &mut reader, answer),
            kind::FLUSH => self.submit(Operation::Flush, answer),
            kind::DISCARD | kind::WRITE_ZEROES => self.zero(&header, &mut reader, answer),
            kind::GET_ID => answer.end_with(Status::Ok, &SharedBuf::from_static(b"linerate").into()),
            _ => answer.end(Status::Unsupported),
        }
    }

    /// The blocks of `bytes` bytes from `sector`, if they are whole and within the volume.
    fn extent(&self, sector: u64, bytes: u64) -> Option<Extent> {
        let geometry = self.disk.geometry();
        let block = u64::from(geometry.block_size);
        let offset = sector.checked_mul(SECTOR)?;
        if !offset.is_multiple_of(block) || !bytes.is_multiple_of(block) {
            return None;
        }
        let extent = Extent::new(offset / block, bytes / block);
        geometry.check(extent).map(|_| extent)
    }

    fn fits(&self, bytes: usize) -> bool {
        bytes <= usize::try_from(self.disk.limits().max_transfer).unwrap_or(usize::MAX)
    }

    fn read(&self, header: &Header, answer: Answer) {
        let bytes = answer.room().filter(|bytes| *bytes <= usize::try_from(LARGEST).unwrap_or(0));
        let place = bytes.and_then(|bytes| Some((bytes, self.extent(header.sector.get(), bytes as u64)?)));
        let Some((bytes, extent)) = place else { return answer.end(Status::Failed) };
        if !self.fits(bytes) {
            let mut data = vec![0; bytes];
            let result = self.disk.blocking().read_at(header.sector.get() * SECTOR, &mut data);
            let status = if result.is_ok() { Status::Ok } else { Status::Failed };
            return answer.end_with(status, &SharedBuf::from(data).into());
        }
        self.disk.submit_read(extent, move |result| match result {
            Ok(Outcome::Data(data)) => answer.end_with(Status::Ok, &data),
            _ => answer.end(Status::Failed),
        });
    }

    fn write(&self, header: &Header, reader: &mut Reader<'_>, answer: Answer) {
        let bytes = reader.available_bytes();
        let allowed = bytes <= usize::try_from(LARGEST).unwrap_or(0);
        let extent = self.extent(header.sector.get(), bytes as u64).filter(|_| allowed);
        let Some(extent) = extent else { return answer.end(Status::Failed) };
        if !self.fits(bytes) {
            let mut data = vec![0; bytes];
            let result = reader.read_exact(&mut data).is_ok()
                && self.disk.blocking().write_at(header.sector.get() * SECTOR, &data).is_ok();
            return answer.end(if result { Status::Ok } else { Status::Failed });
        }
        let mut data = memory(bytes);
        if reader.read_exact(&mut data).is_err() {
            return answer.end(Status::Failed);
        }
        let (data, durability) = (BufList::from(data.freeze()), Durability::Cached);
        self.submit(Operation::Write { extent, data, durability }, answer);
    }

    fn zero(&self, header: &Header, reader: &mut Reader<'_>, answer: Answer) {
        let mut bytes = [0; size_of::<Segment>()];
        if reader.available_bytes() != bytes.len() || reader.read_exact(&mut bytes).is_err() {
            return answer.end(Status::Unsupported);
        }
        let Ok(segment) = Segment::read_from_bytes(&bytes) else { return answer.end(Status::Failed) };
        let place = self.extent(segment.sector.get(), u64::from(segment.sectors.get()) * SECTOR);
        let (Some(extent), Some(may_unmap)) = (place, segment.may_unmap()) else {
            return answer.end(Status::Unsupported);
        };
        if extent.blocks > self.disk.limits().max_discard {
            return answer.end(Status::Failed);
        }
        let durability = Durability::Cached;
        let operation = if header.kind.get() == kind::DISCARD {
            Operation::Discard { extent }
        } else {
            Operation::WriteZeroes { extent, durability, may_unmap }
        };
        self.submit(operation, answer);
    }

    fn submit(&self, operation: Operation, answer: Answer) {
        self.disk.submit(operation, move |result: Result<Outcome, VolumeErrorKind>| match result {
            Ok(_) => answer.end(Status::Ok),
            Err(VolumeErrorKind::Unsupported) => answer.end(Status::Unsupported),
            Err(_) => answer.end(Status::Failed),
        });
    }
}

/// A request that is to be answered.
struct Answer {
    shared: Arc<Shared>,
    chain: Chain,
    pass: Pass,
}

impl Answer {
    fn writer(&self) -> Option<Writer<'_>> {
        self.chain.clone().writer(&self.shared.guest).ok()
    }

    /// Bytes that the guest has room for, beside the status.
    fn room(&self) -> Option<usize> {
        self.writer()?.available_bytes().checked_sub(1)
    }

    /// Puts the status into the guest's memory, and tells it.
    fn end(self, status: Status) {
        self.end_with(status, &BufList::new());
    }

    /// Puts data and status into the guest's memory, and tells it. A guest that left no room for them is told nothing.
    fn end_with(self, status: Status, data: &BufList) {
        let written = self.put(status, data).and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
        let shared = &self.shared;
        let mut queue = lock(&shared.queue);
        let told = queue.add_used(&*shared.guest, self.chain.head_index(), written).is_ok()
            && queue.needs_notification(&*shared.guest).unwrap_or(true);
        drop(queue);
        if told && let Some(mut call) = lock(&shared.call).as_ref() {
            // A guest that is gone hears nothing.
            let _unheard = call.write_all(&1_u64.to_ne_bytes());
        }
        drop(self.pass);
    }

    fn put(&self, status: Status, data: &BufList) -> Option<usize> {
        let mut writer = self.writer()?;
        let room = writer.available_bytes().checked_sub(1)?;
        let mut last = writer.split_at(room).ok()?;
        for piece in data.part(0, data.len().min(room)).pieces() {
            writer.write_all(piece).ok()?;
        }
        last.write_all(&[status.byte()]).ok()?;
        Some(writer.bytes_written() + 1)
    }
}
