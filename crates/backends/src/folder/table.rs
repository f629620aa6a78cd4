//! Where objects are that handles were given for, in place of the kernel's handles where those may not be opened.
//!
//! An entry says under which name in which directory an object was last seen, and which object that is: its number, and when it was made. To find an object
//! is to walk there from the root and to see that it is still that one. An object that a local process has moved is found again once a client has looked it
//! up where it is now. The table is kept in the folder's state, and is durable before a handle of it is given out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use filesystem::FileErrorKind;
use host::{NodeKind, NodeStat, NodeTime, VolumeState};
use wire::{Reader, Truncated};

use super::limits::{DEPTH_OF_DIRECTORIES, PLACES, RECORD_ENTRIES, TABLE_ENTRIES};

/// Which object something is: two that are there at different times differ, where the file system says when they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ObjectIdentity {
    inode: u64,
    made: NodeTimeBits,
}

/// A time of making, zero where it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct NodeTimeBits {
    seconds: i64,
    nanos: u32,
}

impl ObjectIdentity {
    /// Of an object.
    pub(super) fn of(stat: &NodeStat) -> Self {
        let NodeTime { seconds, nanos } = stat.made.unwrap_or_default();
        Self { inode: stat.inode, made: NodeTimeBits { seconds, nanos } }
    }

    /// Its bytes in handles and records.
    pub(super) fn bytes(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        let all = self.inode.to_be_bytes().into_iter();
        let all = all.chain(self.made.seconds.to_be_bytes()).chain(self.made.nanos.to_be_bytes());
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = from);
        bytes
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Truncated> {
        let inode = reader.u64_be()?;
        let made = NodeTimeBits { seconds: i64::from_be_bytes(reader.array()?), nanos: reader.u32_be()? };
        Ok(Self { inode, made })
    }

    /// What [`ObjectIdentity::bytes`] gave.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        Self::read(&mut reader).ok().filter(|_| reader.is_empty())
    }
}

/// Where an object was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    object: ObjectIdentity,
    parent: ObjectIdentity,
    name: Vec<u8>,
}

#[derive(Debug, Default)]
struct Places {
    by_slot: BTreeMap<u32, Entry>,
    /// The places of each object: one, or some of a file's with several names.
    by_object: HashMap<ObjectIdentity, Vec<u32>>,
    free: BTreeSet<u32>,
    next: u32,
    /// Records that are to be written.
    changed: BTreeSet<u32>,
}

/// The table.
#[derive(Debug)]
pub(super) struct Table {
    state: VolumeState,
    root: ObjectIdentity,
    places: Mutex<Places>,
}

fn record_name(record: u32) -> String {
    format!("places-{record}")
}

