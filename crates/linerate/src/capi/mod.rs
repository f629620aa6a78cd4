//! The C interface: what `include/linerate.h` declares. `cargo rustc -p linerate --release --crate-type cdylib` builds the
//! shared library.
//!
//! Every function that can fail answers a [`Status`]; the text of the calling thread's last failure is kept for
//! [`linerate_error_text`]. Handles are boxes of this side's types. A panic, which would be a fault of this library, ends
//! the process rather than unwinding into C.

mod alloc;
mod callback;
mod look;
mod memory;
mod request;
mod status;

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

pub use alloc::{linerate_alloc, linerate_free};
pub use callback::Callback;
pub use look::{FoundCallback, Run, linerate_allocation, linerate_discover};
pub use request::{Request, linerate_submit};
pub use status::{Status, linerate_status_text};

use crate::client::{BlockingDisk, Client, ClientConfig, DiskError};
use crate::error::Error;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Keeps the text of a failure for the calling thread, and gives its status.
fn fail(status: Status, text: &str) -> Status {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    LAST_ERROR.with(|last| *last.borrow_mut() = text);
    status
}

/// The text of the calling thread's last failure, valid until the next one; empty if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn linerate_error_text() -> *const c_char {
    LAST_ERROR.with(|last| last.borrow().as_ptr())
}

/// The library's version, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn linerate_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// What came of a call, with its text kept.
fn ended(result: Result<(), DiskError>) -> Status {
    match result {
        Ok(()) => Status::Ok,
        Err(error) => fail(Status::from(error.kind()), &error.to_string()),
    }
}

/// An error with its causes.
fn with_causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(one) = cause {
        text = format!("{text}: {one}");
        cause = one.source();
    }
    text
}

/// Starts a client with so many event loops, each on a thread of its own; 0 means 1.
///
/// # Safety
/// `client` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_start(cores: u16, client: *mut *mut Client) -> Status {
    match Client::start(&ClientConfig { cores: cores.max(1), ..ClientConfig::default() }) {
        Ok(started) => {
            // SAFETY: by the caller's promise.
            unsafe { *client = Box::into_raw(Box::new(started)) };
            Status::Ok
        }
        Err(error) => fail(Status::CannotStart, &with_causes(&error)),
    }
}

/// Gives a client up; null is passed over. Its threads end with its last disk.
///
/// # Safety
/// `client` is null, or came from [`linerate_start`] and was not given up yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_end(client: *mut Client) {
    if !client.is_null() {
        // SAFETY: by the caller's promise.
        drop(unsafe { Box::from_raw(client) });
    }
}

/// Opens the volume that `url` names.
///
/// # Safety
/// `client` is open; `url` ends with a zero; `disk` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_open(
    client: *const Client,
    url: *const c_char,
    disk: *mut *mut BlockingDisk,
) -> Status {
    // SAFETY: by the caller's promise.
    let (client, url) = unsafe { (&*client, CStr::from_ptr(url)) };
    let Ok(url) = url.to_str() else {
        return fail(Status::BadUrl, "the volume's URL is not UTF-8");
    };
    let url = match url.parse() {
        Ok(url) => url,
        Err(error) => return fail(Status::BadUrl, &format!("{error}")),
    };
    match client.open(&url) {
        Ok(opened) => {
            // SAFETY: by the caller's promise.
            unsafe { *disk = Box::into_raw(Box::new(opened.blocking())) };
            Status::Ok
        }
        Err(error) => fail(Status::CannotOpen, &with_causes(&error)),
    }
}

/// Closes a disk; null is passed over. Requests under way go on to their end.
///
/// # Safety
/// `disk` is null, or came from [`linerate_open`] and was not closed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_close(disk: *mut BlockingDisk) {
    if !disk.is_null() {
        // SAFETY: by the caller's promise.
        drop(unsafe { Box::from_raw(disk) });
    }
}

/// What a disk is, in bytes but where said otherwise.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Geometry {
    /// Size.
    pub size: u64,
    /// Offsets and lengths are multiples of this.
    pub block_size: u32,
    /// What the medium writes without reading first.
    pub physical_block_size: u32,
    /// The longest single request.
    pub max_transfer: u32,
    /// What it can do, as `LINERATE_FEATURE_…` flags.
    pub features: u32,
}

