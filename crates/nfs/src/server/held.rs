//! What one connection has on loan from the group: stateids, anonymous access, slots (docs/decisions/0036-nfs.md).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use filesystem::OpenId;
use protocol::Instant;

use super::exports::FileKey;
use crate::limits::{LEASE, LOANS, RENEWAL, RENEWED_CLIENTS};
use crate::state::loans::Loan;
use crate::state::messages::{Call, Notice, SlotLoan, StateidLoan, StateidUse};
use crate::state::opens::check_seqid;
use crate::v4::types::StateidKind;
use crate::v4::{ClientId, Modes, SessionId, Status};

/// A loan that is being used, until [`HeldLoans::end_use`].
pub type Use = Loan<FileKey>;

/// One loan.
#[derive(Debug)]
struct Held {
    /// What is known of a stateid; nothing for anonymous access.
    stateid: Option<StateidLoan<FileKey>>,
    uses: usize,
    recalled: bool,
    /// How often it was lent.
    times: u32,
}

/// What a stateid that came with an operation is good for.
#[derive(Debug)]
pub enum Resolved {
    /// It is valid, and in use until the operation ends.
    Valid {
        /// What was used.
        by: Use,
        /// The file system knows the open by this; nothing for anonymous access.
        open: Option<OpenId>,
    },
    /// The group has to be asked.
    Ask(Call<FileKey>),
}

/// All loans of stateids and of anonymous access.
#[derive(Debug, Default)]
pub struct HeldLoans {
    held: BTreeMap<Loan<FileKey>, Held>,
    returned: VecDeque<(Loan<FileKey>, u32)>,
}

impl HeldLoans {
    /// The group has lent a stateid, or tells a newer version of it.
    pub fn lend(&mut self, loan: StateidLoan<FileKey>) {
        let key = Loan::Stateid(loan.other);
        if let Some(held) = self.held.get_mut(&key) {
            held.stateid = Some(loan);
            held.times = held.times.saturating_add(1);
            return;
        }
        self.insert(key, Some(loan));
    }

    /// The group has lent anonymous access.
    pub fn lend_anonymous(&mut self, file: FileKey, access: Modes) {
        let key = Loan::Anonymous(file, access);
        match self.held.get_mut(&key) {
            Some(held) => held.times = held.times.saturating_add(1),
            None => self.insert(key, None),
        }
    }

    fn insert(&mut self, key: Loan<FileKey>, stateid: Option<StateidLoan<FileKey>>) {
        if self.held.len() >= LOANS {
            let unused = self.held.iter().find(|(_, held)| held.uses == 0).map(|(key, _)| key.clone());
            if let Some(unused) = unused {
                self.give_back(unused);
            }
        }
        self.held.insert(key, Held { stateid, uses: 0, recalled: false, times: 1 });
    }

    /// The group wants a loan back.
    pub fn recall(&mut self, key: Loan<FileKey>) {
        match self.held.get_mut(&key) {
            Some(held) if held.uses > 0 => held.recalled = true,
            Some(_) => self.give_back(key),
            // It went back before the recall came.
            None => {}
        }
    }

    fn give_back(&mut self, key: Loan<FileKey>) {
        if let Some(held) = self.held.remove(&key) {
            self.returned.push_back((key, held.times));
        }
    }

    /// An operation that was judged by a loan has ended.
    pub fn end_use(&mut self, key: &Use) {
        let Some(held) = self.held.get_mut(key) else { return };
        held.uses = held.uses.saturating_sub(1);
        if held.uses == 0 && held.recalled {
            self.give_back(key.clone());
        }
    }

    /// What goes back to the group.
    pub fn poll_returned(&mut self) -> Option<Notice<FileKey>> {
        self.returned.pop_front().map(|(loan, times)| Notice::GiveBack(loan, times))
    }

    /// Bytes of them.
    pub fn held(&self) -> usize {
        self.held.len().saturating_mul(size_of::<(Loan<FileKey>, Held)>())
    }

