//! From a URL to a volume, for everything that is on this machine.

use std::sync::Arc;

use host::{IoError, OpenMode, OpenOptions, Storage};
use names::{BlockSize, ByteSize, MemorySource, Source, VolumeUrl};
use volume::filter::apply_filters;
use volume::{Null, OpenError, Opener, Openers, PreparedOpen, Ram, Ready, Volume};

use crate::FileVolume;

/// `EPERM`, `EACCES`: the user lacks the right.
const NOT_PERMITTED: [i32; 2] = [1, 13];
/// `ENOENT`: there is no such file.
const NO_ENTRY: i32 = 2;
/// `ENXIO`, `ENODEV`: a node without a device behind it.
const NO_DEVICE: [i32; 2] = [6, 19];
/// `EAGAIN`, as opening answers when another volume or process has the file locked.
const LOCKED: i32 = 11;
/// `EBUSY`: another claims the device.
const BUSY: i32 = 16;
/// `EINVAL`: what a file system answers that cannot do direct I/O.
const INVALID: i32 = 22;
/// `EROFS`: the file system or device takes no writes.
const READ_ONLY: i32 = 30;

/// Opens volumes of this machine.
pub struct LocalOpener(
    /// Files and devices.
    pub Arc<dyn Storage>,
);

impl std::fmt::Debug for LocalOpener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LocalOpener")
    }
}

impl Opener for LocalOpener {
    fn schemes(&self) -> &'static [&'static str] {
        &["null", "ram", "file", "device"]
    }

    fn prepare(&self, url: &VolumeUrl, _openers: &Openers) -> Result<Box<dyn PreparedOpen>, OpenError> {
        Ok(Box::new(Ready::new(open_source(&url.source, mode(url), &self.0)?)))
    }
}

fn mode(url: &VolumeUrl) -> OpenMode {
    if url.is_read_only() { OpenMode::ReadOnly } else { OpenMode::ReadWrite }
}

/// Opens the volume of this machine that `url` names, with its filters, at once.
pub fn open(url: &VolumeUrl, storage: &Arc<dyn Storage>) -> Result<Arc<dyn Volume>, OpenError> {
    let source = open_source(&url.source, mode(url), storage)?;
    Ok(apply_filters(&url.filters, source))
}

fn open_source(
    source: &Source,
    mode: OpenMode,
    storage: &Arc<dyn Storage>,
) -> Result<Arc<dyn Volume>, OpenError> {
    match source {
        Source::Null(MemorySource { size, block }) => Ok(Arc::new(Null::new(size.0, bytes(*block))?)),
        Source::Ram(MemorySource { size, block }) => Ok(Arc::new(Ram::new(size.0, bytes(*block))?)),
        Source::File(file) => {
            let size = file.size.map(|ByteSize(size)| size).filter(|_| mode == OpenMode::ReadWrite);
            let options = OpenOptions { mode, direct: file.direct, size };
            open_file(storage, &file.path, options, file.block)
        }
        Source::Device(device) => {
            let options = OpenOptions { mode, direct: device.direct, size: None };
            open_file(storage, &device.path, options, device.block)
        }
        Source::Composite(composite) => Err(OpenError::new(format!(
            "there is no {}=[…] volume in this program: name one of its volumes by itself",
            composite.kind
        ))),
        other => Err(OpenError::new(format!(
            "{}: volumes are on another machine, which only the engine can reach; open the URL through it",
            other.scheme()
        ))),
    }
}

fn bytes(block: Option<BlockSize>) -> u32 {
    block.map_or(512, BlockSize::bytes)
}

fn open_file(
    storage: &Arc<dyn Storage>,
    path: &str,
    options: OpenOptions,
    block: Option<BlockSize>,
) -> Result<Arc<dyn Volume>, OpenError> {
    let file = storage.open(path, options).map_err(|error| refusal(error, options))?;
    if let Some(wanted) = options.size.filter(|wanted| *wanted < file.info().size) {
        let present = file.info().size;
        return Err(OpenError::new(format!(
            "the file has {present} bytes already, more than size={} asks for; leave size= out to serve all of it, or make \
             the file smaller by hand",
            ByteSize(wanted)
        )));
    }
    Ok(Arc::new(FileVolume::new(file, options.mode, block.map(BlockSize::bytes))?))
}

fn refusal(error: IoError, options: OpenOptions) -> OpenError {
    let remedy = match error.0 {
        NO_ENTRY if options.mode == OpenMode::ReadOnly => "check the path: what is only read is not created",
        NO_ENTRY if options.size.is_none() => "check the path, or create a file with file: and size=",
        NO_ENTRY => "check that its folder is there",
        INVALID if options.direct => "the file system may lack direct I/O: try direct=0",
        LOCKED => {
            "it is in use by another volume or process, such as a virtual machine: writing twice would destroy data; end that \
             first, or put readonly+ before the URL to serve it for reading"
        }
        BUSY => {
            "the device is in use: mounted, swap, part of a RAID or LVM, or claimed by another process; unmount or \
             release it first"
        }
        READ_ONLY => "it takes no writes: put readonly+ before the URL to serve it for reading",
        code if NOT_PERMITTED.contains(&code) => {
            "this user lacks the right: grant it (chmod, chown, group), or use another"
        }
        code if NO_DEVICE.contains(&code) => "no device is behind that node: attach it, or load its driver",
        _ => "check the path and the rights to it",
    };
    OpenError::new(format!("{error}; {remedy}")).because(error)
}
