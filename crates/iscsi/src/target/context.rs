//! What every part of a connection works with: its datamover, what was agreed on, the numbers of its PDUs, what it holds of the pool, and what it has for the inside.
//!
//! Each part has a state of its own, and gets this for the time of a call. Only the connection itself ends the connection.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use buf::{Account, Standing};
use protocol::{Instant, Notices};

use super::action::Action;
use super::outside_memory::OutsideMemory;
use crate::datamover::{ControlPdu, TargetDatamover};
use crate::keys::Parameters;
use crate::pdu::Bhs;
use crate::sequence::{Delivery, TargetNumbers, TransferTags};

/// What the parts of one connection share.
#[derive(Debug)]
pub(super) struct Context<D> {
    pub(super) mover: D,
    pub(super) parameters: Parameters,
    pub(super) numbers: TargetNumbers,
    /// Target Transfer Tags, and tags of resets.
    pub(super) tags: TransferTags,
    /// What this connection holds of the pool.
    pub(super) account: Account,
    /// What of it is outside of buffers.
    pub(super) outside: OutsideMemory,
    pub(super) actions: VecDeque<Action>,
    /// What the operator is to know.
    pub(super) notices: Notices,
    /// The time as it was told last.
    pub(super) now: Instant,
}

impl<D: TargetDatamover> Context<D> {
    /// Sends a response to a request that was delivered so.
    pub(super) fn respond(&mut self, header: Bhs, data: Vec<u8>, delivery: Delivery) {
        self.mover.send_control(ControlPdu::response(header, data, delivery));
    }

    /// Sends a PDU that takes a StatSN and ends no numbered request: a Login Response, as Login Requests are immediate, a Reject or an
    /// Asynchronous Message.
    pub(super) fn notify(&mut self, header: Bhs, data: Vec<u8>) {
        self.respond(header, data, Delivery::Immediate);
    }

    /// Asks for room for tables and receives that are about to grow.
    #[must_use]
    pub(super) fn grant(&mut self, more: Standing) -> bool {
        self.outside.grant(&mut self.account, more)
    }
}