    /// How many loans there are.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Judges a stateid that comes for `access` to its file (RFC 8881 §8.2.4, §9.1.2), and begins a use of it.
    ///
    /// # Errors
    /// BAD_STATEID, OLD_STATEID, OPENMODE.
    pub fn resolve(&mut self, named: StateidUse<FileKey>, access: Modes) -> Result<Resolved, Status> {
        match named.stateid.kind() {
            StateidKind::Anonymous | StateidKind::ReadBypass => {
                let by = Loan::Anonymous(named.file, access);
                if self.begin_use(&by) {
                    return Ok(Resolved::Valid { by, open: None });
                }
                Ok(Resolved::Ask(Call::BorrowAnonymous(named.file, access)))
            }
            StateidKind::Current | StateidKind::Invalid => Err(Status::BAD_STATEID),
            StateidKind::State => self.resolve_state(named, access),
        }
    }

    fn resolve_state(&mut self, named: StateidUse<FileKey>, access: Modes) -> Result<Resolved, Status> {
        let by = Loan::Stateid(named.stateid.other);
        let known = self.held.get(&by).filter(|held| !held.recalled).and_then(|held| held.stateid.as_ref());
        let Some(loan) = known else { return Ok(Resolved::Ask(Call::Borrow(named))) };
        if loan.client != named.client || loan.file != named.file {
            return Err(Status::BAD_STATEID);
        }
        match check_seqid(named.stateid.seqid, loan.seqid) {
            Ok(()) => {}
            // It may have moved on by another connection.
            Err(Status::BAD_STATEID) => return Ok(Resolved::Ask(Call::Borrow(named))),
            Err(status) => return Err(status),
        }
        if !loan.access.contains(access) {
            return Err(Status::OPENMODE);
        }
        let open = if access.write { loan.ids.write } else { loan.ids.read };
        self.begin_use(&by);
        Ok(Resolved::Valid { by, open })
    }

    fn begin_use(&mut self, key: &Use) -> bool {
        let Some(held) = self.held.get_mut(key).filter(|held| !held.recalled) else { return false };
        held.uses = held.uses.saturating_add(1);
        true
    }
}

/// The slots that a connection has.
#[derive(Debug, Default)]
pub struct HeldSlots {
    slots: BTreeMap<(SessionId, u32), SlotLoan>,
    /// When the group last heard from here that each client was there.
    told: BTreeMap<ClientId, Instant>,
    returned: VecDeque<Notice<FileKey>>,
    /// Bytes of the replies that they keep, counted as replies come and go: it is asked for with every call.
    reply_bytes: usize,
}

impl HeldSlots {
    /// The group has lent a slot.
    pub fn lend(&mut self, session: SessionId, number: u32, loan: SlotLoan) {
        self.remember(loan.client, loan.renewed);
        self.reply_bytes = self.reply_bytes.saturating_add(loan.slot.reply_bytes());
        if let Some(before) = self.slots.insert((session, number), loan) {
            self.reply_bytes = self.reply_bytes.saturating_sub(before.slot.reply_bytes());
        }
    }

    fn remember(&mut self, client: ClientId, when: Instant) {
        if self.told.len() >= RENEWED_CLIENTS && !self.told.contains_key(&client) {
            self.told.clear();
        }
        let told = self.told.entry(client).or_insert(when);
        *told = when.max(*told);
    }

    /// A client is there: what the group is to be told, every [`RENEWAL`].
    pub fn renew(&mut self, now: Instant, client: ClientId) -> Option<Notice<FileKey>> {
        if self.told.get(&client).is_some_and(|told| now < *told + RENEWAL) {
            return None;
        }
        self.remember(client, now);
        Some(Notice::Renew(client))
    }

    /// Gives back a slot whose client's lease may be over, as far as is known here: the group has perhaps given its state to others already, and has to be asked
    /// before the client hears that its lease runs. A slot in use stays: there is no such answer to a retry.
    pub fn give_back_stale(&mut self, now: Instant, session: SessionId, number: u32) {
        let Some(loan) = self.slots.get(&(session, number)) else { return };
        let is_fresh = self.told.get(&loan.client).is_some_and(|told| now < *told + LEASE);
        if !is_fresh && !loan.slot.is_busy() {
            let notice = self.recall(session, number);
            self.returned.push_back(notice);
        }
    }

