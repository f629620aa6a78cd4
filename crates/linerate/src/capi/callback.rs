//! The callback that a C program gives with a request, on its way to the thread that ends the request.

use std::ffi::c_void;

use super::status::Status;

/// Told how a request ended, with the context that came with it, on a thread of the client's: its memory is the program's again
/// then, whatever the end. It must not wait.
pub type Callback = unsafe extern "C" fn(context: *mut c_void, status: Status);

/// A callback with its context, on its way to another thread.
pub(super) struct CompletionCallback {
    callback: Callback,
    context: *mut c_void,
}

// SAFETY: the program promised that its callback may be called on any thread.
unsafe impl Send for CompletionCallback {}
// SAFETY: as above; it is called once, by whoever ends the request.
unsafe impl Sync for CompletionCallback {}

impl CompletionCallback {
    /// The promise of `linerate_submit` holds for both.
    pub(super) fn new(callback: Callback, context: *mut c_void) -> Self {
        Self { callback, context }
    }

    /// Calls back.
    pub(super) fn call(&self, status: Status) {
        // SAFETY: by the promise of `linerate_submit`.
        unsafe { (self.callback)(self.context, status) };
    }
}
