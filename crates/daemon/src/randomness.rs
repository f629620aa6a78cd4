//! The operating system's randomness, for challenges and session handles.

use std::io::Write as _;
use std::sync::Arc;

use engine::EntropySource;
use protocol::Entropy;

/// Reads from the kernel's generator.
#[derive(Debug)]
struct System;

impl Entropy for System {
    fn fill(&mut self, bytes: &mut [u8]) {
        // Without randomness no challenge is safe: a process that cannot get any must not go on.
        if let Err(error) = getrandom::fill(bytes) {
            // The log's thread would not come to it any more.
            let _unheard =
                writeln!(std::io::stderr(), "linerate: the system gives no random numbers: {error}");
            std::process::abort();
        }
    }
}

/// A source for every connection.
pub(crate) fn source() -> EntropySource {
    Arc::new(|| Box::new(System))
}
