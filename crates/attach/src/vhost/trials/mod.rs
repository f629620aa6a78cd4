//! Front ends that mean harm, beside one that verifies what it reads: a core's service, with everything outside of it simulated.
//!
//! A seed decides what everybody does and when. The core sleeps whenever nothing has asked it to be awake, so that a wake-up that is lost stops the trial, and one that is not
//! needed makes the core turn in vain; both fail it. Memory is the real thing, shared between two mappings.

mod core;
mod front;
mod honest;
mod hostile;
mod slow;

use protocol::{Entropy, SeededEntropy};
use virtio::block::{HEADER, Header, Kind};
use virtio::either::Layout;
use virtio::{Area, DriverQueue};
use zerocopy::IntoBytes;

use self::core::Core;
use front::Front;
use honest::Honest;
use hostile::Hostile;
use slow::Slow;

/// Bytes of data buffers of the core: less than a front end that means harm asks for at a time.
const MEMORY: usize = 8 << 20;
/// Requests that the volume takes at a time: fewer than the front ends have.
const DEPTH: u32 = 48;
/// Rounds in which everybody does something.
const ROUNDS: usize = 300;

fn below(dice: &mut SeededEntropy, end: u64) -> u64 {
    dice.number() % end.max(1)
}

fn index_below(dice: &mut SeededEntropy, end: usize) -> usize {
    wire::index(below(dice, wire::widen(end)))
}

/// One front end as it should be, some that are not, and one core.
fn trial(seed: u64) {
    let mut dice = SeededEntropy::new(seed);
    let volume = Slow::new(DEPTH, dice.number());
    let mut core = Core::new(&volume, MEMORY);
    let mut honest = Honest::new(&mut core, &volume, &mut dice);
    let villains = 1 + index_below(&mut dice, 3);
    let mut hostile: Vec<Hostile> =
        (0..villains).map(|_| Hostile::new(&mut core, &volume, &mut dice)).collect();
    for _ in 0..ROUNDS {
        honest.act(&mut dice);
        for one in &mut hostile {
            one.act(&mut core, &mut dice);
        }
        if honest.front.take_kick() || hostile.iter_mut().any(|one| one.front.take_kick()) {
            core.wake();
        }
        core.run_for(below(&mut dice, 200_000));
    }
    // They go on as they are, and it is served all the same.
    honest.finish(&mut core);
    let ended = honest.verified();
    assert!(ended > 0, "seed {seed}: it was served");
    assert!(volume.most_bytes() <= MEMORY, "seed {seed}: {} bytes under way", volume.most_bytes());
    for one in hostile {
        one.leave(&mut core);
    }
    honest.leave(&mut core);
    core.shut_down();
}

#[test]
fn a_front_end_is_served_whatever_others_do() {
    for seed in 0..40 {
        trial(seed);
    }
}

/// Requests of 1 MiB, together ten times the core's memory, of which the volume takes few at a time: nobody notifies the core again.
#[test]
fn what_has_to_wait_for_memory_or_for_the_volume_is_served_in_turn() {
    for (depth, layout) in [(1, Layout::split(256)), (64, Layout::packed(256))] {
        let volume = Slow::new(depth, 1);
        let mut core = Core::new(&volume, MEMORY);
        let mut front = Front::new(&mut core, &volume, layout.unwrap());
        let (header, statuses) = (0, 64);
        front.memory.write(front.ring_len() + header, Header::new(Kind::Read, 0).as_bytes());
        for number in 0..80 {
            let pieces = [
                front.segment(header, wire::bounded(HEADER), false),
                front.segment(4096, 1 << 20, true),
                front.segment(statuses + number, 1, true),
            ];
            assert!(front.driver.add(&pieces).is_some());
        }
        front.publish();
        assert!(front.take_kick());
        core.wake();
        core.run_for(1_000_000_000);
        let mut ended = 0;
        while let Some(used) = front.driver.next_used().unwrap() {
            assert_eq!(used.written, (1 << 20) + 1);
            ended += 1;
        }
        assert_eq!(ended, 80, "depth {depth}");
        assert!(volume.most_bytes() <= MEMORY && volume.most_bytes() >= 1 << 20);
        core.shut_down();
    }
}
