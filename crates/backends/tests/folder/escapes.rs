//! Nothing leads out of a folder: no name, no link, no directory that local processes move about, no handle that was made up.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use filesystem::{FileErrorKind, FileHandle, FileSystem, NewObject, OpenAccess, Operation, Outcome};
use host::{Tree, VolumeState};
use reactor::SystemTree;
use tempfile::TempDir;

use backends::Folder;

use crate::bench::{Answer, Bench, serve, serve_as_user};

/// A folder that is served, beside what must not be seen.
struct World {
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("served")).unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        fs::write(folder.path().join("outside/secret"), "secret").unwrap();
        Self { folder }
    }

    fn served(&self) -> std::path::PathBuf {
        self.folder.path().join("served")
    }

    fn outside(&self) -> std::path::PathBuf {
        self.folder.path().join("outside")
    }
}

#[test]
fn links_lead_nowhere() {
    let world = World::new();
    let outside = world.outside();
    for (name, target) in
        [("up", Path::new("..")), ("absolute", &outside), ("far", Path::new("../outside/secret"))]
    {
        symlink(target, world.served().join(name)).unwrap();
    }
    symlink("/proc/self/root", world.served().join("magic")).unwrap();
    let mut bench = Bench::serving(&world.served());
    for link in ["up", "absolute", "far", "magic"] {
        let found = bench.lookup(bench.root, link).unwrap();
        assert_eq!(found.attributes.file_type, filesystem::FileType::SymbolicLink);
        for entry in ["secret", "outside", "etc"] {
            assert_eq!(bench.lookup(found.handle, entry).unwrap_err(), FileErrorKind::NotDirectory);
        }
        let open = Operation::Open { file: found.handle, access: OpenAccess::READ };
        assert_eq!(bench.run(open).unwrap_err(), FileErrorKind::SymbolicLink);
        assert_eq!(bench.read(found.handle, 0, 10).unwrap_err(), FileErrorKind::SymbolicLink);
        assert_eq!(bench.write(found.handle, 0, b"x").unwrap_err(), FileErrorKind::SymbolicLink);
        assert_eq!(bench.create(found.handle, "new").unwrap_err(), FileErrorKind::NotDirectory);
        assert_eq!(bench.create(bench.root, link).unwrap_err(), FileErrorKind::Exists);
    }
    assert_eq!(fs::read(outside.join("secret")).unwrap(), b"secret");
    let above = Operation::LookupParent { directory: bench.root };
    assert_eq!(bench.run(above).unwrap_err(), FileErrorKind::NoEntry);
}

#[test]
fn a_directory_that_is_moved_out_is_gone() {
    let world = World::new();
    let mut bench = Bench::serving(&world.served());
    let directory = bench.make(bench.root, "directory", NewObject::Directory).unwrap();
    let inner = bench.make(directory, "inner", NewObject::Directory).unwrap();
    fs::rename(world.served().join("directory"), world.outside().join("directory")).unwrap();
    for gone in [directory, inner] {
        assert_eq!(bench.lookup(gone, "x").unwrap_err(), FileErrorKind::Stale);
        assert_eq!(bench.create(gone, "x").unwrap_err(), FileErrorKind::Stale);
        let above = Operation::LookupParent { directory: gone };
        assert_eq!(bench.run(above).unwrap_err(), FileErrorKind::Stale);
    }
    assert_eq!(fs::read_dir(world.outside().join("directory/inner")).unwrap().count(), 0);
    // Whoever moves it back finds it served again.
    fs::rename(world.outside().join("directory"), world.served().join("back")).unwrap();
    assert_eq!(bench.lookup(bench.root, "back").unwrap().handle, directory);
    bench.create(inner, "x").unwrap();
}

