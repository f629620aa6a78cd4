//! What clients do, and what they make of the answers; and what the ledger is told of both.

use std::rc::Rc;

use filesystem::{FileSystem, Memory, Time};
use nfs::server::exports::{Exports, Place as Exported};
use nfs::v4::{Stateid, Status};

use super::client::{Issued, Open, Outstanding, Phase};
use super::ledger::{Grant, Right};
use super::work::{self, Answer, Body, CALLER, Names, Place, Range, Share, Slot, Unstable, WRITE, Work};
use super::{FILES, PAGES, World, disk};
use crate::common::{export_of, open_grant};

/// The handles of the root and of the files, as clients have them.
pub fn handles(memory: &Memory, files: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let exports = vec![export_of(memory, 1, &["data"], open_grant())];
    let exports = Exports::new(exports, Time { seconds: 1, nanos: 0 }).unwrap();
    let handle = |handle| exports.handle(Exported::File { export: 0, handle });
    (handle(memory.root()), (0..files).map(|file| handle(disk::handle(memory, file))).collect())
}

impl World {
    /// A client does something.
    pub(super) fn act(&mut self, client: usize) {
        self.connect(client);
        if self.clients[client].links.is_empty() {
            return;
        }
        let worker = match self.clients[client].phase {
            Phase::Running => self.dice.index(self.clients[client].workers.len()),
            _ => 0,
        };
        match &self.clients[client].workers[worker].outstanding {
            Some(Outstanding { link: Some(_), .. }) => {}
            Some(_) => self.send(client, worker),
            None => {
                if let Some(work) = self.choose(client, worker) {
                    self.issue(client, worker, work);
                }
            }
        }
    }

    fn connect(&mut self, client: usize) {
        let more = match self.clients[client].links.len() {
            0 => true,
            1 => self.dice.once_in(20),
            _ => false,
        };
        let Some(serving) = self.serving.as_mut().filter(|_| more) else { return };
        self.last_link += 1;
        serving.connect(self.last_link, &self.memory);
        self.owners.insert(self.last_link, client);
        self.clients[client].links.push(self.last_link);
    }

    /// What a worker without a request does next.
    fn choose(&mut self, client: usize, worker: usize) -> Option<Work> {
        let at = &self.clients[client];
        match at.phase {
            Phase::Exchange => return Some(Work::ExchangeId),
            Phase::Create(id, sequence) => return Some(Work::CreateSession(id, sequence)),
            Phase::Reclaim => return Some(at.next_reclaim()),
            Phase::Running if self.resting || self.dice.once_in(2) => return None,
            Phase::Running => {}
        }
        let open = at.workers[worker].open;
        let (chance, file) = (self.dice.below(100), self.dice.index(FILES));
        Some(match (chance, open) {
            (0..10, _) => self.choose_name(client, worker),
            (10..18, _) => Work::Renew,
            (18..30, _) => {
                let covers =
                    self.clients[client].unstable.iter().filter(|unstable| unstable.place.file == file);
                Work::Commit { file, covers: covers.copied().collect() }
            }
            (30..35, _) => self.write(client, file, Stateid::ANONYMOUS),
            (35..60, _) => self.choose_write(client),
            (60.., None) => Work::Open { file, share: self.choose_share() },
            (60.., Some(open)) => self.choose_of_open(chance, open),
        })
    }

    fn choose_share(&mut self) -> Share {
        let access = [1, 2, 3, 3][self.dice.index(4)];
        let deny = [0, 0, 0, 1, WRITE, 3][self.dice.index(6)];
        Share { access, deny }
    }

    /// Directories come, are renamed, and go.
    fn choose_name(&mut self, client: usize, worker: usize) -> Work {
        match self.clients[client].workers[worker].name.clone() {
            None => {
                self.last_number += 1;
                Work::Make { name: format!("d{}", self.last_number) }
            }
            Some(from) if from.starts_with('d') && self.dice.once_in(2) => {
                Work::Rename { to: format!("r{}", from.trim_start_matches('d')), from }
            }
            Some(name) => Work::Remove { name },
        }
    }

    /// A write by the open of any worker of the client, or by its lock.
    fn choose_write(&mut self, client: usize) -> Work {
        let opens = self.clients[client].workers.iter().filter_map(|worker| worker.open);
        let opens: Vec<Open> = opens.filter(|open| open.share.access & WRITE != 0).collect();
        if opens.is_empty() {
            return Work::Renew;
        }
        let open = opens[self.dice.index(opens.len())];
        let lock = open.lock.filter(|_| self.dice.once_in(2)).map(|(stateid, _)| stateid);
        let mut stateid = lock.unwrap_or(open.stateid);
        if self.dice.once_in(2) {
            // Whichever is newest (RFC 8881 §8.2.2).
            stateid.seqid = 0;
        }
        self.write(client, open.file, stateid)
    }

