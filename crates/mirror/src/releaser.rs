//! Gives a leg's reservation back: what to ask next, by what was answered.
//!
//! Over iSCSI each queue of the owner was a nexus and a registrant of its own, and the one that took the reservation may be gone. So the nexus that asks takes it over by the
//! owner's own key, which removes the other registrations of that key and nobody else's. Then it releases, and unregisters: an owner that another one has preempted
//! meanwhile finds its key gone, and changes nothing.

use volume::reservation::{Command, ReservationType, View};
use volume::{Operation, Outcome, VolumeErrorKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Looking,
    Preempting(ReservationType),
    Releasing(ReservationType),
    Unregistering,
}

/// A leg's reservation on its way back.
#[derive(Debug)]
pub(crate) struct Releaser {
    key: u64,
    step: Step,
}

impl Releaser {
    /// Gives back what is held by this key.
    pub(crate) fn new(key: u64) -> Self {
        Self { key, step: Step::Looking }
    }

    /// What to ask the leg now.
    pub(crate) fn operation(&self) -> Operation {
        let key = self.key;
        Operation::Reserve(match self.step {
            Step::Looking => return Operation::ReadReservations,
            Step::Preempting(kind) => Command::Preempt { key, victim: key, kind, abort: false },
            Step::Releasing(kind) => Command::Release { key, kind },
            Step::Unregistering => Command::Register { key: Some(key), new_key: 0, persist: None },
        })
    }

    /// The leg has answered: what to ask it next; `None` once it is over.
    pub(crate) fn answered(&mut self, result: Result<Outcome, VolumeErrorKind>) -> Option<Operation> {
        self.step = match (self.step, result) {
            (Step::Looking, Ok(Outcome::Reservations(view))) => self.look(&view)?,
            (Step::Preempting(kind), Ok(_)) => Step::Releasing(kind),
            // Whatever became of the reservation, the registration is given back.
            (Step::Releasing(_), _) => Step::Unregistering,
            _ => return None,
        };
        Some(self.operation())
    }

    fn look(&self, view: &View) -> Option<Step> {
        let own = view.registrations.iter().filter(|entry| entry.key == self.key).count();
        let is_ours = |(_, holder): &&(ReservationType, _)| {
            Option::as_ref(holder).and_then(|holder| view.key_of(holder)) == Some(self.key)
        };
        match (own, view.reservation.as_ref().filter(is_ours)) {
            (0, _) => None,
            (1, Some((kind, _))) => Some(Step::Releasing(*kind)),
            (_, Some((kind, _))) => Some(Step::Preempting(*kind)),
            (_, None) => Some(Step::Unregistering),
        }
    }
}

#[cfg(test)]
mod tests {
    use volume::reservation::{Registrant, Reservations};

    use super::*;

    const HOST: ReservationType = ReservationType::ExclusiveAccess;
    const NEXUS: ReservationType = ReservationType::WriteExclusiveRegistrants;

    fn host(number: u8) -> Registrant {
        Registrant::Host { identifier: [number; 16], nqn: "nqn.2026-11.org.linerate:a".into() }
    }

    fn nexus(number: u8) -> Registrant {
        Registrant::Nexus {
            initiator_port: format!("iqn.2026-11.org.linerate:a,i,{number}").into(),
            target_port: "iqn.2026-11.org.linerate:t,t,0x0001".into(),
            relative_port: 1,
        }
    }

    fn register(leg: &mut Reservations, who: &Registrant, key: u64) {
        leg.apply(who, &Command::Register { key: None, new_key: key, persist: None }).unwrap();
    }

    /// Has `who` give back what it holds by key 11; how often it asked.
    fn give_back(leg: &mut Reservations, who: &Registrant) -> usize {
        let mut releaser = Releaser::new(11);
        let (mut operation, mut asked) = (releaser.operation(), 0);
        loop {
            asked += 1;
            let answer = match operation {
                Operation::Reserve(command) => leg
                    .apply(who, &command)
                    .map(|_| Outcome::Done)
                    .map_err(|_| VolumeErrorKind::ReservationConflict),
                _ => Ok(Outcome::Reservations(leg.view())),
            };
            match releaser.answered(answer) {
                Some(next) => operation = next,
                None => return asked,
            }
        }
    }

    #[test]
    fn the_holder_releases_and_unregisters() {
        let mut leg = Reservations::default();
        register(&mut leg, &host(1), 11);
        leg.apply(&host(1), &Command::Reserve { key: 11, kind: HOST }).unwrap();
        assert_eq!(give_back(&mut leg, &host(1)), 3);
        assert!(leg.view().registrations.is_empty() && leg.view().reservation.is_none());
        assert_eq!(give_back(&mut leg, &host(1)), 1, "there is nothing more to give back");
    }

    #[test]
    fn a_nexus_gives_back_what_other_nexuses_of_the_owner_had() {
        let mut leg = Reservations::default();
        (1..4).for_each(|number| register(&mut leg, &nexus(number), 11));
        register(&mut leg, &nexus(9), 99);
        leg.apply(&nexus(1), &Command::Reserve { key: 11, kind: NEXUS }).unwrap();
        give_back(&mut leg, &nexus(3));
        let view = leg.view();
        assert_eq!(view.registrations.iter().map(|entry| entry.key).collect::<Vec<_>>(), [99]);
        assert!(view.reservation.is_none());
    }

    #[test]
    fn whoever_was_preempted_changes_nothing() {
        let mut leg = Reservations::default();
        register(&mut leg, &host(1), 11);
        leg.apply(&host(1), &Command::Reserve { key: 11, kind: HOST }).unwrap();
        register(&mut leg, &host(2), 22);
        leg.apply(&host(2), &Command::Preempt { key: 22, victim: 11, kind: HOST, abort: true }).unwrap();
        let before = leg.view();
        give_back(&mut leg, &host(1));
        assert_eq!(leg.view(), before);
        // Also where that comes after it has looked.
        let mut releaser = Releaser { key: 11, step: Step::Releasing(HOST) };
        for _ in 0..2 {
            let Operation::Reserve(command) = releaser.operation() else { panic!("it looks") };
            leg.apply(&host(1), &command).unwrap_err();
            releaser.answered(Err(VolumeErrorKind::ReservationConflict));
        }
        assert_eq!(leg.view(), before);
    }

    #[test]
    fn a_leg_without_reservations_is_asked_once() {
        assert!(Releaser::new(1).answered(Err(VolumeErrorKind::Unsupported)).is_none());
    }
}
