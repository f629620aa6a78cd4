//! Split virtqueues (VIRTIO 1.2 §2.7): a table of descriptors, a ring of buffers that the driver makes available, and a ring of those that the device has used.

mod device;
mod driver;
mod layout;
#[cfg(test)]
mod tests;

pub use device::SplitDevice;
pub use driver::SplitDriver;
pub use layout::{SplitAreas, SplitLayout};
