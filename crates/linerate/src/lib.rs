//! The library: open a volume URL, read, write, flush
