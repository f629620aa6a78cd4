//! Responses that wait until every task that their request ends has ended: those of task management and of a logout (RFC 7143 §4.2.3.3, §11.6, §11.14).
//!
//! They go out in the order of their requests. A function waits for the aborted tasks of its own nexus, and if it is a reset for those of all other nexuses, which
//! the owner of the fences counts. One that has waited for too long is rejected, as a volume may never answer: the initiator then knows that what it
//! asked for has not come about.

use alloc::collections::VecDeque;

use protocol::Instant;

use crate::limits::{MANAGEMENT_DEPTH, MANAGEMENT_TIME};
use crate::pdu::{Bhs, FunctionResponse, TaskManagementResponse};
use crate::sequence::Delivery;

/// What a function waits for, beside the aborted tasks of its own nexus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing.
    OwnTasks,
    /// The end of a reset of other nexuses' tasks.
    Reset,
    /// Nothing: it is rejected.
    Rejected,
}

/// What happens to a function that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// The reset is over.
    ResetDone,
    /// The reset was refused.
    ResetRefused,
    /// It has waited for too long.
    Overdue,
}

impl State {
    fn after(self, event: Event) -> Self {
        match (self, event) {
            (Self::Reset, Event::ResetDone) => Self::OwnTasks,
            (Self::Reset, Event::ResetRefused) | (_, Event::Overdue) => Self::Rejected,
            (state, Event::ResetDone | Event::ResetRefused) => state,
        }
    }
}

/// What follows a response that waited for tasks to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// The connection goes on.
    GoOn,
    /// The connection ends.
    Close,
}

/// How a reset of other nexuses' tasks ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetResult {
    /// What is older than it has ended.
    Done,
    /// It was refused.
    Rejected,
}

/// A request for a task management function.
#[derive(Debug, Clone, Copy)]
pub(super) struct FunctionRequest {
    /// When it came.
    pub(super) at: Instant,
    pub(super) task_tag: u32,
    pub(super) delivery: Delivery,
}

/// What a task management function came to, but for the tasks that it ends.
#[derive(Debug)]
pub(super) struct Performed {
    pub(super) response: FunctionResponse,
    pub(super) then: Then,
    /// The tag of the reset of other nexuses' tasks that is part of it.
    pub(super) reset: Option<u32>,
}

impl From<FunctionResponse> for Performed {
    fn from(response: FunctionResponse) -> Self {
        Self { response, then: Then::GoOn, reset: None }
    }
}

/// A response that may go out.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) header: Bhs,
    pub(super) delivery: Delivery,
    pub(super) then: Then,
}

/// A response that waits.
#[derive(Debug)]
struct Waiting {
    ready: Ready,
    state: State,
    /// The reset that it waits for, or waited for.
    reset: Option<u32>,
    /// A function's rejection, and when it goes out instead.
    rejection: Option<Rejection>,
}

#[derive(Debug, Clone, Copy)]
struct Rejection {
    due: Instant,
    header: Bhs,
}

impl Waiting {
    fn handle(&mut self, event: Event) {
        self.state = self.state.after(event);
        if let (State::Rejected, Some(Rejection { header, .. })) = (self.state, self.rejection) {
            (self.ready.header, self.ready.then) = (header, Then::GoOn);
        }
    }
}

/// The responses that wait, the oldest first.
#[derive(Debug, Default)]
pub(super) struct TaskManagement {
    waiting: VecDeque<Waiting>,
}

