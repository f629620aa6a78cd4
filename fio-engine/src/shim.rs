//! The C interface of this side, as `shim.c` declares it; and the symbol that fio looks for, which has to come from here:
//! a shared library of Rust's hides those of its C parts.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::time::Duration;

use crate::memory::Memory;
use crate::session::{Ask, Kind, Session};

unsafe extern "C" {
    /// The engine's table, or null where this is not the fio that it was built for.
    fn linerate_fio_operations() -> *mut c_void;
    /// Puts a text into fio's log of errors.
    fn linerate_fio_say(text: *const c_char);
}

fn say(text: &str) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // SAFETY: the text ends with a zero and lives during the call.
    unsafe { linerate_fio_say(text.as_ptr()) };
}

/// What fio calls after it has loaded the engine.
///
/// # Safety
/// `operations` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn get_ioengine(operations: *mut *mut c_void) {
    // SAFETY: by the caller's promise; the table is static.
    unsafe { *operations = linerate_fio_operations() };
}

/// Opens the volumes of `uri`; null after an error, which was told.
///
/// # Safety
/// `uri` is null or a text that ends with a zero.
unsafe fn open(uri: *const c_char, spin: i64) -> Option<Box<Session>> {
    let uri = if uri.is_null() {
        String::new()
    } else {
        // SAFETY: by the caller's promise.
        unsafe { CStr::from_ptr(uri) }.to_string_lossy().into_owned()
    };
    let spin = u64::try_from(spin).ok().map(Duration::from_micros);
    match Session::open(&uri, spin) {
        Ok(session) => Some(Box::new(session)),
        Err(text) => {
            say(&text);
            None
        }
    }
}

/// Finds out the sizes of the volumes of `uri`, at most `room`, and says how many there are; negative after an error,
/// which was told.
///
/// # Safety
/// `uri` is null or a text that ends with a zero; `sizes` has room for so many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_fio_sizes(uri: *const c_char, sizes: *mut u64, room: usize) -> isize {
    // SAFETY: by the caller's promise.
    let Some(mut session) = (unsafe { open(uri, -1) }) else { return -1 };
    let found = session.sizes();
    if found.len() > room {
        say(&format!("uri= names {} volumes, more than the {room} that a job can have", found.len()));
        return -1;
    }
    // SAFETY: by the caller's promise there is room for as many as were found.
    unsafe { ptr::copy_nonoverlapping(found.as_ptr(), sizes, found.len()) };
    isize::try_from(found.len()).unwrap_or(-1)
}

/// Opens the volumes of `uri` on the calling thread, to spin for so many microseconds (below zero: as suits the machine);
/// null after an error, which was told.
///
/// # Safety
/// `uri` is null or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_fio_open(uri: *const c_char, spin: i64) -> *mut Session {
    // SAFETY: by the caller's promise.
    unsafe { open(uri, spin) }.map_or(ptr::null_mut(), Box::into_raw)
}

/// Closes what [`linerate_fio_open`] opened, on the thread that opened it.
///
/// # Safety
/// `session` came from there and was not closed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_fio_close(session: *mut Session) {
    // SAFETY: by the caller's promise.
    drop(unsafe { Box::from_raw(session) });
}

/// Memory for a job's buffers, where its volumes reach it best: who owns it, for [`linerate_fio_release`], and where it is. Null when there is none.
///
/// # Safety
/// `session` is open; `memory` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_fio_memory(
    session: *mut Session,
    len: usize,
    memory: *mut *mut c_void,
) -> *mut c_void {
    // SAFETY: by the caller's promise.
    let session = unsafe { &mut *session };
    let Some(mut owner) = session.memory(len) else {
        say(&format!("there are no {len} bytes of memory for buffers"));
        return ptr::null_mut();
    };
    // SAFETY: by the caller's promise.
    unsafe { *memory = owner.memory().as_mut_ptr().cast() };
    Box::into_raw(Box::new(owner)).cast()
}

/// Gives memory back that [`linerate_fio_memory`] gave.
///
/// # Safety
/// `owner` came from there and was not given back yet; nobody uses its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_fio_release(owner: *mut c_void) {
    // SAFETY: by the caller's promise.
    drop(unsafe { Box::from_raw(owner.cast::<Box<dyn linerate::Foreign>>()) });
}

/// A request, as `shim.c` fills it in.
#[derive(Debug)]
#[repr(C)]
pub struct Request {
    /// fio's request.
    handle: *mut c_void,
    /// Data, or room for it.
    memory: *mut c_void,
    /// Bytes of it.
    len: u64,
    /// Byte where it begins.
    offset: u64,
    /// The volume's place in `uri`.
    disk: u32,
    /// 0 read, 1 write, 2 durable write, 3 trim, 4 flush.
    kind: u32,
}

/// Takes a request; an error number if it does not fit, which was told.
///
/// # Safety
/// `session` is open. The request's memory is as [`Memory::new`] demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_fio_queue(session: *mut Session, request: *const Request) -> c_int {
    // SAFETY: by the caller's promise.
    let (session, request) = unsafe { (&mut *session, &*request) };
    let kind = match request.kind {
        0 => Kind::Read,
        1 => Kind::Write { durable: false },
        2 => Kind::Write { durable: true },
        3 => Kind::Trim,
        _ => Kind::Sync,
    };
    let len = if kind == Kind::Sync { 0 } else { usize::try_from(request.len).unwrap_or(usize::MAX) };
    let start = if len == 0 { ptr::NonNull::dangling().as_ptr() } else { request.memory.cast() };
    // SAFETY: by the caller's promise.
    let memory = unsafe { Memory::new(start, len) };
    let handle = request.handle.expose_provenance();
    match session.queue(Ask { kind, disk: request.disk as usize, offset: request.offset, memory, handle }) {
        Ok(()) => 0,
        Err(text) => {
            say(&text);
            22
        }
    }
}

/// Waits for completions as fio's `getevents` does: `nanoseconds` is negative where there is no limit. Negative after an
/// error, which was told.
///
/// # Safety
/// `session` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_fio_fetch(
    session: *mut Session,
    least: u32,
    most: u32,
    nanoseconds: i64,
) -> c_int {
    // SAFETY: by the caller's promise.
    let session = unsafe { &mut *session };
    let limit = u64::try_from(nanoseconds).ok().map(Duration::from_nanos);
    let fetched = session.fetch(least as usize, most as usize, limit);
    if let Some(text) = session.complaint() {
        say(&text);
    }
    match fetched {
        Ok(count) => c_int::try_from(count).unwrap_or(c_int::MAX),
        Err(text) => {
            say(&text);
            -5
        }
    }
}

/// One of the requests that were fetched, and its error number; null if there is none of that index.
///
/// # Safety
/// `session` is open; `error` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_fio_event(
    session: *const Session,
    index: u32,
    error: *mut c_int,
) -> *mut c_void {
    // SAFETY: by the caller's promise.
    let session = unsafe { &*session };
    let Some(event) = session.event(index as usize) else { return ptr::null_mut() };
    // SAFETY: by the caller's promise.
    unsafe { *error = event.error };
    ptr::with_exposed_provenance_mut(event.handle)
}
