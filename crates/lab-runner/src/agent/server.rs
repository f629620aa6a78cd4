//! The agent's port: strangers prove the token within bounds of memory and time, and one lab at a time is served.
//!
//! Each connection has a thread. Until its peer has proved the token it may send two hundred bytes or so, may take five seconds, and is
//! one of a few; no lab waits for it. When the lab's connection ends, for whatever reason, its session is torn down.

use std::fs::{File, OpenOptions};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};

use super::channel::{Bounds, Channel, End};
use super::limits::{
    FRAME_TIMEOUT, GREETING_BYTES, GREETING_TIMEOUT, IDLE_TIMEOUT, REPLY_BYTES, REQUEST_BYTES, STRANGERS,
};
use super::message::{Answer, Hello, Introduction, PROTOCOL, Request, VERSION};
use super::session::Session;
use super::settings::Settings;
use super::token::{Block, Nonces, Purpose, nonce};
use super::{files, hex};
use crate::machine::ledger::Ledger;

/// How often the accepting thread looks whether it is to end, milliseconds.
const POLL_MILLIS: i64 = 100;
/// Before the token is proved.
const GREETING: Bounds = Bounds { bytes: GREETING_BYTES, timeout: GREETING_TIMEOUT };

/// An agent that listens.
#[derive(Debug)]
pub struct Agent {
    settings: Settings,
    listener: TcpListener,
    /// Held while it lives, so that no second agent tears its sessions down.
    _lock: File,
    sessions: AtomicU64,
    strangers: AtomicUsize,
    /// The connection of the lab that is served.
    lab: Mutex<Option<TcpStream>>,
}

/// What a connection looks at while it is served.
#[derive(Clone, Copy)]
struct Watch<'a> {
    /// The agent is to end.
    stop: &'a AtomicBool,
    tell: Listener<'a>,
}

/// Who hears what the agent does, a line at a time.
pub type Listener<'a> = &'a (dyn Fn(&str) + Sync);

