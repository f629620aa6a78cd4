//! The contract test suite: the same checks on every volume, filter and remote volume.
//!
//! `docs/volume-contract.md` names the promises; each names its check here. [`check`] destroys what the volume held.
//! It is part of the library so that any crate's tests can use it; it panics at nothing and reports a [`Violation`].

mod bench;
mod content;
mod finding;
mod options;
mod overlap;
mod shape;
mod space;
mod stamp;
mod traffic;
mod world;

use std::sync::Arc;

use crate::{Extent, Volume};
use bench::Bench;
use finding::Verdict;
pub use finding::{Finding, Violation};
pub use options::Options;
pub use world::{FakeWorld, RealWorld, World};

/// One check: its name, what it needs of the volume, and what it does.
struct Check {
    name: &'static str,
    needs: Needs,
    run: fn(&mut Bench<'_>) -> Verdict,
}

/// Which volumes a check applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// All.
    Nothing,
    /// Those that take writes.
    Writable,
    /// Those that take writes and give the data back.
    Content,
}

const fn check_of(name: &'static str, needs: Needs, run: fn(&mut Bench<'_>) -> Verdict) -> Check {
    Check { name, needs, run }
}

const CHECKS: &[Check] = &[
    check_of("geometry_makes_sense", Needs::Nothing, shape::geometry_makes_sense),
    check_of("out_of_range", Needs::Nothing, shape::out_of_range),
    check_of("wrong_length", Needs::Nothing, shape::wrong_length),
    check_of("empty_extents", Needs::Nothing, shape::empty_extents),
    check_of("longest_transfer", Needs::Nothing, shape::longest_transfer),
    check_of("read_only_refuses_writes", Needs::Nothing, shape::read_only_refuses_writes),
    check_of("reads_own_or_lent_memory", Needs::Nothing, traffic::reads_own_or_lent_memory),
    check_of("queue_full_gives_back", Needs::Nothing, traffic::queue_full_gives_back),
    check_of("completes_exactly_once", Needs::Nothing, traffic::completes_exactly_once),
    check_of("cancel_ends_in_a_completion", Needs::Nothing, traffic::cancel_ends_in_a_completion),
    check_of("failed_reads_return_memory", Needs::Nothing, traffic::failed_reads_return_memory),
    check_of("dropping_a_queue", Needs::Nothing, traffic::dropping_a_queue),
    check_of("flush_and_verify", Needs::Nothing, traffic::flush_and_verify),
    check_of("allocation_covers", Needs::Nothing, space::allocation_covers),
    check_of("unsupported_compare", Needs::Writable, space::unsupported_compare),
    check_of("read_after_write", Needs::Content, content::read_after_write),
    check_of("held_reads_never_change", Needs::Content, content::held_reads_never_change),
    check_of("durable_writes", Needs::Content, content::durable_writes),
    check_of("discard", Needs::Content, space::discard),
    check_of("write_zeroes", Needs::Content, space::write_zeroes),
    check_of("allocation_tells_data", Needs::Content, space::allocation_tells_data),
    check_of("compare", Needs::Content, space::compare),
    check_of("compare_and_write", Needs::Content, space::compare_and_write),
    check_of("random_against_model", Needs::Content, content::random_against_model),
    check_of("blocks_are_never_torn", Needs::Content, overlap::blocks_are_never_torn),
    check_of("compare_and_write_loses_no_write", Needs::Content, overlap::compare_and_write_loses_no_write),
    check_of("compare_and_write_is_atomic", Needs::Content, overlap::compare_and_write_is_atomic),
];

/// Runs every check that applies to `volume`; `world` makes a clock and a way to wait for each thread that drives a
/// queue, on that thread. What the volume held is lost.
pub fn check(
    volume: &Arc<dyn Volume>,
    options: &Options,
    world: &(dyn Fn() -> Box<dyn World> + Sync),
) -> Result<(), Violation> {
    for check in CHECKS.iter().filter(|check| applies(check.needs, &**volume, options)) {
        let verdict = Bench::open(volume, options, world).and_then(|mut bench| {
            (check.run)(&mut bench)?;
            bench.end()
        });
        verdict.map_err(|finding| Violation { check: check.name, finding })?;
    }
    Ok(())
}

/// Runs the check that needs a failure of the medium, on a volume whose reads of `bad` fail with one: a provider over a volume that fails, such as
/// [`Fail`](crate::filter::Fail). No other check holds for such a volume. Nothing is written.
pub fn check_medium_errors(
    volume: &Arc<dyn Volume>,
    bad: Extent,
    options: &Options,
    world: &(dyn Fn() -> Box<dyn World> + Sync),
) -> Result<(), Violation> {
    let verdict = Bench::open(volume, options, world).and_then(|mut bench| {
        traffic::medium_errors_return_memory(&mut bench, bad)?;
        bench.end()
    });
    verdict.map_err(|finding| Violation { check: MEDIUM_ERRORS, finding })
}

/// The check of [`check_medium_errors`].
const MEDIUM_ERRORS: &str = "medium_errors_return_memory";

/// The names of all checks, as the document lists them.
pub fn names() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|check| check.name).chain([MEDIUM_ERRORS])
}

fn applies(needs: Needs, volume: &dyn Volume, options: &Options) -> bool {
    let writable = !volume.features().contains(crate::Features::READ_ONLY);
    match needs {
        Needs::Nothing => true,
        Needs::Writable => writable,
        Needs::Content => writable && options.keeps_data,
    }
}
