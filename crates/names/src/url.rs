//! Volume URLs: filters from the outside in, each with a `+`, and the source that they stand before.
//!
//! A source may consist of volumes itself, each a URL: `mirror=[ram:1G,delay=1ms+ram:1G]?copies=2`. Which kinds of those there are, and which options they
//! have, is not known here: whoever opens them says so.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::closest::closest;
use crate::filter::{self, Filter};
use crate::iscsi::IscsiUrl;
use crate::nfs::NfsUrl;
use crate::nvme::NvmeUrl;
use crate::options::{Options, Writer};
use crate::parse::parse_by_read;
use crate::piece::{Fault, Piece};
use crate::rdma::Carrier;
use crate::source::{DeviceSource, FileSource, MemorySource, VhostUserSource};

const REMEDY: &str = "begin with null:, ram:, file:, device:, vhost-user:, iscsi://, iser://, nvme+tcp://, nvme+rdma://, nfs:// or nfs+rdma://, or with a filter \
                      such as delay=5ms+ before one of them";

/// Every scheme.
pub(crate) const SCHEMES: [&str; 11] = [
    "null",
    "ram",
    "file",
    "device",
    "vhost-user",
    "iscsi",
    "iser",
    "nvme+tcp",
    "nvme+rdma",
    "nfs",
    "nfs+rdma",
];

/// Those of other machines.
const REMOTE_SCHEMES: [&str; 6] = ["iscsi", "iser", "nvme+tcp", "nvme+rdma", "nfs", "nfs+rdma"];

/// What other tools call our schemes.
const ELSEWHERE: [(&str, &str); 19] = [
    ("nvme", "nvme+tcp"),
    ("nvme-tcp", "nvme+tcp"),
    ("nvme_tcp", "nvme+tcp"),
    ("nvmf", "nvme+tcp"),
    ("nvme-rdma", "nvme+rdma"),
    ("nvme_rdma", "nvme+rdma"),
    ("nfs4", "nfs"),
    ("nfs3", "nfs"),
    ("nfs+tcp", "nfs"),
    ("nfs-rdma", "nfs+rdma"),
    ("iscsi+tcp", "iscsi"),
    ("iscsi+rdma", "iser"),
    ("mem", "ram"),
    ("memory", "ram"),
    ("dev", "device"),
    ("raw", "file"),
    ("vhost", "vhost-user"),
    ("vhost-user-blk", "vhost-user"),
    ("virtio-blk-vhost-user", "vhost-user"),
];

/// The most filters before a source.
const MOST_FILTERS: usize = 16;
/// The most volumes that a source consists of.
const MOST_CHILDREN: usize = 16;
/// How deep such sources may lie within each other.
const DEEPEST: usize = 4;

/// A volume, named by URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeUrl {
    /// Filters, the outermost first: the order in which a request meets them.
    pub filters: Vec<Filter>,
    /// What they filter.
    pub source: Source,
}

impl VolumeUrl {
    /// True when a `readonly` filter stands anywhere before the source, which then need not be opened for writing.
    pub fn is_read_only(&self) -> bool {
        self.filters.contains(&Filter::ReadOnly)
    }

    fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        Self::read_at(piece, 0)
    }

    /// Reads what lies so deep within other volumes.
    fn read_at(piece: Piece<'_>, depth: usize) -> Result<Self, Fault> {
        let mut filters = Vec::new();
        let mut rest = piece;
        while let Some((filter, after)) = Filter::read(rest)? {
            if filters.len() == MOST_FILTERS {
                return Err(rest.fault("there are more than 16 filters", "use fewer"));
            }
            filters.push(filter);
            rest = after;
        }
        Ok(Self { filters, source: Source::read(rest, depth)? })
    }
}

impl From<Source> for VolumeUrl {
    fn from(source: Source) -> Self {
        Self { filters: Vec::new(), source }
    }
}

impl fmt::Display for VolumeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.filters.iter().try_for_each(|filter| write!(f, "{filter}+"))?;
        self.source.fmt(f)
    }
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
    /// A device that another process of this machine serves in shared memory.
    VhostUser(VhostUserSource),
    /// A logical unit of an iSCSI target.
    Iscsi(IscsiUrl),
    /// A namespace of an NVMe subsystem.
    Nvme(NvmeUrl),
    /// A file at an NFS server.
    Nfs(NfsUrl),
    /// Other volumes, which make one together.
    Composite(CompositeSource),
}

/// `KIND=[URL,URL]?OPTION=VALUE&…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompositeSource {
    /// What they make: lower-case letters.
    pub kind: String,
    /// The volumes, at least one.
    pub children: Vec<VolumeUrl>,
    /// Options by name, in the order in which they were written: each once, its name of a–z, its value decoded.
    pub options: Vec<(String, String)>,
}

impl Source {
    /// The scheme, as it stands before the colon; of a composite, its kind.
    pub fn scheme(&self) -> &str {
        match self {
            Self::Null(_) => "null",
            Self::Ram(_) => "ram",
            Self::File(_) => "file",
            Self::Device(_) => "device",
            Self::VhostUser(_) => "vhost-user",
            Self::Iscsi(remote) => remote.options.scheme(),
            Self::Nvme(remote) => remote.options.scheme(),
            Self::Nfs(url) => url.options.scheme(),
            Self::Composite(composite) => &composite.kind,
        }
    }

