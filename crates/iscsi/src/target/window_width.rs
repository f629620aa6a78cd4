//! How many commands a session may have at a time: its command window begins narrow, and becomes wider as it is used up, while there is memory for more tasks, their
//! answers and their receives.

use buf::Standing;

use super::context::Context;
use super::tasks::{Task, Tasks};
use crate::datamover::TargetDatamover;
use crate::keys::Parameters;
use crate::limits::{FIRST_DEPTH, IMMEDIATE_DEPTH};

/// The width of the command window.
#[derive(Debug)]
pub(super) struct WindowWidth {
    width: u16,
    /// What the portal allows.
    most: u16,
}

impl WindowWidth {
    /// Of a connection that begins, to a portal that allows so many.
    pub(super) fn new(most: u16) -> Self {
        Self { width: most.min(FIRST_DEPTH), most }
    }

    /// The portal allows so many from now on. The window does not become narrower.
    pub(super) fn set_most(&mut self, most: u16) {
        self.most = most;
    }

    /// Commands that the window takes.
    pub(super) fn get(&self) -> u16 {
        self.width
    }

    /// Tasks that there may be: immediate commands need no place in the window.
    pub(super) fn tasks(&self) -> u16 {
        self.width.saturating_add(IMMEDIATE_DEPTH)
    }

    /// The window is used up, and becomes twice as wide if that is allowed and there is memory for it.
    #[cold]
    pub(super) fn widen<D: TargetDatamover>(&mut self, context: &mut Context<D>, tasks: &mut Tasks) {
        let more = self.most.saturating_sub(self.width).min(self.width);
        let wider = Self { width: self.width.saturating_add(more), ..*self };
        let each = size_of::<Task>().saturating_add(D::TASK_SIZE).saturating_add(D::QUEUE_SIZE);
        let (before, after) =
            (self.receives::<D>(&context.parameters), wider.receives::<D>(&context.parameters));
        let standing = Standing {
            tables: usize::from(more).saturating_mul(each),
            receives: after.saturating_sub(before),
        };
        if more == 0 || !context.grant(standing) {
            return;
        }
        *self = wider;
        tasks.grow(self.tasks());
        context.mover.allocate_connection_resources(self.tasks());
        context.numbers.window.widen(more);
    }

    /// Asks for the receives of a session that is about to begin, with these parameters.
    #[must_use]
    pub(super) fn grant_receives<D: TargetDatamover>(
        &self,
        context: &mut Context<D>,
        agreed: &Parameters,
    ) -> bool {
        context.grant(Standing { tables: 0, receives: self.receives::<D>(agreed) })
    }

    /// Bytes of the receives that this width needs.
    fn receives<D: TargetDatamover>(&self, agreed: &Parameters) -> usize {
        D::receive_bytes(agreed, self.tasks())
    }
}
