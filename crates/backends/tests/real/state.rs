//! The state store in a real folder: what it keeps, what it refuses, and what it does with damage.

use std::fs;
use std::sync::Arc;

use backends::FolderState;
use host::{StateErrorKind, StateStore};
use reactor::SystemFolder;

fn open(folder: &tempfile::TempDir) -> FolderState {
    let path = folder.path().join("deep/state");
    FolderState::new(Arc::new(SystemFolder::new(&path)))
}

#[test]
fn records_outlive_the_store_and_are_replaced_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..3_u8 {
        let store = open(&folder);
        let before = round.checked_sub(1).map(|before| vec![before; 70]);
        assert_eq!(store.read("disk", "identity").unwrap(), before);
        assert_eq!(store.read("disk", "other").unwrap(), None);
        store.write("disk", "identity", &[9; 300]).unwrap();
        store.write("disk", "identity", &[round; 70]).unwrap();
        store.write("disk2", "other", &[round]).unwrap();
        assert_eq!(store.read("disk", "identity").unwrap(), Some(vec![round; 70]));
        store.remove("disk2", "other").unwrap();
        store.remove("disk2", "other").unwrap();
        assert_eq!(store.read("disk2", "other").unwrap(), None);
    }
}

#[test]
fn a_volume_has_one_process_and_other_volumes_are_free() {
    let folder = tempfile::tempdir().unwrap();
    let one = open(&folder);
    one.write("disk", "identity", b"1").unwrap();
    let two = open(&folder);
    for error in [two.read("disk", "identity").unwrap_err(), two.write("disk", "x", b"").unwrap_err()] {
        assert_eq!(error.kind, StateErrorKind::InUse);
        assert!(error.to_string().contains("deep/state/disk is in use"), "{error}");
    }
    assert_eq!(two.read("disk2", "identity"), Ok(None));
    drop(one);
    assert_eq!(two.read("disk", "identity"), Ok(Some(b"1".to_vec())));
}

#[test]
fn a_volume_that_is_released_is_another_process_s_and_can_be_taken_again() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (open(&folder), open(&folder));
    one.write("disk", "identity", b"1").unwrap();
    one.write("disk2", "identity", b"2").unwrap();
    one.release("disk");
    one.release("never");
    assert_eq!(two.read("disk", "identity"), Ok(Some(b"1".to_vec())));
    assert_eq!(two.read("disk2", "identity").unwrap_err().kind, StateErrorKind::InUse, "it alone");
    assert_eq!(one.read("disk", "identity").unwrap_err().kind, StateErrorKind::InUse);
    two.release("disk");
    assert_eq!(one.read("disk", "identity"), Ok(Some(b"1".to_vec())));
}

#[test]
fn damage_is_an_error_that_names_the_file_and_writing_mends_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    assert_eq!(store.read("disk", "identity"), Ok(None));
    assert_eq!(store.remove("disk", "identity"), Ok(()));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "looking makes nothing");
    store.write("disk", "identity", b"what was written").unwrap();
    let path = folder.path().join("deep/state/disk/identity");
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for damage in [&[][..], &whole[..5], &whole[..whole.len() - 1], &flipped, b"something else"] {
        fs::write(&path, damage).unwrap();
        let error = store.read("disk", "identity").unwrap_err();
        assert!(matches!(error.kind, StateErrorKind::Damaged(_)), "{error:?}");
        assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
    }
    fs::write(&path, vec![7; 3 << 20]).unwrap();
    assert!(store.read("disk", "identity").is_err());
    store.write("disk", "identity", b"again").unwrap();
    assert_eq!(store.read("disk", "identity"), Ok(Some(b"again".to_vec())));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let error = store.read("disk", "identity").unwrap_err();
    assert!(matches!(error.kind, StateErrorKind::Io(_)), "a folder is no record that is absent: {error:?}");
}

#[test]
fn what_cannot_be_named_or_is_too_long_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let long = "a".repeat(129);
    assert_eq!(store.write("disk", "identity.new", b"").unwrap_err().kind, StateErrorKind::Name);
    assert_eq!(store.write("disk.new", "identity", b""), Ok(()));
    for name in ["", ".", "..", "a/b", "A", "a b", ".lock", &long] {
        assert_eq!(store.write("disk", name, b"").unwrap_err().kind, StateErrorKind::Name, "{name:?}");
        assert_eq!(store.read(name, "identity").unwrap_err().kind, StateErrorKind::Name, "{name:?}");
    }
    store.write("disk", "map", &vec![1; 1 << 20]).unwrap();
    let kind = StateErrorKind::TooLong { len: (1 << 20) + 1, most: 1 << 20 };
    assert_eq!(store.write("disk", "map", &vec![2; (1 << 20) + 1]).unwrap_err().kind, kind);
    assert_eq!(store.read("disk", "map").unwrap(), Some(vec![1; 1 << 20]));
}

#[test]
fn a_folder_that_cannot_be_made_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let store = FolderState::new(Arc::new(SystemFolder::new(&folder.path().join("file/state"))));
    let error = store.write("disk", "identity", b"").unwrap_err();
    assert!(matches!(error.kind, StateErrorKind::Io(_)), "{error:?}");
    assert!(error.to_string().contains("file/state"), "{error}");
}
