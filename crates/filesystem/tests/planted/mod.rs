//! A file system with one bug: a test that cannot fail proves nothing.

use std::sync::{Arc, Mutex};

use filesystem::{
    Completion, Cookie, CookieVerifier, CreateHow, Credentials, Failure, Features, FileErrorKind, FileHandle,
    FileSystem, FileSystemQueue, FileType, Identity, Limits, OpenAccess, OpenError, OpenId, Operation,
    Outcome, QueueContext, QueueFull, Removal, Request, SetAttributes, Stability, Statistics, Tag,
};
use protocol::Instant;

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Every 50th completion is never told.
    DropsCompletion,
    /// Every 50th completion is told twice.
    CompletesTwice,
    /// A full queue gives another request back.
    FullQueueChangesRequest,
    /// The queue takes more than its depth.
    IgnoresDepth,
    /// Completions come late, and nobody is woken.
    WakesNobody,
    /// A read that fails keeps its buffer.
    KeepsReadMemory,
    /// A handle that nobody gave is the root's.
    AcceptsForgedHandles,
    /// The root is its own parent.
    ClimbsAboveRoot,
    /// A guarded creation takes what is there.
    IgnoresGuardedCreate,
    /// An exclusive creation cannot be repeated.
    ForgetsExclusiveVerifier,
    /// Taking a file cuts it.
    CutsWhatIsThere,
    /// What is removed is not looked at.
    RemovesAnything,
    /// The last byte of a write is lost.
    LosesLastByte,
    /// The end of a file is not told.
    HidesEnd,
    /// A durable write is told as unstable.
    WeakensStability,
    /// The verifier moves with each commit.
    MovesVerifier,
    /// The guard of attributes is passed over.
    IgnoresGuard,
    /// The change attribute stands still.
    StandsStill,
    /// A directory's change is told as none.
    TellsNoChange,
    /// The last entry of each page is left out.
    LosesEntries,
    /// The first entry after a removal is left out.
    SkipsAfterRemoval,
    /// The verifier of cookies is passed over.
    IgnoresCookieVerifier,
    /// A removal closes what is open.
    ClosesOnRemoval,
    /// What is opened for reading is open for writing.
    OpensForAnything,
    /// Everything is done as root.
    IgnoresCaller,
    /// Holes begin where they are looked for.
    FindsHolesInData,
    /// Space is not reserved.
    ReservesNothing,
    /// A copy goes one byte too far.
    CopiesElsewhere,
    /// A rename keeps the old name.
    KeepsOldName,
}

impl Bug {
    /// Every bug, and the checks of which one must find it.
    pub(crate) const ALL: &[(Self, &[&str])] = &[
        (Self::DropsCompletion, &["completes_exactly_once"]),
        (Self::CompletesTwice, &["completes_exactly_once"]),
        (Self::FullQueueChangesRequest, &["queue_full_gives_back"]),
        (Self::IgnoresDepth, &["queue_full_gives_back"]),
        (Self::WakesNobody, &["root_is_a_directory"]),
        (Self::KeepsReadMemory, &["failed_reads_return_memory"]),
        (Self::AcceptsForgedHandles, &["forged_handles_are_refused"]),
        (Self::ClimbsAboveRoot, &["parents_end_at_the_root"]),
        (Self::IgnoresGuardedCreate, &["create_guarded"]),
        (Self::ForgetsExclusiveVerifier, &["create_exclusive_can_be_repeated"]),
        (Self::CutsWhatIsThere, &["create_unchecked"]),
        (Self::RemovesAnything, &["removes_what_was_meant"]),
        (Self::LosesLastByte, &["dropping_a_queue", "queues_agree", "read_after_write"]),
        (Self::HidesEnd, &["reads_tell_the_end"]),
        (Self::WeakensStability, &["writes_are_as_durable_as_asked"]),
        (Self::MovesVerifier, &["writes_are_as_durable_as_asked"]),
        (Self::IgnoresGuard, &["guards_are_compared"]),
        (Self::StandsStill, &["directory_changes_are_told", "changes_are_noticed"]),
        (Self::TellsNoChange, &["directory_changes_are_told"]),
        (Self::LosesEntries, &["listings_have_everything_once"]),
        (Self::SkipsAfterRemoval, &["listings_survive_changes"]),
        (Self::IgnoresCookieVerifier, &["listings_refuse_what_makes_no_sense"]),
        (Self::ClosesOnRemoval, &["open_objects_outlive_their_names"]),
        (Self::OpensForAnything, &["opens_are_for_what_was_asked"]),
        (Self::IgnoresCaller, &["new_objects_are_the_callers"]),
        (Self::FindsHolesInData, &["holes_are_found"]),
        (Self::ReservesNothing, &["random_against_model", "space_is_reserved_and_released"]),
        (Self::CopiesElsewhere, &["copies_within"]),
        (Self::KeepsOldName, &["renames_replace"]),
    ];
}

