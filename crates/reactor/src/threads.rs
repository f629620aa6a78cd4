//! A few threads for file operations that block: all of them on the epoll driver, and seeking on both.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::limits::FILE_THREADS;
use crate::sys::FileOp;

/// What a thread is to do.
type Work = Box<dyn FnOnce() + Send>;

/// What waits for a thread.
enum Task {
    File(Box<FileOp>),
    Work(Work),
}

impl Task {
    fn run(self) {
        match self {
            Self::File(mut op) => {
                op.run();
                op.finish();
            }
            Self::Work(work) => work(),
        }
    }
}

/// What waits, and how many threads there are and have nothing to do.
#[derive(Default)]
struct State {
    waiting: VecDeque<Task>,
    threads: usize,
    idle: usize,
    /// Of those that have nothing to do, how many were woken and have not looked yet: each wake-up is a system call, whoever sleeps.
    woken: usize,
}

#[derive(Default)]
struct Threads {
    state: Mutex<State>,
    work: Condvar,
}

/// Runs `op` on a file thread; its completion goes to its queue. Queues limit how many can wait.
pub(crate) fn submit(op: Box<FileOp>) {
    start(Task::File(op));
}

/// Does `work` on a file thread. Whoever asks for it limits how much waits.
pub(crate) fn run(work: Work) {
    start(Task::Work(work));
}

fn start(task: Task) {
    static THREADS: OnceLock<Threads> = OnceLock::new();
    let threads = THREADS.get_or_init(Threads::default);
    let mut state = threads.lock();
    state.waiting.push_back(task);
    if state.idle < state.waiting.len() && state.threads < FILE_THREADS {
        let started = std::thread::Builder::new().name("file".to_owned()).spawn(|| threads.serve());
        state.threads += usize::from(started.is_ok());
    }
    if state.threads > 0 {
        if state.idle > state.woken {
            state.woken += 1;
            threads.work.notify_one();
        }
        return;
    }
    // Without a thread the work is done here, late rather than never.
    let stranded = state.waiting.pop_back();
    drop(state);
    if let Some(task) = stranded {
        task.run();
    }
}

impl Threads {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.waiting.pop_front() {
                drop(state);
                task.run();
                state = self.lock();
                continue;
            }
            state.idle += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            state.woken = state.woken.saturating_sub(1);
        }
    }
}
