//! The log of Linux' dm-log-writes target, as its disk holds it (Documentation/admin-guide/device-mapper/log-writes.rst, drivers/md/dm-log-writes.c).
//!
//! Block 0 has the number of entries and the size of a block. Each entry takes a block: where and how much was written, and flags; the data stand
//! behind it, a mark's words in the same block. Numbers are little-endian, places and lengths count blocks.

use std::os::unix::fs::FileExt;

use crate::command_line::Words;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
/// Bytes of an entry before a mark's words.
const ENTRY: usize = 32;

const FLUSH: u64 = 1 << 0;
const FUA: u64 = 1 << 1;
const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;

/// One entry of the log; places and lengths in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where it was written.
    pub(crate) to: u64,
    /// How many bytes.
    pub(crate) length: u64,
    /// Where in the log its data stand.
    pub(crate) data: u64,
    /// What it is.
    pub(crate) kind: Kind,
    /// Whether everything up to here is on the disk, cache or not.
    pub(crate) settled: bool,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Write,
    Discard,
    Mark(String),
}

/// Every entry of a log.
pub(crate) fn read(disk: &impl FileExt) -> Words<Vec<Entry>> {
    let mut front = [0; ENTRY];
    disk.read_exact_at(&mut front, 0).map_err(|error| format!("the log: {error}"))?;
    let [magic, version, entries, block] = words(&front);
    let block = block & u64::from(u32::MAX);
    if (magic, version) != (MAGIC, VERSION) || block < 512 {
        return Err(format!(
            "this is no log of dm-log-writes: {magic:x}, version {version}, blocks of {block} bytes"
        ));
    }
    let mut at = block;
    let mut all = Vec::new();
    for number in 0..entries {
        let entry =
            read_entry(disk, at, block).map_err(|error| format!("entry {number} of the log: {error}"))?;
        at = entry.data + if entry.kind == Kind::Write { entry.length } else { 0 };
        all.push(entry);
    }
    Ok(all)
}

fn read_entry(disk: &impl FileExt, at: u64, block: u64) -> std::io::Result<Entry> {
    let mut whole = vec![0; usize::try_from(block).unwrap_or(ENTRY)];
    disk.read_exact_at(&mut whole, at)?;
    let (front, behind) = whole.split_first_chunk::<ENTRY>().ok_or(std::io::ErrorKind::InvalidData)?;
    let [to, length, flags, said] = words(front);
    let kind = if flags & MARK != 0 {
        let said = usize::try_from(said).ok().and_then(|length| behind.get(..length));
        Kind::Mark(String::from_utf8_lossy(said.ok_or(std::io::ErrorKind::InvalidData)?).into_owned())
    } else if flags & DISCARD != 0 {
        Kind::Discard
    } else {
        Kind::Write
    };
    let settled = flags & (FLUSH | FUA) != 0;
    Ok(Entry { to: to * block, length: length * block, data: at + block, kind, settled })
}

fn words(bytes: &[u8; ENTRY]) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    }
    words
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs::File;

    /// A block of a log that was made by hand.
    pub(crate) fn block(words: [u64; 4], behind: &[u8]) -> Vec<u8> {
        let mut block = words.map(u64::to_le_bytes).concat();
        block.extend(behind);
        block.resize(512, 0);
        block
    }

    /// A log in a file that has no name any more.
    pub(crate) fn file(name: &str, blocks: &[Vec<u8>]) -> File {
        let path = std::env::temp_dir().join(format!("vm-guest-{name}-{}", std::process::id()));
        std::fs::write(&path, blocks.concat()).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    #[test]
    fn entries_are_found_behind_their_data() {
        let disk = file(
            "log",
            &[
                block([MAGIC, VERSION, 4, 512], &[]),
                block([8, 2, FUA, 0], &[]),
                vec![7; 1024],
                block([0, 0, MARK, 6], b"done-1"),
                block([4, 3, DISCARD, 0], &[]),
                block([0, 0, FLUSH, 0], &[]),
            ],
        );
        let entries = read(&disk).unwrap();
        let write = Entry { to: 4096, length: 1024, data: 1024, kind: Kind::Write, settled: true };
        let mark =
            Entry { to: 0, length: 0, data: 2560, kind: Kind::Mark("done-1".to_owned()), settled: false };
        let discard = Entry { to: 2048, length: 1536, data: 3072, kind: Kind::Discard, settled: false };
        let flush = Entry { to: 0, length: 0, data: 3584, kind: Kind::Write, settled: true };
        assert_eq!(entries, [write, mark, discard, flush]);
    }

    #[test]
    fn another_disk_is_no_log() {
        assert!(read(&file("zeros", &[vec![0; 4096]])).unwrap_err().contains("no log"));
    }
}