    fn write(&mut self, client: usize, file: usize, stateid: Stateid) -> Work {
        self.last_number += 1;
        let place = Place { file, page: self.dice.below(PAGES) };
        let other = Some(stateid.other).filter(|_| stateid != Stateid::ANONYMOUS);
        self.ledger.begin_write(self.last_number, place, client, other);
        let stable = [0, 0, 1, 2][self.dice.index(4)];
        Work::Write { number: self.last_number, place, stateid, stable }
    }

    fn choose_of_open(&mut self, chance: u64, open: Open) -> Work {
        let Open { file, stateid, share, lock, .. } = open;
        match (chance, lock) {
            (60..80, Some((stateid, Some(range)))) => Work::Unlock { stateid, file, range },
            (60..80, lock) => {
                let (offset, length) = (10 * self.dice.below(4), 10 + 10 * self.dice.below(2));
                let exclusive = share.access & WRITE != 0 && (share.access == WRITE || self.dice.once_in(2));
                let known = lock.map(|(stateid, _)| stateid);
                Work::Lock { open: stateid, known, file, range: Range { offset, length, exclusive } }
            }
            (80..85, _) => Work::Open { file, share: self.choose_share() },
            (85..90, _) => match open.earlier() {
                // A lock needs what it was granted by.
                Some(share) if !matches!(lock, Some((_, Some(_)))) => {
                    Work::Downgrade { stateid, file, share }
                }
                _ => Work::Renew,
            },
            _ => Work::Close { stateid, lock: lock.map(|(stateid, _)| stateid), file },
        }
    }

    /// A worker begins a request.
    fn issue(&mut self, client: usize, worker: usize, work: Work) {
        let cache = match work {
            Work::Write { .. } | Work::Renew | Work::Commit { .. } => self.dice.once_in(2),
            _ => true,
        };
        let at = &mut self.clients[client];
        let names = Names {
            client: &at.name,
            incarnation: at.incarnation,
            worker,
            root: &self.root,
            files: &self.files,
        };
        let session = at.session.filter(|_| work.is_in_session());
        let (slot, call) = match session {
            Some(session) => {
                at.workers[worker].sequence += 1;
                let slot = Slot { session, sequence: at.workers[worker].sequence, cache };
                self.planted.sequences.insert((session, u32::try_from(worker).unwrap()), slot.sequence);
                (Some(slot), work::in_slot(&work, &names, &slot))
            }
            None => (None, work::alone(&work, &names)),
        };
        self.give_up(client, worker, &work);
        let at = &mut self.clients[client];
        let (incarnation, id) = (at.incarnation, at.id);
        let issued = Issued { client, incarnation, id, worker, slot, work, call, first_sent: self.now };
        at.workers[worker].outstanding = Some(Outstanding { issued: Rc::new(issued), link: None });
        self.send(client, worker);
    }

    /// A client gives up what it asks to end, before it asks.
    fn give_up(&mut self, client: usize, worker: usize, work: &Work) {
        let holder = (client, worker);
        let open = &mut self.clients[client].workers[worker].open;
        match work {
            Work::Close { .. } => {
                *open = None;
                self.ledger.end_open(holder);
            }
            Work::Unlock { .. } => {
                if let Some(Open { lock: Some((_, range)), .. }) = open {
                    *range = None;
                }
                self.ledger.end_lock(holder);
            }
            Work::Downgrade { share, .. } => {
                if let Some(open) = open {
                    open.downgrade(*share);
                }
                self.ledger.reduce(holder, *share);
            }
            _ => {}
        }
    }

    /// Sends a worker's request, for the first time or again.
    fn send(&mut self, client: usize, worker: usize) {
        let at = &mut self.clients[client];
        let link = at.links[self.dice.index(at.links.len())];
        let Some(outstanding) = at.workers[worker].outstanding.as_mut() else { return };
        outstanding.link = Some(link);
        self.last_xid += 1;
        self.ledger.tell(self.now, || {
            format!(
                "client {client}.{worker} sends {} over {link}: {:?}",
                self.last_xid, outstanding.issued.work
            )
        });
        let record = outstanding.issued.call.record(self.last_xid, CALLER);
        self.issued.insert(self.last_xid, Rc::clone(&outstanding.issued));
        if let Some(at) = self.serving.as_mut().and_then(|serving| serving.links.get_mut(&link)) {
            at.calls.push_back(record);
        }
    }

