//! Sessions: their channel's attributes, and where each slot is (RFC 8881 §2.10, §18.36, §18.46).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::slot::Slot;
use crate::limits::{
    CACHED_REPLY, FAILED_RESULT, LEAST_MESSAGE, MESSAGE, OPERATIONS, REPLY_HEADER, SESSION_COST, SLOT_COST,
    SLOT_ROOM, SLOTS,
};
use crate::v4::{ClientId, SessionId, Status};

/// `channel_attrs4`, without what concerns RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelAttributes {
    /// The largest request, in bytes.
    pub max_request: u32,
    /// The largest reply, in bytes.
    pub max_response: u32,
    /// The largest reply that is cached, in bytes.
    pub max_response_cached: u32,
    /// Operations of a COMPOUND.
    pub max_operations: u32,
    /// Slots.
    pub max_requests: u32,
}

/// What CREATE_SESSION answers, and answers again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedSession {
    /// The session.
    pub session: SessionId,
    /// `csr_sequence`.
    pub sequence: u32,
    /// What was negotiated.
    pub attributes: ChannelAttributes,
}

impl ChannelAttributes {
    /// What a session gets that asks for this: nothing more than asked, nothing more than the limits.
    ///
    /// # Errors
    /// TOOSMALL where nothing useful would be left, INVAL for no operations or no slots (RFC 8881 §18.36.3).
    pub fn negotiate(self) -> Result<Self, Status> {
        if self.max_operations == 0 || self.max_requests == 0 {
            return Err(Status::INVAL);
        }
        if self.max_request < LEAST_MESSAGE || self.max_response < LEAST_MESSAGE {
            return Err(Status::TOOSMALL);
        }
        Ok(Self {
            max_request: self.max_request.min(MESSAGE),
            max_response: self.max_response.min(MESSAGE),
            max_response_cached: self.max_response_cached.min(CACHED_REPLY),
            max_operations: self.max_operations.min(OPERATIONS),
            max_requests: self.max_requests.min(SLOTS),
        })
    }

    /// The same with no more slots than need so many bytes, their usual replies counted; none where not even one does.
    #[must_use]
    pub fn fitting(self, room: usize) -> Option<Self> {
        let slots = wire::saturate(room.saturating_sub(SESSION_COST) / SLOT_ROOM);
        (slots > 0).then(|| Self { max_requests: self.max_requests.min(slots), ..self })
    }

    /// What is left of replies for results: the sizes count the RPC header (RFC 8881 §18.36.3), and there is always room to say that a result does not fit.
    #[must_use]
    pub fn for_results(self) -> Self {
        let other = REPLY_HEADER.saturating_add(FAILED_RESULT);
        Self {
            max_response: self.max_response.saturating_sub(other),
            max_response_cached: self.max_response_cached.saturating_sub(other),
            ..self
        }
    }

    /// Bytes that a session of these attributes counts for, beside the replies that its slots keep.
    pub fn bytes(&self) -> usize {
        let slots = usize::try_from(self.max_requests).unwrap_or(usize::MAX);
        SESSION_COST.saturating_add(slots.saturating_mul(SLOT_COST))
    }
}

/// Where a slot is.
#[derive(Debug)]
enum Home<M> {
    /// Here.
    AtRest(Slot),
    /// At a connection.
    Lent(M, Recall),
}

/// Whether a lent slot was asked back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recall {
    NotAsked,
    Asked,
    /// The holder works on a request of it.
    Refused,
}

/// What a connection gets that asks for a slot.
#[derive(Debug)]
pub enum Taken<M> {
    /// The slot.
    Lent(Slot),
    /// Nothing yet: this connection is to be asked for it.
    Recall(M),
    /// Nothing yet: it was asked for.
    Wait,
    /// Nothing.
    Refused(Status),
}

/// One session.
#[derive(Debug)]
pub struct Session<M> {
    /// Whose.
    pub client: ClientId,
    /// What was negotiated.
    pub attributes: ChannelAttributes,
    slots: Vec<Home<M>>,
}

