//! What a client of version 3 is told when it connects.

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::RefCell;
use core::time::Duration;

use rpc::message::AuthSysToSend;

use super::mounting::Export;
use crate::client::config::Access;
use crate::v3::procedure::Handle;

/// One connection's configuration.
#[derive(Debug, Clone)]
pub struct Nfs3Config {
    /// The export that MOUNT has found.
    pub export: Arc<Export>,
    /// What the file is for. [`Access::Exclusive`] is as [`Access::ReadWrite`]: version 3 cannot deny anybody anything.
    pub access: Access,
    /// Bytes of a block: 512 or 4096.
    pub block_size: u32,
    /// The size that the file is to have at least, in bytes: a smaller one grows.
    pub size: Option<u64>,
    /// Who asks.
    pub user: Arc<AuthSysToSend>,
    /// How long a call may take, and opening as a whole.
    pub command_time: Duration,
    /// The file that the connection before has found, and where this one leaves it to the next.
    pub keep: Nfs3Keep,
}

/// What the connections of one volume queue, one after the other, have in common: the file's handle, as long as the server knows it. A new one has none.
#[derive(Debug, Clone, Default)]
pub struct Nfs3Keep(Rc<RefCell<Option<Handle>>>);

impl Nfs3Keep {
    pub(super) fn get(&self) -> Option<Handle> {
        self.0.borrow().clone()
    }

    pub(super) fn set(&self, file: Option<Handle>) {
        *self.0.borrow_mut() = file;
    }
}
