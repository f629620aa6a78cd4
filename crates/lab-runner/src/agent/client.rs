//! The lab's end of a connection to an agent.
//!
//! Clocks of machines differ, so on connecting the agent's is read a few times; the reading that came back fastest tells the
//! difference, at most half of its round trip wrong (F. Cristian, 1989). A thread of its own says now and then that the lab is
//! still there, because an agent ends what runs for a lab that is silent.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use super::channel::{Bounds, Channel, End};
use super::hex;
use super::limits::{
    CLOCK_READINGS, CONNECT_TIMEOUT, FRAME_TIMEOUT, GREETING_BYTES, GREETING_TIMEOUT, KEEP_ALIVE_EVERY,
    REPLY_BYTES, REPLY_TIMEOUT, REQUEST_BYTES,
};
use super::message::{Answer, Hello, Introduction, PROTOCOL, Place, Reply, Request, VERSION};
use super::token::{Block, Nonces, Purpose, Token, nonce};
use crate::machine::clock::now;
use crate::measure::Environment;
use crate::site::AgentHost;

/// Before both sides are known.
const GREETING: Bounds = Bounds { bytes: GREETING_BYTES, timeout: GREETING_TIMEOUT };

/// A connection to an agent; its end ends everything that the agent does for this lab.
#[derive(Debug)]
pub struct Client {
    name: String,
    host: AgentHost,
    address: IpAddr,
    channel: Mutex<Option<Channel>>,
    /// Seconds by which the agent's clock is ahead of this one's.
    ahead: f64,
    _alive: Sender<()>,
}

impl Client {
    /// Connects to the agent of a host that the site calls `name`.
    pub fn connect(name: &str, host: &AgentHost) -> Result<Arc<Self>> {
        Self::open(name, host).with_context(|| format!("host {name}, whose agent is at {}", host.agent))
    }

    fn open(name: &str, host: &AgentHost) -> Result<Arc<Self>> {
        let token = Token::read(&host.token_file)?;
        let stream = reach(&host.agent)?;
        let peer = stream.peer_addr().context("the connection ended at once")?.ip();
        let mut channel = greet(Channel::new(stream)?, &token)?;
        let ahead = compare_clocks(&mut channel)?;
        let (alive, ended) = mpsc::channel();
        let client = Arc::new(Self {
            name: name.to_owned(),
            host: host.clone(),
            address: host.address.unwrap_or(peer),
            channel: Mutex::new(Some(channel)),
            ahead,
            _alive: alive,
        });
        let weak = Arc::downgrade(&client);
        thread::Builder::new()
            .name("lab-agent-alive".to_owned())
            .spawn(move || keep_alive(&weak, &ended))
            .context("cannot start the thread that keeps the connection")?;
        Ok(client)
    }

    /// The host's name in the site file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A moment of the agent's clock by this machine's.
    pub(crate) fn to_here(&self, at: f64) -> f64 {
        at - self.ahead
    }

    /// A moment of this machine's clock by the agent's.
    pub(crate) fn to_there(&self, at: f64) -> f64 {
        at + self.ahead
    }

    /// Where an arm's side runs on the host.
    pub(crate) fn place(&self) -> Place {
        Place {
            address: self.address,
            interface: self.host.interface.clone(),
            processors: self.host.processors.clone(),
        }
    }

    /// What the machine is.
    pub fn environment(&self) -> Result<Environment> {
        match self.ask(&Request::Environment {})? {
            Reply::Environment { environment } => Ok(*environment),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Asks for what has no answer but that it was done.
    pub(crate) fn tell(&self, request: &Request) -> Result<()> {
        match self.ask(request)? {
            Reply::Done {} => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Sends a request and returns the answer. The agent's refusal is an error. A connection that fails is gone.
    pub(crate) fn ask(&self, request: &Request) -> Result<Reply> {
        let mut place = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = place.as_mut().with_context(|| {
            format!("the connection to the agent of host {} was lost: run `linerate lab resume`", self.name)
        })?;
        match exchange(channel, request) {
            Ok(Reply::Refused { reason }) => bail!("host {}: {reason}", self.name),
            Ok(reply) => Ok(reply),
            Err(error) => {
                *place = None;
                Err(error.context(format!("the connection to the agent of host {} is lost", self.name)))
            }
        }
    }

    /// A reply to something else.
    pub(crate) fn unexpected(&self, reply: &Reply) -> anyhow::Error {
        anyhow!("the agent of host {} replied {:?} out of turn", self.name, reply.kind())
    }
}

/// Says that the lab is still there until the client is gone or its connection is.
fn keep_alive(client: &Weak<Client>, ended: &mpsc::Receiver<()>) {
    while ended.recv_timeout(KEEP_ALIVE_EVERY) == Err(RecvTimeoutError::Timeout) {
        let Some(client) = client.upgrade() else { return };
        if client.ask(&Request::Now {}).is_err() {
            return;
        }
    }
}

/// Connects to the first address that answers.
fn reach(agent: &str) -> Result<TcpStream> {
    let addresses: Vec<SocketAddr> = agent
        .to_socket_addrs()
        .with_context(|| format!("{agent:?} is not an address: write it as 10.0.0.2:7311"))?
        .collect();
    let mut last = anyhow!("{agent:?} has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error.into(),
        }
    }
    Err(last.context("nothing answers: start `linerate lab agent` there, with --listen and --token-file"))
}

/// Proves the token and has the agent prove it.
fn greet(mut channel: Channel, token: &Token) -> Result<Channel> {
    let hello: Hello = channel.receive(GREETING).context("what answers is not an agent of the lab")?;
    if (hello.protocol.as_str(), hello.version) != (PROTOCOL, VERSION) {
        bail!(
            "what answers speaks {} {}, and this lab {PROTOCOL} {VERSION}: run the same linerate on both",
            hello.protocol,
            hello.version
        );
    }
    let theirs = hex::decode(&hello.nonce).and_then(|nonce| Block::try_from(nonce).ok());
    let nonces =
        Nonces { agent: theirs.context("the agent's nonce is not as the protocol says")?, lab: nonce()? };
    let proof = hex::encode(&token.proof(Purpose::Lab, &nonces)?);
    channel.send(&Introduction { version: VERSION, nonce: hex::encode(&nonces.lab), proof }, GREETING)?;
    match channel.receive(GREETING)? {
        Answer::Refused { reason } => bail!("refused: {reason}"),
        Answer::Welcome { proof } => {
            let proof = hex::decode(&proof).unwrap_or_default();
            if !token.verifies(Purpose::Agent, &nonces, &proof)? {
                bail!("what answers does not know the token: it is not the agent that it should be");
            }
        }
    }
    channel.seal(End::Lab, token.proof(Purpose::Seal, &nonces)?);
    Ok(channel)
}

fn exchange(channel: &mut Channel, request: &Request) -> Result<Reply> {
    channel.send(request, Bounds { bytes: REQUEST_BYTES, timeout: FRAME_TIMEOUT })?;
    channel.receive(Bounds { bytes: REPLY_BYTES, timeout: REPLY_TIMEOUT })
}

/// Seconds by which the agent's clock is ahead.
fn compare_clocks(channel: &mut Channel) -> Result<f64> {
    let mut best = (Duration::MAX, 0.0);
    for _ in 0..CLOCK_READINGS {
        let (before, started) = (now(), Instant::now());
        let Reply::Now { at } = exchange(channel, &Request::Now {})? else {
            bail!("the agent does not tell its time");
        };
        let trip = started.elapsed();
        if trip < best.0 {
            best = (trip, at - (before + trip.as_secs_f64() / 2.0));
        }
    }
    Ok(best.1)
}
