//! Persistent reservations: the table of transitions, the special cases of the standards, and what always holds.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fmt::Write as _;
use std::sync::Arc;

use proptest::prelude::*;
use volume::reservation::{
    Access, Change, Command, CommandError, MAX_REGISTRATIONS, Notice, Registrant, ReservationType,
    Reservations,
};

fn nexus(number: u16) -> Registrant {
    Registrant::Nexus {
        initiator_port: format!("iqn.2026-11.org.example:{number},i,0x000000000000").into(),
        target_port: "iqn.2026-11.org.linerate:disk,t,0x0001".into(),
        relative_port: 1,
    }
}

fn host(number: u8) -> Registrant {
    Registrant::Host { identifier: [number; 16], nqn: "nqn.2014-08.org.example:host".into() }
}

fn register(new_key: u64) -> Command {
    Command::Register { key: None, new_key, persist: None }
}

fn reserve(key: u64, kind: ReservationType) -> Command {
    Command::Reserve { key, kind }
}

fn preempt(key: u64, victim: u64, kind: ReservationType) -> Command {
    Command::Preempt { key, victim, kind, abort: false }
}

/// A (a nexus, key 1), B (a host, key 2) and C (a nexus, key 3) are registered, and A holds a reservation of `kind`.
fn held(kind: ReservationType) -> Reservations {
    let mut state = registered();
    state.apply(&nexus(1), &reserve(1, kind)).unwrap();
    state
}

fn registered() -> Reservations {
    let mut state = Reservations::default();
    state.apply(&nexus(1), &register(1)).unwrap();
    state.apply(&host(2), &register(2)).unwrap();
    state.apply(&nexus(3), &register(3)).unwrap();
    state
}

fn name(registrant: &Registrant) -> String {
    match registrant {
        Registrant::Host { .. } => "B".to_owned(),
        other if *other == nexus(1) => "A".to_owned(),
        other if *other == nexus(3) => "C".to_owned(),
        Registrant::Nexus { .. } => "D".to_owned(),
    }
}

fn describe(result: Result<Change, CommandError>) -> String {
    let change = match result {
        Ok(change) => change,
        Err(refused) => return format!("{refused:?}"),
    };
    let mut text = String::new();
    for entry in &change.view.registrations {
        write!(text, "{}={} ", name(&entry.registrant), entry.key).unwrap();
    }
    match &change.view.reservation {
        None => text.push_str("free"),
        Some((kind, None)) => write!(text, "all:{kind:?}").unwrap(),
        Some((kind, Some(holder))) => write!(text, "{}:{kind:?}", name(holder)).unwrap(),
    }
    for (registrant, notice) in &change.notices {
        write!(text, ", {} {notice:?}", name(registrant)).unwrap();
    }
    text
}

/// Every command by the holder, another registrant and a stranger, in every state.
fn table() -> String {
    let mut text = String::new();
    let states = std::iter::once(None).chain(ReservationType::ALL.map(Some));
    for held_type in states {
        writeln!(text, "## {}", held_type.map_or("free".to_owned(), |kind| format!("A holds {kind:?}")))
            .unwrap();
        for (who, key) in [(nexus(1), 1), (host(2), 2), (nexus(4), 4)] {
            let other = ReservationType::WriteExclusive;
            let same = held_type.unwrap_or(ReservationType::ExclusiveAccess);
            let commands = [
                ("register 9", register(9)),
                ("unregister", register(0)),
                ("reserve same", reserve(key, same)),
                ("reserve WE", reserve(key, other)),
                ("release same", Command::Release { key, kind: same }),
                ("release WE", Command::Release { key, kind: other }),
                ("clear", Command::Clear { key }),
                ("preempt A", preempt(key, 1, other)),
                ("preempt B", preempt(key, 2, other)),
                ("preempt 0", preempt(key, 0, other)),
                ("preempt 7", preempt(key, 7, other)),
            ];
            for (label, command) in commands {
                let mut state = held_type.map_or_else(registered, held);
                let result = describe(state.apply(&who, &command));
                writeln!(text, "{} {label}: {result}", name(&who)).unwrap();
            }
        }
    }
    text
}

#[test]
fn transitions_are_as_recorded() {
    let expected = include_str!("reservation.table");
    let actual = table();
    for (have, want) in actual.lines().zip(expected.lines()) {
        assert_eq!(have, want);
    }
    assert_eq!(actual.lines().count(), expected.lines().count(), "the table has another length:\n{actual}");
}

#[test]
fn a_wrong_key_is_a_conflict_everywhere() {
    let kind = ReservationType::WriteExclusive;
    let commands = [
        Command::Register { key: Some(8), new_key: 9, persist: None },
        reserve(8, kind),
        Command::Release { key: 8, kind },
        Command::Clear { key: 8 },
        preempt(8, 2, kind),
    ];
    for command in commands {
        for who in [nexus(1), nexus(4)] {
            let mut state = held(kind);
            let before = state.view();
            assert_eq!(state.apply(&who, &command), Err(CommandError::Conflict), "{command:?}");
            assert!(Arc::ptr_eq(&before, &state.view()));
        }
    }
}

#[test]
fn the_two_standards_differ_in_what_removing_nothing_and_registering_again_mean() {
    let mut state = registered();
    let again = |key| Command::Register { key: Some(0), new_key: key, persist: None };
    assert!(state.apply(&host(2), &again(2)).is_ok());
    assert_eq!(state.apply(&host(2), &again(5)), Err(CommandError::Conflict));
    assert_eq!(state.apply(&nexus(1), &again(1)), Err(CommandError::Conflict));
    assert_eq!(state.apply(&host(9), &register(0)), Err(CommandError::Conflict));
    assert!(state.apply(&nexus(9), &register(0)).is_ok());
}

