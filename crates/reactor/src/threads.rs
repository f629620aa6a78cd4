//! A few threads for file operations that block: all of them on the epoll driver, and seeking on both.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::limits::FILE_THREADS;
use crate::sys::FileOp;

/// What waits, and how many threads there are and have nothing to do.
#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Box<FileOp>>,
    threads: usize,
    idle: usize,
}

#[derive(Debug, Default)]
struct Threads {
    state: Mutex<State>,
    work: Condvar,
}

/// Runs `op` on a file thread; its completion goes to its queue. Queues limit how many can wait.
pub(crate) fn submit(op: Box<FileOp>) {
    static THREADS: OnceLock<Threads> = OnceLock::new();
    let threads = THREADS.get_or_init(Threads::default);
    let mut state = threads.lock();
    state.waiting.push_back(op);
    if state.idle < state.waiting.len() && state.threads < FILE_THREADS {
        let started = std::thread::Builder::new().name("file".to_owned()).spawn(|| threads.serve());
        state.threads += usize::from(started.is_ok());
    }
    if state.threads > 0 {
        threads.work.notify_one();
        return;
    }
    // Without a thread the work is done here, late rather than never.
    let stranded = state.waiting.pop_back();
    drop(state);
    if let Some(mut op) = stranded {
        op.run();
        op.finish();
    }
}

impl Threads {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(mut op) = state.waiting.pop_front() {
                drop(state);
                op.run();
                op.finish();
                state = self.lock();
                continue;
            }
            state.idle += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}
