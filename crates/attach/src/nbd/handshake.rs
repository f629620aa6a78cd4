//! The negotiation: fixed newstyle, options answered one by one (the NBD project's protocol document, "Fixed newstyle
//! negotiation").
//!
//! `ExpectFlags` → `ExpectOption`, until an option begins the transmission or ends the connection.

use protocol::CloseReason;
use wire::{Reader, Truncated};
use zerocopy::{FromBytes, IntoBytes};

use super::export::{Export, ReplyForm};
use super::limits::OPTION_DATA;
use super::wire::{
    Greeting, HandshakeFlags, INIT_MAGIC, Info, OPTION_MAGIC, OPTION_REPLY_MAGIC, OptionCode, OptionHeader,
    OptionReply, OptionReplyHeader,
};
use crate::convert::{index, short};

/// The only metadata context.
const ALLOCATION: &[u8] = b"base:allocation";
/// How it is numbered once it is chosen.
pub(crate) const ALLOCATION_ID: u32 = 1;
/// Zeros that follow an export's size where the client did not ask to leave them out.
const PADDING: usize = 124;
/// Clients that did not ask for block sizes can be expected to use whole blocks of this many bytes.
const USUAL_BLOCK: u32 = 512;

/// What was agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Agreement {
    pub(crate) replies: ReplyForm,
    /// The client may ask for `base:allocation`.
    pub(crate) allocation: bool,
    no_zeroes: bool,
}

/// What comes of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// More bytes are needed.
    More,
    /// So many bytes were used.
    Used(usize),
    /// So many bytes were used, and the following ones are to be passed over.
    Skip(usize, usize),
    /// So many bytes were used, and the transmission begins.
    Begin(usize),
    /// The connection ends.
    Close(CloseReason),
}

/// Where the negotiation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    ExpectFlags,
    ExpectOption,
}

/// A negotiation under way.
#[derive(Debug)]
pub(crate) struct Handshake {
    state: State,
    agreement: Agreement,
}

/// What a client that asks about an export has heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InfoAnswer {
    Described,
    Refused,
}

/// Replies as they are put together.
struct Replies<'a> {
    option: OptionCode,
    out: &'a mut Vec<u8>,
}

impl Replies<'_> {
    fn put(&mut self, reply: OptionReply, pieces: &[&[u8]]) {
        let length = pieces.iter().map(|piece| piece.len()).sum();
        let header = OptionReplyHeader {
            magic: OPTION_REPLY_MAGIC.into(),
            option: self.option.0.into(),
            reply: reply.0.into(),
            length: short(length).into(),
        };
        self.out.extend_from_slice(header.as_bytes());
        for piece in pieces {
            self.out.extend_from_slice(piece);
        }
    }

    /// An error, with words for the user.
    fn refuse(&mut self, reply: OptionReply, words: &str) {
        self.put(reply, &[words.as_bytes()]);
    }
}

impl Handshake {
    /// A negotiation, and the greeting that begins it.
    pub(crate) fn new() -> (Self, Vec<u8>) {
        let flags = HandshakeFlags::FIXED_NEWSTYLE | HandshakeFlags::NO_ZEROES;
        let greeting = Greeting {
            magic: INIT_MAGIC.into(),
            option_magic: OPTION_MAGIC.into(),
            flags: u16::try_from(flags.bits()).unwrap_or(0).into(),
        };
        let handshake = Self { state: State::ExpectFlags, agreement: Agreement::default() };
        (handshake, greeting.as_bytes().to_vec())
    }

    /// What was agreed on so far.
    pub(crate) fn agreement(&self) -> Agreement {
        self.agreement
    }

    /// Takes what stands at the front of `bytes`, and puts the answer behind `out`.
    pub(crate) fn handle(&mut self, export: &Export, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        match self.state {
            State::ExpectFlags => self.handle_flags(bytes),
            State::ExpectOption => self.handle_option(export, bytes, out),
        }
    }

