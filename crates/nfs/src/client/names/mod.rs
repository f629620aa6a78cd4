//! A client of a server's names: it makes, opens, looks up, lists and removes files and directories, and moves no data.
//!
//! It is for whoever looks at what a server does with metadata, such as `linerate metadata`, and for `linerate ls`. One connection is one client with one session; operations are
//! COMPOUNDs of their own, as many at a time as the session has slots, and end in any order. There is no second connection: if the first one is lost, so is what
//! was under way.
//!
//! | RFC 8881 | [`NameOperation`] |
//! |---|---|
//! | §18.4 CREATE | [`MakeDirectory`](NameOperation::MakeDirectory) |
//! | §18.16 OPEN, GUARDED4 | [`Create`](NameOperation::Create) |
//! | §18.2 CLOSE | [`Close`](NameOperation::Close) |
//! | §18.13 LOOKUP, §18.7 GETATTR | [`Look`](NameOperation::Look) |
//! | §18.23 READDIR | [`List`](NameOperation::List), [`Entries`](NameOperation::Entries) |
//! | §18.25 REMOVE | [`Remove`](NameOperation::Remove) |

mod client;
mod operation;

pub use super::found::{Entry, Listed};
pub use client::NamesClient;
pub use operation::{
    NameOperation, NamesAction, NamesConfig, NamesInput, NamesOutcome, NamesReady, ObjectHandle,
    OpenFileName, Seen,
};
