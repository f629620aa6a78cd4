//! A volume as a vhost-user block device: a virtual machine's virtio queues, served from this process in the guest's own
//! memory, without the machine's monitor in between.
//!
//! | module | what |
//! |---|---|
//! | `device` | what the monitor asks |
//! | `ring` | a queue and its requests |
//! | `request` | what lies in the guest's memory |

mod device;
mod limits;
mod request;
mod ring;

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use linerate::{Client, Disk};
use names::VolumeUrl;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use vhost::vhost_user::{BackendReqHandler, Error as Asked};
use volume::Features;

use self::device::Device;
use crate::cores::Cores;
use crate::early::{self, WhileOpening};
use crate::listen_address::bind_private;
use crate::ready_file;

/// What is to be served to virtual machines, and how.
#[derive(Debug, Clone)]
pub struct VhostConfig {
    /// The volume.
    pub url: VolumeUrl,
    /// The path of the Unix-domain socket that the monitor connects to.
    pub path: PathBuf,
    /// Refuse writes.
    pub read_only: bool,
    /// Where the work is done.
    pub cores: Cores,
    /// Written once a monitor can connect.
    pub ready_file: Option<PathBuf>,
}

/// The monitor that is connected, so that its connection can be ended from another thread.
type Connected = Arc<Mutex<Option<UnixStream>>>;

/// Serves one monitor after another until SIGTERM or SIGINT. `say` is given the lines that explain how to connect.
pub fn serve(config: &VhostConfig, say: &dyn Fn(&str)) -> Result<()> {
    let opening = WhileOpening::begin()?;
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("signals cannot be caught")?;
    config.cores.bind()?;
    let client = Client::start(&config.cores.client()).context("the event loops cannot be started")?;
    let Some(disk) = opening.open(&client, &config.url)? else {
        say(early::STOPPED);
        return Ok(());
    };
    let read_only = config.read_only || disk.features().contains(Features::READ_ONLY);
    let (listener, _socket_file) = bind_private(&config.path)?;
    announce(&config.path, &disk, say);
    let line = format!("vhost-user {}", config.path.display());
    config.ready_file.as_deref().map_or(Ok(()), |path| ready_file::write(path, &line))?;

    let (stopping, connected) = (Arc::new(AtomicBool::new(false)), Connected::default());
    let (ending, waking) =
        (Arc::clone(&stopping), listener.try_clone().context("the socket cannot be shared")?);
    let current = Arc::clone(&connected);
    let watcher = std::thread::spawn(move || {
        let asked = signals.forever().next().is_some();
        ending.store(true, Ordering::SeqCst);
        // Both wake the threads that wait there; what has ended already needs no waking.
        let _woken = rustix::net::shutdown(&waking, rustix::net::Shutdown::Both);
        if let Some(stream) = current.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            let _ended = stream.shutdown(Shutdown::Both);
        }
        asked
    });
    while !stopping.load(Ordering::SeqCst) {
        let accepted = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(_) if stopping.load(Ordering::SeqCst) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).context("no monitor can be accepted"),
        };
        serve_monitor(accepted, &connected, &stopping, Device::new(disk.clone(), read_only))?;
    }
    say("detaching: requests under way are finished");
    // It has ended, or we would not be here.
    let _joined = watcher.join();
    if !read_only {
        disk.blocking().flush().context("the last flush failed")?;
    }
    Ok(())
}

/// Does what one monitor asks until it goes; then lets the guest's requests end.
fn serve_monitor(
    stream: UnixStream,
    connected: &Connected,
    stopping: &AtomicBool,
    device: Device,
) -> Result<()> {
    let current = stream.try_clone().context("the connection cannot be shared")?;
    *connected.lock().unwrap_or_else(PoisonError::into_inner) = Some(current);
    let device = Arc::new(Mutex::new(device));
    let mut handler = BackendReqHandler::from_stream(stream, Arc::clone(&device));
    while !stopping.load(Ordering::SeqCst) {
        match handler.handle_request() {
            // What cannot be done was reported to the monitor, if it asked for that.
            Ok(())
            | Err(
                Asked::InvalidParam
                | Asked::InvalidOperation(_)
                | Asked::BackendInternalError
                | Asked::ReqHandlerError(_),
            ) => {}
            Err(_) => break,
        }
    }
    device.lock().unwrap_or_else(PoisonError::into_inner).stop();
    *connected.lock().unwrap_or_else(PoisonError::into_inner) = None;
    Ok(())
}

fn announce(path: &Path, disk: &Disk, say: &dyn Fn(&str)) {
    let geometry = disk.geometry();
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let path = path.display();
    say(&format!(
        "{} bytes in blocks of {} at the vhost-user socket {path}",
        geometry.bytes(),
        geometry.block_size
    ));
    say("    QEMU:   -object memory-backend-memfd,id=memory,size=2G,share=on -machine memory-backend=memory");
    say(&format!("            -chardev socket,id=disk,path={path} -device vhost-user-blk-pci,chardev=disk"));
}
