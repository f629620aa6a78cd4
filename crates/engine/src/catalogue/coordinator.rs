//! Putting a catalogue in place of the one before, on all cores or on none: the part of core 0.
//!
//! Three rounds over all cores. In the first each opens the queues of new volumes and shows them to nobody; in the second each serves the catalogue to whoever asks,
//! and tells nobody of it; in the third each tells its connections, and ends what is not in it any more. A host that hears of a volume on one core may ask for it on
//! another at once, so none may hear before all cores serve it. A core that cannot open a queue makes all cores drop what they have opened. `coordinator.table` has
//! every transition.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use host::CoreIndex;
use volume::VolumeId;

use super::{Catalogue, ControlEvent, Generation, ProposalError};
use crate::message::Message;
use crate::queues::Retired;

/// What the coordinator waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A proposal.
    Idle,
    /// The cores open the queues of new volumes.
    Preparing,
    /// The cores begin to serve the catalogue.
    Committing,
    /// The cores tell their connections of it.
    Announcing,
    /// The cores drop what they have opened.
    Abandoning,
}

/// What moves it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// A newer catalogue is proposed.
    Proposed,
    /// All cores have answered, and could.
    AllAnswered,
    /// All cores have answered, and not all of them could.
    SomeRefused,
}

impl State {
    fn after(self, event: Event) -> Option<Self> {
        match (self, event) {
            (Self::Idle, Event::Proposed) => Some(Self::Preparing),
            (Self::Preparing, Event::AllAnswered) => Some(Self::Committing),
            (Self::Preparing, Event::SomeRefused) => Some(Self::Abandoning),
            (Self::Committing, Event::AllAnswered) => Some(Self::Announcing),
            (Self::Announcing | Self::Abandoning, Event::AllAnswered) => Some(Self::Idle),
            _ => None,
        }
    }
}

/// What every core does, and answers.
#[derive(Debug, Clone)]
pub(crate) enum Round {
    Prepare(Arc<Catalogue>),
    Commit(Generation),
    Announce(Generation),
    Abandon(Generation),
}

impl Round {
    pub(crate) fn message(&self) -> Message {
        match self {
            Self::Prepare(catalogue) => Message::Prepare(Arc::clone(catalogue)),
            Self::Commit(generation) => Message::Commit(*generation),
            Self::Announce(generation) => Message::Announce(*generation),
            Self::Abandon(generation) => Message::Abandon(*generation),
        }
    }
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Every core is to be told.
    Begin(Round),
    /// Whoever proposes catalogues is to be told.
    Observe(ControlEvent),
}

/// How far a volume's end has come.
#[derive(Debug, Clone, Copy)]
struct Retirement {
    cores: CoreIndex,
    secured: bool,
    forced: u32,
}

/// The coordinator.
#[derive(Debug)]
pub(crate) struct Coordinator {
    cores: CoreIndex,
    state: State,
    /// What is served, or will be once the third round is over.
    served: Generation,
    proposal: Option<Arc<Catalogue>>,
    /// Cores that have not answered in this round, and the first reason why one could not.
    awaited: CoreIndex,
    refusal: Option<ProposalError>,
    /// Volumes of which some cores, not all, have no queue any more.
    retiring: HashMap<VolumeId, Retirement>,
    stopping: bool,
    outcomes: VecDeque<Outcome>,
}

impl Coordinator {
    /// For a process of so many cores, which serve `first` from the beginning.
    pub(crate) fn new(cores: CoreIndex, first: &Catalogue) -> Self {
        Self {
            cores,
            state: State::Idle,
            served: first.generation,
            proposal: None,
            awaited: 0,
            refusal: None,
            retiring: HashMap::new(),
            stopping: false,
            outcomes: VecDeque::new(),
        }
    }

    /// Somebody wants another catalogue served.
    pub(crate) fn propose(&mut self, catalogue: Arc<Catalogue>) {
        let generation = catalogue.generation;
        let refusal = match () {
            () if self.stopping => Some(ProposalError::Stopping),
            () if self.state != State::Idle => Some(ProposalError::Busy),
            () if generation <= self.served => Some(ProposalError::Outdated(generation)),
            () => None,
        };
        if let Some(error) = refusal {
            return self.outcomes.push_back(Outcome::Observe(ControlEvent::Rejected(generation, error)));
        }
        self.begin(Event::Proposed, Round::Prepare(Arc::clone(&catalogue)));
        self.proposal = Some(catalogue);
    }

