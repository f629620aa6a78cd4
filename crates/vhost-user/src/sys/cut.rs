//! Memory that its lender may take away: a file that is made shorter than its mapping.
//!
//! The processor then reports a bus error, which ends a process that has no answer to it, and with it everybody else whom it serves. Here the answer is memory of zeros in place of the whole
//! mapping, and a mark: whoever uses it goes on with nothing, and sees the mark.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Mappings of this sort at a time. The handler looks through them without a lock.
const MOST: usize = 4096;

/// One mapping. An empty one begins at zero.
struct Entry {
    start: AtomicUsize,
    end: AtomicUsize,
    was_cut: AtomicBool,
}

static TABLE: [Entry; MOST] = [const {
    Entry { start: AtomicUsize::new(0), end: AtomicUsize::new(0), was_cut: AtomicBool::new(false) }
}; MOST];

/// What was done with bus errors before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A place in the table, for as long as the mapping is there.
#[derive(Debug)]
pub(super) struct Guard(usize);

impl Guard {
    /// Answers bus errors in these bytes.
    ///
    /// # Errors
    /// There are too many mappings, or the system takes no handler.
    pub(super) fn new(start: usize, len: usize) -> io::Result<Self> {
        install()?;
        for (at, entry) in TABLE.iter().enumerate() {
            // Taken by whoever writes its end first: an entry counts once it has a beginning, too.
            if entry.end.compare_exchange(0, start + len, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                entry.was_cut.store(false, Ordering::Relaxed);
                entry.start.store(start, Ordering::Release);
                return Ok(Self(at));
            }
        }
        Err(io::Error::other("too much memory is lent: end some of those who lend it"))
    }

    fn entry(&self) -> Option<&'static Entry> {
        TABLE.get(self.0)
    }

    /// Whether the lender has taken some of it away.
    pub(super) fn was_cut(&self) -> bool {
        self.entry().is_some_and(|entry| entry.was_cut.load(Ordering::Acquire))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(entry) = self.entry() {
            entry.start.store(0, Ordering::Release);
            entry.end.store(0, Ordering::Release);
        }
    }
}

/// Has bus errors answered from now on.
fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        let mut before = MaybeUninit::uninit();
        // SAFETY: an all-zero action is a valid one, whose mask is empty.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = answer as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        // SAFETY: the handler uses atomics, `mmap` and `sigaction` alone, which may be used in one.
        let code = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, before.as_mut_ptr()) };
        if code != 0 {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL));
        }
        // SAFETY: the call has succeeded, and filled it in.
        let _first = BEFORE.set(unsafe { before.assume_init() });
        Ok(())
    });
    installed.map_err(io::Error::from_raw_os_error)
}

/// Answers a bus error.
extern "C" fn answer(signal: libc::c_int, about: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel tells of the error.
    let address = unsafe { (*about).si_addr() }.addr();
    for entry in &TABLE {
        let (start, end) = (entry.start.load(Ordering::Acquire), entry.end.load(Ordering::Acquire));
        if start == 0 || !(start..end).contains(&address) {
            continue;
        }
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let place = ptr::with_exposed_provenance_mut(start);
        // SAFETY: the bytes are those of a mapping whose owner has it still, and uses it through atomics alone.
        let zeros = unsafe { libc::mmap(place, end - start, rights, flags, -1, 0) };
        if zeros != libc::MAP_FAILED {
            entry.was_cut.store(true, Ordering::Release);
            return;
        }
    }
    // Nobody lent this: what was done before is done now, when the instruction is tried again.
    if let Some(before) = BEFORE.get() {
        // SAFETY: it was the action before.
        unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
    } else {
        // SAFETY: as above; without one the process ends.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
