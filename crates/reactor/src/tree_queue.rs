//! One core's reads and writes of whatever files are open, on its ring or on file threads.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Waker;

use host::{BlockRequest, TreeDone, TreeQueue};

use crate::completion_list::CompletionList;
use crate::core_local;
use crate::limits::FILE_DEPTH;
use crate::locked_file::Medium;
use crate::sys::FileOp;

/// Operations' boxes are used again, so that the steady state allocates nothing.
pub(crate) struct Queue {
    /// What operations hold that have no file: one that is open anyway.
    none: Arc<OwnedFd>,
    medium: Medium,
    completed: Arc<CompletionList<FileOp>>,
    free: Vec<Box<FileOp>>,
    taken: Vec<Box<FileOp>>,
    under_way: usize,
}

impl Queue {
    pub(crate) fn new(none: Arc<OwnedFd>, medium: Medium, waker: Waker) -> Self {
        let completed = Arc::new(CompletionList::new(waker));
        Self { none, medium, completed, free: Vec::new(), taken: Vec::new(), under_way: 0 }
    }
}

impl TreeQueue for Queue {
    fn submit(&mut self, file: &Arc<OwnedFd>, request: BlockRequest) -> Result<(), BlockRequest> {
        if self.under_way >= FILE_DEPTH {
            return Err(request);
        }
        self.under_way += 1;
        let new = || Box::new(FileOp::of_any(&self.none, self.medium, Arc::clone(&self.completed)));
        let mut op = self.free.pop().unwrap_or_else(new);
        op.load_for(file, request);
        if op.is_trivial() {
            op.finish();
        } else {
            core_local::start_file(op);
        }
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<TreeDone>) {
        self.completed.swap(&mut self.taken);
        self.under_way = self.under_way.saturating_sub(self.taken.len());
        for mut op in self.taken.drain(..) {
            let moved = op.moved();
            let ended = op.take_done();
            op.hold(&self.none);
            self.free.push(op);
            let data = ended.data.map(|data| if ended.result.is_ok() { data.slice(..moved) } else { data });
            done.push(TreeDone { tag: ended.tag, result: ended.result, data });
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.completed.close();
    }
}
