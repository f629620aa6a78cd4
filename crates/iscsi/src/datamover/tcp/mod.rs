//! iSCSI over a byte stream: the Datamover that RFC 7143 itself describes.
//!
//! `framing` finds PDUs in the stream and puts them there, `send_queue` holds what each role is to send, in order, `data_in` and `data_out`
//! cut data into PDUs and check their order, each for both roles.

pub(crate) mod data_in;
pub(crate) mod data_out;
pub(crate) mod framing;
pub(crate) mod send_queue;
