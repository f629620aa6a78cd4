//! The grace period after a restart (RFC 8881 §8.4.2.1): who may reclaim, and when it is over.
//!
//! Reclaims are taken for a lease. Its end removes the record of everybody who has not said RECLAIM_COMPLETE, so that it waits for those that have reclaimed
//! something: after another crash nobody would know of what they hold.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use protocol::Instant;

use super::stable::StableRecord;
use crate::limits::LEASE;
use crate::v4::ClientId;

/// Where the grace period stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Reclaims only.
    Running,
    /// No reclaims any more, and no new locks yet: whoever has reclaimed something completes, and the records of those that did not come back are being
    /// removed.
    Ending,
    /// Everything is served but reclaims.
    Over,
}

/// The grace period.
#[derive(Debug)]
pub struct Grace {
    phase: Phase,
    ends: Instant,
    /// Those that may reclaim, with the name of their records; those that have said RECLAIM_COMPLETE are out.
    waiting: BTreeMap<Vec<u8>, ClientId>,
    /// Records of those that came back, which have newer ones.
    superseded: Vec<ClientId>,
}

impl Grace {
    /// Begins now, if there is anybody to wait for.
    pub fn new(now: Instant, records: &[StableRecord]) -> Self {
        let waiting: BTreeMap<Vec<u8>, ClientId> =
            records.iter().map(|record| (record.owner.clone(), record.client)).collect();
        // Of two records of one owner the later is in `waiting`; the other is of no use.
        let superseded = records.iter().map(|record| record.client);
        let superseded = superseded.filter(|client| !waiting.values().any(|kept| kept == client)).collect();
        let phase = if records.is_empty() { Phase::Over } else { Phase::Running };
        Self { phase, ends: now + LEASE, waiting, superseded }
    }

    /// Where it stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// True if this owner may reclaim now.
    pub fn may_reclaim(&self, owner: &[u8]) -> bool {
        self.phase == Phase::Running && self.waiting.contains_key(owner)
    }

    /// This owner reclaims nothing more, and has a new record.
    pub fn complete(&mut self, owner: &[u8]) {
        if let Some(client) = self.waiting.remove(owner) {
            self.superseded.push(client);
        }
        if self.waiting.is_empty() && self.phase == Phase::Running {
            self.phase = Phase::Ending;
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.phase == Phase::Running && now >= self.ends {
            self.phase = Phase::Ending;
        }
    }

    /// When it ends by itself.
    pub fn poll_timeout(&self) -> Option<Instant> {
        (self.phase == Phase::Running).then_some(self.ends)
    }

    /// Those that may have reclaimed something and have not completed.
    pub fn incomplete(&self) -> impl Iterator<Item = &[u8]> {
        self.waiting.keys().map(Vec::as_slice)
    }

    /// How long they are waited for while they renew their leases. Who keeps to the standard completes once it is refused to reclaim more (§18.51.3).
    pub fn patience(&self) -> Instant {
        self.ends + LEASE + LEASE
    }

    /// The records that are to go before it is over: of those that did not come back, and those that have newer ones.
    pub fn to_remove(&self) -> Vec<ClientId> {
        match self.phase {
            Phase::Ending => self.waiting.values().chain(&self.superseded).copied().collect(),
            Phase::Running | Phase::Over => Vec::new(),
        }
    }

    /// They are gone.
    pub fn end(&mut self) {
        self.phase = Phase::Over;
        self.waiting.clear();
        self.superseded.clear();
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn records() -> Vec<StableRecord> {
        [1, 2]
            .map(|number| StableRecord { client: ClientId(number), owner: number.to_be_bytes().to_vec() })
            .to_vec()
    }

    #[test]
    fn without_records_there_is_none() {
        let grace = Grace::new(Instant::ZERO, &[]);
        assert_eq!((grace.phase(), grace.poll_timeout()), (Phase::Over, None));
    }

    #[test]
    fn it_ends_when_everybody_is_back() {
        let mut grace = Grace::new(Instant::ZERO, &records());
        let owners = [1_u64, 2].map(u64::to_be_bytes);
        assert!(grace.may_reclaim(&owners[0]) && !grace.may_reclaim(b"other"));
        grace.complete(&owners[0]);
        assert!(!grace.may_reclaim(&owners[0]) && grace.phase() == Phase::Running);
        grace.complete(&owners[1]);
        assert_eq!((grace.phase(), grace.to_remove()), (Phase::Ending, vec![ClientId(1), ClientId(2)]));
        grace.end();
        assert_eq!((grace.phase(), grace.to_remove()), (Phase::Over, vec![]));
    }

    #[test]
    fn whoever_does_not_come_back_in_time_loses_its_record() {
        let mut grace = Grace::new(Instant::ZERO, &records());
        grace.complete(&1_u64.to_be_bytes());
        grace.handle_timeout(Instant::ZERO + LEASE);
        assert!(!grace.may_reclaim(&2_u64.to_be_bytes()));
        assert_eq!((grace.phase(), grace.to_remove()), (Phase::Ending, vec![ClientId(2), ClientId(1)]));
    }
}
