//! Volumes of this machine, as a URL names them: memory, files, devices, and what another process serves in shared memory.

use alloc::format;
use alloc::string::String;
use core::fmt;

use crate::duration::Span;
use crate::options::{Options, Writer, flag, split_query};
use crate::percent;
use crate::piece::{Fault, Piece};
use crate::size::ByteSize;

/// The options of memory, files and devices.
pub(crate) const MEMORY_OPTIONS: [&str; 1] = ["block"];
pub(crate) const FILE_OPTIONS: [&str; 3] = ["size", "direct", "block"];
pub(crate) const DEVICE_OPTIONS: [&str; 2] = ["direct", "block"];
pub(crate) const VHOST_USER_OPTIONS: [&str; 2] = ["reconnect", "ring"];

/// Bytes in a logical block, as asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockSize {
    /// 512 bytes.
    B512,
    /// 4096 bytes.
    B4096,
}

impl BlockSize {
    /// In bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::B512 => 512,
            Self::B4096 => 4096,
        }
    }

    pub(crate) fn read(value: Piece<'_>) -> Result<Self, Fault> {
        match value.text {
            "512" => Ok(Self::B512),
            "4096" | "4k" | "4K" => Ok(Self::B4096),
            other => Err(value.fault(format!("blocks cannot have {other} bytes"), "write 512 or 4096")),
        }
    }
}

impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bytes())
    }
}

/// `null:SIZE` or `ram:SIZE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySource {
    /// The volume's size.
    pub size: ByteSize,
    /// Its block size; 512 if not given.
    pub block: Option<BlockSize>,
}

/// `file:PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSource {
    /// The path, relative or absolute.
    pub path: String,
    /// Create or grow the file to this size; without it the file must be there.
    pub size: Option<ByteSize>,
    /// Bypass the page cache.
    pub direct: bool,
    /// The block size; 512 if not given.
    pub block: Option<BlockSize>,
}

/// `device:PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSource {
    /// The device's path.
    pub path: String,
    /// Bypass the page cache; so it is unless `direct=0`.
    pub direct: bool,
    /// The block size; the device's own if not given.
    pub block: Option<BlockSize>,
}

/// How a queue in shared memory lies there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingLayout {
    /// VIRTIO 1.2 §2.7.
    Split,
    /// VIRTIO 1.2 §2.8.
    Packed,
}

impl RingLayout {
    fn read(value: Piece<'_>) -> Result<Self, Fault> {
        match value.text {
            "split" => Ok(Self::Split),
            "packed" => Ok(Self::Packed),
            other => Err(value.fault(format!("there is no {other} ring"), "write split or packed")),
        }
    }
}

impl fmt::Display for RingLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Split => "split",
            Self::Packed => "packed",
        })
    }
}

/// `vhost-user:SOCKET`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VhostUserSource {
    /// The path of the socket at which the device's process listens.
    pub path: String,
    /// How long requests wait for a device that is gone; zero never, a default if not given.
    pub reconnect: Option<Span>,
    /// How its queues lie in memory; as the device likes best if not given.
    pub ring: Option<RingLayout>,
}

pub(crate) fn path(piece: Piece<'_>) -> Result<String, Fault> {
    if piece.text.is_empty() {
        return Err(piece.fault("the path is missing", "write it after the colon, such as file:disk.img"));
    }
    // Three slashes are an absolute path after no host, as in other URLs; two would name a host.
    if let Some(name) = piece.strip_prefix("//").filter(|rest| !rest.text.starts_with('/')) {
        let remedy = format!(
            "did you mean {} without the slashes, or a third one before an absolute path?",
            name.text
        );
        return Err(piece.fault("a host would stand after two slashes, and a path has none", remedy));
    }
    percent::decode(piece)
}

/// Writes a path so that it is read as one: after two slashes a host would stand.
pub(crate) fn write_path(f: &mut fmt::Formatter<'_>, path: &str) -> fmt::Result {
    let after_two = path.strip_prefix("//").filter(|rest| !rest.starts_with('/'));
    if after_two.is_some() {
        f.write_str("/%2F")?;
    }
    percent::encode(f, after_two.unwrap_or(path), "?")
}

impl MemorySource {
    pub(crate) fn read(piece: Piece<'_>, owner: &str) -> Result<Self, Fault> {
        let (size, query) = split_query(piece);
        let options = Options::read(query, owner, &MEMORY_OPTIONS)?;
        Ok(Self { size: ByteSize::read(size)?, block: options.get("block", BlockSize::read)? })
    }

    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.size)?;
        Writer::new(f).put("block", self.block)
    }
}

impl FileSource {
    pub(crate) fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let (name, query) = split_query(piece);
        let options = Options::read(query, "file:", &FILE_OPTIONS)?;
        Ok(Self {
            path: path(name)?,
            size: options.get("size", ByteSize::read)?,
            direct: options.get("direct", flag)?.unwrap_or(false),
            block: options.get("block", BlockSize::read)?,
        })
    }

    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_path(f, &self.path)?;
        let mut options = Writer::new(f);
        options.put("size", self.size)?;
        options.put_flag("direct", self.direct)?;
        options.put("block", self.block)
    }
}

impl DeviceSource {
    pub(crate) fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let (name, query) = split_query(piece);
        let options = Options::read(query, "device:", &DEVICE_OPTIONS)?;
        Ok(Self {
            path: path(name)?,
            direct: options.get("direct", flag)?.unwrap_or(true),
            block: options.get("block", BlockSize::read)?,
        })
    }

    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_path(f, &self.path)?;
        let mut options = Writer::new(f);
        options.put("direct", (!self.direct).then_some(0))?;
        options.put("block", self.block)
    }
}

impl VhostUserSource {
    pub(crate) fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let (name, query) = split_query(piece);
        let options = Options::read(query, "vhost-user:", &VHOST_USER_OPTIONS)?;
        Ok(Self {
            path: path(name)?,
            reconnect: options.get("reconnect", Span::read)?,
            ring: options.get("ring", RingLayout::read)?,
        })
    }

    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_path(f, &self.path)?;
        let mut options = Writer::new(f);
        options.put("reconnect", self.reconnect)?;
        options.put("ring", self.ring)
    }
}
