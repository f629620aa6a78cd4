//! A volume as one file, by FUSE: without privileges, and good enough to be a loop device's backing file.
//!
//! | module | what |
//! |---|---|
//! | `file` | reads, writes, flushes |
//! | `ranges` | who is writing where |
//! | `slow` | threads for what has to wait |
//! | `mount` | the file that is mounted over |

mod file;
mod limits;
mod mount;
mod ranges;
mod slow;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use fuser::{MountOption, Session, SessionACL, SessionUnmounter};
use linerate::{Client, Disk};
use names::VolumeUrl;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::limits::{REQUESTS, THREADS};
use self::mount::MountPoint;
use crate::cores::Cores;
use crate::early::{self, WhileOpening};
use crate::gate::{Gate, Room};
use crate::limits::{GRACE, MEMORY};
use crate::ready_file;
use file::{Access, VolumeFile};

/// What is to appear as a file, and how.
#[derive(Debug, Clone)]
pub struct FuseConfig {
    /// The volume.
    pub url: VolumeUrl,
    /// Where the file is to appear: nothing is there, or an empty file.
    pub path: PathBuf,
    /// Refuse writes.
    pub read_only: bool,
    /// A file for all users of the machine, not for its owner alone. Ordinary users need `user_allow_other` in
    /// `/etc/fuse.conf` for it.
    pub allow_any: bool,
    /// Where the work is done.
    pub cores: Cores,
    /// Written once the file is there.
    pub ready_file: Option<PathBuf>,
}

/// Keeps the file until SIGTERM or SIGINT, or until a user unmounts it. `say` is given the lines that explain how to use it.
pub fn serve(config: &FuseConfig, say: &dyn Fn(&str)) -> Result<()> {
    let opening = WhileOpening::begin()?;
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("signals cannot be caught")?;
    ready_file::remove(config.ready_file.as_deref())?;
    config.cores.bind()?;
    let point = MountPoint::prepare(&config.path)?;
    let client = Client::start(&config.cores.client()).context("the event loops cannot be started")?;
    let Some(disk) = opening.open(&client, &config.url)? else {
        say(early::STOPPED);
        return Ok(());
    };
    let gate = Arc::new(Gate::new(Room { requests: REQUESTS, bytes: MEMORY }));
    let mut session = mount(config, &disk, &gate)?;
    let unmounter = session.unmount_callable();
    let handle = signals.handle();
    let thread = std::thread::spawn(move || {
        let result = session.run();
        handle.close();
        result
    });
    announce(config, &disk, say);
    let line = format!("fuse {}", config.path.display());
    config.ready_file.as_deref().map_or(Ok(()), |path| ready_file::write(path, &line))?;
    let asked = signals.forever().next().is_some();
    if asked {
        say("detaching: requests under way are finished");
    }
    end(Mounted { unmounter, thread, point: &point }, &gate, say)?;
    if !config.read_only {
        disk.blocking().flush().context("the last flush failed")?;
    }
    Ok(())
}

fn mount(config: &FuseConfig, disk: &Disk, gate: &Arc<Gate>) -> Result<Session<VolumeFile>> {
    let mut options = fuser::Config::default();
    options.mount_options = vec![
        MountOption::FSName(config.url.to_string().replace(',', "%2C")),
        MountOption::Subtype("linerate".to_owned()),
        MountOption::DefaultPermissions,
    ];
    if config.read_only {
        options.mount_options.push(MountOption::RO);
    }
    options.acl = if config.allow_any { SessionACL::All } else { SessionACL::Owner };
    options.n_threads = Some(THREADS);
    let access = Access { read_only: config.read_only, shared: config.allow_any };
    let file = VolumeFile::new(disk.clone(), Arc::clone(gate), access);
    Session::new(file, &config.path, &options).with_context(|| {
        format!(
            "{} cannot be mounted: FUSE needs /dev/fuse, and the package fuse3 for ordinary users",
            config.path.display()
        )
    })
}

/// The file while the kernel's requests are taken.
struct Mounted<'a> {
    unmounter: SessionUnmounter,
    thread: JoinHandle<std::io::Result<()>>,
    point: &'a MountPoint,
}

/// Takes the file away. Where it is still open it is only taken out of sight: its users get errors from now on.
fn end(mounted: Mounted<'_>, gate: &Gate, say: &dyn Fn(&str)) -> Result<()> {
    let Mounted { mut unmounter, thread, point } = mounted;
    if thread.is_finished() || unmounter.unmount().is_ok() {
        return thread
            .join()
            .map_err(|_| anyhow!("a thread of the file panicked"))?
            .context("the kernel's requests cannot be taken");
    }
    say("the file is in use: it is detached, and whoever has it open gets errors from now on");
    let quiet = gate.close(GRACE);
    mount::detach(point.path()).with_context(|| format!("{} cannot be unmounted", point.path().display()))?;
    quiet.then_some(()).with_context(|| {
        format!("requests were still under way after {} s, and are given up", GRACE.as_secs())
    })
}

fn announce(config: &FuseConfig, disk: &Disk, say: &dyn Fn(&str)) {
    let (geometry, path) = (disk.geometry(), absolute(&config.path));
    let path = path.display();
    say(&format!("{} bytes in blocks of {} as the file {path}", geometry.bytes(), geometry.block_size));
    let sectors = if geometry.block_size == 512 { "" } else { " --sector-size 4096" };
    say(&format!("    Linux:  losetup --find --show --direct-io=on{sectors} {path}"));
    say(&format!("    QEMU:   -drive file={path},format=raw,if=virtio"));
    say(&format!("    away:   fusermount3 -u {path}, or end this process"));
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
