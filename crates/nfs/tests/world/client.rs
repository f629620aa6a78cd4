//! A client of several connections, with a worker for each slot of its session. It keeps to the standard: it sends again only what it has no answer to
//! and whose connection is gone, recovers what it had after NFS4ERR_BADSESSION, and writes nothing off before it was told to.

use std::collections::VecDeque;
use std::rc::Rc;

use nfs::v4::{ClientId, SessionId, Stateid};
use protocol::Instant;

use super::work::{Range, Share, Slot, Unstable, Work};
use crate::common::CompoundCall;

/// A request without an answer.
#[derive(Clone)]
pub struct Outstanding {
    pub issued: Rc<Issued>,
    /// Over which connection it went; `None` if that is gone, or if it is to be sent again.
    pub link: Option<usize>,
}

/// A request.
pub struct Issued {
    pub client: usize,
    pub incarnation: u8,
    pub id: Option<ClientId>,
    /// Whose slot; none of a session for EXCHANGE_ID and CREATE_SESSION.
    pub worker: usize,
    pub slot: Option<Slot>,
    pub work: Work,
    pub call: CompoundCall,
    pub first_sent: Instant,
}

/// What a worker has open.
#[derive(Debug, Clone, Copy)]
pub struct Open {
    pub file: usize,
    /// All that it has asked for together, and what it asked for first.
    pub share: Share,
    first: Share,
    pub stateid: Stateid,
    /// Its lock stateid, and what is locked.
    pub lock: Option<(Stateid, Option<Range>)>,
}

impl Open {
    pub fn new(file: usize, share: Share, stateid: Stateid, lock: Option<(Stateid, Option<Range>)>) -> Self {
        Self { file, share, first: share, stateid, lock }
    }

    /// Another OPEN of the same owner adds to it.
    pub fn upgrade(&mut self, share: Share, stateid: Stateid) {
        self.share = self.share.union(share);
        self.stateid = stateid;
    }

    /// What it can be reduced to, if that is less.
    pub fn earlier(&self) -> Option<Share> {
        (self.first != self.share).then_some(self.first)
    }

    pub fn downgrade(&mut self, share: Share) {
        (self.share, self.first) = (share, share);
    }
}

/// One slot and what goes on in it.
#[derive(Default)]
pub struct Worker {
    pub sequence: u32,
    pub outstanding: Option<Outstanding>,
    pub open: Option<Open>,
    /// A directory of its own.
    pub name: Option<String>,
}

/// What a client is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Exchange,
    Create(ClientId, u32),
    Reclaim,
    Running,
}

/// A client.
pub struct Client {
    pub name: String,
    /// Its verifier: another at each of its starts.
    pub incarnation: u8,
    pub links: Vec<usize>,
    pub phase: Phase,
    pub id: Option<ClientId>,
    pub session: Option<SessionId>,
    /// At which start of the server the session was made.
    pub boot: u32,
    pub workers: Vec<Worker>,
    pub reclaims: VecDeque<(usize, bool)>,
    pub unstable: Vec<Unstable>,
    /// It does and hears nothing until then.
    pub frozen: Instant,
}

impl Client {
    pub fn new(name: String, workers: usize) -> Self {
        Self {
            name,
            incarnation: 1,
            links: Vec::new(),
            phase: Phase::Exchange,
            id: None,
            session: None,
            boot: 0,
            workers: (0..workers).map(|_| Worker::default()).collect(),
            reclaims: VecDeque::new(),
            unstable: Vec::new(),
            frozen: Instant::ZERO,
        }
    }

    /// A connection is gone: what went over it goes again.
    pub fn lose_link(&mut self, link: usize) {
        self.links.retain(|known| *known != link);
        for worker in &mut self.workers {
            if let Some(outstanding) = worker.outstanding.as_mut().filter(|sent| sent.link == Some(link)) {
                outstanding.link = None;
            }
        }
    }

    /// The session is gone, and the client ID, perhaps: everything under way has an outcome that nobody will hear.
    pub fn recover(&mut self) {
        for worker in &mut self.workers {
            worker.sequence = 0;
            if let Some(outstanding) = worker.outstanding.take()
                && matches!(
                    outstanding.issued.work,
                    Work::Make { .. } | Work::Rename { .. } | Work::Remove { .. }
                )
            {
                worker.name = None;
            }
        }
        self.session = None;
        self.phase = Phase::Exchange;
    }

    /// It starts again, and knows nothing.
    pub fn restart(&mut self) {
        self.recover();
        let workers = self.workers.len();
        let incarnation = self.incarnation.wrapping_add(1);
        *self = Self { incarnation, ..Self::new(std::mem::take(&mut self.name), workers) };
    }

    /// What is to be reclaimed: opens, each before its lock.
    pub fn plan_reclaims(&mut self) {
        self.reclaims.clear();
        for (number, worker) in self.workers.iter().enumerate() {
            let Some(open) = &worker.open else { continue };
            self.reclaims.push_back((number, false));
            if open.lock.is_some_and(|(_, range)| range.is_some()) {
                self.reclaims.push_back((number, true));
            }
        }
    }

    /// The next step of recovery.
    pub fn next_reclaim(&self) -> Work {
        let Some((number, is_lock)) = self.reclaims.front().copied() else { return Work::ReclaimComplete };
        match self.workers[number].open {
            Some(Open { file, stateid, lock: Some((_, Some(range))), .. }) if is_lock => {
                Work::ReclaimLock { worker: number, open: stateid, file, range }
            }
            Some(Open { file, share, .. }) => Work::ReclaimOpen { worker: number, file, share },
            None => Work::ReclaimComplete,
        }
    }

    /// Whether it has what it needs, and nothing under way.
    pub fn is_at_rest(&self) -> bool {
        self.phase == Phase::Running && self.workers.iter().all(|worker| worker.outstanding.is_none())
    }
}
