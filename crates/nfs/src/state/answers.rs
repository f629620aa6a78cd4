//! Answers of version 3 that a client may not have heard: what it sends again is answered again, and not carried out again (RFC 1813 §4.4).
//!
//! The group keeps them, since a client sends what was not answered over another connection once the first is gone.

use alloc::collections::{BTreeMap, VecDeque};
use core::net::IpAddr;

use buf::SharedBuf;
use protocol::Instant;

use crate::limits::{ADDRESS_ANSWERS, ANSWER, ANSWER_TIME, ANSWERS};
use crate::v4::Principal;

/// What tells a call from another: RPC's number alone may come again after a client has restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallKey {
    /// Where it comes from. The port is not asked for: it is another after a reconnection.
    pub client: IpAddr,
    /// RPC's number.
    pub xid: u32,
    /// The procedure.
    pub procedure: u32,
    /// Who calls.
    pub principal: Principal,
    /// Bytes of the arguments.
    pub len: usize,
    /// Their CRC-32C.
    pub sum: u32,
}

/// What is known of a call.
#[derive(Debug)]
enum Entry<M> {
    /// This connection carries it out.
    UnderWay(M),
    /// It was answered.
    Answered { answer: SharedBuf, at: Instant },
}

/// What is to be done with a call.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// It is new.
    Execute,
    /// It was answered with this.
    Repeat(SharedBuf),
    /// It is under way.
    Wait,
    /// As many of its address are under way as may be.
    Refuse,
}

/// The answers of all clients. `M` names a connection.
#[derive(Debug)]
pub struct Answers<M> {
    entries: BTreeMap<CallKey, Entry<M>>,
    /// Those that were answered, oldest first.
    order: VecDeque<CallKey>,
    /// How many entries each address has.
    addresses: BTreeMap<IpAddr, usize>,
}

impl<M> Default for Answers<M> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), order: VecDeque::new(), addresses: BTreeMap::new() }
    }
}

impl<M: Copy + PartialEq> Answers<M> {
    /// How many calls are known.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A call has come.
    pub fn begin(&mut self, now: Instant, from: M, key: &CallKey) -> Verdict {
        self.expire(now);
        match self.entries.get(key) {
            Some(Entry::UnderWay(_)) => return Verdict::Wait,
            Some(Entry::Answered { answer, .. }) => return Verdict::Repeat(answer.clone()),
            None => {}
        }
        let own = self.addresses.get(&key.client).copied().unwrap_or(0);
        let mut room = true;
        if own >= ADDRESS_ANSWERS {
            let oldest = self.order.iter().position(|known| known.client == key.client);
            room = self.forget_at(oldest);
        } else if self.entries.len() >= ANSWERS {
            room = self.forget_at((!self.order.is_empty()).then_some(0));
        }
        if !room {
            return Verdict::Refuse;
        }
        self.entries.insert(*key, Entry::UnderWay(from));
        let count = self.addresses.entry(key.client).or_default();
        *count = count.saturating_add(1);
        Verdict::Execute
    }

    /// A call was answered. True if it was under way, so that somebody may wait for it.
    pub fn finish(&mut self, now: Instant, key: &CallKey, answer: SharedBuf) -> bool {
        let Some(entry @ Entry::UnderWay(_)) = self.entries.get_mut(key) else { return false };
        if answer.len() > ANSWER {
            // No procedure has so long an answer; whoever sends it again is served again.
            self.remove(key);
            return true;
        }
        *entry = Entry::Answered { answer, at: now };
        self.order.push_back(*key);
        true
    }

    /// A connection is gone: nobody will say how its calls ended. It finishes them before it leaves.
    pub fn leave(&mut self, member: M) {
        let under_way = |(key, entry): (&CallKey, &Entry<M>)| match entry {
            Entry::UnderWay(by) if *by == member => Some(*key),
            _ => None,
        };
        let gone: alloc::vec::Vec<CallKey> = self.entries.iter().filter_map(under_way).collect();
        for key in gone {
            self.remove(&key);
        }
    }

    /// Forgets what is too old.
    fn expire(&mut self, now: Instant) {
        while let Some(key) = self.order.front().copied() {
            match self.entries.get(&key) {
                Some(Entry::Answered { at, .. }) if now < *at + ANSWER_TIME => return,
                _ => {
                    self.order.pop_front();
                    self.remove(&key);
                }
            }
        }
    }