impl Table {
    /// What was kept of a folder with this root.
    pub(super) fn load(state: &VolumeState, root: &NodeStat) -> Result<Self, host::StateError> {
        let mut places = Places::default();
        for record in 0..TABLE_ENTRIES / RECORD_ENTRIES {
            let name = record_name(record);
            let Some(bytes) = state.read(&name)? else { continue };
            if places.read(record, &bytes).is_err() {
                let kind = host::StateErrorKind::Damaged("an entry is cut off");
                return Err(host::StateError::new(name, kind));
            }
        }
        places.free = (0..places.next).filter(|slot| !places.by_slot.contains_key(slot)).collect();
        Ok(Self { state: state.clone(), root: ObjectIdentity::of(root), places: Mutex::new(places) })
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An object was seen under this name in that directory.
    pub(super) fn seen(
        &self,
        object: &NodeStat,
        parent: &NodeStat,
        name: &[u8],
    ) -> Result<(), FileErrorKind> {
        let most = if object.kind == NodeKind::Directory || object.links < 2 { 1 } else { PLACES };
        let (object, parent) = (ObjectIdentity::of(object), ObjectIdentity::of(parent));
        self.lock().put(Entry { object, parent, name: name.to_vec() }, most)
    }

    /// An object is gone.
    pub(super) fn gone(&self, object: &NodeStat) {
        self.lock().remove(&ObjectIdentity::of(object));
    }

    /// Says whether a handle may be given of an object.
    pub(super) fn knows(&self, object: &ObjectIdentity) -> bool {
        *object == self.root || self.lock().by_object.contains_key(object)
    }

    /// The names from the root to an object, by each of its places.
    pub(super) fn paths(&self, object: &ObjectIdentity) -> Vec<Vec<Vec<u8>>> {
        let places = self.lock();
        let of_object = places.by_object.get(object).into_iter().flatten();
        of_object
            .filter_map(|slot| places.by_slot.get(slot))
            .filter_map(|entry| self.path(&places, entry))
            .collect()
    }

    /// The names from the root to a place.
    fn path(&self, places: &Places, place: &Entry) -> Option<Vec<Vec<u8>>> {
        let (mut names, mut at) = (vec![place.name.clone()], place.parent);
        while at != self.root {
            // Directories have one place.
            let entry = places.by_slot.get(places.by_object.get(&at)?.first()?)?;
            if names.len() >= DEPTH_OF_DIRECTORIES {
                return None;
            }
            names.push(entry.name.clone());
            at = entry.parent;
        }
        names.reverse();
        Some(names)
    }

    /// Makes everything that was seen durable: before anybody hears of it.
    pub(super) fn settle(&self) -> Result<(), host::StateError> {
        let mut places = self.lock();
        while let Some(record) = places.changed.first().copied() {
            self.state.write(&record_name(record), &places.write(record))?;
            places.changed.remove(&record);
        }
        Ok(())
    }
}

impl Places {
    /// Keeps a place of an object, and `most` of its places in all.
    fn put(&mut self, entry: Entry, most: usize) -> Result<(), FileErrorKind> {
        let known = self.by_object.get(&entry.object).cloned().unwrap_or_default();
        if known.iter().any(|slot| self.by_slot.get(slot) == Some(&entry)) {
            return Ok(());
        }
        for slot in known.iter().take((known.len() + 1).saturating_sub(most)) {
            self.free_slot(entry.object, *slot);
        }
        let slot = match self.free.pop_first() {
            Some(slot) => slot,
            None if self.next >= TABLE_ENTRIES => return Err(FileErrorKind::ServerFault),
            None => {
                self.next += 1;
                self.next - 1
            }
        };
        self.by_object.entry(entry.object).or_default().push(slot);
        self.by_slot.insert(slot, entry);
        self.changed.insert(slot / RECORD_ENTRIES);
        Ok(())
    }

    fn free_slot(&mut self, object: ObjectIdentity, slot: u32) {
        if let Some(slots) = self.by_object.get_mut(&object) {
            slots.retain(|other| *other != slot);
        }
        self.by_slot.remove(&slot);
        self.free.insert(slot);
        self.changed.insert(slot / RECORD_ENTRIES);
    }

    fn remove(&mut self, object: &ObjectIdentity) {
        for slot in self.by_object.get(object).cloned().unwrap_or_default() {
            self.free_slot(*object, slot);
        }
        self.by_object.remove(object);
    }

    fn write(&self, record: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (slot, entry) in self.by_slot.range(record * RECORD_ENTRIES..(record + 1) * RECORD_ENTRIES) {
            bytes.extend(slot.to_be_bytes());
            bytes.extend(entry.object.bytes());
            bytes.extend(entry.parent.bytes());
            bytes.push(wire::saturate(entry.name.len()));
            bytes.extend(&entry.name);
        }
        bytes
    }

