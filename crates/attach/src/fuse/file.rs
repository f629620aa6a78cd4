//! The one file: its size is the volume's, and what is read and written goes to the volume at once, past the page cache.
//!
//! Requests for whole blocks are handed to the client's cores and answered from there, so that many are under way however
//! few threads there are. Parts of blocks are read, changed and written back on threads of their own.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::SystemTime;

use buf::BufList;
use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use linerate::{Disk, DiskError};
use rustix::fs::{FallocateFlags, OFlags};
use volume::{Durability, Extent, Features, Operation, Outcome, VolumeErrorKind};

use super::limits::{BACKGROUND, FRESH, TRANSFER};
use super::ranges::{Hold, Ranges};
use super::slow::Slow;
use crate::convert::{index, short};
use crate::gate::{Gate, Permit};
use crate::memory::memory;

/// A volume as a file.
#[derive(Debug, Clone)]
pub(crate) struct VolumeFile {
    disk: Disk,
    read_only: bool,
    /// Other users may open it, too.
    shared: bool,
    owner: (u32, u32),
    since: SystemTime,
    ranges: Arc<Ranges>,
    gate: Arc<Gate>,
    slow: Slow,
}

/// Bytes of a volume, and the whole blocks around them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    offset: u64,
    len: u64,
    outer: (u64, u64),
    block: u64,
}

impl Span {
    fn new(offset: u64, len: u64, block: u32) -> Self {
        let block = u64::from(block);
        let start = offset / block * block;
        let end = (offset + len).div_ceil(block) * block;
        Self { offset, len, outer: (start, end), block }
    }

    fn is_whole(&self) -> bool {
        self.outer == (self.offset, self.offset + self.len)
    }

    fn extent(&self) -> Extent {
        Extent::new(self.outer.0 / self.block, (self.outer.1 - self.outer.0) / self.block)
    }

    fn outer_len(&self) -> u64 {
        self.outer.1 - self.outer.0
    }

    /// Where the span's bytes are within its blocks.
    fn inside(&self) -> std::ops::Range<usize> {
        let start = index(self.offset - self.outer.0);
        start..start + index(self.len)
    }
}

/// The error number that programs are shown.
pub(crate) fn errno(kind: VolumeErrorKind) -> Errno {
    match kind {
        VolumeErrorKind::ReadOnly => Errno::EROFS,
        VolumeErrorKind::NoSpace => Errno::ENOSPC,
        VolumeErrorKind::OutOfRange | VolumeErrorKind::Misaligned => Errno::EINVAL,
        VolumeErrorKind::Unsupported => Errno::EOPNOTSUPP,
        VolumeErrorKind::ShuttingDown => Errno::ESHUTDOWN,
        _ => Errno::EIO,
    }
}

fn of(error: &DiskError) -> Errno {
    errno(error.kind())
}

/// What may be done with the file, and by whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    /// Refuse writes, whatever the volume allows.
    pub(crate) read_only: bool,
    /// Other users may open it.
    pub(crate) shared: bool,
}

/// A write as it is asked for.
#[derive(Debug, Clone, Copy)]
struct SpanWrite<'a> {
    span: Span,
    durability: Durability,
    /// As many bytes as the span.
    data: &'a [u8],
}

impl VolumeFile {
    pub(crate) fn new(disk: Disk, gate: Arc<Gate>, access: Access) -> Self {
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let Access { read_only, shared } = access;
        let read_only = read_only || disk.features().contains(Features::READ_ONLY);
        Self {
            disk,
            read_only,
            shared,
            owner,
            since: SystemTime::now(),
            ranges: Arc::default(),
            gate,
            slow: Slow::default(),
        }
    }

    fn size(&self) -> u64 {
        self.disk.geometry().bytes()
    }

    fn attributes(&self) -> FileAttr {
        let size = self.size();
        FileAttr {
            ino: INodeNo::ROOT,
            size,
            blocks: size / 512,
            atime: self.since,
            mtime: self.since,
            ctime: self.since,
            crtime: self.since,
            kind: FileType::RegularFile,
            perm: if self.shared { 0o666 } else { 0o600 } & if self.read_only { 0o444 } else { 0o777 },
            nlink: 1,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: self.disk.geometry().physical_block_size,
            flags: 0,
        }
    }

    /// As much of the range as lies within the volume.
    fn span(&self, offset: u64, len: u64) -> Option<Span> {
        let left = self.size().checked_sub(offset).filter(|left| *left > 0)?;
        Some(Span::new(offset, len.min(left), self.disk.geometry().block_size))
    }