/// Says what a disk is.
///
/// # Safety
/// `disk` is open; `geometry` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_geometry(disk: *const BlockingDisk, geometry: *mut Geometry) {
    // SAFETY: by the caller's promise.
    let disk = unsafe { &*disk }.disk();
    let found = disk.geometry();
    let answer = Geometry {
        size: found.bytes(),
        block_size: found.block_size,
        physical_block_size: found.physical_block_size,
        max_transfer: disk.limits().max_transfer,
        features: disk.features().bits(),
    };
    // SAFETY: by the caller's promise.
    unsafe { *geometry = answer };
}

/// Memory of the caller's to be read.
///
/// # Safety
/// `data` has `len` bytes, which nobody changes while the answer lives; for no bytes it may be null.
unsafe fn readable<'a>(data: *const c_void, len: usize) -> &'a [u8] {
    let start = if len == 0 { ptr::NonNull::dangling().as_ptr() } else { data.cast() };
    // SAFETY: by the caller's promise.
    unsafe { std::slice::from_raw_parts(start, len) }
}

/// Fills `into` from byte `offset`, and waits for it.
///
/// # Safety
/// `disk` is open; `into` has room for `len` bytes, which nobody else touches meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_read(
    disk: *const BlockingDisk,
    offset: u64,
    into: *mut c_void,
    len: usize,
) -> Status {
    let start = if len == 0 { ptr::NonNull::dangling().as_ptr() } else { into.cast::<u8>() };
    // SAFETY: by the caller's promise. Zeroed first, as memory that C has not written yet must not be looked at.
    let (disk, into) = unsafe {
        ptr::write_bytes(start, 0, len);
        (&*disk, std::slice::from_raw_parts_mut(start, len))
    };
    ended(disk.read_at(offset, into))
}

/// Writes `data` at byte `offset`, and waits for it.
///
/// # Safety
/// `disk` is open; `data` has `len` bytes, which nobody changes meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_write(
    disk: *const BlockingDisk,
    offset: u64,
    data: *const c_void,
    len: usize,
) -> Status {
    // SAFETY: by the caller's promise.
    ended(unsafe { (*disk).write_at(offset, readable(data, len)) })
}

/// The same, and ends only once it is on stable media.
///
/// # Safety
/// As for [`linerate_write`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_write_durable(
    disk: *const BlockingDisk,
    offset: u64,
    data: *const c_void,
    len: usize,
) -> Status {
    // SAFETY: by the caller's promise.
    ended(unsafe { (*disk).write_durable_at(offset, readable(data, len)) })
}

/// Makes every write that has ended durable.
///
/// # Safety
/// `disk` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_flush(disk: *const BlockingDisk) -> Status {
    // SAFETY: by the caller's promise.
    ended(unsafe { &*disk }.flush())
}

/// Says that `len` bytes from byte `offset` are no longer needed.
///
/// # Safety
/// `disk` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_discard(disk: *const BlockingDisk, offset: u64, len: u64) -> Status {
    // SAFETY: by the caller's promise.
    ended(unsafe { &*disk }.discard(offset, len))
}

/// Makes `len` bytes from byte `offset` read as zeros.
///
/// # Safety
/// `disk` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_write_zeroes(disk: *const BlockingDisk, offset: u64, len: u64) -> Status {
    // SAFETY: by the caller's promise.
    ended(unsafe { &*disk }.write_zeroes(offset, len))
}

/// What [`linerate_compare_and_write`] compares and writes.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Exchange {
    /// What must be there.
    pub compare: *const c_void,
    /// What is to be there.
    pub write: *const c_void,
    /// Bytes of each.
    pub len: usize,
}

/// Compares the bytes from `offset`, and only if they are equal writes, atomically.
///
/// # Safety
/// `disk` is open; both parts of `exchange` have its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_compare_and_write(
    disk: *const BlockingDisk,
    offset: u64,
    exchange: *const Exchange,
) -> Status {
    // SAFETY: by the caller's promise.
    ended(unsafe {
        let Exchange { compare, write, len } = *exchange;
        (*disk).compare_and_write(offset, readable(compare, len), readable(write, len))
    })
}

#[cfg(test)]
mod tests;
