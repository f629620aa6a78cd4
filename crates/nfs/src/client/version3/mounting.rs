//! MOUNT at a client (RFC 1813 appendix I): which part of a path is an export, and the handle that everything below it begins with.
//!
//! Nothing in the path says where the export ends. Servers give handles for directories within an export, too, so the longest path, that of the file's directory, is asked for first, and shorter
//! ones behind it, up to the root.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use buf::Buf;
use protocol::{CloseReason, Instant};
use rpc::message::{AcceptStat, AuthSysToSend, CallHeader, Procedure, ReplyStatus};
use rpc::xdr::{Decoder, Error, Reader, Step};
use rpc::{Body, Call, CallId, Channel, Credential, Memory, NoBody, ReceivedReply, UpperLayer};

use crate::client::limits::RESULTS;
use crate::client::refusal::{Called, refusal};
use crate::client::remote::shown;
use crate::mount::{self, Status};

/// MOUNTPROC3_MNT.
const MNT: Procedure = Procedure { program: mount::PROGRAM, version: mount::VERSION, procedure: 1 };

/// What a client of MOUNT is told when it connects.
#[derive(Debug, Clone)]
pub struct MountConfig {
    /// The names from the server's root to the file, at least one.
    pub path: Vec<Vec<u8>>,
    /// Who asks.
    pub user: Arc<AuthSysToSend>,
    /// How long all of it may take.
    pub command_time: Duration,
}

/// An export, and where the file is below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Its handle.
    pub root: Vec<u8>,
    /// The names from the server's root to the file, at least one.
    pub path: Vec<Vec<u8>>,
    /// How many of them lead to the export: less than all.
    pub mounted: usize,
}

/// What comes from inside: the answer has been heard.
#[derive(Debug)]
pub struct MountInput;

/// What goes inside.
#[derive(Debug)]
pub enum MountAction {
    /// There is the export.
    Mounted(Arc<Export>),
    /// There is none.
    Failed {
        /// Why, for people.
        reason: String,
    },
}

/// A client of MOUNT over one connection, for one path.
#[derive(Debug)]
pub struct MountClient {
    config: MountConfig,
    /// Names of the path that is asked for.
    names: usize,
    /// Why a longer path was refused.
    refused: Option<(usize, Status)>,
    deadline: Option<Instant>,
    action: Option<MountAction>,
}

/// The decoder of an answer.
#[derive(Debug, Default)]
pub struct MountResults(Option<Result<Vec<u8>, Status>>);

impl Decoder for MountResults {
    fn step(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
        self.0 = Some(mount::mounted(reader)?);
        Ok(Step::End)
    }
}

impl Body for MountResults {
    fn payload(&mut self, _piece: Buf) {}
}

impl MountClient {
    /// A client whose connection has just been made.
    pub fn new(config: MountConfig) -> Self {
        let names = config.path.len().saturating_sub(1);
        Self { config, names, refused: None, deadline: None, action: None }
    }

    /// Sends the first call.
    pub fn start(&mut self, now: Instant, channel: &mut Channel<MountResults>) {
        // A little less than whoever waits for it has: so what it is told is why.
        self.deadline = Some(now + self.config.command_time.saturating_sub(self.config.command_time / 16));
        self.ask(now, channel);
    }

    /// Asks for the longest path that was not asked for and that MOUNT takes.
    fn ask(&mut self, now: Instant, channel: &mut Channel<MountResults>) {
        let mut writer = channel.writer();
        while mount::put_path(&mut writer, self.config.path.get(..self.names).unwrap_or_default()).is_none() {
            self.names = self.names.saturating_sub(1);
        }
        let call = Call {
            procedure: MNT,
            credential: Credential::Sys(self.config.user.clone()),
            arguments: writer.finish(),
            results: MountResults::default(),
            memory: Memory::new(),
            results_limit: RESULTS,
        };
        if channel.call(now, call).is_err() {
            self.fail(channel, "too many calls are under way".to_owned());
        }
    }