    /// A reply leaves the server.
    pub(super) fn emit(&mut self, link: usize, record: Vec<u8>) {
        let xid = u32::from_be_bytes(record[..4].try_into().unwrap());
        let Some(issued) = self.issued.get(&xid).cloned() else {
            return self.ledger.fail(|| format!("a reply to call {xid}, which nobody has sent"));
        };
        let answer = work::read(&issued.work, &record);
        self.ledger.tell(self.now, || format!("{xid} is answered over {link}: {answer:?}"));
        match issued.slot {
            Some(slot) => {
                let key = (slot.session, u32::try_from(issued.worker).unwrap(), slot.sequence);
                if !answer.in_slot {
                    self.judge_refusal(&issued, &slot, &answer);
                } else if self.ledger.replied(key, &record) {
                    self.promise(&issued, &answer);
                }
            }
            None => self.promise(&issued, &answer),
        }
        let at = self.serving.as_mut().and_then(|serving| serving.links.get_mut(&link));
        if let Some(at) = at.filter(|at| !at.is_cut) {
            at.replies.push_back(record);
        }
    }

    /// Whether its client still wants the answer.
    fn is_awaited(&self, issued: &Rc<Issued>) -> bool {
        let outstanding = &self.clients[issued.client].workers[issued.worker].outstanding;
        outstanding.as_ref().is_some_and(|outstanding| Rc::ptr_eq(&outstanding.issued, issued))
    }

    /// SEQUENCE was refused: an honest client can only be told to wait, that its session is gone, or that its reply was not kept.
    fn judge_refusal(&mut self, issued: &Rc<Issued>, slot: &Slot, answer: &Answer) {
        let waits = self.is_awaited(issued);
        let allowed = match answer.status {
            Status::DELAY | Status::BADSESSION => true,
            Status::RETRY_UNCACHED_REP => !slot.cache,
            _ => false,
        };
        if waits && !allowed {
            let (client, status) = (issued.client, answer.status);
            self.ledger.fail(|| format!("client {client} is told {status} in {slot:?} of {:?}", issued.work));
        }
        if answer.status == Status::DELAY {
            self.ledger.see("slots in use");
        }
    }

    /// The first reply to a request: what it promises counts from now on.
    fn promise(&mut self, issued: &Rc<Issued>, answer: &Answer) {
        if answer.status != Status::OK {
            return self.judge_failure(issued, answer.status);
        }
        let (now, boot) = (self.now, self.boot);
        let is_awaited = self.is_awaited(issued);
        let mut grant = |worker: usize, file, right, stateid: &Stateid| {
            let (holder, other) = ((issued.client, worker), stateid.other);
            let grant =
                Grant { holder, file, right, other, is_received: false, pending: None, is_lost: false };
            if let Some(id) = issued.id {
                self.ledger.lent(stateid.other, holder, id);
            }
            // Whoever has begun anew since takes nothing of it.
            if is_awaited {
                self.ledger.grant(now, grant);
            }
        };
        match (&issued.work, &answer.body) {
            (Work::Open { file, share }, Body::Stateid(stateid)) => {
                grant(issued.worker, *file, Right::Open(*share), stateid);
            }
            (Work::ReclaimOpen { worker, file, share }, Body::Stateid(stateid)) => {
                grant(*worker, *file, Right::Open(*share), stateid);
            }
            (Work::Lock { file, range, .. }, Body::Stateid(stateid)) => {
                grant(issued.worker, *file, Right::Lock(*range), stateid);
            }
            (Work::ReclaimLock { worker, file, range, .. }, Body::Stateid(stateid)) => {
                grant(*worker, *file, Right::Lock(*range), stateid);
            }
            (Work::Close { stateid, lock, .. }, _) => {
                let others = [Some(*stateid), *lock].into_iter().flatten();
                self.ledger.withdraw(others.map(|stateid| stateid.other));
            }
            (Work::Downgrade { stateid, share, .. }, _) if share.access & WRITE == 0 => {
                self.ledger.withdraw_writes(stateid.other);
            }
            (Work::CreateSession(id, _), _) => self.ledger.replace(issued.client, *id),
            (Work::Write { number, .. }, Body::Written { stable, verifier }) => {
                self.ledger.verifier(*verifier, boot);
                if *stable > 0 {
                    self.ledger.promise(*number);
                }
            }
            (Work::Commit { .. }, Body::Committed(verifier)) => self.ledger.verifier(*verifier, boot),
            _ => {}
        }
    }

