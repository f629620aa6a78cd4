//! Copying, comparing, summing and zeroing volumes of this machine: what comes out, and what is said when it cannot.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{self, Cursor, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use linerate::{
    Algorithm, ChecksumPlan, CompareResult, Control, CopyPlan, Effort, Means, Stop, Verify, ZeroPlan,
};
use names::VolumeUrl;
use tempfile::{TempDir, tempdir};

const MIB: usize = 1 << 20;

fn url(text: &str) -> VolumeUrl {
    text.parse().unwrap()
}

fn file(path: &Path) -> VolumeUrl {
    url(&format!("file:{}", path.display()))
}

/// Bytes that say where they are, so that a chunk in the wrong place is seen.
fn stamped(len: usize) -> Vec<u8> {
    (0_u64..).flat_map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).take(len).collect()
}

/// A file in a folder of its own, and its URL.
fn made(content: &[u8]) -> (TempDir, VolumeUrl) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("volume");
    std::fs::write(&path, content).unwrap();
    let url = file(&path);
    (folder, url)
}

fn content(folder: &TempDir) -> Vec<u8> {
    std::fs::read(folder.path().join("volume")).unwrap()
}

fn efforts() -> [Effort; 3] {
    [(1, 1), (1, 16), (4, 7)].map(|(connections, chunks)| Effort { connections, chunks })
}

/// A file of 9 MiB with data in the first, the fifth and the last MiB, and nothing behind the rest.
fn sparse() -> (TempDir, VolumeUrl) {
    use std::os::unix::fs::FileExt;
    let folder = tempdir().unwrap();
    let path = folder.path().join("volume");
    let out = std::fs::File::create(&path).unwrap();
    out.set_len(9 * MIB as u64).unwrap();
    for part in [0, 4, 8] {
        out.write_all_at(&stamped(MIB), part * MIB as u64).unwrap();
    }
    let url = file(&path);
    (folder, url)
}

#[test]
fn a_copy_has_every_byte_whatever_the_effort() {
    let bytes = stamped(5 * MIB + 1536);
    let (_from, source) = made(&bytes);
    for effort in efforts() {
        for (verify, sparse) in [(Verify::No, true), (Verify::Yes, true), (Verify::Yes, false)] {
            let (to, target) = made(&vec![0xee; 6 * MIB]);
            let plan = CopyPlan { verify, sparse, effort };
            let result = linerate::copy(&source, &target, plan, Control::default()).unwrap();
            assert_eq!((result.bytes, result.stopped), (bytes.len() as u64, false));
            let copied = content(&to);
            assert!(copied[..bytes.len()] == bytes, "{plan:?}");
            assert!(
                copied[bytes.len()..].iter().all(|&byte| byte == 0xee),
                "the rest was left alone: {plan:?}"
            );
        }
    }
}

#[test]
fn holes_are_not_read_and_overwrite_what_was_there() {
    let (from, source) = sparse();
    for verify in [Verify::No, Verify::Yes] {
        let (to, target) = made(&vec![0xee; 9 * MIB]);
        let plan = CopyPlan { verify, ..CopyPlan::default() };
        let result = linerate::copy(&source, &target, plan, Control::default()).unwrap();
        assert_eq!((result.holes, result.zeros), (6 * MIB as u64, 6 * MIB as u64));
        assert!(content(&from) == content(&to), "{verify:?}");
    }
    let (to, target) = made(&vec![0xee; 9 * MIB]);
    let plan = CopyPlan { sparse: false, ..CopyPlan::default() };
    let result = linerate::copy(&source, &target, plan, Control::default()).unwrap();
    assert_eq!((result.holes, result.zeros), (0, 0), "everything is read and written");
    assert!(content(&from) == content(&to));
}

#[test]
fn a_new_file_gets_the_sources_size() {
    let (_from, source) = sparse();
    let folder = tempdir().unwrap();
    let target = file(&folder.path().join("new"));
    linerate::copy(&source, &target, CopyPlan::default(), Control::default()).unwrap();
    let result = linerate::compare(&source, &target, Effort::default(), Control::default()).unwrap();
    assert_eq!((result.first, result.sizes), (None, (9 * MIB as u64, 9 * MIB as u64)));
}

