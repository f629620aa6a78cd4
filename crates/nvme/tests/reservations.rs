//! Reservations over NVMe: what each type leaves to whom, what each command answers, and what hosts are told.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use buf::{Buf, BufList, SharedBuf};
use common::Bench;
use nvme::fabrics::HostIdentity;
use nvme::host;
use protocol::pair::aperiodic;
use volume::reservation::{Command, Registrant, ReservationType, View};
use volume::{Durability, Extent, Operation, Outcome, VolumeErrorKind, VolumeId};

const CONFLICT: VolumeErrorKind = VolumeErrorKind::ReservationConflict;
/// What a status of Invalid Field becomes at the host.
const INVALID: VolumeErrorKind = VolumeErrorKind::Misaligned;

fn identity(number: u8) -> HostIdentity {
    HostIdentity { identifier: [number; 16], nqn: format!("nqn.2014-08.org.example:{number}").into() }
}

/// A host with one I/O queue.
struct Host {
    number: u8,
    queue: usize,
}

impl Host {
    fn connect(bench: &mut Bench, number: u8) -> Self {
        let admin = bench.links.len();
        bench.session_of(&identity(number), (1, 1), (false, false));
        Self { number, queue: admin + 1 }
    }

    fn registrant(&self) -> Registrant {
        let HostIdentity { identifier, nqn } = identity(self.number);
        Registrant::Host { identifier, nqn }
    }

    /// Carries a request out.
    fn run(&self, bench: &mut Bench, operation: Operation) -> Result<Outcome, VolumeErrorKind> {
        let link = &mut bench.links[self.queue];
        link.submit(1, operation);
        bench.run();
        let mut ended = bench.links[self.queue].events.drain(..).filter_map(|event| match event {
            host::Action::Complete(completion) => Some(completion.outcome()),
            _ => None,
        });
        let result = ended.next().unwrap();
        assert!(ended.next().is_none());
        result
    }

    fn change(&self, bench: &mut Bench, command: Command) -> Result<(), VolumeErrorKind> {
        self.run(bench, Operation::Reserve(command)).map(drop)
    }

    fn report(&self, bench: &mut Bench) -> View {
        match self.run(bench, Operation::ReadReservations) {
            Ok(Outcome::Reservations(view)) => View::clone(&view),
            other => panic!("{other:?}"),
        }
    }
}

fn register(new_key: u64) -> Command {
    Command::Register { key: Some(0), new_key, persist: None }
}

fn reserve(key: u64, kind: ReservationType) -> Command {
    Command::Reserve { key, kind }
}

fn release(key: u64, kind: ReservationType) -> Command {
    Command::Release { key, kind }
}

fn preempt(key: u64, victim: u64, kind: ReservationType) -> Command {
    Command::Preempt { key, victim, kind, abort: false }
}

/// A holder, another registrant and a stranger.
fn three(bench: &mut Bench) -> [Host; 3] {
    let hosts = [1, 2, 3].map(|number| Host::connect(bench, number));
    hosts[0].change(bench, register(1)).unwrap();
    hosts[1].change(bench, register(2)).unwrap();
    hosts
}

/// One of each command, and whether the standard counts it among those that write.
fn commands() -> Vec<(&'static str, bool, Operation)> {
    let extent = Extent::new(0, 8);
    let data = |length| BufList::from(SharedBuf::from(vec![0; length]));
    let cached = Durability::Cached;
    vec![
        ("read", false, Operation::Read { extent, into: Buf::zeroed(4096) }),
        ("compare", false, Operation::Compare { extent, data: data(4096) }),
        ("verify", false, Operation::Verify { extent }),
        ("write", true, Operation::Write { extent, data: data(4096), durability: cached }),
        ("flush", true, Operation::Flush),
        ("discard", true, Operation::Discard { extent }),
        ("zeroes", true, Operation::WriteZeroes { extent, durability: cached, may_unmap: false }),
        (
            "large write",
            true,
            Operation::Write { extent: Extent::new(0, 512), data: data(512 * 512), durability: cached },
        ),
    ]
}

/// May read, may write: by role and type, as the standard's table has it (NVMe Base §8.1.22.1).
fn expected(role: usize, kind: ReservationType) -> (bool, bool) {
    let reads_stay = matches!(
        kind,
        ReservationType::WriteExclusive
            | ReservationType::WriteExclusiveRegistrants
            | ReservationType::WriteExclusiveAll
    );
    let registrants = !matches!(kind, ReservationType::WriteExclusive | ReservationType::ExclusiveAccess);
    let all = role == 0 || role == 1 && registrants;
    (all || reads_stay, all)
}