#[test]
fn preempt_and_abort_names_its_victims_and_spares_the_preempter() {
    let mut state = Reservations::default();
    for who in [nexus(1), nexus(3)] {
        state.apply(&who, &register(7)).unwrap();
    }
    let kind = ReservationType::ExclusiveAccess;
    state.apply(&nexus(1), &reserve(7, kind)).unwrap();
    let change = state.apply(&nexus(3), &Command::Preempt { key: 7, victim: 7, kind, abort: true }).unwrap();
    assert_eq!(change.aborted, [nexus(1)]);
    assert_eq!(change.view.reservation, Some((kind, Some(nexus(3)))));
    assert_eq!(change.view.key_of(&nexus(3)), Some(7));
}

#[test]
fn the_last_registrant_takes_an_all_registrants_reservation_with_it() {
    let mut state = held(ReservationType::WriteExclusiveAll);
    for who in [nexus(1), host(2)] {
        assert!(state.apply(&who, &register(0)).unwrap().view.reservation.is_some());
    }
    assert!(state.apply(&nexus(3), &register(0)).unwrap().view.reservation.is_none());
}

#[test]
fn the_generation_counts_registrations_clears_and_preemptions_only() {
    let mut state = registered();
    assert_eq!(state.view().generation, 3);
    let kind = ReservationType::ExclusiveAccess;
    state.apply(&nexus(1), &reserve(1, kind)).unwrap();
    state.apply(&nexus(1), &Command::Release { key: 1, kind }).unwrap();
    state.apply(&nexus(9), &register(0)).unwrap();
    assert_eq!(state.view().generation, 3);
    state.apply(&nexus(1), &preempt(1, 2, kind)).unwrap();
    state.apply(&nexus(1), &Command::Clear { key: 1 }).unwrap();
    assert_eq!(state.view().generation, 5);
}

#[test]
fn the_limit_of_registrations_is_a_refusal() {
    let mut state = Reservations::default();
    for number in 0..MAX_REGISTRATIONS {
        state.apply(&nexus(u16::try_from(number).unwrap()), &register(1)).unwrap();
    }
    assert_eq!(state.apply(&host(1), &register(1)), Err(CommandError::Full));
    assert!(state.apply(&nexus(0), &register(2)).is_ok());
}

#[test]
fn access_is_what_the_types_say() {
    let full = Access::FULL;
    let none = Access { read: false, write: false };
    let reads = Access { read: true, write: false };
    let expected = [
        (full, reads, reads),
        (full, none, none),
        (full, full, reads),
        (full, full, none),
        (full, full, reads),
        (full, full, none),
    ];
    for (kind, (holder, registrant, stranger)) in ReservationType::ALL.into_iter().zip(expected) {
        let view = held(kind).view();
        assert_eq!(view.access(&nexus(1)), holder, "{kind:?}");
        assert_eq!(view.access(&host(2)), registrant, "{kind:?}");
        assert_eq!(view.access(&nexus(9)), stranger, "{kind:?}");
    }
}

fn command() -> impl Strategy<Value = Command> {
    let key = || 0..4_u64;
    let kind = || prop::sample::select(ReservationType::ALL.to_vec());
    prop_oneof![
        4 => (prop::option::of(key()), key(), prop::option::of(any::<bool>()))
            .prop_map(|(key, new_key, persist)| Command::Register { key, new_key, persist }),
        2 => (key(), kind()).prop_map(|(key, kind)| Command::Reserve { key, kind }),
        1 => (key(), kind()).prop_map(|(key, kind)| Command::Release { key, kind }),
        1 => key().prop_map(|key| Command::Clear { key }),
        2 => (key(), key(), kind(), any::<bool>())
            .prop_map(|(key, victim, kind, abort)| Command::Preempt { key, victim, kind, abort }),
    ]
}

fn check_invariants(state: &Reservations, change: &Change, by: &Registrant) -> Result<(), TestCaseError> {
    let view = state.view();
    prop_assert!(Arc::ptr_eq(&view, &change.view));
    prop_assert!(view.registrations.iter().all(|entry| entry.key != 0));
    for (index, entry) in view.registrations.iter().enumerate() {
        prop_assert!(view.registrations[..index].iter().all(|other| other.registrant != entry.registrant));
    }
    match &view.reservation {
        Some((kind, Some(holder))) => {
            prop_assert!(!kind.is_all());
            prop_assert!(view.key_of(holder).is_some(), "the holder is not registered");
        }
        Some((kind, None)) => {
            prop_assert!(kind.is_all());
            prop_assert!(!view.registrations.is_empty(), "nobody holds the reservation");
        }
        None => {}
    }
    for (told, notice) in &change.notices {
        prop_assert!(told != by, "the asker is told of its own command");
        let gone = view.key_of(told).is_none();
        prop_assert_eq!(gone, *notice != Notice::Released);
    }
    for (told, _) in &change.notices {
        prop_assert_eq!(change.notices.iter().filter(|(other, _)| other == told).count(), 1);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_asked_the_state_makes_sense(
        commands in prop::collection::vec((0..4_u8, command()), 1..60)
    ) {
        let mut state = Reservations::default();
        for (who, command) in commands {
            let who = if who < 2 { host(who) } else { nexus(u16::from(who)) };
            let before = state.view();
            match state.apply(&who, &command) {
                Ok(change) => check_invariants(&state, &change, &who)?,
                Err(_) => prop_assert!(Arc::ptr_eq(&before, &state.view())),
            }
        }
    }
}
