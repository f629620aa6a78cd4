//! A procedure under way: its steps, up to its answer.

use alloc::sync::Arc;
use alloc::vec::Vec;

use buf::SharedBuf;
use filesystem::{Attributes, Credentials, Operation, Outcome};
use rpc::xdr::{Stream, Writer};

use super::super::context::{Input, Shared};
use super::super::executor::Wait;
use super::super::exports::FileKey;
use super::super::held::Use;
use super::begin::begin;
use super::env::{Env, Flow, Located, Stage, outcome};
use super::resume::{resume, tell_failure};
use crate::state::answers::CallKey;
use crate::state::messages::{Answer, Call, Notice};
use crate::v3::Status;
use crate::v3::call::Call as Arrived;
use crate::v3::procedure::{Number, Procedure};

/// Where it stands.
#[derive(Debug)]
enum State {
    /// Nothing was done.
    Begin(Procedure),
    /// The group says whether it was carried out before.
    Asking(Procedure),
    Waiting(Stage),
    /// It failed, and the attributes of its first object are asked for.
    Failing(Status),
    Over,
}

/// What becomes of its call.
#[derive(Debug)]
enum Ending {
    /// It is answered with what was written.
    Own,
    /// It was carried out before.
    Repeated(SharedBuf),
    /// It was not carried out, and is answered so: its number may be of another that is under way.
    Refused,
}

/// A procedure under way.
#[derive(Debug)]
pub(crate) struct Running {
    number: Number,
    caller: Option<Arc<Credentials>>,
    out: Writer,
    bytes: usize,
    payload: usize,
    state: State,
    subject: Option<Located>,
    uses: Vec<Use>,
    /// By what the group knows it; nothing for what can be carried out twice.
    key: Option<CallKey>,
    ending: Ending,
}

impl Running {
    /// Begins; [`Running::advance`] goes on. `None` if its arguments were not read.
    pub(crate) fn new(
        call: Arrived,
        client: core::net::IpAddr,
        caller: Option<Arc<Credentials>>,
        out: Writer,
    ) -> Option<Self> {
        let number = call.number();
        let key = number.is_once().then(|| CallKey {
            client,
            xid: call.xid(),
            procedure: number.0,
            principal: call.principal(),
            len: call.len(),
            sum: call.sum(),
        });
        let (bytes, payload) = (call.len(), call.payload_len());
        let state = State::Begin(call.into_procedure()?);
        let (subject, uses, ending) = (None, Vec::new(), Ending::Own);
        Some(Self { number, caller, out, bytes, payload, state, subject, uses, key, ending })
    }

    /// Bytes of arguments that it keeps.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of them that lie in memory of the pool.
    pub(crate) fn payload(&self) -> usize {
        self.payload
    }

    /// Goes on until it waits or is finished. `input` is what it waited for.
    pub(crate) fn advance(&mut self, shared: &mut Shared, input: Option<Input>) -> Wait {
        let state = core::mem::replace(&mut self.state, State::Over);
        let flow = match (state, input) {
            (State::Begin(procedure), _) => {
                if let Some(key) = self.key {
                    self.state = State::Asking(procedure);
                    return Wait::Group(Call::Once(key));
                }
                begin(&mut self.env(shared), procedure)
            }
            (State::Asking(procedure), Some(Input::Group(Ok(Answer::Done)))) => {
                begin(&mut self.env(shared), procedure)
            }
            (State::Asking(_), Some(Input::Group(Ok(Answer::Repeated(answer))))) => {
                self.ending = Ending::Repeated(answer);
                return Wait::Finished;
            }
            (State::Asking(_), input) => {
                self.ending = Ending::Refused;
                let status = match input {
                    Some(Input::Group(Err(status))) => status.into(),
                    _ => Status::SERVERFAULT,
                };
                return self.fail(status, None);
            }
            (State::Waiting(at), Some(input)) => resume(&mut self.env(shared), at, input),
            (State::Failing(status), Some(input)) => {
                let after = match outcome(input) {
                    Ok(Outcome::Attributes(attributes)) => Some(*attributes),
                    _ => None,
                };
                return self.fail(status, after);
            }
            (State::Waiting(_) | State::Failing(_) | State::Over, _) => return Wait::Finished,
        };
        if !matches!(flow, Ok(Flow::File { .. })) {
            for by in self.uses.drain(..) {
                shared.loans.end_use(&by);
            }
        }
        match flow {
            Ok(Flow::Done) => Wait::Finished,
            Ok(Flow::Group { call, then }) => {
                self.state = State::Waiting(then);
                Wait::Group(call)
            }
            Ok(Flow::Memory { then }) => {
                self.state = State::Waiting(then);
                Wait::Memory
            }
            Ok(Flow::File { export, operation, then }) => self.submit(shared, export, operation, then),
            Err(status) => self.explain(shared, status),
        }
    }

    fn env<'a>(&'a mut self, shared: &'a mut Shared) -> Env<'a> {
        let Self { caller, out, uses, subject, .. } = self;
        Env { shared, caller: caller.as_ref(), out, uses, subject }
    }

    fn submit(&mut self, shared: &mut Shared, export: usize, request: Operation, then: Stage) -> Wait {
        let env = self.env(shared);
        let place = env.export(export).map(|export| export.filesystem);
        let grant = env.grant(export);
        match (place, grant) {
            (Ok(filesystem), Ok(grant)) => {
                let credentials = grant.credentials(env.caller);
                self.state = State::Waiting(then);
                Wait::File { filesystem, credentials, request }
            }
            (Err(status), _) | (_, Err(status)) => {
                for by in self.uses.drain(..) {
                    shared.loans.end_use(&by);
                }
                self.fail(status, None)
            }
        }
    }

    /// It failed: its first object's attributes are told where they can be had.
    fn explain(&mut self, shared: &mut Shared, status: Status) -> Wait {
        match self.subject {
            Some(subject) if self.number != Number::GETATTR && !status.concerns_the_handle() => {
                let request = Operation::GetAttributes { object: subject.handle().into() };
                let wait = self.submit(shared, subject.export, request, Stage::GettingAttributes);
                if let Wait::File { .. } = wait {
                    self.state = State::Failing(status);
                }
                wait
            }
            _ => self.fail(status, None),
        }
    }

    fn fail(&mut self, status: Status, after: Option<Attributes>) -> Wait {
        let mut out = Writer::reuse(core::mem::take(&mut self.out).finish());
        tell_failure(&mut out, self.number, status.within(self.number), after);
        self.out = out;
        Wait::Finished
    }

    /// The answer, and what the group is told of it.
    pub(crate) fn finish(self) -> (Stream, Option<Notice<FileKey>>) {
        match self.ending {
            Ending::Own => {
                let reply = self.out.finish();
                let notice = self.key.map(|key| Notice::Answered(key, reply.clone().into_list().into_one()));
                (reply, notice)
            }
            Ending::Repeated(answer) => {
                let mut out = Writer::reuse(self.out.finish());
                out.fixed(&answer);
                (out.finish(), None)
            }
            Ending::Refused => (self.out.finish(), None),
        }
    }
}