impl Agent {
    /// Takes the state folder, removes what an agent that was cut off left there, and begins to listen.
    pub fn start(settings: Settings, tell: Listener<'_>) -> Result<Self> {
        let shown = settings.state.display();
        files::make_folder(&settings.state)?;
        let path = settings.state.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.with_context(|| format!("cannot make {}", path.display()))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("another agent has the folder {shown}: name one of its own with --state");
        }
        clean(&settings, tell)?;
        let listener = TcpListener::bind(settings.listen)
            .with_context(|| format!("cannot listen at {}", settings.listen))?;
        Ok(Self {
            settings,
            listener,
            _lock: lock,
            sessions: AtomicU64::new(0),
            strangers: AtomicUsize::new(0),
            lab: Mutex::new(None),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().context("the agent's port is lost")
    }

    /// Serves labs, one at a time, until `stop` is set; then ends the session under way.
    pub fn run(&self, stop: &AtomicBool, tell: Listener<'_>) -> Result<()> {
        self.listener.set_nonblocking(true).context("cannot wait for connections")?;
        thread::scope(|scope| {
            while !stop.load(Ordering::Relaxed) {
                let mut ready = [PollFd::new(&self.listener, PollFlags::IN)];
                let wait = Timespec { tv_sec: 0, tv_nsec: POLL_MILLIS * 1_000_000 };
                if !matches!(poll(&mut ready, Some(&wait)), Ok(1..)) {
                    continue;
                }
                let Ok((stream, peer)) = self.listener.accept() else { continue };
                if self.strangers.fetch_add(1, Ordering::Relaxed) >= STRANGERS {
                    self.strangers.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                scope.spawn(move || self.meet(stream, peer, Watch { stop, tell }));
            }
            self.hang_up();
        });
        Ok(())
    }

    /// Ends the connection of the lab that is served, which ends its session.
    fn hang_up(&self) {
        if let Some(stream) = self.lab().take() {
            // It may have ended by itself.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    fn lab(&self) -> std::sync::MutexGuard<'_, Option<TcpStream>> {
        self.lab.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One connection from start to end.
    fn meet(&self, stream: TcpStream, peer: SocketAddr, Watch { stop, tell }: Watch<'_>) {
        let met = stream.set_nonblocking(false).map_err(Into::into).and_then(|()| self.greet(stream));
        self.strangers.fetch_sub(1, Ordering::Relaxed);
        match met {
            Ok(mut channel) => {
                tell(&format!("{peer}: a lab is connected"));
                // One that came in while the agent was told to end is not served.
                let ended =
                    if stop.load(Ordering::Relaxed) { Ok(()) } else { self.serve(&mut channel, tell) };
                let words = ended.err().map_or_else(String::new, |error| format!(": {error:#}"));
                tell(&format!("{peer}: the lab is gone{words}"));
                *self.lab() = None;
            }
            Err(error) => tell(&format!("{peer}: refused: {error:#}")),
        }
    }

    /// Lets the peer prove the token, proves it in turn, and takes the one lab's place.
    fn greet(&self, stream: TcpStream) -> Result<Channel> {
        let handle = stream.try_clone().context("a connection cannot be watched")?;
        let mut channel = Channel::new(stream)?;
        let own = nonce()?;
        let hello = Hello { protocol: PROTOCOL.to_owned(), version: VERSION, nonce: hex::encode(&own) };
        channel.send(&hello, GREETING)?;
        let proof: Introduction = channel.receive(GREETING)?;
        match self.admit(&proof, own, handle)? {
            Ok((answer, key)) => {
                let welcome = channel.send(&answer, GREETING);
                channel.seal(End::Agent, key);
                welcome.inspect_err(|_| *self.lab() = None).map(|()| channel)
            }
            Err(rejection) => {
                // The reason that counts is this one, whether or not the peer still hears it.
                let _ = channel.send(&Answer::Refused { reason: rejection.to_string() }, GREETING);
                Err(rejection.into())
            }
        }
    }

    /// The welcome and the key of the seals, or why there is none.
    fn admit(
        &self,
        proof: &Introduction,
        own: Block,
        handle: TcpStream,
    ) -> Result<Result<(Answer, Block), Rejection>> {
        if proof.version != VERSION {
            let theirs = proof.version;
            return Ok(Err(Rejection::Version(theirs)));
        }
        let theirs = hex::decode(&proof.nonce).and_then(|nonce| Block::try_from(nonce).ok());
        let (Some(lab), Some(given)) = (theirs, hex::decode(&proof.proof)) else {
            return Ok(Err(Rejection::Malformed));
        };
        let nonces = Nonces { agent: own, lab };
        let token = &self.settings.token;
        if !token.verifies(Purpose::Lab, &nonces, &given)? {
            return Ok(Err(Rejection::Token));
        }
        let mut place = self.lab();
        if place.is_some() {
            return Ok(Err(Rejection::Busy));
        }
        *place = Some(handle);
        let proof = hex::encode(&token.proof(Purpose::Agent, &nonces)?);
        Ok(Ok((Answer::Welcome { proof }, token.proof(Purpose::Seal, &nonces)?)))
    }

    /// Serves a lab until its connection ends; then nothing of it is left.
    fn serve(&self, channel: &mut Channel, tell: Listener<'_>) -> Result<()> {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        let mut session = Session::new(&self.settings, number)?;
        let bounds = Bounds { bytes: REQUEST_BYTES, timeout: IDLE_TIMEOUT };
        let replies = Bounds { bytes: REPLY_BYTES, timeout: FRAME_TIMEOUT };
        let error = loop {
            let turn = channel.receive::<Request>(bounds).and_then(|request| {
                let reply = session.handle(request);
                channel.send(&reply, replies)
            });
            if let Err(error) = turn {
                break error;
            }
        };
        channel.close();
        let torn = session.tear_down();
        torn.removed.iter().for_each(|what| tell(&format!("removed {what}")));
        torn.left.iter().for_each(|what| tell(what));
        Err(error)
    }
}

/// Why an agent does not serve a lab.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Rejection {
    /// The lab speaks that version of the protocol.
    #[error(
        "the lab speaks version {0} of the protocol and this agent version {VERSION}: run the same linerate on both"
    )]
    Version(u32),
    #[error("the proof is not as the protocol says")]
    Malformed,
    #[error("the token is wrong: give the lab the agent's token file")]
    Token,
    #[error("another lab is being served: wait until its run has ended")]
    Busy,
}

/// Removes what the sessions of an agent that was cut off left.
fn clean(settings: &Settings, tell: Listener<'_>) -> Result<()> {
    let shown = settings.state.display();
    let entries = std::fs::read_dir(&settings.state).with_context(|| format!("cannot list {shown}"))?;
    for entry in entries {
        let folder = entry?.path();
        let path = folder.join("ledger.jsonl");
        if !path.exists() {
            continue;
        }
        let torn = Ledger::open(&path)?.tear_down();
        torn.removed.iter().for_each(|what| tell(&format!("removed what was left: {what}")));
        torn.left.iter().for_each(|what| tell(what));
        if torn.left.is_empty() {
            files::remove(&folder)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
