//! The contract on a folder.

use std::sync::Arc;

use filesystem::FileSystem;
use filesystem::contract::{self, Options};
use host::VolumeState;

use crate::bench::{may_serve, serve};

#[test]
fn a_folder_keeps_the_contract() {
    if !may_serve() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let system: Arc<dyn FileSystem> = Arc::new(serve(folder.path(), &VolumeState::ephemeral(), 1).unwrap());
    if let Err(violation) = contract::check(&system, &Options { entries: 400, ..Options::default() }) {
        panic!("{violation}");
    }
}
