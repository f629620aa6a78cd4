//! What Linux' ublk driver and its servers say to each other (Linux, `include/uapi/linux/ublk_cmd.h`; `Documentation/block/ublk.rst`).

use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes for a command in a long entry of a ring.
pub(crate) const CONTROL_BYTES: usize = 80;

/// Bytes from one queue's descriptors to the next's: room for 4096, whatever the depth.
pub(crate) const DESCRIPTORS_OF_A_QUEUE: u64 = 4096 * size_of::<Descriptor>() as u64;

/// A command's number as the driver wants it: an ioctl's, with its direction, the size of its argument and the letter `u`.
const fn number(direction: u32, size: u32, number: u32) -> u32 {
    direction << 30 | size << 16 | (b'u' as u32) << 8 | number
}

const fn reading(command: u32) -> u32 {
    number(2, 32, command)
}

const fn changing(command: u32) -> u32 {
    number(3, 32, command)
}

pub(crate) const GET_DEV_INFO: u32 = reading(0x02);
pub(crate) const ADD_DEV: u32 = changing(0x04);
pub(crate) const DEL_DEV: u32 = changing(0x05);
pub(crate) const START_DEV: u32 = changing(0x06);
pub(crate) const STOP_DEV: u32 = changing(0x07);
pub(crate) const SET_PARAMS: u32 = changing(0x08);
pub(crate) const GET_PARAMS: u32 = reading(0x09);
pub(crate) const START_USER_RECOVERY: u32 = changing(0x10);
pub(crate) const END_USER_RECOVERY: u32 = changing(0x11);
pub(crate) const GET_FEATURES: u32 = reading(0x13);
pub(crate) const FETCH: u32 = number(3, 16, 0x20);
pub(crate) const COMMIT_AND_FETCH: u32 = number(3, 16, 0x21);

bitflags! {
    /// What the driver can do, and what is asked of it for a device.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Flags: u64 {
        /// When the server dies the device waits for another one.
        const USER_RECOVERY = 1 << 3;
        /// Requests that the dead server had are handed out again.
        const USER_RECOVERY_REISSUE = 1 << 4;
        /// Commands have an ioctl's numbers.
        const IOCTL_ENCODE = 1 << 6;
        /// The server copies a request's data by `pread` and `pwrite` on the device.
        const USER_COPY = 1 << 7;
    }
}

/// All that this adapter needs.
pub(crate) const NEEDED: Flags = Flags::USER_RECOVERY
    .union(Flags::USER_RECOVERY_REISSUE)
    .union(Flags::IOCTL_ENCODE)
    .union(Flags::USER_COPY);

/// A control command.
#[derive(Debug, Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct ControlCommand {
    pub(crate) device: u32,
    /// All ones unless the command is for one queue.
    pub(crate) queue: u16,
    pub(crate) len: u16,
    pub(crate) address: u64,
    pub(crate) data: u64,
    pub(crate) reserved: u64,
}

const _: () = assert!(size_of::<ControlCommand>() == 32, "the kernel's size");

impl ControlCommand {
    /// A command for a device, with a number of its own.
    pub(crate) const fn new(device: u32, data: u64) -> Self {
        Self { device, queue: u16::MAX, len: 0, address: 0, data, reserved: 0 }
    }
}

/// The states of a device.
pub(crate) const QUIESCED: u16 = 2;

/// What the driver keeps about a device.
#[derive(Debug, Clone, Copy, Default, IntoBytes, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct DeviceInfo {
    pub(crate) queues: u16,
    pub(crate) depth: u16,
    pub(crate) state: u16,
    pub(crate) pad: u16,
    /// Bytes in one request at most.
    pub(crate) longest: u32,
    pub(crate) device: u32,
    pub(crate) server: i32,
    pub(crate) pad_2: u32,
    pub(crate) flags: u64,
    /// The driver keeps this for its server and does not look at it: a mark of the volume.
    pub(crate) mark: u64,
    pub(crate) owner: u64,
    pub(crate) reserved: [u64; 2],
}

const _: () = assert!(size_of::<DeviceInfo>() == 64, "the kernel's size");

