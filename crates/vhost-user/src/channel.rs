//! The socket to the device: one request at a time, each answered or known to need no answer.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::limits::{ANSWER, ANSWER_TIME};
use crate::message::{HEADER, Header, Request};

/// Descriptors beside one message, at most: no request has more than one, and no answer.
const DESCRIPTORS: usize = 1;

/// The socket.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: UnixStream,
    /// Both sides have agreed that each request can be answered.
    pub(crate) acknowledges: bool,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) payload: Vec<u8>,
    pub(crate) descriptor: Option<OwnedFd>,
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl Channel {
    /// Connects to a device.
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        let socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(ANSWER_TIME))?;
        socket.set_write_timeout(Some(ANSWER_TIME))?;
        Ok(Self { socket, acknowledges: false })
    }

    /// The socket itself, for whoever waits until the device leaves.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Asks for something that has an answer of its own.
    pub(crate) fn ask(
        &self,
        request: Request,
        payload: &[u8],
        file: Option<BorrowedFd<'_>>,
    ) -> io::Result<Answer> {
        self.send(request, payload, file, false)?;
        self.receive(request)
    }

    /// Asks for a number.
    pub(crate) fn ask_number(&self, request: Request) -> io::Result<u64> {
        number(&self.ask(request, &[], None)?.payload)
    }

    /// Asks for a value like the one that is sent along.
    pub(crate) fn exchange<T: FromBytes + IntoBytes + Immutable>(
        &self,
        request: Request,
        value: &T,
    ) -> io::Result<(T, Option<OwnedFd>)> {
        let answer = self.ask(request, value.as_bytes(), None)?;
        let value = T::read_from_bytes(&answer.payload)
            .map_err(|_| broken("the device answers with another length"))?;
        Ok((value, answer.descriptor))
    }

    /// Tells the device something, and waits for its consent where that was agreed on.
    pub(crate) fn tell<T: IntoBytes + Immutable + ?Sized>(
        &self,
        request: Request,
        value: &T,
        file: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        self.send(request, value.as_bytes(), file, self.acknowledges)?;
        if !self.acknowledges {
            return Ok(());
        }
        match number(&self.receive(request)?.payload)? {
            0 => Ok(()),
            _ => Err(io::Error::other(format!("the device refuses {request:?}"))),
        }
    }

    fn send(
        &self,
        request: Request,
        payload: &[u8],
        file: Option<BorrowedFd<'_>>,
        needs_reply: bool,
    ) -> io::Result<()> {
        let header = Header::new(request, wire::bounded(payload.len()), needs_reply);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        let files: Vec<BorrowedFd<'_>> = file.into_iter().collect();
        if !files.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let parts = [IoSlice::new(header.as_bytes()), IoSlice::new(payload)];
        let sent = sendmsg(&self.socket, &parts, &mut beside, SendFlags::NOSIGNAL)?;
        // A message is far shorter than what a socket takes at once.
        if sent == HEADER + payload.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    fn receive(&self, request: Request) -> io::Result<Answer> {
        let mut head = [0; HEADER];
        let descriptor = self.fill(&mut head)?;
        let header = Header::read_from_bytes(&head).map_err(|_| broken("a header is cut off"))?;
        let len = wire::index(u64::from(header.size));
        if !header.answers(request) || len > ANSWER {
            return Err(broken("the device answers something else than it was asked"));
        }
        let mut payload = vec![0; len];
        let later = self.fill(&mut payload)?;
        Ok(Answer { payload, descriptor: descriptor.or(later) })
    }

    /// Fills all of `into`, and says which descriptor came beside it.
    fn fill(&self, into: &mut [u8]) -> io::Result<Option<OwnedFd>> {
        let mut descriptor = None;
        let mut filled = 0;
        while filled < into.len() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
            let mut beside = RecvAncillaryBuffer::new(&mut space);
            let rest = &mut [IoSliceMut::new(into.get_mut(filled..).unwrap_or_default())];
            let came = recvmsg(&self.socket, rest, &mut beside, RecvFlags::CMSG_CLOEXEC)?;
            for message in beside.drain() {
                if let RecvAncillaryMessage::ScmRights(files) = message {
                    descriptor = files.into_iter().next().or(descriptor);
                }
            }
            if came.bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += came.bytes;
        }
        Ok(descriptor)
    }
}

/// The number that an answer is.
fn number(payload: &[u8]) -> io::Result<u64> {
    let bytes = payload.try_into().map_err(|_| broken("the device answers with another length"))?;
    Ok(u64::from_ne_bytes(bytes))
}
