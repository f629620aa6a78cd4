//! A message that has come: an iSER header, and the PDU behind it.

use buf::Buf;
use verbs::STag;

use super::header::IserHeader;
use crate::limits::{BHS, ISER_HEADER};
use crate::pdu::{BasicHeaderSegment, Bhs, padding};
use crate::violation::Violation;

/// A message in the buffer of its receive.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) buf: Buf,
    /// Bytes of it.
    pub(super) length: usize,
    /// The region of this side that it has invalidated.
    pub(super) invalidated: Option<STag>,
}

/// What a message holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) iser: IserHeader,
    pub(super) header: &'a Bhs,
    pub(super) ahs: &'a [u8],
    pub(super) data: &'a [u8],
}

impl Message {
    /// Takes the message apart. It is as long as its headers say; padding may follow the data or not, as peers differ.
    pub(super) fn parts(&self) -> Result<Parts<'_>, Violation> {
        let bytes = self.buf.get(..self.length).ok_or(Violation::IserHeader)?;
        let (iser, rest) = bytes.split_first_chunk::<ISER_HEADER>().ok_or(Violation::IserHeader)?;
        let (header, rest) = rest.split_first_chunk::<BHS>().ok_or(Violation::IserHeader)?;
        let view = BasicHeaderSegment::from_bytes(header);
        let (ahs, rest) = rest.split_at_checked(view.ahs_length()).ok_or(Violation::IserHeader)?;
        let (data, rest) = rest.split_at_checked(view.data_length() as usize).ok_or(Violation::IserHeader)?;
        let iser = IserHeader::from_bytes(iser);
        if !iser.is_control() || rest.len() > padding(data.len()) {
            return Err(Violation::IserHeader);
        }
        Ok(Parts { iser, header, ahs, data })
    }
}