    fn handle_flags(&mut self, bytes: &[u8]) -> Step {
        let Some(flags) = bytes.first_chunk() else { return Step::More };
        let Some(flags) = HandshakeFlags::from_bits(u32::from_be_bytes(*flags)) else {
            return Step::Close(CloseReason::Violation("the client answered with flags that do not exist"));
        };
        if !flags.contains(HandshakeFlags::FIXED_NEWSTYLE) {
            return Step::Close(CloseReason::Violation("the client does not speak the fixed newstyle"));
        }
        self.agreement.no_zeroes = flags.contains(HandshakeFlags::NO_ZEROES);
        self.state = State::ExpectOption;
        Step::Used(size_of::<u32>())
    }

    fn handle_option(&mut self, export: &Export, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        let Ok((header, rest)) = OptionHeader::read_from_prefix(bytes) else { return Step::More };
        if header.magic.get() != OPTION_MAGIC {
            return Step::Close(CloseReason::Violation("an option did not begin with its magic number"));
        }
        let option = OptionCode(header.option.get());
        let length = index(u64::from(header.length.get()));
        let mut replies = Replies { option, out };
        if length > OPTION_DATA {
            if option == OptionCode::EXPORT_NAME {
                return Step::Close(CloseReason::Violation("an export's name was too long"));
            }
            replies.refuse(OptionReply::ERR_TOO_BIG, "the option's data is too long");
            return Step::Skip(size_of::<OptionHeader>(), length);
        }
        let Some(data) = rest.get(..length) else { return Step::More };
        let used = size_of::<OptionHeader>().saturating_add(length);
        self.answer(export, data, &mut replies).unwrap_or(Outcome::Next).into_step(used)
    }

    /// Answers an option; data that ends too early is answered too.
    fn answer(
        &mut self,
        export: &Export,
        data: &[u8],
        replies: &mut Replies<'_>,
    ) -> Result<Outcome, Truncated> {
        let mut reader = Reader::new(data);
        let result = match replies.option {
            OptionCode::EXPORT_NAME => return Ok(self.export_name(export, data, replies.out)),
            OptionCode::ABORT => {
                replies.put(OptionReply::ACK, &[]);
                return Ok(Outcome::Close(CloseReason::Finished));
            }
            OptionCode::LIST => Ok(list(&reader, replies)),
            OptionCode::STRUCTURED_REPLY => Ok(self.structured_reply(&reader, replies)),
            OptionCode::INFO => self.info(export, &mut reader, replies).map(|_| Outcome::Next),
            OptionCode::GO => self.info(export, &mut reader, replies).map(|answer| match answer {
                InfoAnswer::Described => Outcome::Begin,
                InfoAnswer::Refused => Outcome::Next,
            }),
            OptionCode::LIST_META_CONTEXT | OptionCode::SET_META_CONTEXT => {
                self.meta_context(&mut reader, replies)
            }
            _ => {
                replies.refuse(OptionReply::ERR_UNSUP, "the option is not known here");
                Ok(Outcome::Next)
            }
        };
        if result.is_err() {
            replies.refuse(OptionReply::ERR_INVALID, "the option's data ends too early");
        }
        result
    }

    fn export_name(&self, export: &Export, name: &[u8], out: &mut Vec<u8>) -> Outcome {
        if !name.is_empty() {
            return Outcome::Close(CloseReason::Refused(
                "there is only the default export, whose name is empty",
            ));
        }
        out.extend_from_slice(&export.size().to_be_bytes());
        out.extend_from_slice(&export.flags(self.agreement.replies).bits().to_be_bytes());
        if !self.agreement.no_zeroes {
            out.resize(out.len().saturating_add(PADDING), 0);
        }
        Outcome::Begin
    }

    fn structured_reply(&mut self, reader: &Reader<'_>, replies: &mut Replies<'_>) -> Outcome {
        if reader.is_empty() {
            self.agreement.replies = ReplyForm::Structured;
            replies.put(OptionReply::ACK, &[]);
        } else {
            replies.refuse(OptionReply::ERR_INVALID, "the option has no data");
        }
        Outcome::Next
    }

