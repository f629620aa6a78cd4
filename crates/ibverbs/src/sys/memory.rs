//! Memory that a device may use: registrations of buffers, exactly as long as they are, and bounce buffers.
//!
//! Everything belongs to a protection domain, of which each queue pair has one of its own: a key of one connection means nothing to another. Whoever drops a
//! registration has the device let go of the memory first; memory that a device does not let go of is never used again, and not given back.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::rc::Rc;

use buf::{Buf, SharedBuf};

use super::abi;
use super::device::Device;
use super::library::Functions;
use crate::limits::{KEPT_LONG_BUFFERS, SHORT_BUFFER, USUAL_BUFFER};

/// A protection domain.
#[derive(Debug)]
pub(crate) struct ProtectionDomain {
    functions: &'static Functions,
    pub(super) raw: NonNull<abi::ProtectionDomain>,
}

impl ProtectionDomain {
    /// A domain of its own at a device.
    pub(crate) fn new(device: &Device) -> io::Result<Rc<Self>> {
        let functions = device.functions;
        // SAFETY: the device is open, and never closed.
        let raw = unsafe { (functions.ibv_alloc_pd)(device.context.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        Ok(Rc::new(Self { functions, raw }))
    }

    /// Has the device know `length` bytes from `start` on.
    ///
    /// # Safety
    /// The memory stays where it is until the region is deregistered. Nobody has a reference to it that what the device may do contradicts.
    unsafe fn register(
        &self,
        start: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> io::Result<NonNull<abi::MemoryRegion>> {
        let start = start.as_ptr().cast::<c_void>();
        // SAFETY: the domain is valid; the caller answers for the memory.
        let raw = unsafe { (self.functions.ibv_reg_mr)(self.raw.as_ptr(), start, length, access.to_c()) };
        NonNull::new(raw).ok_or_else(io::Error::last_os_error)
    }

    /// Has the device forget a region: false if it does not.
    fn deregister(&self, region: NonNull<abi::MemoryRegion>) -> bool {
        // SAFETY: the region is of this domain, and nobody uses it any more.
        unsafe { (self.functions.ibv_dereg_mr)(region.as_ptr()) == 0 }
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: everything that belongs to the domain holds it, so nothing is left; if a device has not let go of something, it refuses, and the domain stays.
        unsafe { (self.functions.ibv_dealloc_pd)(self.raw.as_ptr()) };
    }
}

/// What a device may do with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Send it, by this side's requests.
    Send,
    /// Fill it, by this side's requests.
    Receive,
    /// Fill it with the data of this side's RDMA Reads over iWARP, where the peer names it (RFC 5040 §4.4): to the device it is a write of the peer's.
    ReadResponse,
    /// Let the peer write to it.
    PeerWrites,
    /// Let the peer read it.
    PeerReads,
}

impl Access {
    fn to_c(self) -> c_int {
        match self {
            Self::Send => 0,
            Self::Receive => abi::ACCESS_LOCAL_WRITE,
            Self::ReadResponse | Self::PeerWrites => abi::ACCESS_LOCAL_WRITE | abi::ACCESS_REMOTE_WRITE,
            Self::PeerReads => abi::ACCESS_REMOTE_READ,
        }
    }
}

/// Memory that can be registered: it has one owner, or never changes, and stays where it is when its owner moves.
#[derive(Debug)]
pub(crate) enum Registered {
    /// A buffer that the device may fill.
    Buf(Buf),
    /// Bytes that the device may read.
    Shared(SharedBuf),
    /// A copy that the device may read.
    Copy(Box<[u8]>),
}

impl Registered {
    /// Where it is.
    fn start(&mut self) -> NonNull<u8> {
        match self {
            Self::Buf(buf) => NonNull::from(&mut buf[..]).cast(),
            Self::Shared(shared) => NonNull::from(&shared[..]).cast(),
            Self::Copy(copy) => NonNull::from(&mut copy[..]).cast(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Buf(buf) => buf.len(),
            Self::Shared(shared) => shared.len(),
            Self::Copy(copy) => copy.len(),
        }
    }

    /// Whether the device may do that with it.
    fn allows(&self, access: Access) -> bool {
        match access {
            Access::Send | Access::PeerReads => true,
            Access::Receive | Access::ReadResponse | Access::PeerWrites => matches!(self, Self::Buf(_)),
        }
    }
}

/// Memory that a device may use, which nobody else reaches meanwhile.
#[derive(Debug)]
pub(crate) struct Registration {
    domain: Rc<ProtectionDomain>,
    region: NonNull<abi::MemoryRegion>,
    memory: ManuallyDrop<Registered>,
    start: u64,
}

/// Memory that could not be registered.
pub(crate) struct NotRegistered(pub(crate) Registered);

impl Registration {
    /// Has the device of a domain know memory, at least one byte, and no byte more.
    pub(crate) fn new(
        domain: &Rc<ProtectionDomain>,
        mut memory: Registered,
        access: Access,
    ) -> Result<Self, NotRegistered> {
        if !memory.allows(access) {
            return Err(NotRegistered(memory));
        }
        let (start, length) = (memory.start(), memory.len());
        // SAFETY: the registration owns the memory, gives nobody a reference to it, and deregisters it before it lets go of it. What may be filled has no other
        // owner (`allows`), what is shared never changes.
        match unsafe { domain.register(start, length, access) } {
            Ok(region) => Ok(Self {
                domain: Rc::clone(domain),
                region,
                memory: ManuallyDrop::new(memory),
                start: start.as_ptr().addr() as u64,
            }),
            Err(_) => Err(NotRegistered(memory)),
        }
    }

    /// Its address, by which the device and the peer name its first byte.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.memory.len()
    }

    /// The key for this side's requests.
    pub(crate) fn local_key(&self) -> u32 {
        // SAFETY: the region is valid until it is deregistered.
        unsafe { (*self.region.as_ptr()).lkey }
    }

    /// The key for the peer.
    pub(crate) fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.region.as_ptr()).rkey }
    }

    /// Takes the memory back; nothing if the device does not let go of it, which is then never used again.
    pub(crate) fn release(self) -> Option<Registered> {
        let mut this = ManuallyDrop::new(self);
        let let_go = this.domain.deregister(this.region);
        // SAFETY: `this` is not dropped, so each field is taken once: the domain here, and the memory below or never.
        drop(unsafe { std::ptr::read(&raw const this.domain) });
        // SAFETY: as above.
        let_go.then(|| unsafe { ManuallyDrop::take(&mut this.memory) })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.domain.deregister(self.region) {
            // SAFETY: it is dropped once, here, and the device has let go of it.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

/// A stretch of memory that is registered once, for bounce buffers: the device fills and reads it by this side's requests, and the peer has no right to it.
#[derive(Debug)]
struct Chunk {
    domain: Rc<ProtectionDomain>,
    region: NonNull<abi::MemoryRegion>,
    memory: NonNull<u8>,
    layout: Layout,
}

impl Chunk {
    fn new(domain: &Rc<ProtectionDomain>, bytes: usize) -> io::Result<Rc<Self>> {
        let layout = Layout::from_size_align(bytes, 4096).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the layout has at least one byte.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the chunk owns the memory, and frees it only after the region is gone. It is reached by raw pointers alone.
        match unsafe { domain.register(memory, bytes, Access::Receive) } {
            Ok(region) => Ok(Rc::new(Self { domain: Rc::clone(domain), region, memory, layout })),
            Err(error) => {
                // SAFETY: it was allocated so, and nobody has it.
                unsafe { dealloc(memory.as_ptr(), layout) };
                Err(error)
            }
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if self.domain.deregister(self.region) {
            // SAFETY: it was allocated so; no bounce buffer of it is left, and the device has let go of it.
            unsafe { dealloc(self.memory.as_ptr(), self.layout) };
        }
    }
}

/// A buffer that the device knows already: what is short is copied through one.
#[derive(Debug)]
pub(crate) struct Bounce {
    chunk: Rc<Chunk>,
    offset: usize,
    size: usize,
}

impl Bounce {
    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    fn place(&self) -> NonNull<u8> {
        // SAFETY: the offset lies within the chunk's memory.
        unsafe { self.chunk.memory.add(self.offset) }
    }

    /// Its address.
    pub(crate) fn start(&self) -> u64 {
        self.place().as_ptr().addr() as u64
    }

    /// The key for this side's requests.
    pub(crate) fn local_key(&self) -> u32 {
        // SAFETY: the region is valid for as long as the chunk is there.
        unsafe { (*self.chunk.region.as_ptr()).lkey }
    }

    /// Puts bytes in, as far as there is room.
    pub(crate) fn fill<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) {
        let mut at = 0_usize;
        for piece in pieces {
            let length = piece.len().min(self.size - at);
            // SAFETY: `at + length` is at most the size, all of it this buffer's own, which no device has: whoever gives one to a device gives it away.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), self.place().add(at).as_ptr(), length) };
            at += length;
        }
    }

    /// Takes the first bytes out.
    pub(crate) fn take(&self, into: &mut [u8]) {
        let length = into.len().min(self.size);
        // SAFETY: as above; all of it was zeroed when it was made.
        unsafe { std::ptr::copy_nonoverlapping(self.place().as_ptr(), into.as_mut_ptr(), length) };
    }
}

/// The bounce buffers of a domain, by size.
#[derive(Debug)]
pub(crate) struct BounceMemory {
    domain: Rc<ProtectionDomain>,
    short: Vec<Bounce>,
    usual: Vec<Bounce>,
    long: Vec<Bounce>,
    /// Bytes that are registered.
    bytes: usize,
}

impl BounceMemory {
    pub(crate) fn new(domain: &Rc<ProtectionDomain>) -> Self {
        let (short, usual, long) = (Vec::new(), Vec::new(), Vec::new());
        Self { domain: Rc::clone(domain), short, usual, long, bytes: 0 }
    }

    /// Bytes that are registered.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A buffer of at least so many bytes.
    pub(crate) fn take(&mut self, length: usize) -> io::Result<Bounce> {
        if length > USUAL_BUFFER.size {
            let found = self.long.iter().position(|kept| kept.size >= length);
            return match found {
                Some(at) => Ok(self.long.swap_remove(at)),
                None => self.make(length.next_power_of_two()),
            };
        }
        let kind = if length <= SHORT_BUFFER.size { SHORT_BUFFER } else { USUAL_BUFFER };
        if let Some(kept) = self.list(kind.size).pop() {
            return Ok(kept);
        }
        let chunk = Chunk::new(&self.domain, kind.size * kind.at_once)?;
        self.bytes += kind.size * kind.at_once;
        let parts = (0..kind.at_once).map(|number| Bounce {
            chunk: Rc::clone(&chunk),
            offset: number * kind.size,
            size: kind.size,
        });
        self.list(kind.size).extend(parts);
        self.list(kind.size).pop().ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    fn list(&mut self, size: usize) -> &mut Vec<Bounce> {
        if size == SHORT_BUFFER.size { &mut self.short } else { &mut self.usual }
    }

    fn make(&mut self, size: usize) -> io::Result<Bounce> {
        let chunk = Chunk::new(&self.domain, size)?;
        self.bytes += size;
        Ok(Bounce { chunk, offset: 0, size })
    }

    /// Takes one back.
    pub(crate) fn give_back(&mut self, bounce: Bounce) {
        match bounce.size {
            size if size <= USUAL_BUFFER.size => self.list(size).push(bounce),
            _ if self.long.len() < KEPT_LONG_BUFFERS => self.long.push(bounce),
            size => self.bytes -= size,
        }
    }
}