    /// A core has answered in the round that goes on.
    pub(crate) fn handle_answer(&mut self, generation: Generation, result: Result<(), ProposalError>) {
        let Some(proposal) = self.proposal.as_ref().filter(|proposal| proposal.generation == generation)
        else {
            return;
        };
        let proposal = Arc::clone(proposal);
        self.awaited = self.awaited.saturating_sub(1);
        self.refusal = self.refusal.take().or(result.err());
        if self.awaited > 0 {
            return;
        }
        match self.state {
            State::Preparing if self.refusal.is_some() => {
                self.begin(Event::SomeRefused, Round::Abandon(generation));
            }
            State::Preparing => {
                self.served = generation;
                self.begin(Event::AllAnswered, Round::Commit(generation));
            }
            State::Committing => self.begin(Event::AllAnswered, Round::Announce(generation)),
            State::Announcing | State::Abandoning => self.end(&proposal),
            State::Idle => {}
        }
    }

    fn begin(&mut self, event: Event, round: Round) {
        self.handle(event);
        self.awaited = self.cores;
        self.outcomes.push_back(Outcome::Begin(round));
    }

    fn end(&mut self, proposal: &Catalogue) {
        self.handle(Event::AllAnswered);
        self.proposal = None;
        let event = match self.refusal.take() {
            None => ControlEvent::Applied(proposal.generation),
            Some(error) => ControlEvent::Rejected(proposal.generation, error),
        };
        self.outcomes.push_back(Outcome::Observe(event));
    }

    fn handle(&mut self, event: Event) {
        self.state = self.state.after(event).unwrap_or(self.state);
    }

    /// A core has no queue of a volume any more. True when no other has one either.
    pub(crate) fn handle_retired(&mut self, Retired { id, secured, forced }: Retired) -> bool {
        let begun = Retirement { cores: 0, secured: true, forced: 0 };
        let whole = self.retiring.entry(id).or_insert(begun);
        whole.cores += 1;
        whole.secured &= secured;
        whole.forced = whole.forced.saturating_add(forced);
        let Retirement { cores, secured, forced } = *whole;
        let whole = cores == self.cores;
        if whole {
            self.retiring.remove(&id);
            self.outcomes.push_back(Outcome::Observe(ControlEvent::Retired { id, secured, forced }));
        }
        whole
    }

