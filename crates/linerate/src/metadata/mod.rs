//! What a server of files does with names: mdtest's pattern over NFS, each phase timed by itself.
//!
//! mdtest (of the IOR suite) makes a tree of directories with files in each, asks for the attributes of every file, removes all files and then the directories.
//! Between, each directory is listed here. Nothing is written into the files, so that what is measured is the server's names and nothing else; and there is no
//! cache of a kernel between, so that each operation is one of the server's.
//!
//! One connection carries all, with as many operations under way as the plan says. The loop sleeps in the socket: whoever wants to compare servers by their
//! processor time reads that of the servers.

mod plan;
mod tree;
pub(crate) mod wire;

use std::time::Duration;

use backends::SystemResolver;
use engine::remote;
use hdrhistogram::Histogram;
use names::NfsUrl;
use nfs::client::names::NameOperation;

pub use plan::{MOST_IN_FLIGHT, MetadataPhase, MetadataPlan, MetadataResult, Names, NamesError};
use tree::{Phase, Tree};
use wire::{Answer, Wire};

use crate::control::Stop;

/// Runs the load in the directory that `url` names. What it makes is in one new directory there, and gone at the end.
///
/// # Errors
/// See [`NamesError`].
pub fn run_metadata(
    url: &NfsUrl,
    plan: &MetadataPlan,
    stop: &Stop,
    progress: &dyn Fn(&'static str, u64),
) -> Result<MetadataResult, NamesError> {
    let directories = plan.names().ok_or(NamesError::TooMany)?.directories;
    let addresses = remote::resolve(&url.portal, &SystemResolver)?;
    let (mut wire, ready) = Wire::connect(&addresses, url)?;
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| NamesError::Client(error.to_string()))?;
    let root = format!("linerate-metadata-{:016x}", u64::from_be_bytes(random));
    let in_flight = plan.in_flight.clamp(1, ::wire::index(u64::from(ready.slots).max(1)));
    let tree = Tree::new(plan, root, ready.directory, ::wire::index(directories));
    let mut result = MetadataResult { minor: ready.minor, in_flight, phases: Vec::new(), stopped: false };
    let mut load = Load { wire: &mut wire, tree, in_flight, progress };
    for phase in Phase::ALL {
        if stop.is_set() {
            result.stopped = true;
        }
        // What was made is removed again even then.
        if !result.stopped || phase.removes() {
            result.phases.extend(load.run(phase)?);
        }
    }
    wire.leave()?;
    Ok(result)
}

/// A load under way.
struct Load<'a> {
    wire: &'a mut Wire,
    tree: Tree,
    in_flight: usize,
    progress: &'a dyn Fn(&'static str, u64),
}

impl Load<'_> {
    /// Runs a phase, level by level where names depend on one another.
    fn run(&mut self, phase: Phase) -> Result<Option<MetadataPhase>, NamesError> {
        let mut counted = MetadataPhase {
            name: phase.name(),
            operations: 0,
            elapsed: Duration::ZERO,
            latency: histogram(),
        };
        let begun = self.wire.now();
        for items in self.tree.steps(phase) {
            self.step(phase, items, &mut counted)?;
        }
        counted.elapsed = self.wire.now().since(begun);
        Ok((counted.operations > 0).then_some(counted))
    }

    /// Does what a range of items takes, in any order.
    fn step(
        &mut self,
        phase: Phase,
        items: std::ops::Range<usize>,
        counted: &mut MetadataPhase,
    ) -> Result<(), NamesError> {
        let first = items.start;
        let mut begun = vec![protocol::Instant::ZERO; items.len()];
        let (mut next, mut under_way) = (items, 0_usize);
        loop {
            while under_way < self.in_flight
                && let Some(item) = next.next()
            {
                let operation = self.tree.begin(phase, item)?;
                if let Some(begun) = begun.get_mut(item.saturating_sub(first)) {
                    *begun = self.wire.now();
                }
                self.wire.submit(item, operation);
                under_way = under_way.saturating_add(1);
            }
            if under_way == 0 {
                return Ok(());
            }
            self.wire.turn()?;
            while let Some((item, answer)) = self.wire.poll()? {
                if let Some(operation) = self.answered(phase, item, answer, counted)? {
                    self.wire.submit(item, operation);
                    continue;
                }
                under_way = under_way.saturating_sub(1);
                let since = begun.get(item.saturating_sub(first)).copied().unwrap_or_default();
                counted.latency.saturating_record(protocol::nanos(self.wire.now().since(since)).max(1));
            }
        }
    }

    /// Takes an answer: what is to be done next for the same item, if anything.
    fn answered(
        &mut self,
        phase: Phase,
        item: usize,
        answer: Answer,
        counted: &mut MetadataPhase,
    ) -> Result<Option<NameOperation>, NamesError> {
        let outcome = answer.map_err(|status| NamesError::Operation {
            phase: phase.name(),
            name: self.tree.name(phase, item),
            status,
        })?;
        let (next, done) = self.tree.answered(phase, item, outcome)?;
        let before = counted.operations;
        counted.operations = before.saturating_add(done);
        // A line to whoever looks, each thousand.
        if before / 1000 != counted.operations / 1000 {
            (self.progress)(phase.name(), counted.operations);
        }
        Ok(next)
    }
}

/// From a nanosecond to an hour, three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3)
        .unwrap_or_else(|_| Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits are allowed")))
}