/// A file system with a bug.
#[derive(Debug)]
pub(crate) struct Planted {
    inner: Arc<dyn FileSystem>,
    bug: Bug,
    opens: Arc<Mutex<Vec<OpenId>>>,
}

impl Planted {
    pub(crate) fn new(inner: Arc<dyn FileSystem>, bug: Bug) -> Self {
        Self { inner, bug, opens: Arc::default() }
    }
}

impl FileSystem for Planted {
    fn identity(&self) -> Identity {
        self.inner.identity()
    }

    fn limits(&self) -> Limits {
        let depth = if self.bug == Bug::IgnoresDepth { 16 } else { 64 };
        Limits { depth, ..self.inner.limits() }
    }

    fn features(&self) -> Features {
        self.inner.features()
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    fn root(&self) -> FileHandle {
        self.inner.root()
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn FileSystemQueue>, OpenError> {
        Ok(Box::new(PlantedQueue {
            inner: self.inner.open_queue(context)?,
            bug: self.bug,
            root: self.inner.root(),
            opens: Arc::clone(&self.opens),
            verifier: CookieVerifier::default(),
            removed: false,
            taken: 0,
            told: 0,
            held: Vec::new(),
            late: false,
        }))
    }
}

struct PlantedQueue {
    inner: Box<dyn FileSystemQueue>,
    bug: Bug,
    root: FileHandle,
    opens: Arc<Mutex<Vec<OpenId>>>,
    verifier: CookieVerifier,
    removed: bool,
    taken: usize,
    told: u64,
    held: Vec<Completion>,
    late: bool,
}

/// A mark that the submitter does not use.
const HIDDEN: Tag = Tag(u64::MAX);

impl PlantedQueue {
    /// Does something as root, unseen.
    fn run_hidden(&mut self, operation: Operation) -> Result<Outcome, FileErrorKind> {
        let credentials = Arc::new(Credentials::of(0, 0));
        self.inner.submit(Instant::ZERO, Request { tag: HIDDEN, credentials, operation }).unwrap();
        let mut done = Vec::new();
        self.inner.poll(Instant::ZERO, &mut done);
        let index = done.iter().position(|one| one.tag == HIDDEN).unwrap();
        let answer = done.swap_remove(index).outcome();
        self.held.append(&mut done);
        answer
    }

    fn twist_names(&mut self, operation: Operation) -> Operation {
        match (self.bug, operation) {
            (Bug::IgnoresGuardedCreate, Operation::Create { directory, name, how, open }) => {
                let how = match *how {
                    CreateHow::Guarded(attributes) => Box::new(CreateHow::Unchecked(attributes)),
                    other => Box::new(other),
                };
                Operation::Create { directory, name, how, open }
            }
            (Bug::ForgetsExclusiveVerifier, Operation::Create { directory, name, how, open }) => {
                let how = match *how {
                    CreateHow::Exclusive { attributes, .. } => Box::new(CreateHow::Guarded(attributes)),
                    other => Box::new(other),
                };
                Operation::Create { directory, name, how, open }
            }
            (Bug::CutsWhatIsThere, Operation::Create { directory, name, how, open }) => {
                let how = match *how {
                    CreateHow::Unchecked(attributes) => {
                        Box::new(CreateHow::Unchecked(SetAttributes { size: Some(0), ..attributes }))
                    }
                    other => Box::new(other),
                };
                Operation::Create { directory, name, how, open }
            }
            (Bug::RemovesAnything, Operation::Remove { directory, name, .. }) => {
                Operation::Remove { directory, name, removal: Removal::Any }
            }
            (Bug::ClosesOnRemoval, operation @ Operation::Remove { .. }) => {
                let opens = std::mem::take(&mut *self.opens.lock().unwrap());
                for open in opens {
                    let _ = self.run_hidden(Operation::Close { open });
                }
                operation
            }
            (Bug::KeepsOldName, Operation::Rename { from_directory, from, to_directory, to }) => {
                let lookup = Operation::Lookup { directory: from_directory, name: from.clone() };
                let found = match self.run_hidden(lookup) {
                    Ok(Outcome::Found(found)) if found.attributes.file_type == FileType::Regular => found,
                    _ => return Operation::Rename { from_directory, from, to_directory, to },
                };
                let _ = self.run_hidden(Operation::Remove {
                    directory: to_directory,
                    name: to.clone(),
                    removal: Removal::File,
                });
                Operation::Link { object: found.handle, directory: to_directory, name: to }
            }
            (Bug::AcceptsForgedHandles, Operation::GetAttributes { object }) => {
                match self.run_hidden(Operation::GetAttributes { object }) {
                    Err(_) => Operation::GetAttributes { object: self.root.into() },
                    Ok(_) => Operation::GetAttributes { object },
                }
            }
            (Bug::ClimbsAboveRoot, Operation::LookupParent { directory }) if directory == self.root => {
                let Ok(Outcome::Found(child)) = self.run_hidden(Operation::Lookup {
                    directory,
                    name: filesystem::Name::new(b"root_is_a_directory").unwrap(),
                }) else {
                    return Operation::LookupParent { directory };
                };
                Operation::LookupParent { directory: child.handle }
            }
            (_, operation) => operation,
        }
    }

    fn twisted(&mut self, operation: Operation) -> Operation {
        match (self.bug, operation) {
            (Bug::LosesLastByte, Operation::Write { file, offset, data, stability }) if data.len() > 1 => {
                let data = data.part(0, data.len() - 1);
                Operation::Write { file, offset, data, stability }
            }
            (Bug::IgnoresGuard, Operation::SetAttributes { object, attributes, .. }) => {
                Operation::SetAttributes { object, guard: None, attributes }
            }
            (Bug::OpensForAnything, Operation::Open { file, .. }) => {
                Operation::Open { file, access: OpenAccess::BOTH }
            }
            (Bug::ReservesNothing, Operation::Allocate { file, count, .. }) if count > 0 => {
                Operation::SetAttributes { object: file, guard: None, attributes: SetAttributes::default() }
            }
            (Bug::CopiesElsewhere, Operation::Copy(mut copy)) => {
                copy.to_offset += 1;
                Operation::Copy(copy)
            }
            (
                Bug::SkipsAfterRemoval | Bug::IgnoresCookieVerifier,
                Operation::ReadDirectory { directory, cookie, verifier, max_bytes, with_objects },
            ) => {
                let skips = self.bug == Bug::SkipsAfterRemoval && cookie != Cookie::START && self.removed;
                let cookie = if skips { Cookie(cookie.0 + 1) } else { cookie };
                let ignores = self.bug == Bug::IgnoresCookieVerifier;
                let verifier = if ignores { self.verifier } else { verifier };
                Operation::ReadDirectory { directory, cookie, verifier, max_bytes, with_objects }
            }
            (_, operation) => self.twist_names(operation),
        }
    }

    fn twist_outcome(&mut self, outcome: &mut Outcome) {
        match (self.bug, outcome) {
            (Bug::HidesEnd, Outcome::Data { eof, .. }) => *eof = false,
            (Bug::WeakensStability, Outcome::Written { stability, .. }) => *stability = Stability::Unstable,
            (Bug::MovesVerifier, Outcome::Committed { verifier, .. }) => verifier.0[0] ^= 1,
            (Bug::FindsHolesInData, Outcome::Sought { offset, .. }) => *offset = offset.saturating_sub(1),
            (Bug::StandsStill, Outcome::Attributes(attributes)) => attributes.change = 1,
            (Bug::StandsStill, Outcome::Found(object)) => object.attributes.change = 1,
            (Bug::TellsNoChange, Outcome::Removed(change)) => change.before.change = change.after.change,
            (Bug::TellsNoChange, Outcome::Created(created)) => {
                created.directory.before.change = created.directory.after.change;
            }
            (Bug::LosesEntries, Outcome::Page(page)) if page.entries.len() > 1 && !page.eof => {
                let last = page.entries.pop().unwrap();
                page.entries.last_mut().unwrap().cookie = last.cookie;
            }
            (Bug::ClosesOnRemoval, Outcome::Opened { open, .. }) => self.opens.lock().unwrap().push(*open),
            (_, Outcome::Page(page)) => self.verifier = page.verifier,
            _ => {}
        }
    }

    fn twist_answer(&mut self, result: &mut Result<Outcome, Failure>) {
        match result {
            Ok(outcome) => self.twist_outcome(outcome),
            Err(failure) if self.bug == Bug::KeepsReadMemory => failure.memory = None,
            Err(_) => {}
        }
    }
}

impl FileSystemQueue for PlantedQueue {
    fn submit(&mut self, now: Instant, mut request: Request) -> Result<(), QueueFull> {
        if self.taken >= 64 {
            if self.bug == Bug::FullQueueChangesRequest {
                request.operation = Operation::GetSpace;
            }
            return Err(QueueFull(request));
        }
        if self.bug == Bug::IgnoresCaller {
            request.credentials = Arc::new(Credentials::of(0, 0));
        }
        self.removed |= matches!(request.operation, Operation::Remove { .. });
        request.operation = self.twisted(request.operation);
        self.taken += 1;
        self.inner.submit(now, request)
    }

    fn cancel(&mut self, tag: Tag) {
        self.inner.cancel(tag);
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        let mut fresh = std::mem::take(&mut self.held);
        self.inner.poll(now, &mut fresh);
        if self.bug == Bug::WakesNobody && !fresh.is_empty() {
            self.late = !self.late;
            if self.late {
                self.held = fresh;
                return;
            }
        }
        self.taken -= fresh.len();
        for mut completion in fresh {
            self.told += 1;
            self.twist_answer(&mut completion.result);
            let special = self.told.is_multiple_of(50);
            if special && self.bug == Bug::CompletesTwice {
                done.push(Completion { tag: completion.tag, result: Ok(Outcome::Done) });
            }
            if !(special && self.bug == Bug::DropsCompletion) {
                done.push(completion);
            }
        }
    }
}