    /// Nothing is to change any more: what is not shown yet is given up.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
        if self.state == State::Preparing {
            self.refusal.get_or_insert(ProposalError::Stopping);
        }
    }

    /// The next thing to be done.
    pub(crate) fn poll(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use volume::OpenError;

    use super::*;

    #[test]
    fn table_of_all_transitions() {
        use Event::{AllAnswered, Proposed, SomeRefused};
        use State::{Abandoning, Announcing, Committing, Idle, Preparing};
        let mut table = String::new();
        for state in [Idle, Preparing, Committing, Announcing, Abandoning] {
            for event in [Proposed, AllAnswered, SomeRefused] {
                if let Some(next) = state.after(event) {
                    writeln!(table, "{state:?} --{event:?}--> {next:?}").unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("coordinator.table"));
    }

    const FIRST: Generation = Generation(1);
    const NEXT: Generation = Generation(2);

    fn coordinator() -> Coordinator {
        Coordinator::new(2, &Catalogue { generation: FIRST, ..Catalogue::default() })
    }

    fn catalogue(generation: Generation) -> Arc<Catalogue> {
        Arc::new(Catalogue { generation, ..Catalogue::default() })
    }

    /// What is to be done now, in short.
    fn outcomes(coordinator: &mut Coordinator) -> Vec<String> {
        let outcomes = std::iter::from_fn(|| coordinator.poll());
        let short = |outcome| match outcome {
            Outcome::Begin(Round::Prepare(catalogue)) => format!("prepare {}", catalogue.generation.0),
            Outcome::Begin(Round::Commit(generation)) => format!("commit {}", generation.0),
            Outcome::Begin(Round::Announce(generation)) => format!("announce {}", generation.0),
            Outcome::Begin(Round::Abandon(generation)) => format!("abandon {}", generation.0),
            Outcome::Observe(event) => format!("{event:?}"),
        };
        outcomes.map(short).collect()
    }

    fn refusal() -> ProposalError {
        ProposalError::Volume { volume: "disk".into(), error: OpenError::new("no") }
    }

    #[test]
    fn a_catalogue_is_served_when_every_core_could_prepare_it_and_announced_when_every_core_serves_it() {
        let mut coordinator = coordinator();
        coordinator.propose(catalogue(NEXT));
        assert_eq!(outcomes(&mut coordinator), ["prepare 2"]);
        coordinator.handle_answer(NEXT, Ok(()));
        assert_eq!(outcomes(&mut coordinator), [""; 0]);
        coordinator.handle_answer(FIRST, Ok(()));
        assert_eq!(outcomes(&mut coordinator), [""; 0], "of another round");
        coordinator.handle_answer(NEXT, Ok(()));
        assert_eq!(outcomes(&mut coordinator), ["commit 2"]);
        coordinator.propose(catalogue(Generation(3)));
        assert_eq!(outcomes(&mut coordinator), ["Rejected(Generation(3), Busy)"]);
        coordinator.handle_answer(NEXT, Ok(()));
        assert_eq!(outcomes(&mut coordinator), [""; 0], "a core does not serve it yet");
        coordinator.handle_answer(NEXT, Ok(()));
        assert_eq!(outcomes(&mut coordinator), ["announce 2"]);
        coordinator.handle_answer(NEXT, Ok(()));
        coordinator.handle_answer(NEXT, Ok(()));
        assert_eq!(outcomes(&mut coordinator), ["Applied(Generation(2))"]);
        coordinator.propose(catalogue(NEXT));
        assert_eq!(outcomes(&mut coordinator), ["Rejected(Generation(2), Outdated(Generation(2)))"]);
    }

    #[test]
    fn a_catalogue_that_one_core_cannot_prepare_is_dropped_by_all() {
        for results in [[Ok(()), Err(refusal())], [Err(refusal()), Ok(())]] {
            let mut coordinator = coordinator();
            coordinator.propose(catalogue(NEXT));
            for result in results {
                coordinator.handle_answer(NEXT, result);
            }
            assert_eq!(outcomes(&mut coordinator), ["prepare 2", "abandon 2"]);
            coordinator.handle_answer(NEXT, Ok(()));
            coordinator.handle_answer(NEXT, Ok(()));
            let refused = format!("{:?}", ControlEvent::Rejected(NEXT, refusal()));
            assert_eq!(outcomes(&mut coordinator), [refused]);
            coordinator.propose(catalogue(NEXT));
            assert_eq!(outcomes(&mut coordinator), ["prepare 2"], "it may be tried again");
        }
    }

    #[test]
    fn a_stop_gives_up_what_is_not_shown_yet() {
        let mut coordinator = coordinator();
        coordinator.propose(catalogue(NEXT));
        coordinator.stop();
        coordinator.handle_answer(NEXT, Ok(()));
        coordinator.handle_answer(NEXT, Ok(()));
        assert_eq!(outcomes(&mut coordinator), ["prepare 2", "abandon 2"]);
        coordinator.propose(catalogue(Generation(3)));
        assert_eq!(outcomes(&mut coordinator), ["Rejected(Generation(3), Stopping)"]);
    }

    #[test]
    fn a_volume_is_retired_when_all_cores_have_and_secured_if_all_could() {
        for secured in [true, false] {
            let (mut coordinator, id) = (coordinator(), VolumeId::new(4, 0));
            let of = |id, secured, forced| Retired { id, secured, forced };
            assert!(!coordinator.handle_retired(of(id, secured, 2)));
            assert!(!coordinator.handle_retired(of(VolumeId::new(4, 1), true, 4)), "another one");
            assert!(coordinator.handle_retired(of(id, true, 1)));
            let retired = format!("{:?}", ControlEvent::Retired { id, secured, forced: 3 });
            assert_eq!(outcomes(&mut coordinator), [retired]);
        }
    }
}
