//! Frames over TCP: a length, that many bytes of JSON, and once both sides are known a seal.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | length of the JSON, big endian |
//! | length | the JSON |
//! | 32 | the seal: HMAC-SHA-256 over direction, number of the frame and JSON; not before both sides are known |
//!
//! A length is checked before anything is read, and memory grows with what has arrived, not with what was announced. Every
//! wait has an end.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hmac::Mac;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::limits::FRAME_TIMEOUT;
use super::token::{Block, mac};

/// Bytes that are read at a time.
const STEP: usize = 8192;

/// One side of a connection.
#[derive(Debug)]
pub(super) struct Channel {
    stream: TcpStream,
    seals: Option<Seals>,
}

/// Which side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Lab,
    Agent,
}

/// How many bytes a frame may have, and how long its length may take to come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) bytes: usize,
    pub(super) timeout: Duration,
}

struct Seals {
    key: Block,
    end: End,
    sent: u64,
    received: u64,
}

impl std::fmt::Debug for Seals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seals").field("end", &self.end).finish_non_exhaustive()
    }
}

impl Channel {
    pub(super) fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true).context("cannot turn Nagle's algorithm off")?;
        Ok(Self { stream, seals: None })
    }

    /// From now on every frame is sealed with this key.
    pub(super) fn seal(&mut self, end: End, key: Block) {
        self.seals = Some(Seals { key, end, sent: 0, received: 0 });
    }

    /// Tells the peer that nothing follows, and hears nothing more.
    pub(super) fn close(&self) {
        // It may be closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Sends one frame.
    pub(super) fn send(&mut self, message: &impl Serialize, bounds: Bounds) -> Result<()> {
        let json = serde_json::to_vec(message).context("a message cannot be written as JSON")?;
        ensure!(
            json.len() <= bounds.bytes,
            "a message of {} bytes is longer than the {} that the other side reads",
            json.len(),
            bounds.bytes
        );
        let mut frame = u32::try_from(json.len())?.to_be_bytes().to_vec();
        frame.extend_from_slice(&json);
        if let Some(seals) = &mut self.seals {
            let seal = seals.mac(seals.end, seals.sent, &json)?.finalize().into_bytes();
            frame.extend_from_slice(&seal);
            seals.sent += 1;
        }
        write(&mut self.stream, &frame, Instant::now() + bounds.timeout.min(FRAME_TIMEOUT))
    }

    /// Receives one frame.
    pub(super) fn receive<T: DeserializeOwned>(&mut self, bounds: Bounds) -> Result<T> {
        let head = read(&mut self.stream, 4, Instant::now() + bounds.timeout)?;
        let length = head.first_chunk().map_or(0, |head| u32::from_be_bytes(*head));
        let length = usize::try_from(length)?;
        ensure!(length <= bounds.bytes, "a frame of {length} bytes is longer than {}", bounds.bytes);
        let deadline = Instant::now() + bounds.timeout.min(FRAME_TIMEOUT);
        let json = read(&mut self.stream, length, deadline)?;
        if let Some(seals) = &mut self.seals {
            let seal = read(&mut self.stream, size_of::<Block>(), deadline)?;
            let mac = seals.mac(seals.end.other(), seals.received, &json)?;
            ensure!(mac.verify_slice(&seal).is_ok(), "a frame's seal is wrong");
            seals.received += 1;
        }
        serde_json::from_slice(&json).context("a frame is not a message of this protocol")
    }
}

impl Seals {
    fn mac(&self, from: End, number: u64, json: &[u8]) -> Result<hmac::Hmac<sha2::Sha256>> {
        let direction = [match from {
            End::Lab => b'l',
            End::Agent => b'a',
        }];
        Ok(mac(&self.key)?.chain_update(direction).chain_update(number.to_be_bytes()).chain_update(json))
    }
}

impl End {
    const fn other(self) -> Self {
        match self {
            Self::Lab => Self::Agent,
            Self::Agent => Self::Lab,
        }
    }
}

/// Time that is left, which a socket takes as its limit: never zero.
fn left(deadline: Instant) -> Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        bail!("the other side is silent, or slower than it may be");
    }
    Ok(left.max(Duration::from_millis(1)))
}

