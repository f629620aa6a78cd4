//! The device's process: from a plan to running cores and front ends, and back to nothing when a signal comes.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use host::Postbox;
use names::VolumeUrl;
use reactor::{Cluster, Stopper};
use vhost::vhost_user::{BackendReqHandler, Error as Asked};
use volume::{Features, Volume};

use super::device::{Device, Exported};
use super::limits::FRONT_ENDS;
use super::service::{CoreService, Message, News, Plan};
use crate::cores::Cores;
use crate::early::{self, Early};
use crate::limits::{GRACE, LEAST_MEMORY, MEMORY};
use crate::listen_address::{SocketFile, bind_private};
use crate::openings::Unopened;
use crate::ready_file;

/// A volume, and where it appears.
#[derive(Debug, Clone)]
pub struct VhostVolume {
    /// The volume.
    pub url: VolumeUrl,
    /// The path of the Unix-domain socket that front ends connect to.
    pub path: PathBuf,
}

/// What is to be served to front ends, and how.
#[derive(Debug, Clone)]
pub struct VhostConfig {
    /// The volumes.
    pub volumes: Vec<VhostVolume>,
    /// Refuse writes.
    pub read_only: bool,
    /// Where the work is done.
    pub cores: Cores,
    /// Written once front ends can connect: a line for each volume.
    pub ready_file: Option<PathBuf>,
}

/// How often the beginning is looked at: only a core that ends without a word needs it.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

type CoreThread = JoinHandle<io::Result<()>>;

/// Serves front ends until SIGTERM or SIGINT. `say` is given the lines that explain how to connect.
pub fn serve(config: &VhostConfig, say: &dyn Fn(&str)) -> Result<()> {
    let (tell, news) = mpsc::channel();
    let _signals = Early::watch(tell.clone(), News::Asked)?;
    ready_file::remove(config.ready_file.as_deref())?;
    config.cores.bind()?;
    let count = config.cores.count();
    let cluster = Cluster::new(count, config.cores.reactor()).context("the event loops cannot be made")?;
    let (postbox, stopper) = (cluster.postbox(), cluster.stopper());
    let memory = (MEMORY / usize::from(count)).max(LEAST_MEMORY);
    let urls = config.volumes.iter().map(|volume| volume.url.clone()).collect();
    let plan = Plan { urls, read_only: config.read_only, memory };
    let threads: Vec<CoreThread> = (cluster.into_cores().into_iter())
        .map(|core| {
            let (plan, tell) = (plan.clone(), tell.clone());
            core.spawn(move |world| CoreService::new(plan, world, tell))
                .context("an event loop's thread cannot be started")
        })
        .collect::<Result<_>>()?;
    drop(tell);

    let Some(opened) = wait_until_serving(&news, &threads)? else {
        say(early::STOPPED);
        stopper.stop();
        return end(threads, &stopper);
    };
    let served = match opened {
        Ok(volumes) => serve_front_ends(config, &volumes, &postbox, &news, say),
        Err(Unopened { number, error }) => {
            Err(error).with_context(|| format!("{} cannot be attached", config.url(number)))
        }
    };
    for core in 0..count {
        postbox.post(core, Message::Shutdown);
    }
    let ended = end(threads, &stopper);
    served?;
    ended?;
    for one in news.try_iter() {
        if let News::Flushed(number, result) = one {
            result.with_context(|| format!("{}: the last flush failed", config.url(number)))?;
        }
    }
    Ok(())
}

impl VhostConfig {
    /// How the user wrote a volume.
    fn url(&self, number: usize) -> String {
        self.volumes.get(number).map(|volume| volume.url.to_string()).unwrap_or_default()
    }
}

type Opened = Result<Vec<Arc<dyn Volume>>, Unopened>;

/// Waits for all cores to serve, or for the first that cannot; `None` when a signal comes before.
fn wait_until_serving(news: &Receiver<News>, threads: &[CoreThread]) -> Result<Option<Opened>> {
    let (mut last, mut serving) = (None, 0);
    while serving < threads.len() {
        let ended = threads.iter().any(JoinHandle::is_finished);
        match news.recv_timeout(POLL_INTERVAL) {
            Ok(News::Serving(Ok(volumes))) => last = Some(Ok(volumes)),
            Ok(News::Serving(Err(unopened))) => return Ok(Some(Err(unopened))),
            Ok(News::Asked) => return Ok(None),
            Ok(News::Fault(..) | News::Flushed(..)) => continue,
            Err(RecvTimeoutError::Timeout) if !ended => continue,
            Err(_) => bail!("an event loop ended before it began"),
        }
        serving += 1;
    }
    last.context("there is no event loop").map(Some)
}

/// Waits for the cores; what is still under way after the grace is cut off.
fn end(threads: Vec<CoreThread>, stopper: &Stopper) -> Result<()> {
    let (over, wait) = mpsc::channel::<()>();
    let stopper = stopper.clone();
    let patient = std::thread::spawn(move || {
        if wait.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
            stopper.stop();
        }
    });
    let mut result = Ok(());
    for thread in threads {
        let outcome = thread.join().map_err(|_| anyhow!("an event loop panicked"));
        result = result.and(outcome.and_then(|outcome| outcome.context("an event loop failed")));
    }
    drop(over);
    patient.join().map_err(|_| anyhow!("the waiting thread failed"))?;
    result
}

