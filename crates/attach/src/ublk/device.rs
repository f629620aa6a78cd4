//! A ublk device: made, started, taken over from a server that died, stopped, removed.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use linerate::Disk;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use volume::Features;
use zerocopy::IntoBytes;

use super::limits::{DEPTH, LOOK, QUIESCE, RANGE, REQUESTS, TRANSFER};
use super::wire::{self, Attributes, ControlCommand, DeviceInfo, Flags, NEEDED, Parameters, QUIESCED};
use crate::sys::Control;

/// In place of a device's number: the kernel chooses one, or the command is about no device.
const NO_NUMBER: u32 = u32::MAX;
/// Where the driver takes its commands.
const CONTROL: &str = "/dev/ublk-control";

/// The driver's control device.
pub(crate) struct Driver {
    control: Control,
}

impl Driver {
    /// Opens it, and sees that the driver can do what is needed.
    pub(crate) fn open() -> Result<Self> {
        let device = OpenOptions::new().read(true).write(true).open(CONTROL).map_err(|error| match error.kind() {
            ErrorKind::NotFound => anyhow!(
                "there is no {CONTROL}: ublk needs Linux 6.5 or later with the module ublk_drv; load it with `modprobe ublk_drv`"
            ),
            ErrorKind::PermissionDenied => {
                anyhow!("{CONTROL} may not be opened: ublk devices are made by root, or by whom an udev rule lets")
            }
            _ => anyhow!("{CONTROL} cannot be opened: {error}"),
        })?;
        let control = Control::new(device).map_err(|error| {
            anyhow!(
                "ublk needs io_uring, which is not allowed here ({error}): see /proc/sys/kernel/io_uring_disabled, and the \
                 container's seccomp profile"
            )
        })?;
        let mut driver = Self { control };
        let mut features = [0; 8];
        driver.run(wire::GET_FEATURES, ControlCommand::new(NO_NUMBER, 0), &mut features).map_err(|error| {
            anyhow!("the kernel's ublk driver does not tell what it can do ({error}): Linux 6.5 or later is needed")
        })?;
        let missing = NEEDED - Flags::from_bits_truncate(u64::from_ne_bytes(features));
        if !missing.is_empty() {
            bail!("the kernel's ublk driver lacks {missing:?}: Linux 6.5 or later is needed");
        }
        Ok(driver)
    }

    fn run(&mut self, operation: u32, command: ControlCommand, buffer: &mut [u8]) -> io::Result<()> {
        self.control.run(operation, command, buffer)
    }

    /// Makes the device with this number, or with any if there is none; or takes over the one that a dead server has left.
    pub(crate) fn prepare(&mut self, number: Option<u32>, wanted: &Wanted) -> Result<Device> {
        let mut info = DeviceInfo {
            queues: wanted.queues,
            depth: depth(wanted.queues),
            longest: wanted.parameters.max_sectors << 9,
            device: number.unwrap_or(NO_NUMBER),
            flags: NEEDED.bits(),
            mark: wanted.mark,
            ..DeviceInfo::default()
        };
        match self.run(wire::ADD_DEV, ControlCommand::new(info.device, 0), info.as_mut_bytes()) {
            Ok(()) => {
                let mut parameters = wanted.parameters;
                let device = Device { info, taken: false };
                if let Err(error) =
                    self.run(wire::SET_PARAMS, ControlCommand::new(info.device, 0), parameters.as_mut_bytes())
                {
                    self.remove(&device)?;
                    return Err(error).context("the driver does not take the volume's shape");
                }
                Ok(device)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => self.take_over(info.device, wanted),
            Err(error) => Err(error).context("no ublk device can be made"),
        }
    }

    fn info(&mut self, number: u32) -> Result<DeviceInfo> {
        let mut info = DeviceInfo::default();
        self.run(wire::GET_DEV_INFO, ControlCommand::new(number, 0), info.as_mut_bytes())
            .with_context(|| format!("/dev/ublkb{number} cannot be asked about"))?;
        Ok(info)
    }

    /// Takes the device over from a server that died.
    fn take_over(&mut self, number: u32, wanted: &Wanted) -> Result<Device> {
        let deadline = Instant::now() + QUIESCE;
        let info = self.abandoned(number, deadline)?;
        let mut parameters = Parameters { len: wanted.parameters.len, ..Parameters::default() };
        self.run(wire::GET_PARAMS, ControlCommand::new(number, 0), parameters.as_mut_bytes())
            .with_context(|| format!("/dev/ublkb{number} does not tell its shape"))?;
        let same = parameters.sectors == wanted.parameters.sectors
            && parameters.logical_shift == wanted.parameters.logical_shift;
        if info.mark != wanted.mark || !same {
            bail!(
                "/dev/ublkb{number} is left over from another volume: attach that one again, or choose another device"
            );
        }
        loop {
            match self.run(wire::START_USER_RECOVERY, ControlCommand::new(number, 0), &mut []) {
                Ok(()) => return Ok(Device { info, taken: true }),
                // What the dead server had open is not closed yet.
                Err(error) if error.kind() == ErrorKind::ResourceBusy && Instant::now() < deadline => {
                    sleep(LOOK);
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("/dev/ublkb{number} cannot be taken over"));
                }
            }
        }
    }