#[test]
fn what_was_not_written_is_found_by_reading_back() {
    let (_from, source) = made(&stamped(2 * MIB));
    let plan = CopyPlan { verify: Verify::Yes, ..CopyPlan::default() };
    let error = linerate::copy(&source, &url("null:2M"), plan, Control::default()).unwrap_err().to_string();
    assert!(
        error.contains("the copy failed at byte") && error.contains("null:2M differs at byte"),
        "{error}"
    );
}

#[test]
fn failures_name_the_volume_the_verb_and_the_place() {
    let cases = [
        ("fail=100%,on=read+ram:1M", "ram:1M", "fail=100%,on=read+ram:1M cannot be read"),
        ("null:1M", "fail=100%,on=write+null:1M", "cannot be written"),
        ("null:1M", "fail=100%,on=flush+ram:1M", "cannot be flushed"),
        ("ram:2M", "ram:1M", "fewer than the 2097152 of ram:2M"),
        ("ram:1536", "ram:8K?block=4096", "copy onto a volume with smaller blocks"),
    ];
    for (source, target, expected) in cases {
        let plan = CopyPlan { sparse: false, ..CopyPlan::default() };
        let error = linerate::copy(&url(source), &url(target), plan, Control::default());
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{source} to {target}: {error}");
    }
}

/// A stream that hands out odd pieces.
struct Drip(Cursor<Vec<u8>>);

impl Read for Drip {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(12_345);
        self.0.read(&mut into[..most])
    }
}

/// A stream that fails after its first bytes.
struct Broken(bool);

impl Read for Broken {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if std::mem::replace(&mut self.0, true) {
            return Err(io::Error::other("the tape tore"));
        }
        into[..7].fill(1);
        Ok(7)
    }
}

/// A stream whose content can be looked at afterwards.
#[derive(Clone, Default)]
struct Basin(Arc<Mutex<Vec<u8>>>);

impl Write for Basin {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = &bytes[..bytes.len().min(54_321)];
        self.0.lock().unwrap().extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn streams_go_in_and_come_out() {
    let bytes = stamped(3 * MIB + 700);
    for effort in efforts() {
        let plan = CopyPlan { verify: Verify::Yes, effort, ..CopyPlan::default() };
        let (to, target) = made(&vec![0xee; 4 * MIB]);
        let stream = Box::new(Drip(Cursor::new(bytes.clone())));
        let result = linerate::import(stream, &target, plan, Control::default()).unwrap();
        assert_eq!(result.bytes, bytes.len() as u64);
        let copied = content(&to);
        assert!(copied[..bytes.len()] == bytes);
        let end = bytes.len().next_multiple_of(512);
        assert!(
            copied[bytes.len()..end].iter().all(|&byte| byte == 0),
            "the last block is filled with zeros"
        );
        assert!(copied[end..].iter().all(|&byte| byte == 0xee));
        let basin = Basin::default();
        let result = linerate::export(&target, Box::new(basin.clone()), plan, Control::default()).unwrap();
        assert_eq!(result.bytes, 4 * MIB as u64);
        assert!(*basin.0.lock().unwrap() == copied);
    }
}

#[test]
fn holes_come_out_as_zeros() {
    let (from, source) = sparse();
    let basin = Basin::default();
    let result =
        linerate::export(&source, Box::new(basin.clone()), CopyPlan::default(), Control::default()).unwrap();
    assert_eq!((result.bytes, result.holes), (9 * MIB as u64, 6 * MIB as u64));
    assert!(*basin.0.lock().unwrap() == content(&from));
}

#[test]
fn streams_that_fail_or_do_not_fit_are_named() {
    let long = Box::new(Cursor::new(stamped(2 * MIB)));
    let error = linerate::import(long, &url("ram:1M"), CopyPlan::default(), Control::default()).unwrap_err();
    assert!(error.to_string().contains("longer than the 1048576 bytes of ram:1M"), "{error}");
    let error =
        linerate::import(Box::new(Broken(false)), &url("ram:1M"), CopyPlan::default(), Control::default());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("the copy failed: the stream cannot be read: the tape tore"), "{error}");
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let error = linerate::export(&url("ram:64M"), Box::new(writer), CopyPlan::default(), Control::default());
    assert!(error.unwrap_err().to_string().contains("the stream cannot be written"));
}

