//! Takes a reservation on a leg, so that nobody else uses it: what to ask next, by what was answered.
//!
//! The key is registered, and a reservation taken that keeps everybody else from writing, and over NVMe from reading (SPC-4 §5.13, NVMe Base §8.1.22). A leg of this machine has no
//! reservations, and needs none. Where somebody else holds one, the leg is refused, or taken over: every other registration is removed, and the commands that came
//! by it are aborted, so that none of them takes effect once the leg is this owner's.
//!
//! An NVMe host is one registrant, whatever queue its commands come by. The queue of a preempted owner that is opened late would register it again, and by that let
//! its other queues write, where registrants may. So it looks first, and registers only where nobody else has the leg; and only the holder has access there. Over iSCSI each queue is a nexus, and a registrant of its own: all of them write, and one that
//! registers late lets nobody write but itself, which looks first. Others may read there: not every target lets a nexus that is not registered ask for the capacity
//! under exclusive access.
//!
//! A leg that fails while the mirror is opened is opened anew later, and then the owner is another NVMe host to it. What the one before has taken has this owner's key, and is no access for
//! the one that is there now: it is taken from it.

use std::sync::Arc;

use volume::reservation::{Command, Registrant, ReservationType, View};
use volume::{Operation, Outcome, VolumeErrorKind};

use crate::limits::QUESTIONS;
use crate::planted::{Fault, planted};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Registering { persist: Option<bool> },
    Looking,
    Reserving(ReservationType),
    Preempting { victim: u64, kind: ReservationType },
    Unregistering,
}

const REGISTERING: Step = Step::Registering { persist: Some(true) };

/// What an owner may do about a reservation that it does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Take it where nobody has access yet.
    Free,
    /// Take it away from whoever has it.
    Takeover,
    /// It has had this leg's: take it again where the leg has lost it, and give up where it is somebody else's.
    Held,
}

/// Whether a leg without reservations may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// It may not: other hosts can reach it.
    Reservation,
    /// It may: it is this machine's, fences itself, or the operator answers for it.
    Nothing,
}

/// A leg's reservation in the making.
#[derive(Debug)]
pub(crate) struct Fencer {
    key: u64,
    need: Need,
    step: Step,
    /// This queue has registered.
    registered: bool,
    asked: u16,
    refusal: Option<String>,
}

/// What comes of an answer.
#[derive(Debug)]
pub(crate) enum Fenced {
    /// Ask this next.
    Ask(Operation),
    /// Nobody else writes to the leg, and nothing of anybody else is under way there.
    Done,
    /// Somebody else has it: who, and what to do.
    Refused(String),
    /// The leg cannot be used: why.
    Failed(String),
}

impl Fencer {
    /// Takes the reservation by this key, which is not zero.
    pub(crate) fn new(key: u64, need: Need, claim: Claim) -> Self {
        let looks = claim == Claim::Held && !planted(Fault::SharedAccess);
        let step = if looks { Step::Looking } else { REGISTERING };
        Self { key, need, step, registered: false, asked: 1, refusal: None }
    }

    /// What to ask the leg now.
    pub(crate) fn operation(&self) -> Operation {
        let key = self.key;
        Operation::Reserve(match self.step {
            Step::Registering { persist } => Command::Register { key: None, new_key: key, persist },
            Step::Looking => return Operation::ReadReservations,
            Step::Reserving(kind) => Command::Reserve { key, kind },
            Step::Preempting { victim, kind } => {
                let abort = !planted(Fault::PreemptionWithoutAbort);
                Command::Preempt { key, victim, kind, abort }
            }
            Step::Unregistering => Command::Register { key: Some(key), new_key: 0, persist: None },
        })
    }

    fn ask(&mut self, step: Step) -> Fenced {
        if self.asked >= QUESTIONS {
            return Fenced::Failed("its reservation changes again and again".to_owned());
        }
        self.asked += 1;
        self.step = step;
        Fenced::Ask(self.operation())
    }

