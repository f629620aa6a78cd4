//! A core of the server that stands still for a while, now and then.

use std::ops::RangeInclusive;
use std::time::Duration;

use engine::Core;
use protocol::Instant;

use crate::dice::{Dice, Odds};
use crate::world::{Frozen, World};

/// How often, for each step, a core stands still, and for how long.
const STANDSTILLS: Odds = Odds(3);
const STANDSTILL: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_millis(200);

/// When the core that stands still goes on, if one does.
#[derive(Debug, Default)]
pub(crate) struct Interlude(Option<Instant>);

impl Interlude {
    /// Lets a core stand still, sometimes, or go on.
    pub(crate) fn step(&mut self, dice: &mut Dice, world: &mut World<Core>) {
        let now = world.now();
        if self.0.is_none() && dice.happens(STANDSTILLS) {
            self.0 = Some(now + dice.span(&STANDSTILL));
            let core = dice.index(world.cores().len());
            world.freeze(Frozen::Core(core));
        }
        if self.0.is_some_and(|due| due <= now) {
            self.0 = None;
            world.freeze(Frozen::Nothing);
        }
    }
}