    fn fits(&self, span: Span) -> bool {
        span.outer_len() <= u64::from(self.disk.limits().max_transfer.min(TRANSFER))
    }

    fn read_span(&self, span: Span, mut permit: Permit, reply: ReplyData) {
        if !permit.hold(index(span.outer_len())) {
            return reply.error(Errno::ESHUTDOWN);
        }
        if self.fits(span) {
            return self.disk.submit_read(span.extent(), move |result| {
                match result {
                    Ok(Outcome::Data(data)) => {
                        reply.data(data.into_one().get(span.inside()).unwrap_or_default());
                    }
                    Ok(_) => reply.error(Errno::EIO),
                    Err(kind) => reply.error(errno(kind)),
                }
                drop(permit);
            });
        }
        let disk = self.disk.clone();
        self.slow.run(move || {
            let mut data = vec![0; index(span.outer_len())];
            match disk.blocking().read_at(span.outer.0, &mut data) {
                Ok(()) => reply.data(data.get(span.inside()).unwrap_or_default()),
                Err(error) => reply.error(of(&error)),
            }
            drop(permit);
        });
    }

    fn write_span(&self, write: &SpanWrite<'_>, reply: ReplyWrite) {
        let SpanWrite { span, durability, data } = *write;
        let Some(mut permit) = self.gate.enter() else { return reply.error(Errno::ESHUTDOWN) };
        if !permit.hold(index(span.outer_len())) {
            return reply.error(Errno::ESHUTDOWN);
        }
        let written = short(index(span.len));
        if !span.is_whole() || !self.fits(span) {
            let (file, data) = (self.clone(), data.to_vec());
            return self.slow.run(move || {
                match file.write_slowly(&SpanWrite { span, durability, data: &data }) {
                    Ok(()) => reply.written(written),
                    Err(error) => reply.error(of(&error)),
                }
                drop(permit);
            });
        }
        let held = self.ranges.hold(span.outer.0..span.outer.1, Hold::Shared);
        let mut memory = memory(data.len());
        memory.copy_from_slice(data);
        let data = BufList::from(memory.freeze());
        self.disk.submit(Operation::Write { extent: span.extent(), data, durability }, move |result| {
            drop(held);
            match result {
                Ok(_) => reply.written(written),
                Err(kind) => reply.error(errno(kind)),
            }
            drop(permit);
        });
    }

    /// Writes what is not whole blocks, or is longer than one transfer.
    fn write_slowly(&self, write: &SpanWrite<'_>) -> Result<(), DiskError> {
        let SpanWrite { span, durability, data } = *write;
        let hold = if span.is_whole() { Hold::Shared } else { Hold::Exclusive };
        let _held = self.ranges.hold(span.outer.0..span.outer.1, hold);
        let disk = self.disk.blocking();
        let put = |offset: u64, data: &[u8]| match durability {
            Durability::Cached => disk.write_at(offset, data),
            Durability::Durable => disk.write_durable_at(offset, data),
        };
        if span.is_whole() {
            return put(span.offset, data);
        }
        let mut blocks = vec![0; index(span.outer_len())];
        disk.read_at(span.outer.0, &mut blocks)?;
        if let Some(inside) = blocks.get_mut(span.inside()) {
            inside.copy_from_slice(data);
        }
        put(span.outer.0, &blocks)
    }

    /// Makes a range read as zeros.
    fn zero(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), VolumeErrorKind> {
        let Some(span) = self.span(offset, len) else { return Ok(()) };
        let first = span.offset.next_multiple_of(span.block).min(span.offset + span.len);
        let last = ((span.offset + span.len) / span.block * span.block).max(first);
        for (from, to) in [(span.offset, first), (last, span.offset + span.len)] {
            if from < to {
                let edge = Span::new(from, to - from, self.disk.geometry().block_size);
                let zeros = vec![0; index(to - from)];
                let write = SpanWrite { span: edge, durability: Durability::Cached, data: &zeros };
                self.write_slowly(&write).map_err(|error| error.kind())?;
            }
        }
        let _held = self.ranges.hold(first..last, Hold::Shared);
        let (mut next, end) = (first / span.block, last / span.block);
        while next < end {
            let blocks = self.disk.limits().max_discard.clamp(1, end - next);
            let extent = Extent::new(next, blocks);
            self.wait(Operation::WriteZeroes { extent, durability: Durability::Cached, may_unmap })?;
            next += blocks;
        }
        Ok(())
    }

