//! What a folder holds: large directories, sparse files, files without names, and what clients of one server see of each other.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

use filesystem::{
    Cookie, CookieVerifier, FileErrorKind, OpenAccess, Operation, Outcome, SeekWhat, SetAttributes,
    Stability, Target,
};

use crate::bench::Bench;

/// Entries of the large directory.
const ENTRIES: usize = 100_000;

#[test]
fn a_hundred_thousand_entries_are_listed_while_the_directory_changes() {
    let folder = tempfile::tempdir().unwrap();
    for index in 0..ENTRIES {
        fs::write(folder.path().join(format!("stays{index}")), "").unwrap();
    }
    let mut bench = Bench::serving(folder.path());
    let (mut cookie, mut verifier, mut pages) = (Cookie::START, CookieVerifier::default(), 0);
    let mut seen: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    loop {
        let directory = bench.root;
        let listing = Operation::ReadDirectory {
            directory,
            cookie,
            verifier,
            max_bytes: 32 << 10,
            with_objects: false,
        };
        let Outcome::Page(page) = bench.run(listing).unwrap() else { panic!("no page") };
        for entry in &page.entries {
            *seen.entry(entry.name.as_bytes().to_vec()).or_insert(0) += 1;
        }
        if page.eof {
            break;
        }
        (cookie, verifier, pages) = (page.entries.last().unwrap().cookie, page.verifier, pages + 1);
        for part in 0..20 {
            fs::write(folder.path().join(format!("comes{pages}-{part}")), "").unwrap();
        }
        if pages > 1 {
            for part in 0..20 {
                fs::remove_file(folder.path().join(format!("comes{}-{part}", pages - 1))).unwrap();
            }
        }
    }
    assert!(pages > 50, "{pages}");
    let stayed =
        (0..ENTRIES).filter(|index| seen.get(format!("stays{index}").as_bytes()) == Some(&1)).count();
    assert_eq!(stayed, ENTRIES);
    assert!(seen.values().all(|times| *times == 1));
}

#[test]
fn sparse_files_stay_sparse() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Bench::serving(folder.path());
    let file = bench.create(bench.root, "sparse").unwrap();
    let far = 1_u64 << 38;
    bench.write(file, far, b"far").unwrap();
    bench.run(Operation::Commit { file: file.into(), offset: 0, count: 0 }).unwrap();
    let stat = fs::metadata(folder.path().join("sparse")).unwrap();
    assert_eq!(stat.len(), far + 3);
    assert!(stat.blocks() * 512 < 1 << 20, "{} blocks", stat.blocks());
    assert_eq!(bench.read(file, far - 2, 100).unwrap(), b"\0\0far");
    match bench.run(Operation::Seek { file: file.into(), offset: 5, what: SeekWhat::Data }).unwrap() {
        Outcome::Sought { offset, eof: false } => {
            assert!(offset <= far && offset > far - (1 << 20), "{offset}");
        }
        other => panic!("{other:?}"),
    }
    match bench.run(Operation::Seek { file: file.into(), offset: 5, what: SeekWhat::Hole }).unwrap() {
        Outcome::Sought { offset: 5, eof: false } => {}
        other => panic!("{other:?}"),
    }
    bench.run(Operation::Deallocate { file: file.into(), offset: far, count: 1 << 20 }).unwrap();
    assert_eq!(bench.read(file, far, 10).unwrap(), b"\0\0\0");
}

#[test]
fn an_open_file_without_a_name_is_read_and_written_until_it_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Bench::serving(folder.path());
    let file = bench.create(bench.root, "file").unwrap();
    let Outcome::Opened { open, .. } = bench.run(Operation::Open { file, access: OpenAccess::BOTH }).unwrap()
    else {
        panic!("not open")
    };
    fs::remove_file(folder.path().join("file")).unwrap();
    let target = Target { file, open: Some(open) };
    for round in 0..20_u8 {
        let data = buf::SharedBuf::from(vec![round; 5_000]).into();
        let write = Operation::Write {
            file: target,
            offset: u64::from(round) * 5_000,
            data,
            stability: Stability::Unstable,
        };
        bench.run(write).unwrap();
    }
    bench.run(Operation::Commit { file: target, offset: 0, count: 0 }).unwrap();
    let read = Operation::Read { file: target, offset: 19 * 5_000, into: buf::Buf::zeroed(10_000) };
    match bench.run(read).unwrap() {
        Outcome::Data { data, eof: true, .. } => assert_eq!(data.into_one().to_vec(), [19; 5_000]),
        other => panic!("{other:?}"),
    }
    let Ok(Outcome::Attributes(attributes)) = bench.run(Operation::GetAttributes { object: target }) else {
        panic!("gone")
    };
    assert_eq!((attributes.numlinks, attributes.size), (0, 100_000));
    bench.run(Operation::Close { open }).unwrap();
    assert_eq!(
        bench.run(Operation::GetAttributes { object: file.into() }).unwrap_err(),
        FileErrorKind::Stale
    );
    assert_eq!(bench.system.statistics().open, 0);
}

#[test]
fn local_processes_and_clients_see_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let mut bench = Bench::serving(folder.path());
    let file = bench.create(bench.root, "file").unwrap();
    let local = fs::File::options().read(true).write(true).open(&path).unwrap();
    for round in 0..50_u8 {
        // The first write opens the file on a thread; the next go to it as it is open.
        bench.write(file, 0, &[round; 3_000]).unwrap();
        let mut bytes = [0; 3_000];
        local.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [round; 3_000]);
        local.write_all_at(&[round, round + 1], 2_999).unwrap();
        assert_eq!(bench.read(file, 2_998, 10).unwrap(), [round, round, round + 1]);
    }
    local.set_len(10).unwrap();
    assert_eq!(bench.read(file, 5, 100).unwrap().len(), 5);
    let set =
        Operation::SetAttributes { object: file.into(), guard: None, attributes: SetAttributes::size(3) };
    bench.run(set).unwrap();
    assert_eq!(local.metadata().unwrap().len(), 3);
    let looked = bench.lookup(bench.root, "file").unwrap();
    assert_eq!((looked.handle, looked.attributes.size), (file, 3));
}

#[test]
fn what_is_made_is_the_callers_and_has_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Bench::serving(folder.path());
    assert!(bench.system.features().contains(filesystem::Features::PERSISTENT_HANDLES));
    bench.create(bench.root, "file").unwrap();
    bench.make(bench.root, "directory", filesystem::NewObject::Directory).unwrap();
    let mode = |text: &str| fs::metadata(folder.path().join(text)).unwrap().mode() & 0o7777;
    assert_eq!((mode("file"), mode("directory")), (0o644, 0o755));
}