#[test]
fn a_job_that_is_stopped_says_how_far_it_came() {
    let (_from, source) = made(&stamped(8 * MIB));
    let (to, target) = made(&vec![0xee; 8 * MIB]);
    let stop = Stop::new();
    let wish = stop.clone();
    // It asks as soon as the first chunk is done; seven have not begun then.
    let control = Control { meter: Arc::new(move |_, _| wish.set()), stop };
    let plan = CopyPlan { effort: Effort { connections: 1, chunks: 1 }, ..CopyPlan::default() };
    let result = linerate::copy(&source, &target, plan, control).unwrap();
    assert!(result.stopped && result.bytes < 8 * MIB as u64, "{result:?}");
    let (bytes, copied) = (usize::try_from(result.bytes).unwrap(), content(&to));
    assert!(copied[..bytes] == stamped(8 * MIB)[..bytes], "what it says is there");
    assert!(copied[bytes..].iter().all(|&byte| byte == 0xee), "and nothing more");
}

#[test]
fn the_meter_reaches_the_end() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let meter = Arc::new(move |done, total| notes.lock().unwrap().push((done, total)));
    let control = Control { meter, stop: Stop::new() };
    linerate::copy(&url("null:3M"), &url("null:3M"), CopyPlan::default(), control).unwrap();
    let seen = seen.lock().unwrap();
    assert!(seen.is_sorted() && seen.last() == Some(&(3 * MIB as u64, Some(3 * MIB as u64))), "{seen:?}");
}

fn compared(one: &VolumeUrl, two: &VolumeUrl) -> CompareResult {
    let results = efforts().map(|effort| linerate::compare(one, two, effort, Control::default()).unwrap());
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
    results[0]
}

#[test]
fn differences_are_counted() {
    let bytes = stamped(3 * MIB);
    let (_one, first) = made(&bytes);
    let equal = compared(&first, &first);
    assert_eq!((equal.first, equal.differing, equal.runs, equal.bytes), (None, 0, 0, 3 * MIB as u64));
    let mut other = bytes.clone();
    // One byte, and a run across the border of two chunks.
    for at in [77].into_iter().chain(MIB - 3..MIB + 2) {
        other[at] ^= 0xff;
    }
    let (_two, second) = made(&other);
    let result = compared(&first, &second);
    assert_eq!((result.first, result.differing, result.runs), (Some(77), 6, 2));
}

#[test]
fn the_tail_of_the_longer_one_must_be_zeros() {
    let bytes = stamped(MIB + 512);
    let mut longer = bytes.clone();
    longer.resize(3 * MIB, 0);
    let ((_one, short), (_two, long)) = (made(&bytes), made(&longer));
    for (one, two) in [(&short, &long), (&long, &short)] {
        let result = compared(one, two);
        assert_eq!((result.first, result.bytes), (None, 3 * MIB as u64));
    }
    longer[2 * MIB] = 1;
    let (_three, long) = made(&longer);
    for (one, two) in [(&short, &long), (&long, &short)] {
        let result = compared(one, two);
        assert_eq!((result.first, result.differing), (Some(2 * MIB as u64), 1));
    }
}

#[test]
fn volumes_with_other_blocks_compare_too() {
    let mut bytes = stamped(512 * 9);
    let (_one, short) = made(&bytes);
    bytes.resize(8192, 0);
    let (_two, wide) = made(&bytes);
    let wide = url(&format!("{wide}?block=4096"));
    assert_eq!(compared(&short, &wide).first, None);
    assert_eq!(compared(&wide, &short).first, None);
}