impl<M: Copy + Ord> Session<M> {
    fn new(client: ClientId, attributes: ChannelAttributes) -> Self {
        let slots = (0..attributes.max_requests).map(|_| Home::AtRest(Slot::new())).collect();
        Self { client, attributes, slots }
    }

    fn home(&mut self, slot: u32) -> Option<&mut Home<M>> {
        self.slots.get_mut(usize::try_from(slot).ok()?)
    }

    /// A connection asks for a slot that it does not have.
    pub fn take(&mut self, slot: u32, by: M) -> Taken<M> {
        let Some(home) = self.home(slot) else { return Taken::Refused(Status::BADSLOT) };
        match home {
            Home::AtRest(_) => {
                let Home::AtRest(slot) = core::mem::replace(home, Home::Lent(by, Recall::NotAsked)) else {
                    return Taken::Refused(Status::SERVERFAULT);
                };
                Taken::Lent(slot)
            }
            // It has asked twice before the first answer: two requests in one slot.
            Home::Lent(holder, _) if *holder == by => Taken::Refused(Status::DELAY),
            Home::Lent(holder, recall @ Recall::NotAsked) => {
                *recall = Recall::Asked;
                Taken::Recall(*holder)
            }
            Home::Lent(_, Recall::Asked) => Taken::Wait,
            Home::Lent(_, recall @ Recall::Refused) => {
                *recall = Recall::NotAsked;
                Taken::Refused(Status::DELAY)
            }
        }
    }

    /// A connection gives a slot back; false if it does not have it.
    pub fn give_back(&mut self, slot: u32, from: M, contents: Slot) -> bool {
        let Some(home) = self.home(slot) else { return false };
        let lent = matches!(home, Home::Lent(holder, _) if *holder == from);
        if lent {
            *home = Home::AtRest(contents);
        }
        lent
    }

    /// Bytes of the replies that slots at rest keep.
    pub fn reply_bytes(&self) -> usize {
        let at_rest = self.slots.iter().map(|home| match home {
            Home::AtRest(slot) => slot.reply_bytes(),
            Home::Lent(..) => 0,
        });
        at_rest.sum()
    }

    /// A connection cannot give a slot back: it works on a request of it.
    pub fn refuse(&mut self, slot: u32, from: M) {
        if let Some(Home::Lent(holder, recall @ Recall::Asked)) = self.home(slot)
            && *holder == from
        {
            *recall = Recall::Refused;
        }
    }

    /// True if a connection has a slot of it.
    fn is_lent_to(&self, member: M) -> bool {
        self.slots.iter().any(|home| matches!(home, Home::Lent(holder, _) if *holder == member))
    }

    /// The connections that have slots of it.
    pub fn holders(&self) -> BTreeSet<M> {
        let lent = self.slots.iter().filter_map(|home| match home {
            Home::Lent(holder, _) => Some(*holder),
            Home::AtRest(_) => None,
        });
        lent.collect()
    }
}

/// All sessions.
#[derive(Debug)]
pub struct Sessions<M> {
    by_id: BTreeMap<SessionId, Session<M>>,
    by_client: BTreeMap<ClientId, BTreeSet<SessionId>>,
    last: u64,
}

impl<M: Copy + Ord> Sessions<M> {
    /// None.
    pub fn new() -> Self {
        Self { by_id: BTreeMap::new(), by_client: BTreeMap::new(), last: 0 }
    }

    /// Makes one.
    pub fn create(&mut self, client: ClientId, attributes: ChannelAttributes) -> SessionId {
        self.last = self.last.wrapping_add(1);
        let mut id = [0; 16];
        for (byte, value) in
            id.iter_mut().zip(client.0.to_be_bytes().into_iter().chain(self.last.to_be_bytes()))
        {
            *byte = value;
        }
        let id = SessionId(id);
        self.by_client.entry(client).or_default().insert(id);
        self.by_id.insert(id, Session::new(client, attributes));
        id
    }

    /// The session of that ID.
    pub fn get(&self, id: SessionId) -> Option<&Session<M>> {
        self.by_id.get(&id)
    }

    /// The session of that ID, to be changed.
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut Session<M>> {
        self.by_id.get_mut(&id)
    }

