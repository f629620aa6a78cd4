//! External data representation (RFC 4506): the bytes of every call and reply.
//!
//! A [`Reader`] reads values from received bytes; a [`Writer`] makes a [`Stream`] of values and shared memory. A type that has one form on the wire
//! implements [`Decode`] and [`Encode`], and then stands in arrays and optional data as the integers do:
//!
//! ```
//! use rpc::xdr::{Decode, Encode, Error, Reader, Writer};
//!
//! /// nfstime3 of RFC 1813 §2.5.
//! #[derive(Debug, PartialEq)]
//! struct Time {
//!     seconds: u32,
//!     nanoseconds: u32,
//! }
//!
//! impl Decode for Time {
//!     fn decode(reader: &mut Reader<'_>) -> Result<Self, Error> {
//!         Ok(Self { seconds: reader.u32()?, nanoseconds: reader.u32()? })
//!     }
//! }
//!
//! impl Encode for Time {
//!     fn encode(&self, writer: &mut Writer) {
//!         writer.u32(self.seconds);
//!         writer.u32(self.nanoseconds);
//!     }
//! }
//!
//! let mut writer = Writer::new();
//! writer.put(&Some(Time { seconds: 1, nanoseconds: 2 }));
//! let bytes = writer.finish().into_list().into_one();
//! let mut reader = Reader::new(&bytes);
//! assert_eq!(reader.get::<Option<Time>>(), Ok(Some(Time { seconds: 1, nanoseconds: 2 })));
//! assert_eq!(reader.end(), Ok(()));
//! ```
//!
//! # While the bytes arrive
//! A call is decoded as its bytes come, and stops where a payload wants memory of its own: [`Arrival`] does that for whatever implements [`Decoder`].
//!
//! # Bounds
//! Every length on the wire is read against a maximum that the caller names, before anything is allocated for it. What is allocated is at most that maximum,
//! and at most what the bytes that are there can hold. Types that contain themselves must count their depth; none of the reader's methods recurse.
//!
//! # Padding
//! Opaque data and strings fill up to a multiple of four bytes with zeros (RFC 4506 §3). A reader refuses other bytes there, since they would be a second
//! form of the same value.

mod arrival;
mod error;
mod reader;
mod stream;
mod writer;

pub use arrival::{Arrival, Decoder, Step};
pub use error::Error;
pub use reader::{Decode, Reader};
pub use stream::{Payload, Piece, Stream};
pub use writer::{Encode, Mark, Place, Writer};

/// Bytes of a unit: everything on the wire is a multiple of it (RFC 4506 §3).
pub const UNIT: usize = 4;

/// The zero bytes behind `length` bytes of opaque data (RFC 4506 §3): 0 to 3.
pub const fn padding(length: usize) -> usize {
    length.wrapping_neg() % UNIT
}