/// What a kernel handle outside looks like, with the code of a handle that was given out.
fn forge(outside: &Path, given: FileHandle) -> FileHandle {
    let tree = SystemTree::open(outside).unwrap();
    let secret = tree.find(&tree.root(), b"secret").unwrap();
    let kernel = tree.kernel_handle(&secret).unwrap();
    let bytes = given.as_bytes();
    let code = &bytes[bytes.len() - 16..];
    FileHandle::new(&[&kernel.kind.to_be_bytes()[..], &kernel.bytes, code].concat()).unwrap()
}

type Serve = fn(&Path, &VolumeState, u64) -> Folder;
/// Both ways of making handles.
const WAYS: [Serve; 2] = [|path, state, seed| serve(path, state, seed).unwrap(), serve_as_user];

#[test]
fn handles_of_what_is_outside_are_refused() {
    for serve in WAYS {
        let world = World::new();
        let mut bench = Bench::new(serve(&world.served(), &VolumeState::ephemeral(), 1));
        let inside = bench.create(bench.root, "file").unwrap();
        let forged = forge(&world.outside(), inside);
        let mut other = Bench::new(serve(&world.outside(), &VolumeState::ephemeral(), 2));
        let foreign = other.lookup(other.root, "secret").unwrap().handle;
        for handle in [forged, foreign, other.root] {
            let get = Operation::GetAttributes { object: handle.into() };
            assert_eq!(bench.run(get).unwrap_err(), FileErrorKind::BadHandle);
            assert_eq!(bench.read(handle, 0, 10).unwrap_err(), FileErrorKind::BadHandle);
        }
        // The directory above, under this server's own key, is refused as it lies outside.
        let state = VolumeState::ephemeral();
        let wide = Bench::new(serve(world.folder.path(), &state, 3));
        let mut narrow = Bench::new(serve(&world.served(), &state, 3));
        assert_eq!(narrow.lookup(wide.root, "outside").unwrap_err(), FileErrorKind::Stale);
    }
}

/// Swaps a directory for a link that leads outside and back, as fast as it can.
fn swap(served: &Path, outside: &Path, ends: &AtomicBool) -> u64 {
    let (door, aside, link) = (served.join("door"), served.join("aside"), served.join("link"));
    let mut times = 0;
    while !ends.load(Ordering::Relaxed) {
        symlink(outside, &link).unwrap();
        fs::rename(&door, &aside).unwrap();
        fs::rename(&link, &door).unwrap();
        fs::remove_file(&door).unwrap();
        fs::rename(&aside, &door).unwrap();
        times += 1;
    }
    times
}

/// Walks through the door, and does there what a client may.
fn walk(bench: &mut Bench, round: u32) -> Answer<()> {
    let door = bench.lookup(bench.root, "door")?.handle;
    if let Ok(found) = bench.lookup(door, "secret") {
        panic!("{found:?} was found through the door");
    }
    let text = format!("file{}", round % 4);
    match bench.create(door, &text) {
        Ok(file) => {
            bench.write(file, 0, b"inside")?;
            bench.remove(door, &text)
        }
        Err(FileErrorKind::Exists) => bench.remove(door, &text),
        Err(kind) => Err(kind),
    }
}

#[test]
fn a_directory_that_becomes_a_link_meanwhile_leads_nowhere() {
    for serve in WAYS {
        walk_while_the_door_is_swapped(serve);
    }
}

fn walk_while_the_door_is_swapped(serve: Serve) {
    let world = World::new();
    let (served, outside) = (world.served(), world.outside());
    fs::create_dir(served.join("door")).unwrap();
    let before = fs::metadata(&outside).unwrap();
    let mut bench = Bench::new(serve(&served, &VolumeState::ephemeral(), 1));
    let ends = Arc::new(AtomicBool::new(false));
    let times = std::thread::scope(|scope| {
        let swapping = scope.spawn(|| swap(&served, &outside, &ends));
        for round in 0..1_000 {
            // Most are told that the door is gone, or is a link; that is as good as passing through.
            let _ = walk(&mut bench, round);
        }
        ends.store(true, Ordering::Relaxed);
        swapping.join().unwrap()
    });
    // Once it stands still, it is a door again.
    let left = bench.lookup(bench.root, "door").unwrap().handle;
    for index in 0..4 {
        let _ = bench.remove(left, &format!("file{index}"));
    }
    walk(&mut bench, 0).unwrap();
    assert!(times > 10, "{times}");
    let names: Vec<_> = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["secret"]);
    let after = fs::metadata(&outside).unwrap();
    assert_eq!(
        (after.mtime(), after.mtime_nsec()),
        (before.mtime(), before.mtime_nsec()),
        "something was there for a while"
    );
}

