//! What the owner of the fences answers a reset, and when.

use host::EndpointId;
use scsi::NexusEvent;

use super::*;

const CORES: CoreIndex = 3;

fn member(core: CoreIndex) -> Member {
    Member { core, endpoint: EndpointId(7) }
}

fn call(tag: u32, volumes: &[u16]) -> ResetCall {
    let served = volumes.iter().copied().map(|slot| VolumeId::new(slot, 0)).collect();
    ResetCall { from: member(1), tag, served, cause: Cause::Reset(member(1), NexusEvent::LogicalUnitReset) }
}

/// What the owner wants done now: volumes that all cores are told of, with the fence's number, and answers.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    told: Vec<(u64, VolumeId)>,
    answers: Vec<(u32, ResetResult)>,
}

fn wanted(owner: &mut Owner) -> Wanted {
    let mut wanted = Wanted::default();
    while let Some(outcome) = owner.poll() {
        match outcome {
            Outcome::Broadcast(Fence { number, served, cause: Cause::Reset(from, _) }) => {
                assert_eq!(from, member(1));
                wanted.told.push((number, served));
            }
            Outcome::Answer(to, Answer::Reset(tag, result)) => {
                assert_eq!(to, member(1));
                wanted.answers.push((tag, result));
            }
            other => panic!("no reset asks for {other:?}"),
        }
    }
    wanted
}

fn answers(answers: &[(u32, ResetResult)]) -> Wanted {
    Wanted { answers: answers.to_vec(), ..Wanted::default() }
}

#[test]
fn a_reset_is_answered_when_every_core_has_acknowledged_it_for_every_volume() {
    for volumes in [&[4][..], &[4, 5, 9]] {
        let mut owner = Owner::default();
        owner.reset(call(20, volumes), CORES);
        let Wanted { told, answers: early } = wanted(&mut owner);
        assert_eq!(told.iter().map(|(_, volume)| *volume).collect::<Vec<_>>(), call(20, volumes).served);
        assert_eq!(early, [], "RFC 7143 §4.2.3.3: not before what is older has ended");
        for missing in (0..usize::from(CORES) * volumes.len()).rev() {
            owner.acknowledge(told[0].0);
            let expected: &[_] = if missing == 0 { &[(20, ResetResult::Done)] } else { &[] };
            assert_eq!(wanted(&mut owner), answers(expected), "{volumes:?}, {missing} are missing");
        }
    }
}

#[test]
fn a_reset_of_nothing_is_over_at_once() {
    let mut owner = Owner::default();
    owner.reset(call(20, &[]), CORES);
    assert_eq!(wanted(&mut owner), answers(&[(20, ResetResult::Done)]));
}

#[test]
fn resets_beyond_the_limit_are_refused_until_one_has_ended() {
    let mut owner = Owner::default();
    let mut numbers = Vec::new();
    for tag in 0..u32::try_from(RESETS).unwrap() {
        owner.reset(call(tag, &[4]), 1);
        let Wanted { told, answers } = wanted(&mut owner);
        assert_eq!((told.len(), answers), (1, Vec::new()), "reset {tag} of {RESETS}");
        numbers.push(told[0].0);
    }
    owner.reset(call(5000, &[4]), 1);
    assert_eq!(wanted(&mut owner), answers(&[(5000, ResetResult::Rejected)]), "and no core is told of it");
    owner.acknowledge(numbers[3]);
    assert_eq!(wanted(&mut owner), answers(&[(3, ResetResult::Done)]));
    owner.reset(call(5001, &[4]), 1);
    assert_eq!(wanted(&mut owner).told.len(), 1, "there is room for one");
    owner.reset(call(5002, &[4]), 1);
    assert_eq!(wanted(&mut owner), answers(&[(5002, ResetResult::Rejected)]), "and for no more");
}
