//! One request on a thread that may block, and where its end goes.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use filesystem::{
    Completion, Credentials, Failure, FileErrorKind, OpenAccess, Operation, Outcome, Tag, Target,
};
use host::RangeChange;
use protocol::Instant;

use super::attributes;
use super::data::{self, Answered, Range, Unread, Writing};
use super::listing::{self, Listing};
use super::names::{self, Place};
use super::shared::{Data, Opened, Shared};

/// What a core may do by itself from now on.
pub(super) struct Learned {
    pub(super) target: Target,
    pub(super) caller: Arc<Credentials>,
    pub(super) opened: Opened,
    /// When it was judged, and by which generation.
    pub(super) judged: Instant,
    pub(super) generation: u64,
}

/// The end of a job.
pub(super) struct Ended {
    pub(super) completion: Completion,
    pub(super) learned: Option<Learned>,
}

/// Ends of one queue's jobs, on whatever thread, until the queue takes them.
pub(super) struct EndedJobs {
    list: Mutex<Vec<Ended>>,
    waker: Waker,
}

impl EndedJobs {
    pub(super) const fn new(waker: Waker) -> Self {
        Self { list: Mutex::new(Vec::new()), waker }
    }

    fn put(&self, ended: Ended) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
        self.waker.wake_by_ref();
    }

    /// Swaps what has ended with an empty list.
    pub(super) fn swap(&self, with: &mut Vec<Ended>) {
        std::mem::swap(&mut *self.list.lock().unwrap_or_else(PoisonError::into_inner), with);
    }
}

/// A request that may block.
pub(super) struct Job {
    pub(super) shared: Arc<Shared>,
    pub(super) ended: Arc<EndedJobs>,
    pub(super) tag: Tag,
    pub(super) caller: Arc<Credentials>,
    pub(super) operation: Operation,
    pub(super) now: Instant,
}

impl Job {
    /// Carries the request out.
    pub(super) fn run(self) {
        let Self { shared, ended, tag, caller, operation, now } = self;
        let generation = shared.generation();
        let learn = |target: Target, data: Data| Learned {
            target,
            caller: Arc::clone(&caller),
            opened: Opened { handle: target.file, data },
            judged: now,
            generation,
        };
        let (result, learned) = match operation {
            Operation::Read { file, offset, into } => match data::read(&shared, &caller, &file, offset, into)
            {
                Ok(Answered { outcome, data }) => (Ok(outcome), Some(learn(file, data))),
                Err(Unread { kind, into }) => (Err(Failure { kind, memory: Some(into) }), None),
            },
            Operation::Write { file, offset, data, stability } => {
                let writing = Writing { file: &file, offset, data: &data, stability };
                match data::write(&shared, &caller, &writing) {
                    Ok(Answered { outcome, data }) => (Ok(outcome), Some(learn(file, data))),
                    Err(kind) => (Err(kind.into()), None),
                }
            }
            other => {
                // What handles need is durable before anybody has them.
                let outcome = carry_out(&shared, &caller, other);
                let outcome = match (outcome, shared.settle()) {
                    (Ok(outcome), Err(kind)) => {
                        close_again(&shared, &outcome);
                        Err(kind)
                    }
                    (outcome, _) => outcome,
                };
                (outcome.map_err(Failure::from), None)
            }
        };
        ended.put(Ended { completion: Completion { tag, result }, learned });
    }
}

/// Nobody hears of an outcome: what it has opened is closed.
fn close_again(shared: &Shared, outcome: &Outcome) {
    if let Outcome::Created(created) = outcome
        && let Some(open) = created.open
    {
        // It was opened just now.
        let _ = shared.close(open);
    }
}

/// Carries out what neither reads nor writes.
fn carry_out(shared: &Shared, caller: &Credentials, operation: Operation) -> Result<Outcome, FileErrorKind> {
    match operation {
        Operation::Commit { file, .. } => data::commit(shared, caller, &file),
        Operation::Seek { file, offset, what } => data::seek(shared, caller, &file, offset, what),
        Operation::Allocate { file, offset, count } => {
            data::change_space(shared, caller, &file, Range { offset, count }, RangeChange::Reserved)
        }
        Operation::Deallocate { file, offset, count } => {
            data::change_space(shared, caller, &file, Range { offset, count }, RangeChange::Hole)
        }
        Operation::Copy(copy) => data::copy(shared, caller, &copy),
        Operation::GetAttributes { object } => attributes::get(shared, &object),
        Operation::SetAttributes { object, guard, attributes: wanted } => {
            attributes::set(shared, caller, &object, guard, &wanted)
        }
        Operation::Access { object, access } => attributes::access(shared, caller, &object, access),
        Operation::ReadLink { object } => attributes::read_link(shared, &object),
        Operation::ReadDirectory { directory, cookie, verifier, max_bytes, with_objects } => {
            let listing = Listing { cookie, verifier, max_bytes, with_objects };
            listing::read_directory(shared, caller, &directory, listing)
        }
        Operation::GetSpace => attributes::space(shared),
        other => change_names(shared, caller, other),
    }
}

/// Carries out what concerns names and opens.
fn change_names(
    shared: &Shared,
    caller: &Credentials,
    operation: Operation,
) -> Result<Outcome, FileErrorKind> {
    match operation {
        Operation::Lookup { directory, name } => {
            names::lookup(shared, caller, Place { directory: &directory, name: &name })
        }
        Operation::LookupParent { directory } => names::lookup_parent(shared, caller, &directory),
        Operation::Create { directory, name, how, open } => {
            names::create(shared, caller, Place { directory: &directory, name: &name }, &how, open)
        }
        Operation::Make { directory, name, object, attributes } => {
            names::make(shared, caller, Place { directory: &directory, name: &name }, &object, &attributes)
        }
        Operation::Remove { directory, name, removal } => {
            names::remove(shared, caller, Place { directory: &directory, name: &name }, removal)
        }
        Operation::Rename { from_directory, from, to_directory, to } => {
            let source = Place { directory: &from_directory, name: &from };
            names::rename(shared, caller, source, Place { directory: &to_directory, name: &to })
        }
        Operation::Link { object, directory, name } => {
            names::link(shared, caller, &object, Place { directory: &directory, name: &name })
        }
        Operation::Open { file, access } => open(shared, caller, &file.into(), access),
        Operation::Close { open } => shared.close(open).map(|()| Outcome::Done),
        _ => Err(FileErrorKind::NotSupported),
    }
}

fn open(
    shared: &Shared,
    caller: &Credentials,
    file: &Target,
    access: OpenAccess,
) -> Result<Outcome, FileErrorKind> {
    let (node, data) = shared.data_of(file, caller, access)?;
    let open = shared.open(&node, data)?;
    Ok(Outcome::Opened { open, attributes: Box::new(shared.attributes(&node.stat)) })
}