#[test]
fn holes_compare_as_zeros() {
    let (from, source) = sparse();
    let (_to, target) = made(&content(&from));
    assert_eq!(compared(&source, &target).first, None);
    assert_eq!(compared(&target, &source).first, None);
    assert_eq!(compared(&source, &source).first, None);
    let mut other = content(&from);
    other[6 * MIB] = 1;
    let (_other, target) = made(&other);
    assert_eq!(compared(&source, &target).first, Some(6 * MIB as u64));
    assert_eq!(compared(&target, &source).first, Some(6 * MIB as u64));
}

fn sum(url: &VolumeUrl, plan: ChecksumPlan) -> String {
    linerate::checksum(url, plan, Control::default()).unwrap().digits
}

/// What the system's own tool says.
fn judged(bytes: &[u8]) -> String {
    let (folder, _url) = made(bytes);
    let output = std::process::Command::new("sha256sum").arg(folder.path().join("volume")).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().next().unwrap().to_owned()
}

#[test]
fn sums_are_those_of_the_systems_tool() {
    let (from, source) = sparse();
    let bytes = content(&from);
    for effort in efforts() {
        assert_eq!(sum(&source, ChecksumPlan { effort, ..ChecksumPlan::default() }), judged(&bytes));
        // Parts that begin and end anywhere: within a block, across chunks and holes.
        for (offset, length) in
            [(0, 1), (511, 2), (700, MIB), (MIB - 1, 4 * MIB + 3), (9 * MIB - 1, 1), (9 * MIB, 0)]
        {
            let plan = ChecksumPlan {
                offset: offset as u64,
                length: Some(length as u64),
                effort,
                ..ChecksumPlan::default()
            };
            assert_eq!(sum(&source, plan), judged(&bytes[offset..offset + length]), "{offset} {length}");
        }
    }
    let plan = ChecksumPlan { algorithm: Algorithm::Crc32c, ..ChecksumPlan::default() };
    assert_eq!(sum(&source, plan), format!("{:08x}", wire::crc32c(&bytes)));
}

#[test]
fn a_part_beyond_the_end_is_refused() {
    for (offset, length) in [(0, Some(MIB as u64 + 1)), (MIB as u64 + 1, None), (1, Some(u64::MAX))] {
        let plan = ChecksumPlan { offset, length, ..ChecksumPlan::default() };
        let error = linerate::checksum(&url("ram:1M"), plan, Control::default()).unwrap_err().to_string();
        assert!(error.contains("do not lie within it"), "{error}");
    }
}

#[test]
fn zeroing_zeroes_its_part_and_nothing_else() {
    let bytes = stamped(4 * MIB);
    for means in [Means::Zero, Means::Discard] {
        for (offset, length) in [(0, None), (512, Some(3 * MIB)), (MIB, Some(0))] {
            let (folder, volume) = made(&bytes);
            let plan = ZeroPlan {
                means,
                offset: offset as u64,
                length: length.map(|length| length as u64),
                ..ZeroPlan::default()
            };
            let result = linerate::zero(&volume, plan, Control::default()).unwrap();
            let mut expected = bytes.clone();
            let end = length.map_or(bytes.len(), |length| offset + length);
            expected[offset..end].fill(0);
            assert_eq!(result.bytes, (end - offset) as u64);
            assert!(content(&folder) == expected, "{plan:?}");
        }
    }
}

#[test]
fn zeroing_refuses_what_it_cannot_do() {
    let cases = [
        ("ram:1M", ZeroPlan { offset: 100, ..ZeroPlan::default() }, "multiples"),
        ("ram:1M", ZeroPlan { length: Some(2 << 20), ..ZeroPlan::default() }, "do not lie within it"),
        ("readonly+ram:1M", ZeroPlan::default(), "read-only"),
        ("fail=100%,on=zero+ram:1M", ZeroPlan::default(), "cannot be zeroed"),
    ];
    for (volume, plan, expected) in cases {
        let error = linerate::zero(&url(volume), plan, Control::default()).unwrap_err().to_string();
        assert!(error.contains(expected), "{volume}: {error}");
    }
}
