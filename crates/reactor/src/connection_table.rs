//! The connections of a core, by their slots.

use crate::connection::Connection;
use crate::convert::position;

/// The connections of a core. Slots are given out for all that the driver attaches, so that some are empty here.
#[derive(Default)]
pub(crate) struct ConnectionTable {
    slots: Vec<Option<Connection>>,
}

impl ConnectionTable {
    /// The connection in a slot.
    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&Connection> {
        self.slots.get(slot as usize)?.as_ref()
    }

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

    /// True when there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }
}
