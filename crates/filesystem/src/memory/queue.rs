//! One core's queue of the file system in memory: it answers at once, and keeps completions until the next poll.

use std::sync::{Arc, Mutex};

use protocol::Instant;

use super::attributes::Listing;
use super::data::{Range, SpaceChange};
use super::namespace::Place;
use super::state::{Call, State, lock};
use super::{attributes, data, namespace};
use crate::{
    Completion, Failure, Features, FileErrorKind, FileSystemQueue, Limits, Operation, Outcome, QueueFull,
    Request, Tag, Time, shape,
};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

pub(super) struct MemoryQueue {
    state: Arc<Mutex<State>>,
    limits: Limits,
    features: Features,
    ready: Vec<Completion>,
}

impl MemoryQueue {
    pub(super) const fn new(state: Arc<Mutex<State>>, limits: Limits, features: Features) -> Self {
        Self { state, limits, features, ready: Vec::new() }
    }
}

/// The time of day.
fn time(start: Time, now: Instant) -> Time {
    let nanos = now.as_nanos() % SECOND + u64::from(start.nanos);
    let seconds = now.as_nanos() / SECOND + nanos / SECOND;
    Time { seconds: start.seconds.saturating_add_unsigned(seconds), nanos: wire::saturate(nanos % SECOND) }
}

/// Carries a request out.
fn carry_out(state: &mut State, call: &Call<'_>, operation: Operation) -> Result<Outcome, Failure> {
    let answer = match operation {
        Operation::Read { file, offset, into } => {
            return data::read(state, call, &file, offset, into)
                .map_err(|(kind, into)| Failure { kind, memory: Some(into) });
        }
        Operation::Write { file, offset, data, stability } => {
            data::write(state, call, &file, offset, &data, stability)
        }
        Operation::Commit { file, .. } => data::commit(state, call, &file),
        Operation::Seek { file, offset, what } => data::seek(state, call, &file, offset, what),
        Operation::Allocate { file, offset, count } => {
            data::change_space(state, call, &file, Range { offset, count }, SpaceChange::Allocate)
        }
        Operation::Deallocate { file, offset, count } => {
            data::change_space(state, call, &file, Range { offset, count }, SpaceChange::Deallocate)
        }
        Operation::Copy(copy) => data::copy(state, call, &copy),
        Operation::GetAttributes { object } => attributes::get(state, &object),
        Operation::SetAttributes { object, guard, attributes: wanted } => {
            attributes::set(state, call, &object, guard, &wanted)
        }
        Operation::Access { object, access } => attributes::access(state, call, &object, access),
        Operation::ReadLink { object } => attributes::read_link(state, &object),
        Operation::ReadDirectory { directory, cookie, verifier, max_bytes, with_objects } => {
            let listing = Listing { cookie, verifier, max_bytes, with_objects };
            attributes::read_directory(state, call, &directory, listing)
        }
        Operation::GetSpace => Ok(Outcome::Space(Box::new(attributes::space(state)))),
        other => change_names(state, call, other),
    };
    answer.map_err(Failure::from)
}

/// Carries out what concerns names and opens.
fn change_names(state: &mut State, call: &Call<'_>, operation: Operation) -> Result<Outcome, FileErrorKind> {
    match operation {
        Operation::Lookup { directory, name } => namespace::lookup(state, call, &directory, &name),
        Operation::LookupParent { directory } => namespace::lookup_parent(state, call, &directory),
        Operation::Create { directory, name, how, open } => {
            namespace::create(state, call, Place { directory: &directory, name: &name }, &how, open)
        }
        Operation::Make { directory, name, object, attributes } => {
            namespace::make(state, call, Place { directory: &directory, name: &name }, *object, &attributes)
        }
        Operation::Remove { directory, name, removal } => {
            namespace::remove(state, call, &directory, &name, removal)
        }
        Operation::Rename { from_directory, from, to_directory, to } => {
            let source = Place { directory: &from_directory, name: &from };
            namespace::rename(state, call, source, Place { directory: &to_directory, name: &to })
        }
        Operation::Link { object, directory, name } => {
            namespace::link(state, call, &object, Place { directory: &directory, name: &name })
        }
        Operation::Open { file, access } => {
            let fileid = state.data_of(&file.into(), call.caller, access)?;
            let open = state.open(fileid, access)?;
            Ok(Outcome::Opened { open, attributes: Box::new(state.attributes(fileid)?) })
        }
        Operation::Close { open } => state.close(open).map(|()| Outcome::Done),
        _ => Err(FileErrorKind::NotSupported),
    }
}

impl FileSystemQueue for MemoryQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        if self.ready.len() >= self.limits.depth as usize {
            return Err(QueueFull(request));
        }
        let Request { tag, credentials, operation } = request;
        let mut state = lock(&self.state);
        let refused = shape::check(&operation, &self.limits, self.features).err();
        let result = if let Some(kind) = refused {
            Err(Failure::of(operation, kind))
        } else {
            let now = time(state.options().start, now);
            carry_out(&mut state, &Call { caller: &credentials, now }, operation)
        };
        state.statistics.requests += 1;
        state.statistics.failed += u64::from(result.is_err());
        self.ready.push(Completion { tag, result });
        Ok(())
    }

    fn cancel(&mut self, _tag: Tag) {}

    fn poll(&mut self, _now: Instant, done: &mut Vec<Completion>) {
        done.append(&mut self.ready);
    }
}