    /// The sessions of a client.
    pub fn of_client(&self, client: ClientId) -> BTreeSet<SessionId> {
        self.by_client.get(&client).cloned().unwrap_or_default()
    }

    /// How many sessions a client has.
    pub fn count(&self, client: ClientId) -> usize {
        self.by_client.get(&client).map_or(0, BTreeSet::len)
    }

    /// Takes one out.
    pub fn remove(&mut self, id: SessionId) -> Option<Session<M>> {
        let session = self.by_id.remove(&id)?;
        if let Some(ids) = self.by_client.get_mut(&session.client) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_client.remove(&session.client);
            }
        }
        Some(session)
    }

    /// The sessions of which a connection that is gone still has slots: what they had executed is not known any more.
    pub fn lost_with(&self, member: M) -> Vec<SessionId> {
        let lost = self.by_id.iter().filter(|(_, session)| session.is_lent_to(member));
        lost.map(|(id, _)| *id).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

impl<M: Copy + Ord> Default for Sessions<M> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::slot::{Fingerprint, Verdict};
    use crate::v4::Principal;

    const ASKED: ChannelAttributes = ChannelAttributes {
        max_request: 1 << 30,
        max_response: 2048,
        max_response_cached: 1 << 20,
        max_operations: 8,
        max_requests: 2,
    };

    #[test]
    fn no_more_than_asked_and_no_more_than_the_limits() {
        let got = ASKED.negotiate().unwrap();
        assert_eq!(
            (got.max_request, got.max_response, got.max_response_cached),
            (MESSAGE, 2048, CACHED_REPLY)
        );
        assert_eq!((got.max_operations, got.max_requests), (8, 2));
        let none = |change: fn(&mut ChannelAttributes)| {
            let mut asked = ASKED;
            change(&mut asked);
            asked.negotiate().unwrap_err()
        };
        assert_eq!(none(|asked| asked.max_requests = 0), Status::INVAL);
        assert_eq!(none(|asked| asked.max_response = 100), Status::TOOSMALL);
    }

    fn lent<M: core::fmt::Debug>(taken: Taken<M>) -> Slot {
        match taken {
            Taken::Lent(slot) => slot,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_slot_goes_from_one_connection_to_the_other_with_what_it_knows() {
        let mut sessions = Sessions::new();
        let id = sessions.create(ClientId(1), ASKED);
        let session = sessions.get_mut(id).unwrap();
        let mut slot = lent(session.take(1, 'a'));
        let request = Fingerprint { len: 1, sum: 2, principal: Principal::Nobody };
        assert!(matches!(slot.begin(1, request), Verdict::Execute));
        assert!(matches!(session.take(1, 'b'), Taken::Recall('a')));
        assert!(matches!(session.take(1, 'c'), Taken::Wait));
        session.refuse(1, 'a');
        assert!(matches!(session.take(1, 'b'), Taken::Refused(Status::DELAY)));
        assert!(matches!(session.take(1, 'b'), Taken::Recall('a')));
        slot.finish(None);
        assert!(!session.give_back(1, 'b', Slot::new()));
        assert!(session.give_back(1, 'a', slot));
        let mut slot = lent(session.take(1, 'b'));
        assert!(matches!(slot.begin(1, request), Verdict::Refuse(Status::RETRY_UNCACHED_REP)));
        assert!(matches!(session.take(2, 'b'), Taken::Refused(Status::BADSLOT)));
        assert!(session.holders().into_iter().eq(['b']));
        assert_eq!(sessions.lost_with('b'), [id]);
        assert!(sessions.lost_with('a').is_empty());
    }

    #[test]
    fn sessions_of_a_client() {
        let mut sessions = Sessions::<u8>::new();
        let [one, two] = [1, 1].map(|client| sessions.create(ClientId(client), ASKED));
        assert_ne!(one, two);
        assert_eq!((sessions.count(ClientId(1)), sessions.count(ClientId(2))), (2, 0));
        sessions.remove(one);
        sessions.remove(two);
        assert!(sessions.is_empty() && sessions.by_client.is_empty());
    }
}
