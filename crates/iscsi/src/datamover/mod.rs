//! Moving PDUs over a transport: the seam that RFC 5047 calls the Datamover. [`tcp`] is the one so far; iSER will stand
//! beside it.

pub(crate) mod tcp;
