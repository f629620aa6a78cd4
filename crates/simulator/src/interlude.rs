//! Cores of the server that freeze for a while, and a clock that stops while one does.

use std::ops::RangeInclusive;
use std::time::Duration;

use engine::Core;
use protocol::Instant;

use crate::dice::{Dice, Odds};
use crate::world::{Frozen, World};

/// How often, for each step, a core stands still, and for how long.
const STANDSTILLS: Odds = Odds(3);
const STANDSTILL: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_millis(200);

/// A core that stands still, if one does.
#[derive(Debug, Default)]
pub(crate) struct Interlude {
    /// Since when, and when it goes on.
    now: Option<(Instant, Instant)>,
    /// How long cores have stood still before.
    before: Duration,
}

impl Interlude {
    /// Lets a core stand still, sometimes, or go on.
    pub(crate) fn step(&mut self, dice: &mut Dice, world: &mut World<Core>) {
        let now = world.now();
        if self.now.is_none() && dice.happens(STANDSTILLS) {
            self.now = Some((now, now + dice.span(&STANDSTILL)));
            let core = dice.index(world.cores().len());
            world.freeze(Frozen::Core(core));
        }
        if let Some((since, due)) = self.now
            && due <= now
        {
            self.now = None;
            self.before += now.since(since);
            world.freeze(Frozen::Nothing);
        }
    }

    /// The time on a clock that stands while a core does.
    pub(crate) fn working(&self, now: Instant) -> Instant {
        let stands = self.now.map_or(Duration::ZERO, |(since, _)| now.since(since));
        Instant::ZERO + now.since(Instant::ZERO).saturating_sub(self.before + stands)
    }
}
