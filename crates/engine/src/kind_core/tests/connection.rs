//! A protocol for files: a line for a call, a line for what came of it. Each call's first word is its tag.
//!
//! `open PATH`, `read HANDLE`, `append HANDLE TEXT`, `commit`; `cancel TAG`; `freeze` ends all appends, and is answered when none of before can
//! take effect any more, on any core.

use iscsi::target::ResetResult;
use std::collections::VecDeque;

use protocol::{CloseReason, Connection, Ended, Instant, Notice, Parties, Placement, Transmit};
use volume::{Epoch, Submission, Tag};

use super::files::{Call, FileCompletion, FileKind, FileRequest, Handle, Reply, ServedFiles};
use crate::driver::{DriverContext, Role};
use crate::message::{Cause, Inbound, Message, ResetCall};
use crate::served_id::ServedId;
use crate::serving_connection::ServingConnection;

pub(super) enum Input {
    Completion(FileCompletion),
    StaleEpoch(Box<FileRequest>),
    Fence(ServedId, Epoch),
    Frozen(u32),
    Shutdown,
}

pub(super) enum Action {
    Submit(Submission<FileRequest>),
    Cancel { served: ServedId, tag: Tag },
    Freeze { served: ServedId, tag: u32 },
}

/// One client's connection to a file system.
pub(super) struct FileConnection {
    served: ServedFiles,
    epoch: Epoch,
    actions: VecDeque<Action>,
    answers: VecDeque<String>,
    is_closing: bool,
}

impl FileConnection {
    pub(super) fn new(served: ServedFiles) -> Self {
        let (actions, answers) = (VecDeque::new(), VecDeque::new());
        Self { served, epoch: Epoch::default(), actions, answers, is_closing: false }
    }

    /// Judges a call by what holds now, and submits it.
    fn judge(&mut self, request: FileRequest) {
        let is_frozen = self.served.files.content.lock().unwrap().frozen;
        if is_frozen && matches!(request.call, Call::Append(..)) {
            return self.answers.push_back(format!("{} frozen", request.tag.0));
        }
        self.actions.push_back(Action::Submit(Submission {
            volume: self.served.id,
            epoch: self.epoch,
            request,
        }));
    }

    fn handle_line(&mut self, line: &str) {
        let (tag, line) = line.split_once(' ').unwrap();
        let tag = tag.parse::<u32>().unwrap();
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let call = match word {
            "open" => Call::Open(rest.to_owned()),
            "read" => Call::Read(Handle(rest.parse().unwrap())),
            "append" => {
                let (handle, text) = rest.split_once(' ').unwrap();
                Call::Append(Handle(handle.parse().unwrap()), text.to_owned())
            }
            "commit" => Call::Commit,
            "cancel" => {
                let (served, tag) = (self.served.id, Tag(rest.parse().unwrap()));
                return self.actions.push_back(Action::Cancel { served, tag });
            }
            "freeze" => {
                self.served.files.content.lock().unwrap().frozen = true;
                return self.actions.push_back(Action::Freeze { served: self.served.id, tag });
            }
            other => panic!("{other:?} is no call"),
        };
        self.judge(FileRequest { tag: Tag(tag.into()), call });
    }
}

impl Connection for FileConnection {
    type Input = Input;
    type Action = Action;

    const STAGING: usize = 4096;

    fn handle_bytes(&mut self, _: Instant, bytes: &[u8]) -> usize {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return 0 };
        self.handle_line(std::str::from_utf8(&bytes[..end]).unwrap());
        end + 1
    }

    fn take_placement(&mut self) -> Option<Placement> {
        None
    }

    fn handle_placed(&mut self, _: Instant, _: Placement) {}

    fn handle_input(&mut self, _: Instant, input: Input) {
        match input {
            Input::Completion(FileCompletion { tag: Tag(tag), result }) => {
                self.answers.push_back(match result {
                    Ok(Reply::Opened(Handle(handle))) => format!("{tag} handle {handle}"),
                    Ok(Reply::Content(content)) => format!("{tag} content {content}"),
                    Ok(Reply::Done) => format!("{tag} done"),
                    Err(error) => format!("{tag} failed: {error}"),
                });
            }
            Input::StaleEpoch(request) => self.judge(*request),
            Input::Fence(served, epoch) if served == self.served.id => self.epoch = epoch,
            Input::Fence(..) => {}
            Input::Frozen(tag) => self.answers.push_back(format!("{tag} done")),
            Input::Shutdown => self.is_closing = true,
        }
    }

    fn handle_transmitted(&mut self, _: Instant, _: usize) {}

    fn handle_timeout(&mut self, _: Instant) {}

    fn handle_ended(&mut self, _: Instant, _: Ended) {}

    fn poll_transmit(&mut self, _: Instant, send: &mut Transmit) {
        self.answers.drain(..).for_each(|answer| send.put(format!("{answer}\n").as_bytes()));
    }

    fn poll_action(&mut self) -> Option<Self::Action> {
        self.actions.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.is_closing.then_some(CloseReason::ShuttingDown)
    }
}

impl ServingConnection for FileConnection {
    const CARRIER: Option<&'static str> = None;

    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }

    fn parties(&self) -> Parties {
        Parties { initiator: Some("client".to_owned()), target: Some(self.served.name.to_string()) }
    }

    fn uses(&self, served: ServedId) -> bool {
        self.served.id == served
    }

    fn is_withdrawn(&self) -> bool {
        false
    }

    fn reports_changes(&self) -> bool {
        false
    }
}

/// The driver's words for such a connection.
pub(super) struct FileServer;

impl Role for FileServer {
    type Kind = FileKind;
    type Connection = FileConnection;

    fn input(inbound: Inbound<FileKind>) -> Option<Input> {
        Some(match inbound {
            Inbound::Completion(completion) => Input::Completion(completion),
            Inbound::StaleEpoch(request) => Input::StaleEpoch(request),
            Inbound::Fence(fence) => Input::Fence(fence.served, fence.epoch()),
            Inbound::Reset(tag, result) => {
                assert_eq!(result, ResetResult::Done, "not many are under way");
                Input::Frozen(tag)
            }
            Inbound::Shutdown => Input::Shutdown,
            _ => return None,
        })
    }

    fn act(action: Action, context: &mut DriverContext<FileKind>) {
        match action {
            Action::Submit(submission) => context.submit(submission),
            Action::Cancel { served, tag } => context.cancel(served, tag),
            Action::Freeze { served, tag } => {
                let served = vec![served];
                let call = ResetCall { from: context.member, tag, served, cause: Cause::Unconcerned };
                context.hub.post_owner(Message::Reset(call));
            }
        }
    }
}