    fn forget_at(&mut self, position: Option<usize>) -> bool {
        let Some(key) = position.and_then(|position| self.order.remove(position)) else { return false };
        self.remove(&key);
        true
    }

    fn remove(&mut self, key: &CallKey) {
        if self.entries.remove(key).is_none() {
            return;
        }
        if let Some(count) = self.addresses.get_mut(&key.client) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.addresses.remove(&key.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;
    use core::time::Duration;

    use super::*;

    fn key(address: u8, xid: u32) -> CallKey {
        let client = IpAddr::V4(Ipv4Addr::new(10, 0, 0, address));
        CallKey { client, xid, procedure: 12, principal: Principal::User(1), len: 9, sum: 7 }
    }

    impl PartialEq for Verdict {
        fn eq(&self, other: &Self) -> bool {
            match (self, other) {
                (Self::Repeat(one), Self::Repeat(other)) => one[..] == other[..],
                (one, other) => core::mem::discriminant(one) == core::mem::discriminant(other),
            }
        }
    }

    fn answer(byte: u8) -> SharedBuf {
        SharedBuf::from(alloc::vec![byte; 4])
    }

    #[test]
    fn a_call_is_carried_out_once() {
        let (mut answers, now) = (Answers::default(), Instant::ZERO);
        assert_eq!(answers.begin(now, 1, &key(1, 5)), Verdict::Execute);
        assert_eq!(answers.begin(now, 2, &key(1, 5)), Verdict::Wait);
        assert!(answers.finish(now, &key(1, 5), answer(3)));
        assert!(!answers.finish(now, &key(1, 5), answer(4)));
        assert_eq!(answers.begin(now, 2, &key(1, 5)), Verdict::Repeat(answer(3)));
        // Another client, another number, other arguments, another user, another procedure.
        let other = key(1, 5);
        for other in [
            key(2, 5),
            key(1, 6),
            CallKey { sum: 8, ..other },
            CallKey { len: 8, ..other },
            CallKey { principal: Principal::Nobody, ..other },
            CallKey { procedure: 13, ..other },
        ] {
            assert_eq!(answers.begin(now, 2, &other), Verdict::Execute);
        }
        let late = now + ANSWER_TIME;
        assert_eq!(answers.begin(late, 2, &key(1, 5)), Verdict::Execute);
    }

    #[test]
    fn a_connection_that_leaves_has_nothing_under_way() {
        let (mut answers, now) = (Answers::default(), Instant::ZERO);
        answers.begin(now, 1, &key(1, 5));
        answers.begin(now, 2, &key(1, 6));
        answers.leave(1);
        assert_eq!(answers.begin(now, 2, &key(1, 5)), Verdict::Execute);
        assert_eq!(answers.begin(now, 1, &key(1, 6)), Verdict::Wait);
    }

    #[test]
    fn answers_are_bounded_and_the_oldest_make_room() {
        let (mut answers, mut now) = (Answers::default(), Instant::ZERO);
        for xid in 0..2 * u32::try_from(ADDRESS_ANSWERS).unwrap() {
            now = now + Duration::from_nanos(1);
            assert_eq!(answers.begin(now, 1, &key(1, xid)), Verdict::Execute);
            answers.finish(now, &key(1, xid), answer(1));
        }
        assert_eq!(answers.len(), ADDRESS_ANSWERS);
        assert_eq!(answers.begin(now, 1, &key(1, 0)), Verdict::Execute);
        for address in 2..40 {
            for xid in 0..u32::try_from(ADDRESS_ANSWERS).unwrap() {
                answers.begin(now, 1, &key(address, xid));
                answers.finish(now, &key(address, xid), answer(1));
            }
        }
        // One is still under way.
        assert_eq!((answers.len(), answers.order.len()), (ANSWERS, ANSWERS - 1));
        assert_eq!(answers.addresses.values().sum::<usize>(), ANSWERS);
        let mut busy = Answers::default();
        for xid in 0..u32::try_from(ADDRESS_ANSWERS).unwrap() {
            assert_eq!(busy.begin(now, 1, &key(1, xid)), Verdict::Execute);
        }
        assert_eq!(busy.begin(now, 1, &key(1, u32::MAX)), Verdict::Refuse);
    }
}
