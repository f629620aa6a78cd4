//! What a URL names at its end: memory, a file, a device, or a volume of another machine.

use alloc::format;
use alloc::string::String;
use core::fmt;

use crate::closest::closest;
use crate::filter;
use crate::iscsi::IscsiUrl;
use crate::nvme::NvmeUrl;
use crate::options::{Options, Writer, flag, split_query};
use crate::percent;
use crate::piece::{Fault, Piece};
use crate::size::ByteSize;

const REMEDY: &str = "begin with null:, ram:, file:, device:, iscsi:// or nvme+tcp://, or with a filter such as \
                      delay=5ms+ before one of them";

/// Every scheme.
pub(crate) const SCHEMES: [&str; 6] = ["null", "ram", "file", "device", "iscsi", "nvme+tcp"];

/// The options of memory, files and devices.
pub(crate) const MEMORY_OPTIONS: [&str; 1] = ["block"];
pub(crate) const FILE_OPTIONS: [&str; 3] = ["size", "direct", "block"];
pub(crate) const DEVICE_OPTIONS: [&str; 2] = ["direct", "block"];

/// What other tools call our schemes.
const ELSEWHERE: [(&str, &str); 9] = [
    ("nvme", "nvme+tcp"),
    ("nvme-tcp", "nvme+tcp"),
    ("nvme_tcp", "nvme+tcp"),
    ("nvmf", "nvme+tcp"),
    ("iscsi+tcp", "iscsi"),
    ("mem", "ram"),
    ("memory", "ram"),
    ("dev", "device"),
    ("raw", "file"),
];

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

    fn read(value: Piece<'_>) -> Result<Self, Fault> {
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

/// Where a volume's blocks are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// Nowhere: reads give zeros, writes are dropped.
    Null(MemorySource),
    /// In memory, for as long as the process lives.
    Ram(MemorySource),
    /// In a file.
    File(FileSource),
    /// On a block device.
    Device(DeviceSource),
    /// A logical unit of an iSCSI target.
    Iscsi(IscsiUrl),
    /// A namespace of an NVMe/TCP subsystem.
    Nvme(NvmeUrl),
}

impl Source {
    /// The scheme, as it stands before the colon.
    pub const fn scheme(&self) -> &'static str {
        match self {
            Self::Null(_) => "null",
            Self::Ram(_) => "ram",
            Self::File(_) => "file",
            Self::Device(_) => "device",
            Self::Iscsi(_) => "iscsi",
            Self::Nvme(_) => "nvme+tcp",
        }
    }

    pub(crate) fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let Some((scheme, rest)) = piece.split_once(':') else {
            return Err(without_scheme(piece));
        };
        match scheme.text {
            "null" => MemorySource::read(rest, "null:").map(Self::Null),
            "ram" => MemorySource::read(rest, "ram:").map(Self::Ram),
            "file" => FileSource::read(rest).map(Self::File),
            "device" => DeviceSource::read(rest).map(Self::Device),
            "iscsi" => IscsiUrl::read(rest).map(Self::Iscsi),
            "nvme+tcp" => NvmeUrl::read(rest).map(Self::Nvme),
            other if other.starts_with(['/', '.']) => Err(without_scheme(piece)),
            other => {
                let problem = format!("\"{other}\" is neither a scheme nor a filter");
                Err(match meant(other) {
                    Some(meant) => scheme.fault(problem, format!("did you mean {meant}? {REMEDY}")),
                    None => scheme.fault(problem, REMEDY),
                })
            }
        }
    }
}

/// A path, perhaps, without what must stand before it.
fn without_scheme(piece: Piece<'_>) -> Fault {
    let scheme = if piece.text.starts_with("/dev/") { "device" } else { "file" };
    let problem = "there is no scheme";
    match piece.text {
        "" => piece.fault(problem, REMEDY),
        path => piece.fault(problem, format!("did you mean {scheme}:{path}? {REMEDY}")),
    }
}

/// What somebody may have meant by a scheme that there is not.
fn meant(scheme: &str) -> Option<String> {
    let lower = scheme.to_ascii_lowercase();
    let known = ELSEWHERE.iter().find(|(theirs, _)| *theirs == lower).map(|(_, ours)| *ours);
    let found = known.or_else(|| closest(&lower, &SCHEMES));
    let slashes = |scheme| if matches!(scheme, "iscsi" | "nvme+tcp") { "//" } else { "" };
    if let Some(scheme) = found {
        return Some(format!("{scheme}:{}", slashes(scheme)));
    }
    let word = lower.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
    closest(word, &filter::NAMES).map(|filter| format!("the filter {filter}"))
}

fn path(piece: Piece<'_>) -> Result<String, Fault> {
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

impl MemorySource {
    fn read(piece: Piece<'_>, owner: &str) -> Result<Self, Fault> {
        let (size, query) = split_query(piece);
        let options = Options::read(query, owner, &MEMORY_OPTIONS)?;
        Ok(Self { size: ByteSize::read(size)?, block: options.get("block", BlockSize::read)? })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.size)?;
        Writer::new(f).put("block", self.block)
    }
}

impl FileSource {
    fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let (name, query) = split_query(piece);
        let options = Options::read(query, "file:", &FILE_OPTIONS)?;
        Ok(Self {
            path: path(name)?,
            size: options.get("size", ByteSize::read)?,
            direct: options.get("direct", flag)?.unwrap_or(false),
            block: options.get("block", BlockSize::read)?,
        })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        percent::encode(f, &self.path, "?")?;
        let mut options = Writer::new(f);
        options.put("size", self.size)?;
        options.put_flag("direct", self.direct)?;
        options.put("block", self.block)
    }
}

impl DeviceSource {
    fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let (name, query) = split_query(piece);
        let options = Options::read(query, "device:", &DEVICE_OPTIONS)?;
        Ok(Self {
            path: path(name)?,
            direct: options.get("direct", flag)?.unwrap_or(true),
            block: options.get("block", BlockSize::read)?,
        })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        percent::encode(f, &self.path, "?")?;
        let mut options = Writer::new(f);
        options.put("direct", (!self.direct).then_some(0))?;
        options.put("block", self.block)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.scheme())?;
        match self {
            Self::Null(memory) | Self::Ram(memory) => memory.write(f),
            Self::File(file) => file.write(f),
            Self::Device(device) => device.write(f),
            Self::Iscsi(remote) => remote.write(f),
            Self::Nvme(remote) => remote.write(f),
        }
    }
}
