//! The protocols without the standard library: a static library whose panic handler and allocator are its own.
//!
//! `#![no_std]` in a crate says nothing of the crates that it imports. Here all of them are linked beside a panic handler, of which a program has
//! one: as soon as any of them brings in the standard library, which has its own, the build fails. `cargo xtask purity` builds this under the profile
//! `purity`, which aborts on a panic; in every other build the crate is an empty library, so that the workspace can be built and linted whole.
#![cfg_attr(panic = "abort", no_std)]

#[cfg(all(panic = "abort", feature = "planted"))]
extern crate std;

#[cfg(panic = "abort")]
mod world;

/// What is linked: layer 2, and what of layer 1 its users need beside it.
#[cfg(panic = "abort")]
mod linked {
    use {filesystem as _, iscsi as _, iwarp as _, nfs as _, nvme as _, roce as _, rpc as _};
    use {scsi as _, verbs as _, virtio as _, volume as _};
}
