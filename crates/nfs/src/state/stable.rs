//! Client records on stable storage: what lets a client reclaim after a restart, and what keeps it from doing so (RFC 8881 §8.4.2.1, §8.4.3).
//!
//! The group asks for changes and goes on when it is told that they are durable. One record is one client.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use wire::Reader;

use crate::limits::OPAQUE;
use crate::v4::ClientId;

/// The first byte of a record, for the sake of later formats.
const FORMAT: u8 = 1;

/// A client that may have state to reclaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StableRecord {
    /// The ID that it had; it names the record.
    pub client: ClientId,
    /// `co_ownerid`, by which it is known again.
    pub owner: Vec<u8>,
}

impl StableRecord {
    /// The record as it is kept, with a checksum.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.owner.len().saturating_add(13));
        bytes.push(FORMAT);
        bytes.extend_from_slice(&self.client.0.to_be_bytes());
        bytes.extend_from_slice(&self.owner);
        let sum = wire::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// The record that these bytes are; `None` if they are none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<4>()?;
        if wire::crc32c(body) != u32::from_be_bytes(*sum) {
            return None;
        }
        let mut reader = Reader::new(body);
        if reader.u8().ok()? != FORMAT {
            return None;
        }
        let client = ClientId(reader.u64_be().ok()?);
        let owner = reader.rest();
        (owner.len() <= OPAQUE).then(|| Self { client, owner: owner.to_vec() })
    }
}

/// What is to be done on stable storage, in the order in which it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StableChange {
    /// Keep this record.
    Keep(StableRecord),
    /// Remove the record of this client.
    Drop(ClientId),
}

impl StableChange {
    /// Whose record it is.
    pub fn client(&self) -> ClientId {
        match self {
            Self::Keep(record) => record.client,
            Self::Drop(client) => *client,
        }
    }
}

/// Where a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Keeping,
    Kept,
    Dropping,
    /// The last change failed: nobody knows whether the record is there.
    Doubtful,
}

/// What a wish for a record comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It is so, durably.
    Done,
    /// It was asked for.
    Pending,
    /// It was asked for in vain; the next wish asks again.
    Failed,
}

/// All records.
#[derive(Debug, Default)]
pub struct Stable {
    records: BTreeMap<ClientId, Standing>,
    changes: VecDeque<StableChange>,
}

impl Stable {
    /// What an earlier server has left.
    pub fn new(records: &[StableRecord]) -> Self {
        let records = records.iter().map(|record| (record.client, Standing::Kept)).collect();
        Self { records, changes: VecDeque::new() }
    }

    /// Wants a record kept.
    pub fn keep(&mut self, record: &StableRecord) -> Progress {
        match self.records.get(&record.client) {
            Some(Standing::Kept) => Progress::Done,
            Some(Standing::Keeping | Standing::Dropping) => Progress::Pending,
            Some(Standing::Doubtful) => {
                self.ask(StableChange::Keep(record.clone()), Standing::Keeping);
                Progress::Failed
            }
            None => {
                self.ask(StableChange::Keep(record.clone()), Standing::Keeping);
                Progress::Pending
            }
        }
    }

    /// Wants a record gone.
    pub fn remove(&mut self, client: ClientId) -> Progress {
        match self.records.get(&client) {
            None => Progress::Done,
            Some(Standing::Dropping | Standing::Keeping) => Progress::Pending,
            Some(Standing::Kept) => {
                self.ask(StableChange::Drop(client), Standing::Dropping);
                Progress::Pending
            }
            Some(Standing::Doubtful) => {
                self.ask(StableChange::Drop(client), Standing::Dropping);
                Progress::Failed
            }
        }
    }

    fn ask(&mut self, change: StableChange, standing: Standing) {
        self.records.insert(change.client(), standing);
        self.changes.push_back(change);
    }

    /// The next change; told by [`Stable::handle_done`] how it ended.
    pub fn poll_change(&mut self) -> Option<StableChange> {
        self.changes.pop_front()
    }

    /// A change is durable, or failed.
    pub fn handle_done(&mut self, client: ClientId, result: Result<(), ()>) {
        let Some(standing) = self.records.get_mut(&client) else { return };
        match (*standing, result) {
            (Standing::Keeping, Ok(())) => *standing = Standing::Kept,
            (Standing::Dropping, Ok(())) => {
                self.records.remove(&client);
            }
            (Standing::Keeping | Standing::Dropping, Err(())) => *standing = Standing::Doubtful,
            (Standing::Kept | Standing::Doubtful, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn record() -> StableRecord {
        StableRecord { client: ClientId(7), owner: vec![1, 2, 3] }
    }

    #[test]
    fn a_record_is_found_as_it_was_or_not_at_all() {
        let bytes = record().encode();
        assert_eq!(StableRecord::decode(&bytes), Some(record()));
        for at in 0..bytes.len() {
            let mut torn = bytes.clone();
            torn[at] ^= 4;
            assert_eq!(StableRecord::decode(&torn), None, "byte {at}");
            assert_eq!(StableRecord::decode(&bytes[..at]), None, "{at} bytes");
        }
    }

    #[test]
    fn nothing_is_so_before_it_is_durable() {
        let mut stable = Stable::default();
        assert_eq!(stable.keep(&record()), Progress::Pending);
        assert_eq!(stable.keep(&record()), Progress::Pending);
        assert_eq!((stable.poll_change(), stable.poll_change()), (Some(StableChange::Keep(record())), None));
        stable.handle_done(ClientId(7), Ok(()));
        assert_eq!(stable.keep(&record()), Progress::Done);
        assert_eq!(stable.remove(ClientId(7)), Progress::Pending);
        stable.handle_done(ClientId(7), Ok(()));
        assert_eq!(stable.remove(ClientId(7)), Progress::Done);
    }

    #[test]
    fn what_failed_is_asked_for_again() {
        let mut stable = Stable::new(&[record()]);
        stable.remove(ClientId(7));
        stable.handle_done(ClientId(7), Err(()));
        stable.poll_change();
        assert_eq!(stable.remove(ClientId(7)), Progress::Failed);
        assert_eq!(stable.poll_change(), Some(StableChange::Drop(ClientId(7))));
        stable.handle_done(ClientId(7), Ok(()));
        assert_eq!(stable.remove(ClientId(7)), Progress::Done);
    }
}
