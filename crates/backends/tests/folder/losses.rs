//! A medium that does not take what was written: the verifier moves, so that clients write again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use backends::{Folder, FolderMode};
use filesystem::{FileErrorKind, FileHandle, Operation, Outcome, WriteVerifier};
use host::VolumeState;
use protocol::SeededEntropy;
use reactor::SystemTree;

use crate::bench::{Answer, Bench};
use crate::poor_tree::PoorTree;

fn commit(bench: &mut Bench, file: FileHandle) -> Answer<WriteVerifier> {
    match bench.run(Operation::Commit { file: file.into(), offset: 0, count: 0 })? {
        Outcome::Committed { verifier, .. } => Ok(verifier),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_commit_that_fails_moves_the_verifier_once() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Arc::new(PoorTree::new(SystemTree::open(folder.path()).unwrap(), true));
    let state = VolumeState::ephemeral();
    let served =
        Folder::open(tree.clone(), FolderMode::ReadWrite, &state, &mut SeededEntropy::new(1)).unwrap();
    let mut bench = Bench::new(served);
    let (file, other) =
        (bench.create(bench.root, "file").unwrap(), bench.create(bench.root, "other").unwrap());
    let first = commit(&mut bench, file).unwrap();
    bench.write(file, 0, b"lost").unwrap();
    assert_eq!(bench.system.last_error(), None);
    tree.failing_flushes.store(1, Ordering::SeqCst);
    assert_eq!(commit(&mut bench, file), Err(FileErrorKind::Io));
    let told = bench.system.last_error().unwrap();
    assert!(told.contains("was not written back"), "{told}");
    // Whoever commits now, of whatever file, sees that something may be lost; and it is lost once.
    let second = commit(&mut bench, other).unwrap();
    assert_ne!(second, first);
    bench.write(file, 0, b"once more").unwrap();
    assert_eq!(commit(&mut bench, file), Ok(second));
}

#[test]
fn the_verifier_moves_with_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let state = VolumeState::ephemeral();
    let mut verifiers = Vec::new();
    for seed in 0..2 {
        let mut bench = Bench::new(crate::bench::serve(folder.path(), &state, seed).unwrap());
        let file = bench.create(bench.root, &format!("file{seed}")).unwrap();
        verifiers.push(commit(&mut bench, file).unwrap());
    }
    assert_ne!(verifiers[0], verifiers[1]);
}
