//! Requests of a C program that go on while it does other things: the data stays in the program's memory.

use std::ffi::c_void;
use std::sync::Arc;

use ::volume::{Durability, Extent, Operation, VolumeErrorKind};
use buf::BufList;

use super::callback::{Callback, CompletionCallback};
use super::memory::{Flight, Lent};
use super::status::Status;
use super::{ended, fail};
use crate::client::{BlockingDisk, Disk, DiskError};

/// A request, as the C program fills it in.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Request {
    /// What to do: 0 read, 1 write, 2 durable write, 3 flush, 4 discard, 5 write zeroes.
    pub kind: u32,
    /// Byte where it begins.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Data, or room for it.
    pub memory: *mut c_void,
}

/// Starts a request. If it fits, `callback` is told its end exactly once; else the status says why not.
///
/// # Safety
/// `disk` is open. The request's memory is initialised, has its length, and until the callback stays and is touched by
/// nobody else. The callback may be called on any thread, and takes `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_submit(
    disk: *const BlockingDisk,
    request: *const Request,
    callback: Callback,
    context: *mut c_void,
) -> Status {
    // SAFETY: by the caller's promise.
    let (disk, request) = unsafe { ((*disk).disk(), &*request) };
    let extent = match disk.blocks(request.offset, request.len) {
        Ok(extent) => extent,
        Err(error) => return ended(Err(error)),
    };
    let bytes = if request.kind < 3 { request.len } else { 0 };
    let Ok(len) = usize::try_from(bytes) else {
        return ended(Err(too_long(disk, request)));
    };
    // SAFETY: by the caller's promise.
    let lent = unsafe { Lent::new(request.memory, len) };
    if lent.len() > disk.limits().max_transfer as usize {
        return ended(Err(too_long(disk, request)));
    }
    if request.kind > 5 {
        return fail(Status::Unsupported, &format!("there is no request of kind {}", request.kind));
    }
    let flight = Flight::new(lent, CompletionCallback::new(callback, context));
    let operation = operation(request.kind, extent, &flight);
    disk.submit(operation, move |result| flight.finish(result));
    Status::Ok
}

fn too_long(disk: &Disk, request: &Request) -> DiskError {
    let most = disk.limits().max_transfer;
    let text = format!("{}: {} bytes are above the volume's limit of {most}", disk.url(), request.len);
    DiskError::new(VolumeErrorKind::Misaligned, text)
}

fn operation(kind: u32, extent: Extent, flight: &Arc<Flight>) -> Operation {
    let write =
        |durability| Operation::Write { extent, data: BufList::from(flight.lend().freeze()), durability };
    match kind {
        0 => Operation::Read { extent, into: flight.lend() },
        1 => write(Durability::Cached),
        2 => write(Durability::Durable),
        3 => Operation::Flush,
        4 => Operation::Discard { extent },
        _ => Operation::WriteZeroes { extent, durability: Durability::Cached, may_unmap: true },
    }
}