    fn read(&mut self, record: u32, bytes: &[u8]) -> Result<(), Truncated> {
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let slot = reader.u32_be()?;
            let (object, parent) = (ObjectIdentity::read(&mut reader)?, ObjectIdentity::read(&mut reader)?);
            let len = reader.u8()?;
            let name = reader.take(len.into())?.to_vec();
            if slot / RECORD_ENTRIES == record {
                self.by_object.entry(object).or_default().push(slot);
                self.by_slot.insert(slot, Entry { object, parent, name });
                self.next = self.next.max(slot + 1);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::DeviceNumber;

    fn stat(inode: u64) -> NodeStat {
        NodeStat {
            kind: NodeKind::File,
            mode: 0,
            links: 1,
            uid: 0,
            gid: 0,
            size: 0,
            occupied: 0,
            inode,
            device: DeviceNumber::default(),
            stands_for: DeviceNumber::default(),
            accessed: NodeTime::default(),
            modified: NodeTime::default(),
            changed: NodeTime::default(),
            made: Some(NodeTime { seconds: -5, nanos: 7 }),
        }
    }

    fn path(table: &Table, inode: u64) -> Result<String, FileErrorKind> {
        let names = table.paths(&ObjectIdentity::of(&stat(inode))).pop().ok_or(FileErrorKind::Stale)?;
        Ok(String::from_utf8(names.join(&b'/')).unwrap())
    }

    #[test]
    fn places_are_kept_and_follow_what_moves() {
        let state = VolumeState::ephemeral();
        let table = Table::load(&state, &stat(2)).unwrap();
        table.seen(&stat(10), &stat(2), b"a").unwrap();
        table.seen(&stat(11), &stat(10), b"b").unwrap();
        table.settle().unwrap();
        table.seen(&stat(12), &stat(10), b"not kept").unwrap();
        let table = Table::load(&state, &stat(2)).unwrap();
        assert!(table.knows(&ObjectIdentity::of(&stat(2))));
        assert_eq!(path(&table, 11), Ok("a/b".to_owned()));
        assert_eq!(path(&table, 12), Err(FileErrorKind::Stale));
        table.seen(&stat(10), &stat(2), b"moved").unwrap();
        table.gone(&stat(12));
        assert_eq!(path(&table, 11), Ok("moved/b".to_owned()));
        table.gone(&stat(11));
        table.seen(&stat(13), &stat(10), b"c").unwrap();
        table.settle().unwrap();
        let table = Table::load(&state, &stat(2)).unwrap();
        assert_eq!(
            (path(&table, 11), path(&table, 13)),
            (Err(FileErrorKind::Stale), Ok("moved/c".to_owned()))
        );
        assert_eq!(table.lock().next, 2, "the place of what is gone is used again");
        // Directories that hold each other, as damage could have it, lead nowhere.
        table.seen(&stat(20), &stat(21), b"x").unwrap();
        table.seen(&stat(21), &stat(20), b"y").unwrap();
        assert_eq!(path(&table, 20), Err(FileErrorKind::Stale));
    }

    #[test]
    fn files_with_several_names_are_found_by_any() {
        let table = Table::load(&VolumeState::ephemeral(), &stat(2)).unwrap();
        let linked = NodeStat { links: 2, ..stat(10) };
        table.seen(&stat(10), &stat(2), b"one").unwrap();
        table.seen(&linked, &stat(2), b"two").unwrap();
        assert_eq!(table.paths(&ObjectIdentity::of(&linked)), [[b"one"], [b"two"]]);
        for name in 0..100_u8 {
            table.seen(&linked, &stat(2), &[name]).unwrap();
        }
        assert_eq!(table.paths(&ObjectIdentity::of(&linked)).len(), PLACES);
        // With one name left it has one place.
        table.seen(&stat(10), &stat(2), b"last").unwrap();
        assert_eq!(path(&table, 10), Ok("last".to_owned()));
        assert_eq!(table.paths(&ObjectIdentity::of(&linked)).len(), 1);
    }

    #[test]
    fn the_table_is_bounded_and_its_records_fit_the_store() {
        let table = Table::load(&VolumeState::ephemeral(), &stat(2)).unwrap();
        let name = vec![b'n'; filesystem::NAME_BYTES];
        for inode in 0..u64::from(TABLE_ENTRIES) {
            table.seen(&stat(inode + 100), &stat(2), &name).unwrap();
        }
        assert_eq!(table.seen(&stat(1), &stat(2), b"more"), Err(FileErrorKind::ServerFault));
        table.seen(&stat(100), &stat(2), b"known").unwrap();
        assert!(table.lock().write(0).len() < 1 << 20);
    }

    #[test]
    fn records_that_are_cut_off_are_refused() {
        let state = VolumeState::ephemeral();
        let table = Table::load(&state, &stat(2)).unwrap();
        table.seen(&stat(10), &stat(2), b"a").unwrap();
        table.settle().unwrap();
        let record = state.read("places-0").unwrap().unwrap();
        state.write("places-0", &record[..record.len() - 1]).unwrap();
        assert!(Table::load(&state, &stat(2)).is_err());
    }
}
