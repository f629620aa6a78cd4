//! The group, driven by connections that do what they are asked.

use alloc::vec;

use filesystem::OpenId;

use super::*;
use crate::limits::{LEASE, RENEWAL};
use crate::state::loans::Loan;
use crate::state::messages::{Locker, StateidLoan, StateidUse};
use crate::state::opens::StateOwner;
use crate::state::ranges::{ByteRange, LockMode};
use crate::state::sessions::ChannelAttributes;
use crate::v4::{Modes, Principal, Share, Stateid, Verifier};

const READING: Share = Share { access: Modes::READ, deny: Modes::NONE };
const WRITING: Share = Share { access: Modes::WRITE, deny: Modes::NONE };
const ALONE: Share = Share { access: Modes::BOTH, deny: Modes::BOTH };
/// Past a lease, by any count.
const LATER: Duration = Duration::from_secs(200);

/// Connections are letters, files are numbers.
struct Bench {
    server: Server<char, u8>,
    now: Instant,
    answers: BTreeMap<u64, Result<Answer<u8>, Status>>,
    tag: u64,
    /// What was asked back and has not come back, when connections do not give back at once.
    held: Vec<(char, Loan<u8>)>,
    holds: bool,
    durable: bool,
    stable: BTreeMap<ClientId, StableRecord>,
}

use alloc::collections::BTreeMap;

impl Bench {
    fn new(records: &[StableRecord], boot: u32) -> Self {
        let stable = records.iter().map(|record| (record.client, record.clone())).collect();
        Self {
            server: Server::new(Instant::ZERO, boot, records),
            now: Instant::ZERO,
            answers: BTreeMap::new(),
            tag: 0,
            held: Vec::new(),
            holds: false,
            durable: true,
            stable,
        }
    }

    fn begin(&mut self, from: char, call: Call<u8>) -> u64 {
        self.tag += 1;
        self.server.handle_message(self.now, from, Request::Call { tag: self.tag, call });
        self.run();
        self.tag
    }

    fn call(&mut self, from: char, call: Call<u8>) -> Result<Answer<u8>, Status> {
        let tag = self.begin(from, call);
        self.answers.remove(&tag).expect("an answer")
    }

    fn run(&mut self) {
        loop {
            if self.durable
                && let Some(change) = self.server.poll_stable()
            {
                match &change {
                    StableChange::Keep(record) => self.stable.insert(record.client, record.clone()),
                    StableChange::Drop(client) => self.stable.remove(client),
                };
                self.server.handle_stable(self.now, change.client(), Ok(()));
                continue;
            }
            let Some(GroupMessage { to, message }) = self.server.poll_message() else { return };
            match message {
                Reply::Answer { tag, result } => {
                    assert!(self.answers.insert(tag, result).is_none(), "two answers");
                }
                Reply::Recall(loan) if self.holds => self.held.push((to, loan)),
                Reply::Recall(loan) => self.notice(to, Notice::GiveBack(loan)),
                Reply::RecallSlot(session, slot) => self.notice(to, Notice::SlotBusy(session, slot)),
                Reply::SessionEnded(_) => {}
            }
        }
    }

    fn notice(&mut self, from: char, notice: Notice<u8>) {
        self.server.handle_message(self.now, from, Request::Notice(notice));
    }

    fn give_back_all(&mut self) {
        for (from, loan) in core::mem::take(&mut self.held) {
            self.notice(from, Notice::GiveBack(loan));
        }
        self.run();
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        self.server.handle_timeout(self.now);
        self.run();
    }

    /// A client with a session, that has nothing to reclaim.
    fn client(&mut self, name: u8) -> ClientId {
        let client = self.establish(name, 1);
        self.call('a', Call::ReclaimComplete(client, ReclaimScope::Global)).unwrap();
        client
    }

