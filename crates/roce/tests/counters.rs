//! What packets went through is counted, each sort apart.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod rig;

use rig::{CONFIG, Faults, World, post_receive, send};

/// What both sides have counted.
fn counted(world: &World) -> [String; 2] {
    world.hosts.each_ref().map(|host| host.endpoint.counters().to_string())
}

const NOTHING: &str = "0 packets sent again, 0 NAKs sent, 0 NAKs received, 0 RNR NAKs sent, 0 RNR NAKs received, 0 duplicate packets, 0 packets out of order, 0 damaged packets";

/// Exchanges messages of several packets, with a receive for each in time or late.
fn exchange(world: &mut World, receives_first: bool) {
    for round in 0..20 {
        if receives_first {
            post_receive(world.end(1), round, 10_000);
        }
        send(world.end(0), round, &[7; 10_000]);
        if !receives_first {
            for _ in 0..20 {
                world.step_once();
            }
            post_receive(world.end(1), round, 10_000);
        }
        world.run();
    }
}

#[test]
fn nothing_is_counted_where_nothing_is_lost() {
    let mut world = World::connected([CONFIG, CONFIG]);
    exchange(&mut world, true);
    assert_eq!(counted(&world), [NOTHING, NOTHING]);
    assert!(world.hosts.iter().all(|host| host.endpoint.counters().is_empty()));
}

#[test]
fn each_sort_of_loss_is_counted_on_its_side() {
    type Counts = fn(&roce::Counters) -> u64;
    let (lost, doubled, damaged) = (
        Faults { lost: 50, ..Faults::default() },
        Faults { doubled: 50, ..Faults::default() },
        Faults { damaged: 50, ..Faults::default() },
    );
    let sender: [(&str, Counts); 3] = [
        ("sent again", |counters| counters.sent_again.get()),
        ("NAKs received", |counters| counters.naks_received.get()),
        ("RNR NAKs received", |counters| counters.not_ready_received.get()),
    ];
    let receiver: [(&str, Counts); 5] = [
        ("NAKs sent", |counters| counters.naks_sent.get()),
        ("RNR NAKs sent", |counters| counters.not_ready_sent.get()),
        ("duplicates", |counters| counters.duplicates.get()),
        ("out of order", |counters| counters.out_of_order.get()),
        ("damaged", |counters| counters.damaged.get()),
    ];
    for (faults, receives_first, expected) in [
        (lost, true, &["sent again", "NAKs received", "NAKs sent", "out of order"][..]),
        (doubled, true, &["duplicates"]),
        (damaged, true, &["sent again", "damaged"]),
        (Faults::default(), false, &["sent again", "RNR NAKs received", "RNR NAKs sent", "out of order"]),
    ] {
        let mut world = World::connected([CONFIG, CONFIG]);
        world.faults = faults;
        exchange(&mut world, receives_first);
        let found = sender
            .iter()
            .filter(|(_, count)| count(world.hosts[0].endpoint.counters()) > 0)
            .chain(receiver.iter().filter(|(_, count)| count(world.hosts[1].endpoint.counters()) > 0));
        let found: Vec<&str> = found.map(|(name, _)| *name).collect();
        for name in expected {
            assert!(found.contains(name), "{faults:?}: {name} is missing among {found:?}");
        }
        if faults.lost == 0 && faults.doubled == 0 && faults.damaged == 0 {
            assert_eq!(found, expected);
        }
        let is_told = counted(&world) != [NOTHING, NOTHING];
        assert!(is_told && world.hosts.iter().any(|host| !host.endpoint.counters().is_empty()));
    }
}
