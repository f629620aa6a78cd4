//! Regions of the hosts' memory, which keys open to controllers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use nvme::sgl::KeyedBlock;

/// What a controller has done to regions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
    Pulled(usize),
    Pushed(Vec<u8>),
    Invalidated,
}

struct Region {
    address: u64,
    memory: Vec<u8>,
    /// The controller may write to it; otherwise it may read.
    writable: bool,
}

#[derive(Default)]
struct Inner {
    list: BTreeMap<u32, Region>,
    last: u32,
    moved: Vec<Moved>,
    stalled: bool,
}

/// All regions that are registered.
#[derive(Clone, Default)]
pub struct Regions(Rc<RefCell<Inner>>);

impl Regions {
    /// Registers memory for one command.
    pub fn register(&self, memory: Vec<u8>, writable: bool) -> KeyedBlock {
        let mut inner = self.0.borrow_mut();
        inner.last += 0x0101_0101;
        let (key, length) = (inner.last, memory.len());
        let address = 0x7f00_0000_0000 + u64::from(key);
        inner.list.insert(key, Region { address, memory, writable });
        KeyedBlock { address, key, length, invalidate: true }
    }

    /// A controller reads.
    pub fn pull(&self, block: KeyedBlock) -> Vec<u8> {
        let mut inner = self.0.borrow_mut();
        let region = &inner.list[&block.key];
        assert!(!region.writable, "a region to be read into is read");
        assert_eq!((region.address, region.memory.len()), (block.address, block.length));
        let memory = region.memory.clone();
        inner.moved.push(Moved::Pulled(memory.len()));
        memory
    }

    /// A controller writes.
    pub fn push(&self, block: KeyedBlock, data: Vec<u8>) {
        let mut inner = self.0.borrow_mut();
        let region = inner.list.get_mut(&block.key).unwrap();
        assert!(region.writable, "a region to be written from is written to");
        assert_eq!((region.address, data.len()), (block.address, block.length));
        region.memory.copy_from_slice(&data);
        inner.moved.push(Moved::Pushed(data));
    }

    /// A key opens nothing any more: what the region holds.
    pub fn invalidate(&self, key: u32) -> Vec<u8> {
        let mut inner = self.0.borrow_mut();
        inner.moved.push(Moved::Invalidated);
        inner.list.remove(&key).unwrap().memory
    }

    /// Reads that have begun do not end as long as this is so.
    pub fn stall(&self, stalled: bool) {
        self.0.borrow_mut().stalled = stalled;
    }

    pub fn is_stalled(&self) -> bool {
        self.0.borrow().stalled
    }

    /// What has been moved since the last call.
    pub fn take_moved(&self) -> Vec<Moved> {
        std::mem::take(&mut self.0.borrow_mut().moved)
    }

    /// Regions that are registered.
    pub fn count(&self) -> usize {
        self.0.borrow().list.len()
    }
}
