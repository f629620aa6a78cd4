//! Takes a reservation on a leg, so that nobody else writes to it: what to ask next, by what was answered.
//!
//! The key is registered, and a reservation taken that lets registrants alone write (SPC-4 §5.13, NVMe Base §8.1.22). A leg of this machine has no reservations, and
//! needs none. Where somebody else holds one, the leg is refused, or taken over: every other registration is removed with its requests.

use std::sync::Arc;

use volume::reservation::{Command, Registrant, ReservationType, View};
use volume::{Operation, Outcome, VolumeErrorKind};

const KIND: ReservationType = ReservationType::WriteExclusiveRegistrants;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Registering { persist: Option<bool> },
    Looking,
    Reserving,
    Preempting,
    Unregistering,
}

/// A leg's reservation in the making.
#[derive(Debug)]
pub(crate) struct Fencer {
    key: u64,
    takeover: bool,
    step: Step,
    /// Keys that are still to be removed.
    victims: Vec<u64>,
    refusal: Option<String>,
}

/// What comes of an answer.
#[derive(Debug)]
pub(crate) enum Fenced {
    /// Ask this next.
    Ask(Operation),
    /// Nobody else writes to the leg.
    Done,
    /// Somebody else has it: who, and what to do.
    Refused(String),
    /// The leg cannot be used: why.
    Failed(String),
}

impl Fencer {
    /// Takes the reservation by this key, which is not zero.
    pub(crate) fn new(key: u64, takeover: bool) -> Self {
        let step = Step::Registering { persist: Some(true) };
        Self { key, takeover, step, victims: Vec::new(), refusal: None }
    }

    /// What to ask the leg now.
    pub(crate) fn operation(&self) -> Operation {
        let key = self.key;
        Operation::Reserve(match self.step {
            Step::Registering { persist } => Command::Register { key: None, new_key: key, persist },
            Step::Looking => return Operation::ReadReservations,
            Step::Reserving => Command::Reserve { key, kind: KIND },
            Step::Preempting => {
                let victim = self.victims.last().copied().unwrap_or(0);
                Command::Preempt { key, victim, kind: KIND, abort: true }
            }
            Step::Unregistering => Command::Register { key: Some(key), new_key: 0, persist: None },
        })
    }

    fn ask(&mut self, step: Step) -> Fenced {
        self.step = step;
        Fenced::Ask(self.operation())
    }

    /// The leg has answered.
    pub(crate) fn answered(&mut self, result: Result<Outcome, VolumeErrorKind>) -> Fenced {
        match (self.step, result) {
            (Step::Registering { .. }, Err(VolumeErrorKind::Unsupported)) => Fenced::Done,
            // Not every target keeps registrations over a loss of power.
            (Step::Registering { persist: Some(_) }, Err(kind))
                if kind != VolumeErrorKind::ReservationConflict =>
            {
                self.ask(Step::Registering { persist: None })
            }
            (Step::Registering { .. } | Step::Reserving | Step::Preempting, Ok(_)) => {
                // What was done is looked at: it may have been somebody else's turn meanwhile.
                self.ask(Step::Looking)
            }
            (Step::Looking, Ok(Outcome::Reservations(view))) => self.look(&view),
            (Step::Reserving | Step::Preempting, Err(VolumeErrorKind::ReservationConflict)) => {
                self.ask(Step::Looking)
            }
            (Step::Unregistering, _) => Fenced::Refused(self.refusal.take().unwrap_or_default()),
            (_, Ok(_)) => {
                Fenced::Failed("it answered something else when its reservations were read".to_owned())
            }
            (_, Err(kind)) => Fenced::Failed(format!("its reservation could not be taken: {kind}")),
        }
    }