impl TaskManagement {
    /// True when another function is to be rejected.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MANAGEMENT_DEPTH
    }

    /// A function was performed, and is answered once its tasks have ended.
    pub(super) fn performed(&mut self, request: FunctionRequest, performed: &Performed) {
        let FunctionRequest { at, task_tag, delivery } = request;
        let answer = |response| TaskManagementResponse::new(task_tag, response).to_bytes();
        let rejection = Rejection { due: at + MANAGEMENT_TIME, header: answer(FunctionResponse::REJECTED) };
        let header = answer(performed.response);
        let state = if performed.reset.is_some() { State::Reset } else { State::OwnTasks };
        self.waiting.push_back(Waiting {
            ready: Ready { header, delivery, then: performed.then },
            state,
            reset: performed.reset,
            rejection: Some(rejection),
        });
    }

    /// A logout is answered once all tasks have ended; then the connection ends.
    pub(super) fn logout(&mut self, header: Bhs, delivery: Delivery) {
        let ready = Ready { header, delivery, then: Then::Close };
        self.waiting.push_back(Waiting { ready, state: State::OwnTasks, reset: None, rejection: None });
    }

    /// A reset of other nexuses' tasks is over.
    pub(super) fn handle_reset(&mut self, tag: u32, result: ResetResult) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.reset == Some(tag)) {
            waiting.handle(match result {
                ResetResult::Done => Event::ResetDone,
                ResetResult::Rejected => Event::ResetRefused,
            });
        }
    }

    /// Whether the oldest response, if there is one, waits for nothing but aborted tasks.
    pub(super) fn awaits_only_tasks(&self) -> bool {
        self.waiting.front().is_some_and(|front| front.state != State::Reset)
    }

    /// The oldest response, whatever it waits for.
    pub(super) fn take_oldest(&mut self) -> Option<Ready> {
        Some(self.waiting.pop_front()?.ready)
    }

    /// When the oldest function is rejected.
    #[inline]
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.front().and_then(|front| front.rejection).map(|rejection| rejection.due)
    }

    /// The oldest function, rejected, if it has waited for too long.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Option<Ready> {
        self.due().filter(|due| *due <= now)?;
        let mut front = self.waiting.pop_front()?;
        front.handle(Event::Overdue);
        Some(front.ready)
    }

    /// Nobody waits for an answer any more.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::fmt::Write as _;

    use super::*;

    const START: Instant = Instant::ZERO;

    #[test]
    fn table_of_all_transitions() {
        let mut table = String::new();
        for state in [State::OwnTasks, State::Reset, State::Rejected] {
            for event in [Event::ResetDone, Event::ResetRefused, Event::Overdue] {
                writeln!(table, "{state:?} --{event:?}--> {:?}", state.after(event)).unwrap();
            }
        }
        assert_eq!(table, include_str!("task_management.table"), "the new table:\n{table}");
    }

    fn request(task_tag: u32) -> FunctionRequest {
        FunctionRequest { at: START, task_tag, delivery: Delivery::Immediate }
    }

    fn reset(tag: u32) -> Performed {
        Performed { then: Then::Close, reset: Some(tag), ..FunctionResponse::COMPLETE.into() }
    }

    fn response(ready: &Ready) -> FunctionResponse {
        TaskManagementResponse::from_bytes(&ready.header).response()
    }

    #[test]
    fn a_reset_waits_for_the_tasks_of_others_and_holds_those_behind_it() {
        let mut management = TaskManagement::default();
        assert!(!management.awaits_only_tasks(), "there is none");
        management.performed(request(1), &reset(70));
        management.performed(request(2), &FunctionResponse::COMPLETE.into());
        management.handle_reset(71, ResetResult::Done);
        assert!(!management.awaits_only_tasks(), "another reset");
        management.handle_reset(70, ResetResult::Done);
        assert!(management.awaits_only_tasks());
        let first = management.take_oldest().unwrap();
        assert_eq!((response(&first), first.then), (FunctionResponse::COMPLETE, Then::Close));
        assert!(management.awaits_only_tasks());
    }

    #[test]
    fn a_reset_that_is_refused_or_overdue_is_rejected_and_the_connection_goes_on() {
        let mut management = TaskManagement::default();
        for tag in [70, 71] {
            management.performed(request(tag), &reset(tag));
        }
        management.handle_reset(70, ResetResult::Rejected);
        let refused = management.take_oldest().unwrap();
        assert!(management.take_overdue(START).is_none(), "called early");
        let overdue = management.take_overdue(START + MANAGEMENT_TIME).unwrap();
        for ready in [refused, overdue] {
            assert_eq!((response(&ready), ready.then), (FunctionResponse::REJECTED, Then::GoOn));
        }
    }

    #[test]
    fn a_logout_waits_for_as_long_as_its_tasks_do() {
        let mut management = TaskManagement::default();
        management.logout([0; 48], Delivery::Numbered);
        assert_eq!(management.due(), None);
        assert!(management.awaits_only_tasks());
        assert_eq!(management.take_oldest().map(|ready| ready.then), Some(Then::Close));
    }

    #[test]
    fn the_number_of_functions_is_limited() {
        let mut management = TaskManagement::default();
        for tag in 0..u32::try_from(MANAGEMENT_DEPTH).unwrap() {
            assert!(!management.is_full());
            management.performed(request(tag), &FunctionResponse::COMPLETE.into());
        }
        assert!(management.is_full());
    }
}
