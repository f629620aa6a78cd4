//! One queue of the guest's: a thread takes requests off it, the client's cores answer them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use buf::{BufList, SharedBuf};
use linerate::{Disk, DiskError};
use rustix::event::{PollFd, PollFlags, poll};
use virtio_queue::{DescriptorChain, Queue, QueueOwnedT, QueueT, Reader, Writer};
use vm_memory::GuestMemoryMmap;
use volume::{Durability, Extent, Operation, Outcome, VolumeErrorKind};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::limits::{LARGEST, QUEUE_MEMORY};
use super::request::{Header, SECTOR, Segment, Status, kind};
use crate::convert::index;
use crate::gate::{Gate, Permit, Room};
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
    /// When a change counts as done.
    pub(crate) durability: Durability,
}

struct Shared {
    queue: Mutex<Queue>,
    guest: Arc<GuestMemoryMmap>,
    call: Mutex<Option<File>>,
    disk: Disk,
    read_only: bool,
    durability: Durability,
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
        let Parts { queue, guest, kick, call, disk, read_only, durability } = parts;
        // A guest that keeps to the rules has no more requests than its queue has entries.
        let room = Room { requests: usize::from(queue.size()), bytes: QUEUE_MEMORY };
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            guest,
            call: Mutex::new(call),
            disk,
            read_only,
            durability,
            gate: Arc::new(Gate::new(room)),
            stop: AtomicBool::new(false),
        });
        let (worker, waits) = (Arc::clone(&shared), kick.try_clone()?);
        let thread = std::thread::Builder::new().name("queue".to_owned()).spawn(move || {
            // What was put into the queue before it started had its kick already.
            while worker.take_all().is_ok() && worker.wait(&waits).is_ok() {}
        })?;
        Ok(Self { shared, kick, thread })
    }

    /// Notifies the guest of answers this way from now on.
    pub(crate) fn set_call(&self, call: Option<File>) {
        *lock(&self.shared.call) = call;
    }

    /// Takes no more requests, waits for those under way, and gives the queue back.
    pub(crate) fn stop(self) -> Option<Queue> {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.gate.shut();
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
                let Some(permit) = self.gate.enter() else { return Ok(()) };
                let chain = lock(&self.queue).pop_descriptor_chain(Arc::clone(&self.guest));
                let Some(chain) = chain else { break };
                self.begin(Answer { shared: Arc::clone(self), chain, permit });
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

    /// Waits for room for a request's data. False when the queue has been stopped: the request stays for the thread that serves it next.
    fn hold(&self, answer: &mut Answer, bytes: usize) -> bool {
        let room = answer.permit.hold(bytes);
        if !room {
            lock(&self.queue).go_to_previous_position();
        }
        room
    }

    fn fits(&self, bytes: usize) -> bool {
        bytes <= index(u64::from(self.disk.limits().max_transfer))
    }

    fn read(&self, header: &Header, mut answer: Answer) {
        let bytes = answer.room().filter(|bytes| *bytes <= usize::try_from(LARGEST).unwrap_or(0));
        let place = bytes.and_then(|bytes| Some((bytes, self.extent(header.sector.get(), bytes as u64)?)));
        let Some((bytes, extent)) = place else { return answer.end(Status::Failed) };
        if !self.hold(&mut answer, bytes) {
            return;
        }
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

    fn write(&self, header: &Header, reader: &mut Reader<'_>, mut answer: Answer) {
        let bytes = reader.available_bytes();
        let allowed = bytes <= usize::try_from(LARGEST).unwrap_or(0);
        let extent = self.extent(header.sector.get(), bytes as u64).filter(|_| allowed);
        let Some(extent) = extent else { return answer.end(Status::Failed) };
        if !self.hold(&mut answer, bytes) {
            return;
        }
        if !self.fits(bytes) {
            let mut data = vec![0; bytes];
            let result = reader.read_exact(&mut data).is_ok() && self.write_slowly(header, &data).is_ok();
            return answer.end(if result { Status::Ok } else { Status::Failed });
        }
        let mut data = memory(bytes);
        if reader.read_exact(&mut data).is_err() {
            return answer.end(Status::Failed);
        }
        let (data, durability) = (BufList::from(data.freeze()), self.durability);
        self.submit(Operation::Write { extent, data, durability }, answer);
    }

    /// Writes what is longer than one transfer.
    fn write_slowly(&self, header: &Header, data: &[u8]) -> Result<(), DiskError> {
        let (disk, offset) = (self.disk.blocking(), header.sector.get() * SECTOR);
        match self.durability {
            Durability::Cached => disk.write_at(offset, data),
            Durability::Durable => disk.write_durable_at(offset, data),
        }
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
        let durability = self.durability;
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
    permit: Permit,
}

impl Answer {
    fn writer(&self) -> Option<Writer<'_>> {
        self.chain.clone().writer(&self.shared.guest).ok()
    }

    /// Bytes that the guest has room for, beside the status.
    fn room(&self) -> Option<usize> {
        self.writer()?.available_bytes().checked_sub(1)
    }

    /// Puts the status into the guest's memory, and notifies the guest.
    fn end(self, status: Status) {
        self.end_with(status, &BufList::new());
    }

    /// Puts data and status into the guest's memory, and notifies the guest. A guest that left no room for them is not notified.
    fn end_with(self, status: Status, data: &BufList) {
        let written = self.put(status, data).and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
        let shared = &self.shared;
        let mut queue = lock(&shared.queue);
        let is_used = queue.add_used(&*shared.guest, self.chain.head_index(), written).is_ok()
            && queue.needs_notification(&*shared.guest).unwrap_or(true);
        drop(queue);
        if is_used && let Some(mut call) = lock(&shared.call).as_ref() {
            // A guest that is gone hears nothing.
            let _unheard = call.write_all(&1_u64.to_ne_bytes());
        }
        drop(self.permit);
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

#[cfg(test)]
mod tests {
    use linerate::{Client, ClientConfig};
    use vm_memory::{Bytes, GuestAddress};

    use super::*;

    const SIZE: u16 = 256;
    const MIB: u32 = 1 << 20;
    const TABLE: u64 = 0;
    const AVAILABLE: u64 = 0x4000;
    const USED: u64 = 0x8000;
    const HEADERS: u64 = 0xc000;
    /// Where the data of all requests lies.
    const DATA: u64 = 1 << 20;

    /// A guest of 4 MiB, whose requests all name the same data.
    fn guest() -> Arc<GuestMemoryMmap> {
        Arc::new(GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 4 << 20)]).unwrap())
    }

    /// Memory that a descriptor names.
    #[derive(Clone, Copy)]
    struct Span {
        address: u64,
        length: u32,
    }

    fn descriptor(guest: &GuestMemoryMmap, index: u16, Span { address, length }: Span, next: Option<u16>) {
        let flags: u16 = u16::from(next.is_some()) | (u16::from(length == 1) << 1);
        let words = [address.to_le_bytes().as_slice(), &length.to_le_bytes(), &flags.to_le_bytes()].concat();
        let bytes = [words.as_slice(), &next.unwrap_or(0).to_le_bytes()].concat();
        guest.write_slice(&bytes, GuestAddress(TABLE + u64::from(index) * 16)).unwrap();
    }

    /// Puts as many writes of `length` bytes into the queue as it holds: header, data, status.
    fn fill(guest: &GuestMemoryMmap, length: u32) -> u16 {
        let requests = SIZE / 3;
        let header = [kind::WRITE.to_le_bytes().as_slice(), &[0; 12]].concat();
        guest.write_slice(&header, GuestAddress(HEADERS)).unwrap();
        for request in 0..requests {
            let first = request * 3;
            descriptor(guest, first, Span { address: HEADERS, length: 16 }, Some(first + 1));
            descriptor(guest, first + 1, Span { address: DATA, length }, Some(first + 2));
            let status = HEADERS + 64 + u64::from(request);
            descriptor(guest, first + 2, Span { address: status, length: 1 }, None);
            guest.write_obj(first, GuestAddress(AVAILABLE + 4 + u64::from(request) * 2)).unwrap();
        }
        guest.write_obj(requests, GuestAddress(AVAILABLE + 2)).unwrap();
        requests
    }

    fn used(guest: &GuestMemoryMmap) -> u16 {
        guest.read_obj(GuestAddress(USED + 2)).unwrap()
    }

    fn ring(guest: &Arc<GuestMemoryMmap>, url: &str) -> Ring {
        let mut queue = Queue::new(SIZE).unwrap();
        queue.try_set_size(SIZE).unwrap();
        queue.try_set_desc_table_address(GuestAddress(TABLE)).unwrap();
        queue.try_set_avail_ring_address(GuestAddress(AVAILABLE)).unwrap();
        queue.try_set_used_ring_address(GuestAddress(USED)).unwrap();
        queue.set_ready(true);
        let client = Client::start(&ClientConfig::default()).unwrap();
        let disk = client.open(&url.parse().unwrap()).unwrap();
        let kick = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let parts = Parts {
            queue,
            guest: Arc::clone(guest),
            kick: kick.into(),
            call: None,
            disk,
            read_only: false,
            durability: Durability::Cached,
        };
        Ring::start(parts).unwrap()
    }

    #[test]
    fn requests_that_name_the_same_memory_hold_no_more_than_a_queue_may() {
        let guest = guest();
        let requests = fill(&guest, MIB);
        let ring = ring(&guest, "delay=20ms+ram:64M");
        let (mut most, mut waited) = (0, false);
        while used(&guest) < requests {
            let (inside, bytes) = ring.shared.gate.inside();
            most = most.max(bytes);
            waited |= inside < usize::from(requests) && bytes == QUEUE_MEMORY;
            std::thread::yield_now();
        }
        assert!(most <= QUEUE_MEMORY, "{most} bytes");
        assert!(waited, "nothing ever waited");
        ring.stop();
        let statuses: Vec<u8> = (0..requests)
            .map(|index| guest.read_obj(GuestAddress(HEADERS + 64 + u64::from(index))).unwrap())
            .collect();
        assert_eq!(statuses, vec![0; usize::from(requests)]);
    }

    #[test]
    fn a_request_that_waits_for_room_is_left_in_the_queue_when_it_stops() {
        let guest = guest();
        let requests = fill(&guest, 3 * MIB);
        let ring = ring(&guest, "delay=200ms+ram:64M");
        while ring.shared.gate.inside().1 == 0 {
            std::thread::yield_now();
        }
        let queue = ring.stop().unwrap();
        assert_eq!(queue.next_avail(), used(&guest), "each request is answered, or left");
        assert!(queue.next_avail() < requests);
    }
}