    fn answered(&mut self, now: Instant, channel: &mut Channel<MountResults>, status: Status) {
        // A server that knows an export and lets nobody in says more than one that does not know a longer path.
        let says_more = status == Status::ACCES && self.names > 0;
        match self.refused {
            Some((_, known)) if !says_more || known == Status::ACCES => {}
            _ => self.refused = Some((self.names, status)),
        }
        if self.names > 0 {
            self.names = self.names.saturating_sub(1);
            return self.ask(now, channel);
        }
        let (names, status) = self.refused.unwrap_or((0, status));
        let path = shown(self.config.path.get(..names).unwrap_or_default());
        let path = if path.is_empty() { "/".to_owned() } else { path };
        let reason = format!("{path} is not found: MNT answers {status}; {}", remedy(status));
        self.fail(channel, reason);
    }

    fn fail(&mut self, channel: &mut Channel<MountResults>, reason: String) {
        if self.deadline.take().is_some() {
            self.action = Some(MountAction::Failed { reason });
            channel.close(CloseReason::Finished);
        }
    }
}

/// What a user can do about a status.
fn remedy(status: Status) -> &'static str {
    match status {
        Status::ACCES | Status::PERM => {
            "the server does not export it to this machine or this user: check the path, and whom the export lets in (`showmount -e HOST` lists exports)"
        }
        Status::NOENT | Status::NOTDIR => {
            "check the path; a server of version 3 knows the paths of its exports and what is below them"
        }
        _ => crate::client::remedy::LOG,
    }
}

impl UpperLayer for MountClient {
    type Input = MountInput;
    type Action = MountAction;
    type Arguments = NoBody;
    type Results = MountResults;

    fn begin_call(&mut self, _header: &CallHeader<'_>) -> Result<NoBody, ReplyStatus> {
        Err(ReplyStatus::Accepted(AcceptStat::ProgramUnavailable))
    }

    fn memory(&mut self, _length: usize) -> Option<Buf> {
        None
    }

    fn call(&mut self, _now: Instant, _channel: &mut Channel<MountResults>, _id: CallId, arguments: NoBody) {
        match arguments {}
    }

    fn reply(
        &mut self,
        now: Instant,
        channel: &mut Channel<MountResults>,
        reply: ReceivedReply<MountResults>,
    ) {
        if self.deadline.is_none() {
            return;
        }
        let ReceivedReply { results: MountResults(results), outcome, .. } = reply;
        match (outcome, results) {
            (Err(error), _) => self.fail(channel, refusal(Called::Mount, error)),
            (Ok(()), Some(Err(status))) => self.answered(now, channel, status),
            (Ok(()), Some(Ok(root))) => {
                self.deadline = None;
                let (path, mounted) = (self.config.path.clone(), self.names);
                self.action = Some(MountAction::Mounted(Arc::new(Export { root, path, mounted })));
            }
            (Ok(()), None) => self.fail(channel, "the server's answer to MNT is empty".to_owned()),
        }
    }

    fn handle_input(&mut self, _now: Instant, channel: &mut Channel<MountResults>, _input: MountInput) {
        self.deadline = None;
        channel.close(CloseReason::Finished);
    }

    fn poll_action(&mut self) -> Option<MountAction> {
        self.action.take()
    }

    fn handle_timeout(&mut self, now: Instant, channel: &mut Channel<MountResults>) {
        let is_late = matches!(channel.close_reason(), Some(CloseReason::TimedOut(_)))
            || self.deadline.is_some_and(|deadline| deadline <= now);
        if is_late {
            let reason =
                "the server does not answer: check that it runs, and that MOUNT is served at this port";
            self.fail(channel, reason.to_owned());
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    fn handle_ended(&mut self, _now: Instant, channel: &mut Channel<MountResults>) {
        self.fail(channel, "the connection has ended".to_owned());
    }

    fn is_established(&self) -> bool {
        self.deadline.is_none()
    }
}
