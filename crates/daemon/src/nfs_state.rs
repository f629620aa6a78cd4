//! What outlives the process of NFS' own state: how often it has begun, how it names itself, and which clients may reclaim what they had.
//!
//! Records of clients lie in a few records of the state folder, each of which is replaced whole. A thread writes them, as event loops may not block.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use anyhow::{Context as _, Result};
use engine::{ClientRecords, Message, NfsStart};
use filesystem::Time;
use host::{Event, Journal, Kind, Level, Postbox, StateError, VolumeState};
use nfs::server::ServerIdentity;
use nfs::state::stable::{StableChange, StableRecord};
use protocol::Entropy;
use wire::Reader;

/// The record of the server: its name, and the number of its last start.
const SERVER: &str = "server";
/// Bytes of its name.
const NAME: usize = 16;
/// Records that clients are spread over: a change writes one of them.
const BUCKETS: u64 = 64;
/// The core that owns the state of clients.
const OWNER: u16 = 0;

/// NFS' own state, for the life of the process.
#[derive(Debug)]
pub(crate) struct NfsState {
    pub(crate) start: Arc<NfsStart>,
    pub(crate) identity: ServerIdentity,
    /// The time of the directories that lead to shares.
    pub(crate) since: Time,
}

impl NfsState {
    /// Reads it, and notes durably that another start has begun.
    pub(crate) fn begin(
        state: VolumeState,
        entropy: &mut dyn Entropy,
        links: (Arc<dyn Postbox<Message>>, Arc<dyn Journal>),
    ) -> Result<Self> {
        let about = || "NFS cannot be served";
        let Server { name, boot } = Server::load(&state, entropy).with_context(about)?;
        let buckets = Buckets::load(&state).with_context(about)?;
        let records = buckets.records();
        let (tell, changes) = mpsc::channel();
        let (postbox, journal) = links;
        let keeper = Keeper { state, buckets, postbox, journal };
        let thread = std::thread::Builder::new().name("nfs-clients".to_owned());
        thread
            .spawn(move || keeper.run(&changes))
            .context("no thread can keep the records of NFS clients")?;
        let start = NfsStart { boot, records, keeper: Arc::new(Changes(tell)) };
        let identity = ServerIdentity { owner: name.to_vec(), scope: name.to_vec() };
        let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let since = Time {
            seconds: i64::try_from(elapsed.as_secs()).unwrap_or_default(),
            nanos: elapsed.subsec_nanos(),
        };
        Ok(Self { start: Arc::new(start), identity, since })
    }
}

/// The record of the server.
struct Server {
    name: [u8; NAME],
    boot: u32,
}

impl Server {
    fn load(state: &VolumeState, entropy: &mut dyn Entropy) -> Result<Self, StateError> {
        let known = state.read(SERVER)?.and_then(|bytes| {
            let (name, boot) = bytes.split_first_chunk::<NAME>()?;
            Some(Self { name: *name, boot: u32::from_be_bytes(boot.try_into().ok()?) })
        });
        let next = known.map_or_else(
            || {
                let mut name = [0; NAME];
                entropy.fill(&mut name);
                Self { name, boot: wire::bounded::<u32>(entropy.number() >> u32::BITS) }
            },
            |known| Self { boot: known.boot.wrapping_add(1), ..known },
        );
        state.write(SERVER, &[&next.name[..], &next.boot.to_be_bytes()].concat())?;
        Ok(next)
    }
}

/// Where changes of records go: to the thread that writes them.
#[derive(Debug)]
struct Changes(Sender<StableChange>);

impl ClientRecords for Changes {
    fn change(&self, change: StableChange) {
        // The thread ends with the last sender.
        let _unheard = self.0.send(change);
    }
}

/// All records, as they are on stable storage.
#[derive(Debug)]
struct Buckets(Vec<Vec<StableRecord>>);

fn name(bucket: usize) -> String {
    format!("clients-{bucket:02}")
}

impl Buckets {
    fn load(state: &VolumeState) -> Result<Self, StateError> {
        let read = |bucket| Ok(state.read(&name(bucket))?.map_or_else(Vec::new, |bytes| decode(&bytes)));
        (0..wire::index(BUCKETS)).map(read).collect::<Result<_, _>>().map(Self)
    }

