//! Packed virtqueues (VIRTIO 1.2 §2.8): one ring of descriptors, which both sides write. A descriptor's two flags say, by the count of rounds, whose it is.

mod device;
mod driver;
mod layout;
#[cfg(test)]
mod tests;

pub use device::PackedDevice;
pub use driver::PackedDriver;
pub use layout::PackedLayout;
pub(crate) use layout::Place;