    fn establish(&mut self, name: u8, verifier: u8) -> ClientId {
        let owner =
            Owner { id: vec![name], verifier: Verifier([verifier; 8]), principal: Principal::User(1) };
        let Ok(Answer::Exchanged(exchanged)) = self.call('a', Call::ExchangeId(owner, Purpose::Establish))
        else {
            panic!("no client ID");
        };
        self.create_session(exchanged.client, exchanged.sequence).unwrap();
        exchanged.client
    }

    fn create_session(&mut self, client: ClientId, sequence: u32) -> Result<CreatedSession, Status> {
        self.create_session_with(client, sequence, 4096)
    }

    fn create_session_with(
        &mut self,
        client: ClientId,
        sequence: u32,
        max_request: u32,
    ) -> Result<CreatedSession, Status> {
        let attributes = ChannelAttributes {
            max_request,
            max_response: 4096,
            max_response_cached: 1024,
            max_operations: 8,
            max_requests: 4,
        };
        let request = SessionRequest { client, sequence, principal: Principal::User(1), attributes };
        match self.call('a', Call::CreateSession(request))? {
            Answer::SessionCreated(created) => Ok(created),
            other => panic!("{other:?}"),
        }
    }

    fn opening(client: ClientId, owner: u8, file: u8, share: Share) -> Call<u8> {
        let owner = StateOwner { client, owner: vec![owner] };
        Call::Open(OpenRequest { owner, file, share, id: OpenId(file.into()), claim: Claim::New })
    }

    fn open(&mut self, from: char, client: ClientId, file: u8, share: Share) -> Result<Stateid, Status> {
        lent(self.call(from, Self::opening(client, 1, file, share))).map(|loan| loan.stateid())
    }

    fn named(client: ClientId, file: u8, stateid: Stateid) -> StateidUse<u8> {
        StateidUse { client, file, stateid }
    }

    fn lock(&mut self, client: ClientId, open: Stateid, mode: LockMode) -> Result<Answer<u8>, Status> {
        self.call('a', Self::locking(client, open, mode))
    }

    fn locking(client: ClientId, open: Stateid, mode: LockMode) -> Call<u8> {
        let locker = Locker::New { open, owner: vec![1] };
        let range = ByteRange { first: 0, last: 9 };
        Call::Lock(LockRequest { client, file: 1, locker, range, mode, claim: Claim::New })
    }
}