    /// An operation failed: some failures say that it was done twice, or that the server has lost something.
    fn judge_failure(&mut self, issued: &Issued, status: Status) {
        let wrong = match issued.work {
            Work::Make { .. } | Work::Rename { .. } | Work::Remove { .. } => {
                !matches!(status, Status::DELAY | Status::GRACE | Status::EXPIRED)
            }
            _ => matches!(
                status,
                Status::SERVERFAULT | Status::BADXDR | Status::OP_ILLEGAL | Status::INVAL | Status::OPENMODE
            ),
        };
        // A write by what another worker has reduced meanwhile.
        let may_be_reduced = matches!(issued.work, Work::Write { .. }) && status == Status::OPENMODE;
        if wrong && !may_be_reduced {
            self.ledger.fail(|| format!("{:?} of client {} ends with {status}", issued.work, issued.client));
        }
    }

    /// A reply reaches its client.
    pub(super) fn deliver(&mut self, link: usize) {
        let at = self.serving.as_mut().and_then(|serving| serving.links.get_mut(&link));
        let Some(record) = at.and_then(|at| at.replies.pop_front()) else { return };
        let xid = u32::from_be_bytes(record[..4].try_into().unwrap());
        let Some(issued) = self.issued.remove(&xid) else { return };
        let worker = &mut self.clients[issued.client].workers[issued.worker];
        let is_awaited = worker.outstanding.as_ref().is_some_and(|outstanding| {
            Rc::ptr_eq(&outstanding.issued, &issued) && outstanding.link == Some(link)
        });
        if !is_awaited {
            return;
        }
        let answer = work::read(&issued.work, &record);
        self.ledger.tell(self.now, || format!("client {} hears {xid}", issued.client));
        if answer.in_slot {
            worker.outstanding = None;
            self.renew(&issued, &answer);
            self.hear(&issued, &answer);
        } else {
            self.hear_refusal(&issued, answer.status);
        }
    }

    /// A client's lease begins anew with the sending of a request that was answered.
    fn renew(&mut self, issued: &Issued, answer: &Answer) {
        let creates = matches!(issued.work, Work::CreateSession(..)) && answer.status == Status::OK;
        if creates || issued.slot.is_some() {
            let lease = self.ledger.leases.entry(issued.client).or_insert(issued.first_sent);
            *lease = (*lease).max(issued.first_sent);
        }
    }

    fn hear_refusal(&mut self, issued: &Issued, status: Status) {
        let (client, worker) = (issued.client, issued.worker);
        match status {
            Status::BADSESSION => {
                let at = &self.clients[client];
                if at.boot == self.boot && self.ledger.has_lease(self.now, client) {
                    self.ledger.fail(|| format!("client {client} lost its session, and its lease is alive"));
                }
                self.ledger.see(if at.boot == self.boot { "expiries" } else { "recoveries" });
                self.ledger.suspend(client);
                self.clients[client].recover();
            }
            Status::RETRY_UNCACHED_REP => {
                self.ledger.see("replies not kept");
                self.clients[client].workers[worker].outstanding = None;
            }
            _ => {
                if let Some(outstanding) = &mut self.clients[client].workers[worker].outstanding {
                    outstanding.link = None;
                }
            }
        }
    }

    fn hear(&mut self, issued: &Issued, answer: &Answer) {
        let (client, worker) = (issued.client, issued.worker);
        if answer.status == Status::DELAY && issued.work.must_succeed() {
            return self.issue(client, worker, issued.work.clone());
        }
        match &issued.work {
            Work::ExchangeId | Work::CreateSession(..) => self.hear_of_client(issued, answer),
            Work::ReclaimComplete | Work::ReclaimOpen { .. } | Work::ReclaimLock { .. } => {
                self.hear_of_reclaim(issued, answer);
            }
            Work::Open { .. } | Work::Lock { .. } | Work::Unlock { .. } | Work::Downgrade { .. } => {
                self.hear_of_state(issued, answer);
            }
            Work::Write { number, place, .. } => match answer.body {
                Body::Written { stable: 0, verifier } => {
                    let unstable = &mut self.clients[client].unstable;
                    // What had another verifier is lost, or will be written again by who needs it.
                    unstable.retain(|earlier| earlier.verifier == verifier);
                    unstable.push(Unstable { place: *place, number: *number, verifier });
                }
                Body::Written { .. } => self.ledger.see("durable writes"),
                _ => self.ledger.see("writes refused"),
            },
            Work::Commit { covers, .. } => {
                if let Body::Committed(verifier) = answer.body {
                    self.dies_soon = !covers.is_empty() && self.dice.once_in(12);
                    self.ledger.committed(covers, verifier);
                    self.clients[client].unstable.retain(|unstable| !covers.contains(unstable));
                }
            }
            Work::Make { name } | Work::Rename { to: name, .. } if answer.status == Status::OK => {
                self.ledger.see("names");
                self.clients[client].workers[worker].name = Some(name.clone());
            }
            Work::Remove { .. } if answer.status == Status::OK => {
                self.clients[client].workers[worker].name = None;
            }
            _ => {}
        }
    }