    /// Waits until the driver has noticed that the device's server is dead.
    fn abandoned(&mut self, number: u32, deadline: Instant) -> Result<DeviceInfo> {
        loop {
            let info = self.info(number)?;
            if info.state == QUIESCED {
                return Ok(info);
            }
            if lives(info.server) {
                bail!(
                    "/dev/ublkb{number} is there already, and process {} serves it: choose another device, or end that process",
                    info.server
                );
            }
            if Instant::now() > deadline {
                bail!(
                    "/dev/ublkb{number} is there already, and is not free after {} s: choose another device",
                    QUIESCE.as_secs()
                );
            }
            sleep(LOOK);
        }
    }

    /// Lets the device be used; its queues ask for requests already.
    pub(crate) fn start(&mut self, device: &Device) -> Result<()> {
        let operation = if device.taken { wire::END_USER_RECOVERY } else { wire::START_DEV };
        let command = ControlCommand::new(device.info.device, u64::from(std::process::id()));
        self.run(operation, command, &mut [])
            .with_context(|| format!("{} cannot be started", device.path().display()))
    }

    /// Ends the device: requests under way are finished, later ones fail.
    pub(crate) fn stop(&mut self, device: &Device) -> Result<()> {
        self.run(wire::STOP_DEV, ControlCommand::new(device.info.device, 0), &mut [])
            .with_context(|| format!("{} cannot be stopped", device.path().display()))
    }

    /// Removes a device that is stopped and not open.
    pub(crate) fn remove(&mut self, device: &Device) -> Result<()> {
        self.run(wire::DEL_DEV, ControlCommand::new(device.info.device, 0), &mut [])
            .with_context(|| format!("{} cannot be removed", device.path().display()))
    }
}

/// Whether there is a process with this identifier; the driver says -1 where it knows of none.
fn lives(process: i32) -> bool {
    let process = (process > 0).then(|| Pid::from_raw(process)).flatten();
    process.is_some_and(|process| test_kill_process(process) != Err(Errno::SRCH))
}

/// A device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Device {
    pub(crate) info: DeviceInfo,
    /// It was taken over.
    pub(crate) taken: bool,
}

impl Device {
    /// The block device.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/dev/ublkb{}", self.info.device).into()
    }

    /// Opens the character device that the requests come from.
    pub(crate) fn open(&self) -> Result<File> {
        let path = format!("/dev/ublkc{}", self.info.device);
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .with_context(|| format!("{path} cannot be opened"))
    }
}

/// What is wanted of a device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) queues: u16,
    /// What distinguishes the volume from others.
    pub(crate) mark: u64,
    pub(crate) parameters: Parameters,
}

/// Requests under way on each of so many queues.
fn depth(queues: u16) -> u16 {
    DEPTH.min(REQUESTS / queues.max(1))
}

impl Wanted {
    /// What a volume wants.
    pub(crate) fn of(disk: &Disk, read_only: bool, queues: u16, mark: u64) -> Self {
        Self { queues, mark, parameters: parameters(disk, read_only) }
    }
}

/// The volume's shape in the driver's words.
fn parameters(disk: &Disk, read_only: bool) -> Parameters {
    let (geometry, limits, features) = (disk.geometry(), disk.limits(), disk.features());
    let block = geometry.block_size;
    let mut attributes = Attributes::empty();
    attributes.set(Attributes::READ_ONLY, read_only);
    let cache = features.contains(Features::VOLATILE_CACHE);
    attributes.set(Attributes::VOLATILE_CACHE | Attributes::FUA, cache);
    let shift = |bytes: u32| u8::try_from(bytes.trailing_zeros()).unwrap_or(0);
    let page = u32::try_from(rustix::param::page_size()).unwrap_or(4096);
    let physical = geometry.physical_block_size.min(page).max(block);
    let range = ::wire::saturate::<u32>(limits.max_discard.saturating_mul(u64::from(block / 512)));
    let range = range.min(RANGE);
    Parameters {
        len: u32::try_from(size_of::<Parameters>()).unwrap_or(0),
        types: wire::BASIC_AND_DISCARD,
        attributes: attributes.bits(),
        logical_shift: shift(block),
        physical_shift: shift(physical),
        optimal_shift: shift(physical),
        minimum_shift: shift(physical),
        max_sectors: TRANSFER.min(limits.max_transfer) / page * (page / 512),
        sectors: geometry.bytes() / 512,
        discard_granularity: limits.discard_granularity.saturating_mul(block),
        max_discard: if features.contains(Features::DISCARD) { range } else { 0 },
        max_zeroes: range,
        segments: 1,
        ..Parameters::default()
    }
}

#[cfg(test)]
mod tests {
    use linerate::{Client, ClientConfig};

    use super::*;

    #[test]
    fn a_volume_has_its_shape() {
        let client = Client::start(&ClientConfig::default()).unwrap();
        let disk = client.open(&"ram:8M?block=4096".parse().unwrap()).unwrap();
        let shape = parameters(&disk, true);
        assert_eq!((shape.sectors, shape.logical_shift, shape.max_sectors), (16_384, 12, 1024));
        assert_eq!(
            Attributes::from_bits_retain(shape.attributes) & Attributes::READ_ONLY,
            Attributes::READ_ONLY
        );
        assert_eq!((shape.segments, shape.types, shape.len), (1, 3, 64));
    }

    #[test]
    fn this_process_lives() {
        assert!(lives(i32::try_from(std::process::id()).unwrap()));
        assert!(!lives(-1));
    }
}
