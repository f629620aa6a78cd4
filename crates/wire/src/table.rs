//! CRC32C from a table, a byte at a time: for programs without the standard library, in which nobody asks the processor what it can do.

/// The polynomial 0x1EDC6F41 (RFC 7143 §13.1), bits in the order of the wire.
const POLYNOMIAL: u32 = 0x82F6_3B78;
/// What the register holds at the beginning, and what is added at the end.
const ONES: u32 = u32::MAX;

/// What each byte does to the register.
const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let (mut table, mut byte, mut start) = ([0; 256], 0, 0_u32);
    while byte < table.len() {
        let (mut register, mut bit) = (start, 0);
        while bit < 8 {
            register = if register & 1 == 1 { (register >> 1) ^ POLYNOMIAL } else { register >> 1 };
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
        start += 1;
    }
    table
}

/// The CRC32C of `bytes`.
pub(crate) fn sum_of(bytes: &[u8]) -> u32 {
    let mut sum = Sum::new();
    sum.update(bytes);
    sum.finish()
}

/// A running CRC32C.
#[derive(Debug, Clone)]
pub(crate) struct Sum(u32);

impl Sum {
    pub(crate) fn new() -> Self {
        Self(ONES)
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let [low, ..] = self.0.to_le_bytes();
            self.0 = (self.0 >> 8) ^ TABLE[usize::from(low ^ byte)];
        }
    }

    pub(crate) fn finish(&self) -> u32 {
        self.0 ^ ONES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_gives_what_the_processor_gives() {
        assert_eq!(sum_of(b"123456789"), 0xe306_9283);
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        for len in [0, 1, 7, 512, 4999, 5000] {
            assert_eq!(sum_of(&bytes[..len]), crate::crc32c(&bytes[..len]), "{len} bytes");
        }
        let (head, tail) = bytes.split_at(777);
        let mut sum = Sum::new();
        sum.update(head);
        sum.update(tail);
        assert_eq!(sum.finish(), crate::crc32c(&bytes));
    }
}
