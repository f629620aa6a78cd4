//! What a core does by itself, and when it asks again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backends::{Folder, FolderMode};
use filesystem::{Credentials, FileErrorKind, FileHandle, Operation, SetAttributes};
use host::VolumeState;
use protocol::SeededEntropy;
use reactor::SystemTree;

use crate::bench::Bench;
use crate::poor_tree::PoorTree;

/// Reads and writes that `act` has done on threads.
fn blocking(tree: &PoorTree, act: impl FnOnce()) -> u32 {
    let before = tree.blocking.load(Ordering::SeqCst);
    act();
    tree.blocking.load(Ordering::SeqCst) - before
}

fn set_mode(bench: &mut Bench, file: FileHandle, mode: u32) {
    let set =
        Operation::SetAttributes { object: file.into(), guard: None, attributes: SetAttributes::mode(mode) };
    bench.run(set).unwrap();
}

#[test]
fn what_is_known_to_be_open_needs_no_thread_until_something_changes() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Arc::new(PoorTree::new(SystemTree::open(folder.path()).unwrap(), true));
    let state = VolumeState::ephemeral();
    let served =
        Folder::open(tree.clone(), FolderMode::ReadWrite, &state, &mut SeededEntropy::new(1)).unwrap();
    let mut bench = Bench::new(served);
    let file = bench.create(bench.root, "file").unwrap();
    let rounds = |bench: &mut Bench| {
        for round in 0..20_u8 {
            bench.write(file, 0, &[round; 100]).unwrap();
            assert_eq!(bench.read(file, 0, 200).unwrap(), [round; 100]);
        }
    };
    // One of each opens the file.
    let first = blocking(&tree, || rounds(&mut bench));
    assert!((2..20).contains(&first), "{first}");
    set_mode(&mut bench, file, 0o600);
    let again = blocking(&tree, || rounds(&mut bench));
    assert!((2..20).contains(&again), "what was known is judged anew: {again}");
    assert_eq!(blocking(&tree, || rounds(&mut bench)), 0);
    // What local processes change counts a second later.
    bench.now = bench.now + Duration::from_secs(1);
    assert!(blocking(&tree, || rounds(&mut bench)) > 0);
}

#[test]
fn what_one_caller_may_another_may_not() {
    let folder = tempfile::tempdir().unwrap();
    let tree = SystemTree::open(folder.path()).unwrap();
    if !host::Tree::acts_for_others(&tree) {
        // Only root has callers to tell apart; the contract's other checks are for everybody.
        return;
    }
    let state = VolumeState::ephemeral();
    let served =
        Folder::open(Arc::new(tree), FolderMode::ReadWrite, &state, &mut SeededEntropy::new(1)).unwrap();
    let mut bench = Bench::new(served);
    let file = bench.create(bench.root, "file").unwrap();
    set_mode(&mut bench, file, 0o600);
    // The number that means "as it is" to the system names nobody, least of all the server.
    for (uid, gid) in [(u32::MAX, 4_000), (4_000, u32::MAX), (u32::MAX, u32::MAX), (u32::MAX, 0)] {
        bench.caller = Credentials::of(uid, gid);
        assert_eq!(bench.read(file, 0, 10).unwrap_err(), FileErrorKind::Access);
        assert_eq!(bench.create(bench.root, "new").unwrap_err(), FileErrorKind::Access);
    }
    bench.caller = Credentials::new(4_000, 4_000, &[u32::MAX]).unwrap();
    assert_eq!(bench.create(bench.root, "new").unwrap_err(), FileErrorKind::Access);
    bench.caller = Credentials::of(0, 0);
    for _ in 0..5 {
        bench.write(file, 0, b"roots").unwrap();
        bench.caller = Credentials::of(4_000, 4_000);
        assert_eq!(bench.read(file, 0, 10).unwrap_err(), FileErrorKind::Access);
        assert_eq!(bench.write(file, 0, b"mine").unwrap_err(), FileErrorKind::Access);
        bench.caller = Credentials::of(0, 0);
        assert_eq!(bench.read(file, 0, 10).unwrap(), b"roots");
    }
}
