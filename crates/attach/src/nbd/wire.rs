//! Headers and numbers of the NBD protocol (the NBD project's protocol document, "Values"): big-endian throughout.
//!
//! Header views hold any bits; what is legal is decided by who reads them.

use bitflags::bitflags;
use wire::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What the server says first, `NBDMAGIC`.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// What marks the newstyle negotiation, and opens every option, `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// What opens every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// What opens every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// What opens a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// What opens a structured reply chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

bitflags! {
    /// Flags of the server's greeting and of the client's answer to it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct HandshakeFlags: u32 {
        /// The fixed newstyle negotiation is spoken.
        const FIXED_NEWSTYLE = 1 << 0;
        /// The 124 zero bytes after an export's size are left out.
        const NO_ZEROES = 1 << 1;
    }

    /// What an export can do.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct TransmissionFlags: u16 {
        /// Flags are there at all.
        const HAS_FLAGS = 1 << 0;
        /// Writes are refused.
        const READ_ONLY = 1 << 1;
        /// `FLUSH` is understood.
        const SEND_FLUSH = 1 << 2;
        /// The flag `FUA` is understood.
        const SEND_FUA = 1 << 3;
        /// `TRIM` is understood.
        const SEND_TRIM = 1 << 5;
        /// `WRITE_ZEROES` is understood.
        const SEND_WRITE_ZEROES = 1 << 6;
        /// The flag `DF` is understood.
        const SEND_DF = 1 << 7;
        /// A flush on one connection covers what completed on all.
        const CAN_MULTI_CONN = 1 << 8;
        /// The flag `FAST_ZERO` is understood.
        const SEND_FAST_ZERO = 1 << 11;
    }

    /// Flags of a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CommandFlags: u16 {
        /// What is written is on stable media before the reply.
        const FUA = 1 << 0;
        /// Zeroed space may not be released.
        const NO_HOLE = 1 << 1;
        /// The answer to a read is one chunk.
        const DF = 1 << 2;
        /// One extent is enough.
        const REQ_ONE = 1 << 3;
        /// Zeroing fails at once where it is no faster than writing.
        const FAST_ZERO = 1 << 4;
    }
}

/// Open enumerations: numbers that others may add to.
macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident($type:ty) { $($(#[$each:meta])* $value:ident = $number:expr;)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(pub $type);
        impl $name { $($(#[$each])* pub const $value: Self = Self($number);)+ }
    };
}

numbers! {
    /// Options of the negotiation.
    OptionCode(u32) {
        /// Ends the negotiation with an export's name; an unknown name ends the connection.
        EXPORT_NAME = 1;
        /// Ends the connection.
        ABORT = 2;
        /// Asks which exports there are.
        LIST = 3;
        /// Asks about an export.
        INFO = 6;
        /// Asks about an export and begins to use it.
        GO = 7;
        /// Asks for structured replies.
        STRUCTURED_REPLY = 8;
        /// Asks which metadata contexts an export has.
        LIST_META_CONTEXT = 9;
        /// Chooses metadata contexts.
        SET_META_CONTEXT = 10;
    }
}

numbers! {
    /// Kinds of replies to options; errors have the highest bit.
    OptionReply(u32) {
        /// Done.
        ACK = 1;
        /// An export's name.
        SERVER = 2;
        /// Something about an export.
        INFO = 3;
        /// A metadata context.
        META_CONTEXT = 4;
        /// The option is not known here.
        ERR_UNSUP = (1 << 31) | 1;
        /// The option makes no sense here, or its data none.
        ERR_INVALID = (1 << 31) | 3;
        /// There is no such export.
        ERR_UNKNOWN = (1 << 31) | 6;
        /// The export can only be used by who knows its block sizes.
        ERR_BLOCK_SIZE_REQD = (1 << 31) | 8;
        /// The option's data is longer than is accepted.
        ERR_TOO_BIG = (1 << 31) | 9;
    }
}

numbers! {
    /// Pieces of information about an export.
    Info(u16) {
        /// Size and flags.
        EXPORT = 0;
        /// Its name.
        NAME = 1;
        /// A description for the user.
        DESCRIPTION = 2;
        /// The least, the best and the largest request.
        BLOCK_SIZE = 3;
    }
}

numbers! {
    /// Commands of the transmission phase.
    Command(u16) {
        /// Read.
        READ = 0;
        /// Write; the data follows.
        WRITE = 1;
        /// Take leave.
        DISC = 2;
        /// Make completed writes durable.
        FLUSH = 3;
        /// Release space.
        TRIM = 4;
        /// Zero a range.
        WRITE_ZEROES = 6;
        /// Ask for metadata.
        BLOCK_STATUS = 7;
    }
}

numbers! {
    /// Error numbers of replies.
    Failure(u32) {
        /// Not permitted: the export is read-only.
        PERM = 1;
        /// The medium or the path to it failed.
        IO = 5;
        /// Out of memory.
        NOMEM = 12;
        /// The request makes no sense.
        INVAL = 22;
        /// No space is left.
        NOSPC = 28;
        /// The request's data is too long.
        OVERFLOW = 75;
        /// Not supported.
        NOTSUP = 95;
        /// The server is stopping.
        SHUTDOWN = 108;
    }
}

numbers! {
    /// Kinds of chunks of a structured reply.
    Chunk(u16) {
        /// Nothing more.
        NONE = 0;
        /// Data of a read, after its offset.
        OFFSET_DATA = 1;
        /// Extents of a metadata context.
        BLOCK_STATUS = 5;
        /// An error, with words.
        ERROR = (1 << 15) | 1;
    }
}

/// Nothing follows this chunk.
pub const CHUNK_DONE: u16 = 1;

bitflags! {
    /// What `base:allocation` says of an extent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ExtentFlags: u32 {
        /// No space is behind it.
        const HOLE = 1 << 0;
        /// It reads as zeros.
        const ZERO = 1 << 1;
    }
}

/// The server's greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Greeting {
    /// [`INIT_MAGIC`].
    pub magic: U64,
    /// [`OPTION_MAGIC`].
    pub option_magic: U64,
    /// [`HandshakeFlags`], the lower half.
    pub flags: U16,
}

const _: () = assert!(size_of::<Greeting>() == 18);

/// An option's header; its data follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct OptionHeader {
    /// [`OPTION_MAGIC`].
    pub magic: U64,
    /// [`OptionCode`].
    pub option: U32,
    /// Bytes of data.
    pub length: U32,
}

const _: () = assert!(size_of::<OptionHeader>() == 16);

/// The header of a reply to an option; its data follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct OptionReplyHeader {
    /// [`OPTION_REPLY_MAGIC`].
    pub magic: U64,
    /// The option that is replied to.
    pub option: U32,
    /// [`OptionReply`].
    pub reply: U32,
    /// Bytes of data.
    pub length: U32,
}

