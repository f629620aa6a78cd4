//! What a client's handles and its disks hold together: the way to the cores, which end with the last of them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;

use host::Postbox;

use super::core::Message;

/// What a client's handles and disks share.
pub(crate) struct Shared {
    /// Tells one client's cores from another's.
    pub(super) id: u64,
    /// Requests under way at a time for each disk and core.
    pub(super) depth: usize,
    /// The way to the cores.
    pub(super) postbox: Arc<dyn Postbox<Message>>,
    /// The cores' threads.
    pub(super) threads: Vec<JoinHandle<io::Result<()>>>,
    /// The number of the next disk.
    pub(super) next_disk: AtomicU64,
}

impl Drop for Shared {
    /// Ends the loops. The last handle may go on a core's own thread, in a callback: that one is not waited for.
    fn drop(&mut self) {
        for core in 0..self.postbox.cores() {
            self.postbox.post(core, Message::Shutdown);
        }
        let here = std::thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != here) {
            // What a loop or a callback failed with was told to whoever waited for it.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("cores", &self.postbox.cores()).finish_non_exhaustive()
    }
}