    /// What goes back to the group.
    pub fn poll_returned(&mut self) -> Option<Notice<FileKey>> {
        self.returned.pop_front()
    }

    /// Does something with a slot, if it is here.
    pub fn with<R>(
        &mut self,
        session: SessionId,
        number: u32,
        act: impl FnOnce(&mut SlotLoan) -> R,
    ) -> Option<R> {
        let loan = self.slots.get_mut(&(session, number))?;
        let before = loan.slot.reply_bytes();
        let result = act(loan);
        let kept = self.reply_bytes.saturating_sub(before);
        self.reply_bytes = kept.saturating_add(loan.slot.reply_bytes());
        Some(result)
    }

    /// The group wants a slot back: it gets it, or hears that it is in use.
    pub fn recall(&mut self, session: SessionId, number: u32) -> Notice<FileKey> {
        let key = (session, number);
        if self.slots.get(&key).is_some_and(|loan| !loan.slot.is_busy())
            && let Some(loan) = self.slots.remove(&key)
        {
            self.reply_bytes = self.reply_bytes.saturating_sub(loan.slot.reply_bytes());
            return Notice::ReturnSlot(session, number, loan.slot);
        }
        Notice::SlotBusy(session, number)
    }

    /// A session is gone: its slots mean nothing any more.
    pub fn end_session(&mut self, session: SessionId) {
        self.slots.retain(|(known, _), _| *known != session);
        self.reply_bytes = self.slots.values().map(|loan| loan.slot.reply_bytes()).sum();
    }

    /// Gives every slot back that is not in use: the connection ends.
    pub fn give_back_idle(&mut self) -> Vec<Notice<FileKey>> {
        let idle = self.slots.iter().filter(|(_, loan)| !loan.slot.is_busy()).map(|(key, _)| *key);
        let idle: Vec<(SessionId, u32)> = idle.collect();
        idle.into_iter().map(|(session, number)| self.recall(session, number)).collect()
    }

