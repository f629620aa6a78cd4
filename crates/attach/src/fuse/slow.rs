//! Threads for requests that have to wait: parts of blocks, zeroing, and what is longer than one transfer.
//!
//! One thread takes the kernel's requests and hands them to the client's cores. Whoever waits beside it would be woken for every
//! request, by the program that makes it, although the first would have come by anyway: that costs both of them half
//! as much again. So what has to wait gets a thread of its own while it does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

use super::limits::SLOW;

/// The threads that wait.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slow(Arc<AtomicUsize>);

impl Slow {
    /// Does `work` on a thread of its own; on the calling one when there are as many as there may be, or none can be had.
    pub(crate) fn run(&self, work: impl FnOnce() + Send + 'static) {
        let room = |running: usize| (running < SLOW).then_some(running + 1);
        if self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, room).is_err() {
            return work();
        }
        let (work, running) = (Arc::new(Mutex::new(Some(work))), Arc::clone(&self.0));
        let own = Arc::clone(&work);
        let started = Builder::new().name("fuse-slow".to_owned()).spawn(move || {
            once(&own);
            running.fetch_sub(1, Ordering::AcqRel);
        });
        if started.is_err() {
            once(&work);
            self.0.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Does the queued work, on whichever thread comes first.
fn once(work: &Mutex<Option<impl FnOnce()>>) {
    let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(work) = work {
        work();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;

    use super::*;

    #[test]
    fn queued_work_blocks_no_caller_until_there_is_no_room() {
        let slow = Slow::default();
        let (tell, told) = channel();
        let gates: Vec<Sender<()>> = (0..SLOW)
            .map(|_| {
                let (open, gate): (Sender<()>, Receiver<()>) = channel();
                let tell = tell.clone();
                slow.run(move || {
                    gate.recv().unwrap();
                    tell.send(thread::current().id()).unwrap();
                });
                open
            })
            .collect();
        slow.run(move || tell.send(thread::current().id()).unwrap());
        let here = thread::current().id();
        assert_eq!(told.recv().unwrap(), here, "the caller's own, as all others wait");
        for gate in gates {
            gate.send(()).unwrap();
            assert_ne!(told.recv().unwrap(), here);
        }
    }
}
