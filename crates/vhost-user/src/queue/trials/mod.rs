//! Devices that mean harm, beside one that does what it is asked: queues of both on one thread, with the devices, and the thread that speaks with them, simulated.
//!
//! A seed decides what everybody does and when. A queue is polled only when it was called, when its device has notified it, and when its time has come, so that a wake-up
//! that is lost ends the trial. The memory is the real thing, mapped twice.

mod device;
mod user;

use protocol::{Entropy, SeededEntropy};

use device::{Character, Device};
use user::User;

const ROUNDS: usize = 400;

fn below(dice: &mut SeededEntropy, end: usize) -> usize {
    wire::index(dice.number() % wire::widen(end.max(1)))
}

fn trial(seed: u64) {
    let mut dice = SeededEntropy::new(seed);
    let mut all = [Character::Honest, Character::Replaced, Character::Hostile].map(|character| {
        let is_packed = dice.number() & 1 == 0;
        let mut device = Device::new(character, is_packed);
        let user = User::new(&device);
        device.carry_out_orders();
        (user, device)
    });
    for _ in 0..ROUNDS {
        for (user, device) in &mut all {
            user.act(&mut dice);
            device.carry_out_orders();
            device.act(&mut dice);
            user.hear(below(&mut dice, 3_000_000));
        }
    }
    for (user, device) in &mut all {
        // Nobody asks for anything more, and it is polled only when it wants to be.
        for _ in 0..ROUNDS {
            device.carry_out_orders();
            device.act(&mut dice);
            user.hear(1000);
        }
        assert!(user.is_idle() || device.character() == Character::Hostile, "seed {seed}: it was not woken");
        let [verified, failed] = user.sums();
        assert!(verified > 0, "seed {seed}: nothing was verified");
        assert!(failed == 0 || device.character() == Character::Hostile, "seed {seed}: {failed} failed");
        // Whatever it has done: requests end, for a device that is gone after the time that they wait for another.
        device.leave_for_good();
        user.finish();
    }
}

#[test]
fn every_request_ends_once_whatever_a_device_does() {
    for seed in 0..40 {
        trial(seed);
    }
}
