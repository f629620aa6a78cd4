//! Messages of RPC version 2 (RFC 5531 §9): calls and replies, without the arguments and results behind them.
//!
//! A message is decoded in three parts, as far as each makes sense: its number and kind ([`Opening`]), the rest of its header ([`CallHeader`] or
//! [`ReplyHeader`]), and what an upper protocol reads behind it.

mod auth;
mod call;
mod reply;
mod services;

pub use auth::{AuthSys, AuthSysToSend, Flavor, Gids, OpaqueAuth};
pub use call::{CallHeader, Opening, OpeningError, Procedure};
pub use reply::{AcceptStat, AuthStat, RejectStat, ReplyHeader, ReplyStatus, VersionRange};
pub use services::{Service, dispatch};

pub(crate) use reply::write_reply;