    fn read(piece: Piece<'_>, depth: usize) -> Result<Self, Fault> {
        if let Some((kind, children)) = CompositeSource::head(piece) {
            return CompositeSource::read(kind, children, depth).map(Self::Composite);
        }
        let Some((scheme, rest)) = piece.split_once(':') else {
            return Err(without_scheme(piece));
        };
        match scheme.text {
            "null" => MemorySource::read(rest, "null:").map(Self::Null),
            "ram" => MemorySource::read(rest, "ram:").map(Self::Ram),
            "file" => FileSource::read(rest).map(Self::File),
            "device" => DeviceSource::read(rest).map(Self::Device),
            "vhost-user" => VhostUserSource::read(rest).map(Self::VhostUser),
            "iscsi" => IscsiUrl::read(rest, Carrier::Tcp).map(Self::Iscsi),
            "iser" => IscsiUrl::read(rest, Carrier::Rdma).map(Self::Iscsi),
            "nvme+tcp" => NvmeUrl::read(rest, Carrier::Tcp).map(Self::Nvme),
            "nvme+rdma" => NvmeUrl::read(rest, Carrier::Rdma).map(Self::Nvme),
            "nfs" => NfsUrl::read(rest, Carrier::Tcp).map(Self::Nfs),
            "nfs+rdma" => NfsUrl::read(rest, Carrier::Rdma).map(Self::Nfs),
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

impl CompositeSource {
    /// The kind, and what stands behind its opening bracket.
    fn head(piece: Piece<'_>) -> Option<(Piece<'_>, Piece<'_>)> {
        let (kind, rest) = piece.split_once('=')?;
        let is_word = !kind.text.is_empty() && kind.text.bytes().all(|byte| byte.is_ascii_lowercase());
        Some((kind, rest.strip_prefix("[")?)).filter(|_| is_word)
    }

    fn read(kind: Piece<'_>, rest: Piece<'_>, depth: usize) -> Result<Self, Fault> {
        if depth == DEEPEST {
            return Err(
                kind.fault("volumes lie within volumes more than 4 deep", "put fewer within each other")
            );
        }
        let unclosed =
            || kind.fault(format!("{}=[ has no closing bracket", kind.text), "write a ']' at its end");
        let mut children = Vec::new();
        let mut rest = rest;
        loop {
            let (child, mark, after) = next_child(rest).ok_or_else(unclosed)?;
            if children.len() == MOST_CHILDREN {
                return Err(child.fault("there are more than 16 volumes", "use fewer"));
            }
            children.push(VolumeUrl::read_at(child, depth + 1)?);
            match mark {
                Mark::Comma => rest = after,
                Mark::End => {
                    let options = Self::read_options(after)?;
                    return Ok(Self { kind: kind.text.into(), children, options });
                }
            }
        }
    }
}

impl CompositeSource {
    /// Reads what stands behind the closing bracket: nothing, or options.
    fn read_options(piece: Piece<'_>) -> Result<Vec<(String, String)>, Fault> {
        if piece.text.is_empty() {
            return Ok(Vec::new());
        }
        let Some(query) = piece.strip_prefix("?") else {
            let remedy = "take it away, or begin options with a question mark";
            return Err(piece.fault("something stands behind the closing bracket", remedy));
        };
        Ok(Options::read_any(query)?.into_pairs())
    }

    /// The value of an option, if it was given.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// What is wrong with the first option that is none of `allowed`, for people; `None` if all are known.
    pub fn unknown_option(&self, allowed: &[&str]) -> Option<String> {
        let (name, _) = self.options.iter().find(|(name, _)| !allowed.contains(&name.as_str()))?;
        let meant = closest(name, allowed).map(|meant| format!("did you mean {meant}? ")).unwrap_or_default();
        Some(format!("{}= has no option \"{name}\": {meant}it has {}", self.kind, allowed.join(", ")))
    }
}

/// What ends a volume within brackets.
enum Mark {
    Comma,
    End,
}

/// The first URL within brackets, what ends it, and what follows. Commas of its filters and of what lies in brackets itself are its own.
fn next_child(piece: Piece<'_>) -> Option<(Piece<'_>, Mark, Piece<'_>)> {
    let mut rest = piece;
    while let Ok(Some((_, after))) = Filter::read(rest) {
        rest = after;
    }
    let mut depth = 0_usize;
    for (at, letter) in rest.text.char_indices() {
        let mark = match letter {
            ',' if depth == 0 => Mark::Comma,
            ']' if depth == 0 => Mark::End,
            '[' => {
                depth += 1;
                continue;
            }
            ']' => {
                depth -= 1;
                continue;
            }
            _ => continue,
        };
        let end = rest.at + at - piece.at;
        return Some((piece.first(end), mark, piece.from(end + 1)));
    }
    None
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
    let slashes = |scheme| if REMOTE_SCHEMES.contains(&scheme) { "//" } else { "" };
    if let Some(scheme) = found {
        return Some(format!("{scheme}:{}", slashes(scheme)));
    }
    let word = lower.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
    closest(word, &filter::NAMES).map(|filter| format!("the filter {filter}"))
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Composite(_) => {}
            _ => write!(f, "{}:", self.scheme())?,
        }
        match self {
            Self::Null(memory) | Self::Ram(memory) => memory.write(f),
            Self::File(file) => file.write(f),
            Self::Device(device) => device.write(f),
            Self::VhostUser(device) => device.write(f),
            Self::Iscsi(remote) => remote.write(f),
            Self::Nvme(remote) => remote.write(f),
            Self::Nfs(remote) => remote.write(f),
            Self::Composite(composite) => composite.fmt(f),
        }
    }
}

impl fmt::Display for CompositeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=[", self.kind)?;
        for (index, child) in self.children.iter().enumerate() {
            f.write_str(if index > 0 { "," } else { "" })?;
            // The alternate form escapes what means something within brackets.
            write!(f, "{child:#}")?;
        }
        f.write_str("]")?;
        let mut writer = Writer::new(f);
        self.options.iter().try_for_each(|(name, value)| writer.put(name, Some(value)))
    }
}

parse_by_read!(VolumeUrl, "volume URL");