    fn look(&mut self, view: &Arc<View>) -> Fenced {
        let others: Vec<_> = view.registrations.iter().filter(|entry| entry.key != self.key).collect();
        let is_ours = |holder: &Registrant| view.key_of(holder) == Some(self.key);
        match &view.reservation {
            Some((KIND, Some(holder))) if is_ours(holder) && (others.is_empty() || !self.takeover) => {
                Fenced::Done
            }
            None => self.ask(Step::Reserving),
            Some(_) if self.takeover => {
                // The holder last, as that takes the reservation.
                let holder = view.reservation.as_ref().and_then(|(_, holder)| holder.as_ref());
                let holder = holder.and_then(|holder| view.key_of(holder)).unwrap_or(0);
                let other = others.iter().map(|entry| entry.key).find(|key| *key != holder);
                self.victims = vec![other.unwrap_or(holder)];
                self.ask(Step::Preempting)
            }
            Some((_, holder)) => {
                let who = holder.as_ref().map_or_else(|| "all who are registered".to_owned(), name);
                self.refusal = Some(format!(
                    "its reservation is held by {who}: let one host alone use the mirror, or take it over by takeover=1 if that one is \
                     certainly not to go on"
                ));
                self.ask(Step::Unregistering)
            }
        }
    }
}

fn name(registrant: &Registrant) -> String {
    match registrant {
        Registrant::Nexus { initiator_port, .. } => initiator_port.to_string(),
        Registrant::Host { nqn, .. } if !nqn.is_empty() => nqn.to_string(),
        Registrant::Host { identifier, .. } => {
            format!("host {:032x}", u128::from_be_bytes(*identifier))
        }
    }
}

#[cfg(test)]
mod tests {
    use volume::reservation::Reservations;

    use super::*;

    fn host(number: u8) -> Registrant {
        Registrant::Host {
            identifier: [number; 16],
            nqn: format!("nqn.2026-11.org.linerate:{number}").into(),
        }
    }

    /// Runs a fencer of `host` against a leg.
    fn run(leg: &mut Reservations, host: &Registrant, key: u64, takeover: bool) -> Result<(), String> {
        let mut fencer = Fencer::new(key, takeover);
        let mut operation = fencer.operation();
        for _ in 0..20 {
            let answer = match operation {
                Operation::Reserve(command) => leg
                    .apply(host, &command)
                    .map(|_| Outcome::Done)
                    .map_err(|_| VolumeErrorKind::ReservationConflict),
                _ => Ok(Outcome::Reservations(leg.view())),
            };
            match fencer.answered(answer) {
                Fenced::Ask(next) => operation = next,
                Fenced::Done => return Ok(()),
                Fenced::Refused(why) | Fenced::Failed(why) => return Err(why),
            }
        }
        panic!("it never ends")
    }

    #[test]
    fn the_first_has_it_and_the_second_is_told_who() {
        let mut leg = Reservations::default();
        run(&mut leg, &host(1), 11, false).unwrap();
        assert!(leg.view().access(&host(1)).write && !leg.view().access(&host(2)).write);
        let refused = run(&mut leg, &host(2), 22, false).unwrap_err();
        assert!(
            refused.contains("nqn.2026-11.org.linerate:1") && refused.contains("takeover=1"),
            "{refused}"
        );
        assert_eq!(leg.view().registrations.len(), 1, "it has left nothing");
        run(&mut leg, &host(1), 12, false).unwrap();
        assert_eq!(leg.view().key_of(&host(1)), Some(12), "the same host again");
    }

    #[test]
    fn whoever_takes_over_is_alone() {
        let mut leg = Reservations::default();
        run(&mut leg, &host(1), 11, false).unwrap();
        leg.apply(&host(3), &Command::Register { key: None, new_key: 33, persist: None }).unwrap();
        run(&mut leg, &host(2), 22, true).unwrap();
        let view = leg.view();
        let may_write = [1, 2, 3].map(|number| view.access(&host(number)).write);
        assert_eq!(may_write, [false, true, false]);
        assert_eq!(view.registrations.len(), 1);
    }

    #[test]
    fn a_leg_without_reservations_needs_none_and_one_that_fails_is_refused() {
        let mut fencer = Fencer::new(1, false);
        assert!(matches!(fencer.answered(Err(VolumeErrorKind::Unsupported)), Fenced::Done));
        let mut fencer = Fencer::new(1, false);
        assert!(
            matches!(fencer.answered(Err(VolumeErrorKind::Media)), Fenced::Ask(_)),
            "without persistence"
        );
        assert!(matches!(fencer.answered(Err(VolumeErrorKind::Media)), Fenced::Failed(_)));
    }
}
