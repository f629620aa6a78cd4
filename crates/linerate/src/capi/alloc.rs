//! Memory for a C program's requests that other processes can map: a device of shared memory (`vhost-user:`) fills it, and takes from it, without a copy.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use buf::{Foreign, MemorySource};
use vhost_user::SharedMemory;

/// What was given out, by where it begins.
static GIVEN: Mutex<BTreeMap<usize, Box<dyn Foreign>>> = Mutex::new(BTreeMap::new());

/// `len` bytes of zeros, at a page's beginning; null if there are none. Each has a file descriptor and whole pages of its own: meant for one large piece with many
/// buffers in it.
#[unsafe(no_mangle)]
pub extern "C" fn linerate_alloc(len: usize) -> *mut c_void {
    let Some(mut owner) = SharedMemory::of_process().obtain(len.max(1)) else { return ptr::null_mut() };
    let start = owner.memory().as_mut_ptr();
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner).insert(start.addr(), owner);
    start.cast()
}

/// Gives memory of [`linerate_alloc`] back; null is passed over.
///
/// # Safety
/// `memory` is null, or came from there and was not given back yet, and no request uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_free(memory: *mut c_void) {
    let owner = GIVEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&memory.addr());
    drop(owner);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_can_be_used_until_it_is_given_back() {
        let memory = linerate_alloc(10_000);
        assert!(!memory.is_null() && memory.addr().is_multiple_of(4096));
        // SAFETY: it is as long, and nobody else has it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(memory.cast::<u8>(), 10_000) };
        assert!(bytes.iter().all(|byte| *byte == 0));
        bytes.fill(7);
        // SAFETY: it came from there, and nobody uses it after this.
        unsafe { linerate_free(memory) };
        assert!(!GIVEN.lock().unwrap().contains_key(&memory.addr()));
        // SAFETY: null is passed over.
        unsafe { linerate_free(ptr::null_mut()) };
        assert!(linerate_alloc(usize::MAX).is_null());
    }
}