    fn info(
        &mut self,
        export: &Export,
        reader: &mut Reader<'_>,
        replies: &mut Replies<'_>,
    ) -> Result<InfoAnswer, Truncated> {
        let name = text(reader)?;
        let mut wanted = Vec::new();
        for _ in 0..reader.u16_be()? {
            wanted.push(Info(reader.u16_be()?));
        }
        if !reader.is_empty() {
            replies.refuse(OptionReply::ERR_INVALID, "the option's data is longer than it says");
            return Ok(InfoAnswer::Refused);
        }
        if !name.is_empty() {
            replies.refuse(OptionReply::ERR_UNKNOWN, "there is only the default export, whose name is empty");
            return Ok(InfoAnswer::Refused);
        }
        if export.block() > USUAL_BLOCK && !wanted.contains(&Info::BLOCK_SIZE) {
            replies.refuse(OptionReply::ERR_BLOCK_SIZE_REQD, "the client has to ask for the block sizes");
            return Ok(InfoAnswer::Refused);
        }
        self.describe(export, &wanted, replies);
        replies.put(OptionReply::ACK, &[]);
        Ok(InfoAnswer::Described)
    }

    fn describe(&self, export: &Export, wanted: &[Info], replies: &mut Replies<'_>) {
        let kind = |info: Info| info.0.to_be_bytes();
        let flags = export.flags(self.agreement.replies).bits().to_be_bytes();
        replies.put(OptionReply::INFO, &[&kind(Info::EXPORT), &export.size().to_be_bytes(), &flags]);
        let sizes = [export.block(), export.preferred(), export.longest()].map(u32::to_be_bytes);
        replies.put(OptionReply::INFO, &[&kind(Info::BLOCK_SIZE), sizes.as_flattened()]);
        if wanted.contains(&Info::NAME) {
            replies.put(OptionReply::INFO, &[&kind(Info::NAME)]);
        }
        if wanted.contains(&Info::DESCRIPTION) {
            replies.put(OptionReply::INFO, &[&kind(Info::DESCRIPTION), export.description.as_bytes()]);
        }
    }

    fn meta_context(
        &mut self,
        reader: &mut Reader<'_>,
        replies: &mut Replies<'_>,
    ) -> Result<Outcome, Truncated> {
        let sets = replies.option == OptionCode::SET_META_CONTEXT;
        self.agreement.allocation &= !sets;
        if self.agreement.replies == ReplyForm::Simple {
            replies.refuse(OptionReply::ERR_INVALID, "structured replies have to be asked for first");
            return Ok(Outcome::Next);
        }
        let name = text(reader)?;
        let queries = reader.u32_be()?;
        let mut found = queries == 0 && !sets;
        for _ in 0..queries {
            let query = text(reader)?;
            found |= query == ALLOCATION || (!sets && query == b"base:");
        }
        if !name.is_empty() {
            replies.refuse(OptionReply::ERR_UNKNOWN, "there is only the default export, whose name is empty");
            return Ok(Outcome::Next);
        }
        if found {
            let id = if sets { ALLOCATION_ID } else { 0 };
            replies.put(OptionReply::META_CONTEXT, &[&id.to_be_bytes(), ALLOCATION]);
            self.agreement.allocation |= sets;
        }
        replies.put(OptionReply::ACK, &[]);
        Ok(Outcome::Next)
    }
}

/// A string after its length.
fn text<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Truncated> {
    let length = reader.u32_be()?;
    reader.take(index(u64::from(length)))
}

fn list(reader: &Reader<'_>, replies: &mut Replies<'_>) -> Outcome {
    if reader.is_empty() {
        // The default export's name is empty: a length of zero.
        replies.put(OptionReply::SERVER, &[&0_u32.to_be_bytes()]);
        replies.put(OptionReply::ACK, &[]);
    } else {
        replies.refuse(OptionReply::ERR_INVALID, "the option has no data");
    }
    Outcome::Next
}

/// What an option leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Next,
    Begin,
    Close(CloseReason),
}

impl Outcome {
    fn into_step(self, used: usize) -> Step {
        match self {
            Self::Next => Step::Used(used),
            Self::Begin => Step::Begin(used),
            Self::Close(reason) => Step::Close(reason),
        }
    }
}
