//! What the lab looks at beside a measured load: where its I/Os go, and whether the volume keeps data meanwhile.
//!
//! Both are asked for by settings that no scenario can name, since the runner adds them: a scenario cannot switch them off. The last
//! [`VERIFIED_BYTES`] of each volume are kept for data that is written, read back and compared while the load runs; the load is given what lies
//! before.

use std::collections::BTreeMap;
use std::path::Path;

use super::settings::{DATA, OFFSETS, Settings};
use crate::arm::Endpoint;
use lab_model::offsets::{Order, Region};
use lab_model::result::Flag;

/// Bytes at the end of each volume that are verified; `linerate bench --verify` has the same.
pub(super) const VERIFIED_BYTES: u64 = 64 << 10;
/// What the first of them is a multiple of: the page size, as fio's direct I/O wants it.
const ALIGNMENT: u64 = 4096;
/// The name of the count of reads that returned what was written.
pub(super) const VERIFIED: &str = "verified_reads";
/// The name of the count of offsets that were looked at.
pub(super) const LOOKED_AT: &str = "sampled_offsets";
/// Settings that say where I/Os go beyond order and size: nothing uniform can be expected of them.
const ELSEWHERE: &[&str] = &["random_distribution", "bssplit", "bsrange"];

/// Whether a volume keeps what it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// It does.
    Data,
    /// It keeps nothing by definition, as `null` does.
    Nothing,
}

/// Adds what the tool is to show of itself to the settings of a load on block volumes.
pub fn ask(settings: &mut BTreeMap<String, String>, keeping: Keeping) {
    settings.insert(OFFSETS.to_owned(), "1".to_owned());
    if keeping == Keeping::Data {
        settings.insert(DATA.to_owned(), "1".to_owned());
    }
}

/// The volume's size in bytes, where it is known: as the arm gave it, or as the kernel has it of a block device.
pub(super) fn size_of(endpoint: &Endpoint) -> Option<u64> {
    if endpoint.size > 0 {
        return Some(endpoint.size);
    }
    let path = std::fs::canonicalize(&endpoint.url).ok()?;
    let sectors = Path::new("/sys/class/block").join(path.file_name()?).join("size");
    let sectors: u64 = std::fs::read_to_string(sectors).ok()?.trim().parse().ok()?;
    Some(sectors.saturating_mul(512)).filter(|bytes| *bytes > 0)
}

/// Where data of a volume is verified: its first byte. Nothing where it is not asked for, where nobody knows the volume's end, and
/// where an I/O would not fit before it.
pub(super) fn verified_from(settings: Settings<'_>, endpoint: &Endpoint) -> Option<u64> {
    settings.get(DATA)?;
    let block = settings.bytes("bs", 4096).ok()?;
    let from = size_of(endpoint)?.checked_sub(VERIFIED_BYTES)? / ALIGNMENT * ALIGNMENT;
    (from >= block).then_some(from)
}

/// Bytes of a volume that the load uses, from its beginning.
pub(super) fn used(settings: Settings<'_>, endpoint: &Endpoint) -> Option<u64> {
    let all = verified_from(settings, endpoint).or_else(|| size_of(endpoint));
    match settings.get("size") {
        None => all,
        Some(_) => settings.bytes("size", 1).ok().map(|size| all.map_or(size, |all| size.min(all))),
    }
}

/// What was asked for of a volume, or of a job on it; nothing where I/Os are to go elsewhere than evenly.
pub(super) fn region(settings: Settings<'_>, bytes: u64, under_way: u64) -> Option<Region> {
    if ELSEWHERE.iter().any(|name| settings.get(name).is_some()) {
        return None;
    }
    let order = match settings.text("rw", "randread") {
        "read" | "write" | "rw" | "readwrite" => Order::Sequential,
        "randread" | "randwrite" | "randrw" => Order::Random,
        _ => return None,
    };
    let block = settings.bytes("bs", 4096).ok()?;
    Some(Region { bytes: bytes / block * block, block, order, under_way })
}

/// The flag of a load that went elsewhere.
pub(super) fn astray(volume: usize, doubt: &str) -> Flag {
    Flag::OutsideProfile { detail: format!("volume {volume}: {doubt}") }
}

/// The flag of data that came back other than it was written.
pub(super) fn corrupt(what: &str) -> Flag {
    Flag::Corrupt { detail: format!("data was lost while the load ran: {what}") }
}