    /// Does one request while the calling thread waits.
    fn wait(&self, operation: Operation) -> Result<(), VolumeErrorKind> {
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        self.disk.submit(operation, move |result| {
            // The receiver waits right below.
            let _heard = tell.send(result.map(drop));
        });
        told.recv().unwrap_or(Err(VolumeErrorKind::ShuttingDown))
    }
}

impl Filesystem for VolumeFile {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Each is a wish: an older kernel does without.
        let _older = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _nearest = config.set_max_write(TRANSFER);
        let _nearest = config.set_max_background(BACKGROUND);
        let _nearest = config.set_congestion_threshold(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _request: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::ENOENT);
    }

    fn getattr(&self, _request: &Request, _inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FRESH, &self.attributes());
    }

    fn setattr(
        &self,
        _request: &Request,
        _inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // A volume's size is not for its users to change, nor who may use it. Times are nothing that it keeps.
        if mode.is_some() || uid.is_some() || gid.is_some() || size.is_some_and(|size| size != self.size()) {
            return reply.error(Errno::EPERM);
        }
        reply.attr(&FRESH, &self.attributes());
    }

    fn access(&self, _request: &Request, _inode: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        reply.ok();
    }

    fn open(&self, _request: &Request, _inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let writes = flags.0 & i32::try_from(OFlags::RWMODE.bits()).unwrap_or(0) != 0;
        if writes && self.read_only {
            return reply.error(Errno::EROFS);
        }
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(permit) = self.gate.enter() else { return reply.error(Errno::ESHUTDOWN) };
        match self.span(offset, u64::from(size)) {
            Some(span) if span.len > 0 => self.read_span(span, permit, reply),
            _ => reply.data(&[]),
        }
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if self.read_only {
            return reply.error(Errno::EROFS);
        }
        let Some(span) = self.span(offset, data.len() as u64) else { return reply.error(Errno::ENOSPC) };
        let synchronous = flags.0 & i32::try_from(OFlags::DSYNC.bits()).unwrap_or(0) != 0;
        let durability = if synchronous { Durability::Durable } else { Durability::Cached };
        let data = data.get(..index(span.len)).unwrap_or_default();
        self.write_span(&SpanWrite { span, durability, data }, reply);
    }

    fn flush(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Nothing is kept back that a close could still fail to write.
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        let Some(permit) = self.gate.enter() else { return reply.error(Errno::ESHUTDOWN) };
        self.disk.submit(Operation::Flush, move |result| {
            match result {
                Ok(_) => reply.ok(),
                Err(kind) => reply.error(errno(kind)),
            }
            drop(permit);
        });
    }

    fn fallocate(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(u32::try_from(mode).unwrap_or(0));
        let may_unmap = mode.contains(FallocateFlags::PUNCH_HOLE);
        if !may_unmap && !mode.contains(FallocateFlags::ZERO_RANGE) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        if self.read_only {
            return reply.error(Errno::EROFS);
        }
        let Some(permit) = self.gate.enter() else { return reply.error(Errno::ESHUTDOWN) };
        let file = self.clone();
        self.slow.run(move || {
            match file.zero(offset, length, may_unmap) {
                Ok(()) => reply.ok(),
                Err(kind) => reply.error(errno(kind)),
            }
            drop(permit);
        });
    }

    fn getxattr(&self, _request: &Request, _inode: INodeNo, _name: &OsStr, _size: u32, reply: ReplyXattr) {
        // The kernel takes this for an answer to all further questions.
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _request: &Request, _inode: INodeNo, _size: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn lseek(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _offset: i64,
        _whence: i32,
        reply: ReplyLseek,
    ) {
        // The kernel then takes all for data.
        reply.error(Errno::ENOSYS);
    }

    /// Programs try them on any file, to learn whether it is a terminal or a device. It is neither.
    fn ioctl(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        _command: u32,
        _data: &[u8],
        _room: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        let block = self.disk.geometry().block_size;
        reply.statfs(self.disk.geometry().blocks, 0, 0, 1, 0, block, 255, block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_name_the_blocks_around_them() {
        let whole = Span::new(1024, 512, 512);
        assert!(whole.is_whole() && whole.extent() == Extent::new(2, 1));
        let part = Span::new(1000, 100, 512);
        assert_eq!((part.extent(), part.inside()), (Extent::new(1, 2), 488..588));
        assert!(!part.is_whole());
        let huge = Span::new(1, 8192, 4096);
        assert_eq!((huge.extent(), huge.inside()), (Extent::new(0, 3), 1..8193));
    }
}
