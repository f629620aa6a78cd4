//! The table of regions against a model that knows only what was registered: no access touches memory that the peer may not have.

use std::collections::HashMap;

use buf::{Buf, BufList, SharedBuf};
use proptest::prelude::*;
use verbs::{RegionError, RegionMemory, RegionTable, RemoteRegion, STag};

const LIMIT: usize = 4;

/// What a peer and an owner do, in numbers that the run turns into regions.
#[derive(Debug, Clone)]
enum Act {
    RegisterSink(u16),
    RegisterSource(u16),
    /// The peer writes: which tag, where, how much.
    Write(Tag, u32, u32, u8),
    Read(Tag, u32, u32),
    Invalidate(Tag),
    Release(Tag),
}

/// A tag that was given out, or a number that was not.
#[derive(Debug, Clone)]
enum Tag {
    Known(prop::sample::Index),
    Forged(u32),
}

fn tag() -> impl Strategy<Value = Tag> {
    prop_oneof![
        8 => any::<prop::sample::Index>().prop_map(Tag::Known),
        1 => any::<u32>().prop_map(Tag::Forged),
        1 => (0..2048_u32).prop_map(Tag::Forged),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let (offset, length) = (0..300_u32, 0..300_u32);
    prop_oneof![
        2 => (0..256_u16).prop_map(Act::RegisterSink),
        1 => (0..256_u16).prop_map(Act::RegisterSource),
        4 => (tag(), offset.clone(), length.clone(), any::<u8>()).prop_map(|(t, o, l, b)| Act::Write(t, o, l, b)),
        2 => (tag(), offset, length).prop_map(|(t, o, l)| Act::Read(t, o, l)),
        1 => tag().prop_map(Act::Invalidate),
        2 => tag().prop_map(Act::Release),
    ]
}

#[derive(Debug)]
struct Model {
    bytes: Vec<u8>,
    is_sink: bool,
    is_valid: bool,
}

fn expected(model: Option<&Model>, writes: bool, offset: u32, length: u32) -> Result<(), RegionError> {
    let model = model.filter(|model| model.is_valid).ok_or(RegionError::InvalidStag)?;
    if model.is_sink != writes {
        return Err(RegionError::AccessRights);
    }
    let inside = offset as usize + length as usize <= model.bytes.len();
    if inside { Ok(()) } else { Err(RegionError::Bounds) }
}

proptest! {
    #[test]
    fn accesses_are_those_of_the_model(acts in prop::collection::vec(act(), 1..200)) {
        let mut table = RegionTable::new(LIMIT);
        let (mut models, mut tags) = (HashMap::<STag, Model>::new(), Vec::<STag>::new());
        let named = |tags: &[STag], tag: &Tag| match tag {
            Tag::Known(index) if !tags.is_empty() => *index.get(tags),
            Tag::Known(_) => STag(0),
            Tag::Forged(number) => STag(*number),
        };
        for act in acts {
            match act {
                Act::RegisterSink(len) | Act::RegisterSource(len) => {
                    let is_sink = matches!(act, Act::RegisterSink(_));
                    let bytes = vec![len.to_le_bytes()[0]; len.into()];
                    let memory = if is_sink {
                        let mut buf = Buf::zeroed(len.into());
                        buf.copy_from_slice(&bytes);
                        RegionMemory::Sink(buf)
                    } else {
                        RegionMemory::Source(BufList::from(SharedBuf::from(bytes.clone())))
                    };
                    match table.register(memory) {
                        Ok(region) => {
                            prop_assert!(models.len() < LIMIT);
                            prop_assert_eq!((region.offset, region.length), (0, u32::from(len)));
                            let model = Model { bytes, is_sink, is_valid: true };
                            prop_assert!(models.insert(region.stag, model).is_none());
                            tags.push(region.stag);
                        }
                        Err(full) => {
                            prop_assert_eq!(models.len(), LIMIT);
                            prop_assert_eq!(full.0.len(), usize::from(len));
                        }
                    }
                }
                Act::Write(tag, offset, length, byte) => {
                    let stag = named(&tags, &tag);
                    let wanted = expected(models.get(&stag), true, offset, length);
                    let lent = table.lend(RemoteRegion { stag, offset: offset.into(), length });
                    prop_assert_eq!(lent.as_ref().err(), wanted.as_ref().err());
                    if let (Ok(mut buf), Some(model)) = (lent, models.get_mut(&stag)) {
                        // While it is lent it takes nothing else.
                        let again = table.lend(RemoteRegion { stag, offset: 0, length: 0 });
                        prop_assert!(again.is_err());
                        let range = offset as usize..(offset + length) as usize;
                        buf[range.clone()].fill(byte);
                        model.bytes[range].fill(byte);
                        table.give_back(stag, buf);
                    }
                }
                Act::Read(tag, offset, length) => {
                    let stag = named(&tags, &tag);
                    let wanted = expected(models.get(&stag), false, offset, length);
                    let read = table.read(RemoteRegion { stag, offset: offset.into(), length });
                    prop_assert_eq!(read.as_ref().err(), wanted.as_ref().err());
                    if let (Ok(list), Some(model)) = (read, models.get(&stag)) {
                        let range = offset as usize..(offset + length) as usize;
                        prop_assert_eq!(&*list.into_one(), &model.bytes[range]);
                    }
                }
                Act::Invalidate(tag) => {
                    let stag = named(&tags, &tag);
                    let model = models.get_mut(&stag).filter(|model| model.is_valid);
                    prop_assert_eq!(table.invalidate(stag).is_ok(), model.is_some());
                    if let Some(model) = model {
                        model.is_valid = false;
                    }
                }
                Act::Release(tag) => {
                    let stag = named(&tags, &tag);
                    let memory = table.release(stag);
                    let model = models.remove(&stag);
                    prop_assert_eq!(memory.is_some(), model.is_some());
                    if let (Some(memory), Some(model)) = (memory, model) {
                        match memory {
                            RegionMemory::Sink(buf) => prop_assert_eq!(&buf[..], &model.bytes[..]),
                            RegionMemory::Source(list) => prop_assert_eq!(&*list.into_one(), &model.bytes[..]),
                        }
                    }
                }
            }
            prop_assert_eq!(table.len(), models.len());
        }
    }
}

#[test]
fn offsets_that_overflow_are_out_of_bounds() {
    let mut table = RegionTable::new(1);
    let region = table.register(RegionMemory::Sink(Buf::zeroed(16))).unwrap();
    for offset in [u64::MAX, u64::MAX - 15, 1 << 32, 17] {
        let part = RemoteRegion { offset, length: 16, ..region };
        assert_eq!(table.lend(part).err(), Some(RegionError::Bounds), "{offset:#x}");
    }
}

/// What is invalidated while a part of it is lent takes nothing more once that is over, and its memory comes back then.
#[test]
fn a_region_that_ends_while_it_is_lent_waits_for_its_memory() {
    let mut table = RegionTable::new(1);
    let region = table.register(RegionMemory::Sink(Buf::zeroed(16))).unwrap();
    let buf = table.lend(region).unwrap();
    assert!(table.release(region.stag).is_none() && table.holds(region.stag));
    table.give_back(region.stag, buf);
    assert_eq!(table.lend(region).err(), Some(RegionError::InvalidStag));
    assert_eq!(table.release(region.stag).map(|memory| memory.len()), Some(16));
    assert!(table.is_empty() && !table.holds(region.stag));
}

/// Tags of a slot's past are found out for 255 uses.
#[test]
fn a_slot_is_named_anew_with_every_use() {
    let mut table = RegionTable::new(1);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..255 {
        let region = table.register(RegionMemory::Sink(Buf::zeroed(1))).unwrap();
        assert!(seen.insert(region.stag));
        table.release(region.stag);
    }
}