#[test]
fn every_command_of_every_role_under_every_type() {
    for kind in ReservationType::ALL {
        let mut bench = Bench::new();
        let hosts = three(&mut bench);
        hosts[0].change(&mut bench, reserve(1, kind)).unwrap();
        for (role, host) in hosts.iter().enumerate() {
            let (reads, writes) = expected(role, kind);
            for (name, is_write, operation) in commands() {
                let result = host.run(&mut bench, operation).map(drop);
                let allowed = if is_write { writes } else { reads };
                let wanted = if allowed { Ok(()) } else { Err(CONFLICT) };
                assert_eq!(result, wanted, "{name} of host {role} under {kind:?}");
            }
            assert_eq!(host.report(&mut bench).registrations.len(), 2, "a report is never refused");
        }
        hosts[0].change(&mut bench, release(1, kind)).unwrap();
        for (name, _, operation) in commands() {
            hosts[2].run(&mut bench, operation).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

#[test]
fn the_reservation_commands_of_every_role() {
    for kind in ReservationType::ALL {
        let mut bench = Bench::new();
        let [holder, other, stranger] = three(&mut bench);
        for host in [&holder, &other] {
            assert_eq!(host.change(&mut bench, reserve(9, kind)), Err(CONFLICT), "a wrong key");
        }
        for command in [reserve(3, kind), release(3, kind), preempt(3, 1, kind), Command::Clear { key: 3 }] {
            assert_eq!(stranger.change(&mut bench, command), Err(CONFLICT), "not registered");
        }
        holder.change(&mut bench, reserve(1, kind)).unwrap();
        holder.change(&mut bench, reserve(1, kind)).unwrap();
        let different = if kind == ReservationType::WriteExclusive {
            ReservationType::ExclusiveAccess
        } else {
            ReservationType::WriteExclusive
        };
        assert_eq!(holder.change(&mut bench, reserve(1, different)), Err(CONFLICT), "another type");
        assert_eq!(holder.change(&mut bench, release(1, different)), Err(INVALID), "another type");
        let view = holder.report(&mut bench);
        assert_eq!(view.reservation.as_ref().map(|(kind, _)| *kind), Some(kind));
        assert_eq!(view.generation, 2, "reserving does not count");
        // Registering again with one's own key, and with another.
        holder.change(&mut bench, register(1)).unwrap();
        assert_eq!(holder.change(&mut bench, register(7)), Err(CONFLICT));
        // Another registrant takes it.
        let victim = u64::from(!kind.is_all());
        if !kind.is_all() {
            assert_eq!(other.change(&mut bench, preempt(2, 0, kind)), Err(INVALID), "zero names nobody");
            assert_eq!(other.change(&mut bench, preempt(2, 99, kind)), Err(CONFLICT), "nobody's key");
        }
        other.change(&mut bench, preempt(2, victim, kind)).unwrap();
        let view = other.report(&mut bench);
        assert_eq!(view.registrations.iter().map(|entry| entry.key).collect::<Vec<_>>(), [2]);
        assert!(view.reservation.is_some());
        assert_eq!(holder.change(&mut bench, release(1, kind)), Err(CONFLICT), "it is registered no more");
        other.change(&mut bench, Command::Clear { key: 2 }).unwrap();
        let view = stranger.report(&mut bench);
        assert!(view.registrations.is_empty() && view.reservation.is_none());
    }
}

#[test]
fn keys_are_registered_replaced_and_removed() {
    let mut bench = Bench::new();
    let host = Host::connect(&mut bench, 1);
    let replace = |key, new_key| Command::Register { key, new_key, persist: None };
    assert_eq!(host.change(&mut bench, replace(Some(5), 6)), Err(CONFLICT), "nothing to replace");
    assert_eq!(host.change(&mut bench, replace(Some(5), 0)), Err(CONFLICT), "nothing to remove");
    host.change(&mut bench, replace(None, 5)).unwrap();
    assert_eq!(host.change(&mut bench, replace(Some(4), 6)), Err(CONFLICT), "a wrong key");
    host.change(&mut bench, replace(Some(5), 6)).unwrap();
    host.change(&mut bench, replace(None, 7)).unwrap();
    assert_eq!(host.report(&mut bench).registrations[0].key, 7);
    assert_eq!(host.change(&mut bench, replace(Some(6), 0)), Err(CONFLICT), "a wrong key");
    host.change(&mut bench, replace(None, 0)).unwrap();
    assert!(host.report(&mut bench).registrations.is_empty());
    let persist = Command::Register { key: Some(0), new_key: 1, persist: Some(true) };
    assert_eq!(host.change(&mut bench, persist), Err(INVALID), "nothing survives the process");
    assert_eq!(host.report(&mut bench).generation, 4);
}

#[test]
fn an_iscsi_initiator_and_a_host_fence_each_other() {
    let mut bench = Bench::new();
    let host = Host::connect(&mut bench, 1);
    let nexus = Registrant::Nexus {
        initiator_port: "iqn.2026-11.org.example:one,i,0x1".into(),
        target_port: "iqn.2026-11.org.linerate:disk,t,0x0001".into(),
        relative_port: 1,
    };
    bench
        .reserve(VolumeId::new(0, 0), &nexus, &Command::Register { key: None, new_key: 8, persist: None })
        .unwrap();
    bench.reserve(VolumeId::new(0, 0), &nexus, &reserve(8, ReservationType::ExclusiveAccess)).unwrap();
    let read = || Operation::Read { extent: Extent::new(0, 1), into: Buf::zeroed(512) };
    assert_eq!(host.run(&mut bench, read()).map(drop), Err(CONFLICT));
    let view = host.report(&mut bench);
    assert_eq!((view.registrations.len(), view.registrations[0].key), (1, 8), "the nexus is told of");
    // The host takes the reservation from the nexus.
    host.change(&mut bench, register(1)).unwrap();
    host.change(&mut bench, preempt(1, 8, ReservationType::ExclusiveAccess)).unwrap();
    assert!(host.run(&mut bench, read()).is_ok());
    let state = bench.reservations[0].view();
    assert!(state.holds(&host.registrant()) && !state.access(&nexus).read);
}

#[test]
fn a_preemption_that_aborts_cancels_the_victims_requests_only() {
    let mut bench = Bench::new();
    let [holder, other, _] = three(&mut bench);
    holder.change(&mut bench, reserve(1, ReservationType::WriteExclusiveRegistrants)).unwrap();
    bench.held = Some(Vec::new());
    for host in [&holder, &other] {
        bench.links[host.queue].write(1, 0, aperiodic(512, 0));
    }
    bench.run();
    let kind = ReservationType::ExclusiveAccess;
    let command = Command::Preempt { key: 2, victim: 1, kind, abort: true };
    bench.links[other.queue].submit(2, Operation::Reserve(command));
    bench.run();
    let cancelled: Vec<usize> = bench.cancelled.iter().map(|(link, ..)| *link).collect();
    assert_eq!(cancelled, [holder.queue]);
    bench.release();
    bench.run();
    assert_eq!(bench.links[other.queue].completions().len(), 2);
}

#[test]
fn a_host_that_is_fenced_while_its_data_travels_writes_nothing() {
    let mut bench = Bench::new();
    let [holder, other, _] = three(&mut bench);
    // More than fits into a capsule: the controller asks for it by R2T, and the reservation changes before it comes.
    let data = BufList::from(SharedBuf::from(aperiodic(1 << 16, 1)));
    let write = Operation::Write { extent: Extent::new(0, 128), data, durability: Durability::Cached };
    bench.links[other.queue].submit(1, write);
    let asked = |bench: &mut Bench| {
        let pair = &mut bench.links[other.queue].pair;
        let command = pair.near.transmit(pair.now);
        pair.far.receive(pair.now, &command);
        let r2t = pair.far.transmit(pair.now);
        assert_eq!(r2t.first(), Some(&9), "an R2T");
        r2t
    };
    let r2t = asked(&mut bench);
    let (volume, registrant) = (VolumeId::new(0, 0), holder.registrant());
    bench.reserve(volume, &registrant, &reserve(1, ReservationType::WriteExclusive)).unwrap();
    let pair = &mut bench.links[other.queue].pair;
    pair.near.receive(pair.now, &r2t);
    bench.run();
    assert_eq!(bench.links[other.queue].completions(), [(1, Err(CONFLICT))], "NVMe Base §8.1.22");
    assert!(bench.disks[0].iter().all(|byte| *byte == 0));
}

#[test]
fn a_discard_of_a_fenced_host_ends_between_its_ranges() {
    let mut bench = Bench::new();
    let [holder, other, _] = three(&mut bench);
    bench.held = Some(Vec::new());
    let extent = Extent::new(0, 1 << 12);
    bench.links[other.queue].submit(1, Operation::Discard { extent });
    bench.run();
    let (volume, registrant) = (VolumeId::new(0, 0), holder.registrant());
    bench.reserve(volume, &registrant, &reserve(1, ReservationType::WriteExclusive)).unwrap();
    let begun = bench.held.as_ref().map(Vec::len);
    assert_eq!(begun, Some(1));
    bench.release();
    bench.run();
    assert_eq!(bench.links[other.queue].completions(), [(1, Err(CONFLICT))], "the rest is left undone");
}
