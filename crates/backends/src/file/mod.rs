//! A volume on a file or a block device.

mod limits;
mod loss;
mod queue;
mod shape;
mod size;
mod stage;

use std::sync::Arc;
use std::task::Waker;

use host::{BlockFile, BlockInfo, BlockKind, OpenMode};
use volume::range_locks::{RangeLock, RangeLocks};
use volume::{
    Changes, Features, Geometry, Limits, LossRecord, Losses, OpenError, QueueContext, Volume, VolumeQueue,
};

use queue::{FileQueue, Shared};
use shape::Shape;
use size::Size;

/// A file or device, in blocks.
#[derive(Debug)]
pub struct FileVolume {
    file: Arc<dyn BlockFile>,
    shape: Shape,
    size: Arc<Size>,
    locks: Arc<RangeLocks>,
    losses: Arc<Losses>,
}

impl FileVolume {
    /// The volume on an opened file, in blocks of `block` bytes (or, if not given, 512 on a file and the device's own
    /// on a device).
    pub fn new(file: Arc<dyn BlockFile>, mode: OpenMode, block: Option<u32>) -> Result<Self, OpenError> {
        let info = file.info();
        let geometry = geometry(&info, block)?;
        let limits = Limits {
            depth: limits::DEPTH,
            // Odd memory is copied, so that callers need not care; the extents are blocks, which are aligned.
            memory_alignment: 1,
            discard_granularity: (info.physical_block / geometry.block_size).max(1),
            ..Limits::default()
        };
        let shape = Shape { info, geometry, limits, features: features(&info, mode) };
        let size = Arc::new(Size::new(geometry.blocks));
        Ok(Self { file, shape, size, locks: RangeLocks::new(), losses: Losses::new() })
    }
}

fn geometry(info: &BlockInfo, block: Option<u32>) -> Result<Geometry, OpenError> {
    if info.kind == BlockKind::Device && info.size == 0 {
        return Err(OpenError::new(
            "the device is empty (0 bytes); attach a disk to it, or insert its medium",
        ));
    }
    let own = match info.kind {
        BlockKind::File => 512,
        BlockKind::Device => info.logical_block,
    };
    let block = block.unwrap_or(own);
    let least = match info.kind {
        BlockKind::File => info.alignment,
        BlockKind::Device => info.alignment.max(info.logical_block),
    };
    if least == 0 || !block.is_multiple_of(least) {
        let remedy = match info.kind {
            BlockKind::File => "give block=4096, or direct=0",
            BlockKind::Device => "leave block= out to take the device's own",
        };
        return Err(OpenError::new(format!(
            "blocks of {block} bytes do not fit: reads and writes there must be aligned to {least} bytes; {remedy}"
        )));
    }
    let mut geometry = Geometry::of(info.size, block)?;
    if info.physical_block.is_multiple_of(block) {
        geometry.physical_block_size = info.physical_block.max(block);
    }
    Ok(geometry)
}

fn features(info: &BlockInfo, mode: OpenMode) -> Features {
    let mut features = Features::VOLATILE_CACHE | Features::COMPARE;
    features.set(Features::DISCARD, info.can_discard);
    features.set(Features::WRITE_ZEROES, info.can_zero || info.can_discard);
    features.set(Features::ALLOCATION, info.kind == BlockKind::File);
    features.set(Features::READ_ONLY, mode == OpenMode::ReadOnly);
    features
}

impl Volume for FileVolume {
    fn geometry(&self) -> Geometry {
        Geometry { blocks: self.size.blocks(), ..self.shape.geometry }
    }

    fn limits(&self) -> Limits {
        self.shape.limits
    }

    fn features(&self) -> Features {
        self.shape.features
    }

    fn changes(&self) -> Changes {
        Changes { resized: self.size.changes(), ..Changes::default() }
    }

    fn listen(&self, waker: Waker) {
        self.size.listeners.add(waker);
    }

    /// What is beyond the new end of a file that was cut fails from now on; the data there was lost when it was cut.
    fn rescan(&self) -> Result<(), OpenError> {
        let geometry = Geometry::of(self.file.info().size, self.shape.geometry.block_size)?;
        self.size.set(geometry.blocks);
        Ok(())
    }

    fn keep_losses(&self, record: Arc<dyn LossRecord>, known: Option<String>) {
        self.losses.keep_in(record, known);
    }

    fn last_error(&self) -> Option<String> {
        self.losses.last_error()
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let blocks = self.file.open_queue(context.waker.clone());
        let blocks = blocks.map_err(|error| {
            OpenError::new(format!("the file's queue cannot be opened: {error}; try again"))
        })?;
        self.losses.add_queue(context.waker.clone());
        let shared =
            Shared { shape: self.shape, size: Arc::clone(&self.size), losses: Arc::clone(&self.losses) };
        Ok(Box::new(FileQueue::new(shared, blocks, RangeLock::new(&self.locks, context.waker.clone()))))
    }
}
