//! The contract test suite: the same checks on every file system.
//!
//! `docs/filesystem-contract.md` names the promises; each names its check here. [`check`] makes a directory in the root for each check, and leaves it there.
//! It is part of the library so that any crate's tests can use it; it panics at nothing and reports a [`Violation`].

mod attributes;
mod bench;
mod data;
mod finding;
mod handles;
mod listing;
mod names;
mod opens;
mod options;
mod permissions;
mod traffic;

use std::sync::Arc;

use crate::{Features, FileSystem};
use bench::Bench;
use finding::Verdict;
pub use finding::{Finding, Violation};
pub use options::Options;

/// One check: its name, and what it does.
struct Check {
    name: &'static str,
    run: fn(&mut Bench<'_>) -> Verdict,
}

const fn check_of(name: &'static str, run: fn(&mut Bench<'_>) -> Verdict) -> Check {
    Check { name, run }
}

/// What holds for every file system that takes changes.
const CHECKS: &[Check] = &[
    check_of("root_is_a_directory", handles::root_is_a_directory),
    check_of("completes_exactly_once", traffic::completes_exactly_once),
    check_of("queue_full_gives_back", traffic::queue_full_gives_back),
    check_of("cancel_ends_in_a_completion", traffic::cancel_ends_in_a_completion),
    check_of("failed_reads_return_memory", traffic::failed_reads_return_memory),
    check_of("dropping_a_queue", traffic::dropping_a_queue),
    check_of("queues_agree", traffic::queues_agree),
    check_of("statistics_count", traffic::statistics_count),
    check_of("handles_name_one_object", handles::handles_name_one_object),
    check_of("forged_handles_are_refused", handles::forged_handles_are_refused),
    check_of("removed_objects_are_stale", handles::removed_objects_are_stale),
    check_of("parents_end_at_the_root", handles::parents_end_at_the_root),
    check_of("create_guarded", names::create_guarded),
    check_of("create_unchecked", names::create_unchecked),
    check_of("create_exclusive_can_be_repeated", names::create_exclusive_can_be_repeated),
    check_of("lookups_find_what_is_there", names::lookups_find_what_is_there),
    check_of("names_are_bytes", names::names_are_bytes),
    check_of("makes_every_type", names::makes_every_type),
    check_of("symbolic_links_are_not_followed", names::symbolic_links_are_not_followed),
    check_of("removes_what_was_meant", names::removes_what_was_meant),
    check_of("renames_replace", names::renames_replace),
    check_of("links_are_counted", names::links_are_counted),
    check_of("directory_changes_are_told", names::directory_changes_are_told),
    check_of("read_after_write", data::read_after_write),
    check_of("reads_tell_the_end", data::reads_tell_the_end),
    check_of("transfers_have_a_longest", data::transfers_have_a_longest),
    check_of("writes_are_as_durable_as_asked", data::writes_are_as_durable_as_asked),
    check_of("sizes_are_set", data::sizes_are_set),
    check_of("random_against_model", data::random_against_model),
    check_of("holes_are_found", data::holes_are_found),
    check_of("space_is_reserved_and_released", data::space_is_reserved_and_released),
    check_of("copies_within", data::copies_within),
    check_of("attributes_are_set", attributes::attributes_are_set),
    check_of("odd_attributes_are_refused", attributes::odd_attributes_are_refused),
    check_of("guards_are_compared", attributes::guards_are_compared),
    check_of("changes_are_noticed", attributes::changes_are_noticed),
    check_of("access_is_told", attributes::access_is_told),
    check_of("listings_have_everything_once", listing::listings_have_everything_once),
    check_of("listings_tell_objects", listing::listings_tell_objects),
    check_of("listings_refuse_what_makes_no_sense", listing::listings_refuse_what_makes_no_sense),
    check_of("listings_survive_changes", listing::listings_survive_changes),
    check_of("open_objects_outlive_their_names", opens::open_objects_outlive_their_names),
    check_of("replaced_open_objects_live_on", opens::replaced_open_objects_live_on),
    check_of("opens_are_for_what_was_asked", opens::opens_are_for_what_was_asked),
    check_of("only_files_are_opened", opens::only_files_are_opened),
];

/// What holds where requests are carried out in the caller's name.
const PERMISSIONS: &[Check] = &[
    check_of("new_objects_are_the_callers", permissions::new_objects_are_the_callers),
    check_of("permissions_are_judged", permissions::permissions_are_judged),
    check_of("owners_read_and_write", permissions::owners_read_and_write),
    check_of("directories_are_guarded", permissions::directories_are_guarded),
    check_of("sticky_directories_are_kept", permissions::sticky_directories_are_kept),
    check_of("attributes_are_the_owners", permissions::attributes_are_the_owners),
    check_of("access_is_judged", permissions::access_is_judged),
    check_of("privileges_end_with_writes", permissions::privileges_end_with_writes),
];

/// Runs every check that applies to `system`, which takes changes: its root has no name that a check has, and admits the strangers of the options.
pub fn check(system: &Arc<dyn FileSystem>, options: &Options) -> Result<(), Violation> {
    let judged = system.features().contains(Features::CALLER_IDENTITY);
    let permissions = if judged { PERMISSIONS } else { &[] };
    for check in CHECKS.iter().chain(permissions) {
        let verdict = Bench::open(system, options, check.name).and_then(|mut bench| {
            (check.run)(&mut bench)?;
            bench.end()
        });
        verdict.map_err(|finding| Violation { check: check.name, finding })?;
    }
    Ok(())
}

/// The names of all checks, as the document lists them.
pub fn names() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().chain(PERMISSIONS).map(|check| check.name)
}