bitflags! {
    /// Properties of a device.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Attributes: u32 {
        const READ_ONLY = 1 << 0;
        const VOLATILE_CACHE = 1 << 2;
        const FUA = 1 << 3;
    }
}

/// Which parameters there are: the basic ones, and those of discards.
pub(crate) const BASIC_AND_DISCARD: u32 = 0b11;

/// A device's parameters. Sectors have 512 bytes; shifts are powers of two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Parameters {
    pub(crate) len: u32,
    pub(crate) types: u32,
    pub(crate) attributes: u32,
    pub(crate) logical_shift: u8,
    pub(crate) physical_shift: u8,
    pub(crate) optimal_shift: u8,
    pub(crate) minimum_shift: u8,
    pub(crate) max_sectors: u32,
    pub(crate) chunk_sectors: u32,
    pub(crate) sectors: u64,
    pub(crate) boundary: u64,
    pub(crate) discard_alignment: u32,
    /// In bytes.
    pub(crate) discard_granularity: u32,
    pub(crate) max_discard: u32,
    pub(crate) max_zeroes: u32,
    pub(crate) segments: u16,
    pub(crate) reserved: u16,
    pub(crate) pad: u32,
}

const _: () = assert!(size_of::<Parameters>() == 64, "the kernel's size");

/// A command to a queue.
#[derive(Debug, Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct IoCommand {
    pub(crate) queue: u16,
    pub(crate) tag: u16,
    pub(crate) result: i32,
    pub(crate) address: u64,
}

/// A queue of a device, with its number of tags.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueSize {
    pub(crate) queue: u16,
    pub(crate) depth: u16,
}

/// A request.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Descriptor {
    /// The operation in the lowest byte, flags above.
    pub(crate) operation: u32,
    pub(crate) sectors: u32,
    pub(crate) start: u64,
    pub(crate) address: u64,
}

const _: () = assert!(size_of::<Descriptor>() == 24, "the kernel's size");

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Read,
    Write { fua: bool },
    Flush,
    Discard,
    WriteZeroes { unmap: bool },
}

impl Descriptor {
    /// What it asks for; `None` for what was not reported to the driver as supported.
    pub(crate) const fn ask(&self) -> Option<Ask> {
        Some(match self.operation & 0xff {
            0 => Ask::Read,
            1 => Ask::Write { fua: self.operation & 1 << 13 != 0 },
            2 => Ask::Flush,
            3 => Ask::Discard,
            5 => Ask::WriteZeroes { unmap: self.operation & 1 << 15 == 0 },
            _ => return None,
        })
    }
}

/// Where a request's data is in the device, for `pread` and `pwrite`.
pub(crate) fn data_offset(queue: u16, tag: u16) -> u64 {
    0x8000_0000 + (u64::from(queue) << 41) + (u64::from(tag) << 25)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_kernels_numbers() {
        // What the C preprocessor makes of the header's definitions.
        assert_eq!((ADD_DEV, GET_FEATURES), (0xc020_7504, 0x8020_7513));
        assert_eq!((FETCH, COMMIT_AND_FETCH), (0xc010_7520, 0xc010_7521));
    }

    #[test]
    fn requests_are_read() {
        let of = |operation| Descriptor { operation, sectors: 8, start: 0, address: 0 }.ask();
        assert_eq!(of(0), Some(Ask::Read));
        assert_eq!(of(1 | 1 << 13), Some(Ask::Write { fua: true }));
        assert_eq!(of(1 | 1 << 8), Some(Ask::Write { fua: false }), "fail fast is no FUA");
        assert_eq!(of(5 | 1 << 15), Some(Ask::WriteZeroes { unmap: false }));
        assert_eq!((of(3), of(2), of(4)), (Some(Ask::Discard), Some(Ask::Flush), None));
    }

    #[test]
    fn each_tag_has_a_place_of_its_own() {
        assert_eq!(data_offset(0, 0), 0x8000_0000);
        assert_eq!(data_offset(0, 1) - data_offset(0, 0), 32 << 20);
        assert!(data_offset(1, 0) > data_offset(0, u16::MAX));
    }
}
