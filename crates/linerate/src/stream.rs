//! Streams as ends of a copy: standard input, standard output, pipes.
//!
//! Reading and writing a stream blocks, which an event loop must not. A thread does it, with a short queue between: whoever is
//! faster waits for the other.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use buf::SharedBuf;

use crate::error::StreamError;
use crate::limits::STREAM_AHEAD;
use crate::walk::piece::{Content, Fed, Piece, Span};

/// Bytes on their way between a stream's thread and the event loop.
struct Queue<T> {
    inner: Mutex<Inner<T>>,
    moved: Condvar,
    waker: Waker,
}

struct Inner<T> {
    pieces: VecDeque<T>,
    /// Nothing comes after what is queued.
    closed: bool,
    /// Everything has been taken and dealt with, or cannot be.
    ended: Option<Result<(), StreamError>>,
    /// The other end has gone.
    abandoned: bool,
}

impl<T> Queue<T> {
    fn new(waker: &Waker) -> Arc<Self> {
        let inner = Inner { pieces: VecDeque::new(), closed: false, ended: None, abandoned: false };
        Arc::new(Self { inner: Mutex::new(inner), moved: Condvar::new(), waker: waker.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `ready`, on the stream's own thread.
    fn wait(&self, ready: impl Fn(&Inner<T>) -> bool) -> MutexGuard<'_, Inner<T>> {
        let mut inner = self.lock();
        while !ready(&inner) {
            inner = self.moved.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        inner
    }

    fn end(&self, how: Result<(), StreamError>) {
        self.lock().ended = Some(how);
        self.waker.wake_by_ref();
    }
}

/// Chunks from a stream.
pub(crate) struct Inlet {
    queue: Arc<Queue<Vec<u8>>>,
    at: u64,
}

impl Inlet {
    /// Reads `stream` to its end on a thread of its own, in chunks of `chunk` bytes.
    pub(crate) fn new(stream: Box<dyn Read + Send>, chunk: u64, waker: &Waker) -> io::Result<Self> {
        let queue = Queue::new(waker);
        let theirs = Arc::clone(&queue);
        std::thread::Builder::new().name("stream-in".to_owned()).spawn(move || {
            let how = pull(stream, chunk, &theirs);
            theirs.end(how.map_err(|error| StreamError::Read(Arc::new(error))));
        })?;
        Ok(Self { queue, at: 0 })
    }

    /// The next chunk.
    pub(crate) fn next(&mut self) -> Fed {
        let mut inner = self.queue.lock();
        let Some(piece) = inner.pieces.pop_front() else {
            return match &inner.ended {
                None => Fed::Later,
                Some(Ok(())) => Fed::End,
                Some(Err(error)) => Fed::Failed(error.clone()),
            };
        };
        drop(inner);
        self.queue.moved.notify_one();
        let span = Span { at: self.at, len: piece.len() as u64 };
        self.at += span.len;
        Fed::Piece(Piece { span, content: Content::Here(SharedBuf::from(piece)) })
    }
}

/// Reads chunks until the stream ends or nobody wants them any more.
fn pull(mut stream: impl Read, chunk: u64, queue: &Queue<Vec<u8>>) -> io::Result<()> {
    loop {
        let mut piece = Vec::new();
        stream.by_ref().take(chunk).read_to_end(&mut piece)?;
        if piece.is_empty() {
            return Ok(());
        }
        let mut inner = queue.wait(|inner| inner.pieces.len() < STREAM_AHEAD || inner.abandoned);
        if inner.abandoned {
            return Ok(());
        }
        inner.pieces.push_back(piece);
        drop(inner);
        queue.waker.wake_by_ref();
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        self.queue.lock().abandoned = true;
        self.queue.moved.notify_one();
    }
}

impl fmt::Debug for Inlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inlet").field("at", &self.at).finish_non_exhaustive()
    }
}

/// What goes out to a stream.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// These bytes.
    Data(SharedBuf),
    /// So many zeros.
    Zeros(u64),
}

/// A stream that takes chunks in order.
pub(crate) struct Outlet(Arc<Queue<Outgoing>>);

impl Outlet {
    /// Writes to `stream` on a thread of its own.
    pub(crate) fn new(stream: Box<dyn Write + Send>, waker: &Waker) -> io::Result<Self> {
        let queue = Queue::new(waker);
        let theirs = Arc::clone(&queue);
        std::thread::Builder::new().name("stream-out".to_owned()).spawn(move || {
            let how = push(stream, &theirs);
            theirs.end(how.map_err(|error| StreamError::Write(Arc::new(error))));
        })?;
        Ok(Self(queue))
    }

    /// Takes the next piece, or gives it back while the stream is behind.
    pub(crate) fn put(&mut self, piece: Outgoing) -> Result<Option<Outgoing>, StreamError> {
        let mut inner = self.0.lock();
        match &inner.ended {
            Some(Err(error)) => return Err(error.clone()),
            Some(Ok(())) => return Err(StreamError::Closed),
            None => {}
        }
        if inner.pieces.len() >= STREAM_AHEAD {
            return Ok(Some(piece));
        }
        inner.pieces.push_back(piece);
        drop(inner);
        self.0.moved.notify_one();
        Ok(None)
    }

    /// Says that nothing more comes; true once everything has been written.
    pub(crate) fn close(&mut self) -> Result<bool, StreamError> {
        let mut inner = self.0.lock();
        inner.closed = true;
        let ended = inner.ended.clone();
        drop(inner);
        self.0.moved.notify_one();
        ended.transpose().map(|ended| ended.is_some())
    }
}

/// Writes what comes until it is closed.
fn push(mut stream: impl Write, queue: &Queue<Outgoing>) -> io::Result<()> {
    loop {
        let mut inner = queue.wait(|inner| !inner.pieces.is_empty() || inner.closed || inner.abandoned);
        let Some(piece) = inner.pieces.pop_front() else { return stream.flush() };
        drop(inner);
        queue.waker.wake_by_ref();
        match piece {
            Outgoing::Data(data) => stream.write_all(&data)?,
            Outgoing::Zeros(count) => {
                io::copy(&mut io::repeat(0).take(count), &mut stream)?;
            }
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.abandoned = true;
        inner.pieces.clear();
        drop(inner);
        self.0.moved.notify_one();
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outlet")
    }
}
