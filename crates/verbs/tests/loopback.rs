//! Two queue pairs in one memory: the smallest provider, and the contract suite on it.

mod loopback {
    pub(crate) mod link;
}

use loopback::link::{Link, Plant};
use verbs::contract::check;

fn breach(plant: Plant) -> Option<&'static str> {
    check(&mut || Box::new(Link::new(plant))).err().map(|breach| breach.check)
}

#[test]
fn a_loopback_keeps_the_contract() {
    let result = check(&mut || Box::new(Link::new(Plant::None)));
    assert_eq!(result, Ok(()));
}

/// A provider that breaks a promise is found, by the first check that meets it.
#[test]
fn broken_promises_are_found() {
    let plants = [
        (Plant::WriteAfterMessage, "what_is_written_is_there_before_a_message"),
        (Plant::ReadsCompleteLate, "completions_keep_the_order_of_posting"),
        (Plant::OffsetIgnored, "parts_of_regions_are_named_by_offset"),
        (Plant::NoBounds, "no_access_outside_of_a_region"),
        (Plant::NoRights, "no_access_without_the_right"),
        (Plant::KeyIgnored, "no_access_to_an_invalidated_region"),
        (Plant::InvalidationUntold, "a_message_invalidates_a_region"),
        (Plant::FlushForgets, "a_full_queue_gives_the_request_back"),
        (Plant::CompletesTwice, "messages_arrive_whole_and_in_order"),
    ];
    for (plant, name) in plants {
        assert_eq!(breach(plant), Some(name), "{plant:?}");
    }
}
