//! What a C program can learn beside data: what portals offer, and how volumes are allocated.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

use super::status::Status;
use super::{ended, fail, with_causes};
use crate::client::BlockingDisk;

/// Bytes that are allocated alike.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Run {
    /// The first byte, as the program asks.
    pub offset: u64,
    /// How many the program asks about, then how many of them are alike.
    pub len: u64,
    /// 0 when no space is behind them: they read as zeros. Else 1.
    pub allocated: u32,
}

/// Says how the bytes of `run` are allocated: the first of its runs takes its place. A volume that cannot tell is allocated.
///
/// # Safety
/// `disk` is open; `run` can be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_allocation(disk: *const BlockingDisk, run: *mut Run) -> Status {
    // SAFETY: by the caller's promise.
    let (disk, asked) = unsafe { (&*disk, *run) };
    match disk.allocation(asked.offset, asked.len) {
        Ok(found) => {
            let answer = Run { offset: found.offset, len: found.len, allocated: u32::from(found.allocated) };
            // SAFETY: by the caller's promise.
            unsafe { *run = answer };
            Status::Ok
        }
        Err(error) => ended(Err(error)),
    }
}

/// Told what a portal offers, once for each: its name, its address, and, unless null, why it is not known what is behind it. The texts
/// live until it returns.
pub type FoundCallback = unsafe extern "C" fn(
    context: *mut c_void,
    name: *const c_char,
    address: *const c_char,
    error: *const c_char,
);

/// Asks the portal that `url` names what it offers, and tells `found` before it returns.
///
/// # Safety
/// `url` ends with a zero; `found` takes `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_discover(
    url: *const c_char,
    found: FoundCallback,
    context: *mut c_void,
) -> Status {
    // SAFETY: by the caller's promise.
    let Ok(url) = unsafe { CStr::from_ptr(url) }.to_str() else {
        return fail(Status::BadUrl, "the portal's URL is not UTF-8");
    };
    let url = match url.parse() {
        Ok(url) => url,
        Err(error) => return fail(Status::BadUrl, &format!("{error}")),
    };
    let entries = match crate::discover(&url) {
        Ok(entries) => entries,
        Err(error) => return fail(Status::CannotOpen, &with_causes(&error)),
    };
    for entry in entries {
        let text = |text: &str| CString::new(text.replace('\0', " ")).unwrap_or_default();
        let (name, address) = (text(&entry.name), text(&entry.address));
        let error = entry.error.as_deref().map(text);
        let why = error.as_ref().map_or(ptr::null(), |why| why.as_ptr());
        // SAFETY: by the caller's promise; the texts live until it returns.
        unsafe { found(context, name.as_ptr(), address.as_ptr(), why) };
    }
    Status::Ok
}
