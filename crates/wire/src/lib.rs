//! Bounded readers and writers of wire formats, and CRC32C