/// Front ends that are connected, so that their connections can be ended from another thread.
#[derive(Clone, Default)]
struct Connected(Arc<Mutex<Vec<(u64, UnixStream)>>>);

impl Connected {
    fn lock(&self) -> MutexGuard<'_, Vec<(u64, UnixStream)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_all(&self) {
        for (_, stream) in &*self.lock() {
            // One that has ended already needs no end.
            let _ended = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Accepts front ends until a signal comes; then all have gone.
fn serve_front_ends(
    config: &VhostConfig,
    volumes: &[Arc<dyn Volume>],
    postbox: &Arc<dyn Postbox<Message>>,
    news: &Receiver<News>,
    say: &dyn Fn(&str),
) -> Result<()> {
    let rings = Arc::new(AtomicU32::new(0));
    let sockets: Vec<(UnixListener, SocketFile)> =
        config.volumes.iter().map(|volume| bind_private(&volume.path)).collect::<Result<_>>()?;
    let (is_stopping, connected) = (Arc::new(AtomicBool::new(false)), Connected::default());
    let mut accepting = Vec::new();
    let mut lines = Vec::new();
    for ((number, (listener, _)), volume) in sockets.iter().enumerate().zip(volumes) {
        let Some(VhostVolume { path, .. }) = config.volumes.get(number) else { continue };
        announce(path, &**volume, say);
        lines.push(format!("vhost-user {}", path.display()));
        let read_only = config.read_only || volume.features().contains(Features::READ_ONLY);
        let (volume, postbox, rings) = (Arc::clone(volume), Arc::clone(postbox), Arc::clone(&rings));
        let exported = Exported { volume, number, read_only, postbox, rings };
        let listener = listener.try_clone().context("the socket cannot be shared")?;
        let (connected, is_stopping) = (connected.clone(), Arc::clone(&is_stopping));
        accepting.push(std::thread::spawn(move || accept(&listener, &exported, &connected, &is_stopping)));
    }
    config.ready_file.as_deref().map_or(Ok(()), |path| ready_file::write(path, &lines.join("\n")))?;
    for one in news {
        match one {
            News::Asked => break,
            News::Fault(number, fault) => {
                say(&format!("{}: a front end's queue is served no longer: {fault}", config.url(number)));
            }
            News::Serving(_) | News::Flushed(..) => {}
        }
    }
    say("detaching: requests under way are finished");
    is_stopping.store(true, Ordering::SeqCst);
    // Both wake the threads that wait there.
    for (listener, _) in &sockets {
        let _woken = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
    }
    connected.end_all();
    accepting
        .into_iter()
        .try_for_each(|thread| thread.join().map_err(|_| anyhow!("the accepting thread failed"))?)
}

/// A thread for each front end.
fn accept(
    listener: &UnixListener,
    exported: &Exported,
    connected: &Connected,
    is_stopping: &Arc<AtomicBool>,
) -> Result<()> {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let mut number = 0;
    while !is_stopping.load(Ordering::SeqCst) {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(_) if is_stopping.load(Ordering::SeqCst) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).context("no front end can be accepted"),
        };
        threads.retain(|thread| !thread.is_finished());
        if threads.len() >= FRONT_ENDS {
            // It sees its connection end.
            continue;
        }
        number += 1;
        let current = stream.try_clone().context("the connection cannot be shared")?;
        connected.lock().push((number, current));
        let (device, connected) = (Device::new(exported.clone()), connected.clone());
        let is_stopping = Arc::clone(is_stopping);
        threads.push(std::thread::spawn(move || {
            serve_front_end(stream, device, &is_stopping);
            connected.lock().retain(|(other, _)| *other != number);
        }));
    }
    for thread in threads {
        // One that panicked has told so already.
        let _ended = thread.join();
    }
    Ok(())
}

/// Does what one front end asks until it goes; then lets its requests end.
fn serve_front_end(stream: UnixStream, device: Device, is_stopping: &AtomicBool) {
    let device = Arc::new(Mutex::new(device));
    let mut handler = BackendReqHandler::from_stream(stream, Arc::clone(&device));
    while !is_stopping.load(Ordering::SeqCst) {
        match handler.handle_request() {
            // What cannot be done was reported to the front end, if it asked for that.
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
}

fn announce(path: &Path, volume: &dyn Volume, say: &dyn Fn(&str)) {
    let geometry = volume.geometry();
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let path = path.display();
    say(&format!(
        "{} bytes in blocks of {} at the vhost-user socket {path}",
        geometry.bytes(),
        geometry.block_size
    ));
    say("    QEMU:   -object memory-backend-memfd,id=memory,size=2G,share=on -machine memory-backend=memory");
    say(&format!(
        "            -chardev socket,id=disk,path={path},reconnect=1 -device vhost-user-blk-pci,chardev=disk"
    ));
    say(&format!("    here:   linerate bench 'vhost-user:{path}'"));
}
