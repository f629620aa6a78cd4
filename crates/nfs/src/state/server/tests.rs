//! The group, driven by connections that do what they are asked.

use alloc::vec;

use filesystem::OpenId;

use super::*;
use crate::limits::{CLIENT_BYTES, CLIENT_FLOOR, LEASE, RENEWAL, SHARED_BYTES, STATE_BYTES};
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
                Reply::Recall(loan) => self.notice(to, Notice::GiveBack(loan, 1)),
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
            self.notice(from, Notice::GiveBack(loan, 1));
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
        self.client_named(&[name])
    }

    fn client_named(&mut self, name: &[u8]) -> ClientId {
        let client = self.establish_named(name, 1);
        self.call('a', Call::ReclaimComplete(client, ReclaimScope::Global)).unwrap();
        client
    }

    fn establish(&mut self, name: u8, verifier: u8) -> ClientId {
        self.establish_named(&[name], verifier)
    }

    fn establish_named(&mut self, name: &[u8], verifier: u8) -> ClientId {
        let owner =
            Owner { id: name.to_vec(), verifier: Verifier([verifier; 8]), principal: Principal::User(1) };
        let Ok(Answer::Exchanged(exchanged)) = self.call('a', Call::ExchangeId(owner, Purpose::Establish))
        else {
            panic!("no client ID");
        };
        self.create_session(exchanged.client, exchanged.sequence).unwrap();
        exchanged.client
    }

    fn create_session(&mut self, client: ClientId, sequence: u32) -> Result<CreatedSession, Status> {
        let attributes = ChannelAttributes {
            max_request: 4096,
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

/// An OPEN by the same owner lends the stateid again while it is asked back: what comes back then is not all.
#[test]
fn what_an_open_lends_while_a_close_waits_is_asked_back_too() {
    let mut bench = Bench::new(&[], 1);
    let one = bench.client(1);
    let stateid = bench.open('a', one, 1, READING).unwrap();
    bench.holds = true;
    let newest = Stateid { seqid: 0, ..stateid };
    let close = bench.begin('b', Call::Close(Bench::named(one, 1, newest)));
    assert_eq!(bench.open('a', one, 1, WRITING).unwrap().other, stateid.other);
    bench.give_back_all();
    assert!(!bench.answers.contains_key(&close) && bench.held.len() == 1);
    bench.give_back_all();
    assert!(bench.answers[&close].is_ok());
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

/// Whoever reclaims when grace would be over is waited for: without a record for what it has, a second restart would give that to others within its lease.
#[test]
fn grace_waits_for_those_who_reclaim() {
    let mut bench = Bench::new(&[], 1);
    bench.client(1);
    let other = bench.client(2);
    bench.call('b', Bench::opening(other, 1, 8, READING)).unwrap();
    let mut bench = restarted(&bench);
    let [one, two] = [1, 2].map(|name| bench.establish(name, 1));
    bench.call('a', Call::ReclaimComplete(one, ReclaimScope::Global)).unwrap();
    bench.call('b', reclaiming(two, 8, READING)).unwrap();
    // Its lease runs until an eighth after the first grace.
    bench.pass(LEASE);
    assert_eq!(bench.server.phase(), Phase::Running);
    bench.notice('b', Notice::Renew(two));
    bench.call('b', reclaiming(two, 9, READING)).unwrap();
    bench.call('b', Call::ReclaimComplete(two, ReclaimScope::Global)).unwrap();
    assert_eq!((bench.server.phase(), bench.stable.contains_key(&two)), (Phase::Over, true));
}

/// Whoever never says that it is done keeps nobody waiting longer than that, and has nothing afterwards that no record tells of.
#[test]
fn whoever_does_not_end_reclaiming_loses_what_it_has() {
    for renews in [false, true] {
        let mut bench = Bench::new(&[], 1);
        bench.client(1);
        let mut bench = restarted(&bench);
        let one = bench.establish(1, 1);
        bench.call('a', reclaiming(one, 8, ALONE)).unwrap();
        let two = bench.client(2);
        let open = Bench::opening(two, 1, 8, ALONE);
        let mut seconds = 0;
        while bench.server.phase() != Phase::Over {
            assert_eq!(bench.call('b', open.clone()).unwrap_err(), Status::GRACE);
            bench.pass(Duration::from_secs(10));
            seconds += 10;
            for client in [Some(two), renews.then_some(one)].into_iter().flatten() {
                bench.notice('a', Notice::Renew(client));
            }
        }
        assert_eq!(seconds, if renews { 180 } else { 110 });
        assert_eq!(bench.call('b', open).map(drop), Ok(()));
        assert_eq!(bench.call('a', reclaiming(one, 9, READING)).unwrap_err(), Status::EXPIRED);
    }
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

/// Opens until the server has no more room for this client; how many.
fn open_all(bench: &mut Bench, client: ClientId) -> usize {
    for opened in 0_u32.. {
        let owner = StateOwner { client, owner: opened.to_be_bytes().into() };
        let call =
            Call::Open(OpenRequest { owner, file: 1, share: READING, id: OpenId(1), claim: Claim::New });
        match bench.call('a', call) {
            Ok(_) => {}
            Err(status) => {
                assert_eq!(status, Status::DELAY);
                return opened.try_into().unwrap();
            }
        }
    }
    unreachable!("it has taken everything")
}

/// Many slots.
const WIDE: ChannelAttributes = ChannelAttributes {
    max_request: 4096,
    max_response: 4096,
    max_response_cached: 1024,
    max_operations: 8,
    max_requests: 64,
};

/// Clients that make sessions until there is room for no more; how many.
fn greedy(bench: &mut Bench) -> usize {
    for number in 1_u32.. {
        let client = bench.client_named(&number.to_be_bytes());
        // Something that outlives its lease, as long as nobody wants it.
        bench.open('a', client, 1, READING).unwrap();
        for sequence in 2..=64 {
            let request =
                SessionRequest { client, sequence, principal: Principal::User(1), attributes: WIDE };
            let Ok(Answer::SessionCreated(created)) = bench.call('a', Call::CreateSession(request)) else {
                return number.try_into().unwrap();
            };
            assert!(created.attributes.max_requests <= 64);
        }
    }
    unreachable!("they have taken everything")
}

#[test]
fn clients_that_take_all_leave_everybody_a_floor() {
    let mut bench = Bench::new(&[], 1);
    let greedy = greedy(&mut bench);
    assert!(greedy > SHARED_BYTES / CLIENT_BYTES && bench.server.bytes() <= STATE_BYTES);
    // Their leases run, so they keep it.
    bench.pass(SHORTAGE);
    let floor = CLIENT_FLOOR / crate::limits::OPEN_COST;
    for number in 0..50 {
        let newcomer = bench.client(number);
        let opened = open_all(&mut bench, newcomer);
        assert!((floor - 4..floor + 4).contains(&opened), "{opened}");
    }
    assert_eq!(bench.server.clients(), greedy + 50);
    assert!(bench.server.bytes() <= STATE_BYTES);
}

#[test]
fn where_bytes_run_short_those_whose_lease_is_over_give_way() {
    let mut bench = Bench::new(&[], 1);
    let quiet = bench.client(1);
    bench.open('a', quiet, 1, READING).unwrap();
    let gone = greedy(&mut bench);
    bench.pass(LATER);
    assert_eq!(bench.server.clients(), gone + 1, "nobody wants what they hold");
    bench.client(2);
    // Who holds no more than its floor stays.
    assert_eq!(bench.server.clients(), 2);
    assert!(greedy(&mut bench) > SHARED_BYTES / CLIENT_BYTES);
    bench.pass(Duration::from_hours(25));
    assert_eq!((bench.server.clients(), bench.server.bytes(), bench.stable.len()), (0, 0, 0));
}

#[test]
fn a_session_has_no_more_slots_than_its_client_has_room_for() {
    let mut bench = Bench::new(&[], 1);
    assert_eq!(WIDE.fitting(CLIENT_BYTES / 2).unwrap().max_requests, 64);
    assert_eq!(WIDE.fitting(CLIENT_FLOOR / 2).unwrap().max_requests, 7);
    assert!(WIDE.fitting(crate::limits::SLOT_ROOM).is_none());
    let client = bench.client(1);
    open_all(&mut bench, client);
    assert_eq!(bench.create_session(client, 2).unwrap_err(), Status::DELAY);
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

/// A CREATE_SESSION that fails renews the record that it does not confirm; that must neither keep the record's place among those that make room, nor leave it there when
/// another confirms it.
#[test]
fn a_session_that_is_refused_confirms_nothing_and_costs_nobody_a_record() {
    let mut bench = Bench::new(&[], 1);
    let exchange = |number: u32| {
        let owner = Owner {
            id: number.to_be_bytes().into(),
            verifier: Verifier([1; 8]),
            principal: Principal::User(1),
        };
        Call::ExchangeId(owner, Purpose::Establish)
    };
    let Ok(Answer::Exchanged(one)) = bench.call('a', exchange(1)) else { panic!("no client ID") };
    bench.pass(Duration::from_secs(1));
    let attributes = ChannelAttributes {
        max_request: 4096,
        max_response: 4096,
        max_response_cached: 1024,
        max_operations: 8,
        max_requests: 0,
    };
    let principal = Principal::User(1);
    let request = SessionRequest { client: one.client, sequence: one.sequence, principal, attributes };
    assert_eq!(bench.call('a', Call::CreateSession(request)).unwrap_err(), Status::INVAL);
    bench.create_session(one.client, one.sequence + 1).unwrap();
    bench.call('a', Call::ReclaimComplete(one.client, ReclaimScope::Global)).unwrap();
    for number in 2..20_000 {
        bench.call('x', exchange(number)).unwrap();
    }
    assert!(bench.open('a', one.client, 1, READING).is_ok());
}