const _: () = assert!(size_of::<OptionReplyHeader>() == 20);

/// A request; a write's data follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RequestHeader {
    /// [`REQUEST_MAGIC`].
    pub magic: U32,
    /// [`CommandFlags`].
    pub flags: U16,
    /// [`Command`].
    pub command: U16,
    /// Comes back with the reply.
    pub cookie: U64,
    /// The first byte.
    pub offset: U64,
    /// Bytes.
    pub length: U32,
}

const _: () = assert!(size_of::<RequestHeader>() == 28);

impl RequestHeader {
    /// A request for `length` bytes from `offset` on, as a client makes it.
    pub fn new(command: Command, cookie: u64, offset: u64, length: u32) -> Self {
        Self {
            magic: U32::new(REQUEST_MAGIC),
            flags: U16::ZERO,
            command: U16::new(command.0),
            cookie: U64::new(cookie),
            offset: U64::new(offset),
            length: U32::new(length),
        }
    }

    /// The same with flags.
    #[must_use]
    pub fn with(mut self, flags: CommandFlags) -> Self {
        self.flags = U16::new(flags.bits());
        self
    }
}

/// A simple reply; a successful read's data follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SimpleReply {
    /// [`SIMPLE_REPLY_MAGIC`].
    pub magic: U32,
    /// [`Failure`], or zero.
    pub error: U32,
    /// The request's.
    pub cookie: U64,
}

const _: () = assert!(size_of::<SimpleReply>() == 16);

impl SimpleReply {
    /// The reply to `cookie`'s request.
    pub fn new(error: u32, cookie: u64) -> Self {
        Self { magic: U32::new(SIMPLE_REPLY_MAGIC), error: U32::new(error), cookie: U64::new(cookie) }
    }
}

/// The header of a structured reply's chunk; its payload follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ChunkHeader {
    /// [`STRUCTURED_REPLY_MAGIC`].
    pub magic: U32,
    /// [`CHUNK_DONE`], or zero.
    pub flags: U16,
    /// [`Chunk`].
    pub kind: U16,
    /// The request's.
    pub cookie: U64,
    /// Bytes of payload.
    pub length: U32,
}

const _: () = assert!(size_of::<ChunkHeader>() == 20);

impl ChunkHeader {
    /// The only chunk of the reply to `cookie`'s request.
    pub fn only(kind: Chunk, cookie: u64, length: u32) -> Self {
        Self {
            magic: U32::new(STRUCTURED_REPLY_MAGIC),
            flags: U16::new(CHUNK_DONE),
            kind: U16::new(kind.0),
            cookie: U64::new(cookie),
            length: U32::new(length),
        }
    }
}

/// An extent in a block status chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Descriptor {
    /// Bytes.
    pub length: U32,
    /// [`ExtentFlags`].
    pub flags: U32,
}

const _: () = assert!(size_of::<Descriptor>() == 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vectors() {
        let request = RequestHeader::new(Command::WRITE, 0x0102, 0x1000, 512).with(CommandFlags::FUA);
        assert_eq!(
            request.as_bytes(),
            [
                0x25, 0x60, 0x95, 0x13, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0,
                2, 0
            ]
        );
        let reply = SimpleReply::new(Failure::IO.0, 7);
        assert_eq!(reply.as_bytes(), [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 7]);
        let chunk = ChunkHeader::only(Chunk::OFFSET_DATA, 7, 8);
        assert_eq!(
            chunk.as_bytes(),
            [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 8]
        );
        assert_eq!(INIT_MAGIC.to_be_bytes(), *b"NBDMAGIC");
        assert_eq!(OPTION_MAGIC.to_be_bytes(), *b"IHAVEOPT");
    }
}