/// A socket's limit has passed (the deadline is looked at anew), or a signal came.
fn again(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn read(stream: &mut TcpStream, length: usize, deadline: Instant) -> Result<Vec<u8>> {
    let (mut bytes, mut step) = (Vec::new(), [0; STEP]);
    while bytes.len() < length {
        stream.set_read_timeout(Some(left(deadline)?))?;
        let want = STEP.min(length - bytes.len());
        match stream.read(&mut step[..want]) {
            Ok(0) => bail!("the other side has closed the connection"),
            Ok(count) => bytes.extend_from_slice(&step[..count]),
            Err(error) if again(error.kind()) => {}
            Err(error) => return Err(error).context("the connection is lost"),
        }
    }
    Ok(bytes)
}

fn write(stream: &mut TcpStream, mut bytes: &[u8], deadline: Instant) -> Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        match stream.write(bytes) {
            Ok(0) => bail!("the connection takes nothing more"),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if again(error.kind()) => {}
            Err(error) => return Err(error).context("the connection is lost"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const BOUNDS: Bounds = Bounds { bytes: 64, timeout: Duration::from_secs(20) };

    fn pair() -> (Channel, Channel) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let lab = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Channel::new(lab).unwrap(), Channel::new(listener.accept().unwrap().0).unwrap())
    }

    fn said(result: Result<String>) -> String {
        format!("{:#}", result.unwrap_err())
    }

    #[test]
    fn frames_come_whole_with_and_without_seals() {
        let (mut lab, mut agent) = pair();
        lab.send(&"one", BOUNDS).unwrap();
        assert_eq!(agent.receive::<String>(BOUNDS).unwrap(), "one");
        lab.seal(End::Lab, [7; 32]);
        agent.seal(End::Agent, [7; 32]);
        for word in ["two", "three"] {
            lab.send(&word, BOUNDS).unwrap();
            assert_eq!(agent.receive::<String>(BOUNDS).unwrap(), word);
            agent.send(&word, BOUNDS).unwrap();
            assert_eq!(lab.receive::<String>(BOUNDS).unwrap(), word);
        }
    }

    #[test]
    fn a_length_that_is_too_great_is_refused_before_anything_is_read() {
        let (lab, mut agent) = pair();
        (&lab.stream).write_all(&u32::MAX.to_be_bytes()).unwrap();
        assert!(said(agent.receive(BOUNDS)).contains("longer than 64"));
    }

    #[test]
    fn garbage_and_an_end_in_the_middle_are_errors() {
        let (lab, mut agent) = pair();
        (&lab.stream).write_all(b"\0\0\0\x03{{{").unwrap();
        assert!(said(agent.receive(BOUNDS)).contains("not a message"));
        (&lab.stream).write_all(b"\0\0\0\x09{{{").unwrap();
        drop(lab);
        assert!(said(agent.receive(BOUNDS)).contains("closed"));
    }

    #[test]
    fn a_silent_peer_is_given_up() {
        let (_lab, mut agent) = pair();
        let bounds = Bounds { timeout: Duration::from_millis(20), ..BOUNDS };
        assert!(said(agent.receive(bounds)).contains("silent"));
    }

    #[test]
    fn a_frame_without_the_right_seal_is_refused() {
        let (mut lab, mut agent) = pair();
        lab.seal(End::Lab, [7; 32]);
        agent.seal(End::Agent, [8; 32]);
        lab.send(&"one", BOUNDS).unwrap();
        assert!(said(agent.receive(BOUNDS)).contains("seal"));
    }

    #[test]
    fn a_frame_that_is_played_again_or_back_is_refused() {
        let (mut lab, mut agent) = pair();
        lab.seal(End::Lab, [7; 32]);
        agent.seal(End::Agent, [7; 32]);
        let seal = lab.seals.as_ref().unwrap().mac(End::Lab, 0, b"\"x\"").unwrap().finalize().into_bytes();
        let frame = [b"\0\0\0\x03\"x\"".as_slice(), &seal].concat();
        (&lab.stream).write_all(&[frame.clone(), frame.clone()].concat()).unwrap();
        assert_eq!(agent.receive::<String>(BOUNDS).unwrap(), "x");
        assert!(said(agent.receive(BOUNDS)).contains("seal"));
        (&agent.stream).write_all(&frame).unwrap();
        assert!(said(lab.receive(BOUNDS)).contains("seal"));
    }
}
