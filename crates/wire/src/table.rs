//! CRC32C and CRC-32 from tables, a byte at a time: for programs without the standard library, in which nobody asks the processor what it can do.

/// The polynomial 0x1EDC6F41 (RFC 7143 §13.1), bits in the order of the wire.
const CASTAGNOLI: u32 = 0x82F6_3B78;
/// The polynomial 0x04C11DB7 (IEEE 802.3 §3.2.9), bits in the order of the wire.
const IEEE: u32 = 0xEDB8_8320;
/// What the register holds at the beginning, and what is added at the end.
const ONES: u32 = u32::MAX;

/// What each byte does to the register, by polynomial.
static CASTAGNOLI_TABLE: [u32; 256] = table(CASTAGNOLI);
static IEEE_TABLE: [u32; 256] = table(IEEE);

const fn table(polynomial: u32) -> [u32; 256] {
    let (mut table, mut byte, mut start) = ([0; 256], 0, 0_u32);
    while byte < table.len() {
        let (mut register, mut bit) = (start, 0);
        while bit < 8 {
            register = if register & 1 == 1 { (register >> 1) ^ polynomial } else { register >> 1 };
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
    let mut sum = Sum::castagnoli();
    sum.update(bytes);
    sum.finish()
}

/// A running sum.
#[derive(Debug, Clone)]
pub(crate) struct Sum {
    register: u32,
    table: &'static [u32; 256],
}

impl Sum {
    pub(crate) fn castagnoli() -> Self {
        Self { register: ONES, table: &CASTAGNOLI_TABLE }
    }

    pub(crate) fn ieee() -> Self {
        Self { register: ONES, table: &IEEE_TABLE }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let [low, ..] = self.register.to_le_bytes();
            self.register = (self.register >> 8) ^ self.table[usize::from(low ^ byte)];
        }
    }

    pub(crate) fn finish(&self) -> u32 {
        self.register ^ ONES
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
        let mut sum = Sum::castagnoli();
        sum.update(head);
        sum.update(tail);
        assert_eq!(sum.finish(), crate::crc32c(&bytes));
    }

    #[test]
    fn the_table_of_crc_32_gives_what_the_processor_gives() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        for len in [0, 1, 7, 512, 4999, 5000] {
            let (mut sum, mut processor) = (Sum::ieee(), crate::Crc32::new());
            sum.update(&bytes[..len]);
            processor.update(&bytes[..len]);
            assert_eq!(sum.finish(), processor.finish(), "{len} bytes");
        }
    }
}