    /// The leg has answered. `claim` is what holds now, as another queue may have had its turn meanwhile.
    pub(crate) fn answered(&mut self, result: Result<Outcome, VolumeErrorKind>, claim: Claim) -> Fenced {
        match (self.step, result) {
            (Step::Registering { .. } | Step::Looking, Err(VolumeErrorKind::Unsupported))
                if !self.registered =>
            {
                match self.need {
                Need::Nothing => Fenced::Done,
                Need::Reservation => Fenced::Failed(
                    "it has no persistent reservations, so that no other host can be kept from writing to it: use a target that has them, or add \
                     unfenced=1 if it is certain that no other host uses the mirror"
                        .to_owned(),
                ),
                }
            }
            // Not every target keeps registrations over a loss of power.
            (Step::Registering { persist: Some(_) }, Err(kind))
                if kind != VolumeErrorKind::ReservationConflict =>
            {
                self.ask(Step::Registering { persist: None })
            }
            (Step::Registering { .. } | Step::Reserving(_) | Step::Preempting { .. }, Ok(_)) => {
                self.registered = true;
                // What was done is looked at: it may have been somebody else's turn meanwhile.
                self.ask(Step::Looking)
            }
            (Step::Looking, Ok(Outcome::Reservations(view))) => self.look(&view, claim),
            (Step::Reserving(_) | Step::Preempting { .. }, Err(VolumeErrorKind::ReservationConflict)) => {
                self.ask(Step::Looking)
            }
            (Step::Unregistering, _) => Fenced::Refused(self.refusal.take().unwrap_or_default()),
            (_, Ok(_)) => {
                Fenced::Failed("it answered something else when its reservations were read".to_owned())
            }
            (_, Err(kind)) => Fenced::Failed(format!("its reservation could not be taken: {kind}")),
        }
    }

    fn look(&mut self, view: &Arc<View>, claim: Claim) -> Fenced {
        if !self.registered {
            return self.look_first(view);
        }
        let Some(own) = view.registrations.iter().find(|entry| entry.key == self.key) else {
            return Fenced::Refused("another host has taken it over meanwhile".to_owned());
        };
        let kind = match own.registrant {
            Registrant::Host { .. } if !planted(Fault::SharedAccess) => ReservationType::ExclusiveAccess,
            _ => ReservationType::WriteExclusiveRegistrants,
        };
        let others: Vec<_> = view.registrations.iter().filter(|entry| entry.key != self.key).collect();
        let is_host = matches!(own.registrant, Registrant::Host { .. });
        let has_been_another = is_host && view.registrations.len() - others.len() > 1;
        let key_of = |holder: &Option<Registrant>| holder.as_ref().and_then(|holder| view.key_of(holder));
        match (&view.reservation, claim) {
            (Some((held, holder)), _)
                if *held == kind
                    && key_of(holder) == Some(self.key)
                    && (others.is_empty() || claim != Claim::Takeover) =>
            {
                if !has_been_another {
                    return Fenced::Done;
                }
                self.ask(Step::Preempting { victim: self.key, kind })
            }
            (None, Claim::Free) if !others.is_empty() => {
                // They could write as soon as registrants may.
                let names: Vec<_> = others.iter().map(|entry| name(&entry.registrant)).collect();
                self.refuse(&names.join(", "))
            }
            (None, _) => self.ask(Step::Reserving(kind)),
            (Some((_, holder)), Claim::Takeover) => {
                // The holder last, as that takes the reservation.
                let holder = key_of(holder).unwrap_or(0);
                let other = others.iter().map(|entry| entry.key).find(|key| *key != holder);
                self.ask(Step::Preempting { victim: other.unwrap_or(holder), kind })
            }
            (Some((_, holder)), _) => {
                self.refuse(&holder.as_ref().map_or_else(|| "all who are registered".to_owned(), name))
            }
        }
    }

    /// Whether a queue whose owner has had the leg may register.
    fn look_first(&mut self, view: &Arc<View>) -> Fenced {
        let holder = view.reservation.as_ref().map(|(_, holder)| holder.as_ref());
        let is_ours =
            |holder: Option<&Registrant>| holder.and_then(|holder| view.key_of(holder)) == Some(self.key);
        match holder {
            // All queues are that host's.
            Some(Some(Registrant::Host { .. })) if holder.is_some_and(is_ours) => Fenced::Done,
            Some(holder) if !is_ours(holder) => Fenced::Refused("another host has taken it over".to_owned()),
            _ => self.ask(REGISTERING),
        }
    }

