//! Listings with what entries lead to, which is seen at a glance where nobody changes the directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backends::{Folder, FolderMode};
use filesystem::{Cookie, CookieVerifier, EntryObject, Operation, Outcome};
use host::{Tree, VolumeState};
use protocol::SeededEntropy;
use reactor::SystemTree;

use crate::bench::Bench;
use crate::poor_tree::PoorTree;

/// Serves a folder with two files of different sizes, once its last change is older than the clock's tick.
fn two_files(folder: &Path) -> (Arc<PoorTree>, Bench) {
    fs::write(folder.join("one"), "1").unwrap();
    fs::write(folder.join("two"), "22").unwrap();
    let tree = Arc::new(PoorTree::new(SystemTree::open(folder).unwrap(), true));
    while tree.stamp().unwrap() <= tree.stat(&tree.root()).unwrap().changed {
        std::thread::sleep(Duration::from_millis(1));
    }
    let state = VolumeState::ephemeral();
    let served =
        Folder::open(tree.clone(), FolderMode::ReadWrite, &state, &mut SeededEntropy::new(1)).unwrap();
    (tree, Bench::new(served))
}

/// True if the kernel's handles may be used here, without which nothing is seen at a glance.
fn has_kernel_handles(tree: &PoorTree) -> bool {
    let handle = tree.kernel_handle(&tree.root());
    handle.is_ok_and(|handle| tree.open_kernel_handle(&handle).is_ok())
}

/// Lists the folder; what is said of each entry must be of the object that it says.
fn list(bench: &mut Bench) -> BTreeMap<Vec<u8>, EntryObject> {
    let listing = Operation::ReadDirectory {
        directory: bench.root,
        cookie: Cookie::START,
        verifier: CookieVerifier::default(),
        max_bytes: 4096,
        with_objects: true,
    };
    let Outcome::Page(page) = bench.run(listing).unwrap() else { panic!("no page") };
    assert!(page.eof);
    let listed: BTreeMap<_, _> = page
        .entries
        .iter()
        .filter_map(|entry| Some((entry.name.as_bytes().to_vec(), entry.object?)))
        .collect();
    for (name, object) in &listed {
        let asked = Operation::GetAttributes { object: object.handle.into() };
        let Outcome::Attributes(attributes) = bench.run(asked).unwrap() else { panic!("no attributes") };
        let of = |all: &filesystem::Attributes| (all.fileid, all.size);
        assert_eq!(of(&attributes), of(&object.attributes), "{}", name.escape_ascii());
    }
    listed
}

#[test]
fn what_does_not_change_is_seen_at_a_glance() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, mut bench) = two_files(folder.path());
    let listed = list(&mut bench);
    assert_eq!(listed.len(), 2);
    for (name, object) in &listed {
        let found = bench.lookup(bench.root, std::str::from_utf8(name).unwrap()).unwrap();
        assert_eq!((found.handle, found.attributes), (object.handle, object.attributes));
    }
    let expected = if has_kernel_handles(&tree) { 2 } else { 0 };
    assert_eq!(tree.glances.load(Ordering::SeqCst), expected);
}

#[test]
fn a_name_that_leads_elsewhere_between_two_looks_is_looked_up_again() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, mut bench) = two_files(folder.path());
    *tree.rename_between.lock().unwrap() = Some(["two", "one"].map(|name| folder.path().join(name)));
    let listed = list(&mut bench);
    if has_kernel_handles(&tree) {
        assert!(tree.rename_between.lock().unwrap().is_none(), "it came between");
        assert_eq!(listed.keys().map(Vec::as_slice).collect::<Vec<_>>(), [b"one"]);
    }
}
