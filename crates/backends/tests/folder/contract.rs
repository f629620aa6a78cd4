//! The contract on a folder, as root and as any other user.

use std::sync::Arc;

use filesystem::contract::{self, Options};
use filesystem::{Features, FileSystem};
use host::VolumeState;

use reactor::Driver;

use crate::bench::{serve, serve_as_user};
use crate::bridge::Bridge;

fn assert_keeps(system: &Arc<dyn FileSystem>) {
    if let Err(violation) = contract::check(system, &Options { entries: 400, ..Options::default() }) {
        panic!("{violation}");
    }
}

#[test]
fn a_folder_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let system: Arc<dyn FileSystem> = Arc::new(serve(folder.path(), &VolumeState::ephemeral(), 1).unwrap());
    assert_keeps(&system);
}

#[test]
fn a_folder_of_a_server_that_is_not_root_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve_as_user(folder.path(), &VolumeState::ephemeral(), 1);
    assert!(!served.features().intersects(Features::CALLER_IDENTITY | Features::DEVICES));
    let system: Arc<dyn FileSystem> = Arc::new(served);
    assert_keeps(&system);
}

fn assert_keeps_on_cores(driver: Driver) {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), &VolumeState::ephemeral(), 1).unwrap();
    let bridge: Arc<dyn FileSystem> = Arc::new(Bridge::new(Arc::new(served), driver));
    assert_keeps(&bridge);
}

#[test]
fn a_folder_on_cores_with_epoll_keeps_the_contract() {
    assert_keeps_on_cores(Driver::Epoll);
}

#[test]
fn a_folder_on_cores_with_the_best_driver_that_the_kernel_allows_keeps_the_contract() {
    assert_keeps_on_cores(Driver::Auto);
}