#[test]
fn handles_outlive_the_server_and_end_with_the_object() {
    for serve in WAYS {
        let folder = tempfile::tempdir().unwrap();
        let state = VolumeState::ephemeral();
        let mut first = Bench::new(serve(folder.path(), &state, 1));
        let root = first.root;
        let directory = first.make(root, "directory", NewObject::Directory).unwrap();
        let (file, gone) =
            (first.create(directory, "file").unwrap(), first.create(directory, "gone").unwrap());
        first.write(file, 0, b"kept").unwrap();
        first.rename(root, "directory", "moved").unwrap();
        let fsid = first.system.identity().fsid;
        drop(first);
        fs::remove_file(folder.path().join("moved/gone")).unwrap();
        // Another process, with other entropy and the same state.
        let mut second = Bench::new(serve(folder.path(), &state, 99));
        assert_eq!((second.root, second.system.identity().fsid), (root, fsid));
        assert_eq!(second.read(file, 0, 10).unwrap(), b"kept");
        let get = Operation::GetAttributes { object: gone.into() };
        assert_eq!(second.run(get).unwrap_err(), FileErrorKind::Stale);
        // What a local process moves keeps its handle, for whoever looks it up where it is.
        fs::rename(folder.path().join("moved/file"), folder.path().join("elsewhere")).unwrap();
        assert_eq!(second.lookup(root, "elsewhere").unwrap().handle, file);
        assert_eq!(second.read(file, 0, 10).unwrap(), b"kept");
        // With another key nothing is known.
        let mut third = Bench::new(serve(folder.path(), &VolumeState::ephemeral(), 5));
        assert_eq!(third.read(file, 0, 10).unwrap_err(), FileErrorKind::BadHandle);
    }
}

#[test]
fn state_that_is_damaged_and_folders_that_are_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    assert!(SystemTree::open(&folder.path().join("file")).is_err());
    assert!(SystemTree::open(&folder.path().join("missing")).is_err());
    let state = VolumeState::ephemeral();
    state.write("handles", &[1; 47]).unwrap();
    let refused = serve(folder.path(), &state, 1).unwrap_err().to_string();
    assert!(refused.contains("47 bytes"), "{refused}");
}

#[test]
fn what_is_only_read_takes_no_changes() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "content").unwrap();
    let tree = Arc::new(SystemTree::open(folder.path()).unwrap());
    let state = VolumeState::ephemeral();
    let mode = backends::FolderMode::ReadOnly;
    let served = backends::Folder::open(tree, mode, &state, &mut protocol::SeededEntropy::new(1)).unwrap();
    assert!(served.features().contains(filesystem::Features::READ_ONLY));
    let mut bench = Bench::new(served);
    let file = bench.lookup(bench.root, "file").unwrap().handle;
    assert_eq!(bench.read(file, 0, 10).unwrap(), b"content");
    assert_eq!(bench.write(file, 0, b"x").unwrap_err(), FileErrorKind::ReadOnly);
    assert_eq!(bench.create(bench.root, "new").unwrap_err(), FileErrorKind::ReadOnly);
    assert_eq!(bench.remove(bench.root, "file").unwrap_err(), FileErrorKind::ReadOnly);
    assert!(matches!(bench.run(Operation::GetSpace), Ok(Outcome::Space(_))));
}
