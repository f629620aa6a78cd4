//! Commands to `/dev/ublk-control`, one at a time.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use zerocopy::IntoBytes;

use crate::ublk::wire::{CONTROL_BYTES, ControlCommand};

/// The control device and a ring for its commands, whose entries are of the long kind.
pub(crate) struct Control {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    device: File,
}

impl Control {
    /// A ring for the control device.
    pub(crate) fn new(device: File) -> io::Result<Self> {
        Ok(Self { ring: IoUring::builder().build(2)?, device })
    }

    /// Carries out a command, which may read or write `buffer`, and returns when it has ended.
    pub(crate) fn run(
        &mut self,
        operation: u32,
        mut command: ControlCommand,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        command.len = u16::try_from(buffer.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        command.address = buffer.as_mut_ptr() as u64;
        let mut body = [0; CONTROL_BYTES];
        let bytes = command.as_bytes();
        body.get_mut(..bytes.len()).ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(bytes);
        let entry = opcode::UringCmd80::new(types::Fd(self.device.as_raw_fd()), operation).cmd(body).build();
        // SAFETY: the kernel touches at most `len` bytes at `address`, which are `buffer`, borrowed for the whole of this call; the
        // loop below ends only when the kernel has reported that the command is over.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| io::ErrorKind::WouldBlock)?;
        loop {
            let waited = self.ring.submit_and_wait(1);
            if let Some(done) = self.ring.completion().next() {
                let result = done.result();
                return if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) };
            }
            match waited {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The command may be under way, and its memory with it: going on would not be safe.
                Err(_) => std::process::abort(),
            }
        }
    }
}
