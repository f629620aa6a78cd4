//! The fuzzer: libFuzzer around the target that `LINERATE_FUZZ_TARGET` names.
#![no_main]

use std::sync::OnceLock;

static TARGET: OnceLock<fuzz::Target> = OnceLock::new();

#[expect(clippy::panic, reason = "a fuzzer without a target has nothing to do, and a panic is how it stops")]
fn chosen() -> fuzz::Target {
    let name = std::env::var("LINERATE_FUZZ_TARGET").unwrap_or_default();
    fuzz::target(&name).unwrap_or_else(|| panic!("LINERATE_FUZZ_TARGET={name:?} names no target"))
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    TARGET.get_or_init(chosen)(bytes);
});
