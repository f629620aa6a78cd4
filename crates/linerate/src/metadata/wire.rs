//! A connection of the client of names over a socket of the system's, without an event loop: who asks sleeps until an answer comes.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use names::{NfsUrl, NfsVersion};
use nfs::client::names::{NameOperation, NamesAction, NamesConfig, NamesInput, NamesOutcome, NamesReady};
use nfs::client::{TcpNames, Versions, connect};
use nfs::v4::{Status, Verifier};
use protocol::{Connection, Ended, Instant, Transmit};
use rpc::message::AuthSysToSend;

use super::plan::NamesError;
use crate::open::user;

/// The machine's name in AUTH_SYS.
const MACHINE: &str = "linerate";
/// How long a server may take for one operation, unless the URL says otherwise.
const COMMAND_TIME: Duration = Duration::from_secs(30);
/// How long a sleep lasts at most: then the client looks at the clock.
const SLEEP: Duration = Duration::from_millis(100);
/// Bytes that are received at a time.
const STAGING: usize = 256 << 10;
/// Bytes and pieces that are sent at a time.
const SEND: (usize, usize) = (256 << 10, 256);

/// What an operation came to.
pub(crate) type Answer = Result<NamesOutcome, Status>;

/// The connection.
pub(crate) struct Wire {
    stream: TcpStream,
    address: SocketAddr,
    connection: TcpNames,
    begun: std::time::Instant,
    /// Of the turn that goes on.
    now: Instant,
    staging: Vec<u8>,
    /// Bytes at the front of it that wait for more.
    staged: usize,
    send: Transmit,
}

impl Wire {
    /// Connects to the first address that answers, and finds the directory.
    pub(crate) fn connect(addresses: &[SocketAddr], url: &NfsUrl) -> Result<(Self, NamesReady), NamesError> {
        let mut refused = None;
        for address in addresses {
            match TcpStream::connect_timeout(address, COMMAND_TIME) {
                Ok(stream) => return Self::begin(stream, *address, url),
                Err(error) => {
                    refused = refused.or(Some(NamesError::Connection { address: *address, error }));
                }
            }
        }
        Err(refused.unwrap_or_else(|| NamesError::Client("the server has no address".to_owned())))
    }

    fn begin(stream: TcpStream, address: SocketAddr, url: &NfsUrl) -> Result<(Self, NamesReady), NamesError> {
        let failed = |error| NamesError::Connection { address, error };
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(SLEEP)).map_err(failed)?;
        let mut random = [0; 28];
        getrandom::fill(&mut random).map_err(|error| NamesError::Client(error.to_string()))?;
        let (name, rest) = random.split_at(16);
        let (verifier, xid) = rest.split_at(8);
        let word = |bytes: &[u8]| bytes.iter().fold(0_u128, |word, byte| word << 8 | u128::from(*byte));
        let config = NamesConfig {
            path: url.path.iter().map(|name| name.clone().into_bytes()).collect(),
            versions: match url.options.version {
                None => Versions::Newest,
                Some(NfsVersion::V3) => {
                    let why = "directories are read and changed over version 4 alone: leave version=3 out";
                    return Err(NamesError::Client(why.to_owned()));
                }
                Some(NfsVersion::V4_1) => Versions::One,
                Some(NfsVersion::V4_2) => Versions::Two,
            },
            user: Arc::new(sender(url)),
            owner: format!("{MACHINE} {:032x}", word(name)).into_bytes(),
            verifier: Verifier(verifier.try_into().unwrap_or_default()),
            command_time: url.options.timeout.map_or(COMMAND_TIME, |span| span.0),
        };
        let connection = connect(Instant::ZERO, config, ::wire::saturate(word(xid)));
        let mut wire = Self {
            stream,
            address,
            connection,
            begun: std::time::Instant::now(),
            now: Instant::ZERO,
            staging: vec![0; STAGING],
            staged: 0,
            send: Transmit::new(SEND.0, SEND.1),
        };
        loop {
            match wire.connection.poll_action() {
                Some(NamesAction::Ready(ready)) => return Ok((wire, ready)),
                Some(NamesAction::Failed { reason }) => return Err(NamesError::Client(reason)),
                Some(NamesAction::Done(..)) => {}
                None => wire.turn()?,
            }
        }
    }

    /// When the turn that goes on began, or what came after it was looked at.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Asks for an operation; it is sent with the next turn.
    pub(crate) fn submit(&mut self, item: usize, operation: NameOperation) {
        self.connection.handle_input(self.now, NamesInput::Do(::wire::saturate(item), operation));
    }

    /// The next answer.
    pub(crate) fn poll(&mut self) -> Result<Option<(usize, Answer)>, NamesError> {
        match self.connection.poll_action() {
            None => Ok(None),
            Some(NamesAction::Done(item, outcome)) => Ok(Some((::wire::index(item), outcome))),
            Some(NamesAction::Failed { reason }) => Err(NamesError::Client(reason)),
            Some(NamesAction::Ready(_)) => Err(NamesError::Client("it is ready twice".to_owned())),
        }
    }

    /// Sends what waits, and sleeps until something has come or the clock is to be looked at.
    pub(crate) fn turn(&mut self) -> Result<(), NamesError> {
        self.flush()?;
        self.receive()
    }

    fn flush(&mut self) -> Result<(), NamesError> {
        loop {
            self.send.clear();
            self.connection.poll_transmit(self.now, &mut self.send);
            if self.send.is_empty() {
                return Ok(());
            }
            for segment in self.send.segments() {
                let sent = self.stream.write_all(self.send.bytes(segment));
                sent.map_err(|error| NamesError::Connection { address: self.address, error })?;
            }
            self.connection.handle_transmitted(self.now, self.send.len());
        }
    }

    fn receive(&mut self) -> Result<(), NamesError> {
        let room = self.staging.get_mut(self.staged..).unwrap_or_default();
        let received = self.stream.read(room);
        self.now = Instant::ZERO + self.begun.elapsed();
        match received {
            Ok(0) => self.connection.handle_ended(self.now, Ended::ByPeer),
            Ok(count) => {
                let end = self.staged.saturating_add(count);
                let bytes = self.staging.get(..end).unwrap_or_default();
                let used = self.connection.handle_bytes(self.now, bytes);
                self.staging.copy_within(used..end, 0);
                self.staged = end.saturating_sub(used);
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(NamesError::Connection { address: self.address, error }),
        }
        if self.connection.poll_timeout().is_some_and(|due| due <= self.now) {
            self.connection.handle_timeout(self.now);
        }
        Ok(())
    }

    /// Ends session and client, so that the server keeps nothing.
    pub(crate) fn leave(mut self) -> Result<(), NamesError> {
        self.connection.handle_input(self.now, NamesInput::Disconnect);
        while self.connection.poll_close().is_none() {
            self.turn()?;
        }
        Ok(())
    }
}

/// Who asks: the process's user and groups, unless the URL says otherwise.
fn sender(url: &NfsUrl) -> AuthSysToSend {
    let (user, options) = (user(), &url.options);
    let (uid, gid) = (options.uid.unwrap_or(user.uid), options.gid.unwrap_or(user.gid));
    // Groups are those of the process: another user has others, which nobody knows here.
    let groups = if options.uid.is_none() { user.groups.as_slice() } else { &[] };
    AuthSysToSend::new(MACHINE, uid, gid, groups)
}