    fn records(&self) -> Vec<StableRecord> {
        self.0.concat()
    }

    /// Makes a change here; gives the bucket that it is in.
    fn apply(&mut self, change: &StableChange) -> usize {
        let bucket = wire::index(change.client().0 % BUCKETS);
        if let Some(records) = self.0.get_mut(bucket) {
            records.retain(|record| record.client != change.client());
            if let StableChange::Keep(record) = change {
                records.push(record.clone());
            }
        }
        bucket
    }

    fn encode(&self, bucket: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for record in self.0.get(bucket).into_iter().flatten() {
            let record = record.encode();
            bytes.extend_from_slice(&wire::saturate::<u32>(record.len()).to_be_bytes());
            bytes.extend_from_slice(&record);
        }
        bytes
    }
}

/// The records of a bucket; one that is damaged is left out: its client cannot reclaim.
fn decode(bytes: &[u8]) -> Vec<StableRecord> {
    let (mut reader, mut records) = (Reader::new(bytes), Vec::new());
    while let Ok(len) = reader.u32_be()
        && let Ok(record) = reader.take(wire::index(len.into()))
    {
        records.extend(StableRecord::decode(record));
    }
    records
}

/// The thread that writes records.
struct Keeper {
    state: VolumeState,
    buckets: Buckets,
    postbox: Arc<dyn Postbox<Message>>,
    journal: Arc<dyn Journal>,
}

impl Keeper {
    fn run(mut self, changes: &Receiver<StableChange>) {
        while let Ok(change) = changes.recv() {
            let bucket = self.buckets.apply(&change);
            let (name, bytes) = (name(bucket), self.buckets.encode(bucket));
            let written =
                if bytes.is_empty() { self.state.remove(&name) } else { self.state.write(&name, &bytes) };
            if let Err(error) = &written {
                let text = format!("the record of an NFS client is not kept, and its call waits: {error}");
                self.journal.record(Event::new(Kind::Io, text).at(Level::Error));
            }
            let result = written.map_err(|_| ());
            self.postbox.post(OWNER, Message::NfsRecord(change.client(), result));
        }
    }
}

#[cfg(test)]
mod tests {
    use nfs::v4::ClientId;
    use protocol::SeededEntropy;

    use super::*;

    fn record(client: u64) -> StableRecord {
        StableRecord { client: ClientId(client), owner: client.to_be_bytes().to_vec() }
    }

    #[test]
    fn every_start_has_another_number_and_the_name_stays() {
        let state = VolumeState::ephemeral();
        let mut entropy = SeededEntropy::new(3);
        let first = Server::load(&state, &mut entropy).unwrap();
        let second = Server::load(&state, &mut entropy).unwrap();
        assert_eq!((second.name, second.boot), (first.name, first.boot.wrapping_add(1)));
    }

    #[test]
    fn records_are_found_again_by_whatever_bucket() {
        let state = VolumeState::ephemeral();
        let mut buckets = Buckets::load(&state).unwrap();
        let mut make = |change: StableChange| {
            let bucket = buckets.apply(&change);
            state.write(&name(bucket), &buckets.encode(bucket)).unwrap();
        };
        for client in [1, 65, 7] {
            make(StableChange::Keep(record(client)));
        }
        make(StableChange::Drop(ClientId(1)));
        make(StableChange::Keep(record(7)));
        assert_eq!(Buckets::load(&state).unwrap().records(), [record(65), record(7)]);
    }

    #[test]
    fn a_damaged_record_takes_no_other_with_it() {
        let state = VolumeState::ephemeral();
        let mut buckets = Buckets::load(&state).unwrap();
        buckets.apply(&StableChange::Keep(record(1)));
        buckets.apply(&StableChange::Keep(record(65)));
        let mut bytes = buckets.encode(1);
        bytes[9] ^= 1;
        assert_eq!(decode(&bytes), [record(65)]);
        assert_eq!(decode(&bytes[..bytes.len() - 1]), []);
    }
}
