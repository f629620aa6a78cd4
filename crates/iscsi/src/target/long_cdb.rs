//! A CDB that goes on in an additional header segment (RFC 7143 §11.2.2.3).

use crate::limits::LONGEST_CDB;

/// The whole CDB.
pub(super) struct LongCdb {
    bytes: [u8; LONGEST_CDB],
    length: usize,
}

impl LongCdb {
    /// Joins the part in the header with the rest. What is longer than any CDB is cut off.
    #[cold]
    pub(super) fn new(first: &[u8], rest: &[u8]) -> Self {
        let mut bytes = [0; LONGEST_CDB];
        let mut writer = wire::Writer::new(&mut bytes);
        let rest = rest.get(..LONGEST_CDB.saturating_sub(first.len()).min(rest.len()));
        let written = writer.put(first).and_then(|()| writer.put(rest.unwrap_or_default()));
        let length = if written.is_ok() { writer.written() } else { 0 };
        Self { bytes, length }
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}