    /// Leaves the leg to `whom`.
    fn refuse(&mut self, whom: &str) -> Fenced {
        self.refusal = Some(format!(
            "its reservation is held by {whom}: let one host alone use the mirror, or take it over by takeover=1 if that one is \
             certainly not to go on"
        ));
        self.ask(Step::Unregistering)
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
    fn run(leg: &mut Reservations, host: &Registrant, key: u64, claim: Claim) -> Result<(), String> {
        let mut fencer = Fencer::new(key, Need::Reservation, claim);
        let mut operation = fencer.operation();
        for _ in 0..20 {
            let answer = match operation {
                Operation::Reserve(command) => leg
                    .apply(host, &command)
                    .map(|_| Outcome::Done)
                    .map_err(|_| VolumeErrorKind::ReservationConflict),
                _ => Ok(Outcome::Reservations(leg.view())),
            };
            match fencer.answered(answer, claim) {
                Fenced::Ask(next) => operation = next,
                Fenced::Done => return Ok(()),
                Fenced::Refused(why) | Fenced::Failed(why) => return Err(why),
            }
        }
        panic!("it never ends")
    }

    fn nexus(number: u8) -> Registrant {
        Registrant::Nexus {
            initiator_port: format!("iqn.2026-11.org.linerate:{number},i,0x1").into(),
            target_port: "iqn.2026-11.org.linerate:t,t,0x0001".into(),
            relative_port: 1,
        }
    }

    #[test]
    fn the_first_has_it_and_the_second_is_told_who() {
        let mut leg = Reservations::default();
        run(&mut leg, &host(1), 11, Claim::Free).unwrap();
        assert!(leg.view().access(&host(1)).write && !leg.view().access(&host(2)).read);
        let refused = run(&mut leg, &host(2), 22, Claim::Free).unwrap_err();
        assert!(
            refused.contains("nqn.2026-11.org.linerate:1") && refused.contains("takeover=1"),
            "{refused}"
        );
        assert_eq!(leg.view().registrations.len(), 1, "it has left nothing");
        run(&mut leg, &host(1), 11, Claim::Held).unwrap();
    }

    #[test]
    fn whoever_takes_over_is_alone_and_aborts_what_was_under_way() {
        for registrant in [host, nexus] {
            let mut leg = Reservations::default();
            run(&mut leg, &registrant(1), 11, Claim::Free).unwrap();
            leg.apply(&registrant(3), &Command::Register { key: None, new_key: 33, persist: None }).unwrap();
            let mut fencer = Fencer::new(22, Need::Reservation, Claim::Takeover);
            let (mut operation, mut aborted) = (fencer.operation(), Vec::new());
            loop {
                let answer = match operation {
                    Operation::Reserve(command) => leg.apply(&registrant(2), &command).map(|change| {
                        aborted.extend(change.aborted);
                        Outcome::Done
                    }),
                    _ => Ok(Outcome::Reservations(leg.view())),
                };
                let answer = answer.map_err(|_| VolumeErrorKind::ReservationConflict);
                match fencer.answered(answer, Claim::Takeover) {
                    Fenced::Ask(next) => operation = next,
                    Fenced::Done => break,
                    ended => panic!("{ended:?}"),
                }
            }
            assert_eq!(aborted, [registrant(3), registrant(1)], "the holder is the last");
            let view = leg.view();
            let may = [1, 2, 3].map(|number| view.access(&registrant(number)));
            assert_eq!(may.map(|access| access.write), [false, true, false]);
            assert_eq!(view.registrations.len(), 1);
        }
    }

    #[test]
    fn a_late_queue_of_a_preempted_owner_changes_nothing() {
        for (old, new) in [(host(1), host(2)), (nexus(1), host(2)), (host(1), nexus(2)), (nexus(1), nexus(2))]
        {
            let mut leg = Reservations::default();
            run(&mut leg, &old, 11, Claim::Free).unwrap();
            run(&mut leg, &new, 22, Claim::Takeover).unwrap();
            let before = leg.view();
            run(&mut leg, &old, 11, Claim::Held).unwrap_err();
            assert_eq!(leg.view(), before, "it only looks");
            // A first queue registers, and gives the right back that this may be.
            run(&mut leg, &old, 11, Claim::Free).unwrap_err();
            assert_eq!(leg.view().key_of(&old), None);
        }
    }

    #[test]
    fn another_nvme_queue_of_the_holder_need_not_register() {
        let mut leg = Reservations::default();
        run(&mut leg, &host(1), 11, Claim::Free).unwrap();
        let before = leg.view();
        run(&mut leg, &host(1), 11, Claim::Held).unwrap();
        assert_eq!(leg.view(), before);
        leg = Reservations::default();
        run(&mut leg, &host(1), 11, Claim::Held).unwrap();
        assert!(leg.view().holds(&host(1)), "a leg that has forgotten is taken again");
    }

    #[test]
    fn what_a_host_has_taken_that_this_owner_was_before_is_taken_from_it() {
        for claim in [Claim::Free, Claim::Takeover] {
            let mut leg = Reservations::default();
            run(&mut leg, &host(1), 11, claim).unwrap();
            run(&mut leg, &host(2), 11, claim).unwrap();
            assert!(leg.view().holds(&host(2)) && leg.view().registrations.len() == 1);
            assert!(!leg.view().access(&host(1)).read);
            // It may not have come to the reservation.
            let mut leg = Reservations::default();
            leg.apply(&host(1), &Command::Register { key: None, new_key: 11, persist: None }).unwrap();
            run(&mut leg, &host(2), 11, claim).unwrap();
            assert!(leg.view().holds(&host(2)) && leg.view().registrations.len() == 1);
        }
        // Of another owner's leg that one has nothing but a registration.
        let mut leg = Reservations::default();
        run(&mut leg, &host(3), 33, Claim::Free).unwrap();
        leg.apply(&host(1), &Command::Register { key: None, new_key: 11, persist: None }).unwrap();
        run(&mut leg, &host(2), 11, Claim::Free).unwrap_err();
        assert!(leg.view().holds(&host(3)));
        run(&mut leg, &host(2), 11, Claim::Takeover).unwrap();
        assert!(leg.view().holds(&host(2)) && leg.view().registrations.len() == 1);
    }

    #[test]
    fn each_queue_of_an_owner_has_access_over_iscsi() {
        let mut leg = Reservations::default();
        run(&mut leg, &nexus(1), 11, Claim::Free).unwrap();
        run(&mut leg, &nexus(2), 11, Claim::Held).unwrap();
        let may_write = [1, 2, 3].map(|number| leg.view().access(&nexus(number)).write);
        assert_eq!(may_write, [true, true, false]);
        run(&mut leg, &nexus(3), 33, Claim::Takeover).unwrap();
        let may_write = [1, 2, 3].map(|number| leg.view().access(&nexus(number)).write);
        assert_eq!(may_write, [false, false, true], "one key names them all");
    }

    #[test]
    fn where_others_are_registered_and_none_has_it_a_takeover_must_be_asked_for() {
        let mut leg = Reservations::default();
        leg.apply(&nexus(1), &Command::Register { key: None, new_key: 11, persist: None }).unwrap();
        let refused = run(&mut leg, &nexus(2), 22, Claim::Free).unwrap_err();
        assert!(refused.contains("iqn.2026-11.org.linerate:1"), "{refused}");
        run(&mut leg, &nexus(2), 22, Claim::Takeover).unwrap();
        assert!(!leg.view().access(&nexus(1)).write);
    }

    #[test]
    fn whoever_was_preempted_meanwhile_gives_up() {
        let mut fencer = Fencer::new(1, Need::Reservation, Claim::Takeover);
        let looks = fencer.answered(Ok(Outcome::Done), Claim::Takeover);
        assert!(matches!(looks, Fenced::Ask(Operation::ReadReservations)));
        let answer = Ok(Outcome::Reservations(Reservations::default().view()));
        assert!(matches!(fencer.answered(answer, Claim::Takeover), Fenced::Refused(_)));
    }

    #[test]
    fn a_leg_without_reservations_is_used_only_where_it_needs_none_and_one_that_fails_is_refused() {
        let mut fencer = Fencer::new(1, Need::Nothing, Claim::Free);
        assert!(matches!(fencer.answered(Err(VolumeErrorKind::Unsupported), Claim::Free), Fenced::Done));
        for claim in [Claim::Free, Claim::Takeover, Claim::Held] {
            let mut fencer = Fencer::new(1, Need::Reservation, claim);
            let refused = fencer.answered(Err(VolumeErrorKind::Unsupported), claim);
            assert!(matches!(refused, Fenced::Failed(why) if why.contains("unfenced=1")));
        }
        let mut later = Fencer::new(1, Need::Nothing, Claim::Held);
        assert!(matches!(later.answered(Err(VolumeErrorKind::Unsupported), Claim::Held), Fenced::Done));
        let mut fencer = Fencer::new(1, Need::Nothing, Claim::Free);
        assert!(
            matches!(fencer.answered(Err(VolumeErrorKind::Media), Claim::Free), Fenced::Ask(_)),
            "without persistence"
        );
        assert!(matches!(fencer.answered(Err(VolumeErrorKind::Media), Claim::Free), Fenced::Failed(_)));
    }
}