    fn hear_of_client(&mut self, issued: &Issued, answer: &Answer) {
        let client = issued.client;
        let boot = self.boot;
        let at = &mut self.clients[client];
        match (&answer.body, &issued.work) {
            // Its session is gone, and its state is not: it begins anew rather than to find out what there is.
            (Body::Client(id, _), _) if at.id == Some(*id) => self.restart_client(client),
            (Body::Client(id, sequence), _) => at.phase = Phase::Create(*id, *sequence),
            (Body::Session(session), Work::CreateSession(id, _)) => {
                (at.session, at.id, at.boot, at.phase) = (Some(*session), Some(*id), boot, Phase::Reclaim);
                at.plan_reclaims();
            }
            _ => at.phase = Phase::Exchange,
        }
    }

    fn hear_of_reclaim(&mut self, issued: &Issued, answer: &Answer) {
        let at = &mut self.clients[issued.client];
        match (&issued.work, &answer.body) {
            (_, _) if answer.status == Status::DELAY => return,
            (Work::ReclaimComplete, _) if answer.status == Status::OK => {
                at.phase = Phase::Running;
                return;
            }
            (Work::ReclaimOpen { worker, file, share }, Body::Stateid(stateid)) => {
                let lock =
                    at.workers[*worker].open.and_then(|open| open.lock).filter(|(_, range)| range.is_some());
                at.workers[*worker].open = Some(Open::new(*file, *share, *stateid, lock));
                self.ledger.received((issued.client, *worker), false);
                self.ledger.see("opens reclaimed");
            }
            (Work::ReclaimLock { worker, range, .. }, Body::Stateid(stateid)) => {
                if let Some(open) = &mut at.workers[*worker].open {
                    open.lock = Some((*stateid, Some(*range)));
                }
                self.ledger.received((issued.client, *worker), true);
                self.ledger.see("locks reclaimed");
            }
            (Work::ReclaimOpen { worker, .. } | Work::ReclaimLock { worker, .. }, _) => {
                let holder = (issued.client, *worker);
                self.ledger.refused(self.now, holder, &answer.status.to_string());
                at.workers[*worker].open = None;
                at.reclaims.retain(|(number, _)| number != worker);
                return;
            }
            (work, _) => {
                let status = answer.status;
                return self.ledger.fail(|| format!("{work:?} ends with {status}"));
            }
        }
        at.reclaims.pop_front();
    }

    fn hear_of_state(&mut self, issued: &Issued, answer: &Answer) {
        let holder = (issued.client, issued.worker);
        let open = &mut self.clients[issued.client].workers[issued.worker].open;
        let Body::Stateid(stateid) = answer.body else {
            let what = match answer.status {
                Status::SHARE_DENIED => "shares denied",
                Status::DENIED => "locks denied",
                Status::GRACE => "refused in grace",
                _ => return,
            };
            return self.ledger.see(what);
        };
        match (&issued.work, open) {
            (Work::Open { share, .. }, Some(open)) => {
                open.upgrade(*share, stateid);
                self.ledger.received_upgrade(holder, open.share);
            }
            (Work::Open { file, share }, open) => {
                *open = Some(Open::new(*file, *share, stateid, None));
                self.ledger.received(holder, false);
            }
            (Work::Lock { range, .. }, Some(open)) => {
                open.lock = Some((stateid, Some(*range)));
                self.ledger.received(holder, true);
                self.ledger.see("locks");
            }
            (Work::Unlock { .. }, Some(open)) => open.lock = Some((stateid, None)),
            (_, Some(open)) => open.stateid = stateid,
            (_, None) => {}
        }
    }

    /// What a client waits for, for a failure to say.
    pub(super) fn describe(&self, client: usize) -> String {
        let at = &self.clients[client];
        let waits = at.workers.iter().filter_map(|worker| worker.outstanding.as_ref());
        let waits: Vec<String> =
            waits.map(|waits| format!("{:?} over {:?}", waits.issued.work, waits.link)).collect();
        format!("{:?}, {}", at.phase, waits.join(", "))
    }
}
