//! The connections of a core, by their slots, and which of them have a turn to come. What lists them has a flag in each, so that none is listed twice.

use crate::connection::Connection;
use crate::convert::position;

/// The connections of a core. Slots are given out for all that the driver attaches, so that some are empty here.
#[derive(Default)]
pub(crate) struct ConnectionTable {
    slots: Vec<Option<Connection>>,
    /// Those that have something to do in this turn.
    touched: Vec<u32>,
    /// Those whose turn is still to be ended, as the last turn had sent enough.
    late: Vec<u32>,
    /// Those whose endpoint takes no bytes for want of a buffer: asked again every turn.
    awaiting_buffer: Vec<u32>,
}

impl ConnectionTable {
    /// The connection in a slot.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Connection> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// Puts a connection into its slot.
    pub(crate) fn insert(&mut self, slot: u32, connection: Connection) {
        let index = slot as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        if let Some(place) = self.slots.get_mut(index) {
            *place = Some(connection);
        }
    }

    /// Takes the connection out of a slot, if it can be dropped.
    pub(crate) fn take_gone(&mut self, slot: u32) -> Option<Connection> {
        self.slots.get_mut(slot as usize)?.take_if(|connection| connection.is_gone())
    }

    /// All slots that there may be a connection in.
    pub(crate) fn slots(&self) -> std::ops::Range<u32> {
        0..position(self.slots.len())
    }

    /// Makes the connection take part in this turn.
    #[inline]
    pub(crate) fn touch(&mut self, slot: u32) {
        let Some(connection) = self.get_mut(slot) else { return };
        if !std::mem::replace(&mut connection.touched, true) {
            self.touched.push(slot);
        }
    }

    /// The slots of those that take part in this turn.
    #[inline]
    pub(crate) fn touched(&self) -> &[u32] {
        &self.touched
    }

    /// Lets the connection's endpoint try again in the next turn.
    pub(crate) fn await_buffer(&mut self, slot: u32) {
        let Some(connection) = self.get_mut(slot) else { return };
        if !std::mem::replace(&mut connection.awaiting_buffer, true) {
            self.awaiting_buffer.push(slot);
        }
    }

    /// Makes those that wait for a buffer take part in this turn.
    pub(crate) fn touch_awaiting_buffer(&mut self) {
        let mut awaiting_buffer = std::mem::take(&mut self.awaiting_buffer);
        for slot in awaiting_buffer.drain(..) {
            if let Some(connection) = self.get_mut(slot) {
                connection.awaiting_buffer = false;
            }
            self.touch(slot);
        }
        self.awaiting_buffer = awaiting_buffer;
    }

    /// Takes the slots whose turns are to be ended, the late ones first. What is touched from here on has its turn in the next one.
    pub(crate) fn take_due(&mut self) -> Vec<u32> {
        let mut due = std::mem::take(&mut self.late);
        let mut touched = std::mem::take(&mut self.touched);
        due.extend(touched.drain(..).filter(|slot| !self.is_late(*slot)));
        self.touched = touched;
        due
    }

    fn is_late(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).and_then(Option::as_ref).is_some_and(|connection| connection.late)
    }

    /// Takes back what [`take_due`](Self::take_due) gave: those that are left in it are late.
    pub(crate) fn postpone(&mut self, due: Vec<u32>) {
        for slot in &due {
            if let Some(connection) = self.get_mut(*slot) {
                (connection.late, connection.touched) = (true, false);
            }
        }
        self.late = due;
    }

    /// True when some are late, or were touched since the turns began to be ended.
    pub(crate) fn have_turns_to_come(&self) -> bool {
        !self.late.is_empty() || !self.touched.is_empty()
    }

    /// True when there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }
}
