//! From URL to volume: every local scheme, the filters in their order, and what cannot be opened.

use std::sync::Arc;

use crate::memory::MemoryStorage;
use host::{OpenMode, Storage};
use volume::contract::{self, FakeWorld, Options};
use volume::{Features, OpenError, Volume};

fn open(storage: &Arc<MemoryStorage>, url: &str) -> Result<Arc<dyn Volume>, OpenError> {
    let storage: Arc<dyn Storage> = Arc::<MemoryStorage>::clone(storage);
    backends::open(&url.parse().unwrap(), &storage)
}

#[test]
fn every_local_scheme_opens() {
    let storage = Arc::<MemoryStorage>::default();
    for (url, blocks, block_size) in [
        ("null:600M", 1_228_800, 512),
        ("ram:4G?block=4096", 1 << 20, 4096),
        ("file:disk.img?size=1M", 2048, 512),
        ("file:disk.img", 2048, 512),
        ("file:direct.img?size=1M&direct=1&block=4096", 256, 4096),
        ("device:disk.img?direct=0", 2048, 512),
        ("delay=5ms+fail=1%+limit=5iops+stats+readonly+ram:1M", 2048, 512),
    ] {
        let geometry = open(&storage, url).unwrap().geometry();
        assert_eq!((geometry.blocks, geometry.block_size), (blocks, block_size), "{url}");
    }
}

#[test]
fn filters_stand_in_the_order_of_the_url() {
    let volume = open(&Arc::default(), "stats+delay=1ms+limit=1iops+null:1M").unwrap();
    let text = format!("{volume:?}");
    let places: Vec<_> = ["Stats", "Delay", "Limit", "Null"].map(|name| text.find(name)).to_vec();
    assert!(places.is_sorted() && places[0].is_some(), "{text}");
}

#[test]
fn a_read_only_url_opens_its_file_for_reading_and_creates_nothing() {
    let storage = Arc::<MemoryStorage>::default();
    assert!(open(&storage, "readonly+file:disk.img?size=1M").is_err());
    open(&storage, "file:disk.img?size=1M").unwrap();
    let volume = open(&storage, "stats+readonly+file:disk.img").unwrap();
    assert!(volume.features().contains(Features::READ_ONLY));
    let modes: Vec<_> = storage.opened.lock().unwrap().iter().map(|options| options.mode).collect();
    assert_eq!(modes, [OpenMode::ReadOnly, OpenMode::ReadWrite, OpenMode::ReadOnly]);
}

#[test]
fn what_cannot_be_opened_says_why_and_what_to_do() {
    let storage = Arc::<MemoryStorage>::default();
    for (url, word) in [
        ("file:missing.img", "size="),
        ("null:1000", "512-byte blocks"),
        ("ram:0", "above zero"),
        ("file:small.img?size=1M&direct=1", "block=4096"),
        ("iscsi://host/iqn.2026-11.org.linerate:disk/0", "engine"),
        ("stats+nvme+tcp://host/nqn.2026-11.org.linerate:disk/1", "engine"),
    ] {
        let error = open(&storage, url).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains(';'), "{error}");
    }
}

#[test]
fn a_url_with_filters_keeps_the_contract() {
    let volume = open(&Arc::default(), "stats+delay=1ms,jitter=1ms+file:disk.img?size=24M").unwrap();
    contract::check(&volume, &Options::default(), &|| Box::new(FakeWorld::new())).unwrap();
}
