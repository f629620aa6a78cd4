//! Parameter data under construction: pages, lists and descriptors with their lengths.

use alloc::vec::Vec;

/// Bytes that are added at the end.
#[derive(Debug, Default)]
pub(crate) struct Page(Vec<u8>);

impl Page {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.put(&value.to_be_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_be_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_be_bytes())
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn zeros(&mut self, count: usize) -> &mut Self {
        self.0.resize(self.0.len().saturating_add(count), 0);
        self
    }

    /// ASCII, padded with spaces or cut to `width` (SPC-4 §4.4.1).
    pub(crate) fn ascii(&mut self, text: &str, width: usize) -> &mut Self {
        let clean = text.bytes().map(|byte| if byte.is_ascii_graphic() { byte } else { b' ' });
        self.0.extend(clean.chain(core::iter::repeat(b' ')).take(width));
        self
    }

    /// Zero padding up to `length` bytes in all.
    pub(crate) fn pad_to(&mut self, length: usize) -> &mut Self {
        if self.0.len() < length {
            self.0.resize(length, 0);
        }
        self
    }

    /// Writes two bytes at `at`: the number of bytes after `at` + 2.
    pub(crate) fn length_u16(&mut self, at: usize) -> &mut Self {
        let after = self.0.len().saturating_sub(at.saturating_add(2));
        self.patch(at, &wire::bounded::<u16>(after).to_be_bytes())
    }

    /// Writes four bytes at `at`: the number of bytes after `at` + 4.
    pub(crate) fn length_u32(&mut self, at: usize) -> &mut Self {
        let after = self.0.len().saturating_sub(at.saturating_add(4));
        self.patch(at, &wire::bounded::<u32>(after).to_be_bytes())
    }

    /// Writes one byte at `at`: the number of bytes after `at` + 1.
    pub(crate) fn length_u8(&mut self, at: usize) -> &mut Self {
        let after = self.0.len().saturating_sub(at.saturating_add(1));
        self.patch(at, &[wire::bounded::<u8>(after)])
    }

    fn patch(&mut self, at: usize, bytes: &[u8]) -> &mut Self {
        if let Some(place) = self.0.get_mut(at..at.saturating_add(bytes.len())) {
            place.copy_from_slice(bytes);
        }
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.0)
    }
}