    /// Bytes of the replies that they keep.
    pub fn reply_bytes(&self) -> usize {
        self.reply_bytes
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use filesystem::FileHandle;

    use super::*;
    use crate::server::exports::FileSystemId;
    use crate::state::opens::OpenIds;
    use crate::state::sessions::ChannelAttributes;
    use crate::state::slot::{Fingerprint, Slot};
    use crate::v4::{Principal, Stateid, StateidOther};

    fn file(number: u8) -> FileKey {
        FileKey { filesystem: FileSystemId(1), handle: FileHandle::from([number; 16]) }
    }

    fn loan(seqid: u32) -> StateidLoan<FileKey> {
        let ids = OpenIds { read: Some(OpenId(1)), write: None };
        let other = StateidOther([1; 12]);
        StateidLoan { client: ClientId(1), other, seqid, file: file(1), access: Modes::READ, ids }
    }

    fn named(client: u64, number: u8, seqid: u32) -> StateidUse<FileKey> {
        let stateid = Stateid { seqid, other: StateidOther([1; 12]) };
        StateidUse { client: ClientId(client), file: file(number), stateid }
    }

    #[test]
    fn a_stateid_is_judged_here_as_far_as_it_is_known() {
        let judge = |held: &mut HeldLoans, named, access| {
            held.resolve(named, access).map(|resolved| match resolved {
                Resolved::Valid { open, .. } => Some(open),
                Resolved::Ask(_) => None,
            })
        };
        let mut held = HeldLoans::default();
        assert_eq!(judge(&mut held, named(1, 1, 1), Modes::READ), Ok(None));
        held.lend(loan(5));
        assert_eq!(judge(&mut held, named(1, 1, 5), Modes::READ), Ok(Some(Some(OpenId(1)))));
        assert_eq!(judge(&mut held, named(1, 1, 0), Modes::READ), Ok(Some(Some(OpenId(1)))));
        assert_eq!(judge(&mut held, named(1, 1, 4), Modes::READ), Err(Status::OLD_STATEID));
        assert_eq!(judge(&mut held, named(1, 1, 6), Modes::READ), Ok(None));
        assert_eq!(judge(&mut held, named(1, 1, 5), Modes::WRITE), Err(Status::OPENMODE));
        assert_eq!(judge(&mut held, named(2, 1, 5), Modes::READ), Err(Status::BAD_STATEID));
        assert_eq!(judge(&mut held, named(1, 2, 5), Modes::READ), Err(Status::BAD_STATEID));
    }

    #[test]
    fn what_is_in_use_goes_back_when_it_is_not_any_more() {
        let mut held = HeldLoans::default();
        held.lend(loan(1));
        let Ok(Resolved::Valid { by, .. }) = held.resolve(named(1, 1, 1), Modes::READ) else { panic!() };
        held.recall(by.clone());
        assert!(held.poll_returned().is_none());
        // Nothing new begins by it.
        assert!(matches!(held.resolve(named(1, 1, 1), Modes::READ), Ok(Resolved::Ask(_))));
        held.end_use(&by);
        assert!(held.poll_returned().is_some() && held.is_empty());
        // It is on its way back.
        held.recall(by);
        assert!(held.poll_returned().is_none());
    }

    #[test]
    fn what_goes_back_says_how_often_it_was_lent() {
        let mut held = HeldLoans::default();
        for seqid in 1..=3 {
            held.lend(loan(seqid));
        }
        held.recall(Loan::Stateid(StateidOther([1; 12])));
        assert!(matches!(held.poll_returned(), Some(Notice::GiveBack(Loan::Stateid(_), 3))));
        for _ in 0..2 {
            held.lend_anonymous(file(1), Modes::READ);
        }
        held.recall(Loan::Anonymous(file(1), Modes::READ));
        assert!(matches!(held.poll_returned(), Some(Notice::GiveBack(Loan::Anonymous(..), 2))));
    }

    /// Unless the group has heard of a client lately, it may have given its state away: a slot of it goes back, and is asked for.
    #[test]
    fn a_slot_of_a_client_that_was_away_goes_back() {
        let attributes = ChannelAttributes {
            max_request: 4096,
            max_response: 4096,
            max_response_cached: 0,
            max_operations: 8,
            max_requests: 4,
        };
        let session = SessionId([1; 16]);
        let lent = |when| SlotLoan { slot: Slot::new(), client: ClientId(1), attributes, renewed: when };
        let mut held = HeldSlots::default();
        let start = Instant::from_nanos(1);
        held.lend(session, 0, lent(start));
        held.lend(session, 1, lent(start));
        // Whoever was there a moment ago need not be told of.
        assert!(held.renew(start, ClientId(1)).is_none());
        held.give_back_stale(start + LEASE.saturating_sub(core::time::Duration::from_nanos(1)), session, 0);
        assert!(held.poll_returned().is_none());
        let busy = Fingerprint { len: 1, sum: 1, principal: Principal::Nobody };
        let _executes = held.with(session, 1, |loan| loan.slot.begin(1, busy));
        for slot in [0, 1] {
            held.give_back_stale(start + LEASE, session, slot);
        }
        assert!(matches!(held.poll_returned(), Some(Notice::ReturnSlot(_, 0, _))));
        assert!(held.poll_returned().is_none() && held.len() == 1);
        assert!(held.renew(start + LEASE, ClientId(1)).is_some());
    }

    #[test]
    fn loans_are_bounded() {
        let mut held = HeldLoans::default();
        for number in 0..=LOANS {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            let handle = FileHandle::from(bytes);
            held.lend_anonymous(FileKey { filesystem: FileSystemId(1), handle }, Modes::READ);
        }
        assert_eq!(held.len(), LOANS);
        assert!(held.poll_returned().is_some() && held.poll_returned().is_none());
    }
}
