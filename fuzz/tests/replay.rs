//! Replays every corpus: what once broke a target must not break it again.

use std::path::Path;

#[test]
fn every_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in fuzz::TARGETS {
        let folder =
            std::fs::read_dir(corpus.join(name)).unwrap_or_else(|error| panic!("corpus/{name}: {error}"));
        let mut files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(!files.is_empty(), "corpus/{name} is empty");
        for file in files {
            let bytes = std::fs::read(&file).unwrap();
            let broke = std::panic::catch_unwind(|| target(&bytes)).is_err();
            assert!(!broke, "{name} is broken by {}", file.display());
        }
    }
}

#[test]
fn every_corpus_has_its_target() {
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(fuzz::target(&name).is_some(), "corpus/{name} belongs to no target");
    }
}