fn lent(result: Result<Answer<u8>, Status>) -> Result<StateidLoan<u8>, Status> {
    match result? {
        Answer::Lent(loan) => Ok(loan),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_denied_share_is_told_and_a_close_makes_room() {
    let mut bench = Bench::new(&[], 1);
    let [one, two] = [1, 2].map(|name| bench.client(name));
    let stateid = bench.open('a', one, 1, ALONE).unwrap();
    assert_eq!(bench.open('b', two, 1, READING), Err(Status::SHARE_DENIED));
    assert_eq!(bench.open('b', two, 2, READING).map(|stateid| stateid.seqid), Ok(1));
    assert_eq!(bench.server.poll_release(), None);
    bench.call('a', Call::Close(Bench::named(one, 1, stateid))).unwrap();
    assert_eq!(bench.server.poll_release(), Some(Release { file: 1, open: OpenId(1) }));
    assert!(bench.open('b', two, 1, READING).is_ok());
    assert_eq!(bench.call('a', Call::Close(Bench::named(one, 1, stateid))).unwrap_err(), Status::BAD_STATEID);
}

#[test]
fn a_stateid_is_of_its_client_and_its_file() {
    let mut bench = Bench::new(&[], 1);
    let [one, two] = [1, 2].map(|name| bench.client(name));
    let stateid = bench.open('a', one, 1, READING).unwrap();
    for named in [Bench::named(two, 1, stateid), Bench::named(one, 2, stateid)] {
        assert_eq!(bench.call('b', Call::Borrow(named)).unwrap_err(), Status::BAD_STATEID);
    }
    let newer = Stateid { seqid: 2, ..stateid };
    assert_eq!(bench.call('b', Call::Borrow(Bench::named(one, 1, newer))).unwrap_err(), Status::BAD_STATEID);
    assert!(bench.call('b', Call::Borrow(Bench::named(one, 1, stateid))).is_ok());
    let tested = bench.call('a', Call::TestStateids(one, vec![stateid, newer, Stateid::ANONYMOUS])).unwrap();
    let Answer::Tested(tested) = tested else { panic!("{tested:?}") };
    assert_eq!(tested, [Status::OK, Status::BAD_STATEID, Status::BAD_STATEID]);
}

/// The fence: nobody else gets what an open protected while a request may be under way that was judged by it.
#[test]
fn a_close_waits_until_loans_are_back() {
    let mut bench = Bench::new(&[], 1);
    let one = bench.client(1);
    let stateid = bench.open('a', one, 1, ALONE).unwrap();
    bench.call('b', Call::Borrow(Bench::named(one, 1, stateid))).unwrap();
    bench.holds = true;
    let close = bench.begin('a', Call::Close(Bench::named(one, 1, stateid)));
    assert!(!bench.answers.contains_key(&close));
    assert_eq!(bench.held.len(), 2);
    // Nobody borrows meanwhile: it would never end.
    let borrow = bench.begin('c', Call::Borrow(Bench::named(one, 1, stateid)));
    assert!(!bench.answers.contains_key(&borrow));
    bench.give_back_all();
    assert!(bench.answers[&close].is_ok());
    assert_eq!(bench.answers[&borrow].clone().unwrap_err(), Status::BAD_STATEID);
}

#[test]
fn a_deny_mode_waits_for_anonymous_access() {
    let mut bench = Bench::new(&[], 1);
    let one = bench.client(1);
    bench.call('b', Call::BorrowAnonymous(1, Modes::WRITE)).unwrap();
    bench.holds = true;
    assert!(bench.open('a', one, 1, READING).is_ok());
    let open = bench.begin('a', Bench::opening(one, 2, 1, Share { access: Modes::READ, deny: Modes::WRITE }));
    assert!(!bench.answers.contains_key(&open));
    bench.give_back_all();
    assert!(bench.answers[&open].is_ok());
    assert_eq!(bench.call('b', Call::BorrowAnonymous(1, Modes::WRITE)).unwrap_err(), Status::LOCKED);
    assert!(bench.call('b', Call::BorrowAnonymous(1, Modes::READ)).is_ok());
}

#[test]
fn locks_conflict_by_range_and_owner() {
    let mut bench = Bench::new(&[], 1);
    let [one, two] = [1, 2].map(|name| bench.client(name));
    let both = Share { access: Modes::BOTH, deny: Modes::NONE };
    let [first, second] = [one, two].map(|client| bench.open('a', client, 1, both).unwrap());
    let lock = lent(bench.lock(one, first, LockMode::Write)).unwrap();
    assert_eq!((lock.seqid, lock.access), (1, Modes::BOTH));
    assert!(matches!(bench.lock(two, second, LockMode::Read), Ok(Answer::Denied(_))));
    let owner = |client| StateOwner { client, owner: vec![1] };
    let test = |client| {
        let range = ByteRange { first: 9, last: 20 };
        Call::TestLock(super::super::messages::LockTest {
            owner: owner(client),
            file: 1,
            range,
            mode: LockMode::Read,
        })
    };
    assert!(matches!(bench.call('a', test(two)), Ok(Answer::Denied(_))));
    assert!(matches!(bench.call('a', test(one)), Ok(Answer::Done)));
    assert_eq!(bench.call('a', Call::FreeStateid(one, lock.stateid())).unwrap_err(), Status::LOCKS_HELD);
    let unlock = Call::Unlock(Bench::named(one, 1, lock.stateid()), ByteRange { first: 0, last: 9 });
    let unlocked = lent(bench.call('a', unlock.clone())).unwrap();
    assert_eq!(bench.call('a', unlock).unwrap_err(), Status::OLD_STATEID);
    assert!(lent(bench.lock(two, second, LockMode::Read)).is_ok());
    assert!(bench.call('a', Call::FreeStateid(one, unlocked.stateid())).is_ok());
    assert_eq!(bench.call('a', Call::FreeStateid(one, first)).unwrap_err(), Status::LOCKS_HELD);
    let reading = bench.open('a', one, 2, READING).unwrap();
    let Call::Lock(request) = Bench::locking(one, reading, LockMode::Write) else { unreachable!() };
    assert_eq!(
        bench.call('a', Call::Lock(LockRequest { file: 2, ..request })).unwrap_err(),
        Status::OPENMODE
    );
}

#[test]
fn whoever_does_not_renew_gives_way_and_only_then() {
    let mut bench = Bench::new(&[], 1);
    let [one, two] = [1, 2].map(|name| bench.client(name));
    bench.open('a', one, 1, ALONE).unwrap();
    bench.pass((LEASE + RENEWAL).saturating_sub(Duration::from_nanos(1)));
    bench.notice('b', Notice::Renew(two));
    assert_eq!(bench.open('b', two, 1, READING), Err(Status::SHARE_DENIED));
    bench.pass(Duration::from_nanos(1));
    // It is courteous now: it keeps what nobody wants.
    assert_eq!(bench.server.clients(), 2);
    bench.holds = true;
    let open = bench.begin('b', Bench::opening(two, 1, 1, READING));
    assert!(!bench.answers.contains_key(&open));
    bench.give_back_all();
    assert!(bench.answers[&open].is_ok());
    assert_eq!((bench.server.clients(), bench.stable.contains_key(&one)), (1, false));
    assert_eq!(bench.open('a', one, 3, READING), Err(Status::EXPIRED));
}

#[test]
fn a_courteous_client_may_come_back_within_a_day() {
    let mut bench = Bench::new(&[], 1);
    let one = bench.client(1);
    bench.open('a', one, 1, ALONE).unwrap();
    bench.pass(LATER);
    bench.notice('a', Notice::Renew(one));
    assert!(bench.open('a', one, 2, ALONE).is_ok());
    bench.pass(Duration::from_hours(25));
    assert_eq!((bench.server.clients(), bench.server.bytes()), (0, 0));
    // Without state there is no courtesy.
    bench.client(2);
    bench.pass(LATER);
    assert_eq!((bench.server.clients(), bench.stable.len()), (0, 0));
}

/// RFC 8881 §8.4.3, first edge condition: what somebody lost before a restart it must not reclaim after it.
#[test]
fn a_record_is_gone_before_anybody_gets_what_its_client_held() {
    let mut bench = Bench::new(&[], 1);
    let [one, two] = [1, 2].map(|name| bench.client(name));
    bench.open('a', one, 1, ALONE).unwrap();
    bench.pass(LEASE / 2);
    bench.notice('b', Notice::Renew(two));
    bench.pass(LEASE);
    bench.durable = false;
    let open = bench.begin('b', Bench::opening(two, 1, 1, READING));
    assert!(!bench.answers.contains_key(&open));
    bench.durable = true;
    bench.run();
    assert!(bench.answers[&open].is_ok() && !bench.stable.contains_key(&one));
}

fn restarted(bench: &Bench) -> Bench {
    let records: Vec<StableRecord> = bench.stable.values().cloned().collect();
    Bench::new(&records, 2)
}

fn reclaiming(client: ClientId, file: u8, share: Share) -> Call<u8> {
    let Call::Open(request) = Bench::opening(client, 1, file, share) else { unreachable!() };
    Call::Open(OpenRequest { claim: Claim::Reclaim, ..request })
}

#[test]
fn after_a_restart_only_those_who_had_a_record_reclaim() {
    let mut bench = Bench::new(&[], 1);
    let one = bench.client(1);
    bench.open('a', one, 1, ALONE).unwrap();
    let mut bench = restarted(&bench);
    assert_eq!(bench.server.phase(), Phase::Running);
    assert_eq!(bench.create_session(one, 1), Err(Status::STALE_CLIENTID));
    let [one, other] = [1, 2].map(|name| bench.establish(name, 1));
    assert_eq!(bench.call('a', reclaiming(other, 1, READING)).unwrap_err(), Status::NO_GRACE);
    assert_eq!(bench.open('a', other, 1, READING), Err(Status::GRACE));
    assert_eq!(bench.call('a', Call::BorrowAnonymous(1, Modes::READ)).unwrap_err(), Status::GRACE);
    assert!(bench.call('a', reclaiming(one, 1, ALONE)).is_ok());
    bench.call('a', Call::ReclaimComplete(one, ReclaimScope::Global)).unwrap();
    assert_eq!(bench.server.phase(), Phase::Over);
    assert_eq!(bench.call('a', reclaiming(one, 2, ALONE)).unwrap_err(), Status::NO_GRACE);
    let again = bench.call('a', Call::ReclaimComplete(one, ReclaimScope::Global));
    assert_eq!(again.unwrap_err(), Status::COMPLETE_ALREADY);
    // The other has not said that it reclaims nothing.
    assert_eq!(bench.open('a', other, 2, READING), Err(Status::GRACE));
    bench.call('a', Call::ReclaimComplete(other, ReclaimScope::Global)).unwrap();
    assert_eq!(bench.open('a', other, 1, READING), Err(Status::SHARE_DENIED));
    assert!(bench.stable.keys().copied().eq([one, other]));
}

/// RFC 8881 §8.4.3, second edge condition: whoever missed a grace period has nothing to reclaim in the next.
#[test]
fn grace_ends_only_when_the_records_of_the_missing_are_gone() {
    let mut bench = Bench::new(&[], 1);
    bench.client(1);
    let mut bench = restarted(&bench);
    bench.durable = false;
    bench.pass(LEASE);
    assert_eq!(bench.server.phase(), Phase::Ending);
    assert_eq!(bench.call('a', Call::BorrowAnonymous(1, Modes::READ)).unwrap_err(), Status::GRACE);
    bench.durable = true;
    bench.run();
    assert_eq!((bench.server.phase(), bench.stable.len()), (Phase::Over, 0));
}

/// What was reclaimed is known to nobody after another crash if its client has no record: grace does not end before that, and other clients wait.
#[test]
fn grace_ends_only_when_who_has_reclaimed_has_completed() {
    let mut bench = Bench::new(&[], 1);
    bench.client(1);
    let mut bench = restarted(&bench);
    let one = bench.establish(1, 1);
    let two = bench.client(2);
    bench.call('a', reclaiming(one, 1, ALONE)).unwrap();
    bench.pass(LEASE);
    assert_eq!((bench.server.phase(), bench.open('b', two, 1, READING)), (Phase::Ending, Err(Status::GRACE)));
    assert_eq!(bench.call('a', reclaiming(one, 2, ALONE)).unwrap_err(), Status::NO_GRACE);
    bench.call('a', Call::ReclaimComplete(one, ReclaimScope::Global)).unwrap();
    assert_eq!(bench.server.phase(), Phase::Over);
    assert!(bench.stable.keys().copied().eq([one, two]));
    assert_eq!(bench.open('b', two, 1, READING), Err(Status::SHARE_DENIED));
}

/// Who does not complete loses what it has reclaimed: with its lease, or after two more that it has renewed.
#[test]
fn nobody_holds_grace_up_for_ever() {
    for renews in [false, true] {
        let mut bench = Bench::new(&[], 1);
        bench.client(1);
        let mut bench = restarted(&bench);
        let one = bench.establish(1, 1);
        bench.call('a', reclaiming(one, 1, ALONE)).unwrap();
        let mut over = 0;
        for second in 1..=400 {
            if renews {
                bench.notice('a', Notice::Renew(one));
            }
            bench.pass(RETRY);
            if bench.server.phase() == Phase::Over {
                over = second;
                break;
            }
        }
        let expected = if renews { LEASE * 3 } else { LEASE + RENEWAL };
        assert!((expected..expected + 2 * RETRY).contains(&(RETRY * over)), "{renews}: {over} s");
        assert!(bench.server.clients.get(one).is_none() && bench.stable.is_empty());
        let two = bench.client(2);
        assert!(bench.open('b', two, 1, ALONE).is_ok());
    }
}

#[test]
fn a_record_that_cannot_be_kept_holds_its_client_up() {
    let mut bench = Bench::new(&[], 1);
    let one = bench.establish(1, 1);
    bench.durable = false;
    let complete = bench.begin('a', Call::ReclaimComplete(one, ReclaimScope::Global));
    let change = bench.server.poll_stable().unwrap();
    bench.server.handle_stable(bench.now, change.client(), Err(()));
    bench.run();
    assert_eq!(bench.answers[&complete].clone().unwrap_err(), Status::DELAY);
    assert_eq!(bench.open('a', one, 1, READING), Err(Status::GRACE));
    bench.durable = true;
    bench.run();
    bench.call('a', Call::ReclaimComplete(one, ReclaimScope::Global)).unwrap();
}

#[test]
fn a_restarted_client_loses_what_its_earlier_incarnation_had() {
    let mut bench = Bench::new(&[], 1);
    let one = bench.client(1);
    let stateid = bench.open('a', one, 1, ALONE).unwrap();
    let again = bench.establish(1, 2);
    assert_ne!(one, again);
    assert_eq!(bench.call('a', Call::Borrow(Bench::named(one, 1, stateid))).unwrap_err(), Status::EXPIRED);
    let two = bench.client(2);
    assert!(bench.open('b', two, 1, READING).is_ok());
    assert_eq!(bench.server.clients(), 2);
}

#[test]
fn create_session_is_replayed_and_a_session_ends() {
    let mut bench = Bench::new(&[], 1);
    let one = bench.client(1);
    let second = bench.create_session(one, 2).unwrap();
    assert_eq!(bench.create_session(one, 2), Ok(second));
    assert_eq!(bench.create_session(one, 4), Err(Status::SEQ_MISORDERED));
    assert_eq!(bench.call('a', Call::DestroyClientId(one)).unwrap_err(), Status::CLIENTID_BUSY);
    let before = bench.server.bytes();
    bench.call('a', Call::DestroySession(second.session)).unwrap();
    assert!(bench.server.bytes() < before);
    assert_eq!(bench.call('a', Call::DestroySession(second.session)).unwrap_err(), Status::BADSESSION);
    assert_eq!(bench.call('a', Call::TakeSlot(second.session, 0)).unwrap_err(), Status::BADSESSION);
}

#[test]
fn a_slot_in_use_is_not_handed_over() {
    let mut bench = Bench::new(&[], 1);
    let one = bench.client(1);
    let session = bench.create_session(one, 2).unwrap().session;
    assert!(matches!(bench.call('a', Call::TakeSlot(session, 0)), Ok(Answer::Slot(_))));
    // The bench answers a recall of a slot by saying that it is busy.
    assert_eq!(bench.call('b', Call::TakeSlot(session, 0)).unwrap_err(), Status::DELAY);
    assert_eq!(bench.call('b', Call::TakeSlot(session, 4)).unwrap_err(), Status::BADSLOT);
    // Whoever leaves with a slot takes its session along.
    bench.server.handle_leave(bench.now, 'a');
    assert_eq!(bench.call('b', Call::TakeSlot(session, 0)).unwrap_err(), Status::BADSESSION);
}

/// Ten thousand clients that open and never renew: bounded, and all gone in the end.
#[test]
fn many_clients_are_bounded_in_bytes() {
    let mut bench = Bench::new(&[], 1);
    for number in 0..10_000_u32 {
        let owner = Owner {
            id: number.to_be_bytes().into(),
            verifier: Verifier([1; 8]),
            principal: Principal::User(1),
        };
        let Ok(Answer::Exchanged(exchanged)) = bench.call('a', Call::ExchangeId(owner, Purpose::Establish))
        else {
            panic!("no client ID");
        };
        bench.create_session(exchanged.client, exchanged.sequence).unwrap();
        bench.call('a', Call::ReclaimComplete(exchanged.client, ReclaimScope::Global)).unwrap();
        bench.open('a', exchanged.client, 1, READING).unwrap();
    }
    assert!(bench.server.bytes() < STATE_BYTES, "{} bytes", bench.server.bytes());
    bench.pass(LATER);
    assert_eq!(bench.server.clients(), 10_000);
    bench.pass(Duration::from_hours(25));
    assert_eq!((bench.server.clients(), bench.server.bytes(), bench.stable.len()), (0, 0, 0));
}

#[test]
fn a_client_that_opens_without_end_is_told_to_wait() {
    let mut bench = Bench::new(&[], 1);
    let one = bench.client(1);
    let mut opened = 0_u32;
    let refusal = loop {
        let owner = StateOwner { client: one, owner: opened.to_be_bytes().into() };
        let call =
            Call::Open(OpenRequest { owner, file: 1, share: WRITING, id: OpenId(1), claim: Claim::New });
        match bench.call('a', call) {
            Ok(_) => opened += 1,
            Err(status) => break status,
        }
    };
    assert_eq!(refusal, Status::DELAY);
    assert!(opened > 4096 && bench.server.bytes() <= CLIENT_BYTES + 1024);
    let two = bench.client(2);
    assert!(bench.open('b', two, 1, READING).is_ok());
}

/// Unconfirmed records push each other out, and nobody else.
#[test]
fn a_flood_of_unconfirmed_clients_costs_nobody_a_record() {
    let mut bench = Bench::new(&[], 1);
    let one = bench.client(1);
    for number in 0..20_000_u32 {
        let owner = Owner {
            id: number.to_be_bytes().into(),
            verifier: Verifier([1; 8]),
            principal: Principal::Nobody,
        };
        bench.call('x', Call::ExchangeId(owner, Purpose::Establish)).unwrap();
    }
    assert!(bench.server.clients() <= crate::limits::CLIENTS);
    assert!(bench.open('a', one, 1, READING).is_ok());
}

/// A client whose first CREATE_SESSION failed is confirmed by its second, and is not taken for unconfirmed after that.
#[test]
fn a_client_that_was_confirmed_at_the_second_attempt_keeps_its_record() {
    let mut bench = Bench::new(&[], 1);
    let owner = Owner { id: vec![1], verifier: Verifier([1; 8]), principal: Principal::User(1) };
    let exchange = Call::ExchangeId(owner, Purpose::Establish);
    let Ok(Answer::Exchanged(exchanged)) = bench.call('a', exchange) else { panic!("no client ID") };
    let (one, sequence) = (exchanged.client, exchanged.sequence);
    bench.pass(RETRY);
    assert_eq!(bench.create_session_with(one, sequence, 1), Err(Status::TOOSMALL));
    bench.pass(RETRY);
    bench.create_session(one, sequence + 1).unwrap();
    bench.call('a', Call::ReclaimComplete(one, ReclaimScope::Global)).unwrap();
    bench.open('a', one, 1, ALONE).unwrap();
    for number in 0..20_000_u32 {
        let (id, verifier) = (number.to_be_bytes().into(), Verifier([1; 8]));
        let owner = Owner { id, verifier, principal: Principal::Nobody };
        bench.call('x', Call::ExchangeId(owner, Purpose::Establish)).unwrap();
    }
    assert!(bench.open('a', one, 1, ALONE).is_ok());
}
